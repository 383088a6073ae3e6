"""The fair share of each tenant in the GPUs in use, and each tenant's lag behind that share.

Lag is service due less service received, as in proportional-share scheduling; the service due is the weighted max-min share of
all GPUs in use, given the demand of every tenant. Over any time, the lags of all tenants, each times the tenant's weight, sum to
zero but for bounds and rounding. So an order by lag gives each tenant its fair share in the long run, regardless of the sizes
and lengths of the tenant's work.

source    Stoica et al., A Proportional Share Resource Allocation Algorithm, RTSS 1996 (lag); Bertsekas & Gallager, Data Networks
          (max-min flow control)
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from core.nouns.ids import TenantName
from core.nouns.instant import Nanoseconds
from core.nouns.quantities import MILLI


class Claimant(Struct, frozen=True):
    """One tenant's holdings, wants and entitlement of one GPU type, in GPU milli."""

    held: int
    wanted: int
    """The amount wanted besides `held`, as far as the tenant may hold more."""
    entitled: int

    @property
    def weight(self) -> int:
        """Return the entitlement, at least one GPU: idle GPUs are lent to tenants without an entitlement, too."""
        return max(MILLI, self.entitled)


class FairShare(Struct, frozen=True):
    """A tenant's fair share from a moment on, summed over GPU types."""

    gpu_milli: int
    weight: int
    """GPU milli of the tenant's whole entitlement, at least one GPU: the unit of lag."""


def max_min(capacity: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the weighted max-min shares of one resource.

    capacity  amount of the resource, >= 0
    wanted    by tenant, in the same unit, >= 0
    weights   by tenant, > 0
    returns   by tenant; the shares sum to the lesser of capacity and all that is wanted, and no tenant could have more without
              less for another tenant that has no more for its weight
    """
    shares = [0.0] * len(wanted)
    weight = float(sum(weights))
    for index in sorted(range(len(wanted)), key=lambda one: wanted[one] / weights[one]):
        shares[index] = min(wanted[index], capacity * weights[index] / weight)
        capacity -= shares[index]
        weight -= weights[index]
    return shares


def dues(
    types: Mapping[str, Mapping[TenantName, Claimant]], entitled: Mapping[TenantName, int]
) -> dict[TenantName, FairShare]:
    """Return the fair share of each tenant that holds more or less than that now.

    types     by GPU type, every tenant that holds or wants some
    entitled  GPU milli of all types by tenant, in use or not: otherwise, lag on a type with a small entitlement would count for as
              much time as lag on a type with a large one

    The lag of any other tenant stays unchanged. For each type, the GPUs in use are shared, and not all GPUs that exist: capacity
    into which no gang fits is no single tenant's loss.
    """
    due: dict[TenantName, int] = {}
    held: dict[TenantName, int] = {}
    for claimants in types.values():
        in_use = sum(one.held for one in claimants.values())
        wanted = [float(one.held + one.wanted) for one in claimants.values()]
        shares = max_min(float(in_use), wanted, [float(one.weight) for one in claimants.values()])
        for (name, one), share in zip(claimants.items(), shares, strict=True):
            due[name] = due.get(name, 0) + round(share)
            held[name] = held.get(name, 0) + one.held
    return {
        name: FairShare(due[name], max(MILLI, entitled.get(name, 0)))
        for name in sorted(due)
        if due[name] != held[name]
    }


def lag_after(lag: Nanoseconds, due: FairShare | None, held: int, span: int, cap: Nanoseconds) -> Nanoseconds:
    """Return a tenant's lag after a span, in nanoseconds of the tenant's whole entitlement.

    lag      lag before; negative: the tenant had more than its fair share
    due      the fair share; None: the tenant holds exactly that, and the lag stays unchanged
    held     GPU milli held during the span
    span     nanoseconds
    cap      the most that the lag may differ from 0
    """
    gained = 0 if due is None else (due.gpu_milli - held) * span // due.weight
    return Nanoseconds(max(-cap, min(cap, lag + gained)))
