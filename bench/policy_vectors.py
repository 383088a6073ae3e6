"""The published examples and optima, to the digits that they were published with.

A    three jobs on a V100 and a K80: the shares themselves
B    three jobs on three types: the priorities of the published mechanism and which job it runs where, and the rounds that ours gives
C    water-filling levels
D    max-min levels over jobs as Gavel's generator draws them, alone and with space sharing
E    finish-time fairness and makespan over the same jobs

D and E need the measured speeds: `vectors_played` tells how many results were compared, so that a run without them is seen.

source    spec/gavel.md, section 4; tolerances in section 10
"""

# rows: G1, G5, G7, G8, G14, G17, G18

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.support.report import Findings, at_most
from bench.support.sharing.drawn import aged, drawn_jobs, problem_by_class, problem_by_job
from bench.support.sharing.static import played
from bench.support.sharing.tables import has_gavel
from core.sharing.accounts import Place
from core.sharing.problem import MILLIONTHS, Column, JobClass, Shares, SharingProblem
from core.sharing.published import NEVER_RAN, PublishedRounds
from core.sharing.replay import ROUND_SECONDS
from core.sharing.rounds import Present
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
SHARES = ((0.6, 0.4, 0.0), (0.2, 0.6, 0.2), (0.2, 0.0, 0.8))
"""Vector B, by job and type."""
RECEIVED = ((3, 1, 0), (1, 3, 0), (0, 0, 4))
"""Rounds that each job had on each type."""
PRIORITIES = ((0.2, 0.4, 0.0), (0.2, 0.2, np.inf), (np.inf, 0.0, 0.2))
"""Shares by rounds received; infinite: no round yet, where the published code has 1e9 times the share."""
NEXT = {"0": 1, "1": 2, "2": 0}
"""The type of each job in the next round."""
ROUNDS, EVERY = 1_000, 5
"""From zero, rounds received are the shares exactly after every fifth round."""


def run(directory: Path, *, is_quick: bool) -> Findings:
    """Each vector, and how far each of ours is off."""
    del directory
    jobs_max = QUICK_JOBS_MAX if is_quick else 10_000
    figures = {"a_error": _example([[40, 10], [12, 4], [100, 50]], 1, "max_min", 8 / 11)}
    figures["b_error"] = _published_round()
    figures["b_rounds_error"] = _rounds()
    figures["c_error"] = _water_filling()
    wrong = sum(error > EXACT for error in figures.values())
    if has_gavel():
        for name, error, tolerance in _drawn(jobs_max):
            figures[f"{name}_error"] = error
            wrong += error > tolerance
    figures |= {"vectors_wrong": float(wrong), "vectors_played": float(len(figures))}
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


def _published_round() -> float:
    """Return how far the priorities of vector B are off; infinite if other jobs run next."""
    types = range(len(SHARES[0]))
    next_runs = []
    for begins_with in (0.0, ROUND_SECONDS / 2):
        mechanism = PublishedRounds((1,) * len(types), ROUND_SECONDS, begins_with=begins_with)
        for job in NEXT:
            mechanism.add(job, 1, [1.0 for _ in types])
        mechanism.reset(0.0, dict(zip(NEXT, SHARES, strict=True)))
        for job, row in zip(NEXT, RECEIVED, strict=True):
            for kind, rounds in enumerate(row):
                mechanism.book(job, kind, rounds * ROUND_SECONDS)
        next_runs.append(mechanism.selected())
        if not begins_with:
            # The fraction of a type's time is in the published code what the rounds received are in the example.
            booked = np.sum(RECEIVED, axis=0)
            found = np.array([[mechanism.priority(job, kind) for kind in types] for job in NEXT]) / booked
    never = NEVER_RAN * np.array(SHARES) / booked
    stated = np.where(np.isinf(PRIORITIES), never, PRIORITIES)
    if next_runs != [NEXT, NEXT]:
        return float("inf")
    return float((np.abs(found - stated) / np.maximum(1.0, stated)).max())


def _rounds() -> float:
    """Return the most rounds by which our mechanism is off the shares of vector B after any fifth round."""
    columns = tuple(Column("here", f"{index}") for index in range(len(SHARES[0])))
    classes = tuple(JobClass(job) for job in NEXT)
    problem = SharingProblem(classes, columns, (1,) * len(columns), np.ones((len(classes), len(columns))))
    millionths = np.rint(np.array(SHARES) * MILLIONTHS).astype(np.int64)
    present = Present(problem, [(job,) for job in NEXT], Shares(millionths, problem.none_together))
    return max(
        abs(received[job, Place(column)] - number * share)
        for number, received in enumerate(played(present, ROUNDS, 0.0), 1)
        if number % EVERY == 0
        for job, row in zip(NEXT, SHARES, strict=True)
        for column, share in enumerate(row)
    )


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
