"""Refusals that hold for larger requests too: what found no room for so many tasks finds none for more of the same.

source    MAST §4.3: the hash table of requests that failed; here by region, and for as long as the refusal itself holds
"""

import re
from bisect import insort
from functools import lru_cache
from typing import NamedTuple

from core.messages.queue import Abstention
from core.nouns.ids import RegionName
from core.nouns.reasons import Reason
from core.nouns.tenant import LEVEL_MAX, OVER_LEVEL

HOLD_FOR_LARGER = (
    Reason.NO_CAPACITY,
    Reason.NO_SUCH_HARDWARE,
    Reason.START_RESERVED,
    Reason.RESERVED,
    Reason.OVER_LIMIT,
)
"""Reasons that more tasks of the same need, or a lower level, could only make worse."""
LEVELS = range(LEVEL_MAX, OVER_LEVEL - 1, -1)
"""At which a workload may be asked for, the highest first."""
FAR = 1 << 62
"""More tasks than any job has."""
_ONE_JOB = re.compile(r"(-?\d+)(\|[^|;]*\|[^|;]*\|)(\d+)(x[^;]*)")
"""A shape with its level (components/job_queue/ordering.py `asked_for`) of one job: level, kind and regions, tasks, all else."""


class Width(NamedTuple):
    """A shape of one job, taken apart."""

    family: str
    """Equal for shapes that differ in their level and in how many tasks they have, and in nothing else."""
    level: int
    tasks: int


@lru_cache(maxsize=4096)
def width_of(shape: str) -> Width | None:
    """A shape's, if it is of one job: of several nothing is said, for which of them found no room is not known."""
    found = _ONE_JOB.fullmatch(shape)
    if found is None:
        return None
    level, before, tasks, after = found.groups()
    return Width(before + after, int(level), int(tasks))


class RefusalDominance:
    """By family and region, the refusals that may hold for others: an index of what the auction house remembers."""

    def __init__(self) -> None:
        self._said: dict[str, dict[RegionName, _Refused]] = {}
        self._of_smaller: dict[str, dict[RegionName, Abstention]] = {}
        """What was found of shapes since anything changed."""

    def add(self, shape: str, said: Abstention) -> int | None:
        """A region refused it. What `drop` tells of what it said of it before, where what it says now holds for it alone."""
        still_from = self.drop(shape, said.region)
        width = width_of(shape)
        if width is None or said.reason not in HOLD_FOR_LARGER:
            return still_from
        self._said.setdefault(width.family, {}).setdefault(said.region, _Refused(width.family)).add(
            width, said
        )
        return None

    def drop(self, shape: str, region: RegionName) -> int | None:
        """That has passed. From how many tasks on the same is still refused for another refusal, `FAR` if there is none; None: nothing
        was refused for this one.
        """
        self._of_smaller.clear()
        width = width_of(shape)
        regions = self._said.get(width.family, {}) if width is not None else {}
        if width is None or region not in regions or not regions[region].drop(width):
            return None
        left = regions[region].smallest.get(width.level)
        if not regions[region].said:
            del regions[region]
        if not regions:
            del self._said[width.family]
        return left.tasks if left is not None else FAR

    def of_smaller(self, shape: str) -> dict[RegionName, Abstention]:
        """Who refused as much or less than this, by region."""
        known = self._of_smaller.get(shape)
        if known is None:
            known = self._of_smaller[shape] = self._find_of_smaller(shape)
        return known

    def _find_of_smaller(self, shape: str) -> dict[RegionName, Abstention]:
        width = width_of(shape)
        if width is None or width.family not in self._said:
            return {}
        found = (
            (region, refused.smallest_for(width)) for region, refused in self._said[width.family].items()
        )
        return {region: said for region, said in found if said is not None}


class _Refused:
    """What one region refused of one family."""

    __slots__ = ("family", "said", "smallest", "tasks")

    def __init__(self, family: str) -> None:
        self.family = family
        self.said: dict[Width, Abstention] = {}
        self.tasks: dict[int, list[int]] = {}
        """By level, the numbers of tasks that were refused, ascending."""
        self.smallest: dict[int, Width] = {}
        """By the level at which is asked: of what was refused at that level or a higher one the fewest tasks, of the same the highest level."""

    def add(self, width: Width, said: Abstention) -> None:
        """It refused this; it is not known to."""
        self.said[width] = said
        insort(self.tasks.setdefault(width.level, []), width.tasks)
        self._find_smallest()

    def drop(self, width: Width) -> bool:
        """It refuses this no more. Whether it did."""
        if self.said.pop(width, None) is None:
            return False
        tasks = self.tasks[width.level]
        tasks.remove(width.tasks)
        if not tasks:
            del self.tasks[width.level]
        self._find_smallest()
        return True

    def _find_smallest(self) -> None:
        self.smallest = {}
        found: Width | None = None
        for level in LEVELS:
            tasks = self.tasks.get(level)
            if tasks is not None and (found is None or tasks[0] < found.tasks):
                found = Width(self.family, level, tasks[0])
            if found is not None:
                self.smallest[level] = found

    def smallest_for(self, asked: Width) -> Abstention | None:
        """Of those that hold for what is asked, the smallest's."""
        width = self.smallest.get(asked.level)
        return self.said[width] if width is not None and width.tasks <= asked.tasks else None
