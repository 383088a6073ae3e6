"""The witness: sees every fact as it becomes durable, checks it at once, and keeps the run's accounts.

It stands outside the plane: the plane's own auditor can be killed, and hears of facts late. What it folds is what the logs
hold, whatever the keepers believe.
"""

import math
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from components.auditor import Auditor
from core.component import Images
from core.events.queue import AttemptClosed, WorkloadCancelled, WorkloadSubmitted
from core.events.region import AttemptEnded, AwardDeclined, CheckpointCommitted, ClaimGranted, GangStarted
from core.fact import Fact
from core.images import GlobalImage, Image, RegionImage, empty_image
from core.invariants import Violation
from core.nouns.ids import LogName, RegionName, WorkloadId, region_of
from core.nouns.instant import SECOND, Instant
from core.nouns.limits import CLAIM_TRIES_MAX
from core.nouns.placement import needs_of
from core.nouns.quantities import MILLI
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Phase
from runtime.wiring import Plan

Attempt = tuple[RegionName, WorkloadId, int]


class Held(Struct):
    """An attempt that holds capacity."""

    gpus: float
    granted_at: float
    counts_from: float | None = None
    """Since when its work is not safe: its start, or the last checkpoint that counted."""
    useful: float = 0.0
    """Seconds whose work is safe."""


class Witness:
    """Sees facts. `sees` wants each log's in their order, and may take the logs in any."""

    def __init__(self, plan: Plan) -> None:
        self._auditor = Auditor(plan.region_names())
        self.logs: tuple[LogName, ...] = tuple(follow.log for follow in self._auditor.follows)
        empty = {log: (empty_image(log), 0) for log in self.logs}
        self.audit = self._auditor.initial(Images(Instant(0), None, empty))
        self.images: dict[LogName, Image] = {log: empty_image(log) for log in self.logs}
        """Each log as far as it was seen; the auditor's own wait for a consistent cut."""
        self.facts: Counter[LogName] = Counter()
        self.submitted_at: dict[WorkloadId, float] = {}
        self.start_seconds: dict[WorkloadId, float] = {}
        self.attempts: Counter[WorkloadId] = Counter()
        self.ended: dict[WorkloadId, Phase] = {}
        """How each workload ended; the images forget it after a day."""
        self.held_seconds = 0.0
        self.useful_seconds = 0.0
        self.lost_seconds: dict[str, float] = {}
        """GPU-seconds that ran and do not count, by the attempt's cause."""
        self.preemptions = 0
        self.claims = self.conflicts = 0
        self.known_before = 0
        """Workloads of a history from which the plane started."""
        self._held: dict[Attempt, Held] = {}

    @property
    def violations(self) -> list[Violation]:
        """Whatever was ever broken."""
        return self.audit.violations

    @property
    def queue(self) -> GlobalImage:
        """The queue's log, folded."""
        image = self.images[self.logs[0]]
        assert isinstance(image, GlobalImage), self.logs
        return image

    def region(self, region: RegionName) -> RegionImage:
        """A region's log, folded."""
        image = self.images[LogName(f"region.{region}")]
        assert isinstance(image, RegionImage), region
        return image

    def see(self, facts: Iterable[Fact], at: float | None = None) -> None:
        """These facts are durable, since `at` (seconds, from anywhere; none: since the times that they say)."""
        for fact in facts:
            seen_at = fact.at / SECOND if at is None else at
            self.facts[fact.log] += 1
            self._account(fact, seen_at)
            self.images[fact.log].fold(fact)
            self.audit = self._auditor.evolve(self.audit, fact)

    def _account(self, fact: Fact, at: float) -> None:
        match fact.event:
            case WorkloadSubmitted(workload=workload):
                self.submitted_at[workload] = at
            case ClaimGranted(workload=workload, epoch=epoch, claim=claim):
                self.attempts[workload] += 1
                self._count_claim(claim.claim)
                gpu_milli = sum(need.gpu_milli for need in needs_of(claim).values())
                self._held[region_of(fact.log), workload, epoch] = Held(gpu_milli / MILLI, at)
            case GangStarted(workload=workload, epoch=epoch):
                if workload in self.submitted_at:
                    self.start_seconds.setdefault(workload, at - self.submitted_at[workload])
                self._safe(region_of(fact.log), workload, epoch, at)
            case CheckpointCommitted(workload=workload, epoch=epoch):
                self._safe(region_of(fact.log), workload, epoch, at)
            case AttemptEnded(workload=workload, epoch=epoch, cause=cause):
                self._end((region_of(fact.log), workload, epoch), cause, at)
            case AttemptClosed(workload=workload, phase=phase) if phase.is_terminal:
                self.ended[workload] = phase
            case WorkloadCancelled(workload=workload):
                self.ended[workload] = Phase.CANCELLED
            case AwardDeclined(reason=Reason.CONFLICTS_EXHAUSTED):
                self.claims += CLAIM_TRIES_MAX
                self.conflicts += CLAIM_TRIES_MAX

    def _count_claim(self, claim: str) -> None:
        """A claim's id ends with the number of the try."""
        tries = int(claim.rpartition(".")[2])
        self.claims += tries
        self.conflicts += tries - 1

    def _safe(self, region: RegionName, workload: WorkloadId, epoch: int, at: float) -> None:
        held = self._held.get((region, workload, epoch))
        if held is None:
            return
        if held.counts_from is not None:
            held.useful += at - held.counts_from
        held.counts_from = at

    def _end(self, attempt: Attempt, cause: EndCause, at: float) -> None:
        held = self._held.pop(attempt, None)
        if held is None:
            return
        self.preemptions += cause == EndCause.PREEMPTED
        ran = 0.0 if held.counts_from is None else at - held.counts_from
        if cause == EndCause.COMPLETED:
            held.useful += ran
        else:
            self.lost_seconds[cause] = self.lost_seconds.get(cause, 0.0) + held.gpus * ran
        self.held_seconds += held.gpus * (at - held.granted_at)
        self.useful_seconds += held.gpus * held.useful

    def figures(self) -> dict[str, float]:
        """What it can say of a run (scenarios/expectations.py)."""
        phases = Counter(self.ended.values())
        ended = len(self.ended)
        starts = sorted(self.start_seconds.values())
        return {
            "submitted": float(self.queue.workloads.submitted),
            "completed": float(phases[Phase.COMPLETED]),
            "failed": float(phases[Phase.FAILED]),
            "cancelled": float(phases[Phase.CANCELLED]),
            "completed_share": phases[Phase.COMPLETED] / ended if ended else 0.0,
            "start_seconds_p50": percentile(starts, 0.5),
            "start_seconds_p90": percentile(starts, 0.9),
            "start_seconds_p99": percentile(starts, 0.99),
            "goodput_ratio": self.useful_seconds / self.held_seconds if self.held_seconds else 0.0,
            "gpu_seconds_held": self.held_seconds,
            "gpu_seconds_lost": sum(self.lost_seconds.values()),
            "attempts_per_workload": sum(self.attempts.values()) / max(1, len(self.attempts)),
            "preemptions": float(self.preemptions),
            "conflicts_share": self.conflicts / self.claims if self.claims else 0.0,
            "facts": float(sum(self.facts.values())),
        }


def percentile(ordered: list[float], share: float) -> float:
    """The smallest of which at least this share is not larger; 0 of nothing."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else 0.0
