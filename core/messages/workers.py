"""What a broker commands of workers, what workers report, and what a worker hears from its own tasks."""

from enum import StrEnum

from msgspec import Struct

from core.messages.base import Message, Notice
from core.nouns.fleet import Inventory
from core.nouns.harvest import LentPart
from core.nouns.ids import AttemptKey, RegionName, ShareKey, TenantName, WorkerName, WorkloadId
from core.nouns.operation import WHOLE
from core.nouns.pipeline import Forerunner
from core.nouns.placement import Spread
from core.nouns.workload import JobSpec

LOST = -1
"""An exit code that no program has: whatever ran the tasks died, or could not begin."""
ISOLATED = -2
"""Another: it stopped by itself, because its region was not heard for longer than it may run, or wait, without."""


class TasksPhase(StrEnum):
    """Where a worker's share of an attempt is."""

    PREPARED = "prepared"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


class OfShare:
    """Whatever is about one share, and says so in these four fields."""

    __slots__ = ()

    workload: WorkloadId
    epoch: int
    task: int
    run: int

    @property
    def key(self) -> ShareKey:
        """Which share it is."""
        return ShareKey(self.workload, self.epoch, self.task, self.run)


class TasksState(Struct, OfShare, frozen=True, omit_defaults=True):
    """A worker's share of one attempt."""

    workload: WorkloadId
    epoch: int
    phase: TasksPhase
    saved_step: int = 0
    """The newest checkpoint of this attempt; 0: none."""
    exit_code: int = 0
    """The first that was not zero, once ended. Less than zero: it ended by no fault of its own (`LOST`, `ISOLATED`)."""
    host: str = ""
    """Once prepared: the address under which other nodes reach its tasks; empty where they are emulated."""
    ports: tuple[int, ...] = ()
    """Once prepared: by job, a free port for its rank 0 if that is here, and 0 if not; empty where they are emulated."""
    task: int = WHOLE
    """The one task that this share is, where tasks stand alone."""
    run: int = 0
    failed_nodes: tuple[int, ...] = ()
    """Once ended: where tasks failed first, if they did."""
    lends: tuple[LentPart, ...] = ()
    """Capacity that functions may use for now, or still use though it is wanted back, by node."""


class PrepareTasks(Message, OfShare, frozen=True, tag="prepare-tasks"):
    """Get ready to run this share of an attempt, and wait for the word."""

    region: RegionName
    worker: WorkerName
    sequence: int
    """Of the region's log when this was decided; a worker refuses less than the highest it has seen."""
    workload: WorkloadId
    epoch: int
    jobs: tuple[JobSpec, ...]
    spreads: tuple[Spread, ...]
    """The worker's own nodes only."""
    resume_epoch: int = 0
    resume_step: int = 0
    is_leader: bool = False
    """Rank 0 is among them: this worker reports the gang's checkpoints."""
    ranks: tuple[tuple[int, ...], ...] = ()
    """By job, beside its spread: the rank of the first task on each of the worker's nodes."""
    groups: tuple[tuple[int, ...], ...] = ()
    """By job, beside its spread: where each of the worker's nodes stands among all nodes of the job."""
    task: int = WHOLE
    run: int = 0
    devices: tuple[tuple[int, ...], ...] = ()
    """By job, beside its spread: on which shared device of its node each of the tasks here has its part of one, ranks ascending;
    empty where tasks take whole devices. Tasks of one node and number share a device, whatever device that is."""
    isolation: int = 0
    """Nanoseconds without an acknowledged beat after which the share stops by itself, with `GRACE`; 0: it never does."""
    tenant: TenantName = TenantName("")
    """Who may read what it writes, beside the plane itself."""
    beside: AttemptKey | None = None
    """The host of a guest: the attempt on these nodes of which the tasks here share the devices."""
    forerunners: tuple[Forerunner, ...] = ()
    """The completed stages of its pipeline that came before it: its tasks find where these left their checkpoints."""


class StartTasks(Message, OfShare, frozen=True, tag="start-tasks"):
    """Every worker of the gang is ready: go."""

    region: RegionName
    worker: WorkerName
    sequence: int
    workload: WorkloadId
    epoch: int
    masters: tuple[str, ...] = ()
    """By job, `host:port` of its rank 0; empty where tasks are emulated."""
    hosts: tuple[tuple[str, ...], ...] = ()
    """By job, the addresses of its nodes in order."""
    task: int = WHOLE
    run: int = 0


class StopTasks(Message, OfShare, frozen=True, tag="stop-tasks"):
    """SIGTERM to all ranks, and SIGKILL after the grace."""

    region: RegionName
    worker: WorkerName
    sequence: int
    workload: WorkloadId
    epoch: int
    grace: int
    """Nanoseconds."""
    task: int = WHOLE
    run: int = 0


class EndRecorded(Message, OfShare, frozen=True, tag="end-recorded"):
    """The region's log shows the end; the worker may forget it."""

    region: RegionName
    worker: WorkerName
    sequence: int
    workload: WorkloadId
    epoch: int
    task: int = WHOLE
    run: int = 0


class CheckNodes(Message, frozen=True, tag="check-nodes"):
    """Look whether these nodes are well: they may then leave the quarantine."""

    region: RegionName
    worker: WorkerName
    nodes: tuple[int, ...]


class NodesChecked(Message, frozen=True, tag="nodes-checked"):
    """What came of a check."""

    region: RegionName
    worker: WorkerName
    well: tuple[int, ...]
    ill: tuple[tuple[int, str], ...]
    """Each with what is wrong."""


class InventoryWanted(Message, frozen=True, tag="inventory-wanted"):
    """The broker does not know what the worker serves."""

    region: RegionName
    worker: WorkerName


class WorkerInventory(Message, frozen=True, tag="worker-inventory"):
    """What the worker serves."""

    region: RegionName
    worker: WorkerName
    inventory: Inventory


class JoinRefused(Message, frozen=True, tag="join-refused"):
    """The region does not take the worker's nodes: it is asked for them again, and refuses them until this is mended."""

    region: RegionName
    worker: WorkerName
    problems: tuple[str, ...]
    """For people; at least one."""


class WorkerBeat(Message, frozen=True, tag="worker-beat"):
    """The worker is there, and this is all that it runs: what is not in it is not there."""

    region: RegionName
    worker: WorkerName
    tasks: tuple[TasksState, ...]
    order: tuple[int, int]
    """The worker's start and its report since: one that is not later than the last heard is old, and says nothing."""
    life: int
    """Of the broker, as last heard: a broker believes nothing that was said before it began."""
    ill: tuple[tuple[int, str], ...] = ()
    """Nodes whose hardware is ill, each with what is wrong. `UNNUMBERED` is the one node of a machine that its region
    numbered when it joined: the worker does not know how."""


class PartOfBeat(Notice, frozen=True, tag="part-of-beat"):
    """A beat without the shares of some workloads, from the host to its own component (core/rules/beat_parts.py)."""

    beat: WorkerBeat
    """With the other shares alone."""
    unsaid: tuple[ShareKey, ...]
    """Shares left out. They are there, and their last known states hold."""


class WorkerReport(Message, frozen=True, tag="worker-report"):
    """A share has changed, or stands as a command found it."""

    region: RegionName
    worker: WorkerName
    tasks: TasksState
    order: tuple[int, int]
    """As in `WorkerBeat`."""
    life: int
    """As in `WorkerBeat`."""


class BeatHeard(Message, frozen=True, tag="beat-heard"):
    """The broker heard this beat: until it would take the worker for lost, the worker may obey."""

    region: RegionName
    worker: WorkerName
    sequence: int
    """Of the region's log. A worker that is back after a silence obeys nothing that was decided before."""
    order: tuple[int, int]
    """Of the beat: an old acknowledgement counts for nothing."""
    life: int
    """The broker's: the next beats echo it."""


class TasksChanged(Notice, frozen=True, tag="tasks-changed"):
    """From the spool to its worker: a share of an attempt prepared, started, saved or ended by itself."""

    tasks: TasksState


class NodesLooked(Notice, frozen=True, tag="nodes-looked"):
    """From the spool to its worker: how its nodes are, because that has changed or was asked for."""

    ill: tuple[tuple[int, str], ...]
    """All that are, each with what is wrong. `UNNUMBERED` stands for the machine that runs the worker's programs."""
    asked: tuple[int, ...] = ()
    """The nodes that were to be checked."""


class TasksFound(Notice, frozen=True, tag="tasks-found"):
    """From the spool to a worker that has just started: what runs on its nodes, and the highest sequence it obeyed."""

    tasks: tuple[TasksState, ...]
    sequence: int
    start: int
    """How often a worker has looked, this time included."""


MESSAGES: tuple[type[Message], ...] = (
    PrepareTasks,
    StartTasks,
    StopTasks,
    EndRecorded,
    CheckNodes,
    NodesChecked,
    InventoryWanted,
    WorkerInventory,
    JoinRefused,
    WorkerBeat,
    WorkerReport,
    BeatHeard,
)
