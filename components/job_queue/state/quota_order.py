"""One tenant's standing awards in the order in which they take its quota, so that what a change does costs what it changes.

Those within quota stand from the highest level down, of one level the oldest first; those over quota by the level that they ask
for and what they hold, for of those that hold the same only the one that was submitted first matters. What is said here equals `stand_anew`
(core/rules/quota.py) over all of them.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping

from core.nouns.ids import WorkloadId
from core.nouns.tenant import OVER_LEVEL
from core.rules.quota import Amounts

QuotaEntry = tuple[int, int, WorkloadId]
"""The level that it asks for, negated, the number of its award, over quota that of its submission, and which it is."""
Alike = tuple[tuple[str, int], ...]
"""What some hold, by type."""


class QuotaOrder:
    """All standing awards of one tenant."""

    def __init__(self) -> None:
        self._within: list[QuotaEntry] = []
        self._over: dict[int, dict[Alike, list[QuotaEntry]]] = {}
        """By level, negated."""
        self._amounts: dict[WorkloadId, Amounts] = {}

    def add(self, entry: QuotaEntry, amounts: Amounts, *, is_over: bool) -> None:
        """It stands."""
        self._amounts[entry[2]] = amounts
        if is_over:
            alike = self._over.setdefault(entry[0], {}).setdefault(_alike(amounts), [])
            insort(alike, entry)
        else:
            insort(self._within, entry)

    def drop(self, entry: QuotaEntry, *, is_over: bool) -> None:
        """It stands no longer."""
        amounts = self._amounts.pop(entry[2])
        if not is_over:
            del self._within[bisect_left(self._within, entry)]
            return
        groups, key = self._over[entry[0]], _alike(amounts)
        del groups[key][bisect_left(groups[key], entry)]
        if not groups[key]:
            del groups[key]
        if not groups:
            del self._over[entry[0]]

    def has_room_above(self, room_at: Callable[[int], Mapping[str, int]]) -> bool:
        """Whether something over quota fits into what the quota has left at the level that it asks for."""
        for negated, groups in self._over.items():
            room = room_at(-negated)
            if any(_fits(dict(key), room) for key in groups):
                return True
        return False

    def displaced(self, charge: Amounts, room: Mapping[str, int]) -> dict[WorkloadId, int]:
        """Who must stand otherwise once so much more is held within quota, at a level at which there is room for it.

        charge    of the new award
        room      what the quota has left as things stand, of each type under quota
        returns   levels: the lowest and the youngest are over quota, and smaller ones may come into what these leave

        Nobody must be on it that would have to stand otherwise without that.
        """
        left = {kind: count - charge.get(kind, 0) for kind, count in room.items()}
        # 1. From the lowest up, until all that is left above fits. Above it everything stays as it is.
        first = len(self._within)
        before = dict(left)
        while any(count < 0 for count in before.values()):
            first -= 1
            _add(before, self._amounts[self._within[first][2]], 1)
        # 2. Down again, as `stand_anew` goes: at each level who is within quota, and then who is over it.
        found: dict[WorkloadId, int] = {}
        below = self._within[first:]
        if not below:
            return found
        for negated in sorted(
            {entry[0] for entry in below} | {one for one in self._over if one >= below[0][0]}
        ):
            for entry in below[bisect_left(below, (negated,)) : bisect_left(below, (negated + 1,))]:
                amounts = self._amounts[entry[2]]
                if _fits(amounts, before):
                    _add(before, amounts, -1)
                else:
                    found[entry[2]] = OVER_LEVEL
            for workload in self._risen(negated, before):
                found[workload] = -negated
        return found

    def _risen(self, negated: int, room: dict[str, int]) -> Iterator[WorkloadId]:
        """Those over quota at a level that fit by now, the first submitted first; takes their part from the room."""
        groups = [mine for key, mine in self._over.get(negated, {}).items() if _fits(dict(key), room)]
        for entry in heapq.merge(*(_while_it_fits(mine, self._amounts, room) for mine in groups)):
            amounts = self._amounts[entry[2]]
            if _fits(amounts, room):
                _add(room, amounts, -1)
                yield entry[2]


def _while_it_fits(
    mine: list[QuotaEntry], amounts: Mapping[WorkloadId, Amounts], room: Mapping[str, int]
) -> Iterator[QuotaEntry]:
    """Those that hold the same, as long as there is room for one of them."""
    for entry in mine:
        if not _fits(amounts[entry[2]], room):
            return
        yield entry


def _fits(amounts: Amounts, room: Mapping[str, int]) -> bool:
    """Of the types of which there is a quota."""
    return all(count <= room[kind] for kind, count in amounts.items() if kind in room)


def _add(room: dict[str, int], amounts: Amounts, sign: int) -> None:
    for kind, count in amounts.items():
        if kind in room:
            room[kind] += sign * count


def _alike(amounts: Amounts) -> Alike:
    return tuple(sorted(amounts.items()))
