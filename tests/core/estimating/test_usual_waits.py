"""How long work waits as a rule, by the node types that it asks for: from when it could start until its gang was up."""

import pytest

from core.events.pipelines import PipelineSubmitted, SubmittedStage
from core.events.queue import WorkloadAwarded, WorkloadBound
from core.nouns.ids import PipelineId, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.pipeline import DailyWindow
from tests.builders import EU, a_job, a_spec
from tests.core.estimating.test_history import ML, Past


def up_after(past: Past, seconds: float, workload: WorkloadId | None = None) -> WorkloadId:
    """A workload is up so many seconds after it was submitted, or after now."""
    name = past.submit() if workload is None else workload
    past.say(WorkloadAwarded(name, 1, EU, 0, ()), seconds)
    past.say(WorkloadBound(name, 1, EU, 1))
    return name


def seconds_of(past: Past, part: float = 0.5) -> float:
    """Of work of the usual node type."""
    return past.history.usual_wait(a_spec(), part) / SECOND


def test_median_of_what_waited() -> None:
    """To a tenth, as spreads are; of fewer than three nothing is said, and other types have waits of their own."""
    past = Past()
    for span in (10, 40):
        up_after(past, span)
    assert 0 == seconds_of(past)
    for span in (100, 400, 1_600):
        up_after(past, span)
    assert pytest.approx(100, rel=0.13) == seconds_of(past)
    assert pytest.approx(400, rel=0.13) == seconds_of(past, 0.75)
    assert 0 == past.history.usual_wait(a_spec(a_job(gpu_type="A100")))


def test_second_attempts_do_not_count() -> None:
    """What comes back was up before: its wait says nothing of others'."""
    past = Past()
    for _ in range(3):
        name = up_after(past, 10)
        past.run(name, 5, epoch=2)
    assert pytest.approx(10, rel=0.13) == seconds_of(past)
    (flow,) = past.history.flows.values()
    assert 3 == flow.waited.total


def test_stage_waits_from_the_end_of_its_last_forerunner() -> None:
    """Not from the submission of the pipeline; one that begins in a window does not count."""
    past = Past()
    window = DailyWindow(Nanoseconds(0), Nanoseconds(SECOND))
    for number in range(3):
        names = [past.submit() for _ in range(4)]
        stages = (
            SubmittedStage("a", names[0]),
            SubmittedStage("b", names[1]),
            SubmittedStage("c", names[2], (0, 1)),
            SubmittedStage("d", names[3], (0,), window),
        )
        past.say(PipelineSubmitted(PipelineId(f"p-{number}"), number, "nightly", ML, stages, "ada"))
        past.run(names[0], 50)
        past.run(names[1], 1_000)
        up_after(past, 700, names[2])
        up_after(past, 9_000, names[3])
    (flow,) = past.history.flows.values()
    assert 9 == flow.waited.total, "a, b and c, three times"
    assert pytest.approx(700, rel=0.13) == seconds_of(past, 0.75)
