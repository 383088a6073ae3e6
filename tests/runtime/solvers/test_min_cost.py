"""Min cost: the ratio of sums by hand and by the reference; and promises, those that are kept and those that cannot be."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.problem import Column, JobClass, SharingProblem
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, crowded, job_speeds, of_speeds

HOUR = 3_600


def test_a_ratio_of_sums() -> None:
    """Fault 11: the first job on the cheap type makes 40 steps for each dollar-second of an hour; a V100 that adds 30 for a dollar stays idle.

    The sum of the jobs' own ratios would be largest with both GPUs in use: (4 + 30) / 1.1, or 31 of them.
    """
    problem = two_prices()
    shares = solve_shares("min_cost", problem)
    assert [[0, 1_000_000], [0, 0]] == shares.alone.tolist()
    assert 40.0 * HOUR == pytest.approx(shares.objective)
    assert () == shares.notes


def test_a_promise_is_kept_at_least_cost() -> None:
    """G10: the second job is promised 15 steps a second, which takes half of the V100: (15 + 4) / (0.5 + 0.1)."""
    problem = two_prices()
    promised = replace(problem.classes[1], steps=15_000.0, within=1_000.0)
    shares = solve_shares("min_cost", replace(problem, classes=(problem.classes[0], promised)))
    assert np.array([[0, 1], [0.5, 0]]) == pytest.approx(shares.alone / 1e6, abs=2e-6)
    assert 19.0 / 0.6 * HOUR == pytest.approx(shares.objective, rel=1e-5)
    assert () == shares.notes


def test_promises_that_cannot_be_kept_are_named() -> None:
    """G10: one is beyond all of a GPU, and of two that need 13 of 10 steps a second the one is kept of which more is missing else."""
    problem = of_speeds([[10.0]] * 4, [1], steps=[1_000.0] * 3 + [0.0], within=[50.0, 200.0, 125.0, 60.0])
    problem = replace(problem, columns=(replace(problem.columns[0], price=2.0),))
    shares = solve_shares("min_cost", problem)
    assert job_speeds(problem, shares)[1] >= 5.0 - 1e-4
    assert (
        "j3: how many steps it has left is not known, so that its promise counts for nothing",
        "j0: its promise cannot be kept, as for 1000 steps in 50 s it needs 20 a second, and reaches 10 with all of its time",
        "j2: its promise cannot be kept, as for 1000 steps in 125 s it needs 8 a second, and the GPUs that this takes are promised to others",
    ) == shares.notes


def test_what_a_broken_promise_had_goes_to_others() -> None:
    """G10: on each of two GPUs two jobs are promised six tenths; of each two one is kept, and the one that is due last is named."""
    problem = of_speeds(
        [[10.0, 0.0]] * 2 + [[0.0, 10.0]] * 2,
        [1, 1],
        steps=[600.0, 1_200.0, 600.0, 1_200.0],
        within=[100.0, 200.0, 100.0, 200.0],
    )
    shares = solve_shares("min_cost", problem)
    assert ["j1", "j3"] == [note.split(":")[0] for note in shares.notes if "promise" in note]
    assert (np.array(job_speeds(problem, shares))[[0, 2]] >= 6.0 - 1e-4).all()


def test_the_promise_that_is_due_last_is_given_up_first() -> None:
    """G10: of two with a part of their speed the one due last goes; for the other there is room then, and there is none the other way round.

    On the V100 j0 takes .4 and leaves j2 .6 of the .8 that it needs; on the P100 j1 takes .6 and leaves j3 .4 of .6. Without j3, half of
    j0 goes to the P100, where it takes twice the time, and j2 has its .8. Without j2 there is no more for j3.
    """
    speeds = [[10.0, 5.0], [0.0, 10.0], [10.0, 0.0], [0.0, 10.0]]
    needs, within = (4.0, 6.0, 8.0, 6.0), (50.0, 60.0, 100.0, 200.0)
    steps = [need * seconds for need, seconds in zip(needs, within, strict=True)]
    problem = of_speeds(speeds, [1, 1], steps=steps, within=within)
    shares = solve_shares("min_cost", problem)
    assert ["j3"] == [note.split(":")[0] for note in shares.notes if "promise" in note]
    assert needs[:3] == pytest.approx(job_speeds(problem, shares)[:3], rel=1e-5)


@pytest.mark.parametrize("seeds", BATCHES)
def test_ratio_is_that_of_the_reference(seeds: range) -> None:
    """G10: the best ratio with the promises that are kept; each that is not is named, and none of these could be kept beside the others."""
    from runtime.solvers.reference.min_cost import can_keep, min_cost

    kept_count = broken_count = 0
    for seed in seeds:
        problem = with_promises(seed)
        shares = solve_shares("min_cost", problem)
        assert_possible(problem, shares)
        speeds = job_speeds(problem, shares)
        promised = [index for index, one in enumerate(problem.classes) if one.within]
        named = {note.split(":")[0] for note in shares.notes}
        kept = [index for index in promised if problem.classes[index].name not in named]
        broken = [index for index in promised if index not in kept]
        for index in kept:
            one = problem.classes[index]
            assert speeds[index] >= one.steps / one.within - problem.speeds[index].sum() * 3e-6
        assert [False] * len(broken) == [can_keep(problem, [*kept, index]) for index in broken]
        assert min_cost(problem, kept) == pytest.approx(shares.objective, rel=1e-5)
        kept_count, broken_count = kept_count + len(kept), broken_count + len(broken)
    assert min(kept_count, broken_count) >= len(seeds) / 5


def test_a_type_without_a_price_is_not_free() -> None:
    """It counts as the dearest, and a note says so; where none has a price, all count as a dollar."""
    problem = two_prices()
    free = tuple(replace(one, price=price) for one, price in zip(problem.columns, (2.0, 0.0), strict=True))
    shares = solve_shares("min_cost", replace(problem, columns=free))
    assert 30.0 / 2.0 * HOUR == pytest.approx(shares.objective)
    assert 1 == len(shares.notes)
    assert shares.notes[0].startswith(
        "k80 in eu: its price is not known, so one GPU for an hour counts as 2 dollars"
    )
    none = tuple(replace(one, price=0.0) for one in problem.columns)
    assert 30.0 * HOUR == pytest.approx(solve_shares("min_cost", replace(problem, columns=none)).objective)


def two_prices() -> SharingProblem:
    """Two jobs, a V100 for a dollar and a K80 for a tenth."""
    columns = Column("eu", "v100", price=1.0), Column("eu", "k80", price=0.1)
    speeds = np.array([[10.0, 4.0], [30.0, 3.0]])
    return SharingProblem((JobClass("j0"), JobClass("j1")), columns, (1, 1), speeds)


def with_promises(seed: int) -> SharingProblem:
    """Jobs of which two in three are promised something between a tenth and more than all of their best speed."""
    dice = random.Random(f"promises/{seed}")
    problem = crowded(seed, jobs=8, is_by_job=True)
    classes = tuple(
        replace(one, within=one.steps / (speed * dice.uniform(0.1, 1.1)) if dice.random() < 2 / 3 else 0.0)
        for one, speed in zip(problem.classes, problem.speeds.max(axis=1), strict=True)
    )
    return replace(problem, classes=classes)


def test_a_promise_that_was_given_up_too_early_is_kept() -> None:
    """G10: one of two is given up, then a third that no type can serve beside; with that gone there is room for the first after all."""
    problem = of_speeds(
        [[10.0, 0.0], [0.0, 10.0], [10.0, 0.0], [10.0, 10.0]],
        [1, 1],
        steps=[300.0, 360.0, 600.0, 1_200.0],
        within=[50.0, 60.0, 100.0, 200.0],
    )
    shares = solve_shares("min_cost", problem)
    broken = [note.partition(":")[0] for note in shares.notes if "cannot be kept" in note]
    assert ["j2"] == broken
    speeds = job_speeds(problem, shares)
    assert min(speeds[0], speeds[1], speeds[3]) >= 6.0 * (1 - 1e-5)
