"""Stages in the order of the queue: which stages are in the order, and from when on the age of each counts.

A stage is in the order once all stages that it waits for have completed and the window is open; one that has run before, at any time. Its age counts from a day (`age-cap`)
before its start deadline, if that is before its submission: so it has all the credit that waiting earns when it must start. A stage
that would be late even if it started now counts by its submission: it can gain nothing, and would only delay others.
"""

from components.job_queue.state.pipeline_looks import PipelineLooks
from core.images import GlobalImage
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant
from core.nouns.ranking import DeadlinePolicy, RankingSettings
from core.nouns.workload import Phase
from core.ranking.scan import AS_SUBMITTED


def may_begin(image: GlobalImage, looks: PipelineLooks, workload: WorkloadId, *, is_pending: bool) -> bool:
    """Return whether a workload is no stage, or waits neither for other stages nor for a window.

    Follows the window of a stage that has no other stage to wait for, from now until the start.
    """
    stage = image.pipelines.stage(workload)
    if stage is None:
        return True
    is_ready = image.pipelines.is_ready(workload)
    if stage.begins is None:
        return is_ready
    if stage.has_begun or not (is_ready and is_pending):
        looks.forget_window(workload)
        return is_ready and stage.has_begun
    if workload not in looks.windows:
        looks.windows.put(workload, Instant(0))
    return workload in looks.open


def ages_from(image: GlobalImage, workload: WorkloadId, ranking: RankingSettings) -> Instant:
    """Return from when on the age of a workload counts, for `PendingWork.since`."""
    policy = ranking.deadlines
    stage = image.pipelines.stage(workload) if policy is not DeadlinePolicy.OFF else None
    if stage is None or not stage.start_by or stage.is_late or stage.phase is not Phase.PENDING:
        return AS_SUBMITTED
    row = image.pipelines.pipeline(workload)
    assert row is not None
    must_by = stage.start_by if policy is DeadlinePolicy.LLF else row.due_at
    return Instant(min(row.submitted_at, must_by - ranking.credit.age_cap))
