"""The time that jobs of shared pools received, beside what they were to have, from the facts of the queue's log.

The image keeps lags alone, which forget. Here the whole time counts, of each job that is there: from the begin of the first round that found
it until now. Its target in a column is the share that it had as each round began; what it received is the time from when all of its tasks
ran (`WorkloadBound`) until its attempt was over (`AttemptClosed`).
"""

from collections.abc import Iterable

from msgspec import Struct, field

from core.events.queue import AttemptClosed, WorkloadBound, WorkloadCancelled, WorkloadSubmitted
from core.events.sharing import RoundBegun
from core.fact import Fact
from core.images import GlobalImage
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant
from core.nouns.sharing import WHOLE

NO_TARGETS: dict[str, int] = {}


class JobTime(Struct):
    """The time of one job that is there."""

    tenant: str
    kind: str
    """Its class."""
    gpus: int
    since: int = 0
    """The begin of its first round; 0: none has begun."""
    targets: dict[str, int] = field(default_factory=dict)
    """Millionths of its time, by column, since `targets_at`."""
    targets_at: int = 0
    due: dict[str, int] = field(default_factory=dict)
    """By column, nanoseconds times millionths that it was to have."""
    received: dict[str, int] = field(default_factory=dict)
    """Nanoseconds by column."""
    column: str = ""
    """Where all of its tasks run; empty: they do not."""
    counted_at: int = 0
    """Up to when its time there is counted."""

    def owe(self, targets: dict[str, int], at: int) -> None:
        """Go on by other targets."""
        if self.since and targets is not self.targets:
            self._count_due(at)
        if not self.since:
            self.since = self.counted_at = self.targets_at = at
        self.targets = targets

    def run(self, column: str, at: int) -> None:
        """Count from now on: all of its tasks run in a column."""
        self.stop(at)
        self.column, self.counted_at = column, at

    def stop(self, at: int) -> None:
        """Count what it received: its attempt is over."""
        if self.column and self.since:
            self.received[self.column] = self.received.get(self.column, 0) + at - self.counted_at
        self.column, self.counted_at = "", at

    def close(self, at: int) -> None:
        """Count everything up to now."""
        self._count_due(at)
        self.run(self.column, at)

    def _count_due(self, at: int) -> None:
        for column, share in self.targets.items():
            self.due[column] = self.due.get(column, 0) + share * (at - self.targets_at)
        self.targets_at = at


class Part(Struct, frozen=True):
    """What jobs were to have, and had: parts of their time, in which wide jobs count by their GPUs."""

    name: str
    jobs: int
    target: float
    received: float

    @property
    def fairness(self) -> float | None:
        """Return received over target; None without a target."""
        return self.received / self.target if self.target else None


class ReceivedTime:
    """Gathers the time of jobs from the facts of the queue's log, from its first on."""

    def __init__(self) -> None:
        self.jobs: dict[WorkloadId, JobTime] = {}
        """All that are there."""
        self._image = GlobalImage.empty(("sharing",))

    def take(self, fact: Fact) -> None:
        """Go on by one fact, in the order of the log."""
        sharing, event = self._image.sharing, fact.event
        self._image.fold(fact)
        match event:
            case WorkloadSubmitted(workload=workload, spec=spec):
                job = sharing.jobs.get(workload)
                if job is not None:
                    self.jobs[workload] = JobTime(spec.tenant, job.kind, sharing.classes[job.kind].gpus)
            case RoundBegun():
                for workload, one in self.jobs.items():
                    rests = sharing.jobs[workload].rests
                    one.owe(NO_TARGETS if rests else sharing.targets_of(workload), fact.at)
            case WorkloadBound(workload=workload):
                if workload in self.jobs and workload in sharing.picks:
                    self.jobs[workload].run(sharing.picks[workload].column, fact.at)
            case AttemptClosed(workload=workload) | WorkloadCancelled(workload=workload):
                if workload in self.jobs:
                    self.jobs[workload].stop(fact.at)
                    if workload not in sharing.jobs:
                        del self.jobs[workload]

    def until(self, now: Instant) -> dict[WorkloadId, JobTime]:
        """Return all jobs, with what goes on counted until now. No fact is taken after that."""
        for one in self.jobs.values():
            one.close(max(now, one.counted_at))
        return self.jobs


def parts_of(jobs: Iterable[tuple[str, JobTime]], now: Instant) -> list[Part]:
    """Return the target and the received part of each group of jobs that a round has found, by name."""
    groups: dict[str, list[JobTime]] = {}
    for name, one in jobs:
        if one.since and now > one.since:
            groups.setdefault(name, []).append(one)
    found = []
    for name, mine in sorted(groups.items()):
        whole = sum(one.gpus * (now - one.since) for one in mine)
        due = sum(one.gpus * sum(one.due.values()) for one in mine) / WHOLE
        had = sum(one.gpus * sum(one.received.values()) for one in mine)
        found.append(Part(name, len(mine), due / whole, had / whole))
    return found
