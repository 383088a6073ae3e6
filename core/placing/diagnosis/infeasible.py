"""Never, or not now: whether an empty region with all nodes open could hold a workload, and which changes would help.

That a workload never fits is proved by totals, so the answer is final until other nodes join. Each named change was tried: the
capacity for the changed job was counted as a search would use it, beside the places of all other jobs; where the order of jobs or
a pool's reserve or limit could matter, all jobs were searched for. The trials leave no rows and no classes behind.

source    KAI answers for an impossible job of 80 GPUs after 249.5 s (its published figure); bench/agent.py has the measured ones
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
"""The choice of all hypothetical searches: one fixed seed."""
KNOWN_MAX = 256
"""The most answers kept, by request."""
CHANGES_MAX = 6
"""The most changes named in an answer."""
LOOKED_FOR_MAX = 10
"""The most changes considered for an answer, the smallest first; each may cost a search for all jobs."""
JOBS_TRIED_MAX = 4
"""The most jobs of a workload for which changes are tried, the hardest first."""
KINDS = (Kind.TRAINING, Kind.BATCH, Kind.INTERACTIVE, Kind.SERVICE, Kind.FUNCTION)
Jobs = tuple[JobSpec, ...]


class Outlook(Struct, frozen=True):
    """The outlook of a workload that finds no place."""

    is_never: bool
    """True if the region could not hold the workload even when empty; false if capacity is lacking now."""
    changes: tuple[str, ...] = ()
    """Changes of the workload that would help, each by itself, the smallest first: each was tried."""


class EmptyRegion:
    """A region's pools as if no work ran there and no node was cordoned or lost, and the answers given so far."""

    def __init__(self) -> None:
        self._of: list[tuple[Layout, Plan]] = []
        self._pools = PoolSet({})
        self._known: dict[object, Outlook] = {}

    def outlook(self, pools: PoolSet, capacity: Capacity, jobs: Jobs, asker: Asker) -> Outlook:
        """Return the outlook of jobs that find no place in these pools.

        If the jobs never fit, the named changes would help in an empty region; otherwise they would help now.
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
    """Return a copy of a pool's rows: searches in the copy leave no classes behind in the pool."""
    return pool.released(np.zeros(0, dtype=np.int32), np.zeros((0, 3), dtype=np.int64))


def _totals(capacity: Capacity, nodes: Numbers) -> tuple[Numbers, ...]:
    return tuple(
        np.asarray(columns.total, dtype=np.int64)[nodes]
        for columns in (capacity.gpu, capacity.cpu, capacity.memory)
    )


# Never.


def never_fits(empty: PoolSet, jobs: Jobs, asker: Asker) -> bool:
    """Return whether empty pools could not hold these jobs, however they were placed.

    For each job by itself, the tasks that fit are counted. Several jobs together are only compared with the totals of their
    clusters: a failed search would prove no impossibility, because a search tries one order of jobs only.
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


# Changes that would help.


def changes_for(pools: PoolSet, jobs: Jobs, asker: Asker) -> tuple[str, ...]:
    """Return the single changes by which these jobs would find a place, the smallest first.

    If no change of one property helps, the changes of both the need and the number of tasks are returned.
    """
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
    """One change of a workload: of a job, or of the kind."""

    size: float
    text: str
    job: JobSpec | None = None
    """The changed job, in place of the job of this name; None: no job changes."""
    kind: Kind | None = None
    """The workload's changed kind; None: the kind stays."""

    def made(self, jobs: Jobs, asker: Asker) -> tuple[Jobs, Asker]:
        """Return the jobs and the asker with the change."""
        mine = self.job
        changed = tuple(mine if mine is not None and job.name == mine.name else job for job in jobs)
        return changed, asker if self.kind is None else replace(asker, kind=self.kind)


def _helping(pools: PoolSet | None, jobs: Jobs, asker: Asker, changes: Iterable[_Change]) -> tuple[str, ...]:
    """Return the texts of the smallest changes, with at most one change of the kind.

    pools   pools in which all jobs must find places with the change; None: the change is known to help
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
    """Return the most tasks of a job that fit together: in one pool, on one node type, as the search places them."""
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
    """Return whether all jobs find places in the order of a search. Places are taken in whole columns at once, not row by row."""
    last = hardest_first(jobs)[-1]
    beside = _beside(pools, jobs, asker, last)
    return beside is not None and not isinstance(
        beside.find((jobs[last],), asker, choice_of(TRIED, last)), Reason
    )


def _beside(pools: PoolSet, jobs: Jobs, asker: Asker, but: int) -> PoolSet | None:
    """Return the pools with the places of all jobs but one taken; None if some of these jobs finds no place."""
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
    """Return the largest number from 1 to `high` that fits, by halving; 0 if not even 1 does."""
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
    """Yield the changes to fewer tasks of a job, and to less of one resource for each task, with which the job fits."""
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
    """One resource in the need of a task. Amounts are in milli or bytes."""

    name: str
    unit: str
    scale: int
    """The amount of one `unit`, as shown to people."""
    step: int
    amount: int

    @property
    def asked(self) -> int:
        """Return the need in steps, rounded up."""
        return -(-self.amount // self.step)

    def steps_on(self, pools: PoolSet) -> int:
        """Return the most steps that one node has available, and at most those asked for."""
        tables = [pool.table for pool in pools.by_name.values()]
        columns: dict[str, list[Numbers]] = {
            "gpu_milli": [table.gpu for table in tables],
            "cpu_milli": [table.cpu for table in tables],
            "memory_bytes": [table.memory for table in tables],
        }
        most = max((int(column.max(initial=0)) for column in columns[self.name]), default=0)
        return min(self.asked, most // self.step)

    def given(self, job: JobSpec, steps: int) -> JobSpec:
        """Return the job with so many steps for each task, and at most the amount asked for."""
        return replace(job, need=replace(job.need, **{self.name: min(steps * self.step, self.amount)}))

    def text(self, amount: int) -> str:
        """Return an amount as text for people."""
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
    """Yield the changes of the kind with which all jobs fit. A kind that opens no further clusters to some job would not help."""
    for kind in KINDS:
        other = replace(asker, kind=kind)
        if not any(_clusters_for(pools, job, other) - _clusters_for(pools, job, asker) for job in jobs):
            continue
        if all(_fits(pools, job, other) for job in jobs):
            yield _Change(2, f"kind {kind} instead of {asker.kind}", kind=kind)


def _less_of_both(pools: PoolSet, job: JobSpec, asker: Asker) -> Iterator[_Change]:
    """Yield the change to as much for each task as a node has, and to as many tasks as then fit: if no single change helps."""
    small = job
    for part in _parts_of(job.need):
        small = part.given(small, max(1, part.steps_on(pools)))
    tasks = min(job.tasks, _room(pools, small, asker))
    if tasks and small != job:
        parts = ", ".join(part.text(getattr(small.need, part.name)) for part in _parts_of(job.need))
        yield _Change(3, f"{job.name}: {_tasks_text(tasks)} of {parts}", replace(small, tasks=tasks))
