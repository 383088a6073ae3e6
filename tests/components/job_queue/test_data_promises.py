"""What the queue promises of copies when things go otherwise: regions that are given up, words of operators, failures, sets that move."""

# rows: M12, M33, M34

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from components.job_queue.component import JobQueue
from core.events.copies import CopyFailed, CopyMade, DropCleared, DropOrdered, HomeMoved
from core.events.data import DatasetSet, DataWaited
from core.messages.base import Refused
from core.messages.copies import ReportCopy
from core.messages.data import SetDataPolicy, SetDataset
from core.messages.regions import AbandonRegion, ReadmitRegion
from core.nouns.data import ActionKind, DataPolicy
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import COPY_LOOK, COPY_TRIES_MAX, COPY_TRY_AGAIN, WAITING_READS_INTERVAL
from core.nouns.workload import EndCause
from tests.builders import EU, US, a_job, a_spec
from tests.components.support.data import (
    CLICKS,
    GB,
    HASH,
    USERS,
    VIEWS,
    a_queue_with_data,
    cleared,
    copy,
    drop,
    events,
    failed,
    look,
    made,
    move,
    ordered,
    place,
    plan,
)
from tests.components.support.job_queue import awarded, ended, happens, running, submit
from tests.components.support.machine import Machine
from tests.matching import facts, said_once

Start = Callable[..., Machine[Any]]
DAY = seconds(86_400)


def test_whole_copy_in_an_abandoned_region_is_none(start: Start) -> None:
    """Neither is the home moved there, nor the other copy dropped, nor one deleted that was to be dropped before."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, US)
    queue.hear(AbandonRegion(US, 0, is_forced=True))
    plan(queue, move(CLICKS, EU, US))
    assert [] == events(queue.wait(COPY_LOOK), HomeMoved, DropOrdered, DropCleared)
    place(queue, CLICKS, US, EU)
    plan(queue, drop(CLICKS, EU))
    assert [] == events(queue.wait(COPY_LOOK), DropOrdered)
    queue.hear(ReadmitRegion(US, 1))
    assert events(queue.wait(COPY_LOOK), DropOrdered)


def test_deletion_waits_while_the_other_copy_is_in_an_abandoned_region(start: Start) -> None:
    """It was dropped while work read it there; that work ends when the other region is given up."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, US, EU)
    submit(queue, a_spec(data=[CLICKS], regions=[EU]))
    awarded(queue)
    running(queue)
    plan(queue, drop(CLICKS, EU))
    assert events(queue.wait(COPY_LOOK), DropOrdered)
    queue.hear(AbandonRegion(US, 0, is_forced=True))
    happens(queue, ended(EndCause.COMPLETED))
    assert [] == cleared(queue.wait(COPY_LOOK))
    queue.hear(ReadmitRegion(US, 1))
    assert [DropCleared(CLICKS, EU)] == cleared(queue.wait(COPY_LOOK))


def test_no_copy_replaces_files_that_work_reads(start: Start) -> None:
    """An operator says that a region no longer has the dataset; what runs there still reads its files."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, US)
    submit(queue, a_spec(data=[CLICKS], regions=[EU]))
    awarded(queue)
    running(queue)
    place(queue, CLICKS, US, size=2 * GB, hash_="0123")
    plan(queue, copy(CLICKS, US, EU))
    assert [] == ordered(queue.wait(COPY_LOOK))
    happens(queue, ended(EndCause.COMPLETED))
    assert [EU] == [order.target for order in ordered(queue.wait(COPY_LOOK))]


def test_copy_of_another_size_is_a_failure_like_another_hash(start: Start) -> None:
    """It is tried three times in a row and then left for an hour; only a size that the source corrects is no failure."""
    queue = a_queue_with_data(start, us="A100")
    place(queue, CLICKS, US)
    submit(queue, a_spec(data=[CLICKS]))
    for _ in range(COPY_TRIES_MAX):
        (order,) = ordered(queue.wait(Nanoseconds(3 * COPY_TRY_AGAIN)))
        assert [CopyFailed(order.copy, CLICKS, EU, "hash_differs")] == facts(
            failed(queue, order, "size_differs")
        )
    assert [] == ordered(queue.wait(seconds(1_800)))


def test_hash_comes_with_a_size(start: Start) -> None:
    """Of a dataset of unknown size, or with other content: nobody will measure what has a hash."""
    queue = a_queue_with_data(start)
    answer = said_once(queue.hear(SetDataset(CLICKS, (EU,), EU, 0, hash="0123")), Refused)
    assert ("invalid", ("size: state the bytes of what has this hash",)) == (answer.reason, answer.problems)
    place(queue, CLICKS, EU, hash_="0123")
    answer = said_once(queue.hear(SetDataset(CLICKS, (EU,), EU, 1, hash="4567")), Refused)
    assert "invalid" == answer.reason
    assert events(queue.hear(SetDataset(CLICKS, (EU,), EU, 1, size=GB // 2, hash="4567")), DatasetSet)


@pytest.mark.parametrize(("limit", "days"), [(5 * GB, 2), (50 * GB, 1)])
def test_debt_of_days_is_paid_at_the_limit_that_is_set_now(start: Start, limit: int, days: int) -> None:
    """Ten gigabytes at a limit of one, which an operator raises; a limit of nothing orders nothing."""
    queue = a_queue_with_data(start, day_permille=0)
    place(queue, CLICKS, EU, size=10 * GB)
    plan(queue, copy(CLICKS, EU, US))
    assert [] == ordered(queue.wait(COPY_LOOK)), "no byte may be copied"
    queue.hear(SetDataPolicy(DataPolicy(day_permille=0, day_bytes_min=GB), 1))
    (order,) = ordered(queue.wait(COPY_LOOK))
    made(queue, order)
    queue.hear(SetDataPolicy(DataPolicy(day_permille=0, day_bytes_min=limit), 2))
    place(queue, USERS, EU)
    plan(queue, copy(USERS, EU, US))
    assert [] == ordered(queue.wait(Nanoseconds((days - 1) * DAY)))
    assert [USERS] == [order.dataset for order in ordered(queue.wait(DAY))]


def test_orders_end_with_the_data_service_of_a_region(start: Start) -> None:
    """A queue that starts again with another fleet file; what would be dropped there is not, and the region can be named again."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    place(queue, USERS, US, EU)
    plan(queue, copy(CLICKS, EU, US), drop(USERS, EU))
    (order,) = ordered(look(queue))
    other = JobQueue((US, EU), (US,))
    again = Machine(other, at=queue.now, unknown=queue.unknown, logs=queue.logs, crew=queue.crew)
    assert [CopyFailed(order.copy, CLICKS, US, "not_served")] == events(again.wait(COPY_LOOK), CopyFailed)
    assert USERS in again.state.image.copies.drops
    place(again, USERS, US, EU)
    assert {} == again.state.image.copies.drops


def test_same_word_again_ends_a_copy_and_gives_its_bytes_back(start: Start) -> None:
    """Half of it had moved: the rest may be copied today."""
    queue = a_queue_with_data(start, us="A100")
    place(queue, CLICKS, US, size=4 * GB)
    submit(queue, a_spec(data=[CLICKS]))
    (order,) = ordered(look(queue))
    queue.hear(ReportCopy(EU, order.copy, GB))
    revision = queue.state.image.datasets.revision_of(CLICKS)
    word = SetDataset(CLICKS, (US,), US, revision, "root", 4 * GB, hash=HASH)
    told = facts(queue.hear(word))
    assert CopyFailed(order.copy, CLICKS, EU, "dataset_changed", GB) == told[0]
    assert isinstance(told[1], DatasetSet)
    assert GB == queue.state.image.copies.day_bytes
    assert {} == queue.state.image.copies.failures


def test_waits_of_a_shape_are_counted_once(start: Start) -> None:
    """Also if its workloads are of two levels."""
    queue = a_queue_with_data(start)
    for priority in (3, 3, 3, 1, 1):
        submit(queue, a_spec(a_job(1, 8), data=[CLICKS], priority=priority))
    (told,) = events(queue.wait(WAITING_READS_INTERVAL), DataWaited)
    assert 5 == sum(row.workloads for row in told.rows)


def test_urgent_copy_of_a_planned_move_moves_the_home(start: Start) -> None:
    """The work gets its copy first, and the plan is carried out by it."""
    queue = a_queue_with_data(start, us="A100")
    place(queue, CLICKS, US)
    submit(queue, a_spec(data=[CLICKS]))
    plan(queue, move(CLICKS, US, EU))
    (order,) = ordered(look(queue))
    assert ("w-1", True) == (order.wanted_by, order.is_move)
    failed(queue, order, "disk_full")
    (again,) = ordered(queue.wait(Nanoseconds(2 * COPY_TRY_AGAIN)))
    assert again.is_move, "a try that failed leaves the plan as it was"
    assert CopyMade(again.copy, CLICKS, EU, 2, is_move=True, left=US) in facts(made(queue, again))


def test_planned_copy_that_failed_is_tried_again(start: Start) -> None:
    """Like any other: its action is part of the plan again."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    plan(queue, move(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    failed(queue, order, "disk_full")
    (action,) = queue.state.image.copies.actions.values()
    assert (ActionKind.MOVE, CLICKS, EU, US) == (action.kind, action.dataset, action.source, action.target)
    (again,) = ordered(queue.wait(Nanoseconds(2 * COPY_TRY_AGAIN)))
    assert again.is_move


def test_work_that_reads_what_is_fresh_gets_the_home(start: Start) -> None:
    """M12, M35: a copy alone would not let it start; the old home keeps its copy."""
    queue = a_queue_with_data(start, us="A100")
    place(queue, CLICKS, US)
    submit(queue, replace(a_spec(data=[CLICKS], priority=6), needs_fresh_data=True))
    (order,) = ordered(look(queue))
    assert (True, True) == (order.is_move, order.keeps)
    made(queue, order)
    row = queue.state.image.datasets.rows[CLICKS]
    assert (EU, (EU, US)) == (row.home, row.regions)


def test_set_that_live_work_reads_is_dropped_when_all_of_it_has_moved(start: Start) -> None:
    """Work that waits for GPUs where both datasets are can start there until both are elsewhere."""
    queue = a_queue_with_data(start)
    for name, size in ((CLICKS, GB), (USERS, GB), (VIEWS, 10 * GB)):
        place(queue, name, US, size=size)
    submit(queue, a_spec(data=[CLICKS, USERS]))
    plan(queue, *(move(name, US, EU) for name in (CLICKS, USERS)))
    first, second = ordered(look(queue))
    made(queue, first)
    assert [] == events(queue.wait(COPY_LOOK), DropOrdered)
    made(queue, second)
    assert {CLICKS, USERS} == {event.dataset for event in events(queue.wait(COPY_LOOK), DropOrdered)}
