"""What operators ask of nodes: asked of a real store, judged by it, and told as it stands."""

from collections.abc import Sequence

import pytest

from bus.port import Bus
from core.events.control import MaintenanceMoved, MaintenancePlanned, NodesClosed, NodesOpened
from core.events.region import NodesLost
from core.fact import Event
from core.messages.base import Message
from core.messages.nodes import (
    DrainNodes,
    NodesAnswered,
    PlanMaintenance,
    ReleaseNodes,
    UndrainNodes,
)
from core.nouns.ids import WorkerName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.placement import runs_of
from mizzen.actions.node_progress import follow
from mizzen.actions.node_text import drained_text, planned_text, released_text, undrained_text
from mizzen.actions.nodes import (
    Done,
    Window,
    cancel,
    drain,
    is_name,
    plan,
    region_with,
    release,
    set_deadline,
    undrain,
)
from mizzen.actions.workloads import TRIES_MAX
from mizzen.connect.plane import RequestRefused, submitter
from mizzen.terminal.node_options import ANYWHERE, PlaceOptions
from mizzen.terminal.output import CommandError
from tests.builders import EU, EU_LOG
from tests.mizzen.half_plane import HalfPlane, awarded, half_plane
from tests.mizzen.nodes_scene import HOUR, MINUTE, W1, drained, nodes, noticed, opens, planned, service
from tests.runtime.aids import Place, virtual

EIGHT = (nodes("w0", 0), nodes("w1", 4))
RACK_0 = PlaceOptions(rack="0")
IN_AN_HOUR = Window(HOUR, 90 * MINUTE, 30 * MINUTE)
QUARANTINED = NodesClosed("quarantine", ClosureKind.QUARANTINE, runs_of([1]), "ill")


async def plane_of(place: Place, *events: Event) -> HalfPlane:
    """Eight nodes in four racks, and what happened then."""
    return await half_plane(place, (*EIGHT, *events), *awarded())


async def drained_on(
    bus: Bus,
    words: Sequence[str] = (),
    place: PlaceOptions = ANYWHERE,
    deadline: int = 0,
    *,
    is_sure: bool = False,
    problems: Sequence[str] = (),
) -> Done:
    """For a new PDU."""
    return await drain(bus, words, place, "new PDU", deadline, is_sure=is_sure, problems=problems)


class Quicker:
    """A bus on which somebody else asks for the same so many times, each just before the request is said."""

    def __init__(self, bus: Bus, times: int = 1) -> None:
        self._bus = bus
        self.times = times
        self.asked: list[Message] = []
        self._others = 0

    async def ask(self, message: Message, timeout: Nanoseconds) -> Message:
        """As the bus does."""
        if isinstance(message, DrainNodes | UndrainNodes | PlanMaintenance | ReleaseNodes):
            self.asked.append(message)
            if self.times > 0:
                self.times -= 1
                other = await self._bus.ask(self._other(message), timeout)
                assert isinstance(other, NodesAnswered), other
        return await self._bus.ask(message, timeout)

    def _other(self, message: DrainNodes | UndrainNodes | PlanMaintenance | ReleaseNodes) -> Message:
        scope = Scope(ScopeKind.NODE, ("7",))
        if isinstance(message, PlanMaintenance):
            return PlanMaintenance(
                EU, scope, MaintenanceKind.REBOOT, HOUR, MINUTE, MINUTE, message.planned, "other"
            )
        if isinstance(message, ReleaseNodes):
            self._others += 1
            return DrainNodes(EU, message.scope, "other", self._others - 1)
        return DrainNodes(EU, scope, "other", message.revision)


class Busy(Quicker):
    """The same until a time has come."""

    def __init__(self, bus: Bus, place: Place, span: float) -> None:
        super().__init__(bus)
        self._loop, self._until = place.loop, place.loop.time() + span

    async def ask(self, message: Message, timeout: Nanoseconds) -> Message:
        """As the bus does."""
        self.times = int(self._loop.time() < self._until)
        return await super().ask(message, timeout)


async def refusal(work: object) -> str:
    """What somebody is told who is not heard."""
    with pytest.raises(CommandError) as raised:
        await work  # type: ignore[misc]  # whatever it would come to
    return "; ".join([*raised.value.problems, str(raised.value)])


# Drains.


@virtual
async def test_drain_is_recorded_with_all_that_was_said(place: Place) -> None:
    """The nodes of the rack, why, by whom, and after how long it is no longer up to its controllers."""
    plane = await plane_of(place, *service("w-1", {0: 2, 1: 1, 5: 1}))
    done = await drained_on(plane.bus, place=RACK_0, deadline=10 * MINUTE)
    (closed,) = await plane.events(EU_LOG, NodesClosed)
    assert ("d-1", ClosureKind.DRAIN, ((0, 1),), "new PDU", 10 * MINUTE, submitter()) == (
        closed.source,
        closed.kind,
        closed.nodes,
        closed.reason,
        closed.deadline,
        closed.by,
    )
    assert Done(EU, "d-1", ((0, 1),), 2, 3, (W1,)) == done
    assert (
        "d-1 drains eu-[0-1] (2 nodes): 3 tasks of 1 workload will leave, at the latest in 10m; "
        "`mizzen drain d-1 -w` shows it"
    ) == drained_text(done, 10 * MINUTE)
    assert "when their controllers agree" in drained_text(done, 0)
    done = await drained_on(plane.bus, ["eu-7"])
    assert "d-2 drains eu-7 (1 node): nothing runs there" == drained_text(done, 0)


@virtual
async def test_drain_is_asked_for_again_after_another_operators_change(place: Place) -> None:
    """With the revision by then; and not for ever."""
    plane = await plane_of(place)
    quicker = Quicker(plane.bus, 2)
    done = await drained_on(quicker, place=RACK_0)  # type: ignore[arg-type]  # asks are all that is needed of it
    assert "d-3" == done.name
    assert [0, 1, 2] == [asked.revision for asked in quicker.asked if isinstance(asked, DrainNodes)]
    always = Quicker(plane.bus, 99)
    assert "others ask for the same all the time" in await refusal(drained_on(always, place=RACK_0))  # type: ignore[arg-type]
    assert TRIES_MAX == len(always.asked)
    assert 3 + TRIES_MAX == len(await plane.events(EU_LOG, NodesClosed))


@virtual
async def test_drain_of_everything_is_asked_twice(place: Place) -> None:
    """Of all nodes, however they are named; and of the last that are open: that a region takes nothing is seldom meant."""
    plane = await plane_of(place)
    ways = [PlaceOptions(all_=True), PlaceOptions(zone="zone-0,zone-1"), PlaceOptions(rack="0-3")]
    for way in ways:
        said = "it is every node of eu; if that is meant, say --yes"
        assert said == await refusal(drained_on(plane.bus, place=way))
    assert said == await refusal(drained_on(plane.bus, ["eu-[0-7]"]))
    assert [] == await plane.events(EU_LOG, NodesClosed)
    await drained_on(plane.bus, place=PlaceOptions(worker="w0"))
    said = "it leaves eu without a node that is open; if that is meant, say --yes"
    assert said == await refusal(drained_on(plane.bus, place=PlaceOptions(worker="w1")))
    assert "d-2" == (await drained_on(plane.bus, place=PlaceOptions(worker="w1"), is_sure=True)).name
    assert 8 == (await drained_on(plane.bus, place=PlaceOptions(all_=True), is_sure=True)).nodes


@virtual
async def test_lost_nodes_do_not_count_as_open(place: Place) -> None:
    """To drain what is left after a loss is to drain everything."""
    plane = await plane_of(place, NodesLost(WorkerName("w1"), (4, 5, 6, 7)))
    said = await refusal(drained_on(plane.bus, place=PlaceOptions(worker="w0")))
    assert "it leaves eu without a node that is open; if that is meant, say --yes" == said


@virtual
async def test_everything_that_is_wrong_is_told_at_once(place: Place) -> None:
    """What is wrong with the nodes beside what was wrong before; and nothing is recorded."""
    plane = await plane_of(place)
    said = await refusal(drained_on(plane.bus, place=PlaceOptions(rack="9"), problems=["--reason: say why"]))
    assert (
        "--reason: say why; eu has no rack 9; it has 0-3; 2 things are wrong; nothing was asked for" == said
    )
    assert "--reason: say why" == await refusal(
        drained_on(plane.bus, place=RACK_0, problems=["--reason: say why"])
    )
    said = await refusal(drained_on(plane.bus, problems=["--reason: say why"]))
    assert said.startswith("--reason: say why; which nodes? name them by one of nodes")
    assert [] == await plane.events(EU_LOG, NodesClosed)


@virtual
async def test_drain_is_given_a_deadline(place: Place) -> None:
    """By its name alone: its nodes are drained again, for the same reason, and all of them at once."""
    plane = await plane_of(place, *service("w-1", {1: 1}, "shards"), drained(0, 1), drained(5, source="d-2"))
    quicker = Quicker(plane.bus)
    done = await set_deadline(quicker, "d-1", ANYWHERE, "", MINUTE)  # type: ignore[arg-type]
    assert ("d-4", ((0, 1),), 1) == (done.name, done.node_runs, done.tasks)
    last = (await plane.events(EU_LOG, NodesClosed))[-1]
    assert ("d-4", ((0, 1),), "new PDU", MINUTE) == (last.source, last.nodes, last.reason, last.deadline)
    done = await set_deadline(plane.bus, "d-2", PlaceOptions(region="eu"), "hurry", MINUTE)
    assert "hurry" == (await plane.events(EU_LOG, NodesClosed))[-1].reason
    assert "there is no drain d-9" in await refusal(set_deadline(plane.bus, "d-9", ANYWHERE, "", MINUTE))


@virtual
async def test_undrain_lifts_every_drain_of_the_nodes(place: Place) -> None:
    """And tells what still keeps work away from them."""
    lost = NodesLost(WorkerName("w0"), (0, 1, 2, 3))
    plane = await plane_of(place, drained(0, 1), drained(1, 2, source="d-2"), planned(1), *noticed(1), lost)
    done = await undrain(plane.bus, ["eu-[0-1]"], ANYWHERE)
    assert Done(EU, "d-1,d-2", ((0, 1),), 2, still_closed={"m-1": ((1, 1),), "lost": ((0, 1),)}) == done
    assert "eu-[0-1] (2 nodes): d-1,d-2 lifted; still closed: lost eu-[0-1], m-1 eu-1" == undrained_text(done)
    opened = await plane.events(EU_LOG, NodesOpened)
    assert [("d-1", ((0, 1),)), ("d-2", ((1, 1),))] == [(one.source, one.nodes) for one in opened]
    said = await refusal(undrain(plane.bus, ["eu-0"], ANYWHERE))
    assert "none of these nodes is drained; `mizzen drain` lists drained nodes" == said


@virtual
async def test_undrain_by_name_lifts_no_other(place: Place) -> None:
    """Somebody else has a reason of their own: what they drain stays so, and is told."""
    plane = await plane_of(place, drained(0, 1), drained(1, 2, source="d-2"), drained(5, source="d-3"))
    done = await undrain(plane.bus, ["d-1"], ANYWHERE)
    assert Done(EU, "d-1", ((0, 1),), 2, still_closed={"d-2": ((1, 1),)}) == done
    still = "still closed: d-2 eu-1; `mizzen undrain d-2` lifts that too"
    assert f"eu-[0-1] (2 nodes): d-1 lifted; {still}" == undrained_text(done)
    (opened,) = await plane.events(EU_LOG, NodesOpened)
    assert ("d-1", ((0, 1),)) == (opened.source, opened.nodes)
    quicker = Quicker(plane.bus)
    done = await undrain(quicker, ["d-3"], PlaceOptions(region="eu"))  # type: ignore[arg-type]
    assert ("d-3", ((5, 5),), {}) == (done.name, done.node_runs, done.still_closed)
    assert "eu-5 (1 node): d-3 lifted" == undrained_text(done)
    assert [4, 5] == [asked.revision for asked in quicker.asked if isinstance(asked, UndrainNodes)]
    said = await refusal(undrain(plane.bus, ["d-3"], ANYWHERE))
    assert (
        "there is no drain d-3 in eu any more; `mizzen log region.eu --about d-3` tells what became of it"
        == said
    )
    assert "there is no drain d-9; there is d-2 of eu, d-4 of eu" == await refusal(
        undrain(plane.bus, ["d-9"], ANYWHERE)
    )


@virtual
async def test_undrain_takes_one_name(place: Place) -> None:
    """And not nodes beside it, so that nobody lifts less than they think."""
    plane = await plane_of(place, drained(0), drained(1, source="d-2"))
    for words, where in ((["d-1", "d-2"], ANYWHERE), (["d-1", "eu-7"], ANYWHERE), (["d-1"], RACK_0)):
        said = await refusal(undrain(plane.bus, words, where))
        assert "d-1 is a drain; lift one at a time by its name, or name nodes and no drain" == said
    assert [] == await plane.events(EU_LOG, NodesOpened)


def test_names_of_drains_and_nodes() -> None:
    """A name has its letter, and a number."""
    assert is_name("d-7", "d-")
    assert [] == [
        word for word in ("d-", "d-x", "d7", "7", "m-7", "d-٣", "d-1-2", "xd-1") if is_name(word, "d-")
    ]


# Maintenance.


@virtual
async def test_maintenance_is_planned_as_it_was_said(place: Place) -> None:
    """T22: scope, window, kind, notice, reason, and by whom; told with both of its times."""
    plane = await plane_of(place, *service("w-1", {0: 2, 1: 1}))
    quicker = Quicker(plane.bus)
    done = await plan(quicker, (), RACK_0, "power", IN_AN_HOUR, "new PDU", is_sure=False)  # type: ignore[arg-type]
    (_, mine) = await plane.events(EU_LOG, MaintenancePlanned)
    assert (
        MaintenancePlanned(
            "m-2",
            MaintenanceKind.POWER,
            Scope(ScopeKind.RACK, ("0",)),
            ((0, 1),),
            HOUR,
            90 * MINUTE,
            30 * MINUTE,
            "new PDU",
            submitter(),
            mine.key,
        )
        == mine
    )
    assert mine.key
    now = Instant(1_795_305_600_000_000_000)
    assert (
        "m-2 opens 01:00Z, in 1h, until 02:30Z, on eu-[0-1] (2 nodes): 3 tasks of 1 workload there now; "
        "`mizzen maintain m-2` shows it"
    ) == planned_text(done, now, 90 * MINUTE)


@virtual
async def test_maintenance_of_everything_is_asked_twice(place: Place) -> None:
    """It stops everything when its window opens."""
    plane = await plane_of(place)
    everything = PlaceOptions(all_=True)
    said = await refusal(plan(plane.bus, (), everything, "power", IN_AN_HOUR, "", is_sure=False))
    assert "it is every node of eu; if that is meant, say --yes" == said
    assert "m-1" == (await plan(plane.bus, (), everything, "power", IN_AN_HOUR, "", is_sure=True)).name


@virtual
async def test_maintenance_is_cancelled_or_over(place: Place) -> None:
    """Before its window it does not take place; in it it is over; after it there is none of its name."""
    events = (planned(0), *noticed(0), opens(), planned(5, source="m-2"))
    plane = await plane_of(place, *events)
    assert (EU, True) == await cancel(plane.bus, "m-1", ANYWHERE, "done early")
    assert (EU, False) == await cancel(plane.bus, "m-2", ANYWHERE, "no parts")
    moved = [one for one in await plane.events(EU_LOG, MaintenanceMoved) if one.reason]
    assert [
        MaintenanceMoved("m-1", MaintenancePhase.OVER, "done early"),
        MaintenanceMoved("m-2", MaintenancePhase.CANCELLED, "no parts"),
    ] == moved
    said = await refusal(cancel(plane.bus, "m-1", ANYWHERE, ""))
    assert said.startswith("there is no maintenance m-1 in eu any more; `mizzen log region.eu --about m-1`")
    assert "there is no maintenance m-9; there is none" == await refusal(
        cancel(plane.bus, "m-9", ANYWHERE, "")
    )


@virtual
async def test_region_of_a_name_is_found(place: Place) -> None:
    """A drain is no maintenance, and a region that is said must be there."""
    plane = await plane_of(place, planned(0), drained(5))
    assert EU == await region_with(plane.bus, "m-1", ANYWHERE, ClosureKind.MAINTENANCE)
    assert EU == await region_with(plane.bus, "d-1", PlaceOptions(region="eu"), ClosureKind.DRAIN)
    said = await refusal(region_with(plane.bus, "d-1", PlaceOptions(region="moon"), ClosureKind.DRAIN))
    assert "there is no region moon; there are eu" == said


# Quarantine.


@virtual
async def test_nodes_leave_the_quarantine(place: Place) -> None:
    """Those of them that were in it; and whoever else keeps work away from them is told."""
    plane = await plane_of(place, QUARANTINED, drained(1))
    done = await release(plane.bus, ["eu-[0-1]"], ANYWHERE, "GPU 3 replaced")
    (opened,) = await plane.events(EU_LOG, NodesOpened)
    assert (
        NodesOpened("quarantine", ClosureKind.QUARANTINE, ((1, 1),), "GPU 3 replaced", submitter()) == opened
    )
    assert "eu-1 (1 node): released from quarantine; still closed: d-1 eu-1" == released_text(done)
    again = await release(plane.bus, ["eu-1"], ANYWHERE, "GPU 3 replaced")
    assert "none of these nodes is in quarantine; `mizzen nodes` shows which are" == released_text(again)
    assert 1 == len(await plane.events(EU_LOG, NodesOpened))


@virtual
async def test_release_is_asked_for_again_when_a_node_changed_meanwhile(place: Place) -> None:
    """With what is so by then: whoever lets a node out has seen it as it is."""
    plane = await plane_of(place, QUARANTINED)
    quicker = Quicker(plane.bus)
    done = await release(quicker, ["eu-1"], ANYWHERE, "GPU 3 replaced")  # type: ignore[arg-type]  # asks are all that is needed of it
    first, second = [asked.sequence for asked in quicker.asked if isinstance(asked, ReleaseNodes)]
    assert 0 < first < second
    assert [ClosureKind.QUARANTINE] == [event.kind for event in await plane.events(EU_LOG, NodesOpened)]
    assert {"d-1": ((1, 1),)} == done.still_closed
    plane = await plane_of(Place(), QUARANTINED)
    always = Quicker(plane.bus, 99)
    work = release(always, ["eu-1"], ANYWHERE, "GPU 3 replaced")  # type: ignore[arg-type]
    assert "others ask for the same all the time" in await refusal(work)
    assert TRIES_MAX == len(always.asked)
    assert [] == await plane.events(EU_LOG, NodesOpened)


@virtual
async def test_others_come_to_an_end_before_the_tries_do(place: Place) -> None:
    """What they do takes its time: between two tries there is a moment."""
    plane = await plane_of(place, QUARANTINED)
    busy = Busy(plane.bus, place, 0.25)
    assert "quarantine" == (await release(busy, ["eu-1"], ANYWHERE, "GPU 3 replaced")).name  # type: ignore[arg-type]
    assert 1 < len(busy.asked) <= TRIES_MAX
    busy = Busy(plane.bus, place, 0.25)
    done = await drained_on(busy, place=RACK_0)  # type: ignore[arg-type]
    assert 1 < len(busy.asked) <= TRIES_MAX
    busy = Busy(plane.bus, place, 0.25)
    assert done.name == (await undrain(busy, [done.name], ANYWHERE)).name  # type: ignore[arg-type]
    assert 1 < len(busy.asked) <= TRIES_MAX
    busy = Busy(plane.bus, place, 0.25)
    await plan(busy, (), RACK_0, "power", IN_AN_HOUR, "", is_sure=False)  # type: ignore[arg-type]
    assert 1 < len(busy.asked) <= TRIES_MAX


# Watching.


@virtual
async def test_drain_that_is_lifted_ends_the_wait_for_it(place: Place) -> None:
    """And the command fails: the nodes were never seen empty. One whose nodes are empty is waited for no longer."""
    plane = await plane_of(place, *service("w-1", {0: 2}, "shards"), drained(0), drained(5, source="d-2"))
    assert 0 == await follow(plane.bus, [(EU, "d-2")], is_json=True)
    waiting = place.loop.create_task(follow(plane.bus, [(EU, "d-1"), (EU, "d-2")], is_json=True))
    await place.sleep(5)
    assert not waiting.done()
    await undrain(plane.bus, ["d-1"], ANYWHERE)
    assert 1 == await waiting


@virtual
async def test_maintenance_is_watched_to_its_end(place: Place) -> None:
    """Empty nodes do not end it, nor does the window: it is over when nobody works on them any more."""
    plane = await plane_of(place, planned(0, starts_in=MINUTE, lead=0))
    waiting = place.loop.create_task(follow(plane.bus, [(EU, "m-1")], is_json=True))
    await place.sleep(80 * 60)
    assert not waiting.done()
    await place.sleep(12 * 60)
    assert 0 == await waiting


@virtual
async def test_watch_outlives_a_reader(place: Place) -> None:
    """Parts of a plane start anew in a second or two; what stays away is told at last."""
    plane = await plane_of(place, *service("w-1", {0: 2}, "shards"), drained(0))
    waiting = place.loop.create_task(follow(plane.bus, [(EU, "d-1")], is_json=True))
    await place.sleep(2)
    plane.readers[EU_LOG].kill()
    await place.sleep(30)
    assert not waiting.done()
    await place.sleep(60)
    assert (await refusal(waiting)).startswith("region eu: n")


# A part of the plane is down.


@virtual
async def test_refusal_of_the_store_is_told(place: Place) -> None:
    """By its own sentence, with every problem: a request that was checked here may have become wrong since."""
    plane = await plane_of(place)
    long = Window(HOUR, 31 * 24 * HOUR, 8 * 24 * HOUR)
    with pytest.raises(RequestRefused) as raised:
        await plan(plane.bus, (), RACK_0, "power", long, "", is_sure=False)
    assert "30 days at most" in str(raised.value)
    assert "7 days before the window at most" in str(raised.value)


@virtual
async def test_region_that_does_not_answer_is_named(place: Place) -> None:
    """There may be several, and only one of them is down."""
    plane = await plane_of(place)
    plane.readers[EU_LOG].kill()
    said = await refusal(drained_on(plane.bus, place=RACK_0))
    assert said.startswith("region eu: n")
