"""Users' requests about pipelines: submit, test, cancel.

A pipeline is accepted whole or refused whole. A deadline that even low quantiles of known run times and no waiting would
miss is refused as infeasible, with the earliest deadline that would be accepted. Predictions from other work refuse no pipeline.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from components.job_queue.pipelines.forecasts import forecast_of, stages_of_spec
from components.job_queue.pipelines.holding import held_at_first, shared_regions
from components.job_queue.pipelines.queries import PipelineAnswers
from components.job_queue.requests.admission import Against, against_tenant, never_fits, too_many
from components.job_queue.stage_costs import Costs, costs_of_spec
from components.job_queue.start_estimates import estimated_start
from components.job_queue.state.auctions import settled
from components.job_queue.state.queue_state import AuctionClosed, QueueState
from components.replies import answered, refused
from core.component import Decision
from core.events.pipelines import PipelineSubmitted, SubmittedStage
from core.events.queue import CancelRequested, WorkloadCancelled, WorkloadSubmitted
from core.fact import Event, Note
from core.messages.base import Answer, Envelope, Message
from core.messages.pipelines import (
    CancelPipeline,
    ListPipelines,
    PipelineAccepted,
    PipelineCancelled,
    PipelineTested,
    ShowPipeline,
    SubmitPipeline,
    TestPipeline,
)
from core.nouns.ids import PipelineId, RegionName, TenantName, WorkloadId, submission_key
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import NUMBER_MAX
from core.nouns.pipeline import NO_DEADLINE, NoDeadline, OnLate, PipelineSpec, StageSpec
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import MILLI
from core.nouns.reasons import Reason
from core.rules.pipelines.deadlines import (
    critical_path,
    earliest_end,
    forecast,
    misses_deadline,
    ordered,
    start_deadlines,
)
from core.rules.pipelines.submission import after_of, directory_of, problems_of_pipeline
from core.rules.submission import problems_of_sender

HEARD_OF_PIPELINES: tuple[type[Message], ...] = (
    SubmitPipeline,
    TestPipeline,
    ShowPipeline,
    ListPipelines,
    CancelPipeline,
)
GPU_HOUR = 3_600 * MILLI
"""In GPU milli seconds."""


class Plan(Struct, frozen=True):
    """A pipeline as accepted now."""

    stages: tuple[StageSpec, ...]
    """Each after its forerunners."""
    after: list[tuple[int, ...]]
    costs: Costs
    asked_due_at: Instant
    earliest: Instant
    """The earliest deadline that would be accepted."""
    gpu_milli_seconds: int
    no_deadline: NoDeadline

    @property
    def due_at(self) -> Instant:
        """Return the deadline of the accepted pipeline."""
        return NO_DEADLINE if self.no_deadline else self.asked_due_at

    @property
    def is_feasible(self) -> bool:
        """Return whether the requested deadline could be met, as far as is known."""
        return not self.asked_due_at or self.earliest <= self.asked_due_at


class PipelineRequests:
    """The queue's deciders for requests about pipelines."""

    def __init__(self, regions: tuple[RegionName, ...]) -> None:
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            SubmitPipeline: self._submit,
            TestPipeline: self._test,
            CancelPipeline: self._cancel,
            **PipelineAnswers(regions).deciders,
        }

    def _submit(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SubmitPipeline)
        pipelines, spec, now = state.image.pipelines, message.spec, envelope.at
        known = pipelines.known_as(message.submitter, message.key)
        if known is not None:
            row = pipelines.rows[known]
            names = tuple(stage.workload for stage in row.stages)
            return answered(PipelineAccepted(known, names, Instant(row.due_at), row.no_deadline))
        problems = problems_of_sender(message.submitter, message.key)
        if message.key and submission_key(message.submitter, message.key) in state.image.workloads.keys:
            problems += ("key: a workload that is no pipeline was submitted under it",)
        refusal = _refusal(state, spec, problems, now)
        if refusal is not None:
            return refused(*refusal)
        plan = _plan(state, spec, now)
        if not plan.is_feasible and spec.on_late is OnLate.REFUSE:
            return refused(Reason.INFEASIBLE, (_infeasible(spec, plan, now),))
        first, number = state.image.workloads.submitted + 1, pipelines.submitted + 1
        pipeline = PipelineId(f"p-{number}")
        names = tuple(WorkloadId(f"w-{first + place}") for place in range(len(plan.stages)))
        workloads = tuple(
            _submitted(state, stage, name, first + place, message.submitter, now, is_first=not before)
            for place, (stage, name, before) in enumerate(zip(plan.stages, names, plan.after, strict=True))
        )
        specs = [stage.workload for stage in plan.stages]
        events: tuple[Event, ...] = (
            *workloads,
            PipelineSubmitted(
                pipeline,
                number,
                spec.name,
                spec.tenant,
                _stages(plan, names, now),
                message.submitter,
                message.key,
                plan.due_at,
                plan.asked_due_at,
                plan.no_deadline,
                spec.is_together,
                plan.gpu_milli_seconds if plan.due_at else 0,
            ),
            *(held_at_first(state, pipeline, names, specs) if spec.is_together else ()),
        )
        return answered(PipelineAccepted(pipeline, names, plan.due_at, plan.no_deadline), *events)

    def _test(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, TestPipeline)
        now = envelope.at
        refusal = _refusal(state, message.spec, (), now)
        if refusal is not None:
            return refused(*refusal)
        plan = _plan(state, message.spec, now)
        found = forecast_of(plan.costs, now)
        starts = start_deadlines(plan.costs.steps, plan.costs.costs, plan.costs.waits, plan.due_at)
        shorten, by = _to_shorten(plan, now) if not plan.is_feasible else ("", Nanoseconds(0))
        tested = PipelineTested(
            stages_of_spec(plan.stages, plan.costs, found, starts if plan.due_at else ()),
            now,
            found.ends,
            plan.asked_due_at,
            plan.no_deadline,
            not plan.is_feasible and message.spec.on_late is OnLate.REFUSE,
            plan.earliest if not plan.is_feasible else NO_DEADLINE,
            shorten,
            by,
        )
        return answered(tested)

    def _cancel(self, state: QueueState, envelope: Envelope) -> Decision:
        """Cancel all stages that have not ended. A repeat finds none, and is answered again."""
        message = envelope.message
        assert isinstance(message, CancelPipeline)
        row = state.image.pipelines.rows.get(message.pipeline)
        if row is None:
            return refused(Reason.UNKNOWN_PIPELINE)
        events: list[Event | Note] = []
        messages: list[Answer | Message] = [PipelineCancelled(message.pipeline)]
        for stage in row.stages:
            one = state.image.workloads.rows.get(stage.workload)
            if one is None or one.phase.is_terminal or one.is_cancel_requested:
                continue
            is_active = one.is_active
            events.append(CancelRequested(stage.workload) if is_active else WorkloadCancelled(stage.workload))
            auction = state.auctions.open.get(stage.workload)
            if auction is not None:
                events.append(AuctionClosed(stage.workload, None))
                messages += [settled(bid, has_won=False) for bid in auction.bids.values()]
        return Decision(tuple(events), tuple(messages))


def _refusal(
    state: QueueState, spec: PipelineSpec, problems: tuple[str, ...], now: Instant
) -> Against | None:
    """Return why a pipeline is refused regardless of the deadline, with all problems; `problems` are those of the sender."""
    problems += problems_of_pipeline(spec, now)
    if problems:
        return Reason.INVALID, problems
    against = _against_stages(state, spec.stages)
    if against is not None:
        return against
    if spec.is_together and not _can_run_together(state, spec.stages):
        text = "stages: no region could hold all of them; write `together: false`, and each runs where it can"
        return Reason.INVALID, (text,)
    return too_many(state, spec.tenant, len(spec.stages))


def _against_stages(state: QueueState, stages: Sequence[StageSpec]) -> Against | None:
    """Return why stages are refused as workloads would be: the first reason, and all problems."""
    found = [against_tenant(state, stage.workload) or never_fits(state, stage.workload) for stage in stages]
    reasons = [one[0] for one in found if one is not None]
    problems = tuple(
        f"stages[{place}].{problem}"
        for place, one in enumerate(found)
        for problem in (one[1] if one is not None else ())
    )
    return (reasons[0], problems) if reasons else None


def _plan(state: QueueState, spec: PipelineSpec, now: Instant) -> Plan:
    places = ordered(after_of(spec.stages))
    assert places is not None, spec.name
    stages = tuple(spec.stages[place] for place in places)
    after = [tuple(sorted(before)) for before in after_of(stages)]
    costs = costs_of_spec(state.image, stages, after)
    asked, earliest = spec.due_at(now), earliest_end(costs.steps, costs.least, now)
    gpu_milli_seconds = sum(
        gpu_milli_of(stage.workload.jobs) * one.typical // SECOND
        for stage, one in zip(stages, costs.durations, strict=True)
    )
    no_deadline = NoDeadline.NONE
    if asked and earliest > asked:
        no_deadline = NoDeadline.INFEASIBLE
    elif asked and _is_over_budget(state, spec.tenant, gpu_milli_seconds, now):
        no_deadline = NoDeadline.OVER_BUDGET
    return Plan(stages, after, costs, asked, earliest, min(gpu_milli_seconds, NUMBER_MAX), no_deadline)


def _can_run_together(state: QueueState, stages: Sequence[StageSpec]) -> bool:
    """Return whether some region could hold all stages, be it one that was given up and may be taken back."""
    specs = [stage.workload for stage in stages]
    return bool(shared_regions(state, specs, tuple(state.regions), with_abandoned=True))


def _is_over_budget(state: QueueState, tenant: TenantName, more: int, now: Instant) -> bool:
    """Return whether so many GPU milli seconds more exceed the tenant's budget of work under deadlines."""
    row, use = state.image.tenants.rows.get(tenant), state.image.pipelines.uses.get(tenant)
    if row is None or row.deadlines is None:
        return False
    used = use.used_at(now) if use is not None else 0
    return used + more > row.deadlines.gpu_hours * GPU_HOUR


def _submitted(
    state: QueueState,
    stage: StageSpec,
    workload: WorkloadId,
    number: int,
    submitter: str,
    now: Instant,
    *,
    is_first: bool,
) -> WorkloadSubmitted:
    """Return the submission of a stage. The start of one that waits for others, or for a window, is estimated with the pipeline."""
    is_free = is_first and stage.begins is None
    start = estimated_start(state, stage.workload, now) if is_free else None
    return WorkloadSubmitted(workload, number, stage.workload, submitter, start=start)


def _stages(plan: Plan, names: Sequence[WorkloadId], now: Instant) -> tuple[SubmittedStage, ...]:
    costs, due_at = plan.costs, plan.due_at
    start_by, is_late = [NO_DEADLINE] * len(names), False
    if due_at:
        start_by = start_deadlines(costs.steps, costs.costs, costs.waits, due_at)
        is_late = misses_deadline(costs.steps, costs.typical, costs.known, due_at, now)
    return tuple(
        SubmittedStage(
            stage.name,
            names[place],
            plan.after[place],
            stage.begins,
            directory_of(stage),
            start_by[place],
            is_late,
        )
        for place, stage in enumerate(plan.stages)
    )


def _infeasible(spec: PipelineSpec, plan: Plan, now: Instant) -> str:
    field = "within" if spec.within else "deadline"
    minutes, seconds = divmod(-(-(plan.earliest - now) // SECOND), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    span = "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"
    return f"{field}: the earliest deadline that can be met is {span} from now, even if nothing else runs"


def _to_shorten(plan: Plan, now: Instant) -> tuple[str, Nanoseconds]:
    """Return the stage of the critical path that takes longest, and by how much that stage alone would have to be shorter; 0: one stage is not enough."""
    costs = plan.costs
    none = [Nanoseconds(0)] * len(costs.steps)
    path = critical_path(costs.steps, forecast(costs.steps, costs.least, none, costs.known, now))
    longest = max(path, key=lambda place: costs.least[place])
    spans = list(costs.least)
    low, high = 0, int(costs.least[longest])
    while low < high:
        # The longest run time with which the deadline can be met: windows make the end no linear function of that.
        middle = (low + high + 1) // 2
        spans[longest] = Nanoseconds(middle)
        low, high = (
            (middle, high)
            if earliest_end(costs.steps, spans, now) <= plan.asked_due_at
            else (low, middle - 1)
        )
    return plan.stages[longest].name, Nanoseconds(costs.least[longest] - low if low else 0)
