"""An upper bound on the tasks that fit once some attempts have ended: a search that must fail is skipped.

On nodes with freed capacity, rules and topology are ignored; attempts without capacity in the request's clusters do not count. So
the bound may admit a workload that does not fit, and never excludes one that fits.
"""

from collections.abc import Sequence

from core.images.capacity import Capacity, Holding
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec
from core.placing.index.layout import NO_NODE
from core.placing.index.request_classes import CAP_MAX
from core.placing.pool import PoolIndex
from core.placing.pool_set import Asker, PoolSet, request_of
from core.placing.preemption.victim_index import Where
from core.rules.placement.rule import Request


class Target:
    """One pool's nodes of one type, as the place of all tasks of a job."""

    def __init__(self, pool: PoolIndex, request: Request) -> None:
        self.pool, self.request, self.need = pool, request, request.need
        self.clusters = frozenset(pool.clusters_for(request))
        self.most = request.tasks_per_node or int(CAP_MAX)
        table = pool.table
        # One value is read much faster through these views than through the arrays that share their memory.
        self._gpu, self._cpu, self._memory = table.gpu.data, table.cpu.data, table.memory.data
        self.look()

    def look(self) -> None:
        """Read the up-to-date class of the request: a hypothetical search leaves the class as in the hypothesis."""
        one = self.pool.class_of(self.request)
        self.cap, self.tasks = one.cap.data, int(one.pod_cap.sum())

    def gained(self, slot: int, freed: Amount) -> int:
        """Return the most tasks that would fit on a slot with `freed` more, beyond those that fit now."""
        need, most = self.need, self.most
        if need.gpu_milli:
            most = min(most, (self._gpu[slot] + freed.gpu_milli) // need.gpu_milli)
        if need.cpu_milli:
            most = min(most, (self._cpu[slot] + freed.cpu_milli) // need.cpu_milli)
        if need.memory_bytes:
            most = min(most, (self._memory[slot] + freed.memory_bytes) // need.memory_bytes)
        return most - self.cap[slot]


class CapacityBound:
    """The bound for one workload's jobs in one region. Raises RuleFailed."""

    def __init__(self, pools: PoolSet, capacity: Capacity, jobs: Sequence[JobSpec], asker: Asker) -> None:
        self.pools, self.capacity = pools, capacity
        self.targets: list[tuple[int, list[Target]]] = []
        """The number of tasks of each job, and the targets that might hold all of them."""
        self._wheres: list[Where] = []
        """Clusters by job."""
        self.wanted: list[tuple[int, int]] = []
        """GPU milli that each job needs, and GPU milli free in the job's clusters."""
        where: set[tuple[str, int]] = set()
        for job in jobs:
            request = request_of(job, asker)
            mine = pools.pools_for(request)
            self.targets.append(
                (job.tasks, [Target(pool, one) for pool in mine for one in pool.by_type(request)])
            )
            here = {(pool.name, number) for pool in mine for number in pool.clusters_for(request)}
            free = sum(pools.by_name[name].table.clusters.free[number] for name, number in here)
            self.wanted.append((job.need.gpu_milli * job.tasks, free))
            self._wheres.append(frozenset(here))
            where |= here
        self.where: Where = frozenset(where)
        """Clusters of all jobs."""

    def is_in_vain(self, gpu_milli: int) -> bool:
        """Return whether some job could not fit even if so many GPU milli were freed."""
        return any(wanted > free + gpu_milli for wanted, free in self.wanted)

    def wheres(self) -> list[Where]:
        """Return the clusters to search for victims, to be tried in order: of jobs that do not fit even alone, then of all jobs."""
        lacking: Where = frozenset().union(
            *(
                where
                for where, (tasks, targets) in zip(self._wheres, self.targets, strict=True)
                if all(target.tasks < tasks for target in targets)
            )
        )
        return [where for where in (lacking, self.where) if where] if lacking != self.where else [lacking]

    def tally(self) -> "Tally":
        """Return a tally of the present capacity, before any attempt has ended."""
        for _, targets in self.targets:
            for target in targets:
                target.look()
        return Tally(self)


class Tally:
    """Tasks that could fit once the added attempts have ended, by job and target."""

    def __init__(self, bound: CapacityBound) -> None:
        self._bound = bound
        self._freed: dict[int, Amount] = {}
        self._fits = [[target.tasks for target in targets] for _, targets in bound.targets]
        self._gained: dict[tuple[int, int, int], int] = {}
        """Further tasks by job, target and node."""
        by_pool: dict[str, tuple[PoolIndex, list[tuple[int, int, Target]]]] = {}
        for position, (_, targets) in enumerate(bound.targets):
            for number, target in enumerate(targets):
                mine = by_pool.setdefault(target.pool.name, (target.pool, []))
                mine[1].append((position, number, target))
        self._by_pool = list(by_pool.values())

    def add(self, held: Holding) -> None:
        """Count one more attempt as ended."""
        bound, freed = self._bound, self._freed
        touched: dict[int, None] = {}
        for job, spread in zip(held.claim.jobs, held.claim.spreads, strict=True):
            for node, count in zip(spread.nodes, spread.tasks, strict=True):
                if bound.capacity.is_open(node):
                    amount = job.need if count == 1 else job.need.times(count)
                    freed[node] = freed[node].plus(amount) if node in freed else amount
                    touched[node] = None
        for node in touched:
            self._count(node, freed[node])

    def _count(self, node: int, freed: Amount) -> None:
        for pool, targets in self._by_pool:
            layout = pool.layout
            slot = layout.slot(node)
            if slot == NO_NODE:
                continue
            cluster = layout.cluster_of_pod[slot // layout.pod_slots]
            for position, number, target in targets:
                if cluster in target.clusters:
                    key = (position, number, node)
                    gained = target.gained(slot, freed)
                    self._fits[position][number] += gained - self._gained.get(key, 0)
                    self._gained[key] = gained
            return

    @property
    def could_fit(self) -> bool:
        """True if every job has a target that could hold all its tasks."""
        return all(
            max(fits, default=0) >= tasks
            for fits, (tasks, _) in zip(self._fits, self._bound.targets, strict=True)
        )
