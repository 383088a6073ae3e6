"""A policy of dispatch: two numbers for each message that waits. The mailbox only sorts by them (runtime/dispatch/mailbox.py).

The first number ranks messages, the lowest first; the second one decides between equal ones, and last the order of arrival. A lane is
ranked by the most urgent message in it.
"""

from typing import Protocol

from core.nouns.dispatch import DispatchSettings
from core.nouns.instant import Instant

Rank = tuple[int, int]
LATE_TARGETS = 2
"""A chain that is late on arrival by more targets goes by its arrival. source: spec/cameo-harvest.md 1.3, 7: no domino effect."""


class Waiting:
    """A message that waits, as far as policies know it."""

    __slots__ = ("cost", "deadline", "heard", "rank", "sender", "tenant", "tick", "way", "within")

    heard: Instant
    """When it arrived, on this host's clock."""
    deadline: int
    """When its chain should be over: an instant of this host's clock."""
    within: int
    """The target of its class, in nanoseconds."""
    tick: int
    """Its number in the order of arrival."""
    rank: Rank
    """As its policy ranked it."""
    sender: str
    tenant: str
    cost: int
    """Of the decision on it here, in nanoseconds."""
    way: int
    """Of the costliest way from that decision to the end of the chain, in nanoseconds."""

    @property
    def is_lost(self) -> bool:
        """Whether its chain was late by more than `LATE_TARGETS` when it arrived."""
        return self.deadline + LATE_TARGETS * self.within < self.heard


class Policy(Protocol):
    """How a mailbox ranks what waits in it. It may remember what it ranked."""

    has_classes: bool
    """Whether `system` comes before all ranks, and what has waited `max_wait` before the others. A policy without classes needs neither:
    nothing waits for ever."""

    has_deadlines: bool
    """Whether the first number is an instant of this host's clock. Once it has passed for a message, all of a shorter target come before that
    one: a host with more than it can decide delays nothing for what is less urgent."""

    def rank(self, waiting: Waiting) -> Rank:
        """Return the two numbers of a message that begins to wait."""

    def taken(self, waiting: Waiting) -> None:
        """A message that was ranked is decided now."""

    def is_within_rate(self, tenant: str, now: Instant) -> bool:
        """Count a request of a tenant, and return whether it is within the tenant's rate. What is not is `bulk`."""


class PolicyOfDispatch:
    """What policies have in common: nothing is remembered, and everybody is within the rate."""

    has_classes = True
    has_deadlines = False

    def __init__(self, settings: DispatchSettings) -> None:
        """As operators set it."""

    def taken(self, waiting: Waiting) -> None:
        """Nothing changes."""

    def is_within_rate(self, tenant: str, now: Instant) -> bool:
        """Everybody is."""
        return True
