"""What a region's broker, agents and workers do about operations: stop, place and start, in a span that a test names.

It looks at the region's image and says what it has done, as they do. A stop takes no time; a start takes as long as it is
told, and until then its task is unavailable.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from core.images.control import AttemptControl, OperationRow, TaskPhase, TaskRow
from core.images.region import AttemptPhase
from core.messages.control import RecordTasksGone, RecordTasksUp, ReviseClaim
from core.messages.store import RecordEnd, RecordJoin, RecordLoss, RecordReturn, RecordStarted, SubmitClaim
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import AgentName, ClaimId, TenantName, WorkerName
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import OPERATIONS_AT_ONCE_MAX, WORKER_NODES_MAX
from core.nouns.operation import WHOLE, Answer, ControlSpec, OperationKind, OperationPhase, TaskMove
from core.nouns.placement import Claim, Spread, View, runs_of
from core.nouns.quantities import Amount
from core.nouns.workload import EndCause, JobSpec, Kind
from core.rules.operations import leaves_its_node, may_move_back, may_return, may_return_from
from mizzen.control.region_in_memory import REGION, WORKLOAD, RegionInMemory

NODE = Amount(gpu_milli=1000)
"""Each node has room for one task."""
GPU_TYPE = "H100"
GROUPS_MAX = 500
"""Runs of nodes of one worker, so that its join fits a fact however long its domain's name is."""


class Shape(NamedTuple):
    """What the workload is."""

    tenant: str
    control: ControlSpec
    jobs: tuple[JobSpec, ...]
    is_gang: bool


class CrewInMemory:
    """Carries out what has begun, on nodes that each take one task."""

    def __init__(
        self, region: RegionInMemory, shape: Shape, domains: Mapping[str, Sequence[int]], takes: Nanoseconds
    ) -> None:
        """`domains` has the nodes of each power domain; the workload starts on the first of them all, in order."""
        self.epoch = 0
        self.takes = takes
        self._region = region
        self._shape = shape
        self._jobs = shape.jobs
        self._ready: dict[tuple[int, int, int], Instant] = {}
        """By epoch, task and run, when it is healthy."""
        self._workers: dict[str, list[WorkerName]] = {}
        for name, nodes in domains.items():
            inventories = _inventories(name, nodes)
            self._workers[name] = [inventory.worker for inventory in inventories]
            for inventory in inventories:
                region.command(RecordJoin(REGION, inventory))
        assert self._award(), "there are nodes for all of its tasks"
        self._start_gang()

    # The attempt.

    def row(self) -> AttemptControl | None:
        """What the region knows of its tasks and operations."""
        return self._region.image.control.spec_of(WORKLOAD, self.epoch)

    def unavailable(self) -> list[int]:
        """Tasks that are not up; of a gang that has yet to start, the whole."""
        row = self.row()
        attempt = self._region.image.attempts.row(WORKLOAD, self.epoch)
        is_up = row is not None and attempt is not None and attempt.phase is AttemptPhase.STARTED
        if row is None or (self._shape.is_gang and not is_up):
            return [WHOLE]
        return row.unavailable()

    def _award(self) -> bool:
        """The next attempt, on the first nodes that are free, if there are enough."""
        wanted = sum(job.tasks for job in self._jobs)
        nodes = self._free_nodes()[:wanted]
        if len(nodes) < wanted:
            return False
        self.epoch += 1
        spreads = []
        for job in self._jobs:
            mine, nodes = nodes[: job.tasks], nodes[job.tasks :]
            spreads.append(Spread(tuple(mine), (1,) * len(mine)))
        before = self._region.image.attempts.row(WORKLOAD, self.epoch - 1)
        claim = Claim(
            ClaimId(f"c-{self.epoch}"),
            REGION,
            AgentName("harness"),
            WORKLOAD,
            self.epoch,
            self._region.award(self.epoch),
            priority=3,
            kind=Kind.TRAINING if self._shape.is_gang else Kind.SERVICE,
            jobs=self._jobs,
            spreads=tuple(spreads),
            view=View(self._region.sequence),
            resume_step=before.saved_step if before is not None else 0,
            tenant=TenantName(self._shape.tenant),
            control=self._shape.control,
        )
        self._region.command(SubmitClaim(REGION, claim))
        assert self._region.capacity.holding(WORKLOAD, self.epoch) is not None, "the claim fits"
        return True

    def _start_gang(self) -> None:
        self._region.command(RecordStarted(REGION, WORKLOAD, self.epoch))
        self._region.bound(self.epoch)

    def _free_nodes(self) -> list[int]:
        capacity = self._region.capacity
        return [
            node
            for node in range(len(capacity.node_type))
            if capacity.has_node(node) and capacity.is_open(node) and capacity.available(node).covers(NODE)
        ]

    # Nodes.

    def lose(self, domain: str) -> None:
        """Nothing is heard of these nodes any more."""
        for worker in self._workers.get(domain, ()):
            self._region.command(RecordLoss(REGION, worker, self._region.sequence))

    def restore(self, domain: str) -> None:
        """They are back, and empty."""
        for worker in self._workers.get(domain, ()):
            self._region.command(RecordReturn(REGION, worker, self._region.sequence))

    # Carrying out.

    def due(self) -> Instant | None:
        """When the next task is healthy, or has looked elsewhere for long enough."""
        return min((*self._ready.values(), *self._returns()), default=None)

    def look(self) -> bool:
        """Do what can be done now; whether there was anything."""
        before = self._region.sequence
        attempt = self._region.image.attempts.row(WORKLOAD, self.epoch)
        if attempt is None or attempt.phase is AttemptPhase.ENDED:
            self._bring_back()  # The store may have forgotten already that it ended.
        elif attempt.stop_cause:
            self._end(EndCause(attempt.stop_cause))
        elif self._is_broken():
            self._end(EndCause.NODE_LOST)
        elif self._is_drained_meanwhile():
            self._end(EndCause.DRAINED)
        else:
            row = self.row()
            if row is not None and not row.is_ended:
                self._stop(row)
                self._revise(row)
                self._start(row)
        return self._region.sequence > before

    def _is_broken(self) -> bool:
        """Whether a gang lost a node. One that was stopped to return waits for it."""
        held = self._region.capacity.holding(WORKLOAD, self.epoch)
        row = self._region.image.control.row(WORKLOAD, self.epoch)
        if held is None or not self._shape.is_gang or (row is not None and row.is_paused):
            return False
        return any(
            self._region.capacity.is_lost[node] for spread in held.claim.spreads for node in spread.nodes
        )

    def _is_drained_meanwhile(self) -> bool:
        """Whether a gang that stopped to return finds one of its nodes drained."""
        held = self._region.capacity.holding(WORKLOAD, self.epoch)
        row = self._region.image.control.row(WORKLOAD, self.epoch)
        if held is None or row is None or not row.is_paused:
            return False
        operation = row.on(WHOLE)
        comes_back = operation is not None and operation.answer is Answer.STOP_AND_RETURN
        nodes = (node for spread in held.claim.spreads for node in spread.nodes)
        return comes_back and any(self._region.is_drained(node) for node in nodes)

    def _returns(self) -> list[Instant]:
        """When tasks may return to nodes that were drained while they were away."""
        row = self.row()
        if row is None:
            return []
        comes_back = [
            row.tasks[operation.task]
            for operation in row.operations.values()
            if operation.phase is OperationPhase.BEGUN
            and operation.answer is Answer.STOP_AND_RETURN
            and operation.task in row.tasks
        ]
        away = [task for task in comes_back if task.phase is TaskPhase.GONE and task.node >= 0]
        times = [may_return_from(self._region.capacity, task) for task in away]
        return [at for at in times if at > self._region.now]

    def _end(self, cause: EndCause) -> None:
        row = self.row()
        if row is not None:
            self._jobs = row.jobs  # The next attempt is as its user wants it now.
        whole = row.tasks.get(WHOLE) if row is not None else None
        run = whole.run if whole is not None else 0
        self._region.command(RecordEnd(REGION, WORKLOAD, self.epoch, cause, run=run))
        self._region.closed(self.epoch, cause)
        self._ready.clear()

    def _bring_back(self) -> None:
        """A gang that ended is placed anew, as soon as there is room, and starts."""
        if self._award():
            self._ready[self.epoch, WHOLE, 0] = after(self._region.now, self.takes)

    def _stop(self, row: AttemptControl) -> None:
        """A stop is done at once; what was on a lost node is gone with it."""
        down = [(number, task.run) for number, task in row.tasks.items() if task.phase is TaskPhase.DOWN]
        if down:
            self._region.command(RecordTasksGone(REGION, WORKLOAD, self.epoch, tuple(down)))

    def _revise(self, row: AttemptControl) -> None:
        """New runs for tasks of which nothing is left and whose operation has begun: where they were, or on a free node."""
        free = self._free_nodes()
        moves = []
        for operation in row.operations.values():
            task = row.tasks.get(operation.task)
            is_ready = operation.phase is OperationPhase.BEGUN and task is not None
            if not is_ready or task is None or task.phase is not TaskPhase.GONE:
                continue
            if operation.kind is not OperationKind.STOP:
                moves += self._moves_of(operation, task, free)
        for first in range(0, len(moves), OPERATIONS_AT_ONCE_MAX):
            part = tuple(moves[first : first + OPERATIONS_AT_ONCE_MAX])
            self._region.command(ReviseClaim(REGION, WORKLOAD, self.epoch, row.claim_revision + 1, part))

    def _moves_of(self, operation: OperationRow, task: TaskRow, free: list[int]) -> list[TaskMove]:
        """Where one task goes; takes that node out of those that are free."""
        number = operation.task
        comes_back = operation.answer is Answer.STOP_AND_RETURN
        is_early = comes_back and operation.source in self._region.image.maintenance.rows
        if comes_back and task.node >= 0 and self._region.is_drained(task.node):
            may_stay = not is_early and may_return(self._region.capacity, task, self._region.now)
            if free or not may_stay:
                return [TaskMove(number, task.node, free.pop(0))] if free else []
        if is_early:
            return []  # It returns when that is over.
        if number == WHOLE:
            return [TaskMove(WHOLE, -1, -1)] if self._may_gang_return() else []
        if leaves_its_node(operation):
            is_open = self._region.capacity.is_open(task.node)
            stays = is_open and may_move_back(operation, self._region.now)
        else:
            stays = True
        if stays and task.node >= 0 and self._region.may_start(task.node):
            return [TaskMove(number, task.node, task.node)]
        return [TaskMove(number, task.node, free.pop(0))] if free else []  # Or there is no room yet.

    def _may_gang_return(self) -> bool:
        held = self._region.capacity.holding(WORKLOAD, self.epoch)
        assert held is not None
        return all(self._region.may_start(node) for spread in held.claim.spreads for node in spread.nodes)

    def _start(self, row: AttemptControl) -> None:
        """What has a new run is healthy after a while."""
        now, epoch = self._region.now, self.epoch
        starting = {
            (epoch, number, task.run): after(Instant(task.since), self.takes)
            for number, task in row.tasks.items()
            if task.phase is TaskPhase.STARTING
        }
        if self._is_granted():
            starting = {(epoch, WHOLE, 0): self._ready.get((epoch, WHOLE, 0), now)}
        self._ready = {key: at for key, at in starting.items() if at > now}
        up = [(task, run) for (_, task, run), at in starting.items() if at <= now]
        if up and self._is_granted():
            self._start_gang()
        elif up:
            self._region.command(RecordTasksUp(REGION, WORKLOAD, epoch, tuple(up)))

    def _is_granted(self) -> bool:
        """Whether its attempt has yet to start as a whole."""
        attempt = self._region.image.attempts.row(WORKLOAD, self.epoch)
        return attempt is not None and attempt.phase is AttemptPhase.GRANTED


def _inventories(domain: str, nodes: Sequence[int]) -> list[Inventory]:
    """A worker, or as many as it takes to serve so many nodes, which fail together."""
    parts = [
        runs[at : at + GROUPS_MAX]
        for first in range(0, len(nodes), WORKER_NODES_MAX)
        for runs in (runs_of(nodes[first : first + WORKER_NODES_MAX]),)
        for at in range(0, len(runs), GROUPS_MAX)
    ]
    return [
        Inventory(
            WorkerName(domain if number == 0 else f"{domain} {number}"),
            tuple(
                NodeGroup(
                    first, last + 1 - first, NODE, GPU_TYPE, first, 1, power_domain=domain, runs_programs=True
                )
                for first, last in runs
            ),
        )
        for number, runs in enumerate(parts)
    ]
