"""A problem of sharing in whole numbers, as a planner asks its solver for it: two that are equal are the same problem."""

import numpy as np
from msgspec import Struct

from core.nouns.instant import SECOND
from core.nouns.sharing import MICRO_STEPS, WEIGHT, ClassShares, PoolShares, ShareColumn
from core.sharing.problem import Column, JobClass, PairSpeeds, Shares, SharingProblem


class AskedClass(Struct, frozen=True):
    """Like jobs, or one."""

    name: str
    gpus: int
    count: int
    weight: int
    """Thousandths."""
    entity: str
    speeds: tuple[int, ...]
    """(columns,) millionths of a step in a second; 0: it does not run there."""
    order: int = 0
    steps: int = 0
    """That are left; 0: not known."""
    age: int = 0
    """Nanoseconds since its submission."""
    within: int = 0
    """Nanoseconds from now in which it should be done; 0: no promise."""


class AskedPair(Struct, frozen=True):
    """Two classes of which a job of each may share a GPU."""

    first: int
    second: int
    speeds: tuple[int, ...]
    """(columns,) millionths of a step in a second of a job of the first; 0: they do not share there."""
    second_speeds: tuple[int, ...]
    """The same of the second."""


class AskedShares(Struct, frozen=True):
    """All that a solver needs."""

    policy: str
    revision: int
    """Of the shares that are to be replaced."""
    changes: int
    """What had changed in shared pools when it was asked (`Sharing.changes`)."""
    columns: tuple[ShareColumn, ...]
    gpus: tuple[int, ...]
    classes: tuple[AskedClass, ...]
    entity_weights: tuple[tuple[str, int], ...] = ()
    """Thousandths."""
    last: tuple[ClassShares, ...] = ()
    """The shares that hold, of these classes and columns."""
    pairs: tuple[AskedPair, ...] = ()

    @property
    def problem(self) -> SharingProblem:
        """Return the problem as arrays."""
        speeds = np.array([one.speeds for one in self.classes], dtype=np.float64) / MICRO_STEPS
        shape = (len(self.classes), len(self.columns))
        last = None
        if self.last:
            alone, index = (
                np.zeros(shape, dtype=np.int64),
                {one.name: place for place, one in enumerate(self.classes)},
            )
            for one in self.last:
                for column, share in one.shares:
                    alone[index[one.name], column] = share
            last = Shares(alone, np.zeros((len(self.pairs), len(self.columns)), dtype=np.int64))
        return SharingProblem(
            tuple(
                JobClass(
                    one.name,
                    one.gpus,
                    one.count,
                    one.weight / WEIGHT,
                    one.entity,
                    one.order,
                    one.steps,
                    one.age / SECOND,
                    within=one.within / SECOND,
                )
                for one in self.classes
            ),
            tuple(Column(column.region, column.gpu_type) for column in self.columns),
            self.gpus,
            speeds.reshape(shape),
            pairs=tuple(
                PairSpeeds(pair.first, pair.second, np.array([pair.speeds, pair.second_speeds]) / MICRO_STEPS)
                for pair in self.pairs
            ),
            last=last,
            entity_weights=tuple((entity, weight / WEIGHT) for entity, weight in self.entity_weights),
        )

    def answer(self, shares: Shares) -> PoolShares:
        """Return what a solver found, as shares of the revision that they are to replace."""
        beside: list[list[tuple[int, str, int]]] = [[] for _ in self.classes]
        for pair, row in zip(self.pairs, shares.together.tolist(), strict=True):
            for mine, other in ((pair.first, pair.second), (pair.second, pair.first)):
                name, count = self.classes[other].name, self.classes[mine].count
                beside[mine] += [(column, name, share // count) for column, share in enumerate(row) if share]
        classes = tuple(
            ClassShares(
                one.name,
                tuple((column, share) for column, share in enumerate(row) if share),
                _summed(together),
            )
            for one, row, together in zip(self.classes, shares.alone.tolist(), beside, strict=True)
        )
        return PoolShares(self.revision, self.columns, self.gpus, classes, shares.by, self.changes)


def _summed(beside: list[tuple[int, str, int]]) -> tuple[tuple[int, str, int], ...]:
    """Return the shares beside each class once: a class beside itself was named from both sides."""
    found: dict[tuple[int, str], int] = {}
    for column, name, share in beside:
        found[column, name] = found.get((column, name), 0) + share
    return tuple((column, name, share) for (column, name), share in found.items())
