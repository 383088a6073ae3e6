"""What a store records of nodes at people's and the broker's word: scopes, drains, and nodes that join."""

from itertools import product
from typing import Any

import pytest

from core.codec import encode
from core.component import NOTHING, Decision
from core.events.control import (
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
    ScopeJoined,
)
from core.events.region import ClaimGranted, NodesJoined, NodesLost, NodesReturned
from core.fact import Event
from core.invariants.control import check_control
from core.messages.base import Refused
from core.messages.nodes import (
    CancelMaintenance,
    DrainNodes,
    MoveMaintenance,
    NodesAnswered,
    PlanMaintenance,
    ReleaseNodes,
    UndrainNodes,
)
from core.messages.store import RecordJoin, RecordLoss, RecordReturn
from core.messages.workers import JoinRefused
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import WorkerName
from core.nouns.instant import seconds
from core.nouns.limits import (
    FACT_BYTES_MAX,
    JOIN_PROBLEMS_MAX,
    MAINTENANCE_AHEAD_MAX,
    NAME_LENGTH_MAX,
    NODE_NUMBERS_MAX,
    NUMBER_BYTES_MAX,
    REASON_LENGTH_MAX,
    SCOPE_NAMES_MAX,
    WORKER_NODES_MAX,
)
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.reasons import Reason
from core.rules.scopes import keeps_away
from tests.builders import EU, EU_LOG, NODE, a_claim, an_inventory, attempt
from tests.components.support.machine import Machine
from tests.components.support.placement_store import (
    Start,
    a_store,
    answer,
    award,
    claim,
    end,
    place,
    promise,
    verdict,
)
from tests.matching import facts, said_once

W1, W2 = WorkerName("w1"), WorkerName("w2")
MINUTE = seconds(60)


def a_region(start: Start) -> Machine[Any]:
    """Nodes 0 to 3 of `w0`, two to a rack; 4 and 5 of `w1` and 6 of `w2` in zone `b`, fed by `power-b`, for the pool `serving`."""
    machine = a_store(start)
    for worker, first, count in ((W1, 4, 2), (W2, 6, 1)):
        group = NodeGroup(
            first, count, NODE, "H100", first // 2, 2, "b", power_domain="power-b", pool="serving"
        )
        machine.hear(RecordJoin(EU, Inventory(worker, (group,))))
    return machine


def released(machine: Machine[Any], *names: str) -> ReleaseNodes:
    """What an operator says who has looked at these nodes just now."""
    return ReleaseNodes(EU, scope(*names), "looked at", "olga", machine.sequence(EU_LOG))


def scope(*names: str, kind: ScopeKind = ScopeKind.NODE) -> Scope:
    """Some nodes."""
    return Scope(kind, names)


def drain(machine: Machine[Any], wanted: Scope, deadline: int = 0, revision: int | None = None) -> Decision:
    """An operator wants them empty."""
    known = machine.state.image.maintenance.revision if revision is None else revision
    return machine.hear(DrainNodes(EU, wanted, "new cables", known, deadline, "olga"))


def undrain(machine: Machine[Any], wanted: Scope, revision: int | None = None) -> Decision:
    """And not any more."""
    known = machine.state.image.maintenance.revision if revision is None else revision
    return machine.hear(UndrainNodes(EU, wanted, known, "olga"))


def plan(
    machine: Machine[Any],
    wanted: Scope,
    kind: MaintenanceKind = MaintenanceKind.POWER,
    *,
    starts_in: int = 2 * MINUTE,
    lasts: int = MINUTE,
    lead: int = MINUTE,
    planned: int | None = None,
    reason: str = "switchboard",
) -> Decision:
    """Work on them."""
    known = machine.state.image.maintenance.planned if planned is None else planned
    return machine.hear(PlanMaintenance(EU, wanted, kind, starts_in, lasts, lead, known, reason, "olga"))


def move(machine: Machine[Any], phase: MaintenancePhase, name: str = "m-1") -> list[Event]:
    """Task control says that its time has come: what is recorded."""
    return facts(machine.hear(MoveMaintenance(EU, name, phase)))


def why_not(decision: Decision) -> tuple[str, tuple[str, ...]]:
    """The reason, and every problem."""
    refused = said_once(decision, Refused)
    assert [] == facts(decision)
    return refused.reason, refused.problems


# Scopes.


@pytest.mark.parametrize(
    ("wanted", "nodes"),
    [
        (scope("1", "3"), ((1, 1), (3, 3))),
        (scope("3", "1", "2"), ((1, 3),)),
        (scope("0", kind=ScopeKind.RACK), ((0, 1),)),
        (scope("1", "2", kind=ScopeKind.RACK), ((2, 5),)),
        (scope("b", kind=ScopeKind.ZONE), ((4, 6),)),
        (scope("zone-0", kind=ScopeKind.ZONE), ((0, 3),)),
        (scope("power-b", kind=ScopeKind.POWER_DOMAIN), ((4, 6),)),
        (scope("serving", kind=ScopeKind.POOL), ((4, 6),)),
        (scope("training", "serving", kind=ScopeKind.POOL), ((0, 6),)),
        (scope("w1", kind=ScopeKind.WORKER), ((4, 5),)),
    ],
)
def test_scope_names_nodes(start: Start, wanted: Scope, nodes: tuple[tuple[int, int], ...]) -> None:
    """T22: a machine, a rack, what one switchboard feeds, a zone, a pool, all that a worker serves; several of each."""
    [closed] = facts(drain(a_region(start), wanted))
    assert isinstance(closed, NodesClosed)
    assert nodes == closed.nodes
    [planned] = facts(plan(a_region(start), wanted))
    assert isinstance(planned, MaintenancePlanned)
    assert (wanted, nodes) == (planned.scope, planned.nodes)


@pytest.mark.parametrize(
    ("wanted", "unknown"),
    [
        (scope("1", "9", "nine", "-1", "²"), ("9", "nine", "-1", "²")),
        (scope("9" * 6000), ("9" * 128,)),
        (scope("7", "x", kind=ScopeKind.RACK), ("7", "x")),
        (scope("a", "b", kind=ScopeKind.ZONE), ("a",)),
        (scope("", kind=ScopeKind.POWER_DOMAIN), ("",)),
        (scope("w9", kind=ScopeKind.WORKER), ("w9",)),
        (scope("gold", kind=ScopeKind.POOL), ("gold",)),
    ],
)
def test_scope_of_unknown_places(start: Start, wanted: Scope, unknown: tuple[str, ...]) -> None:
    """T22: every unknown name is refused at once, and nothing is recorded, not even of known places. No name is one too: most nodes have
    no power domain, and are not in one without a name.
    """
    machine = a_region(start)
    problems = tuple(f"{wanted.kind}: there is no {name}" for name in unknown)
    for decision in (drain(machine, wanted), undrain(machine, wanted), plan(machine, wanted)):
        assert (Reason.UNKNOWN_PLACE, problems) == why_not(decision)


def test_scope_without_names_or_with_too_many(start: Start) -> None:
    """Nobody means nothing, and whoever means very many names the domain."""
    machine = a_region(start)
    assert (Reason.UNKNOWN_PLACE, ("node: none is named",)) == why_not(drain(machine, scope()))
    many = scope(*["0"] * (SCOPE_NAMES_MAX + 1))
    problem = f"node: {SCOPE_NAMES_MAX} names are the most at once"
    assert (Reason.UNKNOWN_PLACE, (problem,)) == why_not(plan(machine, many))


def test_scope_that_is_scattered(start: Start) -> None:
    """Runs of nodes that no fact holds are refused, and the store goes on."""
    machine = a_store(start)
    numbers = range(70_000, 70_000 + 2 * 24_500, 2)
    for first in range(0, len(numbers), 1_000):
        mine = numbers[first : first + 1_000]
        groups = tuple(NodeGroup(number, 1, NODE, "H100", 9, 1, pool="odd") for number in mine)
        machine.hear(RecordJoin(EU, Inventory(WorkerName(f"w{first + 1}"), groups)))
    for decision in (
        drain(machine, scope("odd", kind=ScopeKind.POOL)),
        plan(machine, scope("odd", kind=ScopeKind.POOL)),
    ):
        assert Reason.TOO_LARGE == why_not(decision)[0]
    assert 1 == len(facts(drain(machine, scope("70000"))))


# Drains.


def test_drain_and_its_end(start: Start) -> None:
    """P5: nothing new is placed there; who runs, runs on; lifted, all is as before."""
    machine = a_region(start)
    place(machine, "w-1", {0: 1})
    decision = drain(machine, scope("0", "1"))
    closed = NodesClosed("d-1", ClosureKind.DRAIN, ((0, 1),), "new cables", by="olga")
    assert [closed] == facts(decision)
    assert NodesAnswered("d-1", 2, 1) == said_once(decision, NodesAnswered)
    refused = claim(machine, a_claim("w-2", placed={1: 1, 2: 1}, award_sequence=award(machine, "w-2")))
    assert "conflict" == verdict(refused)
    assert [(1, False)] == [(row.node, row.is_open) for row in answer(refused).rows]
    decision = undrain(machine, scope("0", "1"))
    assert [NodesOpened("d-1", ClosureKind.DRAIN, ((0, 1),), "undrained", "olga")] == facts(decision)
    assert NodesAnswered("d-1", 2, 2) == said_once(decision, NodesAnswered)
    place(machine, "w-3", {1: 1})
    assert [] == check_control(machine.state.image)


def test_drain_of_everything(start: Start) -> None:
    """It is one fact; nothing is placed, nothing is stopped by it, and a promise into it is broken."""
    machine = a_region(start)
    place(machine, "w-1", {0: 8})
    promise(machine, "w-2", {0: 8}, (attempt("w-1"),))
    everything = scope("training", "serving", kind=ScopeKind.POOL)
    [closed] = facts(drain(machine, everything))
    assert isinstance(closed, NodesClosed)
    assert ((0, 6),) == closed.nodes
    assert not any(machine.state.image.capacity.is_open(node) for node in range(7))
    assert machine.state.image.capacity.holding(*attempt("w-1")) is not None
    assert ClaimGranted not in [type(event) for event in facts(end(machine, "w-1"))]


def test_drain_on_an_older_state(start: Start) -> None:
    """A word that comes late undoes no newer one."""
    machine = a_region(start)
    drain(machine, scope("0"))
    undrain(machine, scope("0"))
    wanted = (Reason.SUPERSEDED, ("revision: it is 2 now",))
    for revision in (0, 1, 3):
        assert wanted == why_not(drain(machine, scope("0"), revision=revision))
        assert wanted == why_not(undrain(machine, scope("0"), revision=revision))


def test_several_drains_of_a_node(start: Start) -> None:
    """It is open again when none of them holds it; to undrain lifts all of them, on these nodes alone."""
    machine = a_region(start)
    drain(machine, scope("0", "1"))
    drain(machine, scope("1", "2"))
    decision = undrain(machine, scope("1"))
    assert [("d-1", ((1, 1),)), ("d-2", ((1, 1),))] == [
        (event.source, event.nodes) for event in facts(decision) if isinstance(event, NodesOpened)
    ]
    assert NodesAnswered("d-1,d-2", 1, 4) == said_once(decision, NodesAnswered)
    capacity = machine.state.image.capacity
    assert [False, True, False, True] == [capacity.is_open(node) for node in range(4)]
    assert (Reason.NOT_DRAINED, ()) == why_not(undrain(machine, scope("1", "3")))


def test_one_drain_is_lifted_alone(start: Start) -> None:
    """By its name, whole, and whatever else closes its nodes goes on to."""
    machine = a_region(start)
    plan(machine, scope("3"), starts_in=0)
    move(machine, MaintenancePhase.NOTICED)
    drain(machine, scope("0", "1"))
    drain(machine, scope("1", "2"))
    for name in ("d-3", "m-1", "quarantine"):
        gone = machine.hear(UndrainNodes(EU, scope(), 2, "olga", name))
        assert (Reason.NOT_DRAINED, ()) == why_not(gone)
    old = machine.hear(UndrainNodes(EU, scope(), 1, "olga", "d-1"))
    assert (Reason.SUPERSEDED, ("revision: it is 2 now",)) == why_not(old)
    decision = machine.hear(UndrainNodes(EU, scope(), 2, "olga", "d-1"))
    assert [NodesOpened("d-1", ClosureKind.DRAIN, ((0, 1),), "undrained", "olga")] == facts(decision)
    assert ("d-1", 2, 3) == tuple(
        getattr(said_once(decision, NodesAnswered), at) for at in ("source", "nodes", "revision")
    )
    assert [0, 1, 1, 1] == machine.state.image.capacity.closed[:4]


@pytest.mark.parametrize("deadline", [-1, MAINTENANCE_AHEAD_MAX + 1])
def test_drain_with_a_deadline_that_cannot_be(start: Start, deadline: int) -> None:
    """In the past, or beyond all planning."""
    assert why_not(drain(a_region(start), scope("0"), deadline))[1][0].startswith("deadline")


def test_reason_without_end(start: Start) -> None:
    """It stands in facts and before people."""
    machine = a_region(start)
    long = "x" * (REASON_LENGTH_MAX + 1)
    plan(machine, scope("0"))
    for message in (
        DrainNodes(EU, scope("0"), long, 0),
        CancelMaintenance(EU, "m-1", long),
        ReleaseNodes(EU, scope("0"), long),
    ):
        assert Reason.INVALID == why_not(machine.hear(message))[0]
    assert Reason.INVALID == why_not(plan(machine, scope("0"), reason=long))[0]
    assert Reason.INVALID == why_not(machine.hear(UndrainNodes(EU, scope("0"), 0, "x" * 200)))[0]


# Nodes that join.


def joins(machine: Machine[Any]) -> list[Event]:
    """Nodes 8 and 9, in rack 1 and rack 4; what is recorded beside that."""
    groups = tuple(
        NodeGroup(node, 1, NODE, "H100", rack, 1, "b", power_domain="power-b", pool="serving")
        for node, rack in ((8, 1), (9, 4))
    )
    return facts(machine.hear(RecordJoin(EU, Inventory(WorkerName("w9"), groups))))[1:]


@pytest.mark.parametrize(
    ("wanted", "inside"),
    [
        (scope("1", kind=ScopeKind.RACK), ((8, 8),)),
        (scope("1", "3", kind=ScopeKind.RACK), ((8, 8),)),
        (scope("b", kind=ScopeKind.ZONE), ((8, 9),)),
        (scope("power-b", kind=ScopeKind.POWER_DOMAIN), ((8, 9),)),
        (scope("serving", kind=ScopeKind.POOL), ((8, 9),)),
        (scope("0", kind=ScopeKind.RACK), ()),
        (scope("zone-0", kind=ScopeKind.ZONE), ()),
        (scope("training", kind=ScopeKind.POOL), ()),
        (scope("w1", kind=ScopeKind.WORKER), ()),
        (scope("2", "3"), ()),
    ],
)
def test_nodes_that_join_a_drained_scope(
    start: Start, wanted: Scope, inside: tuple[tuple[int, int], ...]
) -> None:
    """T22: from their first moment they take nothing new, and with the others they are open again."""
    machine = a_region(start)
    drain(machine, wanted)
    assert ([ScopeJoined("d-1", ClosureKind.DRAIN, inside)] if inside else []) == joins(machine)
    capacity = machine.state.image.capacity
    shut = [node for first, last in inside for node in range(first, last + 1)]
    assert [node not in shut for node in (8, 9)] == [capacity.is_open(node) for node in (8, 9)]
    assert [] == check_control(machine.state.image)
    undrain(machine, wanted)
    assert {} == capacity.closures
    assert all(capacity.is_open(node) for node in (8, 9))
    assert [] == check_control(machine.state.image)


def test_nodes_that_join_a_drained_rack_take_no_claim(start: Start) -> None:
    """The drain keeps its deadline, and where it was lifted they come into nothing."""
    machine = a_region(start)
    drain(machine, scope("1", kind=ScopeKind.RACK), 2 * MINUTE)
    machine.wait(MINUTE)
    joins(machine)
    closure = machine.state.image.capacity.closures["d-1"]
    assert (((2, 3), (8, 8)), 2 * MINUTE, "new cables") == (closure.nodes, closure.deadline, closure.reason)
    wanted = a_claim("w-8", placed={8: 1}, award_sequence=award(machine, "w-8"))
    assert "conflict" == verdict(claim(machine, wanted))
    undrain(machine, scope("1", kind=ScopeKind.RACK))
    assert "granted" == verdict(claim(machine, wanted))
    group = NodeGroup(10, 1, NODE, "H100", 1, 1)
    assert 1 == len(facts(machine.hear(RecordJoin(EU, Inventory(WorkerName("w8"), (group,))))))


@pytest.mark.parametrize("joined_in", ["planned", "noticed", "open"])
def test_nodes_that_join_a_scope_under_maintenance(start: Start, joined_in: str) -> None:
    """T22: they are closed with the others, kept away from while the window is open, and open again with them."""
    machine = a_region(start)
    plan(machine, scope("1", kind=ScopeKind.RACK))
    capacity, joined = machine.state.image.capacity, [ScopeJoined("m-1", ClosureKind.MAINTENANCE, ((8, 8),))]
    for phase in MaintenancePhase.PLANNED, MaintenancePhase.NOTICED, MaintenancePhase.OPEN:
        if phase is not MaintenancePhase.PLANNED:
            machine.wait(MINUTE)
            move(machine, phase)
        if phase == joined_in:
            assert joined == joins(machine)
            assert capacity.is_open(8) == (joined_in == "planned")
    assert keeps_away(capacity, machine.state.image.maintenance, 8)
    assert ((2, 3), (8, 8)) == machine.state.image.maintenance.rows["m-1"].nodes
    assert [] == check_control(machine.state.image)
    machine.wait(MINUTE)
    move(machine, MaintenancePhase.OVER)
    assert ({}, True) == (capacity.closures, capacity.is_open(8))
    assert [] == check_control(machine.state.image)


def test_worker_that_would_make_a_drain_too_large_waits(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It joins once the drain is lifted: nodes that no fact could name must not be open."""
    machine = a_region(start)
    drain(machine, scope("b", kind=ScopeKind.ZONE))
    monkeypatch.setattr("components.placement_store.node_joins.FACT_BYTES_MAX", REASON_LENGTH_MAX)
    group = NodeGroup(8, 1, NODE, "H100", 1, 1, "b")
    refused = machine.hear(RecordJoin(EU, Inventory(WorkerName("w9"), (group,))))
    assert [] == facts(refused)
    (problem,) = said_once(refused, JoinRefused).problems
    assert "d-1: with these its nodes would be too scattered" in problem
    assert not machine.state.image.capacity.has_node(8)
    undrain(machine, scope("b", kind=ScopeKind.ZONE))
    joins(machine)
    assert machine.state.image.capacity.is_open(8)


def many(count: int) -> Inventory:
    """So many nodes of one worker, whose numbers take as much room as any."""
    first = 1 << 16
    assert NUMBER_BYTES_MAX == len(encode(first)) == len(encode(NODE_NUMBERS_MAX))
    group = NodeGroup(first, count, NODE, "H100", 0, count)
    return Inventory(WorkerName("w" * NAME_LENGTH_MAX), (group,))


def test_largest_worker_joins_is_lost_and_returns(start: Start) -> None:
    """Each is a fact that fits."""
    machine = a_store(start)
    inventory = many(WORKER_NODES_MAX)
    now = machine.sequence(EU_LOG) + 1
    told = [
        facts(machine.hear(message))
        for message in (
            RecordJoin(EU, inventory),
            RecordLoss(EU, inventory.worker, now),
            RecordReturn(EU, inventory.worker, now + 1),
        )
    ]
    assert [[NodesJoined], [NodesLost], [NodesReturned]] == [[type(one) for one in events] for events in told]
    assert all(len(encode(one)) <= FACT_BYTES_MAX for events in told for one in events)


@pytest.mark.parametrize(
    ("inventory", "problem"),
    [
        (many(WORKER_NODES_MAX + 1), "it serves 50001 nodes, and a worker 50000 at most"),
        (an_inventory("w9", 3, 2), "1 of its nodes are there already: worker w0 has node 3"),
        (
            Inventory(
                WorkerName("w9"), tuple(NodeGroup(8 + 2 * n, 1, NODE, "H", n, 1) for n in range(2_000))
            ),
            "its nodes are of too many sorts to be told in one fact",
        ),
        (Inventory(WorkerName("w9"), ()), "it serves no node"),
    ],
    ids=["too-many", "taken", "too-scattered", "none"],
)
def test_worker_with_refused_nodes_is_told_why(start: Start, inventory: Inventory, problem: str) -> None:
    """Nothing is recorded; a worker that joined already is told nothing."""
    machine = a_store(start)
    decision = machine.hear(RecordJoin(EU, inventory))
    refused = said_once(decision, JoinRefused)
    assert ([], EU, inventory.worker) == (facts(decision), refused.region, refused.worker)
    assert [problem] == [text[: len(problem)] for text in refused.problems]
    assert NOTHING == machine.hear(RecordJoin(EU, an_inventory()))


def test_worker_with_much_wrong_is_told_some_of_it(start: Start) -> None:
    """As much as somebody reads."""
    machine = a_store(start)
    groups = tuple(NodeGroup(n, 1, NODE, "", n, 1) for n in range(8, 8 + 2 * JOIN_PROBLEMS_MAX))
    refused = said_once(machine.hear(RecordJoin(EU, Inventory(WorkerName("w9"), groups))), JoinRefused)
    assert JOIN_PROBLEMS_MAX == len(refused.problems)


# Requests that are repeated.


def test_repeated_request_is_answered_and_closes_nothing_twice(start: Start) -> None:
    """Its answer was lost, and the operator looked again before repeating it: one drain and one maintenance, not two."""
    machine = a_store(start)
    where = scope("0")
    for kind, key in product(("drain", "maintenance"), ("k-1", "k-1", "k-2", "", "")):
        maintenance = machine.state.image.maintenance
        if kind == "drain":
            told = machine.hear(DrainNodes(EU, where, "cables", maintenance.revision, by="olga", key=key))
        else:
            spans = (2 * MINUTE, MINUTE, MINUTE, maintenance.planned)
            told = machine.hear(
                PlanMaintenance(EU, where, MaintenanceKind.POWER, *spans, "cables", "olga", key)
            )
        assert 1 == said_once(told, NodesAnswered).nodes
    assert ["d-1", "d-2", "d-3", "d-4"] == list(machine.state.image.capacity.closures)
    assert ["m-1", "m-2", "m-3", "m-4"] == list(machine.state.image.maintenance.rows)


def test_key_that_is_too_long(start: Start) -> None:
    """As any other text of an operator."""
    machine, key = a_store(start), "k" * (NAME_LENGTH_MAX + 1)
    told = machine.hear(DrainNodes(EU, scope("0"), "cables", 0, by="olga", key=key))
    assert (Reason.INVALID, (f"key: {NAME_LENGTH_MAX} characters are the most",)) == why_not(told)
