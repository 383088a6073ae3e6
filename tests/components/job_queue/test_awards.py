"""What becomes of an award: said until the region's log shows an answer, and freed by that log alone."""

import pytest

from core.component import NOTHING
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadsForgotten,
)
from core.events.region import AttemptsForgotten, CheckpointCommitted, GangStarted, StopOrdered
from core.messages.base import LogHeard, LogSilent
from core.messages.broker import ExecuteAward, StopAttempt, WithdrawAward
from core.messages.queue import CancelWorkload, RequeueWorkload, ShowWorkload, SubmitWorkload
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import AWARD_SAY_AGAIN, AWARD_SPAN, BLOCKED_INTERVAL, FORGET_INTERVAL, RETENTION
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Kind, Phase, RetryLimits
from tests.builders import EU, EU_LOG, US, US_LOG, a_claim, a_job, a_spec, attempt, joined, promised
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    asked,
    awarded,
    declined,
    ended,
    grant,
    happens,
    running,
    shown,
    submit,
)
from tests.matching import all_of, facts, kinds_said, said, said_once


def test_award_is_said_again_until_it_is_answered(start: Start) -> None:
    """The same words each time: hearing them twice changes nothing."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    first = said_once(machine.wake(), ExecuteAward)
    assert NOTHING == machine.wait(Nanoseconds(AWARD_SAY_AGAIN - 1))
    assert first == said_once(machine.wait(Nanoseconds(1)), ExecuteAward)
    machine.fact(EU_LOG, grant())
    assert [] == said(machine.wait(Nanoseconds(10 * AWARD_SPAN)), ExecuteAward)


def test_award_that_is_not_answered_in_time(start: Start) -> None:
    """It is asked back, for being overdue, for ever: silence never frees it, whatever else is free."""
    machine = a_job_queue(start)
    submit(machine)
    award = awarded(machine)
    before = machine.wait(Nanoseconds(AWARD_SPAN - 1))
    assert {"ExecuteAward"} == set(kinds_said(before))
    sequence = machine.state.image.workloads.rows[W1].award_sequence
    withdraw = WithdrawAward(EU, W1, award.epoch, sequence, is_overdue=True)
    machine.hear(LogSilent(EU_LOG))
    machine.wake()
    after_it = machine.wait(Nanoseconds(100 * AWARD_SPAN))
    assert {"WithdrawAward"} == set(kinds_said(after_it))
    assert {withdraw} == set(said(after_it, WithdrawAward))
    assert [] == facts(after_it)
    assert Phase.AWARDED == shown(machine).phase


def test_award_that_is_answered_after_it_was_asked_back(start: Start) -> None:
    """The region was faster: a grant is a grant."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.wait(Nanoseconds(2 * AWARD_SPAN))
    assert [WorkloadBound(W1, 1, EU, 3)] == happens(machine, grant(), GangStarted(*attempt()))
    assert NOTHING == machine.wait(Nanoseconds(2 * AWARD_SPAN))


def test_award_that_is_declined(start: Start) -> None:
    """M22: pending again, with the region's reason; the next award has the next epoch."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.fact(EU_LOG, declined(reason=Reason.CONFLICTS_EXHAUSTED))
    returned = AwardReturned(W1, 1, Reason.CONFLICTS_EXHAUSTED, EU, 2)
    assert [returned] == facts(machine.hear_due_once())
    assert Phase.PENDING == shown(machine).phase
    assert 2 == awarded(machine).epoch


def test_award_that_waits_for_victims(start: Start) -> None:
    """A promise is an answer: nothing is said while its own deadline runs."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.fact(EU_LOG, promised(a_claim("w-1")))
    assert [] == [*facts(machine.wake()), *machine.wait(Nanoseconds(5 * AWARD_SPAN)).messages]


def test_granted_attempt_is_bound_once_all_its_tasks_run(start: Start) -> None:
    """M21, N6: not before, and once."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    assert [] == happens(machine, grant())
    assert Phase.AWARDED == shown(machine).phase
    assert [WorkloadBound(W1, 1, EU, 3)] == happens(machine, GangStarted(*attempt()))
    assert [] == happens(
        machine, CheckpointCommitted(*attempt(), 5), StopOrdered(*attempt(), EndCause.TASK_FAILED)
    )


def test_cancel_while_a_gang_comes_up_is_said_until_it_is_heard(start: Start) -> None:
    """Also once the gang has started, which is recorded in between: the first word may have been lost."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    happens(machine, grant())
    assert [StopAttempt(EU, W1, 1, EndCause.CANCELLED)] == said(
        machine.hear(CancelWorkload(W1)), StopAttempt
    ) + said(machine.wake(), StopAttempt)
    assert [WorkloadBound(W1, 1, EU, 3)] == happens(machine, GangStarted(*attempt()))
    again = said(machine.wait(Nanoseconds(3 * AWARD_SAY_AGAIN)), StopAttempt)
    assert len(again) >= 2


@pytest.mark.parametrize(
    ("cause", "phase"),
    [
        (EndCause.COMPLETED, Phase.COMPLETED),
        (EndCause.TASK_FAILED, Phase.FAILED),
        (EndCause.START_FAILED, Phase.FAILED),
        (EndCause.TIMEOUT, Phase.TIMEOUT),
        (EndCause.CANCELLED, Phase.CANCELLED),
        (EndCause.PREEMPTED, Phase.PENDING),
        (EndCause.NODE_LOST, Phase.PENDING),
        (EndCause.REQUEUED, Phase.PENDING),
    ],
)
@pytest.mark.parametrize("has_started", [False, True], ids=["granted", "running"])
def test_attempts_end_is_the_workloads_by_its_cause(
    start: Start, cause: EndCause, phase: Phase, *, has_started: bool
) -> None:
    """With no retries: what is the user's own ends it, what befell it does not."""
    machine = a_job_queue(start)
    submit(machine, a_spec(retry=RetryLimits(task_failed=0, start_failed=0)))
    awarded(machine)
    if has_started:
        running(machine)
    else:
        machine.fact(EU_LOG, grant())
    machine.fact(EU_LOG, ended(cause))
    sequence = machine.sequence(EU_LOG)
    assert [AttemptClosed(W1, 1, cause, phase, EU, sequence)] == facts(machine.hear_due_once())
    assert phase == shown(machine).phase
    assert (phase == Phase.PENDING) == bool(asked(machine.wake()))


@pytest.mark.parametrize(
    ("cause", "retries", "phases"),
    [
        (EndCause.TASK_FAILED, RetryLimits(task_failed=2), [Phase.PENDING, Phase.PENDING, Phase.FAILED]),
        (EndCause.START_FAILED, RetryLimits(0, start_failed=1), [Phase.PENDING, Phase.FAILED]),
        (EndCause.PREEMPTED, RetryLimits(0, 0), [Phase.PENDING] * 4),
        (EndCause.NODE_LOST, RetryLimits(0, 0), [Phase.PENDING] * 4),
        (EndCause.REQUEUED, RetryLimits(0, 0), [Phase.PENDING] * 4),
    ],
)
def test_retries_are_counted_by_cause(
    start: Start, cause: EndCause, retries: RetryLimits, phases: list[Phase]
) -> None:
    """Preemption and loss never count; each epoch is the next."""
    machine = a_job_queue(start)
    submit(machine, a_spec(regions=(EU,), retry=retries))
    found: list[Phase] = []
    for epoch in range(1, len(phases) + 1):
        assert epoch == awarded(machine).epoch
        running(machine, epoch)
        machine.fact(EU_LOG, ended(cause, epoch))
        found.extend(
            event.phase for event in facts(machine.hear_due_once()) if isinstance(event, AttemptClosed)
        )
    assert phases == found


@pytest.mark.parametrize(("limit", "phase"), [(0, Phase.FAILED), (3, Phase.FAILED), (-1, Phase.PENDING)])
def test_service_with_a_task_that_failed_too_often(start: Start, limit: int, phase: Phase) -> None:
    """Its region has counted that task's failures, and is told how many there may be: they are not granted once more."""
    machine = a_job_queue(start)
    spec = a_spec(regions=(EU,), retry=RetryLimits(task_failed=limit), kind=Kind.SERVICE)
    submit(machine, spec)
    awarded(machine)
    assert [limit] == [told.failures_max for told in said(machine.wake(), ExecuteAward)]
    running(machine)
    machine.fact(EU_LOG, ended(EndCause.TASK_FAILED))
    closed = facts(machine.hear_due_once())
    assert [phase] == [event.phase for event in closed if isinstance(event, AttemptClosed)]


def test_failures_of_one_cause_do_not_count_for_another(start: Start) -> None:
    """A start that failed is not the user's retry."""
    machine = a_job_queue(start)
    submit(machine, a_spec(regions=(EU,), retry=RetryLimits(task_failed=1, start_failed=1)))
    for epoch, cause in enumerate((EndCause.START_FAILED, EndCause.TASK_FAILED), 1):
        awarded(machine)
        running(machine, epoch)
        machine.fact(EU_LOG, ended(cause, epoch))
        machine.hear_due_once()
        assert Phase.PENDING == shown(machine).phase


def test_next_attempt_resumes_the_newest_checkpoint(start: Start) -> None:
    """M18, M25: the newest checkpoint that the region recorded, also past attempts that saved nothing."""
    machine = a_job_queue(start)
    submit(machine, a_spec(regions=(EU,)))
    awarded(machine)
    running(machine)
    machine.fact(EU_LOG, CheckpointCommitted(*attempt(), 700), ended(EndCause.PREEMPTED))
    [closed] = facts(machine.hear_due_once())
    assert isinstance(closed, AttemptClosed)
    assert (1, 700) == (closed.saved_epoch, closed.saved_step)
    award = awarded(machine)
    assert (2, 1, 700) == (award.epoch, award.resume_epoch, award.resume_step)
    told = said_once(machine.wake(), ExecuteAward)
    assert (1, 700) == (told.resume_epoch, told.resume_step)
    machine.fact(EU_LOG, grant(2), ended(EndCause.NODE_LOST, 2))
    machine.hear_due_once()
    award = awarded(machine)
    assert (3, 1, 700) == (award.epoch, award.resume_epoch, award.resume_step)


def test_workload_keeps_its_place_when_its_attempt_ends(start: Start) -> None:
    """Who came later is not served before it."""
    machine = a_job_queue(start)
    submit(machine, a_spec(regions=(EU,)))
    awarded(machine)
    submit(machine, a_spec(a_job(1, 2), regions=(EU,)))
    machine.fact(EU_LOG, grant(), ended(EndCause.PREEMPTED))
    assert ["w-1", "w-2"] == [workload for workload, _ in asked(machine.wake())]


def test_end_is_absorbing(start: Start) -> None:
    """Whatever is told of it afterwards, nothing is recorded."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    happens(machine, grant(), ended(EndCause.COMPLETED))
    assert [] == happens(machine, grant(2), ended(EndCause.TASK_FAILED, 2))
    for message in (CancelWorkload(W1), RequeueWorkload(W1, 1)):
        assert [] == facts(machine.hear(message))
    assert [] == facts(machine.wait(Nanoseconds(10 * AWARD_SPAN)))


def test_attempt_of_another_epoch_is_no_answer(start: Start) -> None:
    """What the region's log shows of the attempt before says nothing of this one."""
    machine = a_job_queue(start)
    submit(machine, a_spec(regions=(EU,)))
    awarded(machine)
    running(machine)
    machine.fact(EU_LOG, ended(EndCause.PREEMPTED))
    machine.hear_due_once()
    awarded(machine)
    assert [ExecuteAward] == [type(told) for told in machine.wake().messages]
    assert [] == facts(machine.wait(AWARD_SAY_AGAIN))


def test_award_in_another_region_is_no_answer(start: Start) -> None:
    """Each award is answered by its own region's log."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine, US)
    assert [] == happens(machine, grant(), GangStarted(*attempt()))
    assert US == said_once(machine.wait(AWARD_SAY_AGAIN), ExecuteAward).region


def test_silent_region_keeps_its_awards(start: Start) -> None:
    """And what runs there runs on; heard again, its log tells what happened meanwhile."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    machine.hear(LogSilent(EU_LOG))
    assert [] == facts(machine.wait(seconds(3600)))
    assert (Phase.RUNNING, EU) == (shown(machine).phase, shown(machine).region)
    machine.hear(LogHeard(EU_LOG))
    assert [AttemptClosed] == [type(event) for event in happens(machine, ended(EndCause.COMPLETED))]


# Starting again.


def test_award_when_the_queue_starts_again(start: Start) -> None:
    """It stands, and is said; how it was bid is forgotten, so the region searches anew. Its span counts from now."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.wait(Nanoseconds(AWARD_SPAN - 1))
    again = machine.restart()
    told = said_once(again.wake(), ExecuteAward)
    assert ("", (), 1) == (told.agent, told.spreads, told.epoch)
    assert [] == said(again.wait(Nanoseconds(AWARD_SPAN - 1)), WithdrawAward)
    assert {"WithdrawAward"} == set(kinds_said(again.wait(AWARD_SPAN)))


def test_award_when_the_queue_starts_before_its_region_is_known(start: Start) -> None:
    """It stands: what the region's log shows is found once it is known."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.unknown = (EU_LOG, US_LOG)
    again = machine.restart()
    assert [] == facts(again.wake())
    again.adopt(EU_LOG, grant(), GangStarted(*attempt()), ended(EndCause.COMPLETED))
    assert [AttemptClosed] == [type(event) for event in facts(again.wake())]


def test_award_when_its_regions_log_is_adopted_again(start: Start) -> None:
    """After a gap that could not be read, the queue finds the award's outcome in the image."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    machine.adopt(EU_LOG, ended(EndCause.COMPLETED))
    assert [AttemptClosed] == [type(event) for event in facts(machine.wake())]


def test_order_when_the_queue_starts_again(start: Start) -> None:
    """It is the order before: by priority, then first come, without what is held, awarded or ended."""
    machine = a_job_queue(start)
    for priority in (3, 5, 3, 6):
        submit(machine, a_spec(priority=priority, regions=(EU,)))
    wanted = asked(machine.wake())
    assert wanted == asked(machine.restart().wake())
    assert ["w-4", "w-2", "w-1", "w-3"] == [workload for workload, _ in wanted]


# Forgetting.


def test_ended_workload_is_forgotten_after_its_retention(start: Start) -> None:
    """Not sooner; its key is free again, its number is not; asked for, nobody knows it."""
    machine = a_job_queue(start)
    submit(machine, key="k")
    machine.hear(CancelWorkload(W1))
    assert [] == facts(machine.wait(Nanoseconds(RETENTION - 1)))
    assert [WorkloadsForgotten((W1,))] == facts(machine.wait(Nanoseconds(1)))
    assert Reason.UNKNOWN_WORKLOAD == machine.hear(ShowWorkload(W1)).messages[0].reason  # type: ignore[attr-defined]
    assert W2 == submit(machine, key="k")


def test_ended_workload_with_attempts_that_its_region_remembers(start: Start) -> None:
    """It is kept until the region's log shows them forgotten, and then leaves when it is looked at again."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    happens(machine, ended(EndCause.COMPLETED))
    assert [] == facts(machine.wait(Nanoseconds(RETENTION + 3 * FORGET_INTERVAL)))
    machine.fact(EU_LOG, AttemptsForgotten((attempt(),), machine.sequence(GLOBAL_LOG)))
    assert [WorkloadsForgotten((W1,))] == facts(machine.wait(BLOCKED_INTERVAL))


def test_workload_that_has_not_ended_is_never_forgotten(start: Start) -> None:
    """However old it is."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    assert [] == facts(machine.wait(Nanoseconds(3 * RETENTION)))


def test_retention_counts_from_the_end_across_a_restart(start: Start) -> None:
    """It is in the log when a workload ended."""
    machine = a_job_queue(start)
    submit(machine)
    machine.hear(CancelWorkload(W1))
    machine.wait(Nanoseconds(RETENTION // 2))
    again = machine.restart()
    assert [] == facts(again.wait(Nanoseconds(RETENTION // 2 - 1)))
    assert [WorkloadsForgotten((W1,))] == facts(again.wait(Nanoseconds(1)))


def test_cancelled_workload_is_forgotten_by_a_queue_that_started_later(start: Start) -> None:
    """It was running when the user cancelled it: nothing is left of the wish when a region is adopted anew."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    machine.hear(CancelWorkload(W1))
    happens(machine, ended(EndCause.CANCELLED))
    again = machine.restart()
    again.wake()
    again.fact(EU_LOG, AttemptsForgotten((attempt(),), again.sequence(GLOBAL_LOG)))
    assert [WorkloadsForgotten((W1,))] == facts(again.wait(Nanoseconds(RETENTION + FORGET_INTERVAL)))
    again.adopt(EU_LOG, joined("w9", 8, 1))
    assert [] == facts(again.wake())


def test_wish_to_cancel_when_the_queue_starts_between_its_facts(start: Start) -> None:
    """The award was returned and the end not recorded yet: the next queue records it, and later forgets it."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.hear(CancelWorkload(W1))
    machine.fact(EU_LOG, declined(reason=Reason.WITHDRAWN))
    assert [AwardReturned] == [type(event) for event in facts(machine.hear_due_once())]
    again = machine.restart()
    assert [WorkloadCancelled(W1)] == facts(again.wake())
    again.fact(EU_LOG, AttemptsForgotten((attempt(),), again.sequence(GLOBAL_LOG)))
    again.wait(Nanoseconds(RETENTION + FORGET_INTERVAL))
    again.adopt(EU_LOG, joined("w9", 8, 1))
    assert [] == facts(again.wake())


def test_whole_life_of_a_workload(start: Start) -> None:
    """From submission to its end, as its facts tell it."""
    machine = a_job_queue(start)
    begun = len(machine.logs[GLOBAL_LOG])
    machine.hear(SubmitWorkload(a_spec(), "ada"))
    awarded(machine)
    said_all = all_of([machine.wake()])
    running(machine)
    happens(machine, ended(EndCause.COMPLETED))
    kinds = [type(fact.event).__name__ for fact in machine.logs[GLOBAL_LOG][begun:]]
    assert ["WorkloadSubmitted", "WorkloadAwarded", "WorkloadBound", "AttemptClosed"] == kinds
    assert 1 == len(said(said_all, ExecuteAward))
    assert 1 == len([fact for fact in machine.logs[GLOBAL_LOG] if isinstance(fact.event, WorkloadAwarded)])
