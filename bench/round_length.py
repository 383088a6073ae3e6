"""How long a round should be: completion times by its length and by what a move costs, under max-min.

The load is of 1 to 8 GPUs at 2.6 jobs an hour, of which a fifth has weight 5, on 36 V100, P100 and K80 each; jobs 300 to 600 of 800 count.

    hours_ROUND_CHARGE    mean completion time, by the seconds of a round and those that each move costs a job
    kept_ROUND            the part of leases that go on in the next round, with nothing charged

source    OSDI 2020, section 7.5, which has rounds of 6 to 48 minutes and charges nothing
"""

import argparse
from pathlib import Path

from bench.support.report import Findings
from bench.support.sharing.plays import LOAD_GPUS, LOADED, QUICK, ours
from mizzen.views.plots import Curve, draw_lines, figure_option

ROUNDS = (60, 180, 360, 720, 1_440, 2_880)
CHARGES = (0, 30, 60, 120)


def options(parser: argparse.ArgumentParser) -> None:
    """Add which rounds and charges are played."""
    parser.add_argument("--rounds", default=",".join(map(str, ROUNDS)), help="seconds, with commas between")
    parser.add_argument("--charges", default=",".join(map(str, CHARGES)), help="seconds, with commas between")
    parser.add_argument("--seed", type=int, default=0)
    figure_option(parser)


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play the load by each length of a round and each charge."""
    rounds = ROUNDS if chosen is None else [int(one) for one in chosen.rounds.split(",")]
    charges = CHARGES if chosen is None else [int(one) for one in chosen.charges.split(",")]
    jobs, counted = (QUICK if is_quick else LOADED).drawn(0 if chosen is None else chosen.seed)
    figures: dict[str, float] = {}
    for length in rounds:
        for charge in charges:
            found = ours(jobs, LOAD_GPUS, "max_min", counted, charge=charge, round_seconds=length)
            figures[f"hours_{length}_{charge}"] = found.mean_hours
            if not charge:
                figures[f"kept_{length}"] = found.lease_share
    if chosen is not None and chosen.figure:
        curves = [
            Curve(
                f"{charge} s a move",
                [(length / 60, figures[f"hours_{length}_{charge}"]) for length in rounds],
            )
            for charge in charges
        ]
        title = "Mean completion time by the length of a round"
        chosen.figure.write_text(draw_lines(title, "minutes of a round", "hours", curves))
    return Findings(figures)
