"""What operators set of pools, needs too: asked of a real store, judged by it, and listed as it stands."""

from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from bus.port import Bus
from core.events.control import MaintenanceMoved, NodesClosed
from core.events.pools import PoolChanged
from core.events.region import NodesLost
from core.fact import Event
from core.messages.base import Message
from core.messages.pools import PoolAnswered, SetPool
from core.nouns.ids import WorkerName
from core.nouns.instant import Nanoseconds
from core.nouns.maintenance import ClosureKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.pool import PoolSettings, Survives
from core.nouns.pooling import PoolingPolicy
from mizzen.actions.settings.pools import Done, Wish, need_lines, need_of, set_pool, wish_of
from mizzen.actions.workloads import TRIES_MAX
from mizzen.connect.plane import submitter
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.fleet.pool_needs import NeedRow
from mizzen.views.fleet.pool_table import rows_of, rows_of_plane, set_text, table_of
from mizzen.views.phrases.pool_text import needs_text
from tests.builders import EU, EU_LOG
from tests.mizzen.half_plane import HalfPlane, awarded, half_plane
from tests.mizzen.nodes_scene import gang, nodes, planned, region
from tests.mizzen.pools_scene import SERVICE_NEEDS, recorded, region_of, running
from tests.mizzen.pools_scene import plane_of as plane_of_domains
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
        with capture_logs() as lines, pytest.raises(CommandError) as raised:
            await set_pool(plane.bus, pool, wish)
        assert wanted in "; ".join([str(raised.value), *raised.value.problems])
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
        (("", "", ""), ["say what is to be set: --rules, --reserve, --limit, --harvest or another option"]),
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


# Needs.


@pytest.mark.parametrize(
    ("words", "survives", "wish"),
    [
        (["H100=400"], "", Wish(needs=(("H100", 400),))),
        (["H100=0", "A100 (real)=16"], "none", Wish(needs=(("H100", 0), ("A100 (real)", 16)), survives=Survives.NOTHING)),
        (["none"], "", Wish(needs=())),
        ([], "power_domain", Wish(survives=Survives.POWER_DOMAIN)),
    ],
)  # fmt: skip
def test_needs_are_understood(words: list[str], survives: str, wish: Wish) -> None:
    """As types and counts; no need is no wish, and `none` wishes for no need."""
    assert wish == need_of(words, survives)


@pytest.mark.parametrize(
    ("words", "survives", "problems"),
    [
        ([], "", ["say what the pool needs, as in H100=400, or none; or say --survives"]),
        (["H100"], "", ["needs: H100 is no need; write a GPU type and a count, as in H100=400"]),
        (["H100=12345678901"], "", ["needs: H100=12345678901 is no need"]),
        (["=4", "H100=many", "H100=\u0664"], "", ["needs: =4 is no need", "needs: H100=many", "needs: H100=\u0664"]),
        (["H100=4", "none"], "", ["needs: none takes all needs away, and stands alone"]),
        (["H100=4", "H100=5"], "", ["needs: H100 is named 2 times"]),
        (["H100=4"], "zone", ["--survives: zone is neither power_domain nor none"]),
        (["H100"], "zone", ["needs: H100 is no need", "--survives: zone"]),
    ],
)  # fmt: skip
def test_invalid_needs_are_told_at_once(words: list[str], survives: str, problems: list[str]) -> None:
    """Each with its field, before a plane is asked."""
    with pytest.raises(CommandError) as raised:
        need_of(words, survives)
    told = raised.value.problems or (str(raised.value),)
    assert (MISUSED, len(problems)) == (raised.value.exit_code, len(told))
    assert [] == [wanted for wanted, text in zip(problems, told, strict=True) if not text.startswith(wanted)]


@virtual
async def test_need_is_set_and_types_that_are_not_named_stay(place: Place) -> None:
    """A count of 0 takes a type out, and `none` all types; other settings of the pool stay too. A pool needs no node to need some."""
    plane = await plane_of_domains(place, running("w3", 12, power="power-0"), running("w4", 16, power="power-1"), SET)  # fmt: skip
    done = await set_pool(plane.bus, "training", need_of(["H100 (emulated)=16"], ""))
    assert (("H100", 16),) == done.settings.needs
    assert (975, True, False) == (done.settings.limit, done.has_needs, done.was_so)
    done = await set_pool(plane.bus, "training", need_of(["H100 (real)=8"], "none"))
    both = (("H100", 16), ("H100 (real)", 8))
    assert (both, Survives.NOTHING) == (done.settings.needs, done.settings.survives)
    assert (await set_pool(plane.bus, "training", need_of(["H100 (real)=8"], ""))).was_so
    done = await set_pool(plane.bus, "training", need_of(["H100 (emulated)=0"], ""))
    assert (("H100 (real)", 8),) == done.settings.needs
    done = await set_pool(plane.bus, "training", need_of(["none"], ""))
    assert ((), 975, False) == (done.settings.needs, done.settings.limit, done.has_needs)
    assert (("H100", 8),) == (
        await set_pool(plane.bus, "harvest", need_of(["H100 (emulated)=8"], ""))
    ).settings.needs
    assert 6 == len(await recorded(plane))


@virtual
async def test_type_is_the_sort_that_the_region_has(place: Place) -> None:
    """Nodes that run programs where it has no emulated ones of the type."""
    real = (running("w0", 0, power="power-0"), running("w1", 4, power="power-1"))
    plane = await half_plane(place, real, *awarded())
    for words in (["H100=8"], ["H100 (real)=8"]):
        done = await set_pool(plane.bus, "training", need_of(words, ""))
        assert (("H100 (real)", 8),) == done.settings.needs


@virtual
async def test_type_of_two_sorts_is_asked_back(place: Place) -> None:
    """With how to write either; and nothing is recorded."""
    plane = await plane_of_domains(place, running("w3", 12, power="power-0"))
    with pytest.raises(CommandError) as raised:
        await set_pool(plane.bus, "training", need_of(["H100=8"], ""))
    assert (
        MISUSED,
        "needs: the region has H100 that run programs and emulated ones; write 'H100 (real)=8' or 'H100 (emulated)=8'",
    ) == (raised.value.exit_code, str(raised.value))
    with pytest.raises(CommandError) as raised:
        await set_pool(plane.bus, "training", need_of(["H100=8", "B200=0"], ""))
    assert "needs: the region has no B200; it has H100, H100 (real)" == raised.value.problems[1]
    assert [] == await recorded(plane)


REFUSED: list[tuple[str, list[str], str]] = [
    ("training", ["H100=97"], "needs: the region has 96 H100; 97 are too many"),
    ("training", ["A100=8"], "needs: the region has no A100; it has H100"),
    ("training", ["H100=-8"], "needs: -8 GPUs cannot be needed of H100; it is 1 or more"),
    ("belt", ["H100=8"], "pool: there is no belt; there are service, training"),
]


@virtual
async def test_need_that_cannot_be(place: Place) -> None:
    """The store refuses each with its one reason, and nothing is recorded."""
    plane = await plane_of_domains(place)
    for pool, words, wanted in REFUSED:
        with pytest.raises(CommandError) as raised:
            await set_pool(plane.bus, pool, need_of(words, ""))
        assert (wanted, ()) == (str(raised.value), raised.value.problems)
    with pytest.raises(CommandError, match="2 things are wrong; nothing was set") as raised:
        await set_pool(plane.bus, "training", need_of(["H100=97", "A100=8"], ""))
    assert [REFUSED[1][2], REFUSED[0][2]] == list(raised.value.problems)
    assert [] == await recorded(plane)


@virtual
async def test_need_in_one_domain_alone(place: Place) -> None:
    """It survives no loss; and it is recorded once that is what the operator says."""
    plane = await half_plane(place, (nodes("w0", 0, power="power-0"),), *awarded())
    alone = "survives: all H100 of the region are in power domain power-0, so nothing survives its loss; say that the pool survives none"
    with pytest.raises(CommandError) as raised:
        await set_pool(plane.bus, "training", need_of(["H100=8"], ""))
    assert alone == str(raised.value)
    assert [] == await recorded(plane)
    done = await set_pool(plane.bus, "training", need_of(["H100=8"], "none"))
    assert Survives.NOTHING == done.settings.survives


def test_need_is_told_with_what_happens_next() -> None:
    """Which is what the policy and the other needs make of it."""
    settings = PoolSettings(needs=(("A100", 16), ("H100", 400)))
    done = Done(EU, "service", settings, has_needs=True)
    told = "service of eu needs 16 A100 and 400 H100, also after the loss of any power domain"
    assert [
        told,
        "a plan comes within a minute and moves nodes by itself; `mizzen pools plan --region eu` shows it",
    ] == need_lines(done, is_by_hand=False)
    by_hand = Done(EU, "service", settings, PoolingPolicy(is_automatic=False), has_needs=True)
    assert [
        told,
        "plans of eu are applied by hand from now on",
        "a plan comes within a minute; `mizzen pools plan --region eu` shows it, and `mizzen pools apply --region eu` moves the nodes",
    ] == need_lines(by_hand, is_by_hand=True)
    again = Done(EU, "service", settings, has_needs=True, was_so=True)
    assert [
        told,
        "it needed that before; `mizzen pools plan --region eu` shows the newest plan",
    ] == need_lines(again, is_by_hand=False)
    assert [
        "service of eu needs nothing",
        "no pool of eu has needs any more, so no node moves",
    ] == need_lines(Done(EU, "service", PoolSettings()), is_by_hand=False)
    some = PoolSettings(needs=(("A100", 1), ("B200", 2), ("H100", 3)), survives=Survives.NOTHING)
    assert "needs 1 A100, 2 B200 and 3 H100, but not after the loss of a power domain" == needs_text(some)


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


def test_table_of_needs_stands_below() -> None:
    """With a row of the first table for a pool that has no node yet; nodes that take no work count for no pool."""
    image = region_of(
        SERVICE_NEEDS,
        PoolChanged("harvest", PoolSettings(needs=(("H100", 24),), survives=Survives.NOTHING)),
        PoolChanged("training", PoolSettings(needs=(("H100", 48),))),
        NodesLost(WorkerName("w2"), (8,)),
        NodesClosed("d-1", ClosureKind.DRAIN, ((9, 9),), "fan"),
        NodesClosed("d-2", ClosureKind.DRAIN, ((4, 5),), "pool service needs them", pool="service"),
    )
    rows = rows_of(EU, image)
    assert [
        "REGION  POOL      ZONE    NODES  GPUS  USED  EMPTY  RULES    RESERVE  LIMIT",
        "eu      harvest   -           0     0     0      0  default        0   100%",
        "eu      service   zone-2      4    32     0      2  default        0   100%",
        "eu      training  zone-0      4    32     0      4  default        0   100%",
        "eu      training  zone-1      4    32     0      2  default        0   100%",
        "",
        "REGION  POOL      TYPE  NEEDS  HAS  LEFT  WAITING",
        "eu      harvest   H100     24    0     -        0",
        "eu      service   H100     16   16     0        2",
        "eu      training  H100     48   64    32        0",
    ] == table_of(rows, None)
    need = NeedRow(EU, "training", "H100", 48, Survives.POWER_DOMAIN, 64, 32, 0, False)
    assert [(need,)] * 2 == [row.needs for row in rows if row.pool == "training"]


def test_pool_that_planned_work_names_counts_nothing() -> None:
    """None of its nodes moves meanwhile, so no figure is shown for what it has."""
    work = planned(4, 5, 6, 7)
    begun = MaintenanceMoved(work.maintenance, MaintenancePhase.NOTICED)
    image = region_of(SERVICE_NEEDS, replace(work, scope=Scope(ScopeKind.POOL, ("service",))), begun)
    assert "eu      service  H100     16    -     -        0" == table_of(rows_of(EU, image), None)[-1]


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
    needs = PoolSettings("plain", needs=(("H100", 400),))
    assert (
        "service of eu is searched by plain, needs 400 H100, also after the loss of any power domain"
        == set_text("eu", "service", needs)
    )
