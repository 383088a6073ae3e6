"""Who gains and who loses by the choice among equal optima: max-min with the most total speed, against a point amid the optima.

Both have the same lowest level and the same rounds (core/sharing/faces.py; bench/support/sharing/yardstick.py). The load is of 1 to 8 GPUs at
2.6 jobs an hour, of which a fifth has weight 5, on 36 V100, P100 and K80 each; jobs 300 to 600 of 800 count, of each seed.

    ratio_GROUP            completion times summed over the group's jobs, over the same without the choice
    faster_GROUP, slower_  the part of its jobs that complete more than 5 % sooner, or later

source    spec/gavel.md §1.3, which has the mean over all jobs alone
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.support.report import Findings
from bench.support.sharing.load import HEAVY_WEIGHT, WIDTHS
from bench.support.sharing.plays import LOAD_GPUS, LOADED, QUICK, chooser, fleet_of
from bench.support.sharing.yardstick import plain_max_min
from core.sharing.jobs import SharingJob
from core.sharing.outcomes import Played
from core.sharing.problem import Floats
from core.sharing.replay import Chooser, Replay
from mizzen.views.plots import draw_bars, figure_option

SEEDS = 3
FELT = 0.05
"""The least change of a completion time that counts as faster or slower."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add how many seeds the load has."""
    parser.add_argument("--seeds", type=int, default=SEEDS, help="of the load")
    figure_option(parser)


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play each seed with and without the choice, and compare job by job."""
    jobs: list[SharingJob] = []
    pairs: list[tuple[float, float]] = []
    for seed in range(1 if is_quick else SEEDS if chosen is None else chosen.seeds):
        drawn, counted = (QUICK if is_quick else LOADED).drawn(seed)
        fleet = fleet_of(LOAD_GPUS, drawn)
        ours, plain = (
            _completions(Replay(drawn, fleet, one).play(counted))
            for one in (chooser("max_min"), Chooser(plain_max_min))
        )
        mine = [job for job in drawn if job.id in frozenset(counted)]
        jobs += mine
        pairs += [(ours[job.id], plain[job.id]) for job in mine]
    took = np.array(pairs)
    figures: dict[str, float] = {}
    groups = _groups(jobs, took[:, 1])
    for name, is_in in groups.items():
        change = took[is_in, 0] / took[is_in, 1]
        figures |= {
            f"jobs_{name}": float(is_in.sum()),
            f"ratio_{name}": float(took[is_in, 0].sum() / took[is_in, 1].sum()),
            f"faster_{name}": float((change < 1 - FELT).mean()),
            f"slower_{name}": float((change > 1 + FELT).mean()),
        }
    if chosen is not None and chosen.figure:
        bars = {"completion time": [figures[f"ratio_{name}"] for name in groups]}
        title = "Completion time with the choice among equal optima"
        names = [name.replace("_", " ") for name in groups]
        chosen.figure.write_text(draw_bars(title, "jobs", "over that without", names, bars))
    return Findings(figures)


def _completions(played: Played) -> dict[str, float]:
    """Return the completion time of each job by id, seconds."""
    return {one.job.id: one.completion_seconds for one in played.outcomes}


def _groups(jobs: list[SharingJob], plain: Floats) -> dict[str, NDArray[np.bool_]]:
    """Return which jobs are in each group: all, by GPUs, by weight, and by quarters of their completion time without the choice."""
    widths = np.array([job.gpus for job in jobs])
    weights = np.array([job.weight for job in jobs])
    quarter = np.searchsorted(np.quantile(plain, [0.25, 0.5, 0.75]), plain)
    groups = {"all": np.ones(len(jobs), dtype=np.bool_)}
    groups |= {f"{width}_gpus": widths == width for _, width in WIDTHS}
    groups |= {"weight_1": weights != HEAVY_WEIGHT, f"weight_{HEAVY_WEIGHT:g}": weights == HEAVY_WEIGHT}
    groups |= {
        f"{name}_quarter": quarter == number
        for number, name in enumerate(("first", "second", "third", "last"))
    }
    return {name: is_in for name, is_in in groups.items() if is_in.any()}
