"""`python -m bench NAME [--json] [--quick]`: run one benchmark, or `all`, and print what it found. Some have options of their own.

A missed bar is printed as missed; it is a finding, not a failure, so the exit code stays 0.
"""

import argparse
import importlib
import os
import pkgutil
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
from rich.console import Console

import bench
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
        found = benchmark(Path(directory), is_quick=is_quick)
        findings = found if isinstance(found, Findings) else run(_awaited(found))
        return report_of(name, findings, where)


async def _awaited(found: Awaitable[Findings]) -> Findings:
    return await found


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    found = benchmarks()
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure, and print one table.")
    parser.add_argument("name", choices=[*found, "all"])
    parser.add_argument(
        "--json", action="store_true", help="one JSON object; for `all`, one with a list of them"
    )
    parser.add_argument("--quick", action="store_true", help="see that it runs; its figures mean nothing")
    parser.add_argument("--directory", help="on the disk to be measured (default: for temporary files)")
    first = next((word for word in (sys.argv[1:] if arguments is None else arguments) if word in found), "")
    if first and add_options(first, parser):
        chosen = parser.parse_args(arguments)
        with_options: Callable[..., Findings | Awaitable[Findings]] = found[first]
        found[first] = partial(with_options, chosen=chosen)
    else:
        chosen = parser.parse_args(arguments)
    if chosen.directory is not None and not Path(chosen.directory).is_dir():
        parser.error(f"--directory {chosen.directory}: there is no such directory; make it first")
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
