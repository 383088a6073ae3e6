"""Joins: the nodes that a worker may bring to a region, and the drains and maintenances that cover them from their first moment.

Nodes stay outside if one fact could not hold their inventory, or a closure that covers them; their worker receives the reasons.
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
    """Return the decision on a worker's join: facts of its nodes and the closures over them, or a refusal with all problems.

    A worker that has joined already gets no answer. A refusal names at most `JOIN_PROBLEMS_MAX` problems.
    """
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
    """Return whether an event is too large for one fact, so that it must be split or refused."""
    return len(encode(event)) > FACT_BYTES_MAX


def _taken(capacity: Capacity, inventory: Inventory) -> list[str]:
    """Return the problem if other workers have nodes of these numbers already; empty otherwise."""
    taken = [node for node in inventory.numbers() if capacity.has_node(node)]
    if not taken:
        return []
    owner = capacity.worker_of[taken[0]]
    return [f"{len(taken)} of its nodes are there already: worker {owner} has node {taken[0]}"]


def _scopes_joined(state: StoreState, inventory: Inventory) -> tuple[list[ScopeJoined], list[str]]:
    """Return a `ScopeJoined` for each drain and maintenance with a scope that includes joining nodes, and the problems.

    A closure that one fact could not hold together with these nodes is a problem: nodes that no fact can close must not be open.
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
