"""How the broker carries out what happens to tasks that stand alone: each stops, fails and starts while the others run."""

import pytest
from msgspec.structs import replace

from core.events.control import (
    DomainLost,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.region import (
    AttemptEnded,
    CheckpointCommitted,
    GangStarted,
    NodesLost,
    StopOrdered,
)
from core.messages.control import (
    RecordTasksDown,
    RecordTasksGone,
    ReviseClaim,
)
from core.messages.store import OrderStop, RecordCheckpoint, RecordEnd, RecordStarted
from core.messages.workers import (
    ISOLATED,
    LOST,
    EndRecorded,
    PrepareTasks,
    StartTasks,
    StopTasks,
    TasksPhase,
)
from core.nouns.ids import TenantName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import (
    COMMAND_SAY_AGAIN,
    GRACE,
    RESTART_HOLD,
    START_SPAN,
)
from core.nouns.operation import ControlSpec, OperationKind, TaskMove, task_number
from core.nouns.placement import Spread
from core.nouns.workload import USER_EXIT_START_AGAIN, EndCause, Kind
from tests.builders import EU, EU_LOG, a_claim, a_job, a_spread, attempt
from tests.components.support.region_broker import NEVER, W0, W1, Start, words
from tests.components.support.service import (
    NEW_RUNS,
    RECORDS,
    SERVICE,
    TO_WORKERS,
    WORKER,
    Service,
    granted_service,
    one,
    up,
)
from tests.matching import said, said_once

# Coming up.


def test_each_task_is_prepared_alone(start: Start) -> None:
    """On its node, with the ranks that it has in its job; the first of all saves the attempt's checkpoints."""
    told = {one.task: one for one in said(granted_service(start).machine.wake(), PrepareTasks)}
    assert {rank: (worker, 0) for rank, worker in WORKER.items()} == {
        rank: (one.worker, one.run) for rank, one in told.items()
    }
    assert [(a_spread({rank: 1}),) for rank in range(3)] == [told[rank].spreads for rank in range(3)]
    assert [((rank,),) for rank in range(3)] == [told[rank].ranks for rank in range(3)]
    assert [True, False, False] == [told[rank].is_leader for rank in range(3)]
    assert {SERVICE.jobs} == {one.jobs for one in told.values()}


def test_tenant_of_tasks_is_told(start: Start) -> None:
    """So that a worker knows which tenant may read their output."""
    mine = replace(SERVICE, tenant=TenantName("ml"))
    assert {"ml"} == {one.tenant for one in granted_service(start, mine).look(PrepareTasks)}


def test_tasks_of_several_jobs_are_numbered_by_job(start: Start) -> None:
    """A job that a task is not of has an empty spread in its command, and an empty tuple of ranks."""
    jobs = (a_job(2, name="main"), a_job(1, name="cache"))
    claim = a_claim("w-1", jobs=jobs, spreads=(a_spread({0: 2}), a_spread({3: 1})), kind=Kind.SERVICE)
    told = {one.task: one for one in said(granted_service(start, claim).machine.wake(), PrepareTasks)}
    cache, nothing = task_number(1, 0), Spread((), ())
    assert [0, 1, cache] == sorted(told)
    assert ((nothing, a_spread({3: 1})), ((), (0,)), W1) == (
        told[cache].spreads,
        told[cache].ranks,
        told[cache].worker,
    )
    assert ((a_spread({0: 1}), nothing), ((1,), ())) == (told[1].spreads, told[1].ranks)
    assert [0] == [task for task, command in told.items() if command.is_leader]


def test_task_with_a_part_of_a_device_is_told_its_number(start: Start) -> None:
    """The number is that of its own task, whichever of its node's devices others have."""
    jobs = (a_job(1, name="main"), a_job(2, 0.6, name="cache"))
    claim = a_claim("w-1", jobs=jobs, spreads=(a_spread({0: 1}), a_spread({3: 2})), kind=Kind.SERVICE)
    told = {one.task: one for one in said(granted_service(start, claim).machine.wake(), PrepareTasks)}
    assert [(), ((), (0,)), ((), (1,))] == [
        told[task].devices for task in (0, task_number(1, 0), task_number(1, 1))
    ]


def test_tasks_start_together_for_the_first_time(start: Start) -> None:
    """Each is told once all are ready, and again if it does not say that it runs; nobody before."""
    service = granted_service(start)
    service.look()
    service.report(0, TasksPhase.PREPARED)
    service.report(2, TasksPhase.PREPARED)
    assert {(1, "PrepareTasks")} == {
        (one.task, type(one).__name__) for one in service.wait(COMMAND_SAY_AGAIN, *TO_WORKERS)
    }
    service.report(1, TasksPhase.PREPARED)
    assert [0, 1, 2] == sorted(one.task for one in service.look(StartTasks))
    service.report(0, TasksPhase.RUNNING)
    assert {1, 2} == {one.task for one in service.wait(COMMAND_SAY_AGAIN, StartTasks)}


def test_start_of_a_service_is_recorded_once_for_all(start: Start) -> None:
    """As a gang's is; no word about single tasks. Said again until the log shows it, and no longer."""
    service = granted_service(start)
    service.look()
    service.all(TasksPhase.PREPARED)
    service.look()
    service.report(0, TasksPhase.RUNNING)
    service.report(1, TasksPhase.RUNNING)
    assert NEVER == service.look(*RECORDS)
    service.report(2, TasksPhase.RUNNING)
    started = RecordStarted(EU, *attempt())
    assert [started] == service.look()
    service.report(0, TasksPhase.RUNNING, host="10.0.0.1")
    assert NEVER == service.look(*RECORDS)
    assert [started] == service.wait(COMMAND_SAY_AGAIN, *RECORDS)
    service.fact(GangStarted(*attempt()))
    assert NEVER == service.wait(3 * START_SPAN, *RECORDS, *TO_WORKERS)


def test_service_that_is_not_up_in_time(start: Start) -> None:
    """All of it stops, and the cause is not the user's."""
    service = granted_service(start)
    service.look()
    service.report(0, TasksPhase.PREPARED)
    assert NEVER == service.wait(START_SPAN - seconds(1), OrderStop)
    assert {OrderStop(EU, *attempt(), EndCause.START_FAILED)} == set(service.wait(seconds(1), OrderStop))


def test_service_of_which_every_task_fails_while_it_comes_up(start: Start) -> None:
    """Nothing of it has started."""
    service = granted_service(start)
    service.look()
    for rank in WORKER:
        service.report(rank, TasksPhase.ENDED, exit_code=1)
    service.look()
    service.fact(TasksDown(*attempt(), (0, 1, 2), EndCause.TASK_FAILED, 1, is_gone=True))
    assert NEVER == service.wait(START_SPAN - seconds(1), *RECORDS)
    assert {OrderStop(EU, *attempt(), EndCause.START_FAILED)} == set(service.wait(seconds(2), *RECORDS))


@pytest.mark.parametrize("is_lost", [False, True])
def test_service_that_loses_a_task_while_it_comes_up(start: Start, *, is_lost: bool) -> None:
    """One that fails, or whose node is lost, is not waited for: the others start, and it is replaced after that."""
    service = granted_service(start)
    service.look()
    service.report(0, TasksPhase.PREPARED)
    service.report(1, TasksPhase.PREPARED)
    if is_lost:
        service.fact(NodesLost(W1, (2, 3)))
    else:
        service.report(2, TasksPhase.ENDED, exit_code=1)
        assert [
            RecordTasksDown(EU, *attempt(), ((2, 0),), EndCause.TASK_FAILED, 1, is_gone=True)
        ] == service.look(*RECORDS)
        service.gone(2)
    assert [0, 1] == [one.task for one in service.look(StartTasks)]
    service.broker.begin(OperationKind.START, 2)
    service.report(0, TasksPhase.RUNNING)
    service.report(1, TasksPhase.RUNNING)
    told = service.look(RecordStarted, *NEW_RUNS)
    assert [RecordStarted(EU, *attempt())] == told


# Failing.


@pytest.mark.parametrize(
    ("exit_code", "cause"),
    [
        (1, EndCause.TASK_FAILED),
        (USER_EXIT_START_AGAIN, EndCause.REQUEUED),
        (LOST, EndCause.NODE_FAILED),
        (ISOLATED, EndCause.NODE_LOST),
        (0, EndCause.COMPLETED),
    ],
)
def test_task_that_ended_by_itself(start: Start, exit_code: int, cause: EndCause) -> None:
    """T19: it is out of discovery first of all. The others run on; whether it is started again others decide."""
    service = up(start)
    service.report(1, TasksPhase.ENDED, exit_code=exit_code)
    record = RecordTasksDown(EU, *attempt(), ((1, 0),), cause, exit_code, is_gone=True)
    assert [record] == service.look()
    assert {record} == set(service.wait(COMMAND_SAY_AGAIN, *RECORDS, *TO_WORKERS, *NEW_RUNS))
    service.fact(TasksDown(*attempt(), (1,), cause, exit_code, is_gone=True))
    assert NEVER == service.wait(START_SPAN, *RECORDS, *TO_WORKERS, *NEW_RUNS)


def test_worker_may_forget_a_run_that_the_log_shows_gone(start: Start) -> None:
    """Not before: nobody else would know how it ended."""
    service = up(start)
    assert NEVER == service.report(1, TasksPhase.ENDED, exit_code=1)
    assert NEVER == service.look(EndRecorded)
    service.gone(1)
    told = service.look(EndRecorded)
    assert [(W0, 1, 0)] == [(one.worker, one.task, one.run) for one in told]


def test_task_that_vanished_from_a_whole_report(start: Start) -> None:
    """Its node started anew: it failed, and what else its worker has did not."""
    service = up(start)
    service.broker.beat(W0, one(0, TasksPhase.RUNNING))
    record = RecordTasksDown(EU, *attempt(), ((1, 0),), EndCause.NODE_FAILED, LOST, is_gone=True)
    assert [record] == service.look()


def test_tasks_on_nodes_that_are_lost(start: Start) -> None:
    """T19, T23: the log has them out of discovery already; nothing of them can be reached, and that is recorded as one."""
    service = up(start)
    service.fact(DomainLost("power-0", (W0,), ((0, 1),)))
    assert [RecordTasksGone(EU, *attempt(), ((0, 0), (1, 0)))] == service.look()
    service.fact(TasksGone(*attempt(), (0, 1)))
    assert NEVER == words(service.broker.wait(START_SPAN, W1), *RECORDS, *TO_WORKERS, *NEW_RUNS)


def test_strict_tasks_on_nodes_that_are_lost(start: Start) -> None:
    """T26: only once each must have stopped by itself: then nowhere do two runs of one task live."""
    strict = replace(SERVICE, control=ControlSpec(is_strict=True, isolation=seconds(40)))
    service = up(start, strict)
    service.fact(NodesLost(W1, (2, 3)))
    service.broker.begin(OperationKind.MOVE, 2)
    sure = seconds(40) + GRACE
    assert NEVER == words(service.broker.wait(Nanoseconds(sure - seconds(1)), W0), *RECORDS, *NEW_RUNS)
    told = words(service.broker.wait(seconds(1), W0), *RECORDS)
    assert {RecordTasksGone(EU, *attempt(), ((2, 0),))} == set(told)


def test_strict_task_on_a_lost_worker_that_is_heard_again(start: Start) -> None:
    """It is stopped at the first beat; once it says that it ended, nothing is waited for."""
    strict = replace(SERVICE, control=ControlSpec(is_strict=True, isolation=seconds(40)))
    service = up(start, strict)
    service.fact(NodesLost(W1, (2, 3)))
    assert NEVER == service.look(*RECORDS)
    told = said_once(service.broker.beat(W1, one(2, TasksPhase.RUNNING)), StopTasks)
    assert (W1, 2, 0) == (told.worker, told.task, told.run)
    service.broker.beat(W1, one(2, TasksPhase.ENDED, exit_code=143))
    assert [RecordTasksGone(EU, *attempt(), ((2, 0),))] == service.look(*RECORDS)


def test_isolation_is_told_to_the_workers_of_strict_tasks(start: Start) -> None:
    """And to nobody else's."""
    strict = replace(SERVICE, control=ControlSpec(is_strict=True, isolation=seconds(40)))
    assert {seconds(40)} == {one.isolation for one in granted_service(start, strict).look(PrepareTasks)}
    assert {0} == {one.isolation for one in granted_service(start).look(PrepareTasks)}


# Checkpoints.


def test_checkpoint_of_the_last_moment_counts(start: Start) -> None:
    """Told with the end of all: it is recorded before the end is, for afterwards it would be refused."""
    service = up(start)
    service.fact(StopOrdered(*attempt(), EndCause.CANCELLED))
    for rank in WORKER:
        service.report(rank, TasksPhase.ENDED, exit_code=143, saved_step=70 if rank == 0 else 0)
    assert [RecordCheckpoint(EU, *attempt(), 70)] == service.look(RecordCheckpoint, RecordEnd)
    service.fact(CheckpointCommitted(*attempt(), 70))
    assert [RecordEnd(EU, *attempt(), EndCause.CANCELLED)] == service.look()


def test_checkpoint_of_an_abandoned_service_does_not_count(start: Start) -> None:
    """Its store would not record it, so its end is not kept waiting for that."""
    service = up(start)
    service.fact(StopOrdered(*attempt(), EndCause.ABANDONED, global_sequence=9))
    for rank in WORKER:
        service.report(rank, TasksPhase.ENDED, exit_code=143, saved_step=70 if rank == 0 else 0)
    assert [RecordEnd(EU, *attempt(), EndCause.ABANDONED)] == service.look()


@pytest.mark.parametrize("phase", [TasksPhase.RUNNING, TasksPhase.ENDED])
def test_checkpoint_of_the_first_task_is_the_attempts(start: Start, phase: TasksPhase) -> None:
    """Recorded before anything that would make its worker forget it."""
    service = up(start)
    service.report(0, phase, saved_step=70)
    record = RecordCheckpoint(EU, *attempt(), 70)
    assert [record] == service.look()
    assert record in service.wait(COMMAND_SAY_AGAIN)
    service.fact(CheckpointCommitted(*attempt(), 70))
    expected = [RecordTasksDown(EU, *attempt(), ((0, 0),), EndCause.COMPLETED, 0, is_gone=True)]
    assert (expected if phase is TasksPhase.ENDED else NEVER) == service.look()


def test_task_that_starts_again_is_told_the_newest_checkpoint(start: Start) -> None:
    """Its attempt's own, and else what the award named."""
    for saved, told in (((), (4, 40)), ((CheckpointCommitted(*attempt(), 70),), (1, 70))):
        service = up(start, replace(SERVICE, resume_epoch=4, resume_step=40))
        service.fact(*saved)
        service.gone(0)
        service.moved(0, 0, 0)
        assert [told] == [(one.resume_epoch, one.resume_step) for one in service.look(PrepareTasks)]


# The end.


def test_service_of_which_all_tasks_are_done(start: Start) -> None:
    """It completes with the last of them."""
    service = up(start)
    service.gone(0, 1, cause=EndCause.COMPLETED)
    assert NEVER == service.look(*RECORDS)
    service.gone(2, cause=EndCause.COMPLETED)
    record = RecordEnd(EU, *attempt(), EndCause.COMPLETED)
    assert [record] == service.look(*RECORDS)
    assert {record} == set(service.wait(COMMAND_SAY_AGAIN, *RECORDS))
    looked = len(service.machine.heard)
    service.machine.wait(seconds(20))
    assert len(service.machine.heard) - looked <= 30, "it is looked at all the time"


def test_service_of_which_the_last_task_failed(start: Start) -> None:
    """It is not done."""
    service = up(start)
    service.gone(0, 1, cause=EndCause.COMPLETED)
    service.gone(2)
    assert NEVER == service.wait(START_SPAN, *RECORDS)


def test_service_that_is_to_end_is_stopped_whole(start: Start) -> None:
    """Every share of every task; nothing is recorded of single tasks; the end when none runs."""
    service = up(start)
    service.gone(0)
    service.broker.beat(W0, one(1, TasksPhase.RUNNING))
    service.broker.begin(OperationKind.RESTART, 1)
    service.fact(StopOrdered(*attempt(), EndCause.CANCELLED))
    assert [1, 2] == sorted(one.task for one in service.look(StopTasks))
    service.report(1, TasksPhase.ENDED, exit_code=143)
    assert {2} == {one.task for one in service.wait(COMMAND_SAY_AGAIN, StopTasks, *RECORDS, *NEW_RUNS)}
    service.report(2, TasksPhase.ENDED, exit_code=143)
    record = RecordEnd(EU, *attempt(), EndCause.CANCELLED)
    assert [record] == service.look(*RECORDS)
    assert {record} == set(service.wait(COMMAND_SAY_AGAIN, *RECORDS, *TO_WORKERS))
    service.fact(AttemptEnded(*attempt(), EndCause.CANCELLED))
    told = words(service.machine.wake(), EndRecorded)
    assert [(W0, 1), (W1, 2)] == [(one.worker, one.task) for one in told]


@pytest.mark.parametrize("is_strict", [False, True])
def test_service_that_is_to_end_without_a_lost_worker(start: Start, *, is_strict: bool) -> None:
    """Nobody waits for it, unless it is strict: then until all of it must have stopped by itself."""
    spec = ControlSpec(is_strict=is_strict, isolation=seconds(40))
    service = up(start, replace(SERVICE, control=spec))
    service.fact(NodesLost(W1, (2, 3)), StopOrdered(*attempt(), EndCause.CANCELLED))
    assert {W0} == {one.worker for one in service.look(StopTasks)}
    service.report(0, TasksPhase.ENDED, exit_code=143)
    service.report(1, TasksPhase.ENDED, exit_code=143)
    assert is_strict == (NEVER == service.look(RecordEnd))
    told = words(service.broker.wait(Nanoseconds(seconds(40) + GRACE), W0), RecordEnd)
    assert {EndCause.CANCELLED} == {one.cause for one in told}


def test_service_that_runs_longer_than_it_may(start: Start) -> None:
    """Counted from its start, whatever its tasks went through."""
    service = up(start, replace(SERVICE, max_duration=seconds(100)))
    service.gone(1)
    service.moved(1, 1, 1)
    service.fact(TasksUp(*attempt(), (1,)))
    for worker, ranks in ((W0, (0, 1)), (W1, (2,))):
        service.broker.beat(worker, *(one(rank, TasksPhase.RUNNING, int(rank == 1)) for rank in ranks))
    assert NEVER == service.wait(seconds(99), *RECORDS)
    assert {OrderStop(EU, *attempt(), EndCause.TIMEOUT)} == set(service.wait(seconds(1), *RECORDS))


# Runs that are over.


def test_run_before_is_stopped_wherever_it_is(start: Start) -> None:
    """T26: its worker was cut off while its task was moved: it stops, and what it says counts for nothing."""
    service = up(start)
    service.fact(NodesLost(W1, (2, 3)), TasksGone(*attempt(), (2,)))
    service.moved(2, 2, 1)
    service.look()
    told = said_once(service.broker.beat(W1, one(2, TasksPhase.RUNNING)), StopTasks)
    assert (W1, 2, 0) == (told.worker, told.task, told.run)
    ended = service.broker.beat(W1, one(2, TasksPhase.ENDED, exit_code=143))
    assert [(W1, 2, 0)] == [(one.worker, one.task, one.run) for one in said(ended, EndRecorded)]
    assert NEVER == service.look(*RECORDS)


def test_run_of_a_task_that_is_gone(start: Start) -> None:
    """It comes back from a worker that was lost, or is none that the log knows: it is stopped, and forgotten once it is not told."""
    service = up(start)
    service.fact(NodesLost(W1, (2, 3)), TasksGone(*attempt(), (2,)))
    for run in (0, 7):
        told = said_once(service.broker.beat(W1, one(2, TasksPhase.RUNNING, run)), StopTasks)
        assert (W1, 2, run) == (told.worker, told.task, told.run)
    service.broker.beat(W1)
    assert [] == service.machine.state.shares.at(W1)
    assert NEVER == service.look(*RECORDS)


def test_share_that_belongs_to_no_task(start: Start) -> None:
    """Whoever has it stops it."""
    service = up(start)
    for wrong in (replace(one(0, TasksPhase.RUNNING), task=-1), one(9, TasksPhase.RUNNING)):
        told = said_once(service.broker.report(W0, wrong), StopTasks)
        assert wrong.task == told.task
    assert NEVER == service.look(*RECORDS)


# Starting again.


def test_broker_that_starts_again_looks_at_every_task(start: Start) -> None:
    """It goes on in each task's phase: starts, stops and new runs that are called for are said, and nobody else is touched."""
    service = up(start)
    service.broker.begin(OperationKind.RESTART, 0)
    service.gone(1)
    service.broker.begin(OperationKind.START, 1, first=2)
    service.gone(2)
    service.moved(2, 2, 2)
    again = Service(service.broker.restart())
    told = words(again.broker.woken, *TO_WORKERS, *RECORDS)
    assert [(StopTasks, 0, 0), (PrepareTasks, 2, 1)] == [(type(one), one.task, one.run) for one in told]
    told = words(again.machine.wait(RESTART_HOLD), ReviseClaim)
    assert {(TaskMove(1, 1, 1),)} == {one.moves for one in told}


def test_broker_that_starts_again_while_a_service_runs(start: Start) -> None:
    """Nothing is said of what runs; what a worker's first whole report lacks has ended."""
    again = Service(up(start).broker.restart())
    again.broker.beat(W1, one(2, TasksPhase.RUNNING))
    assert NEVER == again.look(*TO_WORKERS, *RECORDS)
    again.broker.beat(W0, one(1, TasksPhase.RUNNING))
    record = RecordTasksDown(EU, *attempt(), ((0, 0),), EndCause.NODE_FAILED, LOST, is_gone=True)
    assert [record] == again.look(*RECORDS)


def test_broker_that_starts_again_while_a_service_comes_up(start: Start) -> None:
    """Whoever is prepared starts once all that are to start are; it has as long as from a grant."""
    service = granted_service(start)
    service.look()
    service.all(TasksPhase.PREPARED)
    service.look()
    service.report(0, TasksPhase.RUNNING)
    again = Service(service.broker.restart())
    assert [0, 1, 2] == sorted(one.task for one in words(again.broker.woken, PrepareTasks))
    again.report(0, TasksPhase.RUNNING)
    again.report(1, TasksPhase.PREPARED)
    assert NEVER == again.look(StartTasks)
    again.report(2, TasksPhase.PREPARED)
    assert [1, 2] == sorted(one.task for one in again.look(StartTasks))
    assert NEVER == again.wait(START_SPAN - seconds(2), OrderStop)


def test_broker_that_starts_again_while_a_task_comes_up(start: Start) -> None:
    """A worker that has nothing of its next run yet has lost nothing: it is told to prepare it."""
    service = up(start)
    service.gone(2)
    service.moved(2, 2, 2)
    again = Service(service.broker.restart())
    again.broker.beat(W1)
    assert NEVER == again.look(*RECORDS)
    assert [2] == [one.task for one in words(again.broker.woken, PrepareTasks)]


def test_broker_with_an_end_in_its_adopted_log(start: Start) -> None:
    """Its tasks are not looked after any more."""
    service = up(start)
    service.machine.adopt(
        EU_LOG, StopOrdered(*attempt(), EndCause.CANCELLED), AttemptEnded(*attempt(), EndCause.CANCELLED)
    )
    assert NEVER == service.look(*RECORDS, *TO_WORKERS)
    told = service.report(0, TasksPhase.ENDED, exit_code=143)
    assert [0] == [one.task for one in told if isinstance(one, EndRecorded)]


def test_broker_that_adopts_its_log_again(start: Start) -> None:
    """The facts of the gap are in the image."""
    service = up(start)
    service.machine.adopt(EU_LOG, TasksDown(*attempt(), (1,), EndCause.START_FAILED))
    told = service.look(StopTasks)
    assert [(W0, 1)] == [(one.worker, one.task) for one in told]
