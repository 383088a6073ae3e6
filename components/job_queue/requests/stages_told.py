"""A workload that is a stage, for lists and explanations."""

from components.job_queue.stage_costs import known_of
from components.job_queue.state.queue_state import QueueState
from core.estimating.durations import duration_of
from core.estimating.family import family_of
from core.images.pipelines import StageRow
from core.messages.queue import StageTold, WaitedStage
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.workload import Phase


def stage_told(state: QueueState, workload: WorkloadId, now: Instant) -> StageTold | None:
    """Return the pipeline, the waits and the start deadline of a stage; None for other workloads."""
    pipelines = state.image.pipelines
    found = pipelines.of.get(workload)
    if found is None:
        return None
    row = pipelines.rows[found[0]]
    stage = row.stages[found[1]]
    is_pending = stage.phase is Phase.PENDING
    waits_for = tuple(
        WaitedStage(before.name, before.workload, _left(state, before, now))
        for before in (row.waits_for(found[1]) if is_pending else ())
    )
    begins_in = Nanoseconds(-1)
    if is_pending and stage.begins is not None and not waits_for:
        begins_in = Nanoseconds(stage.begins.begins_from(now) - now)
    has_deadline = stage.start_by and stage.phase in (Phase.PENDING, Phase.AWARDED)
    start_in = Nanoseconds(stage.start_by - now) if has_deadline else None
    is_single = len(row.stages) == 1
    return StageTold(
        found[0],
        row.name,
        "" if is_single else stage.name,
        waits_for,
        begins_in,
        start_in,
        stage.is_late,
        row.region,
    )


def _left(state: QueueState, stage: StageRow, now: Instant) -> Nanoseconds:
    """Return how long a stage will go on; -1: the stage does not run."""
    if stage.phase is not Phase.RUNNING:
        return Nanoseconds(-1)
    spec = state.image.workloads.rows[stage.workload].spec
    duration = duration_of(state.image.history.runs, spec, family_of(spec.name))
    return Nanoseconds(max(0, known_of(state.image, stage, spec, duration, now).ends_at - now))
