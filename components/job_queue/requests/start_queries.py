"""Answers to queries about starts, of waiting workloads and of tested submissions. Queries change no state."""

from collections.abc import Callable, Iterator

from components.job_queue.requests.queries import Known, UserAnswers
from components.job_queue.reservations import promised_in
from components.job_queue.start_estimates import estimated_start, estimator_of, walked, would_stand
from components.job_queue.state.queue_state import QueueState, eligible
from components.job_queue.state.wait_index import Ahead, Estimator
from components.replies import answered
from core.component import Decision
from core.estimating.bands import StartEstimate
from core.estimating.family import family_of
from core.estimating.prediction import predicted
from core.images.queue import WorkloadRow
from core.messages.base import Envelope, Message
from core.messages.starts import (
    ListedStart,
    ListStarts,
    PredictionError,
    PredictionTally,
    StartsListed,
    SubmissionTested,
    TestSubmission,
)
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import STARTS_LISTED_MAX
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import MILLI
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import Kind, Phase, WorkloadSpec
from core.ranking.scan import QuotaClass, Ranked
from core.rules.ownership import owns
from core.rules.quota import level_asked
from core.rules.shared_rounds import next_round_at

HEARD_OF_STARTS: tuple[type[Message], ...] = (TestSubmission, ListStarts)
Refusal = Callable[[QueueState, WorkloadSpec], Decision | None]


class StartAnswers:
    """The queue's deciders for queries about starts."""

    def __init__(self, regions: tuple[RegionName, ...], refusal: Refusal) -> None:
        """refusal   returns the answer by which a submission would be refused, if so"""
        self._answers = UserAnswers(regions)
        self._refusal = refusal
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            TestSubmission: self._test,
            ListStarts: self._list,
        }

    def _test(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, TestSubmission)
        spec = message.spec
        refusal = self._refusal(state, spec)
        if refusal is not None:
            return refusal
        level, quota_class = would_stand(state, spec, envelope.at)
        is_shared = spec.kind is Kind.SHARED
        tested = SubmissionTested(
            ahead=0 if is_shared else state.waits.ahead_of(level),
            standing=quota_class.text if state.image.tenants.rows and not is_shared else "",
            regions=eligible(state, spec),
            start=estimated_start(state, spec, envelope.at),
            prediction=predicted(state.image.history.runs, spec, family_of(spec.name)),
            round_in=_next_round_in(state, envelope.at) if is_shared else Nanoseconds(-1),
        )
        return answered(tested)

    def _list(self, state: QueueState, envelope: Envelope) -> Decision:
        """Return the first waiting workloads in queue order that the sender owns, and the accuracy of earlier estimates."""
        message = envelope.message
        assert isinstance(message, ListStarts)
        now, estimator = envelope.at, estimator_of(state, envelope.at)
        count_max = min(max(1, message.count_max), STARTS_LISTED_MAX)
        known: Known = {}
        where: dict[str, tuple[RegionName, ...]] = {}
        rows: list[ListedStart] = []
        looked = 0
        for one, row, ahead in walked(state, now):
            workload = one.work.workload
            if len(rows) == count_max:
                break
            looked += 1
            spec = row.spec
            if message.tenant not in ("", spec.tenant) or not owns(envelope.tenant, spec.tenant):
                continue
            reason, _ = self._answers.why(state, workload, row, known, now)
            shape = row.shape
            if shape not in where:
                where[shape] = eligible(state, spec)
            rows.append(
                ListedStart(
                    workload=workload,
                    name=spec.name,
                    tenant=spec.tenant,
                    priority=OVER_LEVEL if one.quota_class is not QuotaClass.NOMINAL else one.level,
                    gpu_milli=gpu_milli_of(spec.jobs),
                    rank=looked - 1,
                    waited=Nanoseconds(max(0, now - row.submitted_at)),
                    reason=reason or "",
                    promised_in=_promised_in(state, workload, now),
                    start=_start(estimator, one, spec, where[shape], ahead),
                    duration=_duration(state, workload),
                    round_in=Nanoseconds(0 if spec.kind is Kind.SHARED else -1),
                )
            )
        more = len(state.order) - looked
        for workload, row in _unpicked(state, envelope, message.tenant):
            if len(rows) < count_max:
                rows.append(self._round_of(state, workload, row, known, now))
            else:
                more += 1
        starts, history = state.image.starts, state.image.history
        errors = {
            kind.value: PredictionError(found.count, round(MILLI * found.factor()))
            for kind, found in history.errors.items()
        }
        told, data = history.hardware, history.data
        listed = StartsListed(
            rows=tuple(rows),
            more=more,
            judged=len(starts.outcomes),
            held=starts.outcomes.count(0),
            errors=errors,
            hardware=PredictionTally(told.count, told.right, told.count),
            data=PredictionTally(data.read, data.both, data.predicted),
        )
        return answered(listed)

    def _round_of(
        self, state: QueueState, workload: WorkloadId, row: WorkloadRow, known: Known, now: Instant
    ) -> ListedStart:
        """Return the line of a job of a shared pool that is not picked; `known` as in `why`."""
        spec = row.spec
        reason, _ = self._answers.why(state, workload, row, known, now)
        return ListedStart(
            workload=workload,
            name=spec.name,
            tenant=spec.tenant,
            priority=level_asked(spec, state.image.tenants),
            gpu_milli=gpu_milli_of(spec.jobs),
            rank=-1,
            waited=Nanoseconds(max(0, now - row.submitted_at)),
            reason=reason or "",
            start=None,
            duration=_duration(state, workload),
            round_in=_next_round_in(state, now) if reason is Reason.WAITS_FOR_ROUND else Nanoseconds(-1),
        )


def _next_round_in(state: QueueState, now: Instant) -> Nanoseconds:
    return Nanoseconds(max(0, next_round_at(state.image.sharing) - now))


def _unpicked(state: QueueState, envelope: Envelope, tenant: str) -> Iterator[tuple[WorkloadId, WorkloadRow]]:
    """Yield the sender's jobs of shared pools that wait and stand in no order, because they are not picked, by submission."""
    for workload in state.image.sharing.jobs:
        row = state.image.workloads.rows[workload]
        if row.phase != Phase.PENDING or row.is_held or workload in state.order:
            continue
        if tenant in ("", row.tenant) and owns(envelope.tenant, row.tenant):
            yield workload, row


def _start(
    estimator: Estimator,
    one: Ranked,
    spec: WorkloadSpec,
    where: tuple[RegionName, ...],
    ahead: Ahead,
) -> StartEstimate | None:
    """Return a waiting workload's estimated start, unless quota blocks the workload, or rounds decide."""
    if one.quota_class is QuotaClass.BLOCKED or spec.kind is Kind.SHARED:
        return None
    return estimator.of(spec, where, ahead, is_within=one.quota_class is QuotaClass.NOMINAL)


def _promised_in(state: QueueState, workload: WorkloadId, now: Instant) -> Nanoseconds:
    """Return the time until a workload's promised start; -1: no promise is shown."""
    promised = promised_in(state, workload, now)
    return Nanoseconds(-1) if promised is None else promised


def _duration(state: QueueState, workload: WorkloadId) -> Nanoseconds:
    """Return a workload's predicted run time; 0 for a service, which ends only on request."""
    live = state.image.history.live.get(workload)
    return Nanoseconds(0) if live is None or live.is_service else live.prediction.duration
