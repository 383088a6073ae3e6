"""`python -m bench NAME [--json] [--short] [--quick]`: run one benchmark, or `all`, and print the figures. Some have options of their own.

`--help` tells how long each takes, and `--short` plays a form of at most five minutes (bench/support/durations.py). A missed bar is
printed as missed; a missed bar is a finding, not a failure, so the exit code stays 0.
"""

import argparse
import importlib
import os
import pkgutil
import shlex
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
from rich.console import Console

import bench
from bench.support.durations import DURATIONS
from bench.support.report import Findings, Report, machine, print_report, report_of
from runtime.logs import set_up_logs
from runtime.loop import run


class Benchmark(Protocol):
    """What a module here offers."""

    def __call__(self, directory: Path, *, is_quick: bool) -> Findings | Awaitable[Findings]:
        """Measure. What it writes goes into the directory. One that brings its own loop does not wait."""


def benchmarks() -> dict[str, Benchmark]:
    """Every benchmark by its file's name."""
    found: dict[str, Benchmark] = {}
    for module in sorted(pkgutil.iter_modules(bench.__path__), key=lambda module: module.name):
        if not module.name.startswith("_"):
            benchmark = getattr(importlib.import_module(f"bench.{module.name}"), "run", None)
            if benchmark is not None:
                found[module.name] = benchmark
    return found


def add_options(name: str, parser: argparse.ArgumentParser) -> bool:
    """Those that a benchmark has of its own; whether it has any. Its `run` is given what was chosen, as `chosen`."""
    options = getattr(importlib.import_module(f"bench.{name}"), "options", None)
    if options is not None:
        options(parser)
    return options is not None


def measured(name: str, benchmark: Benchmark, place: str | None, *, is_quick: bool) -> Report:
    """Run one benchmark in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="mizzen-bench-", dir=place) as directory:
        where = machine(Path(directory))
        begun = time.perf_counter()
        found = benchmark(Path(directory), is_quick=is_quick)
        findings = found if isinstance(found, Findings) else run(_awaited(found))
        return report_of(name, findings, where, time.perf_counter() - begun)


async def _awaited(found: Awaitable[Findings]) -> Findings:
    return await found


def in_short(name: str, benchmark: Benchmark) -> Benchmark:
    """Return the benchmark in its form of at most five minutes."""
    duration = DURATIONS[name]
    if duration.is_short:
        return benchmark
    own = argparse.ArgumentParser(prog=f"python -m bench {name}")
    add_options(name, own)
    return _with_options(benchmark, own.parse_args(shlex.split(duration.short)))


def _with_options(benchmark: Benchmark, chosen: argparse.Namespace) -> Benchmark:
    with_options: Callable[..., Findings | Awaitable[Findings]] = benchmark
    return partial(with_options, chosen=chosen)


def durations_text() -> str:
    """Return how long each benchmark takes, a line each."""
    lines = [f"  {name:18}{duration.text}" for name, duration in sorted(DURATIONS.items())]
    return "\n".join(["how long each takes, on two cores without other load:", *lines])


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    found = benchmarks()
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure, and print one table.",
        epilog=durations_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=[*found, "all"])
    parser.add_argument(
        "--json", action="store_true", help="one JSON object; for `all`, one with a list of them"
    )
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--short", action="store_true", help="a form of at most five minutes")
    forms.add_argument("--quick", action="store_true", help="see that it runs; its figures mean nothing")
    parser.add_argument("--directory", help="on the disk to be measured (default: for temporary files)")
    words = sys.argv[1:] if arguments is None else arguments
    first = next((word for word in words if word in found), "")
    has_options = bool(first) and add_options(first, parser)
    if first and "--short" in words:
        words = [
            *shlex.split(DURATIONS[first].short),
            *words,
        ]  # Options that are given themselves come later, and count.
    chosen = parser.parse_args(words)
    if chosen.directory is not None and not Path(chosen.directory).is_dir():
        parser.error(f"--directory {chosen.directory}: there is no such directory; make it first")
    if chosen.short and chosen.name == "all":
        found = {name: in_short(name, benchmark) for name, benchmark in found.items()}
    elif has_options:
        found[first] = _with_options(found[first], chosen)
    set_up_logs(os.environ, "error")
    names = list(found) if chosen.name == "all" else [chosen.name]
    reports = []
    for name in names:
        report = measured(name, found[name], chosen.directory, is_quick=chosen.quick)
        reports.append(report)
        if not chosen.json:
            print_report(report, Console())
    if chosen.json:
        answer: Report | dict[str, list[Report]] = (
            {"reports": reports} if chosen.name == "all" else reports[0]
        )
        print(msgspec.json.encode(answer).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
