"""Which nodes a fact touches: what an index must copy again, and a check must look at again."""

from collections.abc import Sequence

from core.events.control import ClaimRevised, DomainLost, NodesClosed, NodesOpened, ScopeJoined
from core.events.region import (
    AttemptEnded,
    AwardDeclined,
    ClaimGranted,
    ClaimPromised,
    NodesJoined,
    NodesLost,
    NodesReturned,
    PromiseRevised,
    StopOrdered,
)
from core.fact import Fact
from core.images.capacity import Capacity
from core.nouns.placement import nodes_of, numbers_in


def touched_by(capacity: Capacity, fact: Fact) -> Sequence[int]:
    """Nodes whose row a fact may change. Ask before it is folded."""
    event = fact.event
    match event:
        case ClaimGranted() | ClaimPromised():
            return nodes_of(event.claim)
        case AttemptEnded() | StopOrdered():
            held = capacity.holding(event.workload, event.epoch)
            return nodes_of(held.claim) if held else ()
        case AwardDeclined() | PromiseRevised():
            claim = capacity.promise(event.workload, event.epoch)
            return nodes_of(claim) if claim else ()
        case NodesJoined():
            return event.inventory.numbers()
        case ClaimRevised():
            ends = ((move.node_from, move.node_to) for move in event.moves)
            return sorted({node for pair in ends for node in pair if node >= 0})
        case NodesClosed() | NodesOpened() | ScopeJoined() | DomainLost():
            return numbers_in(event.nodes)
        case NodesLost() | NodesReturned():
            return event.nodes
    return ()
