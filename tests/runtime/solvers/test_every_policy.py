"""What holds for every policy, whatever its objective."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.bounds import excess_of
from core.sharing.policies import POLICIES
from core.sharing.problem import MILLIONTHS, BadProblem, JobClass, PairSpeeds, SharingProblem
from core.sharing.programmes import LinearProgramme, Solution
from runtime.solvers.sharing import LINEAR, solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, crowded, drawn, of_speeds

ONE_GPU = ("allox",)
"""Policies for jobs of one GPU."""


def drawn_for(name: str, seed: int, *, has_pairs: bool = False) -> SharingProblem:
    """A drawn problem that the policy can solve."""
    problem = drawn(
        seed, jobs=5, has_pairs=has_pairs and name not in ONE_GPU, is_by_job=POLICIES[name].is_by_job
    )
    if name in ONE_GPU:
        problem = replace(problem, classes=tuple(replace(one, gpus=1) for one in problem.classes))
    return problem


class Sized:
    """A solver that records how many rows and variables it is given."""

    def __init__(self, seen: list[int]) -> None:
        self._seen = seen

    def __call__(self, programme: LinearProgramme) -> Solution:
        """Solve as always."""
        self._seen += programme.matrix.shape
        return LINEAR[0](programme)


def test_list_is_in_order() -> None:
    """Of names, each said in one line of 80 columns with what it does."""
    assert list(POLICIES) == sorted(POLICIES)
    widest = max(map(len, POLICIES))
    assert max(widest + 2 + len(one.does) for one in POLICIES.values()) <= 80


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("seeds", BATCHES)
def test_shares_are_possible(seeds: range, name: str) -> None:
    """G12: no job has more than all of its time, no pool gives more than its GPUs, and where a job has no speed it has no share: G13."""
    for seed in seeds:
        problem = drawn_for(name, seed, has_pairs=seed % 2 == 1)
        shares = solve_shares(name, problem)
        assert_possible(problem, shares)
        if POLICIES[name].is_whole:
            counts = np.array([[one.count] for one in problem.classes])
            jobs = shares.alone * counts / MILLIONTHS
            assert np.rint(jobs) == pytest.approx(jobs, abs=1e-5)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_packed_and_spread_are_columns_of_one_pool(name: str) -> None:
    """G12: also where two types have two columns each, and jobs in pairs; all arrays are of the problem's shape."""
    speeds = [[9.0, 4.0, 5.0, 3.0], [7.0, 7.0, 2.0, 1.0], [8.0, 2.0, 6.0, 6.0]]
    problem = of_speeds(speeds, [1, 1, 1, 1], steps=[100.0, 200.0, 300.0])
    both = np.array([[6.0, 3.0, 2.0, 1.0]] * 2)
    problem = replace(problem, gpus=(2, 1), pools=(0, 0, 1, 1))
    if name not in ONE_GPU:
        problem = replace(problem, pairs=(PairSpeeds(0, 1, both), PairSpeeds(0, 2, both)))
    shares = solve_shares(name, problem)
    assert "" == excess_of(problem, shares)
    assert shares.alone.sum() + shares.together.sum() > MILLIONTHS // 2


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_no_jobs_have_no_shares(name: str) -> None:
    """A pool may be empty for a while."""
    problem = replace(of_speeds([[1.0, 2.0]], [1, 1]), classes=(), speeds=np.zeros((0, 2)))
    shares = solve_shares(name, problem)
    assert ((0, 2), (0, 2)) == (shares.alone.shape, shares.together.shape)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_numbers_that_are_none_are_told(name: str) -> None:
    """Infinite steps, or an age that is no number, in one sentence."""
    for field, value in (("steps", np.inf), ("age", np.nan)):
        problem = of_speeds([[1.0]], [1], **{"steps": [9.0], field: [value]})
        with pytest.raises(BadProblem, match=r"^j0: its steps, its age or its promise is no number$"):
            solve_shares(name, problem)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_what_a_policy_does_not_read_changes_nothing(name: str) -> None:
    """Prices and entities, unless it says that it reads them: only then must classes and pools be told apart by these."""
    policy = POLICIES[name]
    is_other = {"price": False, "entity": False}
    for seed in range(8):
        problem = crowded(seed, jobs=5, is_by_job=policy.is_by_job)
        if name in ONE_GPU:
            problem = replace(problem, classes=tuple(replace(one, gpus=1) for one in problem.classes))
        free = replace(problem, columns=tuple(replace(one, price=0.0) for one in problem.columns))
        alone = replace(problem, classes=tuple(replace(one, entity="one") for one in problem.classes))
        expected = solve_shares(name, problem).alone.tolist()
        is_other["price"] |= solve_shares(name, free).alone.tolist() != expected
        is_other["entity"] |= solve_shares(name, alone).alone.tolist() != expected
    assert {"price": policy.reads_prices, "entity": policy.reads_entities} == is_other


@pytest.mark.parametrize("name", [one.name for one in POLICIES.values() if not one.is_by_job])
def test_ten_thousand_jobs_make_no_larger_programme_than_a_hundred(name: str) -> None:
    """G30: by class a programme has a row for a class, however many jobs it has, and regions that are alike are one."""
    sizes = []
    for jobs, regions in ((10, 1), (1_000, 10)):
        problem = of_speeds([[9.0, 3.0], [5.0, 4.0], [2.0, 2.5]], [8 * jobs, 4 * jobs], count=[jobs] * 3)
        columns = [replace(one, region=f"r{place}") for place in range(regions) for one in problem.columns]
        fleet = replace(problem, columns=tuple(columns), gpus=problem.gpus * regions)
        fleet = replace(fleet, speeds=np.tile(problem.speeds, regions))
        seen: list[int] = []
        solve_shares(name, fleet, [Sized(seen)])
        sizes.append(seen)
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_nothing_runs_where_it_has_no_speed(name: str) -> None:
    """G13: jobs without a speed on the V100 have no share of it, alone or in pairs, though it is idle; the K80 is used."""
    problem = of_speeds([[0.0, 5.0]] * 3, [4, 2], steps=[100.0, 200.0, 300.0])
    if name not in ONE_GPU:
        both = np.array([[3.0, 3.0]] * 2)
        problem = replace(problem, pairs=(PairSpeeds(0, 1, both), PairSpeeds(1, 2, both)))
    shares = solve_shares(name, problem)
    assert not shares.alone[:, 0].any()
    assert not shares.together[:, 0].any()
    assert shares.alone[:, 1].sum() + shares.together[:, 1].sum() > MILLIONTHS // 2


@pytest.mark.parametrize("name", [one.name for one in POLICIES.values() if not one.is_by_job])
def test_policies_by_class_read_nothing_of_a_job(name: str) -> None:
    """Other steps, ages, promises and arrivals change no share, so that one class may stand for many jobs: else it is solved by job."""
    dice = random.Random(3)
    for seed in range(6):
        problem = drawn_for(name, seed, has_pairs=seed % 2 == 1)

        def other(one: JobClass) -> JobClass:
            within, age = dice.uniform(1, 1e6), dice.uniform(1, 1e5)
            order, steps = dice.randint(-100, 100), dice.uniform(1, 1e5)
            return replace(one, order=order, steps=steps, age=age, isolated_age=age / 2, within=within)

        changed = replace(problem, classes=tuple(map(other, problem.classes)))
        expected, actual = solve_shares(name, problem), solve_shares(name, changed)
        assert expected.alone.tolist() == actual.alone.tolist()
        assert expected.together.tolist() == actual.together.tolist()
