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
        self._free = self._common
        """Of the common part; below 0 where executors use more than there is."""
        for tenant, amount in self._used.items():
            self._free = self._free.minus(self._beyond(tenant, amount))

    def fits(self, tenant: TenantName, need: Amount) -> bool:
        """Return whether one executor more of a tenant fits."""
        return self._free.covers(self._more(tenant, need))

    def ever_fits(self, tenant: TenantName, need: Amount) -> bool:
        """Return whether it would if there were no other executor."""
        return self._common.plus(self._lent.get(tenant, NOTHING)).covers(need)

    def used_of(self, tenant: TenantName) -> Amount:
        """Return how much is used of all that a tenant may use."""
        found = self._used.get(tenant, NOTHING)
        for name, used in self._used.items():
            if name != tenant:
                found = found.plus(self._beyond(name, used))
        return found

    def used_by_all(self) -> Amount:
        """Return how much executors of all tenants use."""
        found = NOTHING
        for amount in self._used.values():
            found = found.plus(amount)
        return found

    def excess(self) -> Amount:
        """Return how much of each resource executors use beyond what there is."""
        return NOTHING.minus(self._free).largest(NOTHING)

    def is_over(self) -> bool:
        """Return whether executors use more than there is."""
        return not self._free.covers(NOTHING)

    def add(self, tenant: TenantName, need: Amount) -> None:
        """Count an executor that is started."""
        self._free = self._free.minus(self._more(tenant, need))
        self._used[tenant] = self._used.get(tenant, NOTHING).plus(need)

    def remove(self, tenant: TenantName, need: Amount) -> None:
        """Count an executor no more."""
        self.add(tenant, NOTHING.minus(need))

    def _beyond(self, tenant: TenantName, used: Amount) -> Amount:
        """Return what a tenant uses of the common part."""
        lent = self._lent.get(tenant)
        return used if lent is None else used.minus(lent).largest(NOTHING)

    def _more(self, tenant: TenantName, need: Amount) -> Amount:
        """Return what a tenant uses more of the common part with so much more in all."""
        if tenant not in self._lent:
            return need
        used = self._used.get(tenant, NOTHING)
        return self._beyond(tenant, used.plus(need)).minus(self._beyond(tenant, used))


def cores_of(need: Amount) -> Amount:
    """Return the part of its need that an executor holds with a call alone."""
    return Amount(0, need.cpu_milli, 0)


def held_idle(need: Amount) -> Amount:
    """Return the part of its need that an executor holds also without a call."""
    return Amount(need.gpu_milli, 0, need.memory_bytes)
