"""The workloads of one cycle, and the regions that each is asked for in.

The order is walked from its head, by groups (level, quota class and shape) of which at least one region has not refused the shape. Of
a contended shape, one that was refused since its last award, at most `window[shape]` workloads are chosen: 1 after a refusal, doubled
by each award (slow start), because regions that refuse one workload refuse the next one of its shape as well.

A workload is not asked for in a region in which a workload ahead of it was left out, wants no more GPUs, and could use the same node
types of the same pool: otherwise an award could pass the one ahead.
"""

from components.job_queue.moves import regions_for
from components.job_queue.ordering import asked_for, lending_now, may_be_lent, quota_held_from
from components.job_queue.quota.drain import where_asked
from components.job_queue.reservations import StartPromising
from components.job_queue.state.asked_shape import AskedShape
from components.job_queue.state.auctions import kinds_of, overlap
from components.job_queue.state.queue_state import QueueState
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.limits import AUCTIONS_MAX
from core.nouns.placement import gpu_milli_of
from core.nouns.workload import Kind
from core.ranking.incremental import Line
from core.ranking.scan import Group, PendingWork, QuotaClass, Ranked
from core.rules.quota import Amounts

PROMISING = StartPromising()
"""Decides for which workloads abstaining regions report an earliest start."""

Regions = tuple[RegionName, ...]


class Selection:
    """Chooses the workloads of a cycle, and the regions of each."""

    def __init__(self, state: QueueState, now: Instant) -> None:
        self._state, self._now = state, now
        self._lending = lending_now(state)
        self._askable: dict[Group, tuple[AskedShape, Regions]] = {}
        """The request of each group, and the regions that have not refused its shape."""
        self._held: dict[Group, Amounts] = {}
        """GPU milli by type held from the first workload of a group; only groups with alternative types."""
        self._regions: dict[WorkloadId, Regions] = {}
        self._chosen: dict[AskedShape, int] = {}
        """Number of chosen workloads by the shape of the request."""
        self._left_out: dict[tuple[RegionName, bool], dict[frozenset[str], int]] = {}
        """The fewest GPU milli wanted by a workload that was left out: by region, whether it is for a shared pool, and node types."""
        self._done: set[Group | Line] = set()
        """Groups, and tenants' lines in them, of which no further workload is visited."""
        self.blocked: list[WorkloadId] = []
        """First workloads of tenants' lines that only refusals of smaller requests block."""

    def choose(self) -> list[Ranked]:
        """Return the workloads of the cycle, in rank order."""
        return self._state.order.first(AUCTIONS_MAX, self._is_wanted, self._is_next, self._done)

    def asked_of(self, one: Ranked) -> tuple[AskedShape, Regions]:
        """Return the request for a chosen workload, and the regions that receive the request."""
        return self._askable[one.group][0], self._regions[one.work.workload]

    def _is_wanted(self, group: Group, example: PendingWork) -> bool:
        """Return whether some region has not refused the shape of a group, and quota or lending may allow an award."""
        state, (level, quota_class) = self._state, group[0]
        if quota_class is QuotaClass.BLOCKED:
            return False
        is_borrowing = quota_class is QuotaClass.BORROWING
        if is_borrowing and not any(self._lending.could_cover(need) for need in example.needs):
            return False
        if quota_class is QuotaClass.NOMINAL and len(example.needs) > 1:
            self._held[group] = quota_held_from(state, example, -level)
        asked = asked_for(state, example, -level, quota_class)
        row = state.image.workloads.rows[example.workload]
        willing = state.auctions.willing(asked, lambda: regions_for(state, row, asked.level, self._now))
        self._askable[group] = asked, willing
        return bool(willing)

    def _is_next(self, one: Ranked) -> bool:
        """Return whether to choose a workload. Workloads of a group are visited in rank order."""
        state, auctions, group = self._state, self._state.auctions, one.group
        line = group, one.work.tenant
        asked, willing = self._askable[group]
        where = where_asked(state, one, willing)
        if not where:
            self._done.add(line)
            return False
        if one.quota_class is QuotaClass.BORROWING and not may_be_lent(state, one.work, self._lending):
            self._done.add(line)
            return False
        where = self._not_refused(one, where)
        if not where:
            return False
        where = tuple(region for region in where if region not in auctions.slow)
        # The request of a group is that of its first workload: if others are held to other types, they wait for their turn.
        is_another = group in self._held and self._held[group] != quota_held_from(state, one.work, one.level)
        is_full = self._chosen.get(asked, 0) >= auctions.window.get(asked, AUCTIONS_MAX)
        free = () if is_another or is_full else self._where_free(one, where)
        self._leave_out(one, tuple(region for region in where if region not in free))
        if not free:
            # The same goes for the tenant's other workloads of the group.
            self._done.add(line)
            return False
        self._regions[one.work.workload] = free
        self._chosen[asked] = self._chosen.get(asked, 0) + 1
        return True

    def _not_refused(self, one: Ranked, where: Regions) -> Regions:
        """Return the regions that have not refused a smaller request either.

        If none is left, none is left for the tenant's later workloads of the group, and the first of them is found blocked.
        """
        state, workload, shape = self._state, one.work.workload, self._askable[one.group][0]
        left = PROMISING.worth_asking(state, workload, shape, where)
        if not left:
            self._done.add((one.group, one.work.tenant))
            if PROMISING.is_newly_blocked(state, workload, shape):
                self.blocked.append(workload)
        return left

    def _leave_out(self, one: Ranked, regions: Regions) -> None:
        """Record that a workload is not asked for in regions that could hold it."""
        wants, kinds = self._wants(one)
        is_shared = self._is_shared(one)
        for region in regions if wants else ():
            known = self._left_out.setdefault((region, is_shared), {})
            known[kinds] = min(wants, known.get(kinds, wants))

    def _where_free(self, one: Ranked, where: Regions) -> Regions:
        """Return the regions in which no workload ahead was left out that wants no more and could use the same node types."""
        wants, kinds = self._wants(one)
        is_shared = self._is_shared(one)
        return tuple(
            region
            for region in where
            if not any(
                least <= wants and overlap(kinds, theirs)
                for theirs, least in self._left_out.get((region, is_shared), {}).items()
            )
        )

    def _is_shared(self, one: Ranked) -> bool:
        return self._state.image.workloads.rows[one.work.workload].spec.kind is Kind.SHARED

    def _wants(self, one: Ranked) -> tuple[int, frozenset[str]]:
        jobs = self._state.image.workloads.rows[one.work.workload].spec.jobs
        return gpu_milli_of(jobs), kinds_of(jobs)
