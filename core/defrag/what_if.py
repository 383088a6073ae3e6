"""A copy of a region's image in which moves are tried: what a region would be if its work lay elsewhere.

Moves are folded as the facts that they would become, so that what is seen of them is what the log's fold would come to: a gang
ends and is granted anew, a task that stands alone gets another node. The search is an agent's own, by each pool's rules.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from core.claims.checks import has_room
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
"""An attempt, and its task; `WHOLE`: its gang."""


class Mover(Struct, frozen=True):
    """What is moved as one: a gang, or one task that stands alone."""

    key: AttemptKey
    task: int
    claim: Claim
    spreads: tuple[Spread, ...]
    """Where it is; of a task that stands alone one, of its own node."""
    gpu_milli: int
    destroyed: int
    """GPU-seconds since its newest checkpoint."""
    run: int = 0
    why_not: Immovable | None = None
    """Why it stays where it is, if it does."""

    @property
    def id(self) -> MoverId:
        """By which it is found again."""
        return self.key, self.task

    @property
    def jobs(self) -> tuple[JobSpec, ...]:
        """What looks for a place."""
        if self.task == WHOLE:
            return self.claim.jobs
        return (replace(self.claim.jobs[job_and_rank(self.task)[0]], tasks=1),)

    @property
    def asker(self) -> Asker:
        """Who looks for it. A plan takes nothing that pools keep free, though the task of a service, which moves, might."""
        return asker_of(self.claim, 0)

    def nodes(self) -> list[int]:
        """Where it is, each once."""
        return sorted({node for spread in self.spreads for node in spread.nodes})

    def to(self, spreads: tuple[Spread, ...]) -> PlannedMove:
        """The move that brings it there."""
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
    """All that holds anything, in the order of grants. The image has `capacity` and `control` too."""
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
    """What a service has served is done: to start a task of it again destroys no work."""
    job = claim.jobs[job_and_rank(number)[0]]
    spread = Spread((task.node,), (1,))
    return Mover(key, number, claim, (spread,), job.need.gpu_milli, 0, task.run, why)


def _why_gang_stays(held: Holding, row: AttemptControl | None) -> Immovable | None:
    if held.claim.kind == Kind.INTERACTIVE:
        return Immovable.INTERACTIVE
    if held.claim.kind == Kind.FUNCTION:
        return Immovable.FUNCTION
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
    """The copy, and whoever searches it."""

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
        """Under which names room is held that has been left."""

    @property
    def capacity(self) -> Capacity:
        """As it has become."""
        return self.image.capacity

    def close(self, source: str, nodes: Iterable[int]) -> None:
        """Nothing is placed there any more."""
        self._fold(NodesClosed(source, ClosureKind.DRAIN, runs_of(nodes), ""))

    def open(self, source: str, nodes: Iterable[int]) -> None:
        """Something is placed there again."""
        self._fold(NodesOpened(source, ClosureKind.DRAIN, runs_of(nodes)))

    def take_out(self, mover: Mover, spreads: tuple[Spread, ...]) -> None:
        """It is nowhere, after it was there, and needs no room."""
        if mover.id in self._left:
            self._fold(AttemptEnded(self._left.pop(mover.id), 1, EndCause.MOVED))
        if mover.task == WHOLE:
            self._fold(AttemptEnded(*mover.key, EndCause.MOVED))
        else:
            self._revise(mover, TaskMove(mover.task, spreads[0].nodes[0], -1))

    def put(self, mover: Mover, spreads: tuple[Spread, ...]) -> None:
        """It is there, after it was nowhere. What it leaves takes nobody: it is not free before it has gone."""
        if mover.task == WHOLE:
            claim = replace(mover.claim, spreads=spreads)
            self._fold(ClaimGranted(*mover.key, claim, is_merged=False))
        else:
            self._revise(mover, TaskMove(mover.task, -1, spreads[0].nodes[0]))
        if mover.task == WHOLE:
            self._keep(mover, spreads)

    def _keep(self, mover: Mover, to: tuple[Spread, ...]) -> None:
        """What a gang will not hold any more where it is, under another name.

        Parts of devices lie as the rule puts them, which may be less well than they lay: those that find no room are left out.
        """
        jobs, left = [], []
        for job, was, will in zip(mover.claim.jobs, mover.spreads, to, strict=True):
            stay, part = dict(zip(will.nodes, will.tasks, strict=True)), part_of(job.need.gpu_milli)
            gone = {}
            for node, tasks in zip(was.nodes, was.tasks, strict=True):
                # Of a closed node nobody takes anything anyhow.
                count = max(0, tasks - stay.get(node, 0)) if self.capacity.is_open(node) else 0
                while count and not has_room(
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
        """All have gone, and what they left is free."""
        for name in self._left.values():
            self._fold(AttemptEnded(name, 1, EndCause.MOVED))
        self._left.clear()

    def find(self, mover: Mover) -> tuple[Spread, ...] | None:
        """Where an agent would put it, which is nowhere now; None where nothing is free, or a rule fails."""
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
        """Whether a job's tasks, with one that is nowhere now there, lie as its topology asks, or no worse than before all moves.

        An agent that moves a single task does not look at the others.
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
        """Racks, pods or zones in which these are."""
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
