"""AlloX: the least total completion time, held to the Hungarian method on the whole matrix."""

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.policies.allox import allox
from core.sharing.problem import MILLIONTHS, BadProblem, SharingProblem
from core.sharing.programmes import LinearProgramme
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, drawn, of_speeds


def of_one_gpu(problem: SharingProblem) -> SharingProblem:
    """The problem with jobs of one GPU each."""
    return replace(problem, classes=tuple(replace(one, gpus=1) for one in problem.classes))


@pytest.mark.parametrize("seeds", BATCHES)
def test_total_is_that_of_the_reference(seeds: range) -> None:
    """G11, G12: as good as the best of the matrix of jobs by (GPU, place); every GPU that is worth it has a job, with all of its time."""
    from runtime.solvers.reference.allox import allox as reference  # Imports scipy, which takes a while.

    for seed in seeds:
        problem = of_one_gpu(drawn(seed, jobs=40, is_by_job=True))
        # A third of the GPUs, so that places beyond the first count.
        problem = replace(problem, gpus=tuple(gpus // 3 for gpus in problem.gpus))
        shares = solve_shares("allox", problem)
        assert reference(problem) == pytest.approx(shares.objective, rel=1e-9)
        assert_possible(problem, shares)
        assert {0, MILLIONTHS} >= set(shares.alone.ravel().tolist())
        assert (shares.alone.sum(axis=1) <= MILLIONTHS).all()


@pytest.mark.parametrize("seeds", BATCHES)
def test_those_run_that_are_first_in_a_best_schedule(seeds: range) -> None:
    """G11: of all schedules of five jobs on up to four GPUs, a best one begins with the jobs that have a share, where they have it."""
    from runtime.solvers.reference.allox import firsts  # Imports scipy, which takes a while.

    for seed in seeds:
        problem = of_one_gpu(drawn(seed, jobs=5, is_by_job=True))
        pools = len(problem.gpus)
        problem = replace(problem, gpus=tuple([2, 1, 1][:pools] + [0] * (pools - 3)))
        if not problem.runs.any(axis=1).all():
            continue
        shares = solve_shares("allox", problem)
        running = frozenset((job, pool) for job, pool in np.argwhere(shares.alone).tolist())
        assert running in firsts(problem)


def test_short_jobs_go_first() -> None:
    """Jobs of 1, 2 and 3 hours on a GPU: the shortest runs, and the total is 1 + 3 + 6 hours, and the hour that one has waited."""
    problem = of_speeds([[1.0]] * 3, [1], steps=[3_600.0 * 3, 3_600.0, 3_600.0 * 2], age=[0.0, 0.0, 3_600.0])
    shares = solve_shares("allox", problem)
    assert [[0], [MILLIONTHS], [0]] == shares.alone.tolist()
    assert pytest.approx(shares.objective) == 11 * 3_600


def test_a_slow_gpu_is_left_idle_where_waiting_is_shorter() -> None:
    """Two jobs of a second on the V100 and an hour on the K80 both wait for the V100."""
    problem = of_speeds([[3_600.0, 1.0]] * 2, [1, 1], steps=[3_600.0, 3_599.0])
    assert [[0, 0], [MILLIONTHS, 0]] == solve_shares("allox", problem).alone.tolist()


def test_like_regions_are_one_group_and_jobs_stay_whole() -> None:
    """Ten regions that look alike make one group: the programme has as many variables as with one, and no job is in two regions."""
    steps = [float(index) for index in range(1, 41)]
    one = of_speeds([[2.0]] * 40, [20], steps=steps)
    columns = tuple(replace(one.columns[0], region=f"r{index}") for index in range(10))
    many = replace(one, columns=columns, gpus=(2,) * 10, speeds=np.full((40, 10), 2.0))
    programmes = [next(allox(problem)) for problem in (one, many)]
    assert all(isinstance(programme, LinearProgramme) for programme in programmes)
    assert [40 * 2] * 2 == [len(getattr(programme, "gain")) for programme in programmes]  # noqa: B009  # of a union
    shares = solve_shares("allox", many)
    assert [2 * MILLIONTHS] * 10 == shares.alone.sum(axis=0).tolist()
    assert [1] * 20 + [0] * 20 == (shares.alone == MILLIONTHS).sum(axis=1).tolist()


def test_wide_jobs_are_refused() -> None:
    """A job of two GPUs is named, and one without steps."""
    with pytest.raises(BadProblem, match=r"^j1: it has 2 GPUs, and AlloX is for jobs of one GPU alone$"):
        solve_shares("allox", of_speeds([[1.0]] * 2, [4], gpus=[1, 2], steps=[1.0, 1.0]))
    with pytest.raises(BadProblem, match=r"^j0: how many steps"):
        solve_shares("allox", of_speeds([[1.0]], [4]))
