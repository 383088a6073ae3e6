"""The check of pipelines tells of each history that should not be, and of none that may be; its figures are those of the log."""

# rows: C-11

import pytest

from core.events.pipelines import PipelineEnded, PipelineSubmitted, StagesHeld, SubmittedStage
from core.events.queue import AttemptClosed, AwardReturned, WorkloadAwarded, WorkloadBound, WorkloadCancelled
from core.events.regions import RegionAbandoned
from core.fact import Event
from core.images.pipelines import Pipelines
from core.nouns.ids import GLOBAL_LOG, PipelineId, RegionName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.pipeline import NO_DEADLINE, Outcome
from core.nouns.workload import EndCause, Phase
from scenarios.accounting.pipelines import PipelinesKept
from scenarios.accounting.stages import StagesReady
from scenarios.scenario import parse_scenario
from tests.builders import EU, START, US, a_fact, a_spec, submitted
from tests.scenarios.runs import run_quietly

P1 = PipelineId("p-1")
W = [WorkloadId(f"w-{number}") for number in range(5)]
"""By number; the first stage is w-1."""
NOWHERE = RegionName("")
OVERTAKING = """
name: overtaking
survives: A few pipelines on an empty fleet. All end.
fleet: {regions: 1, nodes: 2, workers: 1}
workload: {pipelines: {pipelines: 4, hours: 0.5, compression: 10, burst_minutes: 5, minutes_median: 1, slack_min: 10, slack_max: 20}}
calm: {minutes: 60}
"""


def a_pipeline(
    *after: tuple[int, ...], due: int = 0, together: bool = True, data: tuple[str, ...] = ()
) -> list[Event]:
    """A pipeline with a stage for each of these, which waits for those; the first one reads data.

    due   seconds from the start of the history; 0: it has no deadline
    """
    stages = tuple(SubmittedStage("abcd"[place], W[place + 1], before) for place, before in enumerate(after))
    due_at = Instant(START + due * SECOND) if due else NO_DEADLINE
    return [
        *(submitted(place + 1, a_spec(data=data if not place else ())) for place in range(len(after))),
        PipelineSubmitted(
            P1,
            1,
            "nightly",
            TenantName("ours"),
            stages,
            "ada",
            due_at=due_at,
            asked_due_at=due_at,
            is_together=together,
        ),
    ]


def award(stage: int, region: RegionName = EU, epoch: int = 1) -> WorkloadAwarded:
    """A stage is awarded."""
    return WorkloadAwarded(W[stage], epoch, region, 0, ())


def bound(stage: int, region: RegionName = EU, epoch: int = 1) -> WorkloadBound:
    """A stage runs."""
    return WorkloadBound(W[stage], epoch, region, 1)


def closed(
    stage: int, phase: Phase = Phase.COMPLETED, cause: EndCause = EndCause.COMPLETED, region: RegionName = EU
) -> AttemptClosed:
    """An attempt of a stage is over."""
    return AttemptClosed(W[stage], 1, cause, phase, region, 1)


def ran(stage: int, region: RegionName = EU) -> list[Event]:
    """A stage runs and completes."""
    return [award(stage, region), bound(stage, region), closed(stage, region=region)]


def held(*stages: int, region: RegionName = EU) -> StagesHeld:
    """Stages may run in a region alone."""
    return StagesHeld(P1, tuple(W[stage] for stage in stages), region)


def ended(outcome: Outcome, late: int = 0) -> PipelineEnded:
    """The pipeline is over."""
    return PipelineEnded(P1, outcome, Nanoseconds(late * SECOND))


def kept(*events: Event | list[Event]) -> PipelinesKept:
    """After these facts of the queue, a second after each other."""
    flat = [event for one in events for event in (one if isinstance(one, list) else [one])]
    found = PipelinesKept()
    for sequence, event in enumerate(flat, 1):
        found.take(a_fact(event, sequence, log=GLOBAL_LOG))
    return found


CHAIN = ((), (0,))
FAILED = closed(1, Phase.FAILED, EndCause.TASK_FAILED)
GIVEN_UP = closed(2, Phase.PENDING, EndCause.ABANDONED)
RIGHT: dict[str, list[Event | list[Event]]] = {
    "in time": [a_pipeline(*CHAIN, due=60), held(1, 2), ran(1), ran(2), ended(Outcome.MET)],
    "late": [a_pipeline(*CHAIN, due=8), held(1, 2), ran(1), ran(2), ended(Outcome.LATE, late=2)],
    "without a deadline": [a_pipeline(*CHAIN), held(1, 2), ran(1), ran(2), ended(Outcome.MET)],
    "a stage failed": [
        a_pipeline((), (0,), (1,), due=60), held(1, 2, 3), award(1), bound(1), FAILED,
        WorkloadCancelled(W[2]), WorkloadCancelled(W[3]), ended(Outcome.FAILED),
    ],
    "cancelled": [a_pipeline(*CHAIN), WorkloadCancelled(W[1]), WorkloadCancelled(W[2]), ended(Outcome.CANCELLED)],
    "the first award was declined": [
        a_pipeline(*CHAIN), held(1, 2), award(1), AwardReturned(W[1], 1, "conflict", EU, 1), held(1, 2, region=NOWHERE),
        held(1, 2, region=US), ran(1, US), ran(2, US), ended(Outcome.MET),
    ],
    "the region was given up": [
        a_pipeline(*CHAIN), held(1, 2), ran(1), RegionAbandoned(EU, 1), held(2, region=NOWHERE), held(2, region=US),
        ran(2, US), ended(Outcome.MET),
    ],
    "an attempt was given up": [
        a_pipeline(*CHAIN), held(1, 2), ran(1), award(2), bound(2), GIVEN_UP, held(2, region=NOWHERE), held(2, region=US),
        ran(2, US), ended(Outcome.MET),
    ],
    "no other region suits all stages": [
        a_pipeline((), (), (1,)), held(1, 2, 3), ran(1), RegionAbandoned(EU, 1), held(2, 3, region=NOWHERE), held(2, region=US),
        ran(2, US), ran(3), ended(Outcome.MET),
    ],
    "stages may run apart": [a_pipeline(*CHAIN, together=False), ran(1), ran(2, US), ended(Outcome.MET)],
    "stages go to their data": [a_pipeline(*CHAIN, data=("clicks",)), ran(1), held(2, region=US), ran(2, US), ended(Outcome.MET)],
    "one stage alone": [a_pipeline(()), ran(1), ended(Outcome.MET)],
}  # fmt: skip
WRONG: dict[str, list[Event | list[Event]]] = {
    "w-2 of p-1 is awarded, and w-1, for which it waits, is PENDING": [
        a_pipeline(*CHAIN), held(1, 2), award(2),
    ],
    "w-2 of p-1 is awarded, and w-1, for which it waits, is FAILED": [
        a_pipeline(*CHAIN), held(1, 2), award(1), FAILED, award(2),
    ],
    "p-1 ended twice: met and met": [a_pipeline(()), ran(1), ended(Outcome.MET), ended(Outcome.MET)],
    "p-1 ended met, and w-2 had not": [a_pipeline(*CHAIN), held(1, 2), ran(1), ended(Outcome.MET)],
    "p-1 ended met, late by 0 ns; its stages say late, 1000000000 ns": [
        a_pipeline((), due=4), ran(1), ended(Outcome.MET),
    ],
    "p-1 ended late, late by 2000000000 ns; its stages say late, 1000000000 ns": [
        a_pipeline((), due=4), ran(1), ended(Outcome.LATE, late=2),
    ],
    "p-1 ended late, late by 1000000000 ns; its stages say met, 0 ns": [
        a_pipeline((), due=40), ran(1), ended(Outcome.LATE, late=1),
    ],
    "p-1 ended cancelled, late by 0 ns; its stages say failed, 0 ns": [
        a_pipeline((), ()), held(1, 2), award(1), FAILED, WorkloadCancelled(W[2]), ended(Outcome.CANCELLED),
    ],
    "w-3 of p-1 is FAILED, and w-1, for which it waits, CANCELLED": [
        a_pipeline((), (0,), (1,)), WorkloadCancelled(W[1]), WorkloadCancelled(W[2]),
        closed(3, Phase.FAILED, EndCause.TASK_FAILED), ended(Outcome.FAILED),
    ],
    "w-2 of p-1 is awarded to us, and held to eu": [a_pipeline(*CHAIN), held(1, 2), ran(1), award(2, US)],
    "w-2 of p-1 is not held to eu with the others": [a_pipeline(*CHAIN), held(1)],
    "w-1 of p-1 is awarded to eu, and held to no region": [a_pipeline(*CHAIN), award(1)],
    "w-2 of p-1 runs in us, and another stage ran in eu": [
        a_pipeline(*CHAIN), held(1, 2), ran(1), award(2), bound(2, US),
    ],
    "p-1 is held to no region and no more to eu, which was not given up": [
        a_pipeline(*CHAIN), held(1, 2), ran(1), held(2, region=NOWHERE),
    ],
    "p-1 is held to us and no more to eu, which was not given up": [
        a_pipeline(*CHAIN), held(1, 2), award(1), held(1, 2, region=US),
    ],
}  # fmt: skip


@pytest.mark.parametrize("history", RIGHT)
def test_history_that_may_be(history: str) -> None:
    """Nothing is said of it, and the pipeline has ended."""
    found = kept(*RIGHT[history])
    assert ([], []) == (found.wrong, found.open())


@pytest.mark.parametrize("sentence", WRONG)
def test_history_that_should_not_be(sentence: str) -> None:
    """It is told, first of all."""
    assert [sentence] == kept(*WRONG[sentence]).wrong[:1]


def test_pipeline_that_has_not_ended_is_named() -> None:
    """Also where all of its stages have."""
    assert [P1] == kept(a_pipeline(()), ran(1)).open()


def test_figures_of_pipelines() -> None:
    """Of deadlines count those of accepted pipelines that nobody cancelled."""
    assert (1.0, 1.0) == figures("in time", "deadlines_met_share", "pipelines_met")
    assert (0.0, 1.0) == figures("late", "deadlines_met_share", "pipelines_late")
    assert (0.0, 1.0) == figures("a stage failed", "deadlines_met_share", "pipelines_failed")
    assert (0.0, 1.0) == figures("without a deadline", "deadlines_met_share", "pipelines_met")
    assert (1.0, 1.0) == figures("cancelled", "pipelines", "pipelines_cancelled")


def figures(history: str, *names: str) -> tuple[float, ...]:
    """Some figures of a history."""
    found = kept(*RIGHT[history]).figures()
    return tuple(found[name] for name in names)


def test_stage_waits_for_its_start_from_when_it_could_begin() -> None:
    """The first from its submission, the next from when the last stage before it completed."""
    ready = StagesReady()
    for at, event in enumerate([*a_pipeline((), (), (0, 1)), *ran(1), *ran(2)]):
        ready.take(a_fact(event, at + 1, log=GLOBAL_LOG), float(at))
    assert {W[1]: 3.0, W[2]: 3.0, W[3]: 9.0} == ready.at


def test_queue_that_lets_stages_overtake_each_other_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a run, from its log."""
    monkeypatch.setattr(Pipelines, "is_ready", lambda *_: True)
    outcome = run_quietly(parse_scenario(OVERTAKING, "overtaking.yaml"), 1)
    assert [] != [problem for problem in outcome.problems if "is awarded, and w-" in problem]
