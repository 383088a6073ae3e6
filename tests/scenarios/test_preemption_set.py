"""How regions choose whom they push out is set by a scenario: ours, or as the paper has it."""

import pytest
from msgspec.structs import replace

from core.nouns.instant import seconds
from core.nouns.preemption import BidScore, PreemptionSettings, VictimOrder
from scenarios.scenario import LIBRARY, ScenarioError, load_scenario, parse_scenario, scenario_written
from scenarios.schema.preemption import PreemptionSpec
from tests.scenarios.runs import run_quietly


def test_preemption_is_set_as_the_paper_has_it() -> None:
    """For comparison; what is not said is ours, and it is written as it is read."""
    text = (LIBRARY / "preemption_storm.yaml").read_text(encoding="utf-8")
    assert parse_scenario(text, "storm.yaml").preemption is None
    spec = parse_scenario(
        f"{text}preemption: {{order: paper, score: paper, ask_seconds: 30, claim_gpu_seconds_max: 900}}\n",
        "storm.yaml",
    )
    assert spec.preemption is not None
    wanted = PreemptionSettings(VictimOrder.PAPER, BidScore.PAPER, seconds(30), 900)
    assert wanted == spec.preemption.settings
    assert spec == parse_scenario(scenario_written(spec), "storm.yaml")
    with pytest.raises(ScenarioError, match=r"preemption\.order"):
        parse_scenario(f"{text}preemption: {{order: newest}}\n", "storm.yaml")


@pytest.mark.parametrize("order", list(VictimOrder))
def test_storm_under_each_order(order: VictimOrder) -> None:
    """M16: a storm of urgent work pushes others out by either, and the run is good."""
    spec = load_scenario("preemption_storm")
    preemption = PreemptionSpec(
        order, BidScore(order) if order is VictimOrder.PAPER else BidScore.VECTOR, 20.0
    )
    quick = replace(
        spec, workload=spec.workload[:2], faults=spec.faults[:1], expectations=(), preemption=preemption
    )
    outcome = run_quietly(quick, 2)
    assert outcome.is_good, (outcome.problems, outcome.violations)
    assert outcome.figures["preemptions"] >= 1
