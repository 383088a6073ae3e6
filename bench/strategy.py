"""What a job gains by lies about its speeds, and whether a job is worse off than on an equal part of the fleet.

Jobs of one GPU and equal weight share one to three GPUs of each of three types. The first job lies: of each true speed it tells a multiple,
between a tenth and ten times. Its gain is its true speed with the shares that the lie gives, relative to that of the truth; the best of 20
lies counts. Lies and jobs are the same for both policies.

An equal part is 1/n of every pool, and no more time than there is. Max-min promises it, and `sharing_incentive_broken` is the number of jobs
of max-min alone that are below it. The strategy-proof mechanism does not promise it, as jobs pay: it promises 1/e of the proportionally fair
speed. `below_equal_part_strategy_proof` is how many of its jobs are below, and has no bar.

source    OSDI 2020, section 4.4: max-min keeps the sharing incentive and is not strategy-proof
"""

# rows: G3, G11

import statistics
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bench.support.report import Findings, at_most
from core.sharing.problem import MILLIONTHS, Column, Floats, JobClass, SharingProblem

INSTANCES, QUICK_INSTANCES = 200, 3
LIES, QUICK_LIES = 20, 3
POLICIES = ("strategy_proof", "max_min")
TYPES = 3
JOBS_MIN, JOBS_MAX = 3, 8
GPUS_MIN, GPUS_MAX = 1, 3
SPREAD = 0.5
"""Of the logarithm of a speed, to base 10: types differ by up to ten times for one job, as measured ones do."""
LIE_SPREAD = 1.0
BELOW = 1e-4
"""By how much, relative, a speed must be below another to count: shares are rounded to millionths."""


class Told(Struct, frozen=True):
    """What one instance gave."""

    gain: float
    """Of the best lie, relative to the truth; never negative, as a job may tell the truth."""
    below_part: int
    """Jobs that are slower than on an equal part of the fleet, if all tell the truth."""
    speed: float
    """Geometric mean of the speeds relative to that on an equal part, if all tell the truth."""


def run(directory: Path, *, is_quick: bool) -> Findings:
    """All instances by both policies."""
    del directory
    instances, lies = (QUICK_INSTANCES, QUICK_LIES) if is_quick else (INSTANCES, LIES)
    figures = {"instances": float(instances), "lies": float(lies)}
    told = {policy: [_told(policy, seed, lies) for seed in range(instances)] for policy in POLICIES}
    for policy, found in told.items():
        gains = [one.gain for one in found]
        figures[f"gain_{policy}"] = max(gains)
        figures[f"gain_mean_{policy}"] = statistics.fmean(gains)
        figures[f"liars_who_gain_{policy}"] = float(sum(gain > BELOW for gain in gains))
        figures[f"below_equal_part_{policy}"] = float(sum(one.below_part for one in found))
        figures[f"speed_over_equal_part_{policy}"] = statistics.fmean(one.speed for one in found)
    bars = [
        at_most("gain_strategy_proof", figures["gain_strategy_proof"], 0.001, "how exact the solver is"),
        at_most("sharing_incentive_broken", figures["below_equal_part_max_min"], 0, "the shares are wrong"),
    ]
    return Findings({**figures, **{bar.name: bar.value for bar in bars}}, bars)


def _told(policy: str, seed: int, lies: int) -> Told:
    problem, dice = _instance(seed)
    speeds = _true_speeds(policy, problem, problem.speeds)
    below = int((speeds < problem.isolated_speeds * (1.0 - BELOW)).sum())
    best = float(speeds[0])
    for _ in range(lies):
        told = problem.speeds.copy()
        told[0] *= 10 ** dice.uniform(-LIE_SPREAD, LIE_SPREAD, TYPES)
        lied = _true_speeds(policy, replace(problem, speeds=told), problem.speeds)
        best = max(best, float(lied[0]))
    relative = float(np.exp(np.log(speeds / problem.isolated_speeds).mean()))
    return Told(best / float(speeds[0]) - 1.0, below, relative)


def _instance(seed: int) -> tuple[SharingProblem, np.random.Generator]:
    """Return an instance, and what is left to draw lies from."""
    dice = np.random.default_rng(seed)
    jobs = int(dice.integers(JOBS_MIN, JOBS_MAX, endpoint=True))
    gpus = tuple(int(one) for one in dice.integers(GPUS_MIN, GPUS_MAX, TYPES, endpoint=True))
    speeds = 10 ** dice.uniform(-SPREAD, SPREAD, (jobs, TYPES))
    classes = tuple(JobClass(f"{index}") for index in range(jobs))
    columns = tuple(Column("here", f"type-{index}") for index in range(TYPES))
    return SharingProblem(classes, columns, gpus, speeds), dice


def _true_speeds(policy: str, told: SharingProblem, true: Floats) -> Floats:
    """Return the steps a second that each job really makes with the shares of what was told. (jobs,)."""
    from runtime.solvers.sharing import (
        solve_shares,
    )  # Loads a solver: the benchmarks are listed where none is installed.

    found: Floats = (solve_shares(policy, told).alone * true).sum(axis=1) / MILLIONTHS
    return found
