"""Where a workload fits: fewest racks, then what its rules prefer, ties by chance; and how much must be freed before it could."""

import random
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from core.events.region import NodesJoined
from core.images import RegionImage
from core.nouns.placement import SCORE_PARTS, Shortage, needs_of
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.answers.bids import score
from core.placing.answers.shortages import missing_milli, shortage_of
from core.placing.pick.nodes import Choice
from core.placing.placer import Found, Placer
from core.placing.pool_set import request_of
from tests.builders import START, a_claim, a_job, a_region, a_spread, amount, folded, granted, joined
from tests.core.placing.searching import ANYBODY, CHOICE, looked_for, placed, placer_of
from tests.core.properties import PROPERTY

Shelf = list[tuple[Amount, int, str]]
"""What each node has available, its rack and its GPU type."""

TYPES = ("H100", "A100")
tasks_of_nodes = st.tuples(
    st.builds(amount, st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)),
    st.integers(0, 3),
    st.sampled_from(TYPES),
)
shelves = st.lists(tasks_of_nodes, min_size=1, max_size=8)
jobs = st.builds(
    a_job,
    st.integers(1, 9),
    st.sampled_from((0, 0.5, 1, 2, 3, 8)),
    gpu_type=st.sampled_from(TYPES),
    cpus=st.sampled_from((1, 2)),
    gib=st.sampled_from((0, 3)),
)


def stocked(shelf: Shelf) -> Placer:
    """A region in which these nodes are there and empty."""
    events: list[NodesJoined] = [
        joined(f"w{node}", node, 1, total=total, gpu_type=gpu_type, rack_first=rack)
        for node, (total, rack, gpu_type) in enumerate(shelf)
    ]
    return placer_of(folded(RegionImage.empty(), events).capacity)


def fits_on(total: Amount, job: JobSpec) -> int:
    """How many tasks one node has room for, by trying."""
    count = 0
    while count < job.tasks and total.covers(job.need.times(count + 1)):
        count += 1
    return count


def capacities(shelf: Shelf, job: JobSpec) -> list[int]:
    """The same for each node, of which those of another GPU type have room for none."""
    return [fits_on(total, job) if gpu_type == job.gpu_type else 0 for total, _, gpu_type in shelf]


def racks_needed(shelf: Shelf, job: JobSpec) -> int:
    """The fewest racks that hold all tasks, by taking the widest ones."""
    wide: dict[int, int] = {}
    for (_, rack, _), count in zip(shelf, capacities(shelf, job), strict=True):
        wide[rack] = wide.get(rack, 0) + count
    left, needed = job.tasks, 0
    for count in sorted(wide.values(), reverse=True):
        if left > 0:
            left -= count
            needed += 1
    return needed


@PROPERTY
@given(shelves, st.lists(jobs, min_size=1, max_size=3))
def test_found_places_fit_the_capacity(shelf: Shelf, wanted: list[JobSpec]) -> None:
    """M4: all tasks, on nodes of their GPU type named once and in order, and all jobs together within what is available."""
    placer = stocked(shelf)
    found = looked_for(placer, *wanted)
    if isinstance(found, Reason):
        return
    assert len(wanted) == len(found)
    for job, spread in zip(wanted, found, strict=True):
        assert job.tasks == sum(spread.tasks)
        assert min(spread.tasks) > 0
        assert sorted(set(spread.nodes)) == list(spread.nodes)
        assert {job.gpu_type} == {shelf[node][2] for node in spread.nodes}
    for node, need in needs_of(a_claim(jobs=tuple(wanted), spreads=found)).items():
        assert shelf[node][0].covers(need), node


@PROPERTY
@given(shelves, jobs)
def test_one_job_finds_no_capacity_only_when_there_is_none(shelf: Shelf, job: JobSpec) -> None:
    """M15: like tasks are placed node by node, so they fit exactly when the nodes have capacity for enough of them."""
    totals = [total for total, _, gpu_type in shelf if gpu_type == job.gpu_type]
    most = reduce(Amount.largest, totals, Amount())
    could_ever = bool(totals) and most.covers(job.need)
    room = sum(capacities(shelf, job))
    found = looked_for(stocked(shelf), job)
    if not could_ever:
        assert Reason.NO_SUCH_HARDWARE == found
    elif room < job.tasks:
        assert Reason.NO_CAPACITY == found
    else:
        assert not isinstance(found, Reason)


@PROPERTY
@given(shelves, jobs)
def test_one_job_takes_the_fewest_racks(shelf: Shelf, job: JobSpec) -> None:
    """M5, M15: and, within one rack, no more nodes than it must."""
    placer = stocked(shelf)
    found = looked_for(placer, job)
    if isinstance(found, Reason):
        return
    racks = {shelf[node][1] for node in found[0].nodes}
    assert racks_needed(shelf, job) == len(racks)
    if len(racks) == 1:
        mine = [count for node, count in enumerate(capacities(shelf, job)) if shelf[node][1] in racks]
        alone = [
            (total, node, kind) for node, (total, _, kind) in enumerate(shelf) if {shelf[node][1]} == racks
        ]
        assert racks_needed(alone, job) == len(found[0].nodes), mine


@PROPERTY
@given(shelves, jobs)
def test_tasks_that_fit_equals_trying_each_node(shelf: Shelf, job: JobSpec) -> None:
    """What the arrays say of every node at once is what trying the tasks one by one says."""
    placer = stocked(shelf)
    counted = [0] * len(shelf)
    for pool in placer.pools.pools_for(request_of(job, ANYBODY)):
        cap = pool.class_of(request_of(job, ANYBODY)).cap
        for node in range(len(shelf)):
            if pool.layout.slot(node) >= 0:
                counted[node] = min(job.tasks, int(cap[pool.layout.slot(node)]))
    assert capacities(shelf, job) == counted


def test_task_goes_where_it_leaves_least() -> None:
    """Best fit: room for large tasks is kept."""
    shelf = [(amount(8, 9, 9), 0, "H100"), (amount(3, 9, 9), 1, "H100"), (amount(4, 9, 9), 2, "H100")]
    assert [{1: 1}] == placed(stocked(shelf), a_job(1, 3))
    assert [{2: 1}] == placed(stocked(shelf), a_job(1, 4))
    assert [{0: 1}] == placed(stocked(shelf), a_job(1, 5))


def test_places_when_several_are_as_good() -> None:
    """P10: chance decides, drawn from a seed: each of them is chosen for some seeds, and always the same one for one."""
    placer = stocked([(amount(8, 9, 9), rack, "H100") for rack in (0, 0, 1, 1)])
    chosen = [placed(placer, a_job(1, 8), choice=Choice(f"w-{number}.1")) for number in range(50)]
    assert {0, 1, 2, 3} == {node for found in chosen for node in found[0]}
    assert chosen == [placed(placer, a_job(1, 8), choice=Choice(f"w-{number}.1")) for number in range(50)]
    pairs = [placed(placer, a_job(2, 8), choice=Choice(f"w-{number}.1"))[0] for number in range(50)]
    assert {(0, 1), (2, 3)} == {tuple(pair) for pair in pairs}
    assert 3 == len(placed(placer, a_job(3, 8))[0])


def test_gang_goes_to_the_tightest_rack_that_holds_it() -> None:
    """M5: a wide rack is left for who needs it; when none holds all, the widest is filled first."""
    wide = [(amount(8, 9, 9), 0, "H100")] * 4
    tight = [(amount(8, 9, 9), 1, "H100")] * 2
    assert [{4: 1, 5: 1}] == placed(stocked(wide + tight), a_job(2, 8))
    assert [{0: 1, 1: 1, 2: 1}] == placed(stocked(wide + tight), a_job(3, 8))
    assert [{0: 1, 1: 1, 2: 1, 3: 1, 4: 1}] == placed(stocked(wide + tight), a_job(5, 8))


def test_jobs_of_one_workload_share_the_capacity() -> None:
    """P22: the larger tasks are placed first, whatever their order, and nothing is promised to both."""
    shelf = [(amount(8, 16, 64), 0, "H100"), (amount(4, 16, 64), 0, "H100")]
    small, large = a_job(4, 1, name="readers"), a_job(1, 8, name="trainer")
    assert [{1: 4}, {0: 1}] == placed(stocked(shelf), small, large)
    assert Reason.NO_CAPACITY == looked_for(stocked(shelf), a_job(5, 1), large)


def test_hardware_that_the_region_never_had() -> None:
    """An unknown GPU type is another refusal than a full region: no end of an attempt mends it."""
    assert Reason.NO_SUCH_HARDWARE == looked_for(stocked([(amount(8), 0, "H100")]), a_job(gpu_type="B200"))
    assert Reason.NO_SUCH_HARDWARE == looked_for(
        stocked([(amount(8), 0, "H100")]), a_job(), a_job(gpu_type="B200")
    )


def test_nothing_fits_in_a_region_without_nodes() -> None:
    """It has no hardware yet."""
    assert Reason.NO_SUCH_HARDWARE == looked_for(stocked([]), a_job())


@PROPERTY
@given(shelves, st.lists(jobs, min_size=1, max_size=3), st.integers(0, 2**32))
def test_missing_is_a_lower_bound(shelf: Shelf, wanted: list[JobSpec], seed: int) -> None:
    """However less than so much is freed, on whichever nodes, the jobs still do not fit."""
    placer = stocked(shelf)
    if looked_for(placer, *wanted) != Reason.NO_CAPACITY:
        return
    missing = missing_milli(placer.pools, wanted, ANYBODY)
    assert missing >= 1
    is_for_gpus = any(job.need.gpu_milli for job in wanted)
    dice = random.Random(seed)
    left = missing - 1
    freed: list[tuple[int, Amount]] = []
    while left:
        some = min(left, dice.choice((1, 500, 1000, 2000, left)))
        amount_of = Amount(some) if is_for_gpus else Amount(0, some)
        freed.append((dice.randrange(len(shelf)), amount_of))
        left -= some
    if missing > 1:  # That is what is missing; it would not help if there were more of the rest.
        rest = Amount(0, 10**9, 10**15) if is_for_gpus else Amount(10**9, 0, 10**15)
        freed.extend((node, rest) for node in range(len(shelf)))
    assert Reason.NO_CAPACITY == placer.pools.released(freed).find(wanted, ANYBODY, CHOICE)


def test_missing_counts_the_smallest_gaps() -> None:
    """Two of three tasks of five lack, each, at least what the best node lacks of one."""
    placer = stocked([(amount(5, 9, 9), 0, "H100"), (amount(3, 9, 9), 0, "H100")])
    assert 4_000 == missing_milli(placer.pools, (a_job(3, 5),), ANYBODY)
    assert 1 == missing_milli(placer.pools, (a_job(1, 1, cpus=99),), ANYBODY), (
        "it is not GPUs that are missing"
    )
    assert 1 == missing_milli(placer.pools, (a_job(1, 8, gpu_type="B200"),), ANYBODY)


def test_missing_of_work_that_wants_no_gpus() -> None:
    """CPUs: each of two tasks that lack needs at least what the best node lacks of one. With GPUs beside it GPUs are counted."""
    placer = stocked([(amount(5, 9, 9), 0, "H100"), (amount(3, 8, 9), 0, "H100")])
    reader = a_job(6, 0, cpus=4, name="reader")
    assert 2 * (4_000 - 1_000) == missing_milli(placer.pools, (reader,), ANYBODY)
    assert 1 == missing_milli(placer.pools, (reader, a_job(1, 1)), ANYBODY)
    assert 1 == missing_milli(placer.pools, (a_job(1, 0, cpus=1, gib=99),), ANYBODY), "memory is missing"


@PROPERTY
@given(shelves, st.lists(jobs, min_size=1, max_size=3))
def test_shortage_is_of_a_job_that_finds_no_place(shelf: Shelf, wanted: list[JobSpec]) -> None:
    """There is one exactly when a search finds nothing, and its job has more tasks than there was capacity for."""
    placer = stocked(shelf)
    found = shortage_of(placer.pools, tuple(wanted), ANYBODY, CHOICE)
    assert isinstance(looked_for(placer, *wanted), Reason) == (found is not None)
    if found is not None:
        assert found.tasks_fit < found.tasks
        assert found.free.covers(found.largest)
        assert found.job in {job.name for job in wanted}


def test_shortage_has_the_free_capacity() -> None:
    """Of the job that found no place, after those that did: how many tasks fit, and the free capacity in total and at most on one node."""
    placer = stocked([
        (amount(8, 9, 9), 0, "H100"),
        (amount(3, 5, 2), 0, "H100"),
        (amount(4, 4, 4), 1, "A100"),
    ])  # fmt: skip
    first, second = a_job(1, 8, name="first"), a_job(3, 2, name="second", cpus=1)
    wanted = Shortage("second", 3, 1, 2, amount(3, 14, 11), amount(3, 9, 9))
    assert wanted == shortage_of(placer.pools, (second, first), ANYBODY, CHOICE)
    nowhere = Shortage("main", 1, 0, 0, amount(0), amount(0))
    assert nowhere == shortage_of(placer.pools, (a_job(1, 1, gpu_type="B200"),), ANYBODY, CHOICE)


def test_every_part_of_a_score_has_a_name() -> None:
    """People read them by it."""
    placer = stocked([(amount(8), 0, "H100")])
    assert len(SCORE_PARTS) == len(score(placer.pools, Found((a_spread({0: 1}),)), START))


def test_score_counts_racks_then_nodes_then_held_gpus() -> None:
    """Lower is better, compared from the left; without victims the first three are zero."""
    capacity = a_region(joined(), granted(a_claim("w-1", placed={3: 8}))).capacity
    placer = placer_of(capacity)
    spreads = (a_spread({0: 8, 2: 8}), a_spread({0: 1}))
    assert (0, 0, 0, 2, 2, 250) == score(placer.pools, Found(spreads), START)
