"""What one attempt calls for, found in the region's image and in what workers report of it: the words a broker says.

    promised          order its victims to stop; give it up when a node is lost or its time has passed
    granted           prepare every share; when all are ready, start them; when all run, record it
    a step was saved  record it, before anything else: also one saved in the grace, or told with the end
    any share failed  order the rest to stop
    stop ordered      tell every share to stop
    no share runs     record the end

Every word is said again until the log or a report shows that it was heard, and names what it is about, so a repeat or a
late one changes nothing.
"""

from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct

from core.images import RegionImage
from core.images.capacity import Capacity, Holding
from core.images.region import AttemptPhase, AttemptRow
from core.messages.base import Message
from core.messages.store import DeclineAward, OrderStop, RecordCheckpoint, RecordEnd, RecordStarted
from core.messages.workers import (
    EndRecorded,
    PrepareTasks,
    StartTasks,
    StopTasks,
    TasksPhase,
    TasksState,
)
from core.nouns.ids import AttemptKey, RegionName, WorkerName
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import COMMAND_SAY_AGAIN, GRACE, PROMISE_SPAN, START_SPAN
from core.nouns.placement import Claim, Spread
from core.nouns.reasons import Reason
from core.nouns.workload import USER_EXIT_START_AGAIN, EndCause

Shares = dict[AttemptKey, dict[WorkerName, TasksState]]
"""What each worker last said of its share of each attempt."""


class Care(Struct, frozen=True):
    """Words to say now, and when to look again; None: when something changes."""

    messages: tuple[Message, ...] = ()
    again_at: Instant | None = None


def care_for(
    region: RegionName,
    image: RegionImage,
    sequence: int,
    key: AttemptKey,
    shares: dict[WorkerName, TasksState],
    seen: Instant,
    now: Instant,
) -> Care:
    """What this attempt calls for now. `seen` is when its phase was first known here."""
    row = image.attempts.row(*key)
    again = after(now, COMMAND_SAY_AGAIN)
    if row is None or not (row.phase.is_live or row.phase == AttemptPhase.PROMISED):
        words = _words_after_the_end(region, sequence, key, shares)
        return Care(words)
    if row.phase == AttemptPhase.PROMISED:
        claim = image.capacity.promise(*key)
        assert claim is not None, key
        return Care(_words_for_promise(region, image, claim, seen, now), again)
    held = image.capacity.holding(*key)
    assert held is not None, key
    attempt = _Attempt(region, sequence, key, row, held, image.capacity, shares)
    return attempt.care(seen, now)


def words_for_report(
    region: RegionName, image: RegionImage, sequence: int, worker: WorkerName, share: TasksState
) -> tuple[Message, ...]:
    """What a report calls for at once: an end that the log has is acknowledged, a stale share is stopped."""
    row = image.attempts.row(share.workload, share.epoch)
    if row is not None and row.phase.is_live:
        return ()
    return _words_after_the_end(region, sequence, (share.workload, share.epoch), {worker: share})


def _words_after_the_end(
    region: RegionName, sequence: int, key: AttemptKey, shares: dict[WorkerName, TasksState]
) -> tuple[Message, ...]:
    """The attempt is over, or its epoch is stale: whoever still runs it stops, whoever ended it may forget it."""
    words: list[Message] = []
    for worker, share in sorted(shares.items()):
        # What the workload asked for as its grace is forgotten with its attempt; the plane's own serves.
        if share.phase == TasksPhase.ENDED:
            words.append(EndRecorded(region, worker, sequence, *key))
        else:
            words.append(StopTasks(region, worker, sequence, *key, GRACE))
    return tuple(words)


def _words_for_promise(
    region: RegionName, image: RegionImage, claim: Claim, seen: Instant, now: Instant
) -> tuple[Message, ...]:
    nodes_open = all(image.capacity.is_open(node) for spread in claim.spreads for node in spread.nodes)
    if not nodes_open or after(seen, PROMISE_SPAN) <= now:
        reason = Reason.PROMISE_BROKEN
        return (DeclineAward(region, claim.workload, claim.epoch, claim.award_sequence, reason),)
    words: list[Message] = []
    for victim, epoch in claim.victims:
        row = image.attempts.row(victim, epoch)
        if row is not None and row.phase.is_live and not row.stop_cause:
            words.append(OrderStop(region, victim, epoch, EndCause.PREEMPTED, by=claim.workload))
    return tuple(words)


class _Attempt:
    """One live attempt with all that is known of it."""

    def __init__(
        self,
        region: RegionName,
        sequence: int,
        key: AttemptKey,
        row: AttemptRow,
        held: Holding,
        capacity: Capacity,
        shares: dict[WorkerName, TasksState],
    ) -> None:
        self.region, self.sequence, self.key = region, sequence, key
        self.row, self.held, self.shares = row, held, shares
        self.worker_of = capacity.worker_of
        self.grace: Nanoseconds = Nanoseconds(held.claim.grace or GRACE)
        parts = _parts(held.claim, capacity)
        self.lost = [worker for worker in parts if capacity.workers[worker].is_lost]
        self.parts = {worker: part for worker, part in parts.items() if worker not in self.lost}

    def care(self, seen: Instant, now: Instant) -> Care:
        again = after(now, COMMAND_SAY_AGAIN)
        saved = max((share.saved_step for share in self.shares.values()), default=0)
        if saved > self.row.saved_step:
            # Whatever else is to be said waits until the log shows it: a checkpoint written in the last moment counts.
            words: tuple[Message, ...] = (RecordCheckpoint(self.region, *self.key, saved),)
            if self.row.stop_cause:
                words = (*words, *self._stop())
            return Care(words, again)
        cause = self._why_stop(seen, now)
        if all(self._has_ended(worker) for worker in self.parts):
            return Care((self._end(cause),), again)
        if self.row.stop_cause:
            return Care(self._stop(), again)
        if cause is not None:
            return Care((OrderStop(self.region, *self.key, cause),), again)
        if self.row.phase == AttemptPhase.GRANTED:
            return Care(self._bring_up(), again)
        return Care(again_at=self._ends_at(seen))  # It runs, and nothing is to be said.

    def _why_stop(self, seen: Instant, now: Instant) -> EndCause | None:
        """Why the whole gang must stop, if it must."""
        if self.row.stop_cause:
            return EndCause(self.row.stop_cause)
        if self.lost:
            return EndCause.NODE_LOST
        failed = self._first_failed()
        if failed is not None:
            return _cause_of(failed.exit_code)
        if self.row.phase == AttemptPhase.GRANTED and after(seen, START_SPAN) <= now:
            return EndCause.START_FAILED
        ends_at = self._ends_at(seen)
        if ends_at is not None and ends_at <= now:
            return EndCause.TIMEOUT
        return None

    def _ends_at(self, seen: Instant) -> Instant | None:
        """When its longest duration, counted from its start, has passed."""
        limit = self.held.claim.max_duration
        return after(seen, Nanoseconds(limit)) if limit and self.row.phase == AttemptPhase.STARTED else None

    def _first_failed(self) -> TasksState | None:
        ended = [self.shares[worker] for worker in sorted(self.parts) if self._has_ended(worker)]
        return next((share for share in ended if share.exit_code), None)

    def _phase(self, worker: WorkerName) -> TasksPhase | None:
        share = self.shares.get(worker)
        return share.phase if share else None

    def _has_ended(self, worker: WorkerName) -> bool:
        return self._phase(worker) == TasksPhase.ENDED

    def _end(self, cause: EndCause | None) -> RecordEnd:
        failed = self._first_failed()
        exit_code = failed.exit_code if failed else 0
        return RecordEnd(self.region, *self.key, cause or EndCause.COMPLETED, exit_code)

    def _stop(self) -> tuple[Message, ...]:
        """Every share, so that SIGTERM reaches all ranks at once; again only those that have not said they heard."""
        return tuple(
            StopTasks(self.region, worker, self.sequence, *self.key, self.grace)
            for worker in sorted(self.parts)
            if self._phase(worker) not in (TasksPhase.STOPPING, TasksPhase.ENDED)
        )

    def _bring_up(self) -> tuple[Message, ...]:
        phases = {worker: self._phase(worker) for worker in sorted(self.parts)}
        unknown = [worker for worker, phase in phases.items() if phase is None]
        if unknown:
            return tuple(self._prepare(worker) for worker in unknown)
        ready = [worker for worker, phase in phases.items() if phase == TasksPhase.PREPARED]
        if ready:
            masters, hosts = self._addresses()
            return tuple(
                StartTasks(self.region, worker, self.sequence, *self.key, masters, hosts) for worker in ready
            )
        return (RecordStarted(self.region, *self.key),)

    def _prepare(self, worker: WorkerName) -> PrepareTasks:
        claim = self.held.claim
        return PrepareTasks(
            region=self.region,
            worker=worker,
            sequence=self.sequence,
            workload=claim.workload,
            epoch=claim.epoch,
            jobs=claim.jobs,
            spreads=self.parts[worker],
            resume_epoch=claim.resume_epoch,
            resume_step=claim.resume_step,
            is_leader=worker == next(iter(self.parts)),
            ranks=tuple(self._by_node(worker, _first_ranks(spread), spread) for spread in claim.spreads),
            groups=tuple(self._by_node(worker, range(len(spread.nodes)), spread) for spread in claim.spreads),
        )

    def _by_node(self, worker: WorkerName, figures: Sequence[int], spread: Spread) -> tuple[int, ...]:
        """Those of a worker's nodes."""
        return tuple(
            figure
            for node, figure in zip(spread.nodes, figures, strict=True)
            if self.worker_of[node] == worker
        )

    def _addresses(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """By job, where its rank 0 is, and the addresses of its nodes; none where tasks are emulated."""
        if not all(share.host for share in self.shares.values()):
            return (), ()
        hosts = tuple(
            tuple(self.shares[WorkerName(self.worker_of[node])].host for node in spread.nodes)
            for spread in self.held.claim.spreads
        )
        masters = []
        for job, spread in enumerate(self.held.claim.spreads):
            first = self.shares[WorkerName(self.worker_of[spread.nodes[0]])]
            masters.append(f"{first.host}:{first.ports[job]}")
        return tuple(masters), hosts


def _first_ranks(spread: Spread) -> list[int]:
    """The rank of the first task on each node: ranks are numbered node by node."""
    return list(accumulate(spread.tasks[:-1], initial=0))


def _cause_of(exit_code: int) -> EndCause:
    if exit_code == USER_EXIT_START_AGAIN:
        return EndCause.REQUEUED
    return EndCause.NODE_LOST if exit_code < 0 else EndCause.TASK_FAILED


def _parts(claim: Claim, capacity: Capacity) -> dict[WorkerName, tuple[Spread, ...]]:
    """The claim's spreads cut by worker, the one with the first job's lowest node first: rank 0 is there."""
    workers: dict[WorkerName, None] = {}
    for spread in claim.spreads:
        for node in spread.nodes:
            workers.setdefault(WorkerName(capacity.worker_of[node]))
    return {worker: tuple(_cut(spread, worker, capacity) for spread in claim.spreads) for worker in workers}


def _cut(spread: Spread, worker: WorkerName, capacity: Capacity) -> Spread:
    mine = [
        (node, count)
        for node, count in zip(spread.nodes, spread.tasks, strict=True)
        if capacity.worker_of[node] == worker
    ]
    return Spread(tuple(node for node, _ in mine), tuple(count for _, count in mine))
