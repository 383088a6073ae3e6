"""What is moved so that whole nodes or racks come free: the moves that a plan proposes, and what a region is before and after.

A plan is a file that people read, keep and execute later, so a field that this build does not know is refused.
"""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.ids import AttemptKey, RegionName, WorkloadId
from core.nouns.operation import WHOLE
from core.nouns.placement import Spread

PLAN_VERSION = 1


class Freeing(StrEnum):
    """What is to come free whole."""

    NODES = "nodes"
    RACKS = "racks"


class Immovable(StrEnum):
    """Why work stays where it is, or nodes as they are."""

    INTERACTIVE = "interactive work is not moved by choice"
    FUNCTION = "functions end soon by themselves"
    STARTING = "work there is starting"
    ENDING = "work there is ending, or is to make room for other work"
    BUSY = "an operation is under way, or waits, on work there"
    DOWN = "a task there is not up"
    PROMISED = "room there is promised to work that waits"
    CLOSED = "nodes there are lost, drained, suspected, worked on, or in quarantine"
    PAIRED = "work there shares a device with other work"
    NO_ROOM = "what runs there finds no place elsewhere"
    NO_GAIN = "elsewhere it would take as many free ones as it leaves"


class PlannedMove(Struct, frozen=True, forbid_unknown_fields=True):
    """A gang, or one task that stands alone, and where it would go. GPUs are counted in milli."""

    workload: WorkloadId
    epoch: int
    task: int
    """`WHOLE`: a gang, which goes back to the queue and is placed anew as a whole."""
    spreads_from: tuple[Spread, ...]
    """Of a gang by job; of a task that stands alone its one node."""
    spreads_to: tuple[Spread, ...]
    """Where the rules would put it."""
    gpu_milli: int
    destroyed: int
    """GPU-seconds of work since the newest checkpoint; the task of a service has none."""
    run: int = 0
    """Of a task that stands alone: a newer run is another matter."""
    revision: int = 0
    """Of a gang's claim, for the same reason."""
    controller: str = ""
    """The controller that must agree, as tenant/name; empty: the job's limits decide."""

    @property
    def key(self) -> AttemptKey:
        """Return the key of the attempt that moves."""
        return self.workload, self.epoch

    @property
    def is_gang(self) -> bool:
        """Whether it is moved as a whole."""
        return self.task == WHOLE

    def nodes(self) -> list[int]:
        """Those that it leaves."""
        return sorted({node for spread in self.spreads_from for node in spread.nodes})


class Freed(Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that come free together, and the moves that this takes: all of them, or it comes to nothing."""

    nodes: tuple[int, ...]
    """Closed to new work until they are empty, so that nothing slips in."""
    moves: tuple[PlannedMove, ...]
    racks: tuple[int, ...] = ()
    """That come free whole, where racks are to."""

    @property
    def destroyed(self) -> int:
        """GPU-seconds of work that it costs."""
        return sum(move.destroyed for move in self.moves)


class Wholeness(Struct, frozen=True, forbid_unknown_fields=True):
    """How whole what is free of a region lies. GPUs are whole devices; of closed nodes nothing counts as free."""

    nodes: int
    racks: int
    free_nodes: int
    """Open, and nothing is on them."""
    free_racks: int
    """All nodes of them are free."""
    free_gpus: int
    whole_gpus: int
    """Of these, those on free nodes."""
    stranded_gpus: int
    """Free GPUs on nodes that lack the CPUs or the memory that tasks here need for a GPU on average."""
    largest_gangs: dict[str, int]
    """GPUs of the largest gang that one node holds, and that whole free nodes of one rack, pod or zone hold."""


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """What `mizzen defrag --plan` proposes: the cheapest first. Each move has room that is free already, so that none waits for another."""

    region: RegionName
    log_id: str
    sequence: int
    """Of the region's log, that it was made from."""
    at: int
    """Time up to which lost work is counted, on the clock of the process that made the plan."""
    freeing: Freeing
    gpu_type: str
    """The only one that counts; empty: all do."""
    freed: tuple[Freed, ...]
    before: Wholeness
    after: Wholeness
    stays: dict[str, int]
    """Why nodes, or racks, that are partly used do not come free, and how many each."""
    summary: dict[str, float] = {}
    """`moves`, `destroyed_gpu_seconds`, and `gpus_freed_per_move`: GPUs more on whole free nodes, by move."""
    version: int = PLAN_VERSION

    @property
    def moves(self) -> tuple[PlannedMove, ...]:
        """All of them, in order."""
        return tuple(move for freed in self.freed for move in freed.moves)

    @property
    def destroyed(self) -> int:
        """GPU-seconds of work that all of them cost."""
        return sum(freed.destroyed for freed in self.freed)

    def summed_up(self) -> "Plan":
        """With its summary."""
        moves = len(self.moves)
        more = self.after.whole_gpus - self.before.whole_gpus
        per_move = round(more / moves, 2) if moves else 0.0
        found = {"moves": moves, "destroyed_gpu_seconds": self.destroyed, "gpus_freed_per_move": per_move}
        return replace(self, summary=found)
