"""A user's request: a workload of jobs of identical tasks, all placed together or not at all.

A field that this build does not know is refused, never dropped, because the user asked for something by it.
"""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.fleet import ANY_TYPE, gpu_type_of, node_type_of, will_do
from core.nouns.ids import DatasetName, RegionName, TenantName
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.operation import ControlSpec
from core.nouns.quantities import Amount
from core.nouns.sharing import ShareSpec

UNNAMED = TenantName("default")
"""The tenant of work that names no tenant."""
NEVER: Nanoseconds = Nanoseconds(0)
"""A span of zero stands for `not asked for`."""


class Kind(StrEnum):
    """What sort of work it is, and so how it may be treated."""

    TRAINING = "training"
    INTERACTIVE = "interactive"
    """Never preempted by choice."""
    SERVICE = "service"
    BATCH = "batch"
    FUNCTION = "function"
    SHARED = "shared"
    """Training or batch work of a shared pool, which runs for part of the time (`ShareSpec`)."""


class Emulation(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What an emulated task does instead of running a program: it takes time, checkpoints and fails."""

    work: Nanoseconds
    """Running time without any interruption."""
    checkpoint_every: Nanoseconds = NEVER
    fails_after: Nanoseconds = NEVER
    """Exits with `exit_code` when it has run so long in one attempt; zero: it does not fail."""
    exit_code: int = 1
    stop_span: Nanoseconds = NEVER
    """How long it takes to write a checkpoint and leave when told to stop."""
    set_up: Nanoseconds = NEVER
    """How long after its start, in each attempt, it begins to work: containers, imports, data. It saves and fails later by as much."""
    steps: int = 0
    """In all, for work that is faster on some GPU types than on others; 0: it takes `work` wherever it runs."""
    speeds: tuple[tuple[str, int], ...] = ()
    """GPU types, each with the millionths of a step that the whole job makes in a second."""
    model: str = ""
    """The name under which other jobs' `beside` knows the job: its model, or else its family."""
    beside: tuple[tuple[str, int], ...] = ()
    """Models, each with the millionths of its speed that the job keeps while a job of that model runs on the same device. It keeps all
    beside other models."""
    idle: tuple[tuple[Nanoseconds, int], ...] = ()
    """A cycle of spans, each with the number of each task's devices that are idle in it, and lent. It begins when the task begins to work,
    and again at its end. Empty: none are ever idle."""
    keeps_bytes: int = 0
    """Memory that each task keeps while it lends devices."""


class Serves(StrEnum):
    """For whose functions a service holds capacity. Its tasks start no program."""

    NO = ""
    """It is an ordinary workload."""
    OWN = "own"
    """Its tenant's."""
    ALL = "all"
    """All tenants'; operators alone may say so."""


class Program(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What each task of a job runs, on nodes that run programs."""

    run: str
    """For `/bin/sh -c`, which is replaced by it where it is one command."""
    directory: str = ""
    """Where it runs: an absolute path on the node; empty: a directory of the attempt's own."""
    env: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    """Names of variables that are read on the node, and are never part of a fact."""
    checkpoint_dir: str = ""
    """Under which each attempt has a directory for its checkpoints, on storage that all nodes see; empty: on the node."""
    early_warning: Nanoseconds = NEVER
    """SIGUSR1 is sent so long before SIGTERM; zero: not at all."""
    has_slurm_env: bool = False
    """Whether it finds the `SLURM_*` variables too."""


class Extent(StrEnum):
    """How far something reaches in the tree of the topology, from the nearest to the farthest."""

    ANY = ""
    """It does not matter."""
    NODE = "node"
    RACK = "rack"
    POD = "pod"
    ZONE = "zone"


class Topology(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Where a job's tasks lie to each other. All but `near` is hard, `spread` as far as there is room."""

    pack: Extent = Extent.ANY
    """All tasks lie in one of these, when the job starts."""
    spread: Extent = Extent.ANY
    """Over as many of these as there are with room, as evenly as it goes."""
    tasks_per_node: int = 0
    """The most tasks on one node; 0: as many as fit."""
    zones: tuple[str, ...] = ()
    """In which they may lie; empty: in any."""
    near: tuple[str, ...] = ()
    """Zones that have their data, soft: there rather than elsewhere."""


ANY_TEXT = "any type"
"""What `any` is called for people."""


class JobSpec(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One job: `tasks` identical tasks, each of which fits one node. It has an emulation or a program, never both."""

    name: str
    tasks: int
    need: Amount
    """Of one task."""
    gpu_type: str
    """Or `any`, for whichever there is."""
    emulation: Emulation | None = None
    program: Program | None = None
    gpu_memory: int = 0
    """Bytes that each of its GPUs has at least; 0: any will do."""
    is_alone: bool = False
    """Whether its tasks share no node with another tenant's."""
    topology: Topology = Topology()
    or_types: tuple[str, ...] = ()
    """Other GPU types that will do as well. All of its tasks are on nodes of one type."""
    serves: Serves = Serves.NO
    """Whose functions may use what its tasks hold. These run nothing else, and their program says no `run`."""

    @property
    def node_types(self) -> tuple[str, ...]:
        """What a node may be to run it: emulated work runs on emulated nodes, programs on those that run programs."""
        runs_programs = self.program is not None
        return tuple(
            node_type_of(name, runs_programs=runs_programs) for name in (self.gpu_type, *self.or_types)
        )

    @property
    def has_one_type(self) -> bool:
        """Whether it names one GPU type and no other."""
        return not self.or_types and self.gpu_type != ANY_TYPE

    @property
    def tasks_together(self) -> int:
        """How many of its tasks one node must hold."""
        return self.tasks if self.topology.pack is Extent.NODE else 1

    @property
    def type_text(self) -> str:
        """The types that will do, for people."""
        if self.gpu_type == ANY_TYPE:
            return ANY_TEXT
        return " or ".join((self.gpu_type, *self.or_types))

    def takes(self, node_type: str) -> bool:
        """Whether nodes of this type will do."""
        return will_do(node_type, self.node_types, is_for_gpus=self.need.gpu_milli > 0)

    def on(self, node_type: str) -> "JobSpec":
        """The same on nodes of this type and of no other."""
        return replace(self, gpu_type=gpu_type_of(node_type)[0], or_types=())


class PlacementMode(StrEnum):
    """What is placed of a workload for all of which there is no room, because others came first."""

    GANG = "gang"
    """Nothing."""
    INCREMENTAL = "incremental"
    """The tasks for which there is room; the others follow as those do by which a job grows."""


class RetryLimits(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """How often an attempt may be tried again, by cause. Preemption and node loss never count."""

    task_failed: int = 0
    start_failed: int = 5


class WorkloadSpec(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A workload as submitted."""

    name: str
    jobs: tuple[JobSpec, ...]
    tenant: TenantName = UNNAMED
    priority: int | None = None
    """0 is the lowest level, 6 the highest; None: its tenant's."""
    kind: Kind = Kind.TRAINING
    regions: tuple[RegionName, ...] = ()
    """An optional pin; empty means any."""
    retry: RetryLimits = RetryLimits()
    max_duration: Nanoseconds = NEVER
    grace: Nanoseconds = NEVER
    """From SIGTERM to SIGKILL; zero means the plane's default."""
    control: ControlSpec = ControlSpec()
    """The controller that must agree before tasks are touched, and the limits on touching them."""
    placement: PlacementMode = PlacementMode.GANG
    data: tuple[DatasetName, ...] = ()
    """The datasets that its tasks read."""
    checkpoint_bytes: int = 0
    """About how large one is: what has to come along when it moves to another region."""
    needs_fresh_data: bool = False
    """Whether it should read what is newest: from `FRESH_LEVEL` on it runs only where all of that is at home."""
    share: ShareSpec | None = None
    """Of work of kind `shared`, and of that alone: what a policy knows of it."""
    move_after: Nanoseconds = NEVER
    """How long its region may be silent before it goes on elsewhere, though it may still run there; zero: it waits for ever."""
    expected: Nanoseconds = NEVER
    """How long its user expects it to run: used until runs of its family are known; zero: its user does not say."""
    input_size: int = 0
    """Of what it reads, in any unit that its family's runs have in common: longer inputs take longer; 0: its user does not say."""

    @property
    def is_incremental(self) -> bool:
        """Whether some of its tasks may be placed without the others."""
        return self.placement is PlacementMode.INCREMENTAL

    @property
    def lasting(self) -> str:
        """Return the class of the workload's longest duration, each class four times the one before; empty if there is no limit.

        Nodes that are kept for a reservation take only work that surely ends before the reserved start.
        """
        if not self.max_duration or self.kind == Kind.SERVICE:
            return ""
        minutes = -(-self.max_duration // (60 * SECOND))
        return f"|lasts {(minutes - 1).bit_length() + 1 >> 1}"

    @property
    def shape(self) -> str:
        """Return a text that is equal for workloads that fit in the same places."""
        return self._shape(";".join(f"{job.tasks}{self._need(job)}" for job in self.jobs))

    @property
    def base(self) -> str:
        """Return the shape of a workload of one job without the number of tasks; empty for several jobs."""
        return self._shape(self._need(self.jobs[0])) if len(self.jobs) == 1 else ""

    def _need(self, job: JobSpec) -> str:
        need = job.need
        amounts = f"{need.gpu_milli}/{need.cpu_milli}/{need.memory_bytes}"
        return f"x{'|'.join(job.node_types)}:{amounts}{_asked_of_places(job, self.tenant)}"

    def _shape(self, jobs: str) -> str:
        fresh = " fresh" if self.needs_fresh_data else ""
        reads = f"|reads{fresh} {','.join(sorted(self.data))}" if self.data else ""
        return f"{self.kind}|{','.join(self.regions)}|{jobs}{reads}"


def _asked_of_places(job: JobSpec, tenant: TenantName) -> str:
    """What a job asks of its nodes beside room; empty when it asks for nothing."""
    one = job.topology
    asked = (job.gpu_memory, tenant if job.is_alone else "", one.pack, one.spread, one.tasks_per_node)
    return f"@{asked}{one.zones}" if any(asked) or one.zones else ""


class Phase(StrEnum):
    """Where a workload is in its life. The last four are terminal and absorbing."""

    PENDING = "PENDING"
    AWARDED = "AWARDED"
    """A region was told to place it; not all of its tasks are known to run."""
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can follow."""
        return self in TERMINAL


TERMINAL = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED, Phase.TIMEOUT})


class EndCause(StrEnum):
    """Why an attempt ended."""

    COMPLETED = "completed"
    TASK_FAILED = "task_failed"
    START_FAILED = "start_failed"
    PREEMPTED = "preempted"
    REQUEUED = "requeued"
    """An operator asked for it to start again."""
    NODE_LOST = "node_lost"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    DRAINED = "drained"
    """An operator wanted its nodes empty."""
    MAINTENANCE = "maintenance"
    """Its nodes were worked on."""
    MOVED = "moved"
    """It goes on elsewhere, where it is better off."""
    ROUND_OVER = "round_over"
    """In a shared pool another job had the next round, or it was to go on in another column."""
    CHANGED = "changed"
    """Its user changed it, and it starts again as it is now."""
    NODE_FAILED = "node_failed"
    """A node that answers, but on which nothing runs any more: its hardware is ill."""
    ABANDONED = "abandoned"
    """Its region did not answer, and it was agreed that it goes on elsewhere, though it may still run there."""

    @property
    def accuses_node(self) -> bool:
        """Whether the node on which something ended so may have had a part in it."""
        return self in MAY_BE_THE_NODES

    @property
    def blame(self) -> "Blame":
        """Return the party that is responsible for the end."""
        return BLAME[self]


class Consent(StrEnum):
    """The party that agreed that two attempts of a workload may run, the older one in a region that does not answer."""

    NOBODY = ""
    OPERATOR = "operator"
    """The region was given up."""
    WORKLOAD = "workload"
    """It said so when it was submitted, and its region was silent for so long."""


MAY_BE_THE_NODES = (EndCause.TASK_FAILED, EndCause.START_FAILED, EndCause.NODE_FAILED)


class Blame(StrEnum):
    """The party that is responsible for an end: it decides whether an end counts against a user's retries, or as an outage."""

    NOBODY = "nobody"
    """It was done."""
    USER = "user"
    PLANNED = "planned"
    """The plane or an operator wanted it."""
    UNPLANNED = "unplanned"


BLAME: dict[EndCause, Blame] = {
    EndCause.COMPLETED: Blame.NOBODY,
    EndCause.TASK_FAILED: Blame.USER,
    EndCause.TIMEOUT: Blame.USER,
    EndCause.CANCELLED: Blame.USER,
    EndCause.CHANGED: Blame.USER,
    EndCause.PREEMPTED: Blame.PLANNED,
    EndCause.REQUEUED: Blame.PLANNED,
    EndCause.DRAINED: Blame.PLANNED,
    EndCause.MAINTENANCE: Blame.PLANNED,
    EndCause.MOVED: Blame.PLANNED,
    EndCause.ROUND_OVER: Blame.PLANNED,
    EndCause.START_FAILED: Blame.UNPLANNED,
    EndCause.NODE_LOST: Blame.UNPLANNED,
    EndCause.NODE_FAILED: Blame.UNPLANNED,
    EndCause.ABANDONED: Blame.UNPLANNED,
}
"""Only a user's own failures count against the retries that the user allows (DESIGN §5, 7)."""

assert set(BLAME) == set(EndCause)

USER_EXIT_START_AGAIN = 85
"""A task's exit code for `checkpoint written, start me again` (HTCondor's self-checkpoint convention)."""
