"""Invariants of pools (DESIGN §4): a node is in one pool at every position of the log, and changes pools only while nothing is on it.

The rules are written a second time, without the functions by which the store decides, so that a mistake there is found here.
"""

from collections.abc import Iterable

from core.events.control import NodesClosed
from core.events.pools import NodesPooled, PoolsApplied, PoolsPlanned
from core.fact import Fact
from core.images import RegionImage
from core.images.capacity import Capacity
from core.invariants.control import Finding
from core.nouns.maintenance import ClosureKind
from core.nouns.placement import numbers_in

Texts = Iterable[str]


def check_pool_fact(fact: Fact, before: RegionImage) -> list[Finding]:
    """Return violations of rule 1 by facts of pools: of a plan's number, and of nodes that move without a plan or with something on them."""
    return [(1, text) for text in _broken_by(fact, before)]


def _broken_by(fact: Fact, before: RegionImage) -> Texts:
    event = fact.event
    match event:
        case NodesPooled():
            return _pooled(event, before)
        case PoolsPlanned():
            wanted = before.pools.plan.number + (0 if event.is_more else 1)
            number = event.plan.number
            return [] if number == wanted else [f"plan {number} of pools is recorded, and {wanted} is next"]
        case PoolsApplied():
            known = before.pools.plan.number
            return (
                []
                if event.number == known
                else [f"plan {event.number} of pools is applied, and {known} is the newest"]
            )
        case NodesClosed() if event.pool and event.kind is not ClosureKind.DRAIN:
            return [f"{event.source}: closes nodes for pool {event.pool}, and is no drain"]
    return []


def _pooled(event: NodesPooled, before: RegionImage) -> Texts:
    capacity = before.capacity
    promised = {node: move.pool_to for move in before.pools.plan.moves for node in numbers_in(move.nodes)}
    going: dict[int, str] = {}
    others: set[int] = set()
    for closure in capacity.closures.values():
        for node in numbers_in(closure.nodes):
            if closure.pool:
                going[node] = closure.pool
            else:
                others.add(node)
    kept = {node for row in before.starts.rows.values() for spread in row.spreads for node in spread.nodes}
    for node in numbers_in(event.nodes):
        if node in kept:
            yield f"node {node} comes into pool {event.pool}, and is kept for a start that was promised"
        if not capacity.has_node(node):
            yield f"node {node} comes into pool {event.pool}, and there is no such node"
            continue
        if capacity.is_lost[node]:
            yield f"node {node} comes into pool {event.pool}, and is lost"
        if node in others:
            yield f"node {node} comes into pool {event.pool}, and is closed for another reason"
        if event.pool not in (promised.get(node), going.get(node)):
            yield f"node {node} comes into pool {event.pool}, and no plan says so"
        for columns in (capacity.gpu, capacity.cpu, capacity.memory):
            if columns.free[node] != columns.total[node] or columns.reserved[node]:
                yield f"node {node} comes into pool {event.pool}, and something is on it or promised of it"
                break


def check_pools(capacity: Capacity) -> list[str]:
    """Return a violation for each node that is in no pool, or in several, or in the rack or of the type of another."""
    found = []
    seen: dict[int, str] = {}
    for worker, row in capacity.workers.items():
        for group in row.inventory.groups:
            for node in group.numbers():
                if node in seen:
                    found.append(f"node {node} is in pool {seen[node]} and in pool {group.pool}")
                seen[node] = group.pool
                if capacity.worker_of[node] != worker:
                    found.append(f"node {node} is of worker {capacity.worker_of[node]} and of {worker}")
                if (capacity.rack[node], capacity.node_type[node]) != (group.rack_of(node), group.node_type):
                    found.append(f"node {node} has another rack or type than where it is counted")
    for node, node_type in enumerate(capacity.node_type):
        if node_type and node not in seen:
            found.append(f"node {node} is in no pool")
    return found
