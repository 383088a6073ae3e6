"""What holds for every policy, whatever its objective."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.policies import POLICIES
from core.sharing.problem import MILLIONTHS, JobClass, PairSpeeds, SharingProblem
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, drawn, of_speeds

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
