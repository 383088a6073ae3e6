"""The order of pending workloads: priority, then first come. Kept incrementally; equals the full sort."""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable
from itertools import islice

from core.nouns.ids import WorkloadId

Place = tuple[int, int, WorkloadId, str]
"""Priority negated, submission number, id, shape: a smaller one is ahead. Numbers differ, so the rest never decides."""


class PendingOrder:
    """Workloads that may be awarded, all together and by shape."""

    def __init__(self) -> None:
        self._places: dict[WorkloadId, Place] = {}
        self._all: list[Place] = []
        self._by_shape: dict[str, list[Place]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, workload: WorkloadId) -> bool:
        return workload in self._places

    def add(self, workload: WorkloadId, priority: int, number: int, shape: str) -> None:
        """Let it stand in the order; it must not yet."""
        assert workload not in self._places, workload
        place = (-priority, number, workload, shape)
        self._places[workload] = place
        insort(self._all, place)
        insort(self._by_shape.setdefault(shape, []), place)

    def drop(self, workload: WorkloadId) -> None:
        """Take it out of the order, if it stands there."""
        place = self._places.pop(workload, None)
        if place is None:
            return
        del self._all[bisect_left(self._all, place)]
        places = self._by_shape[place[3]]
        del places[bisect_left(places, place)]
        if not places:
            del self._by_shape[place[3]]

    def rank(self, workload: WorkloadId) -> int:
        """How many stand ahead of it."""
        return bisect_left(self._all, self._places[workload])

    def ahead_of(self, workload: WorkloadId, count: int) -> list[WorkloadId]:
        """The nearest so many that stand ahead of it, the first of them first."""
        rank = self.rank(workload)
        return [place[2] for place in self._all[max(0, rank - count) : rank]]

    def shape_of(self, workload: WorkloadId) -> str:
        """The shape it was added with."""
        return self._places[workload][3]

    def has_shape(self, shape: str) -> bool:
        """Whether any of this shape is left."""
        return shape in self._by_shape

    def first(
        self,
        count: int,
        is_wanted: Callable[[str, WorkloadId], bool],
        is_free: Callable[[WorkloadId, str], bool],
    ) -> list[WorkloadId]:
        """The first so many whose shape is wanted (asked with one workload of it) and which are free, in order.

        Costs one step a shape and one for each that is looked at, never one for each that is pending.
        """
        lists = [places for shape, places in self._by_shape.items() if is_wanted(shape, places[0][2])]
        merged = lists[0] if len(lists) == 1 else heapq.merge(*lists)
        return list(islice((place[2] for place in merged if is_free(place[2], place[3])), count))

    def all(self) -> list[WorkloadId]:
        """Everybody, in order."""
        return [place[2] for place in self._all]
