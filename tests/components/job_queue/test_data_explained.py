"""Why work waits for data, as `explain` tells: copies under way, failures, and what stands against a copy."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from components.job_queue.component import JobQueue
from core.messages.copies import (
    ReportCopy,
)
from core.messages.data import (
    SetDataPolicy,
    SetLink,
    SetStorage,
)
from core.messages.queue import ExplainWorkload, WorkloadExplained
from core.messages.regions import AbandonRegion
from core.nouns.data import UNSTATED, DataPolicy
from core.nouns.ids import DatasetName
from core.nouns.limits import (
    LINK_COPIES_MAX,
)
from tests.builders import EU, EU_LOG, US, US_LOG, a_job, a_spec, joined
from tests.components.support.data import (
    CLICKS,
    GB,
    USERS,
    Start,
    a_queue_with_data,
    drop,
    failed,
    look,
    made,
    ordered,
    place,
    plan,
)
from tests.components.support.job_queue import awarded, submit
from tests.components.support.machine import Machine
from tests.matching import said_once


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


def reader(queue: Machine[Any]) -> None:
    """Work runs where an operator says that the dataset is no longer."""
    place(queue, CLICKS, US, EU)
    submit(queue, a_spec(data=[CLICKS], regions=[EU]))
    awarded(queue)
    place(queue, CLICKS, US, size=2 * GB)


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
        pytest.param(reader, "still_read", id="reader"),
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
