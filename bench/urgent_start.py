"""How soon work of one GPU starts while dashboards keep the queue busy: a real plane, 20,000 workloads waiting, llf and fifo in turn.

The waiting gangs are wider than what is free, and the work that is started, of level 6, finds a free GPU at once. Dashboards ask for the
starts of what waits so often that the queue's process is busy for 0.85 of the time, which is found by trying first.

    idle_p50_ms                           without dashboards
    fifo_p50_ms, llf_p50_ms and _p99_ms   with them
    start_gain_at_85                      fifo_p50_ms over llf_p50_ms; `start_p99_gain_at_85` the same of p99
    lists_per_s                           how often a list was asked for
    queue_busy                            share of a processor that the queue's process took meanwhile

source    Cameo (NSDI'21) in the control plane; spec/cameo-harvest.md C1
"""

# rows: C-5, C-9

import argparse
import asyncio
import random
import statistics
import time
from pathlib import Path

from msgspec.structs import replace

from bench.support.cpu_time import seconds_of
from bench.support.dispatch.plane import PolicyPlane, policy_plane
from bench.support.plane_client import emulated
from bench.support.report import Findings, at_least
from core.messages.starts import ListStarts

NODES, QUICK_NODES = 40, 4
GANG_NODES = 4
"""Of waiting work; so many less one are free."""
WAITING, QUICK_WAITING = 20_000, 20
LOAD = 0.85
FIRST_RATE, TRIES = 50.0, 3
LOOK_SECONDS, QUICK_LOOK_SECONDS = 10.0, 0.5
URGENT_LEVEL, FILLER_LEVEL, WAITING_LEVEL = 6, 5, 1
TURNS, QUICK_TURNS = 3, 1
STARTS, QUICK_STARTS = 30, 2
GAP_SECONDS = 0.25
NOBODY = "_INBOX.bench.nobody"
"""Where answers to dashboards go: to be decoded in this process they would take the other core."""
POLICIES = ("fifo", "llf")


def options(parser: argparse.ArgumentParser) -> None:
    """Add how much waits, and how often each policy has its turn."""
    parser.add_argument("--waiting", type=int, default=WAITING)
    parser.add_argument("--turns", type=int, default=TURNS)


async def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Fill the region but for three nodes, let gangs of four wait, and start work of one GPU by each policy in turn."""
    given = chosen or argparse.Namespace(waiting=WAITING, turns=TURNS)
    waiting, turns = (QUICK_WAITING, QUICK_TURNS) if is_quick else (given.waiting, given.turns)
    starts, nodes = (QUICK_STARTS, QUICK_NODES) if is_quick else (STARTS, NODES)
    async with policy_plane(directory / "plane", nodes) as plane:
        await _fill(plane, nodes, waiting)
        figures = {"idle_p50_ms": statistics.median(await _started(plane, starts))}
        figures["lists_per_s"] = await _rate(plane, QUICK_LOOK_SECONDS if is_quick else LOOK_SECONDS)
        figures |= await _by_policy(plane, figures["lists_per_s"], turns, starts)
    figures["start_gain_at_85"] = figures["fifo_p50_ms"] / figures["llf_p50_ms"]
    figures["start_p99_gain_at_85"] = figures["fifo_p99_ms"] / figures["llf_p99_ms"]
    why = "a start passes other processes too, and none of its messages interrupts a list"
    return Findings(figures, [at_least("start_gain_at_85", figures["start_gain_at_85"], 2, why)])


async def _fill(plane: PolicyPlane, nodes: int, waiting: int) -> None:
    """Hold all nodes but three, and have gangs of four wait."""
    held = nodes - (GANG_NODES - 1)
    filler = replace(emulated(held, 8), priority=FILLER_LEVEL)
    await plane.client.submit([filler])
    gang = replace(emulated(GANG_NODES, 8), priority=WAITING_LEVEL)
    await plane.client.submit([gang] * waiting)
    await asyncio.sleep(1.0)


async def _started(plane: PolicyPlane, count: int) -> list[float]:
    """Return milliseconds until the start of work of one GPU, one after the other."""
    spec = replace(emulated(1, 1), priority=URGENT_LEVEL)
    found = []
    for _ in range(count):
        found.append(await plane.start_ms(spec))
        await asyncio.sleep(GAP_SECONDS)
    return found


async def _rate(plane: PolicyPlane, span: float) -> float:
    """Return how many lists a second keep the queue's process busy for `LOAD` of the time, found by trying."""
    pid = plane.plane.supervisor.pid_of("job_queue")
    rate = FIRST_RATE
    for seed in range(TRIES):
        looks = asyncio.get_running_loop().create_task(_look(plane, rate, seed))
        begun, before = time.monotonic(), seconds_of(pid)
        await asyncio.sleep(span)
        rate *= LOAD / max(0.05, (seconds_of(pid) - before) / (time.monotonic() - begun))
        looks.cancel()
        await asyncio.sleep(1.0)
    return rate


async def _by_policy(plane: PolicyPlane, rate: float, turns: int, starts: int) -> dict[str, float]:
    found: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    pid = plane.plane.supervisor.pid_of("job_queue")
    busy = span = 0.0
    for turn in range(turns):
        for policy, took in found.items():
            await plane.go_by(policy)
            looks = asyncio.get_running_loop().create_task(_look(plane, rate, turn))
            await asyncio.sleep(1.0)
            begun, before = time.monotonic(), seconds_of(pid)
            took.extend(await _started(plane, starts))
            busy, span = busy + seconds_of(pid) - before, span + time.monotonic() - begun
            looks.cancel()
            await asyncio.sleep(2.0)
    figures = {"queue_busy": busy / span}
    for policy, took in found.items():
        figures[f"{policy}_p50_ms"] = statistics.median(took)
        figures[f"{policy}_p99_ms"] = sorted(took)[min(len(took) - 1, round(0.99 * len(took)))]
    return figures


async def _look(plane: PolicyPlane, rate: float, seed: int) -> None:
    """Ask for lists at random, so often, as several dashboards."""
    endpoints = [plane.connection.endpoint(f"dashboard{number}") for number in range(4)]
    dice = random.Random(seed)
    due = time.monotonic()
    while True:
        due += dice.expovariate(rate)
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        dice.choice(endpoints).say(ListStarts(), NOBODY)
