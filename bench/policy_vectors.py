"""The published examples and optima, to the digits that they were published with.

A    three jobs on a V100 and a K80: the shares themselves
C    water-filling levels
D    max-min levels over jobs as Gavel's generator draws them, alone and with space sharing
E    finish-time fairness and makespan over the same jobs

source    spec/gavel.md, section 4; tolerances in section 10. D and E need the measured speeds.
"""

# rows: G1, G5, G7, G8, G14

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.support.report import Findings, at_most
from bench.support.sharing.drawn import aged, drawn_jobs, problem_by_class, problem_by_job
from bench.support.sharing.tables import has_gavel
from core.sharing.problem import Column, JobClass, SharingProblem
from runtime.solvers.sharing import solve_shares

LEVELS = {32: 0.899225, 128: 0.924949, 512: 0.937242, 1_024: 0.930366, 2_048: 0.925793}
PAIRED = {
    32: 1.076319,
    128: 1.089986,
    256: 1.106072,
    512: 1.107829,
    1_024: 1.105026,
    2_048: 1.099878,
    10_000: 1.101210,
}
FINISH_TIMES = {512: 1.08811, 2_048: 1.09601}
MAKESPANS = {(512, 4): 557_862, (2_048, 4): 596_349, (2_048, 32): 711_766}
EXACT, OF_LEVELS, OF_FINISH_TIMES, OF_MAKESPANS = 1e-6, 1e-6, 1e-3, 1e-4
QUICK_JOBS_MAX = 512


def run(directory: Path, *, is_quick: bool) -> Findings:
    """Each vector, and how far each of ours is off."""
    del directory
    jobs_max = QUICK_JOBS_MAX if is_quick else 10_000
    figures = {"a_error": _example([[40, 10], [12, 4], [100, 50]], 1, "max_min", 8 / 11)}
    figures["c_error"] = _water_filling()
    wrong = sum(error > EXACT for error in figures.values())
    if has_gavel():
        for name, error, tolerance in _drawn(jobs_max):
            figures[f"{name}_error"] = error
            wrong += error > tolerance
    figures["vectors_wrong"] = float(wrong)
    return Findings(figures, [at_most("vectors_wrong", wrong, 0, "see the errors")])


def _example(speeds: list[list[float]], gpus: int, policy: str, level: float) -> float:
    problem = SharingProblem(
        tuple(JobClass(f"{index}") for index in range(len(speeds))),
        tuple(Column("here", f"{index}") for index in range(len(speeds[0]))),
        (gpus,) * len(speeds[0]),
        np.array(speeds, dtype=np.float64),
    )
    shares = solve_shares(policy, problem)
    stated = np.array([[5, 0], [5, 1], [1, 10]]) / 11
    return max(abs(shares.objective - level), float(np.abs(shares.alone / 1e6 - stated).max()))


def _water_filling() -> float:
    """Vector C: jobs that gain 1, 4 and 2 times from the faster of two types."""
    problem = SharingProblem(
        tuple(JobClass(f"{index}") for index in range(3)),
        (Column("here", "fast"), Column("here", "slow")),
        (2, 2),
        np.array([[10.0, 10.0], [40.0, 10.0], [100.0, 50.0]]),
    )
    shares = solve_shares("water_filling", problem)
    levels = (shares.alone / 1e6 * problem.speeds).sum(axis=1) / problem.proportional_speeds
    return float(np.abs(levels - np.array([1.0, 1.6, 4 / 3])).max())


def _drawn(jobs_max: int) -> Iterator[tuple[str, float, float]]:
    """Yield of vectors D and E each name, relative error and tolerance."""
    for count, level in LEVELS.items():
        if count <= jobs_max:
            found = solve_shares("max_min", problem_by_class(drawn_jobs(count))).objective
            yield f"d_{count}", abs(found / level - 1), OF_LEVELS
    for count, level in PAIRED.items():
        if count <= jobs_max:
            found = solve_shares("max_min", problem_by_class(drawn_jobs(count), has_pairs=True)).objective
            yield f"d_pairs_{count}", abs(found / level - 1), OF_LEVELS
    for count, ratio in FINISH_TIMES.items():
        if count <= jobs_max:
            found = solve_shares("finish_time", aged(problem_by_job(drawn_jobs(count)))).objective
            yield f"e_finish_time_{count}", abs(found / ratio - 1), OF_FINISH_TIMES
    for (count, parts), seconds in MAKESPANS.items():
        if count <= jobs_max:
            found = solve_shares("makespan", problem_by_job(drawn_jobs(count), parts=parts)).objective
            yield f"e_makespan_{count}_{parts}", abs(found / seconds - 1), OF_MAKESPANS
