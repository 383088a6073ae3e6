"""What one more agent brings: durable claims a second with 4, 8 and 16 agents, each by both views, in one run.

The plane and the load are those of `commit`: agents as processes, one store with its log on disk, 64 awards in flight, 85 % of the
GPUs held, and as much ends as is granted. With `stream` every agent folds every fact; with `parsync` all but two take in node rows,
partition by partition. The rounds of the two views alternate, so that a slow minute of the machine meets both.

    throughput_16_over_4    grants a second of 16 agents by `parsync` over 4 by `stream`
    parsync_over_stream_16  of 16 agents, by `parsync` over by `stream`
    conflict_share_16       share of tries that met a conflict, of 16 by `parsync`

source    ParSync (ATC'21): one scheduler more is to be so much throughput more
"""

# rows: S13

import argparse
import asyncio
from pathlib import Path

from bench.commit import IN_FLIGHT, NODES, QUICK_NODES, Steady, steady_load
from bench.support.report import Findings, at_least, at_most
from bench.support.store.commit_plane import CommitPlane, Driver, Prepared
from core.nouns.agents import AgentSettings, AgentView
from core.nouns.instant import MILLISECOND, Nanoseconds

AGENTS = (4, 8, 16)
VIEWS = (AgentView.STREAM, AgentView.PARSYNC)
WARM_SECONDS, QUICK_WARM_SECONDS = 4.0, 0.2
STEADY_SECONDS, QUICK_STEADY_SECONDS = 20.0, 0.5
QUICK_AGENTS = (4,)
GRANTS_A_SECOND_MAX = 4_000
ROUND = 250 * MILLISECOND
"""Of the partitions, so that a round is some four times as long as a claim takes under this load (docs/agents.md)."""
HANDS = "agents, the store and the server share two cores"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the numbers of agents, the part of the region and of the time, and the seeds."""
    parser.add_argument("--agents", default="", help="numbers of agents by comma; 4,8,16")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the nodes and of the time")
    parser.add_argument("--seeds", default="1", help="seeds of the load by comma")


async def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Measure each number of agents by each view."""
    numbers: tuple[int, ...] = QUICK_AGENTS if is_quick else AGENTS
    scale, seeds = 1.0, [1]
    if chosen is not None:
        numbers = tuple(map(int, chosen.agents.split(","))) if chosen.agents else numbers
        scale, seeds = chosen.scale, [int(seed) for seed in chosen.seeds.split(",")]
    nodes = QUICK_NODES if is_quick else round(NODES * scale)
    found: dict[tuple[int, str], list[Steady]] = {}
    back: dict[int, float] = {}
    for seed in seeds:
        for agents in numbers:
            for view in VIEWS:
                place = directory / f"{seed}-{agents}-{view}"
                steady, handed_back = await _measured(
                    place, nodes, agents, view, seed, scale, is_quick=is_quick
                )
                found.setdefault((agents, view), []).append(steady)
                back[agents] = handed_back if view == AgentView.PARSYNC else back.get(agents, 0.0)
    return findings_of(found, back, numbers)


def findings_of(
    found: dict[tuple[int, str], list[Steady]], back: dict[int, float], numbers: tuple[int, ...]
) -> Findings:
    """Return the figures of all runs, by number of agents and view."""
    figures: dict[str, float] = {}
    rates: dict[tuple[int, str], float] = {}
    for (agents, view), runs in found.items():
        rates[agents, view] = sum(one.grants_per_s for one in runs) / len(runs)
        tries, grants = sum(one.tries for one in runs), sum(one.grants for one in runs)
        name = f"{view}_{agents}"
        figures[f"grants_per_s_{name}"] = rates[agents, view]
        figures[f"conflict_share_{name}"] = (tries - grants) / max(1, tries)
        figures[f"span_p50_ms_{name}"] = sum(one.p50_ms for one in runs) / len(runs)
        figures[f"span_p99_ms_{name}"] = max(one.p99_ms for one in runs)
        figures[f"declines_{name}"] = sum(one.declines for one in runs)
        figures |= {f"cores_{role}_{name}": used for role, used in runs[-1].cpu.items()}
    figures |= {f"handed_back_share_{agents}": share for agents, share in back.items()}
    most, fewest = max(numbers), min(numbers)
    stream, parsync = AgentView.STREAM, AgentView.PARSYNC
    figures[f"throughput_{most}_over_{fewest}"] = rates[most, parsync] / rates[fewest, stream]
    figures[f"stream_{most}_over_{fewest}"] = rates[most, stream] / rates[fewest, stream]
    figures[f"parsync_over_stream_{most}"] = rates[most, parsync] / rates[most, stream]
    if (fewest, most) != (4, 16):
        return Findings(figures, [])
    return Findings(
        figures,
        [
            at_least("throughput_16_over_4", figures["throughput_16_over_4"], 0.85, HANDS),
            at_least("parsync_over_stream_16", figures["parsync_over_stream_16"], 1.3, HANDS),
            at_most(
                "conflict_share_16",
                figures["conflict_share_parsync_16"],
                0.01,
                "claims in flight when a round ends",
            ),
        ],
    )


async def _measured(
    directory: Path, nodes: int, agents: int, view: AgentView, seed: int, scale: float, *, is_quick: bool
) -> tuple[Steady, float]:
    """Return the steady load, and the share of awards that were handed back."""
    warm = QUICK_WARM_SECONDS if is_quick else WARM_SECONDS * scale
    span = QUICK_STEADY_SECONDS if is_quick else STEADY_SECONDS * scale
    prepared = Prepared(nodes, round((warm + span) * GRANTS_A_SECOND_MAX), seed=seed)
    (directory / "logs").mkdir(parents=True)
    await prepared.write(directory / "logs")
    plane = CommitPlane(directory, agents)
    try:
        driver = Driver(await plane.start(), plane.agents, prepared, seed=seed + 1)
        await driver.begin()
        if view != AgentView.STREAM:
            await driver.set_agents(AgentSettings(view=view, sync_every=Nanoseconds(agents * ROUND)))
        await asyncio.sleep(warm)
        steady = await steady_load(plane, driver, IN_FLIGHT, warm, span)
        return steady, driver.back / max(1, driver.grants)
    finally:
        await plane.stop()
