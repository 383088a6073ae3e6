"""How much may be stopped in a minute, and by whom: a limit that no bug of a component can talk its way around.

source    Twine §4: destructive operations are rate-limited in every component, and the limit once saved the fleet
"""

from core.images import RegionImage
from core.images.capacity import Capacity
from core.images.control import OperationRow
from core.images.queue import Awards
from core.images.region import Hardware
from core.messages.store import OrderStop
from core.nouns.instant import Instant
from core.nouns.limits import DESTRUCTION_MIN, DESTRUCTION_SHARE
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import BegunBy, OperationKind
from core.nouns.preemption import PREEMPTION_REQUESTER
from core.nouns.workload import EndCause
from core.rules.preemption import may_stop_unasked

USER = "user:"
"""What a user asks for its own work is for the work's own limits to pace."""
HEALTH = "health"
"""The requester of replacements for tasks that are not up: as long as they stop nothing, they cost nothing."""
DEFRAGMENTATION = "defragmentation"
"""The requester of moves that free whole nodes or racks: it has one budget, however many people ask for them."""


MOVES = "moves"
"""The requester of stops by which gangs make way for their next attempts in other regions."""
BY_OPERATION = (EndCause.DRAINED, EndCause.MAINTENANCE, EndCause.MOVED, EndCause.CHANGED)
"""Why an attempt stops by an operation, which its controller acknowledged or whose deadline came: never by a bare order."""


def may_order(image: RegionImage, order: OrderStop, now: Instant) -> bool:
    """Whether a bare order may stop an attempt for this cause, as far as the region's own log can tell."""
    capacity, key = image.capacity, (order.workload, order.epoch)
    held = capacity.holding(*key)
    if held is None or order.cause in (EndCause.COMPLETED, EndCause.ABANDONED, *BY_OPERATION):
        return False
    if order.cause is EndCause.PREEMPTED:
        # When the promise was withdrawn meanwhile, who was not yet told to stop is spared; and who is asked has its time.
        promises = capacity.promises.get(order.by, {}).items()
        over = [(order.by, epoch) for epoch, claim in promises if key in claim.victims]
        return any(may_stop_unasked(image, key, by, now) for by in over)
    if order.cause is EndCause.TIMEOUT:
        limit = held.claim.max_duration
        return bool(limit and held.started_at) and held.started_at + limit <= now
    return True


def is_free(capacity: Capacity, awards: Awards, order: OrderStop) -> bool:
    """Whether an order that may be given counts against nobody's budget, because a log shows that it has to be.

    Pushed out or out of time, the store has seen to that itself (`may_order`); cancelled, the queue's log has the user's word;
    and what ran on a node that is lost or in quarantine is not stopped for the fun of it. A drain is no such reason.
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
    """Stops a minute that each requester may have in this region."""
    return max(DESTRUCTION_MIN, sum(row.nodes for row in hardware.rows.values()) // DESTRUCTION_SHARE)


def bears_budget(operation: OperationRow, by: BegunBy) -> bool:
    """Whether what ends by it counts against its requester's budget: all but what had to be by then, which the log shows. Of a
    preemption that somebody asked for the deadline is that somebody's own word.
    """
    is_own = operation.kind is OperationKind.PREEMPT and not operation.source
    return is_limited(operation.requester) and (by is not BegunBy.DEADLINE or is_own)


def is_limited(requester: str) -> bool:
    """Whether whoever asks has a budget of stops. What a promise may destroy has caps of its own."""
    return not requester.startswith(USER) and requester != PREEMPTION_REQUESTER
