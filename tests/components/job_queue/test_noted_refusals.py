"""Refusals as facts: what is recorded of the reasons for which every region refuses a shape, when, and that no decision depends on it."""

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from components.job_queue.state.asked_shape import digest
from core.codec import encode
from core.events.queue import NotedRefusal, RefusalsNoted, RefusedShape
from core.fact import Event
from core.images.refusals import Refusals
from core.messages.base import LogSilent
from core.messages.queue import (
    CancelWorkload,
    ExplainWorkload,
    HoldWorkload,
    RegionOutlook,
    WorkloadExplained,
)
from core.messages.regions import AbandonRegion
from core.messages.tenants import SetRanking
from core.nouns.ids import GLOBAL_LOG, DatasetName, RegionName, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds, after, seconds
from core.nouns.limits import (
    FACT_BYTES_MAX,
    NOTED_AT_ONCE_MAX,
    NOTED_INTERVAL,
    NOTED_STEP,
    OPEN_BIDS_RETRY,
)
from core.nouns.placement import Shortage
from core.nouns.ranking import RankingSettings
from core.nouns.reasons import LASTING, Reason
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, START, US, US_LOG, a_fact, a_job, a_spec, amount, joined
from tests.components.job_queue.test_negative_cache import SHAPES, Planet
from tests.components.support.job_queue import (
    W1,
    W2,
    W3,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    bid,
    ended,
    grant,
    large,
    refuse_all,
    refuse_for,
    refuse_open,
    small,
    submit,
)
from tests.components.support.machine import Machine
from tests.components.support.quota import tenant
from tests.matching import said_once

Queue = Machine[Any]  # Any: the queue's state
LONG = Nanoseconds(2 * NOTED_INTERVAL)
"""A reason that holds for so long is recorded, unless more shapes wait than one part of a walk holds."""
SHORTAGE = Shortage("main", 1, 0, 4, amount(9), amount(8))


def noted(queue: Queue) -> list[RefusalsNoted]:
    """All that was recorded, in order."""
    return [fact.event for fact in queue.logs[GLOBAL_LOG] if isinstance(fact.event, RefusalsNoted)]


def reasons(queue: Queue) -> list[dict[RegionName, str]]:
    """By region, of each shape that was recorded, in order."""
    return [against(shape) for fact in noted(queue) for shape in fact.shapes]


def against(shape: RefusedShape) -> dict[RegionName, str]:
    """The reasons against one shape, by region."""
    return {one.region: one.reason for one in shape.refusals}


def outlook(queue: Queue, workload: WorkloadId = W1, region: RegionName = EU) -> RegionOutlook:
    """What a region says to a workload, as explained to its user."""
    return next(one for one in explained(queue, workload).regions if one.region == region)


def explained(queue: Queue, workload: WorkloadId = W1) -> WorkloadExplained:
    """The whole explanation."""
    return said_once(queue.hear(ExplainWorkload(workload)), WorkloadExplained)


def refused(start: Start, *, reason: Reason = Reason.NO_CAPACITY) -> Queue:
    """A queue in which W1 was refused, for long enough to be recorded."""
    queue = a_job_queue(start)
    submit(queue, small())
    abstain(queue, auction_of(queue.wake()), reason=reason, missing=3_000, shortage=SHORTAGE)
    queue.wait(LONG)
    return queue


# What is recorded.


@pytest.mark.parametrize("reason", sorted(LASTING - {Reason.NO_DATA, Reason.REGION_ABANDONED}))
def test_reason_that_lasts_is_recorded(start: Start, reason: Reason) -> None:
    """M11: once two looks have found it, with the shape, an example, the figures of the refusal, and for how long it has held."""
    queue = refused(start, reason=reason)
    (fact,) = noted(queue)
    (shape,) = fact.shapes
    assert (W1, ()) == (shape.workload, fact.gone)
    assert (NotedRefusal(EU, reason, NOTED_INTERVAL, 3_000, 0, SHORTAGE),) == shape.refusals


def test_reason_that_passes_is_not_recorded(start: Start) -> None:
    """A region that offers its capacity to others is asked again in seconds, however often it says so."""
    assert Reason.OPEN_BIDS not in LASTING
    queue = a_job_queue(start)
    submit(queue, small())
    refuse_for(queue, LONG, reason=Reason.OPEN_BIDS, missing={EU: 0})
    assert [] == noted(queue)


def test_refusal_is_not_recorded_while_a_region_has_not_refused(start: Start) -> None:
    """US has not answered yet, and may still bid."""
    queue = a_job_queue(start)
    submit(queue)
    abstain(queue, auction_of(queue.wake()))
    queue.wait(LONG)
    assert (Reason.NO_CAPACITY, "") == (outlook(queue).reason, outlook(queue, region=US).reason)
    assert [] == noted(queue)


def test_silent_region_is_left_out(start: Start) -> None:
    """The others' reasons are recorded; a region that fell silent changes nothing of what is recorded."""
    queue = a_job_queue(start)
    submit(queue)
    refuse_for(queue, LONG)
    assert [{EU: Reason.NO_CAPACITY, US: Reason.NO_CAPACITY}] == reasons(queue)
    queue.hear(LogSilent(EU_LOG))
    refuse_for(queue, LONG)
    assert 1 == len(noted(queue))
    submit(queue, large())
    queue.wait(LONG)
    assert 1 == len(noted(queue)), "EU, the only region of this one, is silent"
    submit(queue, a_spec(a_job(3, 8)))
    refuse_for(queue, LONG)
    assert {US: Reason.NO_CAPACITY} == reasons(queue)[-1]


def test_region_that_is_never_asked_is_recorded(start: Start) -> None:
    """M11: for want of data or of the node type, or because an operator abandoned the region: no agent need say so."""
    queue = a_job_queue(start, eu=joined(gpu_type="A100"))
    submit(queue, a_spec(data=[DatasetName("clicks")]))
    submit(queue)
    refuse_for(queue, LONG)
    assert {
        W1: {EU: Reason.NO_SUCH_HARDWARE, US: Reason.NO_DATA},
        W2: {EU: Reason.NO_SUCH_HARDWARE, US: Reason.NO_CAPACITY},
    } == {one.workload: against(one) for fact in noted(queue) for one in fact.shapes}
    queue.hear(LogSilent(US_LOG))
    queue.hear(AbandonRegion(US, 0))
    queue.wait(LONG)
    assert [{US: Reason.REGION_ABANDONED}] * 2 == reasons(queue)[2:]


def test_work_that_quota_blocks_is_not_recorded(start: Start) -> None:
    """No region is asked for it: its reason is in the settings of its tenant."""
    queue = a_job_queue(start)
    ml = TenantName("ml")
    tenant(queue, ml, 0, borrow_max=0)
    submit(queue, replace(small(), tenant=ml))
    queue.wait(LONG)
    assert (Reason.BORROWED_ALL, []) == (explained(queue).reason, noted(queue))


def test_region_is_asked_again_in_vain(start: Start) -> None:
    """Other figures are no other reason: nothing is recorded. Another reason is, once it has lasted, with the one before kept."""
    queue = refused(start)
    other = WorkloadId("w-8")
    queue.fact(EU_LOG, grant(1, other), ended(EndCause.COMPLETED, 1, other, gpu_milli=3_000))
    refuse_for(queue, LONG, missing={EU: 5_000})
    assert (1, 5_000) == (len(noted(queue)), outlook(queue).missing_gpu_milli)
    queue.fact(EU_LOG, grant(2, other), ended(EndCause.COMPLETED, 2, other, gpu_milli=5_000))
    began = queue.now
    refuse_for(queue, NOTED_INTERVAL, reason=Reason.START_RESERVED)
    assert 1 == len(noted(queue)), "it has not lasted yet"
    refuse_for(queue, NOTED_INTERVAL, reason=Reason.START_RESERVED)
    assert [{EU: Reason.START_RESERVED}] == reasons(queue)[1:]
    (row,) = queue.state.image.refusals.rows.values()
    held = row.regions[EU]
    first = after(START, NOTED_INTERVAL)
    assert (Reason.START_RESERVED, [(Reason.NO_CAPACITY, first)]) == (held.reason, held.before)
    assert began <= held.since <= after(began, NOTED_INTERVAL)


def test_reason_that_held_at_one_look_alone(start: Start) -> None:
    """Another was there at the next: neither has lasted."""
    queue = a_job_queue(start)
    submit(queue, small())
    for number, reason in enumerate((Reason.NO_CAPACITY, Reason.START_RESERVED), 1):
        refuse_for(queue, NOTED_INTERVAL, reason=reason)
        assert reason == outlook(queue).reason
        queue.fact(EU_LOG, joined(f"w{number + 8}", number + 8, 1))
    assert [] == noted(queue)


def test_reason_is_recorded_where_the_order_is_kept_in_passes(start: Start) -> None:
    """Of the workloads in the newest pass: one that came since has not been asked for."""
    queue = a_job_queue(start)
    queue.hear(SetRanking(RankingSettings(is_in_passes=True, pass_span=Nanoseconds(10 * LONG)), 0))
    for spec in (small(), large()):
        submit(queue, spec)
    queue.wake(queue.state.passes_at)
    refuse_for(queue, NOTED_INTERVAL)
    submit(queue, a_spec(a_job(3, 8), regions=[EU]))
    refuse_for(queue, LONG)
    assert [W1, W2] == sorted(shape.workload for fact in noted(queue) for shape in fact.shapes)


def test_walk_ends_when_nothing_changes(start: Start) -> None:
    """Nothing is due for the sake of refusals that are recorded, for a day or for ever."""
    queue = refused(start)
    assert queue.state.refusal_walk.at is None
    queue.wait(seconds(300))
    assert 1 == len(noted(queue))


# How much.


def test_many_shapes_are_recorded_part_by_part(start: Start) -> None:
    """A fact in `NOTED_STEP` at most, of `NOTED_AT_ONCE_MAX` shapes at most, that fits; and in the end every shape is recorded."""
    count = 3 * NOTED_AT_ONCE_MAX + 5
    queue = a_job_queue(start)
    for number in range(count):
        submit(queue, a_spec(a_job(1, 8, cpus=number / 10)))
    refuse_for(queue, Nanoseconds(2 * NOTED_INTERVAL + 8 * NOTED_STEP))
    facts = [fact for fact in queue.logs[GLOBAL_LOG] if isinstance(fact.event, RefusalsNoted)]
    sizes = [len(fact.event.shapes) for fact in facts if isinstance(fact.event, RefusalsNoted)]
    assert [NOTED_AT_ONCE_MAX] * 3 + [5] == sizes
    assert all(later.at - sooner.at >= NOTED_STEP for sooner, later in pairwise(facts))
    assert all(len(encode(fact.event)) <= FACT_BYTES_MAX for fact in facts)
    assert count == len(queue.state.image.refusals.rows)


def test_fact_about_long_refusals_fits(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond `NOTED_BYTES_MAX` no further shape is added; the rest follows in the next part."""
    monkeypatch.setattr("components.job_queue.auction.noting.NOTED_BYTES_MAX", 1_500)
    queue = a_job_queue(start)
    shortage = replace(SHORTAGE, changes=("x" * 400,))
    for number in range(8):
        submit(queue, a_spec(a_job(1, 8, cpus=number), regions=[EU]))
    while asked(opened := queue.wake()):
        for workload, _ in asked(opened):
            name = WorkloadId(workload)
            abstain(queue, auction_of(opened, name), workload=name, shortage=shortage, missing=8_000)
    queue.wait(Nanoseconds(LONG + 4 * NOTED_STEP))
    assert [3, 3, 2] == [len(fact.shapes) for fact in noted(queue)]
    assert 8 == len(queue.state.image.refusals.rows)


def test_shape_that_no_workload_has_any_more_is_dropped(start: Start) -> None:
    """W1 is cancelled, W2 held: no workload of either shape waits. Both leave beside the next reason; the last when nothing waits."""
    queue = a_job_queue(start)
    for spec in (small(), large()):
        submit(queue, spec)
    refuse_for(queue, LONG)
    queue.hear(CancelWorkload(W1))
    queue.hear(HoldWorkload(W2, 0))
    submit(queue, a_spec(a_job(3, 8), regions=[EU]))
    refuse_for(queue, LONG)
    assert [(2, 0), (1, 2)] == [(len(fact.shapes), len(fact.gone)) for fact in noted(queue)]
    assert [W3] == [row.workload for row in queue.state.image.refusals.rows.values()]
    queue.hear(CancelWorkload(W3))
    queue.wait(LONG)
    assert {} == queue.state.image.refusals.rows


def test_oldest_refusals_leave_beyond_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shape noted last longest ago makes way, and of one region only the newest reasons are kept."""
    monkeypatch.setattr("core.images.refusals.NOTED_SHAPES_MAX", 2)
    monkeypatch.setattr("core.images.refusals.NOTED_BEFORE_MAX", 1)
    section = Refusals()
    for number, (request, reason) in enumerate(
        [("a", "no_capacity"), ("b", "no_data"), ("a", "no_data"), ("a", "over_limit"), ("c", "no_data")], 1
    ):
        event = RefusalsNoted(
            (RefusedShape(request, request, W1, (NotedRefusal(EU, reason, NOTED_INTERVAL),)),)
        )
        section._noted(a_fact(event, number, log=GLOBAL_LOG))
    assert ["a", "c"] == list(section.rows)
    held = section.rows["a"].regions[EU]
    assert ("over_limit", ["no_data"]) == (held.reason, [reason for reason, _ in held.before])


# What users are told.


def test_explanation_says_for_how_long(start: Start) -> None:
    """The present reason and those before, since the submission: a workload that came later was not refused before it came."""
    queue = refused(start)
    queue.wait(seconds(100))
    found = outlook(queue).noted
    assert [(Reason.NO_CAPACITY, queue.now - START - NOTED_INTERVAL)] == [
        (one.reason, one.held) for one in found
    ]
    later = submit(queue, small())
    queue.wait(seconds(5))
    (one,) = outlook(queue, later).noted
    assert (Reason.NO_CAPACITY, seconds(5)) == (one.reason, one.held)


def test_queue_that_starts_again_tells_why_a_workload_waits(start: Start) -> None:
    """With the figures, before any region has answered; but the regions are asked, and what they say now counts."""
    queue = refused(start)
    again = queue.restart(at=after(queue.now, seconds(60)))
    found = explained(again)
    assert Reason.NO_CAPACITY == found.reason
    held = outlook(again)
    assert (Reason.NO_CAPACITY, 3_000, SHORTAGE) == (held.reason, held.missing_gpu_milli, held.shortage)
    assert again.now - START - NOTED_INTERVAL == held.noted[0].held
    opened = again.wake()
    assert [(W1, EU)] == asked(opened)
    assert Reason.NO_CAPACITY == explained(again).reason
    abstain(again, auction_of(opened), reason=Reason.START_RESERVED)
    again.wake()
    held = outlook(again)
    assert (Reason.START_RESERVED, [Reason.NO_CAPACITY]) == (held.reason, [one.reason for one in held.noted])


def test_queue_that_starts_again_knows_no_region(start: Start) -> None:
    """The region does not answer: that is the reason now, and the one before is told beside it."""
    queue = refused(start)
    queue.unknown = (EU_LOG,)
    again = queue.restart()
    held = outlook(again)
    assert (Reason.REGION_UNREACHABLE, [Reason.NO_CAPACITY]) == (
        held.reason,
        [one.reason for one in held.noted],
    )


# That no decision depends on it.


class Recorded(Planet):
    """A planet whose days are as long, whatever the queue is woken for."""

    def step(self) -> list[tuple[WorkloadId, RegionName]]:
        """One event, and all that follows until a fixed time."""
        self.steps += 1
        if self.running and self.dice.random() < 0.45:
            self.end(self.dice.choice(sorted(self.running)))
        else:
            tasks, gpus = self.dice.choice(SHAPES)
            submit(self.queue, a_spec(a_job(tasks, gpus), priority=self.dice.randint(0, 6)))
        end = after(START, Nanoseconds(self.steps * OPEN_BIDS_RETRY))
        awards = self.all_that_follows(Nanoseconds(0))
        while (due := self.queue.component.due(self.queue.state)) is not None and due <= end:
            self.queue.now = max(self.queue.now, due)
            awards += self.all_that_follows(Nanoseconds(0))
        self.queue.now = max(self.queue.now, end)
        return awards

    def facts(self) -> list[Event]:
        """All that was recorded but refusals."""
        facts = [fact.event for fact in self.queue.logs[GLOBAL_LOG]]
        return [event for event in facts if isinstance(event, Event) and not isinstance(event, RefusalsNoted)]


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_decided_by_it(start: Start, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same is awarded at the same times, in a long and busy life, if what is recorded is never folded."""
    planet = Recorded(start, seed)
    expected = [planet.step() for _ in range(100)]
    monkeypatch.setattr(Refusals, "FOLDS", {})
    other = Recorded(start, seed)
    other.queue.crew.remove(other.queue)  # Its image is none that a replay would give.
    assert expected == [other.step() for _ in range(100)]
    assert planet.facts() == other.facts()
    assert len(noted(planet.queue)) > 5
    assert {} == other.queue.state.image.refusals.rows


def test_shape_that_waits_is_not_gone(start: Start) -> None:
    """Though shapes before it leave between two parts of a walk, so that the walk passes it over."""
    queue = a_job_queue(start)
    count = NOTED_AT_ONCE_MAX + 20
    for number in range(count):
        submit(queue, a_spec(a_job(1, 8, cpus=number / 10 + 1), regions=[EU]))
    refuse_for(queue, Nanoseconds(2 * NOTED_INTERVAL + 8 * NOTED_STEP))
    assert count == len(queue.state.image.refusals.rows)
    submit(queue, a_spec(a_job(4, 8), regions=[EU]))
    refuse_all(queue)
    before, cancelled = len(noted(queue)), 0
    end = after(queue.now, Nanoseconds(3 * NOTED_INTERVAL + 8 * NOTED_STEP))
    while (due := queue.component.due(queue.state)) is not None and due <= end:
        queue.wake(due)
        refuse_all(queue)
        walk = queue.state.refusal_walk
        if walk.walked == NOTED_AT_ONCE_MAX and walk.doubts_before and not cancelled:
            for _, work in queue.state.order.groups(0, 2):
                cancelled += 1
                queue.hear(CancelWorkload(work.workload))
    waiting = {digest(shape) for (_, shape), _ in queue.state.order.groups(0, 2 * count)}
    gone = {name for fact in noted(queue)[before:] for name in fact.gone}
    assert (2, 2, set()) == (cancelled, len(gone), gone & waiting)


def test_reason_does_not_hold_through_an_award(start: Start) -> None:
    """A region that took another workload of the shape meanwhile has not refused all the time."""
    queue = a_job_queue(start)
    for _ in range(2):
        submit(queue, small())
    refuse_for(queue, seconds(3600))
    queue.fact(EU_LOG, grant(1, W3), ended(EndCause.COMPLETED, 1, W3, gpu_milli=8_000))
    opened = queue.wake()
    ((first, _), *_) = asked(opened)
    bid(queue, auction_of(opened, WorkloadId(first)), EU, workload=WorkloadId(first))
    refuse_open(queue)
    queue.hear_due_once()
    waits = W2 if first == W1 else W1
    assert queue.state.image.workloads.rows[WorkloadId(first)].is_active
    awarded = queue.now
    assert all(one.held <= queue.now - awarded for one in outlook(queue, waits).noted)
    refuse_for(queue, LONG)
    (newest, *_) = outlook(queue, waits).noted
    assert 0 < newest.held <= queue.now - awarded
    (shape,) = noted(queue)[-1].shapes
    assert shape.refusals[0].held <= queue.now - awarded
