"""Copies of data: for work that waits, then by plan, within storage, links and the day's bytes, and again after failures."""

from components.job_queue.component import JobQueue
from core.events.copies import (
    CopyFailed,
    CopyMade,
    DatasetHashed,
)
from core.events.data import DataWaited, WaitingReads
from core.messages.copies import (
    CopiesListed,
    ListCopies,
    ReportCopy,
    ReportHash,
)
from core.messages.data import (
    SetDataPolicy,
    SetLink,
    SetStorage,
)
from core.messages.queue import CancelWorkload
from core.messages.regions import AbandonRegion
from core.nouns.data import UNSTATED, DataPolicy
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, seconds
from core.nouns.limits import (
    COPY_LOOK,
    COPY_RETRY,
    COPY_TRIES_MAX,
    COPY_TRY_AGAIN,
    LINK_COPIES_MAX,
    WAITING_READS_INTERVAL,
)
from core.rules.data.copies import planned_limit
from tests.builders import EU, US, a_job, a_spec
from tests.components.support.data import (
    CLICKS,
    GB,
    HASH,
    USERS,
    VIEWS,
    Start,
    a_queue_with_data,
    copy,
    events,
    failed,
    look,
    made,
    move,
    ordered,
    place,
    plan,
)
from tests.components.support.job_queue import asked, refuse_for, submit
from tests.matching import facts, said_once

DAY = seconds(86_400)
MANY = [DatasetName(f"table-{number}") for number in range(12)]


def test_data_comes_to_where_the_hardware_is_and_the_fewest_bytes_are_missing(start: Start) -> None:
    """M12: no region has the work's data and its hardware: the copy is ordered at once, and the work is asked for when it is made."""
    queue = a_queue_with_data(start, us="A100")
    place(queue, CLICKS, US)
    submit(queue, a_spec(data=[CLICKS]))
    (order,) = ordered(look(queue))
    assert (CLICKS, US, EU, GB, "w-1") == (
        order.dataset,
        order.source,
        order.target,
        order.bytes,
        order.wanted_by,
    )
    assert [] == ordered(look(queue)), "it is ordered once"
    assert [] == asked(queue.wake())
    assert CopyMade(order.copy, CLICKS, EU, 2) in facts(made(queue, order))
    assert [("w-1", EU)] == asked(queue.wake())
    assert US == queue.state.image.datasets.rows[CLICKS].home, "a copy moves no home"


def test_target_is_where_the_fewest_bytes_are_missing(start: Start) -> None:
    """Of two regions with the hardware the one that has the larger of two datasets; copies under way count as there."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, size=3 * GB)
    place(queue, USERS, US)
    submit(queue, a_spec(data=[CLICKS, USERS]))
    (order,) = ordered(look(queue))
    assert (USERS, EU) == (order.dataset, order.target)
    assert [] == ordered(queue.wait(COPY_LOOK))


def test_target_has_an_open_link(start: Start) -> None:
    """Fewer bytes are missing in US, but no link goes there."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, US, size=3 * GB)
    place(queue, USERS, EU)
    queue.hear(SetLink(EU, US, 0, 0, "root"))
    submit(queue, a_spec(data=[CLICKS, USERS]))
    assert [(CLICKS, EU)] == [(order.dataset, order.target) for order in ordered(look(queue))]


def test_copy_that_fails_time_and_again_is_made_elsewhere(start: Start) -> None:
    """Fewer bytes are missing in US; after three failures in a row EU gets its copy instead."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, US, size=3 * GB)
    place(queue, USERS, EU)
    submit(queue, a_spec(data=[CLICKS, USERS]))
    for _ in range(COPY_TRIES_MAX):
        (order,) = ordered(queue.wait(Nanoseconds(3 * COPY_TRY_AGAIN)))
        assert (USERS, US) == (order.dataset, order.target)
        failed(queue, order, "disk_full")
    assert [(CLICKS, EU)] == [(order.dataset, order.target) for order in ordered(look(queue))]


def test_nothing_is_copied_for_work_that_some_region_may_run(start: Start) -> None:
    """It waits for capacity there, and the planner hears of that."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    submit(queue, a_spec(a_job(1, 8), data=[CLICKS]))
    refuse_for(queue, WAITING_READS_INTERVAL)
    assert {} == queue.state.image.copies.orders
    assert (
        WaitingReads((CLICKS,), ("H100",), 1, "no_capacity", 1, 8_000),
    ) == queue.state.image.readings.waiting


def test_waits_are_told_once_a_minute_until_nothing_waits(start: Start) -> None:
    """By datasets, types, band and reason; the last one is empty."""
    queue = a_queue_with_data(start, storage=UNSTATED)
    place(queue, CLICKS, US)
    for _ in range(3):
        submit(queue, a_spec(data=[USERS], priority=5))
    waited = events(queue.wait(seconds(125)), DataWaited)
    assert 2 == len(waited)
    assert (WaitingReads((USERS,), ("H100",), 2, "no_data", 3, 3_000),) == waited[0].rows
    for workload in ("w-1", "w-2", "w-3"):
        queue.hear(CancelWorkload(WorkloadId(workload)))
    told = events(queue.wait(seconds(125)), DataWaited)
    assert [()] == [one.rows for one in told]
    assert queue.state.image.readings.waiting == ()


def test_copies_that_work_needs_come_before_planned_ones(start: Start) -> None:
    """The last place of each link is kept for them, and so is a quarter of the day's bytes."""
    queue = a_queue_with_data(start, us="A100", day_permille=1000)
    for name in MANY:
        place(queue, name, US)
    plan(queue, *(copy(name, US, EU) for name in MANY))
    planned = ordered(look(queue))
    assert LINK_COPIES_MAX - 1 == len(planned)
    place(queue, CLICKS, US)
    submit(queue, a_spec(data=[CLICKS]))
    (urgent,) = ordered(look(queue))
    assert ("w-1", CLICKS) == (urgent.wanted_by, urgent.dataset)
    made(queue, planned[0])
    assert [] == ordered(queue.wait(COPY_LOOK)), "all places are taken, of which the plan has all but one"
    made(queue, urgent)
    assert [MANY[3]] == [order.dataset for order in ordered(look(queue))]


def test_without_automatic_nothing_is_ordered(start: Start) -> None:
    """Neither for work nor by plan; what was ordered goes on."""
    queue = a_queue_with_data(start, us="A100")
    queue.hear(SetDataPolicy(DataPolicy(is_automatic=False), 1))
    place(queue, CLICKS, US)
    submit(queue, a_spec(data=[CLICKS]))
    plan(queue, copy(CLICKS, US, EU))
    assert [] == ordered(queue.wait(COPY_LOOK))


def test_storage_is_never_exceeded(start: Start) -> None:
    """What is there, what is on its way, and what is yet to be deleted count."""
    queue = a_queue_with_data(start, storage=3 * GB)
    place(queue, CLICKS, US, size=2 * GB)
    place(queue, USERS, EU)
    place(queue, VIEWS, EU)
    plan(queue, copy(USERS, EU, US), copy(VIEWS, EU, US))
    (order,) = ordered(look(queue))
    assert USERS == order.dataset
    assert [] == ordered(queue.wait(COPY_LOOK))
    made(queue, order)
    assert [] == ordered(queue.wait(COPY_LOOK))
    queue.hear(SetStorage(US, 4 * GB, 1))
    assert [VIEWS] == [one.dataset for one in ordered(look(queue))]


def test_region_of_unstated_storage_gets_nothing(start: Start) -> None:
    """Nor does one without a data service, whose storage cannot be stated."""
    queue = a_queue_with_data(start, storage=UNSTATED)
    place(queue, CLICKS, EU)
    plan(queue, copy(CLICKS, EU, US))
    assert [] == ordered(queue.wait(COPY_LOOK))


def test_days_bytes_are_never_exceeded_and_excess_is_carried_over(start: Start) -> None:
    """M34: also by a queue that starts again; the plan leaves a quarter to work that waits."""
    queue = a_queue_with_data(start, day_permille=500)
    for name in MANY[:8]:
        place(queue, name, EU)
    plan(queue, *(copy(name, EU, US) for name in MANY[:8]))
    count = 0
    while orders := ordered(look(queue)):
        count += len(orders)
        for order in orders:
            made(queue, order)
        queue = queue.restart()
        look(queue)
    assert 3 == count, "of eight GB four may go a day, and three by plan"
    more = ordered(queue.wait(DAY))
    assert more


def test_what_no_work_needed_is_given_to_the_plan_with_each_hour(start: Start) -> None:
    """M34: of 48 GB a day 36 are the plan's in the first hour, and half a GB more with each hour, as nothing waits."""
    assert [36, 36, 37, 47] == [
        planned_limit(48, Instant(DAY + seconds(3_600 * hour))) for hour in (0, 1, 2, 23)
    ]
    assert 36 == planned_limit(48, Instant(2 * DAY))
    queue = a_queue_with_data(start, day_permille=120)
    for number in range(50):
        place(queue, DatasetName(f"big-{number}"), EU, size=8 * GB)
    plan(queue, *(copy(DatasetName(f"big-{number}"), EU, US) for number in range(50)))
    count = 0
    while orders := ordered(look(queue)):
        count += len(orders)
        for order in orders:
            made(queue, order)
    assert 4 == count, "a fifth would be 40 GB"
    assert [] == ordered(queue.wait(seconds(7 * 3_600)))
    assert 1 == len(ordered(queue.wait(seconds(3_600)))), "in the ninth hour"
    assert [] == ordered(queue.wait(seconds(14 * 3_600)))


def test_copy_that_is_larger_than_a_day_goes_alone_and_is_paid_for(start: Start) -> None:
    """The next days have none until its bytes are made up for."""
    queue = a_queue_with_data(start, day_permille=100)
    place(queue, CLICKS, EU, size=10 * GB)
    place(queue, USERS, EU)
    plan(queue, copy(CLICKS, EU, US), copy(USERS, EU, US))
    (order,) = ordered(look(queue))
    assert CLICKS == order.dataset
    made(queue, order)
    for _ in range(8):
        assert [] == ordered(queue.wait(DAY))
    assert [USERS] == [one.dataset for one in ordered(queue.wait(seconds(2 * 86_400)))]


def test_failed_copy_gives_back_the_bytes_that_it_did_not_move(start: Start) -> None:
    """Of the same day."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, size=4 * GB)
    plan(queue, copy(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    failed(queue, order, "command_failed", GB)
    assert GB == queue.state.image.copies.day_bytes


def test_each_copy_has_a_part_of_its_link(start: Start) -> None:
    """All copies of a link together never go faster; over one without a rate none goes."""
    queue = a_queue_with_data(start)
    queue.hear(SetLink(EU, US, 4_000, 0))
    place(queue, CLICKS, EU)
    plan(queue, copy(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    assert 4_000 // LINK_COPIES_MAX == order.rate
    queue.hear(SetLink(EU, US, 0, 1))
    place(queue, USERS, EU)
    plan(queue, copy(USERS, EU, US))
    assert [] == ordered(queue.wait(COPY_LOOK))


def test_hash_is_told_by_the_source_before_anything_is_copied(start: Start) -> None:
    """Once: later orders have it. Bytes that were stated too low end the order, which is made anew with the right number."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, hash_="")
    plan(queue, copy(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    assert "" == order.hash
    told = ReportHash(EU, order.copy, CLICKS, HASH, 2 * GB)
    hashed = DatasetHashed(CLICKS, 1, EU, HASH, 2 * GB)
    assert [hashed, CopyFailed(1, CLICKS, US, "size_differs")] == facts(queue.hear(told))
    assert [] == facts(queue.hear(told))
    plan(queue, copy(CLICKS, EU, US))
    (again,) = ordered(look(queue))
    assert (2 * GB, HASH) == (again.bytes, again.hash)
    assert 2 * GB == queue.state.data.stored[EU]


def test_copy_that_fails_is_tried_again_and_after_three_times_later(start: Start) -> None:
    """Of each failure one reason is told."""
    queue = a_queue_with_data(start, us="A100")
    place(queue, CLICKS, US)
    submit(queue, a_spec(data=[CLICKS]))
    for number in range(3):
        (order,) = ordered(queue.wait(seconds(30)))
        assert number + 1 == order.copy
        failed(queue, order, "hash_differs")
    listed = said_once(queue.hear(ListCopies()), CopiesListed)
    assert [(CLICKS, EU, 3, "hash_differs")] == [
        (one.dataset, one.target, one.times, one.reason) for one in listed.failed
    ]
    assert [] == ordered(queue.wait(COPY_LOOK))
    (order,) = ordered(queue.wait(COPY_RETRY))
    made(queue, order)
    assert () == said_once(queue.hear(ListCopies()), CopiesListed).failed


def test_copy_that_failed_is_made_from_another_region(start: Start) -> None:
    """By turns, from the fastest link on: the files of one region may be gone."""
    asia = RegionName("asia")
    queue = start(JobQueue((asia, US, EU), (asia, US, EU)))
    for region in (asia, EU, US):
        queue.hear(SetStorage(region, 100 * GB, 0, "root"))
    place(queue, CLICKS, EU, asia)
    plan(queue, copy(CLICKS, EU, US))
    sources = []
    for _ in range(3):
        plan(queue, copy(CLICKS, EU, US))
        (order,) = ordered(queue.wait(seconds(30)))
        sources.append(order.source)
        failed(queue, order, "source_missing")
    assert [EU, asia, EU] == sources


def test_abandoned_region_ends_its_copies(start: Start) -> None:
    """From there and to there; none is ordered while it is abandoned."""
    queue = a_queue_with_data(start, us="A100")
    place(queue, CLICKS, US)
    submit(queue, a_spec(data=[CLICKS]))
    (order,) = ordered(look(queue))
    queue.hear(AbandonRegion(US, 0, is_forced=True))
    assert [CopyFailed(order.copy, CLICKS, EU, "region_abandoned")] == events(look(queue), CopyFailed)
    assert [] == ordered(queue.wait(COPY_LOOK))


def test_reports_of_others_change_nothing(start: Start) -> None:
    """Of a region that is not the target, of an order that is none, of bytes that moved."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    plan(queue, copy(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    assert [] == facts(queue.hear(ReportCopy(EU, order.copy, GB, is_over=True)))
    assert [] == facts(queue.hear(ReportCopy(US, 77, GB, is_over=True)))
    assert [] == facts(queue.hear(ReportCopy(US, order.copy, 5)))
    (listed,) = said_once(queue.hear(ListCopies(CLICKS)), CopiesListed).orders
    assert (5, True) == (listed.moved, listed.is_hashed)


def test_ledger_equals_a_count_over_the_image(start: Start) -> None:
    """After copies, moves, deletions and a start."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    place(queue, USERS, EU, US)
    submit(queue, a_spec(data=[CLICKS, USERS]))
    plan(queue, move(CLICKS, EU, US), move(USERS, EU, US))
    for order in ordered(look(queue)):
        made(queue, order)
    look(queue)
    again = queue.restart()
    for name in ("total", "stored", "readers", "pending"):
        mine, theirs = getattr(queue.state.data, name), getattr(again.state.data, name)
        assert theirs == (+mine if hasattr(mine, "elements") else mine), name
