"""What is due to each tenant of what there is now, and by how much it is behind that.

Lag is service due less service received, as in proportional-share scheduling; what is due is the weighted max-min share of all that
is in use, under what everybody wants of it. Over any time the lags of all tenants sum to nothing but for their bounds, so who
is ordered by it gets what was due to it in the long run, whatever sizes and lengths its work has.

source    Stoica et al., A Proportional Share Resource Allocation Algorithm, RTSS 1996 (lag); Bertsekas & Gallager, Data Networks
          (max-min flow control)
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from core.nouns.ids import TenantName
from core.nouns.instant import Nanoseconds
from core.nouns.quantities import MILLI


class Claimant(Struct, frozen=True):
    """What one tenant has to do with one GPU type. All in GPU milli."""

    held: int
    wanted: int
    """Besides what it holds, as far as it may have it."""
    entitled: int

    @property
    def weight(self) -> int:
        """Who is entitled to less than one GPU counts as if to one: what nobody else wants is lent to it, too."""
        return max(MILLI, self.entitled)


class FairShare(Struct, frozen=True):
    """What is due to one tenant from a moment on, of all types together."""

    gpu_milli: int
    weight: int
    """GPU milli that it is entitled to: in units of it lag is told."""


def max_min(capacity: float, wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Weighted max-min shares of one resource.

    capacity  of it, >= 0
    wanted    by tenant, in the same unit, >= 0
    weights   by tenant, > 0
    returns   by tenant; they sum to the lesser of capacity and all that is wanted, and no tenant could have more without another
              having less that has less already for its weight
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
    """What is due to each tenant that holds more or less than that now; all others have what they want.

    types     by GPU type, everybody who holds or wants some of it
    entitled  GPU milli of all types, whether or not it has to do with them now: else what it is behind of a type of which it is
              entitled to little would count as much time of one of which it is entitled to a lot

    Of each type what is in use is shared, and not what there is: what no gang fits into is nobody's loss alone.
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
    """By how much a tenant is behind what is due to it.

    lag      before, in nanoseconds of all that it is entitled to; less than 0: it had more than was due
    due      None: it has all that it wants, and lag stays what it is
    held     GPU milli in all that while
    span     nanoseconds
    cap      it is never further from 0
    """
    gained = 0 if due is None else (due.gpu_milli - held) * span // due.weight
    return Nanoseconds(max(-cap, min(cap, lag + gained)))
