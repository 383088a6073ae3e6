"""How soon work of one GPU starts beside a busy queue or agent: a real plane, 20,000 workloads waiting, llf and fifo in turn.

The waiting gangs are wider than what is free, and the work that is started, of level 6, finds a free GPU at once. Dashboards ask for the
starts of what waits so often that the queue's process is busy for 0.85 of the time, which is found by trying first. Then, instead, the
region's one agent is asked that often when a gang could start, which takes it several searches of the region each.

    idle_p50_ms                           without either
    fifo_p50_ms, llf_p50_ms and _p99_ms   with dashboards
    start_gain_at_85                      fifo_p50_ms over llf_p50_ms; `start_p99_gain_at_85` the same of p99
    lists_per_s                           how often a list was asked for
    queue_busy                            share of a processor that the queue's process took meanwhile
    agent_…                               the same with prospects at the agent; `prospects_per_s` as `lists_per_s`

source    Cameo (NSDI'21) in the control plane; spec/cameo-harvest.md C1
"""

# rows: C-5, C-9

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from bench.support.cpu_time import seconds_of
from bench.support.dispatch.plane import EAST, PolicyPlane, policy_plane
from bench.support.plane_client import emulated
from bench.support.report import Findings, at_least
from core.messages.agents import FindBid
from core.messages.base import Message
from core.messages.broker import SolicitBid
from core.messages.starts import ListStarts
from core.nouns.ids import AgentName, WorkloadId
from core.nouns.instant import seconds

NODES, QUICK_NODES = 40, 4
GANG_NODES = 4
"""Of waiting work; so many less one are free."""
WAITING, QUICK_WAITING = 20_000, 20
LOAD = 0.85
FIRST_RATE, TRIES = 50.0, 3
SENDERS = 4
GANG = emulated(GANG_NODES, 8)
URGENT_LEVEL, FILLER_LEVEL, WAITING_LEVEL = 6, 5, 1
TURNS, QUICK_TURNS = 3, 1
STARTS, QUICK_STARTS = 30, 2
GAP_SECONDS = 0.25
NOBODY = "_INBOX.bench.nobody"
"""Where answers to them go: to be decoded in this process they would take the other core."""
POLICIES = ("fifo", "llf")


def options(parser: argparse.ArgumentParser) -> None:
    """Add how much waits, and how often each policy has its turn."""
    parser.add_argument("--waiting", type=int, default=WAITING)
    parser.add_argument("--turns", type=int, default=TURNS)


async def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Fill the region but for three nodes, let gangs of four wait, and start work of one GPU by each policy in turn, beside each load."""
    given = chosen or argparse.Namespace(waiting=WAITING, turns=TURNS)
    waiting, turns = (QUICK_WAITING, QUICK_TURNS) if is_quick else (given.waiting, given.turns)
    starts, nodes = (QUICK_STARTS, QUICK_NODES) if is_quick else (STARTS, NODES)
    async with policy_plane(directory / "plane", nodes) as plane:
        await _fill(plane, nodes, waiting)
        figures = {"idle_p50_ms": statistics.median(await _started(plane, starts))}
        dashboards = Load(plane, "job_queue", lambda _: ListStarts())
        figures["lists_per_s"], busy, found = await _beside(plane, dashboards, turns, starts)
        figures |= {"queue_busy": busy} | found
        prospects = Load(plane, "allocation_agent.east.a0", _prospect)
        figures["prospects_per_s"], busy, found = await _beside(plane, prospects, turns, starts)
        figures |= {"agent_busy": busy} | {f"agent_{name}": value for name, value in found.items()}
    why = "a start passes other processes too, and none of its messages interrupts a list"
    return Findings(figures, [at_least("start_gain_at_85", figures["start_gain_at_85"], 2, why)])


async def _fill(plane: PolicyPlane, nodes: int, waiting: int) -> None:
    """Hold all nodes but three, each until another time, and have gangs of four wait."""
    held = nodes - (GANG_NODES - 1)
    filler = replace(emulated(1, 8), priority=FILLER_LEVEL)
    await plane.client.submit(replace(filler, max_duration=seconds(3600 * (2 + at))) for at in range(held))
    await plane.client.submit([replace(GANG, priority=WAITING_LEVEL)] * waiting)
    await asyncio.sleep(1.0)


async def _started(plane: PolicyPlane, count: int) -> list[float]:
    """Return milliseconds until the start of work of one GPU, one after the other."""
    spec = replace(emulated(1, 1), priority=URGENT_LEVEL)
    found = []
    for _ in range(count):
        found.append(await plane.start_ms(spec))
        await asyncio.sleep(GAP_SECONDS)
    return found


def _prospect(count: int) -> Message:
    """Return a question of a workload that the queue does not know: the answer is for nobody."""
    name = f"prospect-{count}"
    request = SolicitBid(
        EAST, WorkloadId(name), name, GANG.jobs, WAITING_LEVEL, GANG.kind, wants_prospect=True
    )
    return FindBid(EAST, AgentName("a0"), request)


class Load:
    """Messages at random from four senders, which keep one process busy."""

    def __init__(self, plane: PolicyPlane, unit: str, message: Callable[[int], Message]) -> None:
        self._endpoints = [plane.connection.endpoint(f"dashboard{number}") for number in range(SENDERS)]
        self._pid = plane.plane.supervisor.pid_of(unit)
        self._message = message
        self._count = 0

    def busy(self) -> Callable[[], float]:
        """Return a function that tells the share of a processor that the process took from now on."""
        begun, before = time.monotonic(), seconds_of(self._pid)
        return lambda: (seconds_of(self._pid) - before) / (time.monotonic() - begun)

    @asynccontextmanager
    async def at(self, rate: float, seed: int) -> AsyncIterator[None]:
        """Say so many a second meanwhile."""
        task = asyncio.get_running_loop().create_task(self._say(rate, random.Random(seed)))
        try:
            yield
        finally:
            task.cancel()

    async def _say(self, rate: float, dice: random.Random) -> None:
        due = time.monotonic()
        while True:
            due += dice.expovariate(rate)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self._count += 1
            dice.choice(self._endpoints).say(self._message(self._count), NOBODY)


async def _rate(plane: PolicyPlane, load: Load, starts: int) -> float:
    """Return how many messages a second keep the process busy for `LOAD` of the time beside starts, found by trying."""
    rate = FIRST_RATE
    for seed in range(TRIES):
        async with load.at(rate, seed):
            busy = load.busy()
            await _started(plane, starts)
            rate *= LOAD / max(0.05, busy())
        await asyncio.sleep(1.0)
    return rate


async def _beside(
    plane: PolicyPlane, load: Load, turns: int, starts: int
) -> tuple[float, float, dict[str, float]]:
    """Return messages a second, the share of a processor that they took, and how soon work starts meanwhile."""
    rate = await _rate(plane, load, starts)
    found: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    shares = []
    for turn in range(turns):
        for policy, took in found.items():
            await plane.go_by(policy)
            async with load.at(rate, turn):
                await asyncio.sleep(1.0)
                busy = load.busy()
                took.extend(await _started(plane, starts))
                shares.append(busy())
            await asyncio.sleep(2.0)
    figures: dict[str, float] = {}
    for policy, took in found.items():
        figures[f"{policy}_p50_ms"] = statistics.median(took)
        figures[f"{policy}_p99_ms"] = sorted(took)[min(len(took) - 1, round(0.99 * len(took)))]
    figures["start_gain_at_85"] = figures["fifo_p50_ms"] / figures["llf_p50_ms"]
    figures["start_p99_gain_at_85"] = figures["fifo_p99_ms"] / figures["llf_p99_ms"]
    return rate, statistics.mean(shares), figures
