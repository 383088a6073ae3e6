"""What promises reserve: what each needs on its nodes and its victims do not hold there, and on shared devices of each device."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from core.images.devices import part_of_task
from core.nouns.ids import AttemptKey
from core.nouns.placement import Claim, needs_of, parts_of
from core.nouns.quantities import MILLI, Amount
from core.rules.devices import Leaving, Room, promise

if TYPE_CHECKING:
    from core.images.capacity import Capacity, Columns


def reserve(capacity: "Capacity", nodes: tuple[int, ...], sequence: int = 0) -> None:
    """Work out anew what promises reserve on these nodes: what each needs there and its victims do not hold."""
    wanted = set(nodes)
    for node in nodes:
        capacity.changed[node] = max(capacity.changed[node], sequence)
        for columns in (capacity.gpu, capacity.cpu, capacity.memory):
            columns.reserved[node] = 0
        capacity.devices.promise_nothing(node)
    rooms: dict[int, Room] = {}
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


def leaving_of(capacity: "Capacity", victims: Iterable[AttemptKey]) -> dict[int, Leaving]:
    """By node that is not lost, what will not be held on its devices once these attempts have ended."""
    found: dict[int, Leaving] = {}
    for key in victims:
        held = capacity.holding(*key)
        if held is None:
            continue
        for job, spread in zip(held.claim.jobs, held.claim.spreads, strict=True):
            for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
                if not capacity.is_lost[node]:
                    found.setdefault(node, Leaving()).whole += job.need.gpu_milli // MILLI * tasks
        for task, (node, device) in held.parts.items():
            if not capacity.is_lost[node]:
                parts = found[node].parts
                parts[device] = parts.get(device, 0) + part_of_task(held.claim, task)
    return found


def _reserve_devices(capacity: "Capacity", claim: Claim, nodes: list[int], rooms: dict[int, Room]) -> None:
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


def _held_by_victims(capacity: "Capacity", claim: Claim) -> dict[int, Amount]:
    theirs: dict[int, Amount] = {}
    for workload, epoch in claim.victims:
        held = capacity.holding(workload, epoch)
        if held is not None:
            for node, amount in needs_of(held.claim).items():
                theirs[node] = theirs.get(node, Amount()).plus(amount)
    return theirs


def _each(capacity: "Capacity", amount: Amount) -> tuple[tuple["Columns", int], ...]:
    return (
        (capacity.gpu, amount.gpu_milli),
        (capacity.cpu, amount.cpu_milli),
        (capacity.memory, amount.memory_bytes),
    )
