"""The commands of one gang, derived from the region's image and the reports of workers.

    promised          order the victims to stop: those with a controller when their operation has begun or their time to
                      answer has passed, the others at once; decline the award when a node is lost or closed, or when
                      `PROMISE_SPAN` has passed
    granted           prepare every share; when all are ready, start them; when all run, record the start
    a step was saved  record the checkpoint before other commands, also one saved in the grace or reported with the end
    a share failed    order the whole gang to stop
    stop ordered      stop every share
    no share runs     record the end

A gang may be *paused*: stopped in place, to start again there. The image's `control` section has the phase.

    down              stop every share; when no share runs, record that
    gone              wait until the maintenance is over and the nodes are usable; then request the next run
    starting          as granted, from the attempt's newest checkpoint; when all run, record that

Every command is repeated until the log or a report shows its effect, and names its attempt and run, so a repeated or late
command changes no state. components/region_broker/service_tasks.py has the commands of independent tasks.
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
"""A gang's new run on its present nodes."""


class Commands(Struct, frozen=True):
    """Commands to send now, and when to look again; None: when a fact or report changes the attempt."""

    messages: tuple[Message, ...] = ()
    again_at: Instant | None = None


class Known(Struct, frozen=True):
    """A broker's knowledge of an attempt beside its region's image."""

    shares: Parts
    seen: Instant
    """When this broker learned of the attempt's phase."""
    changed: Instant
    """When this broker learned of the newest change to the gang's row in `control`, or of the end of the maintenance that
    the gang waits for; without a row, equal to `seen`."""
    lost_at: Mapping[WorkerName, Instant]
    """When this broker learned of each lost worker's loss."""


def commands_for(
    region: RegionName, image: RegionImage, sequence: int, key: AttemptKey, known: Known, now: Instant
) -> Commands:
    """Return the commands that this attempt needs now."""
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
    """Return when no task runs on nodes lost at `lost_at` any more: strict tasks get the time to stop themselves."""
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
        # Until the span is over the controller decides when, and task control records it (components/task_control/component.py).
        is_left_to_it = is_asked(held) and not has_begun(image.control.row(victim, epoch))
        if not is_left_to_it or after(seen, Nanoseconds(span)) <= now:
            words.append(OrderStop(region, victim, epoch, EndCause.PREEMPTED, by=claim.workload))
    return tuple(words)


class _Gang:
    """One live gang with its image rows and reports."""

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
        # Reports of earlier runs are answered on arrival (components/region_broker/worker_reports.py).
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
            # All but a stop waits until the log shows the checkpoint, so that one written in the last moment counts.
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
        return Commands(again_at=self._ends_at())  # All shares run: no command is needed.

    def _is(self, phase: TaskPhase) -> bool:
        """Return whether the gang's row has this phase; False without a row: no operation was ever requested."""
        return self.whole is not None and self.whole.phase is phase

    def _me(self) -> tuple[tuple[int, int], ...]:
        return ((WHOLE, self.run),)

    # Reasons to stop.

    def _why_stop(self, now: Instant) -> EndCause | None:
        """Return the cause for which the whole gang must stop, if there is one."""
        if self.row.stop_cause:
            return EndCause(self.row.stop_cause)
        if self._is(TaskPhase.DOWN):
            # The gang stops to start again in place: the state of the nodes matters once all tasks are gone.
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
        """Return when the longest duration, counted from the first start, is over; None: no limit, or not started."""
        limit = self.held.claim.max_duration
        has_started = self.row.phase == AttemptPhase.STARTED
        return after(self.known.seen, Nanoseconds(limit)) if limit and has_started else None

    def _first_failed(self) -> tuple[WorkerName, TasksState] | None:
        """Return the first worker and share reported as failed, since later failures may follow from that one."""
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
        """Return when the gang surely no longer runs on lost nodes that have not reported an end (`gone_for_sure_at`)."""
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
        """Return the failed nodes of a failed share, as its worker reported them.

        A share that ended without a program's exit code (`LOST`, `ISOLATED`) blames its node if it has a single one: of
        several nodes the faulty one is unknown.
        """
        if share.failed_nodes or share.exit_code >= 0:
            return share.failed_nodes
        nodes = sorted({node for spread in self.parts[worker] for node in spread.nodes})
        return tuple(nodes) if len(nodes) == 1 else ()

    def _stop(self) -> tuple[Message, ...]:
        """Return a stop for every share that has not confirmed one, so that SIGTERM reaches all ranks together."""
        return tuple(
            StopTasks(self.region, worker, self.sequence, *self.key, self.grace, run=self.run)
            for worker in sorted(self.parts)
            if self._phase(worker) not in (TasksPhase.STOPPING, TasksPhase.ENDED)
        )

    # Gone, to come back.

    def _care_while_gone(self, now: Instant) -> Commands:
        """Return the commands while no rank runs.

        The gang waits for the end of its maintenance, then at most `START_SPAN` for usable nodes, and then requests its next
        run; a gang that cannot return ends.
        """
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
        """Return whether the gang stopped to return to nodes of which one is being drained by now: it then ends at once."""
        if operation.answer is not Answer.STOP_AND_RETURN:
            return False
        nodes = (node for spread in self.held.claim.spreads for node in spread.nodes)
        return any(is_drained(self.image.capacity, node) for node in nodes)

    def _why_elsewhere(self, operation: OperationRow | None) -> EndCause:
        """Return the end cause of a gang that cannot return: the loss of its nodes, or else the operation's cause."""
        if self.lost or operation is None:
            return EndCause.NODE_LOST
        return end_cause_of(operation)

    # Up.

    def _bring_up(self, all_run: Message) -> tuple[Message, ...]:
        """Return prepare commands for unknown shares, else start commands for prepared ones, else `all_run`."""
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
            beside=claim.beside,
            forerunners=claim.forerunners,
        )

    def _devices(self, worker: WorkerName) -> tuple[tuple[int, ...], ...]:
        """Return the shared devices of a worker's tasks by job; empty if all tasks take whole devices."""
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
        """Return the figures that belong to a worker's nodes."""
        return tuple(
            figure
            for node, figure in zip(spread.nodes, figures, strict=True)
            if self.worker_of[node] == worker
        )

    def _addresses(self) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """Return by job the address of rank 0, and the addresses of the nodes; both empty if tasks are emulated."""
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
    """Return the rank of the first task on each node: ranks are numbered node by node."""
    return list(accumulate(spread.tasks[:-1], initial=0))


def cause_of_exit(exit_code: int) -> EndCause:
    """Return the end cause of a share that failed with this exit code on a node with a live worker."""
    if exit_code == USER_EXIT_START_AGAIN:
        return EndCause.REQUEUED
    if exit_code == ISOLATED:
        return EndCause.NODE_LOST
    return EndCause.NODE_FAILED if exit_code < 0 else EndCause.TASK_FAILED


def resume_of(claim: Claim, saved_step: int) -> tuple[int, int]:
    """Return the epoch and step that a run resumes: the attempt's newest checkpoint, else the award's."""
    return (claim.epoch, saved_step) if saved_step else (claim.resume_epoch, claim.resume_step)


def isolation_of(claim: Claim) -> int:
    """Return the nanoseconds without contact to the region after which tasks stop by themselves; 0: never."""
    return claim.control.isolation if claim.control.is_strict else 0


def _parts(claim: Claim, worker_of: Sequence[str]) -> dict[WorkerName, tuple[Spread, ...]]:
    """Return the claim's spreads cut by worker; first the worker of the first job's lowest node, which has rank 0."""
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
