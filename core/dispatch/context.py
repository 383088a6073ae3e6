"""The urgency that travels with a message: its class, and how much of the time for the whole chain is left.

Durations travel, instants do not: whoever hears a message counts from its own clock. A message without urgency has that of its type.
"""

from collections.abc import Mapping

from msgspec import Struct

from core.nouns.dispatch import Target, UrgencyClass
from core.nouns.instant import Nanoseconds, seconds

LATE_MAX: Nanoseconds = seconds(600)
"""By so much a chain may be late and still say so: what says more says nonsense."""


class Urgency(Struct, frozen=True, array_like=True):
    """What was left for a chain of messages when this one was said."""

    sort: str
    """A class (core/nouns/dispatch.py)."""
    left: int
    """Nanoseconds until the whole chain should be over; less than 0: it is late."""


def is_believed(urgency: Urgency, possible: frozenset[UrgencyClass], targets: Mapping[str, Target]) -> bool:
    """Return whether a message of the plane may have this urgency. Nothing led to a tenant's message, which has none.

    possible   classes that a message of its type can have: its own, and those of messages that lead to it
    targets    of every class
    """
    return urgency.sort in possible and -LATE_MAX <= urgency.left <= targets[urgency.sort].within


class Context(Struct, frozen=True):
    """What a host sends along with a message."""

    urgency: Urgency | None = None
    costs: dict[str, int] = {}
    """What messages cost from here on (core/dispatch/costs.py)."""


NO_CONTEXT = Context()
