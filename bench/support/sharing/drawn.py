"""The jobs of Gavel's own measurements of solve time, drawn as its generator draws them, on measured speeds.

source    Narayanan et al., OSDI 2020: 26 models, each job of one GPU, a quarter as many GPUs of each type as there are jobs.
          Types beyond the three that were measured: one of the three times a factor for each model, log-uniform in 0.6 to 1.8.
"""

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bench.support.sharing.tables import GAVEL_TYPES, MODELS, gavel_table
from core.sharing.problem import Column, Floats, JobClass, PairSpeeds, SharingProblem
from core.sharing.speeds import Shape, SpeedTable

SEED = 2
LONG_SHARE = 0.2
FACTOR_LEAST, FACTOR_MOST = 0.6, 1.8


class DrawnJob(Struct, frozen=True):
    """One job of one GPU."""

    model: str
    seconds: float
    """How long it takes alone on a V100."""


def drawn_jobs(count: int, seed: int = SEED) -> list[DrawnJob]:
    """Return jobs in the order in which they are drawn: four fifths take half an hour to 17 hours, the others up to a week."""
    dice = random.Random(seed)
    jobs = []
    for _ in range(count):
        dice.uniform(0, 1)  # The generator draws a width here, which is not used.
        power = dice.uniform(3, 4) if dice.random() >= 1 - LONG_SHARE else dice.uniform(1.5, 3)
        jobs.append(DrawnJob(seconds=60 * 10**power, model=dice.choice(MODELS)))
    return jobs


def problem_by_class(
    jobs: Sequence[DrawnJob], types: int = 3, *, parts: int = 4, has_pairs: bool = False
) -> SharingProblem:
    """Return the problem of drawn jobs, one class for each model.

    types       GPU types; those beyond three are made up
    parts       of each type there are len(jobs) // parts GPUs
    has_pairs   two models may share a GPU, as measured; of the three measured types alone
    """
    counts = Counter(job.model for job in jobs)
    models = sorted(counts)
    table = gavel_table()
    speeds = _speeds(table, models, types)
    classes = tuple(JobClass(model, count=counts[model]) for model in models)
    pairs = _pairs(table, models) if has_pairs else ()
    return _problem(classes, speeds, len(jobs) // parts, pairs)


def problem_by_job(jobs: Sequence[DrawnJob], types: int = 3, *, parts: int = 4) -> SharingProblem:
    """Return the same with one class for each job, and the steps that it does: no two are alike."""
    models = sorted({job.model for job in jobs})
    by_model = dict(zip(models, _speeds(gavel_table(), models, types), strict=True))
    speeds = np.array([by_model[job.model] for job in jobs])
    classes = tuple(
        JobClass(f"{index}", order=index, steps=job.seconds * by_model[job.model][0])
        for index, job in enumerate(jobs)
    )
    return _problem(classes, speeds, len(jobs) // parts, ())


def aged(problem: SharingProblem) -> SharingProblem:
    """Return the problem with ages of up to half of what each job would take on an equal part of the fleet."""
    alone = problem.steps / problem.isolated_speeds
    ages = alone * np.random.default_rng(SEED).uniform(0, 0.5, len(alone))
    classes = tuple(replace(one, age=float(age)) for one, age in zip(problem.classes, ages, strict=True))
    return replace(problem, classes=classes)


def _problem(
    classes: tuple[JobClass, ...], speeds: Floats, gpus: int, pairs: tuple[PairSpeeds, ...]
) -> SharingProblem:
    columns = tuple(Column("here", f"type-{index}") for index in range(speeds.shape[1]))
    return SharingProblem(classes, columns, (max(1, gpus),) * len(columns), speeds, pairs=pairs)


def _speeds(table: SpeedTable, models: list[str], types: int) -> Floats:
    """(models, types) steps a second."""
    measured = np.array([[table.alone[model, 1][gpu_type] for gpu_type in GAVEL_TYPES] for model in models])
    dice = np.random.default_rng(SEED)
    columns = [measured[:, index] for index in range(min(types, len(GAVEL_TYPES)))]
    for index in range(len(GAVEL_TYPES), types):
        low, high = np.log(FACTOR_LEAST), np.log(FACTOR_MOST)
        factors = np.exp(dice.uniform(low, high, len(models)))
        columns.append(measured[:, index % len(GAVEL_TYPES)] * factors)
    return np.stack(columns, axis=1)


def _pairs(table: SpeedTable, models: list[str]) -> tuple[PairSpeeds, ...]:
    found = []
    for first, model in enumerate(models):
        for second in range(first, len(models)):
            shapes: tuple[Shape, Shape] = (model, 1), (models[second], 1)
            known = table.together.get(shapes, {})
            speeds = np.array([known.get(gpu_type, (0.0, 0.0)) for gpu_type in GAVEL_TYPES]).T
            if speeds.any():
                found.append(PairSpeeds(first, second, speeds))
    return tuple(found)
