"""How long a stage of a pipeline runs, as start deadlines and admission need it: a high quantile, the median and a low quantile.

From the runs of the stage's family that came to their end, fitted to the size of their input as a + b * size with b >= 0. The slope is
the median of the slopes of all pairs of runs (Theil and Sen), so that one odd run in four changes nothing; the spread around the line
is taken as a ratio, because long runs vary by more than short ones.

source    Cameo scales its costs by observation; "data-size-aware estimates would help" is among its open points (NSDI'21, §7)
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import combinations
from math import ceil
from statistics import median
from typing import TypeVar

from msgspec import Struct

from core.estimating.prediction import PredictedBy, predicted
from core.estimating.run_times import FEW, KnownRuns, PastRun
from core.nouns.instant import MILLISECOND, Nanoseconds
from core.nouns.limits import SPAN_MAX
from core.nouns.workload import NEVER, WorkloadSpec

Number = TypeVar("Number", int, float, Nanoseconds)

MANY = 10
"""Runs from which on the 75th percentile is the cost of a stage; before, the 90th, because few runs show little of the tail."""
HIGH, HIGHER, LOW = 0.75, 0.9, 0.25


class DurationBy(StrEnum):
    """The source of a duration: the first of these that there is."""

    FAMILY = "family"
    """Earlier runs of the same stage."""
    EXPECTED = "expected"
    """The user's word."""
    PREDICTED = "predicted"
    """Other work of the tenant or the fleet, which is no ground for refusing anything."""


class Duration(Struct, frozen=True):
    """How long a stage runs, interruptions not counted."""

    cost: Nanoseconds
    """A high quantile: the stage must start so long before its results are needed."""
    typical: Nanoseconds
    """The median."""
    least: Nanoseconds
    """A low quantile; 0: too little is known to rule anything out."""
    by: DurationBy


NO_DURATION = Duration(NEVER, NEVER, NEVER, DurationBy.FAMILY)
"""Of what has ended: nothing is left of it."""


def duration_of(runs: KnownRuns, spec: WorkloadSpec, family: str) -> Duration:
    """Return how long a workload runs, from all that has ended.

    family   the name of its family
    """
    known = runs.family(spec.tenant, family)
    whole = [run for run in known.runs if run.is_whole] if known is not None else []
    if whole:
        cost, typical, low = (_capped(span, spec) for span in _fitted(whole, spec.input_size))
        used = len(_on_line(whole, spec.input_size) or whole)
        least = low if used >= FEW else min(low, spec.expected)
        return Duration(cost, typical, least, DurationBy.FAMILY)
    if spec.expected != NEVER:
        span = _capped(spec.expected, spec)
        return Duration(span, span, span, DurationBy.EXPECTED)
    found = predicted(runs, spec, family)
    span = found.duration
    is_own = found.by is PredictedBy.FAMILY
    return Duration(span, span, NEVER, DurationBy.FAMILY if is_own else DurationBy.PREDICTED)


def _on_line(runs: Sequence[PastRun], size: int) -> list[PastRun]:
    """Return the runs by which run time is fitted to an input of this size; none if that cannot be."""
    sized = [run for run in runs if run.size > 0]
    return sized if size > 0 and len({run.size for run in sized}) > 1 else []


def _fitted(runs: Sequence[PastRun], size: int) -> tuple[Nanoseconds, Nanoseconds, Nanoseconds]:
    """Return the high quantile, the median and the low quantile of runs with an input of this size."""
    sized = _on_line(runs, size)
    high = HIGH if len(sized or runs) >= MANY else HIGHER
    if not sized:
        spans = sorted(run.ran for run in runs)
        return _at(spans, high), _at(spans, 0.5), _at(spans, LOW)
    base, slope = line_of([(run.size, run.ran) for run in sized])
    ratios = sorted(run.ran / (base + slope * run.size) for run in sized)
    typical = base + slope * size
    return tuple(  # type: ignore[return-value]  # three of them
        Nanoseconds(max(MILLISECOND, round(typical * _at(ratios, part)))) for part in (high, 0.5, LOW)
    )


def line_of(points: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return a line a + b * x through points (x, y) with x, y > 0 and not all x equal: a >= 0, b >= 0, and not both 0.

    source    Theil 1950, Sen 1968: b is the median of the slopes of all pairs, a the median of y - b * x. Where a would be negative,
              the line goes through the origin, and b is the median of y / x
    """
    slopes = [(y - v) / (x - u) for (u, v), (x, y) in combinations(points, 2) if x != u]
    slope = max(0.0, median(slopes))
    base = median(y - slope * x for x, y in points)
    if base < 0:
        return 0.0, median(y / x for x, y in points)
    return base, slope


def _at(ordered: Sequence[Number], part: float) -> Number:
    """Return a quantile of ascending numbers: the first that at least this part of them do not exceed."""
    return ordered[max(0, ceil(part * len(ordered)) - 1)]


def _capped(span: Nanoseconds, spec: WorkloadSpec) -> Nanoseconds:
    """Return a run time within the longest that the user allows, and within the longest that anybody may ask for."""
    return min(span, SPAN_MAX if spec.max_duration == NEVER else spec.max_duration)
