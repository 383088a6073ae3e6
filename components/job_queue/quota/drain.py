"""Room that is gathered, over quota, for who was submitted as long ago as waiting counts: in one region nobody else is lent anything.

Of what comes free narrow work takes each piece, and a wide gang is first in the order and gets nothing. So how long it waits would go by
how much narrow work there is, and have no bound. For whoever is as old as `age_cap`, one after the other, room is gathered where the
smallest part of all is missing:

nobody is gathered for            the oldest of those that lack nothing but room is chosen, and the region
somebody is                       nobody else who is over quota is asked for there, if it wants GPUs of the same type. It is asked for
                                  everywhere, and may start elsewhere
somebody is within quota          it is asked for everywhere too, but a bid of that region is taken where there is no other: else all
                                  that is within quota would start there, for nobody has to leave there first
another of its tenant is over     it is asked for there too: of a tenant's work of one shape the first alone is asked for, and one that was
quota, and wants the same         pushed out elsewhere is older and stands before it
it is awarded, or another of      they had their turn, and the next one is chosen
its tenant takes that room
it waits for `GATHER_PATIENCE`    the same. Who had its turn comes again as if it had been submitted then: not behind all who never had one, for
                                  there are always some, and who was pushed out again would never have another

Whom it is gathered for is noted and not recorded: after a restart the oldest is chosen anew.
"""

from collections.abc import Callable
from fractions import Fraction

from components.job_queue.ordering import asked_for, there_is
from components.job_queue.state.auctions import LACKS_ROOM
from components.job_queue.state.queue_state import Gathered, QueueState, eligible
from components.job_queue.state.quota_ledger import Lending
from core.events.queue import WorkloadAwarded
from core.fact import Fact
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant, after
from core.nouns.limits import GATHER_PATIENCE
from core.nouns.placement import gpu_milli_of
from core.nouns.tenant import OVER_LEVEL
from core.ranking.scan import LOWEST, PendingWork, QuotaClass
from core.rules.tenancy import gpus_by_type

NEVER = Instant(-1)
WHOLE = 100
"""Percent."""


# Folding.


def index_gathering(state: QueueState, fact: Fact) -> None:
    """Follow a fact of the queue: whoever it was gathered for has what was wanted, or another of that tenant has what was gathered."""
    kept, event = state.gathered, fact.event
    if not isinstance(event, WorkloadAwarded) or kept is None:
        return
    is_another = (
        event.region == kept.region and event.level == OVER_LEVEL and _wants_the_same(state, event.workload)
    )
    if event.workload == kept.workload or is_another:
        note_gathered(state, None, fact.at)


def note_gathered(state: QueueState, gathered: Gathered | None, now: Instant) -> None:
    """From now on it is gathered for this one."""
    was, rows = state.gathered, state.image.workloads.rows
    if was is not None and was != gathered:
        state.gathered_last[was.workload] = now
    for workload in list(state.gathered_last):
        if workload not in rows or rows[workload].phase.is_terminal:
            del state.gathered_last[workload]
    state.gathered = gathered


# Whom it is gathered for.


def gathered_now(
    state: QueueState, now: Instant, lent: Lending, is_blocked: Callable[[PendingWork], bool]
) -> Gathered | None:
    """For whom, and where, from now on: for the same, until its patience is over or it may not be.

    lent         what could be held over quota if nobody else held anything so
    is_blocked   whether no region is known to have room for it
    """
    if not state.image.tenants.ranking.gather_percent:
        return None
    kept = state.gathered
    if kept is not None and now < after(kept.since, GATHER_PATIENCE) and _is_over(state, kept.workload):
        work = state.order.work(kept.workload)
        if _may_be(state, work, now, lent) and kept.region in missing_parts(state, work):
            return kept
    last = state.gathered_last if kept is None else {**state.gathered_last, kept.workload: now}
    turns = sorted(
        (max(work.submitted_at, last.get(work.workload, NEVER)), work.number, work)
        for work in state.order.firsts(QuotaClass.BORROWING)
        if _may_be(state, work, now, lent)
    )
    for _, _, work in turns:
        region = nearest(state, work)
        is_asked = work.workload in state.auctions.open  # Once more, for it has waited for long.
        if region is not None and (is_asked or is_blocked(work)):
            kinds = sorted({kind for need in work.needs for kind in need})
            shape = state.image.workloads.rows[work.workload].shape
            return Gathered(work.workload, work.tenant, shape, region, tuple(kinds), now)
    return None


def _is_over(state: QueueState, workload: WorkloadId) -> bool:
    return workload in state.order and state.order.one(workload).quota_class is QuotaClass.BORROWING


def _may_be(state: QueueState, work: PendingWork, now: Instant, lent: Lending) -> bool:
    """Whether it is old enough, and wants no more of some type than may be gathered and could be lent."""
    ranking, there = state.image.tenants.ranking, there_is(state)
    if not ranking.credit.lag_weight or now < after(work.submitted_at, ranking.credit.age_cap):
        return False
    return any(
        all(count * WHOLE <= there.get(kind, 0) * ranking.gather_percent for kind, count in need.items())
        and state.ledger.may_borrow(work.tenant, need, state.image.tenants, lent)
        for need in work.needs
    )


def missing_parts(state: QueueState, work: PendingWork) -> dict[RegionName, Fraction]:
    """By region that lacks nothing but room for it, which part of all that there is of what it wants is missing. What a region has not said
    is all that is wanted.
    """
    asked = asked_for(state, work, LOWEST, QuotaClass.BORROWING)
    said, spec = state.auctions.refused_by(asked), state.image.workloads.rows[work.workload].spec
    kinds = {kind for need in work.needs for kind in need}
    parts: dict[RegionName, Fraction] = {}
    for region in eligible(state, spec, asked.level):
        image, no = state.regions[region], said.get(region)
        if image is None or (no is not None and no.reason not in LACKS_ROOM):
            continue
        there = sum(count for kind, count in gpus_by_type((image,)).items() if kind in kinds)
        missing = no.missing_gpu_milli if no is not None else gpu_milli_of(spec.jobs)
        parts[region] = Fraction(missing, max(1, there))
    return parts


def nearest(state: QueueState, work: PendingWork) -> RegionName | None:
    """Where the smallest part of all is missing for it: as much comes free sooner where there is more."""
    parts = missing_parts(state, work)
    return min(parts, key=lambda region: (parts[region], region), default=None)


# To whom its region is closed.


def has_turn(state: QueueState, workload: WorkloadId) -> bool:
    """Whether room is gathered for one that waits, or for another of its tenant that is over quota too and wants the same: whoever of them is
    first takes it.
    """
    kept = state.gathered
    if kept is None or kept.workload == workload:
        return kept is not None
    return _wants_the_same(state, workload) and _is_over(state, workload)


def _wants_the_same(state: QueueState, workload: WorkloadId) -> bool:
    kept, row = state.gathered, state.image.workloads.rows[workload]
    return kept is not None and (kept.tenant, kept.shape) == (row.spec.tenant, row.shape)


def closed_to(state: QueueState, work: PendingWork) -> RegionName | None:
    """The region where room is gathered for another that wants GPUs of the same type, unless a start is promised to this one there: over quota
    nobody else is asked for there.
    """
    kept = state.gathered
    if kept is None or has_turn(state, work.workload):
        return None
    promised = state.image.start_promises.rows.get(work.workload)
    if promised is not None and promised.region == kept.region:
        return None
    return kept.region if any(kind in kept.kinds for need in work.needs for kind in need) else None
