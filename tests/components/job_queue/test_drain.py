"""Regions that are drained for borrowing workloads past `age_cap`."""

from itertools import groupby

import pytest

from components.job_queue.quota.drain import excluded, excluded_why
from components.job_queue.state.queue_state import Drain, DrainReason, SharesSeen
from core.events.queue import WorkloadAwarded
from core.events.region import AttemptEnded
from core.fact import NO_LOG, Fact
from core.messages.base import LogSilent
from core.messages.queue import Bid, CancelWorkload, HoldWorkload, ReleaseWorkload
from core.nouns.ids import AgentName, RegionName, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import RESERVE_AFTER, SHARES_INTERVAL
from core.nouns.placement import View
from core.nouns.ranking import CreditSettings, RankingSettings
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, US, US_LOG, a_job, a_spec, a_spread, attempt, joined, of_types
from tests.components.job_queue.test_fair_share import OPS, asked_in, lent_out, rank_by, refusing
from tests.components.job_queue.test_reservations import offer, refused
from tests.components.support.job_queue import Start, a_job_queue, refuse_all, refuse_open, submit
from tests.components.support.quota import (
    ART,
    ML,
    OVER,
    Queue,
    asked,
    award,
    ends,
    explained,
    listed,
    refuse,
    runs,
    tenant,
    up,
    waits,
)
from tests.matching import facts

CAP = seconds(300)
BOTH = (EU, US)


def by_age(
    cap: Nanoseconds, *, lag_weight: int = CreditSettings().lag_weight, percent: int = 100
) -> RankingSettings:
    """Return ranking rules by which a region is drained after `cap`, for at most `percent` of all GPUs."""
    return RankingSettings(CreditSettings(age_cap=cap, lag_weight=lag_weight), gather_percent=percent)


def gathered(queue: Queue) -> tuple[WorkloadId, RegionName] | None:
    """Return the workload for which a region is drained by age, and the region."""
    found = queue.state.drain
    return None if found is None or found.reason is DrainReason.LAG else (found.workload, found.region)


def aged(start: Start, *, cap: Nanoseconds = CAP, span: Nanoseconds = CAP) -> tuple[Queue, WorkloadId]:
    """ART, which has more than its share, wants two nodes more, and waited for `span`, while both regions lacked capacity."""
    queue = lent_out(start)
    rank_by(queue, by_age(cap))
    gang = waits(queue, of=ART, job=a_job(2, 8))
    queue.wake()
    refusing(queue, Nanoseconds(span + SHARES_INTERVAL))
    return queue, gang


def nothing_is_lent(queue: Queue) -> None:
    """OPS uses all but one node of what ART borrowed."""
    for first in list(queue.state.ledger.by_tenant[ART])[1:]:
        ends(queue, first, queue.state.image.workloads.rows[first].region)
        refuse_all(queue)
        runs(queue, of=OPS, region=US, node=3)
    queue.wake()


def test_region_is_drained_for_a_workload_past_age_cap(start: Start) -> None:
    """In one region no other workload borrows, whether its tenant is behind or ahead of its share; the other region is asked as ever. The
    queue says why.
    """
    queue, gang = aged(start)
    assert (gang, EU) == gathered(queue)
    others = [waits(queue, 1, of=tenant) for tenant in (ART, ML)]
    queue.wake()
    assert {(US,)} == {asked_in(queue, other) for other in others}
    assert EU == explained(queue, gang).gathered_in
    for other in others:
        refuse(queue, other, US)
    queue.wake()
    told = {one.region: one.reason for one in explained(queue, others[0]).regions}
    assert {EU: Reason.ROOM_GATHERED, US: Reason.NO_CAPACITY} == told
    assert (Reason.NO_CAPACITY, told) == (listed(queue, others[0]).reason, listed(queue, others[0]).refusals)
    assert "" == explained(queue, others[0]).gathered_in
    assert {EU: (gang,), US: ()} == {one.region: one.kept_for for one in explained(queue, others[0]).regions}
    runs(queue, 1, of=OPS, region=US, node=3)
    assert (gang, EU) == gathered(queue)


def test_no_region_is_drained_before_age_cap(start: Start) -> None:
    """Nor where borrowed capacity goes by the same credit as all else, as in the paper."""
    queue, _ = aged(start, span=Nanoseconds(CAP - 2 * SHARES_INTERVAL))
    assert gathered(queue) is None
    narrow = waits(queue, 1)
    queue.wake()
    assert BOTH == asked_in(queue, narrow)
    queue, _ = aged(start)
    rank_by(queue, by_age(CAP, lag_weight=0))
    refusing(queue, Nanoseconds(2 * SHARES_INTERVAL))
    assert gathered(queue) is None


def test_others_borrow_there_again_once_the_workload_is_awarded(start: Start) -> None:
    """At once, and then the next workload past `age_cap` has its turn."""
    queue, gang = aged(start)
    narrow = waits(queue, of=ART, job=a_job(2, 2))
    queue.wake()
    assert (US,) == asked_in(queue, narrow)
    (first, *_) = queue.state.ledger.by_tenant[ART]
    ends(queue, first)
    refuse(queue, narrow, US)
    award(queue, gang, US)
    assert gathered(queue) is None
    refusing(queue, Nanoseconds(CAP + SHARES_INTERVAL))
    assert narrow == queue.state.drain.workload


def test_drains_take_turns(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest workload first, each for as long as patience lasts; then round again. A workload of the shape of one of its tenant ahead of
    it has no turn before that one. A workload that left is forgotten.
    """
    monkeypatch.setattr("components.job_queue.quota.drain.GATHER_PATIENCE", Nanoseconds(2 * SHARES_INTERVAL))
    queue, first = aged(start, span=Nanoseconds(0))
    second, third = (waits(queue, of=of, job=a_job(3, 8)) for of in (ML, ART))
    waits(queue, of=ML, job=a_job(3, 8))
    queue.wake()
    refusing(queue, CAP)
    found: list[WorkloadId] = []
    for _ in range(10):
        refusing(queue, SHARES_INTERVAL)
        found.append(queue.state.drain.workload)
    turns = [(name, len(list(all_of_them))) for name, all_of_them in groupby(found)]
    assert [(second, 2), (third, 2), (first, 2)] == turns[1:4]
    assert {first, second, third} == set(queue.state.drained_last)
    queue.hear(CancelWorkload(second))
    queue.wait(SHARES_INTERVAL)
    assert {first, third} == set(queue.state.drained_last)


def test_region_with_the_smallest_shortage_is_drained(start: Start) -> None:
    """As the regions said; where none was asked, because no tenant lends now, the region with the most GPUs of the type."""
    queue = lent_out(start)
    rank_by(queue, by_age(CAP))
    gang = waits(queue, of=ART, job=a_job(1, 8))
    queue.wake()
    refusing(queue, Nanoseconds(CAP + SHARES_INTERVAL), missing={EU: 8_000, US: 3_000})
    assert (gang, US) == gathered(queue)
    queue = a_job_queue(start, us=joined(nodes=6))
    for name, gpus in ((ART, 40), (OPS, 40), (ML, 0)):
        tenant(queue, name, gpus)
    rank_by(queue, by_age(CAP))
    for number in range(4):
        runs(queue, of=OPS, region=EU, node=number)
        runs(queue, of=ART, region=US, node=number)
    runs(queue, of=ML, region=US, node=4)
    gang = waits(queue, of=ML, job=a_job(2, 8))
    queue.wake()
    queue.wait(Nanoseconds(CAP + SHARES_INTERVAL))
    assert (gang, US) == gathered(queue)


def test_region_is_drained_for_a_workload_that_lag_holds_back(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ART had so much that it may not borrow where ML is to start. For ART's gang, which is past `age_cap`, a region is drained all the same,
    and then asked for the gang.
    """
    monkeypatch.setattr("components.job_queue.quota.drain.LAG_SLACK", seconds(120))
    queue = lent_out(start)
    rank_by(queue, by_age(Nanoseconds(4 * CAP)))
    gang = waits(queue, of=ART, job=a_job(1, 8))
    queue.wake()
    refusing(queue, CAP)
    waits(queue, of=ML, job=a_job(2, 4))
    queue.wake()
    refusing(queue, Nanoseconds(2 * CAP))
    work = queue.state.order.work(gang)
    assert Reason.AHEAD_OF_DUE is excluded_why(queue.state, work)
    assert (DrainReason.LAG, None) == (queue.state.drain.reason, gathered(queue))
    (running, *_) = queue.state.ledger.by_tenant[ART]
    refusing(queue, Nanoseconds(2 * CAP))
    assert (gang, EU) == gathered(queue)
    ends(queue, running)
    assert EU in asked_in(queue, gang)


def test_no_region_is_drained_for_nominal_work(start: Start) -> None:
    """Its tenant is entitled to more: the workload preempts others."""
    queue, gang = aged(start)
    assert (gang, EU) == gathered(queue)
    tenant(queue, OPS, 0)
    tenant(queue, ART, 64)
    queue.wait(SHARES_INTERVAL)
    assert "within" == explained(queue, gang).standing
    assert gathered(queue) is None


@pytest.mark.parametrize("how", [CancelWorkload, lambda workload: HoldWorkload(workload, 0)])
def test_no_region_is_drained_for_a_workload_that_left(start: Start, how: type[CancelWorkload]) -> None:
    """It was cancelled, or held."""
    queue, gang = aged(start)
    narrow = waits(queue, 1)
    queue.wake()
    assert (US,) == asked_in(queue, narrow)
    queue.hear(how(gang))
    queue.wait(SHARES_INTERVAL)
    queue.wake()
    assert gathered(queue) is None
    assert EU in asked_in(queue, narrow)


def test_no_region_is_drained_for_capacity_that_cannot_come(start: Start) -> None:
    """No region has such hardware now; or the gang wants more than others could lend, because they use it themselves."""
    queue = lent_out(start)
    rank_by(queue, by_age(CAP))
    waits(queue, of=ART, job=a_job(1, 8))
    queue.wake()
    refusing(queue, Nanoseconds(2 * CAP), Reason.NO_SUCH_HARDWARE)
    assert gathered(queue) is None
    queue, gang = aged(start, span=Nanoseconds(0))
    nothing_is_lent(queue)
    refusing(queue, Nanoseconds(2 * CAP))
    assert gathered(queue) is None
    assert gang in queue.state.order


def test_silent_region_is_not_drained(start: Start) -> None:
    """The drained region falls silent: the other one is chosen."""
    queue, gang = aged(start)
    assert (gang, EU) == gathered(queue)
    queue.hear(LogSilent(EU_LOG))
    refusing(queue, Nanoseconds(2 * SHARES_INTERVAL))
    assert (gang, US) == gathered(queue)


def test_no_region_is_drained_for_more_than_a_part_of_all_gpus(start: Start) -> None:
    """Sixteen GPUs of 64 are a quarter."""
    for percent, expected in ((24, False), (25, True)):
        queue = lent_out(start)
        rank_by(queue, by_age(CAP, percent=percent))
        waits(queue, of=ART, job=a_job(2, 8))
        queue.wake()
        refusing(queue, Nanoseconds(CAP + SHARES_INTERVAL))
        assert expected is (gathered(queue) is not None)


@pytest.mark.parametrize(("bidders", "winner"), [(BOTH, US), ((EU,), EU)])
def test_nominal_work_preempts_elsewhere_first(
    start: Start, bidders: tuple[RegionName, ...], winner: RegionName
) -> None:
    """ML is entitled to what it wants, and every region is asked. The drained region could hold the workload without preemption, and its bid is
    taken if there is no other.
    """
    queue, _ = aged(start)
    tenant(queue, ML, 16)
    own = waits(queue, 8)
    queue.wake()
    assert BOTH == asked_in(queue, own)
    assert {EU: "", US: ""} == {one.region: one.reason for one in explained(queue, own).regions}
    auction = queue.state.auctions.open[own].auction
    for region in bidders:
        score = (0, 0, 0, 1, 1, 0) if region == EU else (1, 1, 900, 1, 1, 0)
        agent, spreads = AgentName(f"a-{region}"), (a_spread({0: 1}),)
        queue.hear(Bid(region, agent, own, auction, score, spreads, (), View(1)))
    if US not in bidders:
        refuse(queue, own, US)
    (award_of_it,) = [one for one in facts(queue.wake()) if isinstance(one, WorkloadAwarded)]
    assert winner == award_of_it.region
    assert [(one.region, one.gathered) for one in award_of_it.bids] == [
        (region, int(region == EU)) for region in sorted(bidders, key=lambda region: region == EU)
    ]


def test_workloads_that_may_run_in_one_region_take_turns(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workload that may run nowhere else is kept from the region while another has its turn, and has its own then."""
    monkeypatch.setattr("components.job_queue.quota.drain.GATHER_PATIENCE", Nanoseconds(2 * SHARES_INTERVAL))
    queue = lent_out(start)
    rank_by(queue, by_age(CAP))
    first, second = (
        submit(queue, a_spec(job, tenant=of, regions=(EU,)))
        for job, of in ((a_job(1, 8), ART), (a_job(2, 4), ML))
    )
    queue.wake()
    refusing(queue, CAP)
    found = set()
    for _ in range(8):
        refusing(queue, SHARES_INTERVAL)
        found.add(gathered(queue))
    assert {(first, EU), (second, EU)} <= found


def test_nodes_of_other_types_are_not_drained(start: Start) -> None:
    """Nor is work without GPUs kept away: neither would help the gang."""
    queue = a_job_queue(start)
    for log in (EU_LOG, US_LOG):
        queue.fact(log, joined("w1", 100, 4, gpu_type="A100"))
    for name, gpus in ((ART, 8), (ML, 8), (OPS, 48)):
        tenant(queue, name, gpus)
        tenant(queue, name, gpus, gpu_type="A100")
    for number in range(6):
        runs(queue, of=ART, region=US if number > 3 else EU, node=number % 4)
    runs(queue, region=US, node=2)
    rank_by(queue, by_age(CAP))
    waits(queue, of=ART, job=a_job(2, 8))
    queue.wake()
    refusing(queue, Nanoseconds(CAP + SHARES_INTERVAL))
    assert gathered(queue) is not None
    others = [waits(queue, of=ART, job=job) for job in (a_job(2, 8, gpu_type="A100"), a_job(1, 0, cpus=4))]
    queue.wake()
    assert {BOTH} == {asked_in(queue, other) for other in others}


def test_region_is_not_closed_to_a_workload_with_a_promised_start_there(start: Start) -> None:
    """Nodes that are reserved for it are no capacity for another."""
    queue = a_job_queue(start)
    tenant(queue, OPS, 64)
    tenant(queue, ML, 0)
    has_promise, other, kept = (waits(queue, of=ML, job=a_job(tasks, 8)) for tasks in (2, 1, 3))
    opened = queue.wake()
    refuse_open(queue, has_promise)
    refused(queue, opened, has_promise)
    refused(queue, queue.wait(RESERVE_AFTER), has_promise, eu=offer())
    state = queue.state
    shape = state.image.workloads.rows[kept].shape
    drain = Drain(kept, ML, shape, EU, ("H100",), queue.now, DrainReason.AGE)
    queue.fold(Fact(NO_LOG, 0, queue.now, "", "queue", SharesSeen((), drain), queue.now))
    assert EU == state.image.start_promises.rows[has_promise].region
    assert [None, EU, None] == [excluded(state, state.order.work(one)) for one in (has_promise, other, kept)]


def test_preempted_workload_that_had_its_turn_comes_last(start: Start) -> None:
    """Though it is the oldest."""
    queue, gang = aged(start)
    other = waits(queue, of=ML, job=a_job(3, 8))
    queue.wake()
    refusing(queue, Nanoseconds(2 * CAP))
    (first, *_) = queue.state.ledger.by_tenant[ART]
    ends(queue, first)
    award(queue, gang, EU)
    up(queue, gang, OVER, EU, 0)
    queue.fact(EU_LOG, AttemptEnded(*attempt(gang, 1), EndCause.PREEMPTED, 0, 16_000))
    queue.wake()
    refusing(queue, Nanoseconds(3 * SHARES_INTERVAL))
    assert other == queue.state.drain.workload


@pytest.mark.parametrize("reason", [Reason.OVER_LIMIT, Reason.RESERVED, Reason.NO_SUCH_HARDWARE])
def test_no_region_is_drained_for_a_workload_refused_for_another_reason(start: Start, reason: Reason) -> None:
    """Free capacity would not help it."""
    queue, gang = aged(start)
    assert (gang, EU) == gathered(queue)
    (first, *_) = queue.state.ledger.by_tenant[ART]
    ends(queue, first)
    refusing(queue, Nanoseconds(6 * SHARES_INTERVAL), reason)
    assert gathered(queue) is None


def test_drain_ends_when_it_is_not_allowed_or_cannot_help(start: Start) -> None:
    """Operators turn drains off; or the lenders use what was lent."""
    queue, _ = aged(start)
    rank_by(queue, by_age(CAP, percent=0))
    refusing(queue, Nanoseconds(2 * SHARES_INTERVAL))
    assert gathered(queue) is None
    queue, _ = aged(start)
    nothing_is_lent(queue)
    refusing(queue, Nanoseconds(5 * SHARES_INTERVAL))
    assert gathered(queue) is None


def test_too_wide_workloads_hide_none_behind_them(start: Start) -> None:
    """However many there are of a tenant, the narrow one behind them has its turn."""
    queue = lent_out(start)
    rank_by(queue, by_age(CAP, percent=24))
    for _ in range(9):
        waits(queue, of=ART, job=a_job(2, 8))
    narrow = waits(queue, of=ART, job=a_job(1, 8))
    queue.wake()
    refusing(queue, Nanoseconds(2 * CAP))
    assert narrow == queue.state.drain.workload


@pytest.mark.parametrize("region", BOTH)
def test_older_workload_of_the_tenant_takes_the_turn(start: Start, region: RegionName) -> None:
    """A preempted workload of the same shape is older: it is asked for first, in the drained region too, and while the shape is contended it
    alone is. If it starts elsewhere, the other keeps its turn.
    """
    queue, older = aged(start)
    gang = waits(queue, of=ART, job=a_job(2, 8))
    first, *_ = queue.state.ledger.by_tenant[ART]
    ends(queue, first)
    refuse_open(queue, older)
    award(queue, older, EU)
    up(queue, older, OVER, EU, 0)
    refusing(queue, Nanoseconds(2 * CAP))
    assert (gang, EU) == gathered(queue)
    queue.fact(EU_LOG, AttemptEnded(*attempt(older, 1), EndCause.PREEMPTED, 0, 16_000))
    assert [older, gang] == list(asked(queue.wake()))
    assert (BOTH, BOTH) == (asked_in(queue, older), asked_in(queue, gang))
    refuse_all(queue)
    for log in (EU_LOG, US_LOG):
        queue.fact(log, joined("w9", 90, 1))
    queue.wake()
    assert (BOTH, ()) == (asked_in(queue, older), asked_in(queue, gang))
    assert (gang, EU) == gathered(queue)
    assert [EU, EU] == [explained(queue, one).gathered_in for one in (older, gang)]
    award(queue, older, region)
    assert (None if region == EU else (gang, EU)) == gathered(queue)


def test_workload_that_had_its_turn_comes_before_later_submissions(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was preempted since. Behind all workloads without a turn it would have no second one as long as new ones come."""
    monkeypatch.setattr("components.job_queue.quota.drain.GATHER_PATIENCE", Nanoseconds(2 * SHARES_INTERVAL))
    queue, gang = aged(start)
    (first, *_) = queue.state.ledger.by_tenant[ART]
    ends(queue, first)
    award(queue, gang, EU)
    up(queue, gang, OVER, EU, 0)
    others = [waits(queue, of=ML, job=a_job(tasks, 8)) for tasks in (2, 3, 4)]
    queue.wake()
    refusing(queue, Nanoseconds(CAP + SHARES_INTERVAL))
    assert others[0] == queue.state.drain.workload
    queue.fact(EU_LOG, AttemptEnded(*attempt(gang, 1), EndCause.PREEMPTED, 0, 16_000))
    queue.wake()
    refusing(queue, Nanoseconds(2 * SHARES_INTERVAL))
    assert gang == queue.state.drain.workload


# Drains by lag, and both.


def lagging(start: Start) -> tuple[Queue, WorkloadId]:
    """ML's gang of a node waits for capacity that no region has, and ART borrows 40 GPUs: a region is drained for ML by lag."""
    queue = lent_out(start)
    for name in (ART, ML, OPS):
        tenant(queue, name, 8, gpu_type="A100")
    for log in (EU_LOG, US_LOG):
        queue.fact(log, joined("w1", 100, 4, gpu_type="A100"))
    gang = waits(queue, 8)
    queue.wake()
    refusing(queue, CAP)
    assert (DrainReason.LAG, gang) == (queue.state.drain.reason, queue.state.drain.workload)
    return queue, gang


def test_drain_by_lag_is_told(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gang is told where, and the workload that may not borrow there for which it is."""
    monkeypatch.setattr("components.job_queue.quota.drain.LAG_SLACK", seconds(120))
    queue, gang = lagging(start)
    narrow = waits(queue, 1, of=ART)
    queue.wake()
    assert (US,) == asked_in(queue, narrow)
    assert EU == explained(queue, gang).gathered_in
    told = {one.region: (one.reason, one.kept_for) for one in explained(queue, narrow).regions}
    assert (Reason.AHEAD_OF_DUE, (gang,)) == told[EU]
    assert ("", Reason.AHEAD_OF_DUE) == (
        explained(queue, narrow).gathered_in,
        explained(queue, narrow).reason,
    )


def test_drain_by_lag_keeps_no_other_type(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """ART's work on A100 takes nothing that the gang could use, and is asked for everywhere."""
    monkeypatch.setattr("components.job_queue.quota.drain.LAG_SLACK", seconds(120))
    queue, _ = lagging(start)
    for node in range(100, 108):
        runs_on_a100(queue, node)
    other = waits(queue, of=ART, job=a_job(1, 1, gpu_type="A100"))
    queue.wake()
    assert "over" == explained(queue, other).standing
    assert BOTH == asked_in(queue, other)


def runs_on_a100(queue: Queue, node: int) -> None:
    """ART holds one more A100."""
    workload = waits(queue, of=ART, job=a_job(1, 1, gpu_type="A100"))
    award(queue, workload, EU, 100 + node % 4)
    up(queue, workload, queue.state.image.workloads.rows[workload].level, EU, 100 + node % 4)


def test_drain_by_lag_ends_with_the_award(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, wherever the gang starts; the next minute finds the next one."""
    monkeypatch.setattr("components.job_queue.quota.drain.LAG_SLACK", seconds(120))
    queue, gang = lagging(start)
    (first, *_) = queue.state.ledger.by_tenant[ART]
    ends(queue, first)
    award(queue, gang, US)
    assert queue.state.drain is None
    narrow = waits(queue, 1, of=ART)
    queue.wake()
    assert BOTH == asked_in(queue, narrow)


def test_workload_excluded_from_a_region_keeps_no_other_from_it(start: Start) -> None:
    """Of ML's narrow work one is asked for after a refusal, in US alone, for EU is drained for ART's gang. The rest is left out in US
    and not in EU, so the gang behind it is asked for there.
    """
    queue = lent_out(start)
    rank_by(queue, by_age(CAP))
    narrow = [waits(queue, 1, of=ML) for _ in range(3)]
    for one in narrow:
        queue.hear(HoldWorkload(one, 0))
    queue.wait(Nanoseconds(4 * CAP))
    gang = waits(queue, of=ART, job=a_job(2, 8))
    queue.wake()
    refusing(queue, Nanoseconds(CAP + SHARES_INTERVAL))
    assert (gang, EU) == gathered(queue)
    refuse_all(queue)
    for one in narrow:
        queue.hear(ReleaseWorkload(one, 1))
    queue.wake()
    refuse_all(queue)
    for log in (EU_LOG, US_LOG):
        queue.fact(log, joined("w9", 90, 1))
    queue.wake()
    assert explained(queue, narrow[0]).rank < explained(queue, gang).rank
    assert [(US,), (), ()] == [asked_in(queue, one) for one in narrow]
    assert (EU,) == asked_in(queue, gang)


def test_nominal_work_is_not_kept_from_a_region_drained_by_lag(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its tenant's lag; nor are bids from there taken last, as they are while a region is drained by age."""
    monkeypatch.setattr("components.job_queue.quota.drain.LAG_SLACK", seconds(60))
    queue, _ = lagging(start)
    own = waits(queue, 8, of=OPS)
    queue.wake()
    assert "within" == explained(queue, own).standing
    assert queue.state.order.tenant(OPS).lag < queue.state.order.tenant(ML).lag - seconds(60)
    assert BOTH == asked_in(queue, own)
    assert excluded(queue.state, queue.state.order.work(own)) is None


def test_drain_by_lag_goes_to_the_next_tenant_where_no_region_can_be_drained(start: Start) -> None:
    """ML's lag is the largest, and the only region in which its gang may run is silent: LATE's gang gets the drain."""
    queue = lent_out(start)
    late_tenant = TenantName("late")
    tenant(queue, OPS, 40)
    tenant(queue, late_tenant, 8)
    runs(queue, of=late_tenant, region=US, node=3)
    submit(queue, a_spec(a_job(2, 8), tenant=ML, regions=(EU,)))
    queue.wake()
    refusing(queue, CAP)
    queue.hear(LogSilent(EU_LOG))
    late = submit(queue, a_spec(a_job(1, 8), tenant=late_tenant, regions=(US,)))
    queue.wake()
    refusing(queue, CAP)
    assert late == queue.state.drain.workload


def test_no_region_is_drained_for_a_need_that_is_too_wide_or_not_lent(start: Start) -> None:
    """On H100 LATE may borrow nothing, and on A100 its workload wants more than the part."""
    queue = lent_out(start)
    for log in (EU_LOG, US_LOG):
        queue.fact(log, joined("w1", 100, 1, gpu_type="A100"))
    for name in (ART, ML, OPS):
        tenant(queue, name, 0, gpu_type="A100")
    late = TenantName("late")
    tenant(queue, late, 0, borrow_max=0)
    tenant(queue, late, 0, gpu_type="A100")
    rank_by(queue, by_age(CAP, percent=25))
    waits(queue, of=late, job=of_types(a_job(1, 8), "H100", "A100"))
    queue.wake()
    refusing(queue, Nanoseconds(2 * CAP))
    assert gathered(queue) is None


def test_patience_is_charged_while_a_region_is_drained_by_age(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ML's gang is larger than the part, and gets nothing: for no longer than patience lasts its tenant is owed more for that."""
    monkeypatch.setattr("components.job_queue.quota.drain.LAG_PATIENCE", CAP)
    queue, gang = aged(start)
    waits(queue, of=ML, job=a_job(4, 8))
    queue.wake()
    refusing(queue, Nanoseconds(3 * CAP))
    assert gang == queue.state.drain.workload
    assert CAP <= queue.state.lacking[ML][0]
