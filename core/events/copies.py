"""Events of the log `global` about copies of data: the plan, the orders, and what came of them."""

from core.fact import Event
from core.nouns.data import DataBasis, DataFigures, PlannedAction
from core.nouns.ids import DatasetName, RegionName, WorkloadId


class DataPlanned(Event, frozen=True, tag="data-planned"):
    """The planner's newest plan for data replaces what is left of the one before. A long plan is several of these in one batch."""

    number: int
    """Of the plan: it grows with each."""
    actions: tuple[PlannedAction, ...]
    """In the order in which they are to be carried out."""
    gain: int = 0
    """Decrease of the plan's objective by all actions, in millionths."""
    bytes: int = 0
    """That all actions copy."""
    before: DataFigures = DataFigures()
    after: DataFigures = DataFigures()
    sequence: int = 0
    """Of this log, up to which the planner had folded it."""
    is_more: bool = False
    """Whether these actions come behind those of the fact before, of the same plan."""
    basis: DataBasis = DataBasis()
    """Told in the first part."""


class CopyOrdered(Event, frozen=True, tag="copy-ordered"):
    """The target's data service is to copy a dataset. The order stands until `CopyMade`, `CopyFailed`, or an operator's word about the
    dataset.
    """

    about_field = "dataset"
    copy: int
    """Number of the order: it grows with each."""
    dataset: DatasetName
    source: RegionName
    target: RegionName
    bytes: int
    rate: int
    """Bytes a second."""
    hash: str = ""
    """That the copy must have; empty: the source's data service computes it first."""
    is_move: bool = False
    """Whether the target becomes the home when the copy is made, and the copy in the home before is then dropped, unless it `keeps`."""
    wanted_by: WorkloadId = WorkloadId("")
    """The workload that waits for it; empty: the order is of the plan."""
    level: int = 0
    """Of that workload, or of the planned action."""
    gain: int = 0
    """As in the planned action."""
    day_limit: int = 0
    """Bytes that orders of one day may have, at this order."""
    keeps: bool = False
    """Whether a move leaves the copy in the home before."""


class DatasetHashed(Event, frozen=True, tag="dataset-hashed"):
    """A data service has read all of a dataset."""

    about_field = "dataset"
    dataset: DatasetName
    revision: int
    """Of the dataset, unchanged: a hash of another revision is not recorded."""
    region: RegionName
    hash: str
    bytes: int


class CopyMade(Event, frozen=True, tag="copy-made"):
    """The target holds all of the dataset, with the right hash."""

    about_field = "dataset"
    copy: int
    dataset: DatasetName
    target: RegionName
    revision: int
    """Of the dataset, which grows with this."""
    is_move: bool = False
    """Whether the target is the home from now on."""
    left: RegionName = RegionName("")
    """The home before, whose copy is to be dropped; empty: no copy is."""


class CopyFailed(Event, frozen=True, tag="copy-failed"):
    """Nothing of the copy is left in the target."""

    about_field = "dataset"
    copy: int
    dataset: DatasetName
    target: RegionName
    reason: str
    """One of `CopyFailure`."""
    moved: int = 0
    """Bytes that went over the link."""


class HomeMoved(Event, frozen=True, tag="home-moved"):
    """The home of a dataset is another region that had a copy already."""

    about_field = "dataset"
    dataset: DatasetName
    revision: int
    target: RegionName
    left: RegionName
    """The home before, whose copy is to be dropped; empty: no copy is."""


class DropOrdered(Event, frozen=True, tag="drop-ordered"):
    """A region's copy counts for no award from now on."""

    about_field = "dataset"
    dataset: DatasetName
    revision: int
    region: RegionName


class DropCleared(Event, frozen=True, tag="drop-cleared"):
    """No attempt reads this copy any more: the region's data service is to delete it."""

    about_field = "dataset"
    dataset: DatasetName
    region: RegionName


class DropMade(Event, frozen=True, tag="drop-made"):
    """The copy is deleted."""

    about_field = "dataset"
    dataset: DatasetName
    region: RegionName


EVENTS: tuple[type[Event], ...] = (
    DataPlanned,
    CopyOrdered,
    DatasetHashed,
    CopyMade,
    CopyFailed,
    HomeMoved,
    DropOrdered,
    DropCleared,
    DropMade,
)
