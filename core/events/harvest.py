"""Events of a region's log about harvested capacity: free and lent capacity that functions may use."""

from core.fact import Event
from core.nouns.harvest import HarvestPart, ReleasedPart, Why
from core.nouns.instant import Nanoseconds


class HarvestOffered(Event, frozen=True, tag="harvest-offered"):
    """Functions may use so much of these nodes, until it is recalled."""

    revision: int
    """Counts the facts that change what is harvested in the region."""
    parts: tuple[HarvestPart, ...]
    within: Nanoseconds
    """Grace of a recall."""


class HarvestRecalled(Event, frozen=True, tag="harvest-recalled"):
    """Functions may use no more than so much of these nodes, once their calls have had the grace."""

    revision: int
    parts: tuple[HarvestPart, ...]
    why: Why


class HarvestReleased(Event, frozen=True, tag="harvest-released"):
    """Functions use no more of these nodes than they may."""

    parts: tuple[ReleasedPart, ...]


EVENTS: tuple[type[Event], ...] = (HarvestOffered, HarvestRecalled, HarvestReleased)
