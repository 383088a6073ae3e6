"""A plan of moves is carried out by a whole region: with consent or not at all, and the nodes take work again by themselves."""

import pytest
from msgspec.structs import replace

from core.defrag.plan import planned
from core.defrag.revalidation import Revalidation
from core.events.control import NodesClosed, NodesOpened, OperationsBegun, OperationsDone
from core.events.region import StopOrdered
from core.images import RegionImage
from core.messages.base import Refused
from core.messages.nodes import DrainNodes, LiftDrain, NodesAnswered
from core.nouns.defragmentation import Freeing, Plan
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import DEFRAGMENTATION_SPAN, DEFRAGMENTATION_SPAN_MAX
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.operation import OperationKind, Outcome
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause
from core.placing.diagnosis.fragmentation import wholeness_of
from core.rules.disruption_budget import DEFRAGMENTATION
from tests.builders import EU, EU_LOG, a_claim, attempt
from tests.components.support.region import CONTROLLED, SERVICE, Region, Start, agrees, region_that_runs


def image_of(region: Region) -> RegionImage:
    """As its log has it."""
    image: RegionImage = region.store.state.image
    return image


def sequence_of(region: Region) -> int:
    """Of its newest fact."""
    return len(region.store.logs[EU_LOG])


def plan_of(region: Region) -> Plan:
    """Moves that free whole nodes of it."""
    return planned(image_of(region), EU, sequence_of(region), region.now, Freeing.NODES)


def execute(
    region: Region, plan: Plan, *, lasts: Nanoseconds = DEFRAGMENTATION_SPAN, sequence: int = 0
) -> None:
    """As `mizzen defrag --execute` does."""
    names = tuple(str(node) for freed in plan.freed for node in freed.nodes)
    revision = image_of(region).maintenance.revision
    scope = Scope(ScopeKind.NODE, names)
    region.hear(DrainNodes(EU, scope, "to free nodes", revision, 0, "olga", lasts, sequence or plan.sequence))


def test_agreeing_tasks_move_and_nodes_come_free(start: Start) -> None:
    """P30, T30: a move is asked of its application, counts against one budget, and comes to what the plan showed."""
    region = region_that_runs(start, SERVICE)
    region.controller = agrees
    plan = plan_of(region)
    assert (4, 5) == (plan.before.free_nodes, plan.after.free_nodes)
    (move,) = plan.moves
    assert "/shards" == move.controller
    execute(region, plan)
    region.until(lambda: bool(region.recorded(NodesOpened)), seconds(60))
    (begun,) = region.recorded(OperationsBegun)
    assert (DEFRAGMENTATION, 1) == (begun.requester, begun.charged)
    (opened,) = region.recorded(NodesOpened)
    assert ("d-1", "its nodes are free") == (opened.source, opened.reason)
    assert plan.after == wholeness_of(image_of(region).capacity)
    assert region.nodes()[move.task] == move.spreads_to[0].nodes[0]
    assert [request.requests[0].kind for request in region.requests()[:1]] == [OperationKind.MOVE]
    assert [] == region.doubles()


def test_nothing_moves_against_its_word(start: Start) -> None:
    """P30: who does not agree stays; when the time is over the nodes take work again, and nothing is asked of it any more."""
    region = region_that_runs(start, SERVICE)
    runs = region.runs()
    execute(region, plan_of(region), lasts=seconds(300))
    region.wait(seconds(200))
    assert [] == region.recorded(NodesOpened)
    (waits,) = [one for one in region.row().operations.values() if one.is_live]
    assert (DEFRAGMENTATION, 0) == (waits.requester, waits.deadline)
    region.wait(seconds(110))
    (opened,) = region.recorded(NodesOpened)
    assert "its time is over" == opened.reason
    assert Outcome.WITHDRAWN in [one.outcome for one in region.recorded(OperationsDone)]
    assert (runs, []) == (region.runs(), region.recorded(OperationsBegun))
    assert not any(image_of(region).capacity.closed)


def test_gangs_go_back_to_the_queue(start: Start) -> None:
    """P30: a gang is stopped whole, as one that was moved; the nodes open once it has gone."""
    gang = replace(a_claim("w-1", placed={0: 1, 2: 1}, gpus=2), control=CONTROLLED)
    region = region_that_runs(start, gang, a_claim("w-2", placed={4: 1}, gpus=4))
    region.controller = agrees
    plan = plan_of(region)
    assert "w-1" in [move.workload for move in plan.moves]
    execute(region, plan)
    region.until(lambda: bool(region.recorded(NodesOpened)), seconds(60))
    assert [EndCause.MOVED] * len(plan.moves) == [one.cause for one in region.recorded(StopOrdered)]
    assert "its nodes are free" == region.recorded(NodesOpened)[0].reason


def test_tasks_that_changed_since_the_plan_are_not_moved(start: Start) -> None:
    """P30: a plan names the view that it was made from: a workload that has moved or come since is seen, and the store takes no older
    request.
    """
    region = region_that_runs(start, SERVICE)
    plan = plan_of(region)
    (freed,) = plan.freed
    region.grant(a_claim("w-7", placed={freed.nodes[0]: 1}))
    region.wait(seconds(1))
    standing = Revalidation(image_of(region), region.now)
    assert f"w-7 is on node {freed.nodes[0]} now" == standing.take(freed)
    execute(region, plan)
    assert [] == region.recorded(NodesClosed)
    execute(region, plan, sequence=sequence_of(region))
    assert 1 == len(region.recorded(NodesClosed))


def test_task_that_was_restarted_since(start: Start) -> None:
    """P30: another run is another matter, and one that is asked for something else is left to that."""
    region = region_that_runs(start, SERVICE)
    region.controller = agrees
    plan = plan_of(region)
    (move,) = plan.moves
    region.operate(OperationKind.RESTART, move.task)
    region.wait(seconds(30))
    standing = Revalidation(image_of(region), region.now)
    assert f"task {move.task} of w-1 was started anew since" == standing.take(plan.freed[0])
    region.controller = lambda request: ()
    again = plan_of(region)
    (other,) = again.moves
    region.operate(OperationKind.RESTART, other.task)
    standing = Revalidation(image_of(region), region.now)
    assert "an operation is under way, or waits, on work there" in standing.take(again.freed[0])


def test_only_such_drains_lift_themselves(start: Start) -> None:
    """P30: one that an operator asked for stays until it is lifted, and none is lifted before its time by a word too early."""
    region = region_that_runs(start, SERVICE)
    region.hear(DrainNodes(EU, Scope(ScopeKind.NODE, ("5",)), "new PDU", 0, by="olga"))
    region.hear(LiftDrain(EU, "d-1"))
    region.hear(
        DrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), "to free nodes", 1, by="olga", lasts=seconds(60))
    )
    region.hear(LiftDrain(EU, "d-2"))
    region.hear(LiftDrain(EU, "d-9"))
    assert [] == region.recorded(NodesOpened)
    region.restart("control")
    region.wait(seconds(61))
    assert ["d-2"] == [one.source for one in region.recorded(NodesOpened)]


@pytest.mark.parametrize("lasts", [-1, DEFRAGMENTATION_SPAN_MAX + 1])
def test_spans_that_cannot_be(start: Start, lasts: int) -> None:
    """A drain that lifts itself does so within a day."""
    region = region_that_runs(start, SERVICE)
    drain = DrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), "to free nodes", 0, by="olga", lasts=lasts)
    (answer,) = region.store.hear(drain).messages
    assert isinstance(answer, Refused)
    assert Reason.INVALID == answer.reason


def test_such_drain_is_answered_like_any(start: Start) -> None:
    """With its name, by which it is followed and taken back."""
    region = region_that_runs(start, SERVICE)
    drain = DrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), "to free nodes", 0, by="olga", lasts=seconds(60))
    assert (NodesAnswered("d-1", 1, 1),) == region.store.hear(drain).messages
    assert attempt() in image_of(region).control.all_keys()
