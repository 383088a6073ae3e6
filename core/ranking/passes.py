"""The order as in the paper: computed in passes, and kept from the newest pass until the next.

source    MAST §4.2, §5.4: a pass over all pending workloads, every five minutes; later workloads wait for the next pass
"""

from collections.abc import Callable, Iterator
from itertools import islice

from core.nouns.ids import WorkloadId
from core.ranking.incremental import Done, RankedQueue
from core.ranking.scan import LOWEST, Group, PendingWork, QuotaClass, Ranked


class PassedQueue(RankedQueue):
    """All pending workloads; the order contains those that waited at the newest pass."""

    _passed: dict[WorkloadId, Ranked] = {}

    def begin_pass(self) -> None:
        """Compute the order for this pass, and keep that order until the next."""
        self._passed = {one.work.workload: one for one in super().ranked()}

    def ranked(self) -> Iterator[Ranked]:
        """Return the workloads of the newest pass, in order, that still wait unchanged."""
        return (one for name, one in self._passed.items() if name in self and self.work(name) == one.work)

    def first(
        self,
        count: int,
        is_wanted: Callable[[Group, PendingWork], bool] | None = None,
        is_free: Callable[[Ranked], bool] | None = None,
        done: Done = (),
    ) -> list[Ranked]:
        """Return the first `count` workloads of that order which are wanted and free. Costs one step for each workload read."""
        wanted: dict[Group, bool] = {}
        found = (
            one
            for one in self.ranked()
            if one.group not in done
            and (one.group, one.work.tenant) not in done
            and (is_wanted is None or _once(wanted, one, is_wanted))
            and (is_free is None or is_free(one))
        )
        return list(islice(found, count))

    def groups(self, start: int, count: int) -> list[tuple[Group, PendingWork]]:
        """Return some groups of that order, as `RankedQueue` does. Costs one step for each workload of the order."""
        every: dict[Group, PendingWork] = {}
        for one in self.ranked():
            every.setdefault(one.group, one.work)
        return sorted(every.items())[start : start + count]

    def count_of(self, group: Group) -> int:
        """Return how many workloads a group has. Costs as much as `groups`."""
        return sum(one.group == group for one in self.ranked())

    def one(self, workload: WorkloadId) -> Ranked:
        """Return the workload as ranked at the newest pass; a workload that came or changed since is blocked until the next."""
        work, found = self.work(workload), self._passed.get(workload)
        return (
            found if found is not None and found.work == work else Ranked(work, LOWEST, QuotaClass.BLOCKED, 0)
        )

    def rank(self, workload: WorkloadId) -> int:
        """Return the number of workloads ahead: all of the order, for a workload that is not part of the order."""
        names = [one.work.workload for one in self.ranked()]
        return names.index(workload) if workload in names else len(names)

    def ahead_of(self, workload: WorkloadId, count: int) -> list[Ranked]:
        """Return the nearest `count` workloads ahead, the foremost first."""
        rank = self.rank(workload)
        return list(islice(self.ranked(), max(0, rank - count), rank))

    def pass_over(self, workload: WorkloadId) -> None:
        """Leave a workload out of the order until the next pass, because the tenant's quota has changed since the newest one."""
        self._passed.pop(workload, None)

    def is_passed(self, workload: WorkloadId) -> bool:
        """Return whether the workload waited at the newest pass, with the same properties as now."""
        found = self._passed.get(workload)
        return found is not None and found.work == self.work(workload)


def _once(wanted: dict[Group, bool], one: Ranked, is_wanted: Callable[[Group, PendingWork], bool]) -> bool:
    """Return whether a workload's group is wanted; `is_wanted` is called once per group."""
    if one.group not in wanted:
        wanted[one.group] = is_wanted(one.group, one.work)
    return wanted[one.group]
