"""Figures of rounds on the plane, folded from its logs: leases, pauses, GPUs that stay empty, and facts about jobs that stay.

A *turn* begins when a job is picked for a column, and ends when the job leaves the column or ends. The plane stops a job and starts
another within a turn's first seconds; a turn has *started* once all tasks of the job run there.
"""

from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from core.events.queue import (
    AttemptClosed,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadSubmitted,
)
from core.events.region import AttemptEnded, CheckpointCommitted, ClaimGranted, GangStarted
from core.events.sharing import PicksAdded, RoundBegun
from core.fact import Event, Fact
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND
from core.nouns.workload import EndCause, Kind
from core.sharing.classes import gpus_of

SAVES_EARLY = 0.99
"""A checkpoint before this part of the span between checkpoints was not the job's own idea."""


class Turn(Struct):
    """A job picked for a column."""

    column: str
    picked_at: int
    is_of_round: bool
    """Whether a round began with it; else idle GPUs were given away within one."""
    stop_span: int
    """Of whoever is told to leave so that it can start; 0: nobody is."""
    epoch: int = 0
    """Of its newest attempt; 0: it has none yet."""
    started_at: int = 0


class SharedWork(Struct):
    """What a job of a shared pool has had so far."""

    gpus: int
    submitted_at: int
    stop_span: int
    set_up: int
    save_span: int
    starts: int = 0
    moves: int = 0
    saved_at: int = 0
    ended_at: int = 0
    turn: Turn | None = None


class Turns:
    """Folds facts, those of each log in their order. Times in it are nanoseconds of the logs, figures are seconds."""

    def __init__(self, gpus: dict[str, int], round_span: int) -> None:
        """Of a pool: its GPUs by name of a column."""
        self.gpus = gpus
        self.round_span = round_span
        self.jobs: dict[WorkloadId, SharedWork] = {}
        self.pauses: list[float] = []
        """Of each start after a job's first: from the pick until it makes steps again."""
        self.first_starts: list[float] = []
        """The same of first starts."""
        self.beyond: list[float] = []
        """Of each pick with which a round began: from the order until its GPUs are used, less what the job that leaves takes to stop.
        A pick that has not started when the next round begins counts with the whole round."""
        self.leases = self.extended = self.rounds = 0
        self.round_facts = 0
        """Facts about jobs that stay, which their own work does not explain."""
        self.round_facts_by_kind: Counter[str] = Counter()
        self.empty_gpu_rounds = self.gpu_rounds = 0.0
        self._held_gpu_ns = 0
        self._now = 0
        self._held: dict[tuple[WorkloadId, int], tuple[str, int, int]] = {}
        """By attempt, its column, GPUs, and since when."""
        self._busy: Counter[str] = Counter()
        self._peak: Counter[str] = Counter()
        self._round_at = 0
        self._stays: frozenset[WorkloadId] = frozenset()
        self._takes: dict[type, Callable[[Fact], None]] = {
            WorkloadSubmitted: self._submitted,
            WorkloadAwarded: self._awarded,
            RoundBegun: self._round_begun,
            PicksAdded: self._picks_added,
            AttemptClosed: self._closed,
            WorkloadCancelled: self._cancelled,
            ClaimGranted: self._granted,
            GangStarted: self._started,
            CheckpointCommitted: self._saved,
            AttemptEnded: self._ended,
        }

    def take(self, fact: Fact) -> None:
        """Fold a fact."""
        event, self._now = fact.event, fact.at
        assert isinstance(event, Event)
        if event.about in self._stays and not self._is_explained(fact):
            self.round_facts += 1
            self.round_facts_by_kind[type(event).__name__] += 1
        take = self._takes.get(type(event))
        if take is not None:
            take(fact)

    def held_gpu_ns(self) -> int:
        """Return the GPU-nanoseconds that attempts held so far, up to the newest fact."""
        running = sum(gpus * (self._now - since) for _, gpus, since in self._held.values())
        return self._held_gpu_ns + running

    def figures(self) -> dict[str, float]:
        """Return the figures; times of no turn are 0."""
        done = [job for job in self.jobs.values() if job.ended_at]
        hours = [(job.ended_at - job.submitted_at) / SECOND / 3_600 for job in done]
        return {
            "jct_hours": sum(hours) / len(hours) if hours else 0.0,
            "jct_p99_hours": percentile(hours, 0.99),
            "completed": float(len(done)),
            "moves": float(sum(job.moves for job in self.jobs.values())),
            "pause_mean_seconds": sum(self.pauses) / len(self.pauses) if self.pauses else 0.0,
            "pause_p95_seconds": percentile(self.pauses, 0.95),
            "first_start_p95_seconds": percentile(self.first_starts, 0.95),
            "switch_p95_seconds": percentile(self.beyond, 0.95),
            "switch_max_seconds": max(self.beyond, default=0.0),
            "switches": float(len(self.beyond)),
            "rounds": float(self.rounds),
            "leases": float(self.leases),
            "lease_share": self.extended / self.leases if self.leases else 1.0,
            "facts_per_lease": self.round_facts / max(1, self.extended),
            "empty_share": self.empty_gpu_rounds / max(1.0, self.gpu_rounds),
        }

    def _submitted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadSubmitted)
        spec = event.spec
        if spec.kind is not Kind.SHARED:
            return
        (job,) = spec.jobs
        emulation = job.emulation
        assert emulation is not None, event.workload
        self.jobs[event.workload] = SharedWork(
            gpus_of(spec), fact.at, emulation.stop_span, emulation.set_up, emulation.checkpoint_every
        )

    def _round_begun(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, RoundBegun)
        self._end_round(fact.at)
        picked = {name: job for name, job in self.jobs.items() if job.turn is not None}
        running = [name for name, job in picked.items() if job.turn is not None and job.turn.started_at]
        leaves = frozenset(event.leaves)
        stays = [name for name in running if name not in leaves]
        self.leases += len(running)
        self.extended += len(stays)
        self.rounds += 1
        slowest: Counter[str] = Counter()
        for name in event.leaves:
            job = self.jobs[name]
            if job.turn is not None:
                slowest[job.turn.column] = max(slowest[job.turn.column], job.stop_span)
        own = {name: self.jobs[name].stop_span for name in leaves}
        for name, job in picked.items():
            turn = job.turn
            if turn is not None and not turn.started_at and turn.is_of_round and turn.picked_at < fact.at:
                self._late(turn, fact.at)
            if name in leaves:
                job.turn = None
        for name, column in event.joins.items():
            to = event.columns[column].name
            self.jobs[name].turn = Turn(
                to, fact.at, is_of_round=True, stop_span=max(slowest[to], own.get(name, 0))
            )
        self._stays = frozenset(stays)
        self._round_at = fact.at

    def _late(self, turn: Turn, now: int) -> None:
        """Count a pick that waits still as one that took the whole round, once."""
        self.beyond.append((now - turn.picked_at) / SECOND)
        turn.is_of_round = False

    def _end_round(self, now: int) -> None:
        if self._round_at:
            rounds = (now - self._round_at) / self.round_span
            waiting = {
                job.turn.column
                for job in self.jobs.values()
                if job.turn is not None and not job.turn.started_at and job.turn.picked_at <= self._round_at
            }
            for column, gpus in self.gpus.items():
                self.gpu_rounds += rounds * gpus
                if column in waiting:
                    self.empty_gpu_rounds += rounds * (gpus - self._peak[column])
        self._peak = Counter(self._busy)

    def _picks_added(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PicksAdded)
        for name, column in event.joins.items():
            to = event.columns[column].name
            self.jobs[name].turn = Turn(to, fact.at, is_of_round=False, stop_span=0)

    def _awarded(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadAwarded)
        job = self.jobs.get(event.workload)
        if job is not None and job.turn is not None:
            job.turn.epoch = event.epoch

    def _granted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimGranted)
        job = self.jobs.get(event.workload)
        if job is None:
            return
        assert job.turn is not None, f"{event.workload} was placed without a pick"
        column = job.turn.column
        self._held[event.workload, event.epoch] = column, job.gpus, fact.at
        self._busy[column] += job.gpus
        self._peak[column] = max(self._peak[column], self._busy[column])

    def _started(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, GangStarted)
        job = self.jobs.get(event.workload)
        turn = None if job is None else job.turn
        if job is None or turn is None or turn.epoch != event.epoch or turn.started_at:
            return
        turn.started_at = job.saved_at = fact.at
        waited = (fact.at + job.set_up - turn.picked_at) / SECOND
        if job.starts:
            self.pauses.append(waited)
            job.moves += 1
        else:
            self.first_starts.append(waited)
        job.starts += 1
        if turn.is_of_round:
            self.beyond.append(max(0, fact.at - turn.picked_at - turn.stop_span) / SECOND)

    def _saved(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, CheckpointCommitted)
        job = self.jobs.get(event.workload)
        if job is not None:
            job.saved_at = fact.at

    def _ended(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptEnded)
        held = self._held.pop((event.workload, event.epoch), None)
        if held is not None:
            column, gpus, since = held
            self._busy[column] -= gpus
            self._held_gpu_ns += gpus * (fact.at - since)

    def _closed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptClosed)
        job = self.jobs.get(event.workload)
        if job is not None and event.phase.is_terminal:
            job.ended_at, job.turn = fact.at, None
            self._stays -= {event.workload}

    def _cancelled(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadCancelled)
        if event.workload in self.jobs:
            self.jobs[event.workload].turn = None
            self._stays -= {event.workload}

    def _is_explained(self, fact: Fact) -> bool:
        """Return whether a fact about a job that stays comes of the job's own work: it saves as it always does, or has done all."""
        match fact.event:
            case CheckpointCommitted(workload=workload):
                job = self.jobs[workload]
                return fact.at - job.saved_at >= SAVES_EARLY * job.save_span
            case AttemptEnded(cause=cause) | AttemptClosed(cause=cause):
                return cause is EndCause.COMPLETED
            case WorkloadBound():
                return True  # The queue hears of a start that was before the round.
        return False


def percentile(values: list[float], part: float) -> float:
    """Return the least value that is not below so large a part of all; 0: there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0
