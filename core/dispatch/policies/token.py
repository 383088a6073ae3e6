"""Least laxity first, with a rate for each tenant: what a tenant asks beyond it is `bulk`, and so is what follows from that.

source    Cameo (NSDI'21): token fair share. A tenant's tokens come evenly, and what has none runs at the lowest priority
"""

from core.dispatch.policies.llf import LeastLaxityFirst
from core.nouns.dispatch import DispatchSettings
from core.nouns.instant import SECOND, Instant

TENANTS_MAX = 4096
"""Tenants from which those with all of their tokens are forgotten, each time that there are twice as many."""


class Token(LeastLaxityFirst):
    """A bucket of a second's tokens for each tenant."""

    def __init__(self, settings: DispatchSettings) -> None:
        """As operators set it: so many requests of one tenant in a second."""
        self._span = SECOND // settings.rate
        """Nanoseconds in which one token comes."""
        self._prune_at = TENANTS_MAX
        self._full_at: dict[str, int] = {}
        """By tenant, when the bucket is full again."""

    def is_within_rate(self, tenant: str, now: Instant) -> bool:
        """Take a token, if there is one."""
        full_at = max(self._full_at.get(tenant, 0), now)
        if full_at + self._span > now + SECOND:
            return False
        if len(self._full_at) >= self._prune_at:
            self._full_at = {one: then for one, then in self._full_at.items() if then > now}
            self._prune_at = max(TENANTS_MAX, 2 * len(self._full_at))
        self._full_at[tenant] = full_at + self._span
        return True
