"""Refusals that hold for larger requests too: a region without capacity for some tasks has none for more of the same.

source    MAST §4.3: the hash table of failed requests; here by region, and for as long as the refusal itself holds
"""

from components.job_queue.state.asked_shape import AskedShape
from core.messages.queue import Abstention
from core.nouns.ids import RegionName
from core.nouns.reasons import Reason
from core.rules.quota import Narrowing

HOLD_FOR_LARGER = (
    Reason.NO_CAPACITY,
    Reason.NO_SUCH_HARDWARE,
    Reason.START_RESERVED,
    Reason.RESERVED,
    Reason.OVER_LIMIT,
)
"""Reasons that more tasks of the same need, or a lower level, could only confirm."""
Family = tuple[str, Narrowing]


class RefusalDominance:
    """Index of refusals by family and region, kept beside `Auctions.refusals`."""

    def __init__(self) -> None:
        self._refused: dict[Family, dict[RegionName, _Refused]] = {}
        self._of_smaller: dict[AskedShape, dict[RegionName, Abstention]] = {}
        """Memo of `of_smaller`."""

    def add(self, shape: AskedShape, said: Abstention) -> None:
        """Record a region's refusal in place of its earlier one of this shape."""
        self.drop(shape, said.region)
        if shape.family is not None and said.reason in HOLD_FOR_LARGER:
            regions = self._refused.setdefault(shape.family, {})
            regions.setdefault(said.region, _Refused()).put(shape, said)

    def drop(self, shape: AskedShape, region: RegionName) -> None:
        """Forget a region's refusal of a shape, if there is one."""
        self._of_smaller.clear()
        if shape.family is None:
            return
        regions = self._refused.get(shape.family, {})
        if region in regions and regions[region].drop(shape):
            del regions[region]
            if not regions:
                del self._refused[shape.family]

    def of_smaller(self, shape: AskedShape) -> dict[RegionName, Abstention]:
        """Return the refusals of as many or fewer tasks at the same or a higher level, by region.

        Of several refusals of a region, the one with the fewest tasks, and of these the highest level.
        """
        known = self._of_smaller.get(shape)
        if known is None:
            regions = {} if shape.family is None else self._refused.get(shape.family, {})
            found = {region: refused.smallest_for(shape) for region, refused in regions.items()}
            known = {region: said for region, said in found.items() if said is not None}
            self._of_smaller[shape] = known
        return known


class _Refused:
    """One region's refusals of one family."""

    def __init__(self) -> None:
        self._said: dict[tuple[int, int], Abstention] = {}
        """Refusals by number of tasks and negated level."""
        self._smallest: dict[int, tuple[int, int] | None] = {}
        """Memo: by the level of a request, the least key at that level or a higher one."""

    def put(self, shape: AskedShape, said: Abstention) -> None:
        self._said[shape.tasks, -shape.level] = said
        self._smallest.clear()

    def drop(self, shape: AskedShape) -> bool:
        """Forget a refusal; return whether none is left."""
        self._said.pop((shape.tasks, -shape.level), None)
        self._smallest.clear()
        return not self._said

    def smallest_for(self, shape: AskedShape) -> Abstention | None:
        if shape.level not in self._smallest:
            keys = (key for key in self._said if -key[1] >= shape.level)
            self._smallest[shape.level] = min(keys, default=None)
        key = self._smallest[shape.level]
        return self._said[key] if key is not None and key[0] <= shape.tasks else None
