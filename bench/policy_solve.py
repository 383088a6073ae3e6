"""How long shares take to solve, from the list of jobs on: by size, by number of GPU types, and beside the programmes as they are stated.

Jobs of one GPU and weight 1, and a quarter as many GPUs of each type as jobs, as the published figures have them. Where a policy reads
steps, no two jobs are alike. The references are the same programmes with a row for each job, in cvxpy, timed in the same run.

Where a policy reads no steps, these jobs are only 26 classes, one for each model. `max_min_wide_ms` and `water_filling_wide_ms` are of as
many jobs of 1, 2, 4 and 8 GPUs and weights 1 and 5: up to 208 classes. `hierarchical_fifo_512x3_ms` is of a policy with a class for each
job, and with up to as many passes: 5 entities of weights 1 to 3. These three have no bar.

source    Gavel's own path, measured on a machine like this (spec/gavel.md, section 6); widths and weights as in its generator (§11)
"""

# rows: G30

import argparse
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from bench.support.report import Bar, Findings, Yardstick, at_least, at_most
from bench.support.sharing.drawn import SEED, DrawnJob, aged, drawn_jobs, problem_by_class, problem_by_job
from bench.support.sharing.load import HEAVY_PART, HEAVY_WEIGHT, WIDTHS
from bench.support.sharing.tables import GAVEL_TYPES, gavel_table
from core.sharing.problem import JobClass, Shares, SharingProblem
from mizzen.views.plots import Curve, draw_lines, figure_option
from runtime.solvers.sharing import solve_shares

SIZES = {"128": 128, "512": 512, "2048": 2_048, "10k": 10_000}
QUICK_SIZES = dict.fromkeys(SIZES, 32)
"""By label, how many jobs."""
TYPES = (3, 8)
REFERENCE_JOBS_MAX, PAIR_REFERENCE_JOBS_MAX = 2_048, 128
"""References beyond that take minutes."""
REPEATS, QUICK_REPEATS = 5, 1
PARTS = 4
ENTITIES = 5
ENTITY_WEIGHT_LEAST, ENTITY_WEIGHT_MOST = 1.0, 3.0
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


def options(parser: argparse.ArgumentParser) -> None:
    """Add where the drawing goes."""
    figure_option(parser)


def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
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
    wide = drawn_jobs(sizes["10k"])
    for name in ("max_min", "water_filling"):
        seconds, _ = _timed(name, _wide, wide, repeats)
        figures[f"{name}_wide_ms"] = seconds * 1_000
    figures["wide_classes"] = float(len(_wide(wide).classes))
    seconds, _ = _timed("hierarchical_fifo", _with_entities, drawn_jobs(sizes["512"]), min(repeats, 2))
    figures["hierarchical_fifo_512x3_ms"] = seconds * 1_000
    figures["gap_max"] = max(gaps)
    if chosen is not None and chosen.figure:
        chosen.figure.write_text(_drawn(figures, sizes))
    return Findings(figures, _bars(figures), list(YARDSTICKS))


def _drawn(figures: dict[str, float], sizes: dict[str, int]) -> str:
    """Return the milliseconds by number of jobs, on three types, with the references that were timed."""
    names = ("max_min", "water_filling", "makespan", "finish_time")
    labels = {f"{name}_{{}}x3_ms": name for name in names} | {"space_{}_ms": "max_min, pairs"}
    labels |= {
        f"reference_{name}_{{}}x3_ms": f"{name}, as stated" for name in ("max_min", "makespan", "finish_time")
    }
    lines = [
        Curve(
            name,
            [
                (count, figures[field.format(label)])
                for label, count in sizes.items()
                if field.format(label) in figures
            ],
        )
        for field, name in labels.items()
    ]
    title = "Solve time by number of jobs, three GPU types"
    return draw_lines(title, "jobs", "milliseconds", lines, is_logarithmic=True)


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


def _wide(jobs: Sequence[DrawnJob]) -> SharingProblem:
    """Return the problem of these jobs on 8 types with widths and weights drawn to them, and of each type a quarter of the GPUs wanted.

    Where a model was not measured on several GPUs, each adds as much as the first.
    """
    dice = random.Random(SEED)
    counts: Counter[tuple[str, int, float]] = Counter()
    for job in jobs:
        drawn = dice.random()
        gpus = next(width for limit, width in WIDTHS if drawn < limit)
        weight = HEAVY_WEIGHT if dice.random() < HEAVY_PART else 1.0
        counts[job.model, gpus, weight] += 1
    single = problem_by_class(jobs, max(TYPES))
    table, row_of = gavel_table(), {one.name: index for index, one in enumerate(single.classes)}
    classes, rows = [], []
    for (model, gpus, weight), count in sorted(counts.items()):
        classes.append(JobClass(f"{model}/{gpus}/{weight:g}", gpus=gpus, count=count, weight=weight))
        one = table.alone[model, 1]
        several = table.alone.get((model, gpus), {})
        grows = [several.get(name, gpus * one[name]) / one[name] for name in GAVEL_TYPES]
        # A type beyond the three that were measured is a multiple of one of them for a model, whatever the width.
        rows.append(single.speeds[row_of[model]] * np.resize(grows, max(TYPES)))
    wanted = sum(one.gpus * one.count for one in classes)
    gpus_of_type = max(WIDTHS[-1][1], wanted // PARTS)
    return SharingProblem(
        tuple(classes), single.columns, (gpus_of_type,) * len(single.columns), np.array(rows)
    )


def _with_entities(jobs: Sequence[DrawnJob]) -> SharingProblem:
    """Return the problem of these jobs on three types, a class for each, of entities with weights."""
    dice = random.Random(SEED)
    problem = problem_by_job(jobs)
    names = [f"{number}" for number in range(ENTITIES)]
    weights = tuple((name, dice.uniform(ENTITY_WEIGHT_LEAST, ENTITY_WEIGHT_MOST)) for name in names)
    classes = tuple(replace(one, entity=dice.choice(names)) for one in problem.classes)
    return replace(problem, classes=classes, entity_weights=weights)


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
