"""What is recorded of more scattered nodes than one fact holds."""

from typing import Any

from core.codec import encode
from core.messages.nodes import (
    CloseNodes,
    DrainNodes,
    NodesAnswered,
    OpenNodes,
    RecordDomainLoss,
    ReleaseNodes,
    UndrainNodes,
)
from core.messages.store import RecordJoin
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import WorkerName
from core.nouns.limits import FACT_BYTES_MAX, REASON_LENGTH_MAX
from core.nouns.maintenance import ClosureKind, Scope, ScopeKind
from core.nouns.placement import numbers_in
from tests.builders import EU, EU_LOG, NODE
from tests.components.support.machine import Machine
from tests.components.support.placement_store import Start, a_store
from tests.matching import facts, said_once

EVEN, ODD = range(70_000, 122_000, 2), range(70_001, 122_001, 2)
SEQUENCE_LATE = 10**6


def join(machine: Machine[Any], numbers: range) -> tuple[WorkerName, ...]:
    """Workers of a thousand nodes with these numbers, in a pool of that name."""
    pool = "odd" if numbers[0] % 2 else "even"
    workers = []
    for first in range(0, len(numbers), 1_000):
        mine = numbers[first : first + 1_000]
        groups = tuple(NodeGroup(number, 1, NODE, "H100", 9, 1, pool=pool) for number in mine)
        workers.append(WorkerName(f"{pool}-{first:06}"))
        machine.hear(RecordJoin(EU, Inventory(workers[-1], groups)))
    return tuple(workers)


def nodes_closed(events: list[Any]) -> list[int]:
    """The nodes of all these facts, in order."""
    return [node for event in events for node in numbers_in(event.nodes)]


def test_closures_that_are_scattered(start: Start) -> None:
    """Nodes that no fact holds are closed, let out and opened again by several."""
    machine = a_store(start)
    workers = join(machine, ODD)
    numbers = tuple(ODD)
    long = "x" * REASON_LENGTH_MAX
    suspects = OpenNodes(EU, ClosureKind.SUSPECT, numbers, long)
    ill = ReleaseNodes(EU, Scope(ScopeKind.POOL, ("odd",)), long, "olga", SEQUENCE_LATE)
    for kind, opens in ((ClosureKind.SUSPECT, suspects), (ClosureKind.QUARANTINE, ill)):
        closed = facts(machine.hear(CloseNodes(EU, kind, numbers, long)))
        assert numbers == tuple(nodes_closed(closed))
        opened = facts(machine.hear(opens))
        assert numbers == tuple(nodes_closed(opened))
        assert 2 == len(closed) == len(opened)
        assert FACT_BYTES_MAX > max(len(encode(event)) for event in (*closed, *opened))
        assert {} == machine.state.image.capacity.closures
    lost = facts(machine.hear(RecordDomainLoss(EU, "power-1", workers, machine.sequence(EU_LOG))))
    assert workers == tuple(worker for event in lost for worker in getattr(event, "workers", ()))
    assert numbers == tuple(nodes_closed(lost))
    assert FACT_BYTES_MAX > max(len(encode(event)) for event in lost)
    assert 2 == len(lost)


def test_drain_that_is_lifted_in_scattered_places(start: Start) -> None:
    """The drain was one run of nodes; what is left of it is many, and so is what is lifted: several facts, one answer."""
    machine = a_store(start)
    join(machine, EVEN)
    join(machine, ODD)
    machine.hear(DrainNodes(EU, Scope(ScopeKind.POOL, ("even", "odd")), "new cables", 0))
    decision = machine.hear(UndrainNodes(EU, Scope(ScopeKind.POOL, ("odd",)), 1))
    assert list(ODD) == nodes_closed(facts(decision))
    assert 2 == len(facts(decision))
    assert FACT_BYTES_MAX > max(len(encode(event)) for event in facts(decision))
    assert NodesAnswered("d-1", len(ODD), 3) == said_once(decision, NodesAnswered)
    assert 3 == machine.state.image.maintenance.revision
