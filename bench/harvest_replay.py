"""How many calls a second harvested workers take whose core counts change: `python -m bench harvest_replay`.

H2 of spec/cameo-harvest.md. The load, the policy and the search of `mws` (python -m bench mws), on ten harvested workers: the harvester says their
sizes as the sets of SOSP'21 change them, executors stay and become slower where a worker shrinks, and the router counts the cores that are
left. The sets, for 20 minutes each:

    active   67 changes, 148 cores in the mean
    common   sizes that differ and stay, 180 cores
    const    ten workers of 18 cores

Calls come for the last `--seconds` of the sets, the second half of which is measured. `--set FILE` replays a file of the same form, with sets
of any name. Without the trace, sets with the same means and changes are drawn (`is_drawn`).
"""

# rows: H2, H-10

import argparse
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from bench.mws import FUNCTIONS
from bench.support.choices import numbers
from bench.support.functions.capacity import capacity_of
from bench.support.functions.load import CORE_SECONDS, CallLoad
from bench.support.functions.region import Spans
from bench.support.harvest.sized import SizedRegion
from bench.support.harvest.sizes import SETS, TRACE_SECONDS, Sizes, sets_or_drawn
from bench.support.report import Bar, Findings, Yardstick, at_least

STEPS, QUICK_STEPS, QUICK_SECONDS = 5, 2, 40.0
COLD_SECONDS = 8.0
BOUNDS = {"active": 0.65, "common": 0.85}
"""Parts of the capacity of `const`."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add seeds, the file, and the length of it all."""
    parser.add_argument("--seeds", type=numbers, default="1", help="whole numbers, joined by commas")
    parser.add_argument("--set", type=Path, help="a file of sets in the form of the trace")
    parser.add_argument("--steps", type=int, default=STEPS, help="of the bisection (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=TRACE_SECONDS, help="of the sets (default: %(default)s)"
    )


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Find the capacity of each set from each seed."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    steps, span = (QUICK_STEPS, QUICK_SECONDS) if is_quick else (chosen.steps, chosen.seconds)
    seeds = chosen.seeds[:1] if is_quick else chosen.seeds
    begun = time.perf_counter()
    sets, is_drawn = sets_or_drawn(chosen.set, seeds[0])
    played = sets if chosen.set else {name: sets[name] for name in SETS}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        jobs = {
            (name, seed): pool.submit(tried, name, played[name], seed, steps, span)
            for name in played
            for seed in seeds
        }
        found = {name: [jobs[name, seed].result() for seed in seeds] for name in played}
    means = {
        name: sum(one.mean(TRACE_SECONDS - span / 2) for one in workers) for name, workers in played.items()
    }
    return findings_of(found, means, is_drawn, time.perf_counter() - begun)


def tried(name: str, sizes: list[Sizes], seed: int, steps: int, span: float) -> float:
    """Return the capacity of one set."""
    late = [one.since(TRACE_SECONDS - span) for one in sizes]
    rate_max = sum(one.mean(span / 2, span) for one in late) / CORE_SECONDS
    capacity = capacity_of(
        lambda rate: SizedRegion(
            late, CallLoad(seed, FUNCTIONS, COLD_SECONDS), rate, Spans(span / 2, span / 2)
        ).play(),
        rate_max,
        steps,
    )
    told = f"harvest_replay: {name}, seed {seed}: {capacity:.1f} calls a second"
    print(told, file=sys.stderr, flush=True)
    return capacity


def findings_of(
    found: dict[str, list[float]], means: dict[str, float], is_drawn: bool, seconds: float
) -> Findings:
    """Return the capacity of each set, its cores in the measured time, and the bars."""
    capacities = {name: statistics.fmean(many) for name, many in found.items()}
    figures: dict[str, float] = {}
    for name, capacity in capacities.items():
        figures[f"capacity_{name}"] = capacity
        figures[f"cores_{name}"] = means[name]
        figures[f"used_{name}"] = capacity * CORE_SECONDS / means[name]
    figures |= {
        "is_drawn": float(is_drawn),
        "seeds": float(len(next(iter(found.values())))),
        "wall_seconds": seconds,
    }
    bars: list[Bar] = []
    if capacities.get("const"):
        bars = [
            at_least(
                f"{name}_over_const",
                capacities[name] / capacities["const"],
                bound,
                f"workers of `{name}` have {means[name] / means['const']:.2f} of the cores of `const` and fewer for minutes, "
                "and calls on a worker that shrinks become slower",
            )
            for name, bound in BOUNDS.items()
            if name in capacities
        ]
    return Findings(figures, bars, [one for one in YARDSTICKS if one.beside in figures])


PAPER = "SOSP'21, figure 15: real servers, functions of another load"
YARDSTICKS = [
    Yardstick("published_capacity_active", 18.3, PAPER, "capacity_active"),
    Yardstick("published_capacity_common", 24, PAPER, "capacity_common"),
    Yardstick("published_capacity_const", 27.5, PAPER, "capacity_const"),
]
