"""An agent's index of its region: every pool's arrays, kept equal to the image and to the agent's overlay."""

from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from core.images import RegionImage
from core.images.agents import Agents
from core.images.capacity import Capacity
from core.images.maintenance import Maintenance
from core.images.preemption import Preemption
from core.images.reservations import Starts
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import Instant
from core.nouns.placement import Spread, numbers_in
from core.nouns.pool import UNSET, PoolSettings
from core.nouns.reasons import Reason
from core.nouns.starts import EarliestStart
from core.nouns.workload import JobSpec
from core.placing.earliest_start import prospect_of
from core.placing.index.layout import layouts_of
from core.placing.index.overlay import Overlay
from core.placing.index.owners import Entries, Owners
from core.placing.index.pool_partitions import PoolPartitions
from core.placing.partition_search import InPartition, Knowledge, find_in_partition
from core.placing.partitions import Partitions
from core.placing.pick.nodes import Choice
from core.placing.pick.pool_limits import Bounds
from core.placing.pool import PoolIndex
from core.placing.pool_set import Asker, JobFound, PoolSet, unwatched
from core.placing.preemption.victim_index import Victim, VictimIndex
from core.placing.preemption.victims import find_with_victims
from core.rows import Row
from core.rules.placement.errors import RuleFailed
from core.rules.placement.plan import Plan
from core.rules.placement.rule_sets import rule_set

SECTIONS = ("agents", "capacity", "maintenance", "pools", "preemption", "prices", "starts")
"""Sections of a region's image that the placer reads."""
ROWS_WAITING_MAX = 2_048
"""So many rows take some 30 ms to put: no request waits longer for them."""


class Found(Struct, frozen=True):
    """A place for all jobs of a workload."""

    spreads: tuple[Spread, ...]
    """One spread for each job."""
    victims: tuple[Victim, ...] = ()
    """Attempts that must end first."""
    is_as_reserved: bool = False
    """True if the place is the workload's reservation and was not searched for."""

    @property
    def victim_keys(self) -> tuple[AttemptKey, ...]:
        """Return the keys of the victims."""
        return tuple((workload, epoch) for workload, epoch, _ in self.victims)


class Placer:
    """The index of a region, and its searches."""

    def __init__(
        self,
        capacity: Capacity,
        overlay: Overlay,
        plan_of: Callable[[str], Plan],
        maintenance: Maintenance | None = None,
        settings_of: Callable[[str], PoolSettings] = lambda _: UNSET,
        owners: Owners | None = None,
        starts: Starts | None = None,
        preemption: Preemption | None = None,
        agents: Agents | None = None,
    ) -> None:
        """
        plan_of, settings_of   plan and settings of a pool, by name; called again after `touch_pool`
        owners                 owners of nodes; None: as in the image
        """
        self._capacity = capacity
        self._maintenance = maintenance or Maintenance()
        self.starts = starts or Starts()
        self.preemption = preemption or Preemption()
        self.agents = agents or Agents()
        self._partitions = Partitions({}, 1)
        self.overlay = overlay
        self._plan_of = plan_of
        self._settings_of = settings_of
        self.pools = PoolSet({})
        self.owners = Owners.of(capacity) if owners is None else owners
        """Owners of nodes. Owners of capacity that the overlay takes are here too, under the overlay's keys."""
        self.victims = VictimIndex(capacity, self.preemption)
        """Possible victims, in preemption order."""
        self._knows_owners = False
        """True once the tables have owners: from the first search to which owners matter."""
        self._dirty: set[int] = set()
        self._rows: dict[int, Row] = {}
        """Rows that wait to be put into the tables, by node. A node that changed since is also in `_dirty`."""
        self._reset_pools: set[str] = set()
        self._worked_on: set[int] = set()
        self._has_new_plans = False
        self._kept: dict[int, int] = {}
        """Sequences of reservations by node, as in the tables."""
        self._has_new_starts = False
        self._is_laid_out = False

    @classmethod
    def of(
        cls,
        image: RegionImage,
        overlay: Overlay,
        plan_of: Callable[[str], Plan] | None = None,
        owners: Owners | None = None,
    ) -> "Placer":
        """Return the placer of a region, by the pools' own rules or by `plan_of`. The image has the sections `SECTIONS`."""
        pools, known = image.pools, image.prices
        plan_of = plan_of or (lambda pool: rule_set(pools.of(pool).rules, known.prices))
        return cls(
            image.capacity,
            overlay,
            plan_of,
            image.maintenance,
            pools.of,
            owners,
            image.starts,
            image.preemption,
            image.agents,
        )

    @property
    def partitions(self) -> Partitions:
        """Return the racks of all pools, by partition."""
        if not self._is_laid_out:
            self.refresh()
        return self._partitions

    # Changes.

    def touch(self, nodes: Iterable[int], *, joined: bool = False) -> None:
        """Record that these nodes changed in the image or in the overlay, or that new nodes joined."""
        self._dirty.update(nodes)
        if joined:
            self._is_laid_out = False

    def settle(self, workload: WorkloadId, epoch: int) -> None:
        """Record that an attempt's held or promised capacity changed in the image."""
        self._dirty.update(self.owners.settle(self._capacity, workload, epoch))

    def put_rows(self, rows: Iterable[Row]) -> None:
        """Put rows (core/rows.py) into the tables; they equal the rows that a refresh would compute from the image.

        They wait for the next refresh, or until many wait: an agent that is seldom asked puts a node's last row alone.
        """
        if not self._is_laid_out:
            return
        with_parts, overlay = self._capacity.devices.by_node, self.overlay
        for row in rows:
            node = row[0]
            if node in with_parts or overlay.knows(node):
                continue  # The overlay changes the node, or shared devices are missing in the packed row.
            self._rows[node] = row
            if not self._knows_owners:
                self._dirty.discard(node)
        if len(self._rows) > ROWS_WAITING_MAX:
            self._put_waiting_rows()

    def _put_waiting_rows(self) -> None:
        by_pool: dict[str, list[tuple[int, int, int, int, int]]] = {}
        for node, gpu, cpu, memory, is_open, _, _ in self._rows.values():
            place = self.pools.place_of(node)
            if place is not None:
                by_pool.setdefault(place[0].name, []).append((place[1], gpu, cpu, memory, is_open))
        for name, mine in by_pool.items():
            self.pools.by_name[name].table.set_many(mine)
        self._rows.clear()

    def touch_plans(self) -> None:
        """Record that planned work on nodes was added, moved on or dropped."""
        self._has_new_plans = True

    def touch_starts(self) -> None:
        """Record that a reservation began or ended."""
        self._has_new_starts = True

    def touch_pool(self, name: str) -> None:
        """Record that a pool's rules, reserve or limit changed."""
        self._reset_pools.add(name)

    def touch_prices(self) -> None:
        """Record new prices: pools with rules that read prices get new plans."""
        self._reset_pools.update(self.pools.by_name)

    def touch_agents(self) -> None:
        """Record that the number of partitions may have changed."""
        if self._is_laid_out:
            self._deal()

    def forget(self) -> None:
        """Discard all derived data; the next refresh rebuilds the tables from the image."""
        self.owners.settle_all(self._capacity)
        self.victims = VictimIndex(self._capacity, self.preemption)
        self._is_laid_out = False

    def refresh(self) -> None:
        """Bring the tables up to date."""
        if not self._is_laid_out:
            self._lay_out()
        if self._reset_pools:
            for name in sorted(self._reset_pools & self.pools.by_name.keys()):
                self._reset(name)
            self._reset_pools.clear()
        if self._rows:
            self._put_waiting_rows()
        for node in sorted(self._dirty) if self._dirty else ():
            place = self.pools.place_of(node)
            if place is not None:
                place[0].put(place[1], self.overlay.row(self._capacity, node))
                if self._knows_owners:
                    place[0].table.set_owner(place[1], self.owners.at(node))
        self._dirty.clear()
        if self._has_new_plans:
            self._look_at_plans()
        if self._has_new_starts:
            self._look_at_starts()

    def _lay_out(self) -> None:
        pools = {}
        for name, layout in layouts_of(self._capacity).items():
            pool = pools[name] = PoolIndex(name, layout, self._plan_of(name))
            pool.bounds = Bounds(pool.layout, self._settings_of(name))
            pool.fill(self._capacity, self.overlay)
        self.pools = PoolSet(pools)
        self._deal()
        self.victims = VictimIndex(self._capacity, self.preemption)
        self._is_laid_out = True
        self._rows.clear()
        self._dirty.clear()
        self._worked_on, self._kept = set(), {}
        self._look_at_plans()
        self._look_at_starts()
        if self._knows_owners:
            self._put_owners(self.owners.nodes())

    def _deal(self) -> None:
        """Deal the racks into partitions."""
        layouts = {name: pool.layout for name, pool in self.pools.by_name.items()}
        partitions = Partitions(layouts, self.agents.settings.partitions)
        for name, pool in self.pools.by_name.items():
            pool.picker.partitions = PoolPartitions(partitions.count, partitions.of_row[name])
        self._partitions = partitions

    def _reset(self, name: str) -> None:
        """Apply a pool's rules and settings again. Another rule set discards the pool's classes; reserve and limit are in no class."""
        pool, plan = self.pools.by_name[name], self._plan_of(name)
        if plan is not pool.plan:
            pool = pool.under(plan)
            self.pools = PoolSet({**self.pools.by_name, name: pool})
        pool.bounds = Bounds(pool.layout, self._settings_of(name))

    def _look_at_plans(self) -> None:
        """Update the column of planned work. From the notice on, the node is also closed."""
        nodes = {node for row in self._maintenance.rows.values() for node in numbers_in(row.nodes)}
        for node in sorted(nodes ^ self._worked_on):
            place = self.pools.place_of(node)
            if place is not None:
                place[0].table.set_upkeep(place[1], int(node in nodes))
        self._worked_on = nodes
        self._has_new_plans = False

    def _look_at_starts(self) -> None:
        """Update the column of reservations."""
        kept = {node: row.sequence for row in self.starts.rows.values() for node in row.nodes()}
        for node in sorted(self._kept.keys() | kept.keys()):
            place = self.pools.place_of(node)
            if place is not None:
                place[0].table.set_start(place[1], kept.get(node, 0))
        self._kept = kept
        self._has_new_starts = False

    def _put_owners(self, nodes: Iterable[int], without: Collection[Hashable] = ()) -> None:
        for node in nodes:
            place = self.pools.place_of(node)
            if place is not None:
                place[0].table.set_owner(place[1], self.owners.at(node, without))

    def refresh_classes(self, most: int) -> None:
        """Update each pool's most recently used classes, `most` at most, so that the next search need not wait."""
        self.refresh()
        self.victims.refresh(self.pools, is_asked=False)
        for pool in self.pools.by_name.values():
            pool.refresh_classes(most)

    # Searching.

    def find(
        self,
        jobs: Sequence[JobSpec],
        asker: Asker,
        choice: Choice,
        *,
        without: Iterable[object] = (),
        watch: Callable[[JobFound], None] = unwatched,
    ) -> Found | Reason:
        """Return a place for all tasks of all jobs in available capacity, else over victims, else the reason for no place.

        without   keys of the overlay left out: their capacity counts as available, and their victims may be chosen
        watch     called with each job's place; the last call for a job counts
        """
        keys = tuple(without)
        if not keys:
            self.refresh()
            self._look_at_owners(jobs)
            return self._find(self.pools, jobs, asker, choice, watch, self.overlay.victims())
        self._look_at_owners(jobs)
        with self.as_if(keys) as pools:
            return self._find(pools, jobs, asker, choice, watch, self.overlay.victims(keys))

    def find_in_partition(
        self, job: JobSpec, asker: Asker, choice: Choice, knowledge: Knowledge, without: Iterable[object] = ()
    ) -> InPartition | None:
        """Return a place for a job in one partition, or None; None also if a rule raises: a full agent tells which.

        without   as in `find`
        """
        keys = tuple(without)
        try:
            if not keys:
                self.refresh()
                return find_in_partition(self.pools, job, asker, choice, knowledge)
            with self.as_if(keys) as pools:
                return find_in_partition(pools, job, asker, choice, knowledge)
        except RuleFailed:
            return None

    def _find(
        self,
        pools: PoolSet,
        jobs: Sequence[JobSpec],
        asker: Asker,
        choice: Choice,
        watch: Callable[[JobFound], None],
        spared: Container[AttemptKey],
    ) -> Found | Reason:
        spreads = pools.find(jobs, asker, choice, watch=watch)
        if not isinstance(spreads, Reason):
            return Found(spreads)
        if spreads is not Reason.NO_CAPACITY or asker.spares_all:
            return spreads
        owners = self.owners if self._knows_owners else None
        try:
            over = find_with_victims(
                pools,
                self._capacity,
                jobs,
                asker,
                choice,
                owners,
                watch,
                self.victims,
                self.preemption,
                spared,
            )
        except RuleFailed:
            return Reason.RULE_FAILED
        return over if isinstance(over, Reason) else Found(*over)

    def _look_at_owners(self, jobs: Sequence[JobSpec]) -> None:
        """Put owners into the tables, from the first search to which owners matter."""
        if not self._knows_owners and self._is_of_matter(jobs):
            self.refresh()
            self.owners.know_all(self._capacity)
            self._knows_owners = True
            self._put_owners(self.owners.nodes())

    def _is_of_matter(self, jobs: Sequence[JobSpec]) -> bool:
        """Return whether the nodes that the jobs may use depend on owners."""
        return bool(self.owners.alone) or any(job.is_alone for job in jobs)

    def owners_beside(self, jobs: Sequence[JobSpec], without: Iterable[object] = ()) -> Entries:
        """Return the overlay's owners of nodes, some keys left out; empty if owners do not matter to the jobs."""
        if not self._is_of_matter(jobs):
            return ()
        keys, left_out = self.overlay.keys(), set(without)
        return self.owners.under(key for key in keys if key not in left_out)

    def prospect(self, jobs: Sequence[JobSpec], asker: Asker, choice: Choice, now: Instant) -> EarliestStart:
        """Return the earliest start that can be promised to all tasks of all jobs. Raises RuleFailed."""
        self.refresh()
        self._look_at_owners(jobs)
        owners = self.owners if self._knows_owners else None
        return prospect_of(self.pools, self._capacity, jobs, asker, choice, now, owners)

    @contextmanager
    def as_if(self, without: Iterable[object], jobs: Sequence[JobSpec] = ()) -> Iterator[PoolSet]:
        """Yield the pools as if these keys of the overlay took no capacity; the pools are restored at the end.

        jobs   jobs to search for, if owners of nodes may matter to them
        """
        self.refresh()
        self._look_at_owners(jobs)
        keys = tuple(without)
        with self.pools.trial() as trial:
            for node in sorted({node for key in keys for node, _ in self.overlay.taken_by(key)}):
                trial.put(self.overlay.row(self._capacity, node, keys))
            nodes = self.owners.nodes_of(keys) if self._knows_owners else []
            try:
                self._put_owners(nodes, keys)
                yield self.pools
            finally:
                self._put_owners(nodes)
