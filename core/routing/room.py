"""Room for executors on one server: parts that are lent to one tenant are used by that tenant first, the rest by everybody.

An executor without a call holds its memory and devices. Its cores are free for others, so that many functions stay warm on few cores.
"""

from core.nouns.ids import TenantName
from core.nouns.quantities import NOTHING, Amount


class Room:
    """The room of a server while executors are added and ended, one after the other."""

    def __init__(self, size: Amount, lent: dict[TenantName, Amount], used: dict[TenantName, Amount]) -> None:
        self._lent = lent
        self._common = size
        for amount in lent.values():
            self._common = self._common.minus(amount)
        self._used = dict(used)

    def fits(self, tenant: TenantName, need: Amount) -> bool:
        """Return whether one executor more of a tenant fits."""
        return self._common.covers(self._beyond(tenant, need))

    def ever_fits(self, tenant: TenantName, need: Amount) -> bool:
        """Return whether it would if there were no other executor."""
        return self._common.plus(self._lent.get(tenant, NOTHING)).covers(need)

    def used_of(self, tenant: TenantName) -> Amount:
        """Return how much is used of all that a tenant may use."""
        found = self._used.get(tenant, NOTHING)
        for name, used in self._used.items():
            if name != tenant:
                found = found.plus(used.minus(self._lent.get(name, NOTHING)).largest(NOTHING))
        return found

    def excess(self) -> Amount:
        """Return how much of each resource executors use beyond what there is."""
        return self._beyond(TenantName(""), NOTHING).minus(self._common).largest(NOTHING)

    def is_over(self) -> bool:
        """Return whether executors use more than there is."""
        return self.excess() != NOTHING

    def add(self, tenant: TenantName, need: Amount) -> None:
        """Count an executor that is started."""
        self._used[tenant] = self._used.get(tenant, NOTHING).plus(need)

    def remove(self, tenant: TenantName, need: Amount) -> None:
        """Count an executor no more."""
        self._used[tenant] = self._used.get(tenant, NOTHING).minus(need)

    def _beyond(self, tenant: TenantName, more: Amount) -> Amount:
        """Return what all tenants use of the common part, with so much more for one of them."""
        found = NOTHING
        for name in {**self._used, tenant: None}:
            used = self._used.get(name, NOTHING)
            if name == tenant:
                used = used.plus(more)
            found = found.plus(used.minus(self._lent.get(name, NOTHING)).largest(NOTHING))
        return found


def cores_of(need: Amount) -> Amount:
    """Return the part of its need that an executor holds with a call alone."""
    return Amount(0, need.cpu_milli, 0)


def held_idle(need: Amount) -> Amount:
    """Return the part of its need that an executor holds also without a call."""
    return need.minus(cores_of(need))
