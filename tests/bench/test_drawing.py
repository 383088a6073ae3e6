"""Figures: their axes, curves, marks and bars; the same file again; and a word in time where they cannot be drawn."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.__main__ import main
from bench.support.task_control import figures
from mizzen.views.plots import Curve, Mark, draw_bars, draw_curves, draw_lines

HOUSE = Path(__file__).resolve().parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which the extra is not installed."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def texts(figure: str) -> list[str]:
    """Return each text of a figure, in the order of the file."""
    return [(text.text or "").strip() for text in parsed(figure).iter(f"{SVG}text")]


def paths(figure: str) -> list[list[tuple[float, float]]]:
    """Return the corners of each curve or bar, in the order of the file: x to the right, y downwards."""
    found = []
    for path in parsed(figure).iter(f"{SVG}path"):
        if path.get("clip-path") and "stroke: #dddddd" not in path.get("style", ""):  # the grid
            numbers = [float(number) for number in re.findall(r"[-.0-9]+", path.get("d", ""))]
            found.append(list(zip(numbers[::2], numbers[1::2], strict=True)))
    return found


def parsed(figure: str) -> ET.Element:
    """Return the root of a figure."""
    return ET.fromstring(figure)  # noqa: S314  # we drew it


def test_axes_begin_where_they_are_told() -> None:
    """They end with the last of the curves, and name quantity and unit."""
    figure = draw_curves("T", "time (hours)", "GPUs", [Curve("c", [(80, 80), (100, 90)])], begin=(80, 80))

    found = texts(figure)
    assert 2 == found.count("80")
    assert 1 == found.count("100")
    assert {"T", "time (hours)", "GPUs", "c"} <= set(found)


def test_value_holds_until_the_next() -> None:
    """A curve is a flight of steps, and its last value holds until the end of the axis."""
    short = Curve("short", [(0, 1), (2, 3)])
    figure = draw_curves("T", "x", "y", [short, Curve("long", [(0, 0), (4, 0)])])

    short_one, long_one = paths(figure)
    (left, zero), (right, _) = long_one[0], long_one[-1]
    steps = list(dict.fromkeys(short_one))
    xs, heights = [x for x, _ in steps], [zero - y for _, y in steps]
    assert [left, (left + right) / 2, (left + right) / 2, right] == pytest.approx(xs)
    assert [1, 1, 3, 3] == pytest.approx([3 * height / heights[-1] for height in heights])


def test_marks_are_named() -> None:
    """Events stand beside the curves, and whatever a name holds is text."""
    figure = draw_curves("a < b", "x", "y", [Curve("c & d", [(0, 1), (9, 1)])], [Mark(3, "lost <1>")])

    assert {"a < b", "c & d", "lost <1>"} <= set(texts(figure))


def test_figure_without_points_is_drawn() -> None:
    """A run that was too short for a curve still has its axes."""
    assert "empty" in texts(draw_curves("T", "x", "y", [Curve("empty", [])]))


def test_points_are_joined_by_lines() -> None:
    """Values between the points are not known, and the axes begin at 0 unless they are logarithmic."""
    lines = [Curve("a", [(1, 10), (2, 20), (4, 40)]), Curve("b", [(1, 10), (4, 10)])]
    (left, low), (middle, half), (right, high) = paths(draw_lines("T", "x", "y", lines))[0]
    assert [1 / 3, 1 / 3] == pytest.approx([(middle - left) / (right - left), (low - half) / (low - high)])
    figure = draw_lines("T", "x", "y", lines, is_logarithmic=True)
    (left, low), (middle, half), (right, high) = paths(figure)[0]
    assert [1 / 2, 1 / 2] == pytest.approx([(middle - left) / (right - left), (low - half) / (low - high)])
    assert {"T", "x", "y", "a", "b"} <= set(texts(figure))


def test_bars_are_as_high_as_their_values() -> None:
    """Each group has one bar of each kind; group, kind and value are named."""
    figure = draw_bars("T", "x", "share (of 1)", ("a", "b"), {"late": (0.1, 0.4), "idle": (0.2, 0.0)})

    heights = [max(y for _, y in bar) - min(y for _, y in bar) for bar in paths(figure)]
    assert [0.1, 0.4, 0.2, 0.0] == pytest.approx([0.4 * one / heights[1] for one in heights], abs=0.001)
    sides = sorted((min(x for x, _ in bar), max(x for x, _ in bar)) for bar in paths(figure))
    assert all(end <= begin + 0.001 for (_, end), (begin, _) in pairwise(sides)), "side by side"
    assert {"a", "b", "late", "idle", "0.1", "0.4", "0.2", "0"} <= set(texts(figure))


def test_figure_is_the_same_file_again() -> None:
    """Another process with another hash seed writes the same bytes, without a date or the reader's own settings."""
    code = (
        "import sys; from mizzen.views.plots import *;"
        "sys.stdout.write(draw_curves('T', 'x', 'y', [Curve('c', [(0, 1), (2, 3)])], [Mark(1, 'm')]))"
    )
    written = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=HOUSE,
            env={"PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert {draw_curves("T", "x", "y", [Curve("c", [(0, 1), (2, 3)])], [Mark(1, "m")])} == written
    assert "dc:date" not in written.pop()


@pytest.mark.usefixtures("without_matplotlib")
@pytest.mark.parametrize(
    "name",
    [
        "ablation",
        "allocation",
        "equal_optima",
        "estimate",
        "fairness",
        "packing",
        "policy_load",
        "policy_solve",
        "round_length",
        "slo",
    ],
)
def test_figure_without_matplotlib_is_refused_before_the_first_measurement(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The refusal names what is missing and the command that installs it."""
    with pytest.raises(SystemExit) as refused:
        main([name, "--figure", str(tmp_path / "figure.svg")])

    assert 2 == refused.value.code
    told = capsys.readouterr().err
    assert "matplotlib, which is not installed" in told
    assert f"{sys.executable} -m pip install 'mizzen[plots]'" in told


@pytest.mark.usefixtures("without_matplotlib")
def test_page_figure_without_matplotlib_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its path need not be given, and is looked at all the same."""
    monkeypatch.setattr(sys, "argv", ["figures"])
    with pytest.raises(SystemExit):
        figures.main()

    assert "pip install 'mizzen[plots]'" in capsys.readouterr().err


def test_figure_into_a_missing_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That too is found out before hours are played."""
    with pytest.raises(SystemExit):
        main(["slo", "--figure", str(tmp_path / "missing" / "figure.svg")])

    assert f"there is no folder {tmp_path / 'missing'}" in capsys.readouterr().err


def test_benchmark_runs_without_matplotlib() -> None:
    """Every benchmark is imported and one is run where the extra is not installed."""
    code = "import sys; sys.modules['matplotlib'] = None; from bench.__main__ import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "scan", "--quick", "--json"],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    assert '"name":"scan"' in done.stdout
