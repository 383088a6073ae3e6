"""The walk over the shapes that wait, part by part, which finds reasons to record (auction/noting.py).

A walk begins `NOTED_INTERVAL` after a change. After a walk that found a new reason, or a change during a walk, another follows.
"""

from collections.abc import Mapping

from components.job_queue.state.asked_shape import digest
from core.fact import Note
from core.nouns.ids import RegionName
from core.nouns.instant import Instant, after
from core.nouns.limits import NOTED_INTERVAL, NOTED_STEP

Doubts = Mapping[RegionName, tuple[str, Instant]]
"""Reasons of one request that one walk has found and that are not recorded yet, and when, by region."""


class ShapesLookedAt(Note, frozen=True):
    """One part of a walk was made."""

    doubts: dict[str, Doubts]
    """By digest of the request."""
    looked_at: int
    """Number of groups in this part."""
    is_last: bool
    has_news: bool
    """Whether some doubt is new, so that another walk must confirm it."""


class RefusalWalk:
    """The place of the present walk, and the doubts of the walk before."""

    def __init__(self) -> None:
        self.at: Instant | None = None
        """Time of the next part, if one is due."""
        self.walked = 0
        """Number of groups that the present walk has looked at."""
        self.doubts: dict[str, Doubts] = {}
        self.doubts_before: dict[str, Doubts] = {}
        self._taken: dict[str, dict[RegionName, Instant]] = {}
        """When each region took a workload of a shape last, by the shape's digest: until then its reason was no refusal of all."""
        self._is_stale = False
        """Whether another walk is needed after this one."""

    def take(self, shape: str, region: RegionName, at: Instant) -> None:
        """Record that a region took a workload of a shape."""
        self._taken.setdefault(digest(shape), {})[region] = at

    def taken_at(self, shape: str, region: RegionName) -> Instant:
        """Return when the region took a workload of the shape last, while others of the shape waited; 0: never that is known."""
        return self._taken.get(digest(shape), {}).get(region, Instant(0))

    def forget(self, shape: str) -> None:
        """Forget a shape that no workload has any more."""
        self._taken.pop(digest(shape), None)

    def stir(self, at: Instant) -> None:
        """Record that refusals may have changed."""
        self._is_stale = True
        if self.at is None:
            self.at = after(at, NOTED_INTERVAL)

    def note(self, part: ShapesLookedAt, at: Instant) -> None:
        """Fold one part of a walk."""
        self._is_stale = part.has_news or (self._is_stale and self.walked > 0)
        self.walked += part.looked_at
        self.doubts.update(part.doubts)
        if not part.is_last:
            self.at = after(at, NOTED_STEP)
            return
        self.at = after(at, NOTED_INTERVAL) if self._is_stale else None
        self.doubts, self.doubts_before = {}, self.doubts
        self.walked = 0
