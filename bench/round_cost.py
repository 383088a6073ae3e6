"""What a round costs: 2,000 jobs on 1,024 GPUs of four types in two regions for 20 rounds on the whole plane: `python -m bench round_cost`.

All jobs are there from the begin, and none ends. The plane plays in virtual time, by `max_min` and rounds of six minutes. Every job
takes 10 s to save when told to stop and 30 s after its start until it makes steps; a switch beyond that is the plane's own.

    switch_p95_seconds   of every pick with which a round began: from the round's fact until all tasks of the job run, less the 10 s if the
                         job itself or another in its new column was told to leave. A pick that does not start within its round counts
                         with the whole round. Set-up comes after that, and is the job's own
    facts_per_lease      facts about jobs that stay where they are, in any log, which their own work does not explain (checkpoints at
                         their own times), by jobs that stay
    choose_10k_ms        the queue alone with 10,000 jobs on 5,120 GPUs: `begin_round`, from its image to the round's fact; the median of
                         eight rounds. `choose_10k_max_ms` is the longest; `choose_2k_ms` is of the 2,000 jobs. A choice waits for no
                         other process, so its time is counted by the core; `choose_10k_wall_ms` is by the wall
    chosen_10k_ms        of that only `chosen` (core/sharing/rounds.py), by a timer around the call
    facts_per_switch     facts in all logs, by picks

`--rounds N` plays fewer rounds, `--jobs N` fewer jobs on as many GPUs.

source    targets of this repository; published is only that Gavel's scheduler handles 2,048 jobs (spec/gavel.md §5)
"""

# rows: G23

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path

from bench.support.report import Findings, at_most
from bench.support.sharing.big_pool import regions_of, workloads_of
from bench.support.sharing.plane_jobs import Pauses
from bench.support.sharing.plane_play import PoolPlay
from bench.support.sharing.queue_rounds import QueueRounds
from core.nouns.instant import Nanoseconds
from core.rules import shared_rounds
from runtime.gc_tuning import settle_down
from scenarios.workload import Arrival

JOBS, GPUS, ROUNDS = 2_000, 1_024, 20
QUICK_JOBS, QUICK_GPUS, QUICK_ROUNDS = 60, 64, 3
MANY_JOBS, MANY_GPUS = 10_000, 5_120
QUICK_MANY_JOBS, QUICK_MANY_GPUS = 200, 64
CHOICES, QUICK_CHOICES = 8, 2
HOURS_MAX = 24.0
LIMITS = {
    "switch_p95_seconds": "the picks of a round go through auctions of 64 at a time",
    "facts_per_lease": "a job that stays is told of the round",
    "choose_10k_ms": "the problem is built twice a round, and what all jobs are owed is counted on a copy before the round is a fact",
}


def options(parser: argparse.ArgumentParser) -> None:
    """Add how much is played."""
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=1, help="of the plane")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play the plane, then time the queue alone."""
    jobs, gpus, rounds, seed = JOBS, GPUS, ROUNDS, 1
    if chosen is not None:
        jobs, rounds, seed = chosen.jobs, chosen.rounds, chosen.seed
    if is_quick:
        jobs, gpus, rounds = QUICK_JOBS, QUICK_GPUS, QUICK_ROUNDS
    figures = on_the_plane(jobs, gpus, rounds, seed)
    count = QUICK_CHOICES if is_quick else CHOICES
    many = (QUICK_MANY_JOBS, QUICK_MANY_GPUS) if is_quick else (MANY_JOBS, MANY_GPUS)
    figures |= choices("10k", *many, count) | choices("2k", jobs, gpus, count)
    bounds = {"switch_p95_seconds": 10.0, "facts_per_lease": 0.0, "choose_10k_ms": 200.0}
    return Findings(
        figures, [at_most(name, figures[name], bound, LIMITS[name]) for name, bound in bounds.items()]
    )


def on_the_plane(jobs: int, gpus: int, rounds: int, seed: int) -> dict[str, float]:
    """Return the figures of so many rounds on the whole plane."""
    begun = time.perf_counter()
    arrivals = [Arrival(Nanoseconds(0), spec) for spec in workloads_of(jobs, Pauses())]
    play = PoolPlay(regions_of(gpus), seed)
    played = play.play(arrivals, hours_max=HOURS_MAX, rounds=rounds)
    found = played.figures
    names = (
        *("switch_p95_seconds", "switch_max_seconds", "facts_per_lease", "switches", "moves", "rounds"),
        *("leases", "lease_share", "empty_share", "pause_mean_seconds", "pause_p95_seconds"),
    )
    return {name: found[name] for name in names} | {
        "facts_per_switch": played.facts / max(1.0, found["switches"]),
        "facts": float(played.facts),
        "plane_wall_seconds": time.perf_counter() - begun,
    }


def choices(name: str, jobs: int, gpus: int, count: int) -> dict[str, float]:
    """Return how long the queue chooses the next round of so many jobs, in milliseconds."""
    queue = QueueRounds(regions_of(gpus), workloads_of(jobs, Pauses()))
    settle_down()
    with timed_choice() as inner:
        spent = [(1_000 * core, 1_000 * wall) for core, wall, _ in queue.rounds(count)]
    by_core, by_wall = ([one[place] for one in spent] for place in range(2))
    return {
        f"choose_{name}_ms": statistics.median(by_core),
        f"choose_{name}_max_ms": max(by_core),
        f"choose_{name}_wall_ms": statistics.median(by_wall),
        f"chosen_{name}_ms": 1_000 * statistics.median(inner),
    }


@contextmanager
def timed_choice() -> Iterator[list[float]]:
    """Give the seconds of each call of `chosen` by the queue, in order."""
    spent: list[float] = []
    names = vars(shared_rounds)
    choose = names["chosen"]

    @wraps(choose)
    def timed(*words: object, **named: object) -> object:
        begun = time.process_time()
        found: object = choose(*words, **named)
        spent.append(time.process_time() - begun)
        return found

    names["chosen"] = timed
    try:
        yield spent
    finally:
        names["chosen"] = choose
