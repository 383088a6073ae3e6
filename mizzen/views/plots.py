"""Curves over time and bars, drawn with matplotlib as SVG, to compare with published figures.

matplotlib is the extra `plots`. Drawing a figure imports matplotlib and nothing else does, so that benchmarks run where the extra
is not installed; there `figure_option` refuses `--figure` before the first measurement.
"""

import argparse
import io
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_INCHES = (9.0, 4.5)
GROUP_SHARE = 0.7
"""Share of a group's width that the bars fill."""
LEGEND_COLUMNS, LEGEND_COLUMNS_MAX, LEGEND_ROWS = 2, 5, 3
"""Two columns of names, and more where they would have more rows."""
STYLE = "petroff10"
"""Colours that people who see fewer of them tell apart."""
COLOURS = 10
DASHES = ("-", "--", ":")
"""Of the first ten lines, of the next ten, and so on: a colour comes again with each ten."""
SETTINGS = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlepad": 18.0,  # the names of marks stand below the title
    "font.size": 10.0,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",  # text stays text: small files that can be searched
    "svg.hashsalt": "mizzen",  # ids are drawn from this instead of chance
}
METADATA = {"Creator": None, "Date": None}
"""Neither the day nor the version of matplotlib is written, so that equal figures are equal files."""


class Curve(Struct, frozen=True):
    """Values that hold from one time to the next."""

    name: str
    points: Sequence[tuple[float, float]]
    """Time and value, by time."""


class Mark(Struct, frozen=True):
    """An event at a time."""

    at: float
    name: str


def figure_option(parser: argparse.ArgumentParser, shows: str = "what was measured") -> None:
    """Add `--figure PATH`, the same for every benchmark that draws; `shows` is for its help."""
    parser.add_argument(
        "--figure", type=figure_path, help=f"draw {shows} here as SVG; needs the extra `plots` (matplotlib)"
    )


def figure_path(text: str) -> Path:
    """Return the path of a figure, as the type of an option: a mistake is told before anything is measured."""
    if find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError(
            f"figures are drawn with matplotlib, which is not installed: {sys.executable} -m pip install 'mizzen[plots]'"
        )
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path.parent}; make it first")
    return path


def draw_curves(
    title: str,
    x_name: str,
    y_name: str,
    curves: Sequence[Curve],
    marks: Sequence[Mark] = (),
    begin: tuple[float, float] = (0.0, 0.0),
) -> str:
    """Return one figure as SVG.

    x_name, y_name   quantity and unit of the axes
    begin            the least x and y of the axes
    """
    import matplotlib.style

    with matplotlib.style.context([STYLE, SETTINGS], after_reset=True):
        figure, axes = _framed(title, x_name, y_name)
        last = max((x for curve in curves for x, _ in curve.points), default=begin[0] + 1)
        for curve in curves:
            held = [*curve.points, *((last, value) for _, value in curve.points[-1:])]
            axes.step([x for x, _ in held], [y for _, y in held], where="post", label=curve.name)
        axes.set_xlim(begin[0], last)
        axes.set_ylim(bottom=begin[1])
        for mark in marks:
            axes.axvline(mark.at, color="#999999", linestyle="--", linewidth=1)
            axes.annotate(
                mark.name,
                (mark.at, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 4),
                textcoords="offset points",
                color="#666666",
                ha="center",
            )
        return _svg(figure)


def draw_lines(
    title: str, x_name: str, y_name: str, lines: Sequence[Curve], *, is_logarithmic: bool = False
) -> str:
    """Return one figure of measured points that are joined by lines, as SVG.

    x_name, y_name   quantity and unit of the axes
    is_logarithmic   of both axes; else they begin at 0
    """
    import matplotlib.style

    with matplotlib.style.context([STYLE, SETTINGS], after_reset=True):
        figure, axes = _framed(title, x_name, y_name)
        for number, line in enumerate(lines):
            x, y = zip(*line.points, strict=True)
            axes.plot(x, y, marker="o", linestyle=DASHES[number // COLOURS % len(DASHES)], label=line.name)
        if is_logarithmic:
            axes.set_xscale("log")
            axes.set_yscale("log")
        else:
            axes.set_xlim(left=0.0)
            axes.set_ylim(bottom=0.0)
        return _svg(figure)


def draw_bars(
    title: str, x_name: str, y_name: str, groups: Sequence[str], bars: Mapping[str, Sequence[float]]
) -> str:
    """Return one figure of groups of bars that begin at zero, with each bar's value on it, as SVG.

    y_name   quantity and unit
    groups   names, by place on the x axis
    bars     value in each group, by name of the kind of bar
    """
    import matplotlib.style

    with matplotlib.style.context([STYLE, SETTINGS], after_reset=True):
        figure, axes = _framed(title, x_name, y_name)
        width = GROUP_SHARE / max(1, len(bars))
        for number, (name, values) in enumerate(bars.items()):
            left = (1 - GROUP_SHARE) / 2 + width * number
            drawn = axes.bar(
                [at + left for at in range(len(groups))], values, width, align="edge", label=name
            )
            axes.bar_label(drawn, fmt="%.3g", padding=2)
        axes.set_xticks([at + 0.5 for at in range(len(groups))], groups)
        axes.tick_params(axis="x", length=0)
        return _svg(figure)


def _framed(title: str, x_name: str, y_name: str) -> "tuple[Figure, Axes]":
    """Return a figure with a title and named axes."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot(title=title, xlabel=x_name, ylabel=y_name)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
    return figure, axes


def _svg(figure: "Figure") -> str:
    """Return the finished figure, with the names of its curves or bars below it."""
    names = len(figure.axes[0].get_legend_handles_labels()[1])
    columns = min(max(LEGEND_COLUMNS, ceil(names / LEGEND_ROWS)), LEGEND_COLUMNS_MAX)
    figure.legend(loc="outside lower center", ncols=columns)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata=METADATA)
    return text.getvalue()
