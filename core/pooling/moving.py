"""How a plan's nodes come into their pools: those on which nothing is move at once, the others are closed until they are vacant."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from core.images import RegionImage
from core.images.capacity import Capacity
from core.images.closures import Closure
from core.nouns.fleet import NodeGroup
from core.nouns.maintenance import ClosureKind
from core.nouns.placement import numbers_in
from core.nouns.pooling import NodesMove
from core.rules.scopes import is_unused, kept_nodes, still_pools

Source = str


class Moving(Struct, frozen=True):
    """What applying a plan does to nodes."""

    at_once: dict[str, list[int]]
    """By pool, nodes that move now."""
    closed: dict[str, list[int]]
    """By pool, nodes that are closed until they are vacant."""
    opened: dict[Source, list[int]]
    """By drain of an earlier plan, nodes that it closes no longer: they move now, or this plan leaves them where they are."""


def groups_by_node(capacity: Capacity) -> list[NodeGroup | None]:
    """Return the group of each node, by its number; None for a number that no node has."""
    found: list[NodeGroup | None] = [None] * len(capacity.node_type)
    for row in capacity.workers.values():
        for group in row.inventory.groups:
            found[group.first : group.first + group.count] = [group] * group.count
    return found


def pools_by_node(capacity: Capacity) -> list[str]:
    """Return the pool of each node, by its number; empty for a number that no node has."""
    return [group.pool if group is not None else "" for group in groups_by_node(capacity)]


def going_to(capacity: Capacity) -> dict[int, str]:
    """Return the pool that each node goes to which an applied plan has closed until it is vacant."""
    return {node: closure.pool for closure in capacity.closures.values() for node in _numbers_of(closure)}


def closed_to_pools(capacity: Capacity) -> set[int]:
    """Return the nodes that take no work for a reason of their own: drained, worked on, or in quarantine. They count for no pool, and never move."""
    return {
        node
        for closure in capacity.closures.values()
        if not closure.pool
        and closure.kind in (ClosureKind.DRAIN, ClosureKind.MAINTENANCE, ClosureKind.QUARANTINE)
        for node in numbers_in(closure.nodes)
    }


def moving_by(image: RegionImage, moves: Sequence[NodesMove]) -> Moving:
    """Return what applying these moves does. Nodes that were lost or closed since stay where they are, and the next plan reckons with that."""
    capacity = image.capacity
    going, kept = going_to(capacity), kept_nodes(image.starts)
    closed_for_good, still = closed_to_pools(capacity), still_pools(capacity, image.maintenance)
    target = {
        node: move.pool_to for move in moves if move.pool_to not in still for node in numbers_in(move.nodes)
    }
    found = Moving({}, {}, {})
    for node, pool in target.items():
        if capacity.is_lost[node] or node in closed_for_good:
            continue
        is_closed_for_it = going.get(node) == pool
        others = capacity.closed[node] - (node in going)
        if is_unused(capacity, node) and node not in kept and not others:
            found.at_once.setdefault(pool, []).append(node)
        elif not is_closed_for_it:
            found.closed.setdefault(pool, []).append(node)
    moved = {node for nodes in found.at_once.values() for node in nodes}
    for source, closure in capacity.closures.items():
        left = [node for node in _numbers_of(closure) if node in moved or target.get(node) != closure.pool]
        if left:
            found.opened[source] = left
    return found


def misplaced(capacity: Capacity, moves: Iterable[NodesMove]) -> Iterator[int]:
    """Yield the nodes that are not where these moves take them from: no node of the region, or another plan has moved them."""
    pools = pools_by_node(capacity)
    for move in moves:
        for node in numbers_in(move.nodes):
            if not 0 <= node < len(pools) or pools[node] != move.pool_from:
                yield node


def numbered(nodes: Mapping[str, Sequence[int]]) -> int:
    """Return how many nodes there are in all."""
    return sum(map(len, nodes.values()))


def _numbers_of(closure: Closure) -> Sequence[int]:
    return numbers_in(closure.nodes) if closure.pool else ()
