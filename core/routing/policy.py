"""The interface of a routing policy: one function, the servers as its router sees them, and the server for its next call."""

from collections.abc import Sequence
from math import ceil
from typing import Protocol

from msgspec import Struct

from core.nouns.ids import FunctionId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.quantities import Amount


class Candidate(Struct, frozen=True, gc=False):
    """One function server, as a router sees it for one function."""

    name: str
    slot: int
    """Place on the ring, from 0 to `SLOTS` - 1 (ring.py)."""
    size: Amount
    """Capacity that the function's tenant may use there."""
    used: Amount
    """All use there: as last reported, and of the calls that this router has sent since."""
    mine: Amount
    """The part of `used` by calls of this function."""
    idle: int
    """Warm executors of this function without a call."""
    can_take: bool
    """Usable, and one call more fits within `size`."""
    is_usable: bool
    """Its report is younger than `SERVER_STALE`, it is not about to leave, and without other executors there would be room for one."""


class Load(Struct, frozen=True, gc=False):
    """Estimated load of one function."""

    rate: float
    """Calls a second."""
    run_time: Nanoseconds
    """Mean of a call."""
    need: Amount
    """Capacity of one executor."""

    @property
    def running(self) -> float:
        """Return the mean number of calls that run at once, by Little's law: rate times run time."""
        return self.rate * self.run_time / SECOND

    @property
    def total(self) -> Amount:
        """Return the capacity that all calls that run at once need, each resource rounded up to a whole unit."""
        running, need = self.running, self.need
        return Amount(
            ceil(running * need.gpu_milli), ceil(running * need.cpu_milli), ceil(running * need.memory_bytes)
        )


class MemberSet(Struct, frozen=True, gc=False):
    """A function's min-worker-set, as its router remembers it: the first `size` usable servers on the walk from its home."""

    home: str
    size: int
    """Servers, 1 at least. Larger than the number of usable servers after some have left."""
    shrunk_at: Instant
    """Last time the set became smaller; before that, when it was made."""


class Chosen(Struct, frozen=True, gc=False):
    """The decision on one call."""

    server: str
    """Empty: no server can take the call, which waits in the router."""
    members: MemberSet | None
    """To be remembered of the function for the next decision; always None for policies without sets."""


class RoutingPolicy(Protocol):
    """Chooses servers. Pure: equal arguments give equal decisions, and a policy remembers no call."""

    name: str

    @property
    def waits(self) -> bool:
        """Return whether a call that no server can take waits in the router; such a call need not be asked for."""

    def choose(
        self,
        function: FunctionId,
        load: Load,
        ring: Sequence[Candidate],
        members: MemberSet | None,
        now: Instant,
    ) -> Chosen:
        """Return the server for one call, and the function's set from now on.

        ring      all servers of the region, sorted by slot and name
        members   as the function's last decision left them; None before the first one
        """
