"""Figures of a plane: a plain fold over its facts, and nothing else."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from core.events.control import NodesClosed
from core.events.pipelines import PipelineSubmitted, SubmittedStage
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    RankedBid,
    StandingChanged,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadHeld,
    WorkloadReleased,
)
from core.events.region import (
    AttemptEnded,
    CheckpointCommitted,
    GangStarted,
    NodesLost,
    NodesReturned,
    StopOrdered,
)
from core.events.tenants import EntitlementSet, TenantSet
from core.fact import Event
from core.figures.plane import PlaneFigures, violations
from core.figures.rates import Rates, Use
from core.figures.spans import Spans
from core.figures.waits import Wait, Waits
from core.nouns.ids import GLOBAL_LOG, DatasetName, PipelineId, TenantName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.maintenance import ClosureKind
from core.nouns.tenant import OVER_LEVEL, Entitlement, TenantSettings
from core.nouns.workload import Emulation, EndCause, JobSpec, Kind, Phase, WorkloadSpec
from tests.builders import (
    EU,
    EU_LOG,
    START,
    a_claim,
    a_fact,
    a_job,
    a_spec,
    attempt,
    granted,
    joined,
    promised,
    submitted,
)

HOUR = 3_600
W1, W2 = WorkloadId("w-1"), WorkloadId("w-2")
OURS = TenantName("ours")


def at(time: float) -> Instant:
    """Seconds after tests begin."""
    return Instant(START + seconds(time))


def a_gang(work: float = 10_000, set_up: float = 100, tasks: int = 2) -> JobSpec:
    """Of whole nodes."""
    return replace(a_job(tasks, 8), emulation=Emulation(seconds(work), set_up=seconds(set_up)))


def rates_of(*story: tuple[float, Event]) -> Rates:
    """A region of four nodes in which all this happened."""
    rates = Rates(START)
    for time, event in ((0.0, joined()), *story):
        rates.take(replace(a_fact(event, log=EU_LOG), at=at(time)))
    return rates


def waits_of(*story: tuple[float, Event]) -> Waits:
    """A queue in whose log all this stands."""
    waits = Waits()
    for time, event in story:
        waits.take(replace(a_fact(event, log=GLOBAL_LOG), at=at(time)))
    return waits


def test_spans_are_added_up_by_the_hour() -> None:
    """Whatever changes within it, and however many pass without a change."""
    spans = Spans(START, 1)
    for time, value in ((-50, 3), (0, 1), (1_800, 3), (3 * HOUR, 0)):
        spans.put(at(time), (value,))
    spans.until(at(4 * HOUR))
    assert [2 * HOUR, 3 * HOUR, 3 * HOUR, 0] == [row[0] / SECOND for row in spans.hours]
    assert 8 * HOUR * SECOND == spans.total(0)


def test_allocated_gpus_are_those_of_granted_attempts() -> None:
    """M40: From the grant to the end, also while it is told to stop; a promise is none. Lost nodes are not there, and of closed ones
    only the held GPUs.
    """
    claim = a_claim("w-1", 1, {0: 1, 1: 1}, jobs=(a_gang(),))
    rates = rates_of(
        (10, promised(claim)),
        (20, granted(claim)),
        (30, StopOrdered(*attempt(), EndCause.PREEMPTED)),
        (40, NodesClosed("a-drain", ClosureKind.DRAIN, ((1, 3),), "work")),
        (50, AttemptEnded(*attempt(), EndCause.PREEMPTED)),
        (60, NodesLost(WorkerName("w0"), (0, 1, 2, 3))),
        (70, NodesReturned(WorkerName("w0"), (0, 1, 2, 3))),
    )
    spans = rates.spans
    spans.until(at(80))
    assert 10 * (32 + 32 + 32 + 32 + 16 + 8 + 0 + 8) * 1_000 == spans.total(0) / SECOND
    assert 10 * (16 + 16 + 16) * 1_000 == spans.total(1) / SECOND


def test_gpu_time_is_split_by_its_use() -> None:
    """M40: Until all ranks are up, until they work, work that is safe, work that is not, and leaving: they add up to the held time."""
    claim = a_claim("w-1", 1, {0: 1, 1: 1}, jobs=(a_gang(set_up=100),))
    story = [
        (0.0, granted(claim)),
        (5.0, GangStarted(*attempt())),
        (805.0, CheckpointCommitted(*attempt(), 700_000)),
        (1_000.0, StopOrdered(*attempt(), EndCause.PREEMPTED)),
        (1_030.0, AttemptEnded(*attempt(), EndCause.PREEMPTED)),
    ]
    for share, wasted in ((16, ()), (0, (W1,))):
        use = Use()
        rates_of(*story).add_use(use, at(2_000), wasted)
        found = [getattr(use, name) / SECOND / 1_000 for name in Use.__struct_fields__]
        useful = share * 700
        assert [16 * 5, 16 * 100, useful, 16 * 895 - useful, 16 * 30] == found
    use = Use()
    rates_of(*story[:2]).add_use(use, at(505), ())
    assert 16 * 400 == use.useful / SECOND / 1_000, "what runs counts"
    use = Use()
    rates_of(*story[:2], (605.0, AttemptEnded(*attempt(), EndCause.COMPLETED))).add_use(use, at(2_000), ())
    assert (16 * 500, 0) == (use.useful / SECOND / 1_000, use.lost)


def test_gpu_time_of_a_pair_is_that_of_one_gpu() -> None:
    """It is the host's use until the host ends, and then the guest's: they add up to what is allocated."""
    job = replace(a_job(1, 1), emulation=Emulation(seconds(10_000)))
    host, guest = (a_claim(name, jobs=(job,), kind=Kind.SHARED) for name in ("w-1", "w-2"))
    story = [
        (0.0, granted(host)),
        (5.0, GangStarted(*attempt())),
        (10.0, granted(replace(guest, beside=attempt()))),
        (15.0, GangStarted(*attempt("w-2"))),
        (100.0, AttemptEnded(*attempt(), EndCause.COMPLETED)),
    ]
    for until, useful in ((80, 75), (150, 145)):
        rates, use = rates_of(*(one for one in story if one[0] <= until)), Use()
        rates.add_use(use, at(until), ())
        rates.spans.until(at(until))
        assert useful == use.useful / SECOND / 1_000
        assert rates.spans.total(1) == sum(getattr(use, name) for name in Use.__struct_fields__)


def awarded(
    workload: WorkloadId, epoch: int = 1, level: int = 3, gpus: int = 16, away: int = 0
) -> WorkloadAwarded:
    """To the only region."""
    bids = (RankedBid(EU, (0,), away),)
    return WorkloadAwarded(
        workload, epoch, EU, 0, bids, tenant=OURS, level=level, charge={"H100": gpus * 1_000}
    )


def closed(workload: WorkloadId, cause: EndCause, phase: Phase, epoch: int = 1) -> AttemptClosed:
    """As the queue records it."""
    return AttemptClosed(workload, epoch, cause, phase, EU, 9)


def entitled(gpus: int) -> Iterable[tuple[float, Event]]:
    """To so many, and to any level."""
    return (
        (0.0, TenantSet(OURS, 1, TenantSettings(level=6))),
        (0.0, EntitlementSet(OURS, 2, "H100", Entitlement(gpus))),
    )


def ours(work: float = 600, priority: int = 3) -> WorkloadSpec:
    """Sixteen GPUs."""
    return a_spec(a_gang(work, 100), tenant=OURS, priority=priority)


def test_wait_ends_when_it_is_set_up() -> None:
    """M40: From the submission until all ranks are up and set up; what is pushed out begins another wait."""
    waits = waits_of(
        *entitled(16),
        (10, submitted(1, ours())),
        (70, awarded(W1)),
        (71, WorkloadBound(W1, 1, EU, 3)),
        (500, closed(W1, EndCause.PREEMPTED, Phase.PENDING)),
        (530, awarded(W1, 2)),
        (560, AwardReturned(W1, 2, "withdrawn", EU, 5)),
        (590, awarded(W1, 3)),
        (591, WorkloadBound(W1, 3, EU, 7)),
        (2_000, closed(W1, EndCause.COMPLETED, Phase.COMPLETED, 3)),
    )
    first, again = waits.waits
    assert (161, 0, True, True) == (first.within / SECOND, first.over, first.is_within, first.is_first)
    assert (191, 0, True, False) == (again.within / SECOND, again.over, again.is_within, again.is_first)
    assert [at(171), at(691)] == [first.ended_at, again.ended_at]
    assert (1, {Phase.COMPLETED: 1}, {}) == (waits.preempted, waits.phases, waits.wasted)


def test_stage_waits_from_the_end_of_its_forerunners() -> None:
    """Not from the submission of its pipeline, in which it could not start; a stage that never may start waited for nothing."""
    names = [WorkloadId(f"w-{number}") for number in (1, 2, 3)]
    stages = tuple(
        SubmittedStage(name, name, after) for name, after in zip(names, ((), (0,), (1,)), strict=True)
    )
    waits = waits_of(
        *((0, submitted(number, a_spec(a_gang(set_up=0)))) for number in (1, 2, 3)),
        (0, PipelineSubmitted(PipelineId("p-1"), 1, "nightly", TenantName("default"), stages, "ada")),
        (5, awarded(names[0])),
        (10, WorkloadBound(names[0], 1, EU, 1)),
        (100, closed(names[0], EndCause.COMPLETED, Phase.COMPLETED)),
        (105, awarded(names[1])),
        (130, WorkloadBound(names[1], 1, EU, 3)),
        (200, closed(names[1], EndCause.TASK_FAILED, Phase.FAILED)),
        (201, WorkloadCancelled(names[2])),
    )
    found = {wait.workload: wait for wait in waits.waits}
    assert [10, 30, 0] == [round(found[name].whole / SECOND) for name in names]
    assert at(100) == found[names[1]].began_at


def test_an_attempt_lost_in_its_set_up_ends_no_wait() -> None:
    """M40: It waits on as it did; of whoever fails by itself meanwhile it is not so."""
    story = (
        *entitled(16),
        (10, submitted(1, ours())),
        (70, awarded(W1)),
        (71, WorkloadBound(W1, 1, EU, 3)),
    )
    lost = waits_of(
        *story,
        (100, closed(W1, EndCause.NODE_LOST, Phase.PENDING)),
        (130, awarded(W1, 2)),
        (131, WorkloadBound(W1, 2, EU, 7)),
        (2_000, closed(W1, EndCause.PREEMPTED, Phase.PENDING, 2)),
        (2_010, WorkloadCancelled(W1)),
    )
    first, again = lost.waits
    assert (221, 0, True) == (first.within / SECOND, first.over, first.has_started)
    assert (at(231), 10) == (first.ended_at, again.within / SECOND)
    failed = waits_of(*story, (100, closed(W1, EndCause.TASK_FAILED, Phase.FAILED)))
    assert [(161, True)] == [(one.within / SECOND, one.has_started) for one in failed.waits]


def test_longest_wait_over_quota_is_whole() -> None:
    """M40: Also of one that began before the hours that count, and still waits; not of one that was over before them."""
    story = (
        *entitled(16),
        (0, submitted(1, ours())),
        (0, submitted(2, ours())),
        (10, awarded(W1)),
        (10, WorkloadBound(W1, 1, EU, 3)),
    )
    for since, hours in ((1_000, 2.0), (0, 2.0)):
        plane = PlaneFigures(at(since))
        for time, event in story:
            plane.take(replace(a_fact(event, log=GLOBAL_LOG), at=at(time)))
        figures = plane.figures(at(2 * HOUR))
        assert (hours, hours) == (figures["over_quota_max_hours"], figures["over_max_hours_gpus_16_to_32"])
        assert not [name for name in figures if name.startswith("over_max") and not name.endswith("16_to_32")]
        plane.take(replace(a_fact(WorkloadCancelled(W2), log=GLOBAL_LOG), at=at(2 * HOUR)))
        late = PlaneFigures(at(3 * HOUR))
        late.queue = plane.queue
        assert 0 == late.figures(at(4 * HOUR))["over_quota_max_hours"]


def test_time_is_within_quota_while_there_is_headroom() -> None:
    """M40: The second of two that want all of a quota waits over it until the first is through, and within it from then on."""
    waits = waits_of(
        *entitled(16),
        (0, submitted(1, ours())),
        (0, submitted(2, ours())),
        (10, awarded(W1)),
        (10, WorkloadBound(W1, 1, EU, 3)),
        (1_000, closed(W1, EndCause.COMPLETED, Phase.COMPLETED)),
        (1_060, awarded(W2)),
        (1_060, WorkloadBound(W2, 1, EU, 3)),
    )
    first, second = waits.waits
    assert (True, 110, 0) == (first.is_within, first.within / SECOND, first.over)
    assert (False, 160, 1_000) == (second.is_within, second.within / SECOND, second.over / SECOND)


def test_borrowing_workload_waits_over_quota() -> None:
    """M40: Awarded over quota, it is; moved up while it starts, it is not any more. A higher level takes the quota first."""
    waits = waits_of(
        *entitled(16),
        (0, submitted(1, ours(priority=2))),
        (20, submitted(2, ours(priority=5))),
        (50, awarded(W1, level=OVER_LEVEL)),
        (60, StandingChanged(W1, 1, 1, OURS, 2, {"H100": 16_000})),
        (70, WorkloadBound(W1, 1, EU, 3)),
    )
    first = waits.waits[0]
    assert (True, 20 + 10 + 100, 40) == (first.is_within, first.within / SECOND, first.over / SECOND)


def test_time_on_hold_is_nobodys() -> None:
    """M40: And who is cancelled has not started."""
    waits = waits_of(
        (0, submitted(1, ours())),
        (10, WorkloadHeld(W1, 1)),
        (100, WorkloadReleased(W1, 2)),
        (130, WorkloadCancelled(W1)),
    )
    (one,) = waits.waits
    assert (40, 0, False) == (one.within / SECOND, one.over, one.has_started)
    assert {W1: None} == waits.wasted


def test_without_quotas_all_is_within() -> None:
    """M40: Nobody is entitled to anything, and so nobody borrows."""
    waits = waits_of((0, submitted(1, ours())), (0, submitted(2, ours())))
    waits.until(at(60))
    assert [(True, 60), (True, 60)] == [(one.is_within, one.within / SECOND) for one in waits.waits]


def test_violations_count_workloads_that_still_wait() -> None:
    """M40: Once a workload has waited too long; before, it counts for nothing."""

    def wait(minutes: float, *, has_started: bool) -> Wait:
        return Wait(
            W1, 5, 8_000, 0, 0, START, is_first=True, is_within=True,
            within=seconds(60 * minutes), has_started=has_started,
        )  # fmt: skip

    waits = [wait(2, has_started=True), wait(11, has_started=True), wait(3, has_started=False)]
    assert 0.5 == violations(waits, 10)
    assert pytest.approx(2 / 3) == violations([*waits, wait(30, has_started=False)], 10)


def test_work_away_from_its_data_is_told() -> None:
    """M40: Of the GPU-time of high-priority work that reads any."""
    reading = replace(ours(priority=5), data=(DatasetName("logs"),))
    waits = waits_of(
        (0, submitted(1, reading)),
        (0, submitted(2, reading)),
        (0, awarded(W1, away=1)),
        (0, awarded(W2)),
        (0, WorkloadBound(W1, 1, EU, 3)),
        (0, WorkloadBound(W2, 1, EU, 4)),
        (100, closed(W1, EndCause.COMPLETED, Phase.COMPLETED)),
        (300, closed(W2, EndCause.COMPLETED, Phase.COMPLETED)),
    )
    assert 0.25 == waits.reading_away / waits.reading


def test_logs_may_be_told_in_any_order() -> None:
    """M40: Each in its own; the figures are the same, and before `since` nothing counts."""
    claim = a_claim("w-1", 1, {0: 1, 1: 1}, jobs=(a_gang(),))
    queue = [
        (10.0, submitted(1, ours())),
        (70.0, awarded(W1)),
        (71.0, WorkloadBound(W1, 1, EU, 3)),
        (5_000.0, closed(W1, EndCause.COMPLETED, Phase.COMPLETED)),
    ]
    region = [
        (0.0, joined()),
        (70.0, granted(claim)),
        (71.0, GangStarted(*attempt())),
        (5_000.0, AttemptEnded(*attempt(), EndCause.COMPLETED)),
    ]
    told = [*((GLOBAL_LOG, *one) for one in queue), *((EU_LOG, *one) for one in region)]
    found = []
    for order in (told, sorted(told, key=lambda one: one[1]), [*told[4:], *told[:4]]):
        figures = PlaneFigures(START)
        for log, time, event in order:
            figures.take(replace(a_fact(event, log=log), at=at(time)))
        found.append((figures.figures(at(2 * HOUR)), figures.hours(at(2 * HOUR))))
    assert found[0] == found[1] == found[2]
    figures_found, hours = found[0]
    assert pytest.approx(4_930 * 16 / (7_200 * 32)) == figures_found["allocation_mean"]
    assert hours == pytest.approx([3_530 * 16 / (3_600 * 32), 1_400 * 16 / (3_600 * 32)])
    assert pytest.approx(161 / 60) == figures_found["within_quota_p95_minutes"]
    assert pytest.approx(61 / 60) == figures_found["within_quota_queued_p95_minutes"]
    assert 0 == figures_found["slo_violations"]
