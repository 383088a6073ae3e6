"""Estimated starts from the queue's state, for a new submission and for workloads in the order."""

from collections.abc import Callable, Iterator
from itertools import islice

from components.job_queue.ordering import bring_up
from components.job_queue.state.queue_state import QueueState, eligible
from components.job_queue.state.wait_index import Ahead, Estimator, Size, Types, amounts_of
from core.estimating.bands import StartEstimate
from core.estimating.prediction import left_of
from core.estimating.run_times import size_of
from core.images.queue import WorkloadRow
from core.messages.queue import RunTimeTold
from core.nouns.fleet import gpu_type_of
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import STARTS_WALKED_MAX
from core.nouns.placement import gpu_milli_of
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import NEVER, Kind, WorkloadSpec
from core.ranking.lane import FAR
from core.ranking.scan import QuotaClass, Ranked
from core.rules.quota import borrowed_max, entitled_to, level_asked, may_be_over, needs_of


def estimator_of(state: QueueState, now: Instant) -> Estimator:
    """Return an estimator over the regions that are known and heard."""
    heard = {
        region: image
        for region, image in state.regions.items()
        if image is not None and not state.silent.get(region, True)
    }
    return Estimator(state.image, heard, state.waits, now)


def estimated_start(state: QueueState, spec: WorkloadSpec, now: Instant) -> StartEstimate | None:
    """Return the estimated start of a submission made now, behind all waiting work of its level or higher.

    None: the workload would be blocked by its tenant's quota, no region could hold the workload, or rounds of a shared pool decide.
    """
    if spec.kind is Kind.SHARED:
        return None
    level, quota_class = would_stand(state, spec, now)
    if quota_class is QuotaClass.BLOCKED:
        return None
    is_within = quota_class is QuotaClass.NOMINAL
    if not is_within:
        ahead = state.waits.waiting_from(OVER_LEVEL)
    elif not state.ledger.quota:
        ahead = state.waits.waiting_from(level)
    else:
        ahead = state.waits.capped_from(level, most_ahead(state))
    return estimator_of(state, now).of(spec, eligible(state, spec), ahead, is_within=is_within)


def most_ahead(state: QueueState) -> Callable[[TenantName, int, Types], int]:
    """Return the bound for `WaitIndex.capped_from`: only the part of a tenant's work that fits the quota can be ahead."""
    ledger, rooms = state.ledger, dict[tuple[TenantName, int], dict[str, int]]()

    def most(tenant: TenantName, of: int, types: Types) -> int:
        kinds = {gpu_type_of(one)[0] for one in types}
        if not kinds <= ledger.quota:
            return FAR
        room = rooms.get((tenant, of))
        if room is None:
            room = rooms[tenant, of] = ledger.headroom(tenant, of, state.image.tenants)
        return max(0, sum(room[kind] for kind in sorted(kinds)))

    return most


def would_stand(state: QueueState, spec: WorkloadSpec, now: Instant) -> tuple[int, QuotaClass]:
    """Return the level and quota class of a submission, beside its tenant's running work and waiting work ahead."""
    tenants, quota, ledger = state.image.tenants, state.ledger.quota, state.ledger
    level = level_asked(spec, tenants)
    if gpu_milli_of(spec.jobs) and ledger.is_spent(spec.tenant, tenants, state.image.usage, now):
        return OVER_LEVEL, QuotaClass.BLOCKED
    if not quota:
        return level, QuotaClass.NOMINAL
    room = ledger.headroom(spec.tenant, level, tenants)
    for kind, count in state.waits.wanted_by(spec.tenant, level).items():
        if kind in room:
            room[kind] -= count
    needs = needs_of(spec, quota, state.fleet)
    if any(all(count <= room[kind] for kind, count in need.items()) for need in needs):
        return level, QuotaClass.NOMINAL
    row = tenants.rows.get(spec.tenant)
    most, entitled = borrowed_max(row, quota), entitled_to(row, quota)
    held = ledger.held.get(spec.tenant, {})
    may_borrow = may_be_over(spec.kind) and (
        most is None
        or any(
            all(held.get(kind, 0) + count <= entitled[kind] + most[kind] for kind, count in need.items())
            for need in needs
        )
    )
    return OVER_LEVEL, QuotaClass.BORROWING if may_borrow else QuotaClass.BLOCKED


def start_in_order(state: QueueState, workload: WorkloadId, now: Instant) -> StartEstimate | None:
    """Return the estimated start of a waiting workload; beyond `STARTS_WALKED_MAX` places, as if submitted now."""
    spec = state.image.workloads.rows[workload].spec
    if state.order.one(workload).quota_class is QuotaClass.BLOCKED or spec.kind is Kind.SHARED:
        return None
    for one, _, ahead in walked(state, now):
        if one.work.workload == workload:
            is_within = one.quota_class is QuotaClass.NOMINAL
            return estimator_of(state, now).of(spec, eligible(state, spec), ahead, is_within=is_within)
    return estimated_start(state, spec, now)


def walked(state: QueueState, now: Instant) -> Iterator[tuple[Ranked, WorkloadRow, Ahead]]:
    """Yield workloads in queue order with the GPU milli that those ahead need. The dict is shared, and grows.

    Blocked workloads come last, so that their needs are ahead of no others. At most `STARTS_WALKED_MAX` are yielded.
    """
    bring_up(state, now)
    ahead: dict[tuple[Types, Size], int] = {}
    rows = state.image.workloads.rows
    for one in islice(state.order.ranked(), STARTS_WALKED_MAX):
        row = rows[one.work.workload]
        yield one, row, ahead
        size = size_of(gpu_milli_of(row.spec.jobs))
        for types, gpu_milli in amounts_of(row.spec):
            ahead[types, size] = ahead.get((types, size), 0) + gpu_milli


def run_time_of(state: QueueState, workload: WorkloadId, now: Instant) -> RunTimeTold | None:
    """Return a workload's predicted run time and, while the workload is up, the predicted rest; None for services."""
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
