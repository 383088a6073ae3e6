"""New runs of single tasks: which claims are revised, which conflict, and which are refused."""

import msgspec
import pytest

from core.component import NOTHING, Decision
from core.events.control import ClaimRevised
from core.invariants.consistency import check_ledger
from core.invariants.control import check_control
from core.messages.control import RevisionAnswered
from core.messages.nodes import CloseNodes
from core.messages.store import RecordJoin, RecordLoss, RecordReturn
from core.nouns.ids import TenantName, WorkerName
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import WHOLE, OperationKind, TaskMove
from core.nouns.pool import PoolSettings
from core.nouns.workload import Kind
from tests.builders import EU, EU_LOG, a_claim, a_job, a_spread, an_inventory, attempt
from tests.components.placement_store.test_pools import set_pool
from tests.components.support.placement_store import (
    Start,
    a_store,
    agreed,
    award,
    claim,
    consent,
    fail,
    gone,
    operate,
    place,
    promise,
    revise,
    row_of,
    serve,
    stop,
    up,
)
from tests.matching import facts, said, said_once

MOVE, RESTART, START = OperationKind.MOVE, OperationKind.RESTART, OperationKind.START
STOP = OperationKind.STOP
W0 = WorkerName("w0")


def verdict(decision: Decision) -> str:
    """What the agent hears."""
    return said_once(decision, RevisionAnswered).verdict


def test_task_gets_capacity_elsewhere(start: Start) -> None:
    """T9: held there, free where it was; its agent is told; the next revision follows this one."""
    machine = a_store(start)
    serve(machine, gpus=2)
    agreed(machine, MOVE, 0)
    gone(machine, 0)
    decision = revise(machine, (0, 0, 3))
    assert [ClaimRevised(*attempt(), 1, (TaskMove(0, 0, 3),))] == facts(decision)
    assert ("granted", 1) == (verdict(decision), said_once(decision, RevisionAnswered).revision)
    assert [6_000, 4_000, 8_000, 6_000] == machine.state.image.capacity.gpu.free
    up(machine, 0)
    agreed(machine, MOVE, 0)
    gone(machine, 0)
    assert "refused" == verdict(revise(machine, (0, 3, 2), revision=1))
    assert "granted" == verdict(revise(machine, (0, 3, 2), revision=2))
    assert [] == check_ledger(machine.state.image.capacity)
    assert [] == check_control(machine.state.image)


def test_only_a_task_that_is_gone_gets_a_new_run(start: Start) -> None:
    """A task that is up, down, starting or unknown is refused; two runs of one task never live."""
    machine = a_store(start)
    serve(machine)
    assert "refused" == verdict(revise(machine, (0, 0, 2)))
    agreed(machine, MOVE, 0)
    assert "refused" == verdict(revise(machine, (0, 0, 2))), "something of it may be there"
    gone(machine, 0)
    assert "refused" == verdict(revise(machine, (0, 1, 2))), "it was not there"
    assert "refused" == verdict(revise(machine, (9, -1, 2)))
    assert "refused" == verdict(revise(machine))
    assert "refused" == verdict(revise(machine, (0, 0, 2), (0, 0, 3))), "twice at once"
    assert "granted" == verdict(revise(machine, (0, 0, 2)))
    assert "refused" == verdict(revise(machine, (0, 2, 3))), "it is starting"


def test_new_run_needs_an_operation_that_has_begun(start: Start) -> None:
    """T11, T19: that a task failed is no leave to replace it: its controller is asked first."""
    machine = a_store(start)
    serve(machine)
    fail(machine, 0)
    assert "refused" == verdict(revise(machine, (0, 0, 2)))
    operate(machine, START, 0)
    assert "refused" == verdict(revise(machine, (0, 0, 2)))
    consent(machine, 1)
    assert NOTHING == revise(machine, (0, 0, 0), agent="")
    agreed(machine, START, 0)
    assert "refused" == verdict(revise(machine, (0, 0, 2))), "the second asking changed nothing"


def test_move_goes_elsewhere(start: Start) -> None:
    """To start again where it was would leave nothing moved; a start or a restart may do either."""
    machine = a_store(start)
    serve(machine)
    agreed(machine, MOVE, 0)
    gone(machine, 0)
    assert NOTHING == revise(machine, (0, 0, 0), agent="")
    for task, kind in ((1, RESTART), (2, START)):
        fail(machine, task)
        agreed(machine, kind, task)
    assert [1, 1] == [
        len(facts(revise(machine, (task, node, other), agent="")))
        for task, node, other in ((1, 0, 0), (2, 1, 3))
    ]


def test_task_leaves_only_by_a_stop(start: Start) -> None:
    """Nobody gives its room away by a revision to nowhere."""
    machine = a_store(start)
    serve(machine)
    agreed(machine, RESTART, 0)
    gone(machine, 0)
    assert "refused" == verdict(revise(machine, (0, 0, -1)))
    agreed(machine, START, 4)
    assert "refused" == verdict(revise(machine, (4, -1, -1)))


def test_gang_is_not_moved_task_by_task(start: Start) -> None:
    """Whole, and where it is, or not at all."""
    machine = a_store(start)
    serve(machine, kind=Kind.TRAINING)
    agreed(machine, RESTART)
    gone(machine, WHOLE)
    for move in ((WHOLE, -1, 3), (WHOLE, 0, 0), (0, 0, 3), (0, 0, 0)):
        assert "refused" == verdict(revise(machine, move)), move
    assert "granted" == verdict(revise(machine, (WHOLE, -1, -1)))


@pytest.mark.parametrize("why", ["full", "promised", "closed", "lost", "unknown", "another type"])
def test_capacity_that_is_not_there(start: Start, why: str) -> None:
    """T6: judged against now: a conflict, with the node as it is, and nothing is recorded."""
    machine = a_store(start)
    machine.hear(RecordJoin(EU, an_inventory("w1", 4, 1, gpu_type="A100")))
    machine.hear(RecordJoin(EU, an_inventory("w2", 5, 1)))
    serve(machine)
    agreed(machine, MOVE, 0)
    gone(machine, 0)
    node = {"unknown": 77, "another type": 4, "lost": 5}.get(why, 3)
    if why in ("full", "promised"):
        place(machine, "w-2", {3: 8}, priority=1)
    if why == "promised":
        promise(machine, "w-3", {3: 8}, (attempt("w-2"),))
    elif why == "closed":
        machine.hear(CloseNodes(EU, ClosureKind.SUSPECT, (3,), "missed beats"))
    elif why == "lost":
        machine.hear(RecordLoss(EU, WorkerName("w2"), machine.sequence(EU_LOG)))
    decision = revise(machine, (0, 0, node))
    assert ("conflict", []) == (verdict(decision), facts(decision))
    rows = said_once(decision, RevisionAnswered).rows
    assert ([] if why == "unknown" else [node]) == [row.node for row in rows]


def test_move_to_another_type(start: Start) -> None:
    """T4: judged again: a type that would do is not one on which the others are; one task alone may change."""
    machine = a_store(start)
    machine.hear(RecordJoin(EU, an_inventory("w1", 4, 1, gpu_type="A100")))
    for workload, placed, wanted in (("w-1", {0: 2}, "conflict"), ("w-2", {1: 1}, "granted")):
        (node,) = placed
        jobs = (msgspec.structs.replace(a_job(placed[node], 2), or_types=("A100",)),)
        serve(machine, workload=workload, jobs=jobs, spreads=(a_spread(placed),))
        agreed(machine, MOVE, 0, workload=workload)
        gone(machine, 0, workload=workload)
        assert wanted == verdict(revise(machine, (0, node, 4), workload=workload))
    assert "granted" == verdict(revise(machine, (0, 0, 3)))


def test_move_to_a_node_on_which_another_tenant_is_alone(start: Start) -> None:
    """Hard rules hold for moves as for grants: a conflict; its own tasks are no hindrance."""
    machine = a_store(start)
    serve(machine, gpus=2)
    jobs = (msgspec.structs.replace(a_job(1, 2), is_alone=True),)
    other = a_claim("w-2", jobs=jobs, spreads=(a_spread({3: 1}),), award_sequence=award(machine, "w-2"))
    claim(machine, msgspec.structs.replace(other, tenant=TenantName("ada")))
    agreed(machine, MOVE, 0)
    gone(machine, 0)
    assert "conflict" == verdict(revise(machine, (0, 0, 3)))
    assert "granted" == verdict(revise(machine, (0, 0, 1)))


def test_capacity_for_all_tasks_or_for_none(start: Start) -> None:
    """Two tasks that fit one by one, and not together."""
    machine = a_store(start)
    serve(machine, {0: 2}, gpus=4)
    place(machine, "w-2", {3: 3})
    agreed(machine, MOVE)
    gone(machine, 0, 1)
    assert "conflict" == verdict(revise(machine, (0, 0, 3), (1, 0, 3)))
    assert "granted" == verdict(revise(machine, (0, 0, 3), (1, 0, 2)))


@pytest.mark.parametrize("why", ["lost", "quarantine", "suspect"])
def test_task_that_stays_where_it_was(start: Start, why: str) -> None:
    """Not on a node that is lost or in quarantine; one that is only suspected or drained keeps who is there."""
    machine = a_store(start)
    serve(machine)
    agreed(machine, RESTART, 0)
    gone(machine, 0)
    if why == "lost":
        machine.hear(RecordLoss(EU, W0, machine.sequence(EU_LOG)))
        assert NOTHING == revise(machine, (0, 0, 0), agent="")
        machine.hear(RecordReturn(EU, W0, machine.sequence(EU_LOG)))
        assert 6_000 == machine.state.image.capacity.gpu.free[0], "it and its neighbour hold their room again"
    else:
        machine.hear(CloseNodes(EU, ClosureKind(why), (0,), "it is ill"))
    stays = why != "quarantine"
    assert stays == bool(facts(revise(machine, (0, 0, 0), agent="")))


@pytest.mark.parametrize("settings", [PoolSettings(reserve=3), PoolSettings(limit=50)])
def test_task_added_to_a_job_keeps_to_its_pools_settings(start: Start, settings: PoolSettings) -> None:
    """P23, P24: it is new work, like a claim; one that moves had its capacity before."""
    machine = a_store(start)
    serve(machine, {0: 2}, gpus=1)
    set_pool(machine, settings)
    for task, kind in ((0, MOVE), (1, STOP)):
        agreed(machine, kind, task)
        gone(machine, task)
    agreed(machine, START, 1)
    decision = revise(machine, (1, -1, 3))
    assert ("conflict", [3]) == (
        verdict(decision),
        [row.node for row in said_once(decision, RevisionAnswered).rows],
    )
    assert "granted" == verdict(revise(machine, (0, 0, 2)))
    set_pool(machine, reserve=2)
    assert "granted" == verdict(revise(machine, (1, -1, 3)))


def test_revision_of_a_stopping_attempt(start: Start) -> None:
    """None of its tasks starts any more."""
    machine = a_store(start)
    serve(machine)
    agreed(machine, MOVE, 0)
    gone(machine, 0)
    stop(machine)
    assert "refused" == verdict(revise(machine, (0, 0, 3)))


def test_revision_without_an_agent_is_not_answered(start: Start) -> None:
    """The broker, which leaves tasks where they were, reads the log: no answer is sent, neither when it is recorded nor when it is not."""
    machine = a_store(start)
    serve(machine)
    agreed(machine, RESTART, 0)
    assert [] == said(revise(machine, (0, 0, 0), agent=""), RevisionAnswered)
    gone(machine, 0)
    decision = revise(machine, (0, 0, 0), agent="")
    assert (1, []) == (len(facts(decision)), said(decision, RevisionAnswered))
    assert 1 == row_of(machine).tasks[0].run


def test_victim_that_moves_leaves_its_capacity_to_the_promise(start: Start) -> None:
    """T1: the capacity that it holds no more is reserved, and given to no other workload."""
    machine = a_store(start)
    serve(machine, {0: 1, 1: 1}, gpus=8, priority=1)
    agreed(machine, MOVE, 0)
    gone(machine, 0)
    promise(machine, "w-2", {0: 8, 1: 8}, (attempt("w-1"),))
    assert "granted" == verdict(revise(machine, (0, 0, 3)))
    capacity = machine.state.image.capacity
    assert [8_000, 0, 0, 0] == capacity.gpu.reserved[:4]
    assert 0 == capacity.available(0).gpu_milli
    assert [] == check_ledger(capacity)
