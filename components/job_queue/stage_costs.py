"""The inputs of start deadlines and forecasts: run times and waits of stages, and how far each has come."""

from collections.abc import Sequence

from msgspec import Struct

from core.estimating.durations import NO_DURATION, Duration, duration_of
from core.estimating.family import family_of
from core.estimating.prediction import left_of
from core.images import GlobalImage
from core.images.pipelines import PipelineRow, StageRow
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.pipeline import StageSpec
from core.nouns.placement import gpu_milli_of
from core.nouns.workload import NEVER, Phase, WorkloadSpec
from core.rules.pipelines.deadlines import Known, Step

HIGH_WAIT = 0.75
"""The quantile of waits that closes the band of a forecast."""


class Costs(Struct, frozen=True):
    """Durations, waits and progress of all stages of one pipeline, by place."""

    steps: list[Step]
    durations: list[Duration]
    waits: list[Nanoseconds]
    """Median waits, start included."""
    high_waits: list[Nanoseconds]
    """75th percentiles of waits, start included."""
    known: list[Known]

    @property
    def costs(self) -> list[Nanoseconds]:
        """Return the run times by which start deadlines are computed."""
        return [one.cost for one in self.durations]

    @property
    def typical(self) -> list[Nanoseconds]:
        """Return the median run times."""
        return [one.typical for one in self.durations]

    @property
    def least(self) -> list[Nanoseconds]:
        """Return the low quantiles of run times that are known."""
        return [one.least for one in self.durations]


def costs_of(image: GlobalImage, row: PipelineRow, now: Instant) -> Costs:
    """Return the costs of a pipeline. Stages that have ended cost 0, because their ends are known."""
    durations: list[Duration] = []
    waits: list[Nanoseconds] = []
    high_waits: list[Nanoseconds] = []
    known: list[Known] = []
    for stage in row.stages:
        if stage.phase.is_terminal:
            durations.append(NO_DURATION)
            waits.append(NEVER)
            high_waits.append(NEVER)
            known.append(Known(Instant(stage.started_at or stage.ended_at), Instant(stage.ended_at)))
            continue
        spec = image.workloads.rows[stage.workload].spec
        duration = duration_of(image.history.runs, spec, family_of(spec.name))
        durations.append(duration if stage.started_at else _rest(image, stage, duration))
        waits.append(image.history.usual_wait(spec))
        high_waits.append(image.history.usual_wait(spec, HIGH_WAIT))
        known.append(known_of(image, stage, spec, duration, now))
    steps = [Step(stage.after, None if stage.has_begun else stage.begins) for stage in row.stages]
    return Costs(steps, durations, waits, high_waits, known)


def costs_of_spec(image: GlobalImage, stages: Sequence[StageSpec], after: Sequence[tuple[int, ...]]) -> Costs:
    """Return the costs of a pipeline that is to be submitted.

    after   for each stage, the places of the stages that must complete before
    """
    specs = [stage.workload for stage in stages]
    return Costs(
        [Step(before, stage.begins) for before, stage in zip(after, stages, strict=True)],
        [duration_of(image.history.runs, one, family_of(one.name)) for one in specs],
        [image.history.usual_wait(one) for one in specs],
        [image.history.usual_wait(one, HIGH_WAIT) for one in specs],
        [Known()] * len(specs),
    )


def _rest(image: GlobalImage, stage: StageRow, duration: Duration) -> Duration:
    """Return how long a stage goes on that waits again: saved work is not repeated."""
    live = image.history.live.get(stage.workload)
    if live is None or not live.ran:
        return duration
    spans = (max(0, span - live.ran) for span in (duration.cost, duration.typical, duration.least))
    cost, typical, least = (Nanoseconds(span) for span in spans)
    return Duration(cost, typical, least, duration.by)


def known_of(
    image: GlobalImage, stage: StageRow, spec: WorkloadSpec, duration: Duration, now: Instant
) -> Known:
    """Return how far a stage has come that has not ended; a running one ends after the median run time, or as runs as long do."""
    live = image.history.live.get(stage.workload)
    if stage.phase is not Phase.RUNNING or live is None:
        return Known()
    ran = Nanoseconds(live.ran + max(0, now - stage.started_at))
    left = Nanoseconds(duration.typical - ran)
    if left <= 0:
        left = left_of(image.history.runs, live.tenant, live.family, gpu_milli_of(spec.jobs), ran)
    return Known(Instant(stage.started_at), Instant(now + left))
