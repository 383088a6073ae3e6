"""`mizzen prices`: what room is worth, to whom, and how old that is."""

import pytest

from core.events.pools import PoolChanged
from core.events.prices import PricesSet
from core.fact import Event
from core.images import RegionImage
from core.nouns.ids import RegionName
from core.nouns.instant import SECOND
from core.nouns.mix import Mix, TypicalShape
from core.nouns.pool import PoolSettings
from core.nouns.prices import Prices
from core.nouns.solved_from import SolvedFrom
from mizzen.terminal.output import CommandError
from mizzen.views.fleet.price_table import (
    RegionPrices,
    ShapePrice,
    lines_of,
    prices_of,
    prices_of_plane,
)
from tests.builders import EU, GIB, START, a_job, a_region, a_spec, joined, submitted
from tests.mizzen.half_plane import half_plane
from tests.runtime.aids import Place, virtual

HALF = TypicalShape(0, 500, 2_000, 32 * GIB, (), 600_000)
WHOLE = TypicalShape(8, 0, 64_000, 512 * GIB, ("A100", "H100"), 400_000)
RENTS = ((400_000, 0), (200_000, 3_000_000), (0, 0))
SET = PricesSet(
    Prices(3, Mix((HALF, WHOLE)), RENTS, (("A100", 0), ("H100", 250_000)), 1_100),
    SolvedFrom(1_150, 7, 2, 32_000),
    "planner",
)


def region(*events: Event) -> RegionImage:
    """One with four nodes, in which this happened."""
    return a_region(joined(), *events)


def test_prices_are_told_whole() -> None:
    """Each shape with its share, what it pays and its rent, which is the mean of all levels."""
    told = prices_of(EU, region(SET), 1_200)
    shapes = (ShapePrice(HALF, 300_000, 200_000), ShapePrice(WHOLE, 7_000_000, 1_000_000))
    scarcity = (("A100", 0), ("H100", 250_000))
    pools = ("training",)
    assert (
        RegionPrices(EU, 3, told.set_at, "planner", pools, 1_150, 1_200, 2_000, shapes, scarcity) == told
    ), told


def test_prices_are_shown() -> None:
    """In a sentence and a table."""
    told = prices_of(EU, region(SET), 1_237)
    assert [
        "eu: prices 3, set 1:15 ago by planner, solved from 1,150 tasks; 87 more have come, and 850 make them old",
        "  searched by prices: training",
        "  SHARE  GPUS  CPUS  GIB  NODES OF    PAYS   RENT",
        "  60.0%   0.5     2   32  any type   0.300  0.200",
        "  40.0%     8    64  512  A100|H100  7.000  1.000",
        "  wanted by tasks that can have no other type: H100 25%",
    ] == lines_of([told], told.set_at + 75 * SECOND, None)


def test_region_without_prices_tells_the_reason() -> None:
    """It waits for tasks, or for a planner that solves."""
    few, many = (prices_of(EU, region(), count) for count in (40, 400))
    assert "eu: no prices are solved yet; 40 of the 100 tasks that it takes have been asked for" in lines_of(
        [few], START, None
    )
    (line, *_) = lines_of([many], START, None)
    assert line.startswith(
        "eu: no prices are solved yet; 400 tasks have been asked for, but none that could run"
    )


@pytest.mark.parametrize(
    ("rules", "wanted"), [("", True), ("default", True), ("plain", False), ("best_fit:8", False)]
)
def test_pools_that_go_by_prices_are_named(rules: str, wanted: bool) -> None:
    """And no others."""
    told = prices_of(EU, region(PoolChanged("training", PoolSettings(rules))), 0)
    assert (("training",) if wanted else ()) == told.pools
    assert wanted == ("  no pool is searched by prices" not in lines_of([told], START, None))


@virtual
async def test_plane_is_asked(place: Place) -> None:
    """Each region's log for its prices, and the queue's for how many tasks have come."""
    spec = a_spec(a_job(30))
    plane = await half_plane(place, (joined(), SET), submitted(2, spec), spec=spec)
    (told,), silent = await prices_of_plane(plane.bus, "eu")
    assert (3, 60, []) == (told.revision, told.arrived_now, silent)
    with pytest.raises(CommandError, match="there is no region mars"):
        await prices_of_plane(plane.bus, RegionName("mars"))
