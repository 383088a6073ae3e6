"""Pipelines as users submit them, and what regions say of their stages."""

from typing import Any

from msgspec.structs import replace

from core.component import Decision
from core.messages.pipelines import PipelineAccepted, PipelineShown, ShowPipeline, SubmitPipeline
from core.nouns.ids import PipelineId, RegionName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, after
from core.nouns.pipeline import NO_DEADLINE, DailyWindow, OnLate, PipelineSpec, StageSpec
from core.nouns.workload import NEVER, EndCause, WorkloadSpec
from tests.builders import EU, EU_LOG, a_spec
from tests.components.support.job_queue import abstain, bid, ended, refuse_open, running
from tests.components.support.machine import Machine
from tests.matching import said_once

P1 = PipelineId("p-1")
HOUR = 3_600 * SECOND
DAY = 24 * HOUR


def a_stage(
    name: str,
    *after: str,
    expected: int = NEVER,
    begins: DailyWindow | None = None,
    spec: WorkloadSpec | None = None,
) -> StageSpec:
    """A stage of the pipeline `nightly` that may run in eu alone."""
    workload = replace(spec or a_spec(regions=(EU,)), name=f"nightly.{name}", expected=Nanoseconds(expected))
    return StageSpec(name, workload, after, begins)


def a_pipeline(
    *stages: StageSpec,
    within: int = NEVER,
    deadline: Instant = NO_DEADLINE,
    on_late: OnLate = OnLate.REFUSE,
    is_together: bool = True,
) -> PipelineSpec:
    """The pipeline `nightly` of these stages."""
    return PipelineSpec("nightly", stages, deadline, Nanoseconds(within), on_late, is_together)


def a_chain(*hours: float, within: float = 0) -> PipelineSpec:
    """Stages a, b, c, ... one after the other, each expected to run for so many hours."""
    names = "abcdefgh"[: len(hours)]
    stages = [
        a_stage(name, *names[place - 1 : place] if place else (), expected=round(hours[place] * HOUR))
        for place, name in enumerate(names)
    ]
    return a_pipeline(*stages, within=round(within * HOUR))


def submit_pipeline(machine: Machine[Any], spec: PipelineSpec, *, key: str = "") -> PipelineAccepted:
    """A pipeline is accepted."""
    return said_once(machine.hear(SubmitPipeline(spec, "ada", key)), PipelineAccepted)


def pipeline_shown(machine: Machine[Any], pipeline: PipelineId = P1) -> PipelineShown:
    """How far a pipeline has come."""
    return said_once(machine.hear(ShowPipeline(pipeline)), PipelineShown)


def start_by(machine: Machine[Any], pipeline: PipelineId = P1) -> list[float]:
    """By when each stage must start, in hours from now."""
    stages = machine.state.image.pipelines.rows[pipeline].stages
    return [round((stage.start_by - machine.now) / HOUR, 3) for stage in stages]


def passes(machine: Machine[Any], hours: float = 0, *, seconds: float = 0) -> Decision:
    """So much time passes."""
    return machine.wake(after(machine.now, Nanoseconds(round(hours * HOUR + seconds * SECOND))))


def phases(machine: Machine[Any], pipeline: PipelineId = P1) -> list[str]:
    """The phase of each stage."""
    return [stage.phase.value for stage in machine.state.image.pipelines.rows[pipeline].stages]


def starts(machine: Machine[Any], workload: WorkloadId, region: RegionName = EU, epoch: int = 1) -> None:
    """A stage is asked for, or is already, and awarded to a region, and its gang is up there; all others are refused."""
    machine.wake()
    auction = machine.state.auctions.open[workload]
    bid(machine, auction.auction, region, workload=workload)
    refuse_open(machine, workload, missing={region: 1_000})
    for other in set(auction.asked) - {region}:
        abstain(machine, auction.auction, other, workload=workload)
    machine.wake()
    running(machine, epoch, workload)


def ends(
    machine: Machine[Any], workload: WorkloadId, cause: EndCause = EndCause.COMPLETED, *, epoch: int = 1
) -> Decision:
    """The attempt of a stage is over."""
    machine.fact(EU_LOG, ended(cause, epoch, workload))
    return machine.wake()
