"""Which nodes a fact touches: what an index must copy again, and a check must look at again."""

from collections.abc import Sequence

from core.events.control import ClaimRevised, DomainLost, NodesClosed, NodesOpened, ScopeJoined
from core.events.pools import NodesPooled
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
from core.events.starts import StartReserved, StartUnreserved
from core.fact import Event, Fact
from core.images.capacity import Capacity
from core.images.reservations import Starts
from core.nouns.placement import nodes_of, numbers_in

LAYS_OUT: tuple[type[Event], ...] = (NodesJoined, NodesPooled)
"""Facts after which indexes of nodes by pool, rack and type are made anew."""


def kept_by(starts: Starts, fact: Fact) -> Sequence[int]:
    """Nodes that a fact may begin or cease to keep for a promised start. Ask before it is folded."""
    event = fact.event
    if not isinstance(event, StartReserved | StartUnreserved | ClaimGranted):
        return ()
    row = starts.rows.get(event.workload)
    nodes = row.nodes() if row is not None else []
    if isinstance(event, StartReserved):
        nodes.extend(node for spread in event.spreads for node in spread.nodes)
    return nodes


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
        case NodesClosed() | NodesOpened() | ScopeJoined() | DomainLost() | NodesPooled():
            return numbers_in(event.nodes)
        case NodesLost() | NodesReturned():
            return event.nodes
    return ()
