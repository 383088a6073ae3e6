"""Which copies are ordered and deleted next.

Deletions first, then copies that waiting work needs, in rank order, then the plan's, by level and in the plan's order. A copy is ordered
if the target has storage for it, a link from a region that has the dataset has a free place (the last place of a link, and a part of
the day's bytes, are for copies that work waits for), and the day has bytes left (core/rules/data/copies.py).
"""

from collections import Counter, defaultdict

from components.job_queue.copies.candidates import WantedCopy, serves_data, wanted_copies
from components.job_queue.state.copy_notes import CopiesLooked
from components.job_queue.state.queue_state import QueueState
from core.component import NOTHING, Decision
from core.events.copies import CopyFailed, CopyOrdered, DropCleared, DropOrdered, HomeMoved
from core.fact import Event
from core.images.copies import FailedCopies, copy_key
from core.images.datasets import DatasetRow
from core.nouns.data import UNSTATED, ActionKind, CopyFailure, PlannedAction
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import COPIES_AT_ONCE_MAX, COPY_LOOK, LINK_COPIES_MAX
from core.rules.data.copies import day_limit, fits_day, may_try, next_chance, planned_limit, spent_now

OF_THE_PLAN = WorkloadId("")
"""No workload waits for the copy."""
NO_REGION = RegionName("")


def order_copies(state: QueueState, now: Instant) -> Decision:
    """Return the orders that are due, at most `COPIES_AT_ONCE_MAX` facts; each order's fact is counted before the next decision."""
    data, copies = state.data, state.image.copies
    if data.look_at is None or data.look_at > now:
        return NOTHING
    found = (
        *_ended(state),
        *_cleared(state),
        *_dropped(state),
    )[:COPIES_AT_ONCE_MAX]
    if not found and state.image.data_settings.policy.is_automatic:
        found = Ordering(state, now).ordered()
    if found:
        return Decision(events=(*found, CopiesLooked(now)))  # There may be more.
    chance = next_chance(copies, now) if copies.actions or data.pending else None
    # Work may be waiting for nodes that join, which is no fact of this log.
    return Decision(events=(CopiesLooked(earliest(chance, after(now, COPY_LOOK) if data.pending else None)),))


def _ended(state: QueueState) -> list[Event]:
    """Return the ends of orders from or to a region that was abandoned, or has no data service any more."""
    abandoned = state.image.regions.abandoned
    found: list[Event] = []
    for number, order in state.image.copies.orders.items():
        if not (serves_data(state, order.source) and serves_data(state, order.target)):
            is_abandoned = order.source in abandoned or order.target in abandoned
            reason = CopyFailure.REGION_ABANDONED if is_abandoned else CopyFailure.NOT_SERVED
            found.append(
                CopyFailed(number, order.dataset, order.target, reason, state.data.moved.get(number, 0))
            )
    return found


def _cleared(state: QueueState) -> list[Event]:
    """Return the copies to be deleted that no attempt reads any more, while another region has the dataset."""
    rows = state.image.datasets.rows
    return [
        DropCleared(dataset, region)
        for dataset, regions in state.image.copies.drops.items()
        for region, is_cleared in regions.items()
        if not is_cleared
        and not state.data.readers[dataset, region]
        and has_other(state, rows[dataset], region)
    ]


def _dropped(state: QueueState) -> list[Event]:
    """Return the copies in homes that moved, and those that the plan drops, which may go now: never the last, nor one that is copied from."""
    copies, rows = state.image.copies, state.image.datasets.rows
    sources = {(order.dataset, order.source) for order in copies.orders.values()}
    planned: list[PlannedAction] = []
    if state.image.data_settings.policy.is_automatic:
        planned = [
            action
            for action in copies.actions.values()
            if action.kind is ActionKind.DROP and not rows[action.dataset].is_pinned
        ]
    found: dict[DatasetName, Event] = {}
    together = _read_now(state) if copies.to_drop or planned else {}
    for action in (*copies.to_drop.values(), *planned):
        dataset, region = action.dataset, action.source
        row = rows[dataset]
        may_go = may_drop(row, region) and has_other(state, row, region) and serves_data(state, region)
        if not may_go or dataset in found or (dataset, region) in sources:
            continue
        if not any(is_alone_with(state, data, region) for data in together.get(dataset, ())):
            found[dataset] = DropOrdered(dataset, row.revision + 1, region)
    return list(found.values())


def _read_now(state: QueueState) -> dict[DatasetName, set[tuple[DatasetName, ...]]]:
    """Return by dataset the sets of several datasets that work reads which has not ended."""
    readings = state.image.readings
    found: defaultdict[DatasetName, set[tuple[DatasetName, ...]]] = defaultdict(set)
    for key in dict.fromkeys(live.row for live in readings.live.values()):
        data = readings.rows[key].data
        for name in data if len(data) > 1 else ():
            found[name].add(data)
    return found


def is_alone_with(state: QueueState, data: tuple[DatasetName, ...], region: RegionName) -> bool:
    """Return whether of all regions in use this one alone has all of a set of datasets: a set is dropped once all of it has moved."""
    datasets, abandoned = state.image.datasets, state.image.regions.abandoned
    return not datasets.missing_in(region, data) and all(
        datasets.missing_in(other, data)
        for other in state.regions
        if other != region and other not in abandoned
    )


def may_drop(row: DatasetRow, region: RegionName) -> bool:
    """Return whether a region's copy may go: it is there, and is not the home."""
    return region in row.regions and region != row.home


def has_other(state: QueueState, row: DatasetRow, region: RegionName) -> bool:
    """Return whether another region, which is not abandoned, has all of the dataset."""
    return any(other != region and other not in state.image.regions.abandoned for other in row.regions)


class Ordering:
    """One decision's orders: each takes its part of links, storage and the day's bytes before the next."""

    def __init__(self, state: QueueState, now: Instant) -> None:
        self._state, self._now = state, now
        self._settings = state.image.data_settings
        self._copies = state.image.copies
        self._limit = day_limit(self._settings.policy, state.data.total)
        self._spent = spent_now(self._copies, now, self._limit)
        orders = self._copies.orders.values()
        self._used = Counter((order.source, order.target) for order in orders)
        """Copies by link."""
        self._stored = Counter(state.data.stored)
        """Bytes by region, copies under way included."""
        for order in orders:
            self._stored[order.target] += order.bytes
        self._touched = {order.dataset: True for order in orders}
        """Datasets with a copy under way, or that are decided about: True if other targets may get a copy too."""
        self._under_way = {copy_key(order.dataset, order.target) for order in orders}
        self.events: list[Event] = []

    def ordered(self) -> tuple[Event, ...]:
        """Return the orders that may be made now, at most `COPIES_AT_ONCE_MAX`."""
        for wanted in wanted_copies(self._state, self._now):
            if len(self.events) < COPIES_AT_ONCE_MAX:
                self._order(
                    wanted.dataset,
                    wanted.target,
                    wanted.level,
                    workload=wanted.workload,
                    move=self._move_of(wanted),
                )
        for action in self._copies.actions.values():
            if len(self.events) == COPIES_AT_ONCE_MAX:
                break
            self._carry_out(action)
        return tuple(self.events)

    def _move_of(self, wanted: WantedCopy) -> PlannedAction | None:
        """Return the planned move that an urgent copy is part of; or one that keeps the old copy, for work that reads only fresh data."""
        row = self._state.image.datasets.rows[wanted.dataset]
        if row.is_pinned or row.home is None:
            return None
        planned = self._copies.actions.get(copy_key(wanted.dataset, wanted.target))
        if planned is not None and planned.kind is ActionKind.MOVE:
            return planned
        if not wanted.is_home:
            return None
        return PlannedAction(ActionKind.MOVE, wanted.dataset, row.home, wanted.target, row.size, keeps=True)

    def _carry_out(self, action: PlannedAction) -> None:
        """Order a planned copy, or move a home to a region that has the dataset."""
        row = self._state.image.datasets.rows.get(action.dataset)
        if row is None or action.kind is ActionKind.DROP:
            return
        if action.kind is ActionKind.COPY:
            self._order(action.dataset, action.target, action.level, gain=action.gain)
        elif row.is_pinned or row.home is None or row.home == action.target:
            return
        elif action.target not in row.regions:
            self._order(action.dataset, action.target, action.level, move=action, gain=action.gain)
        elif action.dataset not in self._touched and serves_data(self._state, action.target):
            self._touched[action.dataset] = False
            left = NO_REGION if action.keeps else row.home
            self.events.append(HomeMoved(action.dataset, row.revision + 1, action.target, left))

    def _order(
        self,
        dataset: DatasetName,
        target: RegionName,
        level: int,
        *,
        workload: WorkloadId = OF_THE_PLAN,
        move: PlannedAction | None = None,
        gain: int = 0,
    ) -> None:
        """Order a copy, or a planned move, if that may be made now."""
        row = self._state.image.datasets.rows.get(dataset)
        if row is None or target in row.regions or copy_key(dataset, target) in self._under_way:
            return
        if not self._touched.get(dataset, True) or target in self._copies.drops.get(dataset, ()):
            return
        if self._state.data.readers[dataset, target]:
            return  # Work that was awarded before an operator's word still reads the old files.
        limit = self._limit if workload else planned_limit(self._limit, self._now)
        if not fits_day(self._spent, row.size, limit):
            return
        if not self._may_store(row, target) or not may_try(self._copies, dataset, target, self._now):
            return
        source = self._source(dataset, row, target, is_urgent=bool(workload))
        if source is None:
            return
        order = CopyOrdered(
            self._copies.ordered + 1 + sum(isinstance(event, CopyOrdered) for event in self.events),
            dataset,
            source,
            target,
            row.size,
            max(1, self._settings.rate_of(source, target) // LINK_COPIES_MAX),
            row.hash,
            move is not None,
            workload,
            level,
            gain,
            self._limit,
            move is not None and move.keeps,
        )
        self._take(order)

    def _take(self, order: CopyOrdered) -> None:
        self.events.append(order)
        self._spent += order.bytes
        self._used[order.source, order.target] += 1
        self._stored[order.target] += order.bytes
        self._touched[order.dataset] = True
        self._under_way.add(copy_key(order.dataset, order.target))

    def _may_store(self, row: DatasetRow, target: RegionName) -> bool:
        capacity = self._settings.storage_of(target)
        return (
            capacity != UNSTATED
            and serves_data(self._state, target)
            and self._stored[target] + row.size <= capacity
        )

    def _source(
        self, dataset: DatasetName, row: DatasetRow, target: RegionName, *, is_urgent: bool
    ) -> RegionName | None:
        """Return the region to copy from: that of the fastest link with a free place, the home among equals.

        After each failure in a row it is the next one in that order: the files of one region may be gone or damaged.
        """
        most = LINK_COPIES_MAX if is_urgent else LINK_COPIES_MAX - 1
        free = [
            (-self._settings.rate_of(region, target), region != row.home, region)
            for region in row.regions
            if serves_data(self._state, region)
            and self._settings.rate_of(region, target)
            and self._used[region, target] < most
        ]
        failures = self._copies.failures.get(copy_key(dataset, target), FailedCopies()).times
        return sorted(free)[failures % len(free)][2] if free else None
