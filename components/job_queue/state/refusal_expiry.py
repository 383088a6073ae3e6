"""How much a region's log shows freed, and which refusals wait for how much more of what.

A refusal says how much must come free at least before it could pass: GPUs, or CPUs of work that wants no GPUs. Where all of that lies
on nodes without GPUs, what comes free on others is of no use to it: it would be asked for again each time a gang ends.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum

from components.job_queue.state.asked_shape import AskedShape
from core.agenda import Agenda
from core.events.region import AttemptEnded, AttemptRanked
from core.images.region import Hardware, RegionImage
from core.nouns.fleet import CPU_TYPE, gpu_type_of
from core.nouns.instant import Instant
from core.nouns.limits import FREED_REMEMBERED_MAX
from core.nouns.placement import Spread
from core.nouns.workload import JobSpec

PLENTY = 1 << 62
"""More than any refusal waits for."""


class Resource(StrEnum):
    """What comes free, in milli."""

    GPU = "gpu"
    CPU = "cpu"
    BARE_CPU = "bare_cpu"
    """CPUs of nodes without GPUs."""


class RefusalExpiry:
    """Of one region."""

    def __init__(self) -> None:
        self.known_from = 0
        """A refusal on an older view does not hold: what was freed since is not known, or more than an amount changed."""
        self.hardware_from = 0
        """Nor does one for lack of hardware on a view older than this: nodes joined."""
        self._ledgers = {room: _Ledger() for room in Resource}

    def add(self, sequence: int, amounts: Mapping[Resource, int]) -> list[AskedShape]:
        """So much more was freed; the shapes whose refusals pass by it."""
        passed = [self._ledgers[room].add(sequence, amount) for room, amount in amounts.items()]
        return [shape for shapes in passed for shape in shapes]

    def hold(self, shape: AskedShape, view_sequence: int, room: Resource, missing: int) -> bool:
        """Let a refusal hold from the view on which it was said; False when enough was freed since, or could have been."""
        self.drop(shape)
        ledger = self._ledgers[room]
        if view_sequence < max(self.known_from, ledger.known_from):
            return False
        before = next((total for sequence, total in ledger.history if sequence > view_sequence), ledger.total)
        if before + missing <= ledger.total:
            return False
        ledger.held.put(shape, Instant(before + missing))
        return True

    def drop(self, shape: AskedShape) -> None:
        """Its refusal waits for nothing any more."""
        for ledger in self._ledgers.values():
            ledger.held.drop(shape)


class _Ledger:
    """Of one sort of room."""

    def __init__(self) -> None:
        self.known_from = 0
        self.total = 0
        self.history: deque[tuple[int, int]] = deque(maxlen=FREED_REMEMBERED_MAX)
        """Sequences, and the total before each."""
        self.held: Agenda[AskedShape] = Agenda()
        """Shapes, by the total at which their refusal passes."""

    def add(self, sequence: int, amount: int) -> list[AskedShape]:
        if len(self.history) == FREED_REMEMBERED_MAX:
            self.known_from = max(self.known_from, self.history[0][0])
        self.history.append((sequence, self.total))
        self.total += amount
        return self.held.passed(Instant(self.total), len(self.held))


def capacity_freed(
    event: AttemptEnded | AttemptRanked, image: RegionImage, jobs: Sequence[JobSpec]
) -> dict[Resource, int]:
    """By an end, or by another level: then all that an attempt holds, for whoever may push it out by now. Refusals count what is missing
    beyond that, so to them it is as good as freed.

    jobs   of its workload; none if nobody knows it any more

    At least 1 of each: a refusal of which nothing better is known waits for that, and whoever held nothing of it may have been in the
    way. Where it is not known what it holds, it is all that is waited for.
    """
    attempt = image.attempts.row(event.workload, event.epoch)
    if isinstance(event, AttemptEnded):
        found = _freed_by(event)
    elif attempt is not None and jobs:
        found = _held_by(jobs, attempt.spreads, image.hardware)
    else:
        found = dict.fromkeys(Resource, PLENTY)
    return {room: max(1, amount) for room, amount in found.items()}


def _freed_by(ended: AttemptEnded) -> dict[Resource, int]:
    """An earlier build's store does not say what CPUs it frees."""
    cpu = PLENTY if ended.cpu_milli is None else ended.cpu_milli
    bare_cpu = PLENTY if ended.bare_cpu_milli is None else ended.bare_cpu_milli
    return {Resource.GPU: ended.gpu_milli, Resource.CPU: cpu, Resource.BARE_CPU: bare_cpu}


def _held_by(jobs: Sequence[JobSpec], spreads: Sequence[Spread], hardware: Hardware) -> dict[Resource, int]:
    found = dict.fromkeys(Resource, 0)
    for job, spread in zip(jobs, spreads, strict=True):
        for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
            found[Resource.GPU] += job.need.gpu_milli * tasks
            found[Resource.CPU] += job.need.cpu_milli * tasks
            if gpu_type_of(hardware.type_of(node))[0] == CPU_TYPE:
                found[Resource.BARE_CPU] += job.need.cpu_milli * tasks
    return found
