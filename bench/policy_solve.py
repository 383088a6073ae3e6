"""How long shares take to solve, from the list of jobs on: by size, by number of GPU types, and beside the programmes as they are stated.

Jobs of one GPU and a quarter as many GPUs of each type as jobs, as the published figures have them. Where a policy reads steps, no two
jobs are alike. The references are the same programmes with a row for each job, in cvxpy, timed in the same run.

source    Gavel's own path, measured on a machine like this (spec/gavel.md, section 6)
"""

# rows: G30

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench.support.report import Bar, Findings, Yardstick, at_least, at_most
from bench.support.sharing.drawn import DrawnJob, aged, drawn_jobs, problem_by_class, problem_by_job
from core.sharing.problem import Shares, SharingProblem
from runtime.solvers.sharing import solve_shares

SIZES = {"128": 128, "512": 512, "2048": 2_048, "10k": 10_000}
QUICK_SIZES = dict.fromkeys(SIZES, 32)
"""By label, how many jobs."""
TYPES = (3, 8)
REFERENCE_JOBS_MAX, PAIR_REFERENCE_JOBS_MAX = 2_048, 128
"""References beyond that take minutes."""
REPEATS, QUICK_REPEATS = 5, 1
YARDSTICKS = (
    Yardstick("gavel_max_min_2048_ms", 42.0, "ECOS by cvxpy, 3 types", beside="max_min_2048x3_ms"),
    Yardstick(
        "gavel_space_512_ms", 33_500.0, "ECOS by cvxpy, 3 types, a row for each pair", beside="space_512_ms"
    ),
    Yardstick("gavel_water_filling_512_ms", 2_000.0, "GLPK_MI and ECOS", beside="water_filling_512_ms"),
    Yardstick(
        "gavel_makespan_2048_ms", 152.0, "bisection, up to 1.8 % too long", beside="makespan_2048x3_ms"
    ),
    Yardstick("gavel_finish_time_2048_ms", 4_700.0, "ECOS", beside="finish_time_2048x3_ms"),
)

Build = Callable[[Sequence[DrawnJob]], SharingProblem]


def run(directory: Path, *, is_quick: bool) -> Findings:
    """Every policy at every size, the smallest first."""
    del directory
    sizes, repeats = (QUICK_SIZES, QUICK_REPEATS) if is_quick else (SIZES, REPEATS)
    figures: dict[str, float] = {}
    gaps: list[float] = []
    for label, count in sizes.items():
        jobs = drawn_jobs(count)
        for types in TYPES:
            by_class, by_job = partial(problem_by_class, types=types), partial(problem_by_job, types=types)
            for name, build in (("max_min", by_class), ("water_filling", by_class), ("makespan", by_job)):
                seconds, shares = _timed(name, build, jobs, repeats)
                figures[f"{name}_{label}x{types}_ms"] = seconds * 1_000
                gaps += _reference(name, build(jobs), shares, figures, f"{name}_{label}x{types}")
            seconds, shares = _timed("finish_time", partial(_aged, build=by_job), jobs, min(repeats, 2))
            figures[f"finish_time_{label}x{types}_ms"] = seconds * 1_000
            gaps += _reference(
                "finish_time", _aged(jobs, by_job), shares, figures, f"finish_time_{label}x{types}"
            )
        paired = partial(problem_by_class, has_pairs=True)
        seconds, shares = _timed("max_min", paired, jobs, repeats)
        figures[f"space_{label}_ms"] = seconds * 1_000
        if count <= PAIR_REFERENCE_JOBS_MAX:
            gaps += _reference("max_min", paired(jobs), shares, figures, f"space_{label}")
    figures["gap_max"] = max(gaps)
    return Findings(figures, _bars(figures), list(YARDSTICKS))


def _timed(name: str, build: Build, jobs: Sequence[DrawnJob], repeats: int) -> tuple[float, Shares]:
    """Return the median seconds from the list of jobs to the shares, and these."""
    took, shares = [], None
    for _ in range(repeats):
        begun = time.perf_counter()
        shares = solve_shares(name, build(jobs))
        took.append(time.perf_counter() - begun)
    assert shares is not None
    return statistics.median(took), shares


def _reference(
    name: str, problem: SharingProblem, shares: Shares, figures: dict[str, float], label: str
) -> list[float]:
    """Solve the programme as it is stated, where that takes no minutes: its time is a figure; return the relative gap."""
    from runtime.solvers.reference.finish_time import finish_time
    from runtime.solvers.reference.makespan import makespan
    from runtime.solvers.reference.max_min import max_min

    stated = {"max_min": max_min, "makespan": makespan, "finish_time": finish_time}
    jobs = sum(one.count for one in problem.classes)
    if name not in stated or jobs > REFERENCE_JOBS_MAX:
        return []
    begun = time.perf_counter()
    value = stated[name](problem)
    figures[f"reference_{label}_ms"] = (time.perf_counter() - begun) * 1_000
    return [abs(value - shares.objective) / abs(value)]


def _aged(jobs: Sequence[DrawnJob], build: Build) -> SharingProblem:
    return aged(build(jobs))


def _bars(figures: dict[str, float]) -> list[Bar]:
    speedup = figures["reference_space_128_ms"] / figures["space_128_ms"]
    figures["space_speedup_128"] = speedup
    figures["max_min_10k_ms"] = figures["max_min_10kx8_ms"]
    figures["makespan_10k_ms"] = figures["makespan_10kx3_ms"]
    figures["finish_time_10k_ms"] = figures["finish_time_10kx3_ms"]
    figures["water_filling_512_ms"] = figures["water_filling_512x3_ms"]
    bounds = {
        "max_min_2048x8_ms": 50,
        "max_min_10k_ms": 100,
        "space_10k_ms": 100,
        "makespan_10k_ms": 500,
        "water_filling_512_ms": 300,
        "finish_time_10k_ms": 1_500,
    }
    bars = [at_most(name, figures[name], bound, "the solver's own time") for name, bound in bounds.items()]
    bars.append(at_least("space_speedup_128", speedup, 10, "the reference became faster"))
    return [*bars, at_most("gap_max", figures["gap_max"], 1e-6, "the tolerance of the reference")]
