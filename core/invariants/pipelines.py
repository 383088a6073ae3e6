"""Rule 3 of the invariants (DESIGN §11) for pipelines: no stage is awarded before those that it waits for have completed, or outside the
region to which its pipeline is held; a pipeline ends once, when all of its stages have, and says truly how.
"""

from core.events.pipelines import PipelineEnded, StagesReprioritised
from core.events.queue import WorkloadAwarded
from core.fact import Fact
from core.images import GlobalImage
from core.images.pipelines import PipelineRow
from core.nouns.pipeline import Outcome
from core.nouns.workload import Phase


def check_pipeline_fact(fact: Fact, before: GlobalImage) -> list[str]:
    """Return the violations by a fact of the queue, before it is folded."""
    match fact.event:
        case WorkloadAwarded() as award:
            return _check_award(award, before)
        case PipelineEnded() as end:
            row = before.pipelines.rows.get(end.pipeline)
            return [f"{end.pipeline}: {text}" for text in _problems_of_end(end, row)]
        case StagesReprioritised() as change:
            row = before.pipelines.rows.get(change.pipeline)
            if row is None or row.outcome or not row.due_at:
                return [
                    f"{change.pipeline}: start deadlines move, and there is none that goes on with a deadline"
                ]
    return []


def _check_award(award: WorkloadAwarded, before: GlobalImage) -> list[str]:
    found = before.pipelines.of.get(award.workload)
    if found is None:
        return []
    row = before.pipelines.rows[found[0]]
    waits_for = [stage.name for stage in row.waits_for(found[1])]
    problems = [f"it is awarded before {', '.join(waits_for)} has completed"] if waits_for else []
    pins = before.workloads.rows[award.workload].spec.regions
    if pins and award.region not in pins:
        problems.append(f"it is awarded to {award.region}, and held to {', '.join(pins)}")
    return [f"{award.workload}: {problem}" for problem in problems]


def _problems_of_end(end: PipelineEnded, row: PipelineRow | None) -> list[str]:
    if row is None:
        return ["it ends, and is not known"]
    if row.outcome:
        return [f"it ends again, after it was {row.outcome}"]
    live = [stage.name for stage in row.stages if not stage.phase.is_terminal]
    if live:
        return [f"it ends, and {', '.join(live)} has not"]
    has_completed = all(stage.phase is Phase.COMPLETED for stage in row.stages)
    if has_completed != (end.outcome in (Outcome.MET, Outcome.LATE)):
        return [f"it is {end.outcome}, and {'all' if has_completed else 'not all'} of its stages completed"]
    late_by = max(stage.ended_at for stage in row.stages) - row.due_at if row.due_at and has_completed else 0
    if max(0, late_by) != end.late_by or (end.outcome is Outcome.LATE) != (late_by > 0 and has_completed):
        return [f"it is {end.outcome} by {end.late_by} ns, and was late by {max(0, late_by)}"]
    return []
