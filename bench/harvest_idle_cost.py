"""What it costs to lend nodes of which nobody makes much use: `python -m bench harvest_idle_cost` (6 minutes).

A real plane: 400 emulated nodes and this machine, both of which run functions. A client starts single GPUs, gangs of 8×8 and real processes,
one after the other, as `start` does (bench/support/starts.py), while pools lend what is free, and while they do not, in turn on the same plane;
the seed draws which of the two comes first in each turn. Each start recalls capacity of its nodes, and each end lets it be offered anew.

    start_ratio            the largest of SORT_p50_ratio: the median while pools lend, over the median while they do not
    harvest_facts_share    of the facts of both regions while pools lend, those about harvested capacity
    facts_per_start_on     facts of both regions for one start and its end, and facts_per_start_off

Then six regions of a published planet are played in the simulated world, for four hours of a day or `--hours`, with pools that lend what was free
for 10 s and with a call every 12 s (bench/support/harvest/planet_day.py). The load is steady, so that a share of these hours is one of a day.

    harvest_facts_share_day         of the facts of all logs, those about harvested capacity
    harvest_facts_share_day_regions of the facts of regions
    harvest_facts_per_start_day     facts about harvested capacity for one gang that starts
    checkpoint_facts_share_day      of the facts of all logs, those that a checkpoint was made: they are most of them
"""

import argparse
import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bench.support.choices import numbers
from bench.support.functions.plane import HERE, empty_plane
from bench.support.harvest.planet_day import LOAD, Facts, facts_of_planet
from bench.support.percentiles import percentile
from bench.support.plane_client import Client, emulated
from bench.support.planet.planet import Size
from bench.support.report import Findings, at_most
from bench.support.starts import GANG_GPUS, GANG_TASKS, Starts
from core.events.harvest import EVENTS
from core.events.region import CheckpointCommitted, GangStarted
from core.fact import Event
from core.messages.base import Refused
from core.messages.pools import PoolAnswered, SetPool
from core.nouns.harvest import KEEPS, HarvestSettings
from core.nouns.ids import RegionName
from core.nouns.instant import seconds
from core.nouns.pool import PoolSettings
from runtime.loop import run as run_loop

EAST = RegionName("east")
REGIONS = (EAST, HERE)
FLEET = """
fleet: bench
regions:
  east: {nodes: 400, workers: 4, gpu_type: H100, functions: true}
  here: {this_machine: true, cpu_slots: 128, functions: true}
"""
POOL = "training"
AFTER_SECONDS = 0.5
SETTLE_SECONDS = 2.0
SORTS = ("single", "gang", "real")
HANDS = "a recall is in the fact that grants, and each end is followed by an offer, which passes the store and a function server"


class Effort(Struct, frozen=True):
    """How much is measured."""

    turns: int
    singles: int
    """Starts in one phase of a turn."""
    gangs: int
    reals: int
    day: Size
    """Of the planet that is played."""


HOURS = 4.0
FULL = Effort(5, 40, 15, 15, Size(HOURS, 64, LOAD, 0.5))
QUICK = Effort(1, 3, 2, 2, Size(0.1, 16, LOAD, 0.0))


def options(parser: argparse.ArgumentParser) -> None:
    """Add seeds, and the length of the planet's play."""
    parser.add_argument("--seeds", type=numbers, default="1", help="whole numbers, joined by commas")
    parser.add_argument(
        "--hours", type=float, default=HOURS, help="of the planet that are played (default: %(default)s)"
    )


def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Measure starts on a real plane, and count facts of a planet."""
    effort, seeds = (QUICK, (1,)) if is_quick else (FULL, (1,))
    if chosen is not None and not is_quick:
        seeds = chosen.seeds
        effort = replace(effort, day=replace(effort.day, hours=chosen.hours))
    spans, facts = run_loop(_starts(directory, effort, seeds))
    count = len(seeds) * effort.turns * (effort.singles + effort.gangs + effort.reals)
    day = [facts_of_planet(effort.day, seed) for seed in seeds]
    return findings(spans, facts, count, day)


async def _starts(
    directory: Path, effort: Effort, seeds: Sequence[int]
) -> tuple[dict[bool, dict[str, list[float]]], dict[bool, Counter[bool]]]:
    """Return spans with harvest and without, in turn, and facts by whether they are about harvested capacity."""
    spans: dict[bool, dict[str, list[float]]] = {
        lends: {sort: [] for sort in SORTS} for lends in (True, False)
    }
    facts: dict[bool, Counter[bool]] = {True: Counter(), False: Counter()}
    async with empty_plane(directory / "plane", FLEET) as plane:
        starts = Starts(plane.connection.endpoint("starts"), directory, REGIONS)
        await starts.begin()
        await starts.warm_up()
        client = Client(plane.connection.endpoint("client"), REGIONS)
        await client.begin()
        counted: Counter[bool] | None = None

        def count(event: Event, _: int, __: float) -> None:
            if counted is not None:
                counted[isinstance(event, EVENTS)] += 1

        client.on_fact.append(count)
        done = 0
        for seed in seeds:
            dice = random.Random(f"harvest_idle_cost/{seed}")
            for _ in range(effort.turns):
                for lends in dice.sample((False, True), 2):
                    await _set(client, lends=lends)
                    counted = facts[lends]
                    done = await _measure(starts, effort, spans[lends], done)
                    counted = None  # What follows is about the change of settings.
    return spans, facts


async def _set(client: Client, *, lends: bool) -> None:
    """Have both pools lend what is free, or nothing, and wait until that has come about."""
    harvest = HarvestSettings(True, after=seconds(AFTER_SECONDS)) if lends else KEEPS
    for region in REGIONS:
        revision = 0
        while True:
            answer = await client.ask(SetPool(region, POOL, PoolSettings(harvest=harvest), revision, "bench"))
            if isinstance(answer, PoolAnswered):
                break
            assert isinstance(answer, Refused), answer
            revision += 1
    await asyncio.sleep(SETTLE_SECONDS)


async def _measure(starts: Starts, effort: Effort, spans: dict[str, list[float]], done: int) -> int:
    """Start workloads, and add their spans. Return how many real ones there were in all."""
    spans["single"] += (await starts.latencies(emulated(1, 1), effort.singles))[0]
    spans["gang"] += (await starts.latencies(emulated(GANG_TASKS, GANG_GPUS), effort.gangs))[0]
    spans["real"] += [await starts.real_ms(done + number) for number in range(effort.reals)]
    return done + effort.reals


def findings(
    spans: dict[bool, dict[str, list[float]]],
    facts: dict[bool, Counter[bool]],
    count: int,
    days: Sequence[Facts],
) -> Findings:
    """Return medians, their ratios, and shares of facts.

    count   starts with harvest, and as many without
    days    facts of the planet, from each seed
    """
    figures: dict[str, float] = {}
    for sort in SORTS:
        on, off = (percentile(spans[lends][sort], 50) for lends in (True, False))
        figures[f"{sort}_p50_ms_on"], figures[f"{sort}_p50_ms_off"] = on, off
        figures[f"{sort}_p50_ratio"] = on / off
    figures["start_ratio"] = max(figures[f"{sort}_p50_ratio"] for sort in SORTS)
    figures["harvest_facts_share"] = facts[True][True] / max(1, facts[True].total())
    for lends, name in ((True, "on"), (False, "off")):
        figures[f"facts_per_start_{name}"] = facts[lends].total() / count
    day = reduce(Facts.plus, days)
    starts, checkpoints = day.by_type[GangStarted.__name__], day.by_type[CheckpointCommitted.__name__]
    figures |= {
        "harvest_facts_share_day": day.of_harvest / max(1, day.count),
        "harvest_facts_share_day_regions": day.of_harvest / max(1, day.of_regions),
        "harvest_facts_per_start_day": day.of_harvest / max(1, starts),
        "checkpoint_facts_share_day": checkpoints / max(1, day.count),
        "facts_an_hour_day": day.count / day.hours,
        "hours_day": day.hours,
    }
    return Findings(figures, [at_most("start_ratio", figures["start_ratio"], 1.1, HANDS)])
