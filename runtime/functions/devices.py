"""Which devices executors have: parts of the GPUs, and the cores, that services hold for functions on this machine.

The book says which (`FunctionBook`); the rules here are pure. An executor takes GPUs of its tenant's own holdings first, then of those
that are for all tenants. Cores are not allotted one by one: an executor may run on all cores that are for its tenant.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from core.messages.executors import BookRead, PlaceRead
from core.messages.harvest import NodeSize
from core.nouns.function import GpuPart, Holding, Place
from core.nouns.ids import TenantName
from core.nouns.instant import Instant
from core.nouns.quantities import MILLI, NOTHING, Amount
from core.nouns.workload import Serves
from core.routing.room import Room, cores_of
from runtime.tasks.book import ExecutorUse


class FunctionBook(Protocol):
    """The device book, as a function server uses it."""

    def holdings(self) -> tuple[Holding, ...]:
        """Return all holdings for functions, those that end included."""

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever holdings change, from now on; the newest one who asks is called."""

    def keep_harvested(self, revision: int, sizes: tuple[NodeSize, ...]) -> None:
        """Write down what is harvested, unless something newer is there. Raises OSError."""

    def note_executors(self, executors: tuple[ExecutorUse, ...]) -> None:
        """Write down the use of all executors: a holding that ends is free once no executor uses a part of it. Raises OSError."""

    def was_killed(self, pid: int, number: int) -> bool:
        """Return whether a worker has killed an executor of this process and number, because it was in the way of tasks."""

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
    place: Place = Place()

    @property
    def gpus(self) -> tuple[GpuPart, ...]:
        """Return the GPUs, each of them once."""
        milli: dict[int, int] = {}
        for part in self.parts:
            milli[part.index] = milli.get(part.index, 0) + part.milli
        return tuple(GpuPart(index, milli[index]) for index in sorted(milli))


def read(holdings: Iterable[Holding]) -> BookRead:
    """Return the size for functions of each place, and the parts that are lent to one tenant, of all holdings that do not end."""
    found: dict[Place, PlaceRead] = {}
    for one in holdings:
        if one.is_ending:
            continue
        known = found.get(one.place, PlaceRead(one.place, NOTHING))
        lent = dict(known.lent)
        if one.serves is Serves.OWN:
            lent[one.tenant] = lent.get(one.tenant, NOTHING).plus(one.amount)
        size = known.size.plus(one.amount)
        found[one.place] = PlaceRead(one.place, size, tuple(sorted(lent.items())), one.leaves_by, one.slows)
    return BookRead(tuple(found[place] for place in sorted(found)))


def at(holdings: Iterable[Holding], place: Place) -> list[Holding]:
    """Return the holdings of a place."""
    return [one for one in holdings if one.place == place]


def cpu_slots_for(holdings: Iterable[Holding], tenant: TenantName, place: Place) -> tuple[int, ...]:
    """Return the CPU slots of a place on which executors of a tenant may run; none: they are not held to any."""
    return tuple(sorted({slot for one in _open(at(holdings, place), tenant) for slot in one.cpu_slots}))


def cpus_of(slots: Iterable[int], usable: Sequence[int]) -> tuple[int, ...]:
    """Return the CPUs of slots, among those that this process may use; slots beyond them wrap around."""
    return tuple(sorted({usable[slot % len(usable)] for slot in slots}))


def parts_for(
    holdings: Iterable[Holding], uses: Iterable[Use], place: Place, tenant: TenantName, need: Amount
) -> tuple[HeldPart, ...] | None:
    """Return the parts of GPUs for one executor more on a place; None if there is no room beside those that use something now.

    An executor gets whole GPUs, and for a part of one the GPU that the part fills best.
    """
    uses, holdings = list(uses), at(holdings, place)
    if not _room(holdings, _on(uses, place)).fits(tenant, need):
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


def is_in_pieces(holdings: Iterable[Holding], place: Place, tenant: TenantName, need: Amount) -> bool:
    """Return whether a place suffices for an executor in all, but no executor could have it: it is on too many GPUs."""
    here = at(holdings, place)
    return _room(here, ()).ever_fits(tenant, need) and parts_for(here, (), place, tenant, need) is None


def beyond(holdings: Iterable[Holding], uses: Mapping[int, Use], now: Instant | None) -> list[int]:
    """Return the executors, of those named by number, that have to go now: those whose GPUs are held no more, then the newest beyond the size.

    now  harvested places have a time by which executors have to be gone, and have to let none go before; None: whatever that time
    """
    holdings = list(holdings)
    found: list[int] = []
    for place in {use.place for use in uses.values()}:
        here = at(holdings, place)
        if now is None or max((one.leaves_by for one in here), default=now) <= now:
            found += _beyond(here, {number: use for number, use in uses.items() if use.place == place})
    return sorted(found)


def _beyond(holdings: Sequence[Holding], uses: Mapping[int, Use]) -> list[int]:
    """Return the same for one place, whatever the time."""
    if all(one.is_ending or one.amount == NOTHING for one in holdings):
        return list(uses)
    if any(one.slows for one in holdings):
        uses = {number: replace(use, need=use.need.minus(cores_of(use.need))) for number, use in uses.items()}
    held = {(one.share, gpu.index) for one in holdings if not one.is_ending for gpu in one.gpus}
    gone = [
        number
        for number, use in uses.items()
        if any((part.share, part.index) not in held for part in use.parts)
    ]
    left = {number: use for number, use in uses.items() if number not in gone}
    room = _room(holdings, left.values())
    lent = _lent(holdings)
    used = _used((use.tenant, use.need) for use in left.values())
    for number in sorted(left, reverse=True):
        use = left[number]
        if not room.is_over():
            break
        if lent.get(use.tenant, NOTHING).covers(used[use.tenant]):
            continue  # All of the tenant's executors fit into the tenant's own part: to end one makes no room for others.
        room.remove(use.tenant, use.need)
        used[use.tenant] = used[use.tenant].minus(use.need)
        gone.append(number)
    return gone


def _open(holdings: Iterable[Holding], tenant: TenantName) -> Iterator[Holding]:
    """Yield the holdings that executors of a tenant may use, the tenant's own first."""
    usable = [one for one in holdings if not one.is_ending]
    yield from (one for one in usable if one.serves is Serves.OWN and one.tenant == tenant)
    yield from (one for one in usable if one.serves is Serves.ALL)


def _used(uses: Iterable[tuple[TenantName, Amount]]) -> dict[TenantName, Amount]:
    used: dict[TenantName, Amount] = {}
    for tenant, amount in uses:
        used[tenant] = used.get(tenant, NOTHING).plus(amount)
    return used


def _on(uses: Iterable[Use], place: Place) -> list[Use]:
    return [one for one in uses if one.place == place]


def room_of(holdings: Sequence[Holding], uses: Iterable[tuple[TenantName, Amount]]) -> Room:
    """Return the room of one place beside executors of these tenants, which use so much."""
    size = NOTHING
    for one in holdings:
        if not one.is_ending:
            size = size.plus(one.amount)
    return Room(size, _lent(holdings), _used(uses))


def _room(holdings: Sequence[Holding], uses: Iterable[Use]) -> Room:
    return room_of(holdings, ((one.tenant, one.need) for one in uses))


def _lent(holdings: Iterable[Holding]) -> dict[TenantName, Amount]:
    """Return the parts of one place that are lent to one tenant."""
    lent: dict[TenantName, Amount] = {}
    for one in holdings:
        if one.serves is Serves.OWN and not one.is_ending:
            lent[one.tenant] = lent.get(one.tenant, NOTHING).plus(one.amount)
    return lent


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
