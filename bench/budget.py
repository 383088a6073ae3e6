"""What harvested workers take for the price of two that are held: `python -m bench budget`.

H3 of spec/cameo-harvest.md. The load, the policy and the search of `mws`, on two workers of 16 held cores, and on 6, 12, 18 and 21 harvested workers
that cost the same at four pairs of discounts. Harvested workers change as those of a set do (`active` of `harvest_replay`): each is one of
the set's from a drawn second on, scaled so that all together have the published mean of cores.

`throughput_over_held_N` is the capacity of N workers over that of the held ones; `over_capacity_N` divides that by the ratio of their cores:
1 if harvested cores do as much as held ones, and more where many workers keep executors of all functions warm and two do not. `used_N` is
the part of the cores that calls use at capacity, and `price_N` the price of a useful core-second, in prices of a held core-second: all cores
cost. Where held workers take calls at no rate that was tried, there are no ratios, and the bar is missed. Workers have 4 GiB for each of their
cores, in the mean. `--set FILE` has workers change as the set `active` of another file, or as its first set.
"""

# rows: H3, H-11

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from msgspec import Struct

from bench.harvest_replay import COLD_SECONDS
from bench.mws import FUNCTIONS
from bench.support.choices import numbers
from bench.support.functions.capacity import capacity_of
from bench.support.functions.load import CORE_SECONDS, CallLoad
from bench.support.functions.region import SIZE, Region, Setup, Spans
from bench.support.functions.stage import HeldBook
from bench.support.harvest.sized import SizedRegion
from bench.support.harvest.sizes import CORES_MIN, TRACE_SECONDS, Sizes, drawn_like, sets_or_drawn
from bench.support.report import Findings, Yardstick, at_least
from core.nouns.quantities import MILLI
from core.routing.mws import MinWorkerSet
from runtime.clock import Clock
from runtime.functions.emulated import BookSource

HELD, HELD_CORES = "held", 2 * SIZE.cpu_milli / MILLI
CORE_BYTES = SIZE.memory_bytes * MILLI // SIZE.cpu_milli
"""Memory of a core: harvested workers have as much for their mean cores as held ones."""
STEPS, QUICK_STEPS, SECONDS, QUICK_SECONDS = 5, 1, 600.0, 20.0


class Discount(Struct, frozen=True):
    """Discounts at which so many harvested workers cost as much as two held ones. source: spec/cameo-harvest.md 2.3"""

    workers: int
    cores: float
    """Of all of them, in the mean."""
    least: float
    """Off the price of the cores that a worker always has."""
    harvested: float
    """Off the price of the others."""

    def price(self, cores: float) -> float:
        """Return the price of all workers, in prices of a held core."""
        always = CORES_MIN * self.workers
        return always * (1 - self.least) + (cores - always) * (1 - self.harvested)


DISCOUNTS = {
    str(one.workers): one
    for one in (
        Discount(6, 62.9, 0.48, 0.48),
        Discount(12, 147.3, 0.70, 0.80),
        Discount(18, 247.3, 0.80, 0.90),
        Discount(21, 311.4, 0.88, 0.90),
    )
}


def options(parser: argparse.ArgumentParser) -> None:
    """Add seeds, the file, and the length of it all."""
    parser.add_argument("--seeds", type=numbers, default="1", help="whole numbers, joined by commas")
    parser.add_argument("--set", type=Path, help="a file of sets in the form of the trace")
    parser.add_argument("--steps", type=int, default=STEPS, help="of the bisection (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of calls in a run (default: %(default)s)"
    )


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Find the capacity of held workers and of each number of harvested ones, from each seed."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    steps, span = (QUICK_STEPS, QUICK_SECONDS) if is_quick else (chosen.steps, chosen.seconds)
    seeds = chosen.seeds[:1] if is_quick else chosen.seeds
    begun = time.perf_counter()
    sets, is_drawn = sets_or_drawn(chosen.set, seeds[0])
    like = sets.get("active", next(iter(sets.values())))
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        jobs = {
            (name, seed): pool.submit(tried, name, like, seed, steps, span)
            for name in (*reversed(DISCOUNTS), HELD)
            for seed in seeds
        }
        found = {name: [jobs[name, seed].result() for seed in seeds] for name in (HELD, *DISCOUNTS)}
    return findings_of(found, is_drawn, time.perf_counter() - begun)


def tried(name: str, like: list[Sizes], seed: int, steps: int, span: float) -> tuple[float, float]:
    """Return the capacity of held workers, or of so many harvested ones, and their cores in the measured time."""
    spans = Spans(span / 2, span / 2)
    make: Callable[[CallLoad, float], Region]
    if name == HELD:
        cores = HELD_CORES

        def make(load: CallLoad, rate: float) -> Region:
            return Region(Setup(MinWorkerSet()), load, rate, spans, _held_books)

    else:
        discount = DISCOUNTS[name]
        drawn = drawn_like(like, discount.workers, discount.cores, seed)
        late = [one.since(TRACE_SECONDS - span) for one in drawn]
        cores = sum(one.mean(span / 2, span) for one in late)
        memory_bytes = round(discount.cores / discount.workers) * CORE_BYTES

        def make(load: CallLoad, rate: float) -> Region:
            return SizedRegion(late, load, rate, spans, memory_bytes)

    capacity = capacity_of(
        lambda rate: make(CallLoad(seed, FUNCTIONS, COLD_SECONDS), rate).play(), cores / CORE_SECONDS, steps
    )
    print(f"budget: {name}, seed {seed}: {capacity:.1f} calls a second", file=sys.stderr, flush=True)
    return capacity, cores


def findings_of(found: dict[str, list[tuple[float, float]]], is_drawn: bool, seconds: float) -> Findings:
    """Return ratios and prices, and the bar. There is no ratio to workers that take nothing, and no price of nothing."""
    capacities = {name: statistics.fmean(one for one, _ in many) for name, many in found.items()}
    cores = {name: statistics.fmean(one for _, one in many) for name, many in found.items()}
    prices = {HELD: HELD_CORES} | {name: one.price(cores[name]) for name, one in DISCOUNTS.items()}
    figures: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for name, price in prices.items():
        useful = capacities[name] * CORE_SECONDS
        figures |= {
            f"capacity_{name}": capacities[name],
            f"cores_{name}": cores[name],
            f"used_{name}": useful / cores[name],
        }
        if useful:
            figures[f"price_{name}"] = price / useful
        if capacities[HELD] and name != HELD:
            over_held = capacities[name] / capacities[HELD]
            ratios[name] = over_held / (cores[name] / cores[HELD])
            figures[f"throughput_over_held_{name}"] = over_held
            figures[f"over_capacity_{name}"] = ratios[name]
    figures |= {
        "is_drawn": float(is_drawn),
        "seeds": float(len(found[HELD])),
        "wall_seconds": seconds,
    }
    if not ratios:
        nothing = "held workers take calls at no rate that was tried: there is nothing to compare with"
        return Findings(figures, [at_least("worst_over_capacity", 0.0, 0.8, nothing)])
    worst = min(ratios, key=ratios.__getitem__)
    bars = [
        at_least(
            "worst_over_capacity",
            ratios[worst],
            0.8,
            f"{worst} workers are so small now and then that calls of several cores run at a part of their pace",
        )
    ]
    return Findings(figures, bars, YARDSTICKS)


def _held_books(_: Clock) -> dict[str, BookSource]:
    return {f"w{one}": HeldBook(SIZE) for one in range(2)}


PAPER = "SOSP'21, abstract and table 3: real servers, functions of another load"
YARDSTICKS = [
    Yardstick("published_throughput_6", 2.2, PAPER, "throughput_over_held_6"),
    Yardstick("published_throughput_21", 9.0, PAPER, "throughput_over_held_21"),
]
