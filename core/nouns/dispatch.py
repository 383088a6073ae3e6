"""How urgent a message is: the classes of urgency with their targets, and what operators set of mailboxes.

source    Cameo (NSDI'21): a message has a start deadline, from the latency target of the work that it belongs to
"""

from enum import StrEnum

from msgspec import Struct

from core.nouns.instant import MILLISECOND, SECOND, Nanoseconds, seconds


class UrgencyClass(StrEnum):
    """Classes of messages, the most urgent first."""

    SYSTEM = "system"
    """What keeps the plane safe: stops, withdrawals, acknowledgements and fences. Always first, up to `SYSTEM_RATE_MAX`."""
    INTERACTIVE = "interactive"
    """A person waits: submissions and settings, and the start of work of one task."""
    QUERY = "query"
    """A person or a dashboard looks: lists, searches and explanations."""
    PLACEMENT = "placement"
    """The start of work of a few tasks."""
    GANG = "gang"
    """The start of work of many tasks."""
    REPORT = "report"
    """How things stand: beats, checkpoints and ends."""
    BULK = "bulk"
    """What may wait a minute: answers of solvers, and requests beyond a tenant's rate."""


LEAST_URGENT_FIRST = tuple(reversed(UrgencyClass))


class Target(Struct, frozen=True, forbid_unknown_fields=True):
    """How long messages of a class may take."""

    within: Nanoseconds
    """From the first message of a chain to the end of the chain: the paper's L."""
    max_wait: Nanoseconds
    """In one mailbox. Whatever has waited so long is next."""


TARGETS: dict[str, Target] = {
    UrgencyClass.SYSTEM: Target(Nanoseconds(100 * MILLISECOND), seconds(1)),
    UrgencyClass.INTERACTIVE: Target(Nanoseconds(200 * MILLISECOND), seconds(2)),
    UrgencyClass.QUERY: Target(seconds(1), seconds(5)),
    UrgencyClass.PLACEMENT: Target(seconds(2), seconds(5)),
    UrgencyClass.GANG: Target(seconds(5), seconds(10)),
    UrgencyClass.REPORT: Target(seconds(1), seconds(5)),
    UrgencyClass.BULK: Target(seconds(60), seconds(120)),
}
"""By class. Those of spec and issue; the longest waits are chosen: that of reports keeps a beat, which comes every five seconds, well
within the silence after which a worker is suspect."""

DEFAULT_COSTS: dict[str, Nanoseconds] = {
    UrgencyClass.SYSTEM: Nanoseconds(MILLISECOND // 10),
    UrgencyClass.INTERACTIVE: Nanoseconds(MILLISECOND),
    UrgencyClass.QUERY: Nanoseconds(5 * MILLISECOND),
    UrgencyClass.PLACEMENT: Nanoseconds(MILLISECOND),
    UrgencyClass.GANG: Nanoseconds(5 * MILLISECOND),
    UrgencyClass.REPORT: Nanoseconds(MILLISECOND // 5),
    UrgencyClass.BULK: Nanoseconds(10 * MILLISECOND),
}
"""By class, the cost of a decision of which none was measured: in the order of what is measured in planes of 1,000 nodes."""

DEFAULT_POLICY = "llf"
DEFAULT_QUANTUM = Nanoseconds(0)
"""A look at which lane comes next costs a microsecond, a tenth of the cheapest decision (docs/results/dispatch.md)."""
DEFAULT_RATE = 20
WITHIN_MIN = Nanoseconds(MILLISECOND)
QUANTUM_MAX = Nanoseconds(SECOND)
RATE_MAX = 1_000_000


class DispatchSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What operators set of all mailboxes of the plane."""

    policy: str = DEFAULT_POLICY
    """Of core/dispatch/policies/."""
    targets: dict[str, Target] = {}
    """By class, those that differ from `TARGETS`."""
    quantum: Nanoseconds = DEFAULT_QUANTUM
    """So long a lane is taken from once it is, while it has messages, before another is preferred."""
    rate: int = DEFAULT_RATE
    """Requests of one tenant in a second, beyond which they are `bulk` by the policy `token`."""

    def target(self, sort: str) -> Target:
        """Return the target of a class."""
        return self.targets.get(sort) or TARGETS[sort]

    def all_targets(self) -> dict[str, Target]:
        """Return the target of every class."""
        return TARGETS | self.targets
