"""How many claims of many agents a region's store makes durable a second, at 85 % of its GPUs held, and how long each takes.

Agents are processes that search on their own views; the store is one process with its log on disk. For every grant as much
ends again, so the load is steady: an agent is asked, searches, claims, the store judges, appends and answers, every agent hears
of it, and something else ends, which is a fact of its own. `grants_per_s_N` is with N agents, so many in flight that none waits.
Half-way through each phase the region gets new prices, and agents work out anew what room is worth to whom.

`spike` asks at given times, whether or not answers come: 150 a second, 600, and 150 again, and each grant's span counts from
when it was to be asked for, until the driver hears of its fact.

source    spec E-P2, E-P3; Protean §5: up to 2,000 requests a second in spikes
"""

# rows: E-P2, E-P3

import asyncio
import statistics
import time
from pathlib import Path

from msgspec import Struct

from bench.support.report import Findings, Yardstick, at_least, at_most, fsync_seconds
from bench.support.store import conflict_detection
from bench.support.store.commit_plane import CommitPlane, Driver, Prepared

NODES, QUICK_NODES = 10_240, 4_096
AGENTS, QUICK_AGENTS = ((4, 4), (16, 16)), ((4, 2), (16, 4))
"""As how many they are told, and how many are started."""
WARM_SECONDS, QUICK_WARM_SECONDS = 5.0, 0.2
STEADY_SECONDS, QUICK_STEADY_SECONDS = 30.0, 0.5
SPIKE = ((150, 10.0), (600, 20.0), (150, 10.0))
QUICK_SPIKE = ((50, 0.2), (100, 0.2), (50, 0.2))
IN_FLIGHT = 64
"""Awards that all agents have together at once: their searches go on while their claims are judged."""
GRANTS_A_SECOND_MAX = 4_000
"""Workloads are awarded beforehand for so many."""
SETTLE_SECONDS = 10.0
HANDS = (
    "every grant and every end is a fact that each agent folds: with the search, the claim, its judgement and the server's work "
    "they share two cores"
)


class Steady(Struct, frozen=True):
    """What a steady load showed."""

    grants_per_s: float
    tries: int
    grants: int
    exhausted: int
    """Awards given back after too many conflicts, from the beginning on."""
    declines: int
    """And all that were given back, for whatever reason: they have no span, and count in no share."""
    p50_ms: float
    p99_ms: float
    cpu: dict[str, float]
    """Cores that each sort of process used."""


async def run(directory: Path, *, is_quick: bool) -> Findings:
    """With 16 agents and with 4, and a spike."""
    nodes = QUICK_NODES if is_quick else NODES
    figures: dict[str, float] = {}
    tries = grants = exhausted = declines = 0
    for agents, started in QUICK_AGENTS if is_quick else AGENTS:
        with_spike = agents == 16
        steady, spike = await _measured(
            directory / str(agents), nodes, started, with_spike, is_quick=is_quick
        )
        figures[f"grants_per_s_{agents}"] = steady.grants_per_s
        figures[f"span_p50_ms_{agents}"] = steady.p50_ms
        figures[f"span_p99_ms_{agents}"] = steady.p99_ms
        figures[f"conflict_share_{agents}"] = (steady.tries - steady.grants) / max(1, steady.tries)
        figures |= {f"cores_{role}_{agents}": used for role, used in steady.cpu.items()}
        tries, grants, exhausted = tries + steady.tries, grants + steady.grants, exhausted + steady.exhausted
        declines += steady.declines
        figures |= spike
    figures |= conflict_detection.figures(is_quick=is_quick)
    figures["conflict_share"] = (tries - grants) / max(1, tries)
    figures["retries_exhausted"] = float(exhausted)
    figures["declines"] = float(declines)
    figures["fsync_ms"] = 1000 * fsync_seconds(directory)
    return Findings(
        figures,
        [
            at_least("grants_per_s_16", figures["grants_per_s_16"], 1_000, HANDS),
            at_least("grants_per_s_4", figures["grants_per_s_4"], 2_000, HANDS),
            at_most("spike_p99_ms", figures["spike_p99_ms"], 100, HANDS),
            at_most("conflict_share", figures["conflict_share"], 0.01, "agents choose the same nodes"),
            at_most("retries_exhausted", figures["retries_exhausted"], 0, "a claim met ten conflicts"),
        ],
        YARDSTICKS,
    )


YARDSTICKS = [
    Yardstick("protean_requests_per_s", 2_000, "Protean §5: spikes, over all agents of a zone; as published"),
    Yardstick("nomad_allocations_per_s", 1_500, "Nomad C2M: 2 M containers on 6,100 hosts"),
    Yardstick("twine_job_allocations_per_s", 1_000, "Twine: of an allocator; 36 tasks each"),
]


async def _measured(
    directory: Path, nodes: int, agents: int, with_spike: bool, *, is_quick: bool
) -> tuple[Steady, dict[str, float]]:
    warm = QUICK_WARM_SECONDS if is_quick else WARM_SECONDS
    span = QUICK_STEADY_SECONDS if is_quick else STEADY_SECONDS
    phases = QUICK_SPIKE if is_quick else SPIKE
    spiked = sum(rate * seconds for rate, seconds in phases) if with_spike else 0
    prepared = Prepared(nodes, round((warm + span) * GRANTS_A_SECOND_MAX + spiked), seed=1)
    (directory / "logs").mkdir(parents=True)
    await prepared.write(directory / "logs")
    plane = CommitPlane(directory, agents)
    try:
        driver = Driver(await plane.start(), plane.agents, prepared, seed=2)
        await driver.begin()
        await asyncio.sleep(warm)  # Every agent lays its region out first.
        figures = await _spike(driver, phases) if with_spike else {}
        return await steady_load(plane, driver, IN_FLIGHT, warm, span), figures
    finally:
        await plane.stop()


async def steady_load(plane: CommitPlane, driver: Driver, in_flight: int, warm: float, span: float) -> Steady:
    """As many in flight as there were, whatever is granted or given back."""
    driver.on_answer = driver.ask
    for _ in range(in_flight):
        driver.ask()
    await asyncio.sleep(warm)
    before, tries = driver.grants, driver.tries
    used, begun = plane.cpu_seconds(), time.perf_counter()
    await asyncio.sleep(span / 2)
    await driver.set_prices()
    await asyncio.sleep(begun + span - time.perf_counter())
    seconds = time.perf_counter() - begun
    grants = driver.grants - before
    cpu = {role: (now - used[role]) / seconds for role, now in plane.cpu_seconds().items()}
    spans = [1000 * took for _, took in driver.spans[before:]]
    driver.on_answer = lambda: None
    await _settle(driver)
    p50, p99 = _percentiles(spans)
    return Steady(
        grants / seconds, driver.tries - tries, driver.grants - before, driver.exhausted, driver.declines, p50, p99, cpu
    )  # fmt: skip


async def _spike(driver: Driver, phases: tuple[tuple[int, float], ...]) -> dict[str, float]:
    """Asked for at equal spans, whether or not the answers come."""
    bounds: list[tuple[float, float]] = []
    for rate, seconds in phases:
        begun = time.perf_counter()
        for number in range(round(rate * seconds)):
            if number == round(rate * seconds) // 2:
                await driver.set_prices()
            at = begun + number / rate
            wait = at - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            driver.ask(at)
        bounds.append((begun, time.perf_counter()))
    await _settle(driver)
    figures: dict[str, float] = {}
    for name, (first, last) in zip(("before", "spike", "after"), bounds, strict=True):
        spans = [1000 * took for asked, took in driver.spans if first <= asked < last]
        figures[f"{name}_p50_ms"], figures[f"{name}_p99_ms"] = _percentiles(spans)
    return figures


async def _settle(driver: Driver) -> None:
    """Until nothing is in flight."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while driver.in_flight:
        assert time.monotonic() < deadline, f"{driver.in_flight} awards are neither granted nor declined"
        await asyncio.sleep(0.02)


def _percentiles(spans: list[float]) -> tuple[float, float]:
    cut = statistics.quantiles(spans, n=100, method="inclusive")
    return cut[49], cut[98]
