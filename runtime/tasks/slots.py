"""Which devices a machine has, what it is as a node, and which devices and CPUs a task gets.

A slot is one device, or one CPU where work is for CPUs. The region decides how much of a node a task holds, and which parts share
a device; which slots these are is the worker's own affair, and nobody else needs to know.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog
from msgspec import Struct

from core.nouns.fleet import CPU_TYPE, UNNUMBERED, Inventory, NodeGroup
from core.nouns.ids import WorkerName
from core.nouns.quantities import MILLI, Amount

logger = structlog.get_logger()

CPU_SLOTS = 8

Slots = tuple[tuple[int, int], ...]
"""Which slots, and how many milli of each."""


class Device(Struct, frozen=True):
    """One GPU, or one CPU slot, which has no UUID."""

    uuid: str
    name: str
    memory_bytes: int = 0
    links: int = 0
    """Its NVLinks that are up."""


def find_devices(cpu_slots: int = CPU_SLOTS) -> tuple[Device, ...]:
    """The machine's GPUs in NVML's order, where there are any and the `gpu` extra is installed; else so many CPU slots."""
    return _gpus() or (Device("", CPU_TYPE),) * cpu_slots


def inventory_of_this_machine(
    worker: WorkerName,
    devices: Sequence[Device] | None = None,
    *,
    first: int = UNNUMBERED,
    rack: int = UNNUMBERED,
    zone: str = "zone-0",
    power_domain: str = "",
    pool: str = "training",
) -> Inventory:
    """This machine as the one node that a worker serves, numbered by its region unless it is told here."""
    found = find_devices() if devices is None else tuple(devices)
    total = Amount(len(found) * MILLI, (os.cpu_count() or 1) * MILLI, memory_bytes())
    node = NodeGroup(
        first,
        1,
        total,
        gpu_type_of(found),
        rack,
        1,
        zone,
        power_domain,
        pool,
        runs_programs=True,
        gpu_memory=min((device.memory_bytes for device in found), default=0),
        island=island_of(found),
    )
    return Inventory(worker, (node,))


def gpu_type_of(devices: Sequence[Device]) -> str:
    """What jobs call these devices, by the first of them: `H100` for an NVIDIA H100 80GB HBM3."""
    if not devices or not devices[0].uuid:
        return CPU_TYPE
    words = [word for word in re.split(r"[^A-Za-z0-9]+", devices[0].name) if word]
    while len(words) > 1 and words[0] in ("NVIDIA", "Tesla", "GeForce", "Quadro"):
        del words[0]
    is_family = len(words) > 1 and words[0] in ("GTX", "RTX")
    return "".join(words[:2]) if is_family else "".join(words[:1]) or "GPU"


def island_of(devices: Sequence[Device]) -> int:
    """How many of them NVLink joins: all where each has links, for who has them is wired to all others of the machine.

    0 where some have none, or there is only one: pairs joined by a bridge are not told from each other here.
    """
    return len(devices) if len(devices) > 1 and all(device.links for device in devices) else 0


def memory_bytes() -> int:
    """Of the machine, or of the container that this process is in, if that has less."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        limit = Path("/sys/fs/cgroup/memory.max").read_text()
        return min(total, int(limit))
    except (OSError, ValueError, AttributeError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


def allot(
    need_milli: int,
    used: Mapping[int, int],
    count: int | None,
    together: int | None = None,
    *,
    is_new: bool = False,
) -> Slots | None:
    """Slots for one task: whole ones, the lowest free; for a part of one, the slot of those whom it shares it with.

    need_milli  whole slots are multiples of 1000
    used        milli that others hold, by slot
    count       how many slots there are; None: as many as are asked for
    together    the slot in which others have their parts of the same shared device
    is_new      nobody has a part of its shared device yet: that is a free one. Where neither is said, it is the fullest slot
                that still holds the part
    returns     None when there is no room
    """
    whole, part = divmod(need_milli, MILLI)
    slots = range(count if count is not None else len(used) + whole + 1 + max(used, default=0))
    free = [slot for slot in slots if not used.get(slot)]
    taken = [(slot, MILLI) for slot in free[:whole]]
    if len(taken) < whole:
        return None
    if part:
        mine = slots if together is None else (together,)
        fitting = [slot for slot in mine if not is_new and 0 < used.get(slot, 0) <= MILLI - part]
        chosen = max(fitting, key=lambda slot: (used[slot], -slot), default=None)
        if chosen is None and together is None:
            chosen = next(iter(free[whole:]), None)
        if chosen is None:
            return None
        taken.append((chosen, part))
    return tuple(taken)


def cpus_of(slots: Slots) -> tuple[int, ...]:
    """The CPUs of CPU slots, among those that this process may use; slots beyond them wrap around."""
    if not hasattr(os, "sched_getaffinity"):
        return ()
    usable = sorted(os.sched_getaffinity(0))
    return tuple(sorted({usable[slot % len(usable)] for slot, _ in slots}))


def _gpus() -> tuple[Device, ...]:
    try:
        import pynvml  # the `gpu` extra
    except ImportError:
        return ()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()  # No driver: the machine has no GPU, or none that can be used.
    found = []
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                uuid, name = str(pynvml.nvmlDeviceGetUUID(handle)), str(pynvml.nvmlDeviceGetName(handle))
                memory = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
            except pynvml.NVMLError as error:  # One that fell off its bus leaves the others as they are.
                logger.warning("gpu_not_usable", index=index, error=str(error))
            else:
                found.append(Device(uuid, name, memory, _links(pynvml, handle)))
    finally:
        pynvml.nvmlShutdown()
    return tuple(found)


def _links(pynvml: Any, handle: Any) -> int:  # Any: the library has no types
    """NVLinks of a device that are up; none where it has no such thing."""
    up = 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            up += pynvml.nvmlDeviceGetNvLinkState(handle, link) == pynvml.NVML_FEATURE_ENABLED
        except pynvml.NVMLError:
            break
    return up
