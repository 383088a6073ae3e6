"""The data service: does what the queue's log orders of its region, once in a life, and reports until the log shows it."""

from collections.abc import Callable
from typing import Any

from components.data_service import DataService
from core.effects import CopyData, DropData, ForgetCopy, HashData
from core.events.copies import (
    CopyFailed,
    CopyMade,
    CopyOrdered,
    DatasetHashed,
    DropCleared,
    DropMade,
    DropOrdered,
)
from core.events.data import DatasetSet
from core.messages.copies import CopyChanged, DataDropped, DataHashed, ReportCopy, ReportDrop, ReportHash
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import Nanoseconds
from core.nouns.limits import COMMAND_SAY_AGAIN
from tests.builders import EU, US
from tests.components.support.data import CLICKS, GB, HASH, USERS
from tests.components.support.machine import Machine
from tests.matching import begun, said

Start = Callable[..., Machine[Any]]
ORDER = CopyOrdered(1, CLICKS, EU, US, GB, 1_000, HASH)
TWICE = Nanoseconds(2 * COMMAND_SAY_AGAIN)
UNHASHED = CopyOrdered(1, CLICKS, EU, US, GB, 1_000)


def a_service(start: Start, *events: Any, region: Any = US) -> Machine[Any]:
    """One that follows the queue's log from its beginning."""
    machine = start(DataService(region))
    if events:
        machine.fact(GLOBAL_LOG, *events)
    return machine


def test_copy_to_its_region_is_begun_once_its_hash_is_known(start: Start) -> None:
    """Not before, and not again in this life; copies to other regions are not its own."""
    service = a_service(start, UNHASHED, CopyOrdered(2, USERS, US, EU, GB, 1_000, HASH))
    assert [] == begun(service.wake(), CopyData)
    service.fact(GLOBAL_LOG, DatasetHashed(CLICKS, 1, EU, HASH, GB))
    assert [CopyData(1, CLICKS, EU, GB, 1_000, HASH)] == begun(service.wake(), CopyData)
    service.fact(GLOBAL_LOG, CopyOrdered(3, USERS, EU, US, GB, 5, HASH))
    assert [3] == [one.copy for one in begun(service.wake(), CopyData)]


def test_source_tells_the_hash(start: Start) -> None:
    """Until the log shows it."""
    service = a_service(start, UNHASHED, region=EU)
    assert [HashData(1, CLICKS, GB)] == begun(service.wake(), HashData)
    report = ReportHash(EU, 1, CLICKS, HASH, GB)
    assert [report] == said(service.hear(DataHashed(1, CLICKS, HASH, GB)), ReportHash)
    assert [report] == said(service.wait(COMMAND_SAY_AGAIN), ReportHash)
    service.fact(GLOBAL_LOG, DatasetHashed(CLICKS, 1, EU, HASH, GB))
    assert [] == said(service.wait(COMMAND_SAY_AGAIN), ReportHash)


def test_end_is_reported_until_the_log_shows_it(start: Start) -> None:
    """How far it is, is said once."""
    service = a_service(start, ORDER)
    service.wake()
    assert [ReportCopy(US, 1, 500)] == said(service.hear(CopyChanged(1, 500)), ReportCopy)
    assert [] == said(service.wait(COMMAND_SAY_AGAIN), ReportCopy)
    report = ReportCopy(US, 1, GB, is_over=True)
    assert [report] == said(service.hear(CopyChanged(1, GB, is_over=True)), ReportCopy)
    assert [report] * 2 == said(service.wait(TWICE), ReportCopy)
    service.fact(GLOBAL_LOG, CopyMade(1, CLICKS, US, 2))
    assert [] == said(service.wait(TWICE), ReportCopy)
    assert service.component.due(service.state) is None


def test_order_that_stands_no_more_is_forgotten(start: Start) -> None:
    """The doer ends the copy, and deletes what there is of it; after a copy that was made too, when nothing is left to delete."""
    service = a_service(start, ORDER)
    service.wake()
    service.fact(GLOBAL_LOG, DatasetSet(CLICKS, 2, ()))
    assert [ForgetCopy(1)] == begun(service.wake(), ForgetCopy)
    assert [] == said(service.hear(CopyChanged(1, GB, is_over=True)), ReportCopy)


def test_failed_copy_is_forgotten_and_another_order_begins_anew(start: Start) -> None:
    """Each order has a number of its own."""
    service = a_service(start, ORDER)
    service.wake()
    service.hear(CopyChanged(1, 7, is_over=True, reason="hash_differs"))
    again = CopyOrdered(2, CLICKS, EU, US, GB, 1_000, HASH)
    service.fact(GLOBAL_LOG, CopyFailed(1, CLICKS, US, "hash_differs", 7), again)
    decided = service.wake()
    assert [2] == [one.copy for one in begun(decided, CopyData)]
    assert [ForgetCopy(1)] == begun(decided, ForgetCopy)


def test_copy_is_deleted_only_when_no_attempt_reads_it(start: Start) -> None:
    """And that is reported until the log shows it; the next deletion of the dataset is another."""
    service = a_service(start, DropOrdered(CLICKS, 2, US))
    assert [] == begun(service.wake(), DropData)
    for _ in range(2):
        service.fact(GLOBAL_LOG, DropCleared(CLICKS, US))
        assert [DropData(CLICKS)] == begun(service.wake(), DropData)
        assert [ReportDrop(US, CLICKS)] == said(service.hear(DataDropped(CLICKS)), ReportDrop)
        assert [ReportDrop(US, CLICKS)] == said(service.wait(COMMAND_SAY_AGAIN), ReportDrop)
        service.fact(GLOBAL_LOG, DropMade(CLICKS, US))
        assert [] == said(service.wait(COMMAND_SAY_AGAIN), ReportDrop)
        service.fact(GLOBAL_LOG, DropOrdered(CLICKS, 4, US))


def test_service_that_starts_again_asks_for_all_that_is_ordered(start: Start) -> None:
    """The doer goes on with what is there."""
    service = a_service(start, ORDER, CopyOrdered(2, USERS, US, EU, GB, 1), DropCleared(USERS, US))
    service.wake()
    again = service.restart().wake()
    assert [1] == [one.copy for one in begun(again, CopyData)]
    assert [2] == [one.copy for one in begun(again, HashData)]
    assert [DropData(USERS)] == begun(again, DropData)
