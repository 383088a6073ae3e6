"""What promises reserve: what each needs on its nodes and its victims do not hold there, and on shared devices of each device."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from core.device_shares import FreeDevices, Leaving, promise
from core.images.devices import SharedDevices, part_of_task
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.placement import Claim, need_of, needs_of, parts_of
from core.nouns.quantities import MILLI, Amount


class Held(Protocol):
    """A granted attempt, as far as its victims' end frees capacity."""

    claim: Claim
    parts: dict[int, tuple[int, int]]


class Resource(Protocol):
    """One resource over all nodes, by node number."""

    reserved: list[int]


class Reserving(Protocol):
    """What `reserve` reads and changes of a region's capacity (core/images/capacity.py)."""

    @property
    def gpu(self) -> Resource: ...
    @property
    def cpu(self) -> Resource: ...
    @property
    def memory(self) -> Resource: ...
    @property
    def devices(self) -> SharedDevices: ...
    @property
    def changed(self) -> list[int]: ...
    @property
    def is_lost(self) -> Sequence[bool]: ...
    @property
    def promises(self) -> Mapping[WorkloadId, Mapping[int, Claim]]: ...

    def holding(self, workload: WorkloadId, epoch: int) -> Held | None:
        """Return what a live attempt holds."""

    def devices_if_kept(self, node: int) -> FreeDevices:
        """Return what is free on a node's devices if every promise is kept."""


def reserve(capacity: Reserving, nodes: tuple[int, ...], sequence: int = 0) -> None:
    """Work out anew what promises reserve on these nodes: what each needs there and its victims do not hold."""
    wanted = set(nodes)
    for node in nodes:
        capacity.changed[node] = max(capacity.changed[node], sequence)
        for columns in (capacity.gpu, capacity.cpu, capacity.memory):
            columns.reserved[node] = 0
        capacity.devices.promise_nothing(node)
    rooms: dict[int, FreeDevices] = {}
    mine = [
        claim
        for epochs in capacity.promises.values()
        for claim in epochs.values()
        if not all(wanted.isdisjoint(spread.nodes) for spread in claim.spreads)
    ]
    with_parts = {node for claim in mine for node in parts_of(claim)}
    shared = {node for node in wanted if node in with_parts or node in capacity.devices.by_node}
    for claim in mine:
        theirs = _held_by_victims(capacity, claim)
        needs = needs_of(claim)
        for node, need in needs.items():
            if node in wanted:
                left = need.minus(theirs.get(node, Amount()))
                for columns, amount in _each(capacity, left):
                    if columns is not capacity.gpu or node not in shared:
                        columns.reserved[node] += max(0, amount)
        _reserve_devices(capacity, claim, sorted(needs.keys() & shared), rooms)


def leaving_of(capacity: Reserving, victims: Iterable[AttemptKey]) -> dict[int, Leaving]:
    """By node that is not lost, what will not be held on its devices once these attempts have ended."""
    found: dict[int, Leaving] = {}
    for key in victims:
        held = capacity.holding(*key)
        if held is None:
            continue
        for job, spread in zip(held.claim.jobs, held.claim.spreads, strict=True):
            for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
                if not capacity.is_lost[node]:
                    mine = need_of(held.claim, job).gpu_milli
                    found.setdefault(node, Leaving()).whole += mine // MILLI * tasks
        for task, (node, device) in held.parts.items():
            if not capacity.is_lost[node]:
                parts = found[node].parts
                parts[device] = parts.get(device, 0) + part_of_task(held.claim, task)
    return found


def _reserve_devices(
    capacity: Reserving, claim: Claim, nodes: list[int], rooms: dict[int, FreeDevices]
) -> None:
    """Where parts are held or promised, GPUs are reserved device by device, as they lie after its victims' end.

    rooms   by node, what is left beside the promises before this one
    """
    left = leaving_of(capacity, claim.victims) if nodes else {}
    parts, needs = parts_of(claim), needs_of(claim)
    for node in nodes:
        mine = parts.get(node, [])
        whole = (needs[node].gpu_milli - sum(mine)) // MILLI
        if node not in rooms:
            rooms[node] = capacity.devices_if_kept(node)
        kept, opened = promise(rooms[node], left.get(node, Leaving()), whole, mine)
        capacity.devices.promise(node, kept)
        capacity.gpu.reserved[node] += sum(kept.values()) + opened * MILLI


def _held_by_victims(capacity: Reserving, claim: Claim) -> dict[int, Amount]:
    theirs: dict[int, Amount] = {}
    for workload, epoch in claim.victims:
        held = capacity.holding(workload, epoch)
        if held is not None:
            for node, amount in needs_of(held.claim).items():
                theirs[node] = theirs.get(node, Amount()).plus(amount)
    return theirs


def _each(capacity: Reserving, amount: Amount) -> tuple[tuple[Resource, int], ...]:
    return (
        (capacity.gpu, amount.gpu_milli),
        (capacity.cpu, amount.cpu_milli),
        (capacity.memory, amount.memory_bytes),
    )
