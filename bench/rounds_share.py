"""How near rounds come to the shares that they deliver: 24 jobs whose shares stay as they are, for 1,000 rounds.

    shortfall    the most rounds, at any time, by which a job is short of what its share of a column comes to by then
    share error  | rounds received - rounds owed | / rounds owed of a job after 100 rounds, over all columns; the mean over all jobs

Jobs of one GPU alone; of one GPU in pairs; gangs of 1, 2 and 4 GPUs, alone and in pairs. With pairs the jobs are of four models, so that
classes have several members; the shares of a pair of classes are delivered by pairs of jobs, matched anew each round.

The bar of 5 % is on the mean over all jobs. It does not say that each job is within 5 %: `pair_jobs_off` is the part of the jobs that are
not, and `pair_places_off` the part of the places, each of a job in a column alone or there beside a class; the others likewise. A place
is more often off than a job, as one makes up for another, and as one round is more than 5 % of a place that is owed fewer than 20.

A share error cannot be 0 for all. 100 rounds are whole, and a job of share .05 is owed 5. Gangs do not always pack. And some shares
of pairs cannot be delivered at all: of three jobs that should each spend half of the time beside each of the others, at most two run
together in any round. `_p95` and `_worst` show how far such jobs are off.

source    spec/gavel.md §10, rows 16 and 18; the published mechanism is in core/sharing/published.py
"""

# rows: G16, G18

import argparse
from pathlib import Path

from bench.support.report import Findings, Yardstick, at_most
from bench.support.sharing.static import (
    Error,
    Kind,
    errors,
    instance,
    place_errors,
    played,
    played_as_published,
    shortfall,
    undelivered,
)
from core.sharing.replay import ROUND_SECONDS
from core.sharing.rounds import STAY

INSTANCES, QUICK_INSTANCES = 100, 2
ROUNDS, QUICK_ROUNDS = 1_000, 100
COUNTED = 100
"""Rounds after which share errors are taken."""
OFF = 0.05
"""A share error beyond which a job, or a place, counts as off."""
WIDTHS = (1, 1, 1, 2, 4)
KINDS = {
    "pair": Kind(models=4, has_pairs=True),
    "gang": Kind(WIDTHS),
    "gang_pair": Kind(WIDTHS, models=4, has_pairs=True),
}


def options(parser: argparse.ArgumentParser) -> None:
    """Add how many instances are played."""
    parser.add_argument("--instances", type=int, default=INSTANCES)


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play every kind of jobs."""
    count = QUICK_INSTANCES if is_quick else chosen.instances if chosen is not None else INSTANCES
    rounds = QUICK_ROUNDS if is_quick else ROUNDS
    figures = shortfalls(count, rounds)
    for name, kind in KINDS.items():
        figures |= share_errors(name, kind, count)
    bars = [
        at_most(
            "shortfall_max_rounds",
            figures["shortfall_max_rounds"],
            6,
            "a job waits while others stay where they run",
        ),
        at_most(
            "pair_share_error", figures["pair_share_error"], 0.05, "some shares of pairs cannot be delivered"
        ),
    ]
    source = "the published mechanism on the same jobs: X / f from half a round, one reset"
    beside = "shortfall_max_rounds"
    return Findings(
        figures, bars, [Yardstick("published_shortfall_max_rounds", figures.pop("published"), source, beside)]
    )


def shortfalls(count: int, rounds: int) -> dict[str, float]:
    """Return the largest shortfalls of one-GPU jobs, by our mechanism with and without `STAY`, and by the published one."""
    found = {"shortfall_max_rounds": 0.0, "shortfall_max_rounds_no_stay": 0.0, "published": 0.0}
    for seed in range(count):
        present = instance(Kind(), seed)
        plays = (
            played(present, rounds, STAY),
            played(present, rounds, 0.0),
            played_as_published(present, rounds, ROUND_SECONDS),
        )
        for name, play in zip(found, plays, strict=True):
            most = max(shortfall(present, received, number) for number, received in enumerate(play, 1))
            found[name] = max(found[name], most)
    return found


def share_errors(name: str, kind: Kind, count: int) -> dict[str, float]:
    """Return the share errors of all jobs of a kind after 100 rounds, how many are off, and the part of GPU-rounds not delivered."""
    all_errors: list[Error] = []
    by_place: list[Error] = []
    parts = []
    for seed in range(count):
        present = instance(kind, seed)
        *_, received = played(present, COUNTED, STAY)
        all_errors += errors(present, received, COUNTED)
        by_place += place_errors(present, received, COUNTED)
        parts.append(undelivered(present, received, COUNTED))
    sizes = sorted(one.part for one in all_errors)
    return {
        f"{name}_share_error": sum(sizes) / len(sizes),
        f"{name}_share_error_p95": sizes[len(sizes) * 95 // 100],
        f"{name}_share_error_worst": sizes[-1],
        f"{name}_jobs_off": _off(all_errors),
        f"{name}_places_off": _off(by_place),
        f"{name}_undelivered": sum(parts) / len(parts),
        f"{name}_undelivered_worst": max(parts),
    }


def _off(found: list[Error]) -> float:
    """Return the part of these that is off by more than `OFF`."""
    return sum(one.part > OFF for one in found) / len(found)
