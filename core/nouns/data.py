"""Data and its copies: what operators allow a plan to move, what a plan consists of, and why a copy fails."""

from enum import StrEnum

from msgspec import Struct

from core.nouns.ids import DatasetName, RegionName
from core.nouns.tenant import FRESH_LEVEL

UNSTATED = -1
"""The storage of a region of which no operator stated any."""
DAY_SECONDS = 86_400
MIDDLE_LEVEL = 3
"""From this level on, work is of the second band."""


class DataPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """What the plane may do by itself with data."""

    is_automatic: bool = True
    """Whether plans are made and carried out; copies that waiting work needs, too."""
    day_permille: int = 20
    """Bytes that copies may have in a day, in thousandths of the bytes of all datasets."""
    extra_permille: int = 1250
    """Bytes of all copies beyond one of each dataset, in thousandths of the bytes of all datasets, up to which plans add copies."""
    day_bytes_min: int = 10**12
    """Bytes that copies may have in a day however few all datasets have: a terabyte."""
    has_disaster_copies: bool = True
    """Whether each dataset is to have a copy outside its home."""
    replan_seconds: int = 300
    """Between two plans at least, whatever moved meanwhile; from five minutes to a day."""


DEFAULT_POLICY = DataPolicy()

BANDS = 3
"""Level bands by which demand for data is counted, the highest from `FRESH_LEVEL` on: the high-priority work of MAST §3.1."""
HIGH_BAND = BANDS - 1


LEVELS = (0, MIDDLE_LEVEL, FRESH_LEVEL)
"""The lowest level of each band."""


def band_of(level: int) -> int:
    """Return the band of a level: 0 for levels up to 2 and work over quota, 1 for 3 and 4, 2 for 5 and 6."""
    return HIGH_BAND if level >= FRESH_LEVEL else int(level >= MIDDLE_LEVEL)


class ActionKind(StrEnum):
    """One step of a plan."""

    MOVE = "move"
    """The home becomes the target; a copy goes there first unless the target has one, and the old home's copy is dropped at last, unless the action keeps it."""
    COPY = "copy"
    """The target gets a copy."""
    DROP = "drop"
    """The source's copy is dropped."""


class PlannedAction(Struct, frozen=True, array_like=True):
    """One step of a plan, with what it gains."""

    kind: ActionKind
    dataset: DatasetName
    source: RegionName
    """Home, or the region whose copy is dropped."""
    target: RegionName
    """Empty for a drop."""
    bytes: int
    """That must be copied; 0: none."""
    gain: int = 0
    """Decrease of the plan's objective, in millionths of what the objective was."""
    level: int = 0
    """The lowest level of the highest band of the work that reads the dataset."""
    keeps: bool = False
    """Whether a move leaves the copy in the old home."""
    revision: int = 0
    """Of the dataset, from which the action was planned: an operator's later word about it counts more. 0: from whatever is so."""


class DataBasis(Struct, frozen=True):
    """What a plan was made from, as far as another basis calls for another plan. Empty: of no plan."""

    demand: tuple[int, ...] = ()
    """(parts,) GPU milli wanted by work that reads data, each row of `readings` in the part that a checksum of its key names."""
    waiting: tuple[int, ...] = ()
    """(parts,) GPU milli of what of that waits."""
    supply: tuple[tuple[RegionName, str, int], ...] = ()
    """GPU milli by region and node type, of nodes that take work or will after a maintenance."""
    bytes: int = 0
    """Of all datasets, one copy of each."""
    settings: int = 0
    """Revisions of storage, links and policy, summed: it grows with each operator's word about them."""


class DataFigures(Struct, frozen=True):
    """How well data lies, in whole thousandths but for bytes."""

    worst: int = 0
    """Demand over supply of high-priority work in the region with the highest."""
    spread: int = 0
    """Standard deviation of that over the regions."""
    home_rate: int = 0
    """Part of high-priority demand that can run in the home of all that it reads."""
    collocation: int = 0
    """Part of high-priority demand that can run in some region that has all that it reads."""
    extra_storage: int = 0
    """Bytes of copies beyond one of each dataset, over the bytes of all datasets."""
    storage_over: int = 0
    """Bytes by which the fullest region is over its storage."""


class CopyFailure(StrEnum):
    """Why a copy was not made; `COPY_FAILURES` says what each means."""

    HASH_DIFFERS = "hash_differs"
    SIZE_DIFFERS = "size_differs"
    SOURCE_MISSING = "source_missing"
    DISK_FULL = "disk_full"
    NO_DIRECTORY = "no_directory"
    COMMAND_MISSING = "command_missing"
    COMMAND_FAILED = "command_failed"
    COMMAND_SILENT = "command_silent"
    REGION_ABANDONED = "region_abandoned"
    NOT_SERVED = "not_served"
    DATASET_CHANGED = "dataset_changed"


COPY_FAILURES: dict[CopyFailure, str] = {
    CopyFailure.HASH_DIFFERS: "What arrived has another hash than the source; it was deleted.",
    CopyFailure.SIZE_DIFFERS: "The dataset is larger than stated; its size is known now, and the copy is ordered again.",
    CopyFailure.SOURCE_MISSING: "The source region does not have the dataset in its directory.",
    CopyFailure.DISK_FULL: "The target's disk is full.",
    CopyFailure.NO_DIRECTORY: "The region's data directory does not exist, cannot be written, or is served by another process.",
    CopyFailure.COMMAND_MISSING: "The command that copies data is not installed.",
    CopyFailure.COMMAND_FAILED: "The command that copies data ended with an error.",
    CopyFailure.COMMAND_SILENT: "The command that copies data wrote nothing for too long, and was ended.",
    CopyFailure.REGION_ABANDONED: "An operator abandoned the region that was to send or receive it.",
    CopyFailure.NOT_SERVED: "The region that was to send or receive it has no data service any more.",
    CopyFailure.DATASET_CHANGED: "An operator changed the dataset meanwhile.",
}
assert set(COPY_FAILURES) == set(CopyFailure)


class CopyObstacle(StrEnum):
    """Why a copy that work waits for is not ordered; `COPY_OBSTACLES` says what each means."""

    NOWHERE = "nowhere"
    NOT_AUTOMATIC = "not_automatic"
    NO_SERVICE = "no_data_service"
    UNSTATED = "storage_unstated"
    STORAGE_FULL = "storage_full"
    NO_SOURCE = "no_source"
    LINK_CLOSED = "link_closed"
    LINK_BUSY = "link_busy"
    BEING_DELETED = "being_deleted"
    STILL_READ = "still_read"
    TRIED_LATER = "tried_later"
    DAY_SPENT = "day_spent"


COPY_OBSTACLES: dict[CopyObstacle, str] = {
    CopyObstacle.NOWHERE: "some of that is in no region",
    CopyObstacle.NOT_AUTOMATIC: "the policy for data says that nothing is copied automatically",
    CopyObstacle.NO_SERVICE: "the region has no `data` in the fleet file",
    CopyObstacle.UNSTATED: "no operator stated its storage",
    CopyObstacle.STORAGE_FULL: "its stated storage is too small for that",
    CopyObstacle.NO_SOURCE: "no region that has it can send it: none has a data service and is not abandoned",
    CopyObstacle.LINK_CLOSED: "no link from a region that has it is open",
    CopyObstacle.LINK_BUSY: "as many copies as there may be are under way on each link",
    CopyObstacle.BEING_DELETED: "an older copy is being deleted there",
    CopyObstacle.STILL_READ: "running work there still reads files that the copy would replace",
    CopyObstacle.TRIED_LATER: "the copy failed, and is tried again later",
    CopyObstacle.DAY_SPENT: "the bytes that copies may have today are used up",
}
assert set(COPY_OBSTACLES) == set(CopyObstacle)
