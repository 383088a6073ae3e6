"""Who of a long queue is not looked at again before something changes, and that whatever changes it is noticed.

That nobody is left out who might be asked for is also held by every decision of these tests: a twin takes it too, with nothing
remembered (tests/components/support/machine.py).
"""

from typing import Any

import pytest

from components.job_queue.ordering import bring_up
from components.job_queue.state.deferrals import PUT_OFF_SPAN
from core.events.region import AttemptRanked
from core.messages.queue import CancelWorkload
from core.nouns.fleet import ANY_TYPE, CPU_TYPE
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds, after
from core.nouns.limits import AUCTION_SPAN
from core.nouns.ranking import RankingSettings
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import EndCause, JobSpec, WorkloadSpec
from tests.builders import EU, EU_LOG, US, a_claim, a_job, a_spec, a_spread, amount, attempt, granted, joined
from tests.components.job_queue.test_cpu_only_work import refusal
from tests.components.support.job_queue import (
    W1,
    W2,
    W3,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    awards,
    bid,
    ended,
    large,
    small,
    submit,
)
from tests.components.support.machine import Machine
from tests.components.support.quota import ART, award, ends, runs, tenant, waits, with_quota

OPS = TenantName("ops")
OTHER = WorkloadId("w-8")


def in_eu(tasks: int, gpus: int = 4) -> WorkloadSpec:
    """Work that may run in one region alone."""
    return a_spec(a_job(tasks, gpus), regions=[EU])


def refused(start: Start, *missing: tuple[int, int, int]) -> Machine[Any]:
    """One workload of each was refused: so many tasks of so many GPUs, for want of so many milli."""
    queue = a_job_queue(start)
    for tasks, gpus, _ in missing:
        submit(queue, in_eu(tasks, gpus), key=f"{tasks} x {gpus}")
    opened = queue.wake()
    for (workload, _), (_, _, lack) in zip(asked(opened), missing, strict=True):
        refuse(queue, opened, WorkloadId(workload), gpus=lack)
    assert [] == asked(queue.wake())
    return queue


def refuse(queue: Machine[Any], opened: Any, workload: WorkloadId, *, gpus: int = 0, cpus: int = 0) -> None:
    """The region lacks so much."""
    queue.hear(refusal(queue, workload, auction_of(opened, workload), gpus=gpus, cpus=cpus))


def left_out(queue: Machine[Any]) -> set[int]:
    """How many tasks those have that are not looked at."""
    order, rows, out = (
        queue.state.order,
        queue.state.image.workloads.rows,
        set(queue.state.auctions.unaskable),
    )
    waiting = [work.workload for work in order.works()]
    return {rows[one].spec.jobs[0].tasks for one in waiting if order.one(one).group in out}


def refuse_in(queue: Machine[Any], workload: WorkloadId, region: RegionName) -> None:
    """The same of any region."""
    abstain(queue, queue.state.auctions.open[workload].auction, region, workload=workload, missing=9_000)


def frees(queue: Machine[Any], gpu_milli: int) -> None:
    """Something else ends there."""
    epoch = queue.sequence(EU_LOG)
    end = ended(EndCause.COMPLETED, epoch, OTHER, gpu_milli=gpu_milli)
    queue.fact(EU_LOG, granted(a_claim(OTHER, epoch)), end)


def test_whoever_is_refused_everywhere_is_left_out(start: Start) -> None:
    """Until something changes it."""
    assert {1, 2, 3} == left_out(refused(start, (1, 1, 9_000), (2, 2, 9_000), (3, 4, 9_000)))


def test_only_those_whose_refusal_passed_are_looked_at(start: Start) -> None:
    """Nobody else, whatever came free."""
    queue = refused(start, (1, 1, 1_000), (2, 2, 9_000), (3, 4, 9_000))
    frees(queue, 1_000)
    assert {2, 3} == left_out(queue)
    assert [(W1, EU)] == asked(queue.wake())


@pytest.mark.parametrize(
    ("two", "four", "left"),
    [
        pytest.param(9_000, 9_000, {2, 3, 4, 5}, id="none passed"),
        pytest.param(1_000, 9_000, {4, 5}, id="the smaller passed: up to the larger that is still refused"),
        pytest.param(
            9_000, 1_000, {2, 3, 5}, id="the larger passed: for the smaller all that is more still is"
        ),
        pytest.param(1_000, 1_000, set(), id="both"),
    ],
)
def test_those_refused_for_a_smaller_one_are_looked_at_with_it(
    start: Start, two: int, four: int, left: set[int]
) -> None:
    """M20: two and four tasks were refused, and three and five for these, without being asked for."""
    queue = refused(start, (2, 4, two), (4, 4, four))
    for tasks in (3, 5):
        submit(queue, in_eu(tasks), key=f"more {tasks}")
    assert [] == asked(
        queue.wake()
    )  # Now it is found that they are blocked; at the next look they are left out.
    another = submit(queue, in_eu(1, 1), key="another")
    refuse(queue, queue.wake(), another, gpus=9_000)
    queue.wake()
    frees(queue, 1_000)
    assert left == left_out(queue) - {1}


def test_the_next_of_a_shape_has_its_turn(start: Start) -> None:
    """While one of a shape that is short is asked for, the next waits for its answer."""
    queue = refused(start, (1, 4, 1_000))
    submit(queue, in_eu(1), key="again")
    frees(queue, 1_000)
    opened = queue.wake()
    assert [(W1, EU)] == asked(opened)
    queue.hear(CancelWorkload(W1))
    refuse(queue, opened, W1, gpus=1_000)
    frees(queue, 1_000)
    assert [(W2, EU)] == asked(queue.wake())


def test_who_comes_is_looked_at(start: Start) -> None:
    """Whoever else is refused."""
    queue = refused(start, (1, 1, 9_000), (2, 2, 9_000))
    submit(queue, in_eu(3, 8), key="new")
    assert [(W3, EU)] == asked(queue.wake())


def test_who_may_be_lent_something_is_looked_at_when_others_hold_less(start: Start) -> None:
    """Of 64 GPUs 48 are ART's, who lends none, and ML is lent the others; OPS waits for them."""
    queue = with_quota(start, 0)
    tenant(queue, ART, 48, is_lent=False)
    tenant(queue, OPS, 0)
    first, _ = runs(queue), runs(queue, node=1)
    third = waits(queue, of=OPS)
    assert [] == asked(queue.wake())
    assert {1} == left_out(queue)
    ends(queue, first)
    assert third in queue.state.auctions.open


def test_who_may_be_lent_something_is_looked_at_in_each_pass(start: Start) -> None:
    """Who is held back goes by what is due to each tenant, as of the newest pass; who is within quota is left out all the same."""
    queue = with_quota(start, 8)
    for gpus, jobs in ((8, 1), (4, 2)):
        workload = waits(queue, job=a_job(jobs, gpus))
        queue.wake()
        for region in (EU, US):
            refuse_in(queue, workload, region)
    queue.wake()
    assert {1, 2} == left_out(queue)
    bring_up(queue.state, after(queue.now, RankingSettings().pass_span))
    assert {1} == left_out(queue)


def test_who_wants_more_is_looked_at_when_less_is_refused_for_another_reason(start: Start) -> None:
    """Two of a shape are asked for at once: one is refused for want of room, and so is who wants more; the other because room is offered,
    which says nothing of those.
    """
    queue = a_job_queue(start)
    for key in ("one", "other"):
        submit(queue, in_eu(2), key=key)
    opened = queue.wake()
    refuse(queue, opened, W1, gpus=9_000)
    queue.wake()
    submit(queue, in_eu(3), key="more")
    queue.wake()
    submit(queue, in_eu(4, 1), key="another")
    queue.wake()
    assert {3} == left_out(queue)
    abstain(queue, auction_of(opened, W2), workload=W2, reason=Reason.OPEN_BIDS)
    assert (W3, EU) in asked(queue.wake())


def test_first_of_each_tenant_is_found_blocked(start: Start) -> None:
    """Who of them is ahead goes by time and use, and their shape is not looked at again for that; whoever stands behind them in their
    tenant's line is not looked at before them.
    """
    queue = a_job_queue(start)
    submit(queue, a_spec(a_job(2, 4), regions=[EU], tenant="a"))
    refuse(queue, queue.wake(), W1, gpus=9_000)
    queue.wake()
    first, behind, other = (
        submit(queue, a_spec(a_job(3, 4), regions=[EU], tenant=tenant), key=key)
        for tenant, key in (("a", "first"), ("a", "behind"), ("b", "other"))
    )
    queue.wake()
    found = queue.state.starts.blocked
    assert [first, other] == [one for one in (first, behind, other) if one in found]


def test_who_had_no_place_among_those_asked_for_is_asked_for_next(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many at a time: nobody whom the look did not come to is left out."""
    monkeypatch.setattr("components.job_queue.auction.auctioneer.AUCTIONS_MAX", 1)
    queue = a_job_queue(start)
    for tasks, gpus in ((2, 1), (1, 2)):
        submit(queue, in_eu(tasks, gpus), key=str(tasks))
    opened = queue.wake()
    assert [(W1, EU)] == asked(opened)
    refuse(queue, opened, W1, gpus=1_000)
    assert [(W2, EU)] == asked(queue.wake())


def test_who_is_blocked_is_found_though_only_others_were_asked_for(start: Start) -> None:
    """Three tasks were refused for two, by a reserve that is kept free; then one is refused for want of room, and so are three."""
    queue = a_job_queue(start)
    submit(queue, in_eu(2), key="two")
    abstain(queue, auction_of(queue.wake()), reason=Reason.RESERVED)
    submit(queue, in_eu(3), key="three")
    submit(queue, in_eu(1), key="one")
    opened = queue.wake()
    assert [(W3, EU)] == asked(opened)
    assert W2 not in queue.state.starts.blocked
    refuse(queue, opened, W3, gpus=1_000)
    queue.wake()
    assert W2 in queue.state.starts.blocked


def test_who_gives_way_is_looked_at_again(start: Start) -> None:
    """W1 gave its offer back for two who are ahead, and is not asked for while the second of them waits for the first's answer; after
    three seconds it is, though nothing else has changed.
    """
    queue = a_job_queue(start)
    submit(queue, large(1))
    low = auction_of(queue.wake())
    submit(queue, small(6))
    abstain(queue, auction_of(queue.wake(), W2), workload=W2, reason=Reason.OPEN_BIDS)
    queue.wake()
    submit(queue, small(6))
    bid(queue, low)
    assert [] == awards(queue.wake())
    gave_back_at = queue.now
    while W1 not in queue.state.auctions.open:
        assert queue.now < after(gave_back_at, Nanoseconds(PUT_OFF_SPAN + 2 * AUCTION_SPAN))
        queue.wait(Nanoseconds(AUCTION_SPAN // 10))
    assert queue.now >= after(gave_back_at, PUT_OFF_SPAN)


# An attempt of another level.

RACKS = joined("w9", 4, 2, total=amount(0, 64, 64), gpu_type=CPU_TYPE)


@pytest.mark.parametrize(
    ("wanted", "gpus", "cpus", "is_asked"),
    [
        pytest.param(a_job(4, 4), 8_000, 0, True, id="as many GPUs as are missing"),
        pytest.param(a_job(4, 4), 8_001, 0, False, id="fewer"),
        pytest.param(a_job(9, 0, gpu_type=CPU_TYPE, cpus=1), 0, 3_000, True, id="as many CPUs without GPUs"),
        pytest.param(
            a_job(9, 0, gpu_type=CPU_TYPE, cpus=1), 0, 3_001, False, id="the others are beside GPUs"
        ),
        pytest.param(a_job(9, 0, gpu_type=ANY_TYPE, cpus=1), 0, 11_000, True, id="on any node all of them"),
        pytest.param(a_job(9, 0, gpu_type=ANY_TYPE, cpus=1), 0, 11_001, False, id="and no more"),
    ],
)
def test_what_may_be_pushed_out_is_as_good_as_freed(
    start: Start, wanted: JobSpec, gpus: int, cpus: int, *, is_asked: bool
) -> None:
    """Two tasks of 4 GPUs and 4 CPUs, and one of 3 CPUs on a node without GPUs. Refusals count what is missing beyond whoever could
    be pushed out: so much more can be from now on.
    """
    queue = a_job_queue(start)
    queue.fact(EU_LOG, RACKS)
    jobs = (a_job(2, 4, cpus=4), a_job(1, 0, name="reader", gpu_type=CPU_TYPE, cpus=3))
    submit(queue, a_spec(*jobs, regions=[EU]))
    award(queue, W1)
    spreads = (a_spread({0: 1, 1: 1}), a_spread({4: 1}))
    queue.fact(EU_LOG, granted(a_claim(W1, jobs=jobs, spreads=spreads)))
    queue.wake()
    submit(queue, a_spec(wanted, regions=[EU]), key="wants")
    refuse(queue, queue.wake(), W2, gpus=gpus, cpus=cpus)
    assert [] == asked(queue.wake())
    queue.fact(EU_LOG, AttemptRanked(*attempt(W1), 1, OVER_LEVEL))
    assert is_asked == bool(asked(queue.wake()))


def test_who_holds_no_gpus_may_have_been_in_the_way_of_them(start: Start) -> None:
    """Of its CPUs or its memory: a refusal of which it is not known what is missing passes."""
    queue = a_job_queue(start)
    reader = a_job(1, 0, cpus=3)
    submit(queue, a_spec(reader, regions=[EU]))
    award(queue, W1)
    queue.fact(EU_LOG, granted(a_claim(W1, jobs=(reader,), spreads=(a_spread({0: 1}),))))
    queue.wake()
    submit(queue, in_eu(4), key="wants")
    refuse(queue, queue.wake(), W2)
    assert [] == asked(queue.wake())
    queue.fact(EU_LOG, AttemptRanked(*attempt(W1), 1, OVER_LEVEL))
    assert [(W2, EU)] == asked(queue.wake())


def test_nothing_is_known_of_what_a_forgotten_one_holds(start: Start) -> None:
    """Any refusal of its region may have passed."""
    queue = refused(start, (1, 1, 9_000))
    queue.fact(EU_LOG, granted(a_claim(OTHER, 1)))
    assert [] == asked(queue.wake())
    queue.fact(EU_LOG, AttemptRanked(OTHER, 1, 1, OVER_LEVEL))
    assert [(W1, EU)] == asked(queue.wake())
