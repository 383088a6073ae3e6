"""When stages start and end: as they did, or as is to be expected, with a band."""

from collections.abc import Sequence

from msgspec import Struct

from components.job_queue.stage_costs import Costs
from core.messages.pipelines import Expected, ShownStage
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.pipeline import NO_DEADLINE, StageSpec
from core.nouns.placement import gpu_milli_of
from core.nouns.workload import Phase
from core.rules.pipelines.deadlines import critical_path, forecast


class Forecast(Struct, frozen=True):
    """Starts and ends of all stages of a pipeline, by place."""

    starts: list[Expected]
    stage_ends: list[Expected]
    ends: Expected
    """The end of the pipeline."""
    critical: frozenset[int]
    """Places of the stages by which the end is determined, with median run times and waits."""


def forecast_of(costs: Costs, now: Instant) -> Forecast:
    """Return when the stages of a pipeline start and end."""
    none = [Nanoseconds(0)] * len(costs.steps)
    least = [one.least or one.typical for one in costs.durations]
    soon = forecast(costs.steps, least, none, costs.known, now)
    likely = forecast(costs.steps, costs.typical, costs.waits, costs.known, now)
    late = forecast(costs.steps, costs.costs, costs.high_waits, costs.known, now)
    starts = [
        Expected(a.starts_at, b.starts_at, c.starts_at) for a, b, c in zip(soon, likely, late, strict=True)
    ]
    ends = [Expected(a.ends_at, b.ends_at, c.ends_at) for a, b, c in zip(soon, likely, late, strict=True)]
    whole = Expected(
        max(one.soon for one in ends), max(one.likely for one in ends), max(one.late for one in ends)
    )
    return Forecast(starts, ends, whole, frozenset(critical_path(costs.steps, likely)))


def stages_of_spec(
    stages: Sequence[StageSpec], costs: Costs, found: Forecast, start_by: Sequence[Instant]
) -> tuple[ShownStage, ...]:
    """Return the stages of a pipeline that is not submitted yet.

    start_by   by place; empty: there would be no deadline
    """
    return tuple(
        ShownStage(
            name=stage.name,
            workload=WorkloadId(""),
            phase=Phase.PENDING,
            gpu_milli=gpu_milli_of(stage.workload.jobs),
            cost=costs.durations[place].cost,
            by=costs.durations[place].by,
            starts=found.starts[place],
            ends=found.stage_ends[place],
            after=stage.after,
            waits_for=stage.after,
            begins=stage.begins,
            start_by=start_by[place] if start_by else NO_DEADLINE,
            is_critical=place in found.critical,
        )
        for place, stage in enumerate(stages)
    )
