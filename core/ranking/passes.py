"""The order as the paper keeps it: worked out in passes, and as it was at the newest one until the next.

source    MAST §4.2, §5.4: a pass over all that waits, every five minutes; what comes meanwhile waits for the next
"""

from collections.abc import Callable, Iterator
from itertools import islice

from core.nouns.ids import WorkloadId
from core.ranking.incremental import Done, RankedQueue
from core.ranking.scan import LOWEST, Group, PendingWork, QuotaClass, Ranked


class PassedQueue(RankedQueue):
    """Everything that waits; in order what waited at the newest pass."""

    _passed: dict[WorkloadId, Ranked] = {}

    def begin_pass(self) -> None:
        """Work the order out anew."""
        self._passed = {one.work.workload: one for one in super().ranked()}

    def take_touched(self) -> set[Group] | None:
        """How all stand is told by the newest pass, and whether they still wait by what was added since."""
        return None

    def ranked(self) -> Iterator[Ranked]:
        """Those of the newest pass that wait still, as they were added."""
        return (one for name, one in self._passed.items() if name in self and self.work(name) == one.work)

    def first(
        self,
        count: int,
        is_wanted: Callable[[Group, PendingWork], bool] | None = None,
        is_free: Callable[[Ranked], bool] | None = None,
        done: Done = (),
    ) -> list[Ranked]:
        """The first so many of those. Costs one step for each."""
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

    def one(self, workload: WorkloadId) -> Ranked:
        """How it stood at the newest pass; whoever came since is held until the next."""
        work, found = self.work(workload), self._passed.get(workload)
        return (
            found if found is not None and found.work == work else Ranked(work, LOWEST, QuotaClass.BLOCKED, 0)
        )

    def rank(self, workload: WorkloadId) -> int:
        """How many of those stand ahead of it."""
        names = [one.work.workload for one in self.ranked()]
        return names.index(workload) if workload in names else len(names)

    def ahead_of(self, workload: WorkloadId, count: int) -> list[Ranked]:
        """The nearest so many of those that stand ahead of it, the first of them first."""
        rank = self.rank(workload)
        return list(islice(self.ranked(), max(0, rank - count), rank))

    def pass_over(self, workload: WorkloadId) -> None:
        """Until the next pass it is left out: its tenant's quota is another than at this one."""
        self._passed.pop(workload, None)

    def is_passed(self, workload: WorkloadId) -> bool:
        """Whether it waited, as it is, at the newest pass."""
        found = self._passed.get(workload)
        return found is not None and found.work == self.work(workload)


def _once(wanted: dict[Group, bool], one: Ranked, is_wanted: Callable[[Group, PendingWork], bool]) -> bool:
    """Asked once a group."""
    if one.group not in wanted:
        wanted[one.group] = is_wanted(one.group, one.work)
    return wanted[one.group]
