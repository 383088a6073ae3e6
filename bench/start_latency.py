"""How long work waits for its start, within its tenant's quota and over it, by its GPUs and by how long it runs.

The planet and the load of `allocation` (bench/allocation.py), for a day. A wait goes from the submission, or the end of an attempt
that ran, until all ranks are up and set up: set-up alone is 150 s at the median and 325 s at p95. `*_queued_*` is the same without
it. Figures are folded from the queue's log alone (core/figures/waits.py).

source    MAST (OSDI'24) §5.5, fig. 11: within quota mean 2 to 8 minutes and P95 0 to 9; over quota mean 4 to 28, P95 beyond 60
"""

# rows: E6

import argparse
from pathlib import Path

from bench.allocation import QUICK, from_option, played
from bench.support.planet.planet import Size, seeds_of, seeds_option, sized
from bench.support.report import Findings, Yardstick, at_most

FULL = Size(hours=24.0, gpus=2000, load=1.4, warm_hours=2.0, is_mixed=True)
SEEDS = (1,)
TOLD = ("within_", "over_", "slo_", "preemptions", "submitted", "allocation_", "useful_", "cpu_")
LONGEST = ("over_quota_max_hours", "over_max_hours")


def options(parser: argparse.ArgumentParser) -> None:
    """Which seeds, and for how long; or what was played already."""
    seeds_option(parser, SEEDS)
    from_option(parser, "play nothing, and tell what `allocation` kept here")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Each seed; of several the worst."""
    size = QUICK if is_quick else sized(FULL, chosen)
    if chosen is not None and chosen.told:
        runs = [one.figures for one in chosen.told]
    else:
        seeds = SEEDS[:1] if is_quick else seeds_of(chosen, SEEDS)
        runs = [played(size, seed, tells=not is_quick).figures for seed in seeds]
    worst = max(runs, key=lambda one: one["within_quota_p95_minutes"])
    figures = {name: value for name, value in worst.items() if name.startswith(TOLD)}
    for name in [name for name in figures if name.startswith(LONGEST)]:
        figures[name] = max(one.get(name, 0.0) for one in runs)
    figures["seeds"] = float(len(runs))
    limit = "set-up alone takes 5.4 minutes at p95, and who is in the way has half a minute to leave"
    return Findings(
        figures,
        [at_most("within_quota_p95_minutes", figures["within_quota_p95_minutes"], 6, limit)],
        [
            Yardstick("within_p95_minutes", 9, "MAST fig. 11, the worst day of 22; its fleet, not ours"),
            Yardstick("over_p95_minutes", 60, "the same, on many days more than that"),
        ],
    )
