"""Who is asked for first, and at which level: by quota, by credit, and by the rules of the paper."""

import msgspec

from core.codec import encode
from core.events.queue import WorkloadAwarded
from core.events.tenants import RankingSet
from core.messages.broker import ExecuteAward
from core.messages.queue import (
    CancelWorkload,
    HoldWorkload,
    WorkloadExplained,
)
from core.messages.tenants import RankingAnswered, SetRanking
from core.nouns.instant import seconds
from core.nouns.limits import AWARD_SAY_AGAIN, CREDIT_MAX, NUMBER_MAX
from core.nouns.ranking import CreditSettings, RankingSettings
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import Kind
from tests.builders import EU, US, joined
from tests.components.support.job_queue import W1, W2, W3, W4, Start, a_job_queue, refuse_open
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
    levels,
    listed,
    refuse,
    runs,
    tenant,
    waits,
    with_quota,
)
from tests.matching import facts, said_once

# Within quota and over it.


def test_within_quota_is_asked_for_before_over_quota(start: Start) -> None:
    """M19, M8: whoever came first; over quota at a level below every tenant's, and a smaller one behind is still within."""
    queue = with_quota(start, 12)
    assert [W1, W2, W3, W4] == [waits(queue), waits(queue), waits(queue, of=ART), waits(queue, 4)]
    assert [(W1, 3), (W3, 3), (W4, 3), (W2, OVER)] == list(asked(queue.wake()).items())


def test_over_quota_has_the_capacity_that_is_left(start: Start) -> None:
    """M19: two want the last node, and it is ML's; ART, which came first and is over quota, is asked for only at the lowest level."""
    queue = with_quota(start, 32)
    tenant(queue, ART, 0)
    assert [W1, W2] == [waits(queue, of=ART), waits(queue)]
    assert [(W2, 3), (W1, OVER)] == list(asked(queue.wake()).items())
    refuse(queue, W2, EU)
    refuse(queue, W2, US)
    (event,) = award(queue, W1)
    assert isinstance(event, WorkloadAwarded)
    assert (OVER, {"H100": 8_000}) == (event.level, event.charge)
    assert OVER == said_once(queue.wait(AWARD_SAY_AGAIN), ExecuteAward).priority
    assert (3, True) == (listed(queue, W1).priority, listed(queue, W1).is_over)


def test_no_work_is_over_quota_before_a_tenant_is_entitled(start: Start) -> None:
    """Of a type: a tenant without entitlements makes none, and neither does quota of another type."""
    queue = a_job_queue(start, us=joined(gpu_type="A100"))
    tenant(queue, ML, 8, gpu_type="A100")
    waits(queue)
    assert {W1: 3} == asked(queue.wake())
    refuse_open(queue, reason=Reason.OPEN_BIDS)
    tenant(queue, ML, 0)
    waits(queue)
    assert {W1: OVER, W2: OVER} == asked(queue.wake())
    assert "over" == explained(queue, W1).standing == explained(queue, W2).standing
    assert OVER_LEVEL == explained(queue, W2).level


def test_interactive_work_is_never_over_quota(start: Start) -> None:
    """It would never be pushed out, so it is lent nothing: it waits until there is quota for it."""
    queue = with_quota(start)
    running = runs(queue)
    candidates = waits(queue, kind=Kind.INTERACTIVE)
    assert {} == asked(queue.wake())
    told = explained(queue, candidates)
    assert ("held", Reason.BORROWED_ALL, OVER) == (told.standing, told.reason, told.level)
    ends(queue, running)
    assert candidates in queue.state.auctions.open
    assert 3 == queue.state.auctions.open[candidates].shape.level


# Rules of the ranking.


def rank_by(queue: Queue, settings: RankingSettings) -> None:
    """From now on."""
    revision = queue.state.image.tenants.ranking_revision
    decision = queue.hear(SetRanking(settings, revision))
    assert [RankingSet(revision + 1, settings)] == facts(decision)
    assert RankingAnswered(settings, revision + 1) == said_once(decision, RankingAnswered)


def test_borrowed_gpus_fill_the_quota_as_in_the_paper(start: Start) -> None:
    """ML holds 8 of its 12, and 8 beyond: 4 more are within by our rule, and over by the paper's."""
    queue = with_quota(start, 12)
    runs(queue)
    runs(queue, node=1)
    waits(queue, 4)
    assert {W1: 3, W2: OVER} == levels(queue)
    assert "within" == explained(queue, W3).standing
    rank_by(queue, RankingSettings(counts_borrowed=True))
    assert "over" == explained(queue, W3).standing
    assert {W1: 3, W2: OVER} == levels(queue)
    rank_by(queue, RankingSettings())
    assert "within" == explained(queue, W3).standing


def test_walk_by_credit_as_in_the_paper(start: Start) -> None:
    """Of a tenant's work the higher level takes its quota first; by the paper's rule whoever has more credit."""
    queue = with_quota(start)
    waits(queue, priority=1)
    waits(queue, priority=3)
    assert ("over", "within") == (explained(queue, W1).standing, explained(queue, W2).standing)
    rank_by(queue, RankingSettings(walks_by_level=False))
    assert ("within", "over") == (explained(queue, W1).standing, explained(queue, W2).standing)


def test_share_of_the_mean_as_in_the_paper(start: Start) -> None:
    """M9: ML used everything, and is entitled to seven eighths of it; by the paper's rule its share is a half."""
    queue = a_job_queue(start)
    tenant(queue, ML, 56)
    tenant(queue, ART, 8)
    runs(queue)
    queue.wait(HOUR)
    waits(queue)
    weight = RankingSettings().credit.share_weight
    before = explained(queue, W2)
    assert -(weight // 7) - 1 <= before.credit <= -(weight // 7) + 1
    rank_by(queue, RankingSettings(shares_by_entitlement=False, pass_span=seconds(300)))
    assert -weight == explained(queue, W2).credit
    assert before.pass_number > explained(queue, W2).pass_number


def test_credit_beyond_the_largest_number_of_a_message(start: Start) -> None:
    """Any credit is told, at most as the largest number that a message holds."""
    queue = with_quota(start)
    waits(queue)
    rank_by(queue, RankingSettings(CreditSettings(age_weight=CREDIT_MAX)))
    queue.wait(HOUR)
    answer = explained(queue, W1)
    assert NUMBER_MAX == answer.credit
    assert answer == msgspec.msgpack.decode(encode(answer), type=WorkloadExplained)


def test_use_of_another_changes_the_order_at_the_next_pass(start: Start) -> None:
    """M9: ART came later, and is ahead once ML's use was counted; passes are numbered."""
    queue = with_quota(start, 64)
    tenant(queue, ART, 64)
    runs(queue)
    waits(queue)
    waits(queue, of=ART)
    pass_number = explained(queue, W2).pass_number
    assert (0, 1) == (explained(queue, W2).rank, explained(queue, W3).rank)
    queue.wait(seconds(10))
    assert pass_number + 1 == explained(queue, W2).pass_number
    assert (1, 0) == (explained(queue, W2).rank, explained(queue, W3).rank)


def test_tenant_without_work_counts_in_no_share(start: Start) -> None:
    """Nor after a restart: a tenant that has held work alone does until that work ends, if no operator made it and it used nothing."""
    queue = a_job_queue(start)
    held = waits(queue, of=ART)
    queue.hear(HoldWorkload(held, 0))
    runs(queue)
    queue.wait(HOUR)
    waits(queue)
    weight = RankingSettings().credit.share_weight
    assert -weight == explained(queue, W3).credit == explained(queue.restart(), W3).credit
    assert queue.state.order.knows(ART)
    queue.hear(CancelWorkload(held))
    assert not queue.state.order.knows(ART)
    assert explained(queue, W3).credit == explained(queue.restart(), W3).credit


def test_workload_submitted_after_the_newest_pass_is_not_over_quota(start: Start) -> None:
    """By the paper's passes it has no place yet, and that is its reason."""
    queue = with_quota(start, 0)
    rank_by(queue, RankingSettings(is_in_passes=True, pass_span=seconds(300)))
    waits(queue)
    told = explained(queue, W1)
    assert ("held", Reason.NOT_RANKED) == (told.standing, told.reason)
    assert not listed(queue, W1).is_over
    queue.wait(seconds(300))
    assert "over" == explained(queue, W1).standing
    assert listed(queue, W1).is_over
