"""Pipelines in the queue: C-11 (start deadlines after every event of a stage, each change a fact), C-12 (infeasible deadlines are
refused with the earliest that can be met) and C-16 (budgets of work under deadlines).
"""

from typing import Any

from msgspec.structs import replace

from core.codec import encode
from core.events.pipelines import PipelineEnded, PipelineSubmitted, StagesReprioritised
from core.events.queue import WorkloadCancelled, WorkloadSubmitted
from core.messages.base import Refused
from core.messages.pipelines import (
    CancelPipeline,
    ListPipelines,
    PipelineAccepted,
    PipelineCancelled,
    PipelinesListed,
    PipelineTested,
    SubmitPipeline,
    TestPipeline,
)
from core.messages.queue import CancelWorkload, SubmitWorkload
from core.messages.tenants import ListTenants, SetDeadlineBudget, SetTenant, TenantAnswered, TenantsListed
from core.nouns.ids import GLOBAL_LOG, PipelineId, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import FACT_BYTES_MAX, MESSAGE_BYTES_MAX, PIPELINE_BYTES_MAX, SPAN_MAX, STAGES_MAX
from core.nouns.pipeline import Cause, DailyWindow, NoDeadline, OnLate, Outcome, PipelineSpec
from core.nouns.reasons import Reason
from core.nouns.tenant import Budget, TenantSettings
from core.nouns.workload import EndCause, Program
from tests.builders import EU, US, a_job, a_spec, joined
from tests.components.support.job_queue import (
    W1,
    W2,
    W3,
    Start,
    a_job_queue,
    abstain,
    asked,
    ended,
    happens,
    shown,
    submit,
)
from tests.components.support.pipelines import (
    DAY,
    HOUR,
    P1,
    a_chain,
    a_pipeline,
    a_stage,
    ends,
    passes,
    phases,
    pipeline_shown,
    start_by,
    starts,
    submit_pipeline,
)
from tests.matching import facts, said_once

ML = TenantName("ml")


def events(machine: Any, kind: type[Any]) -> list[Any]:  # Any: a machine
    """All facts of a kind that the queue has recorded."""
    return [fact.event for fact in machine.logs[GLOBAL_LOG] if isinstance(fact.event, kind)]


# Submission.


def test_pipeline_is_one_batch(start: Start) -> None:
    """A workload for each stage and the pipeline, in one decision; the same key answers the same id."""
    machine = a_job_queue(start)
    decision = machine.hear(SubmitPipeline(a_chain(1, 2, 3, within=24), "ada", "k"))
    accepted = said_once(decision, PipelineAccepted)
    assert (P1, (W1, W2, W3)) == (accepted.pipeline, accepted.workloads)
    assert [WorkloadSubmitted] * 3 + [PipelineSubmitted] == [type(event) for event in facts(decision)][:4]
    again = machine.hear(SubmitPipeline(a_chain(1, within=24), "ada", "k"))
    assert [] == facts(again)
    assert accepted == said_once(again, PipelineAccepted)


def test_start_deadlines_of_a_chain(start: Start) -> None:
    """C-11: each stage must start early enough for itself and for all after it."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, 2, 3, within=24))
    assert [18, 19, 21] == start_by(machine)


def test_stage_waits_for_its_forerunners(start: Start) -> None:
    """It is pending, in no order, and says why; it is asked for once they have completed."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, 1, within=24))
    assert {("w-1", "eu")} == set(asked(machine.wake()))
    assert "waits_for_stage" == shown(machine, W2).reason
    starts(machine, W1)
    ends(machine, W1)
    assert "waiting_turn" == shown(machine, W2).reason
    starts(machine, W2)
    assert ["COMPLETED", "RUNNING"] == phases(machine)


def test_pipeline_ends_once_and_in_time(start: Start) -> None:
    """When its last stage has completed."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, 1, within=24))
    starts(machine, W1)
    ends(machine, W1)
    starts(machine, W2)
    passes(machine, 1)
    ends(machine, W2)
    assert [PipelineEnded(P1, Outcome.MET)] == events(machine, PipelineEnded)
    passes(machine, 24)
    assert 1 == len(events(machine, PipelineEnded))


def test_pipeline_that_ends_late_says_by_how_much(start: Start) -> None:
    """From its deadline to the end of its last stage."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, within=2))
    starts(machine, W1)
    passes(machine, 5)
    ends(machine, W1)
    (end,) = events(machine, PipelineEnded)
    assert (Outcome.LATE, 3 * HOUR) == (end.outcome, end.late_by)


def test_key_of_a_workload_is_no_key_of_a_pipeline(start: Start) -> None:
    """Nor the other way round: a job that got a deadline since is not submitted twice."""
    machine = a_job_queue(start)
    submit(machine, key="k")
    refused = said_once(machine.hear(SubmitPipeline(a_chain(1, within=24), "ada", "k")), Refused)
    assert ("key: a workload that is no pipeline was submitted under it",) == refused.problems
    submit_pipeline(machine, a_chain(1, within=24), key="l")
    refused = said_once(machine.hear(SubmitWorkload(a_spec(), "ada", "l")), Refused)
    assert ("key: a pipeline was submitted under it",) == refused.problems


def test_problems_of_all_stages_are_told(start: Start) -> None:
    """At once, each with its stage."""
    machine = a_job_queue(start)
    wide = a_spec(a_job(1, 9))
    spec = a_pipeline(a_stage("a", spec=wide), a_stage("b", "a"), a_stage("c", "b", spec=wide))
    refused = said_once(machine.hear(SubmitPipeline(spec, "ada")), Refused)
    assert Reason.NEVER_FITS == refused.reason
    assert ["stages[0]", "stages[2]"] == [problem.split(".")[0] for problem in refused.problems]


def test_as_many_stages_as_there_may_be(start: Start) -> None:
    """256 in a chain, with names and directories as long as they may be in all: every fact about them fits the log."""
    machine = a_job_queue(start, eu=joined(gpu_type="H100 (real)"))
    names = [f"s{place}" for place in range(STAGES_MAX)]
    each = (PIPELINE_BYTES_MAX - sum(2 * len(name) for name in names)) // STAGES_MAX
    stages = []
    for place, name in enumerate(names):
        program = Program("true", checkpoint_dir="/" + "d" * (each - 1))
        job = replace(a_job(), emulation=None, program=program)
        workload = replace(a_spec(job, regions=(EU,)), expected=SPAN_MAX)
        stages.append(a_stage(name, *names[max(0, place - 1) : place], expected=SPAN_MAX, spec=workload))
    spec = a_pipeline(*stages, within=SPAN_MAX, on_late=OnLate.ACCEPT)
    accepted = submit_pipeline(machine, spec)
    assert NoDeadline.INFEASIBLE == accepted.no_deadline
    assert max(len(encode(fact.event)) for fact in machine.logs[GLOBAL_LOG]) < FACT_BYTES_MAX
    shown = pipeline_shown(machine)
    assert len(encode(shown)) < MESSAGE_BYTES_MAX
    starts(machine, W1)
    ends(machine, W1)
    said_once(machine.hear(CancelPipeline(P1)), PipelineCancelled)
    machine.wake()
    assert [PipelineEnded(P1, Outcome.CANCELLED)] == events(machine, PipelineEnded)
    longer = replace(stages[0], name="s" * 300)
    refused = said_once(
        machine.hear(SubmitPipeline(replace(spec, stages=(longer, *stages[1:])), "ada")), Refused
    )
    assert any("names, `after` and checkpoint directories have" in problem for problem in refused.problems)


# Failures and cancellations.


def test_failed_stage_cancels_those_that_depend_on_it(start: Start) -> None:
    """A fails; b waits for a, and c for b; d does not, and goes on. The pipeline has failed when d is done."""
    machine = a_job_queue(start)
    submit_pipeline(
        machine,
        a_pipeline(a_stage("a"), a_stage("b", "a"), a_stage("c", "b"), a_stage("d"), within=DAY),
    )
    row = machine.state.image.pipelines.rows[P1]
    names = {stage.name: WorkloadId(stage.workload) for stage in row.stages}
    starts(machine, names["a"])
    ends(machine, names["a"], EndCause.TASK_FAILED)
    cancelled = {event.workload for event in events(machine, WorkloadCancelled)}
    assert {names["b"], names["c"]} == cancelled
    assert [] == events(machine, PipelineEnded)
    starts(machine, names["d"])
    ends(machine, names["d"])
    assert [PipelineEnded(P1, Outcome.FAILED)] == events(machine, PipelineEnded)


def test_stage_with_a_retry_left_cancels_nothing(start: Start) -> None:
    """Preemption and node loss are no failure; the stage must start by the same time, less what it saved."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, 1, within=24))
    starts(machine, W1)
    ends(machine, W1, EndCause.NODE_LOST)
    assert ["PENDING", "PENDING"] == phases(machine)
    assert [] == events(machine, WorkloadCancelled)


def test_cancelling_a_pipeline_cancels_all_its_stages(start: Start) -> None:
    """The running one is told to stop, those that wait are cancelled at once; a repeat is answered again."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, 1, 1, within=24))
    starts(machine, W1)
    assert PipelineCancelled(P1) == said_once(machine.hear(CancelPipeline(P1)), PipelineCancelled)
    assert ["RUNNING", "CANCELLED", "CANCELLED"] == phases(machine)
    ends(machine, W1, EndCause.CANCELLED)
    assert [PipelineEnded(P1, Outcome.CANCELLED)] == events(machine, PipelineEnded)
    again = machine.hear(CancelPipeline(P1))
    assert [] == facts(again)
    assert (
        Reason.UNKNOWN_PIPELINE == said_once(machine.hear(CancelPipeline(PipelineId("p-9"))), Refused).reason
    )


def test_cancelled_stage_cancels_those_after_it(start: Start) -> None:
    """A user who cancels one stage gets no later one."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, 1, 1, within=24))
    machine.hear(CancelWorkload(W2))
    machine.wake()
    assert ["PENDING", "CANCELLED", "CANCELLED"] == phases(machine)


# Start deadlines over time.


def test_change_of_a_start_deadline_is_a_fact_with_its_cause(start: Start) -> None:
    """C-11: a first run of a family is over, and tells better how long it runs than its user did."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, 2, within=24))
    submit_pipeline(machine, a_chain(1, 2, within=24))
    starts(machine, W1)
    passes(machine, 3)
    ends(machine, W1)
    passes(machine, seconds=60)
    found = [event for event in events(machine, StagesReprioritised) if event.pipeline == "p-2"]
    assert 1 == len(found)
    (change,) = found[0].stages
    assert (0, -2 * HOUR) == (change.stage, change.new - change.old)
    assert (Cause.TIME, "") == (found[0].cause, found[0].by)


def test_nothing_is_recorded_while_nothing_moves(start: Start) -> None:
    """However often it is looked at."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, 2, within=24))
    before = len(machine.logs[GLOBAL_LOG])
    for _ in range(10):
        passes(machine, seconds=60)
    assert [] == [
        fact.event
        for fact in machine.logs[GLOBAL_LOG][before:]
        if isinstance(fact.event, StagesReprioritised)
    ]


def test_stage_that_can_make_it_no_more_is_late(start: Start) -> None:
    """At the median, from the moment on at which even a start at once would be too late; then it counts by its submission."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, 2, within=24))
    passes(machine, 21)
    assert not any(stage.is_late for stage in pipeline_shown(machine).stages)
    assert machine.state.order.work(W1).since < machine.state.order.work(W1).submitted_at
    passes(machine, seconds=1)
    assert [True, True] == [stage.is_late for stage in pipeline_shown(machine).stages]
    assert machine.state.order.work(W1).since == machine.state.order.work(W1).submitted_at
    assert [Cause.TIME] == [event.cause for event in events(machine, StagesReprioritised)]


def test_urgent_stage_is_ahead_of_older_work(start: Start) -> None:
    """It must start within the hour, and counts as having waited for a day."""
    machine = a_job_queue(start)
    older = submit(machine, a_spec(regions=(EU,)))
    passes(machine, 1)
    submit_pipeline(machine, a_chain(1, within=2))
    assert ["w-2", older] == [one.work.workload for one in machine.state.order.ranked()]


# Admission.


def test_infeasible_deadline_is_refused_with_the_earliest(start: Start) -> None:
    """C-12: by the user's own words it takes three hours."""
    machine = a_job_queue(start)
    decision = machine.hear(SubmitPipeline(a_chain(1, 2, within=2), "ada"))
    refused = said_once(decision, Refused)
    assert Reason.INFEASIBLE == refused.reason
    assert refused.problems[0].startswith("within: the earliest deadline that can be met is ")
    assert [] == facts(decision)
    submit_pipeline(machine, a_chain(1, 2, within=3))


def test_infeasible_deadline_may_be_accepted_as_none(start: Start) -> None:
    """Then it has none, and its user is told."""
    machine = a_job_queue(start)
    spec = a_pipeline(a_stage("a", expected=3 * HOUR), within=HOUR, on_late=OnLate.ACCEPT)
    accepted = submit_pipeline(machine, spec)
    assert (0, NoDeadline.INFEASIBLE) == (accepted.due_at, accepted.no_deadline)
    assert 0 == machine.state.image.pipelines.rows[P1].stages[0].start_by


def test_nothing_is_refused_on_a_default(start: Start) -> None:
    """Nothing is known of the stage: 20 minutes are only a guess."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_pipeline(a_stage("a"), within=HOUR // 60))


def test_test_tells_how_to_make_it_feasible(start: Start) -> None:
    """A later deadline, or a stage that takes less."""
    machine = a_job_queue(start)
    tested = said_once(machine.hear(TestPipeline(a_chain(1, 2, within=2.5), "ada")), PipelineTested)
    assert NoDeadline.INFEASIBLE == tested.no_deadline
    assert 3 * HOUR == tested.earliest - machine.now
    assert ("b", HOUR // 2) == (tested.shorten, tested.shorten_by)
    fine = said_once(machine.hear(TestPipeline(a_chain(1, 2, within=5), "ada")), PipelineTested)
    assert (0, "", 3 * HOUR) == (fine.earliest, fine.shorten, fine.ends.likely - machine.now)


def test_stages_that_can_share_no_region_are_refused(start: Start) -> None:
    """Unless their user lets them run apart."""
    machine = a_job_queue(start)
    there = a_stage("b", "a", spec=a_spec(regions=(US,)))
    refused = said_once(machine.hear(SubmitPipeline(a_pipeline(a_stage("a"), there), "ada")), Refused)
    assert (Reason.INVALID, 1) == (refused.reason, len(refused.problems))
    assert "together: false" in refused.problems[0]
    submit_pipeline(machine, a_pipeline(a_stage("a"), there, is_together=False))


# Budgets of work under deadlines.


def a_tenant(machine: Any, gpu_hours: int | None) -> None:  # Any: a machine
    """The tenant ml may have so many predicted GPU-hours under deadlines in a day; None: as many as it likes."""
    if not machine.state.image.tenants.rows:
        machine.hear(SetTenant(ML, TenantSettings(), 0))
    revision = machine.state.image.tenants.revision_of(ML)
    budget = None if gpu_hours is None else Budget(gpu_hours, Nanoseconds(DAY))
    said_once(machine.hear(SetDeadlineBudget(ML, budget, revision)), TenantAnswered)


def of_ml(within: float = 24) -> PipelineSpec:
    """One of one stage of two GPUs, for three hours."""
    spec = a_spec(a_job(2), regions=(EU,), tenant=ML)
    return a_pipeline(a_stage("a", expected=3 * HOUR, spec=spec), within=round(within * HOUR))


def test_beyond_the_budget_there_is_no_deadline(start: Start) -> None:
    """C-16: 13 GPU-hours are enough for two of six; the third is accepted without a deadline, and its user is told."""
    machine = a_job_queue(start)
    a_tenant(machine, 13)
    found = [submit_pipeline(machine, of_ml()) for _ in range(3)]
    assert ["", "", "over_budget"] == [accepted.no_deadline for accepted in found]
    assert 0 == found[2].due_at
    listed = said_once(machine.hear(ListTenants()), TenantsListed).rows[0]
    assert 12 * 3_600_000 == listed.deadlines_gpu_milli_seconds
    tested = said_once(machine.hear(TestPipeline(of_ml(), "ada")), PipelineTested)
    assert NoDeadline.OVER_BUDGET == tested.no_deadline


def test_next_period_has_a_budget_of_its_own(start: Start) -> None:
    """C-16: a day later; without a deadline nothing counts, and an operator may lift the limit."""
    machine = a_job_queue(start)
    a_tenant(machine, 6)
    assert ["", "over_budget"] == [submit_pipeline(machine, of_ml()).no_deadline for _ in range(2)]
    submit_pipeline(machine, of_ml(0))
    passes(machine, 24)
    assert ["", "over_budget"] == [submit_pipeline(machine, of_ml()).no_deadline for _ in range(2)]
    a_tenant(machine, None)
    assert "" == submit_pipeline(machine, of_ml()).no_deadline


def test_budget_of_nothing_makes_urgency_buy_nothing(start: Start) -> None:
    """C-16: no work of the tenant is under a deadline, and its order is that of its submissions."""
    machine = a_job_queue(start)
    a_tenant(machine, 0)
    older = submit(machine, a_spec(a_job(2), regions=(EU,), tenant=ML))
    machine.wake()
    passes(machine, 1)
    submit_pipeline(machine, of_ml(4))
    assert [older, "w-2"] == [one.work.workload for one in machine.state.order.ranked()]


# Windows.


def test_stage_begins_in_its_window_alone(start: Start) -> None:
    """It is ready at once, and waits for the window; if the window closes, it waits for the next."""
    machine = a_job_queue(start)
    opens = (machine.now + 2 * HOUR) % DAY
    window = DailyWindow(Nanoseconds(opens), Nanoseconds(HOUR))
    submit_pipeline(machine, a_pipeline(a_stage("a", begins=window)))
    assert [] == asked(machine.wake())
    assert "waits_for_window" == shown(machine).reason
    passes(machine, 2)
    assert "waiting_turn" == shown(machine).reason
    for auction in list(machine.state.auctions.open.values()):
        abstain(machine, auction.auction, EU)
    machine.wake()
    passes(machine, 1)
    passes(machine, seconds=2)
    assert "waits_for_window" == shown(machine).reason


def test_stage_that_has_begun_waits_for_no_window_again(start: Start) -> None:
    """It lost its node after the window had closed, and starts again at once; its start deadline is that of any stage."""
    machine = a_job_queue(start)
    window = DailyWindow(Nanoseconds((machine.now + HOUR) % DAY), Nanoseconds(HOUR))
    submit_pipeline(machine, a_pipeline(a_stage("a", expected=2 * HOUR, begins=window), within=6 * HOUR))
    assert [2] == start_by(machine), "when the window closes"
    passes(machine, 1)
    starts(machine, W1)
    passes(machine, 1.5)
    happens(machine, ended(EndCause.NODE_LOST))
    assert "waits_for_window" != shown(machine).reason
    assert [6 - 2.5 - 2] == start_by(machine)
    starts(machine, W1, epoch=2)
    assert ["RUNNING"] == phases(machine)


# Lists.


def test_list_has_the_least_laxity_first(start: Start) -> None:
    """Then those without a deadline, then those that have ended."""
    machine = a_job_queue(start)
    submit_pipeline(machine, a_chain(1, within=24))
    submit_pipeline(machine, a_chain(1, within=5))
    submit_pipeline(machine, a_pipeline(a_stage("a")))
    starts(machine, W3)
    ends(machine, W3)
    submit_pipeline(machine, a_pipeline(a_stage("a")))
    listed = said_once(machine.hear(ListPipelines()), PipelinesListed)
    assert ["p-2", "p-1", "p-4", "p-3"] == [row.pipeline for row in listed.rows]
    page = said_once(machine.hear(ListPipelines(1, 2)), PipelinesListed)
    assert (["p-1", "p-4"], 3) == ([row.pipeline for row in page.rows], page.next)
