"""The benchmark of lies about speeds, on a few of its instances."""

from pathlib import Path

from bench.strategy import run


def test_lies_pay_under_one_policy_alone(tmp_path: Path) -> None:
    """G11: nobody gains under the strategy-proof mechanism, some do under max-min, which breaks no promise of an equal part: G3."""
    found = run(tmp_path, is_quick=True)
    assert {"gain_strategy_proof": True, "sharing_incentive_broken": True} == {
        bar.name: bar.met for bar in found.bars
    }
    assert found.figures["gain_max_min"] > 0.01
    assert found.figures["below_equal_part_max_min"] == found.figures["sharing_incentive_broken"]
    assert found.figures["below_equal_part_strategy_proof"] > 0, "jobs pay there, which no bar counts"
    assert found.figures["speed_over_equal_part_max_min"] > 1.0
