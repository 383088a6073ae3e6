"""The rules of pipelines, by the queue's own log, and that they tell each thing that breaks them."""

import pytest

from core.events.pipelines import (
    PipelineEnded,
    PipelineSubmitted,
    StagePriority,
    StagesHeld,
    StagesReprioritised,
    SubmittedStage,
)
from core.events.queue import AttemptClosed, RegionAdded, WorkloadAwarded, WorkloadCancelled
from core.fact import Event
from core.images import GlobalImage
from core.invariants.pipelines import check_pipeline_fact
from core.nouns.ids import GLOBAL_LOG, PipelineId, RegionName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, after
from core.nouns.pipeline import NO_DEADLINE, Cause, Outcome
from core.nouns.workload import EndCause, Phase
from tests.builders import EU, START, US, a_fact, a_queue, submitted

P1, W1, W2 = PipelineId("p-1"), WorkloadId("w-1"), WorkloadId("w-2")
DUE = after(START, Nanoseconds(3_600 * SECOND))


def awarded(workload: WorkloadId, region: RegionName = EU) -> WorkloadAwarded:
    """The first attempt of a stage."""
    return WorkloadAwarded(workload, 1, region, 0, ())


def closed(workload: WorkloadId) -> AttemptClosed:
    """A stage has completed."""
    return AttemptClosed(workload, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 1)


def queue(*events: Event, due_at: Instant = NO_DEADLINE) -> GlobalImage:
    """A pipeline of two stages, one after the other, and what happened to it."""
    stages = (SubmittedStage("a", W1), SubmittedStage("b", W2, (0,)))
    pipeline = PipelineSubmitted(P1, 1, "nightly", TenantName("ml"), stages, "ada", due_at=due_at)
    return a_queue(RegionAdded(EU), RegionAdded(US), submitted(1), submitted(2), pipeline, *events)


def told(image: GlobalImage, event: Event) -> list[str]:
    """What is found of a fact that is to be folded next."""
    return check_pipeline_fact(a_fact(event, 99, log=GLOBAL_LOG), image)


DONE = (awarded(W1), closed(W1), awarded(W2), closed(W2))


def test_award_before_forerunners_completed() -> None:
    """C-11: awarded is not completed; of a workload that is no stage nothing is asked."""
    assert ["w-2: it is awarded before a has completed"] == told(queue(), awarded(W2))
    assert ["w-2: it is awarded before a has completed"] == told(queue(awarded(W1)), awarded(W2))
    assert [] == told(queue(awarded(W1), closed(W1)), awarded(W2)) == told(queue(), awarded(W1))
    assert [] == told(queue(), awarded(WorkloadId("w-3")))


def test_award_outside_of_the_region_to_which_stages_are_held() -> None:
    """All stages run in one region."""
    image = queue(StagesHeld(P1, (W1, W2), EU), awarded(W1), closed(W1))
    assert [] == told(image, awarded(W2))
    assert ["w-2: it is awarded to us, and held to eu"] == told(image, awarded(W2, US))


def test_pipeline_ends_once_and_truly() -> None:
    """After all of its stages, and as they did."""
    met, failed = PipelineEnded(P1, Outcome.MET), PipelineEnded(P1, Outcome.CANCELLED)
    assert ["p-1: it ends, and a, b has not"] == told(queue(), met)
    assert [] == told(queue(*DONE), met)
    assert ["p-1: it ends again, after it was met"] == told(queue(*DONE, met), met)
    assert ["p-1: it is cancelled, and all of its stages completed"] == told(queue(*DONE), failed)
    lost = (awarded(W1), closed(W1), WorkloadCancelled(W2))
    assert ["p-1: it is met, and not all of its stages completed"] == told(queue(*lost), met)
    assert [] == told(queue(*lost), failed)
    assert ["p-9: it ends, and is not known"] == told(queue(), PipelineEnded(PipelineId("p-9"), Outcome.MET))


@pytest.mark.parametrize("late_by", [0, 5])
def test_pipeline_says_truly_how_late_it_is(late_by: int) -> None:
    """To the nanosecond."""
    end = max(stage.ended_at for stage in queue(*DONE).pipelines.rows[P1].stages)
    image = queue(*DONE, due_at=Instant(end - late_by))
    truth = PipelineEnded(P1, Outcome.LATE if late_by else Outcome.MET, Nanoseconds(late_by))
    assert [] == told(image, truth)
    for outcome, span in ((Outcome.LATE, late_by + 1), (Outcome.MET, 5 - late_by + 1), (Outcome.MET, 5)):
        assert told(image, PipelineEnded(P1, outcome, Nanoseconds(span)))


def test_start_deadlines_move_only_of_what_goes_on_with_a_deadline() -> None:
    """Not after its end, and not without a deadline."""
    priority = StagePriority(0, START, DUE, is_late=False)
    change = StagesReprioritised(P1, (priority,), Cause.TIME)
    assert [] == told(queue(due_at=DUE), change)
    for image in (queue(), queue(*DONE, PipelineEnded(P1, Outcome.MET), due_at=DUE)):
        assert ["p-1: start deadlines move, and there is none that goes on with a deadline"] == told(
            image, change
        )
