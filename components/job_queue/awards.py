"""The next step of an active award: messages to its region, and the facts that the region's log justifies.

    region's log shows     the queue
    no attempt             repeats the award; after `AWARD_SPAN`, or to cancel or requeue the workload, withdraws it
    promised or granted    waits; to cancel or requeue the workload, withdraws a promise or orders a stop; sends a
                           changed spec or level of a granted attempt
    not granted, and a     withdraws it
    round moved its pick
    started                records WorkloadBound, otherwise as for a granted attempt
    declined               records AwardReturned: the workload is pending again
    ended                  records AttemptClosed: the workload is pending again, or terminal

With consent that a second attempt may run (components/job_queue/regions.py), every award that has neither been
declined nor ended is closed as abandoned. Silence alone never frees an award: only the region's own log or
recorded consent does.
"""

from msgspec import Struct

from core.events.queue import AttemptClosed, AwardReturned, WorkloadBound, WorkloadCancelled
from core.fact import Event
from core.images.queue import WorkloadRow
from core.images.region import AttemptPhase, AttemptRow
from core.messages.base import Message
from core.messages.broker import ExecuteAward, RankAttempt, StopAttempt, WithdrawAward
from core.messages.control import ChangeAttempt
from core.messages.queue import Bid
from core.nouns.fleet import gpu_type_of
from core.nouns.ids import AgentName, AttemptKey, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import AWARD_SAY_AGAIN, AWARD_SPAN
from core.nouns.pipeline import Forerunner
from core.nouns.placement import View
from core.nouns.workload import NEVER, Consent, EndCause, Kind, Phase
from core.rules.quota import narrowed


class Step(Struct, frozen=True):
    """Events to record, messages to send, and the time of the next look; None: at the next change."""

    events: tuple[Event, ...] = ()
    messages: tuple[Message, ...] = ()
    again_at: Instant | None = None


def settle(
    workload: WorkloadId,
    row: WorkloadRow,
    attempt: AttemptRow | None,
    bid: Bid | None,
    awarded_at: Instant,
    now: Instant,
    run_min: Nanoseconds = NEVER,
    consent: Consent = Consent.NOBODY,
    host: AttemptKey | None = None,
    forerunners: tuple[Forerunner, ...] = (),
) -> Step:
    """Return the next step of one workload.

    attempt   the attempt of the newest epoch in the log of the awarded region
    run_min   the least time that the tenant's work runs before it may be a victim
    consent   the party that agreed to a start elsewhere, although the region may still run the attempt
    host      the attempt to whose GPU it comes; None: it has its own
    forerunners   of a stage of a pipeline, the completed stages before it
    """
    if not row.is_active:
        if row.phase == Phase.PENDING and row.is_cancel_requested:
            return Step(events=(WorkloadCancelled(workload),))
        return Step()
    is_over = attempt is not None and attempt.phase in (AttemptPhase.DECLINED, AttemptPhase.ENDED)
    if consent is not Consent.NOBODY and not is_over:
        return Step(events=(_abandoned(workload, row, attempt, consent),))
    if attempt is None:
        return _unheard(workload, row, bid, awarded_at, now, run_min, host, forerunners)
    if attempt.phase == AttemptPhase.DECLINED:
        returned = AwardReturned(workload, row.epoch, attempt.reason, row.region, attempt.sequence)
        return Step(events=(returned,))
    if attempt.phase == AttemptPhase.ENDED:
        return Step(events=(closed(workload, row, attempt),))
    step = _unwanted(workload, row, attempt, now)
    if not step.messages:
        step = _outdated(workload, row, attempt, now)
    if not step.messages:
        step = _ranked(workload, row, attempt, now)
    if attempt.phase == AttemptPhase.STARTED and row.phase == Phase.AWARDED:
        bound = WorkloadBound(workload, row.epoch, row.region, attempt.sequence)
        return Step((bound,), step.messages, step.again_at)
    return step


def _unheard(
    workload: WorkloadId,
    row: WorkloadRow,
    bid: Bid | None,
    awarded_at: Instant,
    now: Instant,
    run_min: Nanoseconds,
    host: AttemptKey | None,
    forerunners: tuple[Forerunner, ...],
) -> Step:
    """Return the step while the region's log shows no attempt: repeat the award, or withdraw it."""
    again = after(now, AWARD_SAY_AGAIN)
    is_unwanted = row.is_cancel_requested or row.requeued_epoch == row.epoch or _is_of_past_round(row)
    if is_unwanted or after(awarded_at, AWARD_SPAN) <= now:
        return Step((), (_withdraw(workload, row, is_overdue=not is_unwanted),), again)
    return Step((), (_award(workload, row, bid, run_min, host, forerunners),), again)


def _withdraw(workload: WorkloadId, row: WorkloadRow, *, is_overdue: bool) -> WithdrawAward:
    return WithdrawAward(row.region, workload, row.epoch, row.award_sequence, is_overdue)


def _award(
    workload: WorkloadId,
    row: WorkloadRow,
    bid: Bid | None,
    run_min: Nanoseconds,
    host: AttemptKey | None,
    forerunners: tuple[Forerunner, ...],
) -> ExecuteAward:
    return ExecuteAward(
        region=row.region,
        workload=workload,
        epoch=row.epoch,
        award_sequence=row.award_sequence,
        priority=row.level,
        kind=row.spec.kind,
        jobs=narrowed(row.spec.jobs, row.types),
        agent=bid.agent if bid else AgentName(""),
        spreads=bid.spreads if bid else (),
        victims=bid.victims if bid else (),
        view=bid.view if bid else View(0),
        resume_epoch=row.resume_epoch,
        resume_step=row.resume_step,
        grace=row.spec.grace,
        max_duration=row.spec.max_duration,
        tenant=row.spec.tenant,
        control=row.spec.control,
        spec_revision=row.spec_revision,
        failures_max=row.spec.retry.task_failed,
        is_healing=row.is_healing,
        is_incremental=row.spec.is_incremental,
        standing_revision=row.level_revision,
        run_min=run_min,
        beside=host,
        forerunners=forerunners,
    )


def _unwanted(workload: WorkloadId, row: WorkloadRow, attempt: AttemptRow, now: Instant) -> Step:
    """Return the step that ends a promised or granted attempt which is to be cancelled or requeued, or a promised one of a past round."""
    is_to_stop = row.is_cancel_requested or row.requeued_epoch == row.epoch
    is_to_go = attempt.phase == AttemptPhase.PROMISED and _is_of_past_round(row)
    if not (is_to_stop or is_to_go) or attempt.stop_cause:
        return Step()
    again = after(now, AWARD_SAY_AGAIN)
    if attempt.phase == AttemptPhase.PROMISED:
        return Step((), (_withdraw(workload, row, is_overdue=False),), again)
    cause = EndCause.CANCELLED if row.is_cancel_requested else EndCause.REQUEUED
    return Step((), (StopAttempt(row.region, workload, row.epoch, cause),), again)


def _is_of_past_round(row: WorkloadRow) -> bool:
    """Return whether a round has since picked the job for another column, or for none. What is granted already is stopped by task control."""
    if row.spec.kind is not Kind.SHARED:
        return False
    pick = row.pick
    return pick is None or (row.region, row.types) != (pick.region, ((gpu_type_of(pick.gpu_type)[0],),))


def _outdated(workload: WorkloadId, row: WorkloadRow, attempt: AttemptRow, now: Instant) -> Step:
    """Return the step that sends a newer spec to the region; tasks there change as their controller agrees."""
    is_stopping = not attempt.phase.is_live or attempt.stop_cause
    if is_stopping or attempt.spec_revision >= row.spec_revision:
        return Step()
    change = ChangeAttempt(
        row.region, workload, row.epoch, row.spec_revision, narrowed(row.spec.jobs, row.types)
    )
    return Step((), (change,), after(now, AWARD_SAY_AGAIN))


def _ranked(workload: WorkloadId, row: WorkloadRow, attempt: AttemptRow, now: Instant) -> Step:
    """Return the step that sends the attempt's level to the region, if the region has an older one."""
    if not attempt.phase.is_live or attempt.stop_cause or attempt.standing_revision >= row.level_revision:
        return Step()
    rank = RankAttempt(row.region, workload, row.epoch, row.level_revision, row.level)
    return Step((), (rank,), after(now, AWARD_SAY_AGAIN))


def closed(workload: WorkloadId, row: WorkloadRow, attempt: AttemptRow) -> AttemptClosed:
    """Return the queue's fact for an attempt that has ended in its region."""
    cause = EndCause(attempt.end_cause)
    has_saved = attempt.saved_step > 0
    return AttemptClosed(
        workload=workload,
        epoch=row.epoch,
        cause=cause,
        phase=_phase_after(row, cause),
        region=row.region,
        region_sequence=attempt.sequence,
        saved_epoch=row.epoch if has_saved else row.resume_epoch,
        saved_step=attempt.saved_step if has_saved else row.resume_step,
    )


def _abandoned(
    workload: WorkloadId, row: WorkloadRow, attempt: AttemptRow | None, consent: Consent
) -> AttemptClosed:
    """Return the fact that abandons an attempt. Checkpoints that the region reports later do not count."""
    saved = attempt.saved_step if attempt is not None else 0
    return AttemptClosed(
        workload=workload,
        epoch=row.epoch,
        cause=EndCause.ABANDONED,
        phase=Phase.CANCELLED if row.is_cancel_requested else Phase.PENDING,
        region=row.region,
        region_sequence=attempt.sequence if attempt is not None else 0,
        saved_epoch=row.epoch if saved else row.resume_epoch,
        saved_step=saved or row.resume_step,
        consent=consent,
    )


def _phase_after(row: WorkloadRow, cause: EndCause) -> Phase:
    """Return the workload's phase after its attempt. Preemption and node loss never use up the user's retries."""
    if cause == EndCause.COMPLETED:
        return Phase.COMPLETED
    if row.is_cancel_requested or cause == EndCause.CANCELLED:
        return Phase.CANCELLED
    if cause == EndCause.TIMEOUT:
        return Phase.TIMEOUT
    if cause == EndCause.TASK_FAILED and _has_no_retry_left(row):
        return Phase.FAILED
    if cause == EndCause.START_FAILED and row.starts_failed >= row.spec.retry.start_failed:
        return Phase.FAILED
    return Phase.PENDING


def _has_no_retry_left(row: WorkloadRow) -> bool:
    """Return whether a task failure is final. The queue counts a gang's failed attempts.

    The region counts consecutive failures of each independent task, and ends the attempt at the limit.
    """
    limit = row.spec.retry.task_failed
    return limit >= 0 if row.spec.kind == Kind.SERVICE else row.tasks_failed >= limit
