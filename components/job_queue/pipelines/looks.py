"""Looks at pipelines: after each event of a stage, and once a minute where there is a deadline or the first award is still to come.

A look cancels the stages that wait for one that will never complete, records the end of a pipeline, renews or ends a hold to regions,
and records start deadlines that moved by more than a second and a hundredth of the laxity, and stages that became late or are no
longer. All of that follows from the image, so a restart loses none of it; only the cause of the next change is then `time`.
"""

from collections.abc import Iterable

from components.job_queue.ordering import place
from components.job_queue.pipelines.holding import renewed
from components.job_queue.stage_costs import costs_of
from components.job_queue.state.pipeline_looks import PipelineLooked, WindowTurned
from components.job_queue.state.queue_state import QueueState
from core.component import NOTHING, Decision
from core.events.moves import MoveBegun, MoveEnded, MovePlanned
from core.events.pipelines import (
    PipelineEnded,
    PipelineSubmitted,
    StagePriority,
    StagesHeld,
    StagesReprioritised,
)
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
)
from core.events.regions import RegionAbandoned, RegionReadmitted
from core.fact import Event, Fact, Note
from core.images.pipelines import PipelineRow
from core.nouns.ids import PipelineId, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, earliest
from core.nouns.limits import PIPELINE_LOOK, PIPELINES_LOOKED_AT_ONCE_MAX
from core.nouns.pipeline import Cause, Outcome
from core.nouns.workload import Phase
from core.rules.pipelines.deadlines import has_moved, misses_deadline, start_deadlines, turns_late_at

CAUSES: dict[type[object], Cause] = {
    WorkloadBound: Cause.BOUND,
    WorkloadCancelled: Cause.FAILED,
    WorkloadChanged: Cause.CHANGED,
    AwardReturned: Cause.FAILED,
    MovePlanned: Cause.MOVED,
    MoveBegun: Cause.MOVED,
    MoveEnded: Cause.MOVED,
}


def index_all_pipelines(state: QueueState, at: Instant) -> None:
    """Have every pipeline that goes on looked at, once, at a start."""
    for pipeline, row in state.image.pipelines.rows.items():
        if not row.outcome:
            state.pipeline_looks.due.put(pipeline, at)


def index_pipelines(state: QueueState, fact: Fact) -> None:
    """Follow a fact of the queue after the image has folded it: places in the order, and the next look."""
    event, looks, pipelines = fact.event, state.pipeline_looks, state.image.pipelines
    match event:
        case PipelineSubmitted():
            _place(state, (stage.workload for stage in event.stages))
            looks.due.put(event.pipeline, fact.at)
        case StagesHeld():
            _place(state, event.workloads)
            for workload in event.workloads:
                if workload in state.image.start_promises.rows:
                    state.starts.due.put(
                        workload, fact.at
                    )  # It may be of a region in which the stage can start no more.
            state.auctions.forget_memos()
            state.open_at = fact.at
        case StagesReprioritised():
            stages = pipelines.rows[event.pipeline].stages
            _place(state, (stages[one.stage].workload for one in event.stages))
            state.open_at = fact.at
        case PipelineEnded():
            looks.forget(event.pipeline)
        case RegionAbandoned() | RegionReadmitted():
            index_all_pipelines(state, fact.at)
        case _:
            found = pipelines.of.get(getattr(event, "workload", WorkloadId("")))
            if found is not None:
                _index_stage(state, found[0], fact)


def _index_stage(state: QueueState, pipeline: PipelineId, fact: Fact) -> None:
    event, looks = fact.event, state.pipeline_looks
    row = state.image.pipelines.rows[pipeline]
    workload = getattr(event, "workload", WorkloadId(""))
    cause = CAUSES.get(type(event))
    if isinstance(event, AttemptClosed):
        has_completed = event.phase is Phase.COMPLETED
        cause = Cause.ENDED if has_completed else Cause.FAILED
        if has_completed:
            _place(state, (stage.workload for stage in row.stages if not stage.phase.is_terminal))
    if cause is not None and not row.outcome:
        looks.look(pipeline, fact.at, cause, workload)


def _place(state: QueueState, workloads: Iterable[WorkloadId]) -> None:
    rows = state.image.workloads.rows
    for workload in workloads:
        if workload in rows and not rows[workload].phase.is_terminal:
            place(state, workload, rows[workload])


def note_pipelines(state: QueueState, fact: Fact) -> bool:
    """Fold a note about pipelines. Return False for any other note."""
    match fact.event:
        case PipelineLooked(pipeline, again_at, is_done):
            if is_done:
                state.pipeline_looks.causes.pop(pipeline, None)
            if again_at is None:
                state.pipeline_looks.due.drop(pipeline)
            else:
                state.pipeline_looks.due.put(pipeline, again_at)
        case WindowTurned(workload, is_open, again_at):
            looks = state.pipeline_looks
            looks.windows.put(workload, again_at)
            if is_open:
                looks.open[workload] = None
            else:
                looks.open.pop(workload, None)
            state.open_at = fact.at
            _place(state, (workload,))
        case _:
            return False
    return True


def turn_windows(state: QueueState, now: Instant) -> Decision:
    """Return a note for each stage of which the window opens or closes. A stage with an open auction stays in the order until that is over."""
    notes: list[Note] = []
    for workload in state.pipeline_looks.windows.passed(now):
        stage = state.image.pipelines.stage(workload)
        assert stage is not None, workload
        assert stage.begins is not None, workload
        begins_at = stage.begins.begins_from(now)
        is_open = begins_at == now or workload in state.auctions.open
        closes_at = Instant(max(now + SECOND, stage.begins.opened_at(now) + stage.begins.lasts))
        notes.append(WindowTurned(workload, is_open, closes_at if is_open else begins_at))
    return Decision(tuple(notes)) if notes else NOTHING


def look_at_pipelines(state: QueueState, now: Instant) -> Decision:
    """Return the facts about the pipelines that are due for a look."""
    found = state.pipeline_looks.due.passed(now, PIPELINES_LOOKED_AT_ONCE_MAX)
    if not found:
        return NOTHING
    events: list[Event | Note] = []
    for pipeline in found:
        events += _look(state, pipeline, now)
    return Decision(tuple(events))


def _look(state: QueueState, pipeline: PipelineId, now: Instant) -> list[Event | Note]:
    row = state.image.pipelines.rows.get(pipeline)
    if row is None or row.outcome:
        return [PipelineLooked(pipeline, None)]
    if row.is_over:
        return [_end_of(pipeline, row), PipelineLooked(pipeline, None)]
    events: list[Event | Note] = [WorkloadCancelled(workload) for workload in never_started(row)]
    events += renewed(state, pipeline, row)
    if events:
        return [PipelineLooked(pipeline, now, is_done=False), *events]
    if not row.due_at:
        is_free = row.is_held_together and not row.region
        return [PipelineLooked(pipeline, Instant(now + PIPELINE_LOOK) if is_free else None)]
    changed, again_at = _reprioritised(state, pipeline, row, now)
    return [*changed, PipelineLooked(pipeline, again_at)]


def never_started(row: PipelineRow) -> list[WorkloadId]:
    """Return the stages, not cancelled yet, that wait for one which has ended without completion, or for another such stage."""
    lost: set[int] = set()
    found = []
    for place_of, stage in enumerate(row.stages):
        if stage.phase.is_terminal:
            if stage.phase is not Phase.COMPLETED:
                lost.add(place_of)
        elif not lost.isdisjoint(stage.after):
            lost.add(place_of)
            found.append(stage.workload)
    return found


def _end_of(pipeline: PipelineId, row: PipelineRow) -> PipelineEnded:
    phases = {stage.phase for stage in row.stages}
    ended_at = max(stage.ended_at for stage in row.stages)
    if phases == {Phase.COMPLETED}:
        late_by = Nanoseconds(max(0, ended_at - row.due_at) if row.due_at else 0)
        return PipelineEnded(pipeline, Outcome.LATE if late_by else Outcome.MET, late_by)
    has_failed = Phase.FAILED in phases or Phase.TIMEOUT in phases
    return PipelineEnded(pipeline, Outcome.FAILED if has_failed else Outcome.CANCELLED)


def _reprioritised(
    state: QueueState, pipeline: PipelineId, row: PipelineRow, now: Instant
) -> tuple[list[Event], Instant]:
    """Return the fact about start deadlines that moved, if there is one, and the time of the next look."""
    costs, due_at = costs_of(state.image, row, now), Instant(row.due_at)
    start_by = start_deadlines(costs.steps, costs.costs, costs.waits, due_at)
    is_late = misses_deadline(costs.steps, costs.typical, costs.known, due_at, now)
    changes = []
    for index, stage in enumerate(row.stages):
        if stage.phase.is_terminal or stage.phase is Phase.RUNNING:
            continue
        old = Instant(stage.start_by)
        if has_moved(old, start_by[index], now):
            changes.append(StagePriority(index, old, start_by[index], is_late))
        elif stage.is_late != is_late:
            changes.append(StagePriority(index, old, old, is_late))
    cause, workload = state.pipeline_looks.causes.get(pipeline, (Cause.TIME, WorkloadId("")))
    turns_at = turns_late_at(costs.steps, costs.typical, costs.known, due_at, now)
    again_at = earliest(Instant(now + PIPELINE_LOOK), turns_at)
    assert again_at is not None
    if not changes:
        return [], again_at
    return [StagesReprioritised(pipeline, tuple(changes), cause, workload)], again_at
