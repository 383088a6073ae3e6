"""Figures of a burst from the logs of a plane: the rate at which work was bound, durability, and awards that passed other work.

Nothing else is read: the files are those that the keepers synced, and their chains are checked on the way.
"""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct, field

from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadSubmitted,
)
from core.events.region import AwardDeclined, ClaimGranted, GangStarted
from core.fact import Event, Fact, Note
from core.nouns.ids import GLOBAL_LOG, AttemptKey, RegionName, WorkloadId, region_log
from core.nouns.instant import SECOND
from core.nouns.workload import EndCause, WorkloadSpec
from store.sqlite import facts_in

Shape = tuple[int, int, int, int]
"""GPU milli, CPU milli and bytes of a task, and how many tasks there are."""


class Pending:
    """Workloads that wait, by shape and by rank: of one tenant, by level and then in the order of their submission."""

    def __init__(self) -> None:
        self._shape: dict[WorkloadId, Shape] = {}
        self._place: dict[WorkloadId, tuple[int, int]] = {}
        """By workload: 0 - level, and its submission's sequence."""
        self._returned: dict[WorkloadId, int] = {}
        """By workload whose award came to nothing, or that was pushed out: when, by the sequence of that."""
        self._waiting: dict[Shape, dict[int, dict[int, WorkloadId]]] = {}
        """By shape and level, by sequence: dictionaries keep the order in which they were filled, and the first waits longest."""

    def submit(self, workload: WorkloadId, spec: WorkloadSpec, sequence: int) -> None:
        """It waits from now on."""
        (job,) = spec.jobs
        need = job.need
        self._shape[workload] = need.gpu_milli, need.cpu_milli, need.memory_bytes, job.tasks
        self._place[workload] = -(spec.priority or 0), sequence
        self.put(workload)

    def give_back(self, workload: WorkloadId, sequence: int) -> None:
        """Record that a workload waits again: a region declined the award, or the attempt was preempted."""
        self._returned[workload] = sequence
        self.put(workload)

    def put(self, workload: WorkloadId) -> None:
        """It waits, again perhaps."""
        level, sequence = self._place[workload]
        waiting = self._waiting.setdefault(self._shape[workload], {}).setdefault(level, {})
        if waiting and next(reversed(waiting)) > sequence:
            waiting[sequence] = workload
            ordered = sorted(waiting.items())
            waiting.clear()
            waiting.update(ordered)
        waiting[sequence] = workload

    def drop(self, workload: WorkloadId) -> None:
        """It does not wait any more. No harm if it did not."""
        level, sequence = self._place[workload]
        self._waiting[self._shape[workload]].get(level, {}).pop(sequence, None)

    def is_passed(self, workload: WorkloadId, awarded: int) -> bool:
        """Return whether a workload of higher rank waits that wants the same or less, and has not only waited since this award.

        awarded   the sequence of that
        """
        mine, place = self._shape[workload], self._place[workload]
        for shape, levels in self._waiting.items():
            if all(one <= other for one, other in zip(shape, mine, strict=True)):
                for level, waiting in levels.items():
                    held = (
                        sequence
                        for sequence, other in waiting.items()
                        if self._returned.get(other, 0) <= awarded
                    )
                    first = next(held, None)
                    if first is not None and (level, first) < place:
                        return True
        return False


class Told(Struct):
    """What the logs tell."""

    submitted: int = 0
    numbers: dict[WorkloadId, int] = field(default_factory=dict)
    """By workload, how many were submitted before."""
    first_award: int = 0
    last_bound: int = 0
    held: dict[WorkloadId, None] = field(default_factory=dict)
    """Workloads that are bound at the end of the log."""
    bound: dict[AttemptKey, None] = field(default_factory=dict)
    """Attempts that were bound at some time."""
    inversions: int = 0
    """Workloads that were awarded or bound while a workload of higher rank waited that wants the same or less. Refusals are in no log and
    excuse none of them, but an award or a start that came to nothing after this award does."""
    returned: int = 0
    """Awards that a region declined, and attempts that ended for another reason than preemption."""
    preempted: int = 0
    """Attempts that were preempted."""
    granted: dict[AttemptKey, int] = field(default_factory=dict)
    started: dict[AttemptKey, int] = field(default_factory=dict)
    declined: int = 0
    waits: list[int] = field(default_factory=list)
    """From the award to the binding, nanoseconds."""

    @property
    def seconds(self) -> float:
        """From the first award to the last binding."""
        return (self.last_bound - self.first_award) / SECOND

    @property
    def lacking(self) -> int:
        """Attempts bound by the queue that their region's log does not show granted and started, once each."""
        return sum((self.granted.get(one), self.started.get(one)) != (1, 1) for one in self.bound)


def told_by(directory: Path, regions: Iterable[RegionName]) -> Told:
    """Every fact of a plane's logs."""
    told = told_by_queue(facts_in(directory, GLOBAL_LOG))
    for region in regions:
        add_region(told, facts_in(directory, region_log(region)))
    return told


def add_region(told: Told, facts: Iterable[Fact]) -> None:
    """What a region's log tells beside."""
    for fact in facts:
        match fact.event:
            case ClaimGranted(workload=workload, epoch=epoch):
                told.granted[workload, epoch] = told.granted.get((workload, epoch), 0) + 1
            case GangStarted(workload=workload, epoch=epoch):
                told.started[workload, epoch] = told.started.get((workload, epoch), 0) + 1
            case AwardDeclined():
                told.declined += 1


def hold(held: dict[WorkloadId, None], event: Event | Note) -> None:
    """Who is bound after this event of the global log."""
    match event:
        case WorkloadBound(workload=workload):
            held[workload] = None
        case AttemptClosed(workload=workload):
            held.pop(workload, None)


def told_by_queue(facts: Iterable[Fact]) -> Told:
    """What the facts of the global log tell, all but what the regions granted and started."""
    told, pending = Told(), Pending()
    awarded: dict[WorkloadId, Fact] = {}
    passed: dict[WorkloadId, None] = {}
    for fact in facts:
        _global(fact, told, pending, awarded, passed)
        hold(told.held, fact.event)
    told.inversions = len(passed)
    return told


def _global(
    fact: Fact,
    told: Told,
    pending: Pending,
    awarded: dict[WorkloadId, Fact],
    passed: dict[WorkloadId, None],
) -> None:
    match fact.event:
        case WorkloadSubmitted(workload=workload, spec=spec):
            told.numbers[workload] = told.submitted
            told.submitted += 1
            pending.submit(workload, spec, fact.sequence)
        case WorkloadAwarded(workload=workload):
            told.first_award = told.first_award or fact.at
            awarded[workload] = fact
            pending.drop(workload)
            if pending.is_passed(workload, fact.sequence):
                passed[workload] = None
        case WorkloadBound(workload=workload, epoch=epoch):
            told.bound[workload, epoch] = None
            told.last_bound = fact.at
            told.waits.append(fact.at - awarded[workload].at)
            if pending.is_passed(workload, awarded[workload].sequence):
                passed[workload] = None
        case AwardReturned(workload=workload):
            told.returned += 1
            pending.give_back(workload, fact.sequence)
        case AttemptClosed(workload=workload, cause=cause, phase=phase):
            if cause is EndCause.PREEMPTED:
                told.preempted += 1
            else:
                told.returned += 1
            if not phase.is_terminal:
                pending.give_back(workload, fact.sequence)
