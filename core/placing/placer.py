"""An agent's index of its region: every pool's arrays, kept equal to the image and to what the agent knows beside it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from core.images.capacity import Capacity
from core.images.maintenance import Maintenance
from core.nouns.fleet import NodeGroup
from core.nouns.ids import AttemptKey
from core.nouns.placement import Spread, numbers_in
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.classes import Plan
from core.placing.layout import Layout
from core.placing.overlay import Overlay
from core.placing.picking import Choice
from core.placing.pool_set import Asker, JobFound, PoolSet, unwatched
from core.placing.pools import PoolIndex
from core.placing.victims import Victim, find_with_victims
from core.rules.placement.rule import Numbers


class Found(Struct, frozen=True):
    """Where a workload could go."""

    spreads: tuple[Spread, ...]
    """One for each job."""
    victims: tuple[Victim, ...] = ()
    """Who would have to end first."""

    @property
    def victim_keys(self) -> tuple[AttemptKey, ...]:
        """The same by their names."""
        return tuple((workload, epoch) for workload, epoch, _ in self.victims)


class Placer:
    """Searches a region."""

    def __init__(
        self,
        capacity: Capacity,
        overlay: Overlay,
        plan_of: Callable[[str], Plan],
        maintenance: Maintenance | None = None,
    ) -> None:
        self._capacity = capacity
        self._maintenance = maintenance or Maintenance()
        self.overlay = overlay
        self._plan_of = plan_of
        self.pools = PoolSet({})
        self._dirty: set[int] = set()
        self._worked_on: set[int] = set()
        self._has_new_plans = False
        self._is_laid_out = False

    # What changed.

    def touch(self, nodes: Iterable[int], *, joined: bool = False) -> None:
        """These nodes changed in the image or in the overlay; or new ones joined."""
        self._dirty.update(nodes)
        if joined:
            self._is_laid_out = False

    def put_rows(self, rows: Numbers) -> None:
        """Take rows as told beside the facts (core/rows.py) for what a refresh would work out of the image."""
        if not self._is_laid_out:
            return
        for node, gpu, cpu, memory, is_open in rows.tolist():
            if self.overlay.knows(node):
                continue  # It is not as the log shows it.
            place = self.pools.place_of(node)
            if place is not None:
                place[0].table.set(place[1], gpu, cpu, memory, is_open=bool(is_open))
                self._dirty.discard(node)

    def touch_plans(self) -> None:
        """Work on nodes was planned, or takes place, or does not."""
        self._has_new_plans = True

    def forget(self) -> None:
        """Everything is worked out anew."""
        self._is_laid_out = False

    def refresh(self) -> None:
        """Bring the tables up to date."""
        if not self._is_laid_out:
            self._lay_out()
        for node in sorted(self._dirty):
            place = self.pools.place_of(node)
            if place is not None:
                place[0].put(place[1], self.overlay.row(self._capacity, node))
        self._dirty.clear()
        if self._has_new_plans:
            self._look_at_plans()

    def _lay_out(self) -> None:
        by_pool: dict[str, list[NodeGroup]] = {}
        for row in self._capacity.workers.values():
            for group in row.inventory.groups:
                by_pool.setdefault(group.pool, []).append(group)
        pools = {}
        for name, groups in sorted(by_pool.items()):
            pool = pools[name] = PoolIndex(name, Layout(groups), self._plan_of(name))
            pool.fill(self._capacity, self.overlay)
        self.pools = PoolSet(pools)
        self._is_laid_out = True
        self._dirty.clear()
        self._worked_on = set()
        self._look_at_plans()

    def _look_at_plans(self) -> None:
        """Where work is planned. Once notice of it was given the node is closed."""
        nodes = {node for row in self._maintenance.rows.values() for node in numbers_in(row.nodes)}
        for node in sorted(nodes ^ self._worked_on):
            place = self.pools.place_of(node)
            if place is not None:
                place[0].table.set_upkeep(place[1], int(node in nodes))
        self._worked_on = nodes
        self._has_new_plans = False

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
        """Places for all tasks of all jobs in what is free; else over whom it could go; or why there are none.

        without   keys of the overlay: what they take counts as available
        watch     is told of each job's place; of those told for one job, the last counts
        """
        keys = tuple(without)
        if not keys:
            self.refresh()
            return self._find(self.pools, jobs, asker, choice, watch)
        with self.as_if(keys) as pools:
            return self._find(pools, jobs, asker, choice, watch)

    def _find(
        self,
        pools: PoolSet,
        jobs: Sequence[JobSpec],
        asker: Asker,
        choice: Choice,
        watch: Callable[[JobFound], None],
    ) -> Found | Reason:
        spreads = pools.find(jobs, asker, choice, watch=watch)
        if not isinstance(spreads, Reason):
            return Found(spreads)
        if spreads is Reason.NO_SUCH_HARDWARE:
            return spreads
        over = find_with_victims(pools, self._capacity, jobs, asker, choice, watch)
        return over if isinstance(over, Reason) else Found(*over)

    @contextmanager
    def as_if(self, without: Iterable[object]) -> Iterator[PoolSet]:
        """The pools as they would be if these keys of the overlay took nothing; afterwards they are as they were."""
        self.refresh()
        keys = tuple(without)
        with self.pools.trial() as trial:
            for node in {node for key in keys for node, _ in self.overlay.taken_by(key)}:
                trial.put(self.overlay.row(self._capacity, node, keys))
            yield self.pools
