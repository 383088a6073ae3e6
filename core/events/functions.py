"""Events of a region's log about functions. No call has an event of its own (docs/functions.md)."""

from core.fact import Event
from core.nouns.function import FunctionCount
from core.nouns.instant import Nanoseconds


class FunctionsCounted(Event, frozen=True, tag="functions-counted"):
    """A router counted the calls that ended since its last count."""

    router: str
    life: str
    number: int
    """Counts the counts of one life, from 1 on."""
    span: Nanoseconds
    """In which the calls ended."""
    counts: tuple[FunctionCount, ...]


EVENTS: tuple[type[Event], ...] = (FunctionsCounted,)
