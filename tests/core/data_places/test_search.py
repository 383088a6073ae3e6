"""Plans: better at each step, within all bounds after each action, and what they do first."""

import numpy as np
import pytest
from msgspec.structs import replace

from core.data_places.actions import ADD_COPY, DROP_COPY, MOVE_HOME, Plan, carried_out
from core.data_places.figures import figures_of
from core.data_places.price import acting_homes
from core.data_places.problem import UNSTATED, DataProblem
from core.data_places.search import planned
from tests.core.data_places.instances import Job, drawn, problem_of


def done(plan: Plan) -> list[tuple[int, int, int]]:
    """Return kind, table and target of each action."""
    return list(zip(plan.kinds.tolist(), plan.tables.tolist(), plan.targets.tolist(), strict=True))


@pytest.mark.parametrize("is_odd", [False, True])
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 40))]
)
def test_plan_keeps_every_bound_after_every_action(seed: int, *, is_odd: bool) -> None:
    """M27, M29: no storage, bytes or extra copies are exceeded, no last copy goes, and the objective falls from step to step by what is told."""
    problem = drawn(seed, tables=14, jobs=16, is_odd=is_odd)
    plan = planned(problem)
    objective, copied = plan.before.objective, 0
    assert plan.before == figures_of(problem, problem.home, problem.copies)
    for count in range(1, len(plan.kinds) + 1):
        after = carried_out(problem, plan, count)
        copied += int(plan.bytes[count - 1])
        assert_possible(problem, after, plan, count)
        if count == len(plan.kinds) or plan.steps[count] != plan.steps[count - 1]:
            value = figures_of(problem, after.home, after.copies).objective
            gained = plan.gains[plan.steps == plan.steps[count - 1]].sum()
            assert objective - value == pytest.approx(gained, abs=1e-9)
            assert value < objective
            objective = value
    assert copied == plan.bytes_total <= problem.bytes_max
    last = carried_out(problem, plan)
    assert plan.after == figures_of(problem, last.home, last.copies)


def assert_possible(problem: DataProblem, after: DataProblem, plan: Plan, count: int) -> None:
    """The last of some actions was possible, and left nothing broken."""
    action = count - 1
    before = carried_out(problem, plan, action)
    table, kind = int(plan.tables[action]), int(plan.kinds[action])
    source, target = int(plan.sources[action]), int(plan.targets[action])
    assert problem.storage[target] != UNSTATED
    assert problem.sizes[table] > 0
    if kind == DROP_COPY:
        assert before.held[table, target]
        assert not problem.pinned[table]
        assert plan.bytes[action] == 0
    else:
        lacks = not before.held[table, target]
        assert plan.bytes[action] == (problem.sizes[table] if lacks else 0)
        assert before.held[table, source]
    if kind == MOVE_HOME:
        assert before.home[table] == source != target
        assert not problem.pinned[table]
        assert problem.storage[source] != UNSTATED
    else:
        assert before.home[table] == after.home[table]
    assert (after.held.any(axis=1) == problem.held.any(axis=1)).all()
    home = acting_homes(problem, after.home, after.held)
    somewhere = np.flatnonzero(home < len(problem.regions))
    assert after.held[somewhere, home[somewhere]].all()
    used, room = stored(after), np.maximum(problem.storage, stored(problem))
    assert (used <= room)[problem.storage != UNSTATED].all()
    if extra(after) > extra(before):
        assert extra(after) <= problem.all_bytes * problem.extra_storage_permille // 1_000


def stored(problem: DataProblem) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return (regions,) bytes in use."""
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = problem.elsewhere + (
        problem.sizes[:, None] * problem.held
    ).sum(axis=0)
    return found


def extra(problem: DataProblem) -> int:
    """Return bytes of copies beyond one of each table."""
    return int((problem.sizes * np.maximum(problem.held.sum(axis=1) - 1, 0)).sum())


@pytest.mark.parametrize("seed", range(4))
def test_equal_problems_have_equal_plans(seed: int) -> None:
    """The search is a function: it reads no clock and draws nothing, and it leaves the problem's arrays as they are."""
    problem = drawn(seed)
    for name in ("sizes", "home", "copies", "pinned", "storage", "job_tables", "job_demand", "supply"):
        getattr(problem, name).flags.writeable = False
    first, second = planned(problem), planned(replace(problem))
    for name in Plan.__struct_fields__:
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


def test_plan_goes_on_from_where_the_last_one_led() -> None:
    """What one day's bytes do not suffice for, the next days do; a plan from the end of the last is no worse than it."""
    problem = drawn(5, tables=30, jobs=40)
    problem = replace(problem, bytes_max=problem.all_bytes // 20)
    values = []
    for _ in range(4):
        plan = planned(problem)
        values.append(plan.after.objective)
        problem = carried_out(problem, plan)
    assert sorted(values, reverse=True) == values
    assert values[-1] < values[0]


def test_nothing_to_do_is_an_empty_plan() -> None:
    """No tables, no work, or everything as it should be."""
    assert [] == done(planned(problem_of([], [], [], [[1.0], [1.0]])))
    assert [] == done(planned(problem_of([5, 5], [0, 1], [], [[1.0], [1.0]])))
    content = problem_of([5], [0], [Job((0,), 0.5)], [[1.0], [1.0]])
    assert [] == done(planned(content))
    assert planned(content).before == planned(content).after


def test_overload_is_relieved_before_underload() -> None:
    """M30: of two types a region is as far from its share; there are bytes for one move, and it is that of the type with too much demand."""
    jobs = [
        Job((0,), 1.0, 0), Job((1,), 0.2, 0), Job((2,), 0.8, 0),
        Job((3,), 0.4, 1), Job((4,), 0.2, 1), Job((5,), 0.2, 1),
    ]  # fmt: skip
    problem = problem_of([10] * 6, [0, 0, 1, 0, 0, 1], jobs, [[1.0, 1.0], [1.0, 1.0]], bytes_max=10)
    assert [(MOVE_HOME, 1, 1)] == done(planned(problem))


def test_job_is_moved_as_a_whole() -> None:
    """Its tables move in one step, for none of them gains alone; within the step the objective rises."""
    jobs = [Job((0, 1, 2), 1.0), Job((3,), 1.0)]
    problem = problem_of([10] * 4, [0] * 4, jobs, [[1.0], [1.0]])
    plan = planned(problem)
    moved = sorted(plan.tables.tolist())
    assert moved in ([0, 1, 2], [3])
    whole = planned(replace(problem, pinned=np.array([False, False, False, True])))
    assert [0, 0, 0] == whole.steps.tolist()
    assert [0, 1, 2] == sorted(whole.tables.tolist())


def test_job_without_a_common_home_gets_a_copy_where_its_gpus_are() -> None:
    """M31: homes are pinned apart; the region with the largest supply of its type comes first, where the bytes are the same."""
    jobs = [Job((0, 1), 1.0, gpu_type=1)]
    supply = [[9.0, 0.0], [9.0, 0.0], [9.0, 2.0], [9.0, 3.0]]
    problem = problem_of([10, 10], [0, 1], jobs, supply, pinned=[0, 1])
    assert [(ADD_COPY, 0, 3), (ADD_COPY, 1, 3)] == done(planned(problem))


def test_job_at_home_without_its_gpus_gets_a_copy_where_they_are() -> None:
    """M31: the home is pinned where the type is not; fewest bytes come before the largest supply."""
    supply = [[9.0, 0.0], [9.0, 3.0], [9.0, 2.0]]
    problem = problem_of([10], [0], [Job((0,), 1.0, gpu_type=1)], supply, pinned=[0])
    assert [(ADD_COPY, 0, 1)] == done(planned(problem))
    two = [Job((0, 1), 1.0, gpu_type=1)]
    near = problem_of([10, 10], [0, 0], two, supply, pinned=[0, 1], held=[(1, 2)])
    assert [(ADD_COPY, 0, 2)] == done(planned(near))


def test_home_moves_rather_than_a_copy_where_it_may() -> None:
    """M31: homes and copies are one queue; a home where the GPUs are is worth more than a copy there."""
    supply = [[9.0, 0.0], [9.0, 3.0]]
    plan = planned(problem_of([10], [0], [Job((0,), 1.0, gpu_type=1)], supply))
    assert [(MOVE_HOME, 0, 1)] == done(plan)
    assert [False] == plan.keeps.tolist()


def test_each_table_gets_a_copy_outside_its_home() -> None:
    """M31: such that home and copy have every GPU type of the table's readers; a region that is full gets none."""
    jobs = [Job((0,), 0.1, 0), Job((0,), 0.1, 1), Job((1,), 0.1, 0), Job((2,), 0.1, 0)]
    supply = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    problem = problem_of(
        [10, 20, 30], [0, 0, 1], jobs, supply, disaster_copies=True, pinned=[0, 1, 2], storage=[60, 52, 100]
    )
    plan = planned(problem)
    after = carried_out(problem, plan)
    assert {ADD_COPY} == set(plan.kinds.tolist())
    assert after.held[0].tolist() == [True, False, True]
    assert plan.after.protected == 1.0
    assert (stored(after) <= problem.storage).all()


def test_move_leaves_the_old_copy_as_the_protecting_one() -> None:
    """M31: so it costs no more bytes."""
    jobs = [Job((0,), 1.0, gpu_type=1)]
    problem = problem_of([10], [0], jobs, [[1.0, 0.0], [1.0, 3.0]], disaster_copies=True)
    plan = planned(problem)
    assert [(MOVE_HOME, 0, 1)] == done(plan)
    assert [True] == plan.keeps.tolist()
    assert (10, 1.0) == (plan.bytes_total, plan.after.protected)


def test_hot_tables_are_copied_in_proportion_to_supply() -> None:
    """M32: within the quota of each region, and within its storage."""
    jobs = [Job((table,), 1.0 + table / 100) for table in range(16)]
    supply = [[60.0], [20.0], [0.0]]
    problem = problem_of([10] * 16, [2] * 16, jobs, supply, hot_permille=1_000, pinned=range(16))
    copied = carried_out(problem, planned(problem)).held[:, :2].sum(axis=0)
    assert copied[0] >= copied[1] == 4
    small = replace(problem, storage=np.array([25, 1 << 40, 1 << 40], dtype=np.int64))
    held = carried_out(small, planned(small)).held
    assert held[:, 0].sum() == 2


def test_pinned_tables_stay() -> None:
    """Their home and their copies; a copy may be added."""
    jobs = [Job((0,), 3.0), Job((1,), 1.0)]
    free = problem_of([10, 10], [0, 0], jobs, [[1.0], [9.0]])
    assert {0, 1} >= set(planned(free).tables.tolist()) != set()
    assert [] == done(planned(replace(free, pinned=np.array([True, True]))))


def test_region_without_stated_storage_is_left_alone() -> None:
    """Nothing comes, goes or moves from there, though the other region has all the GPUs."""
    jobs = [Job((0,), 3.0), Job((1,), 3.0)]
    supply = [[1.0], [9.0], [9.0]]
    problem = problem_of(
        [10, 10], [0, 1], jobs, supply, storage=[UNSTATED, 100, UNSTATED], disaster_copies=True, held=[(1, 2)]
    )
    plan = planned(problem)
    assert {1} >= set(plan.targets.tolist())
    assert {0, 1} == set(plan.kinds.tolist()) | {0, 1}
    assert carried_out(problem, plan).home.tolist() == [0, 1]


def test_copy_that_nothing_needs_goes_where_storage_is_scarce() -> None:
    """The region is above four fifths; of its copies only the one without a use goes, and no home does."""
    jobs = [Job((0,), 0.1), Job((1,), 0.1), Job((2,), 0.1)]
    problem = problem_of(
        [30, 30, 30], [1, 0, 1], jobs, [[1.0], [1.0]], held=[(0, 0)], storage=[65, 200], pinned=[1, 2]
    )
    assert [(DROP_COPY, 0, 0)] == done(planned(problem))


def test_actions_are_bounded() -> None:
    """A plan of two actions has the two that gain most."""
    problem = replace(drawn(2, tables=20, jobs=30), actions_max=2)
    plan = planned(problem)
    assert 1 <= len(plan.kinds) <= 2
    assert plan.after.objective < plan.before.objective


def test_table_of_unknown_size_is_not_copied() -> None:
    """Its readers wait; nobody knows how many bytes it would take."""
    jobs = [Job((0, 1), 1.0, gpu_type=1)]
    problem = problem_of([0, 10], [0, 0], jobs, [[1.0, 0.0], [1.0, 1.0]], disaster_copies=False, pinned=[1])
    assert [] == done(planned(problem))


@pytest.mark.parametrize(("price", "moves"), [(0.0, 1), (1.4, 1), (1.6, 0)])
def test_step_gains_more_than_its_bytes_cost(price: float, moves: int) -> None:
    """A home without the GPUs of its readers moves, unless that costs more than it gains; the objective is the same."""
    problem = problem_of(
        [10], [0], [Job((0,), 1.0, gpu_type=1)], [[9.0, 0.0], [9.0, 3.0]], disaster_copies=False
    )
    plan = planned(replace(problem, copy_price=price))
    assert moves == len(plan.kinds)
    assert planned(problem).before.objective == plan.before.objective
