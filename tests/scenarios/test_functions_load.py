"""Loads of functions are drawn as they say, their calls are made and counted, and the check of calls tells of each that ended wrongly."""

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from core.nouns.function import CallAnswer, CallOutcome
from core.nouns.instant import seconds
from core.nouns.workload import NEVER, Serves
from scenarios.accounting.calls import CallsKept
from scenarios.scenario import ScenarioError, parse_scenario
from scenarios.schema.fleet import FleetSpec
from scenarios.workloads.functions import Functions, MadeCall
from tests.scenarios.runs import run_quietly

FLEET = FleetSpec(1, nodes=2, functions=True)
LOAD = Functions(hours=0.1, calls=400, functions=4)
SMALL = """
name: small
survives: Two callers of a few functions, of whom one leaves. All calls end.
fleet: {regions: 1, nodes: 2, workers: 2, functions: true}
workload:
  - functions: {hours: 0.05, calls: 200, functions: 3, callers: 3, leave_share: 0.7, run_seconds: 4, once_share: 0.5}
calm: {minutes: 10}
"""


def calls_of(load: Functions) -> list[MadeCall]:
    """All calls of all callers."""
    return [made for one in load.callers_calls(random.Random(1)) for made in one.made]


def test_calls_are_drawn_as_said() -> None:
    """So many, within the span, the first function most often, and each with what its share says."""
    load = replace(LOAD, map_share=0.0, once_share=0.5, within_share=0.25, within_seconds=7.0)
    calls = calls_of(load)
    assert 400 == len(calls)
    assert 0 <= min(one.at for one in calls) <= max(one.at for one in calls) <= load.span
    counts = Counter(one.function.name for one in calls)
    assert ["f0", "f1", "f2", "f3"] == [name for name, _ in counts.most_common()]
    assert 160 < sum(one.is_once for one in calls) < 240
    assert {NEVER, seconds(7.0)} == {one.within for one in calls}
    assert 60 < sum(one.within != NEVER for one in calls) < 140


def test_calls_of_a_map_come_at_once() -> None:
    """From one caller and to one function."""
    load = replace(LOAD, map_share=1.0, map_calls=100)
    calls = calls_of(load)
    groups = Counter((one.at, one.function.name) for one in calls)
    assert [100] * 4 == list(groups.values())


def test_a_function_is_hot_in_the_middle_third() -> None:
    """Alone there, if its share is all."""
    load = replace(LOAD, map_share=0.0, hot_share=1.0, functions=40, zipf=0.0)
    middle = [one for one in calls_of(load) if load.span / 3 <= one.at < load.span * 2 / 3]
    assert {"f0"} == {one.function.name for one in middle}
    assert 100 < len(middle) < 170


def test_services_hold_capacity_until_calls_have_ended() -> None:
    """All of them; or but the first they come at any time and are cancelled, and then also for functions of all tenants."""
    dice = random.Random(1)
    together = replace(LOAD, workloads=3).arrivals(FLEET, dice)
    assert [True] * 3 == [one.until_calls_end for one in together]
    assert {Serves.OWN} == {job.serves for one in together for job in one.spec.jobs}
    apart = replace(LOAD, workloads=3, come_and_go=True, for_all=True).arrivals(FLEET, dice)
    assert [True, False, False] == [one.until_calls_end for one in apart]
    assert [False, True, True] == [one.cancel_after is not None for one in apart]
    assert {Serves.ALL} == {job.serves for one in apart for job in one.spec.jobs}


@pytest.mark.parametrize(
    ("fleet", "load", "problem"),
    [
        ("nodes: 2", "calls: 9", "no region for this load runs functions"),
        ("nodes: 2, functions: true", "calls: 9, tasks: 9, gpus: 8", "9 tasks of 8 GPUs fit no region"),
        ("nodes: 2, functions: true", "calls: 9, gpu_type: A100", "no region for this load runs functions"),
    ],
)
def test_load_that_fits_nowhere_is_refused(fleet: str, load: str, problem: str) -> None:
    """With the field that is wrong."""
    text = f"name: x\nsurvives: y\nfleet: {{regions: 1, {fleet}}}\nworkload: {{functions: {{hours: 1, {load}}}}}\n"
    with pytest.raises(ScenarioError, match=problem):
        parse_scenario(text, "x.yaml")


def test_calls_of_a_run_are_counted() -> None:
    """Each was done, or its caller left; and so it is counted in the region's log."""
    outcome = run_quietly(parse_scenario(SMALL, "small.yaml"), 6)
    assert outcome.is_good, outcome.first_problem()
    figures = outcome.figures
    assert figures["calls_left"] > 0 < figures["calls_done"]
    assert figures["calls"] == figures["calls_done"] + figures["calls_left"]
    assert figures["calls_done"] <= figures["calls_counted"] <= figures["calls"]
    assert 0 < figures["calls_cold_share"] < 1


def answered(outcome: CallOutcome, value: bytes = b"1") -> CallAnswer:
    """An answer to call 1."""
    return CallAnswer(1, outcome, value)


@pytest.mark.parametrize(
    ("changed", "begun", "answers", "problem"),
    [
        ({}, 1, [answered(CallOutcome.DONE)], ""),
        ({}, 2, [answered(CallOutcome.DONE)], ""),
        ({"is_once": True}, 0, [answered(CallOutcome.LOST)], ""),
        ({"within": seconds(9)}, 0, [answered(CallOutcome.LOST)], ""),
        ({}, 1, [], "has no answer"),
        ({}, 1, [answered(CallOutcome.DONE)] * 2, "ended twice"),
        ({}, 1, [answered(CallOutcome.DONE, b"2")], "the value of another call"),
        ({}, 1, [answered(CallOutcome.LOST)], "is lost, though"),
        ({"is_once": True}, 2, [answered(CallOutcome.DONE)], "was begun 2 times"),
        ({}, 0, [answered(CallOutcome.DONE)], "was done, and never begun"),
        ({}, 1, [answered(CallOutcome.REFUSED)], ""),
        ({"is_once": True}, 1, [answered(CallOutcome.REFUSED)], "was refused, and begun"),
    ],
)
def test_check_tells_of_calls_that_ended_wrongly(
    changed: dict[str, object], begun: int, answers: list[CallAnswer], problem: str
) -> None:
    """Beside another call, which ran as it should."""
    kept = CallsKept()
    (other, made, *_) = calls_of(LOAD)
    kept.called(b"0", other, 0.0)
    kept.begun(b"0", "w0")
    kept.answered(b"0", CallAnswer(2, CallOutcome.DONE, b"0"), 1.0)
    kept.called(b"1", replace(made, **changed), 0.0)
    for _ in range(begun):
        kept.begun(b"1", "w0")
    for answer in answers:
        kept.answered(b"1", answer, 1.0)
    assert bool(problem) == bool(kept.problems())
    assert problem in "".join(kept.problems())


def test_caller_that_left_waits_for_no_answer() -> None:
    """Its calls may run or not."""
    kept = CallsKept()
    kept.called(b"0", calls_of(LOAD)[0], 0.0)
    kept.left(b"0")
    assert [] == kept.problems()
    assert 1 == kept.figures()["calls_left"]
