"""Scopes: the nodes that a scope names; and the power domain, drains and occupancy of a node."""

from core.images import RegionImage
from core.images.capacity import Capacity
from core.images.closures import Closure
from core.images.maintenance import Maintenance
from core.images.reservations import Starts
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import WorkerName
from core.nouns.instant import Instant
from core.nouns.limits import NODE_NUMBERS_MAX
from core.nouns.maintenance import ClosureKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.placement import numbers_in

NUMBER_LENGTH_MAX = len(str(NODE_NUMBERS_MAX))


def nodes_in(capacity: Capacity, scope: Scope) -> tuple[list[int], list[str]]:
    """Return the region's nodes of a scope, ascending; and the names in the scope that match no node here."""
    by_name: dict[str, list[int]] = {name: [] for name in scope.names}
    match scope.kind:
        case ScopeKind.NODE:
            for name in by_name:
                by_name[name] = [node for node in _number(name) if capacity.has_node(node)]
        case ScopeKind.RACK:
            _fill_racks(capacity, by_name)
        case ScopeKind.WORKER:
            for worker, row in capacity.workers.items():
                if worker in by_name:
                    by_name[worker] = row.inventory.numbers()
        case _:
            for row in capacity.workers.values():
                for group in row.inventory.groups:
                    name = _named(group, scope.kind)
                    if name and name in by_name:  # A group without a power domain matches no name.
                        by_name[name].extend(group.numbers())
    found = dict.fromkeys(node for nodes in by_name.values() for node in nodes)
    return sorted(found), [name for name, nodes in by_name.items() if not nodes]


def joining_in(inventory: Inventory, scope: Scope) -> list[int]:
    """Return the nodes of a joining worker that a scope names. A scope of node numbers is older than the numbers of these nodes."""
    match scope.kind:
        case ScopeKind.NODE:
            return []
        case ScopeKind.WORKER:
            return inventory.numbers() if inventory.worker in scope.names else []
        case ScopeKind.RACK:
            racks = {number for name in scope.names for number in _number(name)}
            return [
                node for group in inventory.groups for node in group.numbers() if group.rack_of(node) in racks
            ]
    mine = [
        group for group in inventory.groups if (name := _named(group, scope.kind)) and name in scope.names
    ]
    return [node for group in mine for node in group.numbers()]


def group_of(capacity: Capacity, node: int) -> NodeGroup:
    """Return the group of a node."""
    groups = capacity.workers[WorkerName(capacity.worker_of[node])].inventory.groups
    return next(group for group in groups if node in group.numbers())


def domain_of(capacity: Capacity, node: int) -> str:
    """Return the power domain that feeds a node, or its zone where no domain was given."""
    return domain_of_group(group_of(capacity, node))


def domain_of_group(group: NodeGroup) -> str:
    """Return the power domain of a group's nodes, or their zone where no domain was given."""
    return group.power_domain or group.zone


def keeps_away(capacity: Capacity, maintenance: Maintenance, node: int) -> bool:
    """Return whether a node is closed even to tasks that were there before: lost, quarantined, or emptied for open maintenance."""
    if capacity.is_lost[node]:
        return True
    if not capacity.closed[node]:
        return False
    for source, closure in capacity.closures.items():
        if not any(first <= node <= last for first, last in closure.nodes):
            continue
        if closure.kind is ClosureKind.QUARANTINE:
            return True
        row = maintenance.rows.get(source)
        if row is not None and row.phase is MaintenancePhase.OPEN and row.kind.needs_empty:
            return True
    return False


def is_drained(capacity: Capacity, node: int) -> bool:
    """Return whether a drain covers the node: a task that was to return there moves instead."""
    return bool(drains_of(capacity, node))


def drains_of(capacity: Capacity, node: int) -> list[Closure]:
    """Return the drains that cover a node."""
    return [
        closure
        for closure in capacity.closures.values()
        if capacity.closed[node]
        and closure.kind is ClosureKind.DRAIN
        and any(first <= node <= last for first, last in closure.nodes)
    ]


def is_vacant(capacity: Capacity, node: int) -> bool:
    """Return whether a node is not lost, and has all its capacity free."""
    columns = (capacity.gpu, capacity.cpu, capacity.memory)
    return not capacity.is_lost[node] and all(one.free[node] == one.total[node] for one in columns)


def is_unused(capacity: Capacity, node: int) -> bool:
    """Return whether a node is vacant, with no promise on its capacity."""
    columns = (capacity.gpu, capacity.cpu, capacity.memory)
    return is_vacant(capacity, node) and not any(one.reserved[node] for one in columns)


def still_pools(capacity: Capacity, maintenance: Maintenance) -> set[str]:
    """Return the pools that a drain, or a maintenance from its notice on, names as a whole: no node moves into them or out of them meanwhile."""
    scopes = [closure.scope for closure in capacity.closures.values()]
    scopes += [row.scope for row in maintenance.rows.values() if row.phase.is_active]
    return {
        name for scope in scopes if scope is not None and scope.kind is ScopeKind.POOL for name in scope.names
    }


def kept_nodes(starts: Starts) -> set[int]:
    """Return the nodes that are kept for a promised start."""
    return {node for row in starts.rows.values() for node in row.nodes()}


def vacated(image: RegionImage, closure: Closure) -> list[int]:
    """Return the nodes of a drain for another pool that can move there now."""
    capacity, kept = image.capacity, kept_nodes(image.starts)
    if closure.pool in still_pools(capacity, image.maintenance):
        return []
    nodes = [node for node in numbers_in(closure.nodes) if capacity.closed[node] == 1 and node not in kept]
    return [node for node in nodes if is_unused(capacity, node)]


def lifts_itself(image: RegionImage, drain: str, now: Instant) -> bool:
    """Return whether a drain ends by itself now, or ends for some of its nodes.

    One for defragmentation ends once all its nodes are vacant; one for another pool for each node once that is; and both when their time has passed.
    """
    closure = image.capacity.closures.get(drain)
    if closure is None or not closure.lasts:
        return False
    if closure.at + closure.lasts <= now:
        return True
    if closure.pool:
        return bool(vacated(image, closure))
    return all(is_vacant(image.capacity, node) for node in numbers_in(closure.nodes))


def _number(name: str) -> list[int]:
    """Return the number that a name stands for, if a node or a rack may have this number; otherwise an empty list."""
    return [int(name)] if name.isdecimal() and len(name) <= NUMBER_LENGTH_MAX else []


def _fill_racks(capacity: Capacity, by_name: dict[str, list[int]]) -> None:
    """Add the nodes of named racks, in one pass over all nodes, however many racks are named."""
    names: dict[int, list[str]] = {}
    for name in by_name:
        for number in _number(name):
            names.setdefault(number, []).append(name)
    for node, rack in enumerate(capacity.rack):
        for name in names.get(rack, ()):
            if capacity.has_node(node):
                by_name[name].append(node)


def _named(group: NodeGroup, kind: ScopeKind) -> str:
    match kind:
        case ScopeKind.ZONE:
            return group.zone
        case ScopeKind.POWER_DOMAIN:
            return group.power_domain
    return group.pool
