"""Protean's crash experiment: agents and their store are killed at random for ten minutes, from two hundred seeds.

Sixteen agents of one region place work of one GPU and gangs, as much as keeps most of the GPUs busy, in the simulated world.
Meanwhile agents die at whatever await they are, and so does the store, half of the times between the write of a batch and
its fsync, with the tail lost, torn, or durable and told to nobody. Then all is quiet for as long as it takes until everything
has ended. What came of it is counted from the logs alone (bench/support/crash/check.py); while it goes on, what keepers and agents
have in memory is compared with their log, folded from its first fact on.
"""

# rows: E-P5

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import structlog
from msgspec import Struct, field

from bench.support.crash.check import Holder, Replayed, holder_of, lost_workloads
from bench.support.crash.load import Sustained, workloads_for
from bench.support.report import Bar, Findings, at_least, at_most
from core.fact import Fact
from core.nouns.ids import GLOBAL_LOG, LogName, WorkloadId
from core.nouns.instant import SECOND, Instant
from runtime.gc_tuning import settle_down
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import Plan, Unit
from scenarios.accounting.witness import Witness
from scenarios.faults.crash import Crash
from scenarios.play.run import Run
from scenarios.scenario import ScenarioSpec
from scenarios.schema.fleet import FleetSpec, regions_of
from scenarios.worlds.simulated.unit import SimulatedUnit
from scenarios.worlds.simulated.world import START, SimulatedWorld
from store.rows import facts_of

SEEDS = 200
PROCESSES = 2
FLEET = FleetSpec(regions=1, nodes=16, agents=16, workers=2, nodes_per_rack=4)
SHARE = 0.85
"""Of the GPUs, that the load asks for."""
SPAN_SECONDS = 600.0
QUICK_SPAN_SECONDS = 40.0
SECONDS_MEDIAN = 30.0
AGENT_KILLS_EVERY_SECONDS = 10.0
STORE_KILLS_EVERY_SECONDS = 25.0
"""Of either sort: at any await, and while it writes."""
LOOK_SECONDS = 10.0
"""Between comparisons of what is in memory with the logs."""
REGION_LOG = LogName("region.r0")
WRONG = ("double_placements", "lost", "replay_differs", "ran_wrongly", "violations")
"""Figures that are to be 0."""
HAPPENED = {"agent_kills": 2, "store_kills": 1, "batches_struck": 1, "grants": 10, "images_compared": 100}
"""Figures that are to be so much for each seed: at most half of what the quick run has, and so far less than in ten minutes."""
COMPARED = ("job_queue", "placement_store", "allocation_agent")
"""Roles whose images are compared with their logs."""


class Played(Struct):
    """What came of one seed."""

    seed: int
    double_placements: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    replay_differs: list[str] = field(default_factory=list)
    ran_wrongly: list[str] = field(default_factory=list)
    """What nodes were seen to run twice, or on devices that are not there."""
    violations: list[str] = field(default_factory=list)
    """As the plane's own invariants found them."""
    agent_kills: int = 0
    store_kills: int = 0
    fates: Counter[str] = field(default_factory=Counter)
    """What was left of batches in the middle of which the store died."""
    compared: int = 0
    """Images in memory with a log."""
    workloads: int = 0
    grants: int = 0
    facts: int = 0
    conflicts_share: float = 0.0
    """Of all claims, those that met a conflict."""
    tries_max: int = 0
    given_up: int = 0
    held_share: float = 0.0
    """Of the GPUs, while the load lasted."""
    cpu_seconds: float = 0.0


class CrashWorld(SimulatedWorld):
    """Counts who dies, and what deaths of keepers leave of what they were writing."""

    def __init__(self, plan: Plan, seed: int, loop: VirtualLoop, witness: Witness) -> None:
        super().__init__(plan, seed, loop, witness=witness)
        self.deaths: Counter[str] = Counter()
        """By role."""
        self.fates: Counter[str] = Counter()

    def _kill(self, one: SimulatedUnit, fate: str = "") -> Callable[[], None]:
        self.deaths[one.unit.role] += one.is_there
        return super()._kill(one, fate)

    def crash_log(self, log: LogName, fate: str) -> None:
        """As the dice say."""
        file = self.store.disk(log).file(log)
        written = len(file.rows) - file.durable if file is not None and file.is_under_way else 0
        super().crash_log(log, fate)
        if file is not None and written:
            left = len(file.rows) - file.durable
            is_torn = not file.is_under_way and left > 0
            self.fates["torn" if is_torn else "kept" if left else "lost"] += 1


def options(parser: argparse.ArgumentParser) -> None:
    """Add the number of seeds."""
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many, from 1 on (default: %(default)s)")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Every seed, some at once."""
    seeds = SEEDS if chosen is None else chosen.seeds
    begun = time.perf_counter()
    # Processes that begin afresh: the simulated world freezes the garbage of its own.
    if is_quick:
        played = [play(1, QUICK_SPAN_SECONDS)]
    else:
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            played = list(pool.map(play, range(1, seeds + 1)))
    figures = figures_of(played) | {"seconds": time.perf_counter() - begun}
    return Findings(figures, bars_of(figures, next(_sentences(played), "")))


def play(seed: int, span: float = SPAN_SECONDS) -> Played:
    """One seed, from the plane's start until all is quiet."""
    begun = time.process_time()
    settle_down()
    loop = VirtualLoop(START)
    spec = spec_of(span)
    witness = Witness(spec.plan)
    world = CrashWorld(spec.plan, seed, loop, witness)
    found = Played(seed)
    try:
        with structlog.testing.capture_logs():
            loop.run_until_complete(_play(Run(spec, seed, world, witness), world, found))
    finally:
        loop.cancel_all()
        loop.close()
    found.cpu_seconds = time.process_time() - begun
    return found


def spec_of(span: float) -> ScenarioSpec:
    """Load and misfortune of so many seconds. None of the checks of scenarios is asked."""
    (region,) = regions_of(FLEET).values()
    load = Sustained(
        workloads=workloads_for(SHARE, region, span, SECONDS_MEDIAN),
        hours=span / 3600,
        seconds_median=SECONDS_MEDIAN,
        change_minutes=1.0,
        cancels_share=0.05,
        requeues_share=0.05,
    )
    of_store = max(1, round(span / STORE_KILLS_EVERY_SECONDS / 2))
    down = (0.1, 5.0)
    faults = (
        Crash(
            role="allocation_agent",
            times=round(span / AGENT_KILLS_EVERY_SECONDS),
            down_seconds=down,
            again_share=0.2,
        ),
        Crash(role="placement_store", times=of_store, down_seconds=down, again_share=0.2),
        Crash(role="placement_store", times=of_store, down_seconds=down, again_share=0.2, while_writing=True),
    )
    survives = "Agents and their store die again and again. Nothing is given twice, and nothing is lost."
    return ScenarioSpec("crash", survives, FLEET, (load,), faults=faults)


async def _play(run: Run, world: CrashWorld, found: Played) -> None:
    compared = asyncio.get_running_loop().create_task(_keep_comparing(world, found), name="compare")
    try:
        await run.begin()
        load_begins = world.loop.now_ns()
        await run.strike()
        load_ends = world.loop.now_ns()
        found.agent_kills = world.deaths["allocation_agent"]
        found.store_kills = world.deaths["placement_store"]
        found.fates = Counter(world.fates)
        await run.calm_down()
        compared.cancel()
        await run.conclude()
        _count(run, world, found, (Instant(load_begins), Instant(load_ends)))
    finally:
        compared.cancel()
        await run.stop()


def _count(run: Run, world: CrashWorld, found: Played, load: tuple[Instant, Instant]) -> None:
    """From the logs, all being quiet."""
    logs = {log: facts_on(world, log) for log in (GLOBAL_LOG, REGION_LOG)}
    holder = holder_of(logs[REGION_LOG])
    accepted: list[WorkloadId] = run.users.workloads()
    found.double_placements = holder.twice
    lost = lost_workloads(accepted, logs[GLOBAL_LOG], [holder])
    found.lost = [f"{workload}: {text}" for workload, text in lost.items()]
    _compare(world, {log: Replayed(log) for log in logs}, found, is_over=True)
    found.ran_wrongly = world.spool_problems()
    found.violations = [one.text for one in run.witness.violations] + [str(one) for one in world.failures]
    found.workloads, found.grants = len(accepted), holder.grants
    found.facts = sum(map(len, logs.values()))
    figures = run.outcome.figures
    found.conflicts_share = figures["conflicts_share"]
    found.tries_max, found.given_up = round(figures["claim_tries_max"]), round(figures["claims_given_up"])
    found.held_share = _held_share(logs[REGION_LOG], holder, load)


def _held_share(facts: Sequence[Fact], holder: Holder, load: tuple[Instant, Instant]) -> float:
    begin, end = load
    held = holder_of(fact for fact in facts if fact.at <= end).milli_seconds()
    return held / (sum(holder.total.values()) * (end - begin) / SECOND)


# What is in memory.


async def _keep_comparing(world: CrashWorld, found: Played) -> None:
    """While all goes on: whoever is killed later would be made anew from the log, and hide what it had."""
    replayed = {log: Replayed(log) for log in (GLOBAL_LOG, REGION_LOG)}
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        _compare(world, replayed, found)


def _compare(
    world: CrashWorld, replayed: dict[LogName, Replayed], found: Played, *, is_over: bool = False
) -> None:
    """Keepers and agents that have just what is durable, with the log; once all is over they all have that."""
    for log, one in replayed.items():
        one.fold(facts_on(world, log, one.sequence))
    for unit in world.all:
        if unit.unit.role not in COMPARED:
            continue
        name, folded = unit.unit.name, replayed[_log_of(unit.unit)]
        host = unit.open.host if unit.open is not None else None
        if host is None or host.state is None:
            found.replay_differs += [f"{name} is dead in quiet"] * is_over
            continue
        sequence = host.state.sequence if unit.unit.role == "allocation_agent" else host.sequence
        if sequence == folded.sequence:
            found.compared += 1
            if folded.differs(host.state.image):
                found.replay_differs.append(f"{name} differs from its log at {sequence}")
        elif is_over:
            text = f"{name} has {sequence} of {folded.sequence} facts in quiet"
            found.replay_differs.append(text)


def _log_of(unit: Unit) -> LogName:
    """Whose fold it has in memory."""
    return GLOBAL_LOG if unit.role == "job_queue" else REGION_LOG


def facts_on(world: SimulatedWorld, log: LogName, after: int = 0) -> list[Fact]:
    """What is durable on a disk after this sequence."""
    file = world.store.disk(log).file(log)
    return [] if file is None else facts_of(log, file.rows[after : file.durable])


# All together.


def bars_of(figures: dict[str, float], wrong: str) -> list[Bar]:
    """Nothing went wrong, and it was not because nothing happened.

    wrong   the first thing that did, in a sentence
    """
    idle = "too little happened for the zeros to mean anything"
    return [
        *(at_most(name, figures[name], 0, wrong) for name in WRONG),
        *(at_least(name, figures[name], each * figures["seeds"], idle) for name, each in HAPPENED.items()),
    ]


def figures_of(played: Sequence[Played]) -> dict[str, float]:
    """Of all seeds."""
    fates: Counter[str] = Counter()
    for one in played:
        fates.update(one.fates)
    grants = sum(one.grants for one in played)
    tries = sum(one.grants / (1 - one.conflicts_share) for one in played)
    return {
        "double_placements": float(sum(len(one.double_placements) for one in played)),
        "lost": float(sum(len(one.lost) for one in played)),
        "replay_differs": float(sum(len(one.replay_differs) for one in played)),
        "ran_wrongly": float(sum(len(one.ran_wrongly) for one in played)),
        "violations": float(sum(len(one.violations) for one in played)),
        "seeds": float(len(played)),
        "agent_kills": float(sum(one.agent_kills for one in played)),
        "store_kills": float(sum(one.store_kills for one in played)),
        "batches_struck": float(sum(fates.values())),
        **{f"store_kills_batch_{fate}": float(fates[fate]) for fate in ("lost", "torn", "kept")},
        "images_compared": float(sum(one.compared for one in played)),
        "workloads": float(sum(one.workloads for one in played)),
        "grants": float(grants),
        "conflict_share": 1 - grants / tries if tries else 0.0,
        "claim_tries_max": float(max(one.tries_max for one in played)),
        "claims_given_up": float(sum(one.given_up for one in played)),
        "facts": float(sum(one.facts for one in played)),
        "held_share": sum(one.held_share for one in played) / len(played),
        "cpu_seconds_per_seed": sum(one.cpu_seconds for one in played) / len(played),
    }


def _sentences(played: Sequence[Played]) -> Iterator[str]:
    """All that was wrong, each with the seed that shows it again."""
    for one in played:
        wrong = [*one.double_placements, *one.lost, *one.replay_differs, *one.ran_wrongly, *one.violations]
        for text in wrong:
            yield f"seed {one.seed}: {text}"
