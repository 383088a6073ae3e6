"""What people see of a run: a line where there is no terminal, and a curve of blocks."""

import pytest

from core.nouns.ids import RegionName
from mizzen.views.live_table import LiveTable, line_of, sparkline
from scenarios.live import Look, Point

EAST = RegionName("east")


def a_look(seconds: float = 12.3) -> Look:
    """Half way."""
    counts = {"COMPLETED": 3, "FAILED": 1, "RUNNING": 2, "PENDING": 4}
    curve = [Point(1, 10 * number, 4.0 - number) for number in range(4)]
    return Look(
        seconds=seconds,
        submitted=10,
        wanted=10,
        counts=counts,
        waiting={"no_capacity": 4},
        held={EAST: 16_000},
        total={EAST: 64_000},
        curve=curve,
    )


def test_line() -> None:
    """All that matters, in one."""
    wanted = " 12.3 s  4/10 ended, 2 running, 4 pending, 16 GPUs held, loss 1.000 at step 30"
    assert wanted == line_of(a_look())


def test_curve_falls_from_left_to_right() -> None:
    """The highest block for the highest loss; as many blocks as fit."""
    assert "█▆▃▁" == sparkline(a_look().curve)
    assert "" == sparkline([])
    assert "▁▁" == sparkline([Point(1, 1, 2.0), Point(1, 2, 2.0)])
    assert 10 == len(sparkline([Point(1, step, float(step)) for step in range(100)], width=10))


def test_without_a_terminal_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    """Not one for each look; and none at all when it is to be quiet."""
    with LiveTable() as table:
        for seconds in (0.0, 1.0, 4.9, 5.0, 6.0):
            table(a_look(seconds))
    with LiveTable(is_quiet=True) as table:
        table(a_look())
    out, err = capsys.readouterr()
    assert ("", 2) == (out, err.count("\n"))


def test_on_a_terminal_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Regions with their GPUs, who waits and why, the loss."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with LiveTable() as table:
        table(a_look())
    shown = capsys.readouterr().err
    for text in ("east", "16", "64", "4 no_capacity", "3 COMPLETED, 1 FAILED", "at step 30"):
        assert text in shown
