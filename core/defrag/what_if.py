"""A copy of a region's image in which moves are tried.

Moves are folded as the facts that they would become, so that the copy equals the fold of such a log: a gang ends and is granted
again, an independent task gets another node. The search is an agent's own, by each pool's rules.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from core.claims.checks import has_capacity
from core.device_shares import part_of
from core.events.control import ClaimRevised, NodesClosed, NodesOpened
from core.events.region import AttemptEnded, ClaimGranted
from core.fact import Event, Fact
from core.images import RegionImage
from core.images.capacity import Capacity, Holding
from core.images.control import AttemptControl, TaskPhase, TaskRow
from core.nouns.defragmentation import Immovable, PlannedMove
from core.nouns.ids import AttemptKey, LogName, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import WHOLE, TaskMove, job_and_rank
from core.nouns.placement import Claim, Spread, gpu_milli_of, nodes_of_ranks, runs_of
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Extent, JobSpec, Kind
from core.placing.index.overlay import Overlay
from core.placing.index.owners import OF_OWNERS
from core.placing.pick.extents import pod_of_rack
from core.placing.pick.nodes import Choice
from core.placing.placer import SECTIONS, Placer
from core.placing.pool_set import Asker, asker_of, request_of
from core.rules.placement.errors import RuleFailed
from core.rules.placement.eviction_cost import destroyed
from core.touched import touched_by

NOWHERE = LogName("sketch")
MoverId = tuple[AttemptKey, int]
"""Attempt and task; `WHOLE` for a gang."""


class Mover(Struct, frozen=True):
    """A gang or an independent task, which moves as one."""

    key: AttemptKey
    task: int
    claim: Claim
    spreads: tuple[Spread, ...]
    """Present nodes: of a gang by job, of an independent task one spread with one node."""
    gpu_milli: int
    destroyed: int
    """Lost work in GPU-seconds; 0 for an independent task."""
    run: int = 0
    why_not: Immovable | None = None
    """Reason why the mover stays on its nodes, if any."""

    @property
    def id(self) -> MoverId:
        """Key of the mover."""
        return self.key, self.task

    @property
    def jobs(self) -> tuple[JobSpec, ...]:
        """Jobs to place: all jobs of a gang, or the task's job with one task."""
        if self.task == WHOLE:
            return self.claim.jobs
        return (replace(self.claim.jobs[job_and_rank(self.task)[0]], tasks=1),)

    @property
    def asker(self) -> Asker:
        """Asker of the search, under reserves and limits unless recovering, although agents move service tasks regardless of both."""
        return asker_of(self.claim, 0)

    def nodes(self) -> list[int]:
        """Return the present nodes, ascending."""
        return sorted({node for spread in self.spreads for node in spread.nodes})

    def to(self, spreads: tuple[Spread, ...]) -> PlannedMove:
        """Return the planned move to these spreads."""
        is_gang = self.task == WHOLE
        control = self.claim.control
        return PlannedMove(
            *self.key,
            self.task,
            self.spreads,
            spreads,
            self.gpu_milli,
            self.destroyed,
            self.run,
            self.claim.revision if is_gang else 0,
            f"{self.claim.tenant}/{control.controller}" if control.controller else "",
        )


def movers_of(image: RegionImage, now: Instant) -> dict[MoverId, Mover]:
    """Return all gangs and tasks on nodes, in the order of grants. The image must have `capacity` and `control`."""
    victims = {
        key
        for epochs in image.capacity.promises.values()
        for claim in epochs.values()
        for key in claim.victims
    }
    found: dict[MoverId, Mover] = {}
    for workload, epoch, held in image.capacity.live():
        key = (workload, epoch)
        row = image.control.row(*key)
        is_leaving = held.is_ending or key in victims
        if row is None or not row.stands_alone:
            gpu_milli, lost = gpu_milli_of(held.claim.jobs), destroyed(held, now)
            why = Immovable.ENDING if is_leaving else _why_gang_stays(held, row)
            found[key, WHOLE] = Mover(
                key, WHOLE, held.claim, held.claim.spreads, gpu_milli, lost, why_not=why
            )
            continue
        busy = row.busy()
        for number, task in row.tasks.items():
            if task.node >= 0:
                why = Immovable.ENDING if is_leaving else _why_task_stays(task, is_busy=number in busy)
                found[key, number] = _alone(key, number, task, held.claim, why)
    return found


def _alone(key: AttemptKey, number: int, task: TaskRow, claim: Claim, why: Immovable | None) -> Mover:
    """Return the mover of an independent task, without lost work: requests that a service has served stay served."""
    job = claim.jobs[job_and_rank(number)[0]]
    spread = Spread((task.node,), (1,))
    return Mover(key, number, claim, (spread,), job.need.gpu_milli, 0, task.run, why)


def _why_gang_stays(held: Holding, row: AttemptControl | None) -> Immovable | None:
    if held.claim.kind == Kind.INTERACTIVE:
        return Immovable.INTERACTIVE
    if held.claim.kind == Kind.FUNCTION:
        return Immovable.FUNCTION
    if held.is_paired:
        return Immovable.PAIRED
    if not held.started_at:
        return Immovable.STARTING
    return Immovable.BUSY if row is not None and (row.busy() or row.is_paused) else None


def _why_task_stays(task: TaskRow, *, is_busy: bool) -> Immovable | None:
    if is_busy:
        return Immovable.BUSY
    if task.phase is TaskPhase.STARTING:
        return Immovable.STARTING
    return Immovable.DOWN if task.phase is not TaskPhase.UP else None


class Sketch:
    """The copy of an image, and the placer that searches the copy."""

    def __init__(self, image: RegionImage) -> None:
        self.image = RegionImage.decode(image.encode(SECTIONS), SECTIONS)
        self.placer = Placer.of(self.image, Overlay())
        self._sequence = 0
        self._zone_of = {
            node: group.zone
            for row in self.capacity.workers.values()
            for group in row.inventory.groups
            for node in group.numbers()
        }
        self._left: dict[MoverId, WorkloadId] = {}
        """Names of the workloads under which capacity that a gang leaves is still held."""

    @property
    def capacity(self) -> Capacity:
        """Capacity after the moves made so far."""
        return self.image.capacity

    def close(self, source: str, nodes: Iterable[int]) -> None:
        """Close nodes to new work."""
        self._fold(NodesClosed(source, ClosureKind.DRAIN, runs_of(nodes), ""))

    def open(self, source: str, nodes: Iterable[int]) -> None:
        """Open nodes to new work again."""
        self._fold(NodesOpened(source, ClosureKind.DRAIN, runs_of(nodes)))

    def take_out(self, mover: Mover, spreads: tuple[Spread, ...]) -> None:
        """Take a mover off the nodes that it is on, so that the mover holds no capacity."""
        if mover.id in self._left:
            self._fold(AttemptEnded(self._left.pop(mover.id), 1, EndCause.MOVED))
        if mover.task == WHOLE:
            self._fold(AttemptEnded(*mover.key, EndCause.MOVED))
        else:
            self._revise(mover, TaskMove(mover.task, spreads[0].nodes[0], -1))

    def put(self, mover: Mover, spreads: tuple[Spread, ...]) -> None:
        """Put a mover that is on no node on these nodes. Capacity that a gang leaves stays held until `let_go`."""
        if mover.task == WHOLE:
            claim = replace(mover.claim, spreads=spreads)
            self._fold(ClaimGranted(*mover.key, claim, is_merged=False))
        else:
            self._revise(mover, TaskMove(mover.task, -1, spreads[0].nodes[0]))
        if mover.task == WHOLE:
            self._keep(mover, spreads)

    def _keep(self, mover: Mover, to: tuple[Spread, ...]) -> None:
        """Hold, under another name, the capacity that a gang leaves: not free for other moves before the gang has gone.

        Parts of devices are placed again by the rule, perhaps less tightly than before: parts that no longer fit are left out.
        """
        jobs, left = [], []
        for job, was, will in zip(mover.claim.jobs, mover.spreads, to, strict=True):
            stay, part = dict(zip(will.nodes, will.tasks, strict=True)), part_of(job.need.gpu_milli)
            gone = {}
            for node, tasks in zip(was.nodes, was.tasks, strict=True):
                # A closed node takes no new work anyhow.
                count = max(0, tasks - stay.get(node, 0)) if self.capacity.is_open(node) else 0
                while count and not has_capacity(
                    self.capacity, node, job.need.times(count), [part] * count if part else ()
                ):
                    count -= 1
                if count:
                    gone[node] = count
            if gone:
                jobs.append(replace(job, tasks=sum(gone.values())))
                left.append(Spread(tuple(gone), tuple(gone.values())))
        if jobs:
            name = self._left[mover.id] = WorkloadId(f"left-{self._sequence}")
            claim = replace(mover.claim, jobs=tuple(jobs), spreads=tuple(left))
            self._fold(ClaimGranted(name, 1, claim, is_merged=False))

    def let_go(self) -> None:
        """Free all capacity that moved gangs have left."""
        for name in self._left.values():
            self._fold(AttemptEnded(name, 1, EndCause.MOVED))
        self._left.clear()

    def find(self, mover: Mover) -> tuple[Spread, ...] | None:
        """Return the place that an agent would choose for a mover on no node; None if there is no place, or a rule fails."""
        choice = Choice(f"{mover.key[0]}.{mover.key[1]}.{mover.task}")
        jobs = mover.jobs
        try:
            with self.placer.as_if((), jobs) as pools:
                if mover.task == WHOLE:
                    found = pools.find(jobs, mover.asker, choice)
                    return None if isinstance(found, Reason) else found
                alone = pools.find_each(jobs[0], mover.asker, choice)
                return alone if alone and self.keeps_together(mover, alone[0].nodes[0]) else None
        except RuleFailed:
            return None

    def keeps_together(self, mover: Mover, node: int) -> bool:
        """Return whether a job with this task on this node lies as the topology requires, or no worse than before all moves.

        Checked here because an agent that moves a single task does not consider the others.
        """
        held = self.capacity.holding(*mover.key)
        assert held is not None, mover.key
        position, _ = job_and_rank(mover.task)
        job, lay = mover.claim.jobs[position], mover.claim.spreads[position]
        was, will = nodes_of_ranks(lay), [*nodes_of_ranks(held.claim.spreads[position]), node]
        most = job.topology.tasks_per_node
        if most and will.count(node) > max(most, *lay.tasks):
            return False
        packed, spread = job.topology.pack, request_of(job, mover.asker).spread
        if packed and len(self._units(packed, will)) > len(self._units(packed, was)):
            return False
        return not spread or len(self._units(spread, will)) >= len(self._units(spread, was))

    def _units(self, extent: Extent, nodes: Iterable[int]) -> set[object]:
        """Return the racks, pods or zones of nodes, or the nodes themselves."""
        if extent is Extent.NODE:
            return set(nodes)
        if extent is Extent.ZONE:
            return {self._zone_of[node] for node in nodes}
        racks = {self.capacity.rack[node] for node in nodes}
        return set(racks) if extent is Extent.RACK else {pod_of_rack(rack) for rack in racks}

    def _revise(self, mover: Mover, move: TaskMove) -> None:
        held = self.capacity.holding(*mover.key)
        assert held is not None, mover.key
        self._fold(ClaimRevised(*mover.key, held.claim.revision + 1, (move,)))

    def _fold(self, event: Event) -> None:
        self._sequence += 1
        at = Instant(self._sequence * SECOND)
        fact = Fact(NOWHERE, self._sequence, at, "sketch", "sketch", event)
        touched = touched_by(self.capacity, fact)
        self.image.fold(fact)
        self.placer.touch(touched)
        if isinstance(event, OF_OWNERS):
            self.placer.settle(event.workload, event.epoch)
