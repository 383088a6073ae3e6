"""What a run in real processes tells people."""

import pytest
from msgspec.structs import replace

from core.events.agents import AgentsSet
from core.events.region import AwardDeclined
from core.fact import Fact
from core.nouns.agents import AgentSettings
from core.nouns.ids import ClaimId, RegionName, WorkloadId, region_log
from core.nouns.instant import SECOND
from core.nouns.operation import Ack, Answer
from core.nouns.placement import View
from scenarios.accounting.claims import RegionClaims, lines_of_claims
from scenarios.accounting.preemption import Negotiated, answer_text, lines_of_negotiated
from scenarios.controllers.yields import Way, Yields
from scenarios.play.live_summary import Gang, Summary, lines_of
from scenarios.play.live_turns import TurnsOf
from scenarios.scenario import load_scenario
from tests.builders import START, a_claim, attempt, granted
from tests.scenarios.runs import run_quietly

GANG = Gang(loss_first=4.2, loss_last=1.5, saved_step=400, resumed_step=400)
SUMMARY = Summary(
    scenario="first_light",
    seed=1,
    seconds=60.0,
    workloads_submitted=401,
    workloads_ended=401,
    workloads_lost=0,
    invariant_violations=0,
    conflict_share=0.0,
    kills=3,
    restarts=3,
    gang=GANG,
    facts=2000,
    digests={},
    violations=[],
    problems=[],
    skipped={},
    expectations=[],
    directory="runs/first_light",
)


def test_gang_that_was_drained() -> None:
    """T11, T21: how long its nodes waited for its controller's word, and for which checkpoint, has a line of its own."""
    told = dict(lines_of(replace(SUMMARY, gang=replace(GANG, drain_waited_seconds=0.8))))
    assert "loss 4.200 → 1.500, saved at step 400, resumed at step 400" == told["gang"]
    assert "its controller let it leave 0.8 s later, after the checkpoint of step 400" == told["drain"]


def test_run_without_a_drain() -> None:
    """Or without a gang: nothing is said of what was not."""
    assert "drain" not in dict(lines_of(SUMMARY))
    assert "none" == dict(lines_of(replace(SUMMARY, gang=None)))["gang"]


def test_gangs_that_took_turns() -> None:
    """Each has a line: its part of the time, its attempts, and where it went on."""
    stopped = TurnsOf("charlm", WorkloadId("w-1"), 3, 40.0, 50.0, 0.24, 0.25, 0, [120, 260])
    stayed = TurnsOf("heavy", WorkloadId("w-3"), 1, 100.0, 100.0, 0.52, 0.5, 4, [])
    told = dict(lines_of(replace(SUMMARY, turns=[stopped, stayed])))
    wanted = (
        "24.0 % of all time received, 25.0 % owed; 3 attempts, resumed at step 120, 260, 0 steps made again"
    )
    assert wanted == told["charlm (w-1)"]
    assert told["heavy (w-3)"].endswith("50.0 % owed; 1 attempts, was never stopped, 4 steps made again")
    assert "charlm (w-1)" not in dict(lines_of(SUMMARY))


ASKED = Negotiated(
    WorkloadId("w-1"),
    2,
    WorkloadId("w-9"),
    "after a checkpoint",
    False,
    4.5,
    700,
    12,
    700,
    asked_at=1,
    number=3,
)


def test_gang_that_was_asked_to_free_capacity() -> None:
    """N4, N8: the asked gang, its controller's answer, its lost work and where it went on have a line; all others together have one."""
    others = [replace(ASKED, number=0, destroyed=lost) for lost in (5, 7)]
    told = dict(lines_of(replace(SUMMARY, negotiated=[ASKED, *others])))
    assert (
        'w-1 was asked to make room for w-9: its controller said "after a checkpoint", stopped 4.5 s later at step 700, '
        "12 GPU-seconds of work lost, resumed at step 700"
    ) == told["preempted"]
    assert "2 without a controller, 12 GPU-seconds of work lost" == told["unasked"]


def test_gang_that_did_not_answer() -> None:
    """And has not come back yet."""
    ((_, text),) = lines_of_negotiated([replace(ASKED, answer="", is_forced=True, resumed_step=0)])
    assert "its controller said nothing, stopped 4.5 s later, at the deadline at step 700" in text
    assert text.endswith("has not come back")
    assert [] == lines_of_negotiated([])


@pytest.mark.parametrize(
    ("ack", "text"),
    [
        (Ack(1), "yes"),
        (Ack(1, within=5 * SECOND), "yes, in 5 s"),
        (Ack(1, after_checkpoint=True), "after a checkpoint"),
        (Ack(1, after_checkpoint=True, within=90 * SECOND), "after a checkpoint, or in 90 s"),
        (Ack(1, Answer.INSTEAD, instead="w-7"), "take w-7 instead"),
    ],
)
def test_answers_in_words(ack: Ack, text: str) -> None:
    """As controllers give them."""
    assert text == answer_text(ack)


@pytest.mark.parametrize("way", list(Way))
def test_log_of_a_preemption_tells_of_it(way: Way) -> None:
    """N4: a storm over gangs whose controller answers in each way: what was asked, agreed to and destroyed is in the log."""
    spec = load_scenario("preemption_storm")
    quick = replace(spec, workload=spec.workload[1:2], faults=spec.faults[:1], expectations=())
    quick = replace(quick, controllers=(Yields("saves", way, 5.0),), fleet=replace(quick.fleet, regions=1))
    outcome = run_quietly(quick, 1)
    assert outcome.is_good, (outcome.problems, outcome.violations)
    assert outcome.figures["victims_asked"] >= 1
    assert outcome.figures["victims_agreed"] + outcome.figures["victims_forced"] >= 1
    assert 0 == outcome.figures["operations_unasked"]


def test_claims_of_agents_by_rows_have_a_line() -> None:
    """S13: of each region whose agents take in rows alone; other regions have none."""
    log = region_log(RegionName("east"))
    one, other = RegionClaims("east"), RegionClaims("west", grants=2, tries=2)
    by_rows = replace(
        a_claim("w-1"), claim=ClaimId("w-1.1.a2.3"), view=View(1, placing="tier-first", partition=3)
    )
    events = (
        AgentsSet(AgentSettings("parsync")),
        granted(by_rows),
        granted(replace(a_claim("w-2"), claim=ClaimId("w-2.1.a0.1"))),
        AwardDeclined(*attempt("w-3"), "conflicts_exhausted", 1, 4),
    )
    for number, event in enumerate(events, start=1):
        one.count(Fact(log, number, START, "", "", event))
    text = "75.0 % of 8 claims, by parsync; 1 of 2 grants by rows alone"
    assert [("conflicts in east", text)] == lines_of_claims([one, other])
