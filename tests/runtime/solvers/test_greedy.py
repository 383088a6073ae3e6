"""First come first served, and shortest job first: the order, the stop, and the references on drawn problems."""

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.problem import MILLIONTHS, BadProblem, Column, JobClass, SharingProblem
from runtime.solvers.reference.fifo import fifo
from runtime.solvers.reference.sjf import sjf
from runtime.solvers.sharing import solve_shares
from tests.core.sharing.instances import BATCHES, assert_possible, drawn, of_speeds

REFERENCES = {"fifo": fifo, "sjf": sjf}
SPEEDS = [[40, 20], [10, 12], [10, 50], [30, 20], [30, 20]]
GPUS = [1, 2, 1, 2, 1]


def test_fifo_serves_by_arrival_and_stops() -> None:
    """G9: each job has its fastest type with room; the fourth fits nowhere, and the fifth waits behind it though it would fit."""
    problem = of_speeds(SPEEDS, [3, 2], gpus=GPUS)
    shares = solve_shares("fifo", problem)
    assert [[1, 0], [0, 1], [1, 0], [0, 0], [0, 0]] == (shares.alone / MILLIONTHS).tolist()
    late = [replace(one, order=-one.order) for one in problem.classes]
    shares = solve_shares("fifo", replace(problem, classes=tuple(late)))
    assert [[0, 0], [0, 0], [0, 1], [1, 0], [1, 0]] == (shares.alone / MILLIONTHS).tolist()


def test_sjf_serves_by_time_left_and_stops() -> None:
    """G9: in the order 4, 3, 2 by seconds on the fastest type; then job 1 fits nowhere, and job 0 waits behind it."""
    steps = [3_000.0, 600.0, 1_500.0, 600.0, 300.0]
    problem = of_speeds(SPEEDS, [3, 2], gpus=GPUS, steps=steps)
    shares = solve_shares("sjf", problem)
    assert [[0, 0], [0, 0], [0, 1], [1, 0], [1, 0]] == (shares.alone / MILLIONTHS).tolist()
    # Of two that take as long, the one that came first.
    like = of_speeds([[10], [10]], [1], steps=[100.0, 100.0])
    assert [[1], [0]] == (solve_shares("sjf", like).alone / MILLIONTHS).tolist()
    turned = replace(like, classes=tuple(replace(one, order=-one.order) for one in like.classes))
    assert [[0], [1]] == (solve_shares("sjf", turned).alone / MILLIONTHS).tolist()


def test_sjf_needs_steps() -> None:
    """A job of which nobody knows the steps is named."""
    with pytest.raises(BadProblem, match=r"^j1: how many steps"):
        solve_shares("sjf", of_speeds([[1], [1]], [1], steps=[5.0, 0.0]))


@pytest.mark.parametrize("name", sorted(REFERENCES))
@pytest.mark.parametrize("seeds", BATCHES)
def test_shares_are_those_of_the_reference(seeds: range, name: str) -> None:
    """G9, G12: the same jobs run in the same columns as when a line of jobs is served; also where classes have several jobs."""
    for seed in seeds:
        for is_by_job in (True, False):
            problem = drawn(seed, jobs=14, is_by_job=is_by_job)
            shares = solve_shares(name, problem)
            assert_possible(problem, shares)
            jobs = Counter(REFERENCES[name](problem))
            expected = [
                [jobs[index, column] * MILLIONTHS // one.count for column in range(len(problem.columns))]
                for index, one in enumerate(problem.classes)
            ]
            assert expected == shares.alone.tolist()
            assert jobs.total() == shares.objective


def test_as_many_jobs_run_as_there_are_gpus() -> None:
    """Fault 6: of 2,048 jobs that are equally fast on all types, 1,536 run, 512 on each type: no type has more than it holds or stays idle."""
    classes = tuple(JobClass(f"j{index}", order=index) for index in range(2_048))
    columns = tuple(Column("here", gpu_type) for gpu_type in ("v100", "p100", "k80"))
    problem = SharingProblem(classes, columns, (512, 512, 512), np.ones((2_048, 3)))
    shares = solve_shares("fifo", problem)
    assert [512.0] * 3 == (shares.alone.sum(axis=0) / MILLIONTHS).tolist()
    assert_possible(problem, shares)


def test_a_job_is_in_one_region() -> None:
    """Two regions of 5 GPUs that look alike hold one job of 3 GPUs each: no job is cut in two, and the third does not fit."""
    columns = Column("eu", "v100"), Column("us", "v100")
    classes = tuple(JobClass(f"j{index}", gpus=3, order=index, steps=1.0) for index in range(3))
    problem = SharingProblem(classes, columns, (5, 5), np.ones((3, 2)))
    for name in REFERENCES:
        assert [[1, 0], [0, 1], [0, 0]] == (solve_shares(name, problem).alone / MILLIONTHS).tolist()
