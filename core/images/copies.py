"""A section of the queue's image: what is left of the newest plan for data, the orders under way, and the bytes of the day."""

from msgspec import Struct, field

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
from core.events.data import DatasetSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.data import DAY_SECONDS, ActionKind, CopyFailure, DataBasis, DataFigures, PlannedAction
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.nouns.instant import SECOND
from core.nouns.limits import COPY_FAILURES_KEPT_MAX

ENDS = (CopyFailure.DATASET_CHANGED, CopyFailure.REGION_ABANDONED, CopyFailure.NOT_SERVED)
"""Ends of orders after which the copy is not wanted any more, or cannot be made."""
NO_FAILURES = (CopyFailure.SIZE_DIFFERS, *ENDS)
"""Ends of orders that another order does not meet again."""


class PlanRow(Struct):
    """The newest plan."""

    number: int = 0
    at: int = 0
    """When it was recorded."""
    sequence: int = 0
    """Of the log, up to which the planner had folded it."""
    actions: int = 0
    """That it began with."""
    gain: int = 0
    bytes: int = 0
    before: DataFigures = DataFigures()
    after: DataFigures = DataFigures()
    basis: DataBasis = DataBasis()


class CopyRow(Struct):
    """An order that stands."""

    dataset: DatasetName
    source: RegionName
    target: RegionName
    bytes: int
    rate: int
    hash: str
    """Empty: the source's data service has not told it."""
    is_move: bool
    wanted_by: WorkloadId
    level: int
    gain: int
    ordered_at: int
    keeps: bool = False


class FailedCopies(Struct):
    """Copies of one dataset to one region that failed in a row."""

    times: int = 0
    reason: str = ""
    at: int = 0


class Copies(Section):
    """Plan, orders and failures."""

    FOLDS = {
        DataPlanned: "_planned",
        CopyOrdered: "_ordered",
        DatasetHashed: "_hashed",
        CopyMade: "_made",
        CopyFailed: "_failed",
        HomeMoved: "_home_moved",
        DropOrdered: "_drop_ordered",
        DropCleared: "_drop_cleared",
        DropMade: "_drop_made",
        DatasetSet: "_dataset_set",
    }

    ordered: int = 0
    """Orders ever made: the number of the newest."""
    plan: PlanRow = field(default_factory=PlanRow)
    actions: dict[str, PlannedAction] = field(default_factory=dict)
    """What is left of the plan, in its order, by `action_key`."""
    orders: dict[int, CopyRow] = field(default_factory=dict)
    """By number."""
    to_drop: dict[str, PlannedAction] = field(default_factory=dict)
    """Copies in homes that moved, which are to be dropped, by `action_key`."""
    drops: dict[DatasetName, dict[RegionName, bool]] = field(default_factory=dict)
    """Copies that are to be deleted; True: no attempt reads them any more."""
    failures: dict[str, FailedCopies] = field(default_factory=dict)
    """By `copy_key`, the one that failed longest ago first."""
    day: int = 0
    """Days since the epoch, UTC, in which the newest order was made."""
    day_bytes: int = 0
    """Bytes of orders in that day, less what failed copies did not move, and what earlier days' orders had beyond their days' limits."""

    def spent_on(self, day: int, limit: int) -> int:
        """Return the bytes that count in a day, not before the newest order's: the limit of a day of them is forgotten with each day."""
        return max(0, self.day_bytes - limit * max(0, day - self.day))

    def failed_of(self, dataset: DatasetName) -> list[str]:
        """Return the keys of the dataset's copies that failed."""
        return [key for key in self.failures if key.startswith(copy_key(dataset, RegionName("")))]

    def _planned(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DataPlanned)
        if not event.is_more:
            self.actions = {}
            self.plan = PlanRow(
                event.number,
                fact.at,
                event.sequence,
                0,
                event.gain,
                event.bytes,
                event.before,
                event.after,
                event.basis,
            )
        self.plan.actions += len(event.actions)
        for action in event.actions:
            self.actions[action_key(action)] = action

    def _ordered(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, CopyOrdered)
        self.ordered = event.copy
        self.orders[event.copy] = CopyRow(
            event.dataset,
            event.source,
            event.target,
            event.bytes,
            event.rate,
            event.hash,
            event.is_move,
            event.wanted_by,
            event.level,
            event.gain,
            fact.at,
            event.keeps,
        )
        day = day_of(fact.at)
        self.day_bytes = self.spent_on(day, event.day_limit) + event.bytes
        self.day = max(day, self.day)
        self._carried_out(event.dataset, event.target)

    def _hashed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DatasetHashed)
        for order in self.orders.values():
            if order.dataset == event.dataset:
                order.hash = event.hash

    def _made(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, CopyMade)
        self.orders.pop(event.copy, None)
        self.failures.pop(copy_key(event.dataset, event.target), None)
        if event.left:
            self._leave(event.dataset, event.left)

    def _failed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, CopyFailed)
        order = self.orders.pop(event.copy, None)
        if order is not None and day_of(order.ordered_at) == self.day:
            self.day_bytes = max(0, self.day_bytes - max(0, order.bytes - event.moved))
        is_planned = order is not None and (order.is_move or not order.wanted_by)
        if order is not None and is_planned and event.reason not in ENDS:
            action = _action_of(order)
            self.actions.setdefault(action_key(action), action)
        if event.reason in NO_FAILURES:
            return
        key = copy_key(event.dataset, event.target)
        known = self.failures.pop(key, None) or FailedCopies()
        self.failures[key] = FailedCopies(known.times + 1, event.reason, fact.at)
        if len(self.failures) > COPY_FAILURES_KEPT_MAX:
            del self.failures[next(iter(self.failures))]

    def _home_moved(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, HomeMoved)
        self._carried_out(event.dataset, event.target)
        if event.left:
            self._leave(event.dataset, event.left)

    def _drop_ordered(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DropOrdered)
        key = drop_key(event.dataset, event.region)
        self.actions.pop(key, None)
        self.to_drop.pop(key, None)
        self.drops.setdefault(event.dataset, {})[event.region] = False

    def _drop_cleared(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DropCleared)
        self.drops.setdefault(event.dataset, {})[event.region] = True

    def _drop_made(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DropMade)
        regions = self.drops.get(event.dataset, {})
        regions.pop(event.region, None)
        if not regions:
            self.drops.pop(event.dataset, None)

    def _dataset_set(self, fact: Fact) -> None:
        """An operator's word ends what was planned and ordered for the dataset, and its failed copies may be tried again at once.

        A deletion that was cleared stands until it is made: the data service is at it, and would delete what an operator says is there.
        """
        event = fact.event
        assert isinstance(event, DatasetSet)
        for key in self.failed_of(event.dataset):
            del self.failures[key]
        self.orders = {
            number: order for number, order in self.orders.items() if order.dataset != event.dataset
        }
        deleting = {
            region: True
            for region, is_cleared in self.drops.get(event.dataset, {}).items()
            if is_cleared and region not in event.regions  # None is at it in a region that may be named.
        }
        self.drops.pop(event.dataset, None)
        if deleting:
            self.drops[event.dataset] = deleting
        for actions in (self.actions, self.to_drop):
            for key in [key for key, action in actions.items() if action.dataset == event.dataset]:
                del actions[key]

    def _carried_out(self, dataset: DatasetName, target: RegionName) -> None:
        self.actions.pop(copy_key(dataset, target), None)

    def _leave(self, dataset: DatasetName, region: RegionName) -> None:
        """Record that the old home's copy is to be dropped."""
        action = PlannedAction(ActionKind.DROP, dataset, region, RegionName(""), 0)
        self.to_drop[action_key(action)] = action


def _action_of(order: CopyRow) -> PlannedAction:
    """Return the planned action of which an order was made."""
    kind = ActionKind.MOVE if order.is_move else ActionKind.COPY
    return PlannedAction(
        kind, order.dataset, order.source, order.target, order.bytes, order.gain, order.level, order.keeps
    )


def copy_key(dataset: DatasetName, target: RegionName) -> str:
    """Return the key of a copy of a dataset in a region."""
    return f"{dataset}>{target}"


def drop_key(dataset: DatasetName, region: RegionName) -> str:
    """Return the key of the deletion of a dataset's copy in a region."""
    return f"{dataset}<{region}"


def action_key(action: PlannedAction) -> str:
    """Return the key of a planned action."""
    if action.kind is ActionKind.DROP:
        return drop_key(action.dataset, action.source)
    return copy_key(action.dataset, action.target)


def day_of(at: int) -> int:
    """Return the days from the epoch to an instant, UTC."""
    return at // (DAY_SECONDS * SECOND)
