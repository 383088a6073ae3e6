"""A region's pools, searched together: each job goes to the first pool that may hold the job and has capacity."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from core.device_shares import fits, left_of, part_of
from core.nouns.fleet import node_type_of
from core.nouns.ids import TenantName
from core.nouns.instant import Instant
from core.nouns.placement import NodeRow, Spread
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import Extent, JobSpec, Kind
from core.placing.index.layout import NO_NODE
from core.placing.pick.nodes import Choice, Placed
from core.placing.pool import PoolIndex
from core.rules.placement.errors import RuleFailed
from core.rules.placement.pool import pool_rank
from core.rules.placement.rule import Request


class Asker(Struct, frozen=True):
    """The properties that all requests of a workload's jobs share."""

    kind: Kind = Kind.TRAINING
    tenant: TenantName = TenantName("")
    priority: int = 0
    heeds_reserve: bool = True
    heeds_limit: bool = True
    at: Instant = Instant(0)
    """Time of the search: an attempt is no victim before its tenant's minimum run time has passed."""
    barred: tuple[int, ...] = ()
    """Reservations that bar the workload from their nodes, each by the sequence of its fact, ascending."""
    spares_all: bool = False
    """True if no attempt may be preempted for the workload."""

    def unbound(self) -> "Asker":
        """Return the asker free of reserve and limit: the workload is recovering, or held its capacity before."""
        return replace(self, heeds_reserve=False, heeds_limit=False)


class Asking(Protocol):
    """A request, an award or a claim."""

    @property
    def kind(self) -> str:
        """The workload's kind."""

    @property
    def tenant(self) -> TenantName:
        """The workload's tenant."""

    @property
    def priority(self) -> int:
        """The workload's level: 0 is the lowest, `OVER_LEVEL` that of borrowing work."""

    @property
    def is_healing(self) -> bool:
        """True if the workload is recovering: a node failure ended its last attempt."""


def asker_of(asking: Asking, at: int) -> Asker:
    """Return the asker of a request, award or claim at a time."""
    asker = Asker(Kind(asking.kind), asking.tenant, asking.priority, at=Instant(at))
    return asker.unbound() if asking.is_healing else asker


def request_of(job: JobSpec, asker: Asker) -> Request:
    """Return the traits of a job that rules read.

    A service is spread over racks unless the job names a spread or packs into a node or rack: one rack's failure should leave replicas.
    """
    topology = job.topology
    spread = topology.spread
    if (
        asker.kind is Kind.SERVICE
        and spread is Extent.ANY
        and topology.pack not in (Extent.NODE, Extent.RACK)
    ):
        spread = Extent.RACK
    node_type = node_type_of(job.gpu_type, runs_programs=job.program is not None)
    or_types: tuple[str, ...] = ()
    if job.or_types:
        node_type, *others = sorted(set(job.node_types))
        or_types = tuple(others)
    return Request(
        need=job.need,
        node_type=node_type,
        kind=asker.kind,
        tenant=asker.tenant,
        priority=asker.priority,
        zones=topology.zones,
        near=topology.near,
        gpu_memory=job.gpu_memory,
        is_alone=job.is_alone,
        tasks_per_node=topology.tasks_per_node,
        pack=topology.pack,
        spread=spread,
        heeds_reserve=asker.heeds_reserve,
        heeds_limit=asker.heeds_limit,
        or_types=or_types,
        barred=asker.barred,
    )


def hardest_first(jobs: Sequence[JobSpec]) -> list[int]:
    """Return the order in which jobs are placed: largest tasks first, because fewest nodes hold them."""
    return sorted(range(len(jobs)), key=lambda index: (-jobs[index].need.gpu_milli, index))


def choice_of(choice: Choice, position: int) -> Choice:
    """Return the choice for the job at a position of its workload: each job but the first has a seed of its own."""
    return replace(choice, seed=f"{choice.seed}|{position}") if position else choice


class JobFound(Struct, frozen=True):
    """The place of one job, and the search that found the place."""

    position: int
    """Position of the job in its workload."""
    pool: PoolIndex
    request: Request
    """The request; for a gang that accepts several GPU types, on the chosen type, unless one node holds the gang."""
    tasks: int
    choice: Choice
    slots: Placed


def unwatched(_: JobFound) -> None:
    """Ignore a job's place: the default of `watch`."""


class PoolSet:
    """Pools by name."""

    def __init__(self, pools: Mapping[str, PoolIndex]) -> None:
        self.by_name = pools

    def place_of(self, node: int) -> tuple[PoolIndex, int] | None:
        """Return the pool and slot of a node; None if no pool has the node."""
        for pool in self.by_name.values():
            slot = pool.layout.slot(node)
            if slot != NO_NODE:
                return pool, slot
        return None

    def available(self, node: int) -> Amount:
        """Return the available capacity of a node."""
        place = self.place_of(node)
        if place is None:
            return Amount()
        table, slot = place[0].table, place[1]
        return Amount(int(table.gpu[slot]), int(table.cpu[slot]), int(table.memory[slot]))

    def has_capacity(self, node: int, amount: Amount, parts: Sequence[int] = ()) -> bool:
        """Return whether an amount fits on a node; `parts` of the amount are parts of one device each."""
        place = self.place_of(node)
        if place is None or not self.available(node).covers(amount):
            return False
        row = place[0].row(place[1])
        return fits(row.free.gpu_milli, row.parts, amount.gpu_milli, parts)

    def racks_of(self, nodes: Iterable[int]) -> int:
        """Return the number of racks that hold these nodes."""
        places = [place for place in map(self.place_of, nodes) if place is not None]
        return len({int(pool.layout.rack[slot]) for pool, slot in places})

    @property
    def held_permille(self) -> int:
        """Permille of all GPU milli, lost nodes included, that is not available."""
        total = sum(int(sum(pool.table.clusters.total)) for pool in self.by_name.values())
        free = sum(pool.table.gpu_free for pool in self.by_name.values())
        return 1000 - 1000 * free // total if total else 1000

    def pools_for(self, request: Request) -> list[PoolIndex]:
        """Return the pools with nodes that could ever run the request, first choice first."""
        found = [pool for pool in self.by_name.values() if pool.admits(request)]
        if len(found) > 1:
            found.sort(key=lambda pool: (pool_rank(pool.name, request.kind), pool.name))
        return found

    def find(
        self,
        jobs: Sequence[JobSpec],
        asker: Asker,
        choice: Choice,
        in_vain: Callable[[JobSpec, Request], None] = lambda *_: None,
        watch: Callable[[JobFound], None] = unwatched,
    ) -> tuple[Spread, ...] | Reason:
        """Return places for all tasks of all jobs in available capacity, or the reason for none. Rows stay as they were.

        in_vain   called with the job that finds no place, while the places of earlier jobs are taken
        watch     called with each job that finds a place, before that place is taken
        """
        try:
            return self._find(jobs, asker, choice, in_vain, watch)
        except RuleFailed:
            return Reason.RULE_FAILED

    def _find(
        self,
        jobs: Sequence[JobSpec],
        asker: Asker,
        choice: Choice,
        in_vain: Callable[[JobSpec, Request], None],
        watch: Callable[[JobFound], None],
    ) -> tuple[Spread, ...] | Reason:
        if len(jobs) > 1:
            return self._find_all(jobs, asker, choice, in_vain, watch)
        (job,) = jobs
        request = request_of(job, asker)
        pools = self.pools_for(request)
        if not pools:
            return Reason.NO_SUCH_HARDWARE
        placed = _placed(pools, request, job.tasks, choice)
        if placed is None:
            in_vain(job, request)
            return Reason.NO_CAPACITY
        if watch is not unwatched:
            watch(_found(0, placed, request, job.tasks, choice))
        return (spread_of(*placed),)

    def _find_all(
        self,
        jobs: Sequence[JobSpec],
        asker: Asker,
        choice: Choice,
        in_vain: Callable[[JobSpec, Request], None],
        watch: Callable[[JobFound], None],
    ) -> tuple[Spread, ...] | Reason:
        """Place jobs one after the other, each beside the earlier ones."""
        requests = [request_of(job, asker) for job in jobs]
        if not all(self.pools_for(request) for request in requests):
            return Reason.NO_SUCH_HARDWARE
        found: dict[int, Spread] = {}
        with self.trial() as trial:
            for position in hardest_first(jobs):
                request = requests[position]
                chosen = choice_of(choice, position)
                placed = _placed(self.pools_for(request), request, jobs[position].tasks, chosen)
                if placed is None:
                    in_vain(jobs[position], request)
                    return Reason.NO_CAPACITY
                pool, slots = placed
                watch(_found(position, placed, request, jobs[position].tasks, chosen))
                found[position] = spread_of(pool, slots)
                for slot, count in slots:
                    trial.take(pool, slot, request.need, count)
        return tuple(found[position] for position in range(len(jobs)))

    def capacity_for(self, job: JobSpec, asker: Asker) -> int:
        """Return how many tasks like the job's fit in available capacity, summed over pools. Raises RuleFailed."""
        request = request_of(job, asker)
        return sum(int(pool.class_of(request).pod_cap.sum()) for pool in self.pools_for(request))

    def find_each(self, job: JobSpec, asker: Asker, choice: Choice) -> tuple[Spread, ...]:
        """Return places for as many of the job's tasks as fit, one spread for each pool. Raises RuleFailed.

        All tasks go together as `find` places them if they fit; otherwise to pools and units with capacity, on one node type.
        """
        together = self.find((job,), asker, choice)
        if not isinstance(together, Reason):
            return together
        request = self._on_widest_type(replace(request_of(job, asker), pack=Extent.ANY))
        found: list[Spread] = []
        left = job.tasks
        for pool in self.pools_for(request):
            count = min(left, int(pool.class_within(request, left).pod_cap.sum()))
            placed = pool.place(request, count, choice) if count else None
            if placed is not None:
                found.append(spread_of(pool, placed))
                left -= count
        return tuple(found)

    def _on_widest_type(self, request: Request) -> Request:
        """Return the request on the accepted type with most capacity, summed over pools."""
        if request.has_one_type:
            return request
        room: dict[Request, int] = {}
        for pool in self.pools_for(request):
            for one in pool.by_type(request):
                room[one] = room.get(one, 0) + int(pool.class_of(one).pod_cap.sum())
        return max(room, key=lambda one: room[one], default=request)

    @contextmanager
    def trial(self) -> Iterator["Trial"]:
        """Yield a trial, and undo the trial's changes at the end."""
        trial = Trial(self)
        try:
            yield trial
        finally:
            trial.undo()

    def released(
        self,
        freed: Iterable[tuple[int, Amount]],
        owners: Mapping[int, int] | None = None,
        shared: Mapping[int, Sequence[int]] | None = None,
    ) -> "PoolSet":
        """Return the pools as if these amounts more were available on nodes.

        owners   owner then, by node
        shared   by node with other shared devices then: milli free on each shared device
        """
        by_pool: dict[str, list[tuple[int, Amount]]] = {}
        for node, amount in freed:
            place = self.place_of(node)
            if place is not None:
                by_pool.setdefault(place[0].name, []).append((place[1], amount))
        others = dict(self.by_name)
        for name, mine in by_pool.items():
            slots = np.asarray([slot for slot, _ in mine], dtype=np.int32)
            amounts = [(amount.gpu_milli, amount.cpu_milli, amount.memory_bytes) for _, amount in mine]
            layout = others[name].layout
            parts = {layout.slot(node): of_node for node, of_node in (shared or {}).items()}
            parts.pop(NO_NODE, None)
            others[name] = others[name].released(slots, np.asarray(amounts, dtype=np.int64), parts)
        released = PoolSet(others)
        for node, owner in (owners or {}).items():
            place = released.place_of(node)
            if place is not None and place[0] is not self.by_name[place[0].name]:
                place[0].table.set_owner(place[1], owner)
        return released


def _placed(
    pools: Sequence[PoolIndex], request: Request, tasks: int, choice: Choice
) -> tuple[PoolIndex, Placed] | None:
    for pool in pools:
        placed = pool.place(request, tasks, choice)
        if placed is not None:
            return pool, placed
    return None


def _found(
    position: int, placed: tuple[PoolIndex, Placed], request: Request, tasks: int, choice: Choice
) -> JobFound:
    pool, slots = placed
    return JobFound(position, pool, pool.as_found(request, tasks, slots), tasks, choice, slots)


class Trial:
    """Temporary changes of rows."""

    def __init__(self, pools: PoolSet) -> None:
        self._pools = pools
        self._before: dict[tuple[str, int], tuple[PoolIndex, NodeRow]] = {}

    def take(self, pool: PoolIndex, slot: int, need: Amount, count: int = 1) -> None:
        """Take the need of `count` tasks from a slot's available capacity."""
        row = self._remember(pool, slot)
        part, shared = part_of(need.gpu_milli), row.parts
        if part:
            shared = left_of(shared, [part] * count)
        pool.put(slot, NodeRow(row.node, row.free.minus(need.times(count)), row.is_open, shared))

    def take_spread(self, spread: Spread, need: Amount) -> None:
        """Take the need of a spread's tasks from available capacity."""
        for node, count in zip(spread.nodes, spread.tasks, strict=True):
            place = self._pools.place_of(node)
            assert place is not None, node
            self.take(*place, need, count)

    def put(self, row: NodeRow) -> None:
        """Set a node's row until the trial is over, which restores the earlier one."""
        place = self._pools.place_of(row.node)
        if place is not None:
            self._remember(*place)
            place[0].put(place[1], row)

    def undo(self) -> None:
        """Restore all changed rows."""
        for (_, slot), (pool, row) in self._before.items():
            pool.put(slot, row)
        self._before.clear()

    def _remember(self, pool: PoolIndex, slot: int) -> NodeRow:
        row = pool.row(slot)
        self._before.setdefault((pool.name, slot), (pool, row))
        return row


def spread_of(pool: PoolIndex, placed: Placed) -> Spread:
    """Return a place in slots as nodes, ascending."""
    if len(placed) == 1:
        slot, count = placed[0]
        return Spread((int(pool.layout.node[slot]),), (count,))
    slots, counts = zip(*placed, strict=True)
    nodes = pool.layout.node[np.array(slots)]
    order = nodes.argsort()
    in_order = nodes[order].tolist()
    return Spread(tuple(in_order), tuple(map(counts.__getitem__, order.tolist())))
