"""The image of a region's log, in three sections: attempts, hardware, and capacity (core/images/capacity.py)."""

from bisect import bisect_right, insort
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from core.events.control import AttemptChanged, ClaimRevised
from core.events.log import LogOpened
from core.events.pools import NodesPooled
from core.events.region import (
    AttemptEnded,
    AttemptRanked,
    AttemptsForgotten,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    NodesJoined,
    StopOrdered,
)
from core.events.starts import StartReserved
from core.fact import Fact
from core.images.agents import Agents
from core.images.base import Image, Section
from core.images.capacity import Capacity
from core.images.clock import AcceptedClock
from core.images.control import Control
from core.images.functions import Functions
from core.images.harvest import Harvest
from core.images.maintenance import Destruction, Maintenance
from core.images.pools import Pools
from core.images.preemption import Preemption
from core.images.prices import PriceList
from core.images.reservations import Starts
from core.nouns.fleet import Inventory, cut
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.limits import NUMBER_MAX
from core.nouns.placement import Spread, moved_spreads, numbers_in
from core.nouns.pool import SHARED_POOL
from core.nouns.quantities import NOTHING, Amount
from core.nouns.workload import Kind


class AttemptPhase(StrEnum):
    """Where an attempt is in its life in its region."""

    PROMISED = "promised"
    GRANTED = "granted"
    STARTED = "started"
    ENDED = "ended"
    DECLINED = "declined"

    @property
    def is_live(self) -> bool:
        """Whether it holds capacity: it was granted and has not ended."""
        return self in (AttemptPhase.GRANTED, AttemptPhase.STARTED)


class AttemptRow(Struct):
    """One attempt as its region knows it."""

    phase: AttemptPhase
    award_sequence: int
    sequence: int
    """Of the newest fact about it."""
    stop_cause: str = ""
    """Set by the first order to stop."""
    end_cause: str = ""
    exit_code: int = 0
    saved_step: int = 0
    resume_epoch: int = 0
    resume_step: int = 0
    reason: str = ""
    spreads: tuple[Spread, ...] = ()
    """By job, where its tasks are, until it has ended."""
    spec_revision: int = 0
    """Of the workload's spec, as the region knows it."""
    standing_revision: int = 0
    """Of its standing, the same."""


class Attempts(Section):
    """Every attempt that was promised, granted or declined here and is not forgotten."""

    FOLDS = {
        ClaimPromised: "_promised",
        ClaimGranted: "_granted",
        AwardDeclined: "_declined",
        GangStarted: "_started",
        ClaimRevised: "_revised",
        AttemptChanged: "_changed",
        CheckpointCommitted: "_checkpoint",
        StopOrdered: "_stop",
        AttemptEnded: "_ended",
        AttemptRanked: "_ranked",
        AttemptsForgotten: "_forgotten",
        StartReserved: "_start_reserved",
        LogOpened: "_opened",
    }

    rows: dict[WorkloadId, dict[int, AttemptRow]] = field(default_factory=dict)
    """By workload and epoch: a region may still hold an ended attempt when the next is granted."""
    global_sequence: int = 0
    """Of the newest fact of the queue's log that a fact here rests on."""
    fleet: str = ""
    log_id: str = ""
    term: int = 0

    def row(self, workload: WorkloadId, epoch: int) -> AttemptRow | None:
        """One attempt, if it is known here."""
        return self.rows.get(workload, {}).get(epoch)

    def all_keys(self) -> list[AttemptKey]:
        """All of them, in the order in which their workloads were first heard of."""
        return [(workload, epoch) for workload, epochs in self.rows.items() for epoch in epochs]

    def _promised(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimPromised)
        self._begin(fact, event, AttemptPhase.PROMISED)

    def _granted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimGranted)
        self._begin(fact, event, AttemptPhase.GRANTED)

    def _begin(self, fact: Fact, event: ClaimPromised | ClaimGranted, phase: AttemptPhase) -> None:
        claim = event.claim
        self.rows.setdefault(event.workload, {})[event.epoch] = AttemptRow(
            phase,
            claim.award_sequence,
            fact.sequence,
            resume_epoch=claim.resume_epoch,
            resume_step=claim.resume_step,
            spreads=claim.spreads,
            spec_revision=claim.spec_revision,
            standing_revision=claim.standing_revision,
        )
        self.global_sequence = max(self.global_sequence, claim.award_sequence)

    def _declined(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AwardDeclined)
        self.rows.setdefault(event.workload, {})[event.epoch] = AttemptRow(
            AttemptPhase.DECLINED, event.award_sequence, fact.sequence, reason=event.reason
        )
        self.global_sequence = max(self.global_sequence, event.award_sequence)

    def _started(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, GangStarted)
        row = self.rows[event.workload][event.epoch]
        row.phase = AttemptPhase.STARTED
        row.sequence = fact.sequence

    def _revised(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimRevised)
        row = self.rows[event.workload][event.epoch]
        row.spreads = moved_spreads(row.spreads, event.moves)
        row.sequence = fact.sequence

    def _changed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptChanged)
        row = self.rows[event.workload][event.epoch]
        row.spec_revision = event.revision
        row.sequence = fact.sequence

    def _checkpoint(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, CheckpointCommitted)
        row = self.rows[event.workload][event.epoch]
        row.saved_step = event.step
        row.sequence = fact.sequence

    def _stop(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StopOrdered)
        row = self.rows[event.workload][event.epoch]
        row.stop_cause = event.cause
        row.sequence = fact.sequence
        self.global_sequence = max(self.global_sequence, event.global_sequence)

    def _ended(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptEnded)
        row = self.rows[event.workload][event.epoch]
        row.phase = AttemptPhase.ENDED
        row.end_cause = event.cause
        row.exit_code = event.exit_code
        row.sequence = fact.sequence
        row.spreads = ()

    def _ranked(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptRanked)
        row = self.rows[event.workload][event.epoch]
        row.standing_revision = event.revision
        row.sequence = fact.sequence

    def _forgotten(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptsForgotten)
        for workload, epoch in event.attempts:
            epochs = self.rows[workload]
            del epochs[epoch]
            if not epochs:
                del self.rows[workload]
        self.global_sequence = max(self.global_sequence, event.global_sequence)

    def _start_reserved(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StartReserved)
        self.global_sequence = max(self.global_sequence, event.global_sequence)

    def _opened(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, LogOpened)
        self.fleet, self.log_id, self.term = event.fleet, event.log_id, event.term


UNKNOWN_MOST = 1 << 100
"""The capacity of hardware that is not known: above every need."""


class HardwareRow(Struct):
    """All nodes of one node type together."""

    nodes: int
    gpu_milli_max: int
    """GPU milli of the node with most GPUs."""
    gpu_milli: int
    """GPU milli of all nodes."""
    most: Amount = NOTHING
    """The most of each resource that one of the `measured` nodes has; it may be another node for each resource."""
    total: Amount = NOTHING
    """Capacity of the `measured` nodes together."""
    gpu_memory_max: int = 0
    """Bytes of the largest GPU of the `measured` nodes; 0: unknown."""
    measured: int = 0
    """Nodes that `most`, `total` and `gpu_memory_max` include. In an image that an older build folded they are fewer than `nodes`."""

    def most_of(self, resource: str) -> int:
        """Return the most of a resource that one node has: a field of `Amount`, or `gpu_memory`."""
        if resource == "gpu_milli":
            return self.gpu_milli_max
        if self.measured < self.nodes:
            return UNKNOWN_MOST
        if resource == "gpu_memory":
            return self.gpu_memory_max or UNKNOWN_MOST
        return int(getattr(self.most, resource))

    def total_of(self, resource: str) -> int:
        """Return the capacity of all nodes together in a resource, a field of `Amount`."""
        if resource == "gpu_milli":
            return self.gpu_milli
        return int(getattr(self.total, resource)) if self.measured == self.nodes else UNKNOWN_MOST


class LikeNodes(Struct, frozen=True, array_like=True):
    """A run of like nodes."""

    first: int
    count: int
    node_type: str
    total: Amount
    """Capacity of one node."""
    gpu_memory: int
    is_shared: bool
    """Whether they are in a shared pool."""

    def is_followed_by(self, other: "LikeNodes") -> bool:
        """Return whether another run goes on where this one ends, so that both may be one."""
        return other == replace(self, first=self.first + self.count, count=other.count)


def joined_runs(parts: Iterable[LikeNodes]) -> list[LikeNodes]:
    """Return runs in their order, those that are alike and follow each other as one."""
    found: list[LikeNodes] = []
    for part in parts:
        if found and found[-1].is_followed_by(part):
            found[-1] = replace(found[-1], count=found[-1].count + part.count)
        else:
            found.append(part)
    return found


class Hardware(Section):
    """The region's hardware, free or not: enough to tell for which workloads the region need not be asked.

    Nodes that joined stay in a region's log, lost or not, so all nodes together never get fewer. They may move into a shared pool or out of it.
    """

    FOLDS = {NodesJoined: "_joined", NodesPooled: "_pooled"}

    rows: dict[str, HardwareRow] = field(default_factory=dict)
    """By node type, of nodes that are not in a shared pool."""
    shared: dict[str, HardwareRow] = field(default_factory=dict)
    """The same, of nodes that are."""
    runs: list[LikeNodes] = field(default_factory=list)
    """By their first numbers, ascending."""

    def of(self, kind: Kind) -> dict[str, HardwareRow]:
        """Return the nodes on which work of a kind may run, by node type."""
        return self.shared if kind is Kind.SHARED else self.rows

    @property
    def nodes(self) -> int:
        """Return how many nodes there are."""
        return sum(row.nodes for rows in (self.rows, self.shared) for row in rows.values())

    def _joined(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesJoined)
        self.add(event.inventory)

    def _pooled(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesPooled)
        is_shared = event.pool == SHARED_POOL
        if all(self._run_of(node).is_shared is is_shared for node in numbers_in(event.nodes)):
            return
        parts = (
            replace(run, first=first, count=count, is_shared=is_shared if is_named else run.is_shared)
            for run in self.runs
            for first, count, is_named in cut(run.first, run.count, event.nodes)
        )
        self.runs, self.rows, self.shared = joined_runs(parts), {}, {}
        for run in self.runs:
            self._count(run)

    def add(self, inventory: Inventory) -> None:
        """Count the nodes that one worker serves."""
        for group in inventory.groups:
            run = LikeNodes(
                group.first,
                group.count,
                group.node_type,
                group.total,
                group.gpu_memory,
                group.pool == SHARED_POOL,
            )
            insort(self.runs, run, key=lambda run: run.first)
            self._count(run)

    def _count(self, run: LikeNodes) -> None:
        row = (self.shared if run.is_shared else self.rows).setdefault(run.node_type, HardwareRow(0, 0, 0))
        row.nodes += run.count
        row.gpu_milli_max = max(row.gpu_milli_max, run.total.gpu_milli)
        row.gpu_milli += run.count * run.total.gpu_milli
        row.most = row.most.largest(run.total)
        row.total = _numbers(row.total.plus(run.total.times(run.count)))
        row.gpu_memory_max = max(row.gpu_memory_max, run.gpu_memory)
        row.measured += run.count

    def type_of(self, node: int) -> str:
        """The type of a node that has joined."""
        return self._run_of(node).node_type

    def _run_of(self, node: int) -> LikeNodes:
        run = self.runs[bisect_right(self.runs, node, key=lambda run: run.first) - 1]
        assert run.first <= node < run.first + run.count, node
        return run


def _numbers(amount: Amount) -> Amount:
    """Return an amount as numbers that an image can hold: of more, the largest number. No workload asks for so much."""
    return Amount(
        min(amount.gpu_milli, NUMBER_MAX),
        min(amount.cpu_milli, NUMBER_MAX),
        min(amount.memory_bytes, NUMBER_MAX),
    )


class RegionImage(Image):
    """The fold of a region's log."""

    attempts: Attempts
    """Every attempt known here."""
    hardware: Hardware
    """What the region has."""
    capacity: Capacity
    """Capacity of nodes, and the attempts that hold it."""
    control: Control
    """Tasks that stand alone, and operations."""
    maintenance: Maintenance
    """Planned work on nodes."""
    destruction: Destruction
    """Recent stops of each requester."""
    pools: Pools
    """What operators set of them, and the newest plan of which nodes move between them."""
    prices: PriceList
    """What room in it is worth."""
    starts: Starts
    """What is kept for starts that were promised."""
    clock: AcceptedClock
    """How far the log's time may be from the machine's."""
    preemption: Preemption
    """Settings of preemption, promises over victims, and lost work."""
    agents: Agents
    """How agents see the region."""
    functions: Functions
    """Counts of calls of functions."""
    harvest: Harvest
    """Capacity that functions may use while its owner does not."""
