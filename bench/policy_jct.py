"""Completion times of jobs under our rounds, against the published mechanism on the same jobs.

Both traces of 100 and 96 jobs run on 8 V100, 16 P100 and 24 K80. The Poisson loads run on 36 of each, seeds 0 to 2: `loaded` has 2.6
jobs an hour of 1 to 8 GPUs, a fifth of them with weight 5, and counts jobs 300 to 600 of 800; `light` has .8 jobs an hour of one GPU,
and counts jobs 60 to 160; `space` has 9 jobs an hour of one GPU, by pairs and alone, and counts jobs 300 to 600 of 800. Rounds last 360 s.

    published_error    the largest of six relative differences between our replay of the published mechanism and what its authors'
                       simulator gives: mean completion time of both traces and makespan of the first, by FIFO and by max-min
    loaded_ratio       mean completion time by ours over that by the published mechanism and its max-min; the worst of the seeds
    charged_ratio      the same, where ours is charged 60 s a move and the published mechanism nothing

With `--trace` one trace is played by one policy. A trace that is not a file is looked for among the published ones by its name. Where
the published data is not there, `has_published_data` is 0: speeds are made up, drawn jobs stand in for the traces, and the figures that
are about those have no bar.

source    spec/gavel.md §5, §7, §11. Its figures are of one seed of the dice that only agnostic policies throw
"""

# rows: G7

import argparse
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from bench.support.report import Findings, Yardstick, at_most
from bench.support.sharing.plays import LOAD_GPUS, LOADED, QUICK, Load, chooser, fleet_of, ours, published
from bench.support.sharing.tables import FOLDER, gavel_table, has_gavel
from core.sharing.building import Pool
from core.sharing.jobs import SharingJob
from core.sharing.outcomes import summary_of
from core.sharing.policies import POLICIES
from core.sharing.replay import ROUND_SECONDS, Fleet, Replay
from core.sharing.traces import jobs_of, rows_of

TRACE_GPUS = (8, 16, 24)
MAKESPAN_TRACE, MAX_MIN_TRACE = "minimize_makespan.trace", "max_min_fairness.trace"
STAND_IN_LENGTH = 0.1
"""By which drawn jobs that stand in for a trace are shorter: those of the traces end within a day."""
STAND_IN_JOBS, QUICK_JOBS = 96, 16
"""Of a drawn load, where the traces are not there, and where all is to be quick."""
CHARGE_SECONDS = 60.0
SEEDS, QUICK_SEEDS = range(3), range(1)


LIGHT = Load(0.8, 160, 60, 160)
SPACE = Load(9.0, 800, 300, 600)
PUBLISHED = {
    (MAKESPAN_TRACE, "fifo"): (11.18, 25.20),
    (MAX_MIN_TRACE, "fifo"): (5.42, None),
    (MAKESPAN_TRACE, "max_min"): (9.90, 19.03),
    (MAX_MIN_TRACE, "max_min"): (4.06, None),
}
"""Mean completion time and makespan, hours, by trace and policy, of the authors' simulator (spec/gavel.md §7)."""
PUBLISHED_MAKESPAN_HOURS = 17.98


def options(parser: argparse.ArgumentParser) -> None:
    """Add how one trace is played, and how many seeds the loads have."""
    parser.add_argument("--trace", default="", help="a file, or the name of a published trace")
    parser.add_argument("--gpus", default="", help="the fleet, as in v100=8,p100=16,k80=24")
    parser.add_argument("--policy", default="max_min", choices=sorted(POLICIES))
    parser.add_argument("--charge", type=float, default=0.0, help="seconds that each move costs a job")
    parser.add_argument("--round", type=float, default=ROUND_SECONDS, help="seconds of a round")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="of the Poisson loads")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play one trace, or all that the bars are about."""
    if chosen is not None and chosen.trace:
        return Findings(one_trace(chosen))
    seeds = QUICK_SEEDS if is_quick else range(chosen.seeds) if chosen is not None else SEEDS
    figures, yardsticks = traces(is_quick=is_quick)
    figures |= loaded(QUICK if is_quick else LOADED, seeds)
    figures |= light(QUICK if is_quick else LIGHT, seeds)
    figures |= space(QUICK if is_quick else SPACE, seeds[:1])
    figures["has_published_data"] = float(has_gavel())
    limits = {
        "published_error": (0.03, "an interior-point solver ends at another point of the optimal face"),
        "max_min_jct_hours": (3.90, "jobs wait for the type that they are fastest on"),
        "makespan_hours": (17.90, "no schedule ends before 17.71 h"),
        "loaded_ratio": (0.93, "shares at saturation leave no choice"),
        "light_ratio": (0.93, "most jobs have their fastest type either way"),
        "charged_ratio": (0.95, "moves cost more than the better shares gain"),
        "space_ratio": (1.0, "pairs move more often than jobs alone"),
    }
    if not has_gavel():
        limits = {name: limit for name, limit in limits.items() if name.endswith("_ratio")}
        yardsticks = []
    bars = [at_most(name, figures[name], bound, why) for name, (bound, why) in limits.items()]
    return Findings(figures, bars, yardsticks)


def traces(*, is_quick: bool) -> tuple[dict[str, float], list[Yardstick]]:
    """Return the figures of both traces, and what the authors' simulator gives for the same."""
    jobs = {name: trace_jobs(name) for name in (MAKESPAN_TRACE, MAX_MIN_TRACE)}
    if is_quick:
        jobs = {name: mine[:QUICK_JOBS] for name, mine in jobs.items()}
    worst = 0.0
    for (name, policy), (hours, makespan) in PUBLISHED.items():
        found = published(jobs[name], TRACE_GPUS, is_fifo=policy == "fifo")
        worst = max(worst, abs(found.mean_hours / hours - 1))
        if makespan is not None:
            worst = max(worst, abs(found.makespan_hours / makespan - 1))
    fair = ours(jobs[MAX_MIN_TRACE], TRACE_GPUS, "max_min")
    fast = ours(jobs[MAKESPAN_TRACE], TRACE_GPUS, "makespan")
    figures = {
        "published_error": worst,
        "max_min_jct_hours": fair.mean_hours,
        "max_min_lease_share": fair.lease_share,
        "makespan_hours": fast.makespan_hours,
        "makespan_jct_hours": fast.mean_hours,
    }
    source = "the authors' simulator on the same trace and fleet, spec/gavel.md §7"
    return figures, [
        Yardstick("published_max_min_jct_hours", 4.06, source, "max_min_jct_hours"),
        Yardstick("published_makespan_hours", PUBLISHED_MAKESPAN_HOURS, source, "makespan_hours"),
    ]


def loaded(load: Load, seeds: range) -> dict[str, float]:
    """Return the figures of the load of several GPUs, with nothing and with a minute charged for a move."""
    figures: dict[str, float] = {}
    ratios, charged = [], []
    for seed in seeds:
        jobs, counted = load.drawn(seed)
        base = published(jobs, LOAD_GPUS, counted)
        free = ours(jobs, LOAD_GPUS, "max_min", counted)
        dear = ours(jobs, LOAD_GPUS, "max_min", counted, charge=CHARGE_SECONDS)
        ratios.append(free.mean_hours / base.mean_hours)
        charged.append(dear.mean_hours / base.mean_hours)
        figures |= {
            f"loaded_{seed}_hours": free.mean_hours,
            f"loaded_{seed}_published_hours": base.mean_hours,
            f"loaded_{seed}_lease_share": free.lease_share,
            f"loaded_{seed}_published_lease_share": base.lease_share,
        }
    return {**figures, "loaded_ratio": max(ratios), "charged_ratio": max(charged)}


def light(load: Load, seeds: range) -> dict[str, float]:
    """Return the figures of the load that leaves most GPUs idle."""
    ratios = []
    for seed in seeds:
        jobs, counted = load.drawn(seed)
        base = published(jobs, LOAD_GPUS, counted)
        ratios.append(ours(jobs, LOAD_GPUS, "max_min", counted).mean_hours / base.mean_hours)
    return {"light_ratio": max(ratios), "light_ratio_mean": sum(ratios) / len(ratios)}


def space(load: Load, seeds: range) -> dict[str, float]:
    """Return the figures of space sharing."""
    ratios = []
    for seed in seeds:
        jobs, counted = load.drawn(seed)
        alone = ours(jobs, LOAD_GPUS, "max_min", counted)
        pairs = ours(jobs, LOAD_GPUS, "max_min", counted, has_pairs=True)
        ratios.append(pairs.mean_hours / alone.mean_hours)
    return {"space_ratio": max(ratios)}


def one_trace(chosen: argparse.Namespace) -> dict[str, float]:
    """Return the figures of one trace by one policy."""
    jobs = trace_jobs(chosen.trace)
    fleet = fleet_of(TRACE_GPUS, jobs)
    if chosen.gpus:
        parts = (part.partition("=") for part in chosen.gpus.split(","))
        pools = tuple(Pool("here", gpu_type.lower(), int(count)) for gpu_type, _, count in parts)
        fleet = Fleet(pools, fleet.speeds)
    played = Replay(
        jobs, fleet, chooser(chosen.policy), round_seconds=chosen.round, charge_seconds=chosen.charge
    ).play()
    found = summary_of(played)
    return {
        "jct_hours": found.mean_hours,
        "p50_hours": found.p50_hours,
        "p99_hours": found.p99_hours,
        "makespan_hours": found.makespan_hours,
        "lease_share": found.lease_share,
        "utilisation": found.utilisation,
        "moves": float(found.moves),
        "fairness_worst": found.fairness_worst,
        "cost_dollars": found.cost,
    }


def trace_jobs(name: str) -> Sequence[SharingJob]:
    """Return the jobs of a trace; where a published one is not there, drawn ones stand in for it."""
    path = Path(name) if Path(name).is_file() else FOLDER / "traces" / name
    if path.is_file():
        return jobs_of(rows_of(path.read_text()), gavel_table())
    assert name in {MAKESPAN_TRACE, MAX_MIN_TRACE}, f"there is no trace {name}"
    jobs, _ = LOADED.drawn(0)
    return [replace(job, steps=job.steps * STAND_IN_LENGTH) for job in jobs[:STAND_IN_JOBS]]
