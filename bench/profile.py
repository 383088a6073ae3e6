"""How much wrong speeds cost, and how much of that is left once they are corrected by measured ones.

The jobs of a trace are played over a fleet by max-min shares in rounds of six minutes. The policy believes speeds that are each wrong by
a factor of their own, exp(N(0, sigma)), and they stay wrong, or are corrected as jobs run (bench/support/sharing/profile.py). A figure is
the mean completion time over that of exact speeds, the mean of five draws of the factors. `_worst` is of the worst draw.

A speed is measured only where the shares put a job: a type that is wrongly believed slow stays unused, so the rest of the loss grows
with sigma. The replay gives idle GPUs away by true speeds, which helps the wrong tables a little under light load.

source    Gavel's trace `max_min_fairness`, 96 jobs, on 8 V100, 16 P100 and 24 K80 (OSDI 2020, section 7.1); its Poisson load of 2.6
          jobs an hour on 36 of each (`--loaded`)
"""

import argparse
import random
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from bench.support.report import Findings, at_most
from bench.support.sharing.load import dice_of, poisson_load
from bench.support.sharing.profile import Believing, Solver, wrong_table
from bench.support.sharing.tables import FOLDER, GAVEL_TYPES, gavel_table, has_gavel
from core.sharing.building import Pool
from core.sharing.jobs import SharingJob
from core.sharing.outcomes import summary_of
from core.sharing.problem import Shares, SharingProblem
from core.sharing.replay import Chooser, Fleet, Replay
from core.sharing.speeds import SpeedTable
from core.sharing.traces import jobs_of, rows_of
from runtime.solvers.sharing import solve_shares

SIGMAS = (0.1, 0.3, 0.7)
SEEDS, QUICK_SEEDS = range(5), range(1)
TRACE_GPUS, LOADED_GPUS = (8, 16, 24), (36, 36, 36)
LOADED_PER_HOUR = 2.6
LOADED_JOBS, LOADED_FIRST, LOADED_LAST = 800, 300, 600
QUICK_JOBS = 20
FEW_JOBS = 96
"""Of the load that stands in for the trace where that is not there."""


class Load(Struct, frozen=True):
    """The jobs that are played, and the fleet."""

    jobs: Sequence[SharingJob]
    gpus: tuple[int, ...]
    """By type, as `GAVEL_TYPES` has them."""
    counted: tuple[str, ...] = ()
    """Jobs whose completion counts; empty: all."""


def options(parser: argparse.ArgumentParser) -> None:
    """Which load."""
    parser.add_argument("--loaded", action="store_true", help="the Poisson load instead of the trace")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Exact speeds once, then each sigma, corrected and not, with each seed's factors."""
    table = gavel_table()
    is_loaded = chosen is not None and chosen.loaded
    load = poisson(table) if is_loaded else of_trace(table)
    if is_quick:
        load = Load(load.jobs[:QUICK_JOBS], load.gpus)
    seeds = QUICK_SEEDS if is_quick else SEEDS
    exact = mean_hours(load, table, max_min)
    figures = {"exact_hours": exact}
    for sigma in SIGMAS:
        for name, is_corrected in (("never", False), ("corrected", True)):
            ratios = [
                mean_hours(load, table, _believing(table, sigma, seed, is_corrected=is_corrected)) / exact
                for seed in seeds
            ]
            figures[f"{name}_{100 * sigma:.0f}"] = sum(ratios) / len(ratios)
            figures[f"{name}_{100 * sigma:.0f}_worst"] = max(ratios)
    reason = "a type that is believed slow is never tried, so its speed is never measured"
    bars = [
        at_most("corrected_30", figures["corrected_30"], 1.04, reason),
        at_most("corrected_70", figures["corrected_70"], 1.08, reason),
    ]
    return Findings(figures, bars)


def of_trace(table: SpeedTable) -> Load:
    """Return the jobs of the published trace, or drawn ones where it is not there."""
    if has_gavel():
        text = (FOLDER / "traces" / "max_min_fairness.trace").read_text()
        return Load(jobs_of(rows_of(text), table), TRACE_GPUS)
    return Load(poisson(table).jobs[:FEW_JOBS], TRACE_GPUS)


def poisson(table: SpeedTable) -> Load:
    """Return the load of several GPUs and weights; the jobs in the middle count."""
    jobs = poisson_load(LOADED_JOBS, LOADED_PER_HOUR, table, **dice_of(0), has_widths=True, has_weights=True)
    return Load(jobs, LOADED_GPUS, tuple(job.id for job in jobs[LOADED_FIRST:LOADED_LAST]))


def mean_hours(load: Load, table: SpeedTable, shares: Solver) -> float:
    """Return the mean time from submission to completion, where jobs run at the table's speeds."""
    pools = tuple(Pool("here", gpu_type, gpus) for gpu_type, gpus in zip(GAVEL_TYPES, load.gpus, strict=True))
    played = Replay(load.jobs, Fleet(pools, table), Chooser(shares)).play(load.counted)
    return summary_of(played, load.counted).mean_hours


def max_min(problem: SharingProblem) -> Shares:
    """Return the shares of max-min fairness."""
    return solve_shares("max_min", problem)


def _believing(table: SpeedTable, sigma: float, seed: int, *, is_corrected: bool) -> Believing:
    wrong = wrong_table(table, sigma, random.Random(f"{sigma}/{seed}"))
    return Believing(max_min, table, wrong, is_corrected=is_corrected)
