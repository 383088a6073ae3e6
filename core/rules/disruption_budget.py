"""The disruption budget: the stops per minute that one requester may cause, enforced by the store despite bugs elsewhere.

source    Twine §4: destructive operations are rate-limited in every component, and the limit once saved the fleet
"""

from core.images import RegionImage
from core.images.awards import Awards
from core.images.capacity import Capacity
from core.images.control import OperationRow
from core.images.region import Hardware
from core.messages.store import OrderStop
from core.nouns.instant import Instant
from core.nouns.limits import DESTRUCTION_MIN, DESTRUCTION_SHARE
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import ROUNDS, BegunBy, OperationKind
from core.nouns.preemption import PREEMPTION_REQUESTER
from core.nouns.workload import EndCause
from core.rules.preemption import may_stop_unasked

USER = "user:"
"""Prefix of a user's name as requester. Operations that users request for their own work are paced by the work's limits."""
HEALTH = "health"
"""Requester of replacements for tasks that are not up. A replacement costs no budget as long as no run stops for it."""
DEFRAGMENTATION = "defragmentation"
"""Requester of moves that free whole nodes or racks: one budget, however many operators request such moves."""
POOLS = "pools"
"""Requester of moves off nodes that go to another pool: a budget of their own."""
MOVES = "moves"
"""Requester of stops by which gangs make way for their next attempts in other regions."""
BY_OPERATION = (
    EndCause.DRAINED,
    EndCause.MAINTENANCE,
    EndCause.MOVED,
    EndCause.CHANGED,
    EndCause.ROUND_OVER,
)
"""Causes of stops by an operation that was acknowledged or has reached its deadline: never valid for a bare order."""


def may_order(image: RegionImage, order: OrderStop, now: Instant) -> bool:
    """Return whether a bare order may stop an attempt for this cause, as far as the region's own log can tell."""
    capacity, key = image.capacity, (order.workload, order.epoch)
    held = capacity.holding(*key)
    if held is None or order.cause in (EndCause.COMPLETED, EndCause.ABANDONED, *BY_OPERATION):
        return False
    if order.cause is EndCause.PREEMPTED:
        # A withdrawn promise releases victims that were not told to stop; a victim with a controller has until the deadline.
        promises = capacity.promises.get(order.by, {}).items()
        over = [(order.by, epoch) for epoch, claim in promises if key in claim.victims]
        return any(may_stop_unasked(image, key, by, now) for by in over)
    if order.cause is EndCause.TIMEOUT:
        limit = held.claim.max_duration
        return bool(limit and held.started_at) and held.started_at + limit <= now
    return True


def is_free(capacity: Capacity, awards: Awards, order: OrderStop) -> bool:
    """Return whether a permitted order counts against no budget, because a log shows that the stop is necessary.

    `may_order` has checked preemptions and timeouts; the queue's log has the user's request to cancel; a lost or quarantined node
    is reason enough to stop the attempts on the node. A drain is no such reason.
    """
    match order.cause:
        case EndCause.PREEMPTED | EndCause.TIMEOUT:
            return True
        case EndCause.CANCELLED:
            award = awards.rows.get(order.workload)
            return award is not None and award.epoch == order.epoch and award.is_cancel_requested
        case EndCause.NODE_LOST | EndCause.NODE_FAILED:
            held = capacity.holding(order.workload, order.epoch)
            spreads = held.claim.spreads if held is not None else ()
            return any(_has_failed(capacity, node) for spread in spreads for node in spread.nodes)
    return False


def _has_failed(capacity: Capacity, node: int) -> bool:
    ill = [one for one in capacity.closures.values() if one.kind is ClosureKind.QUARANTINE]
    return capacity.is_lost[node] or any(
        first <= node <= last for closure in ill for first, last in closure.nodes
    )


def budget_of(hardware: Hardware) -> int:
    """Return the stops per minute that each requester may cause in this region."""
    return max(DESTRUCTION_MIN, hardware.nodes // DESTRUCTION_SHARE)


def bears_budget(operation: OperationRow, by: BegunBy) -> bool:
    """Return whether the stops of an operation count against the requester's budget.

    Operations begun at their deadline do not count, because the log shows that they were due; except a preemption without a
    source, for which the requester itself set the deadline.
    """
    is_own = operation.kind is OperationKind.PREEMPT and not operation.source
    return is_limited(operation.requester) and (by is not BegunBy.DEADLINE or is_own)


def is_limited(requester: str) -> bool:
    """Return whether a requester has a budget of stops.

    Users and promises have no budget; caps on lost work bound promises. Neither do rounds: the queue's log shows each of their stops.
    """
    return not requester.startswith(USER) and requester not in (PREEMPTION_REQUESTER, ROUNDS)
