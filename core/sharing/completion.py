"""Speeds of pairs that were not measured, estimated from reference models that were measured beside each other.

The *kept part* of a job beside another is its speed there relative to its speed alone: 1 is as fast as alone, and 0 of both jobs says that
they cannot share. A new model runs beside some references for a while, on some GPU types, and each run measures the kept parts of both.
Its nearest reference is the one whose kept parts differ least from its own, on average over those that both have. A missing kept part
is that of the nearest reference, plus how much the job differs from that reference beside the partner's nearest reference:

    kept(job, partner) = kept(like job, partner) + kept(job, like partner) - kept(like job, like partner)

Where not all three were measured, the first that was is taken. Every kept part has its place by (job, GPU type, partner) in one array
of all models, so that no index of a column means two things. The published estimator numbers the columns of its references anew and reads
a new job's row by the old numbers: with 16 of 26 references one in 16 recognised itself (spec/gavel.md §1.7).

source    OSDI 2020, section 6 (references and fingerprints), which completes the new row by a factorisation and compares whole rows by
          cosine. Over measured kept parts alone, the mean absolute difference came nearer to the truth on the same data than cosine,
          least squares and weighted sums of several references (python -m bench estimator)
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from core.sharing.problem import Floats, Ints
from core.sharing.speeds import Shape, SpeedTable, shape_text

Pair = tuple[Shape, Shape]


class Dice(Protocol):
    """A seeded generator of chance, as `random.Random` is one."""

    def random(self) -> float:
        """Return a number from 0 up to 1, and less than that."""


class Completed(Struct, frozen=True):
    """A table with estimates, and which speeds they are."""

    table: SpeedTable
    estimated: dict[Pair, tuple[str, ...]]
    """GPU types on which the speeds of a pair were not measured. Both orders of a pair are there."""
    likes: dict[Shape, Shape]
    """The nearest reference of each job of which something was estimated; none where it ran beside no reference."""

    def is_measured(self, first: Shape, second: Shape, gpu_type: str) -> bool:
        """Return whether the speeds of a pair that is in the table were measured."""
        return gpu_type not in self.estimated.get((first, second), ())

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a sentence for each job that has estimated speeds."""
        counts: dict[Shape, int] = {}
        for first, _ in self.estimated:
            counts[first] = counts.get(first, 0) + 1
        return tuple(
            f"{shape_text(shape)}: its speeds beside {_models(counts[shape])} are estimated, as it is most like {like[0]}"
            for shape, like in self.likes.items()
            if shape in counts
        )


def runs_to_make(
    references: Sequence[Shape], gpu_types: Sequence[str], fraction: float, dice: Dice
) -> tuple[tuple[Shape, str], ...]:
    """Return the references beside which a new job is to be run, each with a GPU type: a random fraction of all, and one at least."""
    every = tuple((reference, gpu_type) for gpu_type in gpu_types for reference in references)
    drawn = tuple(one for one in every if dice.random() < fraction)
    return drawn or every[:1]


def references_of(table: SpeedTable, gpu_types: Sequence[str]) -> tuple[Shape, ...]:
    """Return jobs that can be references: of each width, those that were all measured beside each other on some of these GPU types.

    The jobs with most measured pairs come first, and each that was measured beside all before it is one. Of a width with only one there is
    none, as nothing can be compared.
    """
    measured: dict[Shape, dict[Shape, None]] = {}
    for (first, second), pair in sorted(table.together.items()):
        if any(gpu_type in pair for gpu_type in gpu_types) and {first, second} <= table.alone.keys():
            measured.setdefault(first, {})[second] = None
    of_width: dict[int, list[Shape]] = {}
    for shape in sorted(measured, key=lambda one: (-len(measured[one]), one)):
        chosen = of_width.setdefault(shape[1], [])
        if all(other in measured[shape] for other in chosen):
            chosen.append(shape)
    return tuple(shape for _, chosen in sorted(of_width.items()) if len(chosen) > 1 for shape in chosen)


def completed(
    table: SpeedTable, shapes: Iterable[Shape], references: Iterable[Shape], gpu_types: Sequence[str]
) -> Completed:
    """Return the table with estimates for every pair of these jobs that has no speeds, where both run alone on the GPU type.

    shapes       the jobs
    references   jobs that were measured beside each other; those of other widths say nothing about a job
    gpu_types    on which
    returns      pairs of which nothing is known stay out: no reference has that width, or the new job ran beside none
    """
    together = dict(table.together)
    estimated: dict[Pair, tuple[str, ...]] = {}
    likes: dict[Shape, Shape] = {}
    of_width: dict[int, list[Shape]] = {}
    known = [shape for shape in sorted({*shapes, *references}) if shape in table.alone]
    for shape in known:
        of_width.setdefault(shape[1], []).append(shape)
    for mine in of_width.values():
        chosen = set(references)
        among = np.array([index for index, one in enumerate(mine) if one in chosen], dtype=np.int64)
        keeps = keeps_of(table, mine, gpu_types)
        if len(among) == 0 or not np.isnan(keeps).any():
            continue
        found, nearest = filled(keeps, among)
        _enter(table, mine, gpu_types, (keeps, found), together, estimated)
        of_these = dict.fromkeys(first for first, _ in estimated if first[1] == mine[0][1])
        for shape in of_these:
            if nearest[mine.index(shape)] >= 0:
                likes[shape] = mine[nearest[mine.index(shape)]]
    return Completed(SpeedTable(table.alone, together), estimated, likes)


def keeps_of(table: SpeedTable, shapes: Sequence[Shape], gpu_types: Sequence[str]) -> Floats:
    """Return the kept part of each job beside each other.

    returns   (jobs, GPU types, jobs): of the first beside the last, 0 to 1; not a number where it was not measured
    """
    keeps = np.full((len(shapes), len(gpu_types), len(shapes)), np.nan)
    for row, first in enumerate(shapes):
        alone = [table.alone[first].get(gpu_type, 0.0) for gpu_type in gpu_types]
        for column, second in enumerate(shapes):
            pair = table.together.get((first, second))
            if pair is None:
                continue
            for place, gpu_type in enumerate(gpu_types):
                if gpu_type in pair and alone[place] > 0:
                    keeps[row, place, column] = pair[gpu_type][0] / alone[place]
    clipped: Floats = np.clip(keeps, 0.0, 1.0)
    return clipped


def filled(keeps: Floats, references: Ints) -> tuple[Floats, Ints]:
    """Return the kept parts with estimates of those that are missing, and the nearest reference of each job.

    keeps        (jobs, GPU types, jobs), as `keeps_of`
    references   (references,) indices of jobs that were measured beside each other; one at least
    returns      as given, with fewer that are not a number; and (jobs,) indices, -1 where a job has no number beside any job that a
                 reference has one beside too. No job is its own reference.
    """
    order = np.array([_by_distance(keeps, job, references) for job in range(len(keeps))])
    found = keeps.copy()
    for job in np.flatnonzero(np.isnan(keeps).any(axis=(1, 2))).tolist():
        found[job] = np.where(np.isnan(keeps[job]), _row(keeps, job, order), keeps[job])
    return found, order[:, 0].astype(np.int64)


def _models(count: int) -> str:
    return f"{count} model" if count == 1 else f"{count} models"


def _by_distance(keeps: Floats, job: int, references: Ints) -> Ints:
    """Return the references, the nearest first; -1 for those of which nothing can be said. Ties go to the lower index."""
    differs = np.zeros(len(references))
    both = np.zeros(len(references))
    # Its kept parts beside others, then those of the others beside it.
    for numbers in (keeps, keeps.transpose(2, 1, 0)):
        gaps = np.abs(numbers[references] - numbers[job])
        differs += np.nansum(gaps, axis=(1, 2))
        both += (~np.isnan(gaps)).sum(axis=(1, 2))
    can = (both > 0) & (references != job)
    distance = np.where(can, differs / np.maximum(both, 1), np.inf)
    order = np.argsort(distance, kind="stable")
    return np.where(can[order], references[order], -1)


def _row(keeps: Floats, job: int, order: Ints) -> Floats:
    """Return estimates of one job's kept parts. (GPU types, jobs); not a number where nothing is known."""
    own, theirs = order[job], order[:, 0]
    if own[0] < 0:
        return np.full(keeps.shape[1:], np.nan)
    # 1. The like job beside the partner, the job beside the like partner, and the two like ones beside each other.
    as_like = keeps[own[0]]
    beside_like = np.where(theirs >= 0, keeps[job][:, theirs], np.nan)
    both_like = np.where(theirs >= 0, keeps[own[0]][:, theirs], np.nan)
    estimate = as_like + beside_like - both_like
    # 2. Where one of them was not measured, the first of them that was; at last a reference that is less like the job.
    farther = _first(np.where((own >= 0)[:, None, None], keeps[own], np.nan))
    for other in (as_like, beside_like, both_like, farther):
        estimate = np.where(np.isnan(estimate), other, estimate)
    clipped: Floats = np.clip(estimate, 0.0, 1.0)
    return clipped


def _first(stack: Floats) -> Floats:
    """Return the first of several arrays' numbers in each place. (count, ...) to (...)."""
    is_there: NDArray[np.bool_] = ~np.isnan(stack)
    place = is_there.argmax(axis=0)
    found: Floats = np.take_along_axis(stack, place[None], axis=0)[0]
    return found


def _enter(
    table: SpeedTable,
    shapes: Sequence[Shape],
    gpu_types: Sequence[str],
    numbers: tuple[Floats, Floats],
    together: dict[Pair, dict[str, tuple[float, float]]],
    estimated: dict[Pair, tuple[str, ...]],
) -> None:
    """Enter estimated pairs into the table, where both jobs run alone."""
    keeps, found = numbers
    for row, column in np.argwhere(np.isnan(keeps).any(axis=1)).tolist():
        first, second = shapes[row], shapes[column]
        pair, places = dict(together.get((first, second), {})), []
        for place, gpu_type in enumerate(gpu_types):
            mine, theirs = table.alone[first].get(gpu_type, 0.0), table.alone[second].get(gpu_type, 0.0)
            kept = found[row, place, column], found[column, place, row]
            if gpu_type in pair or mine <= 0 or theirs <= 0 or np.isnan(kept).any():
                continue
            pair[gpu_type] = float(kept[0] * mine), float(kept[1] * theirs)
            places.append(gpu_type)
        if places:
            together[first, second] = pair
            estimated[first, second] = tuple(places)
