"""Plans that free whole nodes and racks: what they move, what they leave, and how near they come to the best there is."""

from collections import Counter
from itertools import product

import pytest
from msgspec.structs import replace

from core.defrag.plan import planned
from core.defrag.revalidation import Revalidation, refusal_of
from core.defrag.what_if import Mover, movers_of
from core.events.control import NodesClosed, OperationsRequested
from core.events.pools import PoolChanged
from core.events.region import CheckpointCommitted, ClaimPromised, GangStarted
from core.images import RegionImage
from core.nouns.defragmentation import Freeing, Immovable, Plan
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import WHOLE, OperationKind
from core.nouns.pool import PERMILLE, PoolSettings
from core.nouns.workload import Extent, Kind, Topology
from core.placing.diagnosis.fragmentation import is_unused, wholeness_of
from tests.builders import EU, a_claim, a_job, a_spread, attempt, granted
from tests.core.placing.scattered import Scattered, mixed, tiny


def plan_of(region: Scattered, freeing: Freeing = Freeing.NODES, *, count: int = 0) -> Plan:
    """What is to be moved in it."""
    return planned(region.image, EU, region.sequence, region.now, freeing, count=count)


def nodes_to(plan: Plan) -> list[tuple[str, int, int]]:
    """Who moves, from which node to which: of works on one node each."""
    return [(m.workload, m.spreads_from[0].nodes[0], m.spreads_to[0].nodes[0]) for m in plan.moves]


# What is moved.


def test_the_cheapest_work_moves_and_the_rest_stays() -> None:
    """P30: of two nodes that could be emptied into each other the one is whose work was saved last; the plan says what it costs."""
    region = Scattered(2)
    first, second = region.run({0: 1}, 4), region.run({1: 1}, 4)
    region.happen(CheckpointCommitted(second, 1, 1))
    plan = plan_of(region)
    assert [(second, 1, 0)] == nodes_to(plan)
    assert ((1,), 60 * 4) == (plan.freed[0].nodes, plan.destroyed)
    assert (0, 1) == (plan.before.free_nodes, plan.after.free_nodes)
    assert (4, 8) == (plan.before.largest_gangs["node"], plan.after.largest_gangs["node"])
    assert first not in [move.workload for move in plan.moves]


def test_a_gang_costs_all_of_its_work_and_frees_all_of_its_nodes() -> None:
    """P30: to take one task of a gang from its node stops all of it; what that costs is weighed against all that comes free."""
    region = Scattered(4)
    gang = region.run({0: 1, 1: 1}, 2)
    region.run({2: 1}, 2)
    region.run({3: 1}, 2)
    seconds = region.sequence + 60 - 4  # It started with the fourth fact.
    plan = plan_of(region)
    moves = {move.workload: move for move in plan.moves}
    assert (2 * 2 * seconds, [0, 1], WHOLE) == (moves[gang].destroyed, moves[gang].nodes(), moves[gang].task)
    assert 3 == plan.after.free_nodes


def test_racks_come_free_whole() -> None:
    """P30: moves free a whole rack, whose free nodes are kept free meanwhile; full nodes move where a rack is broken anyhow."""
    region = Scattered(6)
    region.run({0: 1}, 8)
    region.run({2: 1}, 8)
    region.run({4: 1}, 8)
    plan = plan_of(region, Freeing.RACKS)
    assert (0, 1) == (plan.before.free_racks, plan.after.free_racks)
    assert (8, 16) == (plan.before.largest_gangs["rack"], plan.after.largest_gangs["rack"])
    assert 2 == len(plan.freed[0].nodes)
    assert 1 == len(plan.freed[0].racks)
    assert () == plan_of(region, Freeing.NODES).freed  # It would take a whole node for each that it leaves.


def test_tasks_of_a_service_move_one_by_one() -> None:
    """P30: a task that stands alone moves without the others, and destroys no work."""
    region = Scattered(3)
    service = region.run({0: 1, 1: 1, 2: 1}, 2, kind=Kind.SERVICE)
    plan = plan_of(region)
    (move,) = plan.moves
    assert (service, 0, 1) == (move.workload, plan.destroyed, plan.after.free_nodes)
    assert {0, 1} == {*move.nodes(), move.spreads_to[0].nodes[0]}  # Two racks it has, and two it keeps.


@pytest.mark.parametrize(
    ("topology", "moves"),
    [
        (Topology(pack=Extent.ZONE), 1),
        (Topology(pack=Extent.ZONE, spread=Extent.RACK), 0),
        (Topology(pack=Extent.RACK, tasks_per_node=1), 0),
        (Topology(pack=Extent.RACK), 1),
    ],
)
def test_tasks_that_stand_alone_lie_as_their_job_wants(topology: Topology, moves: int) -> None:
    """P30: one that moves keeps to what its job asks of where its tasks lie to each other, the others counted."""
    region = Scattered(2)
    job = replace(a_job(2, 2), topology=topology)
    if topology.spread:
        region = Scattered(4)
    places = a_spread({0: 1, 2: 1} if topology.spread else {0: 1, 1: 1})
    region.start(a_claim("w-90", jobs=(job,), spreads=(places,), kind=Kind.SERVICE))
    assert moves == len(plan_of(region).moves)


def test_no_more_comes_free_than_was_asked_for() -> None:
    """P30: `count` is the most; what comes free first is the same as without it, though what goes there may go on elsewhere."""
    region = Scattered(6)
    for node in range(6):
        region.run({node: 1}, 2)
    everything, one = plan_of(region), plan_of(region, count=1)
    assert (4, 1) == (len(everything.freed), len(one.freed))
    assert one.freed[0].nodes == everything.freed[0].nodes
    assert [move.workload for move in one.moves] == [move.workload for move in everything.freed[0].moves]


# What stays.


@pytest.mark.parametrize(
    ("kind", "why"), [(Kind.INTERACTIVE, Immovable.INTERACTIVE), (Kind.FUNCTION, Immovable.FUNCTION)]
)
def test_kinds_that_are_not_moved(kind: Kind, why: Immovable) -> None:
    """P30: interactive work is nobody's to move; an empty plan says why it is empty."""
    region = Scattered(2)
    region.run({0: 1}, 1, kind=kind)
    region.run({1: 1}, 1, kind=kind)
    plan = plan_of(region)
    assert ((), {str(why): 2}) == (plan.freed, plan.stays)


def test_busy_tasks_stay() -> None:
    """P30: a task that starts, is asked to do something, or is on a node with capacity promised to others, is left alone."""
    region = Scattered(4)
    starting = a_claim("w-90", placed={0: 1})
    region.happen(granted(starting))
    asked = region.run({1: 1})
    operation = OperationsRequested(asked, 1, 1, OperationKind.RESTART, (WHOLE,), "because")
    region.happen(operation)
    region.run({2: 1})
    region.happen(ClaimPromised(*attempt("w-91"), a_claim("w-91", placed={2: 7})))
    region.happen(granted(a_claim("w-92", placed={3: 1})), GangStarted(*attempt("w-92")))
    region.happen(NodesClosed("d-1", ClosureKind.DRAIN, ((3, 3),), "new PDU"))
    plan = plan_of(region)
    assert () == plan.freed
    reasons = (Immovable.STARTING, Immovable.BUSY, Immovable.PROMISED, Immovable.CLOSED)
    assert dict.fromkeys(sorted(map(str, reasons)), 1) == plan.stays


def test_pools_keep_their_limit() -> None:
    """P30: closed for the time of the moves, a node counts for no limit; where that breaks one, nothing is moved."""
    region = Scattered(2)
    region.run({0: 1}, 4)
    region.run({1: 1}, 4)
    region.happen(PoolChanged("training", PoolSettings(limit=900)))
    plan = plan_of(region)
    assert ((), {str(Immovable.NO_ROOM): 2}) == (plan.freed, plan.stays)


def test_gangs_that_must_lie_together_stay_together() -> None:
    """P30: a gang that must lie in one rack is moved into one, or not at all."""
    region = Scattered(6)
    packed = replace(a_job(2, 4), topology=Topology(pack=Extent.RACK))
    claim = a_claim("w-90", jobs=(packed,), spreads=(a_spread({0: 1, 1: 1}),))
    region.start(claim)
    region.run({2: 1}, 4, kind=Kind.INTERACTIVE)
    region.run({4: 1}, 4, kind=Kind.INTERACTIVE)
    plan = plan_of(region)
    assert 1 == len({node // 2 for node in (plan.moves[0].spreads_to[0].nodes if plan.moves else (0,))})
    assert plan.after.free_nodes >= plan.before.free_nodes


# Beside every possibility.


def best_of(region: Scattered) -> dict[int, int]:
    """By how many more nodes come free at least, the least destroyed work; every way to move or to leave each work is tried.

    Room that a move leaves counts for nobody but itself, as in a plan.
    """
    capacity = region.image.capacity
    movers = list(movers_of(region.image, region.now).values())
    nodes = range(len(capacity.rack))
    before = sum(is_unused(capacity, node) for node in nodes)
    best: dict[int, int] = {}
    ways = [[None, *_elsewhere(mover, nodes)] if mover.why_not is None else [None] for mover in movers]
    for way in product(*ways):
        room = [capacity.available(node).gpu_milli for node in nodes]
        stays: set[int] = set()
        for mover, to in zip(movers, way, strict=True):
            stays.update(mover.nodes() if to is None else to)
            own = Counter(mover.nodes())
            for node, tasks in Counter(to or ()).items():
                room[node] -= mover.jobs[0].need.gpu_milli * max(0, tasks - own[node])
        if min(room) < 0:
            continue
        gained = sum(node not in stays for node in nodes) - before
        cost = sum(mover.destroyed for mover, to in zip(movers, way, strict=True) if to is not None)
        for count in range(1, gained + 1):
            best[count] = min(cost, best.get(count, cost))
    return best


def _elsewhere(mover: Mover, nodes: range) -> list[tuple[int, ...]]:
    """All ways to lie but the one in which it lies."""
    tasks = sum(job.tasks for job in mover.jobs)
    ways = product(nodes, repeat=tasks)
    return [to for to in ways if list(to) == sorted(to) and list(to) != mover.nodes()]


def test_beside_every_possibility() -> None:
    """P30: in tiny regions a plan never claims what cannot be, frees one node as cheaply as can be, and nearly as many as can be."""
    most = freed = dearer = 0
    for seed in range(40):
        region = tiny(seed)
        best = best_of(region)
        plan = plan_of(region)
        gained = plan.after.free_nodes - plan.before.free_nodes
        assert gained == 0 or gained in best
        assert gained == 0 or plan.destroyed >= best[gained]
        one = plan_of(region, count=1)
        assert bool(one.freed) <= bool(best)
        most, freed = most + max(best, default=0), freed + gained
        dearer += bool(best) and (
            not one.freed or one.destroyed > best[one.after.free_nodes - one.before.free_nodes]
        )
    assert freed >= 0.9 * most
    assert dearer <= 1


# Whatever lies where.


@pytest.mark.parametrize("freeing", list(Freeing))
@pytest.mark.parametrize("seed", range(12))
def test_moves_break_no_hard_rule_and_come_to_the_shown_plan(seed: int, freeing: Freeing) -> None:
    """P30: a store would grant each move, and none needs capacity that another leaves; made on the image, they come to the shown plan."""
    region = mixed(seed)
    before = region.image.encode()
    plan = plan_of(region, freeing)
    assert before == region.image.encode()
    assert plan.before == wholeness_of(region.image.capacity)
    standing = Revalidation(region.image, region.now)
    assert [""] * len(plan.freed) == [standing.take(one) for one in plan.freed]
    after = standing.opened().image
    assert plan.after == wholeness_of(after.capacity)
    _check_sums(after)
    if region.image.pools.of("training").limit == PERMILLE:
        _check_in_any_order(region, plan)
    by_type = plan.after.free_nodes if freeing is Freeing.NODES else plan.after.free_racks
    was = plan.before.free_nodes if freeing is Freeing.NODES else plan.before.free_racks
    assert by_type >= was + len(plan.freed)
    assert len({(move.key, move.task) for move in plan.moves}) == len(plan.moves)


def _check_in_any_order(region: Scattered, plan: Plan) -> None:
    """The last first: whoever needed room that another leaves would find none.

    What a sketch keeps for who has left counts as used in it, and so for limits, though nobody holds it any more.
    """
    standing = Revalidation(region.image, region.now)
    standing.sketch.close("all", {node for freed in plan.freed for node in freed.nodes})
    for move in reversed(plan.moves):
        mover = standing.movers[move.key, move.task]
        standing.sketch.take_out(mover, mover.spreads)
        assert not refusal_of(standing.sketch, mover, move.spreads_to)
        standing.sketch.put(mover, move.spreads_to)
    standing.sketch.open("all", {node for freed in plan.freed for node in freed.nodes})
    standing.sketch.let_go()
    assert plan.after == wholeness_of(standing.sketch.capacity)


def _check_sums(image: RegionImage) -> None:
    gpu = image.capacity.gpu
    for node, total in enumerate(gpu.total):
        assert total == gpu.free[node] + gpu.held[node] + gpu.ending[node], node
        assert 0 <= gpu.free[node], node
