"""The drained region: borrowed capacity that comes free there is kept for one workload, which narrow work would starve elsewhere.

A wide gang that borrows waits for capacity of which narrow work takes every piece. So at most one region at a time is drained for a
workload, chosen once a minute while borrowing work waits:

AGE    if operators set `--gather`: the oldest workload that has waited for `age-cap`, wants no more than that part of all GPUs, and
       lacks only capacity. All other borrowing work of the same GPU types is not asked for in the region
LAG    else: the first workload that lacks only capacity, of the tenant with the largest lag. Borrowing work of the same GPU types is
       not asked for in the region if its tenant's lag is smaller by `LAG_SLACK`

The region is the one with the smallest shortage. Elsewhere the workload is asked for as ever, and may start there;
nominal work is asked for everywhere, but during an AGE drain takes a bid of the region only if there is no other.

Bound: a drain ends when its workload is awarded, or another of the tenant and shape is in that region; when the workload no longer
qualifies; or after four hours (`GATHER_PATIENCE` of one AGE drain, `LAG_PATIENCE` of a tenant's drains since its last borrowed award).
After an AGE drain the workload queues for the next one as if submitted then. A drain is a note: after a restart one is chosen again.
"""

from fractions import Fraction

from components.job_queue.ordering import asked_for, lending_now, may_be_lent, there_is
from components.job_queue.state.auctions import LACKS_CAPACITY
from components.job_queue.state.queue_state import Drain, DrainReason, QueueState, eligible
from components.job_queue.state.quota_ledger import Lending
from core.events.queue import WorkloadAwarded
from core.fact import Fact
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import GATHER_PATIENCE, LAG_PATIENCE, LAG_SLACK, LAGGING_LOOKED_AT, SHARES_INTERVAL
from core.nouns.placement import gpu_milli_of
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.ranking.scan import LOWEST, PendingWork, QuotaClass, Ranked
from core.rules.tenancy import gpus_by_type

NEVER = Instant(-1)
WHOLE = 100
"""Percent."""
Regions = tuple[RegionName, ...]


# Folding.


def index_drain(state: QueueState, fact: Fact) -> None:
    """End the drain if its workload was awarded, or its region was awarded to another workload of the tenant and shape."""
    event, drain = fact.event, state.drain
    if not isinstance(event, WorkloadAwarded):
        return
    if event.level == OVER_LEVEL:
        state.lacking.pop(event.tenant, None)
    if drain is None:
        return
    is_alike = event.region == drain.region and event.level == OVER_LEVEL and _is_alike(state, event.workload)
    if event.workload == drain.workload or is_alike:
        set_drain(state, None, fact.at)


def set_drain(state: QueueState, drain: Drain | None, now: Instant) -> None:
    """Replace the drain. The end of an AGE drain is remembered while its workload lives."""
    was, rows = state.drain, state.image.workloads.rows
    if was is not None and was.reason is DrainReason.AGE and was != drain:
        state.drained_last[was.workload] = now
    for workload in list(state.drained_last):
        if workload not in rows or rows[workload].phase.is_terminal:
            del state.drained_last[workload]
    state.drain = drain


def note_lacking(state: QueueState, tenants: tuple[TenantName, ...], now: Instant) -> None:
    """Record tenants whose borrowing work lacks only capacity, and charge patience for the interval that begins.

    Charged are the tenant with the largest lag, whether or not a region can be drained for it, and the tenant of a LAG drain. A tenant
    that lacks nothing now is remembered for `LAG_PATIENCE`: a workload submitted again brings no new patience.
    """
    spans = {name: state.lacking.get(name, (Nanoseconds(0), now))[0] for name in tenants}
    lags = {(state.image.usage.lag(name, now), name) for name, span in spans.items() if span < LAG_PATIENCE}
    charged = {max(lags)[1]} if lags else set[TenantName]()
    if state.drain is not None and state.drain.reason is DrainReason.LAG:
        charged.add(state.drain.tenant)
    for name, span in spans.items():
        state.lacking[name] = Nanoseconds(span + SHARES_INTERVAL * (name in charged)), now
    for name, (_, seen_at) in list(state.lacking.items()):
        if after(seen_at, LAG_PATIENCE) <= now:
            del state.lacking[name]


# Choosing.


def choose_drain(state: QueueState, now: Instant) -> tuple[Drain | None, tuple[TenantName, ...]]:
    """Return the drain from now on, and the tenants whose borrowing work lacks only capacity."""
    if not state.image.tenants.ranking.credit.lag_weight:
        return None, ()
    lending = lending_now(state)
    lent = state.ledger.lent_in_all(lending)
    lacking: dict[TenantName, PendingWork] = {}
    for work in state.order.heads(QuotaClass.BORROWING, LAGGING_LOOKED_AT):
        if (
            work.tenant not in lacking
            and _may_borrow(state, work, lent)
            and _is_blocked(state, work, lending)
        ):
            lacking[work.tenant] = work
    return _aged(state, now, lent, lending) or _lagging(state, now, lacking), tuple(lacking)


def _aged(state: QueueState, now: Instant, lent: Lending, lending: Lending) -> Drain | None:
    """Return the AGE drain: the present one until its patience is over, then that of the workload that waits longest for a turn."""
    drain = state.drain if state.drain is not None and state.drain.reason is DrainReason.AGE else None
    if (
        drain is not None
        and now < after(drain.since, GATHER_PATIENCE)
        and _is_borrowing(state, drain.workload)
    ):
        work = state.order.work(drain.workload)
        if _is_eligible(state, work, now, lent) and drain.region in _missing(state, work):
            return drain
    last = state.drained_last if drain is None else {**state.drained_last, drain.workload: now}
    turns = sorted(
        (max(work.submitted_at, last.get(work.workload, NEVER)), work.number, work)
        for work in state.order.firsts(QuotaClass.BORROWING)
        if _is_eligible(state, work, now, lent)
    )
    for _, _, work in turns:
        if work.workload in state.auctions.open or _is_blocked(state, work, lending):
            found = _drain_for(state, work, DrainReason.AGE, now)
            if found is not None:
                return found
    return None


def _lagging(state: QueueState, now: Instant, lacking: dict[TenantName, PendingWork]) -> Drain | None:
    """Return the LAG drain: for the tenant with the largest lag that has patience left, and for which a region can be drained."""
    lags = {
        (state.image.usage.lag(name, now), name)
        for name in lacking
        if state.lacking.get(name, (0, now))[0] < LAG_PATIENCE
    }
    found = (_drain_for(state, lacking[name], DrainReason.LAG, now) for _, name in sorted(lags, reverse=True))
    return next((drain for drain in found if drain is not None), None)


def _drain_for(state: QueueState, work: PendingWork, reason: DrainReason, now: Instant) -> Drain | None:
    """Return the drain of the region with the smallest shortage for a workload; None if no region lacks only capacity.

    While the workload is being asked for, refusals say nothing: its present drain stays where it is.
    """
    missing, drain = _missing(state, work), state.drain
    if not missing:
        return None
    is_same = drain is not None and (drain.workload, drain.reason) == (work.workload, reason)
    if is_same and drain is not None and work.workload in state.auctions.open and drain.region in missing:
        return drain
    region = min(missing, key=lambda name: (*_shortage(*missing[name], reason), name))
    types = tuple(sorted({kind for need in work.needs for kind in need}))
    shape = state.image.workloads.rows[work.workload].shape
    since = drain.since if is_same and drain is not None and drain.region == region else now
    return Drain(work.workload, work.tenant, shape, region, types, since, reason)


def _missing(state: QueueState, work: PendingWork) -> dict[RegionName, tuple[int, int]]:
    """Return the GPU milli that a workload lacks, and the GPU milli of its types, of each region that lacks only capacity.

    A region that has not refused the workload lacks all of it.
    """
    asked = asked_for(state, work, LOWEST, QuotaClass.BORROWING)
    said, spec = state.auctions.refused_by(asked), state.image.workloads.rows[work.workload].spec
    kinds = {kind for need in work.needs for kind in need}
    found: dict[RegionName, tuple[int, int]] = {}
    for region in eligible(state, spec, asked.level):
        image, no = state.regions[region], said.get(region)
        if image is None or (no is not None and no.reason not in LACKS_CAPACITY):
            continue
        there = sum(count for kind, count in gpus_by_type((image,)).items() if kind in kinds)
        found[region] = no.missing_gpu_milli if no is not None else gpu_milli_of(spec.jobs), there
    return found


def _shortage(missing: int, there: int, reason: DrainReason) -> tuple[Fraction, int]:
    """Return by how much a region is short, smaller first, and between equals the larger region.

    For AGE by the part of the region, because as much comes free sooner where there is more: by GPUs alone, two GPUs of the smallest
    region were missing for hours. For LAG by GPUs: by part, the largest region would be drained for hours for narrow work.
    """
    return Fraction(missing, max(1, there) if reason is DrainReason.AGE else 1), -there


def _is_borrowing(state: QueueState, workload: WorkloadId) -> bool:
    return workload in state.order and state.order.one(workload).quota_class is QuotaClass.BORROWING


def _is_eligible(state: QueueState, work: PendingWork, now: Instant, lent: Lending) -> bool:
    """Return whether a workload has waited for `age-cap`, and one of its alternative needs is small enough for a drain and may be borrowed."""
    ranking, there = state.image.tenants.ranking, there_is(state)
    return after(work.submitted_at, ranking.credit.age_cap) <= now and any(
        all(count * WHOLE <= there.get(kind, 0) * ranking.gather_percent for kind, count in need.items())
        and state.ledger.may_borrow(work.tenant, need, state.image.tenants, lent)
        for need in work.needs
    )


def _may_borrow(state: QueueState, work: PendingWork, lent: Lending) -> bool:
    """Return whether a workload could borrow if no other work did."""
    return any(state.ledger.may_borrow(work.tenant, need, state.image.tenants, lent) for need in work.needs)


def _is_blocked(state: QueueState, work: PendingWork, lending: Lending) -> bool:
    """Return whether a workload may borrow nothing now, or each region lacks only capacity or is drained for another workload.

    A workload that is being asked for counts as it did before.
    """
    if not may_be_lent(state, work, lending):
        return True
    if work.workload in state.auctions.open:
        return work.tenant in state.lacking
    asked = asked_for(state, work, LOWEST, QuotaClass.BORROWING)
    said, drained = state.auctions.refused_by(asked), excluded(state, work)
    regions = eligible(state, state.image.workloads.rows[work.workload].spec, asked.level)
    return bool(regions) and all(
        region == drained or (region in said and said[region].reason in LACKS_CAPACITY) for region in regions
    )


# The rule.


def excluded(state: QueueState, work: PendingWork) -> RegionName | None:
    """Return the region that is drained for other work, if this workload is not to take capacity there.

    AGE excludes all work of the same types that is not of the drain's tenant and shape; LAG excludes borrowing work of tenants whose
    lag is smaller by `LAG_SLACK`. Under AGE, a workload with a reservation in the region takes that capacity.
    """
    drain = state.drain
    if drain is None or has_turn(state, work.workload):
        return None
    if not any(kind in drain.types for need in work.needs for kind in need):
        return None
    if drain.reason is DrainReason.LAG:
        is_behind = state.order.tenant(work.tenant).lag >= state.order.tenant(drain.tenant).lag - LAG_SLACK
        if is_behind or not _is_borrowing(state, work.workload):
            return None
        return drain.region
    promised = state.image.start_promises.rows.get(work.workload)
    is_promised_there = promised is not None and promised.region == drain.region
    return None if is_promised_there else drain.region


def excluded_why(state: QueueState, work: PendingWork) -> Reason | None:
    """Return the reason for which borrowing work is not asked for in the drained region; None if it is."""
    if state.drain is None or not _is_borrowing(state, work.workload) or excluded(state, work) is None:
        return None
    return Reason.AHEAD_OF_DUE if state.drain.reason is DrainReason.LAG else Reason.ROOM_GATHERED


def where_asked(state: QueueState, one: Ranked, willing: Regions) -> Regions:
    """Return the willing regions in which a workload may be asked for: for borrowing work all but one drained for other work."""
    if state.drain is None or one.quota_class is not QuotaClass.BORROWING:
        return willing
    drained = excluded(state, one.work)
    return tuple(region for region in willing if region != drained)


def has_turn(state: QueueState, workload: WorkloadId) -> bool:
    """Return whether the drain is for a workload, or for one of its tenant and shape: the first of them in line takes the capacity."""
    drain = state.drain
    if drain is None or drain.workload == workload:
        return drain is not None
    return _is_alike(state, workload) and _is_borrowing(state, workload)


def _is_alike(state: QueueState, workload: WorkloadId) -> bool:
    drain, row = state.drain, state.image.workloads.rows[workload]
    return drain is not None and drain.tenant == row.spec.tenant and drain.shape == row.shape
