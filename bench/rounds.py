"""A published trace through rounds on the whole plane, beside the same rounds alone: `python -m bench rounds`.

The 96 jobs of `max_min_fairness.trace`, emulated at the measured speeds, arrive over 12.9 hours in a shared pool of 8 V100, 16 P100 and 24
K80. The queue, the store, agents, broker, workers and planner play in virtual time, by `max_min` and rounds of six minutes. A job takes
10 s to save when told to stop, and 30 s after its start until it makes steps; the plane adds what it needs. Beside that the mechanism is
replayed alone (core/sharing/replay.py) on the same jobs, and each move is charged the mean pause that moves had on the plane.

    plane_over_pure   mean completion time on the plane over that of the charged replay. Gavel's simulator is within 8 % of its cluster
    jct_hours         mean time from submission to the end on the plane
    lease_share       of jobs that run when a round begins, the part that goes on where it is
    empty_share       GPUs of a column that no job held at any time of a round at whose end a pick made before the round had not started
                      in that column, by all GPUs, over all rounds
    pause_mean_seconds   from the pick until the job makes steps again, of starts after a job's first

`--jobs N` plays the first N jobs of the trace, `--length` makes all shorter, and `--apart` has each GPU type in a region of its own, so that a job that changes its type
moves between regions. Where the published data is not there, `has_published_data` is 0, jobs are drawn and
speeds made up, and `jct_hours` has no bar.

source    spec/gavel.md §3 and §7
"""

# rows: G20, G23, G26

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from bench.policy_jct import MAX_MIN_TRACE, STAND_IN_LENGTH, TRACE_GPUS, trace_jobs
from bench.support.report import Findings, Yardstick, at_least, at_most, within
from bench.support.sharing.plane_jobs import Pauses, arrivals_of, pool_region
from bench.support.sharing.plane_play import PoolPlay
from bench.support.sharing.plays import Load, fleet_of, ours
from bench.support.sharing.tables import GAVEL_TYPES, has_gavel
from core.sharing.jobs import SharingJob

HOURS_MAX = 200.0
QUICK_JOBS, QUICK_LENGTH = 40, 0.5
"""Of the trace, and the part of their steps that they make."""
STAND_IN = Load(96 / 12.9, 96, 0, 96, has_widths=True)
REGION = "here"
LIMITS = {
    "plane_over_pure": "first starts wait for the auction and the set-up, which the replay does not charge",
    "jct_hours": "moves cost more than the better shares gain",
    "lease_share": "shares change whenever a job comes or ends",
    "empty_share": "a gang waits for GPUs that leave one by one",
}


def options(parser: argparse.ArgumentParser) -> None:
    """Add how much is played, and what stopping costs."""
    parser.add_argument("--jobs", type=int, default=0, help="the first N of the trace; 0: all")
    parser.add_argument("--seed", type=int, default=1, help="of the plane; the jobs are the same")
    parser.add_argument("--stop", type=float, default=Pauses().stop_seconds, help="seconds that a job saves")
    parser.add_argument(
        "--length", type=float, default=1.0, help="part of its steps that each job makes, for shorter jobs"
    )
    parser.add_argument("--apart", action="store_true", help="each GPU type is in a region of its own")
    parser.add_argument(
        "--set-up", type=float, default=Pauses().set_up_seconds, help="seconds from its start to steps"
    )


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play the trace on the plane and alone."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    jobs = list(trace_jobs(MAX_MIN_TRACE)) if has_gavel() else drawn_jobs()
    if is_quick:
        jobs = [replace(job, steps=job.steps * QUICK_LENGTH) for job in jobs[:QUICK_JOBS]]
    elif chosen.jobs:
        jobs = jobs[: chosen.jobs]
    if chosen.length != 1.0:
        jobs = [replace(job, steps=job.steps * chosen.length) for job in jobs]
    jobs = [replace(job, steps=float(max(1, round(job.steps)))) for job in jobs]
    pauses = replace(Pauses(), stop_seconds=chosen.stop, set_up_seconds=chosen.set_up)
    figures = compared(jobs, pauses, chosen.seed, is_apart=chosen.apart) | {
        "has_published_data": float(has_gavel())
    }
    bars = [
        within("plane_over_pure", figures["plane_over_pure"], 1.0, 0.05, LIMITS["plane_over_pure"]),
        at_least("lease_share", figures["lease_share"], 0.75, LIMITS["lease_share"]),
        at_most("empty_share", figures["empty_share"], 0.01, LIMITS["empty_share"]),
    ]
    if not has_gavel() or is_quick or chosen.jobs or chosen.length != 1.0:
        return Findings(figures, bars)
    bars.insert(1, at_most("jct_hours", figures["jct_hours"], 4.2, LIMITS["jct_hours"]))
    source = "the authors' simulator on the same trace and fleet, which charges nothing for a move, spec/gavel.md §7"
    return Findings(figures, bars, [Yardstick("published_jct_hours", 4.06, source, "jct_hours")])


def drawn_jobs() -> list[SharingJob]:
    """Return jobs that stand in for the trace: as many in as many hours, which want about what there is."""
    jobs, _ = STAND_IN.drawn(0)
    return [replace(job, steps=job.steps * STAND_IN_LENGTH) for job in jobs]


def compared(
    jobs: Sequence[SharingJob], pauses: Pauses, seed: int, *, is_apart: bool = False
) -> dict[str, float]:
    """Return the figures of these jobs on the plane, and of the replay that is charged the plane's pauses."""
    begun = time.perf_counter()
    fleet = fleet_of(TRACE_GPUS, jobs)
    gpus = dict(zip(GAVEL_TYPES, TRACE_GPUS, strict=True))
    regions = (
        {name: pool_region({name: count}) for name, count in gpus.items()}
        if is_apart
        else {REGION: pool_region(gpus)}
    )
    arrivals = arrivals_of(jobs, fleet.speeds, GAVEL_TYPES, pauses)
    played = PoolPlay(regions, seed).play(arrivals, hours_max=HOURS_MAX)
    found = played.figures
    charge = found["pause_mean_seconds"]
    charged, free = ours(jobs, TRACE_GPUS, "max_min", charge=charge), ours(jobs, TRACE_GPUS, "max_min")
    return {
        "plane_over_pure": found["jct_hours"] / charged.mean_hours,
        **found,
        "pure_jct_hours": charged.mean_hours,
        "pure_free_jct_hours": free.mean_hours,
        "pure_lease_share": charged.lease_share,
        "pure_moves": float(charged.moves),
        "facts": float(played.facts),
        "wall_seconds": time.perf_counter() - begun,
    }
