"""Events of the log `global` about pipelines: what was submitted, by when each stage must start, and how a pipeline ended."""

from msgspec import Struct

from core.fact import Event
from core.nouns.ids import PipelineId, RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.pipeline import NO_DEADLINE, Cause, DailyWindow, NoDeadline, Outcome


class SubmittedStage(Struct, frozen=True):
    """One stage of a pipeline. Its workload is in the `WorkloadSubmitted` of the same batch."""

    name: str
    workload: WorkloadId
    after: tuple[int, ...] = ()
    """The stages that must have completed before, each by its place in the pipeline: all of them are earlier ones."""
    begins: DailyWindow | None = None
    directory: str = ""
    """The checkpoint directory that its user named; empty: on the node."""
    start_by: Instant = NO_DEADLINE
    """When the stage must start at the latest, so that the pipeline meets its deadline; 0: the pipeline has none."""
    is_late: bool = False
    """Whether the pipeline would be late, at the median, even if the stage started as soon as it can."""


class PipelineSubmitted(Event, frozen=True, tag="pipeline-submitted"):
    """A user's pipeline was accepted. Its stages stand in an order in which each comes after those that it waits for."""

    about_field = "pipeline"
    pipeline: PipelineId
    number: int
    """Counts submissions of pipelines; the id is made of it."""
    name: str
    tenant: TenantName
    stages: tuple[SubmittedStage, ...]
    submitter: str
    key: str = ""
    """The submitter's idempotency key."""
    due_at: Instant = NO_DEADLINE
    asked_due_at: Instant = NO_DEADLINE
    """The deadline that its user asked for; differs from `due_at` only if the pipeline was accepted without one."""
    no_deadline: NoDeadline = NoDeadline.NONE
    is_together: bool = True
    gpu_milli_seconds: int = 0
    """Predicted for all stages, and counted against the tenant's budget of work under deadlines; 0 without a deadline."""


class StagesHeld(Event, frozen=True, tag="stages-held"):
    """Stages of a pipeline may run in some regions alone from now on, because all of them are to run in one."""

    about_field = "pipeline"
    pipeline: PipelineId
    workloads: tuple[WorkloadId, ...]
    """The stages; not among them: those that read data with its home nearer to another region."""
    region: RegionName = RegionName("")
    """Where the first of them was awarded; empty: nowhere yet, or that region was given up."""
    regions: tuple[RegionName, ...] = ()
    """Without a region: those that could hold all of the stages; empty: as their user said."""

    @property
    def held_to(self) -> tuple[RegionName, ...]:
        """Return the regions; empty: those that each stage's user named."""
        return (self.region,) if self.region else self.regions


class StagePriority(Struct, frozen=True):
    """Another start deadline of one stage."""

    stage: int
    """The place in its pipeline."""
    old: Instant
    new: Instant
    is_late: bool


class StagesReprioritised(Event, frozen=True, tag="stages-reprioritised"):
    """Start deadlines of a pipeline's stages moved, or stages became late or are no longer."""

    about_field = "pipeline"
    pipeline: PipelineId
    stages: tuple[StagePriority, ...]
    cause: Cause
    by: WorkloadId = WorkloadId("")
    """The stage that caused it; empty for the passing of time."""


class PipelineEnded(Event, frozen=True, tag="pipeline-ended"):
    """All stages have ended."""

    about_field = "pipeline"
    pipeline: PipelineId
    outcome: Outcome
    late_by: Nanoseconds = Nanoseconds(0)
    """From the deadline to the end of the last stage, if that was later."""


EVENTS: tuple[type[Event], ...] = (PipelineSubmitted, StagesHeld, StagesReprioritised, PipelineEnded)
