"""ParSync's strategies with real agents: 20 agents as processes over NATS, one store with its log on disk, 2,500 slots.

Agents take in rows alone. Each makes 25 attempts a second, failed ones counted, and a task lasts five seconds: 500 tasks a second are
full load, and take every slot. The load is 50, 80, 95, 80 and 50 % of that, for each way of placing, in one run: the setting is changed
while the agents run. A full agent is there, and gets nothing to do.

    order_holds     1 if the mean delay at 95 % grows from latency-first over adaptive and quality-first to statesync
    NAME_STEP_*     mean and 99th percentile of the delay, conflict share and tasks a second of each way in each step

Inside a partition the default rules decide, by which free slots of the fullest rack are best. At this size the attempts of an
agent are themselves a queue of 25 a second, so delays are not those of the paper, but their order is.

source    ParSync (ATC'21), "wind tunnel": 20 schedulers, 40,000 tasks a second; spec/protean-parsync.md §2.6 B, §5.2 E-S3
"""

# rows: E-S3

import argparse
import itertools
from pathlib import Path

from bench.support.parsync.live import Attempts, Slots, StepFigures
from bench.support.report import Findings, Yardstick, at_least
from bench.support.store.commit_plane import CommitPlane
from core.nouns.agents import AgentSettings, AgentView, Placing
from core.nouns.instant import seconds

SLOTS, AGENTS, ATTEMPTS_PER_S = 2_500, 20, 25.0
QUICK_SLOTS, QUICK_AGENTS = 400, 4
FULL = 1
LOADS = (0.5, 0.8, 0.95, 0.8, 0.5)
PEAK = 2
"""The step of the largest load."""
STEP_SECONDS, QUICK_STEP_SECONDS = 12.0, 0.4
SYNC_EVERY = 0.5
WAYS = {
    "latency_first": (AgentView.PARSYNC, Placing.LATENCY_FIRST),
    "adaptive": (AgentView.PARSYNC, Placing.ADAPTIVE),
    "quality_first": (AgentView.PARSYNC, Placing.QUALITY_FIRST),
    "statesync": (AgentView.STATESYNC, Placing.QUALITY_FIRST),
}
"""In the published order of delays."""
YARDSTICKS = [
    Yardstick(
        "paper_latency_first_delay_max_s", 0.75, "ParSync (ATC'21), three phases at full size; as published"
    ),
]


def options(parser: argparse.ArgumentParser) -> None:
    """Add the seeds, the part of the time, and the number of agents."""
    parser.add_argument("--seeds", default="1", help="seeds of the arrivals by comma; figures are means")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the time")
    parser.add_argument(
        "--agents", type=int, default=AGENTS, help="agents with partitions; slots in proportion"
    )


async def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play the load once for each way and seed, in one plane."""
    agents, slots = (QUICK_AGENTS, QUICK_SLOTS) if is_quick else (AGENTS, SLOTS)
    step, seeds = QUICK_STEP_SECONDS if is_quick else STEP_SECONDS, [1]
    if chosen is not None:
        agents, slots, step = chosen.agents, SLOTS * chosen.agents // AGENTS, step * chosen.scale
        seeds = [int(seed) for seed in chosen.seeds.split(",")]
    runs: dict[str, list[list[StepFigures]]] = {name: [] for name in WAYS}
    attempts = len(seeds) * len(WAYS) * (len(LOADS) * (step + 1) * ATTEMPTS_PER_S + 1) * agents
    prepared = Slots(slots, round(attempts))
    (directory / "logs").mkdir(parents=True)
    await prepared.write(directory / "logs")
    plane = CommitPlane(directory, agents + FULL)
    try:
        driver = Attempts(await plane.start(), plane.agents, prepared, ATTEMPTS_PER_S)
        await driver.begin()
        for seed in seeds:
            for name, (view, placing) in WAYS.items():
                await driver.set_agents(
                    AgentSettings(view, placing, agents, seconds(SYNC_EVERY), full=FULL, tries=1)
                )
                await driver.warm_up()
                runs[name].append(await driver.play(LOADS, step, seed))
                await driver.settle()
    finally:
        await plane.stop()
    return findings_of(runs)


def findings_of(runs: dict[str, list[list[StepFigures]]]) -> Findings:
    """Return the figures of all steps, as means over the seeds."""
    figures: dict[str, float] = {}
    for name, of_seeds in runs.items():
        for number, load in enumerate(LOADS, start=1):
            steps = [one[number - 1] for one in of_seeds]
            for figure in ("mean_s", "p99_s", "conflict_share", "rate"):
                value = sum(getattr(step, figure) for step in steps) / len(steps)
                figures[f"{name}_{number}_{100 * load:.0f}_{figure}"] = value
            back = sum(step.handed_back for step in steps) / max(1, sum(step.attempts for step in steps))
            figures[f"{name}_{number}_{100 * load:.0f}_nothing_found_share"] = back
    peak = f"{PEAK + 1}_{100 * LOADS[PEAK]:.0f}"
    means = [figures[f"{name}_{peak}_mean_s"] for name in WAYS]
    figures["order_holds"] = float(all(one < other for one, other in itertools.pairwise(means)))
    limit = "a retry costs an attempt, and chance is large at this size"
    return Findings(figures, [at_least("order_holds", figures["order_holds"], 1, limit)], YARDSTICKS)
