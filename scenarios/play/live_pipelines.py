"""Pipelines that a run names: when each stage started, by when it must have, and whether the deadline was met, from the queue's log."""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from core.events.pipelines import PipelineEnded, PipelineSubmitted, StagesReprioritised
from core.events.queue import WorkloadBound
from core.fact import Fact
from core.nouns.ids import PipelineId, RegionName, WorkloadId
from core.nouns.instant import SECOND
from core.nouns.pipeline import Outcome


class StageRan(Struct):
    """One stage; spans are seconds from the submission of its pipeline."""

    name: str
    workload: WorkloadId
    start_by: float
    """As it was when the stage started."""
    started: float = 0.0
    """0: it never did."""
    region: RegionName = RegionName("")


class PipelineRan(Struct):
    """One pipeline."""

    pipeline: PipelineId
    name: str
    within: float
    """Seconds from its submission to its deadline."""
    stages: list[StageRan] = field(default_factory=list)
    outcome: Outcome = Outcome.NONE
    ended: float = 0.0
    submitted_at: int = 0

    @property
    def problem(self) -> str:
        """Return what did not come about; empty: nothing."""
        late = [stage.name for stage in self.stages if not 0 < stage.started <= stage.start_by]
        if late:
            return f"{', '.join(late)} did not start in time"
        if self.outcome is not Outcome.MET:
            return f"it is {self.outcome or 'not over'}"
        if len({stage.region for stage in self.stages}) != 1:
            return "its stages ran in several regions"
        return ""


def pipelines_ran(facts: Iterable[Fact], pipelines: Iterable[PipelineId]) -> list[PipelineRan]:
    """Return what became of these pipelines, from all facts of the queue's log."""
    wanted = set(pipelines)
    found: dict[PipelineId, PipelineRan] = {}
    by_workload: dict[WorkloadId, tuple[PipelineRan, StageRan]] = {}
    for fact in facts:
        match fact.event:
            case PipelineSubmitted() as event if event.pipeline in wanted:
                row = found[event.pipeline] = PipelineRan(
                    event.pipeline, event.name, (event.due_at - fact.at) / SECOND, submitted_at=fact.at
                )
                for one in event.stages:
                    stage = StageRan(one.name, one.workload, (one.start_by - fact.at) / SECOND)
                    row.stages.append(stage)
                    by_workload[one.workload] = row, stage
            case StagesReprioritised() as event if event.pipeline in found:
                row = found[event.pipeline]
                for change in event.stages:
                    if not row.stages[change.stage].started:
                        row.stages[change.stage].start_by = (change.new - row.submitted_at) / SECOND
            case WorkloadBound() as event if event.workload in by_workload:
                row, stage = by_workload[event.workload]
                stage.started = stage.started or (fact.at - row.submitted_at) / SECOND
                stage.region = event.region
            case PipelineEnded() as event if event.pipeline in found:
                row = found[event.pipeline]
                row.outcome, row.ended = event.outcome, (fact.at - row.submitted_at) / SECOND
    return list(found.values())


def lines_of_pipelines(pipelines: Sequence[PipelineRan]) -> list[tuple[str, str]]:
    """Return a line for each pipeline: each stage with its start and its start deadline, and the end with the deadline."""
    lines = []
    for row in pipelines:
        stages = ", ".join(
            f"{stage.name} started at {stage.started:.1f} s (by {stage.start_by:.0f} s)"
            for stage in row.stages
        )
        met = f"deadline of {row.within:.0f} s {row.outcome or 'not over'} at {row.ended:.1f} s"
        lines.append((f"{row.name} ({row.pipeline})", f"{stages}; {met}"))
    return lines
