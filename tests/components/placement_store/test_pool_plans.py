"""Which node is in which pool: needs that operators state, plans that move nodes, and nodes in use that wait to be vacant."""

from typing import Any

import pytest
from msgspec.structs import replace

from components.placement_store.component import PlacementStore
from components.placement_store.pools import headroom_of
from core.component import NOTHING, Decision
from core.events.control import NodesClosed, NodesOpened
from core.events.pools import NodesPooled, PoolChanged, PoolingPolicySet, PoolsApplied, PoolsPlanned
from core.events.starts import StartReserved, StartUnreserved
from core.invariants.pools import check_pools
from core.messages.base import Refused
from core.messages.nodes import DrainNodes, LiftDrain, MoveMaintenance, PlanMaintenance
from core.messages.pools import ApplyPools, PoolsAnswered, SetPoolingPolicy, SetPoolsPlan
from core.messages.store import RecordJoin, RecordLoss
from core.nouns.fleet import Inventory
from core.nouns.ids import GLOBAL_LOG, WorkerName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import POOL_DRAIN_SPAN
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.pool import Survives
from core.nouns.pooling import NodesMove, PoolingPolicy, PoolsBasis
from core.nouns.reasons import Reason
from core.nouns.starts import StartOver
from core.nouns.workload import Kind
from core.rules.headroom import Headroom
from tests.builders import EU, EU_LOG, a_claim, an_inventory, attempt
from tests.components.support.machine import Machine
from tests.components.support.placement_store import (
    REGIONS,
    Start,
    award,
    claim,
    end,
    place,
    promise,
    refusal,
)
from tests.components.support.pool_plans import a_plan, needs, planned, pool_of
from tests.matching import facts, said_once

ANY_NUMBER = PoolingPolicy(at_once=1_000)
BY_HAND = PoolingPolicy(is_automatic=False, at_once=1_000)


def a_pooled_store(start: Start, policy: PoolingPolicy = ANY_NUMBER) -> Machine[Any]:
    """Nodes 0 to 3 in power domain `north` and 4 to 7 in `south`, two a rack, all in pool `training`."""
    machine = start(PlacementStore(EU))
    machine.fact(GLOBAL_LOG, *REGIONS)
    for number, domain in enumerate(("north", "south")):
        (group,) = an_inventory("", 4 * number, 4).groups
        worker = WorkerName(f"w{number}")
        machine.hear(RecordJoin(EU, Inventory(worker, (replace(group, power_domain=domain),))))
    machine.hear(SetPoolingPolicy(EU, policy, 0, "olga"))
    return machine


def pools(machine: Machine[Any]) -> str:
    """The first letter of each node's pool."""
    return "".join(pool_of(machine, node)[0] for node in range(8))


def problems(decision: Decision) -> tuple[str, tuple[str, ...]]:
    """Why it was refused. Nothing is recorded."""
    assert [] == facts(decision)
    refused = said_once(decision, Refused)
    return refused.reason, refused.problems


# Needs.


def test_need_is_recorded(start: Start) -> None:
    """With what it survives, beside what was set of the pool before; also of a pool that has no node yet."""
    machine = a_pooled_store(start)
    needs(machine, reserve=1)
    decision = needs(machine, needs=(("H100", 24),), survives=Survives.NOTHING)
    (fact,) = facts(decision)
    assert isinstance(fact, PoolChanged)
    assert (1, (("H100", 24),), Survives.NOTHING) == (
        fact.settings.reserve,
        fact.settings.needs,
        fact.settings.survives,
    )
    assert 1 == len(facts(needs(machine, "service", needs=(("H100", 8),))))


@pytest.mark.parametrize(
    ("pool", "parts", "wanted"),
    [
        ("training", {"needs": (("H100", 65),)}, "needs: the region has 64 H100; 65 are too many"),
        ("training", {"needs": (("A100", 8),)}, "needs: the region has no A100; it has H100"),
        ("training", {"needs": (("H100", -8),)}, "needs: -8 GPUs cannot be needed of H100; it is 1 or more"),
        ("training", {"needs": (("H100", 8), ("H100", 9))}, "needs: each node type stands once"),
        ("belt", {"needs": (("H100", 8),)}, "pool: there is no belt; there are training"),
    ],
)
def test_need_that_cannot_be(start: Start, pool: str, parts: dict[str, Any], wanted: str) -> None:
    """One reason each, and nothing is recorded."""
    _, told = problems(needs(a_pooled_store(start), pool, **parts))
    assert 1 == len(told)
    assert told[0].startswith(wanted)


def test_needs_of_all_pools_count_together(start: Start) -> None:
    """A region cannot promise its nodes twice."""
    machine = a_pooled_store(start)
    needs(machine, "service", needs=(("H100", 40),))
    _, told = problems(needs(machine, needs=(("H100", 32),)))
    assert ("needs: the region has 64 H100, and other pools need 40; 32 are too many",) == told


def test_one_domain_alone_survives_nothing(start: Start) -> None:
    """It is said, and the need stands once that is what the operator wants."""
    machine = a_store_of_one_domain(start)
    _, told = problems(needs(machine, needs=(("H100", 8),)))
    (text,) = told
    assert text.startswith("survives: all H100 of the region are in power domain zone-0")
    assert facts(needs(machine, needs=(("H100", 8),), survives=Survives.NOTHING))


def a_store_of_one_domain(start: Start) -> Machine[Any]:
    """Four nodes that name no power domain."""
    machine = start(PlacementStore(EU))
    machine.fact(GLOBAL_LOG, *REGIONS)
    machine.hear(RecordJoin(EU, an_inventory()))
    return machine


def test_policy_is_recorded(start: Start) -> None:
    """And one that makes no sense is not."""
    machine = a_pooled_store(start)
    assert [PoolingPolicySet(BY_HAND, "olga")] == facts(
        machine.hear(SetPoolingPolicy(EU, BY_HAND, 1, "olga"))
    )
    assert [] == facts(machine.hear(SetPoolingPolicy(EU, BY_HAND, 2, "olga")))
    reason, _ = problems(machine.hear(SetPoolingPolicy(EU, ANY_NUMBER, 1, "olga")))
    assert Reason.SUPERSEDED == reason
    for at_once in (0, -1, 1_001):
        reason, _ = problems(machine.hear(SetPoolingPolicy(EU, PoolingPolicy(at_once=at_once), 2, "olga")))
        assert Reason.INVALID == reason


# Plans.


def test_empty_nodes_move_at_once(start: Start) -> None:
    """In the batch in which the plan is recorded; the rest of the worker's nodes stay."""
    machine = a_pooled_store(start)
    plan = a_plan(machine, {1: "service", 2: "service", 5: "free"})
    decision = machine.hear(SetPoolsPlan(EU, plan, "planner"))
    assert [
        PoolsPlanned(plan, "planner"),
        PoolsApplied(1, "planner"),
        NodesPooled(((5, 5),), "free", 1),
        NodesPooled(((1, 2),), "service", 1),
    ] == facts(decision)
    assert PoolsAnswered(1, 3, 0) == said_once(decision, PoolsAnswered)
    assert "tssttftt" == pools(machine)
    assert [] == check_pools(machine.state.image.capacity)


def test_node_in_use_is_closed_until_it_is_vacant(start: Start) -> None:
    """It takes no new work, and comes into its pool when the work on it has ended."""
    machine = a_pooled_store(start)
    place(machine, placed={1: 8})
    decision = planned(machine, {1: "service", 2: "service"})
    (closed,) = [fact for fact in facts(decision) if isinstance(fact, NodesClosed)]
    assert ("d-1", ((1, 1),), "service", POOL_DRAIN_SPAN) == (
        closed.source,
        closed.nodes,
        closed.pool,
        closed.lasts,
    )
    assert "ttsttttt" == pools(machine)
    assert NOTHING == machine.hear(LiftDrain(EU, "d-1"))
    end(machine)
    assert [
        NodesPooled(((1, 1),), "service", 1),
        NodesOpened("d-1", ClosureKind.DRAIN, ((1, 1),), "they are in pool service now"),
    ] == facts(machine.hear(LiftDrain(EU, "d-1")))
    assert "tssttttt" == pools(machine)
    assert {} == machine.state.image.capacity.closures


def test_nodes_that_were_closed_in_vain_take_work_again(start: Start) -> None:
    """After half an hour, those whose work did not leave; those that are vacant by then move."""
    machine = a_pooled_store(start)
    place(machine, "w-1", placed={1: 8})
    place(machine, "w-2", placed={3: 8})
    planned(machine, {1: "service", 3: "service"})
    machine.wait(Nanoseconds(POOL_DRAIN_SPAN - 1))
    assert NOTHING == machine.hear(LiftDrain(EU, "d-1"))
    end(machine, "w-2")
    machine.wait(Nanoseconds(1))
    assert [
        NodesPooled(((3, 3),), "service", 1),
        NodesOpened("d-1", ClosureKind.DRAIN, ((3, 3),), "they are in pool service now"),
        NodesOpened("d-1", ClosureKind.DRAIN, ((1, 1),), "its time is over"),
    ] == facts(machine.hear(LiftDrain(EU, "d-1")))
    assert "ttts" == pools(machine)[:4]


def test_promised_capacity_keeps_a_node_in_its_pool(start: Start) -> None:
    """What waits for the end of other work there is placed by the pool's rules, and is to start where it was promised."""
    machine = a_pooled_store(start)
    place(machine, "w-1", placed={0: 8})
    promise(machine, "w-2", {0: 8, 1: 8}, (attempt(),))
    decision = planned(machine, {1: "service"})
    assert not [fact for fact in facts(decision) if isinstance(fact, NodesPooled)]
    assert "tt" == pools(machine)[:2]


def test_promised_start_keeps_its_node_in_its_pool(start: Start) -> None:
    """The node is closed, so that the start is promised elsewhere; until it is, the node stays."""
    machine = a_pooled_store(start)
    gang = a_claim("w-9", placed={0: 1})
    machine.fact(
        EU_LOG,
        StartReserved(
            gang.workload, 1, seconds(3_600), 1, "training", gang.tenant, gang.jobs, gang.spreads, 1
        ),
    )
    planned(machine, {0: "service"})
    assert NOTHING == machine.hear(LiftDrain(EU, "d-1"))
    assert "t" == pools(machine)[0]
    machine.fact(EU_LOG, StartUnreserved(gang.workload, 1, StartOver.NODE_CLOSED))
    assert facts(machine.hear(LiftDrain(EU, "d-1")))
    assert "s" == pools(machine)[0]


def test_next_plan_calls_back_what_it_does_not_want(start: Start) -> None:
    """Nodes that wait to be vacant are open again; those that it wants elsewhere wait for that."""
    machine = a_pooled_store(start)
    place(machine, placed={0: 8, 1: 8, 2: 8})
    planned(machine, {0: "service", 1: "service", 2: "service"})
    decision = planned(machine, {0: "service", 2: "free"})
    assert [
        NodesOpened(
            "d-1", ClosureKind.DRAIN, ((1, 2),), "plan 2 moves them now, or leaves them where they are"
        ),
        "free",
    ] == [
        fact.pool if isinstance(fact, NodesClosed) else fact
        for fact in facts(decision)
        if isinstance(fact, NodesClosed | NodesOpened)
    ]
    end(machine)
    machine.hear(LiftDrain(EU, "d-1"))
    machine.hear(LiftDrain(EU, "d-2"))
    assert "stf" == pools(machine)[:3]


def test_lost_and_drained_nodes_stay(start: Start) -> None:
    """M24: they may be anything when they come back; the next plan reckons with that."""
    machine = a_pooled_store(start)
    plan = a_plan(machine, {0: "service", 4: "service", 5: "service"})
    machine.hear(DrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), "its fan rattles", 0, 0, "olga"))
    machine.hear(RecordLoss(EU, WorkerName("w1"), machine.state.sequence))
    assert PoolsAnswered(1, 0, 0) == said_once(machine.hear(SetPoolsPlan(EU, plan, "planner")), PoolsAnswered)
    assert "tttttttt" == pools(machine)


@pytest.mark.parametrize("is_planned", [False, True], ids=["drained", "to be worked on"])
def test_nothing_moves_into_a_pool_that_is_emptied_whole(start: Start, *, is_planned: bool) -> None:
    """Its scope is the pool, so what comes into it would have to leave at once."""
    machine = a_pooled_store(start)
    planned(machine, {0: "service"})
    scope = Scope(ScopeKind.POOL, ("service",))
    if is_planned:
        span = seconds(3_600)
        machine.hear(
            PlanMaintenance(EU, scope, MaintenanceKind.REBOOT, span, span, span, 0, "kernel", "olga")
        )
        machine.hear(MoveMaintenance(EU, "m-1", MaintenancePhase.NOTICED))
    else:
        machine.hear(DrainNodes(EU, scope, "all of it", 0, 0, "olga"))
    planned(machine, {1: "service"})
    assert "sttttttt" == pools(machine)


def test_plan_is_applied_by_hand(start: Start) -> None:
    """Where operators want that: the plan is only recorded, until the one that was looked at is applied."""
    machine = a_pooled_store(start, BY_HAND)
    plan = a_plan(machine, {1: "service"})
    assert [PoolsPlanned(plan, "planner")] == facts(machine.hear(SetPoolsPlan(EU, plan, "planner")))
    for number, why in ((0, "plan: the newest is 1"), (2, "plan: the newest is 1")):
        assert (Reason.SUPERSEDED, (why,)) == problems(machine.hear(ApplyPools(EU, number, "olga")))
    decision = machine.hear(ApplyPools(EU, 1, "olga"))
    assert [PoolsApplied(1, "olga"), NodesPooled(((1, 1),), "service", 1)] == facts(decision)
    assert PoolsAnswered(1, 1, 0) == said_once(decision, PoolsAnswered)
    assert [] == facts(machine.hear(ApplyPools(EU, 1, "olga")))


def test_plan_of_older_needs_is_not_applied(start: Start) -> None:
    """The operator looked at something else."""
    machine = a_pooled_store(start, BY_HAND)
    assert (Reason.SUPERSEDED, ("plan: there is none",)) == problems(machine.hear(ApplyPools(EU, 0, "olga")))
    planned(machine, {1: "service"})
    needs(machine, needs=(("H100", 8),))
    reason, (text,) = problems(machine.hear(ApplyPools(EU, 1, "olga")))
    assert (Reason.SUPERSEDED, True) == (reason, "needs or settings have changed" in text)


def test_plan_that_does_not_fit_is_refused(start: Start) -> None:
    """One older than the newest, than the settings or than the nodes is superseded; one that is not well formed is invalid."""
    machine = a_pooled_store(start)
    planned(machine, {0: "service"})
    good = a_plan(machine, {1: "service"})
    move = NodesMove("training", "service", ((1, 1),))
    for plan, reason, text in (
        (replace(good, number=1), Reason.SUPERSEDED, "plan: the newest is 1"),
        (replace(good, number=3), Reason.SUPERSEDED, "plan: the newest is 1"),
        (replace(good, basis=PoolsBasis(revision=0)), Reason.SUPERSEDED, "revision: it is 1 now"),
        (
            replace(good, moves=(replace(move, nodes=((0, 1),)),)),
            Reason.SUPERSEDED,
            "moves: node 0 is not in that pool now",
        ),
        (
            replace(good, moves=(replace(move, nodes=((7, 8),)),)),
            Reason.SUPERSEDED,
            "moves: node 8 is not in that pool now",
        ),
        (
            replace(good, moves=(replace(move, nodes=((2, 1),)),)),
            Reason.INVALID,
            "moves: a run of nodes ends",
        ),
        (replace(good, moves=(move, move)), Reason.INVALID, "moves: a node is to move twice"),
        (
            replace(good, moves=(replace(move, pool_to="training"),)),
            Reason.INVALID,
            "moves: nodes are to move to",
        ),
        (replace(good, moves=(replace(move, pool_to=""),)), Reason.INVALID, "moves: a pool's name has"),
        (
            replace(good, basis=replace(good.basis, sequence=99)),
            Reason.INVALID,
            "basis: this log has come to",
        ),
    ):
        found, told = problems(machine.hear(SetPoolsPlan(EU, plan, "planner")))
        assert (reason, 1) == (found, len(told)), plan
        assert told[0].startswith(text), told


def test_no_more_nodes_move_at_once_than_the_policy_says(start: Start) -> None:
    """A tenth of the region, and one node at least, unless operators want more."""
    machine = a_pooled_store(start, PoolingPolicy())
    reason, told = problems(planned(machine, {0: "service", 1: "service"}))
    assert (Reason.INVALID, ("moves: 2 nodes are more than may move at once",)) == (reason, told)
    assert facts(planned(machine, {0: "service"}))


def test_scattered_plan_is_told_in_several_facts(start: Start) -> None:
    """Each of them fits; the image has the whole plan, and every node of it moves."""
    machine = start(PlacementStore(EU))
    machine.fact(GLOBAL_LOG, *REGIONS)
    machine.hear(RecordJoin(EU, an_inventory("w0", 0, 45_000)))
    machine.hear(SetPoolingPolicy(EU, ANY_NUMBER, 0, "olga"))
    wanted = dict.fromkeys(range(0, 45_000, 2), "service")
    decision = planned(machine, wanted)
    parts = [fact for fact in facts(decision) if isinstance(fact, PoolsPlanned)]
    assert [False, True, True] == [part.is_more for part in parts]
    assert len(wanted) == machine.state.image.pools.plan.nodes
    assert len(wanted) == said_once(decision, PoolsAnswered).moved
    assert [] == check_pools(machine.state.image.capacity)


# What follows from a node's pool.


def test_worker_that_joins_again_changes_nothing(start: Start) -> None:
    """T1: the log has each node's pool, whatever the inventory names."""
    machine = a_pooled_store(start)
    planned(machine, {0: "service", 1: "service"})
    (group,) = an_inventory("w0").groups
    for pool in ("training", "free"):
        again = Inventory(WorkerName("w0"), (replace(group, pool=pool, power_domain="north"),))
        assert NOTHING == machine.hear(RecordJoin(EU, again))
    assert "sstttttt" == pools(machine)


def test_claim_on_a_node_that_has_moved_is_refused(start: Start) -> None:
    """M23: an agent that has not heard of it yet is told so, and its work goes elsewhere."""
    machine = a_pooled_store(start)
    made = a_claim("w-1", placed={1: 8}, kind=Kind.TRAINING, award_sequence=award(machine, "w-1"))
    planned(machine, {1: "service"})
    assert ("refused", Reason.WRONG_POOL) == refusal(claim(machine, made))
    served = a_claim("w-2", placed={1: 8}, kind=Kind.SERVICE, award_sequence=award(machine, "w-2"))
    assert ("granted", "") == refusal(claim(machine, served))


def test_headroom_follows_within_the_fact(start: Start) -> None:
    """M23: what a pool keeps free is reckoned with its nodes of now, and equals a count over all nodes."""
    machine = a_pooled_store(start)
    place(machine, placed={3: 4})
    assert {("training", "zone-0")} == set(headroom_of(machine.state).zones)
    planned(machine, {0: "service", 1: "service", 4: "free"})
    known = machine.state.headroom
    assert known is not None
    assert known.zones == Headroom(machine.state.image.capacity).zones
    planned(machine, {4: "training"})
    assert known.zones == Headroom(machine.state.image.capacity).zones
    assert ("free", "zone-0") not in known.zones
