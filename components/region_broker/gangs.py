"""What one gang calls for, found in the region's image and in what workers report of it: the words a broker says.

    promised          order its victims to stop, those that have a controller once their time to answer has passed; give it up when
                      a node is lost or its own time has passed
    granted           prepare every share; when all are ready, start them; when all run, record it
    a step was saved  record it, before anything else: also one saved in the grace, or told with the end
    any share failed  order the rest to stop
    stop ordered      tell every share to stop
    no share runs     record the end

A gang may be *paused*: stopped where it is, to start again there. Its row in the image's `control` section says so.

    down              tell every share to stop; when none runs, record it
    gone              wait until what it made room for is over; then have it given its next run
    starting          as granted, from its own newest checkpoint; when all run, record it

Every word is said again until the log or a report shows that it was heard, and names what it is about, so a repeat or a
late one changes nothing. What tasks call for that stand alone is in components/region_broker/service_tasks.py.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from components.region_broker.worker_reports import Part, Parts, words_after_the_end
from core.images import RegionImage
from core.images.control import AttemptControl, OperationRow, TaskPhase, TaskRow
from core.images.region import AttemptPhase
from core.messages.base import Message
from core.messages.control import RecordTasksGone, RecordTasksUp, ReviseClaim
from core.messages.store import DeclineAward, OrderStop, RecordCheckpoint, RecordEnd, RecordStarted
from core.messages.workers import ISOLATED, PrepareTasks, StartTasks, StopTasks, TasksPhase, TasksState
from core.nouns.ids import AttemptKey, RegionName, WorkerName
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import COMMAND_SAY_AGAIN, GRACE, PROMISE_SPAN, START_SPAN
from core.nouns.operation import WHOLE, Answer, OperationPhase, TaskMove, task_number
from core.nouns.placement import Claim, Spread, nodes_of_ranks
from core.nouns.reasons import Reason
from core.nouns.workload import USER_EXIT_START_AGAIN, EndCause
from core.rules.operations import cause_of as end_cause_of
from core.rules.operations import returns_here
from core.rules.preemption import has_begun, is_asked
from core.rules.scopes import is_drained, keeps_away

HERE = TaskMove(WHOLE, -1, -1)
"""A gang's new run, on the nodes that it has."""


class Commands(Struct, frozen=True):
    """Words to say now, and when to look again; None: when something changes."""

    messages: tuple[Message, ...] = ()
    again_at: Instant | None = None


class Known(Struct, frozen=True):
    """What a broker knows of an attempt beside its region's image."""

    shares: Parts
    seen: Instant
    """When its phase was first known here."""
    changed: Instant
    """When it was first known here that the gang is as its row in `control` says, or that what it waited for is over; where
    nothing was ever asked of it, as `seen`."""
    lost_at: Mapping[WorkerName, Instant]
    """When the loss of each lost worker was first known here."""


def commands_for(
    region: RegionName, image: RegionImage, sequence: int, key: AttemptKey, known: Known, now: Instant
) -> Commands:
    """What this attempt calls for now."""
    row = image.attempts.row(*key)
    again = after(now, COMMAND_SAY_AGAIN)
    if row is None or not (row.phase.is_live or row.phase == AttemptPhase.PROMISED):
        return Commands(words_after_the_end(region, sequence, known.shares, key))
    if row.phase == AttemptPhase.PROMISED:
        claim = image.capacity.promise(*key)
        assert claim is not None, key
        return Commands(_words_for_promise(region, image, claim, known.seen, now), again)
    return _Gang(region, image, sequence, key, known).commands(now)


def gone_for_sure_at(claim: Claim, lost_at: Instant) -> Instant:
    """From when on nothing of it runs on nodes whose loss was known then. What is strict stops by itself, and is waited for."""
    if not claim.control.is_strict:
        return lost_at
    return after(after(lost_at, claim.control.isolation), GRACE)


def _words_for_promise(
    region: RegionName, image: RegionImage, claim: Claim, seen: Instant, now: Instant
) -> tuple[Message, ...]:
    nodes_open = all(image.capacity.is_open(node) for spread in claim.spreads for node in spread.nodes)
    if not nodes_open or after(seen, PROMISE_SPAN) <= now:
        reason = Reason.PROMISE_BROKEN
        return (DeclineAward(region, claim.workload, claim.epoch, claim.award_sequence, reason),)
    promise = image.preemption.promise(claim.workload, claim.epoch)
    span = promise.ask_span if promise is not None else 0
    words: list[Message] = []
    for victim, epoch in claim.victims:
        row, held = image.attempts.row(victim, epoch), image.capacity.holding(victim, epoch)
        if row is None or held is None or row.stop_cause:
            continue
        # Its controller says when, and task control that it did (components/task_control/component.py); not for ever.
        is_left_to_it = is_asked(held) and not has_begun(image.control.row(victim, epoch))
        if not is_left_to_it or after(seen, Nanoseconds(span)) <= now:
            words.append(OrderStop(region, victim, epoch, EndCause.PREEMPTED, by=claim.workload))
    return tuple(words)


class _Gang:
    """One live gang with all that is known of it."""

    def __init__(
        self, region: RegionName, image: RegionImage, sequence: int, key: AttemptKey, known: Known
    ) -> None:
        row, held = image.attempts.row(*key), image.capacity.holding(*key)
        assert row is not None, key
        assert held is not None, key
        self.region, self.image, self.sequence, self.key, self.known = region, image, sequence, key, known
        self.row, self.held = row, held
        self.control: AttemptControl | None = image.control.row(*key)
        self.whole: TaskRow | None = self.control.tasks.get(WHOLE) if self.control else None
        self.run = self.whole.run if self.whole else 0
        self.worker_of = image.capacity.worker_of
        self.grace: Nanoseconds = Nanoseconds(held.claim.grace or GRACE)
        # Reports of the runs before are answered as they come (components/region_broker/worker_reports.py).
        self.shares = {
            part.worker: share for part, share in known.shares.items() if part[1:] == (WHOLE, self.run)
        }
        parts = _parts(held.claim, self.worker_of)
        self.lost = [worker for worker in parts if image.capacity.workers[worker].is_lost]
        self.parts = {worker: part for worker, part in parts.items() if worker not in self.lost}

    def commands(self, now: Instant) -> Commands:
        again = after(now, COMMAND_SAY_AGAIN)
        saved = max((share.saved_step for share in self.shares.values()), default=0)
        if saved > self.row.saved_step and self.row.stop_cause != EndCause.ABANDONED:
            # Whatever else is to be said waits until the log shows it: a checkpoint written in the last moment counts.
            words: tuple[Message, ...] = (RecordCheckpoint(self.region, *self.key, saved),)
            if self.row.stop_cause or self._is(TaskPhase.DOWN):
                words = (*words, *self._stop())
            return Commands(words, again)
        if self._is(TaskPhase.GONE):
            return self._care_while_gone(now)
        cause = self._why_stop(now)
        is_stopping = bool(self.row.stop_cause) or (self._is(TaskPhase.DOWN) and cause is None)
        if all(self._has_ended(worker) for worker in self.parts):
            sure_at = self._sure_at(now)
            if sure_at <= now and self._is(TaskPhase.DOWN) and cause is None:
                return Commands((RecordTasksGone(self.region, *self.key, self._me()),), again)
            if sure_at <= now:
                return Commands((self._end(cause),), again)
        if is_stopping:
            return Commands(self._stop(), again)
        if cause is not None:
            return Commands((OrderStop(self.region, *self.key, cause),), again)
        if self._is(TaskPhase.STARTING):
            return Commands(self._bring_up(RecordTasksUp(self.region, *self.key, self._me())), again)
        if self.row.phase == AttemptPhase.GRANTED:
            return Commands(self._bring_up(RecordStarted(self.region, *self.key)), again)
        return Commands(again_at=self._ends_at())  # It runs, and nothing is to be said.

    def _is(self, phase: TaskPhase) -> bool:
        """Whether its row says so; a gang of which nothing was ever asked has none."""
        return self.whole is not None and self.whole.phase is phase

    def _me(self) -> tuple[tuple[int, int], ...]:
        return ((WHOLE, self.run),)

    # Why it stops.

    def _why_stop(self, now: Instant) -> EndCause | None:
        """Why the whole gang must stop, if it must."""
        if self.row.stop_cause:
            return EndCause(self.row.stop_cause)
        if self._is(TaskPhase.DOWN):
            # It stops, and comes back: what befalls its nodes meanwhile is for then.
            return self._overdue(now)
        if self.lost:
            return EndCause.NODE_LOST
        failed = self._first_failed()
        if failed is not None:
            return cause_of_exit(failed[1].exit_code)
        is_coming_up = self.row.phase == AttemptPhase.GRANTED or self._is(TaskPhase.STARTING)
        if is_coming_up and after(self.known.changed, START_SPAN) <= now:
            return EndCause.START_FAILED
        return self._overdue(now)

    def _overdue(self, now: Instant) -> EndCause | None:
        ends_at = self._ends_at()
        return EndCause.TIMEOUT if ends_at is not None and ends_at <= now else None

    def _ends_at(self) -> Instant | None:
        """When its longest duration, counted from its first start, has passed."""
        limit = self.held.claim.max_duration
        has_started = self.row.phase == AttemptPhase.STARTED
        return after(self.known.seen, Nanoseconds(limit)) if limit and has_started else None

    def _first_failed(self) -> tuple[WorkerName, TasksState] | None:
        """The first that was heard to have failed: the others may have failed because of it."""
        for worker, share in self.shares.items():
            if worker in self.parts and share.phase == TasksPhase.ENDED and share.exit_code:
                return worker, share
        return None

    def _phase(self, worker: WorkerName) -> TasksPhase | None:
        share = self.shares.get(worker)
        return share.phase if share else None

    def _has_ended(self, worker: WorkerName) -> bool:
        return self._phase(worker) == TasksPhase.ENDED

    # Down.

    def _sure_at(self, now: Instant) -> Instant:
        """From when on nothing of it can run on its lost nodes either, as far as it promised."""
        silent = [worker for worker in self.lost if not self._has_ended(worker)]
        lost_at = self.known.lost_at
        times = [gone_for_sure_at(self.held.claim, lost_at.get(worker, now)) for worker in silent]
        return max(times, default=now)

    def _end(self, cause: EndCause | None) -> RecordEnd:
        failed = self._first_failed()
        exit_code = failed[1].exit_code if failed else 0
        nodes = self._failed_nodes(*failed) if failed else ()
        return RecordEnd(self.region, *self.key, cause or EndCause.COMPLETED, exit_code, nodes, self.run)

    def _failed_nodes(self, worker: WorkerName, share: TasksState) -> tuple[int, ...]:
        """As its worker said; of a share that vanished only where it had but one node, for no other is surely to blame."""
        if share.failed_nodes or share.exit_code >= 0:
            return share.failed_nodes
        nodes = sorted({node for spread in self.parts[worker] for node in spread.nodes})
        return tuple(nodes) if len(nodes) == 1 else ()

    def _stop(self) -> tuple[Message, ...]:
        """Every share, so that SIGTERM reaches all ranks at once; again only those that have not said they heard."""
        return tuple(
            StopTasks(self.region, worker, self.sequence, *self.key, self.grace, run=self.run)
            for worker in sorted(self.parts)
            if self._phase(worker) not in (TasksPhase.STOPPING, TasksPhase.ENDED)
        )

    # Gone, to come back.

    def _care_while_gone(self, now: Instant) -> Commands:
        """Nothing of it runs. It waits for what it made room for, then for its nodes, and not for ever for those."""
        again = after(now, COMMAND_SAY_AGAIN)
        cause = EndCause(self.row.stop_cause) if self.row.stop_cause else self._overdue(now)
        operation = self._begun()
        is_early = (
            operation is not None
            and operation.source in self.image.maintenance.rows
            and returns_here(operation)
        )
        is_kept_away = not is_early and self._is_kept_away()
        if cause is None and operation is not None and self._comes_back_to_a_drain(operation):
            cause = EndCause.DRAINED
        if is_kept_away and cause is None and after(self.known.changed, START_SPAN) <= now:
            cause = self._why_elsewhere(operation)
        if cause is not None:
            return Commands((RecordEnd(self.region, *self.key, cause, run=self.run),), again)
        ended = {
            Part(worker, WHOLE, self.run): share
            for worker, share in self.shares.items()
            if share.phase == TasksPhase.ENDED
        }
        words = words_after_the_end(self.region, self.sequence, ended, self.key)
        if is_early:
            return Commands(words, self._ends_at())
        if is_kept_away:
            return Commands(words, again)
        assert self.control is not None, self.key
        revision = self.control.claim_revision + 1
        return Commands((*words, ReviseClaim(self.region, *self.key, revision, (HERE,))), again)

    def _begun(self) -> OperationRow | None:
        assert self.control is not None, self.key
        operation = self.control.on(WHOLE)
        return operation if operation is not None and operation.phase is OperationPhase.BEGUN else None

    def _is_kept_away(self) -> bool:
        capacity, maintenance = self.image.capacity, self.image.maintenance
        return any(
            keeps_away(capacity, maintenance, node)
            for spread in self.held.claim.spreads
            for node in spread.nodes
        )

    def _comes_back_to_a_drain(self, operation: OperationRow) -> bool:
        """Whether it stopped to return to nodes of which somebody wants one empty meanwhile: then it moves, at once."""
        if operation.answer is not Answer.STOP_AND_RETURN:
            return False
        nodes = (node for spread in self.held.claim.spreads for node in spread.nodes)
        return any(is_drained(self.image.capacity, node) for node in nodes)

    def _why_elsewhere(self, operation: OperationRow | None) -> EndCause:
        """What its nodes do to it, or else what it was stopped for."""
        if self.lost or operation is None:
            return EndCause.NODE_LOST
        return end_cause_of(operation)

    # Up.

    def _bring_up(self, all_run: Message) -> tuple[Message, ...]:
        """Prepare, start; and what is said once all run."""
        phases = {worker: self._phase(worker) for worker in sorted(self.parts)}
        unknown = [worker for worker, phase in phases.items() if phase is None]
        if unknown:
            return tuple(self._prepare(worker) for worker in unknown)
        ready = [worker for worker, phase in phases.items() if phase == TasksPhase.PREPARED]
        if ready:
            masters, hosts = self._addresses()
            return tuple(
                StartTasks(self.region, worker, self.sequence, *self.key, masters, hosts, run=self.run)
                for worker in ready
            )
        return (all_run,)

    def _prepare(self, worker: WorkerName) -> PrepareTasks:
        claim = self.held.claim
        resume_epoch, resume_step = resume_of(claim, self.row.saved_step)
        return PrepareTasks(
            region=self.region,
            worker=worker,
            sequence=self.sequence,
            workload=claim.workload,
            epoch=claim.epoch,
            jobs=claim.jobs,
            spreads=self.parts[worker],
            resume_epoch=resume_epoch,
            resume_step=resume_step,
            is_leader=worker == next(iter(self.parts)),
            ranks=tuple(self._by_node(worker, _first_ranks(spread), spread) for spread in claim.spreads),
            groups=tuple(self._by_node(worker, range(len(spread.nodes)), spread) for spread in claim.spreads),
            devices=self._devices(worker),
            run=self.run,
            isolation=isolation_of(claim),
            tenant=claim.tenant,
        )

    def _devices(self, worker: WorkerName) -> tuple[tuple[int, ...], ...]:
        """By job, the shared devices of a worker's tasks; nothing where all take whole ones."""
        if not self.held.parts:
            return ()
        return tuple(
            tuple(
                self.held.parts[task_number(job, rank)][1]
                for rank, node in enumerate(nodes_of_ranks(spread))
                if task_number(job, rank) in self.held.parts and self.worker_of[node] == worker
            )
            for job, spread in enumerate(self.held.claim.spreads)
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


def cause_of_exit(exit_code: int) -> EndCause:
    """Why a share ended by itself that was not done, on a node that is heard."""
    if exit_code == USER_EXIT_START_AGAIN:
        return EndCause.REQUEUED
    if exit_code == ISOLATED:
        return EndCause.NODE_LOST
    return EndCause.NODE_FAILED if exit_code < 0 else EndCause.TASK_FAILED


def resume_of(claim: Claim, saved_step: int) -> tuple[int, int]:
    """The epoch and the step that a run resumes: its own attempt's newest checkpoint, or else what the award named."""
    return (claim.epoch, saved_step) if saved_step else (claim.resume_epoch, claim.resume_step)


def isolation_of(claim: Claim) -> int:
    """After how long without its region its tasks stop by themselves; 0: never."""
    return claim.control.isolation if claim.control.is_strict else 0


def _parts(claim: Claim, worker_of: Sequence[str]) -> dict[WorkerName, tuple[Spread, ...]]:
    """The claim's spreads cut by worker, the one with the first job's lowest node first: rank 0 is there."""
    cut: dict[WorkerName, list[tuple[list[int], list[int]]]] = {}
    for job, spread in enumerate(claim.spreads):
        for node, count in zip(spread.nodes, spread.tasks, strict=True):
            worker = WorkerName(worker_of[node])
            if worker not in cut:
                cut[worker] = [([], []) for _ in claim.spreads]
            nodes, tasks = cut[worker][job]
            nodes.append(node)
            tasks.append(count)
    return {
        worker: tuple(Spread(tuple(nodes), tuple(tasks)) for nodes, tasks in jobs)
        for worker, jobs in cut.items()
    }
