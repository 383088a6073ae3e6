"""Tenant isolation: work that shares no node with other tenants, and the nodes that such work is on.

A node with work that is alone takes only further work of the same tenant that is alone too. The tenant's other work must stay
away as a price for a simpler rule: all requests that need not be alone are equal to the rule, and share one class.
"""

from functools import lru_cache
from hashlib import blake2b
from typing import Any

from core.nouns.reasons import Reason
from core.rules.placement.rule import NOBODY, PASSING_TRAITS, Flags, NodeValidator, Present, Request, Rows


@lru_cache(maxsize=4096)
def code_of(tenant: str, *, is_alone: bool) -> int:
    """Return a tenant's code: 61 bits drawn from the name, and `is_alone` in the lowest bit."""
    drawn = int.from_bytes(blake2b(tenant.encode(), digest_size=8).digest(), "big") >> 3
    return drawn << 1 | is_alone


class TenantIsolation(NodeValidator):
    """A hard rule on a node's owners: tenants with attempts that hold capacity there, or with claims that are promised some."""

    name = "tenant_isolation"
    traits = PASSING_TRAITS
    reason = Reason.TENANTS_APART

    def is_idle(self, rows: Rows) -> bool:
        """Return whether no owner was ever set: owners are set only once some work is, or asks to be, alone."""
        return not rows.has_owners

    def allows(self, rows: Rows, request: Request) -> Flags:
        """Return where no other tenant is, for work that is to be alone; else where no work is alone."""
        allowed: Flags = _allowed(rows.owner, request)
        return allowed

    def allows_at(self, present: Present, node: int, request: Request) -> bool:
        """Return whether no other tenant is there, for work that is to be alone; else whether no work is alone there."""
        is_of_matter = request.is_alone or present.has_alone
        return not is_of_matter or bool(_allowed(present.owner(node), request))


def _allowed(owner: Any, request: Request) -> Any:  # Any: one code, or an array of them
    """Return whether the owner admits the request; the lowest bit of a code is set if work there is alone."""
    if not request.is_alone:
        return (owner < 0) | (owner & 1 == 0)
    return (owner == NOBODY) | (owner >> 1 == code_of(request.tenant, is_alone=True) >> 1)
