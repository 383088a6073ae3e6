"""One tenant's active awards in the order in which they take its quota, so that a change costs steps for affected awards only.

Nominal awards are ordered from the highest level down, and within a level the oldest award first. Borrowing awards are grouped by
the level asked for and the amounts held, because of equal awards only the first submitted matters. Results equal `reclassify`
(core/rules/quota.py) over all awards of the tenant.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping

from core.nouns.ids import WorkloadId
from core.nouns.tenant import OVER_LEVEL
from core.rules.quota import Amounts

QuotaEntry = tuple[int, int, WorkloadId]
"""The level asked for, negated; the number of the award, or for borrowing work of the submission; the workload."""
Alike = tuple[tuple[str, int], ...]
"""Amounts that awards of one group hold: GPU milli by type, sorted by type."""


class QuotaOrder:
    """All active awards of one tenant."""

    def __init__(self) -> None:
        self._within: list[QuotaEntry] = []
        self._over: dict[int, dict[Alike, list[QuotaEntry]]] = {}
        """Borrowing awards by negated level and amounts held."""
        self._amounts: dict[WorkloadId, Amounts] = {}

    def add(self, entry: QuotaEntry, amounts: Amounts, *, is_over: bool) -> None:
        """Add an active award."""
        self._amounts[entry[2]] = amounts
        if is_over:
            alike = self._over.setdefault(entry[0], {}).setdefault(_alike(amounts), [])
            insort(alike, entry)
        else:
            insort(self._within, entry)

    def drop(self, entry: QuotaEntry, *, is_over: bool) -> None:
        """Drop an award, with the entry and quota class under which the award was added."""
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

    def has_headroom_above(self, headroom_at: Callable[[int], Mapping[str, int]]) -> bool:
        """Return whether a borrowing award fits into the quota's headroom at the level that it asks for.

        headroom_at   returns the headroom for work of a level, GPU milli by type
        """
        for negated, groups in self._over.items():
            room = headroom_at(-negated)
            if any(_fits(dict(key), room) for key in groups):
                return True
        return False

    def displaced(self, charge: Amounts, room: Mapping[str, int]) -> dict[WorkloadId, int]:
        """Return the levels that must change beside a new nominal award with headroom at its level.

        Holds only while no present award must change level already.

        charge    GPU milli by type of the new award
        room      GPU milli by type under quota that present nominal awards leave of the quota
        returns   `OVER_LEVEL` for the lowest and youngest awards; smaller ones may become nominal in the quota that these leave
        """
        left = {kind: count - charge.get(kind, 0) for kind, count in room.items()}
        # 1. Take awards off from the lowest up, until all that are left fit. Those stay as they are.
        first = len(self._within)
        before = dict(left)
        while any(count < 0 for count in before.values()):
            first -= 1
            _add(before, self._amounts[self._within[first][2]], 1)
        # 2. Put awards back from the highest level down, as `reclassify` does: at each level nominal before borrowing ones.
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
        """Yield borrowing awards of one level that fit now, the first submitted first; subtract their amounts from `room`."""
        groups = [mine for key, mine in self._over.get(negated, {}).items() if _fits(dict(key), room)]
        for entry in heapq.merge(*(_while_it_fits(mine, self._amounts, room) for mine in groups)):
            amounts = self._amounts[entry[2]]
            if _fits(amounts, room):
                _add(room, amounts, -1)
                yield entry[2]


def _while_it_fits(
    mine: list[QuotaEntry], amounts: Mapping[WorkloadId, Amounts], room: Mapping[str, int]
) -> Iterator[QuotaEntry]:
    """Yield awards that hold equal amounts, as long as there is headroom for one of them."""
    for entry in mine:
        if not _fits(amounts[entry[2]], room):
            return
        yield entry


def _fits(amounts: Amounts, room: Mapping[str, int]) -> bool:
    """Return whether amounts of types under quota fit; other types do not count."""
    return all(count <= room[kind] for kind, count in amounts.items() if kind in room)


def _add(room: dict[str, int], amounts: Amounts, sign: int) -> None:
    for kind, count in amounts.items():
        if kind in room:
            room[kind] += sign * count


def _alike(amounts: Amounts) -> Alike:
    return tuple(sorted(amounts.items()))
