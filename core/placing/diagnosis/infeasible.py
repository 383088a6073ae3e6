"""Never, or not now: whether a region could hold a workload if nothing ran there and nothing was closed, and what would help.

Whether it never could is proved by totals, so a no is final until other nodes join. Each change that is named was tried: the
room for the job that is changed was counted as a search fills it, beside all the others in their places; where the order of
jobs or what a pool keeps free could matter, all were looked for. Nothing is kept of it, and no class is left behind.

source    KAI answers for an impossible job of 80 GPUs after 249.5 s (its published figure); bench/agent.py says what is measured
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from core.device_shares import left_of, part_of
from core.images.capacity import Capacity
from core.nouns.fleet import gpu_type_of
from core.nouns.quantities import MILLI, Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec, Kind
from core.placing.index.layout import NO_NODE, Layout
from core.placing.index.request_classes import tasks_that_fit
from core.placing.index.rows import TableRows
from core.placing.pick.nodes import Choice
from core.placing.pick.single_node import allowed
from core.placing.pool import PoolIndex
from core.placing.pool_set import Asker, PoolSet, choice_of, hardest_first, request_of
from core.rules.placement.plan import Plan
from core.rules.placement.rule import Numbers, Request

GIB = 1 << 30
TRIED = Choice("never")
"""How what is tried would be chosen."""
KNOWN_MAX = 256
"""Answers that are kept, by what was asked."""
CHANGES_MAX = 6
"""That are told."""
LOOKED_FOR_MAX = 10
"""Changes, the smallest, for which all jobs are looked for."""
JOBS_TRIED_MAX = 4
"""Of a workload with more jobs, so many of the hardest are tried with less."""
KINDS = (Kind.TRAINING, Kind.BATCH, Kind.INTERACTIVE, Kind.SERVICE, Kind.FUNCTION)
Jobs = tuple[JobSpec, ...]


class Outlook(Struct, frozen=True):
    """What can be said of a workload that finds no place."""

    is_never: bool
    """No node, however empty, could ever hold it; else it lacks room now."""
    changes: tuple[str, ...] = ()
    """What would help, each by itself, the smallest first: each was tried."""


class EmptyRegion:
    """A region's pools as if nothing ran there and nothing was closed, and what was asked of them."""

    def __init__(self) -> None:
        self._of: list[tuple[Layout, Plan]] = []
        self._pools = PoolSet({})
        self._known: dict[object, Outlook] = {}

    def outlook(self, pools: PoolSet, capacity: Capacity, jobs: Jobs, asker: Asker) -> Outlook:
        """Of jobs that find no place in these pools.

        The changes named are those that would help if all were empty, where it is never; else those that would help now.
        """
        self._follow(pools, capacity)
        key = tuple((job.name, job.tasks, request_of(job, asker)) for job in jobs)
        known = self._known.get(key)
        if known is None:
            is_never = never_fits(self._pools, jobs, asker)
            known = Outlook(is_never, changes_for(self._pools, jobs, asker) if is_never else ())
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = known
        return known if known.is_never else Outlook(is_never=False, changes=changes_for(pools, jobs, asker))

    def _follow(self, pools: PoolSet, capacity: Capacity) -> None:
        of = [(pool.layout, pool.plan) for pool in pools.by_name.values()]
        if len(of) == len(self._of) and all(
            new[0] is old[0] and new[1] is old[1] for new, old in zip(of, self._of, strict=True)
        ):
            return
        self._of, self._known = of, {}
        self._pools = PoolSet({name: _emptied(pool, capacity) for name, pool in pools.by_name.items()})


def _emptied(pool: PoolIndex, capacity: Capacity) -> PoolIndex:
    empty = PoolIndex(pool.name, pool.layout, pool.plan, is_passing=True)
    slots = np.flatnonzero(pool.layout.node != NO_NODE).astype(np.int32)
    nodes = pool.layout.node[slots]
    gpu, cpu, memory = _totals(capacity, nodes)
    empty.table.fill(slots, gpu.astype(np.int32), cpu.astype(np.int32), memory, np.ones(len(slots), np.bool_))
    return empty


def _copied(pool: PoolIndex) -> PoolIndex:
    """Another of the same rows: what is looked for in it leaves no classes behind."""
    return pool.released(np.zeros(0, dtype=np.int32), np.zeros((0, 3), dtype=np.int64))


def _totals(capacity: Capacity, nodes: Numbers) -> tuple[Numbers, ...]:
    return tuple(
        np.asarray(columns.total, dtype=np.int64)[nodes]
        for columns in (capacity.gpu, capacity.cpu, capacity.memory)
    )


# Whether it never could.


def never_fits(empty: PoolSet, jobs: Jobs, asker: Asker) -> bool:
    """Whether no way of placing could hold these in empty pools.

    For a job by itself the room is counted. Several are only held against totals: that the search finds no places for them
    together proves nothing, for it tries one order alone.
    """
    if any(_room(empty, job, asker) < job.tasks for job in jobs):
        return True
    mine = [_clusters_for(empty, job, asker) for job in jobs]
    totals = _totals_by_cluster(empty) if len(jobs) > 1 else {}
    for where in set(mine) if len(jobs) > 1 else ():
        inside = [job for job, its in zip(jobs, mine, strict=True) if its <= where]
        wanted = _sum(job.need.times(job.tasks) for job in inside)
        if not _sum(totals[cluster] for cluster in where).covers(wanted):
            return True
    return False


def _clusters_for(pools: PoolSet, job: JobSpec, asker: Asker) -> frozenset[tuple[str, int]]:
    request = request_of(job, asker)
    return frozenset(
        (pool.name, number) for pool in pools.pools_for(request) for number in pool.clusters_for(request)
    )


def _totals_by_cluster(empty: PoolSet) -> dict[tuple[str, int], Amount]:
    totals = {}
    for pool in empty.by_name.values():
        table, size = pool.table, pool.layout.pod_slots
        for number, (first, last) in enumerate(pool.layout.pods_of):
            at = slice(first * size, last * size)
            sums = [int(column[at].sum()) for column in (table.gpu, table.cpu, table.memory)]
            totals[pool.name, number] = Amount(*sums)
    return totals


def _sum(amounts: Iterable[Amount]) -> Amount:
    total = Amount()
    for amount in amounts:
        total = total.plus(amount)
    return total


# What would help.


def changes_for(pools: PoolSet, jobs: Jobs, asker: Asker) -> tuple[str, ...]:
    """Each change of one thing by which these jobs would find a place, the smallest first."""
    is_looked_for = len(jobs) > 1 or any(
        pool.bounds.concern(request_of(job, asker)) for pool in pools.by_name.values() for job in jobs
    )
    if is_looked_for:
        pools = PoolSet({name: _copied(pool) for name, pool in pools.by_name.items()})
    found: list[_Change] = []
    both: list[_Change] = []
    for position in hardest_first(jobs)[:JOBS_TRIED_MAX]:
        beside = _beside(pools, jobs, asker, position)
        if beside is not None:
            found += _less(beside, jobs[position], asker)
            found += _other_types(beside, jobs[position], asker)
            if not found:
                both += _less_of_both(beside, jobs[position], asker)
    found += _other_kinds(pools, jobs, asker)
    looks_in = pools if is_looked_for else None
    return _helping(looks_in, jobs, asker, found) or _helping(looks_in, jobs, asker, both)


class _Change(Struct, frozen=True):
    """One thing that would be other."""

    size: float
    text: str
    job: JobSpec | None = None
    """What would be asked for instead of the job of this name."""
    kind: Kind | None = None
    """What the workload would be."""

    def made(self, jobs: Jobs, asker: Asker) -> tuple[Jobs, Asker]:
        """What would be asked for with it."""
        mine = self.job
        changed = tuple(mine if mine is not None and job.name == mine.name else job for job in jobs)
        return changed, asker if self.kind is None else replace(asker, kind=self.kind)


def _helping(pools: PoolSet | None, jobs: Jobs, asker: Asker, changes: Iterable[_Change]) -> tuple[str, ...]:
    """The smallest of these, for people, and of other kinds the first; of those with which all find places, if it is to be
    looked for in these pools.
    """
    found: list[str] = []
    kinds = 0
    in_order = sorted(changes, key=lambda change: (change.size, "" if change.kind else change.text))
    for change in in_order[:LOOKED_FOR_MAX]:
        if len(found) == CHANGES_MAX or (kinds and change.kind is not None):
            break
        if pools is None or _find_places(pools, *change.made(jobs, asker)):
            found.append(change.text)
            kinds += change.kind is not None
    return tuple(found)


def _room(pools: PoolSet, job: JobSpec, asker: Asker) -> int:
    """How many tasks of a job could lie together: in one pool, on one type, as the search places them."""
    request = request_of(job, asker)
    return max(
        (_room_in(pool, one) for pool in pools.pools_for(request) for one in pool.by_type(request)), default=0
    )


def _room_in(pool: PoolIndex, request: Request) -> int:
    slots = allowed(pool.table, pool.plan, request)
    caps = tasks_that_fit(TableRows(pool.table, slots), request.need, request.part)
    if request.tasks_per_node:
        caps = np.minimum(caps, request.tasks_per_node)
    return pool.picker.most_in_one(slots, caps, request.pack) if request.pack else int(caps.sum())


def _fits(pools: PoolSet, job: JobSpec, asker: Asker) -> bool:
    return _room(pools, job, asker) >= job.tasks


def _find_places(pools: PoolSet, jobs: Jobs, asker: Asker) -> bool:
    """Whether all of them do, each where a search finds its place: whole columns at once and not row by row."""
    last = hardest_first(jobs)[-1]
    beside = _beside(pools, jobs, asker, last)
    return beside is not None and not isinstance(
        beside.find((jobs[last],), asker, choice_of(TRIED, last)), Reason
    )


def _beside(pools: PoolSet, jobs: Jobs, asker: Asker, but: int) -> PoolSet | None:
    """What is left once these jobs, but for that one, have found places; None if they do not."""
    for position in hardest_first(jobs):
        if position == but:
            continue
        job = jobs[position]
        spreads = pools.find((job,), asker, choice_of(TRIED, position))
        if isinstance(spreads, Reason):
            return None
        (spread,) = spreads
        place = pools.place_of(spread.nodes[0])
        assert place is not None, spread.nodes[0]
        pool = place[0]
        need = np.asarray([job.need.gpu_milli, job.need.cpu_milli, job.need.memory_bytes], dtype=np.int64)
        slots = pool.layout.slot_of[list(spread.nodes)]
        part = part_of(job.need.gpu_milli)
        shared = {
            slot: left_of(pool.table.shared_at(slot), [part] * count)
            for slot, count in zip(slots.tolist(), spread.tasks, strict=True)
            if part
        }
        taken = pool.released(slots, -need * np.asarray(spread.tasks, dtype=np.int64)[:, None], shared)
        pools = PoolSet({**pools.by_name, pool.name: taken})
    return pools


def _most(high: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 1 to `high` that fits, by halving; 0 if not even 1 does."""
    if high < 1 or not fits(1):
        return 0
    low = 1
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _less(pools: PoolSet, job: JobSpec, asker: Asker) -> Iterator[_Change]:
    """Fewer tasks of a job, or less for each."""
    tasks = _room(pools, job, asker)
    if 0 < tasks < job.tasks:
        text = f"{job.name}: {_tasks_text(tasks)} instead of {job.tasks}"
        yield _Change(1 - tasks / job.tasks, text, replace(job, tasks=tasks))
    for part in _parts_of(job.need):
        steps = _most(part.steps_on(pools), partial(_fits_with, pools, job, asker, part))
        if 0 < steps < part.asked:
            less, asked = part.text(steps * part.step), part.text(part.amount)
            text = f"{job.name}: {less} a task instead of {asked}"
            yield _Change(1 - steps * part.step / part.amount, text, part.given(job, steps))


def _fits_with(pools: PoolSet, job: JobSpec, asker: Asker, part: "_Part", steps: int) -> bool:
    return _fits(pools, part.given(job, steps), asker)


def _tasks_text(tasks: int) -> str:
    return f"{tasks} task" if tasks == 1 else f"{tasks} tasks"


class _Part(Struct, frozen=True):
    """One resource of what a task needs."""

    name: str
    unit: str
    scale: int
    """Of one unit, for people."""
    step: int
    amount: int

    @property
    def asked(self) -> int:
        """In steps, rounded up."""
        return -(-self.amount // self.step)

    def steps_on(self, pools: PoolSet) -> int:
        """As many as one node has available, and no more than asked for."""
        tables = [pool.table for pool in pools.by_name.values()]
        columns: dict[str, list[Numbers]] = {
            "gpu_milli": [table.gpu for table in tables],
            "cpu_milli": [table.cpu for table in tables],
            "memory_bytes": [table.memory for table in tables],
        }
        most = max((int(column.max(initial=0)) for column in columns[self.name]), default=0)
        return min(self.asked, most // self.step)

    def given(self, job: JobSpec, steps: int) -> JobSpec:
        """The same job with so much for each task, and no more than asked for."""
        return replace(job, need=replace(job.need, **{self.name: min(steps * self.step, self.amount)}))

    def text(self, amount: int) -> str:
        """For people."""
        return f"{amount / self.scale:g} {self.unit}"


def _parts_of(need: Amount) -> list[_Part]:
    gpu_step = MILLI if need.gpu_milli > MILLI else 100
    parts = [
        _Part("gpu_milli", "GPUs", MILLI, gpu_step, need.gpu_milli),
        _Part("cpu_milli", "CPUs", MILLI, MILLI, need.cpu_milli),
        _Part("memory_bytes", "GiB", GIB, GIB, need.memory_bytes),
    ]
    return [part for part in parts if part.amount > part.step]


def _other_types(pools: PoolSet, job: JobSpec, asker: Asker) -> Iterator[_Change]:
    node_types = {cluster.node_type for pool in pools.by_name.values() for cluster in pool.layout.clusters}
    for node_type in sorted(name for name in node_types if not job.takes(name)):
        gpu_type, runs_programs = gpu_type_of(node_type)
        other = job.on(node_type)
        if runs_programs == (job.program is not None) and _fits(pools, other, asker):
            yield _Change(1, f"{job.name}: {gpu_type} instead of {job.type_text}", other)


def _other_kinds(pools: PoolSet, jobs: Jobs, asker: Asker) -> Iterator[_Change]:
    """Where a pool is for other work. A kind that may go nowhere else would not help."""
    for kind in KINDS:
        other = replace(asker, kind=kind)
        if not any(_clusters_for(pools, job, other) - _clusters_for(pools, job, asker) for job in jobs):
            continue
        if all(_fits(pools, job, other) for job in jobs):
            yield _Change(2, f"kind {kind} instead of {asker.kind}", kind=kind)


def _less_of_both(pools: PoolSet, job: JobSpec, asker: Asker) -> Iterator[_Change]:
    """Where no change of one thing helps: for each task what a node has, and as many tasks as then fit."""
    small = job
    for part in _parts_of(job.need):
        small = part.given(small, max(1, part.steps_on(pools)))
    tasks = min(job.tasks, _room(pools, small, asker))
    if tasks and small != job:
        parts = ", ".join(part.text(getattr(small.need, part.name)) for part in _parts_of(job.need))
        yield _Change(3, f"{job.name}: {_tasks_text(tasks)} of {parts}", replace(small, tasks=tasks))
