"""The order of pending workloads and the quota ledger, updated by facts, so that deciders only read.

Tenants' use also changes with time alone. It is updated in passes (core/nouns/ranking.py `pass_span`), as a memo
that equals the image's value at that instant.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from components.job_queue.state.asked_shape import AskedShape, digest
from components.job_queue.state.queue_state import QueueState
from components.job_queue.state.quota_ledger import NO_LENDING, Lending
from components.job_queue.state.stage_order import ages_from, may_begin
from core.images.queue import WorkloadRow
from core.nouns.fleet import ANY_TYPE, gpu_type_of
from core.nouns.ids import AttemptKey, TenantName, WorkloadId
from core.nouns.instant import Instant, after
from core.nouns.placement import gpu_milli_of
from core.nouns.pool import SHARED_POOL
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import Kind, Phase
from core.ranking.incremental import RankedQueue
from core.ranking.passes import PassedQueue
from core.ranking.scan import LOWEST, PendingWork, QuotaClass, Ranked, own_level
from core.rules.moving import ship_span
from core.rules.quota import (
    Amounts,
    held_on,
    kept_before,
    level_asked,
    level_of,
    may_be_over,
    narrowing,
    needs_of,
)
from core.rules.tenancy import gpus_by_type

POOL_NAME = TenantName(f"pool {SHARED_POOL}")
"""In which picks stand in the order: it is no name that a tenant could have."""

# From facts.


def rebuild_order(state: QueueState, at: Instant) -> None:
    """Rebuild the order and the quota ledger from the image: at a start, and when the ranking rules change."""
    ranking = state.ranking = state.image.tenants.ranking
    kind = PassedQueue if ranking.is_in_passes else RankedQueue
    state.order = kind(
        ranking.credit, at, walks_by_level=ranking.walks_by_level, patience=ranking.quota_patience
    )
    state.ranked_at = Instant(-1)
    state.passes_at = at if ranking.is_in_passes else None
    state.shapes.clear()
    state.shape_names.clear()
    state.ledger.set_quota(state.image.tenants)
    state.ledger.wanted.clear()
    state.fleet = _fleet_of(state)
    image = state.image
    state.guests = {row.beside: workload for workload, row in image.workloads.rows.items() if row.is_guest}
    state.neighbours = {
        workload: row.beside
        for workload, row in image.workloads.rows.items()
        if row.beside and row.phase is image.workloads.rows[row.beside].phase is Phase.RUNNING
    }
    for workload, row in image.workloads.rows.items():
        if row.phase.is_terminal:
            continue
        if settle_award(state, workload, row):
            recharge(state, workload, row, at)
        place(state, workload, row)
    for name in dict.fromkeys((*image.tenants.rows, *image.usage.rows, *state.remembered.live)):
        refresh_tenant(state, name, at)
        if state.image.tenants.rows:
            state.to_reclassify[name] = True
            state.reclassify_at = at


def place(state: QueueState, workload: WorkloadId, row: WorkloadRow) -> None:
    """Add, update or drop a workload: the order has pending workloads that are neither held nor being cancelled."""
    wanted = row.phase == Phase.PENDING and not row.is_held and not row.is_cancel_requested
    if row.spec.kind is Kind.SHARED:
        wanted = wanted and row.pick is not None and not _waits_for_host(state, row)
        wanted = wanted and not _waits_for_copy(state, workload, row)
    wanted = may_begin(state.image, state.pipeline_looks, workload, is_pending=wanted) and wanted
    level = row.level if row.is_active else level_of(row, state.image.tenants)
    state.waits.note(workload, row, level, is_waiting=wanted)
    was = state.order.work(workload) if workload in state.order else None
    now = pending_work(state, workload, row) if wanted else None
    if was == now:
        return
    if was is not None and now is not None:
        state.order.swap(now)
    elif now is not None:
        state.order.add(now)
    else:
        state.order.drop(workload)
    if was is not None:
        state.ledger.want(was, -1)
        if row.is_active:
            state.refusal_walk.take(was.shape, row.region, Instant(row.awarded_at))
        state.shapes[was.shape] -= 1
        if not state.shapes[was.shape] and (now is None or now.shape != was.shape):
            del state.shapes[was.shape]
            del state.shape_names[digest(was.shape)]
            state.refusal_walk.forget(was.shape)
            state.auctions.forget_shape(was.shape)
    if now is not None:
        state.ledger.want(now, 1)
        if now.shape not in state.shapes:
            state.shape_names[digest(now.shape)] = None
        state.shapes[now.shape] += 1


def place_at(state: QueueState, work: PendingWork, level: int) -> None:
    """Change the level of a workload in the order. Equals `place` where only the requested level has changed."""
    state.waits.note(work.workload, state.image.workloads.rows[work.workload], level, is_waiting=True)
    state.order.swap(replace(work, level=level))


def _waits_for_host(state: QueueState, row: WorkloadRow) -> bool:
    """Return whether a job is picked to come to a GPU on which the other job does not run yet."""
    if not row.is_guest:
        return False
    host, award = state.image.workloads.rows[row.beside], state.image.awards.rows.get(row.beside)
    return host.phase is not Phase.RUNNING or award is None or bool(award.moving)


def _waits_for_copy(state: QueueState, workload: WorkloadId, row: WorkloadRow) -> bool:
    """Return whether a job's checkpoint is on its way to the region where it is picked; when it is there is looked at then."""
    if row.pick is None or row.saved_region in ("", row.pick.region):
        return False
    arrives_at = Instant(row.saved_at + ship_span(row.spec))
    if state.copied.get(workload) == arrives_at:
        return False
    state.copies_due.put(workload, arrives_at)
    return True


def host_of(state: QueueState, row: WorkloadRow) -> AttemptKey | None:
    """Return the attempt to whose GPU a job is picked to come; None: it has its own."""
    return (row.beside, state.image.workloads.rows[row.beside].epoch) if row.is_guest else None


def pending_work(state: QueueState, workload: WorkloadId, row: WorkloadRow) -> PendingWork:
    """Return a workload as the ranking reads it."""
    spec, tenants, quota = row.spec, state.image.tenants, state.ledger.quota
    if spec.kind is Kind.SHARED:
        return _picked_work(workload, row)
    has_choice = quota and not all(job.has_one_type for job in spec.jobs if job.need.gpu_milli)
    own = f"|{spec.tenant}" if has_choice else ""  # The types with headroom depend on the tenant.
    base = row.base
    return PendingWork(
        workload,
        spec.tenant,
        row.number,
        Instant(row.submitted_at),
        needs_of(spec, quota, state.fleet),
        level_asked(spec, tenants),
        may_be_over(spec.kind),
        gpu_milli_of(spec.jobs) > 0,
        row.shape + own,
        base + own if base else "",
        spec.jobs[0].tasks if base else 0,
        ages_from(state.image, workload, tenants.ranking),
    )


def _picked_work(workload: WorkloadId, row: WorkloadRow) -> PendingWork:
    """Return a job that a round has picked: in the name of its pool, for it takes nothing of its tenant's quota and earns no credit."""
    return PendingWork(
        workload,
        POOL_NAME,
        row.number,
        Instant(row.submitted_at),
        level=LOWEST,
        may_borrow=False,
        shape=row.shape,
        base=row.base,
        tasks=row.spec.jobs[0].tasks,
    )


def settle_award(state: QueueState, workload: WorkloadId, row: WorkloadRow) -> bool:
    """Record the amounts of a workload's active award in the ledger, or drop its ended award.

    Return whether the ledger changed.
    """
    if not row.is_active:
        return state.ledger.drop(workload)
    asked = level_of(row, state.image.tenants)
    return state.ledger.put(workload, row, asked, held_by(state, workload, row))


def recharge(state: QueueState, workload: WorkloadId, row: WorkloadRow, now: Instant) -> None:
    """Schedule a new charge for an award that holds other amounts than it was charged for."""
    one = state.ledger.awards.get(workload)
    if one is not None and one.amounts != row.charge:
        state.recharge[workload] = None
        state.reclassify_at = now


def held_by(state: QueueState, workload: WorkloadId, row: WorkloadRow) -> Amounts:
    """Return the GPU milli by type of an active award: as its region's log shows, and before that as charged."""
    image = state.regions.get(row.region)
    attempt = image.attempts.row(workload, row.epoch) if image is not None else None
    if image is None or attempt is None or not attempt.phase.is_live:
        return row.charge
    has_pairs = state.image.sharing.settings.has_pairs
    return held_on(row.spec, attempt.spreads, image.hardware, has_pairs=has_pairs)


def refresh_tenant(state: QueueState, tenant: TenantName, now: Instant) -> None:
    """Update a tenant's state in the order, and the time at which its budget is spent or its next period begins."""
    state.waits.renew(tenant)
    tenants, usage = state.image.tenants, state.image.usage
    pass_at = _pass_at(state, now)
    use, lag = usage.faded(tenant, pass_at), usage.lag(tenant, pass_at)
    was_spent = state.order.tenant(tenant).is_spent
    state.order.set_tenant(tenant, state.ledger.state(tenant, tenants, usage, now, use, lag))
    if was_spent and not state.order.tenant(tenant).is_spent:
        state.fill_at = now  # Its jobs of shared pools may have idle GPUs again.
    turns_at = state.ledger.turns_at(tenant, tenants, usage, now)
    if turns_at is None:
        state.budgets_due.drop(tenant)
    else:
        state.budgets_due.put(tenant, turns_at)


def drop_strangers(state: QueueState) -> None:
    """Drop tenants without settings, use or live work from the order, as a restart would: no share counts them."""
    known = (state.image.tenants.rows, state.image.usage.rows, state.remembered.live)
    for name in sorted(state.order.tenants().keys() - set().union(*known)):
        state.order.drop_tenant(name)
        state.waits.forget_tenant(name)


def refresh_fleet(state: QueueState) -> None:
    """Update the fleet's GPU types after nodes joined, and the workloads that ask for `any` type."""
    fleet = _fleet_of(state)
    if fleet == state.fleet:
        return
    state.fleet = fleet
    if state.ledger.quota:
        rows = state.image.workloads.rows
        anys = [
            one
            for one in state.order.works()
            if any(job.gpu_type == ANY_TYPE for job in rows[one.workload].spec.jobs)
        ]
        for one in anys:
            place(state, one.workload, rows[one.workload])


def _fleet_of(state: QueueState) -> tuple[str, ...]:
    known = [image for image in state.regions.values() if image is not None]
    return tuple(sorted({gpu_type_of(kind)[0] for image in known for kind in image.hardware.rows}))


# As time passes.


def bring_up(state: QueueState, now: Instant) -> None:
    """Bring waiting times up to now, and tenants' use and lag to the newest pass. Call before reading the order."""
    state.order.advance(now)
    pass_at = _pass_at(state, now)
    if state.ranked_at == pass_at:
        return
    state.ranked_at = pass_at
    usage = state.image.usage
    for name, one in state.order.tenants().items():
        use, lag = usage.faded(name, pass_at), usage.lag(name, pass_at)
        state.order.set_tenant(name, replace(one, use=use, lag=lag))


def begin_pass(state: QueueState, now: Instant) -> None:
    """Begin a pass, where the order is kept in passes."""
    bring_up(state, now)
    state.order.begin_pass()
    state.passes_at = after(_pass_at(state, now), state.image.tenants.ranking.pass_span)
    state.open_at = now


def pass_of(state: QueueState, now: Instant) -> int:
    """Return the number of the newest pass."""
    return now // state.image.tenants.ranking.pass_span


def _pass_at(state: QueueState, now: Instant) -> Instant:
    span = state.image.tenants.ranking.pass_span
    return Instant(now // span * span)


# Requests to regions.


def asked_for(state: QueueState, work: PendingWork, level: int, quota_class: QuotaClass) -> AskedShape:
    """Return the request for a workload at a level and quota class.

    Equal for workloads of one level, quota class and shape from which the same quota is held (`quota_held_from`).
    """
    row = state.image.workloads.rows[work.workload]
    if row.pick is not None:
        # Room that is about to be left is waited for, before others of the pool are pushed out.
        is_to_wait = row.pick.name in state.image.sharing.leaving.values()
        level = LOWEST if is_to_wait else level_of(row, state.image.tenants)
        return AskedShape(level, work.shape, work.base, work.tasks, ((gpu_type_of(row.pick.gpu_type)[0],),))
    jobs = row.spec.jobs
    is_within = quota_class is QuotaClass.NOMINAL
    if not is_within:
        level = OVER_LEVEL
    has_headroom = _has_headroom(state, work, level) if is_within else _is_lent(state, work.tenant)
    types = narrowing(jobs, state.ledger.quota, state.fleet, has_headroom)
    return AskedShape(level, work.shape, work.base, work.tasks, types)


def _has_headroom(state: QueueState, work: PendingWork, level: int) -> Callable[[Amounts], bool]:
    def has_headroom(amounts: Amounts) -> bool:
        room = state.ledger.headroom(work.tenant, level, state.image.tenants)
        kept = quota_held_from(state, work, level)
        return all(count <= room[kind] - kept.get(kind, 0) for kind, count in amounts.items())

    return has_headroom


def quota_held_from(state: QueueState, work: PendingWork, level: int) -> Amounts:
    """Return the GPU milli by type of its tenant's quota that are held for workloads ahead which do not fit."""
    in_line = state.ledger.level_in_line(level, state.image.tenants)
    lacking = [one for one in state.order.kept(work.tenant) if one.is_lacking]
    return kept_before(lacking, in_line, work.number)


def kept_why(state: QueueState, work: PendingWork) -> Reason | None:
    """Return the reason of a workload that does not fit its tenant's quota while a quota hold is active.

    `QUOTA_DRAINS` if the hold is for the workload itself, `QUOTA_KEPT` if for one ahead; None: no hold concerns it.
    """
    if any(one.is_lacking and one.workload == work.workload for one in state.order.kept(work.tenant)):
        return Reason.QUOTA_DRAINS
    before = quota_held_from(state, work, own_level(work, state.order.tenant(work.tenant)))
    return Reason.QUOTA_KEPT if any(not before.keys().isdisjoint(need) for need in work.needs) else None


def _is_lent(state: QueueState, tenant: TenantName) -> Callable[[Amounts], bool]:
    def is_lent(amounts: Amounts) -> bool:
        return state.ledger.may_borrow(tenant, amounts, state.image.tenants, lending_now(state))

    return is_lent


def asked_now(state: QueueState, workload: WorkloadId, now: Instant) -> tuple[Ranked, AskedShape]:
    """Return a workload's place and quota class in the order, and the request that regions would receive."""
    bring_up(state, now)
    one = state.order.one(workload)
    return one, asked_for(state, one.work, one.level, one.quota_class)


def may_be_lent(state: QueueState, work: PendingWork, lending: Lending) -> bool:
    """Return whether the workload may borrow one of its alternative needs now."""
    tenants = state.image.tenants
    return any(state.ledger.may_borrow(work.tenant, need, tenants, lending) for need in work.needs)


def lending_now(state: QueueState) -> Lending:
    """Return the capacity that tenants may borrow now."""
    return state.ledger.lending(there_is(state)) if state.ledger.quota else NO_LENDING


def there_is(state: QueueState) -> Mapping[str, int]:
    """Return GPU milli by type, summed over all known regions."""
    return gpus_by_type(image for image in state.regions.values() if image is not None)
