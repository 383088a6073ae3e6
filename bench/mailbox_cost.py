"""What it costs to sort messages: one message put and taken, and whole planes by llf and by fifo in turn.

    mailbox_us          of one message that is put among ten others and of one that is taken, by llf
    mailbox_deep_us     the same among 10,000 others in 1,000 lanes
    mailbox_alone_us    the same in an empty mailbox
    fifo_us             mailbox_us by fifo
    start_ratio         p50 of starts of one GPU in an idle plane of real processes, llf over fifo, in turn
    simulate_ratio      messages a second of processor time in the simulated plane of `simulate`, llf over fifo, in turn

source    Cameo (NSDI'21): at most 6.4 % for a real operator; spec/cameo-harvest.md C1: at most 50 us a message
"""

# rows: C-3

import random
import statistics
import time
from pathlib import Path

from msgspec.structs import replace

from bench.simulate import FULL, QUICK
from bench.support.dispatch.plane import policy_plane
from bench.support.report import Findings, Yardstick, at_least, at_most
from core.codec import Parcel
from core.dispatch.costs import Costs
from core.messages.agents import AgentPresent
from core.messages.base import Message
from core.messages.queue import Bid, CancelWorkload, ListWorkloads
from core.nouns.dispatch import DispatchSettings
from core.nouns.ids import AgentName, RegionName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.placement import View
from runtime.dispatch.mailbox import Mailbox
from runtime.loop import run as run_loop
from scenarios.play.simulated import run_simulated
from scenarios.scenario import ScenarioSpec
from scenarios.schema.dispatch import DispatchSpec

POLICIES = ("fifo", "llf")
ROUNDS, QUICK_ROUNDS = 200_000, 2_000
DEEP, LANES = 10_000, 1_000
SHALLOW = 10
REPETITIONS, QUICK_REPETITIONS = 5, 1
STARTS, QUICK_STARTS = 25, 3
TURNS, QUICK_TURNS = 8, 1
NODES, QUICK_NODES = 100, 4
EU, AGENT = RegionName("eu"), AgentName("a0")


def run(directory: Path, *, is_quick: bool) -> Findings:
    """Alone, then in simulated and in real planes."""
    rounds = QUICK_ROUNDS if is_quick else ROUNDS
    figures = {
        "mailbox_us": mailbox_us("llf", SHALLOW, rounds),
        "mailbox_deep_us": mailbox_us("llf", DEEP, rounds),
        "mailbox_alone_us": mailbox_us("llf", 0, rounds),
        "fifo_us": mailbox_us("fifo", SHALLOW, rounds),
    }
    figures |= _simulated(QUICK if is_quick else FULL, QUICK_REPETITIONS if is_quick else REPETITIONS)
    figures |= run_loop(_started(directory, is_quick=is_quick))
    return Findings(
        figures,
        [
            at_most(
                "mailbox_us", figures["mailbox_us"], 15, "classes, costs, ranks and two levels, in Python"
            ),
            at_most(
                "mailbox_deep_us", figures["mailbox_deep_us"], 25, "a heap of a thousand lanes, in Python"
            ),
            at_most("start_ratio", figures["start_ratio"], 1.05, "an idle plane queues nothing"),
            at_least(
                "simulate_ratio", figures["simulate_ratio"], 0.95, "a message is sorted for every decision"
            ),
        ],
        [Yardstick("spec C1, us a message", 50, "spec/cameo-harvest.md 1.5", beside="mailbox_us")],
    )


def mailbox_us(policy: str, depth: int, rounds: int) -> float:
    """Return microseconds of a put and a take while so many others wait; the least of three rounds."""
    return min(_round(policy, depth, rounds) for _ in range(3))


def _round(policy: str, depth: int, rounds: int) -> float:
    dice = random.Random(7)
    parcels = [_parcel(number, dice) for number in range(LANES)]
    mailbox = Mailbox(Costs(), DispatchSettings(policy), room=2 * DEEP)
    for number in range(depth):
        mailbox.put(parcels[number % LANES], "", Instant(number))
    put, take = mailbox.put, mailbox.take
    begun = time.perf_counter()
    for number in range(depth, depth + rounds):
        put(parcels[number % LANES], "", Instant(1_000 * number))
        take(Instant(1_000 * number))
    return 1e6 * (time.perf_counter() - begun) / rounds


def _parcel(number: int, dice: random.Random) -> Parcel:
    """One of each lane; a third are bids, reports and requests of people."""
    workload = WorkloadId(f"w-{number}")
    message: Message = dice.choice(
        (
            Bid(EU, AGENT, workload, "1.1", (), (), (), View(0)),
            CancelWorkload(workload),
            AgentPresent(EU, AGENT),
            ListWorkloads(),
        )
    )
    return Parcel(f"m-{number}", f"sender {number}", message)


def _simulated(spec: ScenarioSpec, repetitions: int) -> dict[str, float]:
    """Return messages a second of processor time by each policy, and their ratio."""
    rates: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    for _ in range(repetitions):
        for policy, found in rates.items():
            begun = time.process_time()
            outcome = run_simulated(replace(spec, dispatch=DispatchSpec(policy=policy)), 1)
            assert outcome.is_good, outcome.first_problem()
            found.append(outcome.messages / (time.process_time() - begun))
    ratio = statistics.median(llf / fifo for fifo, llf in zip(rates["fifo"], rates["llf"], strict=True))
    return {"simulate_ratio": ratio, **{f"{policy}_per_cpu_s": max(found) for policy, found in rates.items()}}


async def _started(directory: Path, *, is_quick: bool) -> dict[str, float]:
    """Return milliseconds from submission to start by each policy, and their ratio."""
    found: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    async with policy_plane(directory / "plane", QUICK_NODES if is_quick else NODES) as plane:
        for _ in range(QUICK_TURNS if is_quick else TURNS):
            for policy, starts in found.items():
                await plane.go_by(policy)
                starts += [await plane.start_ms() for _ in range(QUICK_STARTS if is_quick else STARTS)]
    fifo, llf = (statistics.median(found[policy]) for policy in POLICIES)
    return {"start_ratio": llf / fifo, "start_fifo_ms": fifo, "start_llf_ms": llf}
