"""What becomes of what runs, waits or was promised a start when quotas, budgets or priorities change."""

from components.job_queue.reservations import shown_start
from core.events.queue import StandingChanged, WorkloadAwarded
from core.events.starts import StartPromiseEnded, StartReserved
from core.events.tenants import EntitlementSet
from core.images.queue_reservations import PromisedStart
from core.messages.queue import SetPriority
from core.messages.starts import SubmissionTested, TestSubmission
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import RESERVE_AFTER
from core.nouns.reasons import Reason
from core.nouns.starts import EarliestStart, StartOver
from core.nouns.tenant import OVER_LEVEL, UNLIMITED
from core.nouns.workload import Kind
from tests.builders import EU, EU_LOG, US, a_job, a_spec, a_spread, joined
from tests.components.support.job_queue import W1, W2, Start, a_job_queue, abstain
from tests.components.support.quota import (
    ART,
    HOUR,
    ML,
    OVER,
    Queue,
    asked,
    award,
    bids,
    budget,
    explained,
    levels,
    refuse,
    runs,
    tenant,
    up,
    waits,
)
from tests.matching import facts, said_once

BIO = TenantName("bio")


# The first entitlement of a type.


def test_first_entitlement_of_a_type_puts_others_over_quota(start: Start) -> None:
    """All that runs on it and is nobody's guarantee is over quota before it is under quota, whoever's it is; other types are not."""
    queue = a_job_queue(start, us=joined(gpu_type="A100"))
    tenant(queue, ML)
    tenant(queue, ART)
    mine, theirs = runs(queue, of=ML), runs(queue, of=ART, node=1)
    other = waits(queue, of=ART, job=a_job(1, 8, gpu_type="A100"))
    award(queue, other, US)
    up(queue, other, 3, US)
    assert {mine: 3, theirs: 3, other: 3} == levels(queue)
    recorded = facts(tenant(queue, ML, 8))
    kinds = [type(event) for event in recorded]
    assert kinds.index(StandingChanged) < kinds.index(EntitlementSet)
    queue.wake()
    assert {mine: 3, theirs: OVER, other: 3} == levels(queue)
    assert "over" == explained(queue, waits(queue, of=ART)).standing
    assert "within" == explained(queue, waits(queue, of=ART, job=a_job(1, 8, gpu_type="A100"))).standing


def test_first_entitlement_while_an_auction_is_open(start: Start) -> None:
    """It was asked for within quota, and is over it by now: what was bid is void, and it is asked for again as it stands."""
    queue = a_job_queue(start)
    tenant(queue, ML)
    tenant(queue, ART)
    waits(queue, of=ART)
    queue.wake()
    tenant(queue, ML, 8)
    bids(queue, W1)
    queue.wake()
    assert {} == levels(queue)
    assert OVER == queue.state.auctions.open[W1].shape.level
    bids(queue, W1)
    queue.wake()
    assert {W1: OVER} == levels(queue)


# Lending.


def test_borrower_waits_for_an_award_of_the_same_moment(start: Start) -> None:
    """8 of 64 are left, ART takes them within quota; ML, which would borrow them, gets none of what is ART's by then."""
    queue = a_job_queue(start)
    tenant(queue, ML, 0)
    tenant(queue, ART, 64)
    for number in range(7):
        runs(queue, of=ART, region=EU if number < 4 else US, node=number % 4)
    theirs, mine = waits(queue, of=ART), waits(queue)
    assert {theirs: 3, mine: OVER} == asked(queue.wake())
    bids(queue, theirs, US, node=3)
    bids(queue, mine, US, node=3)
    queue.wake()
    assert 3 == levels(queue)[theirs]
    assert mine not in levels(queue)


# Budgets.


def test_budget_counts_without_any_entitlement(start: Start) -> None:
    """Of no type is anybody entitled to some; once its GPU-hours are used nothing more of the tenant starts, and what runs is over quota."""
    queue = a_job_queue(start)
    tenant(queue, ML)
    tenant(queue, ART)
    budget(queue, 8)
    runs(queue)
    queue.wait(HOUR)
    queue.wake()
    assert {W1: OVER} == levels(queue)
    waits(queue)
    assert {} == asked(queue.wake())
    assert ("held", Reason.BUDGET_SPENT) == (explained(queue, W2).standing, explained(queue, W2).reason)
    theirs = runs(queue, of=ART, node=1)
    assert 3 == levels(queue)[theirs]
    budget(queue, 100)
    queue.wake()
    assert 3 == levels(queue)[W1]
    assert "within" == explained(queue, W2).standing


# Promised starts.


def promised(start: Start, borrow_max: int = UNLIMITED) -> tuple[Queue, WorkloadId]:
    """A gang of ML's that is within a quota of 16 was promised a start in EU, which reserved it."""
    queue = a_job_queue(start)
    tenant(queue, ML, 16, borrow_max=borrow_max)
    tenant(queue, ART, 16)
    gang = waits(queue, job=a_job(2, 8))
    queue.wake()
    for region in queue.state.auctions.open[gang].asked:
        refuse(queue, gang, region)
    queue.wake()
    queue.wait(RESERVE_AFTER)
    auction = queue.state.auctions.open[gang]
    for region in auction.asked:
        prospect = EarliestStart(seconds(600), (a_spread({0: 1, 1: 1}),)) if region == EU else None
        abstain(queue, auction.auction, region, workload=gang, prospect=prospect)
    queue.wake()
    row: PromisedStart = queue.state.image.start_promises.rows[gang]
    spec = queue.state.image.workloads.rows[gang].spec
    queue.fact(
        EU_LOG,
        StartReserved(
            gang,
            row.revision,
            Nanoseconds(row.free_at - queue.now),
            row.level,
            Kind.TRAINING,
            ML,
            spec.jobs,
            row.spreads,
            row.sequence,
        ),
    )
    queue.wake()
    assert shown_start(queue.state, gang, queue.now) is not None
    return queue, gang


def over_for(queue: Queue) -> list[StartOver]:
    """Why promises have ended within a few seconds."""
    recorded = facts(queue.wake()) + facts(queue.wait(seconds(10)))
    return [event.reason for event in recorded if isinstance(event, StartPromiseEnded)]


def test_promise_ends_once_its_workload_is_over_quota(start: Start) -> None:
    """What was kept for it at its level is not kept for what may be pushed out; so where it is held, too, and at a lower priority."""
    for gpus, borrow_max in ((0, UNLIMITED), (8, UNLIMITED), (8, 0)):
        queue, gang = promised(start)
        tenant(queue, ML, gpus, borrow_max=borrow_max)
        assert [StartOver.NO_TURN] == over_for(queue)
        assert gang not in queue.state.image.start_promises.rows
        assert ("held" if borrow_max == 0 else "over") == explained(queue, gang).standing
    queue, gang = promised(start)
    queue.hear(SetPriority(gang, 0, 1))
    assert [StartOver.NO_TURN] == over_for(queue)


def test_promise_stands_while_its_workload_is_within_quota(start: Start) -> None:
    """However much its tenant's quota changes beside it."""
    queue, gang = promised(start)
    tenant(queue, ML, 24)
    tenant(queue, BIO, 8)
    assert [] == over_for(queue)
    queue.hear(SetPriority(gang, 0, 3))
    assert [] == over_for(queue)
    assert shown_start(queue.state, gang, queue.now) is not None


# Estimates.


def test_no_start_is_estimated_of_a_blocked_workload(start: Start) -> None:
    """Its tenant may borrow no more or has no GPU-hours left: when that changes cannot be known."""
    queue = a_job_queue(start)
    tenant(queue, ML, 8, borrow_max=0)
    tenant(queue, ART, 16)
    runs(queue)
    held = waits(queue)
    assert held not in queue.state.image.starts.awaited
    told = explained(queue, held)
    assert ("held", None) == (told.standing, told.start)
    tested = said_once(queue.hear(TestSubmission(a_spec(a_job(1, 8), tenant=ML), "ada")), SubmissionTested)
    assert ("held", None) == (tested.standing, tested.start)
    theirs = waits(queue, of=ART)
    assert explained(queue, theirs).start is not None
    assert theirs in queue.state.image.starts.awaited


def test_start_is_judged_unless_the_priority_was_changed(start: Start) -> None:
    """It starts at another time than was estimated, and that is no error of the estimate."""
    queue = a_job_queue(start)
    for number in range(2):
        waiting = waits(queue)
        assert waiting in queue.state.image.starts.awaited
        if number:
            queue.hear(SetPriority(waiting, 0, 5))
            assert waiting not in queue.state.image.starts.awaited
        (event,) = [one for one in award(queue, waiting, node=number) if isinstance(one, WorkloadAwarded)]
        up(queue, waiting, event.level or 0, node=number)
    assert 1 == queue.state.image.starts.judged
    assert OVER_LEVEL not in levels(queue).values()
