"""The order as the paper keeps it: as it was at the newest pass."""

from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.ranking import CreditSettings
from core.ranking.passes import PassedQueue
from core.ranking.scan import Group, PendingWork, QuotaClass, TenantState

A, B = TenantName("a"), TenantName("b")


def work(number: int, tenant: TenantName = A) -> PendingWork:
    """One GPU."""
    need = {"H100": 1}
    return PendingWork(WorkloadId(f"w-{number}"), tenant, number, Instant(number), (need,), shape="one")


def a_queue(*tenants: TenantName) -> PassedQueue:
    """Of tenants that are entitled to two each."""
    queue = PassedQueue(CreditSettings(age_weight=1, share_weight=100), Instant(50))
    for name in tenants:
        queue.set_tenant(name, TenantState(level=3, entitled={"H100": 2}))
    return queue


def names(queue: PassedQueue) -> list[str]:
    """In order."""
    return [one.work.workload for one in queue.ranked()]


def test_new_work_waits_for_the_next_pass() -> None:
    """M9: a pass covers all work that waits then; until the next none comes in, and dropped work is gone at once."""
    queue = a_queue(A)
    queue.add(work(1))
    assert ([], False) == (names(queue), queue.is_passed(WorkloadId("w-1")))
    assert QuotaClass.BLOCKED == queue.one(WorkloadId("w-1")).quota_class
    queue.begin_pass()
    queue.add(work(2))
    assert (["w-1"], 0, 1) == (names(queue), queue.rank(WorkloadId("w-1")), queue.rank(WorkloadId("w-2")))
    queue.drop(WorkloadId("w-1"))
    assert [] == names(queue)
    queue.begin_pass()
    assert ["w-2"] == names(queue)


def test_changes_count_from_the_next_pass_on() -> None:
    """M9, M10: another's use changes the order, and freed quota lifts waiting work, at the next pass and not before."""
    queue = a_queue(A, B)
    for one in (work(1), work(2), work(3), work(4, B)):
        queue.add(one)
    queue.begin_pass()
    assert ["w-1", "w-2", "w-4", "w-3"] == names(queue)
    assert QuotaClass.BORROWING == queue.one(WorkloadId("w-3")).quota_class
    queue.set_tenant(A, TenantState(level=3, entitled={"H100": 3}, use=90))
    queue.set_tenant(B, TenantState(level=3, entitled={"H100": 2}, use=10))
    assert ["w-1", "w-2", "w-4", "w-3"] == names(queue)
    queue.begin_pass()
    assert ["w-4", "w-1", "w-2", "w-3"] == names(queue)
    assert QuotaClass.NOMINAL == queue.one(WorkloadId("w-3")).quota_class


def test_it_is_asked_for_by_group() -> None:
    """The first that is wanted, asked once a group, and those ahead of one."""
    queue = a_queue(A)
    for number in range(1, 5):
        queue.add(work(number))
    queue.begin_pass()
    asked: list[int] = []

    def is_wanted(group: Group, example: PendingWork) -> bool:
        asked.append(example.number)
        return group[0][1] is QuotaClass.BORROWING

    found = queue.first(2, is_wanted, lambda one: one.work.number != 3)
    assert ["w-4"] == [one.work.workload for one in found]
    assert [1, 3] == asked
    assert ["w-2", "w-3"] == [one.work.workload for one in queue.ahead_of(WorkloadId("w-4"), 2)]
