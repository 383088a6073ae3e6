"""How the broker drives attempts: prepare, start, watch, stop, and what it has recorded of them."""

import pytest
from msgspec.structs import replace

from core.component import NOTHING
from core.events.control import DomainLost
from core.events.region import (
    AttemptEnded,
    AwardDeclined,
    CheckpointCommitted,
    GangStarted,
    NodesLost,
    StopOrdered,
)
from core.messages.store import DeclineAward, OrderStop, RecordCheckpoint, RecordEnd, RecordStarted
from core.messages.workers import (
    ISOLATED,
    LOST,
    EndRecorded,
    PrepareTasks,
    StartTasks,
    StopTasks,
    TasksState,
)
from core.nouns.ids import WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import COMMAND_SAY_AGAIN, GRACE, PRESENCE_SILENCE_MAX, PROMISE_SPAN, START_SPAN
from core.nouns.placement import Spread
from core.nouns.reasons import Reason
from core.nouns.workload import USER_EXIT_START_AGAIN, EndCause, Kind
from tests.builders import EU, EU_LOG, a_claim, a_job, a_spread, attempt, granted, joined, promised
from tests.components.support.region_broker import (
    ENDED,
    GANG,
    NEVER,
    PREPARED,
    RUNNING,
    STOPPING,
    W0,
    W1,
    Broker,
    Start,
    a_broker,
    running,
    with_gang,
    words,
)
from tests.matching import said, said_once

# Up.


def test_granted_gang_is_prepared_on_its_workers(start: Start) -> None:
    """Each gets the jobs and its own nodes; the one with the first node leads. Said at the log's sequence."""
    broker = with_gang(start)
    told = said(broker.machine.wake(), PrepareTasks)
    assert [(W0, 3, True), (W1, 3, False)] == [(one.worker, one.sequence, one.is_leader) for one in told]
    assert [(a_spread({1: 2}),), (a_spread({2: 1}),)] == [one.spreads for one in told]
    assert {(WorkloadId("w-1"), 1, GANG.jobs)} == {(one.workload, one.epoch, one.jobs) for one in told}


def test_gang_of_several_jobs_is_cut_by_worker(start: Start) -> None:
    """A job that has nothing on a worker has an empty spread there; the first job's lowest node leads."""
    jobs = (a_job(1, name="main"), a_job(2, name="eval"))
    claim = a_claim("w-1", jobs=jobs, spreads=(a_spread({3: 1}), a_spread({0: 1, 2: 1})))
    told = said(with_gang(start, claim).machine.wake(), PrepareTasks)
    cut = {one.worker: (one.is_leader, one.spreads) for one in told}
    assert {
        W0: (False, (Spread((), ()), a_spread({0: 1}))),
        W1: (True, (a_spread({3: 1}), a_spread({2: 1}))),
    } == cut


def test_ranks_are_numbered_node_by_node(start: Start) -> None:
    """Through all workers of a job: each is told the first rank and the place of each of its nodes."""
    jobs = (a_job(6, name="main"), a_job(1, name="eval"))
    claim = a_claim("w-1", jobs=jobs, spreads=(a_spread({0: 1, 1: 2, 2: 3}), a_spread({3: 1})))
    told = {one.worker: one for one in said(with_gang(start, claim).machine.wake(), PrepareTasks)}
    assert (((0, 1), ()), ((0, 1), ())) == (told[W0].ranks, told[W0].groups)
    assert (((3,), (0,)), ((2,), (0,))) == (told[W1].ranks, told[W1].groups)


def test_parts_of_devices_are_told_by_number(start: Start) -> None:
    """Each worker learns which of its tasks share a device; of whole devices nothing is said."""
    jobs = (a_job(4, 0.4, name="main"), a_job(1, 0.2, name="eval"), a_job(1, 1, name="whole"))
    claim = a_claim("w-1", jobs=jobs, spreads=(a_spread({1: 3, 2: 1}), a_spread({1: 1}), a_spread({1: 1})))
    told = {one.worker: one for one in said(with_gang(start, claim).machine.wake(), PrepareTasks)}
    assert {W0: ((0, 0, 1), (0,), ()), W1: ((0,), (), ())} == {
        worker: command.devices for worker, command in told.items()
    }
    whole = {one.devices for one in said(with_gang(start).machine.wake(), PrepareTasks)}
    assert {()} == whole


def test_guest_is_prepared_beside_its_host(start: Start) -> None:
    """Its worker is told whose device it shares; once the host has ended, the device is its own, and nothing more is said of that."""
    host = replace(a_claim("w-1"), kind=Kind.SHARED)
    guest = replace(host, workload=WorkloadId("w-2"), beside=attempt("w-1"))
    broker = with_gang(start, host)
    broker.machine.wake()
    broker.machine.fact(EU_LOG, granted(guest))
    (told,) = said(broker.machine.wake(), PrepareTasks)
    assert (guest.workload, attempt("w-1")) == (told.workload, told.beside)
    broker.machine.fact(EU_LOG, AttemptEnded(*attempt("w-1"), EndCause.COMPLETED))
    told = said(broker.wait(Nanoseconds(2 * COMMAND_SAY_AGAIN), W0), PrepareTasks)[-1]
    assert (guest.workload, None) == (told.workload, told.beside)


def test_gang_of_programs_learns_where_its_masters_are(start: Start) -> None:
    """Each worker says its address and a port for every rank 0 that it has; all are told all of them."""
    jobs = (a_job(3, name="main"), a_job(1, name="eval"))
    claim = a_claim("w-1", jobs=jobs, spreads=(a_spread({1: 1, 2: 2}), a_spread({3: 1})))
    broker = with_gang(start, claim)
    broker.machine.wake()
    broker.report(W0, replace(PREPARED, host="10.0.0.1", ports=(4000, 0)))
    broker.report(W1, replace(PREPARED, host="10.0.0.2", ports=(0, 5000)))
    told = said(broker.machine.wake(), StartTasks)
    assert [W0, W1] == [one.worker for one in told]
    assert {("10.0.0.1:4000", "10.0.0.2:5000")} == {one.masters for one in told}
    assert {(("10.0.0.1", "10.0.0.2"), ("10.0.0.2",))} == {one.hosts for one in told}


def test_resumed_gang_is_told_its_checkpoint(start: Start) -> None:
    """The checkpoint that its award named."""
    told = said(with_gang(start, replace(GANG, resume_epoch=2, resume_step=70)).machine.wake(), PrepareTasks)
    assert {(2, 70)} == {(one.resume_epoch, one.resume_step) for one in told}


def test_prepare_is_said_again_to_workers_that_have_not_answered(start: Start) -> None:
    """It is sent to no other worker; no worker starts before all are ready."""
    broker = with_gang(start)
    broker.machine.wake()
    broker.report(W0, PREPARED)
    decision = broker.wait(COMMAND_SAY_AGAIN, W0)
    assert {W1} == {one.worker for one in said(decision, PrepareTasks)}
    assert NEVER == words(decision, StartTasks)


def test_gang_starts_when_all_are_prepared(start: Start) -> None:
    """All are told at once, and again those that have not said that they run."""
    broker = with_gang(start)
    broker.machine.wake()
    assert [W0, W1] == [one.worker for one in said(broker.both(PREPARED), StartTasks)]
    broker.report(W1, RUNNING)
    assert {W0} == {one.worker for one in said(broker.wait(COMMAND_SAY_AGAIN, W0, W1), StartTasks)}


def test_start_is_recorded_when_all_run(start: Start) -> None:
    """Not before; and said again until the log shows it."""
    broker = with_gang(start)
    broker.machine.wake()
    broker.both(PREPARED)
    broker.report(W0, RUNNING)
    assert NEVER == words(broker.machine.wake(), RecordStarted)
    broker.report(W1, RUNNING)
    started = RecordStarted(EU, *attempt())
    assert [started] == words(broker.machine.wake())
    assert started in words(broker.wait(COMMAND_SAY_AGAIN, W0, W1))
    broker.machine.fact(EU_LOG, GangStarted(*attempt()))
    assert NEVER == words(broker.wait(Nanoseconds(3 * START_SPAN), W0, W1), RecordStarted, OrderStop)


def test_gang_that_is_not_up_in_time(start: Start) -> None:
    """All stop, and the cause is not the user's."""
    broker = with_gang(start)
    broker.machine.wake()
    broker.report(W0, PREPARED)
    before = broker.wait(Nanoseconds(START_SPAN - COMMAND_SAY_AGAIN), W0, W1)
    assert NEVER == words(before, OrderStop)
    late = broker.wait(Nanoseconds(2 * COMMAND_SAY_AGAIN), W0, W1)
    assert {OrderStop(EU, *attempt(), EndCause.START_FAILED)} == set(said(late, OrderStop))


def test_share_that_is_prepared_no_longer(start: Start) -> None:
    """Its worker started anew and has nothing of it: it is prepared again, for nothing of it ever ran."""
    broker = with_gang(start)
    broker.machine.wake()
    broker.report(W0, PREPARED)
    broker.beat(W0)
    assert [W0, W1] == [one.worker for one in said(broker.machine.wake(), PrepareTasks)]


# Running.


def test_newest_checkpoint_is_recorded(start: Start) -> None:
    """Whoever saved it, until the log shows it."""
    broker = running(start)
    broker.report(W0, replace(RUNNING, saved_step=70))
    record = RecordCheckpoint(EU, *attempt(), 70)
    assert [record] == words(broker.machine.wake())
    assert record in words(broker.wait(COMMAND_SAY_AGAIN, W0, W1))
    broker.machine.fact(EU_LOG, CheckpointCommitted(*attempt(), 70))
    assert NEVER == words(broker.machine.wake())
    broker.report(W0, replace(RUNNING, saved_step=60))
    assert NEVER == words(broker.machine.wake())


@pytest.mark.parametrize("phase", ["running", "stopping", "ended"])
def test_checkpoint_of_the_last_moment_counts(start: Start, phase: str) -> None:
    """M18: saved in the grace, or told with the end: it is recorded before the end is, for afterwards it would be
    refused.
    """
    broker = running(start)
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.PREEMPTED))
    broker.machine.wake()
    last = {"running": RUNNING, "stopping": STOPPING, "ended": replace(ENDED, exit_code=143)}[phase]
    broker.report(W1, replace(ENDED, exit_code=143))
    broker.report(W0, replace(last, saved_step=90))
    decision = broker.machine.wake()
    assert [RecordCheckpoint(EU, *attempt(), 90)] == words(decision, RecordCheckpoint, RecordEnd)
    assert (phase == "running") == bool(words(decision, StopTasks))
    broker.machine.fact(EU_LOG, CheckpointCommitted(*attempt(), 90))
    assert (phase == "ended") == bool(words(broker.machine.wake(), RecordEnd))


def test_checkpoint_of_an_abandoned_attempt_does_not_count(start: Start) -> None:
    """The broker does not wait for it: the attempt goes on elsewhere, and its store records no checkpoint of this one."""
    broker = running(start)
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.ABANDONED, global_sequence=9))
    assert 2 == len(words(broker.machine.wake(), StopTasks))
    for worker in (W0, W1):
        broker.report(worker, replace(ENDED, exit_code=143, saved_step=90))
    end = RecordEnd(EU, *attempt(), EndCause.ABANDONED, 143)
    assert [end] == words(broker.machine.wake(), RecordCheckpoint, RecordEnd)


def test_attempt_that_runs_longer_than_it_may(start: Start) -> None:
    """Counted from its start, not from its grant."""
    broker = running(start, granted(replace(GANG, max_duration=seconds(100))))
    assert NEVER == words(broker.wait(seconds(99), W0, W1), OrderStop)
    late = broker.wait(seconds(1), W0, W1)
    assert {OrderStop(EU, *attempt(), EndCause.TIMEOUT)} == set(said(late, OrderStop))


def test_attempt_completes_when_all_its_shares_have_ended_well(start: Start) -> None:
    """One that has ended waits for the others."""
    broker = running(start)
    broker.report(W0, ENDED)
    assert NEVER == words(broker.machine.wake(), RecordEnd, OrderStop)
    broker.report(W1, ENDED)
    record = RecordEnd(EU, *attempt(), EndCause.COMPLETED)
    assert [record] == words(broker.machine.wake())
    assert record in words(broker.wait(COMMAND_SAY_AGAIN, W0, W1))


@pytest.mark.parametrize(
    ("exit_code", "cause"),
    [
        (1, EndCause.TASK_FAILED),
        (143, EndCause.TASK_FAILED),
        (USER_EXIT_START_AGAIN, EndCause.REQUEUED),
        (LOST, EndCause.NODE_FAILED),
        (ISOLATED, EndCause.NODE_LOST),
    ],
)
def test_share_that_failed_stops_the_rest(start: Start, exit_code: int, cause: EndCause) -> None:
    """By its exit code: the task's own failure, "start me again", a node on which nothing runs any more, or one cut off."""
    broker = running(start)
    broker.report(W1, replace(ENDED, exit_code=exit_code))
    assert [OrderStop(EU, *attempt(), cause)] == words(broker.machine.wake())
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), cause))
    assert [W0] == [one.worker for one in said(broker.machine.wake(), StopTasks)]
    broker.report(W0, replace(ENDED, exit_code=143))
    told = said_once(broker.machine.wake(), RecordEnd)
    assert cause == told.cause


def test_exit_code_of_the_end_is_a_failed_shares(start: Start) -> None:
    """Not that of a share that was stopped for it, when only one has failed by itself."""
    broker = running(start)
    broker.report(W1, replace(ENDED, exit_code=3))
    broker.machine.wake()
    broker.report(W0, ENDED)
    assert RecordEnd(EU, *attempt(), EndCause.TASK_FAILED, 3) == said_once(broker.machine.wake(), RecordEnd)


def test_end_has_the_share_that_failed_first(start: Start) -> None:
    """The exit code and the nodes of the share that was heard to fail first: the others failed because of it, or were stopped."""
    broker = running(start)
    broker.report(W1, replace(ENDED, exit_code=3, failed_nodes=(2,)))
    broker.report(W0, replace(ENDED, exit_code=1, failed_nodes=(1,)))
    assert [RecordEnd(EU, *attempt(), EndCause.TASK_FAILED, 3, (2,))] == words(broker.machine.wake())


@pytest.mark.parametrize(("placed", "blamed"), [({1: 2, 2: 1}, (2,)), ({1: 1, 2: 1, 3: 1}, ())])
def test_share_that_vanished_accuses_its_node(
    start: Start, placed: dict[int, int], blamed: tuple[int, ...]
) -> None:
    """Where its worker had it on one node alone; of several, nobody knows which is to blame."""
    broker = running(start, granted(a_claim("w-1", placed=placed)))
    broker.beat(W1)
    broker.report(W0, replace(ENDED, exit_code=143))
    told = said_once(broker.machine.wake(), RecordEnd)
    assert (EndCause.NODE_FAILED, LOST, blamed) == (told.cause, told.exit_code, told.failed_nodes)


def test_share_that_had_ended_before_its_worker_forgot_it(start: Start) -> None:
    """It ended as it said, whatever became of the node since."""
    broker = running(start)
    broker.report(W1, ENDED)
    broker.beat(W1)
    assert NEVER == words(broker.machine.wake(), OrderStop)
    broker.report(W0, ENDED)
    assert EndCause.COMPLETED == said_once(broker.machine.wake(), RecordEnd).cause


# Down.


def test_order_to_stop_reaches_every_share_at_once(start: Start) -> None:
    """Again those that have not said that they heard; the end is recorded when nothing runs, with the order's cause."""
    broker = running(start)
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.PREEMPTED))
    told = said(broker.machine.wake(), StopTasks)
    sequence = broker.machine.sequence(EU_LOG)
    assert [StopTasks(EU, worker, sequence, *attempt(), GRACE) for worker in (W0, W1)] == told
    broker.report(W0, STOPPING)
    assert {W1} == {one.worker for one in said(broker.wait(COMMAND_SAY_AGAIN, W0, W1), StopTasks)}
    broker.report(W0, replace(ENDED, exit_code=143))
    assert NEVER == words(broker.machine.wake(), RecordEnd)
    broker.report(W1, replace(ENDED, exit_code=143))
    assert EndCause.PREEMPTED == said_once(broker.machine.wake(), RecordEnd).cause


def test_grace_is_the_workloads_own(start: Start) -> None:
    """If it asked for one."""
    broker = running(start, granted(replace(GANG, grace=seconds(5))))
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.PREEMPTED))
    assert {seconds(5)} == {one.grace for one in said(broker.machine.wake(), StopTasks)}


def test_order_to_stop_before_anything_was_prepared(start: Start) -> None:
    """The workers are told all the same: what they do not have they answer as ended, and can never prepare."""
    broker = with_gang(start)
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.CANCELLED))
    decision = broker.machine.wake()
    assert [W0, W1] == [one.worker for one in said(decision, StopTasks)]
    assert NEVER == words(decision, PrepareTasks, RecordEnd)


def test_attempt_that_lost_a_worker(start: Start) -> None:
    """The rest is stopped; the lost one is not waited for."""
    broker = running(start)
    broker.machine.fact(EU_LOG, NodesLost(W1, (2, 3)))
    assert [OrderStop(EU, *attempt(), EndCause.NODE_LOST)] == words(broker.machine.wake())
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.NODE_LOST))
    assert [W0] == [one.worker for one in said(broker.machine.wake(), StopTasks)]
    broker.report(W0, replace(ENDED, exit_code=143))
    assert EndCause.NODE_LOST == said_once(broker.machine.wake(), RecordEnd).cause


def test_attempt_that_lost_all_its_workers(start: Start) -> None:
    """Nothing of it can be reached: its end is recorded."""
    broker = running(start)
    broker.machine.fact(EU_LOG, NodesLost(W0, (0, 1)), NodesLost(W1, (2, 3)))
    assert [RecordEnd(EU, *attempt(), EndCause.NODE_LOST)] == words(broker.machine.wake())


def test_share_that_vanished_from_a_whole_report(start: Start) -> None:
    """It ran, and its worker no longer has it: it ended without a word."""
    broker = running(start)
    broker.beat(W0, RUNNING)
    assert NEVER == words(broker.machine.wake())
    broker.beat(W1)
    assert [OrderStop(EU, *attempt(), EndCause.NODE_FAILED)] == words(broker.machine.wake())


def test_attempt_that_lost_its_workers_as_one_domain(start: Start) -> None:
    """T23: told as one event, it is what the loss of each of them would be."""
    broker = running(start)
    broker.machine.fact(EU_LOG, DomainLost("power-0", (W0, W1), ((0, 3),)))
    assert [RecordEnd(EU, *attempt(), EndCause.NODE_LOST)] == words(broker.machine.wake())


# After the end.


def test_end_that_the_log_shows_is_acknowledged(start: Start) -> None:
    """To every worker that still reports it, each time: until it forgets."""
    broker = running(start)
    broker.both(ENDED)
    broker.machine.fact(EU_LOG, AttemptEnded(*attempt(), EndCause.COMPLETED))
    sequence = broker.machine.sequence(EU_LOG)
    acknowledged = [EndRecorded(EU, worker, sequence, *attempt()) for worker in (W0, W1)]
    assert acknowledged == words(broker.machine.wake())
    assert [acknowledged[0]] == words(broker.beat(W0, ENDED), EndRecorded)
    broker.beat(W0)
    assert NEVER == words(broker.wait(Nanoseconds(5 * COMMAND_SAY_AGAIN), W0), EndRecorded)


@pytest.mark.parametrize("one", [PREPARED, RUNNING, STOPPING], ids=["prepared", "running", "stopping"])
def test_share_of_an_attempt_that_is_over(start: Start, one: TasksState) -> None:
    """Its worker was cut off while it ended: it is stopped as soon as it is heard. So is one that nobody knows."""
    broker = a_broker(start)
    decision = broker.beat(W0, replace(one, epoch=7))
    told = said_once(decision, StopTasks)
    assert (W0, "w-1", 7, broker.machine.sequence(EU_LOG)) == (
        told.worker,
        told.workload,
        told.epoch,
        told.sequence,
    )
    broker.machine.fact(EU_LOG, granted(GANG), AttemptEnded(*attempt(), EndCause.NODE_LOST))
    if one is not STOPPING:
        assert 1 == said_once(broker.report(W0, one), StopTasks).epoch


def test_stop_of_an_ended_attempt_is_said_at_the_pace_of_beats(start: Start) -> None:
    """A worker answers the order with a report: to answer that with the order would go on as fast as the bus is."""
    broker = a_broker(start)
    broker.machine.fact(EU_LOG, granted(GANG), AttemptEnded(*attempt(), EndCause.NODE_LOST))
    for _ in range(2):
        assert 1 == len(words(broker.beat(W0, STOPPING), StopTasks))
        assert NEVER == words(broker.report(W0, STOPPING))


# Promises.


def promise(start: Start) -> Broker:
    """A workload waits for the gang to make room."""
    broker = running(start)
    claim = a_claim("w-2", placed={1: 8}, priority=5, victims=(attempt("w-1"),), award_sequence=4)
    broker.machine.fact(EU_LOG, promised(claim))
    return broker


PREEMPT = OrderStop(EU, *attempt("w-1"), EndCause.PREEMPTED, WorkloadId("w-2"))
BROKEN = DeclineAward(EU, *attempt("w-2"), 4, Reason.PROMISE_BROKEN)


def test_victims_of_a_promise_are_ordered_to_stop(start: Start) -> None:
    """For whom; until the log shows the order, and no longer."""
    broker = promise(start)
    assert [PREEMPT] == words(broker.machine.wake())
    assert PREEMPT in words(broker.wait(COMMAND_SAY_AGAIN, W0, W1))
    broker.machine.fact(EU_LOG, StopOrdered(*attempt("w-1"), EndCause.PREEMPTED, WorkloadId("w-2")))
    assert NEVER == words(broker.wait(Nanoseconds(5 * COMMAND_SAY_AGAIN), W0, W1), OrderStop)


def test_victim_that_stops_for_another_reason(start: Start) -> None:
    """One order is enough: the first cause stands."""
    broker = running(start)
    broker.machine.fact(EU_LOG, StopOrdered(*attempt("w-1"), EndCause.CANCELLED))
    broker.machine.fact(
        EU_LOG, promised(a_claim("w-2", placed={1: 8}, priority=5, victims=(attempt("w-1"),)))
    )
    assert NEVER == words(broker.wait(Nanoseconds(5 * COMMAND_SAY_AGAIN), W0, W1), OrderStop)


def test_promise_that_has_lost_a_node(start: Start) -> None:
    """It is given up, and its victims that were not told are spared."""
    broker = promise(start)
    broker.machine.fact(EU_LOG, joined("w2", 4, 1), NodesLost(W0, (0, 1)))
    decision = broker.machine.wake()
    assert [BROKEN] == words(decision, DeclineAward)
    assert PREEMPT not in words(decision)


def test_promise_that_takes_too_long(start: Start) -> None:
    """Its own deadline: its victims do not stop. Declined until the log shows it."""
    broker = promise(start)
    assert NEVER == words(broker.wait(Nanoseconds(PROMISE_SPAN - COMMAND_SAY_AGAIN), W0, W1), DeclineAward)
    assert BROKEN in words(broker.wait(Nanoseconds(2 * COMMAND_SAY_AGAIN), W0, W1))
    broker.machine.fact(EU_LOG, AwardDeclined(*attempt("w-2"), Reason.PROMISE_BROKEN, 4))
    assert NEVER == words(broker.wait(Nanoseconds(5 * COMMAND_SAY_AGAIN), W0, W1), DeclineAward)


# Starting again.


def test_broker_that_starts_again_while_a_gang_comes_up(start: Start) -> None:
    """It goes on where the log and the workers' reports stand; deadlines count from its start."""
    broker = with_gang(start)
    broker.machine.wake()
    broker.both(PREPARED)
    broker.wait(Nanoseconds(START_SPAN - COMMAND_SAY_AGAIN), W0, W1)
    again = broker.restart()
    assert [W0, W1] == [one.worker for one in said(again.woken, PrepareTasks)]
    again.beat(W0, RUNNING)
    again.beat(W1, PREPARED)
    assert [W1] == [one.worker for one in said(again.machine.wake(), StartTasks)]
    again.beat(W1, RUNNING)
    decision = again.wait(Nanoseconds(START_SPAN - 2 * COMMAND_SAY_AGAIN), W0, W1)
    assert RecordStarted(EU, *attempt()) in words(decision)
    assert NEVER == words(decision, OrderStop)


def test_broker_that_starts_again_while_a_gang_runs(start: Start) -> None:
    """Nothing is said to those that run."""
    again = running(start).restart()
    for worker in (W0, W1):
        again.beat(worker, RUNNING)
    assert NEVER == words(
        again.wait(PRESENCE_SILENCE_MAX, W0, W1), PrepareTasks, StartTasks, StopTasks, OrderStop
    )


def test_broker_that_starts_again_while_a_gang_stops(start: Start) -> None:
    """The order is in the log: whoever has not stopped is told."""
    broker = running(start)
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.CANCELLED))
    again = broker.restart()
    assert [W0, W1] == [one.worker for one in said(again.woken, StopTasks)]


def test_broker_that_starts_again_after_a_share_vanished(start: Start) -> None:
    """At a worker's first whole report: what the log shows started there, and it does not have, has ended."""
    again = running(start).restart()
    again.beat(W0, RUNNING)
    assert NEVER == words(again.machine.wake(), OrderStop)
    again.beat(W1)
    assert [OrderStop(EU, *attempt(), EndCause.NODE_FAILED)] == words(again.machine.wake(), OrderStop)


def test_report_that_was_said_to_the_broker_before(start: Start) -> None:
    """It was long on its way, and says nothing of now: a beat from before the gang started does not end it."""
    broker = running(start)
    again = broker.restart()
    decision = again.beat(W0, order=(1, 0), life=broker.life)
    assert ["BeatHeard"] == [type(one).__name__ for one in decision.messages]
    assert NEVER == words(again.machine.wake(), OrderStop)
    again.report(W0, replace(ENDED, exit_code=1), order=(1, 1), life=broker.life)
    assert NEVER == words(again.machine.wake(), OrderStop)


def test_broker_that_adopts_its_log_again(start: Start) -> None:
    """After a gap that could not be read, the broker finds the missed facts in the image."""
    broker = running(start)
    broker.machine.adopt(EU_LOG, StopOrdered(*attempt(), EndCause.CANCELLED))
    assert [W0, W1] == [one.worker for one in said(broker.machine.wake(), StopTasks)]
    broker.machine.adopt(EU_LOG, AttemptEnded(*attempt(), EndCause.CANCELLED))
    broker.machine.wake()
    assert [W0] == [one.worker for one in said(broker.report(W0, RUNNING), StopTasks)]


def test_nothing_is_said_about_a_running_gang(start: Start) -> None:
    """A gang that runs costs nothing but its workers' beats."""
    broker = running(start)
    assert NOTHING == broker.machine.wake()
