"""Whether a store lets a worker's nodes join: what the nodes are, and what stands over them from their first moment.

Nodes of which no fact could tell what happens to them stay outside, and their worker is told why.
"""

from components.placement_store.state import StoreState
from core.codec import encode
from core.component import NOTHING, Decision
from core.events.control import NodesClosed, ScopeJoined
from core.events.region import NodesJoined
from core.fact import Event
from core.images.capacity import Capacity
from core.messages.store import RecordJoin
from core.messages.workers import JoinRefused
from core.nouns.fleet import Inventory
from core.nouns.limits import FACT_BYTES_MAX, JOIN_PROBLEMS_MAX, REASON_LENGTH_MAX
from core.nouns.maintenance import ClosureKind
from core.nouns.placement import numbers_in, runs_of
from core.rules.inventory import numbered, problems_of
from core.rules.scopes import joining_in

TOO_SCATTERED = "too scattered to be told in one fact; they join once that is lifted or over"


def joining(state: StoreState, message: RecordJoin) -> Decision:
    """What comes of it."""
    capacity = state.image.capacity
    inventory = numbered(message.inventory, capacity)
    worker = inventory.worker
    if worker in capacity.workers:
        return NOTHING
    problems = list(problems_of(inventory))
    if not problems:
        problems = _taken(capacity, inventory)
    joined: list[ScopeJoined] = []
    if not problems:
        joined, problems = _scopes_joined(state, inventory)
    fact = NodesJoined(worker, inventory)
    if not problems and is_too_large(fact):
        problems = ["its nodes are of too many sorts to be told in one fact; let more workers serve them"]
    if problems:
        return Decision(messages=(JoinRefused(message.region, worker, tuple(problems[:JOIN_PROBLEMS_MAX])),))
    return Decision(events=(fact, *joined))


def is_too_large(event: Event) -> bool:
    """Whether it must become several facts, or none."""
    return len(encode(event)) > FACT_BYTES_MAX


def _taken(capacity: Capacity, inventory: Inventory) -> list[str]:
    """What is wrong when others have nodes of these numbers."""
    taken = [node for node in inventory.numbers() if capacity.has_node(node)]
    if not taken:
        return []
    owner = capacity.worker_of[taken[0]]
    return [f"{len(taken)} of its nodes are there already: worker {owner} has node {taken[0]}"]


def _scopes_joined(state: StoreState, inventory: Inventory) -> tuple[list[ScopeJoined], list[str]]:
    """What stands over nodes that join, each drain and maintenance whose scope names them; and those that could not tell of them
    all: nodes of which no fact could tell must not be open.
    """
    closures = state.image.capacity.closures
    standing = [
        (source, ClosureKind.MAINTENANCE, row.scope, row.nodes)
        for source, row in state.image.maintenance.rows.items()
    ]
    standing += [
        (source, closure.kind, closure.scope, closure.nodes)
        for source, closure in closures.items()
        if closure.scope is not None
    ]
    found, problems = [], []
    for source, kind, scope, nodes in standing:
        mine = joining_in(inventory, scope)
        if mine:
            found.append(ScopeJoined(source, kind, runs_of(mine)))
            grown = NodesClosed(
                source, kind, runs_of([*numbers_in(nodes), *mine]), " " * REASON_LENGTH_MAX, scope=scope
            )
            if is_too_large(grown):
                problems.append(f"{source}: with these its nodes would be {TOO_SCATTERED}")
    return found, problems
