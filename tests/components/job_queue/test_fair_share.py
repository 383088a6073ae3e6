"""Fair shares of tenants while some wait to borrow, and the tenants that may not borrow meanwhile."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest
from msgspec.structs import replace

from components.job_queue.quota.drain import excluded, note_lacking
from core.codec import encode
from core.events.queue import WorkloadBound
from core.events.region import GangStarted
from core.events.tenants import RankingSet, SharesDue
from core.messages.queue import CancelWorkload, HoldWorkload, ReleaseWorkload
from core.messages.tenants import RankingAnswered, SetRanking
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after, seconds
from core.nouns.limits import (
    DUES_TOLD_MAX,
    ENTITLED_GPUS_MAX,
    ENTITLEMENTS_MAX,
    FACT_BYTES_MAX,
    NAME_LENGTH_MAX,
    SHARES_INTERVAL,
)
from core.nouns.ranking import RankingSettings
from core.nouns.reasons import Reason
from core.ranking.fair_lag import FairShare
from tests.builders import (
    EU,
    US,
    US_LOG,
    a_claim,
    a_job,
    a_spec,
    a_spread,
    attempt,
    granted,
    joined,
    of_types,
)
from tests.components.support.job_queue import Start, a_job_queue, refuse_all, refuse_for, refuse_open, submit
from tests.components.support.quota import (
    ART,
    HOUR,
    ML,
    OVER,
    Queue,
    asked,
    award,
    ends,
    explained,
    refuse,
    runs,
    tenant,
    up,
    waits,
)
from tests.matching import facts, said_once

OPS, LATE = TenantName("ops"), TenantName("late")
GPU = 1_000
MOMENTS = seconds(300)


@pytest.fixture(autouse=True)
def small_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Minutes for hours."""
    monkeypatch.setattr("components.job_queue.quota.drain.LAG_SLACK", seconds(120))


def set_patience(monkeypatch: pytest.MonkeyPatch, span: Nanoseconds) -> None:
    """Let drains of one tenant last no longer than this without a borrowed award."""
    for module in ("drain", "fair_share"):
        monkeypatch.setattr(f"components.job_queue.quota.{module}.LAG_PATIENCE", span)


def lent_out(start: Start) -> Queue:
    """64 H100 in two regions: ART is entitled to 8 and borrows 40, ML holds its 8, and OPS nothing of its 48."""
    queue = a_job_queue(start)
    tenant(queue, ART, 8)
    tenant(queue, ML, 8)
    tenant(queue, OPS, 48)
    for number in range(6):
        runs(queue, of=ART, region=US if number > 3 else EU, node=number % 4)
    runs(queue, region=US, node=2)
    return queue


def dues(queue: Queue) -> dict[TenantName, FairShare]:
    """As recorded."""
    found: dict[TenantName, FairShare] = queue.state.image.usage.dues()
    return found


def refusing(
    queue: Queue,
    span: Nanoseconds,
    reason: Reason = Reason.NO_CAPACITY,
    missing: Mapping[RegionName, int] = MappingProxyType({}),
) -> None:
    """Regions refuse all requests for so many looks at shares; requests that follow from the last look have no answer yet.

    missing   GPU milli that a region lacks; 8,000 unless named
    """
    for _ in range(span // SHARES_INTERVAL):
        refuse_all(queue, reason=reason, missing=missing)
        look_at = queue.state.shares_at or after(queue.now, SHARES_INTERVAL)
        refuse_for(queue, Nanoseconds(look_at - queue.now - 1), reason=reason, missing=missing)
        queue.wake(look_at)


def rank_by(queue: Queue, settings: RankingSettings) -> None:
    """From now on."""
    revision = queue.state.image.tenants.ranking_revision
    said_once(queue.hear(SetRanking(settings, revision)), RankingAnswered)


def test_nothing_is_due_while_nobody_waits(start: Start) -> None:
    """Whatever somebody holds: they take it from nobody."""
    queue = lent_out(start)
    assert [] == [event for event in facts(queue.wait(HOUR)) if isinstance(event, SharesDue)]
    assert 0 == queue.state.image.usage.lag(ART, queue.now)
    assert queue.state.shares_at is None


def test_what_is_due_is_recorded_while_somebody_waits(start: Start) -> None:
    """The max-min share of what is in use, by entitlement; lags grow by it, and a restart finds them."""
    queue = lent_out(start)
    lack = waits(queue, 8)
    queue.wake()
    refusing(queue, SHARES_INTERVAL)
    assert {ML: FairShare(16 * GPU, 8 * GPU), ART: FairShare(40 * GPU, 8 * GPU)} == dues(queue)
    refusing(queue, MOMENTS)
    usage = queue.state.image.usage
    lag = usage.lag(ML, queue.now)
    assert MOMENTS <= lag == -usage.lag(ART, queue.now) < MOMENTS + SHARES_INTERVAL
    again = queue.restart().state.image.usage
    assert (lag, -lag) == (again.lag(ML, queue.now), again.lag(ART, queue.now))
    queue.hear(CancelWorkload(lack))
    queue.wake()
    queue.wait(SHARES_INTERVAL)
    assert {} == dues(queue)
    queue.wait(HOUR)
    assert -MOMENTS - 2 * SHARES_INTERVAL <= usage.lag(ART, queue.now) <= -MOMENTS
    assert queue.state.shares_at is None


def test_what_is_lent_goes_first_to_who_is_behind(start: Start) -> None:
    """ART's came hours sooner, and ML used more of its quota; by the paper's rule ART is ahead, for it waited."""
    queue = lent_out(start)
    early = waits(queue, 4, of=ART)
    queue.wake()
    refusing(queue, MOMENTS)
    late = waits(queue, 4)
    queue.wake()
    refusing(queue, MOMENTS)
    assert (1, 0) == (explained(queue, early).rank, explained(queue, late).rank)
    assert {"over"} == {explained(queue, workload).standing for workload in (early, late)}
    rank_by(queue, RankingSettings(replace(RankingSettings().credit, lag_weight=0, share_weight=0)))
    assert (0, 1) == (explained(queue, early).rank, explained(queue, late).rank)
    refusing(queue, SHARES_INTERVAL)
    assert {} == dues(queue)


def behind(start: Start, reason: Reason = Reason.NO_CAPACITY) -> tuple[Queue, WorkloadId, WorkloadId]:
    """ML's gang of a node waited for some minutes for room that no region has; ART wants 1 GPU."""
    queue = lent_out(start)
    gang = waits(queue, 8)
    queue.wake()
    refusing(queue, MOMENTS, reason)
    return queue, gang, waits(queue, 1, of=ART)


def asked_in(queue: Queue, workload: WorkloadId) -> tuple[RegionName, ...]:
    """Which regions are being asked for it."""
    auction = queue.state.auctions.open.get(workload)
    return () if auction is None else auction.asked


def test_tenant_ahead_of_its_share_borrows_nothing_where_capacity_is_missing(start: Start) -> None:
    """ART had more than its share: its narrow work would take each GPU as it comes free, and the queue says so. Work of ML, which had its
    share, is asked for.
    """
    queue, gang, narrow = behind(start)
    even = waits(queue, 1)
    assert {even: OVER, narrow: OVER} == asked(queue.wake())
    assert ((EU, US), (US,)) == (asked_in(queue, even), asked_in(queue, narrow))
    refusing(queue, SHARES_INTERVAL)
    assert () == asked_in(queue, narrow)
    assert Reason.AHEAD_OF_DUE == explained(queue, narrow).reason
    queue.hear(CancelWorkload(gang))
    queue.hear(CancelWorkload(even))
    refusing(queue, SHARES_INTERVAL)
    assert EU in asked_in(queue, narrow)


def test_region_with_the_smallest_shortage_is_drained(start: Start) -> None:
    """A gang lies in one region: capacity that others left free for it elsewhere would be of no use, and is lent."""
    queue = lent_out(start)
    waits(queue, 8)
    refusing(queue, MOMENTS, missing={EU: 8_000, US: 3_000})
    narrow = waits(queue, 1, of=ART)
    queue.wake()
    assert (US, (EU,)) == (queue.state.drain.region, asked_in(queue, narrow))


def test_nominal_work_is_never_held_back(start: Start) -> None:
    """ART is ahead of its share; once all else of it has ended, its workload is within quota, and both regions are asked."""
    queue, gang, narrow = behind(start)
    queue.wake()
    refusing(queue, SHARES_INTERVAL)
    (first, *_) = queue.state.ledger.by_tenant[ART]
    ends(queue, first)
    assert {gang: (EU,)} == {workload: one.asked for workload, one in queue.state.auctions.open.items()}
    for workload in list(queue.state.ledger.by_tenant[ART]):
        ends(queue, workload, queue.state.image.workloads.rows[workload].region)
    refuse_open(queue)
    assert 3 == asked(queue.wake())[narrow]
    assert (EU, US) == asked_in(queue, narrow)


def test_no_tenant_is_held_back_for_capacity_that_does_not_come(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No region has the hardware; or the capacity did not come within `LAG_PATIENCE`."""
    queue, _, narrow = behind(start, Reason.NO_SUCH_HARDWARE)
    assert narrow in asked(queue.wake())
    queue, _, narrow = behind(start)
    queue.wake()
    assert (US,) == asked_in(queue, narrow)
    set_patience(monkeypatch, MOMENTS)
    refusing(queue, SHARES_INTERVAL)
    assert EU in asked_in(queue, narrow)


def test_ranking_by_credit_forgets_fair_shares(start: Start) -> None:
    """No tenant is held back by lags that do not count."""
    queue, _, narrow = behind(start)
    rank_by(queue, RankingSettings(replace(RankingSettings().credit, lag_weight=0)))
    assert [] == [event for event in facts(queue.wake()) if isinstance(event, RankingSet)]
    refusing(queue, SHARES_INTERVAL)
    assert EU in asked_in(queue, narrow)


def test_workload_held_back_hides_none_behind_it(start: Start) -> None:
    """ART's has waited for hours and is ahead, but held back; all three of OPS, of the same shape, are asked for nevertheless."""
    queue = lent_out(start)
    tenant(queue, OPS, 0)
    early = waits(queue, 1, of=ART)
    queue.hear(HoldWorkload(early, 0))
    queue.wait(Nanoseconds(4 * HOUR))
    waits(queue, 8)
    queue.wake()
    refusing(queue, Nanoseconds(3 * SHARES_INTERVAL))
    queue.hear(ReleaseWorkload(early, 1))
    late = [waits(queue, 1, of=OPS) for _ in range(3)]
    assert Reason.AHEAD_OF_DUE == explained(queue, early).reason
    assert explained(queue, early).rank < explained(queue, late[0]).rank
    queue.wake()
    assert {(EU, US)} == {asked_in(queue, workload) for workload in late}
    assert (US,) == asked_in(queue, early)


def test_workload_held_back_where_a_smaller_one_was_refused_elsewhere_hides_none(start: Start) -> None:
    """The region that is left to ART refused a smaller request; OPS's, of the same shape and behind it, is asked for in the other."""
    queue = lent_out(start)
    tenant(queue, OPS, 0)
    early = waits(queue, of=ART, job=a_job(2, 1))
    queue.hear(HoldWorkload(early, 0))
    queue.wait(Nanoseconds(4 * HOUR))
    waits(queue, 8)
    queue.wake()
    refusing(queue, Nanoseconds(3 * SHARES_INTERVAL))
    less = waits(queue, of=OPS, job=a_job(1, 1))
    queue.wake()
    refuse(queue, less, US)
    award(queue, less, EU)
    queue.hear(ReleaseWorkload(early, 1))
    late = waits(queue, of=OPS, job=a_job(2, 1))
    assert explained(queue, early).rank < explained(queue, late).rank
    queue.wake()
    assert ((), (EU,)) == (asked_in(queue, early), asked_in(queue, late))


def test_workload_beside_one_held_back_is_asked_for(start: Start) -> None:
    """ART's narrow work is left out: one region is drained, the other refused it. ML's of the same shape comes, and is asked for."""
    queue, _, narrow = behind(start)
    queue.wake()
    assert (US,) == asked_in(queue, narrow)
    refuse(queue, narrow, US)
    queue.wake()
    assert {} == queue.state.auctions.open
    even = waits(queue, 1)
    queue.wake()
    assert (EU,) == asked_in(queue, even)


def late_is_held_back(start: Start, monkeypatch: pytest.MonkeyPatch) -> tuple[Queue, WorkloadId, WorkloadId]:
    """Of LATE's two workloads one starts in US, and the other waits and is left out: EU is drained for ML, and US refused it."""
    set_slack(monkeypatch, seconds(95))
    queue = lent_out(start)
    tenant(queue, LATE, 6)
    tenant(queue, OPS, 42)
    starting = waits(queue, 1, of=LATE)
    award(queue, starting, US)
    jobs = queue.state.image.workloads.rows[starting].spec.jobs
    queue.fact(US_LOG, granted(a_claim(starting, 1, jobs=jobs, spreads=(a_spread({3: 1}),), region=US)))
    waits(queue, 8)
    queue.wake()
    refusing(queue, Nanoseconds(2 * SHARES_INTERVAL))
    queue.now = after(queue.now, SHARES_INTERVAL)
    waiting = waits(queue, 6, of=LATE)
    queue.wake()
    assert (US,) == asked_in(queue, waiting)
    refuse(queue, waiting, US)
    queue.wait(seconds(4))  # Less than a pass: the order has lags of the pass before.
    assert () == asked_beside(queue, 1, waiting)
    return queue, starting, waiting


def gap(queue: Queue, name: TenantName = LATE) -> int:
    """Return by how much a tenant's lag is smaller than ML's, as the order has them."""
    order = queue.state.order
    found: int = order.tenant(ML).lag - order.tenant(name).lag
    return found


def set_slack(monkeypatch: pytest.MonkeyPatch, slack: int) -> None:
    """Let a drain by lag exclude tenants whose lag is smaller by more than this."""
    monkeypatch.setattr("components.job_queue.quota.drain.LAG_SLACK", slack)


def asked_beside(queue: Queue, gpus: int, workload: WorkloadId) -> tuple[RegionName, ...]:
    """ML submits a workload of so many GPUs, which is cancelled again. Return the regions that are asked for the given one in that cycle."""
    another = waits(queue, gpus)
    queue.wake()
    assert another in queue.state.auctions.open
    found = asked_in(queue, workload)
    queue.hear(CancelWorkload(another))
    queue.wake()
    return found


def test_lag_is_counted_up_to_the_start_of_a_gang(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """When LATE's other work is up, LATE's lag is counted up to then, and no longer too small for a request in EU."""
    queue, starting, waiting = late_is_held_back(start, monkeypatch)
    order, usage = queue.state.order, queue.state.image.usage
    gained = usage.lag(LATE, queue.now) - order.tenant(LATE).lag
    assert gained > 0
    set_slack(monkeypatch, gap(queue) - gained // 2)
    assert () == asked_beside(queue, 2, waiting)
    queue.fact(US_LOG, GangStarted(*attempt(starting)))
    assert WorkloadBound in {type(one) for one in facts(queue.wake())}
    assert (EU,) == asked_beside(queue, 3, waiting)


def test_lag_is_counted_up_to_the_newest_pass(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass finds that ART's lag has become too small for a request in EU, though no fact says so."""
    queue, _, narrow = behind(start)
    queue.wake()
    refuse_all(queue)
    usage, span, before = queue.state.image.usage, RankingSettings().pass_span, gap(queue, ART)
    at = Instant((queue.now // span + 1) * span)
    later = usage.lag(ML, at) - usage.lag(ART, at)
    assert later > before
    set_slack(monkeypatch, (before + later) // 2)
    queue.now = Instant(at - 1)
    assert excluded(queue.state, queue.state.order.work(narrow)) is None
    queue.now = at
    waits(queue, 2)
    queue.wake()
    assert EU == excluded(queue.state, queue.state.order.work(narrow))


def test_lag_of_one_type_counts_no_more_of_another(start: Start) -> None:
    """ML waits for an A100, of which it is entitled to none, and is entitled to 8 H100: it is behind in time of these 8."""
    queue = a_job_queue(start, us=joined(gpu_type="A100"))
    tenant(queue, ML, 8)
    tenant(queue, OPS, 8, gpu_type="A100")
    either = of_types(a_job(1, 8), "A100")
    held = submit(queue, a_spec(either, tenant=OPS))
    award(queue, held, US)
    up(queue, held, 3, US)
    submit(queue, a_spec(either, tenant=ML))
    queue.wake()
    refusing(queue, SHARES_INTERVAL)
    assert 8 * GPU == dues(queue)[ML].weight


def test_what_is_due_to_many_is_told_in_several_facts(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is larger than a log takes; what each says stands beside what the one before it said."""
    monkeypatch.setattr("components.job_queue.quota.fair_share.DUES_TOLD_MAX", 1)
    queue = lent_out(start)
    waits(queue, 8)
    queue.wake()
    refusing(queue, SHARES_INTERVAL)
    assert {ML: FairShare(16 * GPU, 8 * GPU), ART: FairShare(40 * GPU, 8 * GPU)} == dues(queue)
    assert dues(queue) == dues(queue.restart())


def test_fact_about_what_is_due_is_never_too_large() -> None:
    """As many tenants as one tells of, with the longest names and the largest figures."""
    names = (f"{number:0{NAME_LENGTH_MAX}d}" for number in range(DUES_TOLD_MAX))
    most = ENTITLED_GPUS_MAX * GPU * ENTITLEMENTS_MAX
    told = SharesDue({TenantName(name): FairShare(most, most) for name in names}, is_more=True)
    assert len(encode(told)) < FACT_BYTES_MAX


def test_gang_submitted_again_does_not_renew_patience(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a gang that gets no capacity is cancelled and comes again, others are held back for so long and no longer."""
    set_patience(monkeypatch, MOMENTS)
    queue, gang, narrow = behind(start)
    for _ in range(3):
        queue.hear(CancelWorkload(gang))
        gang = waits(queue, 8)
        queue.wake()
        refusing(queue, Nanoseconds(MOMENTS - SHARES_INTERVAL))
        assert EU in asked_in(queue, narrow)
    before = queue.state.image.usage.lag(ML, queue.now)
    refusing(queue, SHARES_INTERVAL)
    assert before == queue.state.image.usage.lag(ML, queue.now)  # Nor is more due to it for that.


def test_borrowing_award_renews_patience(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Capacity does come for its tenant, and the tenant's next workload may wait as long."""
    set_patience(monkeypatch, Nanoseconds(2 * MOMENTS))
    queue, gang, narrow = behind(start)
    refusing(queue, Nanoseconds(2 * MOMENTS))
    assert (EU, US) == asked_in(queue, narrow)
    refuse_open(queue)
    runs(queue, 2, region=US, node=2)
    refusing(queue, Nanoseconds(3 * SHARES_INTERVAL))
    assert gang not in queue.state.ledger.awards
    assert Reason.AHEAD_OF_DUE == explained(queue, narrow).reason


def test_what_is_awarded_counts_before_it_is_up(start: Start) -> None:
    """It holds its nodes, and who waits for a gang's last task is owed nothing by that."""
    queue = a_job_queue(start)
    tenant(queue, ART, 8)
    tenant(queue, ML, 8)
    for node in range(2):
        runs(queue, node=node)
    for node in range(3):
        award(queue, waits(queue, 8, of=ART), US, node)
    waits(queue, 8)
    queue.wake()
    refusing(queue, MOMENTS)
    assert {ML: FairShare(20 * GPU, 8 * GPU), ART: FairShare(20 * GPU, 8 * GPU)} == dues(queue)
    usage = queue.state.image.usage
    assert -usage.lag(ML, queue.now) == usage.lag(ART, queue.now) < -MOMENTS // 4


def test_types_without_quota_count_for_nobody(start: Start) -> None:
    """Whatever somebody holds of them, between two looks or for long."""
    queue = a_job_queue(start, us=joined(gpu_type="A100"))
    tenant(queue, ART, 8)
    tenant(queue, ML, 8)
    for node in range(3):
        runs(queue, of=ART, node=node)
    waits(queue, 8)
    queue.wake()
    refusing(queue, SHARES_INTERVAL)
    usage = queue.state.image.usage
    before, at, due = usage.lag(ML, queue.now), queue.now, dues(queue)[ML]
    one = submit(queue, a_spec(of_types(a_job(1, 8), "A100"), tenant=ML))
    award(queue, one, US)
    up(queue, one, 3, US)
    queue.wait(seconds(50))
    assert due.gpu_milli * (queue.now - at) // due.weight == usage.lag(ML, queue.now) - before


def test_who_waits_without_holding_others_back_loses_no_patience(start: Start) -> None:
    """In a crowd everybody lacks room all the time: patience is of whoever is furthest behind, and of nobody else."""
    queue, _, _ = behind(start)
    state, before = queue.state, queue.state.lacking[ML][0]
    for _ in range(3):
        note_lacking(state, (ART, ML), queue.now)
    assert (before + 3 * SHARES_INTERVAL, 0) == (state.lacking[ML][0], state.lacking[ART][0])
