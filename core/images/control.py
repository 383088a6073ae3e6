"""The control section of a region's image: tasks that stand alone, and every operation on a task or a gang.

A task that stands alone has a row from the grant on; a gang has one, under `WHOLE`, once an operation is asked for it. What
a controller is asked follows from this section alone, and `changed` numbers it: the sequence of the newest fact by which the
request differs from the one before: of an operation that waits, of one that is over, of a drain or a maintenance that
concerns it, or of whether a task is up. An answer names that number, so a word that was given without knowing of a loss is
recognised as old.
"""

from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from core.events.control import (
    AcksExpired,
    AttemptChanged,
    ClaimRevised,
    ControlAnswered,
    ControlForgotten,
    DomainLost,
    NodesClosed,
    NodesOpened,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    OperationsStuck,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.region import (
    AttemptEnded,
    CheckpointCommitted,
    ClaimGranted,
    GangStarted,
    NodesLost,
    NodesReturned,
)
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import CONTROL_ASKED_MAX
from core.nouns.operation import (
    WHOLE,
    Answer,
    ControlSpec,
    OperationKind,
    OperationPhase,
    Outcome,
    job_and_rank,
    task_number,
)
from core.nouns.placement import Claim, jobs_wanted, nodes_of_ranks, numbers_in, runs_of
from core.nouns.workload import EndCause, JobSpec, Kind

FORGIVEN_AFTER: Nanoseconds = seconds(300)
"""What a task had failed before counts no more once it has been up for so long (the longest wait before a restart). It is
part of how facts are folded: another figure would make other images of the same log.
"""


class TaskPhase(StrEnum):
    """Where a task is in its life. Only a task that is up is in discovery."""

    STARTING = "starting"
    UP = "up"
    DOWN = "down"
    """Unavailable; something of its run may still be there."""
    GONE = "gone"
    """Nothing of its run is left; its room is still held unless it has no node."""


class TaskRow(Struct):
    """One task that stands alone, or a gang as a whole."""

    node: int
    """-1: none, or the gang's many."""
    phase: TaskPhase = TaskPhase.STARTING
    run: int = 0
    """How often it was started again under this epoch."""
    since: int = 0
    cause: str = ""
    """Why it is not up."""
    exit_code: int = 0
    """Of its newest run that failed."""
    failures: int = 0
    """Of its own, in a row; forgotten once it has been up for long."""
    revision: int = 0
    """Of the job as its run has it."""

    @property
    def is_missed(self) -> bool:
        """True if the task is not up although it should be; a completed task is not missed."""
        is_done = self.phase is TaskPhase.GONE and self.cause == EndCause.COMPLETED
        return self.phase is not TaskPhase.UP and not is_done


class OperationRow(Struct):
    """One operation."""

    kind: OperationKind
    task: int
    reason: str
    source: str
    requester: str
    requested_at: int
    deadline: int
    """Nanoseconds from then; 0: it is optional."""
    phase: OperationPhase = OperationPhase.ASKED
    answer: Answer = Answer.PROCEED
    acked_at: int = 0
    after_step: int = -1
    """It waits for a checkpoint that is newer than this step; -1: for none."""
    by: str = ""
    begun_at: int = 0
    outcome: str = ""
    is_stuck: bool = False
    within: int = 0
    """Nanoseconds from its acknowledgement after which it may begin; 0: at once, or with the checkpoint alone."""

    @property
    def is_left_alone(self) -> bool:
        """Whether its controller wants nothing done: it stays until what called for it is over, and nothing comes of it."""
        return self.phase is OperationPhase.ACKED and self.answer is Answer.IGNORE

    @property
    def is_live(self) -> bool:
        """Whether anything may still come of it."""
        return self.phase is not OperationPhase.DONE


class AttemptControl(Struct):
    """One attempt's tasks and operations."""

    spec: ControlSpec
    tenant: str
    jobs: tuple[JobSpec, ...]
    """As they are to be: the newest that its user asked for."""
    revision: int = 0
    """Of the workload's spec, as `jobs` has it."""
    claim_revision: int = 0
    stands_alone: bool = False
    """Whether its tasks are touched one by one."""
    ended_at: int = 0
    """When it ended; since then only what its controller is still to be told is left of it."""
    tasks: dict[int, TaskRow] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    """The newest run of each task that left its job: should it come again, its runs go on from there."""
    saved_step: int = 0
    next_operation: int = 1
    operations: dict[int, OperationRow] = field(default_factory=dict)
    changed: int = 0
    answered: int = 0
    """The newest request that its controller is known to have answered."""
    nodes: tuple[tuple[int, int], ...] = ()
    """Of a gang, as runs: it starts again where it is, or not under this epoch."""

    def on(self, task: int) -> OperationRow | None:
        """The live operation on a task."""
        number = self.busy().get(task)
        return None if number is None else self.operations[number]

    def busy(self) -> dict[int, int]:
        """Return the number of the live operation on each task that has one: at most one, ignored operations left out."""
        return {
            row.task: number
            for number, row in self.operations.items()
            if row.is_live and not row.is_left_alone
        }

    @property
    def is_ended(self) -> bool:
        """Whether its attempt is over."""
        return self.ended_at > 0

    @property
    def is_paused(self) -> bool:
        """Whether it is a gang that was stopped where it is, to start again there."""
        whole = self.tasks.get(WHOLE)
        return whole is not None and whole.phase is TaskPhase.GONE

    def is_on(self, nodes: set[int]) -> bool:
        """Whether a gang is on one of these nodes, or a task that is not missed anyhow."""
        tasks = {task.node for task in self.tasks.values() if not task.is_missed}
        return not nodes.isdisjoint(tasks if self.stands_alone or self.is_ended else numbers_in(self.nodes))

    def acknowledged(self) -> list[int]:
        """Tasks on which something may begin without a further word."""
        return [
            operation.task
            for operation in self.operations.values()
            if operation.phase is OperationPhase.ACKED and operation.answer is not Answer.IGNORE
        ]

    def unavailable(self) -> list[int]:
        """Tasks that are not up, ascending."""
        return sorted(task for task, row in self.tasks.items() if row.is_missed)


class Control(Section):
    """Tasks and operations of every attempt that has any."""

    FOLDS = {
        ClaimGranted: "_granted",
        GangStarted: "_started",
        CheckpointCommitted: "_checkpoint",
        AttemptEnded: "_ended",
        NodesLost: "_nodes_lost",
        DomainLost: "_domain_lost",
        NodesReturned: "_nodes_returned",
        NodesClosed: "_nodes_shut",
        NodesOpened: "_nodes_shut",
        TasksDown: "_down",
        TasksGone: "_gone",
        ClaimRevised: "_revised",
        TasksUp: "_up",
        AttemptChanged: "_attempt_changed",
        OperationsRequested: "_requested",
        ControlAnswered: "_answered",
        AcksExpired: "_expired",
        OperationsBegun: "_begun",
        OperationsStuck: "_stuck",
        OperationsDone: "_done",
        ControlForgotten: "_forgotten",
    }

    rows: dict[WorkloadId, dict[int, AttemptControl]] = field(default_factory=dict)
    specs: dict[WorkloadId, dict[int, AttemptControl]] = field(default_factory=dict)
    """Of live gangs on which nothing was ever asked: what their row would begin with."""

    def row(self, workload: WorkloadId, epoch: int) -> AttemptControl | None:
        """One attempt's, if it has tasks that stand alone or ever had an operation."""
        return self.rows.get(workload, {}).get(epoch)

    def all_keys(self) -> list[AttemptKey]:
        """Of all rows, in the order in which they came."""
        return [(workload, epoch) for workload, epochs in self.rows.items() for epoch in epochs]

    def spec_of(self, workload: WorkloadId, epoch: int) -> AttemptControl | None:
        """The row, or what it would begin with."""
        return self.row(workload, epoch) or self.specs.get(workload, {}).get(epoch)

    # Attempts.

    def _granted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimGranted)
        claim = event.claim
        stands_alone = claim.kind == Kind.SERVICE
        jobs = jobs_wanted(claim.jobs, event.unplaced)
        row = AttemptControl(claim.control, claim.tenant, jobs, claim.spec_revision)
        row.saved_step = claim.resume_step
        if not stands_alone:
            row.nodes = runs_of({node for spread in claim.spreads for node in spread.nodes})
            self.specs.setdefault(event.workload, {})[event.epoch] = row
            return
        row.stands_alone = True
        row.changed = fact.sequence
        row.tasks = _tasks_of(claim, fact.at)
        self.rows.setdefault(event.workload, {})[event.epoch] = row

    def _started(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, GangStarted)
        row = self.row(event.workload, event.epoch)
        if row is not None:
            for task in row.tasks.values():
                if task.phase is TaskPhase.STARTING:
                    _enter(row, task, TaskPhase.UP, fact)

    def _checkpoint(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, CheckpointCommitted)
        row = self.spec_of(event.workload, event.epoch)
        assert row is not None, event
        row.saved_step = event.step

    def _ended(self, fact: Fact) -> None:
        """What was asked is moot; what its controller should hear stays until it has."""
        event = fact.event
        assert isinstance(event, AttemptEnded)
        _drop(self.specs, event.workload, event.epoch)
        row = self.row(event.workload, event.epoch)
        if row is None:
            return
        if row.unavailable():
            row.changed = fact.sequence
        row.ended_at = fact.at
        row.tasks = {}
        for operation in row.operations.values():
            has_begun = operation.phase is OperationPhase.BEGUN
            has_ended_it = has_begun and operation.kind.ends_gang and operation.task == WHOLE
            if operation.is_live and not has_ended_it:
                # One that ended the gang is done once that is healthy again, wherever it is.
                operation.phase, operation.outcome = OperationPhase.DONE, Outcome.GONE
                row.changed = fact.sequence
        if not row.spec.controller or not row.operations:
            _drop(self.rows, event.workload, event.epoch)

    # Nodes.

    def _nodes_lost(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesLost)
        self._lose(set(event.nodes), fact)

    def _domain_lost(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DomainLost)
        self._lose({node for first, last in event.nodes for node in range(first, last + 1)}, fact)

    def _lose(self, nodes: set[int], fact: Fact) -> None:
        for row, task in self._on(nodes):
            if task.phase in (TaskPhase.UP, TaskPhase.STARTING):
                _enter(row, task, TaskPhase.DOWN, fact, EndCause.NODE_LOST)

    def _nodes_returned(self, fact: Fact) -> None:
        """They reported that they run nothing."""
        event = fact.event
        assert isinstance(event, NodesReturned)
        for row, task in self._on(set(event.nodes)):
            if task.phase is not TaskPhase.GONE:
                _enter(row, task, TaskPhase.GONE, fact, task.cause)

    def _nodes_shut(self, fact: Fact) -> None:
        """Record that controllers' requests change: they name each drain or maintenance under an attempt with live operations.

        Once the drain or maintenance is lifted, requests name it no more, even before its operations are withdrawn. The request
        changes also if an operation for it waits behind another one.
        """
        event = fact.event
        assert isinstance(event, NodesClosed | NodesOpened)
        nodes = set(numbers_in(event.nodes)) if event.kind.empties else set()
        for row in (row for epochs in self.rows.values() for row in epochs.values() if nodes):
            live = [operation for operation in row.operations.values() if operation.is_live]
            if any(one.source == event.source for one in live) or (live and row.is_on(nodes)):
                row.changed = fact.sequence

    def _on(self, nodes: set[int]) -> list[tuple[AttemptControl, TaskRow]]:
        return [
            (row, task)
            for epochs in self.rows.values()
            for row in epochs.values()
            for task in row.tasks.values()
            if task.node in nodes
        ]

    # Tasks.

    def _down(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, TasksDown)
        row = self.rows[event.workload][event.epoch]
        for number in event.tasks:
            task = row.tasks[number]
            if task.phase is TaskPhase.UP and task.since + FORGIVEN_AFTER <= fact.at:
                task.failures = 0
            task.failures += event.cause in (EndCause.TASK_FAILED, EndCause.START_FAILED)
            task.exit_code = event.exit_code or task.exit_code
            _enter(row, task, TaskPhase.GONE if event.is_gone else TaskPhase.DOWN, fact, event.cause)

    def _gone(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, TasksGone)
        row = self.rows[event.workload][event.epoch]
        for number in event.tasks:
            task = row.tasks[number]
            _enter(row, task, TaskPhase.GONE, fact, task.cause)

    def _revised(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimRevised)
        row = self.rows[event.workload][event.epoch]
        row.claim_revision = event.revision
        for move in event.moves:
            if move.node_to < 0 and move.task != WHOLE:
                gone = row.tasks.pop(move.task)
                row.left[move.task] = gone.run
                if gone.is_missed:
                    row.changed = fact.sequence
                continue
            task = row.tasks.setdefault(move.task, TaskRow(-1, run=row.left.get(move.task, -1)))
            task.node = move.node_to
            task.run += 1
            task.revision = row.revision
            _enter(row, task, TaskPhase.STARTING, fact, task.cause)

    def _up(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, TasksUp)
        row = self.rows[event.workload][event.epoch]
        for number in event.tasks:
            _enter(row, row.tasks[number], TaskPhase.UP, fact)

    def _attempt_changed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptChanged)
        row = self.spec_of(event.workload, event.epoch)
        assert row is not None, event
        for number, task in row.tasks.items():
            job, _ = job_and_rank(number)
            if number != WHOLE and replace(row.jobs[job], tasks=event.jobs[job].tasks) == event.jobs[job]:
                task.revision = (
                    event.revision
                )  # Only how many there are has changed: its run is as it should be.
        row.jobs, row.revision = event.jobs, event.revision

    # Operations.

    def _requested(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, OperationsRequested)
        row = self.row(event.workload, event.epoch)
        if row is None:
            row = self.specs[event.workload].pop(event.epoch)
            if not self.specs[event.workload]:
                del self.specs[event.workload]
            row.tasks[WHOLE] = TaskRow(-1, TaskPhase.UP, since=fact.at)
            self.rows.setdefault(event.workload, {})[event.epoch] = row
        row.changed = fact.sequence
        for number, task in enumerate(event.tasks, event.first):
            if event.kind is OperationKind.START:
                run = row.left.get(task, -1)
                row.tasks.setdefault(task, TaskRow(-1, TaskPhase.GONE, run, fact.at))
            row.operations[number] = OperationRow(
                event.kind, task, event.reason, event.source, event.requester, fact.at, event.deadline
            )
        row.next_operation = event.first + len(event.tasks)

    def _answered(self, fact: Fact) -> None:
        """What was told as completed in the request that is answered need not be told again; an answer may be several facts."""
        event = fact.event
        assert isinstance(event, ControlAnswered)
        row = self.rows[event.workload][event.epoch]
        if event.sequence != row.answered:
            over = [number for number, operation in row.operations.items() if not operation.is_live]
            for number in over[:CONTROL_ASKED_MAX]:
                del row.operations[number]
        row.answered = event.sequence
        row.changed = fact.sequence
        for ack in event.acks:
            operation = row.operations[ack.operation]
            operation.phase = OperationPhase.ACKED
            operation.answer = ack.answer
            operation.acked_at = fact.at
            # It is in the name of this one that a checkpoint is written first, whatever its controller said.
            waits = ack.after_checkpoint or operation.kind is OperationKind.CHECKPOINT_AND_STOP
            operation.after_step = row.saved_step if waits else -1
            operation.within = ack.within
        if row.is_ended and not row.operations:
            _drop(self.rows, event.workload, event.epoch)

    def _expired(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AcksExpired)
        row = self.rows[event.workload][event.epoch]
        row.changed = fact.sequence
        for number in event.operations:
            row.operations[number].phase = OperationPhase.ASKED
            row.operations[number].after_step = -1
            row.operations[number].within = 0

    def _begun(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, OperationsBegun)
        row = self.rows[event.workload][event.epoch]
        row.changed = fact.sequence
        for number in event.operations:
            operation = row.operations[number]
            operation.phase, operation.by, operation.begun_at = OperationPhase.BEGUN, event.by, fact.at
            task = row.tasks.get(operation.task)
            if task is not None and operation.kind.stops and task.phase in (TaskPhase.UP, TaskPhase.STARTING):
                _enter(row, task, TaskPhase.DOWN, fact, operation.kind)

    def _stuck(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, OperationsStuck)
        for number in event.operations:
            self.rows[event.workload][event.epoch].operations[number].is_stuck = True

    def _done(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, OperationsDone)
        row = self.rows[event.workload][event.epoch]
        row.changed = fact.sequence
        for number in event.operations:
            operation = row.operations[number]
            operation.phase, operation.outcome = OperationPhase.DONE, event.outcome
            task = row.tasks.get(operation.task)
            is_new = operation.kind is OperationKind.START and task is not None and task.node < 0
            if event.outcome is Outcome.WITHDRAWN and is_new:
                del row.tasks[operation.task]  # It was to be, and never was.
            if not row.spec.controller:
                del row.operations[number]  # No controller is to be told.
        if row.is_ended and not row.operations:
            _drop(self.rows, event.workload, event.epoch)

    def _forgotten(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ControlForgotten)
        _drop(self.rows, event.workload, event.epoch)


def _enter(row: AttemptControl, task: TaskRow, phase: TaskPhase, fact: Fact, cause: str = "") -> None:
    """The request differs when a task is missed that was not, or the other way round."""
    was_missed = task.is_missed
    task.phase, task.since, task.cause = phase, fact.at, cause
    if task.is_missed != was_missed:
        row.changed = fact.sequence


def _tasks_of(claim: Claim, at: int) -> dict[int, TaskRow]:
    """Ranks are numbered node by node."""
    return {
        task_number(job, rank): TaskRow(node, since=at, revision=claim.spec_revision)
        for job, spread in enumerate(claim.spreads)
        for rank, node in enumerate(nodes_of_ranks(spread))
    }


def _drop(rows: dict[WorkloadId, dict[int, AttemptControl]], workload: WorkloadId, epoch: int) -> None:
    epochs = rows.get(workload)
    if epochs is not None:
        epochs.pop(epoch, None)
        if not epochs:
            del rows[workload]
