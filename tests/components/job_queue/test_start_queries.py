"""What the queue says of starts: at a submission, of what waits, and of what somebody only thinks of submitting."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from components.job_queue.state.wait_index import Estimator, WaitIndex
from core.component import Decision
from core.estimating.bands import StartEstimate
from core.estimating.prediction import PredictedBy, Prediction
from core.events.queue import WorkloadSubmitted
from core.images import GlobalImage
from core.messages.base import Message, Refused
from core.messages.data import SetDataset
from core.messages.queue import (
    CancelWorkload,
    ChangeWorkload,
    ExplainWorkload,
    HoldWorkload,
    ReleaseWorkload,
    SubmitWorkload,
    WorkloadExplained,
)
from core.messages.starts import ListStarts, PredictionTally, StartsListed, SubmissionTested, TestSubmission
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, after, seconds
from core.nouns.limits import RUN_TIME_DEFAULT, STARTS_LISTED_MAX
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Kind, WorkloadSpec
from core.rules.quota import level_asked
from tests.builders import EU, START, US, a_job, a_region, a_spec, joined, of_types
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    awarded,
    ended,
    happens,
    running,
    submit,
)
from tests.components.support.machine import Machine
from tests.matching import facts, said_once

REGION = a_job(4, 8)
"""All of one region's GPUs."""
HOUR = seconds(3_600)


def submitted(machine: Machine[Any], spec: WorkloadSpec) -> StartEstimate:
    """The estimate that is recorded of it."""
    (fact,) = facts(machine.hear(SubmitWorkload(spec, "ada")))
    assert isinstance(fact, WorkloadSubmitted)
    assert fact.start is not None
    return fact.start


def full(start: Start) -> Machine[Any]:
    """A queue of which every GPU of both regions is awarded to something that is to run for 20 minutes."""
    machine = a_job_queue(start)
    for workload, region in ((W1, EU), (W2, US)):
        submit(machine, a_spec(REGION, name="long", regions=(region,), tenant="ml"))
        awarded(machine, region, workload)
    return machine


def listed(machine: Machine[Any], tenant: str = "", count: int = STARTS_LISTED_MAX) -> StartsListed:
    """What is told of those that wait."""
    return said_once(machine.hear(ListStarts(tenant, count)), StartsListed)


def spans(machine: Machine[Any]) -> dict[str, float]:
    """By workload, the hours after which the model says that it starts."""
    return {row.workload: row.start.span / HOUR for row in listed(machine).rows if row.start is not None}


# At a submission.


def test_workload_that_fits_starts_now(start: Start) -> None:
    """Every submission records the estimate of its start."""
    machine = a_job_queue(start)
    estimate = submitted(machine, a_spec(REGION))
    assert (0, "now, wide") == (estimate.span, estimate.group)


def test_workload_that_does_not_fit_waits_for_those_ahead_and_for_itself(start: Start) -> None:
    """Capacity for the waiting work of its level or a higher one that is no wider comes free first; nothing is known of how fast, so all
    in a day.
    """
    machine = full(start)
    assert 6 == pytest.approx(submitted(machine, a_spec(a_job(2, 8), priority=4)).span / HOUR)
    assert 12 == pytest.approx(submitted(machine, a_spec(a_job(2, 8), priority=3)).span / HOUR)
    # What is wider waits for more to come free at once, and lets it pass.
    assert 3 == pytest.approx(submitted(machine, a_spec(a_job(1, 8), priority=4)).span / HOUR)
    assert 6 == pytest.approx(submitted(machine, a_spec(a_job(1, 8), priority=4)).span / HOUR)
    assert 3 == pytest.approx(submitted(machine, a_spec(a_job(1, 8), priority=5)).span / HOUR)
    assert 21 == pytest.approx(submitted(machine, a_spec(a_job(2, 8), priority=4)).span / HOUR)


def test_free_capacity_is_for_workloads_that_fit(start: Start) -> None:
    """A gang waits for more than there is; a workload that fits into the rest starts now, and one as wide does not."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(3, 8), regions=(EU,)))
    awarded(machine, EU)
    submit(machine, a_spec(REGION, regions=(EU,)))
    assert 0 == submitted(machine, a_spec(a_job(1, 8), regions=(EU,))).span
    assert 0 < submitted(machine, a_spec(a_job(2, 8), regions=(EU,))).span
    assert 0 < submitted(machine, a_spec(REGION, regions=(EU,))).span


def test_running_work_tells_how_fast_capacity_comes_free(start: Start) -> None:
    """Two regions of 32 GPUs, each to be free after the default time of a run."""
    machine = full(start)
    running(machine, workload=W1)
    rate = 32 / (RUN_TIME_DEFAULT / HOUR)
    # Who is pinned to one of two regions of one size waits for half of what comes free.
    assert 32 / rate == pytest.approx(
        submitted(machine, a_spec(a_job(2, 8), priority=4, regions=(EU,))).span / HOUR
    )
    assert 16 / rate == pytest.approx(submitted(machine, a_spec(a_job(2, 8), priority=5)).span / HOUR)


def test_width_is_of_all_jobs_together(start: Start) -> None:
    """Two jobs of 8 GPUs are as wide as one of 16, when they are estimated and when they wait."""
    two = a_spec(a_job(1, 8, name="a"), a_job(1, 8, name="b"))
    machine = full(start)
    assert 6 == pytest.approx(submitted(machine, two).span / HOUR)
    assert 12 == pytest.approx(submitted(machine, two).span / HOUR)
    assert 3 == pytest.approx(submitted(machine, a_spec(a_job(1, 8))).span / HOUR)
    assert {"w-3": 6, "w-4": 12, "w-5": 3} == {one: round(span) for one, span in spans(machine).items()}


def test_capacity_must_be_in_one_region(start: Start) -> None:
    """Half of each is free, and all of one is asked for."""
    machine = a_job_queue(start)
    for workload, region in ((W1, EU), (W2, US)):
        submit(machine, a_spec(a_job(2, 8), regions=(region,)))
        awarded(machine, region, workload)
    # All 32 that are free would do, and 16 of them are elsewhere.
    assert 16 / 64 * 24 == pytest.approx(submitted(machine, a_spec(REGION, priority=5)).span / HOUR)
    assert 0 == submitted(machine, a_spec(a_job(2, 8), priority=6)).span


def test_only_regions_in_which_it_may_run_count(start: Start) -> None:
    """The other one is empty."""
    machine = a_job_queue(start)
    submit(machine, a_spec(REGION, regions=(EU,)))
    awarded(machine, EU)
    assert 0 == submitted(machine, a_spec()).span
    assert 0 < submitted(machine, a_spec(regions=(EU,))).span


def test_nothing_is_said_while_no_region_is_known(start: Start) -> None:
    """It is accepted all the same."""
    machine = a_job_queue(start, unknown=(f"region.{EU}", f"region.{US}"))  # type: ignore[arg-type]
    (fact,) = facts(machine.hear(SubmitWorkload(a_spec(), "ada")))
    assert isinstance(fact, WorkloadSubmitted)
    assert fact.start is None


def test_work_without_gpus_does_not_wait_for_gpus(start: Start) -> None:
    """Though all are taken."""
    machine = full(start)
    assert 0 == submitted(machine, a_spec(a_job(1, 0, cpus=1))).span


def test_types_that_do_as_well_count_as_far_as_they_are_of_use() -> None:
    """Of what may have either type, half is ahead of who needs one of them, when there is as much of both."""
    eu = a_region(joined(), joined("w1", 4, 4, gpu_type="A100"))
    estimator = Estimator(GlobalImage.empty(), {EU: eu}, WaitIndex(), START)
    either = of_types(a_job(), "H100", "A100").node_types
    one = a_spec(a_job(4, 8))
    ahead = {(either, 1): 16_000}
    estimate = estimator.of(one, (EU,), ahead)
    assert estimate is not None
    # 8 of 16 are ahead of it, its 32 are free, and all 32 would come free in a day.
    assert 8 / 32 * 24 == pytest.approx(estimate.span / HOUR)
    assert estimator.of(one, (EU,), {(("A100",), 1): 64_000}) == estimator.of(one, (EU,), {})


@pytest.mark.parametrize("seed", range(4))
def test_sums_that_are_kept_equal_those_from_scratch(start: Start, seed: int) -> None:
    """However workloads come, are held, changed, cancelled, awarded and ended; and a restart finds the same."""
    dice, machine = random.Random(seed), full(start)
    for number in range(3, 30):
        types = ("H100", "A100", "B200")[: dice.randrange(1, 4)]
        job = of_types(a_job(dice.randrange(1, 4), 8), *types)
        submit(machine, a_spec(job, priority=dice.randrange(7)))
        other = WorkloadId(f"w-{dice.randrange(3, number + 1)}")
        row = machine.state.image.workloads.rows[other]
        machine.hear(
            dice.choice(
                (
                    HoldWorkload(other, row.hold_revision),
                    ReleaseWorkload(other, row.hold_revision),
                    CancelWorkload(other),
                    ChangeWorkload(other, row.spec_revision, (replace(row.spec.jobs[0], tasks=5),)),
                )
            )
        )
    running(machine, workload=W1)
    happens(machine, ended(EndCause.COMPLETED, workload=W1, gpu_milli=32_000))
    state = machine.state
    fresh = WaitIndex()
    for workload, row in state.image.workloads.rows.items():
        level = row.level if row.is_active else level_asked(row.spec, state.image.tenants)
        fresh.note(workload, row, level, is_waiting=workload in state.order)
    again = machine.restart().state.waits
    for index in (state.waits, again):
        index.forget_memos()
        assert vars(fresh) == vars(index)
    assert len(state.order) == sum(fresh.counts.values()) == fresh.ahead_of(0)


# What somebody only thinks of submitting.


def test_tested_submission_changes_nothing(start: Start) -> None:
    """It is told what would come of it: where it would stand, when it would start, and how long it would run."""
    machine = full(start)
    for priority in (5, 3, 2):
        submit(machine, a_spec(a_job(1, 8), priority=priority))
    spec = a_spec(a_job(1, 8), name="short")
    decision = machine.hear(TestSubmission(spec, "ada"))
    assert () == decision.events
    tested = said_once(decision, SubmissionTested)
    assert (2, (EU, US)) == (tested.ahead, tuple(sorted(tested.regions)))
    assert Prediction(RUN_TIME_DEFAULT, PredictedBy.DEFAULT) == tested.prediction
    assert submitted(machine, spec) == tested.start


@pytest.mark.parametrize(
    "spec",
    [
        a_spec(priority=9, name="-"),
        a_spec(a_job(64, 8)),
        a_spec(regions=(RegionName("mars"),)),
    ],
    ids=("two problems", "never fits", "unknown region"),
)
def test_tested_submission_is_refused_in_the_same_words(start: Start, spec: WorkloadSpec) -> None:
    """Every problem is named at once."""
    machine = a_job_queue(start)

    def refusal(message: Message) -> Refused:
        decision: Decision = machine.hear(message)
        assert [] == facts(decision)
        return said_once(decision, Refused)

    assert refusal(SubmitWorkload(spec, "ada")) == refusal(TestSubmission(spec, "ada"))


# What waits.


def test_starts_are_listed_in_the_order_of_service(start: Start) -> None:
    """Each waits for those ahead of it; what runs is not among them, and neither is what is held."""
    machine = full(start)
    low, high = (submit(machine, a_spec(a_job(2, 8), priority=priority, name="x")) for priority in (2, 5))
    held = submit(machine, a_spec(priority=6))
    machine.hear(HoldWorkload(held, 0))
    machine.now = after(machine.now, seconds(60))
    found = listed(machine)
    assert [high, low] == [row.workload for row in found.rows]
    assert [0, 1] == [row.rank for row in found.rows]
    assert {high: 6, low: 12} == pytest.approx(spans(machine))
    (first, _) = found.rows
    assert ("x", "default", 5, 16_000) == (first.name, first.tenant, first.priority, first.gpu_milli)
    assert (seconds(60), Reason.WAITING_TURN, RUN_TIME_DEFAULT, -1) == (
        first.waited,
        first.reason,
        first.duration,
        first.promised_in,
    )
    assert (0, 0, 0, {}) == (found.more, found.judged, found.held, found.errors)


def test_starts_of_one_tenant_and_so_many(start: Start) -> None:
    """Their ranks are those in the whole order; it is told how many were not looked at."""
    machine = full(start)
    mine = [submit(machine, a_spec(tenant=tenant)) for tenant in ("a", "b", "a", "b", "a")][1::2]
    found = listed(machine, "b")
    assert (mine, [1, 3], 0) == (
        [row.workload for row in found.rows],
        [row.rank for row in found.rows],
        found.more,
    )
    found = listed(machine, count=2)
    assert (2, 3) == (len(found.rows), found.more)


def test_it_is_told_how_right_estimates_were(start: Start) -> None:
    """Of starts how many were in their bands, and of run times by which factor half of them were off."""
    machine = full(start)
    machine.now = after(machine.now, seconds(600))
    running(machine, workload=W1)
    machine.now = after(machine.now, Nanoseconds(2 * RUN_TIME_DEFAULT))
    happens(machine, ended(EndCause.COMPLETED, workload=W1, gpu_milli=32_000))
    found = listed(machine)
    assert (1, 0) == (found.judged, found.held)
    assert {"default": 2_000} == {kind: error.factor_milli for kind, error in found.errors.items()}
    # One more of the family is predicted to run as long as the first did.
    tested = said_once(
        machine.hear(TestSubmission(a_spec(name="long-2", tenant="ml"), "ada")), SubmissionTested
    )
    family = Prediction(Nanoseconds(2 * RUN_TIME_DEFAULT), PredictedBy.FAMILY, 32_000, "H100")
    assert family == tested.prediction


def test_it_is_told_how_often_data_and_hardware_were_foreseen(start: Start) -> None:
    """M36: of recurring work, in the list and before a submission."""
    machine = a_job_queue(start)
    reads = a_spec(a_job(4, 8), name="nightly-1", tenant="ml", data=["clicks"])
    for name in ("clicks", "users"):
        machine.hear(SetDataset(DatasetName(name), (EU, US), None, 0))
    assert W1 == submit(machine, reads)
    assert (PredictionTally(0, 0, 0),) * 2 == (listed(machine).hardware, listed(machine).data)
    awarded(machine, EU, W1)
    running(machine, workload=W1)
    machine.now = after(machine.now, seconds(60))
    happens(machine, ended(EndCause.COMPLETED, workload=W1, gpu_milli=32_000))
    again = replace(reads, name="nightly-2", data=(DatasetName("clicks"), DatasetName("users")))
    tested = said_once(machine.hear(TestSubmission(again, "ada")), SubmissionTested)
    assert (DatasetName("clicks"),) == tested.prediction.data
    submit(machine, again)
    found = listed(machine)
    assert (PredictionTally(1, 1, 1), PredictionTally(2, 1, 1)) == (found.hardware, found.data)


def explained(machine: Machine[Any], workload: WorkloadId) -> WorkloadExplained:
    """What the queue answers."""
    return said_once(machine.hear(ExplainWorkload(workload)), WorkloadExplained)


def test_explanation_tells_when_it_starts_and_how_long_it_runs(start: Start) -> None:
    """The same as the list does; of what runs how long it goes on, and no longer than it may."""
    machine = full(start)
    waiting = submit(machine, a_spec(a_job(2, 8)))
    found = explained(machine, waiting)
    (row,) = listed(machine).rows
    assert row.start == found.start
    assert found.run_time is not None
    assert (RUN_TIME_DEFAULT, "default", -1) == (
        found.run_time.duration,
        found.run_time.by,
        found.run_time.left,
    )
    running(machine, workload=W1)
    machine.now = after(machine.now, Nanoseconds(3 * RUN_TIME_DEFAULT))
    run_time = explained(machine, W1).run_time
    assert run_time is not None
    assert 3 * RUN_TIME_DEFAULT == run_time.left
    assert explained(machine, W1).start is None


def test_service_has_no_run_time(start: Start) -> None:
    """A service ends at a user's request; a workload with a longest duration goes on no longer."""
    machine = a_job_queue(start)
    service = submit(machine, a_spec(kind=Kind.SERVICE))
    assert explained(machine, service).run_time is None
    awarded(machine, EU, service)
    submit(machine, replace(a_spec(), max_duration=Nanoseconds(90 * SECOND)))
    awarded(machine, EU, W2)
    running(machine, workload=W2)
    machine.now = after(machine.now, seconds(60))
    run_time = explained(machine, W2).run_time
    assert run_time is not None
    assert (90 * SECOND, 30 * SECOND) == (run_time.duration, run_time.left)
