"""What operators set of harvested capacity, and what they see of it and of its cost."""

import pytest
from msgspec.structs import replace

from core.events.functions import FunctionsCounted
from core.events.harvest import HarvestOffered
from core.events.pools import PoolChanged
from core.events.region import AttemptEnded
from core.events.tenants import TenantSet
from core.images import RegionImage
from core.messages.harvest import HarvestShown, ShownHarvest
from core.nouns.function import FunctionCount
from core.nouns.harvest import HarvestPart, HarvestSettings, HarvestUse
from core.nouns.ids import GLOBAL_LOG, FunctionId, TenantName
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.pool import PoolSettings
from core.nouns.quantities import NOTHING, Amount
from core.nouns.tenant import TenantSettings
from core.nouns.workload import EndCause, Serves
from core.rules.harvest.cost import CapacityCost, HarvestedCalls, costs_of, harvested_calls
from mizzen.actions.quotas import Wish as QuotaWish
from mizzen.actions.quotas import set_harvest, set_quota
from mizzen.actions.settings.harvest import HarvestWish, tenant_use_of, use_text
from mizzen.actions.settings.pools import Wish, set_pool, wish_of
from mizzen.connect.plane import submitter
from mizzen.terminal.harvest_options import HarvestOptions
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.fleet.harvest_table import RegionCost, RegionHarvest, cost_lines, lines_of
from mizzen.views.phrases.pool_text import settings_text
from tests.builders import (
    EU,
    EU_LOG,
    START,
    a_claim,
    a_fact,
    a_job,
    a_region,
    a_spread,
    attempt,
    granted,
    joined,
)
from tests.components.support.harvest import GRACE, gpus
from tests.mizzen.half_plane import half_plane
from tests.mizzen.nodes_scene import nodes
from tests.runtime.aids import Place, virtual

ML = TenantName("ml")


# Settings of pools.


@pytest.mark.parametrize(
    ("options", "wish"),
    [
        (HarvestOptions(harvest="on"), Wish(harvest=HarvestWish(is_on=True))),
        (HarvestOptions(harvest="off"), Wish(harvest=HarvestWish(is_on=False))),
        (
            HarvestOptions(grace="2.5s", after="1m"),
            Wish(harvest=HarvestWish(grace=seconds(2.5), after=seconds(60))),
        ),
        (
            HarvestOptions(keep="8", harvest_reserve="yes"),
            Wish(harvest=HarvestWish(keep=8, takes_reserve=True)),
        ),
        (
            HarvestOptions(harvest_price="0.5", price="2"),
            Wish(harvest=HarvestWish(price=500_000), price=2_000_000),
        ),
        (HarvestOptions(price="0"), Wish(price=0)),
    ],
)
def test_options_are_understood(options: HarvestOptions, wish: Wish) -> None:
    """Each says what it says, and nothing of the others."""
    assert wish == wish_of("", "", "", options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (HarvestOptions(harvest="yes"), "--harvest: yes is neither on nor off"),
        (HarvestOptions(grace="0s"), "--grace: it must be longer than zero"),
        (HarvestOptions(keep="-1"), "--keep: -1 is no count of GPUs"),
        (HarvestOptions(after="soon"), "--after: soon is no span"),
        (HarvestOptions(harvest_reserve="on"), "--harvest-reserve: on is neither yes nor no"),
        (
            HarvestOptions(harvest_price="-0.5"),
            "--harvest-price: -0.5 is no price; write a number that is not below 0",
        ),
        (HarvestOptions(price="cheap"), "--price: cheap is no price"),
    ],
)
def test_invalid_options_are_told(options: HarvestOptions, told: str) -> None:
    """One sentence each."""
    with pytest.raises(CommandError) as raised:
        wish_of("", "", "", options)
    assert (MISUSED, told) == (raised.value.exit_code, str(raised.value)[: len(told)])


@virtual
async def test_pool_is_harvested_as_an_operator_says(place: Place) -> None:
    """What is not said stays as it is, at first as the pool has it by default; the store refuses what cannot be."""
    plane = await half_plane(place, (nodes("w0", 0),))
    await set_pool(plane.bus, "training", Wish(harvest=HarvestWish(is_on=True, keep=8)))
    await set_pool(plane.bus, "training", Wish(harvest=HarvestWish(grace=seconds(5)), price=2_000_000))
    settings = HarvestSettings(is_on=True, grace=seconds(5), keep=8)
    wanted = PoolSettings(harvest=settings, price=2_000_000)
    assert PoolChanged("training", wanted, submitter()) == (await plane.events(EU_LOG, PoolChanged))[-1]
    for pool, wish, told in (
        (
            "training",
            HarvestWish(grace=seconds(46)),
            "harvest.grace: it must be more than 0, and 45 s at most",
        ),
        ("nowhere", HarvestWish(is_on=True), "pool: there is no nowhere"),
    ):
        with pytest.raises(CommandError) as raised:
            await set_pool(plane.bus, pool, Wish(harvest=wish))
        assert told in "; ".join([str(raised.value), *raised.value.problems])


def test_settings_are_told_in_a_sentence() -> None:
    """As an operator would say them."""
    assert "is searched by default, is not harvested" == settings_text(
        PoolSettings(harvest=HarvestSettings())
    )
    harvest = HarvestSettings(is_on=True, grace=seconds(2.5), keep=8, takes_reserve=True, price=500_000)
    told = "is searched by default, costs 2 a GPU-hour, is harvested with its reserve after 10s with a grace of 2.5s, less 8 GPUs in each zone, at 0.5 a GPU-hour"
    assert told == settings_text(PoolSettings(harvest=harvest, price=2_000_000))


# Settings of tenants.


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("all", HarvestUse()),
        ("none", HarvestUse(is_on=False)),
        ("bounded:0.001", HarvestUse(risk_max=1_000)),
        ("bounded:0", HarvestUse(risk_max=0)),
    ],
)
def test_use_of_a_tenant_is_understood(text: str, use: HarvestUse) -> None:
    """And told as it is written."""
    assert (use, text) == (tenant_use_of(text), use_text(use))


@pytest.mark.parametrize(
    "text", ["", "some", "bounded", "bounded:", "bounded:1.5", "bounded:-0.1", "bounded:x", "0.5"]
)
def test_invalid_use_of_a_tenant_is_told(text: str) -> None:
    """In one sentence."""
    with pytest.raises(CommandError, match="is neither none nor all, nor bounded:P with a P from 0 to 1"):
        tenant_use_of(text)


@virtual
async def test_tenant_takes_the_risk_that_an_operator_says(place: Place) -> None:
    """H-9: a fact with its other settings; a tenant that nobody made is not made by this."""
    plane = await half_plane(place)
    with pytest.raises(CommandError, match="there is no tenant ml"):
        await set_harvest(plane.bus, ML, HarvestUse(is_on=False))
    await set_quota(plane.bus, ML, QuotaWish(level=4))
    row = await set_harvest(plane.bus, ML, HarvestUse(risk_max=1_000))
    settings = TenantSettings(4, harvest=HarvestUse(risk_max=1_000))
    assert (settings, TenantSet(ML, 2, settings, submitter())) == (
        row.settings,
        (await plane.events(GLOBAL_LOG, TenantSet))[-1],
    )


# Tables.

SHOWN = ShownHarvest(
    "training",
    is_on=True,
    nodes=3,
    offered=Amount(24_000, 192_000, 1 << 40),
    used=Amount(2_000, 8_000, 1 << 30),
    recalled=NOTHING,
    recalls=6,
    lost=1,
    lost_span=seconds(9),
    node_span=12 * 3_600_000,
    reclaim_p50=seconds(0.25),
    reclaim_p99=seconds(28),
    grace=GRACE,
    unconfirmed=(4, 5, 9),
)


def test_harvest_is_listed_by_pool() -> None:
    """With the nodes that did not give back in time."""
    head, row, told = lines_of([RegionHarvest(EU, HarvestShown((SHOWN,), 125_000, 1))], None)
    assert ["REGION", "POOL", "HARVEST", "NODES", "OFFERED"] == head.split()[:5]
    assert ["eu", "training", "on", "3"] == row.split()[:4]
    assert ["-", "0.25s", "28s", "0.5", "0.125"] == row.split()[-5:]
    assert told.startswith(
        "eu/training: nodes 4-5,9 did not give back in time; nothing more is offered there"
    )
    calls = HarvestedCalls(19_999, 1, seconds(95))
    (_, _, fared, _) = lines_of([RegionHarvest(EU, HarvestShown((SHOWN,), 125_000, 1), calls)], None)
    assert (
        "eu: 19999 calls were done on harvested capacity in the last day, 99.995% of runs; "
        "runs ended by recalls: 1; run time lost: 1m35s"
    ) == fared
    assert ["no pool is harvested"] == lines_of([RegionHarvest(EU, HarvestShown((), 0, 0))], None)


def test_costs_are_listed_by_region() -> None:
    """H-11: nothing is told of capacity on which nothing was done."""
    rows = [
        RegionCost(EU, False, 2_000_000, 7_200 * SECOND, 3_600 * SECOND, 0, 0.00111),
        RegionCost(EU, True, 500_000, 0, 0, 0, None),
    ]
    _, held, harvested = cost_lines(rows, None)
    assert ["eu", "held", "2", "2h", "1h", "0s", "0.00111"] == held.split()
    assert ["eu", "harvested", "0.5", "0s", "0s", "0s", "-"] == harvested.split()


# Cost.


ID = FunctionId("ml/score/0123abcd")
TEN = FunctionCount(ID, done=10, ran=seconds(1_800))


def a_day(count: FunctionCount = TEN) -> RegionImage:
    """A service holds two GPUs for functions, and a node is harvested; calls were counted."""
    settings = PoolSettings(harvest=HarvestSettings(is_on=True, price=500_000), price=2_000_000)
    job = replace(a_job(2), serves=Serves.ALL)
    claim = a_claim("w-1", jobs=(job,), spreads=(a_spread({0: 2}),))
    return a_region(
        joined(),
        PoolChanged("training", settings),
        granted(claim),
        HarvestOffered(1, (HarvestPart(((1, 1),), gpus(8), pool="training"),), GRACE),
        FunctionsCounted("r0", "life", 1, seconds(60), (count,)),
    )


def test_held_capacity_costs_while_it_is_held() -> None:
    """H-11: whether calls run there or not."""
    held, harvested = costs_of(a_day(), Instant(START + 3 * SECOND + seconds(3_600)))
    assert CapacityCost(False, 2_000_000, seconds(7_200), seconds(1_800), seconds(0)) == held
    assert 2 / 3_600 * 4 == pytest.approx(held.per_useful_second)
    assert (seconds(0), None) == (harvested.useful, harvested.per_useful_second)


def test_capacity_is_held_for_a_day_at_most() -> None:
    """As what is counted of calls is of a day."""
    held, _ = costs_of(a_day(), Instant(START + 1_000 * seconds(86_400)))
    assert 2 * seconds(86_400) == held.paid


def test_losses_make_a_harvested_second_dearer() -> None:
    """H-11: they are paid for, and of no use."""
    cost = CapacityCost(True, 500_000, seconds(150), seconds(100), seconds(50))
    assert 0.5 / 3_600 * 1.5 == pytest.approx(cost.per_useful_second)


def test_harvested_calls_cost_what_ran_and_what_was_lost() -> None:
    """H-11: by hand. Eight calls were done on held capacity in 800 s, two failed in 200 s there, and four were done on harvested capacity in
    400 s; what recalls have ended, 100 s, is no part of what ran. The node is harvested still, and was never recalled.
    """
    count = FunctionCount(
        ID,
        done=12,
        failed=2,
        ran=seconds(1_400),
        harvested=4,
        harvested_span=seconds(400),
        retried=3,
        lost_span=seconds(100),
    )
    held, harvested = costs_of(a_day(count), Instant(START + 3 * SECOND + seconds(3_600)))
    assert CapacityCost(False, 2_000_000, seconds(7_200), seconds(800), seconds(0)) == held
    assert 2 / 3_600 * 9 == pytest.approx(held.per_useful_second)
    assert HarvestedCalls(4, 3, seconds(100)) == harvested_calls(a_day(count), Instant(START))
    assert CapacityCost(True, 500_000, seconds(500), seconds(400), seconds(100)) == harvested
    assert 0.5 / 3_600 * 1.25 == pytest.approx(harvested.per_useful_second)


def test_held_capacity_is_not_credited_with_calls_from_before() -> None:
    """H-11: a service that began again two hours after the counts has paid for none of these calls; what was harvested counts for a day."""
    count = FunctionCount(ID, done=2, ran=seconds(200), harvested=1, harvested_span=seconds(100))
    image = a_day(count)
    held_again = granted(
        a_claim("w-2", jobs=(replace(a_job(1), serves=Serves.ALL),), spreads=(a_spread({2: 1}),))
    )
    began = START + seconds(2 * 3_600)
    for place, event in enumerate((AttemptEnded(*attempt("w-1"), EndCause.COMPLETED), held_again)):
        image.fold(a_fact(event, 6 + place, at=Instant(began)))
    held, harvested = costs_of(image, Instant(began + seconds(3_600)))
    assert (seconds(3_600), 0) == (held.paid, held.useful)
    assert seconds(100) == harvested.useful
    _, later = costs_of(image, Instant(began + seconds(25 * 3_600)))
    assert (0, 500_000) == (later.useful, later.price)
