"""How the broker carries out operations on tasks that stand alone: stop, start again, elsewhere or where they were."""

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from components.region_broker.component import RegionBroker
from components.region_broker.task_timers import TasksAttended
from core.component import Decision
from core.events.control import (
    AttemptChanged,
    ClaimRevised,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
    OperationsDone,
    OperationsRequested,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.region import (
    GangStarted,
    NodesLost,
    NodesReturned,
)
from core.fact import Event
from core.messages.agents import AgentPresent
from core.messages.base import Envelope, Message
from core.messages.control import (
    PlaceTasks,
    RecordTasksDown,
    RecordTasksGone,
    RecordTasksUp,
    ReviseClaim,
)
from core.messages.workers import (
    EndRecorded,
    PrepareTasks,
    StartTasks,
    StopTasks,
    TasksPhase,
)
from core.nouns.ids import AgentName, WorkerName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import (
    COMMAND_SAY_AGAIN,
    MOVE_PATIENCE,
    PLACE_AGAIN,
    RESTART_HOLD,
    RESTART_HOLD_MAX,
    START_SPAN,
    TASKS_AT_ONCE_MAX,
    TASKS_LOOK,
)
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import Answer, OperationKind, Outcome, TaskMove
from core.nouns.workload import Emulation, EndCause, Kind
from tests.builders import EU, EU_LOG, a_claim, a_spread, attempt, granted, joined
from tests.components.support.machine import Machine
from tests.components.support.region_broker import NEVER, W0, W1, Broker, Start, a_broker, words
from tests.components.support.service import (
    A0,
    NEW_RUNS,
    RECORDS,
    SERVICE,
    TO_WORKERS,
    Service,
    one,
    up,
)
from tests.matching import said, said_once

# Started again.


def test_failed_task_waits_for_an_operation_and_starts_where_it_was(start: Start) -> None:
    """T11, T19: nothing happens before an operation has begun; then a new run, start, and discovery, in that order."""
    service = up(start)
    service.gone(1)
    service.fact(OperationsRequested(*attempt(), 1, OperationKind.START, (1,), "because"))
    assert NEVER == service.wait(START_SPAN, *NEW_RUNS, *TO_WORKERS)
    service.fact(OperationsDone(*attempt(), (1,), Outcome.WITHDRAWN))
    service.broker.begin(OperationKind.START, 1, first=2)
    revise = ReviseClaim(EU, *attempt(), 1, (TaskMove(1, 1, 1),))
    assert [revise] == service.look(*NEW_RUNS, *TO_WORKERS, *RECORDS)
    assert {revise} == set(service.wait(COMMAND_SAY_AGAIN, *NEW_RUNS, *TO_WORKERS))
    service.moved(1, 1, 1)
    told = said_once(service.machine.wait(TASKS_LOOK), PrepareTasks)
    assert (W0, 1, 1, (a_spread({1: 1}),), ((1,),)) == (
        told.worker,
        told.task,
        told.run,
        told.spreads,
        told.ranks,
    )
    service.report(1, TasksPhase.PREPARED, 1)
    started = service.look(StartTasks, *RECORDS)
    assert [(W0, 1, 1)] == [(one.worker, one.task, one.run) for one in started]
    service.report(1, TasksPhase.RUNNING, 1)
    record = RecordTasksUp(EU, *attempt(), ((1, 1),))
    assert [record] == service.look()
    assert {record} == set(service.wait(COMMAND_SAY_AGAIN, *RECORDS, *TO_WORKERS))
    service.fact(TasksUp(*attempt(), (1,)))
    assert NEVER == service.wait(START_SPAN, *RECORDS, *TO_WORKERS, *NEW_RUNS)


@pytest.mark.parametrize(("failures", "hold"), [(1, 1), (2, 2), (3, 4), (6, 32), (20, 300), (60, 300)])
def test_task_that_fails_again_and_again_waits_longer_each_time(
    start: Start, failures: int, hold: int
) -> None:
    """Doubled with each failure in a row, up to a limit; counted from when it failed."""
    assert (RESTART_HOLD, RESTART_HOLD_MAX) == (seconds(1), seconds(300))
    service = up(start)
    service.fact(*[TasksDown(*attempt(), (1,), EndCause.TASK_FAILED, 1, is_gone=True)] * failures)
    service.broker.begin(OperationKind.START, 1)
    span = Nanoseconds(seconds(hold) - 1)
    assert NEVER == words(service.machine.wait(span), *NEW_RUNS)
    assert [(TaskMove(1, 1, 1),)] == [
        one.moves for one in words(service.machine.wait(TASKS_LOOK), ReviseClaim)
    ]


def test_task_that_its_user_restarts_waits_for_nothing(start: Start) -> None:
    """However often it has failed: somebody has looked."""
    service = up(start)
    service.fact(*[TasksDown(*attempt(), (1,), EndCause.TASK_FAILED, 1, is_gone=True)] * 5)
    service.broker.begin(OperationKind.RESTART, 1)
    assert [(TaskMove(1, 1, 1),)] == [one.moves for one in service.look(ReviseClaim)]


def test_task_that_does_not_come_up_again(start: Start) -> None:
    """It failed: it is stopped, and what is there of it recorded as gone, before anybody starts it anew."""
    service = up(start)
    service.gone(1)
    service.broker.begin(OperationKind.START, 1)
    service.moved(1, 1, 1)
    service.look()
    service.report(1, TasksPhase.PREPARED, 1)
    assert NEVER == service.wait(START_SPAN - seconds(1), *RECORDS)
    record = RecordTasksDown(EU, *attempt(), ((1, 1),), EndCause.START_FAILED)
    assert {record} == set(service.wait(seconds(1), *RECORDS))
    service.fact(TasksDown(*attempt(), (1,), EndCause.START_FAILED))
    told = service.look(*TO_WORKERS, *RECORDS)
    assert [(StopTasks, 1, 1)] == [(type(one), one.task, one.run) for one in told]
    service.report(1, TasksPhase.ENDED, 1, exit_code=143)
    assert [RecordTasksGone(EU, *attempt(), ((1, 1),))] == service.look(*RECORDS)


# Operations.


def test_task_that_is_restarted(start: Start) -> None:
    """T11: it alone stops once the operation has begun, with its grace; when nothing of it runs that is recorded."""
    service = up(start, replace(SERVICE, grace=seconds(5)))
    service.broker.begin(OperationKind.RESTART, 1)
    told = said_once(service.machine.wait(TASKS_LOOK), StopTasks)
    assert (W0, 1, 0, seconds(5)) == (told.worker, told.task, told.run, told.grace)
    assert {1} == {one.task for one in service.wait(COMMAND_SAY_AGAIN, StopTasks)}
    service.report(1, TasksPhase.STOPPING)
    assert NEVER == service.wait(COMMAND_SAY_AGAIN, *TO_WORKERS, *RECORDS)
    service.report(1, TasksPhase.ENDED, exit_code=143)
    assert [RecordTasksGone(EU, *attempt(), ((1, 0),))] == service.look()
    service.fact(TasksGone(*attempt(), (1,)))
    assert [(TaskMove(1, 1, 1),)] == [one.moves for one in service.look(ReviseClaim)]


def test_updated_task_runs_its_changed_job(start: Start) -> None:
    """In its next run; the others run on as they are."""
    service = up(start)
    newer = (replace(SERVICE.jobs[0], tasks=3, emulation=Emulation(seconds(60), exit_code=9)),)
    service.fact(AttemptChanged(*attempt(), 2, newer))
    assert NEVER == service.look()
    service.broker.begin(OperationKind.UPDATE, 1)
    service.report(1, TasksPhase.ENDED, exit_code=143)
    service.look()
    service.fact(TasksGone(*attempt(), (1,)))
    assert [(TaskMove(1, 1, 1),)] == [one.moves for one in service.look(ReviseClaim)]
    service.moved(1, 1, 1)
    assert [(1, newer)] == [(one.task, one.jobs) for one in service.look(PrepareTasks)]


def test_task_that_moves_is_placed_by_an_agent(start: Start) -> None:
    """Said again when nothing came of it, and at once when another revision came first."""
    service = up(start)
    service.broker.begin(OperationKind.MOVE, 1)
    service.report(1, TasksPhase.ENDED, exit_code=143)
    service.look()
    service.fact(TasksGone(*attempt(), (1,)))
    place = PlaceTasks(EU, A0, *attempt(), 1, (TaskMove(1, 1, -1),))
    assert [place] == service.look(*NEW_RUNS)
    assert NEVER == service.wait(PLACE_AGAIN - seconds(1), *NEW_RUNS)
    assert [place] == service.wait(seconds(1), *NEW_RUNS)
    service.moved(0, 0, 0, 1)
    assert [replace(place, revision=2)] == service.look(*NEW_RUNS)
    service.moved(1, 1, 3, 2)
    told = said_once(service.machine.wait(TASKS_LOOK), PrepareTasks)
    assert (W1, 1, 1, (a_spread({3: 1}),)) == (told.worker, told.task, told.run, told.spreads)


def test_tasks_that_return_are_revised_before_others_are_placed(start: Start) -> None:
    """A revision is taken once: to ask for both at the same would make one of them come to nothing."""
    service = up(start)
    service.gone(0)
    service.gone(1, cause=EndCause.NODE_LOST)
    service.broker.begin(OperationKind.MOVE, 1)
    service.broker.begin(OperationKind.RESTART, 0, first=2)
    assert [ReviseClaim(EU, *attempt(), 1, (TaskMove(0, 0, 0),))] == service.look(*NEW_RUNS)
    service.moved(0, 0, 0)
    assert [PlaceTasks(EU, A0, *attempt(), 2, (TaskMove(1, 1, -1),))] == service.look(*NEW_RUNS)


def test_moved_task_belongs_to_its_new_node(start: Start) -> None:
    """It goes down with that, and what becomes of the node that it left is nothing to it."""
    service = up(start)
    service.gone(1, cause=EndCause.NODE_LOST)
    service.moved(1, 1, 3)
    service.wait(seconds(30), *TO_WORKERS)
    service.fact(NodesLost(W0, (0, 1)))
    told = words(service.broker.wait(seconds(31), W1), RecordTasksDown)
    assert {(((1, 1),), EndCause.START_FAILED)} == {(one.tasks, one.cause) for one in told}
    service = up(start)
    service.gone(1, cause=EndCause.NODE_LOST)
    service.moved(1, 1, 3)
    service.fact(TasksUp(*attempt(), (1,)))
    service.look()
    service.fact(NodesLost(W1, (2, 3)))
    assert [RecordTasksGone(EU, *attempt(), ((1, 1), (2, 0)))] == service.look(*RECORDS)


def test_task_that_has_no_node_yet_is_placed_by_an_agent(start: Start) -> None:
    """Its job grew."""
    service = up(start)
    service.fact(AttemptChanged(*attempt(), 2, (replace(SERVICE.jobs[0], tasks=4),)))
    service.broker.begin(OperationKind.START, 3)
    assert [PlaceTasks(EU, A0, *attempt(), 1, (TaskMove(3, -1, -1),))] == service.look()
    service.moved(3, -1, 3)
    assert [(W1, 3, 0)] == [(one.worker, one.task, one.run) for one in service.look(PrepareTasks)]


def test_task_that_moves_when_no_agent_is_there(start: Start) -> None:
    """One is asked as soon as one shows itself."""
    broker = a_broker(start)
    broker.machine.fact(EU_LOG, granted(SERVICE), GangStarted(*attempt()))
    service = Service(broker)
    service.gone(1, cause=EndCause.NODE_LOST)
    broker.begin(OperationKind.MOVE, 1)
    assert NEVER == service.wait(PLACE_AGAIN, *NEW_RUNS)
    service.machine.hear(AgentPresent(EU, A0))
    assert [A0] == [one.agent for one in service.wait(seconds(3), PlaceTasks)]


def test_placing_is_handed_to_agents_in_turn(start: Start) -> None:
    """As requests for bids are."""
    service = up(start)
    service.machine.hear(AgentPresent(EU, AgentName("a1")))
    service.gone(1, cause=EndCause.NODE_LOST)
    service.broker.begin(OperationKind.MOVE, 1)
    told = [*service.look(PlaceTasks), *service.wait(PLACE_AGAIN, PlaceTasks)]
    assert {"a0", "a1"} == {one.agent for one in told}


@pytest.mark.parametrize("kind", [OperationKind.START, OperationKind.RESTART])
@pytest.mark.parametrize("what", ["lost", "quarantined", "worked on"])
def test_task_on_a_node_that_cannot_take_it_back_goes_elsewhere(
    start: Start, kind: OperationKind, what: str
) -> None:
    """It was to start where it was: its node was lost meanwhile, or closed to the tasks that were there before."""
    service = up(start)
    service.gone(1)
    events: dict[str, list[Event]] = {
        "lost": [NodesLost(W0, (0, 1))],
        "quarantined": [NodesClosed("quarantine", ClosureKind.QUARANTINE, ((1, 1),), "ill")],
        "worked on": [*_maintenance(((1, 1),)), MaintenanceMoved("m-1", MaintenancePhase.OPEN)],
    }
    service.fact(*events[what])
    service.broker.begin(kind, 1)
    told = words(service.machine.wait(seconds(2)), *NEW_RUNS)
    assert [(TaskMove(1, 1, -1),)] == [one.tasks for one in told if isinstance(one, PlaceTasks)]
    assert NEVER == [one for one in told if isinstance(one, ReviseClaim)]


def test_task_on_a_drained_node_may_start_there_again(start: Start) -> None:
    """Nothing new is placed there; what is to leave it leaves by an operation of its own."""
    service = up(start)
    service.fact(NodesClosed("d-1", ClosureKind.DRAIN, ((1, 1),), "because"))
    service.broker.begin(OperationKind.RESTART, 1)
    service.report(1, TasksPhase.ENDED, exit_code=143)
    service.fact(TasksGone(*attempt(), (1,)))
    assert [(TaskMove(1, 1, 1),)] == [one.moves for one in service.look(*NEW_RUNS)]


def _maintenance(nodes: tuple[tuple[int, int], ...]) -> list[Event]:
    planned = MaintenancePlanned(
        "m-1",
        MaintenanceKind.REBOOT,
        Scope(ScopeKind.NODE, ("1",)),
        nodes,
        seconds(600),
        seconds(300),
        seconds(300),
    )
    noticed = MaintenanceMoved("m-1", MaintenancePhase.NOTICED)
    return [planned, noticed, NodesClosed("m-1", ClosureKind.MAINTENANCE, nodes, "reboot")]


def stopped_to_return(start: Start) -> Service:
    """A task stopped for the maintenance of its node, to come back when it is over."""
    service = up(start)
    service.fact(*_maintenance(((2, 3),)), MaintenanceMoved("m-1", MaintenancePhase.OPEN))
    service.broker.begin(OperationKind.MOVE, 2, source="m-1", answer=Answer.STOP_AND_RETURN)
    service.report(2, TasksPhase.ENDED, exit_code=143)
    service.look()
    service.fact(TasksGone(*attempt(), (2,)))
    return service


@pytest.mark.parametrize("is_rebooted", [False, True])
def test_task_that_stopped_for_a_maintenance_returns_after_it(start: Start, *, is_rebooted: bool) -> None:
    """T16: to the same node, not before the work is over, and not before the node is back from it."""
    service = stopped_to_return(start)
    if is_rebooted:
        service.fact(NodesLost(W1, (2, 3)))
    assert NEVER == words(service.broker.wait(seconds(300), W0), *NEW_RUNS)
    service.fact(MaintenanceMoved("m-1", MaintenancePhase.OVER))
    if is_rebooted:
        assert NEVER == words(service.broker.wait(seconds(10), W0), *NEW_RUNS)
        service.fact(NodesReturned(W1, (2, 3)))
    assert [(TaskMove(2, 2, 2),)] == [one.moves for one in service.look(*NEW_RUNS)]


@pytest.mark.parametrize("is_over", [False, True])
def test_task_on_a_node_that_is_drained_meanwhile(start: Start, *, is_over: bool) -> None:
    """T16: it does not return, and goes elsewhere without waiting; once that is lifted it returns after all."""
    service = stopped_to_return(start)
    over = MaintenanceMoved("m-1", MaintenancePhase.OVER)
    opened = NodesOpened("m-1", ClosureKind.MAINTENANCE, ((2, 3),))
    if is_over:
        service.fact(over, opened)
    service.machine.hear(AgentPresent(EU, A0))
    service.fact(NodesClosed("d-1", ClosureKind.DRAIN, ((2, 2),), "new PDU"))
    told = service.look(*NEW_RUNS)
    assert [(TaskMove(2, 2, -1),)] == [one.tasks for one in told if isinstance(one, PlaceTasks)]
    assert NEVER == [one for one in told if isinstance(one, ReviseClaim)]
    service.fact(NodesOpened("d-1", ClosureKind.DRAIN, ((2, 2),)), *([] if is_over else [over, opened]))
    told = words(service.broker.wait(PLACE_AGAIN, W0, W1), ReviseClaim)
    assert {(TaskMove(2, 2, 2),)} == {one.moves for one in told}


def test_task_on_a_node_that_is_drained_while_no_other_is_free(start: Start) -> None:
    """T16, T17: no agent finds capacity for it for a minute: it returns when the work is over, for its controller did not agree that it
    leaves.
    """
    service = stopped_to_return(start)
    service.machine.hear(AgentPresent(EU, A0))
    service.fact(NodesClosed("d-1", ClosureKind.DRAIN, ((2, 2),), "new PDU"))
    assert NEVER == words(service.broker.wait(MOVE_PATIENCE, W0, W1), ReviseClaim)
    opened = NodesOpened("m-1", ClosureKind.MAINTENANCE, ((2, 3),))
    service.fact(MaintenanceMoved("m-1", MaintenancePhase.OVER), opened)
    told = words(service.broker.wait(PLACE_AGAIN, W0, W1), ReviseClaim)
    assert {(TaskMove(2, 2, 2),)} == {one.moves for one in told}


def test_task_on_a_node_that_does_not_return_from_its_maintenance(start: Start) -> None:
    """A while after the end it goes elsewhere after all."""
    service = stopped_to_return(start)
    service.fact(NodesLost(W1, (2, 3)), MaintenanceMoved("m-1", MaintenancePhase.OVER))
    assert NEVER == words(service.broker.wait(Nanoseconds(START_SPAN - seconds(1)), W0), *NEW_RUNS)
    service.machine.hear(AgentPresent(EU, A0))
    told = words(service.broker.wait(seconds(1), W0), *NEW_RUNS)
    assert [(TaskMove(2, 2, -1),)] == [one.tasks for one in told]


def test_task_that_stops_for_good(start: Start) -> None:
    """Its share is stopped and what is left of it recorded; the store lets it leave its job then."""
    service = up(start)
    service.broker.begin(OperationKind.STOP, 2)
    assert [2] == [one.task for one in service.look(StopTasks)]
    service.report(2, TasksPhase.ENDED, exit_code=143)
    assert [RecordTasksGone(EU, *attempt(), ((2, 0),))] == service.look(*RECORDS)
    service.fact(TasksGone(*attempt(), (2,)))
    service.moved(2, 2, -1)
    assert NEVER == service.look(*RECORDS, *TO_WORKERS, *NEW_RUNS)
    assert [2] == [one.task for one in said(service.broker.beat(W1, one(2, TasksPhase.ENDED)), EndRecorded)]
    service.broker.beat(W1)
    assert NEVER == service.wait(START_SPAN, *RECORDS, *TO_WORKERS, *NEW_RUNS)


def test_task_that_was_to_stop_for_good_as_its_node_came_back_empty(start: Start) -> None:
    """Nothing ran any more before the word could be followed: it is said all the same, so that the task leaves its job."""
    service = up(start)
    service.fact(NodesLost(W1, (2, 3)))
    service.broker.begin(OperationKind.STOP, 2)
    service.fact(NodesReturned(W1, (2, 3)))
    record = RecordTasksGone(EU, *attempt(), ((2, 0),))
    assert [record] == service.look(*RECORDS, *NEW_RUNS)
    assert {record} == set(service.wait(COMMAND_SAY_AGAIN, *RECORDS, *NEW_RUNS))


# Many at once.


class Unchecked(Machine[Any]):
    """A machine that takes a component's promises for granted: they are checked on small ones."""

    def _decide(self, envelope: Envelope) -> Decision:
        return self.component.decide(self.state, envelope)


def test_many_tasks_that_change_at_once(start: Start) -> None:
    """A thousand on as many nodes, a quarter of which is restarted: a few words to the store, and one a task to workers.

    What is looked at grows with what changes, not with what there is or with its square.
    """
    tasks, nodes = 1000, 100
    ranks = tuple(range(0, tasks, 4))
    claim = a_claim("w-1", placed=dict.fromkeys(range(tasks), 1), kind=Kind.SERVICE)
    machine = Unchecked(RegionBroker(EU))
    workers = {number: WorkerName(f"w{number:02}") for number in range(tasks // nodes)}
    machine.fact(EU_LOG, *(joined(name, nodes * number, nodes) for number, name in workers.items()))
    machine.fact(EU_LOG, granted(claim), GangStarted(*attempt()))
    broker = Broker(machine)
    for number, name in workers.items():
        mine = range(nodes * number, nodes * (number + 1))
        broker.beat(name, *(one(rank, TasksPhase.RUNNING) for rank in mine))
    machine.wait(seconds(1))
    machine.journal.clear()

    broker.begin(OperationKind.RESTART, *ranks)
    told = machine.wait(TASKS_LOOK).messages
    told += step(broker, workers, nodes, ranks, TasksPhase.ENDED, 0)
    machine.fact(EU_LOG, TasksGone(*attempt(), ranks))
    told += machine.wait(TASKS_LOOK).messages
    machine.fact(EU_LOG, ClaimRevised(*attempt(), 1, tuple(TaskMove(rank, rank, rank) for rank in ranks)))
    told += machine.wait(TASKS_LOOK).messages
    told += step(broker, workers, nodes, ranks, TasksPhase.PREPARED, 1)
    told += step(broker, workers, nodes, ranks, TasksPhase.RUNNING, 1)
    count = Counter(type(message).__name__ for message in told)
    assert {"StopTasks": 250, "PrepareTasks": 250, "StartTasks": 250, "EndRecorded": 250} == {
        name: count.pop(name) for name in ("StopTasks", "PrepareTasks", "StartTasks", "EndRecorded")
    }
    assert {"RecordTasksGone", "ReviseClaim", "RecordTasksUp"} == set(count)
    assert max(count.values()) <= 2, count
    looked = [fact.event for fact in machine.journal if isinstance(fact.event, TasksAttended)]
    assert len(looked) <= 12
    assert sum(len(note.again) for note in looked) <= 8 * len(ranks)


def step(
    broker: Broker,
    workers: dict[int, WorkerName],
    nodes: int,
    ranks: tuple[int, ...],
    phase: TasksPhase,
    run: int,
) -> tuple[Message, ...]:
    """Each of these reports, one after the other, and the broker is woken after each; what is said in all."""
    told: tuple[Message, ...] = ()
    for rank in ranks:
        share = one(rank, phase, run, exit_code=143 if phase is TasksPhase.ENDED else 0)
        told += broker.report(workers[rank // nodes], share).messages
        told += broker.machine.wake().messages
    return told + broker.machine.wait(TASKS_LOOK).messages


def test_more_tasks_than_one_word_holds(start: Start) -> None:
    """They are told in several, none of them left out."""
    tasks = 2 * TASKS_AT_ONCE_MAX + 10
    machine = Unchecked(RegionBroker(EU))
    machine.fact(EU_LOG, joined("w0", 0, tasks))
    claim = a_claim("w-1", placed=dict.fromkeys(range(tasks), 1), kind=Kind.SERVICE)
    machine.fact(EU_LOG, granted(claim), GangStarted(*attempt()))
    broker = Broker(machine)
    broker.beat(W0, *(one(rank, TasksPhase.RUNNING) for rank in range(tasks)))
    machine.wait(seconds(1))
    machine.fact(EU_LOG, NodesLost(W0, tuple(range(tasks))))
    told = said(machine.wait(seconds(1)), RecordTasksGone)
    assert all(len(one.tasks) <= TASKS_AT_ONCE_MAX for one in told)
    assert [(rank, 0) for rank in range(tasks)] == sorted(task for one in told for task in one.tasks)
