"""Answers to queries about pipelines: progress, start deadlines of stages, and the expected end."""

from collections.abc import Callable

from components.job_queue.pipelines.forecasts import Forecast, forecast_of
from components.job_queue.pipelines.looks import never_started
from components.job_queue.requests.queries import UserAnswers
from components.job_queue.stage_costs import Costs, costs_of
from components.job_queue.state.queue_state import QueueState
from components.replies import answered, refused
from core.component import Decision
from core.images.pipelines import PipelineRow, StageRow
from core.messages.base import Envelope, Message
from core.messages.pipelines import (
    ListedPipeline,
    ListPipelines,
    PipelineShown,
    PipelinesListed,
    ShownStage,
    ShowPipeline,
)
from core.nouns.ids import PipelineId, RegionName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import PIPELINES_LISTED_MAX
from core.nouns.placement import gpu_milli_of
from core.nouns.reasons import Reason
from core.nouns.workload import Phase
from core.rules.ownership import owns


class PipelineAnswers:
    """The queue's deciders for queries about pipelines."""

    def __init__(self, regions: tuple[RegionName, ...]) -> None:
        self._answers = UserAnswers(regions)
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            ShowPipeline: self._show,
            ListPipelines: self._list,
        }

    def _show(self, state: QueueState, envelope: Envelope) -> Decision:
        message, now = envelope.message, envelope.at
        assert isinstance(message, ShowPipeline)
        row = state.image.pipelines.rows.get(message.pipeline)
        if row is None:
            return refused(Reason.UNKNOWN_PIPELINE)
        costs = costs_of(state.image, row, now)
        found = forecast_of(costs, now)
        stages = tuple(self._stage(state, row, place, costs, found, now) for place in range(len(row.stages)))
        has_failed = bool(never_started(row)) or any(_has_failed(stage) for stage in row.stages)
        shown = PipelineShown(
            message.pipeline,
            row.name,
            row.tenant,
            stages,
            now,
            Instant(row.submitted_at),
            Instant(row.due_at),
            Instant(row.asked_due_at),
            row.no_deadline,
            None if has_failed or row.outcome else found.ends,
            row.outcome,
            row.late_by,
            Instant(row.ended_at),
            row.region,
        )
        return answered(shown)

    def _stage(
        self, state: QueueState, row: PipelineRow, place: int, costs: Costs, found: Forecast, now: Instant
    ) -> ShownStage:
        stage = row.stages[place]
        one = state.image.workloads.rows.get(stage.workload)
        reason = self._answers.why(state, stage.workload, one, {}, now)[0] if one is not None else None
        return ShownStage(
            name=stage.name,
            workload=stage.workload,
            phase=stage.phase,
            gpu_milli=gpu_milli_of(one.spec.jobs) if one is not None else 0,
            cost=costs.durations[place].cost,
            by=costs.durations[place].by,
            starts=found.starts[place],
            ends=found.stage_ends[place],
            after=tuple(row.stages[before].name for before in stage.after),
            waits_for=tuple(before.name for before in row.waits_for(place)),
            begins=stage.begins,
            reason=reason or "",
            region=one.region if one is not None else RegionName(""),
            start_by=Instant(stage.start_by),
            is_late=stage.is_late,
            is_critical=place in found.critical,
            ended_at=Instant(stage.ended_at),
        )

    def _list(self, state: QueueState, envelope: Envelope) -> Decision:
        """Return a page of pipelines. All are sorted for each page, which costs less than an index would."""
        message, now = envelope.message, envelope.at
        assert isinstance(message, ListPipelines)
        rows = [
            (_place(row, now), pipeline, row)
            for pipeline, row in state.image.pipelines.rows.items()
            if owns(envelope.tenant, row.tenant)
        ]
        rows.sort(key=lambda one: one[0])
        after, count = max(0, message.after), min(max(1, message.count_max), PIPELINES_LISTED_MAX)
        lines = tuple(_line(state, pipeline, row, now) for _, pipeline, row in rows[after : after + count])
        following = after + count
        return answered(PipelinesListed(lines, following if following < len(rows) else 0, now))


def _place(row: PipelineRow, now: Instant) -> tuple[int, int, int]:
    """Return the sort key of a pipeline in lists: the least laxity first, then those without a deadline, then the newest end."""
    if row.outcome:
        return 2, -row.ended_at, -row.number
    laxity = _laxity(row, now)
    return (1, 0, row.number) if laxity is None else (0, laxity, row.number)


def _laxity(row: PipelineRow, now: Instant) -> Nanoseconds | None:
    waiting = [
        stage.start_by
        for stage in row.stages
        if stage.phase in (Phase.PENDING, Phase.AWARDED) and stage.start_by
    ]
    return Nanoseconds(min(waiting) - now) if waiting else None


def _line(state: QueueState, pipeline: PipelineId, row: PipelineRow, now: Instant) -> ListedPipeline:
    has_failed = any(_has_failed(stage) for stage in row.stages)
    ends_at = row.ended_at
    if not row.outcome and not has_failed:
        ends_at = forecast_of(costs_of(state.image, row, now), now).ends.likely
    return ListedPipeline(
        pipeline,
        row.name,
        row.tenant,
        len(row.stages),
        sum(stage.phase is Phase.COMPLETED for stage in row.stages),
        tuple(stage.name for stage in row.stages if stage.phase in (Phase.AWARDED, Phase.RUNNING)),
        Instant(row.due_at),
        None if row.outcome else _laxity(row, now),
        any(stage.is_late for stage in row.stages if not stage.phase.is_terminal),
        Instant(ends_at),
        row.outcome,
        row.late_by,
    )


def _has_failed(stage: StageRow) -> bool:
    return stage.phase.is_terminal and stage.phase is not Phase.COMPLETED
