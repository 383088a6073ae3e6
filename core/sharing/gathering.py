"""Jobs that need so little that a programme need not tell them apart, though each needs a speed of its own.

Jobs of as many GPUs, with the same speeds, share whatever time they have together in any way, unless one of them would need more
time than there is. A job whose needed speed is no more than its speed on its slowest hardware never does. So such jobs are one class: it has
their jobs together, and needs the mean of their speeds. Exact: whatever the class is given, `Gathered.spread` gives to its jobs.

Of 10,000 jobs of 26 models with steps of their own, drawn as Gavel draws them, about 1,100 classes remain.
"""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from core.sharing.problem import Floats, Ints, SharingProblem
from core.sharing.programmes import summed
from core.sharing.times import Times


class Gathered(Struct, frozen=True):
    """A problem with fewer classes, and where the jobs of each went."""

    problem: SharingProblem
    class_of: Ints
    """(classes that were given,) the class in the smaller problem."""

    def mean(self, counts: Floats, speeds: Floats) -> Floats:
        """Return the mean speed of the jobs of each class of the smaller problem. (classes,)."""
        found: Floats = (
            summed(self.class_of, counts * speeds, len(self.problem.classes)) / self.problem.counts
        )
        return found

    def spread(self, times: Times, few: Times, values: Floats, needs: Floats) -> Floats:
        """Return the values for all classes, with the same GPUs in use, where each class has the speed that it needs.

        times     the variables of the problem that was gathered; few    those of the smaller one, with their values
        needs     (classes,) steps a second of a job, not more than those by which it was gathered
        """
        counts, class_of = times.problem.counts, self.class_of
        size = len(self.problem.classes)
        given = np.zeros(self.problem.speeds.shape)
        given[few.classes[: few.alone], few.columns[: few.alone]] = values[: few.alone]
        speed = (given * self.problem.speeds).sum(axis=1)
        need = summed(class_of, counts * needs, size)
        # A part of the time goes by need: so much of it that all have their speeds. The rest goes to those with most time left.
        whole = np.maximum(speed, need)
        whole = np.where(whole > 0, whole, 1.0)
        by_need = counts * needs / whole[class_of]
        time_left = counts - by_need * given.sum(axis=1)[class_of]
        all_left = summed(class_of, time_left, size)
        rest = np.divide(1.0 - need / whole, all_left, out=np.zeros(size), where=all_left > 0)
        part = by_need + rest[class_of] * time_left
        mine, columns = times.classes[: times.alone], times.columns[: times.alone]
        alone = given[class_of[mine], columns] * part[mine]
        return np.concatenate([alone, values[few.alone :]])


def gathered(problem: SharingProblem, needs: Floats) -> Gathered:
    """Return the problem with those classes as one that no programme needs to tell apart.

    needs   (classes,) the most steps a second that a job of each class will be required to have

    Weights, entities, steps and the last shares of the smaller problem mean nothing. Classes that can be in pairs stay as they are.
    """
    count = len(problem.classes)
    slowest = np.where(problem.runs, problem.speeds, np.inf).min(axis=1)
    is_alike = needs <= slowest
    is_alike[[one for pair in problem.pairs for one in (pair.first, pair.second)]] = False
    looks = np.column_stack([problem.widths, np.where(problem.runs, problem.speeds, 0.0)])
    _, look = np.unique(looks, axis=0, return_inverse=True)
    key = np.where(is_alike, look.ravel(), count + np.arange(count))
    _, first, class_of = np.unique(key, return_index=True, return_inverse=True)
    jobs = summed(class_of, problem.counts, len(first)).astype(np.int64).tolist()
    smaller = replace(
        problem,
        classes=tuple(
            replace(problem.classes[index], count=total)
            for index, total in zip(first.tolist(), jobs, strict=True)
        ),
        speeds=problem.speeds[first],
        pairs=tuple(
            replace(pair, first=int(class_of[pair.first]), second=int(class_of[pair.second]))
            for pair in problem.pairs
        ),
        last=None,
    )
    return Gathered(smaller, class_of.astype(np.int64))
