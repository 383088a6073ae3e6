"""The week of shifting demand: that the plane is played at all."""

from pathlib import Path

import pytest

from bench.fairness import run


@pytest.mark.slow
def test_week_in_small(tmp_path: Path) -> None:
    """Something is held by everybody, and nobody is pushed out in turn."""
    found = run(tmp_path, is_quick=True)
    assert ["share_error_max", "reclaim_cycles"] == [bar.name for bar in found.bars]
    assert 0 == found.figures["reclaim_cycles"]
    assert 0 < found.figures["share_error_max"] < 1
    assert 0.8 < found.figures["held_of_due"] <= 1
    assert found.figures["completed"] > 0
    assert 4 == found.figures["tenants"]
