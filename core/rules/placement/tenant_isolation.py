"""Work that shares no node with other tenants, and the nodes that such work is on.

A node on which somebody is alone takes nothing but what is alone too and of the same tenant. That the same tenant's other
work stays away from it is a price: all requests that need not be alone are alike to this rule, and share one class.
"""

from functools import lru_cache
from hashlib import blake2b
from typing import Any

from core.nouns.reasons import Reason
from core.rules.placement.rule import NOBODY, PASSING_TRAITS, Flags, NodeValidator, Present, Request, Rows


@lru_cache(maxsize=4096)
def code_of(tenant: str, *, is_alone: bool) -> int:
    """A tenant's code."""
    drawn = int.from_bytes(blake2b(tenant.encode(), digest_size=8).digest(), "big") >> 3
    return drawn << 1 | is_alone


class TenantIsolation(NodeValidator):
    """Reads who is on a node, from attempts that hold something there and from claims that were promised it."""

    name = "tenant_isolation"
    traits = PASSING_TRAITS
    reason = Reason.TENANTS_APART

    def is_idle(self, rows: Rows) -> bool:
        """Whoever is on a node is said only once somebody is, or wants to be, alone."""
        return not rows.has_owners

    def allows(self, rows: Rows, request: Request) -> Flags:
        """Where nobody else is, or nobody who is alone."""
        allowed: Flags = _allowed(rows.owner, request)
        return allowed

    def allows_at(self, present: Present, node: int, request: Request) -> bool:
        """Whether nobody else is there, or nobody who is alone."""
        is_of_matter = request.is_alone or present.has_alone
        return not is_of_matter or bool(_allowed(present.owner(node), request))


def _allowed(owner: Any, request: Request) -> Any:  # Any: one code, or an array of them
    """Codes as `code_of` makes them: the lowest bit says whether somebody there is alone."""
    if not request.is_alone:
        return (owner < 0) | (owner & 1 == 0)
    return (owner == NOBODY) | (owner >> 1 == code_of(request.tenant, is_alone=True) >> 1)
