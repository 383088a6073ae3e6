"""Copies of data: for work that waits, then by plan, within storage, links and the day's bytes; and no whole copy is ever lost."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from components.job_queue.component import JobQueue
from core.events.copies import (
    CopyFailed,
    CopyMade,
    DataPlanned,
    DatasetHashed,
    DropCleared,
    DropMade,
    DropOrdered,
    HomeMoved,
)
from core.events.data import DatasetSet, DataWaited, WaitingReads
from core.messages.base import Refused
from core.messages.copies import (
    CopiesListed,
    DataPlanShown,
    ListCopies,
    ReportCopy,
    ReportDrop,
    ReportHash,
    ShowDataPlan,
)
from core.messages.data import (
    DataSettingsShown,
    SetDataPolicy,
    SetDataset,
    SetLink,
    SetStorage,
    ShowDataSettings,
)
from core.messages.queue import CancelWorkload, ExplainWorkload, WorkloadExplained
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
from core.nouns.workload import EndCause
from core.rules.data.copies import planned_limit
from tests.builders import EU, EU_LOG, US, US_LOG, a_job, a_spec, joined
from tests.components.support.data import (
    CLICKS,
    GB,
    HASH,
    USERS,
    VIEWS,
    Start,
    a_queue_with_data,
    cleared,
    copy,
    drop,
    failed,
    look,
    made,
    move,
    ordered,
    place,
    plan,
)
from tests.components.support.job_queue import asked, awarded, ended, happens, refuse_for, running, submit
from tests.components.support.machine import Machine
from tests.matching import facts, said_once

DAY = seconds(86_400)
MANY = [DatasetName(f"table-{number}") for number in range(12)]


def events(decision: Any, *kinds: type) -> list[Any]:
    """Facts of these types."""
    return [event for event in facts(decision) if isinstance(event, kinds)]


# Work that waits.


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


def test_explain_tells_which_copies_are_under_way(start: Start) -> None:
    """Of the datasets that the workload reads: where to, how far, how fast."""
    queue = a_queue_with_data(start, us="A100")
    place(queue, CLICKS, US)
    workload = submit(queue, a_spec(data=[CLICKS]))
    (order,) = ordered(look(queue))
    queue.hear(ReportCopy(EU, order.copy, GB // 4))
    told = said_once(queue.hear(ExplainWorkload(workload)), WorkloadExplained)
    assert "no_data" == told.reason
    assert [(CLICKS, US, EU, GB // 4, GB)] == [
        (one.dataset, one.source, one.target, one.moved, one.bytes) for one in told.copies
    ]
    failed(queue, order, "hash_differs")
    told = said_once(queue.hear(ExplainWorkload(workload)), WorkloadExplained)
    assert [(CLICKS, EU, 1, "hash_differs")] == [
        (one.dataset, one.target, one.times, one.reason) for one in told.failed_copies
    ]


def test_explain_tells_no_failures_of_copies_elsewhere(start: Start) -> None:
    """To a region without the workload's hardware: no copy there would help it."""
    queue = a_queue_with_data(start, us="A100", eu="V100")
    place(queue, CLICKS, US)
    there = submit(queue, a_spec(replace(a_job(1, 8), gpu_type="V100"), data=[CLICKS]))
    elsewhere = submit(queue, a_spec(replace(a_job(1, 8), gpu_type="A100"), data=[CLICKS, USERS]))
    failed(queue, ordered(look(queue))[0], "disk_full")
    told = {
        workload: len(said_once(queue.hear(ExplainWorkload(workload)), WorkloadExplained).failed_copies)
        for workload in (there, elsewhere)
    }
    assert {there: 1, elsewhere: 0} == told


def closed_link(queue: Machine[Any]) -> None:
    """Nothing may go from the home to the region with the hardware."""
    queue.hear(SetLink(US, EU, 0, 0))


def spent_day(queue: Machine[Any]) -> None:
    """Another copy took the bytes of the day."""
    queue.hear(SetDataPolicy(DataPolicy(day_permille=0, day_bytes_min=GB + 1), 1))
    place(queue, USERS, US)
    submit(queue, a_spec(data=[USERS]))
    (order,) = ordered(look(queue))
    made(queue, order)


def failure(queue: Machine[Any]) -> None:
    """The copy is ordered, and fails."""
    place(queue, CLICKS, US)
    submit(queue, a_spec(data=[CLICKS]))
    failed(queue, ordered(look(queue))[0], "disk_full")


def deletion(queue: Machine[Any]) -> None:
    """An older copy is to be deleted, and is not yet."""
    place(queue, CLICKS, US, EU)
    plan(queue, drop(CLICKS, EU))
    look(queue)


def full_link(queue: Machine[Any]) -> None:
    """All places of the link are taken."""
    for number in range(LINK_COPIES_MAX):
        name = DatasetName(f"other-{number}")
        place(queue, name, US)
        submit(queue, a_spec(data=[name]))
    assert LINK_COPIES_MAX == len(ordered(look(queue)))


@pytest.mark.parametrize(
    ("before", "obstacle"),
    [
        pytest.param(lambda _: None, "", id="it is ordered soon"),
        pytest.param(lambda queue: place(queue, CLICKS), "nowhere", id="nowhere"),
        pytest.param(
            lambda queue: queue.hear(SetDataPolicy(DataPolicy(is_automatic=False), 1)),
            "not_automatic",
            id="off",
        ),
        pytest.param(
            lambda queue: queue.hear(SetStorage(EU, UNSTATED, 1)), "storage_unstated", id="unstated"
        ),
        pytest.param(lambda queue: queue.hear(SetStorage(EU, GB - 1, 1)), "storage_full", id="storage"),
        pytest.param(
            lambda queue: queue.hear(AbandonRegion(US, 0, is_forced=True)), "no_source", id="source"
        ),
        pytest.param(closed_link, "link_closed", id="link"),
        pytest.param(full_link, "link_busy", id="busy"),
        pytest.param(failure, "tried_later", id="failed"),
        pytest.param(spent_day, "day_spent", id="day"),
        pytest.param(deletion, "being_deleted", id="deletion"),
    ],
)
def test_explain_tells_why_no_copy_is_ordered(
    start: Start, before: Callable[[Machine[Any]], object], obstacle: str
) -> None:
    """And what is told is so: without an obstacle the copy is ordered, and with one it is not."""
    queue = a_queue_with_data(start, us="A100")
    place(queue, CLICKS, US)
    before(queue)
    workload = submit(queue, a_spec(data=[CLICKS]))
    told = said_once(queue.hear(ExplainWorkload(workload)), WorkloadExplained)
    assert {EU: obstacle, US: ""} == {one.region: one.no_copy for one in told.regions}
    assert (not obstacle) == (CLICKS in [order.dataset for order in ordered(look(queue))])


def test_explain_tells_that_a_region_has_no_data_service(start: Start) -> None:
    """So nothing can be copied there."""
    queue = start(JobQueue((US, EU), (US,)))
    queue.fact(EU_LOG, joined())
    queue.fact(US_LOG, joined(gpu_type="A100"))
    queue.wake()
    place(queue, CLICKS, US)
    workload = submit(queue, a_spec(data=[CLICKS]))
    told = said_once(queue.hear(ExplainWorkload(workload)), WorkloadExplained)
    assert {EU: "no_data_service", US: ""} == {one.region: one.no_copy for one in told.regions}


# By plan.


def test_home_moves_by_copy_then_home_then_drop(start: Start) -> None:
    """M33: the old home's copy goes only when the new one is made, counts for no award from then on, and stays while work reads it."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    submit(queue, a_spec(data=[CLICKS]))
    awarded(queue)
    running(queue)
    plan(queue, move(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    assert order.is_move
    assert [CopyMade(1, CLICKS, US, 2, is_move=True, left=EU)] == facts(made(queue, order))
    assert [DropOrdered(CLICKS, 3, EU)] == events(look(queue), DropOrdered, DropCleared)
    row = queue.state.image.datasets.rows[CLICKS]
    assert ((US,), US) == (row.regions, row.home)
    assert [] == cleared(queue.wait(COPY_LOOK)), "an attempt reads it"
    assert [] == facts(queue.hear(ReportDrop(EU, CLICKS))), "it was not to be deleted yet"
    happens(queue, ended(EndCause.COMPLETED))
    assert [DropCleared(CLICKS, EU)] == cleared(queue.wait(COPY_LOOK))
    assert [DropMade(CLICKS, EU)] == facts(queue.hear(ReportDrop(EU, CLICKS)))


def test_home_moves_without_a_copy_where_the_target_has_one(start: Start) -> None:
    """At once; the old home's copy is dropped."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, US)
    plan(queue, move(CLICKS, EU, US))
    found = events(look(queue), HomeMoved, DropOrdered, DropCleared)
    assert [HomeMoved(CLICKS, 2, US, EU), DropOrdered(CLICKS, 3, EU), DropCleared(CLICKS, EU)] == found
    assert [DropMade(CLICKS, EU)] == facts(queue.hear(ReportDrop(EU, CLICKS)))
    assert 0 == queue.state.data.stored[EU]


@pytest.mark.parametrize("has_copy", [False, True])
def test_move_that_keeps_leaves_the_old_copy(start: Start, *, has_copy: bool) -> None:
    """It is the copy outside the home then, whether the target had one before or gets it now."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, US, *([EU] if has_copy else []))
    plan(queue, replace(move(CLICKS, US, EU), keeps=True))
    for order in ordered(look(queue)):
        assert order.is_move
        made(queue, order)
    look(queue)
    row = queue.state.image.datasets.rows[CLICKS]
    assert (EU, (EU, US)) == (row.home, row.regions)
    assert not queue.state.image.copies.to_drop


def test_action_from_before_an_operators_word_is_left_out(start: Start) -> None:
    """The plane follows what operators say of a dataset: a plan that was made from something else does not undo that."""
    queue = a_queue_with_data(start)
    for name in (CLICKS, VIEWS):
        place(queue, name, US)
    place(queue, CLICKS, US, size=2 * GB)
    of_first_word, of_both = (replace(move(name, US, EU), revision=1) for name in (CLICKS, VIEWS))
    plan(queue, of_first_word, of_both)
    assert [VIEWS] == [action.dataset for action in queue.state.image.copies.actions.values()]


@pytest.mark.parametrize("region", [EU, US])
def test_last_whole_copy_and_the_home_are_never_dropped(start: Start, region: RegionName) -> None:
    """Whatever a plan says."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, US)
    place(queue, USERS, region)
    plan(queue, drop(CLICKS, US), drop(USERS, region))
    assert [] == events(queue.wait(COPY_LOOK), DropOrdered)


def test_copy_from_which_is_copied_is_dropped_later(start: Start) -> None:
    """When that copy is made."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    plan(queue, copy(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    plan(queue, drop(CLICKS, EU), move(CLICKS, EU, US))
    assert [] == events(queue.wait(COPY_LOOK), DropOrdered)
    made(queue, order)
    assert [HomeMoved(CLICKS, 3, US, EU), DropOrdered(CLICKS, 4, EU)] == events(
        look(queue), HomeMoved, DropOrdered
    )


def test_pinned_dataset_keeps_its_home_and_its_copies(start: Start) -> None:
    """A plan may only add copies."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, is_pinned=True)
    place(queue, USERS, EU, US, is_pinned=True)
    plan(queue, move(CLICKS, EU, US), move(USERS, EU, US), drop(USERS, US))
    assert [] == events(queue.wait(COPY_LOOK), HomeMoved, DropOrdered, CopyMade)
    plan(queue, copy(CLICKS, EU, US))
    assert 1 == len(ordered(look(queue)))


def test_higher_levels_come_first_and_the_plans_order_within_one(start: Start) -> None:
    """M34: excess is carried over to when a link is free."""
    queue = a_queue_with_data(start)
    for name in MANY[:5]:
        place(queue, name, EU)
    levels = (1, 5, 1, 5, 1)
    plan(queue, *(copy(name, EU, US, level) for name, level in zip(MANY, levels, strict=False)))
    assert [MANY[1], MANY[3], MANY[0]] == [order.dataset for order in ordered(look(queue))]


def test_newer_plan_replaces_what_is_left_and_an_older_is_refused(start: Start) -> None:
    """Orders go on."""
    queue = a_queue_with_data(start)
    for name in MANY:
        place(queue, name, EU)
    plan(queue, *(copy(name, EU, US) for name in MANY))
    look(queue)
    plan(queue, copy(MANY[11], EU, US))
    shown = said_once(queue.hear(ShowDataPlan()), DataPlanShown)
    assert (2, 1, 1) == (shown.number, shown.actions, shown.left)
    assert [] == facts(plan(queue, number=2)), "a repeat"
    refusal = said_once(plan(queue, number=1), Refused)
    assert ("superseded", ("number: the newest plan is 2",)) == (refusal.reason, refusal.problems)
    assert 3 == len(said_once(queue.hear(ListCopies()), CopiesListed).orders)


def test_long_plan_is_several_facts(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of bounded size, in one batch, and one plan."""
    monkeypatch.setattr("core.rules.data.copies.PLAN_PART_BYTES_MAX", 200)
    queue = a_queue_with_data(start)
    for name in MANY:
        place(queue, name, EU)
    found = events(plan(queue, *(copy(name, EU, US) for name in MANY)), DataPlanned)
    assert 1 < len(found)
    assert [False] + [True] * (len(found) - 1) == [event.is_more for event in found]
    assert MANY == [action.dataset for action in queue.state.image.copies.actions.values()]
    assert len(MANY) == queue.state.image.copies.plan.actions


# Limits.


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


# What goes wrong.


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


def test_word_of_an_operator_has_failed_copies_tried_again(start: Start) -> None:
    """At once, also if nothing else is different; the same message twice is one word, and without failures it changes nothing."""
    queue = a_queue_with_data(start, us="A100")
    place(queue, CLICKS, US)
    submit(queue, a_spec(data=[CLICKS]))
    for _ in range(3):
        failed(queue, ordered(queue.wait(seconds(30)))[0], "command_missing")
    assert [] == ordered(queue.wait(COPY_LOOK))
    again = SetDataset(
        CLICKS, (US,), US, queue.state.image.datasets.revision_of(CLICKS), "root", GB, hash=HASH
    )
    assert [DatasetSet(CLICKS, 2, (US,), US, "root", GB, hash=HASH)] == facts(queue.hear(again))
    assert () == said_once(queue.hear(ListCopies()), CopiesListed).failed
    assert [] == facts(queue.hear(again))
    made(queue, ordered(look(queue))[0])
    place(queue, CLICKS, US, EU)
    revision = queue.state.image.datasets.revision_of(CLICKS)
    place(queue, CLICKS, US, EU)
    assert revision == queue.state.image.datasets.revision_of(CLICKS)


def test_word_of_an_operator_ends_what_was_ordered(start: Start) -> None:
    """The data service finds its order gone; what it reports of that later changes nothing."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    plan(queue, copy(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    place(queue, CLICKS)
    assert {} == queue.state.image.copies.orders
    assert [] == facts(made(queue, order))
    assert () == queue.state.image.datasets.rows[CLICKS].regions


def test_copy_that_is_being_deleted_cannot_be_named_meanwhile(start: Start) -> None:
    """Files may be half gone."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, US)
    plan(queue, move(CLICKS, EU, US))
    look(queue)
    refusal = said_once(queue.hear(SetDataset(CLICKS, (EU, US), US, 3)), Refused)
    assert ["regions: the copy in eu is being deleted; name eu when that is done"] == list(refusal.problems)


def test_deletion_under_way_outlives_an_operators_word(start: Start) -> None:
    """The region cannot be named until the deletion is told: what an operator puts there before would be deleted."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, US)
    plan(queue, drop(CLICKS, US))
    assert [DropCleared(CLICKS, US)] == cleared(queue.wait(COPY_LOOK))
    place(queue, CLICKS, EU, size=2 * GB)
    revision = queue.state.image.datasets.revision_of(CLICKS)
    assert isinstance(said_once(queue.hear(SetDataset(CLICKS, (EU, US), EU, revision)), Refused), Refused)
    assert [DropMade(CLICKS, US)] == facts(queue.hear(ReportDrop(US, CLICKS)))
    assert events(queue.hear(SetDataset(CLICKS, (EU, US), EU, revision)), DatasetSet)


def test_deletion_that_is_not_cleared_ends_with_an_operators_word(start: Start) -> None:
    """Nothing is deleted yet, so the copy is whole and counts again once it is named."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, US, EU)
    submit(queue, a_spec(data=[CLICKS], regions=[EU]))
    awarded(queue)
    plan(queue, drop(CLICKS, EU))
    assert [DropOrdered(CLICKS, 2, EU)] == events(queue.wait(COPY_LOOK), DropOrdered, DropCleared)
    place(queue, CLICKS, US, size=2 * GB)
    place(queue, CLICKS, US, EU, size=2 * GB)
    assert (EU, US) == queue.state.image.datasets.rows[CLICKS].regions
    assert {} == queue.state.image.copies.drops


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


@pytest.mark.parametrize(
    ("message", "reason", "fields"),
    [
        pytest.param(SetStorage(RegionName("mars"), GB, 0), "unknown_region", ["regions"], id="region"),
        pytest.param(SetStorage(EU, -7, 1), "invalid", ["bytes"], id="bytes"),
        pytest.param(SetStorage(EU, 10, 1), "below_stored", ["bytes"], id="below what is there"),
        pytest.param(SetStorage(EU, GB, 0), "superseded", ["revision"], id="an older word"),
        pytest.param(SetLink(EU, RegionName("mars"), 1, 0), "unknown_region", ["regions"], id="link"),
        pytest.param(SetLink(EU, EU, 1, 0), "invalid", ["target"], id="link to itself"),
        pytest.param(SetLink(EU, US, -1, 0, "x" * 200), "invalid", ["rate", "by"], id="rate"),
        pytest.param(
            SetDataPolicy(DataPolicy(day_permille=2000, extra_permille=-1), 1),
            "invalid",
            ["day_permille", "extra_permille"],
            id="policy",
        ),
        pytest.param(SetDataPolicy(DataPolicy(), 0), "superseded", ["revision"], id="an older policy"),
        pytest.param(SetDataset(CLICKS, (EU,), EU, 1, size=-1), "invalid", ["size"], id="size"),
        pytest.param(SetDataset(CLICKS, (EU,), EU, 1, size=GB, hash="a b"), "invalid", ["hash"], id="hash"),
        pytest.param(SetDataset(CLICKS, (EU,), EU, 1, size=5), "below_stored", ["size"], id="size below"),
    ],
)
def test_bad_words_are_refused(start: Start, message: Any, reason: str, fields: list[str]) -> None:
    """Each with its reason, and every problem with its field."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU, hash_="")
    plan(queue, copy(CLICKS, EU, US))
    (order,) = ordered(look(queue))
    queue.hear(ReportHash(EU, order.copy, CLICKS, HASH, GB))
    decision = queue.hear(message)
    assert [] == facts(decision)
    refusal = said_once(decision, Refused)
    assert (reason, fields) == (refusal.reason, [text.partition(":")[0] for text in refusal.problems])


def test_copies_of_a_dataset_that_no_operator_placed(start: Start) -> None:
    """Are not none: the name is unknown."""
    queue = a_queue_with_data(start)
    submit(queue, a_spec(data=[CLICKS]))
    refusal = said_once(queue.hear(ListCopies(CLICKS)), Refused)
    assert ("unknown_dataset", (f"dataset: {CLICKS}",)) == (refusal.reason, refusal.problems)
    place(queue, CLICKS, EU)
    assert () == said_once(queue.hear(ListCopies(CLICKS)), CopiesListed).orders


def test_region_without_a_data_service_has_no_storage(start: Start) -> None:
    """The refusal says what to do."""
    queue: Machine[Any] = start(JobQueue((US, EU), (EU,)))
    queue.wake()
    assert "no_data_service" == said_once(queue.hear(SetStorage(US, GB, 0)), Refused).reason


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


def test_settings_are_told(start: Start) -> None:
    """Storage with what is there and on its way, every link with its rate, and the bytes of the day."""
    queue = a_queue_with_data(start)
    place(queue, CLICKS, EU)
    plan(queue, copy(CLICKS, EU, US))
    look(queue)
    shown = said_once(queue.hear(ShowDataSettings()), DataSettingsShown)
    assert [(EU, GB, 0), (US, 0, GB)] == [(one.region, one.used, one.expected) for one in shown.storage]
    assert [(EU, US, 1), (US, EU, 0)] == [(one.source, one.target, one.copies) for one in shown.links]
    assert (GB, GB, GB) == (shown.bytes, shown.day_limit, shown.day_bytes)


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
