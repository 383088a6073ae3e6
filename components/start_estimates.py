"""Estimates of starts as the queue's state has them: of what is submitted now, and of what waits in the order."""

from collections.abc import Iterator
from itertools import islice

from components.queue_state import QueueState, eligible
from components.wait_estimates import Estimator, Types, amounts_of, level_of
from core.estimating.bands import StartEstimate
from core.estimating.prediction import left_of
from core.images.queue import WorkloadRow
from core.messages.queue import RunTimeTold
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import STARTS_WALKED_MAX
from core.nouns.workload import NEVER, WorkloadSpec


def estimator_of(state: QueueState, now: Instant) -> Estimator:
    """As far as regions are known and heard."""
    heard = {
        region: image
        for region, image in state.regions.items()
        if image is not None and not state.silent.get(region, True)
    }
    return Estimator(state.image, heard, state.waits, now)


def estimated_start(state: QueueState, spec: WorkloadSpec, now: Instant) -> StartEstimate | None:
    """When it would start if it were submitted now, behind all that waits at its level or a higher one."""
    ahead = state.waits.waiting_from(level_of(spec))
    return estimator_of(state, now).of(spec, eligible(state, spec), ahead)


def start_in_order(state: QueueState, workload: WorkloadId, now: Instant) -> StartEstimate | None:
    """When something that waits will start; far behind in the order, as if it were submitted now."""
    spec = state.image.workloads.rows[workload].spec
    for other, _, ahead in walked(state):
        if other == workload:
            return estimator_of(state, now).of(spec, eligible(state, spec), ahead)
    return estimated_start(state, spec, now)


def walked(state: QueueState) -> Iterator[tuple[WorkloadId, WorkloadRow, dict[Types, int]]]:
    """The order from its head on, each with what those ahead of it need; the same dict, which grows on the way."""
    ahead: dict[Types, int] = {}
    rows = state.image.workloads.rows
    for workload in islice(state.order.all(), STARTS_WALKED_MAX):
        row = rows[workload]
        yield workload, row, ahead
        for types, gpu_milli in amounts_of(row.spec):
            ahead[types] = ahead.get(types, 0) + gpu_milli


def run_time_of(state: QueueState, workload: WorkloadId, now: Instant) -> RunTimeTold | None:
    """How long it runs, as it was predicted and as it looks now."""
    live = state.image.history.live.get(workload)
    if live is None or live.is_service:
        return None
    told = RunTimeTold(live.prediction.duration, live.prediction.by)
    if not live.up_at:
        return told
    up_for = max(0, now - live.up_at)
    ran = Nanoseconds(live.ran + up_for)
    left = left_of(state.image.history.runs, live.tenant, live.family, live.gpu_milli, ran)
    longest = state.image.workloads.rows[workload].spec.max_duration
    if longest != NEVER:
        left = min(left, Nanoseconds(max(0, longest - up_for)))
    return RunTimeTold(told.duration, told.by, left)
