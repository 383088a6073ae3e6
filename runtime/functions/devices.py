"""Which devices executors have: parts of the GPUs, and the cores, that services hold for functions on this machine.

The book says which (`FunctionBook`); the rules here are pure. An executor takes GPUs of its tenant's own holdings first, then of those
that are for all tenants. Cores are not allotted one by one: an executor may run on all cores that are for its tenant.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from core.messages.executors import BookRead
from core.nouns.function import GpuPart, Holding
from core.nouns.ids import TenantName
from core.nouns.quantities import MILLI, NOTHING, Amount
from core.nouns.workload import Serves
from core.routing.room import Room


class ExecutorUse(Struct, frozen=True):
    """The part of this machine that one executor uses."""

    pid: int
    parent: int
    """The process that ends what the executor leaves when it dies."""
    tenant: TenantName
    gpus: tuple[GpuPart, ...]
    cpu_slots: tuple[int, ...]
    amount: Amount


class FunctionBook(Protocol):
    """The device book, as a function server uses it."""

    def holdings(self) -> tuple[Holding, ...]:
        """Return all holdings for functions, those that end included."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever holdings change, from now on; the newest one who asks is called."""

    def note_executors(self, executors: tuple[ExecutorUse, ...]) -> None:
        """Write down the use of all executors: a holding that ends is free once no executor uses a part of it. Raises OSError."""

    def noted(self) -> tuple[int, ...]:
        """Return the processes for which uses are noted, by whichever server, as long as they live."""


class HeldPart(Struct, frozen=True):
    """A part of a GPU that an executor has, and the holding from which it comes."""

    share: str
    index: int
    milli: int


class Use(Struct, frozen=True):
    """The capacity that one executor has."""

    tenant: TenantName
    need: Amount
    parts: tuple[HeldPart, ...] = ()

    @property
    def gpus(self) -> tuple[GpuPart, ...]:
        """Return the GPUs, each of them once."""
        milli: dict[int, int] = {}
        for part in self.parts:
            milli[part.index] = milli.get(part.index, 0) + part.milli
        return tuple(GpuPart(index, milli[index]) for index in sorted(milli))


def read(holdings: Iterable[Holding]) -> BookRead:
    """Return the size for functions, and the parts that are lent to one tenant, of all holdings that do not end."""
    size = NOTHING
    lent: dict[TenantName, Amount] = {}
    for one in holdings:
        if not one.is_ending:
            size = size.plus(one.amount)
            if one.serves is Serves.OWN:
                lent[one.tenant] = lent.get(one.tenant, NOTHING).plus(one.amount)
    return BookRead(size, tuple(sorted(lent.items())))


def cpu_slots_for(holdings: Iterable[Holding], tenant: TenantName) -> tuple[int, ...]:
    """Return the CPU slots on which executors of a tenant may run; none: they are not held to any."""
    return tuple(sorted({slot for one in _open(holdings, tenant) for slot in one.cpu_slots}))


def cpus_of(slots: Iterable[int], usable: Sequence[int]) -> tuple[int, ...]:
    """Return the CPUs of slots, among those that this process may use; slots beyond them wrap around."""
    return tuple(sorted({usable[slot % len(usable)] for slot in slots}))


def parts_for(
    holdings: Sequence[Holding], uses: Iterable[Use], tenant: TenantName, need: Amount
) -> tuple[HeldPart, ...] | None:
    """Return the parts of GPUs for one executor more; None if there is no room beside those that use something now.

    An executor gets whole GPUs, and for a part of one the GPU that the part fills best.
    """
    uses = list(uses)
    if not _room(holdings, uses).fits(tenant, need):
        return None
    if not any(one.gpus for one in holdings):
        return ()
    free = _free_parts(holdings, uses, tenant)
    own = {one.share for one in holdings if one.serves is Serves.OWN}
    whole, part = divmod(need.gpu_milli, MILLI)
    taken: list[HeldPart] = []
    for milli in [MILLI] * whole + ([part] if part else []):
        best = min(
            (_filling(index, parts, milli, own) for index, parts in free.items() if _sum(parts) >= milli),
            default=None,
        )
        if best is None:
            return None
        parts = _cut(free.pop(best[-1]), milli)
        taken += parts
    return tuple(taken)


def is_in_pieces(holdings: Sequence[Holding], tenant: TenantName, need: Amount) -> bool:
    """Return whether holdings suffice for an executor in all, but no executor could have it: it is on too many GPUs."""
    return _room(holdings, ()).ever_fits(tenant, need) and parts_for(holdings, (), tenant, need) is None


def beyond(holdings: Sequence[Holding], uses: Mapping[int, Use]) -> list[int]:
    """Return the executors, of those named by number, that have to go: those whose GPUs are held no more, then the newest beyond the size."""
    held = {(one.share, gpu.index) for one in holdings if not one.is_ending for gpu in one.gpus}
    gone = [
        number
        for number, use in uses.items()
        if any((part.share, part.index) not in held for part in use.parts)
    ]
    left = {number: use for number, use in uses.items() if number not in gone}
    room = _room(holdings, left.values())
    lent = dict(read(holdings).lent)
    used = _used(left.values())
    for number in sorted(left, reverse=True):
        use = left[number]
        if not room.is_over():
            break
        if lent.get(use.tenant, NOTHING).covers(used[use.tenant]):
            continue  # All of the tenant's executors fit into the tenant's own part: to end one makes no room for others.
        room.remove(use.tenant, use.need)
        used[use.tenant] = used[use.tenant].minus(use.need)
        gone.append(number)
    return sorted(gone)


def _open(holdings: Iterable[Holding], tenant: TenantName) -> Iterator[Holding]:
    """Yield the holdings that executors of a tenant may use, the tenant's own first."""
    usable = [one for one in holdings if not one.is_ending]
    yield from (one for one in usable if one.serves is Serves.OWN and one.tenant == tenant)
    yield from (one for one in usable if one.serves is Serves.ALL)


def _used(uses: Iterable[Use]) -> dict[TenantName, Amount]:
    used: dict[TenantName, Amount] = {}
    for use in uses:
        used[use.tenant] = used.get(use.tenant, NOTHING).plus(use.need)
    return used


def _room(holdings: Iterable[Holding], uses: Iterable[Use]) -> Room:
    book = read(holdings)
    return Room(book.size, dict(book.lent), _used(uses))


def _free_parts(
    holdings: Iterable[Holding], uses: Iterable[Use], tenant: TenantName
) -> dict[int, list[HeldPart]]:
    """Return the free parts of each GPU that a tenant may use, the tenant's own first.

    A GPU is never used twice: an executor that leaves a holding has its GPU until the executor is gone, whatever holdings say.
    """
    of_part: dict[tuple[str, int], int] = {}
    of_gpu: dict[int, int] = {}
    for part in (part for use in uses for part in use.parts):
        of_part[part.share, part.index] = of_part.get((part.share, part.index), 0) + part.milli
        of_gpu[part.index] = of_gpu.get(part.index, 0) + part.milli
    free: dict[int, list[HeldPart]] = {}
    for one in _open(holdings, tenant):
        for gpu in one.gpus:
            milli = gpu.milli - of_part.get((one.share, gpu.index), 0)
            free.setdefault(gpu.index, []).append(HeldPart(one.share, gpu.index, milli))
    return {index: _cut(parts, MILLI - of_gpu.get(index, 0)) for index, parts in free.items()}


def _filling(index: int, parts: Sequence[HeldPart], milli: int, own: set[str]) -> tuple[int, int, int]:
    """Return how good a GPU is for a part, the best first: much of it from own holdings, little of the GPU left over; and its number."""
    from_own = _sum(part for part in _cut(parts, milli) if part.share in own)
    return -from_own, _sum(parts) - milli, index


def _sum(parts: Iterable[HeldPart]) -> int:
    return sum(part.milli for part in parts)


def _cut(parts: Iterable[HeldPart], milli: int) -> list[HeldPart]:
    """Return the first parts, so many milli of them."""
    taken = []
    for part in parts:
        most = min(part.milli, milli)
        if most > 0:
            taken.append(HeldPart(part.share, part.index, most))
            milli -= most
    return taken
