"""What happens to tasks and nodes, as a sentence: each sort of fact has one, and says what matters."""

import pytest

from core.events import moves, pools, starts
from core.events.control import (
    EVENTS,
    AcksExpired,
    AttemptChanged,
    ClaimRevised,
    ControlAnswered,
    ControlForgotten,
    DestructionHalted,
    DomainLost,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    OperationsStuck,
    ScopeJoined,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.log import ClockAccepted
from core.events.moves import MoveBegun, MoveEnded, MovePlanned
from core.events.pools import NodesPooled, PoolChanged, PoolingPolicySet, PoolsApplied, PoolsPlanned
from core.events.queue import (
    NotedRefusal,
    PrioritySet,
    RefusalsNoted,
    RefusedShape,
    StandingChanged,
    WorkloadChanged,
)
from core.events.region import AttemptRanked, GangStarted, PreemptionSet, PromiseRevised
from core.events.starts import StartPromised, StartPromiseEnded, StartReserved, StartUnreserved
from core.fact import Event
from core.nouns.ids import RegionName, TenantName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, seconds
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.moving import MoveCost
from core.nouns.operation import (
    WHOLE,
    Ack,
    Answer,
    BegunBy,
    OperationKind,
    Outcome,
    TaskMove,
    task_number,
)
from core.nouns.pool import PoolSettings
from core.nouns.pooling import MoveReason, NodesMove, PoolingPolicy, PoolsPlan, PoolStanding
from core.nouns.preemption import PreemptionSettings
from core.nouns.starts import StartOver
from core.nouns.workload import Kind
from mizzen.views.logs.fact_lines import rest_of
from mizzen.views.logs.sentences import SENTENCES, sentence_of, tasks_text
from tests.builders import EU, US, a_job, a_spread, attempt

W1 = WorkloadId("w-1")
KEPT = a_spread({0: 1, 1: 1})
AT = attempt()
JOBS = ("main", "eval")
EVAL = task_number(1, 0)

REFUSED = RefusedShape(
    "r", "s", W1, (NotedRefusal(EU, "no_capacity", seconds(70)), NotedRefusal(US, "no_data", seconds(10)))
)

TOLD: list[tuple[Event, str]] = [
    (
        ClockAccepted(1_767_225_600 * SECOND, 7_200 * SECOND),
        "an operator lets the log go on, 2h ahead of its machine's clock (2026-01-01T00:00:00.000Z)",
    ),
    (
        RefusalsNoted((REFUSED,), ("t",)),
        "no region takes work like w-1: eu says no_capacity for 1m10s, us says no_data for 10s; 1 refused shape waits no more",
    ),
    (
        RefusalsNoted((RefusedShape("r", "s", W1, (NotedRefusal(EU, "no_data", seconds(9)),)),) * 7, ("t", "u")),
        "; ".join(["no region takes work like w-1: eu says no_data for 9s"] * 5)
        + "; and 2 more shapes; 2 refused shapes wait no more",
    ),
    (
        MovePlanned(W1, 2, 1, RegionName("us"), MoveCost(seconds(85), seconds(40), 5_400), "ada"),
        "attempt 1 is to go on in us, asked for by ada: a pause of 1:25 (1.5 GPU-hours)",
    ),
    (
        MoveBegun(W1, 2, 1, seconds(120), RegionName("us"), 9),
        "the other region keeps capacity for it: attempt 1 is to stop for move 2",
    ),
    (
        MoveEnded(W1, 2, StartOver.NODE_CLOSED),
        "move 2 came to nothing: a node on which it was to start was lost or closed",
    ),
    (TasksDown(*AT, (3,), "task_failed", 7), "main/3 is down: task_failed with exit code 7"),
    (
        TasksDown(*AT, (2, 3), "node_failed", -1, failed_nodes=(4, 5)),
        "2 tasks (main/2-3) are down: node_failed with exit code -1 on nodes 4-5",
    ),
    (TasksDown(*AT, (3,), "completed"), "main/3 has completed"),
    (TasksGone(*AT, (3,)), "nothing runs any more of main/3"),
    (ClaimRevised(*AT, 1, (TaskMove(3, 4, 4),)), "main/3 starts again on node 4"),
    (
        ClaimRevised(*AT, 1, (TaskMove(3, 4, 5), TaskMove(EVAL, -1, 6), TaskMove(7, 8, -1))),
        "main/3 goes from node 4 to node 5; eval/0 starts on node 6; main/7 leaves node 8 for good",
    ),
    (ClaimRevised(*AT, 1, (TaskMove(WHOLE, -1, -1),)), "its gang starts again where it was"),
    (
        ClaimRevised(*AT, 1, tuple(TaskMove(task, 0, 0) for task in range(7))),
        "; ".join([*(f"main/{task} starts again on node 0" for task in range(5)), "and 2 more"]),
    ),
    (TasksUp(*AT, (0, 1, 3, EVAL)), "4 tasks (main/0-1,3, eval/0) are up"),
    (WorkloadChanged(W1, 2, (a_job(4),)), "its user changed its jobs (revision 2): main has 4 tasks"),
    (AttemptChanged(*AT, 2, (a_job(4),)), "its region knows revision 2; its tasks are to follow"),
    (
        OperationsRequested(*AT, 3, OperationKind.UPDATE, (0, 1), "its user changed it", "r-2", 0, "user:ada"),
        ("update of 2 tasks (main/0-1) is asked for by user:ada for r-2, whenever that is allowed (operations 3-4): "
        "its user changed it"),
    ),
    (
        OperationsRequested(*AT, 3, OperationKind.MOVE, (WHOLE,), "", deadline=90 * SECOND),
        "move of its gang is asked for, in 1m30s at the latest (operation 3): no reason was given",
    ),
    (
        ControlAnswered(*AT, 9, (Ack(1), Ack(2), Ack(4, Answer.IGNORE), Ack(5, after_checkpoint=True))),
        ("its controller answers proceed for operations 1-2, ignore for operation 4, "
        "proceed after a checkpoint for operation 5"),
    ),
    (ControlAnswered(*AT, 9, ()), "its controller knows which operations are over"),
    (AcksExpired(*AT, (1,)), "its controller's word on operation 1 has grown old, and is asked for again"),
    (OperationsBegun(*AT, (1, 2), BegunBy.ACK), "operations 1-2 begin as its controller allowed"),
    (
        OperationsBegun(*AT, (1,), BegunBy.LIMITS),
        "operation 1 begins as its own limits allow, for it names no controller",
    ),
    (OperationsBegun(*AT, (1,), BegunBy.DEADLINE), "operation 1 begins unasked, for its time was up"),
    (OperationsStuck(*AT, (1,)), "operation 1 is not over long after the begin: an operator should look"),
    (OperationsDone(*AT, (1,), Outcome.HEALTHY), "operation 1 is done, and its tasks are healthy"),
    (OperationsDone(*AT, (1,), Outcome.GONE), "operation 1 is done, and its tasks are no more"),
    (OperationsDone(*AT, (1, 3), Outcome.IGNORED), "operations 1,3 are over: its controller wanted nothing done"),
    (OperationsDone(*AT, (1,), Outcome.WITHDRAWN), "operation 1 is withdrawn: no longer wanted"),
    (
        ControlForgotten(*AT),
        "its controller was never told the outcome of the last operations: it did not answer",
    ),
    (
        DestructionHalted("planner", 900, 60),
        "planner asked for 900 stops where 60 a minute are the most: the rest must wait",
    ),
    (
        MaintenancePlanned(
            "m-3", MaintenanceKind.NETWORK, Scope(ScopeKind.RACK, ("0", "1")), ((0, 3),), 7_200 * SECOND,
            600 * SECOND, 1_800 * SECOND,
        ),
        "network work on nodes 0-3 (rack 0,1) is planned as m-3, from 2h later on, for 10m",
    ),
    (MaintenanceMoved("m-3", MaintenancePhase.CANCELLED, "rain"), "m-3 is cancelled: rain"),
    (
        NodesClosed("d-1", ClosureKind.DRAIN, ((4, 4),), "new fans", by="ops"),
        "node 4 is closed (drain d-1) by ops: new fans",
    ),
    (
        NodesClosed("d-1", ClosureKind.DRAIN, ((4, 5),), "pool service needs them", pool="service"),
        "nodes 4-5 are closed (drain d-1) until vacant, and then come into pool service: pool service needs them",
    ),
    (
        PoolChanged("service", PoolSettings("plain", needs=(("H100", 400),)), "olga"),
        "pool service is set by olga: it is searched by plain, needs 400 H100, also after the loss of any power domain",
    ),
    (
        PoolingPolicySet(PoolingPolicy(is_automatic=False), "olga"),
        "the policy of pools is set by olga: plans are applied by hand, and each moves 10% of all nodes at most",
    ),
    (
        PoolsPlanned(
            PoolsPlan(
                3, (NodesMove("free", "service", ((0, 3), (8, 8))), NodesMove("training", "service", ((4, 4),))),
                (PoolStanding("service", "H100", 48, 48, 40, 8), PoolStanding("training", "H100", 8, 8, 8, 0)),
                why=MoveReason.HARDWARE,
            ),
            "planner",
        ),
        ("plan 3 by planner, as nodes joined, came back, were lost or were closed, moves 5 nodes from free to service, "
        "1 node from training to service; then service is short of 8 H100"),
    ),
    (
        PoolsPlanned(PoolsPlan(3, (NodesMove("a", "b", ((0, 1),)),) * 7), is_more=True),
        "plan 3 also moves " + ", ".join(["2 nodes from a to b"] * 5) + ", and 2 more moves",
    ),
    (PoolsPlanned(PoolsPlan(3, why=MoveReason.TIME)), "plan 3, as the plan before was half an hour old, moves no node"),
    (PoolsApplied(3, "olga"), "plan 3 is applied by olga"),
    (NodesPooled(((4, 4),), "service", 3), "node 4 is in pool service from now on (plan 3)"),
    (
        NodesOpened("d-1", ClosureKind.DRAIN, ((4, 5),)),
        "nodes 4-5 are open again (drain d-1 is over)",
    ),
    (
        ScopeJoined("d-1", ClosureKind.DRAIN, ((8, 9),)),
        "nodes 8-9 joined, and are in drain d-1 too",
    ),
    (
        DomainLost("power-1", (WorkerName("w1"), WorkerName("w2")), ((4, 11),)),
        "workers w1, w2 of power-1 fell silent together, and nodes 4-11 with them",
    ),
    (
        StandingChanged(*AT, 2, TenantName("ml"), -1, {"H100": 8_000, "A100": 4_000}),
        "it is over its tenant's quota from now on, and may be preempted; it holds 4 A100, 8 H100",
    ),
    (
        StandingChanged(*AT, 3, TenantName("ml"), 4, {}),
        "it is within its tenant's quota, at level 4; it holds no GPU",
    ),
    (PrioritySet(AT[0], 1, 2), "its priority is 2 from now on"),
    (PrioritySet(AT[0], 2, None), "its priority is that of its tenant from now on"),
    (AttemptRanked(*AT, 2, -1), "its region knows that it is over quota"),
    (AttemptRanked(*AT, 3, 4), "its region knows that it is of level 4"),
    (
        StartPromised(W1, 2, EU, seconds(754), seconds(739), (KEPT,), 3, "no_room"),
        "eu is to reserve nodes for its start within 12m, for its earlier reservation was not kept: other workloads had come first",
    ),
    (StartPromised(W1, 1, EU, seconds(90), seconds(75), (KEPT,), 3), "eu is to reserve nodes for its start within 1m30s"),
    (
        StartReserved(W1, 1, seconds(75), 3, Kind.TRAINING, TenantName("ml"), (a_job(2, 8),), (KEPT,), 9),
        "2 nodes are reserved for its start within 1m15s",
    ),
    (
        StartUnreserved(W1, 1, StartOver.DISPLACED),
        "its node reservation is over: work of a higher level took the capacity",
    ),
    (PromiseRevised(W1, 1, ((WorkloadId("w-8"), 2),), (90,), (WorkloadId("w-7"), 1)), "the controller of w-7 offered a substitute: the promise waits for w-8 from now on"),
    (PreemptionSet(1, PreemptionSettings(claim_max=7_200), "ada@desk"), "the order of victims, and the caps on lost work, are set by ada@desk: order cost, score vector, controllers are asked for 1m, at most 2.0 GPU-hours a claim, an hour by its size"),
    (StartPromiseEnded(W1, 1, StartOver.LAPSED), "its reservation is over: its time passed, and the capacity had not come free"),
]  # fmt: skip


@pytest.mark.parametrize(("event", "sentence"), TOLD, ids=lambda value: type(value).__name__)
def test_sentence(event: Event, sentence: str) -> None:
    """Who, what, why and by whose leave."""
    assert sentence == sentence_of(event, JOBS)


def test_every_event_of_task_control_standing_promised_starts_and_pools_has_a_sentence() -> None:
    """And each of them is tried above, as is the operator's word about a clock."""
    standing = {WorkloadChanged, StandingChanged, PrioritySet, AttemptRanked, RefusalsNoted}
    preemption = {PromiseRevised, PreemptionSet}
    assert (
        {*EVENTS, *starts.EVENTS, *moves.EVENTS, *pools.EVENTS, *standing, *preemption, ClockAccepted}
        == set(SENTENCES)
        == {type(event) for event, _ in TOLD}
    )


def test_zeros_of_moves_and_acks_are_told() -> None:
    """In the line of a fact, where most zeros say nothing: the first task and the first node are called so."""
    assert 'epoch=1 revision=2 moves=[{"task":0,"node_from":0,"node_to":0}]' == rest_of(
        ClaimRevised(*AT, 2, (TaskMove(0, 0, 0),))
    )
    assert "exit_code" not in rest_of(TasksDown(*AT, (0,), "completed"))


def test_start_has_no_sentence() -> None:
    """A start is part of every story."""
    assert "" == sentence_of(GangStarted(*AT))


def test_tasks_of_jobs_that_are_not_known() -> None:
    """Their places stand for their names."""
    assert "2 tasks (0/3, 1/0)" == tasks_text((EVAL, 3))
