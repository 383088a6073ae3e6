"""The capacity section of a region's image: the capacity of every node, and the attempts that hold it.

Per node: free + held + ending + lost = total, in each resource. *Ending* runs from the order to stop until the node reports
empty; all capacity of a lost node is *lost* until the node reports empty. A promise reserves the part of its capacity that its
victims do not hold: that part stays free in the ledger, but no other claim may take it.

Columns are plain lists indexed by node number: scalar changes, of which a fold consists, are several times faster on lists than
on arrays (measured with CPython 3.11: 30 against 110 ns). Searches keep arrays beside the lists.
"""

from msgspec import Struct, field
from msgspec.structs import replace

from core.device_shares import FreeDevices, part_of, shared_in
from core.events.control import ClaimRevised, DomainLost, NodesClosed, NodesOpened, ScopeJoined, TasksDown
from core.events.pools import NodesPooled
from core.events.region import (
    AttemptEnded,
    AttemptRanked,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    NodesJoined,
    NodesLost,
    NodesReturned,
    PromiseRevised,
    StopOrdered,
)
from core.fact import Fact
from core.images.base import Section
from core.images.closures import ClosedNode, Closure
from core.images.devices import SharedDevices, tasks_with_parts
from core.images.health import Failures, losses_with
from core.images.pairs import beside_its_host, heirs_of
from core.images.promised_capacity import reserve
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import AttemptKey, WorkerName, WorkloadId
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import job_and_rank
from core.nouns.placement import Claim, NodeRow, moved, need_of, needs_of, nodes_of, numbers_in, runs_of
from core.nouns.pooling import NodeRuns
from core.nouns.quantities import MILLI, Amount

NOT_UP = 1 << 62
"""Later than every instant: of an attempt of which not all tasks are up."""


class Holding(Struct):
    """A granted attempt's capacity."""

    claim: Claim
    granted_at: int
    granted_sequence: int
    is_ending: bool = False
    started_at: int = 0
    saved_at: int = 0
    """When its newest checkpoint was recorded: what was done since would be lost."""
    parts: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By task that needs a part of a device: its node, and the number that the shared device has there."""
    stopped_at: int = 0
    """When it was ordered to stop; 0: it was not."""
    guest: AttemptKey | None = None
    """The attempt that lies beside it on its device (core/images/pairs.py)."""

    @property
    def is_paired(self) -> bool:
        """Whether it shares its device, as host or as guest: its end alone frees no GPU."""
        return self.guest is not None or self.claim.beside is not None

    @property
    def spared_until(self) -> int:
        """Before when it may not be pushed out: its tenant's work runs for a while at least, counted from when all of it was up."""
        if not self.claim.run_min:
            return 0
        return self.started_at + self.claim.run_min if self.started_at else NOT_UP


class WorkerRow(Struct):
    """One worker and what it serves."""

    inventory: Inventory
    """As it joined, but for the pools of its nodes: those are as the log has put them since."""
    is_lost: bool = False
    sequence: int = 0
    """Of the fact that last changed whether it is lost."""
    losses: list[int] = field(default_factory=list)
    """When it was lost, its newest loss last: those within the span before that in which they count as flapping."""


class Columns(Struct):
    """One resource over all nodes, by node number."""

    total: list[int] = field(default_factory=list)
    free: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    ending: list[int] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    """The part of `free` that is promised."""

    def grow(self, size: int) -> None:
        """Make room for node numbers below `size`."""
        for column in (self.total, self.free, self.held, self.ending, self.reserved):
            column.extend([0] * (size - len(column)))


class Capacity(Section):
    """Nodes, holdings and promises."""

    FOLDS = {
        NodesJoined: "_joined",
        NodesPooled: "_pooled",
        NodesLost: "_lost",
        NodesReturned: "_returned",
        DomainLost: "_domain_lost",
        NodesClosed: "_closed",
        NodesOpened: "_opened",
        ScopeJoined: "_scope_joined",
        ClaimRevised: "_revised",
        TasksDown: "_tasks_down",
        ClaimPromised: "_promised",
        PromiseRevised: "_promised",
        ClaimGranted: "_granted",
        AwardDeclined: "_declined",
        GangStarted: "_started",
        CheckpointCommitted: "_checkpoint",
        StopOrdered: "_stop",
        AttemptEnded: "_ended",
        AttemptRanked: "_ranked",
    }

    gpu: Columns = field(default_factory=Columns)
    cpu: Columns = field(default_factory=Columns)
    memory: Columns = field(default_factory=Columns)
    node_type: list[str] = field(default_factory=list)
    """Empty for a number that no node has."""
    rack: list[int] = field(default_factory=list)
    worker_of: list[str] = field(default_factory=list)
    is_lost: list[bool] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)
    """How many closures a node is under."""
    closures: dict[str, Closure] = field(default_factory=dict)
    """By what closes: a drain, a maintenance, the quarantine, suspicion."""
    changed: list[int] = field(default_factory=list)
    """The sequence of the newest fact that changed the node's row: what a claim's view is compared with."""
    workers: dict[WorkerName, WorkerRow] = field(default_factory=dict)
    holdings: dict[WorkloadId, dict[int, Holding]] = field(default_factory=dict)
    promises: dict[WorkloadId, dict[int, Claim]] = field(default_factory=dict)
    failures: Failures = field(default_factory=Failures)
    devices: SharedDevices = field(default_factory=SharedDevices)

    # Reading.

    def has_node(self, node: int) -> bool:
        """Whether the region has a node of this number."""
        return 0 <= node < len(self.node_type) and self.node_type[node] != ""

    def is_open(self, node: int) -> bool:
        """Whether new tasks may be placed on the node."""
        return not self.is_lost[node] and not self.closed[node]

    def available(self, node: int) -> Amount:
        """Free and not promised, also where it may not be used; nothing on a lost node."""
        gpu, cpu, memory = self.gpu, self.cpu, self.memory
        return Amount(
            max(0, gpu.free[node] - gpu.reserved[node]),
            max(0, cpu.free[node] - cpu.reserved[node]),
            max(0, memory.free[node] - memory.reserved[node]),
        )

    def node_row(self, node: int) -> NodeRow:
        """One node as a conflict is answered with it."""
        shared = shared_in(self.devices.free(node)) if node in self.devices.by_node else ()
        return NodeRow(node, self.available(node), self.is_open(node), shared)

    def room(self, node: int) -> FreeDevices:
        """What is free on its devices, and not promised."""
        shared, available = self.devices.free(node), self.available(node)
        return FreeDevices((available.gpu_milli - sum(shared.values())) // MILLI, shared)

    def devices_if_kept(self, node: int) -> FreeDevices:
        """The same, with what is promised."""
        shared = self.devices.free_if_kept(node)
        return FreeDevices((self.gpu.free[node] - sum(shared.values())) // MILLI, shared)

    def holding(self, workload: WorkloadId, epoch: int) -> Holding | None:
        """What a live attempt holds."""
        return self.holdings.get(workload, {}).get(epoch)

    def promise(self, workload: WorkloadId, epoch: int) -> Claim | None:
        """What an attempt waits for."""
        return self.promises.get(workload, {}).get(epoch)

    def live(self) -> list[tuple[WorkloadId, int, Holding]]:
        """Every holding, in the order of grants to their workloads."""
        return [
            (workload, epoch, held)
            for workload, epochs in self.holdings.items()
            for epoch, held in epochs.items()
        ]

    # Folding.

    def _joined(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesJoined)
        self.add_nodes(event.worker, event.inventory, fact.sequence)

    def add_nodes(self, worker: WorkerName, inventory: Inventory, sequence: int) -> None:
        """Add the nodes that one worker serves, free and open."""
        self.workers[worker] = WorkerRow(inventory, sequence=sequence)
        for group in inventory.groups:
            self._add(group, worker, sequence)

    def _pooled(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesPooled)
        self.pool(event.nodes, event.pool, fact.sequence)

    def pool(self, nodes: NodeRuns, pool: str, sequence: int) -> None:
        """Put nodes into a pool."""
        numbers = numbers_in(nodes)
        for node in numbers:
            self.changed[node] = sequence
        for worker in dict.fromkeys(WorkerName(self.worker_of[node]) for node in numbers):
            row = self.workers[worker]
            row.inventory = row.inventory.pooled(nodes, pool)

    def _add(self, group: NodeGroup, worker: WorkerName, sequence: int) -> None:
        size = max(known := len(self.node_type), group.first + group.count)
        missing = size - known
        for resource in (self.gpu, self.cpu, self.memory):
            resource.grow(size)
        for texts in (self.node_type, self.worker_of):
            texts.extend([""] * missing)
        for numbers in (self.rack, self.closed, self.changed):
            numbers.extend([0] * missing)
        self.is_lost.extend([False] * missing)
        for node in group.numbers():
            assert not self.node_type[node], (node, worker)
            self.node_type[node] = group.node_type
            self.rack[node] = group.rack_of(node)
            self.worker_of[node] = worker
            self.changed[node] = sequence
            for columns, amount in self._each(group.total):
                columns.total[node] = columns.free[node] = amount

    def _each(self, amount: Amount) -> tuple[tuple[Columns, int], ...]:
        return (
            (self.gpu, amount.gpu_milli),
            (self.cpu, amount.cpu_milli),
            (self.memory, amount.memory_bytes),
        )

    def _lost(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesLost)
        self._lose(event.worker, event.nodes, fact)

    def _domain_lost(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DomainLost)
        for worker in event.workers:
            self._lose(worker, tuple(self.workers[worker].inventory.numbers()), fact)

    def _lose(self, worker: WorkerName, nodes: tuple[int, ...], fact: Fact) -> None:
        row = self.workers[worker]
        row.is_lost = True
        row.sequence = fact.sequence
        row.losses = losses_with(row.losses, fact.at)
        for node in nodes:
            self.is_lost[node] = True
            self.changed[node] = fact.sequence
            for columns in (self.gpu, self.cpu, self.memory):
                columns.free[node] = columns.held[node] = columns.ending[node] = 0
        self.devices.lose(nodes)

    def _returned(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesReturned)
        row = self.workers[event.worker]
        row.is_lost = False
        row.sequence = fact.sequence
        for node in event.nodes:
            self.is_lost[node] = False
            self.changed[node] = fact.sequence
            for columns in (self.gpu, self.cpu, self.memory):
                columns.free[node] = columns.total[node]
        self._hold_again(set(event.nodes))
        reserve(self, event.nodes)

    def _hold_again(self, nodes: set[int]) -> None:
        """Attempts that outlived the loss still hold their room: tasks that stand alone are started there again."""
        for _, _, held in self.live():
            for job, spread in zip(held.claim.jobs, held.claim.spreads, strict=True):
                for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
                    if node in nodes:
                        need = need_of(held.claim, job).times(tasks)
                        self._hold(node, need, is_ending=held.is_ending)
            again = [task for task, (node, _) in held.parts.items() if node in nodes]
            self.devices.place(held.claim, held.parts, again, self.is_lost)

    def _hold(self, node: int, amount: Amount, *, is_ending: bool = False) -> None:
        for columns, value in self._each(amount):
            columns.free[node] -= value
            (columns.ending if is_ending else columns.held)[node] += value

    def _closed(self, fact: Fact) -> None:
        """More nodes of the same source add to those that it closed before."""
        event = fact.event
        assert isinstance(event, NodesClosed)
        known = self.closures.get(event.source)
        before = dict.fromkeys(numbers_in(known.nodes)) if known else {}
        fresh = [node for node in numbers_in(event.nodes) if node not in before]
        for node in fresh:
            self.closed[node] += 1
            self.changed[node] = fact.sequence
        runs = runs_of([*before, *fresh])
        closure = Closure(event.kind, runs, event.reason, fact.at, event.deadline, event.by)
        closure.scope, closure.lasts, closure.key, closure.pool = (
            event.scope,
            event.lasts,
            event.key,
            event.pool,
        )
        if not event.kind.empties:
            closure.each = known.each if known else {}
            row = ClosedNode(fact.at, event.reason, event.until_checked)
            closure.each.update(dict.fromkeys(fresh, row))
        self.closures[event.source] = closure

    def _scope_joined(self, fact: Fact) -> None:
        """A maintenance of which no notice is given yet closes nothing."""
        event = fact.event
        assert isinstance(event, ScopeJoined)
        closure = self.closures.get(event.source)
        if closure is None:
            return
        nodes = numbers_in(event.nodes)
        for node in nodes:
            self.closed[node] += 1
            self.changed[node] = fact.sequence
        closure.nodes = runs_of([*numbers_in(closure.nodes), *nodes])

    def _opened(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesOpened)
        closure = self.closures[event.source]
        opened = dict.fromkeys(numbers_in(event.nodes))
        for node in opened:
            self.closed[node] -= 1
            self.changed[node] = fact.sequence
            closure.each.pop(node, None)
        if event.kind is ClosureKind.QUARANTINE:
            self.failures.forget(numbers_in(event.nodes))
        closure.nodes = runs_of(node for node in numbers_in(closure.nodes) if node not in opened)
        if not closure.nodes:
            del self.closures[event.source]

    def _revised(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimRevised)
        held = self.holdings[event.workload][event.epoch]
        for move in event.moves:
            if move.node_from == move.node_to:
                continue
            need = need_of(held.claim, held.claim.jobs[job_and_rank(move.task)[0]])
            for node, sign in ((move.node_from, -1), (move.node_to, 1)):
                if node >= 0 and not self.is_lost[node]:
                    self._hold(node, need.times(sign), is_ending=held.is_ending)
                if node >= 0:
                    self.changed[node] = fact.sequence
        self.devices.move(held.claim, held.parts, event.moves, self.is_lost)
        held.claim = moved(held.claim, event.moves, event.revision)
        if self.promises:
            # It may be a victim of one: what it does not hold there any more is to be reserved, and the other way round.
            ends = {node for move in event.moves for node in (move.node_from, move.node_to) if node >= 0}
            reserve(self, tuple(sorted(ends)))

    def _promised(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimPromised | PromiseRevised)
        epochs = self.promises.setdefault(event.workload, {})
        if isinstance(event, ClaimPromised):
            epochs[event.epoch] = replace(event.claim, beside=None) if event.claim.beside else event.claim
        else:
            epochs[event.epoch] = replace(epochs[event.epoch], victims=event.victims)
        reserve(self, nodes_of(epochs[event.epoch]), fact.sequence)

    def _granted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimGranted)
        claim = event.claim
        self._unpromise(event.workload, event.epoch, fact.sequence)
        if claim.beside is not None:
            claim = beside_its_host(self, claim)
        held = Holding(claim, fact.at, fact.sequence)
        self.holdings.setdefault(event.workload, {})[event.epoch] = held
        gpu, cpu, memory = self.gpu, self.cpu, self.memory
        changed, sequence = self.changed, fact.sequence
        has_parts = False
        for job, spread in zip(claim.jobs, claim.spreads, strict=True):
            need = need_of(claim, job)
            has_parts = has_parts or part_of(need.gpu_milli) > 0
            for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
                changed[node] = sequence
                gpu.free[node] -= need.gpu_milli * tasks
                gpu.held[node] += need.gpu_milli * tasks
                cpu.free[node] -= need.cpu_milli * tasks
                cpu.held[node] += need.cpu_milli * tasks
                memory.free[node] -= need.memory_bytes * tasks
                memory.held[node] += need.memory_bytes * tasks
        if has_parts:
            held.parts.update(tasks_with_parts(claim))
            self.devices.place(claim, held.parts, held.parts, self.is_lost)

    def _declined(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AwardDeclined)
        self._unpromise(event.workload, event.epoch, fact.sequence)

    def _ranked(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptRanked)
        held = self.holdings[event.workload][event.epoch]
        held.claim = replace(held.claim, priority=event.level, standing_revision=event.revision)

    def _started(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, GangStarted)
        self.holdings[event.workload][event.epoch].started_at = fact.at

    def _checkpoint(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, CheckpointCommitted)
        self.holdings[event.workload][event.epoch].saved_at = fact.at

    def _stop(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StopOrdered)
        held = self.holdings[event.workload][event.epoch]
        held.is_ending, held.stopped_at = True, fact.at
        for job, spread in zip(held.claim.jobs, held.claim.spreads, strict=True):
            for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
                if not self.is_lost[node]:
                    for columns, amount in self._each(need_of(held.claim, job)):
                        columns.held[node] -= amount * tasks
                        columns.ending[node] += amount * tasks

    def _ended(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptEnded)
        epochs = self.holdings[event.workload]
        held = epochs.pop(event.epoch)
        if not epochs:
            del self.holdings[event.workload]
        self.failures.judge(event, nodes_of(held.claim), held.granted_at, held.started_at, fact.at)
        gpu, cpu, memory = self.gpu, self.cpu, self.memory
        changed, sequence = self.changed, fact.sequence
        gpu_was, cpu_was, memory_was = (
            (gpu.ending, cpu.ending, memory.ending) if held.is_ending else (gpu.held, cpu.held, memory.held)
        )
        for job, spread in zip(held.claim.jobs, held.claim.spreads, strict=True):
            need = need_of(held.claim, job)
            for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
                if self.is_lost[node]:
                    continue
                changed[node] = sequence
                gpu.free[node] += need.gpu_milli * tasks
                gpu_was[node] -= need.gpu_milli * tasks
                cpu.free[node] += need.cpu_milli * tasks
                cpu_was[node] -= need.cpu_milli * tasks
                memory.free[node] += need.memory_bytes * tasks
                memory_was[node] -= need.memory_bytes * tasks
        if held.parts:
            self.devices.leave(held.claim, held.parts, self.is_lost)
        for heir in heirs_of(self, held):
            for node, need in needs_of(heir.claim).items():
                if not self.is_lost[node]:
                    self._hold(node, Amount(need.gpu_milli), is_ending=heir.is_ending)
        if self.promises:
            reserve(self, nodes_of(held.claim), sequence)

    # Health.

    def _tasks_down(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, TasksDown)
        if event.failed_nodes:
            since = fact.at - event.failed_after
            self.failures.add(
                event.failed_nodes, event.workload, at=fact.at, since=since, ran=event.failed_after
            )

    # Promises.

    def _unpromise(self, workload: WorkloadId, epoch: int, sequence: int) -> None:
        claim = self.promise(workload, epoch)
        if claim is None:
            return
        epochs = self.promises[workload]
        del epochs[epoch]
        if not epochs:
            del self.promises[workload]
        reserve(self, nodes_of(claim), sequence)
