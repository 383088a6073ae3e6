"""What users ask the job queue about pipelines, and its answers."""

from msgspec import Struct

from core.estimating.durations import DurationBy
from core.messages.base import Answer, Message
from core.nouns.ids import PipelineId, RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import PIPELINES_LISTED_MAX
from core.nouns.pipeline import NO_DEADLINE, DailyWindow, NoDeadline, Outcome, PipelineSpec
from core.nouns.workload import Phase


class SubmitPipeline(Message, frozen=True, tag="submit-pipeline", forbid_unknown_fields=True):
    """Accept this pipeline, whole."""

    spec: PipelineSpec
    submitter: str
    key: str = ""
    """The same key from the same submitter answers the same id."""


class TestPipeline(Message, frozen=True, tag="test-pipeline", forbid_unknown_fields=True):
    """Tell what would come of a pipeline that is submitted now, and do nothing."""

    __test__ = False
    """For pytest: it is no test."""
    spec: PipelineSpec
    submitter: str


class ShowPipeline(Message, frozen=True, tag="show-pipeline", forbid_unknown_fields=True):
    """Tell how far a pipeline has come, and when it will end."""

    pipeline: PipelineId


class ListPipelines(Message, frozen=True, tag="list-pipelines", forbid_unknown_fields=True):
    """Name pipelines: those that go on, the least laxity first, then those that have ended, the newest first."""

    after: int = 0
    """How many to leave out: those of the answers before."""
    count_max: int = PIPELINES_LISTED_MAX


class CancelPipeline(Message, frozen=True, tag="cancel-pipeline", forbid_unknown_fields=True):
    """End every stage that has not ended, for good."""

    pipeline: PipelineId


class PipelineAccepted(Answer, frozen=True, tag="pipeline-accepted"):
    """Accepted under this id, durably."""

    pipeline: PipelineId
    workloads: tuple[WorkloadId, ...]
    """Of its stages, in the order of `PipelineSubmitted`."""
    due_at: Instant = NO_DEADLINE
    no_deadline: NoDeadline = NoDeadline.NONE
    """Why it has no deadline although its user asked for one."""


class PipelineCancelled(Answer, frozen=True, tag="pipeline-cancelled"):
    """Done, or already so."""

    pipeline: PipelineId


class Expected(Struct, frozen=True):
    """An instant to be expected, with a band: the quartiles of run times and of waits, without correlation."""

    soon: Instant
    """With low run times and no wait."""
    likely: Instant
    """With median run times and waits."""
    late: Instant
    """With high run times and waits."""


class ShownStage(Struct, frozen=True):
    """One stage, as it is, and as it will be."""

    name: str
    workload: WorkloadId
    phase: Phase
    gpu_milli: int
    cost: Nanoseconds
    """How long it is taken to run when start deadlines are computed."""
    by: DurationBy
    starts: Expected
    """When it started, or will."""
    ends: Expected
    after: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    """Of those, the ones that have not completed."""
    begins: DailyWindow | None = None
    reason: str = ""
    """Why it does not run, if it does not."""
    region: RegionName = RegionName("")
    start_by: Instant = NO_DEADLINE
    """When it must start, or had to; 0: the pipeline has no deadline."""
    is_late: bool = False
    is_critical: bool = False
    """Whether it is one of those by which the end of the pipeline is determined."""
    ended_at: Instant = Instant(0)


class PipelineShown(Answer, frozen=True, tag="pipeline-shown"):
    """How far a pipeline has come, and when it will end."""

    pipeline: PipelineId
    name: str
    tenant: TenantName
    stages: tuple[ShownStage, ...]
    now: Instant
    """When this was computed."""
    submitted_at: Instant
    due_at: Instant = NO_DEADLINE
    asked_due_at: Instant = NO_DEADLINE
    no_deadline: NoDeadline = NoDeadline.NONE
    ends: Expected | None = None
    """None: it has ended, or a stage will never run."""
    outcome: Outcome = Outcome.NONE
    late_by: Nanoseconds = Nanoseconds(0)
    ended_at: Instant = Instant(0)
    region: RegionName = RegionName("")
    """The region to which its stages are held."""


class ListedPipeline(Struct, frozen=True):
    """One pipeline in a list."""

    pipeline: PipelineId
    name: str
    tenant: TenantName
    stages: int
    completed: int
    """Of the stages."""
    running: tuple[str, ...]
    """Names of stages with an award."""
    due_at: Instant = NO_DEADLINE
    laxity: Nanoseconds | None = None
    """Until the first start deadline of a stage that has not started; None: there is none."""
    is_late: bool = False
    ends_at: Instant = Instant(0)
    """When it ended, or is likely to; 0: nobody can say."""
    outcome: Outcome = Outcome.NONE
    late_by: Nanoseconds = Nanoseconds(0)


class PipelinesListed(Answer, frozen=True, tag="pipelines-listed"):
    """Some of them, or all."""

    rows: tuple[ListedPipeline, ...]
    next: int
    """What to ask `after` for more; 0: there are none."""
    now: Instant = Instant(0)


class PipelineTested(Answer, frozen=True, tag="pipeline-tested"):
    """What would come of a pipeline that is submitted now."""

    stages: tuple[ShownStage, ...]
    now: Instant
    ends: Expected
    due_at: Instant = NO_DEADLINE
    no_deadline: NoDeadline = NoDeadline.NONE
    """Why it would have none although one is asked for."""
    is_refused: bool = False
    """Whether it would be refused for that."""
    earliest: Instant = NO_DEADLINE
    """The earliest deadline that would be accepted."""
    shorten: str = ""
    """If that is later than `due_at`, the stage of the critical path that takes longest."""
    shorten_by: Nanoseconds = Nanoseconds(0)
    """By how much its run time would have to be shorter; 0: no stage alone is long enough."""


MESSAGES: tuple[type[Message], ...] = (
    SubmitPipeline,
    TestPipeline,
    ShowPipeline,
    ListPipelines,
    CancelPipeline,
    PipelineAccepted,
    PipelineCancelled,
    PipelineShown,
    PipelinesListed,
    PipelineTested,
)
