"""What is made of runs of the packing benchmark afterwards: a figure, and the table of the page.

python -m bench packing --keep FILE --figure docs/results/packing.svg
python -m bench.support.packing.page FILE [FOLDER OF THE TRACE]
"""

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from bench.support.packing.openb import FOLDER, published_curves_in, published_in
from bench.support.packing.run import UPTO_MAX, Packed
from mizzen.views.plots import Curve, draw_curves

NAMES = {"bestfit": "BestFit", "fgd": "FGD", "default": "default"}
"""Of rules, for people."""
BEGIN = 80
"""Percent arrived where the curves of the figure begin: before that everybody places everything."""
AXES = (70.0, 80.0)
"""Where its axes begin."""


def kept_in(path: Path) -> list[Packed]:
    """The runs in a file; none if there is no such file."""
    return msgspec.json.decode(path.read_bytes(), type=list[Packed]) if path.is_file() else []


def figure_of(runs: Sequence[Packed], folder: Path) -> str:
    """Return one list's curves: percent placed over percent arrived, means over seeds.

    folder   of the trace, with what was published
    """
    name = runs[0].list
    curves = [
        _curve(f"{NAMES[rules]} here", [one.allocated for one in runs if one.rules == rules])
        for rules in dict.fromkeys(one.rules for one in runs)
    ]
    published = published_curves_in(folder)
    curves += [
        _curve(f"{NAMES[policy]}, published", published[name, policy])
        for policy in ("bestfit", "fgd")
        if (name, policy) in published
    ]
    title = f"GPUs placed as tasks arrive, openb {name}, mean of seeds"
    return draw_curves(title, "arrived (% of all GPUs)", "placed (% of all GPUs)", curves, begin=AXES)


def _curve(name: str, curves: Sequence[dict[int, float]]) -> Curve:
    percents = [at for at in range(BEGIN, UPTO_MAX + 1) if all(at in curve for curve in curves)]
    return Curve(name, [(at, statistics.fmean(curve[at] for curve in curves)) for at in percents])


def table_of(runs: Sequence[Packed], folder: Path) -> str:
    """Markdown: by list, means (and standard deviations) of what each rule set places, beside what was published."""
    published = published_in(folder)
    rules = [name for name in NAMES if any(one.rules == name for one in runs)]
    heads = ["list"]
    for name in rules:
        heads += [f"{NAMES[name]} here", *([f"{NAMES[name]} published"] if name != "default" else [])]
    if "default" in rules:
        heads += ["default − FGD published", "worst seed", "CPU-only dropped"]
    lines = ["| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|"]
    rows = [_row(name, [one for one in runs if one.list == name], rules, published) for name in _lists(runs)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _lists(runs: Sequence[Packed]) -> list[str]:
    return sorted({one.list for one in runs}, key=lambda name: (name != "default", name))


def _row(
    name: str, runs: Sequence[Packed], rules: Sequence[str], published: dict[tuple[str, str], list[float]]
) -> list[str]:
    cells = [name]
    for one in rules:
        values = [run.at_100 for run in runs if run.rules == one]
        cells.append(_mean(values))
        if one != "default":
            cells.append(_mean(published.get((name, one), [])))
    if "default" in rules:
        mine = [run for run in runs if run.rules == "default"]
        theirs = published.get((name, "fgd"), [])
        gain = statistics.fmean(run.at_100 for run in mine) - statistics.fmean(theirs) if theirs else None
        dropped = 100 * sum(run.cpu_pods_dropped for run in mine) / max(1, sum(run.cpu_pods for run in mine))
        worst = min(run.at_100 for run in mine)
        cells += [f"{gain:+.2f}" if gain is not None else "", f"{worst:.2f}", f"{dropped:.1f} %"]
    return cells


def _mean(values: Sequence[float]) -> str:
    if not values:
        return ""
    spread = f" ({statistics.stdev(values):.2f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{spread}"


if __name__ == "__main__":
    print(table_of(kept_in(Path(sys.argv[1])), Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER))
