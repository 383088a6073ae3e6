"""The part of the history that is about data: every event of it once, no field at its default."""

from core.events.copies import (
    CopyFailed,
    CopyMade,
    CopyOrdered,
    DataPlanned,
    DatasetHashed,
    DropCleared,
    DropMade,
    DropOrdered,
    HomeMoved,
)
from core.events.data import (
    DataPolicySet,
    DatasetSet,
    DataWaited,
    LinkSet,
    StorageSet,
    WaitingReads,
)
from core.fact import Event
from core.nouns.data import ActionKind, DataFigures, DataPolicy, PlannedAction
from core.nouns.ids import GLOBAL_LOG, DatasetName, LogName, RegionName, WorkloadId
from tests.builders import EU, US

CLICKS, VIEWS = DatasetName("clicks"), DatasetName("views")
ASIA = RegionName("asia")
_ACTIONS = (
    PlannedAction(ActionKind.MOVE, CLICKS, EU, US, 5_000, 70_000, 6),
    PlannedAction(ActionKind.COPY, VIEWS, US, EU, 300, 90, 3),
    PlannedAction(ActionKind.DROP, VIEWS, ASIA, RegionName(""), 0, 10, 1),
)
_BEFORE = DataFigures(2_630, 760, 908, 780, 900, 77)
_AFTER = DataFigures(830, 60, 940, 990, 1_100, 1)

DATA_HISTORY: tuple[tuple[LogName, Event], ...] = tuple(
    (GLOBAL_LOG, event)
    for event in (
        DatasetSet(CLICKS, 1, (EU,), EU, "olga", 5_000, is_pinned=True, hash="c0ffee"),
        DatasetSet(VIEWS, 1, (ASIA, US), US, "olga", 300, is_pinned=True, hash="f00d"),
        StorageSet(US, 1, 1 << 40, "olga"),
        LinkSet(EU, US, 1, 1 << 30, "olga"),
        DataPolicySet(1, DataPolicy(False, 50, 1_000, 5_000, False, 3_600), "olga"),
        DataWaited((WaitingReads((CLICKS,), ("H100",), 2, "no_data", 3, 24_000),), is_cut=True),
        DataPlanned(1, _ACTIONS, 70_100, 5_300, _BEFORE, _AFTER, 17, is_more=True),
        CopyOrdered(1, CLICKS, EU, US, 5_000, 1 << 28, "c0ffee", True, WorkloadId("w-9"), 6, 70_000, 9_000),
        DatasetHashed(CLICKS, 1, EU, "c0ffee", 5_000),
        CopyFailed(1, CLICKS, US, "hash_differs", 4_000),
        CopyOrdered(2, CLICKS, EU, US, 5_000, 1 << 28, "c0ffee", is_move=True),
        CopyMade(2, CLICKS, US, 2, is_move=True, left=EU),
        DropOrdered(CLICKS, 3, EU),
        DropCleared(CLICKS, EU),
        DropMade(CLICKS, EU),
        HomeMoved(VIEWS, 2, ASIA, US),
    )
)
