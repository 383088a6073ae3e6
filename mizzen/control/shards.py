"""Which tasks hold the replicas of which shards, as arrays, and which tasks may be down together."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

Flags = NDArray[np.bool_]
"""(tasks,) one for each task that holds a replica, in the order of `Shards.tasks`."""
Counts = NDArray[np.int64]

SHUFFLES = 2
"""Orders by chance that are tried where no zones were told. More of them find a set that is larger by one or two in fifty,
and each costs 5 ms (15,000 shards of 3, 1,000 tasks)."""
_LAST = np.iinfo(np.int64).max


class Shards:
    """A table of replicas, and the sets of tasks that it allows to be down at the same time.

    replicas   (shards, replicas) task numbers; a negative number where a shard has fewer replicas than others
    zones      the update domain of each task, if the replicas of a shard were put into different ones
    domains    the power domain of each task: what is lost at once
    """

    def __init__(
        self,
        replicas: ArrayLike,
        *,
        zones: Mapping[int, int | str] | None = None,
        domains: Mapping[int, int | str] | None = None,
    ) -> None:
        table = np.sort(np.asarray(replicas, dtype=np.int64), axis=1)
        # Two replicas on one task are lost together whatever anybody does: they count as one.
        table[:, 1:][table[:, 1:] == table[:, :-1]] = -1
        self.tasks: Counts = np.unique(table[table >= 0])
        """Task numbers, ascending: what every array of tasks is in the order of."""
        count = len(self.tasks)
        # Behind the last task stands nobody, who is never down and never a candidate.
        self._table: Counts = np.where(table >= 0, np.searchsorted(self.tasks, table), count)
        self._place = {int(task): place for place, task in enumerate(self.tasks)}
        self.zones = self._labels(zones)
        """(tasks,) numbers of zones; -1 where none was told."""
        self.domains = self._labels(domains)
        """(tasks,) numbers of power domains; -1 where none was told."""
        self._shuffled = [np.random.default_rng(seed).permutation(count) for seed in range(SHUFFLES)]

    @property
    def table(self) -> Counts:
        """(shards, replicas) places in `tasks`; `len(tasks)` where there is no replica."""
        return self._table

    def holds(self, task: int) -> bool:
        """Whether any shard has a replica there."""
        return task in self._place

    def flags(self, tasks: Iterable[int]) -> Flags:
        """These tasks; one that holds nothing is left out."""
        found = np.zeros(len(self.tasks), dtype=np.bool_)
        found[[self._place[task] for task in tasks if task in self._place]] = True
        return found

    def numbers(self, flags: Flags) -> list[int]:
        """The task numbers of these, ascending."""
        return [int(task) for task in self.tasks[flags]]

    def lost(self, down: Flags) -> Counts:
        """(shards,) replicas of each that are on tasks which are down."""
        found: Counts = np.append(down, False)[self._table].sum(axis=1)  # nobody is never down
        return found

    def touching(self, shards: Flags) -> Flags:
        """The tasks with a replica of any of these shards."""
        found = np.zeros(len(self.tasks) + 1, dtype=np.bool_)
        found[self._table[shards]] = True
        return found[:-1]

    def admissible(self, candidates: Flags, room: Counts) -> Flags:
        """Those of the candidates of which every shard could lose one replica more.

        room   (shards,) replicas that each may still lose
        """
        return candidates & ~self.touching(room < 1)

    def first_fit(self, order: Counts, room: Counts) -> Flags:
        """The tasks that may go when each is asked in turn, and goes if all its shards have room after those before it.

        Equals that loop, and does it in rounds: in each goes everybody who would have room even if all before him went.
        Few rounds are needed: some ten for a thousand tasks in any order, one for a zone in which no shard has two replicas.

        order   places in `tasks`, each at most once
        room    (shards,) replicas that each may still lose
        """
        count = len(self.tasks)
        turn = np.full(count + 1, _LAST)
        turn[order] = np.arange(len(order))
        taken = np.zeros(count + 1, dtype=np.bool_)
        table, left = self._table, room
        while True:
            # 1. Who has a shard without room is out, and shards on which nobody waits are no longer looked at.
            turn[table[left < 1]] = _LAST
            turns = turn[table]
            is_live = (turns < _LAST).any(axis=1)
            table, left, turns = table[is_live], left[is_live], turns[is_live]
            if not len(table):
                return taken[:-1]
            # 2. Who has fewer before him than there is room, in each of his shards, goes. The first in turn always does.
            before = (turns[:, None, :] < turns[:, :, None]).sum(axis=2)
            waits = np.zeros(count + 1, dtype=np.bool_)
            waits[table[before >= left[:, None]]] = True
            goes = (turn < _LAST) & ~waits
            # 3. He takes his room.
            taken |= goes
            turn[goes] = _LAST
            left = left - goes[table].sum(axis=1)

    def largest_fit(self, candidates: Flags, room: Counts) -> Flags:
        """A large set of candidates that may go together, to which no other candidate can be added.

        The largest would be a maximum independent set, which nobody finds in time. Where a shard's replicas lie in different
        zones a whole zone may go, which no search among single tasks comes near to; so each zone comes first once, and
        then the order in which tasks that stand in the way of few come first; without zones, some by chance. Ties go to the
        earliest.
        """
        possible = self.admissible(candidates, room)
        best = np.zeros_like(possible)
        found, everybody = 0, int(possible.sum())
        for order in self._orders(possible):
            if found == everybody:
                break
            fit = self.first_fit(order, room)
            if int(fit.sum()) > found:
                best, found = fit, int(fit.sum())
        return best

    def _orders(self, candidates: Flags) -> Iterator[Counts]:
        wanted = np.flatnonzero(candidates)
        in_the_way = self._in_the_way(candidates)[wanted]
        by_degree = wanted[np.argsort(in_the_way, kind="stable")]
        zones, sizes = np.unique(self.zones[wanted], return_counts=True)
        if len(zones) > 1:
            for zone in zones[np.argsort(-sizes, kind="stable")]:
                is_there = self.zones[by_degree] == zone
                yield np.concatenate((by_degree[is_there], by_degree[~is_there]))
        yield by_degree
        if len(zones) <= 1:
            for shuffled in self._shuffled:
                yield shuffled[candidates[shuffled]]

    def _in_the_way(self, candidates: Flags) -> Counts:
        """(tasks,) how many replicas on other candidates each task's shards have."""
        others = self.lost(candidates)
        weights = np.repeat(others, self._table.shape[1])
        found = np.bincount(self._table.ravel(), weights, minlength=len(self.tasks) + 1)
        return found.astype(np.int64)[:-1]

    def _labels(self, of: Mapping[int, int | str] | None) -> Counts:
        named = of or {}
        names = sorted({str(named[task]) for task in self._place if task in named})
        numbers = {name: number for number, name in enumerate(names)}
        return np.array(
            [numbers[str(named[task])] if task in named else -1 for task in self._place], dtype=np.int64
        )
