"""How a placement store records maintenance, quarantine and suspicion of nodes, and what several lose at once."""

import pytest

from core.component import NOTHING
from core.events.control import (
    DomainLost,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
)
from core.events.region import NodesReturned
from core.fact import Event
from core.images.control import TaskPhase
from core.invariants.control import check_control
from core.messages.base import Refused
from core.messages.nodes import (
    CancelMaintenance,
    CloseNodes,
    NodesAnswered,
    OpenNodes,
    RecordDomainLoss,
    ReleaseNodes,
    UndrainNodes,
)
from core.messages.store import RecordReturn
from core.nouns.ids import WorkerName
from core.nouns.instant import Nanoseconds
from core.nouns.limits import (
    MAINTENANCE_AHEAD_MAX,
    MAINTENANCE_LEAD_MAX,
    MAINTENANCE_SPAN_MAX,
)
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, ScopeKind
from core.nouns.reasons import Reason
from tests.builders import EU, EU_LOG, a_claim
from tests.components.placement_store.test_nodes import (
    MINUTE,
    W1,
    W2,
    a_region,
    drain,
    move,
    plan,
    released,
    scope,
    why_not,
)
from tests.components.support.placement_store import (
    Start,
    award,
    claim,
    row_of,
    serve,
    verdict,
)
from tests.matching import facts, said, said_once

# Maintenance.


def test_maintenance_through_its_life(start: Start) -> None:
    """T22: planned, noticed when its lead begins, open in its window, over: each not before its time; closed from the notice on."""
    machine = a_region(start)
    rack = scope("0", kind=ScopeKind.RACK)
    decision = plan(machine, rack)
    wanted = MaintenancePlanned(
        "m-1", MaintenanceKind.POWER, rack, ((0, 1),), 2 * MINUTE, MINUTE, MINUTE, "switchboard", "olga"
    )
    assert [wanted] == facts(decision)
    assert NodesAnswered("m-1", 2, 0) == said_once(decision, NodesAnswered)
    capacity = machine.state.image.capacity
    noticed, opened, over = MaintenancePhase.NOTICED, MaintenancePhase.OPEN, MaintenancePhase.OVER
    closes = NodesClosed("m-1", ClosureKind.MAINTENANCE, ((0, 1),), "switchboard")
    opens = NodesOpened("m-1", ClosureKind.MAINTENANCE, ((0, 1),), "maintenance over")
    steps: list[tuple[MaintenancePhase, list[Event]]] = [
        (noticed, [MaintenanceMoved("m-1", noticed), closes]),
        (opened, [MaintenanceMoved("m-1", opened)]),
        (over, [opens, MaintenanceMoved("m-1", over)]),
    ]
    for phase, events in steps:
        machine.wait(Nanoseconds(MINUTE - 1))
        for other in MaintenancePhase:
            assert [] == move(machine, other), (phase, "before its time")
        machine.wait(Nanoseconds(1))
        for other in MaintenancePhase:
            if other is not phase:
                assert [] == move(machine, other), (phase, "another's turn")
        assert events == move(machine, phase)
        assert (phase is over) == capacity.is_open(0)
        assert [] == move(machine, phase), "once"
    assert {} == machine.state.image.maintenance.rows
    assert [] == check_control(machine.state.image)


def test_maintenance_without_any_lead(start: Start) -> None:
    """Notice is given when the window opens; with more lead than there is time, at once."""
    machine = a_region(start)
    plan(machine, scope("0"), starts_in=MINUTE, lead=0)
    plan(machine, scope("1"), starts_in=MINUTE, lead=MAINTENANCE_LEAD_MAX)
    assert [] == move(machine, MaintenancePhase.NOTICED)
    assert 2 == len(move(machine, MaintenancePhase.NOTICED, "m-2"))
    machine.wait(MINUTE)
    assert 2 == len(move(machine, MaintenancePhase.NOTICED))
    assert 1 == len(move(machine, MaintenancePhase.OPEN))


@pytest.mark.parametrize("phase", ["planned", "noticed", "open"])
def test_maintenance_that_is_cancelled(start: Start, phase: str) -> None:
    """At whatever phase: its nodes are open again; one that had begun is over early."""
    machine = a_region(start)
    plan(machine, scope("0"), starts_in=MINUTE)
    if phase != "planned":
        move(machine, MaintenancePhase.NOTICED)
    if phase == "open":
        machine.wait(MINUTE)
        move(machine, MaintenancePhase.OPEN)
    decision = machine.hear(CancelMaintenance(EU, "m-1", "not today", "olga"))
    last = MaintenancePhase.OVER if phase == "open" else MaintenancePhase.CANCELLED
    assert MaintenanceMoved("m-1", last, "not today") in facts(decision)
    assert machine.state.image.capacity.is_open(0)
    assert Reason.UNKNOWN_MAINTENANCE == why_not(machine.hear(CancelMaintenance(EU, "m-1")))[0]
    assert Reason.UNKNOWN_MAINTENANCE == why_not(machine.hear(CancelMaintenance(EU, "m-9")))[0]


def test_maintenance_in_the_past(start: Start) -> None:
    """T22: answered, and nothing is recorded."""
    wanted = (Reason.WINDOW_PAST, ("starts_in: the window begins in the past",))
    assert wanted == why_not(plan(a_region(start), scope("0"), starts_in=-1))


def test_maintenance_that_makes_no_sense(start: Start) -> None:
    """T22: every problem at once."""
    machine = a_region(start)
    for starts_in, lasts, lead in (
        (MAINTENANCE_AHEAD_MAX + 1, 0, -1),
        ((1 << 64) - 1, -5, MAINTENANCE_LEAD_MAX + 1),
        (1 << 62, MAINTENANCE_SPAN_MAX + 1, -(1 << 63)),
    ):
        decision = plan(machine, scope("0"), starts_in=starts_in, lasts=lasts, lead=lead)
        reason, problems = why_not(decision)
        assert Reason.INVALID == reason
        assert ["starts_in", "lasts", "lead"] == [text.split(":")[0] for text in problems]


def test_maintenance_is_planned_once(start: Start) -> None:
    """Heard late, the request plans nothing a second time."""
    machine = a_region(start)
    plan(machine, scope("0"))
    assert (Reason.SUPERSEDED, ("planned: it is 1 now",)) == why_not(plan(machine, scope("0"), planned=0))
    machine.hear(CancelMaintenance(EU, "m-1"))
    assert Reason.SUPERSEDED == why_not(plan(machine, scope("0"), planned=0))[0]
    assert "m-2" == said_once(plan(machine, scope("0")), NodesAnswered).source


# Quarantine and suspicion.


@pytest.mark.parametrize("kind", [ClosureKind.SUSPECT, ClosureKind.QUARANTINE])
def test_node_is_closed_and_opened(start: Start, kind: ClosureKind) -> None:
    """Once each, at the broker's word; nothing new is placed there meanwhile."""
    machine = a_region(start)
    decision = machine.hear(CloseNodes(EU, kind, (5, 0, 9, -1), "it is ill"))
    source = "suspicion" if kind is ClosureKind.SUSPECT else "quarantine"
    assert [NodesClosed(source, kind, ((0, 0), (5, 5)), "it is ill")] == facts(decision)
    assert NOTHING == machine.hear(CloseNodes(EU, kind, (0,), "it is ill"))
    made = a_claim("w-1", placed={0: 1}, award_sequence=award(machine, "w-1"))
    assert "conflict" == verdict(claim(machine, made))
    assert [NodesOpened(source, kind, ((0, 0),), "well")] == facts(
        machine.hear(OpenNodes(EU, kind, (0, 1), "well"))
    )
    assert NOTHING == machine.hear(OpenNodes(EU, kind, (0,), "well"))
    assert "granted" == verdict(claim(machine, made))


@pytest.mark.parametrize("kind", [ClosureKind.DRAIN, ClosureKind.MAINTENANCE])
def test_drains_are_not_the_brokers_to_make(start: Start, kind: ClosureKind) -> None:
    """Nor to lift: they are people's."""
    machine = a_region(start)
    drain(machine, scope("0"))
    assert NOTHING == machine.hear(CloseNodes(EU, kind, (1,), "why not"))
    assert NOTHING == machine.hear(OpenNodes(EU, kind, (0,), "why not"))


def test_suspicion_that_comes_late(start: Start) -> None:
    """What was seen before the node's newest change says nothing about now: a release is not undone by a repeat."""
    machine = a_region(start)
    seen = machine.sequence(EU_LOG)
    close = CloseNodes(EU, ClosureKind.QUARANTINE, (0, 1), "it is ill", sequence=seen)
    machine.hear(close)
    late = OpenNodes(EU, ClosureKind.QUARANTINE, (0,), "passed a check", seen)
    assert NOTHING == machine.hear(late)
    decision = machine.hear(released(machine, "0", "2"))
    assert [NodesOpened("quarantine", ClosureKind.QUARANTINE, ((0, 0),), "looked at", "olga")] == facts(
        decision
    )
    assert NodesAnswered("quarantine", 1, 0) == said_once(decision, NodesAnswered)
    assert NOTHING == machine.hear(close)
    assert 0 == said_once(machine.hear(released(machine, "0")), NodesAnswered).nodes


def test_release_that_comes_late(start: Start) -> None:
    """T24: it was given for what its operator saw; a node that came back into quarantine since is not let out by a repeat."""
    machine = a_region(start)
    ill = (ClosureKind.QUARANTINE, (0, 1, 2), "it is ill")
    machine.hear(CloseNodes(EU, *ill))
    release = released(machine, "0", "1")
    machine.hear(release)
    assert NodesAnswered("quarantine", 0, 0) == said_once(machine.hear(release), NodesAnswered)
    machine.hear(CloseNodes(EU, *ill))
    late = machine.hear(release)
    assert Reason.SUPERSEDED == why_not(late)[0]
    assert Reason.SUPERSEDED == why_not(machine.hear(ReleaseNodes(EU, scope("2"), "of no time")))[0]
    assert [0, 1, 2] == sorted(machine.state.image.capacity.closures["quarantine"].each)
    assert 2 == said_once(machine.hear(released(machine, "0", "1")), NodesAnswered).nodes
    assert [2] == sorted(machine.state.image.capacity.closures["quarantine"].each)


def test_release_of_unchanged_nodes(start: Start) -> None:
    """Changes of other nodes meanwhile are no reason to ask again."""
    machine = a_region(start)
    machine.hear(CloseNodes(EU, ClosureKind.QUARANTINE, (0,), "it is ill"))
    release = released(machine, "0", "3")
    drain(machine, scope("3"))
    assert 1 == said_once(machine.hear(release), NodesAnswered).nodes


def test_closures_of_several_kinds_on_one_node(start: Start) -> None:
    """It is open when none of them is left."""
    machine = a_region(start)
    capacity = machine.state.image.capacity
    drain(machine, scope("0"))
    plan(machine, scope("0"), starts_in=MINUTE)
    move(machine, MaintenancePhase.NOTICED)
    machine.hear(CloseNodes(EU, ClosureKind.SUSPECT, (0,), "missed beats"))
    machine.hear(CloseNodes(EU, ClosureKind.QUARANTINE, (0,), "it is ill"))
    for lift in (
        UndrainNodes(EU, scope("0"), 1, "olga"),
        CancelMaintenance(EU, "m-1"),
        OpenNodes(EU, ClosureKind.SUSPECT, (0,)),
    ):
        machine.hear(lift)
        assert not capacity.is_open(0)
    machine.hear(released(machine, "0"))
    assert capacity.is_open(0)
    assert {} == capacity.closures


# Common losses.


def test_workers_of_one_domain_are_lost_together(start: Start) -> None:
    """T23: one fact, whose nodes have nothing; those that were lost or came back meanwhile are not in it."""
    machine = a_region(start)
    serve(machine, {0: 1, 4: 1, 6: 1})
    seen = machine.sequence(EU_LOG)
    decision = machine.hear(RecordDomainLoss(EU, "power-b", (W1, W2, W1, WorkerName("w9")), seen))
    assert [DomainLost("power-b", (W1, W2), ((4, 6),))] == facts(decision)
    assert [TaskPhase.UP, TaskPhase.DOWN, TaskPhase.DOWN] == [t.phase for t in row_of(machine).tasks.values()]
    assert NOTHING == machine.hear(RecordDomainLoss(EU, "power-b", (W1, W2), machine.sequence(EU_LOG)))
    back = facts(machine.hear(RecordReturn(EU, W1, machine.sequence(EU_LOG))))
    assert [NodesReturned(W1, (4, 5))] == back
    assert NOTHING == machine.hear(RecordDomainLoss(EU, "power-b", (W1,), seen)), "it is back since"
    assert [TaskPhase.UP, TaskPhase.GONE, TaskPhase.DOWN] == [t.phase for t in row_of(machine).tasks.values()]
    assert [] == check_control(machine.state.image)


def test_domain_loss_without_a_known_worker(start: Start) -> None:
    """Nothing is recorded of unknown workers."""
    machine = a_region(start)
    assert NOTHING == machine.hear(RecordDomainLoss(EU, "power-b", (WorkerName("w9"),), 9))
    assert NOTHING == machine.hear(RecordDomainLoss(EU, "power-b", (), 9))


def test_each_request_is_answered_or_refused(start: Start) -> None:
    """The answer follows in the same decision, or a refusal: never both."""
    machine = a_region(start)
    for decision in (drain(machine, scope("0")), drain(machine, scope("99"))):
        assert 1 == len(said(decision, NodesAnswered)) + len(said(decision, Refused))
