"""Days of plans, one after the other on the same demand: ours, and the published V1 and V2."""

import time
from collections.abc import Callable

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bench.support.data_places.drawn import HIGH, LOW
from core.data_places.actions import carried_out
from core.data_places.figures import Figures, figures_of
from core.data_places.price import LOW_BAND, Prices
from core.data_places.problem import DataProblem, copies_of
from core.data_places.published import PublishedProblem, Regime
from core.data_places.published_copies import published_copies
from core.data_places.published_search import climbed
from core.data_places.search import planned

BALANCE_WEIGHT = 100.0
"""Of the published (2), where (1) is the share of all bytes that jobs read: of 1 to 1,000 the one with the lowest worst region."""
STORAGE_WEIGHT = 0.01
"""Of the published (3) in V2: more keeps homes where they are."""


class Day(Struct, frozen=True):
    """Where a day's plan led to."""

    figures: Figures
    bytes_share: float
    """Bytes copied, to bytes of all tables."""
    actions: int
    seconds: float


Play = Callable[[DataProblem], tuple[DataProblem, Day]]


def ours(problem: DataProblem) -> tuple[DataProblem, Day]:
    """Return the next day's problem and what the plan did."""
    begun = time.perf_counter()
    plan = planned(problem)
    seconds = time.perf_counter() - begun
    day = Day(plan.after, plan.bytes_total / problem.all_bytes, len(plan.kinds), seconds)
    return carried_out(problem, plan), day


def first_version(problem: DataProblem) -> tuple[DataProblem, Day]:
    """Return the same of V1: homes alone, no price of overload, a quota of storage."""
    return _published(problem, _stated(problem, is_second=False), copies_share=0.0)


def second_version(problem: DataProblem) -> tuple[DataProblem, Day]:
    """Return the same of V2: overload weighs more, storage is balanced too, and half of the day's bytes are for copies."""
    return _published(problem, _stated(problem, is_second=True), copies_share=0.5)


def played(problem: DataProblem, play: Play, days: int) -> list[Day]:
    """Return the days of one way to plan."""
    found = []
    for _ in range(days):
        problem, day = play(problem)
        found.append(day)
    return found


def _stated(problem: DataProblem, *, is_second: bool) -> PublishedProblem:
    weights = {LOW: LOW_BAND, HIGH: 1.0}
    return PublishedProblem(
        problem,
        traffic_weight=1.0 / float(problem.sizes[problem.job_tables].sum()),
        balance_weight=BALANCE_WEIGHT,
        storage_weight=STORAGE_WEIGHT if is_second else 0.0,
        band_weights=(weights[LOW], weights[HIGH]),
        weighs_overload=is_second,
        storage=Regime.SOFT_BALANCE if is_second else Regime.HARD_QUOTA,
    )


def _published(
    problem: DataProblem, stated: PublishedProblem, copies_share: float
) -> tuple[DataProblem, Day]:
    begun = time.perf_counter()
    for_copies = int(copies_share * problem.bytes_max)
    climb = climbed(stated, problem.bytes_max - for_copies)
    held = problem.held.copy()
    held[climb.tables, problem.home[climb.tables]] = False
    held[climb.tables, climb.home[climb.tables]] = True
    if for_copies:
        held = published_copies(Prices(problem), climb.home, held, for_copies)
    seconds = time.perf_counter() - begun
    copied = int((problem.sizes[:, None] * (held & ~problem.held)).sum())
    actions = int((held & ~problem.held).sum())
    after = replace(problem, home=climb.home, copies=np.asarray(copies_of(held)))
    figures = figures_of(after, after.home, after.copies)
    return after, Day(figures, copied / problem.all_bytes, actions, seconds)
