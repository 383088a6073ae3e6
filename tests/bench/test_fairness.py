"""The week of shifting demand: what is due to whom, and that the plane is played at all."""

from pathlib import Path

import pytest

from bench.fairness import max_min, run


@pytest.mark.parametrize(
    ("capacity", "wanted", "weights", "shares"),
    [
        (10, (0, 0), (1, 1), (0, 0)),
        (10, (3, 4), (1, 1), (3, 4)),
        (10, (8, 8), (1, 1), (5, 5)),
        (10, (8, 8), (1, 4), (2, 8)),
        (12, (1, 20, 20), (4, 1, 1), (1, 5.5, 5.5)),
        (12, (20, 2, 20), (2, 2, 1), (20 / 3, 2, 10 / 3)),
    ],
)
def test_what_is_due(
    capacity: float, wanted: tuple[float, ...], weights: tuple[float, ...], shares: tuple[float, ...]
) -> None:
    """Nobody gets more than they want, and what is left goes by weight."""
    assert pytest.approx(list(shares)) == max_min(capacity, wanted, weights)


@pytest.mark.slow
def test_week_in_small(tmp_path: Path) -> None:
    """Something is held by everybody, and nobody is pushed out in turn."""
    found = run(tmp_path, is_quick=True)
    assert ["share_error_max", "reclaim_cycles"] == [bar.name for bar in found.bars]
    assert 0 == found.figures["reclaim_cycles"]
    assert 0 < found.figures["share_error_max"] < 1
    assert 0.8 < found.figures["utilisation"] <= 1
    assert found.figures["completed"] > 0
    assert 4 == found.figures["tenants"]
