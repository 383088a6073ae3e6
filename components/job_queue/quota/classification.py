"""The quota class of active awards: decided at the award, and again after each change that may affect the class.

A tenant's nominal work never holds more than its entitlement: in the batch in which it would, other work of the
tenant becomes borrowing. The region receives the new level (components/job_queue/awards.py), and from then on nominal
work may preempt that attempt.
"""

from collections.abc import Mapping

from components.job_queue.ordering import (
    bring_up,
    drop_strangers,
    lending_now,
    place,
    place_at,
    rebuild_order,
    recharge,
    refresh_tenant,
    settle_award,
)
from components.job_queue.quota.drain import excluded, excluded_why
from components.job_queue.state.auctions import Auction
from components.job_queue.state.queue_state import (
    BudgetTurned,
    PassBegun,
    QueueState,
    Reclassified,
    why_not_asked,
)
from core.component import NOTHING, Decision
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    PrioritySet,
    RankedBid,
    StandingChanged,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadSubmitted,
)
from core.events.tenants import BudgetSet, EntitlementSet, RankingSet, TenantSet
from core.fact import Event, Fact, Note
from core.images.queue import WorkloadRow
from core.messages.queue import Bid
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import MILLI
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL, Entitlement
from core.nouns.workload import JobSpec, Kind
from core.rules.quota import Amounts, Running, entitled_to, held_on, level_of, may_be_over, types_of

OF_TENANTS = (TenantSet, EntitlementSet, BudgetSet)
OF_AWARDS = (WorkloadAwarded, WorkloadBound, StandingChanged, AwardReturned, AttemptClosed)
OF_LINES = (
    WorkloadHeld,
    WorkloadReleased,
    CancelRequested,
    WorkloadCancelled,
    WorkloadChanged,
    PrioritySet,
)
"""Facts that may change a tenant's quota hold, or the workload of the hold."""


# Folding.


def index_quota_classes(state: QueueState, fact: Fact) -> None:
    """Follow a fact of the queue: update the order and the quota ledger."""
    event = fact.event
    if isinstance(event, RankingSet):
        if not event.settings.ranks_as(state.ranking):
            rebuild_order(state, fact.at)
            state.reclassify_at = state.open_at = fact.at
    elif isinstance(event, OF_TENANTS):
        _tenant_set(state, event, fact.at)
    elif isinstance(event, OF_AWARDS):
        row = state.image.workloads.rows[event.workload]
        settle_award(state, event.workload, row)
        _look_again(state, row.tenant, fact.at)
        asked = level_of(row, state.image.tenants)
        if isinstance(event, WorkloadAwarded) and row.level not in (asked, OVER_LEVEL):
            _stands_otherwise(state, row.tenant, fact.at)  # The priority was set during the auction.
    elif isinstance(event, PrioritySet):
        row = state.image.workloads.rows[event.workload]
        if row.is_active:
            settle_award(state, event.workload, row)
            _stands_otherwise(state, row.tenant, fact.at)
    if isinstance(event, OF_LINES):
        _line_changed(state, state.image.workloads.rows[event.workload].tenant, fact.at)
    elif isinstance(event, WorkloadSubmitted) and not state.order.knows(event.spec.tenant):
        refresh_tenant(state, event.spec.tenant, fact.at)
    if isinstance(event, AttemptClosed | WorkloadCancelled):
        tenant = state.image.workloads.rows[event.workload].tenant
        if tenant not in state.remembered.live:
            drop_strangers(state)


def index_holding(state: QueueState, workload: WorkloadId, now: Instant) -> None:
    """Update the amounts that an award holds, as the region's log shows."""
    row = state.image.workloads.rows.get(workload)
    if row is not None and settle_award(state, workload, row):
        recharge(state, workload, row, now)
        _look_again(state, row.tenant, now)


def _stands_otherwise(state: QueueState, tenant: TenantName, now: Instant) -> None:
    state.to_reclassify[tenant] = True
    state.reclassify_at = now


def _line_changed(state: QueueState, tenant: TenantName, now: Instant) -> None:
    """Schedule a look at a tenant after a change of its waiting work: other work of the tenant may fit the quota now."""
    if state.ledger.quota:
        state.open_at = now
    if tenant in state.ledger.over:
        state.to_reclassify.setdefault(tenant, False)
        state.reclassify_at = now


def _look_again(state: QueueState, tenant: TenantName, now: Instant) -> None:
    refresh_tenant(state, tenant, now)
    row = state.image.tenants.rows.get(tenant)
    if state.ledger.quota or (row is not None and row.budget is not None):
        state.to_reclassify.setdefault(tenant, False)
        state.reclassify_at = now


def _tenant_set(state: QueueState, event: TenantSet | EntitlementSet | BudgetSet, now: Instant) -> None:
    """Follow a change of a tenant's level, quota or budget.

    With the first entitlement of a GPU type, all work that asks for the type is checked against quotas.
    """
    rows, order, quota = state.image.workloads.rows, state.order, state.ledger.quota
    tenants = [event.tenant]
    is_first = len(state.image.tenants.rows) == 1
    is_of_all = state.ledger.set_quota(state.image.tenants) or is_first
    if is_of_all:
        tenants += order.tenants()
    if state.ledger.quota != quota:
        _place_what_asks_for(state, state.ledger.quota - quota)
    if isinstance(event, TenantSet):
        if is_first or event.settings.level < order.tenant(event.tenant).level:
            for name in tenants:
                refresh_tenant(state, name, now)  # Work above the level moves down in one step.
        for work in order.works() if is_first else order.works_of(event.tenant):
            level = level_of(rows[work.workload], state.image.tenants)
            if level != work.level:
                place_at(state, work, level)
    for name in dict.fromkeys(tenants):
        for workload in tuple(state.ledger.by_tenant.get(name, {})):
            settle_award(state, workload, rows[workload])
        refresh_tenant(state, name, now)
        state.to_reclassify[name] = True
    state.reclassify_at = state.open_at = now


def _place_what_asks_for(state: QueueState, types: frozenset[str]) -> None:
    """Place all work again that may run on GPU types newly under quota: its needs and its shape may change."""
    rows = state.image.workloads.rows
    for work in state.order.works():
        jobs = rows[work.workload].spec.jobs
        if any(job.need.gpu_milli and (not job.has_one_type or job.gpu_type in types) for job in jobs):
            place(state, work.workload, rows[work.workload])


# Deciding.


def begun_pass(state: QueueState, now: Instant) -> Decision:
    """Return the note that begins a pass, if one is due."""
    return NOTHING if state.passes_at is None or state.passes_at > now else Decision(events=(PassBegun(),))


def turned_budgets(state: QueueState, now: Instant) -> Decision:
    """Return notes for budgets that are spent, and for budgets at the beginning of their next period."""
    turned = state.budgets_due.passed(now)
    return Decision(events=tuple(BudgetTurned(tenant) for tenant in turned)) if turned else NOTHING


def reclassify(state: QueueState, now: Instant) -> Decision:
    """Return facts for awards that must change their level or charge."""
    if state.reclassify_at is None or state.reclassify_at > now:
        return NOTHING
    bring_up(state, now)
    rows, tenants = state.image.workloads.rows, state.image.tenants
    levels: dict[WorkloadId, int] = {}
    for tenant, is_forced in state.to_reclassify.items():
        kept = state.order.kept(tenant)
        if is_forced or state.ledger.may_stand_otherwise(tenant, tenants, kept):
            levels |= changed_levels(state, tenant, now)
    for workload in state.recharge:
        one = state.ledger.awards.get(workload)
        if one is not None and one.amounts != rows[workload].charge:
            levels.setdefault(workload, one.level)
    in_order = sorted(levels.items(), key=lambda one: _takes(state, *one))
    events: list[Event | Note] = [_changed(state, workload, level) for workload, level in in_order]
    return Decision(events=(*events, Reclassified(tuple(state.to_reclassify))))


def changed_levels(
    state: QueueState,
    tenant: TenantName,
    now: Instant,
    *,
    entitled: Amounts | None = None,
    also: Running | None = None,
) -> dict[WorkloadId, int]:
    """Return the levels that must change by `QuotaLedger.standings`, with the current budget and quota holds."""
    tenants = state.image.tenants
    is_spent = state.ledger.is_spent(tenant, tenants, state.image.usage, now)
    kept = state.order.kept(tenant)
    return state.ledger.standings(tenant, tenants, is_spent=is_spent, entitled=entitled, also=also, kept=kept)


def over_by(
    state: QueueState, tenant: TenantName, gpu_type: str, entitlement: Entitlement, now: Instant
) -> tuple[StandingChanged, ...]:
    """Return facts for awards that a new entitlement makes borrowing, to be recorded before the entitlement.

    The first entitlement of a GPU type makes other tenants' awards of that type borrowing, too.
    """
    ledger, rows = state.ledger, state.image.tenants.rows
    others = () if gpu_type in ledger.quota else tuple(ledger.by_tenant)
    events = []
    for name in dict.fromkeys((tenant, *others)):
        entitled = entitled_to(rows.get(name), ledger.quota | {gpu_type})
        if name == tenant:
            entitled[gpu_type] = entitlement.gpus * MILLI
        levels = changed_levels(state, name, now, entitled=entitled)
        events += [_changed(state, one, level) for one, level in levels.items() if level == OVER_LEVEL]
    return tuple(events)


def _takes(state: QueueState, workload: WorkloadId, level: int) -> int:
    """Return the sort key of a change: changes that free quota come before changes that use quota.

    0 demoted to borrowing, 1 holds less than charged, 2 holds more, 3 promoted
    """
    row, amounts = state.image.workloads.rows[workload], state.ledger.awards[workload].amounts
    if level == OVER_LEVEL:
        return 0
    if row.level == OVER_LEVEL:
        return 3
    return 2 if any(count > row.charge.get(kind, 0) for kind, count in amounts.items()) else 1


def _changed(state: QueueState, workload: WorkloadId, level: int) -> StandingChanged:
    row = state.image.workloads.rows[workload]
    amounts: Mapping[str, int] = state.ledger.awards[workload].amounts
    return StandingChanged(workload, row.epoch, row.standing_revision + 1, row.tenant, level, dict(amounts))


def against_growth(
    state: QueueState, row: WorkloadRow, jobs: tuple[JobSpec, ...], now: Instant
) -> tuple[Reason, tuple[str, ...]] | None:
    """Return why quota, borrowing limit or budget forbids an active award to grow to these jobs, if growth is forbidden."""
    spec, tenants, ledger = row.spec, state.image.tenants, state.ledger
    if not row.is_active or gpu_milli_of(jobs) <= gpu_milli_of(spec.jobs):
        return None
    more = {kind: -count for kind, count in row.charge.items()}
    for job in jobs:
        types = types_of(job, state.fleet)
        kind = next((one for one in types if one in row.charge), types[0])
        more[kind] = more.get(kind, 0) + job.need.gpu_milli * job.tasks
    more = {kind: count for kind, count in more.items() if count > 0}
    if ledger.is_spent(spec.tenant, tenants, state.image.usage, now):
        return Reason.BUDGET_SPENT, (f"jobs: {spec.tenant} has no GPU-hours left for more tasks",)
    room = ledger.headroom(spec.tenant, row.level, tenants)
    counts = [(count, room[kind]) for kind, count in more.items() if kind in ledger.quota]
    if not counts or (row.level != OVER_LEVEL and all(count <= left for count, left in counts)):
        return None
    asked = ", ".join(f"{count / MILLI:g} {kind}" for kind, count in sorted(more.items()))
    if not may_be_over(spec.kind):
        text = f"jobs: {asked} more are over the quota of {spec.tenant}, and {spec.kind} work borrows nothing"
        return Reason.OVER_QUOTA, (text,)
    if ledger.may_borrow(spec.tenant, more, tenants, lending_now(state)):
        return None
    return Reason.BORROWED_ALL, (f"jobs: {asked} more are more than {spec.tenant} may borrow now",)


def award_of(
    state: QueueState, workload: WorkloadId, best: Bid, bids: list[RankedBid], now: Instant
) -> tuple[Event, ...]:
    """Return the award, after facts for the tenant's other work that becomes borrowing; empty if the bid is not covered.

    Nominal awards need headroom in the quota, borrowing ones capacity that may be borrowed, and both need budget. In a shared pool an
    award has the level of the pick, also where the regions were asked at a lower one to wait for jobs that leave.
    """
    row = state.image.workloads.rows[workload]
    image = state.regions[best.region]
    auction = state.auctions.open[workload]
    assert image is not None, best.region
    spec, tenants = row.spec, state.image.tenants
    has_pairs = state.image.sharing.settings.has_pairs
    charge = held_on(spec, best.spreads, image.hardware, has_pairs=has_pairs)
    is_shared = (
        spec.kind is Kind.SHARED
    )  # Who has spent its budget is not picked, which is as far as a budget reaches here.
    if charge and not is_shared and state.ledger.is_spent(spec.tenant, tenants, state.image.usage, now):
        return ()
    if auction.shape.level == OVER_LEVEL:
        if not state.ledger.may_borrow(spec.tenant, charge, tenants, lending_now(state)):
            return ()
    else:
        room = state.ledger.headroom(spec.tenant, auction.shape.level, tenants)
        if any(count > room[kind] for kind, count in charge.items() if kind in state.ledger.quota):
            return ()
    award = WorkloadAwarded(
        workload=workload,
        epoch=row.epoch + 1,
        region=best.region,
        rank=state.order.rank(workload),
        bids=tuple(bids),
        resume_epoch=row.resume_epoch,
        resume_step=row.resume_step,
        tenant=spec.tenant,
        level=level_of(row, tenants) if is_shared else auction.shape.level,
        charge=charge,
        types=auction.shape.types,
        refusals=_refusals(state, workload, auction),
    )
    if is_shared or auction.shape.level == OVER_LEVEL or not state.ledger.quota:
        return (award,)
    levels = _beside(state, workload, row, auction.shape.level, charge, now)
    if workload in levels:
        return ()  # The award itself would be borrowing: budget or priority has changed since the auction opened.
    # Changes that free quota come before changes that use quota.
    in_order = sorted(levels.items(), key=lambda one: one[1] != OVER_LEVEL)
    return (*(_changed(state, other, level) for other, level in in_order), award)


def _refusals(state: QueueState, workload: WorkloadId, auction: Auction) -> dict[RegionName, str]:
    """Return, by region without a bid, the region's reason, `NO_ANSWER`, or the reason why the region was not asked."""
    said, spec = (
        state.auctions.refused_by(auction.shape) | auction.abstained,
        state.image.workloads.rows[workload].spec,
    )
    found: dict[RegionName, str] = {}
    for region in sorted(state.regions):
        if region in auction.bids:
            continue
        if region in said:
            found[region] = said[region].reason
        elif region in auction.asked:
            found[region] = Reason.NO_ANSWER
        else:
            found[region] = why_not_asked(state, region, spec, auction.shape.level) or _kept_by(
                state, workload, region
            )
    return found


def _kept_by(state: QueueState, workload: WorkloadId, region: RegionName) -> Reason:
    """Return why an eligible region was not asked: a move, a drain for other work, or other work's turn."""
    one, row = state.order.one(workload), state.image.workloads.rows[workload]
    if row.move is not None:
        return Reason.MOVING
    if region == excluded(state, one.work):
        return excluded_why(state, one.work) or Reason.WAITING_TURN
    return Reason.WAITING_TURN


def _beside(
    state: QueueState, workload: WorkloadId, row: WorkloadRow, level: int, charge: Amounts, now: Instant
) -> dict[WorkloadId, int]:
    """Return the levels that must change beside a nominal award with headroom. Usually none, and found in few steps."""
    tenant = row.tenant
    if tenant not in state.to_reclassify:
        levels = state.ledger.displaced(tenant, state.image.tenants, charge, state.order.kept(tenant))
        if levels is not None:
            return levels
    also = Running(workload, state.sequence + 1, level, level, charge, row.number)
    return changed_levels(state, tenant, now, also=also)
