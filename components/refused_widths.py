"""Refusals that hold for larger requests too: what found no room for so many tasks finds none for more of the same.

source    MAST §4.3: the hash table of requests that failed; here by region, and for as long as the refusal itself holds
"""

import re
from functools import lru_cache
from typing import NamedTuple

from core.messages.queue import Abstention
from core.nouns.ids import RegionName
from core.nouns.reasons import Reason

HOLD_FOR_LARGER = (
    Reason.NO_CAPACITY,
    Reason.NO_SUCH_HARDWARE,
    Reason.START_RESERVED,
    Reason.RESERVED,
    Reason.OVER_LIMIT,
)
"""Reasons that more tasks of the same need, or a lower level, could only make worse."""
_ONE_JOB = re.compile(r"(-?\d+)(\|[^|;]*\|[^|;]*\|)(\d+)(x[^;]*)")
"""A shape with its level (components/queue_order.py `asked_for`) of one job: level, kind and regions, tasks, all else."""


class Width(NamedTuple):
    """A shape of one job, taken apart."""

    family: str
    """Equal for shapes that differ in their level and in how many tasks they have, and in nothing else."""
    level: int
    tasks: int

    def holds_for(self, other: "Width") -> bool:
        """Whether the other asks for as much or more, at this level or a lower one."""
        return self.tasks <= other.tasks and self.level >= other.level


@lru_cache(maxsize=4096)
def width_of(shape: str) -> Width | None:
    """A shape's, if it is of one job: of several nothing is said, for which of them found no room is not known."""
    found = _ONE_JOB.fullmatch(shape)
    if found is None:
        return None
    level, before, tasks, after = found.groups()
    return Width(before + after, int(level), int(tasks))


class RefusedWidths:
    """By family and region, the refusals that may hold for others: an index of what the auction house remembers."""

    def __init__(self) -> None:
        self._said: dict[str, dict[RegionName, dict[Width, Abstention]]] = {}
        self._memo: dict[tuple[str, RegionName], dict[str, Abstention | None]] = {}
        """By family and region, by shape: filled by `of_smaller`, emptied by whatever changes what that region refuses of the family."""

    def add(self, shape: str, said: Abstention) -> None:
        """A region refused it."""
        self.drop(shape, said.region)
        width = width_of(shape)
        if width is not None and said.reason in HOLD_FOR_LARGER:
            self._said.setdefault(width.family, {}).setdefault(said.region, {})[width] = said
            self._memo.pop((width.family, said.region), None)

    def drop(self, shape: str, region: RegionName) -> None:
        """That has passed."""
        width = width_of(shape)
        regions = self._said.get(width.family, {}) if width is not None else {}
        if width is None or regions.get(region, {}).pop(width, None) is None:
            return
        self._memo.pop((width.family, region), None)
        if not regions[region]:
            del regions[region]
        if not regions:
            del self._said[width.family]

    def of_smaller(self, shape: str) -> dict[RegionName, Abstention]:
        """Who refused as much or less than this, by region."""
        width = width_of(shape)
        if width is None or width.family not in self._said:
            return {}
        found = {}
        for region, widths in self._said[width.family].items():
            known = self._memo.setdefault((width.family, region), {})
            if shape not in known:
                known[shape] = _first(widths, width)
            said = known[shape]
            if said is not None:
                found[region] = said
        return found

    def forget_memo(self) -> None:
        """It is worked out anew."""
        self._memo.clear()


def _first(widths: dict[Width, Abstention], asked: Width) -> Abstention | None:
    """Of those that hold for what is asked, the smallest's, whichever was said first."""
    found = [width for width in widths if width.holds_for(asked)]
    return widths[min(found, key=lambda width: (width.tasks, -width.level))] if found else None
