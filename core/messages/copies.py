"""Copies of data: the planner's plan, what data services report to the queue, and what people ask about both.

A data service finds its orders in the queue's log. What its doer does comes back as a notice, and is reported until the log shows it.
"""

from msgspec import Struct

from core.messages.base import Answer, Message, Notice
from core.nouns.data import DataBasis, DataFigures, PlannedAction
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds


class SetDataPlan(Message, frozen=True, tag="set-data-plan"):
    """The planner's plan for data is to replace what is left of the one before."""

    number: int
    """Follows that of the plan which it replaces; any other is refused as superseded."""
    sequence: int
    """Of the queue's log, up to which the planner had folded it."""
    actions: tuple[PlannedAction, ...]
    gain: int
    bytes: int
    before: DataFigures
    after: DataFigures
    basis: DataBasis = DataBasis()
    by: str = ""


class DataPlanAnswered(Answer, frozen=True, tag="data-plan-answered"):
    """The plan of this number is recorded."""

    number: int


class ReportCopy(Message, frozen=True, tag="report-copy"):
    """How far a copy is, from the target's data service."""

    region: RegionName
    copy: int
    moved: int
    """Bytes that went over the link."""
    is_over: bool = False
    reason: str = ""
    """One of `CopyFailure`; empty: it was made."""


class ReportHash(Message, frozen=True, tag="report-hash"):
    """A dataset's hash and bytes, or why there is none, from the source's data service."""

    region: RegionName
    copy: int
    """The order that needs it."""
    dataset: DatasetName
    hash: str
    bytes: int
    reason: str = ""
    """One of `CopyFailure`; empty: it was read whole."""


class ReportDrop(Message, frozen=True, tag="report-drop"):
    """A copy is deleted."""

    region: RegionName
    dataset: DatasetName


class CopyChanged(Notice, frozen=True, tag="copy-changed"):
    """The doer's word about a copy: told now and then, and at the end."""

    copy: int
    moved: int
    is_over: bool = False
    reason: str = ""
    """One of `CopyFailure`; empty: it was made, or goes on."""


class DataHashed(Notice, frozen=True, tag="data-hashed"):
    """The doer has read a dataset, or could not."""

    copy: int
    dataset: DatasetName
    hash: str
    bytes: int
    reason: str = ""


class DataDropped(Notice, frozen=True, tag="data-dropped"):
    """The doer has deleted a dataset, or there was none."""

    dataset: DatasetName


class ListCopies(Message, frozen=True, tag="list-copies", forbid_unknown_fields=True):
    """Tell the copies under way, what was tried and failed, and how much of the plan is left."""

    dataset: DatasetName = DatasetName("")
    """Of this one alone; empty: all."""


class ListedCopy(Struct, frozen=True):
    """An order under way."""

    copy: int
    dataset: DatasetName
    source: RegionName
    target: RegionName
    bytes: int
    rate: int
    moved: int
    """As last reported."""
    age: Nanoseconds
    """Since the order."""
    is_move: bool
    is_hashed: bool
    """Whether the source has told the hash, so that the copy has begun."""
    wanted_by: WorkloadId
    level: int


class FailedCopy(Struct, frozen=True):
    """A copy that failed and was not made since."""

    dataset: DatasetName
    target: RegionName
    times: int
    reason: str
    age: Nanoseconds


class LeavingCopy(Struct, frozen=True):
    """A copy that is being deleted."""

    dataset: DatasetName
    region: RegionName
    is_cleared: bool
    """Whether no attempt reads it any more."""


class CopiesListed(Answer, frozen=True, tag="copies-listed"):
    """All of them, the first `LISTED_MAX` of each sort."""

    orders: tuple[ListedCopy, ...]
    failed: tuple[FailedCopy, ...]
    leaving: tuple[LeavingCopy, ...]
    left: int
    """Planned actions that are not ordered yet."""
    left_bytes: int


class ShowDataPlan(Message, frozen=True, tag="show-data-plan", forbid_unknown_fields=True):
    """Tell the newest plan and what is left of it."""


class DataPlanShown(Answer, frozen=True, tag="data-plan-shown"):
    """The newest plan; number 0: there was none."""

    number: int
    at: Instant
    actions: int
    """That it began with."""
    gain: int
    bytes: int
    before: DataFigures
    after: DataFigures
    left: int
    left_bytes: int
    next: tuple[PlannedAction, ...]
    """The first `LISTED_MAX` of what is left."""


MESSAGES: tuple[type[Message], ...] = (
    SetDataPlan,
    DataPlanAnswered,
    ReportCopy,
    ReportHash,
    ReportDrop,
    ListCopies,
    CopiesListed,
    ShowDataPlan,
    DataPlanShown,
)
