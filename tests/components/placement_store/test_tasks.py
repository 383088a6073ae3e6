"""What becomes of operations and of tasks in a store: how they end, change, fail and run again."""

from typing import Any

from msgspec.structs import replace

from core.component import NOTHING, Decision
from core.events.control import (
    AttemptChanged,
    ClaimRevised,
    ControlForgotten,
    OperationsBegun,
    OperationsDone,
    OperationsStuck,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.queue import AttemptClosed, WorkloadAwarded, WorkloadBound, WorkloadCancelled
from core.events.region import AttemptEnded, GangStarted
from core.images.control import TaskPhase
from core.messages.control import (
    ChangeAttempt,
    FinishOperations,
    ForgetControl,
    MarkStuck,
    RecordTasksDown,
    RecordTasksUp,
)
from core.messages.store import RecordLoss, RecordReturn, RecordStarted
from core.nouns.ids import GLOBAL_LOG, WorkerName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import CONTROL_RETENTION, STUCK_SPAN
from core.nouns.operation import WHOLE, Outcome
from core.nouns.workload import Emulation, EndCause, Kind, Phase
from tests.builders import EU, EU_LOG, US, a_job, attempt
from tests.components.support.machine import Machine
from tests.components.support.placement_store import (
    W1,
    Start,
    a_store,
    agreed,
    begin,
    close,
    consent,
    end,
    fail,
    gone,
    operate,
    revise,
    row_of,
    runs,
    serve,
    stop,
    up,
)
from tests.components.support.store_requests import MOVE, RESTART, START, STOP, kinds
from tests.matching import facts

# Ending.


def test_stuck_alarm(start: Start) -> None:
    """Told once, and not before it has taken long."""
    machine = a_store(start)
    serve(machine)
    agreed(machine, RESTART, 0)
    mark = MarkStuck(EU, *attempt(), (1, 1, 9))
    machine.wait(Nanoseconds(STUCK_SPAN - 1))
    assert NOTHING == machine.hear(mark)
    machine.wait(Nanoseconds(1))
    assert [OperationsStuck(*attempt(), (1,))] == facts(machine.hear(mark))
    assert NOTHING == machine.hear(mark)


def test_impossible_outcomes_of_an_operation_are_not_recorded(start: Start) -> None:
    """T12: healthy only when its task is up after it; withdrawn only before it begins; ignored only at its controller's word."""
    machine = a_store(start)
    serve(machine)
    operate(machine, RESTART, 0, 1)

    def finish(outcome: Outcome) -> Decision:
        return machine.hear(FinishOperations(EU, *attempt(), (1,), outcome))

    for outcome in (Outcome.HEALTHY, Outcome.GONE, Outcome.IGNORED):
        assert NOTHING == finish(outcome), "asked"
    consent(machine, 1)
    for outcome in (Outcome.HEALTHY, Outcome.GONE, Outcome.IGNORED):
        assert NOTHING == finish(outcome), "acked"
    begin(machine, 1)
    for outcome in Outcome:
        assert NOTHING == finish(outcome), "begun"
    withdrawn = FinishOperations(EU, *attempt(), (2, 2, 9), Outcome.WITHDRAWN)
    assert [OperationsDone(*attempt(), (2,), Outcome.WITHDRAWN)] == facts(machine.hear(withdrawn))
    assert NOTHING == machine.hear(withdrawn)


def test_start_of_a_task_that_is_not_wanted_any_more(start: Start) -> None:
    """It was to be, and has no room yet: it is withdrawn though it has begun, and nothing is left of it."""
    machine = a_store(start)
    claim = serve(machine)
    machine.hear(ChangeAttempt(EU, *attempt(), 1, (replace(claim.jobs[0], tasks=5),)))
    agreed(machine, START, 4)
    assert 4 in row_of(machine).tasks
    machine.hear(FinishOperations(EU, *attempt(), (1,), Outcome.WITHDRAWN))
    assert [0, 1, 2, 3] == sorted(row_of(machine).tasks)


def ended_gang(start: Start) -> Machine[Any]:
    """A gang that was moved, and has ended here."""
    machine = a_store(start)
    serve(machine, kind=Kind.TRAINING)
    agreed(machine, MOVE)
    end(machine, cause=EndCause.MOVED)
    return machine


def test_gang_operation_is_over_once_the_queue_shows_it(start: Start) -> None:
    """T12: not by its end here; up elsewhere, it is healthy; ended for good, gone: by the queue's log, whoever says so."""
    healthy = FinishOperations(EU, *attempt(), (1,), Outcome.HEALTHY)
    over = FinishOperations(EU, *attempt(), (1,), Outcome.GONE)
    machine = ended_gang(start)
    close(machine)
    for said in (healthy, over):
        assert NOTHING == machine.hear(said)
    machine.fact(GLOBAL_LOG, WorkloadAwarded(W1, 2, US, 0, ()))
    assert NOTHING == machine.hear(healthy)
    machine.fact(GLOBAL_LOG, WorkloadBound(W1, 2, US, 1))
    assert NOTHING == machine.hear(over)
    assert [OperationsDone(*attempt(), (1,), Outcome.HEALTHY)] == facts(machine.hear(healthy))
    machine = ended_gang(start)
    machine.fact(
        GLOBAL_LOG, AttemptClosed(W1, 1, EndCause.MOVED, Phase.PENDING, EU, 1), WorkloadCancelled(W1)
    )
    assert NOTHING == machine.hear(healthy)
    assert [OperationsDone(*attempt(), (1,), Outcome.GONE)] == facts(machine.hear(over))


def test_control_of_an_ended_gang_is_not_forgotten_too_soon(start: Start) -> None:
    """It is kept for an hour, in which a controller may come back."""
    machine = ended_gang(start)
    forget = ForgetControl(EU, *attempt())
    machine.wait(Nanoseconds(CONTROL_RETENTION - 1))
    assert NOTHING == machine.hear(forget)
    machine.wait(Nanoseconds(1))
    assert [ControlForgotten(*attempt())] == facts(machine.hear(forget))
    assert NOTHING == machine.hear(forget)
    serve(machine, {2: 1}, workload="w-2")
    assert NOTHING == machine.hear(ForgetControl(EU, *attempt("w-2")))


# Changes.


def test_change_counts_when_it_is_newer(start: Start) -> None:
    """And of the same shape: its room was granted for that."""
    machine = a_store(start)
    job = serve(machine).jobs[0]
    other = replace(job, emulation=Emulation(work=seconds(5)))

    def change(revision: int, *jobs: object) -> Decision:
        return machine.hear(ChangeAttempt(EU, *attempt(), revision, jobs))  # type: ignore[arg-type]  # jobs

    assert [AttemptChanged(*attempt(), 2, (other,))] == facts(change(2, other))
    assert NOTHING == change(2, job)
    assert NOTHING == change(1, job)
    for wrong in (
        (),
        (other, other),
        (replace(other, name="x"),),
        (replace(other, gpu_type="A100"),),
        (a_job(4, 2),),
    ):
        assert NOTHING == change(3, *wrong)
    stop(machine)
    end(machine, cause=EndCause.CANCELLED)
    assert NOTHING == change(4, other)


def test_completed_service_of_which_a_task_came_back(start: Start) -> None:
    """A word that all were done, and that is heard late, ends nothing that runs."""
    machine = a_store(start)
    serve(machine)
    fail(machine, 0, 1, 2, cause=EndCause.COMPLETED)
    assert NOTHING == end(machine)
    fail(machine, 3, cause=EndCause.COMPLETED)
    agreed(machine, RESTART, 0)
    revise(machine, (0, 0, 0))
    assert NOTHING == end(machine)
    up(machine, 0)
    assert NOTHING == end(machine)
    fail(machine, 0, cause=EndCause.COMPLETED)
    assert [AttemptEnded] == kinds(end(machine))


# Runs.


def test_words_on_older_runs(start: Start) -> None:
    """A newer run is not taken down by what became of the one before it, nor called up."""
    machine = a_store(start)
    serve(machine)
    old = runs(machine, (0,))
    agreed(machine, RESTART, 0)
    gone(machine, 0)
    revise(machine, (0, 0, 0), agent="")
    assert NOTHING == machine.hear(
        RecordTasksDown(EU, *attempt(), old, EndCause.TASK_FAILED, 1, is_gone=True)
    )
    assert NOTHING == machine.hear(RecordTasksUp(EU, *attempt(), old))
    assert [TasksUp] == kinds(up(machine, 0))[:1]
    assert NOTHING == up(machine, 0)
    assert NOTHING == gone(machine, 0), "it is up"
    for is_gone in (False, True):
        fail(machine, 0, is_gone=is_gone)
        assert NOTHING == up(machine, 0), "nothing was started"


def test_task_that_fails(start: Start) -> None:
    """T13: out of discovery first; what is left of it is told later, or at once."""
    machine = a_store(start)
    serve(machine)
    assert [TasksDown] == kinds(fail(machine, 0, is_gone=False))
    assert NOTHING == fail(machine, 0, is_gone=False)
    assert [TasksGone] == kinds(fail(machine, 0))
    assert NOTHING == fail(machine, 0)
    assert [TasksDown] == kinds(fail(machine, 1))
    assert TaskPhase.GONE == row_of(machine).tasks[1].phase
    assert [0, 1] == row_of(machine).unavailable()


def test_task_that_stops_for_good(start: Start) -> None:
    """Its room is free in the batch in which it is gone; so it is if it was gone before, or its node was lost and is back."""
    machine = a_store(start)
    serve(machine)
    agreed(machine, STOP, 0)
    assert [TasksGone, ClaimRevised, OperationsDone] == kinds(gone(machine, 0))
    fail(machine, 1)
    assert [OperationsBegun, ClaimRevised, OperationsDone] == kinds(agreed(machine, STOP, 1))
    agreed(machine, STOP, 2)
    machine.hear(RecordLoss(EU, WorkerName("w0"), machine.sequence(EU_LOG)))
    back = machine.hear(RecordReturn(EU, WorkerName("w0"), machine.sequence(EU_LOG)))
    assert [ClaimRevised, OperationsDone] == kinds(back)[1:]
    assert [3] == sorted(row_of(machine).tasks)
    assert [8_000, 7_000, 8_000, 8_000] == machine.state.image.capacity.gpu.free


def test_started_gang_of_single_tasks(start: Start) -> None:
    """T12: one that was replaced before all were up is healthy with the rest; what was begun on it is over."""
    machine = a_store(start)
    serve(machine, {0: 1, 1: 1}, is_started=False)
    assert [TaskPhase.STARTING] * 2 == [task.phase for task in row_of(machine).tasks.values()]
    fail(machine, 1, cause=EndCause.NODE_FAILED)
    agreed(machine, START, 1)
    assert [ClaimRevised] == kinds(revise(machine, (1, 1, 2)))
    assert [GangStarted, OperationsDone] == kinds(machine.hear(RecordStarted(EU, *attempt())))
    assert {TaskPhase.UP} == {task.phase for task in row_of(machine).tasks.values()}


def test_gang_that_was_restarted_before_it_was_up(start: Start) -> None:
    """It counts as started once it is up for the first time, whichever run that is; and its operation is over."""
    machine = a_store(start)
    serve(machine, kind=Kind.TRAINING, is_started=False)
    agreed(machine, RESTART)
    gone(machine, WHOLE)
    revise(machine, (WHOLE, -1, -1), agent="")
    assert [GangStarted, OperationsDone] == kinds(up(machine, WHOLE))
    assert (TaskPhase.UP, 1) == (row_of(machine).tasks[WHOLE].phase, row_of(machine).tasks[WHOLE].run)
    assert NOTHING == machine.hear(RecordStarted(EU, *attempt()))
