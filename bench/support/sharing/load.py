"""The Poisson load of the published evaluation: jobs drawn one by one from dice that are handed in, so that its seeds give its jobs.

Durations are on one V100 or as many as the job has: of four jobs in five 10^U(1.5, 3) minutes, else 10^U(3, 4). Widths are 1, 2, 4 and 8
GPUs with 70, 10, 15 and 5 %; a fifth of the jobs has weight 5, if weights are asked for.

source    the authors' generator (spec/gavel.md §11, "Load model"), read and not copied
"""

import math
import random

from bench.support.sharing.tables import MODELS
from core.sharing.jobs import SharingJob
from core.sharing.speeds import SpeedTable

WIDTHS = ((0.7, 1), (0.8, 2), (0.95, 4), (1.0, 8))
"""Widths by the upper end of their part of the draws."""
REFERENCE = "v100"
HEAVY_WEIGHT, HEAVY_PART = 5.0, 0.2


def poisson_load(
    count: int,
    per_hour: float,
    speeds: SpeedTable,
    *,
    job_dice: random.Random,
    arrival_dice: random.Random,
    has_widths: bool = False,
    has_weights: bool = False,
) -> list[SharingJob]:
    """Return so many jobs, the first at time 0, with exponential times between arrivals."""
    jobs, arrival = [], 0.0
    for number in range(count):
        jobs.append(_job(number, arrival, speeds, job_dice, has_widths=has_widths, has_weights=has_weights))
        arrival -= math.log(1.0 - arrival_dice.random()) * 3_600.0 / per_hour
    return jobs


def dice_of(seed: int) -> dict[str, random.Random]:
    """Return the dice of a seed, as the published simulator makes them."""
    return {"job_dice": random.Random(seed + 2), "arrival_dice": random.Random(seed + 3)}


def _job(
    number: int,
    arrival: float,
    speeds: SpeedTable,
    dice: random.Random,
    *,
    has_widths: bool,
    has_weights: bool,
) -> SharingJob:
    drawn = dice.uniform(0, 1)
    gpus = next(width for limit, width in WIDTHS if drawn < limit or limit == 1.0) if has_widths else 1
    power = dice.uniform(3, 4) if dice.random() >= 0.8 else dice.uniform(1.5, 3)
    model = dice.choice(MODELS)
    while (model, gpus) not in speeds.alone:
        model = dice.choice(MODELS)
    weight = HEAVY_WEIGHT if has_weights and dice.uniform(0, 1) <= HEAVY_PART else 1.0
    steps = 60 * 10**power * speeds.alone[model, gpus][REFERENCE]
    return SharingJob(f"{number:06d}", model, gpus, steps, arrival, weight)
