"""Days of plans against workloads that arrive by the hour, and which of these wait for data.

    1. At the start of a day the readings of all that was submitted before it, and the places of all tables, make a problem; a plan is made.
    2. Its copies arrive in its order, evenly by bytes at the rate of a day's bytes in a day; three quarters of a day's bytes are the plan's.
    3. New tables are at their homes alone.
    4. Workloads arrive by the hour. One waits for data if no open region holds all its tables and has its GPU type.
    5. For work that waits copies are ordered at once to the region where the fewest bytes are missing, high priority first, while the day has
       bytes left. Each copy has the rate of a day's bytes in a day. A wait ends at the full hour after the last copy, or when a region opens.

Readings are those of the queue (core/images/readings.py), for the real spans of each run: of a row the GPUs held on average with a half-life
of 30 days, or wanted with one of an hour, whichever is more; a row of less than a thousandth of a GPU is none. Work never waits for GPUs here.
"""

from collections.abc import Callable

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from bench.support.data_places.drawn import BYTES_A_DAY, HIGH
from bench.support.data_places.plays import first_version
from bench.support.data_places.stream import (
    CROSS_SET,
    DAY_HOURS,
    DAY_SECONDS,
    MONTH,
    NEW_SET,
    RECURRING,
    REUSED,
    Stream,
)
from core.data_places.actions import DROP_COPY, MOVE_HOME
from core.data_places.asked import COPY_PRICE
from core.data_places.problem import DataProblem, Flags, Floats, Ints, copies_of
from core.data_places.search import planned
from core.nouns.instant import SECOND
from core.nouns.limits import USE_HALF_LIFE, WANT_HALF_LIFE
from core.nouns.quantities import MILLI
from core.rules.data.copies import PLAN_PART

PLAN_SHARE = PLAN_PART[0] / PLAN_PART[1]
"""Of a day's bytes, those that planned copies may have: the rest is for work that waits."""
CAUSES = ("closed", "new_table", "cross_set", "new_set", "known_set")
"""Why a workload waited: the first that holds. Known sets are those of recurring workloads and of reused ones."""


class Change(Struct, frozen=True):
    """An action of a plan."""

    kind: int
    table: int
    source: int
    target: int
    bytes: int
    keeps: bool


class DayFound(Struct):
    """What became of a day's workloads."""

    workloads: int = 0
    waited: int = 0
    high: int = 0
    """Workloads of high priority."""
    high_waited: int = 0
    gpu_seconds: float = 0.0
    gpu_seconds_waited: float = 0.0
    wait_hours: list[float] = field(default_factory=list)
    """Of each that waited and whose wait ended, from its submission to a full hour."""
    causes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))
    kinds: dict[int, int] = field(
        default_factory=lambda: dict.fromkeys((RECURRING, REUSED, NEW_SET, CROSS_SET), 0)
    )
    """Workloads by kind."""
    candidates: list[int] = field(default_factory=list)
    """Workloads by the number of regions in which they could run when they arrived, from 0."""
    if_closed: list[int] = field(default_factory=list)
    """Workloads that could run at the end of the day and could not if the region were closed, by region."""
    extra_storage: float = 0.0
    """Bytes of copies beyond one for each table, to bytes of all tables."""
    bytes_share: float = 0.0
    """Copied, to bytes of all tables."""
    actions: int = 0


Planner = Callable[[DataProblem], list[Change]]


class Way(Struct, frozen=True):
    """A way to plan."""

    planner: Planner
    memory: float = 1.0
    """Half-life of the GPUs held, in parts of that of the queue's readings."""


class Warm(Struct, frozen=True):
    """Days before those that are measured, so that plans have made their copies."""

    days: int
    day_bytes: float
    """How many days' bytes each of them may copy."""


def ours(problem: DataProblem) -> list[Change]:
    """Return the actions of our plan, in its order."""
    plan = planned(problem)
    columns = (plan.kinds, plan.tables, plan.sources, plan.targets, plan.bytes, plan.keeps)
    return [Change(*one) for one in zip(*(column.tolist() for column in columns), strict=True)]


def unplanned(_: DataProblem) -> list[Change]:
    """Return no action: all data lies where teams put it, or where work that waited had it copied."""
    return []


def without_hot_tables(problem: DataProblem) -> list[Change]:
    """Return the actions of our plan if no table counts as hot."""
    return ours(replace(problem, hot_permille=0))


def without_disaster_copies(problem: DataProblem) -> list[Change]:
    """Return the actions of our plan if no table is to have a copy outside its home."""
    return ours(replace(problem, disaster_copies=False))


def by_first_version(problem: DataProblem) -> list[Change]:
    """Return the moves of the published V1, by table: it makes no copies."""
    after, _ = first_version(problem)
    return [
        Change(MOVE_HOME, table, int(problem.home[table]), int(after.home[table]), size, keeps=False)
        for table in np.flatnonzero(problem.home != after.home).tolist()
        for size in (0 if problem.held[table, after.home[table]] else int(problem.sizes[table]),)
    ]


def readings_at(stream: Stream, started: Floats, day: int, memory: float = 1.0) -> Floats:
    """Return (rows that have come,) GPUs of each reading at the start of a day.

    started    (workloads,) hours; infinite: not yet
    memory   half-life of the GPUs held, in parts of that of the queue
    """
    now = day * DAY_HOURS
    end = stream.span_of(day)[0]
    rows, gpus = stream.rows[:end], stream.gpus[:end]
    count = int(rows.max(initial=-1)) + 1
    ends = np.minimum(started[:end] + stream.seconds[:end] * (DAY_HOURS / DAY_SECONDS), now)
    found = np.zeros(count)
    for begins, half_life in ((started[:end], USE_HALF_LIFE * memory), (stream.hour[:end], WANT_HALF_LIFE)):
        hours = half_life / SECOND * DAY_HOURS / DAY_SECONDS
        left = np.exp2((ends - now) / hours) - np.exp2((np.minimum(begins, ends) - now) / hours)
        whole = 1.0 - np.exp2(-(now + MONTH * DAY_HOURS) / hours)
        found = np.maximum(found, np.bincount(rows, gpus * left / whole, count))
    return np.floor(found * MILLI) / MILLI


class Days:
    """Places of tables, changed by plans and by work that waits."""

    def __init__(self, stream: Stream, way: Way, warm: Warm) -> None:
        """Begin at V0."""
        self.stream, self.way, self.warm = stream, way, warm
        problem = stream.problem
        self.home = problem.home.copy()
        self.held = problem.held & (stream.table_day < 0)[:, None]
        self.sizes: list[int] = problem.sizes.tolist()
        self.room: list[int] = (problem.storage - (problem.sizes[:, None] * self.held).sum(axis=0)).tolist()
        self.runs: Flags = (problem.supply > 0).T[stream.gpu_type]
        self.started = np.where(stream.hour < 0, stream.hour, np.inf)
        self.under_way: dict[tuple[int, int], float] = {}
        """The hour in which each copy that work waits for arrives, by table and region."""
        self.waiting: list[int] = []
        self.day_of: dict[int, DayFound] = {}
        self.spent = 0
        """Bytes of the day; of a large copy a part counts on the next days."""

    def played(self) -> list[DayFound]:
        """Return all days, those before the measured ones included."""
        return [self._day(day) for day in range(self.stream.days)]

    def problem_at(self, day: int) -> DataProblem:
        """Return what a planner knows at the start of a day."""
        stream, whole = self.stream, self.stream.problem
        tables = stream.tables_at(day)
        demand = readings_at(stream, self.started, day, self.way.memory)
        rows = np.flatnonzero(demand > 0)
        firsts = stream.row_first[rows]
        starts, read = _rows_of(stream.set_starts, stream.set_tables, stream.sets[firsts])
        room = max(0, int(PLAN_SHARE * self._limit(day)) - self.spent)
        return replace(
            whole,
            sizes=whole.sizes[:tables],
            home=self.home[:tables].copy(),
            copies=copies_of(self.held[:tables]),
            pinned=whole.pinned[:tables],
            job_starts=starts,
            job_tables=read,
            job_type=stream.gpu_type[firsts],
            job_band=stream.band[firsts],
            job_demand=demand[rows],
            bytes_max=room,
            copy_price=COPY_PRICE,
        )

    def _limit(self, day: int) -> int:
        tables = self.stream.tables_at(day)
        times = self.warm.day_bytes if day < self.warm.days else 1.0
        return int(BYTES_A_DAY * times * self.stream.problem.sizes[:tables].sum())

    def _day(self, day: int) -> DayFound:
        stream = self.stream
        found, limit = DayFound(candidates=[0] * (len(self.runs[0]) + 1)), self._limit(day)
        debt = self.spent = max(0, self.spent - self._limit(day - 1)) if day else 0
        changes = self.way.planner(self.problem_at(day))
        found.actions = len(changes)
        due = (np.cumsum([change.bytes for change in changes]) * DAY_HOURS / limit).tolist()
        self.spent += sum(change.bytes for change in changes)
        born = np.flatnonzero(stream.table_day == day)
        for table in born.tolist():
            self._put(table, int(self.home[table]))
        first, end = stream.span_of(day)
        edges = np.searchsorted(stream.hour, day * DAY_HOURS + np.arange(25)).tolist()
        begun = 0
        for hour in range(24):
            now = day * DAY_HOURS + hour
            while begun < len(changes) and due[begun] <= hour:
                self._carry_out(changes[begun])
                begun += 1
            for table, region in sorted(key for key, at in self.under_way.items() if at <= now):
                del self.under_way[table, region]
                self._put(table, region)
            self._hour(now, edges[hour], edges[hour + 1], found, limit)
        for change in changes[begun:]:
            self._carry_out(change)
        self._count(found, first, end)
        found.bytes_share = (self.spent - debt) / int(stream.problem.sizes[: stream.tables_at(day)].sum())
        tables = stream.tables_at(day + 1)
        sizes = stream.problem.sizes[:tables]
        copies = self.held[:tables].sum(axis=1)
        found.extra_storage = float((sizes * (copies - 1)).sum() / sizes.sum())
        return found

    def _count(self, found: DayFound, first: int, end: int) -> None:
        """Count a day's workloads."""
        stream = self.stream
        found.workloads = end - first
        found.high = int((stream.band[first:end] == HIGH).sum())
        found.gpu_seconds = float(stream.gpus[first:end] @ stream.seconds[first:end])
        for kind, number in enumerate(np.bincount(stream.kind[first:end], minlength=4).tolist()):
            found.kinds[kind] = number
        arrived = np.arange(first, end)
        runs = self._regions(arrived, np.ones(self.runs.shape[1], dtype=np.bool_))
        alone = runs.sum(axis=1) == 1
        found.if_closed = runs[alone].sum(axis=0).tolist()

    def _hour(self, now: float, first: int, end: int, found: DayFound, limit: int) -> None:
        """Let the workloads of an hour arrive, and those that waited start if they can."""
        stream = self.stream
        is_open = np.ones(self.runs.shape[1], dtype=np.bool_)
        for region, begin, until in stream.closures:
            is_open[region] = not begin <= now < until
        waited = np.array(self.waiting, dtype=np.int64)
        candidates = self._regions(waited, is_open).sum(axis=1)
        for place in np.flatnonzero(candidates > 0).tolist():
            workload = self.waiting[place]
            self.started[workload] = now
            self.day_of.pop(workload).wait_hours.append(now - float(stream.hour[workload]))
        self.waiting = waited[candidates == 0].tolist()
        arrived = np.arange(first, end)
        candidates = self._regions(arrived, is_open).sum(axis=1)
        for number, count in enumerate(np.bincount(candidates, minlength=len(found.candidates)).tolist()):
            found.candidates[number] += count
        self.started[arrived[candidates > 0]] = stream.hour[arrived[candidates > 0]]
        late = arrived[candidates == 0]
        anywhere: Flags = np.any(self._regions(late, np.ones_like(is_open)), axis=1)
        for workload, is_closed in zip(late.tolist(), anywhere.tolist(), strict=True):
            self._waits(workload, is_closed, now, found)
        for workload in sorted(self.waiting, key=lambda one: (-stream.band[one], one)):
            self._order(workload, now, is_open, limit)

    def _waits(self, workload: int, is_closed: bool, now: float, found: DayFound) -> None:
        stream = self.stream
        kind, day = int(stream.kind[workload]), int(now // DAY_HOURS)
        is_new = (stream.table_day[self._tables(workload)] == day).any()
        by_kind = {CROSS_SET: "cross_set", NEW_SET: "new_set"}.get(kind, "known_set")
        found.causes["closed" if is_closed else "new_table" if is_new else by_kind] += 1
        found.waited += 1
        found.high_waited += int(stream.band[workload] == HIGH)
        found.gpu_seconds_waited += float(stream.gpus[workload] * stream.seconds[workload])
        self.waiting.append(workload)
        self.day_of[workload] = found

    def _tables(self, workload: int) -> Ints:
        stream, number = self.stream, self.stream.sets[workload]
        return stream.set_tables[stream.set_starts[number] : stream.set_starts[number + 1]]

    def _regions(self, workloads: Ints, is_open: Flags) -> Flags:
        """Return (workloads, regions) in which each could run."""
        if not len(workloads):
            return np.zeros((0, len(is_open)), dtype=np.bool_)
        stream = self.stream
        starts, read = _rows_of(stream.set_starts, stream.set_tables, stream.sets[workloads])
        found: Flags = np.logical_and.reduceat(self.held[read], starts[:-1], axis=0)
        return found & self.runs[workloads] & is_open

    def _order(self, workload: int, now: float, is_open: Flags, limit: int) -> None:
        """Order the copies that a workload lacks to where they are fewest bytes, if storage and the day allow that."""
        tables = self._tables(workload)
        held = self.held[tables]
        if not (held & is_open).any(axis=1).all():
            return
        best: tuple[int, int] | None = None
        for region in np.flatnonzero(self.runs[workload] & is_open).tolist():
            lacking = tables[~held[:, region]].tolist()
            missing = sum(self.sizes[table] for table in lacking)
            ordered = sum(self.sizes[table] for table in lacking if (table, region) in self.under_way)
            if missing - ordered <= self.room[region] and (best is None or missing < best[0]):
                best = missing, region
        if best is None:
            return
        region = best[1]
        for table in tables[~held[:, region]].tolist():
            size = self.sizes[table]
            if (table, region) in self.under_way or (self.spent and self.spent + size > limit):
                continue
            self.spent += size
            self.under_way[table, region] = (
                max(now, float(self.stream.hour[workload])) + size * DAY_HOURS / limit
            )

    def _put(self, table: int, region: int) -> None:
        if not self.held[table, region]:
            self.held[table, region] = True
            self.room[region] -= self.sizes[table]

    def _drop(self, table: int, region: int) -> None:
        if self.held[table, region]:
            self.held[table, region] = False
            self.room[region] += self.sizes[table]

    def _carry_out(self, change: Change) -> None:
        """Carry out one action, unless copies that work waited for took its storage."""
        table, target = change.table, change.target
        if change.kind == DROP_COPY:
            self._drop(table, target)
            return
        if not self.held[table, target] and self.sizes[table] > self.room[target]:
            return
        self._put(table, target)
        if change.kind == MOVE_HOME:
            self.home[table] = target
            if not change.keeps:
                self._drop(table, change.source)


def _rows_of(starts: Ints, values: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return some rows of a table of rows that lie one after the other: where each begins, and the values."""
    lengths = starts[rows + 1] - starts[rows]
    begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    places = np.arange(begins[-1]) - np.repeat(begins[:-1] - starts[rows], lengths)
    return begins, values[places]
