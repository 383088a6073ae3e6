"""The accounts of a run: what each attempt held, what of its work counts, and how long workloads waited for their start.

The work of an emulated task is counted by its steps, which a slow device does more slowly; that of a program, of which
nobody knows how much there is, by the time for which it ran. Work counts once its workload has completed, or while it may.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator

from msgspec import Struct

from core.events.control import ClaimRevised
from core.events.copies import CopyFailed, CopyMade, CopyOrdered, DropMade
from core.events.moves import MoveEnded, MovePlanned
from core.events.prices import PricesSet
from core.events.queue import (
    AttemptClosed,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadSubmitted,
)
from core.events.region import (
    AttemptEnded,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
)
from core.fact import Event, Fact, Note
from core.nouns.ids import AttemptKey, RegionName, TenantName, WorkloadId, region_of
from core.nouns.instant import SECOND
from core.nouns.limits import CLAIM_TRIES_MAX
from core.nouns.placement import Claim, moved
from core.nouns.quantities import MILLI
from core.nouns.reasons import Reason
from core.nouns.workload import Consent, EndCause, Phase
from runtime.spool import STEP
from scenarios.accounting.stages import StagesReady


class AttemptAccount(Struct):
    """One attempt, from its grant on. Times are seconds as the witness was told of them."""

    region: RegionName
    epoch: int
    claim: Claim
    granted_at: float
    held_since: float = 0.0
    """Since when it holds as much as it does."""
    started_at: float | None = None
    ended_at: float | None = None
    cause: str = ""
    exit_code: int = 0
    saved_step: int = 0
    """Of its newest checkpoint that counts; 0: none."""
    counts_from: float | None = None
    """Since when its work is not safe: its start, or the last checkpoint that counted."""
    safe_seconds: float = 0.0
    """For which it ran until then."""
    is_guest: bool = False
    """It lies on its host's device, which counts as held once: by the host."""

    @property
    def gpus(self) -> float:
        """That it holds."""
        return sum(job.tasks * job.need.gpu_milli for job in self.claim.jobs) / MILLI

    def safe_work(self) -> float:
        """GPU-seconds of work that the next attempt need not do again."""
        has_completed, resumed = self.cause == EndCause.COMPLETED, self.claim.resume_step
        total = 0.0
        for job in self.claim.jobs:
            gpus = job.tasks * job.need.gpu_milli / MILLI
            if job.emulation is None:
                total += gpus * self.safe_seconds
                continue
            # Work that counts steps is as long as on its fastest type, wherever it ran.
            whole, steps = job.emulation.work, job.emulation.steps
            step = whole / steps if steps else STEP
            reached = whole if has_completed else min(whole, max(self.saved_step, resumed) * step)
            total += gpus * (reached - min(whole, resumed * step)) / SECOND
        return total

    def make_safe(self, at: float) -> None:
        """All that it did until now is safe."""
        if self.counts_from is not None:
            self.safe_seconds += at - self.counts_from
        self.counts_from = at


AWARD_WAIT_SECONDS = 5.0
"""An award of which its region shows nothing for longer has waited: for a cut, or for a process that was not there."""


class Accounting:
    """Told of each fact, in the order of its log."""

    def __init__(self) -> None:
        self.submitted_at: dict[WorkloadId, float] = {}
        self.ended: dict[WorkloadId, Phase] = {}
        """How each workload ended; the images forget it after a day."""
        self.ended_at: dict[WorkloadId, float] = {}
        self.attempts: dict[WorkloadId, list[AttemptAccount]] = {}
        """All that were ever granted, by workload."""
        self.lost_seconds: dict[str, float] = {}
        """GPU-seconds that ran and do not count, by the cause of the attempt's end."""
        self.start_seconds: dict[WorkloadId, float] = {}
        """How long each waited until all its ranks were up for the first time."""
        self._ready = StagesReady()
        self._guests: dict[AttemptKey, AttemptAccount] = {}
        """By host, the newest guest on its device."""
        self._held_seconds = 0.0
        self._useful_seconds = 0.0
        """Of workloads that have completed."""
        self._safe_seconds: dict[WorkloadId, float] = {}
        """Of workloads that have not ended."""
        self._preempted: Counter[WorkloadId] = Counter()
        self._whose: dict[WorkloadId, tuple[TenantName, int | None]] = {}
        """Its tenant, and the priority for which it was submitted."""
        self._claims = self._conflicts = 0
        self._copies: Counter[type[Event]] = Counter()
        """Facts about copies of data, by type."""
        self._prices = 0
        self._moves = self._moved = 0
        self._moving: dict[WorkloadId, RegionName] = {}
        self._tries_max = self._given_up = 0
        self._awarded: dict[AttemptKey, float] = {}
        """When awards were made of which no region has shown what became of them."""
        self._awards_waited = 0
        self._abandoned: Counter[Consent] = Counter()
        """Attempts that were given up with their region, by who agreed."""

    def take(self, fact: Fact, at: float) -> None:
        """A fact that became durable then."""
        self._take_award(fact.event, at)
        self._ready.take(fact, at)
        match fact.event:
            case WorkloadSubmitted(workload=workload, spec=spec):
                self.submitted_at[workload] = at
                self._whose[workload] = (spec.tenant, spec.priority)
            case ClaimGranted(workload=workload, epoch=epoch, claim=claim):
                self._count_claim(claim.claim)
                granted = AttemptAccount(region_of(fact.log), epoch, claim, at, held_since=at)
                if claim.beside is not None:
                    granted.is_guest = True
                    self._guests[claim.beside] = granted
                self.attempts.setdefault(workload, []).append(granted)
            case GangStarted(workload=workload, epoch=epoch):
                self._start(workload, at)
                for account in self._live(fact, workload, epoch):
                    account.started_at = at
                    account.make_safe(at)
            case ClaimRevised(workload=workload, epoch=epoch, moves=moves, revision=revision):
                for account in self._live(fact, workload, epoch):
                    if any(min(move.node_from, move.node_to) < 0 <= move.task for move in moves):
                        self._hold_until(account, at)
                        account.claim = moved(account.claim, moves, revision)
            case CheckpointCommitted(workload=workload, epoch=epoch, step=step):
                for account in self._live(fact, workload, epoch):
                    account.saved_step = step
                    account.make_safe(at)
            case AttemptEnded(workload=workload, epoch=epoch):
                for account in self._live(fact, workload, epoch):
                    self._end(account, fact.event, at)
                self._pass_on((workload, epoch), at)
            case AttemptClosed(workload=workload, phase=phase, cause=cause) if phase.is_terminal:
                self._close(workload, phase, cause, at)
            case WorkloadCancelled(workload=workload):
                self._close(workload, Phase.CANCELLED, EndCause.CANCELLED, at)
            case MovePlanned(workload=workload, region=region):
                self._moves += 1
                self._moving[workload] = region
            case MoveEnded(workload=workload):
                self._moving.pop(workload, None)
            case WorkloadBound(workload=workload, region=region) if region == self._moving.get(workload):
                self._moved += 1
                del self._moving[workload]
            case PricesSet():
                self._prices += 1
            case CopyOrdered() | CopyMade() | CopyFailed() | DropMade():
                self._copies[type(fact.event)] += 1
            case AwardDeclined(reason=Reason.CONFLICTS_EXHAUSTED, tries=tries):
                tries = tries or CLAIM_TRIES_MAX  # Earlier builds did not say.
                self._claims += tries
                self._conflicts += tries
                self._given_up += 1
                self._tries_max = max(self._tries_max, tries)

    def figures(self, at: float) -> dict[str, float]:
        """What it can say of a run that ends then (scenarios/schema/expectations.py)."""
        phases = Counter(self.ended.values())
        ended = len(self.ended)
        waits = self._waits(at, self.submitted_at)
        useful = self._useful_seconds + sum(self._safe_seconds.values())
        granted = sum(len(accounts) for accounts in self.attempts.values())
        return {
            "submitted": float(len(self.submitted_at)),
            "completed": float(phases[Phase.COMPLETED]),
            "failed": float(phases[Phase.FAILED]),
            "cancelled": float(phases[Phase.CANCELLED]),
            "completed_share": phases[Phase.COMPLETED] / ended if ended else 0.0,
            "p50_start_seconds": percentile(waits, 0.5),
            "p90_start_seconds": percentile(waits, 0.9),
            "p99_start_seconds": percentile(waits, 0.99),
            "goodput_ratio": useful / self._held_seconds if self._held_seconds else 0.0,
            "gpu_seconds_held": self._held_seconds,
            "gpu_seconds_lost": sum(self.lost_seconds.values()),
            "attempts_per_workload": granted / max(1, len(self.attempts)),
            "preemptions": float(self._preempted.total()),
            "conflicts_share": self._conflicts / self._claims if self._claims else 0.0,
            "prices": float(self._prices),
            "copies_ordered": float(self._copies[CopyOrdered]),
            "copies_made": float(self._copies[CopyMade]),
            "copies_failed": float(self._copies[CopyFailed]),
            "copies_dropped": float(self._copies[DropMade]),
            "moves": float(self._moves),
            "moved_share": self._moved / self._moves if self._moves else 0.0,
            "claim_tries_max": float(self._tries_max),
            "claims_given_up": float(self._given_up),
            "awards_waited": float(self._awards_waited),
            "given_up_by_operators": float(self._abandoned[Consent.OPERATOR]),
            "given_up_by_workloads": float(self._abandoned[Consent.WORKLOAD]),
        }

    def _take_award(self, event: Event | Note, at: float) -> None:
        """From an award until its region shows what became of it; and whether that was waited for at all."""
        match event:
            case WorkloadAwarded(workload=workload, epoch=epoch):
                self._awarded[workload, epoch] = at
            case ClaimGranted() | ClaimPromised() | AwardDeclined():
                awarded_at = self._awarded.pop((event.workload, event.epoch), at)
                self._awards_waited += at - awarded_at > AWARD_WAIT_SECONDS
            case AttemptClosed(workload=workload, epoch=epoch, consent=consent):
                self._awarded.pop((workload, epoch), None)
                self._abandoned[consent] += 1

    def works_of(self, tenant: TenantName, level: int | None) -> set[WorkloadId]:
        """A tenant's workloads, or those of them that it submitted at one priority."""
        return {
            workload
            for workload, (whose, priority) in self._whose.items()
            if whose == tenant and level in (None, priority)
        }

    def figures_of(self, only: set[WorkloadId], at: float) -> dict[str, float]:
        """What it can say of some workloads alone."""
        ended = [phase for workload, phase in self.ended.items() if workload in only]
        completed = ended.count(Phase.COMPLETED)
        waits = self._waits(at, only)
        attempts = [self.attempts[workload] for workload in sorted(only) if workload in self.attempts]
        held = sum(
            one.gpus * ((at if one.ended_at is None else one.ended_at) - one.granted_at)
            for accounts in attempts
            for one in accounts
        )
        return {
            "submitted": float(len(only)),
            "completed": float(completed),
            "completed_share": completed / len(ended) if ended else 0.0,
            "p50_start_seconds": percentile(waits, 0.5),
            "p90_start_seconds": percentile(waits, 0.9),
            "p99_start_seconds": percentile(waits, 0.99),
            "gpu_seconds_held": held,
            "preemptions": float(sum(self._preempted[workload] for workload in only)),
            "attempts_per_workload": sum(len(accounts) for accounts in attempts) / max(1, len(attempts)),
        }

    def _waits(self, at: float, only: Collection[WorkloadId]) -> list[float]:
        """How long each workload waited for its start, in order; who still waits, or ended without one, waits until the end.

        Who was cancelled first did not want it any more; were all of them, nothing can be said of how long one waits.
        """
        waits = sorted(
            self.start_seconds.get(workload, max(0.0, at - self._ready.at.get(workload, submitted_at)))
            for workload, submitted_at in self.submitted_at.items()
            if workload in only
            and (workload in self.start_seconds or self.ended.get(workload) != Phase.CANCELLED)
        )
        return waits or [math.inf] * bool(only)

    def _live(self, fact: Fact, workload: WorkloadId, epoch: int) -> Iterator[AttemptAccount]:
        """The account of an attempt that has not ended, if there is one."""
        for account in reversed(self.attempts.get(workload, [])):
            if (account.region, account.epoch) == (region_of(fact.log), epoch) and account.ended_at is None:
                yield account
                return

    def _count_claim(self, claim: str) -> None:
        """A claim's id ends with the number of the try."""
        tries = int(claim.rpartition(".")[2])
        self._claims += tries
        self._conflicts += tries - 1
        self._tries_max = max(self._tries_max, tries)

    def _start(self, workload: WorkloadId, at: float) -> None:
        if workload in self.submitted_at:
            since = self._ready.at.get(workload, self.submitted_at[workload])
            self.start_seconds.setdefault(workload, max(0.0, at - since))

    def _end(self, account: AttemptAccount, ended: AttemptEnded, at: float) -> None:
        self._preempted[account.claim.workload] += ended.cause == EndCause.PREEMPTED
        account.ended_at, account.cause, account.exit_code = at, ended.cause, ended.exit_code
        if ended.cause in (EndCause.COMPLETED, EndCause.TASK_FAILED):
            self._start(
                account.claim.workload, at
            )  # It may be over before anybody has recorded that it was up.
        if ended.cause == EndCause.COMPLETED:
            account.make_safe(at)
        elif account.counts_from is not None:
            self._lose(ended.cause, account.gpus * (at - account.counts_from))
        self._hold_until(account, at)
        workload = account.claim.workload
        self._safe_seconds[workload] = self._safe_seconds.get(workload, 0.0) + account.safe_work()

    def _pass_on(self, host: AttemptKey, at: float) -> None:
        """The device of an attempt that has ended is its guest's, if it has one."""
        guest = self._guests.pop(host, None)
        if guest is not None and guest.ended_at is None:
            guest.is_guest, guest.held_since = False, at

    def _hold_until(self, account: AttemptAccount, at: float) -> None:
        """It held as much as it does until now."""
        if not account.is_guest:
            self._held_seconds += account.gpus * (at - account.held_since)
        account.held_since = at

    def _close(self, workload: WorkloadId, phase: Phase, cause: EndCause, at: float) -> None:
        """What a workload had saved that has not completed is of use to nobody."""
        self.ended[workload], self.ended_at[workload] = phase, at
        safe = self._safe_seconds.pop(workload, 0.0)
        if phase == Phase.COMPLETED:
            self._useful_seconds += safe
        elif safe:
            self._lose(cause, safe)

    def _lose(self, cause: EndCause, gpu_seconds: float) -> None:
        self.lost_seconds[cause] = self.lost_seconds.get(cause, 0.0) + gpu_seconds


def percentile(ordered: list[float], share: float) -> float:
    """The smallest of which at least this share is not larger; 0 of nothing."""
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)] if ordered else 0.0
