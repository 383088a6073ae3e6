"""Completion times by load, for every policy: the same Poisson jobs of one GPU, on 36 V100, P100 and K80 each, in rounds of 360 s.

Such a job takes 17 h of a V100 in the mean, so that 5.6 an hour leave no GPU idle. The jobs count that arrive from hour 120 to hour 180,
and more arrive until hour 240; nothing is charged for a move.

    POLICY_LOAD_hours, _p99_hours    mean, and the time within which 99 % complete
    POLICY_LOAD_fairness             the worst completion time relative to an equal part of the fleet

source    OSDI 2020, figures 8 to 11, which have one policy each and no fairness beside
"""

import argparse
from pathlib import Path

from bench.support.report import Findings
from bench.support.sharing.plays import LOAD_GPUS, Load, ours
from core.sharing.policies import POLICIES
from mizzen.views.plots import Curve, draw_lines, figure_option

LOADS = (0.8, 2.4, 4.0, 5.6)
"""Jobs an hour."""
WARM_HOURS, COUNTED_HOURS, HOURS = 120, 180, 240
QUICK_PART = 0.1
"""Of these hours, where all is to be quick."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add which policies and loads are played."""
    parser.add_argument("--policies", default=",".join(POLICIES), help="names, with commas between")
    parser.add_argument("--loads", default=",".join(f"{one:g}" for one in LOADS), help="jobs an hour")
    parser.add_argument("--seed", type=int, default=0)
    figure_option(parser)


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play each policy at each load."""
    policies = list(POLICIES) if chosen is None else chosen.policies.split(",")
    loads = LOADS if chosen is None else [float(one) for one in chosen.loads.split(",")]
    figures: dict[str, float] = {}
    for policy in policies:
        for load in loads[:1] if is_quick else loads:
            part = load * QUICK_PART if is_quick else load
            first, last, count = (round(part * hours) for hours in (WARM_HOURS, COUNTED_HOURS, HOURS))
            jobs, counted = Load(load, count, first, last).drawn(0 if chosen is None else chosen.seed)
            found = ours(jobs, LOAD_GPUS, policy, counted)
            figures |= {
                f"{policy}_{load:g}_hours": found.mean_hours,
                f"{policy}_{load:g}_p99_hours": found.p99_hours,
                f"{policy}_{load:g}_fairness": found.fairness_worst,
            }
    if chosen is not None and chosen.figure:
        curves = [
            Curve(policy, [(load, figures[f"{policy}_{load:g}_hours"]) for load in loads])
            for policy in policies
        ]
        title = "Mean completion time by load"
        chosen.figure.write_text(draw_lines(title, "jobs an hour", "hours", curves))
    return Findings(figures)
