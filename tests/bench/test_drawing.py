"""Figures: axes that begin and end where they are told, with round numbers."""

import re
from itertools import pairwise

import pytest

from bench.support.plots import BOTTOM, HEIGHT, TICKS_MAX, TOP, Curve, barred, drawn, ticks


def test_axes_begin_where_they_are_told() -> None:
    """And end with the last of the curves."""
    figure = drawn("t", "x", "y", [Curve("c", [(80, 80), (100, 90)])], begin=(80, 80))

    assert 2 == figure.count(">80<")
    assert 1 == figure.count(">100<")


def test_bars_are_as_high_as_their_values() -> None:
    """Of each group one of each sort, side by side, the highest up to the top; and each group, sort and value is named."""
    figure = barred("t", "x", "y", ("a", "b"), {"late": (0.1, 0.4), "idle": (0.2, 0.0)})

    found = re.findall(r'<rect x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)" height="([0-9.]+)"', figure)
    heights = [float(height) / (HEIGHT - TOP - BOTTOM) for _, _, height in found]
    assert [0.25, 1.0, 0.5, 0.0] == pytest.approx(heights, abs=0.001)
    places = sorted((float(x), float(x) + float(wide)) for x, wide, _ in found)
    assert all(end <= begin + 0.11 for (_, end), (begin, _) in pairwise(places))
    for text in ("a", "b", "late", "idle", "0.4"):
        assert f">{text}<" in figure


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        pytest.param(0, 168, [0, 20, 40, 60, 80, 100, 120, 140, 160], id="hours of a week"),
        pytest.param(0, 64.8, [0, 10, 20, 30, 40, 50, 60], id="ends between two"),
        pytest.param(3, 103, [20, 40, 60, 80, 100], id="begins between two"),
        pytest.param(0.5, 1, [0.5, 0.6, 0.7, 0.8, 0.9, 1.0], id="ends on one"),
        pytest.param(0, 0.0003, [0, 0.00005, 0.0001, 0.00015, 0.0002, 0.00025, 0.0003], id="small"),
        pytest.param(5, 5, [5], id="no longer than a point"),
        pytest.param(0, 9, list(range(10)), id="as many as there may be"),
        pytest.param(0, 9.1, [0, 2, 4, 6, 8], id="one more would be too many"),
    ],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    """One, two or five of a power of ten apart, within the axis, and not many."""
    found = ticks(low, high)

    assert expected == pytest.approx(found)
    assert len(found) <= TICKS_MAX + 1
