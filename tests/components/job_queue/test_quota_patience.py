"""A gang that has waited for long keeps what is left of its tenant's quota, and gets there however much narrow work comes behind it."""

from typing import Any

import pytest

from core.messages.queue import CancelWorkload, HoldWorkload, ReleaseWorkload
from core.messages.tenants import RankingAnswered, SetRanking
from core.nouns.ids import WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.ranking import RankingSettings
from core.nouns.reasons import Reason
from core.nouns.tenant import UNLIMITED
from core.nouns.workload import Kind
from tests.builders import US, a_job, joined, of_types
from tests.components.support.job_queue import Start, a_job_queue, refuse_all, refuse_for, refuse_open
from tests.components.support.quota import (
    ART,
    ML,
    OVER,
    Queue,
    asked,
    award,
    changed,
    ends,
    explained,
    levels,
    listed,
    runs,
    tenant,
    up,
    waits,
)
from tests.matching import facts, said_once

PATIENCE = seconds(600)


def an_impatient_queue(start: Start, **options: Any) -> Queue:  # Any: as `a_job_queue` takes them
    """Ten minutes, and not a day."""
    queue = a_job_queue(start, **options)
    settings = RankingSettings(quota_patience=PATIENCE)
    said_once(queue.hear(SetRanking(settings, 0)), RankingAnswered)
    return queue


def full(start: Start, borrow_max: int = 0) -> tuple[Queue, list[WorkloadId], WorkloadId]:
    """All of ML's quota of 16 runs narrow work; a gang of as many has waited for `PATIENCE`. Return the queue, the narrow work and the gang."""
    queue = an_impatient_queue(start)
    tenant(queue, ML, 16, borrow_max=borrow_max)
    tenant(queue, ART, 16)
    live = [runs(queue, priority=3, node=0), runs(queue, priority=3, node=1)]
    gang = waits(queue, priority=3, job=a_job(2, 8))
    refuse_for(queue, PATIENCE)
    return queue, live, gang


@pytest.mark.parametrize("borrow_max", [0, 8, UNLIMITED])
def test_gang_starts_among_narrow_work_that_never_ends(start: Start, borrow_max: int) -> None:
    """For each narrow workload that ends another is there already, to borrow if it may: once both have ended the gang is asked for."""
    queue, live, gang = full(start, borrow_max)
    for node, one in enumerate(live):
        newer = waits(queue)
        refuse_open(queue, newer)
        queue.wake()
        assert (borrow_max == UNLIMITED) == (newer in queue.state.auctions.open)
        if newer in queue.state.auctions.open:
            award(queue, newer, US, node=node)
            up(queue, newer, OVER, US, node=node)
        assert gang not in levels(queue)
        assert 3 not in [levels(queue).get(name) for name in levels(queue) if name not in live]
        ends(queue, one)
    assert "within" == explained(queue, gang).standing
    refuse_open(queue, gang)
    award(queue, gang)
    queue.wake()
    assert 3 == levels(queue)[gang]


def test_each_workload_is_told_its_reason(start: Start) -> None:
    """The gang is told that the quota drains to it; a workload behind it, for which gang it waits; in `mizzen queue` too."""
    queue, live, gang = full(start)
    behind = waits(queue)
    ends(queue, live[0])
    told = explained(queue, gang)
    assert ("held", Reason.QUOTA_DRAINS) == (told.standing, told.reason)
    told = explained(queue, behind)
    assert ("held", Reason.QUOTA_KEPT) == (told.standing, told.reason)
    assert Reason.QUOTA_KEPT == listed(queue, behind).reason
    queue.hear(CancelWorkload(gang))
    assert "within" == explained(queue, behind).standing
    assert {behind: 3} == asked(queue.wake())


def test_borrowing_work_behind_a_gang_moves_up_once_the_gang_is_gone(start: Start) -> None:
    """Not while the gang waits, though there is capacity; a hold, a cancellation or a lower priority of the gang lets it."""
    queue, live, gang = full(start, UNLIMITED)
    behind = runs(queue, region=US)
    assert OVER == levels(queue)[behind]
    assert {} == changed(ends(queue, live[0]))
    assert {behind: 3} == changed(facts(queue.hear(HoldWorkload(gang, 0))) + facts(queue.wake()))
    queue.hear(ReleaseWorkload(gang, 1))
    refuse_all(queue)
    newer = runs(queue, region=US, node=1)
    assert {live[1]: 3, behind: 3, newer: OVER} == levels(queue)


def test_work_submitted_before_the_gang_moves_up_all_the_same(start: Start) -> None:
    """It was ahead of the gang in the line, and borrows only because the quota was full."""
    queue = an_impatient_queue(start)
    tenant(queue, ML, 16)
    tenant(queue, ART, 16)
    live = [runs(queue, node=0), runs(queue, node=1)]
    older = runs(queue, region=US)
    waits(queue, job=a_job(2, 8))
    queue.wait(PATIENCE)
    assert OVER == levels(queue)[older]
    assert {older: 3} == changed(ends(queue, live[0]))


def test_more_important_work_and_other_tenants_are_untouched(start: Start) -> None:
    """ML's of a higher level takes what is left of the quota; ART's is ART's."""
    queue, live, _ = full(start)
    tenant(queue, ML, 16, level=5, borrow_max=0)
    ends(queue, live[0])
    low, high, other = waits(queue, priority=3), waits(queue, priority=5), waits(queue, of=ART)
    assert {high: 5, other: 3} == asked(queue.wake())
    assert "held" == explained(queue, low).standing


def test_nothing_is_kept_beside_a_service(start: Start) -> None:
    """8 of the quota are held by what has no end: a gang of all 16 could never have them, so that narrow work goes on."""
    queue = an_impatient_queue(start)
    tenant(queue, ML, 16, borrow_max=0)
    tenant(queue, ART, 16)
    service = waits(queue, kind=Kind.SERVICE)
    award(queue, service)
    up(queue, service, 3)
    gang = waits(queue, job=a_job(2, 8))
    queue.wait(PATIENCE)
    narrow = waits(queue)
    assert {narrow: 3} == asked(queue.wake())
    assert Reason.BORROWED_ALL == explained(queue, gang).reason
    assert {3: {"H100": 8_000}} == queue.state.order.tenant(ML).lasting
    ends(queue, service)
    assert {} == queue.state.order.tenant(ML).lasting


def test_workload_of_several_types_is_asked_for_beside_a_quota_hold(start: Start) -> None:
    """H100 quota is held for a gang: a workload behind it that may take A100 as well is asked for on A100 alone; one before it on both."""
    queue = an_impatient_queue(start, us=joined(gpu_type="A100"))
    for name in (ML, ART):
        tenant(queue, name, 16)
        tenant(queue, name, 16, gpu_type="A100")
    runs(queue)
    either = of_types(a_job(1, 8), "H100", "A100")
    before = waits(queue, job=either)
    gang = waits(queue, job=a_job(2, 8))
    refuse_for(queue, PATIENCE)
    assert "over" == explained(queue, gang).standing
    behind = waits(queue, job=either)
    assert behind not in asked(queue.wake())
    told = explained(queue, behind)
    assert ("within", ("A100",)) == (told.standing, told.is_held_to)
    told = explained(queue, before)
    assert ("within", ()) == (told.standing, told.is_held_to)
    queue.hear(CancelWorkload(before))
    assert 3 == asked(queue.wake())[behind]
    assert (("A100",),) == queue.state.auctions.open[behind].shape.types


def test_patience_is_a_setting(start: Start) -> None:
    """With none nothing is kept, as in the paper; a restart finds what is kept as it was."""
    queue, live, gang = full(start)
    ends(queue, live[0])
    behind = waits(queue)
    assert "held" == explained(queue, behind).standing == explained(queue.restart(), behind).standing
    assert (gang,) == tuple(one.workload for one in queue.restart().state.order.kept(ML))
    queue.hear(SetRanking(RankingSettings(quota_patience=Nanoseconds(0)), 1))
    assert "within" == explained(queue, behind).standing
    queue.hear(SetRanking(RankingSettings(quota_patience=seconds(700)), 2))
    assert "within" == explained(queue, behind).standing
    queue.wait(seconds(100))
    assert "held" == explained(queue, behind).standing


def by_what_is_borrowed(start: Start) -> Queue:
    """By the paper's flag what ML holds over its quota of 16 fills it, too; it may borrow 8."""
    queue = an_impatient_queue(start)
    tenant(queue, ML, 16, borrow_max=8)
    tenant(queue, ART, 16)
    said_once(
        queue.hear(SetRanking(RankingSettings(counts_borrowed=True, quota_patience=PATIENCE), 1)),
        RankingAnswered,
    )
    return queue


def serves(queue: Queue, priority: int, level: int) -> WorkloadId:
    """A service of ML that is up, at this level."""
    service = waits(queue, kind=Kind.SERVICE, priority=priority)
    award(queue, service, US)
    up(queue, service, level, US)
    assert level == levels(queue)[service]
    return service


def test_no_quota_is_held_beside_a_service_of_a_lower_level_that_counts(start: Start) -> None:
    """By that flag the service fills the quota at any level: no gang could ever have all of it, and narrow work goes on."""
    queue = by_what_is_borrowed(start)
    serves(queue, 2, 2)
    gang = waits(queue, job=a_job(2, 8), priority=3)
    refuse_for(queue, PATIENCE)
    narrow = waits(queue, priority=3)
    assert 3 == asked(queue.wake())[narrow]
    assert "over" == explained(queue, gang).standing


def test_nothing_is_kept_beside_a_service_that_borrows_and_counts(start: Start) -> None:
    """It moves up as soon as it fits, though the gang came first: beside both services there is never room for that."""
    queue = by_what_is_borrowed(start)
    serves(queue, 3, 3)
    live = runs(queue)
    gang = waits(queue, kind=Kind.INTERACTIVE)
    borrows = serves(queue, 3, OVER)
    queue.wait(PATIENCE)
    assert {borrows: 3} == changed(ends(queue, live))
    assert Reason.BORROWED_ALL == explained(queue, gang).reason
