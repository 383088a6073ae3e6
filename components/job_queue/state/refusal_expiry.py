"""Capacity that a region's log shows freed, and the refusals that expire when more is freed.

A refusal names the least capacity that must be freed before another request makes sense: GPUs, or CPUs for work without GPUs. For
work that runs on nodes without GPUs, CPUs freed on other nodes do not count: otherwise each end of a gang would bring a request.
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
"""More than a refusal can wait for."""


class Resource(StrEnum):
    """Sorts of freed capacity, in milli."""

    GPU = "gpu"
    CPU = "cpu"
    BARE_CPU = "bare_cpu"
    """CPUs of nodes without GPUs."""


class RefusalExpiry:
    """The freed capacity of one region, and its refusals."""

    def __init__(self) -> None:
        self.known_from = 0
        """Refusals on older views do not hold: the capacity freed since is unknown, or more than an amount changed."""
        self.hardware_from = 0
        """Refusals for lack of hardware on older views do not hold: nodes joined."""
        self._ledgers = {sort: _Ledger() for sort in Resource}

    def add(self, sequence: int, amounts: Mapping[Resource, int]) -> list[AskedShape]:
        """Add freed capacity; return the shapes whose refusals expire by that."""
        passed = [self._ledgers[sort].add(sequence, amount) for sort, amount in amounts.items()]
        return [shape for shapes in passed for shape in shapes]

    def hold(self, shape: AskedShape, view_sequence: int, sort: Resource, missing: int) -> bool:
        """Let a refusal hold from its view on; return False if enough was freed since, or may have been."""
        self.drop(shape)
        ledger = self._ledgers[sort]
        if view_sequence < max(self.known_from, ledger.known_from):
            return False
        before = next((total for sequence, total in ledger.history if sequence > view_sequence), ledger.total)
        if before + missing <= ledger.total:
            return False
        ledger.held.put(shape, Instant(before + missing))
        return True

    def drop(self, shape: AskedShape) -> None:
        """Forget the refusal of a shape."""
        for ledger in self._ledgers.values():
            ledger.held.drop(shape)


class _Ledger:
    """Freed capacity of one sort."""

    def __init__(self) -> None:
        self.known_from = 0
        self.total = 0
        self.history: deque[tuple[int, int]] = deque(maxlen=FREED_REMEMBERED_MAX)
        """Sequences, and the total freed before each."""
        self.held: Agenda[AskedShape] = Agenda()
        """Shapes, by the total at which their refusals expire."""

    def add(self, sequence: int, amount: int) -> list[AskedShape]:
        if len(self.history) == FREED_REMEMBERED_MAX:
            self.known_from = max(self.known_from, self.history[0][0])
        self.history.append((sequence, self.total))
        self.total += amount
        return self.held.passed(Instant(self.total), len(self.held))


def capacity_freed(
    event: AttemptEnded | AttemptRanked, image: RegionImage, jobs: Sequence[JobSpec]
) -> dict[Resource, int]:
    """Return the capacity that an attempt's end frees, or its new level makes preemptible: all that the attempt holds.

    Refusals count the shortage beyond all preemptible capacity, so a lower level is as good as an end.

    jobs   of the workload; empty if the queue has forgotten the workload

    At least 1 of each sort: a refusal without an amount waits for that, and an attempt may be in the way without holding any of the
    sort. If the amounts are unknown, they are `PLENTY`.
    """
    attempt = image.attempts.row(event.workload, event.epoch)
    if isinstance(event, AttemptEnded):
        found = _freed_by(event)
    elif attempt is not None and jobs:
        found = _held_by(jobs, attempt.spreads, image.hardware)
    else:
        found = dict.fromkeys(Resource, PLENTY)
    return {sort: max(1, amount) for sort, amount in found.items()}


def _freed_by(ended: AttemptEnded) -> dict[Resource, int]:
    """Return the amounts of an end. An earlier build's store does not tell CPUs."""
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
