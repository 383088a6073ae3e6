"""Task control and the store together, while nodes are drained or worked on: three answers, and what no answer can put off."""

from core.events.control import OperationsBegun, OperationsDone, OperationsRequested
from core.messages.nodes import CancelMaintenance, UndrainNodes
from core.nouns.instant import seconds
from core.nouns.maintenance import MaintenanceKind, Scope, ScopeKind
from core.nouns.operation import Answer, BegunBy, OperationKind, OperationPhase, Outcome
from tests.builders import EU
from tests.components.support.operators import drain, phases, plan
from tests.components.support.task_control import Pair, Start, a_gang, a_service, t


def test_maintenance_does_not_wait(start: Start) -> None:
    """T15, T17, T20: at its deadline the rest is stopped, whoever is silent, and not a moment before."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1, 2)
    pair.wait(seconds(599))
    assert [] == pair.recorded(OperationsBegun)
    pair.wait(seconds(3))
    begun = pair.recorded(OperationsBegun)
    assert [((1, 2), BegunBy.DEADLINE)] == [(event.operations, event.by) for event in begun]
    assert (t(1), t(2)) == tuple(pair.row().unavailable())


def test_notice_has_its_lead(start: Start) -> None:
    """T15, T22: nothing is asked before the lead begins; then the notice tells how long is left."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1)
    pair.wait(seconds(299))
    assert [] == pair.requests()
    pair.wait(seconds(2))
    request = pair.request()
    [notice] = request.notices
    assert ("m-1", MaintenanceKind.POWER, (t(1),), "switchboard") == (
        notice.notice,
        notice.kind,
        notice.tasks,
        notice.reason,
    )
    assert seconds(290) < notice.starts_in <= seconds(301)
    assert seconds(900) == notice.lasts
    assert seconds(290) < request.requests[0].deadline <= seconds(301)


def test_move_before_the_window(start: Start) -> None:
    """T16: it moves at once, long before the window."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.MOVE)
    assert [((1,), BegunBy.ACK)] == [(e.operations, e.by) for e in pair.recorded(OperationsBegun)]
    pair.stopped(t(1))
    pair.again(t(1), node=5)
    pair.up(t(1))
    assert 5 == pair.row().tasks[t(1)].node
    assert [Outcome.HEALTHY] == [event.outcome for event in pair.recorded(OperationsDone)]


def test_stop_when_it_begins_and_return(start: Start) -> None:
    """T16: it runs until the window opens, and may not come back before the window is over."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.STOP_AND_RETURN)
    pair.wait(seconds(290))
    assert [] == pair.recorded(OperationsBegun)
    pair.wait(seconds(12))
    assert [(1,)] == [event.operations for event in pair.recorded(OperationsBegun)]
    pair.stopped(t(1))
    pair.again(t(1))
    assert "gone" == pair.row().tasks[t(1)].phase
    pair.wait(seconds(905))
    pair.again(t(1))
    pair.up(t(1))
    assert (1, 1) == (pair.row().tasks[t(1)].node, pair.row().tasks[t(1)].run)
    assert [Outcome.HEALTHY] == [event.outcome for event in pair.recorded(OperationsDone)]


def test_ignore(start: Start) -> None:
    """T16: while a switch is worked on it stays as it is, through the whole window; then the operation is over."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1, kind=MaintenanceKind.NETWORK)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.IGNORE)
    pair.wait(seconds(1300))
    assert [] == pair.recorded(OperationsBegun)
    assert [Outcome.IGNORED] == [event.outcome for event in pair.recorded(OperationsDone)]


def test_ignore_where_nodes_must_be_empty(start: Start) -> None:
    """T15, T16: to leave tasks where the power is cut is no answer: they are stopped at the deadline."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.IGNORE)
    assert [OperationPhase.ASKED] == phases(pair)
    pair.wait(seconds(302))
    assert [BegunBy.DEADLINE] == [event.by for event in pair.recorded(OperationsBegun)]


def test_two_works_on_one_rack_ask_once(start: Start) -> None:
    """A second maintenance of the same nodes asks for nothing more while the first one's word is given."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1)
    plan(pair, 1, starts_in=seconds(700), lead=seconds(350))
    pair.wait(seconds(400))
    assert 1 == sum(len(event.tasks) for event in pair.recorded(OperationsRequested))
    pair.ack(1, answer=Answer.MOVE)
    pair.stopped(t(1))
    pair.again(t(1), node=6)
    pair.up(t(1))
    pair.wait(seconds(2000))
    assert 1 == sum(len(event.tasks) for event in pair.recorded(OperationsRequested))


def test_sooner_work_takes_the_place_of_a_later_one(start: Start) -> None:
    """T15: a drain that may take hours does not keep a window from being kept that begins before."""
    pair = Pair(start)
    pair.grant(a_service())
    drain(pair, 1, deadline=seconds(7200))
    plan(pair, 1, starts_in=seconds(60), lead=seconds(60))
    pair.settle()
    assert ["m-1"] == [asked.notice for asked in pair.request().requests]
    pair.wait(seconds(63))
    assert [BegunBy.DEADLINE] == [event.by for event in pair.recorded(OperationsBegun)]


def test_ignoring_one_work_is_no_word_on_another(start: Start) -> None:
    """T15, T16: a switch may be worked on beside it; when the power is to be cut it is asked again, and leaves."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1, kind=MaintenanceKind.NETWORK, starts_in=seconds(100), lead=seconds(100))
    pair.settle()
    pair.ack(1, answer=Answer.IGNORE)
    plan(pair, 1, starts_in=seconds(300), lead=seconds(250))
    pair.wait(seconds(60))
    assert ["m-2"] == [asked.notice for asked in pair.request().requests]
    pair.wait(seconds(243))
    assert [((2,), BegunBy.DEADLINE)] == [(e.operations, e.by) for e in pair.recorded(OperationsBegun)]


def test_cancelled_maintenance_is_withdrawn(start: Start) -> None:
    """What was asked because of it is taken back; what has begun goes on."""
    pair = Pair(start)
    pair.grant(a_service())
    plan(pair, 1, 2)
    pair.wait(seconds(301))
    pair.ack(1, answer=Answer.MOVE)
    pair.hear(CancelMaintenance(EU, "m-1"))
    assert [((2,), Outcome.WITHDRAWN)] == [
        (event.operations, event.outcome) for event in pair.recorded(OperationsDone)
    ]
    assert [((t(2), Outcome.WITHDRAWN))] == [(d.task, d.outcome) for d in pair.request().completed]
    pair.wait(seconds(600))
    assert 1 == len(pair.recorded(OperationsBegun))


def test_drain_and_its_end(start: Start) -> None:
    """A drain waits for consent, for ever; lifted, it leaves nothing to be asked."""
    pair = Pair(start)
    pair.grant(a_service())
    drain(pair, 0)
    pair.wait(seconds(3600))
    assert [] == pair.recorded(OperationsBegun)
    revision = pair.store.state.image.maintenance.revision
    pair.hear(UndrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), revision))
    assert [Outcome.WITHDRAWN] == [event.outcome for event in pair.recorded(OperationsDone)]
    assert () == pair.request().requests


def test_drain_with_a_deadline(start: Start) -> None:
    """T15: a drain may have one too."""
    pair = Pair(start)
    pair.grant(a_service())
    drain(pair, 0, deadline=seconds(120))
    pair.wait(seconds(119))
    assert [] == pair.recorded(OperationsBegun)
    pair.wait(seconds(3))
    assert [BegunBy.DEADLINE] == [event.by for event in pair.recorded(OperationsBegun)]


def test_drain_behind_an_update_that_is_held(start: Start) -> None:
    """T10, T17: its controller is told at once, though nothing is asked for it; after the update it is. Lifted, it is told no more."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.UPDATE, t(0))
    assert () == pair.request().notices
    sequence = pair.request().sequence
    drain(pair, 0)
    request = pair.request()
    assert [("d-1", None, (t(0),), 0)] == [
        (one.notice, one.kind, one.tasks, one.starts_in) for one in request.notices
    ]
    assert request.sequence > sequence
    assert [(OperationKind.UPDATE, "")] == [(asked.kind, asked.notice) for asked in request.requests]
    drain(pair, 0, 3, deadline=seconds(60))
    assert ["d-1", "d-2"] == [one.notice for one in pair.request().notices]
    revision = pair.store.state.image.maintenance.revision
    for name in ("d-1", "d-2"):
        pair.hear(UndrainNodes(EU, Scope(ScopeKind.NODE, ()), revision, "olga", name))
        revision += 1
    assert () == pair.request().notices


def test_gang_hears_of_a_drain_behind_a_restart_that_is_held(start: Start) -> None:
    """T10: with the ranks that are concerned."""
    pair = Pair(start)
    pair.grant(a_gang())
    pair.operate(OperationKind.RESTART)
    drain(pair, 1)
    request = pair.request()
    assert ["restart"] == [asked.kind for asked in request.requests]
    assert [("d-1", (t(1),))] == [(one.notice, one.tasks) for one in request.notices]


def test_deadline_takes_the_place_of_patience(start: Start) -> None:
    """A restart that waits gives way to a maintenance on the same task; the user is told that it was withdrawn."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, t(1))
    plan(pair, 1, lead=seconds(600))
    pair.settle()
    done = pair.recorded(OperationsDone)
    assert [((1,), Outcome.WITHDRAWN)] == [(event.operations, event.outcome) for event in done]
    assert [(2, "move")] == [(asked.operation, asked.kind) for asked in pair.request().requests]
