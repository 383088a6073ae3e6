"""What users ask the job queue about starts, and its answers: when what waits will start, and what would come of a submission."""

from msgspec import Struct

from core.estimating.bands import StartEstimate
from core.estimating.prediction import Prediction
from core.messages.base import Answer, Message
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import STARTS_LISTED_MAX
from core.nouns.workload import WorkloadSpec


class TestSubmission(Message, frozen=True, tag="test-submission", forbid_unknown_fields=True):
    """Tell what would come of this if it were submitted, and do nothing."""

    __test__ = False
    """For pytest: it is no test."""
    spec: WorkloadSpec
    submitter: str


class SubmissionTested(Answer, frozen=True, tag="submission-tested"):
    """It would be accepted. What would be refused is refused here in the same words."""

    ahead: int
    """Workloads that would stand ahead of it."""
    regions: tuple[RegionName, ...]
    """Those that are heard and could hold it, were they empty."""
    start: StartEstimate | None
    """When it would start, counted from now; None: no region could hold it now, so nothing can be said."""
    prediction: Prediction
    """How long it would run, and what its family asked for and read before."""
    standing: str = ""
    """Whether it would be within its tenant's quota or over it; empty: the queue does not say."""
    round_in: Nanoseconds = Nanoseconds(-1)
    """Of a job of a shared pool, until the next round begins; -1: it is no such job."""


class ListStarts(Message, frozen=True, tag="list-starts", forbid_unknown_fields=True):
    """Tell when what waits will start, in the order in which it is served."""

    tenant: str = ""
    """Only of this tenant; empty: of all."""
    count_max: int = STARTS_LISTED_MAX


class ListedStart(Struct, frozen=True):
    """One workload that waits."""

    workload: WorkloadId
    name: str
    tenant: str
    priority: int
    gpu_milli: int
    """Of all its tasks."""
    rank: int
    """How many stand ahead of it; -1: it stands in no order, as rounds decide."""
    waited: Nanoseconds
    reason: str
    """Why it does not run."""
    start: StartEstimate | None
    """Counted from now; None: nothing can be said."""
    duration: Nanoseconds
    """How long it will run, as predicted at its submission; 0: until somebody ends it."""
    promised_in: Nanoseconds = Nanoseconds(-1)
    """Until it starts, if that was promised; -1: it was not."""
    round_in: Nanoseconds = Nanoseconds(-1)
    """Of a job of a shared pool, until the round begins in which it may be picked; 0: it is picked in this one; -1: it is no such job, or no
    round would pick it."""


class PredictionError(Struct, frozen=True):
    """How far off the newest predictions of one sort were."""

    count: int
    """How many ever."""
    factor_milli: int
    """Thousandths of the factor by which half of the newest were off at most, up or down; 1,000 is exact."""


class PredictionTally(Struct, frozen=True):
    """How often something was predicted of recurring workloads, and how often it was then so."""

    count: int
    """Times that it came."""
    right: int
    """Of those, the ones that were predicted."""
    predicted: int
    """Times that it was predicted."""


class StartsListed(Answer, frozen=True, tag="starts-listed"):
    """Some of what waits, in order."""

    rows: tuple[ListedStart, ...]
    more: int
    """Workloads in the order that were not looked at, because there are too many."""
    judged: int
    """Starts that are remembered as inside of their band or outside."""
    held: int
    """Of those, the ones inside."""
    errors: dict[str, PredictionError] = {}
    """Of run times, by what they were predicted from (`PredictedBy`)."""
    hardware: PredictionTally = PredictionTally(0, 0, 0)
    """Of GPU counts and types."""
    data: PredictionTally = PredictionTally(0, 0, 0)
    """Of datasets."""


MESSAGES: tuple[type[Message], ...] = (TestSubmission, SubmissionTested, ListStarts, StartsListed)
