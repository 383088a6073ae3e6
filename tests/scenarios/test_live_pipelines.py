"""Pipelines that a run names: what the log tells of their stages and their ends."""

from msgspec.structs import replace

from core.events.pipelines import (
    PipelineEnded,
    PipelineSubmitted,
    StagePriority,
    StagesReprioritised,
    SubmittedStage,
)
from core.events.queue import WorkloadBound
from core.fact import Event, Fact
from core.nouns.ids import GLOBAL_LOG, PipelineId, RegionName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.pipeline import Cause, Outcome
from scenarios.play.live_pipelines import PipelineRan, StageRan, lines_of_pipelines, pipelines_ran

HERE, WEST = RegionName("here"), RegionName("west")
P1, P2 = PipelineId("p-1"), PipelineId("p-2")
W1, W2 = WorkloadId("w-1"), WorkloadId("w-2")
MET = PipelineRan(
    P1,
    "nightly",
    120.0,
    [StageRan("prep", W1, 100.0, 1.0, HERE), StageRan("train", W2, 112.0, 9.0, HERE)],
    Outcome.MET,
    20.0,
    10 * SECOND,
)


def at(second: float) -> Instant:
    """An instant."""
    return Instant(round(second * SECOND))


def facts(*told: tuple[float, Event]) -> list[Fact]:
    """Return these as facts of the queue's log, each at its second."""
    return [
        Fact(GLOBAL_LOG, number, at(second), "", "", event) for number, (second, event) in enumerate(told, 1)
    ]


def test_stages_of_a_pipeline_that_met_its_deadline() -> None:
    """A start deadline counts as it was when the stage started; of another pipeline, and of later attempts, nothing does."""
    stages = (
        SubmittedStage("prep", W1, start_by=at(110)),
        SubmittedStage("train", W2, (0,), start_by=at(120)),
    )
    submitted = PipelineSubmitted(P1, 1, "nightly", TenantName("apps"), stages, "ada", due_at=at(130))
    moved = (
        StagePriority(0, at(110), at(90), is_late=False),
        StagePriority(1, at(120), at(122), is_late=False),
    )
    told = facts(
        (10, submitted),
        (10, replace(submitted, pipeline=P2, stages=())),
        (11, WorkloadBound(W1, 1, HERE, 1)),
        (12, StagesReprioritised(P1, moved, Cause.BOUND, W1)),
        (15, WorkloadBound(W1, 2, WEST, 2)),
        (19, WorkloadBound(W2, 1, HERE, 3)),
        (30, PipelineEnded(P1, Outcome.MET)),
    )
    found = pipelines_ran(told, [P1])
    assert [replace(MET, stages=[replace(MET.stages[0], region=WEST), MET.stages[1]])] == found
    assert [MET] == pipelines_ran([fact for fact in told if fact.sequence != 5], [P1])


def test_line_of_a_pipeline() -> None:
    """When each started, by when it had to, and the end."""
    text = (
        "prep started at 1.0 s (by 100 s), train started at 9.0 s (by 112 s); deadline of 120 s met at 20.0 s"
    )
    assert [("nightly (p-1)", text)] == lines_of_pipelines([MET])


def test_problems() -> None:
    """A stage that started too late or never, a deadline that was not met, and stages in several regions."""
    assert "" == MET.problem
    first, second = MET.stages
    assert "it is late" == replace(MET, outcome=Outcome.LATE).problem
    assert "it is not over" == replace(MET, outcome=Outcome.NONE).problem
    assert (
        "train did not start in time" == replace(MET, stages=[first, replace(second, started=112.5)]).problem
    )
    assert "prep did not start in time" == replace(MET, stages=[replace(first, started=0.0), second]).problem
    apart = replace(MET, stages=[first, replace(second, region=WEST)])
    assert "its stages ran in several regions" == apart.problem
