"""What operators set of pools: asked of a real store, judged by it, and listed as it stands."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from bus.port import Bus
from core.events.control import NodesClosed
from core.events.pools import PoolChanged
from core.events.region import NodesLost
from core.fact import Event
from core.messages.base import Message
from core.messages.pools import PoolAnswered, SetPool
from core.nouns.ids import WorkerName
from core.nouns.instant import Nanoseconds
from core.nouns.maintenance import ClosureKind
from core.nouns.pool import PoolSettings
from mizzen.actions.settings.pools import Done, Wish, set_pool, wish_of
from mizzen.actions.workloads import TRIES_MAX
from mizzen.connect.plane import submitter
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.fleet.pool_table import rows_of, rows_of_plane, set_text, table_of
from tests.builders import EU, EU_LOG
from tests.mizzen.half_plane import HalfPlane, awarded, half_plane
from tests.mizzen.nodes_scene import gang, nodes, region
from tests.runtime.aids import Place, virtual

SET = PoolChanged("training", PoolSettings("plain", reserve=1, limit=975), "olga")


async def plane_of(place: Place, *events: Event) -> HalfPlane:
    """Four nodes of the pool `training` in one zone, four in another, and what happened then."""
    return await half_plane(place, (nodes("w0", 0), nodes("w1", 4), *events), *awarded())


class Quicker:
    """A bus on which somebody else sets the same pool so many times, each just before the request is said."""

    def __init__(self, bus: Bus, times: int) -> None:
        self._bus = bus
        self.times = times

    async def ask(self, message: Message, timeout: Nanoseconds) -> Message:
        """As the bus does."""
        if isinstance(message, SetPool) and self.times:
            self.times -= 1
            other = PoolSettings(limit=900 + self.times)
            answer = await self._bus.ask(SetPool(EU, message.pool, other, message.revision), timeout)
            assert isinstance(answer, PoolAnswered), answer
        return await self._bus.ask(message, timeout)


# Setting.


@virtual
async def test_pool_is_set_and_the_rest_stays(place: Place) -> None:
    """What was not said is as it was, whoever said it."""
    plane = await plane_of(place, SET)
    done = await set_pool(plane.bus, "training", Wish(reserve=2))
    settings = PoolSettings("plain", reserve=2, limit=975)
    assert Done(EU, "training", settings) == done
    assert [SET, PoolChanged("training", settings, submitter())] == await plane.events(EU_LOG, PoolChanged)


@virtual
async def test_pool_is_set_again_after_another_operators_change(place: Place) -> None:
    """On the settings of the other operator; and not for ever."""
    plane = await plane_of(place)
    quicker: Any = Quicker(plane.bus, 1)  # Any: a bus that can only be asked
    assert (
        PoolSettings(reserve=2, limit=900) == (await set_pool(quicker, "training", Wish(reserve=2))).settings
    )
    quicker = Quicker(plane.bus, TRIES_MAX)
    with pytest.raises(CommandError, match="try again in a moment"):
        await set_pool(quicker, "training", Wish(reserve=1))


@virtual
async def test_pool_that_cannot_be_set_so(place: Place) -> None:
    """The store says everything that is wrong, and names what there is."""
    plane = await plane_of(place)
    for pool, wish, wanted in (
        ("trainning", Wish(reserve=1), "there is no trainning; there are training"),
        (
            "training",
            Wish("best"),
            "best: there is no set of this name either; there are best_fit_published, default, fgd, plain",
        ),
        ("training", Wish(reserve=5), "no zone of training has more than 4 nodes"),
    ):
        with capture_logs() as lines, pytest.raises(CommandError, match=wanted):
            await set_pool(plane.bus, pool, wish)
        (line,) = [line for line in lines if line["event"] == "request_refused"]
        assert wanted in str(line["problems"])
    with pytest.raises(CommandError, match="there is no region mars; there are eu"):
        await set_pool(plane.bus, "training", Wish(reserve=1), "mars")
    assert [] == await plane.events(EU_LOG, PoolChanged)


@pytest.mark.parametrize(
    ("words", "wish"),
    [
        (("plain", "", ""), Wish("plain")),
        (("best_fit:8,islands:2", "", ""), Wish("best_fit:8,islands:2")),
        (("", "4", "95%"), Wish(None, 4, 950)),
        (("", "0", "97.5%"), Wish(None, 0, 975)),
        (("", "", "100%"), Wish(limit=1_000)),
    ],
)
def test_options_are_understood(words: tuple[str, str, str], wish: Wish) -> None:
    """Nodes are counted, and shares are in percent."""
    assert wish == wish_of(*words)


@pytest.mark.parametrize(
    ("words", "problems"),
    [
        (("", "", ""), ["say what is to be set: --rules, --reserve or --limit"]),
        (("", "-1", ""), ["--reserve: -1 is no count of nodes; write --reserve 4"]),
        (("", "", "0%"), ["--limit: 0% is no share of a pool; write --limit 95%, and 100% for none"]),
        (("", "four", "95"), ["--reserve: four is no count of nodes", "--limit: 95 is no share"]),
        (("", "\u0664", "101%"), ["--reserve:", "--limit:"]),
    ],
)
def test_invalid_options_are_told_at_once(words: tuple[str, str, str], problems: list[str]) -> None:
    """Each with how to write it."""
    with pytest.raises(CommandError) as raised:
        wish_of(*words)
    told = raised.value.problems or (str(raised.value),)
    assert (MISUSED, len(problems)) == (raised.value.exit_code, len(told))
    assert [] == [wanted for wanted, text in zip(problems, told, strict=True) if not text.startswith(wanted)]


# Listing.


def test_table_has_a_line_for_each_zone() -> None:
    """What is lost or closed is in no figure that a setting is held to."""
    image = region(
        *gang("w-1", {0: 8, 1: 3}),
        *gang("w-2", {5: 2}),
        NodesClosed("d-1", ClosureKind.DRAIN, ((5, 5),), "fan"),
        SET,
    )
    assert [
        "REGION  POOL      ZONE    NODES  GPUS  USED  EMPTY  RULES  RESERVE  LIMIT",
        "eu      training  zone-0      4    32    11      2  plain        1  97.5%",
        "eu      training  zone-1      4    32     0      3  plain        1  97.5%",
    ] == table_of(rows_of(EU, image), None)


@virtual
async def test_pools_of_a_plane(place: Place) -> None:
    """Of every region that tells."""
    plane = await plane_of(
        place, nodes("w2", 8, pool="shared", rack=4), NodesLost(WorkerName("w1"), (4, 5, 6, 7))
    )
    rows, silent = await rows_of_plane(plane.bus, "")
    assert [] == silent
    assert [("shared", 4, 32_000), ("training", 4, 32_000), ("training", 0, 0)] == [
        (row.pool, row.empty, row.open) for row in rows
    ]
    with pytest.raises(CommandError, match="there is no region mars"):
        await rows_of_plane(plane.bus, "mars")


def test_settings_are_told_in_a_sentence() -> None:
    """What is not kept is not spoken of."""
    assert "training of eu is searched by plain" == set_text("eu", "training", PoolSettings("plain"))
    own = "best_fit:8,islands:2"
    assert f"training of eu is searched by {own}" == set_text("eu", "training", PoolSettings(own))
    assert "training of eu is searched by default" == set_text("eu", "training", PoolSettings("belt:8"))
    assert (
        "training of eu is searched by plain, keeps 1 empty node in each zone, takes work up to 97.5% of the GPUs"
        == set_text("eu", "training", SET.settings)
    )
