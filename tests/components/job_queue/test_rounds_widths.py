"""Jobs of shared pools that need several GPUs of one node: where they are picked, and which narrower jobs they push out."""

from typing import Any

from msgspec.structs import replace

from core.component import Decision
from core.events.region import AttemptEnded, NodesJoined
from core.events.sharing import SharesSet
from core.messages.broker import SolicitBid
from core.messages.queue import (
    Abstention,
)
from core.messages.sharing import SetShares
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import (
    AgentName,
    WorkerName,
    WorkloadId,
)
from core.nouns.instant import seconds
from core.nouns.pool import SHARED_POOL
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.sharing import MICRO_STEPS, WHOLE, ClassShares, PoolShares, ShareColumn
from core.nouns.workload import EndCause, Extent, Topology, WorkloadSpec
from core.sharing.accounts import PATIENCE
from core.sharing.classes import class_of, speed_key_of
from tests.builders import EU, US, US_LOG, amount, attempt
from tests.components.support.job_queue import W1, W2, W3, Start, a_job_queue, submit
from tests.components.support.machine import Machine
from tests.components.support.shared_pool import (
    a_pool_queue,
    begun,
    next_round,
    picked,
    pool_nodes,
    shared,
    starts,
)
from tests.matching import facts, said


def test_shares_where_no_node_is_wide_enough_are_not_picked(start: Start) -> None:
    """A planner gave a task of two GPUs all of its time on nodes of one: it runs where it can, on GPUs that are idle."""
    queue = a_job_queue(start, eu=pool_nodes(1, 2, "K80"), us=pool_nodes(2))
    wide = shared(1)
    (job,) = wide.jobs
    submit(queue, replace(wide, jobs=(replace(job, need=amount(2)),)))
    opened = queue.wake()
    sharing = queue.state.image.sharing
    (name,) = sharing.classes
    columns, gpus = (ShareColumn(EU, "K80"), ShareColumn(US, "V100")), (2, 2)
    given = PoolShares(1, columns, gpus, (ClassShares(name, ((1, WHOLE),)),), "highs", sharing.changes)
    (event,) = facts(queue.hear(SetShares(given, "max_min", 0)))
    assert SharesSet(given, policy="max_min") == event
    round_ = begun(next_round(queue))
    assert [W1] == picked(opened)
    assert ({}, ()) == (round_.joins, round_.leaves)
    assert f"{EU}/K80" == queue.state.image.sharing.picks[W1].column


def test_share_where_no_node_is_wide_enough_is_replaced(start: Start) -> None:
    """A task of two GPUs has an equal part where it fits, in place of a share on nodes of one GPU, which nobody could receive."""
    queue = a_job_queue(start, eu=pool_nodes(1, 2, "K80"), us=pool_nodes(2))
    submit(queue, needing(shared(1), 2))
    submit(queue, shared(2))
    queue.wake()
    sharing = queue.state.image.sharing
    columns, gpus = (ShareColumn(EU, "K80"), ShareColumn(US, "V100")), (2, 2)
    classes = tuple(ClassShares(name, ((1, WHOLE // 2),)) for name in sharing.classes)
    queue.hear(SetShares(PoolShares(1, columns, gpus, classes, "highs", sharing.changes), "max_min", 0))
    decision = next_round(queue)
    (event,) = [event for event in facts(decision) if isinstance(event, SharesSet)]
    assert (True, {f"{EU}/K80": WHOLE // 2}) == (event.is_more, sharing.targets_of(W1))
    assert {f"{US}/V100": WHOLE // 2} == sharing.targets_of(W2)
    assert [] == [event for event in facts(next_round(queue)) if isinstance(event, SharesSet)]


def test_job_is_not_picked_for_nodes_that_are_too_narrow(start: Start) -> None:
    """Its region has nodes that hold a task of eight GPUs, and faster ones that do not."""
    worker = WorkerName("w0")
    narrow = NodeGroup(0, 4, Amount(2_000, 96_000, 1 << 40), "V100", 0, 1, pool=SHARED_POOL)
    wide = NodeGroup(4, 1, Amount(8_000, 96_000, 1 << 40), "K80", 4, 1, pool=SHARED_POOL)
    queue = a_job_queue(start, us=NodesJoined(worker, Inventory(worker, (narrow, wide))))
    submit(queue, needing(shared(1, speeds={"V100": 9 * MICRO_STEPS, "K80": MICRO_STEPS}), 8))
    queue.wake()
    assert f"{US}/K80" == queue.state.image.sharing.picks[W1].column


def test_packed_jobs_have_speeds_and_shares_of_their_own() -> None:
    """Tasks of one node are faster than those of two, and fit on fewer types."""
    spread = shared(tasks=2)
    (job,) = spread.jobs
    packed = replace(spread, jobs=(replace(job, topology=Topology(pack=Extent.NODE)),))
    assert speed_key_of(spread) != speed_key_of(packed)
    assert class_of(spread) != class_of(packed)


def test_wide_jobs_and_narrow_ones_have_their_shares(start: Start) -> None:
    """G21: a job of four tasks among four of one GPU begins within the rounds that its part, and patience, allow."""
    queue = a_pool_queue(start, pool_nodes(4))
    for number in range(1, 5):
        submit(queue, shared(number))
    opened = queue.wake()
    starts(queue, opened, *(f"w-{number}" for number in range(1, 5)))
    wide = submit(queue, shared(5, tasks=4))
    queue.wake()
    assert any(wide in begun(next_round(queue)).joins for _ in range(5 + PATIENCE + 1))


def needing(spec: WorkloadSpec, gpus: int) -> WorkloadSpec:
    """The same with tasks of so many GPUs."""
    (job,) = spec.jobs
    return replace(spec, jobs=(replace(job, need=amount(gpus)),))


WIDE = WorkloadId("w-4")


def a_crowded_queue(start: Start) -> Machine[Any]:
    """Three jobs of two tasks on three nodes of two GPUs, and `WIDE`, of one task of two GPUs, which weighs a hundred times as much."""
    queue = a_pool_queue(start, pool_nodes(3, 2))
    for number in (1, 2, 3):
        submit(queue, shared(number, tasks=2))
    starts(queue, queue.wake(), W1, W2, W3)
    submit(queue, needing(shared(4, weight=100_000), 2))
    return queue


def test_job_of_whole_nodes_may_push_out_others_once_all_who_leave_have_ended(start: Start) -> None:
    """It is asked for without victims while GPUs of its column are about to be free, and then one level above narrow jobs."""
    queue = a_crowded_queue(start)

    def levels_asked(decision: Decision) -> list[int]:
        return [one.priority for one in said(decision, SolicitBid) if one.workload == WIDE]

    while not begun(decision := next_round(queue)).joins:
        pass
    round_ = begun(decision)
    assert ((WIDE,), (WIDE,)) == (tuple(round_.joins), round_.wide)
    assert [0] == levels_asked(decision)
    assert dict.fromkeys(round_.leaves, f"{US}/V100") == queue.state.image.sharing.leaving != {}
    (auction,) = [one.auction for one in said(decision, SolicitBid) if one.workload == WIDE]
    queue.hear(Abstention(US, AgentName("a0"), WIDE, auction, Reason.NO_CAPACITY, 1))
    assert [] == levels_asked(queue.wait(seconds(5)))
    for workload in round_.leaves:
        queue.fact(US_LOG, AttemptEnded(*attempt(workload), EndCause.ROUND_OVER))
    assert {1} == set(levels_asked(queue.wait(seconds(30))))
    narrow = begun(next_round(queue))
    assert () == narrow.wide


def test_job_of_half_a_node_may_push_out_narrower_ones(start: Start) -> None:
    """Jobs of one GPU may lie on every node, so that four GPUs are idle and on no node together: it stands two levels above them."""
    queue = a_pool_queue(start, pool_nodes(2, 8))
    for number, gpus in enumerate((1, 2, 3, 4, 6), start=1):
        submit(queue, needing(shared(number), gpus))
    decision = queue.wake()
    levels = {one.workload: one.priority for one in said(decision, SolicitBid)}
    assert [0, 1, 1, 2, 2] == [levels[WorkloadId(f"w-{number}")] for number in range(1, 6)]


def test_job_of_whole_nodes_that_waited_for_room_is_not_pushed_out_by_another(start: Start) -> None:
    """It was asked for at the level of narrow jobs, and stands one above them from its award on."""
    queue = a_crowded_queue(start)
    while not begun(decision := next_round(queue)).joins:
        pass
    (asked,) = {one.priority for one in said(decision, SolicitBid) if one.workload == WIDE}
    for workload in begun(decision).leaves:
        queue.fact(US_LOG, AttemptEnded(*attempt(workload), EndCause.ROUND_OVER))
    (award,) = starts(queue, decision, WIDE)
    assert (0, 1) == (asked, award.level)
