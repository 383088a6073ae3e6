"""How soon workloads start while a map of functions runs on the same plane: `python -m bench beside_gangs`.

A real plane: 400 emulated nodes, and this machine, half of whose cores a service holds for functions. A client starts single GPUs, gangs of
8×8 and real processes, one after the other, as `start` does (bench/support/starts.py). It does so while the plane has no other work, and
while a program of a user maps a function through the SDK, in turn on the same plane: whatever else the machine does meets both alike. Each
call keeps a core busy for 5 ms (`--work-ms`).

    start_p50_ratio     the largest of SORT_p50_ratio: the median while the map runs, over the median without
    start_p99_ratio     the same of the 99th hundredths
    map_per_s_beside    calls a second while workloads start, and map_per_s_alone while none does
    NAME_all_cores      the same on another plane, where the service holds all cores: starts have none for themselves
"""

import argparse
import asyncio
import os
import signal
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from bench.support.functions.plane import HERE, ServingPlane, serving_plane
from bench.support.functions.running import running
from bench.support.percentiles import percentile
from bench.support.plane_client import emulated, until
from bench.support.report import Findings, at_most
from bench.support.starts import GANG_GPUS, GANG_TASKS, Starts
from core.nouns.ids import RegionName

EAST = RegionName("east")
FLEET = """
fleet: bench
regions:
  east: {nodes: 400, gpu_type: H100}
  here: {this_machine: true, cpu_slots: 128, functions: true}
"""
SORTS = ("single", "gang", "real")
WORK_MS = 5.0
MAP_SECONDS_MAX = 60.0
HANDS = "starts and calls pass the same server of messages, and a real process starts on the machine whose cores executors keep busy"


class Effort(Struct, frozen=True):
    """How much is measured."""

    turns: int
    """Of both, one after the other."""
    singles: int
    """Starts in one phase of a turn."""
    gangs: int
    reals: int
    map_seconds: float
    """In which the map is alone."""


FULL = Effort(5, 40, 15, 15, 2.0)
QUICK = Effort(1, 3, 2, 2, 0.5)


Spans = dict[str, list[float]]
"""Milliseconds until the start, by sort of start."""


class Told(Struct):
    """The newest that a program has told of its calls."""

    at: float = 0.0
    """Seconds of the machine's clock."""
    done: int = 0

    def per_second_since(self, before: "Told") -> float:
        """Return calls a second."""
        return (self.done - before.done) / (self.at - before.at)


class Rates(Struct):
    """Calls a second, of each turn."""

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the work of a call."""
    parser.add_argument(
        "--work-ms", type=float, default=WORK_MS, help="of a core in each call (default: %(default)s)"
    )


async def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Measure where half of the cores are held, and where all are."""
    effort = QUICK if is_quick else FULL
    work_seconds = (WORK_MS if chosen is None else chosen.work_ms) / 1000
    cores = os.cpu_count() or 1
    half = await _figures(directory / "half", effort, work_seconds, max(1, cores // 2))
    full = await _figures(directory / "all", effort, work_seconds, cores)
    figures = half | {f"{name}_all_cores": value for name, value in full.items()}
    return Findings(figures, [at_most("start_p50_ratio", figures["start_p50_ratio"], 1.5, HANDS)])


async def _figures(directory: Path, effort: Effort, work_seconds: float, cores: int) -> dict[str, float]:
    """Measure alone and beside a map, in turn, where so many cores are held."""
    alone: Spans = {sort: [] for sort in SORTS}
    beside: Spans = {sort: [] for sort in SORTS}
    rates = Rates()
    async with serving_plane(directory, FLEET, (EAST, HERE), cores) as plane:
        starts = Starts(plane.connection.endpoint("starts"), directory, (EAST, HERE))
        await starts.begin()
        await starts.warm_up()
        for _ in range(effort.turns):
            await _measure(starts, effort, alone, len(alone["real"]) + len(beside["real"]))
            async with _mapping(plane, work_seconds) as told:
                first = replace(told)
                await asyncio.sleep(effort.map_seconds)
                second = replace(told)
                await _measure(starts, effort, beside, len(alone["real"]) + len(beside["real"]))
                rates.alone.append(second.per_second_since(first))
                rates.beside.append(told.per_second_since(second))
    return figures_of(alone, beside, rates)


async def _measure(starts: Starts, effort: Effort, spans: Spans, reals_before: int) -> None:
    """Start workloads, and add their spans."""
    single, _ = await starts.latencies(emulated(1, 1), effort.singles)
    gang, _ = await starts.latencies(emulated(GANG_TASKS, GANG_GPUS), effort.gangs)
    spans["single"] += single
    spans["gang"] += gang
    spans["real"] += [await starts.real_ms(reals_before + number) for number in range(effort.reals)]


@asynccontextmanager
async def _mapping(plane: ServingPlane, work_seconds: float) -> AsyncIterator[Told]:
    """Run a program that maps; enter when calls are done, and leave when all are."""
    async with running("endless_map", str(work_seconds), directory=plane.directory) as process:
        assert process.stdout is not None
        told = Told()
        reading = asyncio.get_running_loop().create_task(_read(process.stdout, told))
        try:
            await until(lambda: told.done > 0, MAP_SECONDS_MAX, "the map does not come about")
            yield told
            process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.wait(), MAP_SECONDS_MAX)
        finally:
            reading.cancel()
            await asyncio.wait([reading])


async def _read(lines: asyncio.StreamReader, told: Told) -> None:
    """Keep the newest line."""
    async for line in lines:
        newest = msgspec.json.decode(line, type=Told)
        told.at, told.done = newest.at, newest.done


def figures_of(alone: Spans, beside: Spans, rates: Rates) -> dict[str, float]:
    """Return medians and 99th hundredths, their ratios, and rates."""
    figures: dict[str, float] = {}
    for share in (50, 99):
        for sort in SORTS:
            name = f"{sort}_p{share}"
            figures[f"{name}_ms_alone"] = percentile(alone[sort], share)
            figures[f"{name}_ms_beside"] = percentile(beside[sort], share)
            figures[f"{name}_ratio"] = figures[f"{name}_ms_beside"] / figures[f"{name}_ms_alone"]
        figures[f"start_p{share}_ratio"] = max(figures[f"{sort}_p{share}_ratio"] for sort in SORTS)
    figures["map_per_s_alone"] = statistics.median(rates.alone)
    figures["map_per_s_beside"] = statistics.median(rates.beside)
    return figures
