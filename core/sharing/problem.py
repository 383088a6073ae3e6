"""The problem that a sharing policy solves: classes of like jobs, the columns in which they may run, and their speeds there.

A class is a set of jobs that the policy cannot tell apart: one row for all of them is exact, because the mean over all exchanges
of like jobs is feasible and not worse (the objectives are convex). Where a policy reads steps or age, a class is one job.

Source: Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads, OSDI 2020, sections 3 and 4.
"""

from collections.abc import Sequence
from functools import cached_property
from math import isfinite

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MILLIONTHS = 1_000_000
"""Shares leave a policy as whole millionths of a job's time."""


class JobClass(Struct, frozen=True):
    """Jobs that a policy cannot tell apart."""

    name: str
    gpus: int = 1
    """GPUs of each job."""
    count: int = 1
    weight: float = 1.0
    entity: str = ""
    """The group of jobs that a hierarchy shares among first."""
    order: int = 0
    """Place by arrival: the lowest came first."""
    steps: float = 0.0
    """Steps that are left; 0: unknown."""
    age: float = 0.0
    """Seconds since the submission."""
    isolated_age: float = 0.0
    """Seconds that the steps done so far would have taken on an equal share of the fleet."""
    within: float = 0.0
    """Seconds within which the steps are promised to be done (SLO); 0: no promise."""


class Column(Struct, frozen=True):
    """A choice of hardware: the GPUs of one type in one region, packed on few nodes or spread over many."""

    region: str
    gpu_type: str
    placement: str = ""
    """`packed` or `spread` where speeds depend on that."""
    price: float = 0.0
    """Dollars of one GPU for an hour."""


class PairSpeeds(Struct, frozen=True):
    """Two classes of jobs of equal width that can run together on the same GPUs."""

    first: int
    second: int
    speeds: Floats
    """(2, columns): steps a second of a job of the first and of the second class; 0 and 0: they cannot share there."""


class SharingProblem(Struct, frozen=True, dict=True):
    """What there is to share, and among which jobs."""

    classes: tuple[JobClass, ...]
    columns: tuple[Column, ...]
    gpus: tuple[int, ...]
    """GPUs of each pool: of one type in one region."""
    speeds: Floats
    """(classes, columns): steps a second of a whole job that runs alone; 0: it does not run there."""
    pools: tuple[int, ...] = ()
    """The pool of each column; empty: each column is a pool."""
    pairs: tuple[PairSpeeds, ...] = ()
    last: "Shares | None" = None
    """The shares that hold now: of several answers that are equally good, the nearest is chosen."""
    entity_weights: tuple[tuple[str, float], ...] = ()
    """The weight of each entity by name; one that is not named has weight 1."""

    @cached_property
    def pool_of(self) -> Ints:
        """(columns,)."""
        return np.array(self.pools or range(len(self.columns)), dtype=np.int64)

    @cached_property
    def pool_gpus(self) -> Floats:
        """(pools,)."""
        return np.array(self.gpus, dtype=np.float64)

    @cached_property
    def widths(self) -> Floats:
        """(classes,) GPUs of a job."""
        return np.array([one.gpus for one in self.classes], dtype=np.float64)

    @cached_property
    def counts(self) -> Floats:
        """(classes,) jobs."""
        return np.array([one.count for one in self.classes], dtype=np.float64)

    @cached_property
    def weights(self) -> Floats:
        """(classes,)."""
        return np.array([one.weight for one in self.classes], dtype=np.float64)

    @cached_property
    def steps(self) -> Floats:
        """(classes,) steps that are left."""
        return np.array([one.steps for one in self.classes], dtype=np.float64)

    @cached_property
    def runs(self) -> NDArray[np.bool_]:
        """(classes, columns): whether jobs of the class can run there: they have a speed, and the pool is as wide as they."""
        wide = self.widths[:, None] <= self.pool_gpus[self.pool_of][None, :]
        return (self.speeds > 0) & wide

    @cached_property
    def none_together(self) -> Ints:
        """(pairs, columns) zeros: the shares of pairs by a policy that lets no two jobs run together."""
        return np.zeros((len(self.pairs), len(self.columns)), dtype=np.int64)

    @cached_property
    def proportional_speeds(self) -> Floats:
        """(classes,) steps a second of a job whose time is divided among all pools by their GPUs."""
        best = np.zeros((len(self.classes), len(self.gpus)))
        np.maximum.at(best.T, self.pool_of, np.where(self.runs, self.speeds, 0.0).T)
        total = self.pool_gpus.sum()
        found: Floats = best @ self.pool_gpus / total if total else best.sum(axis=1)
        return found

    @cached_property
    def isolated_speeds(self) -> Floats:
        """(classes,) steps a second of a job that has an equal part of every pool: 1/n of its GPUs, and no more time than there is."""
        jobs = self.counts.sum()
        times = self.pool_gpus[None, :] / np.maximum(jobs * self.widths[:, None], 1.0)
        times /= np.maximum(times.sum(axis=1, keepdims=True), 1.0)
        best = np.zeros((len(self.classes), len(self.gpus)))
        np.maximum.at(best.T, self.pool_of, np.where(self.runs, self.speeds, 0.0).T)
        found: Floats = (best * times).sum(axis=1)
        return found


class Shares(Struct, frozen=True):
    """How much of its time a job spends in each column, as a policy decided."""

    alone: Ints
    """(classes, columns) millionths of the time of each job of the class."""
    together: Ints
    """(pairs, columns) millionths of the time of one pair: of several pairs, the sum over all."""
    objective: float = 0.0
    by: str = ""
    """The solver that gave the answer."""
    notes: tuple[str, ...] = ()
    """Sentences for people: promises that cannot be kept, for example."""


class BadProblem(Exception):
    """A problem that no policy can solve; the text is one sentence for people."""


def checked(problem: SharingProblem) -> SharingProblem:
    """Return the problem. Raises BadProblem, which names the first class that is wrong and says why."""
    shape = (len(problem.classes), len(problem.columns))
    assert problem.speeds.shape == shape, (problem.speeds.shape, shape)
    assert len(problem.pool_of) == len(problem.columns)
    if not np.isfinite(problem.speeds).all() or (problem.speeds < 0).any():
        raise BadProblem("a speed is less than nothing, or no number")
    widest = problem.pool_gpus.max(initial=0)
    for index, one in enumerate(problem.classes):
        if one.gpus < 1 or one.count < 1:
            raise BadProblem(f"{one.name}: it needs at least one job of at least one GPU")
        if not all(isfinite(value) for value in (one.steps, one.age, one.isolated_age, one.within)):
            raise BadProblem(f"{one.name}: its steps, its age or its promise is no number")
        if not 0 < one.weight < float("inf"):
            raise BadProblem(f"{one.name}: its weight is {one.weight:g}, and must be more than 0")
        if one.gpus > widest:
            raise BadProblem(
                f"{one.name}: it needs {one.gpus} GPUs of one type in one region, and the most are {widest:g}"
            )
        if not problem.runs[index].any():
            raise BadProblem(f"{one.name}: no speed is known of it on any type of GPU that there is")
    for entity, weight in problem.entity_weights:
        if not 0 < weight < float("inf"):
            raise BadProblem(f"entity {entity}: its weight is {weight:g}, and must be more than 0")
    for pair in problem.pairs:
        first, second = problem.classes[pair.first], problem.classes[pair.second]
        if first.gpus != second.gpus:
            raise BadProblem(f"{first.name} and {second.name}: a pair needs equal widths")
    return problem


def unpriced(problem: SharingProblem) -> SharingProblem:
    """Return the problem without prices, for a policy that reads none: like GPUs at other prices are one pool."""
    return replace(problem, columns=tuple(replace(column, price=0.0) for column in problem.columns))


def merged(problem: SharingProblem) -> tuple[SharingProblem, Floats]:
    """Return the problem with pools that no class tells apart as one, and how to split its columns again.

    returns   the problem, and (its columns, the columns given): the part of a share that each original column has. A region
              of its own with the same GPUs and speeds makes a problem no larger. Exact where no job is wider than the
              smallest of its pools: of those that merge, a job that fits in some alone keeps them apart.
    """
    pools: dict[tuple[object, ...], list[int]] = {}
    for pool in range(len(problem.gpus)):
        key = tuple(
            (
                problem.columns[column].placement,
                problem.columns[column].price,
                np.where(problem.runs[:, column], problem.speeds[:, column], 0.0).tobytes(),
                tuple(pair.speeds[:, column].tobytes() for pair in problem.pairs),
            )
            for column in _ordered(problem, pool)
        )
        pools.setdefault(key, []).append(pool)
    kept: list[int] = []
    split = np.zeros((0, len(problem.columns)))
    rows, pool_of = [], []
    for index, mine in enumerate(pools.values()):
        total = sum(problem.gpus[pool] for pool in mine)
        by_pool = [_ordered(problem, pool) for pool in mine]
        for place, column in enumerate(by_pool[0]):
            kept.append(column)
            pool_of.append(index)
            row = np.zeros(len(problem.columns))
            for pool, columns in zip(mine, by_pool, strict=True):
                row[columns[place]] = problem.gpus[pool] / total if total else 1.0 / len(mine)
            rows.append(row)
    if rows:
        split = np.array(rows)
    if len(kept) == len(problem.columns):
        return problem, np.eye(len(problem.columns))
    last = problem.last
    if last is not None:
        gathered = (split > 0).T.astype(np.int64)
        last = replace(last, alone=last.alone @ gathered, together=last.together @ gathered)
    smaller = SharingProblem(
        problem.classes,
        tuple(problem.columns[column] for column in kept),
        tuple(sum(problem.gpus[pool] for pool in mine) for mine in pools.values()),
        problem.speeds[:, kept],
        tuple(pool_of),
        tuple(replace(pair, speeds=pair.speeds[:, kept]) for pair in problem.pairs),
        last,
        problem.entity_weights,
    )
    return smaller, split


def split_again(shares: Shares, split: Floats) -> Shares:
    """Return the shares of a merged problem by the columns of the one that it was made of, rounded down."""
    if split.shape[0] == split.shape[1]:
        return shares
    alone = np.floor(shares.alone @ split + 1e-9).astype(np.int64)
    together = np.floor(shares.together @ split + 1e-9).astype(np.int64)
    return replace(shares, alone=alone, together=together)


def _ordered(problem: SharingProblem, pool: int) -> Sequence[int]:
    columns = np.flatnonzero(problem.pool_of == pool).tolist()
    return sorted(columns, key=lambda column: problem.columns[column].placement)
