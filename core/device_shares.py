"""Which device of its node a part of a GPU is on.

What counts is which parts share a device, and not which device of the machine that is: shared devices have numbers of their own,
and a worker finds a device for each. A task of whole devices takes free ones, of which nobody asks which. The same rule serves
the region's image, the store's re-check and an agent's arrays.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from core.nouns.quantities import MILLI


def part_of(gpu_milli: int) -> int:
    """What a task needs beside whole devices: a part of one more; 0: nothing."""
    return gpu_milli % MILLI


def device_for(free: Mapping[int, int], part: int) -> int:
    """The fullest shared device that still holds a part, the lowest number among equals; else the lowest that is not in use.

    free    milli free on each shared device
    """
    found = min(((room, device) for device, room in free.items() if room >= part), default=None)
    if found is not None:
        return found[1]
    return next(number for number in range(len(free) + 1) if number not in free)


class Leaving(Struct):
    """What will not be held on a node any more."""

    whole: int = 0
    parts: dict[int, int] = field(default_factory=dict)
    """Milli by shared device."""


class FreeDevices(Struct):
    """What is free on a node's devices."""

    whole: int
    """Devices of which nothing is held."""
    shared: dict[int, int]
    """Milli free on each device of which parts are held."""

    def after(self, leaving: Leaving) -> "FreeDevices":
        """Once that has left: a device that nobody shares any more is whole again."""
        whole, shared = self.whole + leaving.whole, dict(self.shared)
        for device, milli in leaving.parts.items():
            shared[device] = shared.get(device, 0) + milli
            if shared[device] >= MILLI:
                del shared[device]
                whole += 1
        return FreeDevices(whole, shared)

    def take(self, whole: int, parts: Iterable[int]) -> bool:
        """Whole devices, and then parts, the largest first; whether there was room for all of it."""
        self.whole -= whole
        for part in sorted(parts, reverse=True):
            device = device_for(self.shared, part)
            self.whole -= device not in self.shared
            self.shared[device] = self.shared.get(device, MILLI) - part
        return self.whole >= 0


def promise(
    room: FreeDevices, leaving: Leaving, whole: int, parts: Sequence[int]
) -> tuple[dict[int, int], int]:
    """What must be kept of a room so that this much fits once what is leaving has left. It is taken out of the room.

    returns   milli by shared device, and whole devices
    """
    after = room.after(leaving)
    emptied = sorted(room.shared.keys() - after.shared.keys())
    known = dict(after.shared)
    after.take(whole, parts)
    opened = whole + len(after.shared.keys() - known.keys())
    kept: dict[int, int] = {}
    for device, had in known.items():
        more = had - after.shared[device] - leaving.parts.get(device, 0)
        if more > 0:
            kept[device] = more
    opened -= leaving.whole
    for device in emptied[: max(0, opened)]:
        opened -= 1
        if room.shared[device]:
            kept[device] = room.shared[device]
    for device, milli in kept.items():
        room.shared[device] -= milli
    opened = max(0, opened)
    room.whole -= opened
    return kept, opened


# Without numbers: what a row of a node tells.


def fits(gpu_milli: int, shared: Sequence[int], wanted: int, parts: Sequence[int]) -> bool:
    """Whether a need fits: whole devices, and parts of devices.

    gpu_milli   available; `shared` of it on each device that is shared
    wanted      GPU milli in all; `parts` of it are parts of one device each
    """
    room = FreeDevices((gpu_milli - sum(shared)) // MILLI, dict(enumerate(shared)))
    return room.take((wanted - sum(parts)) // MILLI, parts)


def left_of(shared: Sequence[int], parts: Iterable[int]) -> tuple[int, ...]:
    """Milli free on each shared device once these parts are on them, ascending; full devices are left out."""
    room = FreeDevices(0, dict(enumerate(shared)))
    room.take(0, parts)
    return shared_in(room.shared)


def shared_in(free: Mapping[int, int]) -> tuple[int, ...]:
    """Milli free on shared devices, as a row tells them: ascending, without full ones."""
    return tuple(sorted(milli for milli in free.values() if milli > 0))
