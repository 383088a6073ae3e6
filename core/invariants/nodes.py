"""Invariants of cordoned nodes, maintenance and orders to stop (DESIGN §11.6), given the region's image before a fact.

The rules are written a second time, without the functions by which the store decides, so that a mistake there is found here.
Times are compared with the fact's own time, limits with those that the log records for its term.
"""

from collections import Counter
from collections.abc import Iterable

from core.events.control import MaintenanceMoved, MaintenancePlanned, NodesClosed, NodesOpened, ScopeJoined
from core.events.region import StopOrdered
from core.fact import Fact
from core.images import RegionImage
from core.images.capacity import Holding
from core.nouns.ids import WorkloadId
from core.nouns.limits import START_SPAN
from core.nouns.maintenance import ClosureKind, MaintenancePhase
from core.nouns.operation import WHOLE, OperationPhase
from core.nouns.placement import numbers_in
from core.nouns.workload import EndCause

Texts = Iterable[str]
PRECEDING = {
    MaintenancePhase.NOTICED: (MaintenancePhase.PLANNED,),
    MaintenancePhase.OPEN: (MaintenancePhase.NOTICED,),
    MaintenancePhase.OVER: (MaintenancePhase.OPEN,),
    MaintenancePhase.CANCELLED: (MaintenancePhase.PLANNED, MaintenancePhase.NOTICED),
}
BY_OPERATION = (
    EndCause.DRAINED,
    EndCause.MAINTENANCE,
    EndCause.MOVED,
    EndCause.CHANGED,
    EndCause.ROUND_OVER,
)
MINUTE = 60_000_000_000


def check_node_fact(fact: Fact, before: RegionImage) -> list[str]:
    """Return violations by facts on nodes: only known nodes may be cordoned, only by their own closures uncordoned, and a
    maintenance must keep to its window.
    """
    event = fact.event
    match event:
        case MaintenancePlanned():
            return [*_planned(event, before), *_unknown(event.maintenance, numbers_in(event.nodes), before)]
        case MaintenanceMoved():
            return list(_moved(event, fact.at, before))
        case NodesClosed():
            return list(_unknown(event.source, numbers_in(event.nodes), before))
        case NodesOpened():
            return list(_opened(event, before))
        case ScopeJoined():
            return list(_scope_joined(event, before))
    return []


def check_stop(event: StopOrdered, at: int, before: RegionImage) -> list[str]:
    """Return a violation unless the stop is within its requester's budget, or a log shows the stop to be due.

    Terms without recorded budgets are not checked.
    """
    held = before.capacity.holding(event.workload, event.epoch)
    if held is None or "destruction_min" not in before.destruction.settings:
        return []
    if event.requester:
        return list(over_budget(event.requester, 1, at, before))
    is_so = True  # The queue's log shows cancelled and abandoned attempts; rule 5 covers preempted ones.
    if event.cause is EndCause.TIMEOUT:
        limit = held.claim.max_duration
        is_over = at - held.started_at >= limit or _is_unstarted_for_long(at, held)
        is_so = bool(limit and held.started_at) and is_over
    elif event.cause is EndCause.START_FAILED:
        is_so = not held.started_at and _is_unstarted_for_long(at, held)
    elif event.cause in (EndCause.NODE_LOST, EndCause.NODE_FAILED):
        nodes = [node for spread in held.claim.spreads for node in spread.nodes]
        is_so = any(before.capacity.is_lost[node] or before.capacity.closed[node] for node in nodes)
    elif event.cause in BY_OPERATION:
        is_so = _has_begun(before, event.workload, event.epoch)
    elif event.cause not in (EndCause.CANCELLED, EndCause.PREEMPTED, EndCause.ABANDONED):
        is_so = False
    return [] if is_so else [f"{event.workload}.{event.epoch}: stopped by {event.cause} at nobody's charge"]


def _is_unstarted_for_long(at: int, held: Holding) -> bool:
    """Return whether an attempt's longest duration and a start's span are over since the grant: its start may be unreported."""
    limit = held.claim.max_duration
    return bool(limit) and at - held.granted_at >= START_SPAN + limit


def over_budget(requester: str, count: int, at: int, before: RegionImage) -> Texts:
    """Yield a violation if a requester makes more stops in a minute than the region allows one requester."""
    settings = before.destruction.settings
    if "destruction_min" not in settings:
        return
    nodes = sum(1 for node_type in before.capacity.node_type if node_type)
    budget = max(settings["destruction_min"], nodes // settings["destruction_share"])
    spent = sum(n for when, n in before.destruction.stops.get(requester, ()) if at - when < MINUTE)
    if spent + count > budget:
        yield f"{requester} stops {count} more after {spent} in a minute, and {budget} is its budget"


def check_closures(image: RegionImage) -> list[str]:
    """Return violations by closures: each node's count must be that of its closures, and maintenance over must have no closure."""
    capacity = image.capacity
    counted = Counter(node for closure in capacity.closures.values() for node in numbers_in(closure.nodes))
    found = [
        f"node {node}: closed {closed} times, by {counted[node]}"
        for node, closed in enumerate(capacity.closed)
        if closed != counted[node]
    ]
    for name, one in capacity.closures.items():
        if one.kind is ClosureKind.MAINTENANCE and name not in image.maintenance.rows:
            found.append(f"{name}: closes nodes, and is over")
    return found


def _has_begun(before: RegionImage, workload: WorkloadId, epoch: int) -> bool:
    row = before.control.row(workload, epoch)
    operations = row.operations.values() if row is not None else ()
    return any(o.task == WHOLE and o.phase is OperationPhase.BEGUN and o.kind.ends_gang for o in operations)


def _planned(event: MaintenancePlanned, before: RegionImage) -> Texts:
    if event.starts_in < 0:
        yield f"{event.maintenance}: its window begins in the past"
    if event.maintenance in before.maintenance.rows:
        yield f"{event.maintenance}: planned twice"


def _moved(event: MaintenanceMoved, at: int, before: RegionImage) -> Texts:
    row = before.maintenance.rows.get(event.maintenance)
    if row is None or row.phase not in PRECEDING.get(event.phase, ()):
        yield f"{event.maintenance}: {event.phase} after {row.phase if row else 'nothing'}"
        return
    starts_at = row.planned_at + row.starts_in
    if event.phase is MaintenancePhase.NOTICED and at < starts_at - row.lead:
        yield f"{event.maintenance}: notice is given too soon"
    if event.phase is MaintenancePhase.OPEN and at < starts_at:
        yield f"{event.maintenance}: opens before its window"
    if event.phase is MaintenancePhase.OPEN and event.maintenance not in before.capacity.closures:
        yield f"{event.maintenance}: opens, and its nodes are not closed"


def _unknown(name: str, nodes: list[int], before: RegionImage) -> Texts:
    for node in nodes:
        if not before.capacity.has_node(node):
            yield f"{name}: there is no node {node}"


def _opened(event: NodesOpened, before: RegionImage) -> Texts:
    closure = before.capacity.closures.get(event.source)
    closed = set(numbers_in(closure.nodes)) if closure is not None else set()
    for node in numbers_in(event.nodes):
        if node not in closed:
            yield f"{event.source}: opens node {node}, which it does not close"


def _scope_joined(event: ScopeJoined, before: RegionImage) -> Texts:
    """Yield violations by nodes that join a drain or maintenance, which must be active: nodes must exist, be unused and be new."""
    yield from _unknown(event.source, numbers_in(event.nodes), before)
    planned, closure = before.maintenance.rows.get(event.source), before.capacity.closures.get(event.source)
    if planned is None and closure is None:
        yield f"{event.source}: is joined by nodes, and is over"
    known = {node for one in (planned, closure) if one is not None for node in numbers_in(one.nodes)}
    held = {n for _, _, one in before.capacity.live() for spread in one.claim.spreads for n in spread.nodes}
    for node in numbers_in(event.nodes):
        if node in known:
            yield f"{event.source}: node {node} joins it, and was in it"
        if node in held:
            yield f"{event.source}: node {node} joins it, and something runs there"
