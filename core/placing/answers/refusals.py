"""An agent's answer without a bid: the reason, the capacity that is there and missing, and the changes that would help."""

from msgspec import Struct
from msgspec.structs import replace

from core.images.capacity import Capacity
from core.nouns.placement import Shortage
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.answers.bids import missing_over_all, why_kept
from core.placing.answers.shortages import shortage_of
from core.placing.diagnosis.infeasible import EmptyRegion
from core.placing.pick.nodes import Choice
from core.placing.placer import Found, Placer
from core.placing.pool_set import Asker
from core.rules.placement.errors import RuleFailed


class NoBid(Struct, frozen=True):
    """The answer instead of a bid."""

    reason: Reason
    missing_milli: int = 0
    """Missing milli of GPUs; for work without GPUs, of CPUs."""
    shortage: Shortage | None = None


def no_bid(
    placer: Placer,
    capacity: Capacity,
    empty: EmptyRegion,
    jobs: tuple[JobSpec, ...],
    asker: Asker,
    choice: Choice,
    reason: Reason,
    at_best: Asker,
) -> NoBid:
    """Return the refusal of jobs that a search did not place for a `reason`, made more precise:

    open_bids            the capacity is there, but offered to other workloads
    no_such_hardware     not even an empty region could hold the jobs
    reserved, over_limit, start_reserved   the capacity is there, but kept free
    rule_failed          a rule raised in one of these searches

    Missing capacity is counted beyond all capacity that may become available without being freed: bids that win no award, and
    possible victims. Otherwise the refusal could still hold when the jobs fit.

    at_best   the asker of a start without victims, which would be sooner, so that fewer reservations bar the jobs
    """
    try:
        return _no_bid(placer, capacity, empty, jobs, asker, choice, reason, at_best)
    except RuleFailed:
        return NoBid(Reason.RULE_FAILED)


def _no_bid(
    placer: Placer,
    capacity: Capacity,
    empty: EmptyRegion,
    jobs: tuple[JobSpec, ...],
    asker: Asker,
    choice: Choice,
    reason: Reason,
    at_best: Asker,
) -> NoBid:
    shortage = shortage_of(placer.pools, jobs, asker, choice)
    if reason not in (Reason.NO_CAPACITY, Reason.NO_SUCH_HARDWARE, Reason.DESTROYS_TOO_MUCH):
        return NoBid(reason, 0, shortage)
    every = placer.overlay.keys()
    may_be_offered = reason != Reason.NO_SUCH_HARDWARE and bool(every)
    if may_be_offered and isinstance(placer.find(jobs, asker, choice, without=every), Found):
        return NoBid(Reason.OPEN_BIDS, 0, shortage)
    if reason == Reason.DESTROYS_TOO_MUCH:
        return NoBid(reason, 0, shortage)
    outlook = empty.outlook(placer.pools, capacity, jobs, asker)
    if shortage is not None:
        shortage = replace(shortage, changes=outlook.changes)
    if outlook.is_never or reason == Reason.NO_SUCH_HARDWARE:
        return NoBid(Reason.NO_SUCH_HARDWARE, 0, shortage)
    with placer.as_if(every) as pools:
        kept = why_kept(pools, jobs, asker, choice)
        missing = missing_over_all(pools, jobs, at_best, placer.victims)
        return NoBid(kept, missing, shortage if kept is Reason.NO_CAPACITY else None)
