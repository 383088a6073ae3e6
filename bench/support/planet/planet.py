"""Six regions of a published planet under the published load, played for hours or days: what `allocation`, `slo`, `start_latency` and
`ablation` have in common.

The whole plane is played in the simulated world, and all figures are folded from what became durable in its logs (core/figures/).
Where a benchmark says so the planet is `MIXED`: each region has three GPU types, a third of all work reads data that lies in two
regions only (bench/support/planet/data.py), and each region has two agents.

Failures: now and then a GPU kills whatever has a task on its node, and more seldom up to 64 nodes lose their power at once and come
back; every hour operators release what is in quarantine.

source    MAST (OSDI'24) fig. 2 for the regions, whose GPUs are in proportion 1.0/.98/.745/.61/.47/.045. How often things fail: Llama 3
          (2024) §3.3.4 tells of 419 interruptions of 16,384 GPUs in 54 days, one in 50,000 GPU-hours. That many nodes lose their
          power a tenth as often is a guess
"""

import argparse
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog
from msgspec import Struct
from msgspec.structs import replace

from bench.support.planet.data import ByData, placed, reading
from core.fact import Fact
from core.figures.plane import PlaneFigures
from core.nouns.instant import SECOND, Instant
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import MILLI
from core.nouns.tenant import LEVEL_MAX
from runtime.fleet_file import RegionSpec
from runtime.gc_tuning import settle_down
from runtime.virtual_loop import VirtualLoop
from scenarios.accounting.witness import Witness
from scenarios.fault import Fault
from scenarios.faults.gpu_error import GpuError
from scenarios.faults.node_crash import NodeCrash
from scenarios.play.operators import Operators
from scenarios.play.run import Run
from scenarios.scenario import ScenarioSpec
from scenarios.schema.fleet import FleetSpec, mixed, parts_of, regions_of
from scenarios.schema.tenants import EntitlementSpec, TenantSpec
from scenarios.workload import TENANTS, Workload, gpus_of
from scenarios.workloads.mast import Mast
from scenarios.worlds.simulated.world import START, SimulatedWorld

HOUR = 3_600.0
GPU_TYPE = "H100"
REGIONS = (1.0, 0.98, 0.745, 0.61, 0.47, 0.045)
"""GPUs of each, relative to the largest."""
WORKER_NODES, GPUS_PER_NODE = 64, 8
GPU_HOURS_PER_ERROR = 50_000.0
ERRORS_PER_OUTAGE = 10.0
DOWN_SECONDS = (300.0, 3_600.0)
ENTITLED_SHARE = 0.8
"""Of the planet's GPUs, what all tenants together are entitled to: the offered load of the published E1. Chosen to be what can be kept
while nodes fail and gangs need their room in one region."""
STANDING = 1.4
"""Times the planet's GPUs, what is asked for in the first minutes: with no end of room, the same load would have so much running at
any time."""
TRIES, CLOSE = 24, 0.02
"""How often another number of workloads is tried, and how near to the load it may be: of another number all are drawn anew. A few that
want 256 GPUs for two weeks make some percent of it, so that no number of workloads stands for a load."""
LOOK_HOURS = 1.0
MIXED_TYPES = {"H100": 0.5, "A100": 0.3, "V100": 0.2}
"""Shares of each region's nodes. A guess: published is only that regions have several types."""
READS_SHARE = 1 / 3
"""Workloads that only two regions have the data for: MAST fig. 7 has 33 % with at most two candidate regions."""
TENANT_NAMES = tuple(f"tenant-{number}" for number in range(TENANTS))
"""Whose the load is."""


class Size(Struct, frozen=True):
    """How much is played."""

    hours: float
    gpus: int
    """Of the largest region."""
    load: float
    """What is asked for (`offered`), over the hours that count and those before."""
    warm_hours: float = 12.0
    """That do not count: the planet fills."""
    gpus_max: int | None = None
    """Of one workload."""
    is_mixed: bool = False
    """Whether regions have several GPU types and two agents each, and some work reads data."""


class Onlooker(Witness):
    """Folds figures from what becomes durable, and no accounts of its own: days of a planet have millions of facts."""

    def see(self, facts: Iterable[Fact], at: float | None = None) -> None:
        """Tell whoever wants to know."""
        for fact in facts:
            self.facts[fact.log] += 1
            for tell in self.watchers:
                tell(fact)


class Played(Struct):
    """What came of one run."""

    figures: dict[str, float]
    hours: list[float]
    """Of each hour that counts, what share was allocated."""
    seed: int = 0
    is_whole: bool = True
    """Played to its end."""


def fleet_of(size: Size) -> FleetSpec:
    """Six regions."""
    regions: dict[str, RegionSpec] = {}
    for number, share in enumerate(REGIONS):
        nodes = max(1, round(size.gpus * share / GPUS_PER_NODE))
        if size.is_mixed:
            counts = dealt(nodes, MIXED_TYPES)
            parts = [_region_of(count, kind, agents=2) for kind, count in counts.items() if count]
            regions[f"r{number}"] = mixed(parts)
        else:
            regions[f"r{number}"] = _region_of(nodes, GPU_TYPE, agents=1)
    return FleetSpec(regions)


def _region_of(nodes: int, gpu_type: str, agents: int) -> RegionSpec:
    return RegionSpec(
        nodes=nodes,
        gpu_type=gpu_type,
        gpus_per_node=GPUS_PER_NODE,
        workers=-(-nodes // WORKER_NODES),
        agents=agents,
        cpu_nodes=nodes,
    )


def dealt(nodes: int, shares: Mapping[str, float]) -> dict[str, int]:
    """Return whole nodes by type, by largest remainders: all together are all nodes."""
    exact = {kind: nodes * share / sum(shares.values()) for kind, share in shares.items()}
    counts = {kind: int(count) for kind, count in exact.items()}
    behind = sorted(shares, key=lambda kind: counts[kind] - exact[kind])
    for kind in behind[: nodes - sum(counts.values())]:
        counts[kind] += 1
    return counts


def gpus_in(fleet: FleetSpec) -> int:
    """All of them."""
    return sum(gpus_by_type(fleet).values())


def gpus_by_type(fleet: FleetSpec) -> dict[str, int]:
    """Return the GPUs of each type in all regions."""
    found: Counter[str] = Counter()
    for region in regions_of(fleet).values():
        for part in parts_of(region):
            found[part.gpu_type] += gpus_of(part)
    return dict(found)


def tenants_of(
    fleet: FleetSpec, share: float = ENTITLED_SHARE, names: Sequence[str] = TENANT_NAMES
) -> dict[str, TenantSpec]:
    """All may ask for every level, and all are entitled to as much: to this share of the fleet's GPUs of each type together."""
    entitled = {
        kind: EntitlementSpec(round(gpus * share / len(names))) for kind, gpus in gpus_by_type(fleet).items()
    }
    return {name: TenantSpec(level=LEVEL_MAX, entitled=entitled) for name in names}


def load_of(size: Size, fleet: FleetSpec, seed: int, like: Mast) -> Mast:
    """As many workloads of this sort as ask for the load, beside those of the start, by what this seed draws."""
    hours = size.warm_hours + size.hours
    load = replace(like, hours=hours, gpus_max=size.gpus_max, workloads=1)
    if size.is_mixed:
        load = reading(load, fleet, READS_SHARE)
    first = offered(load, fleet, seed)
    load = replace(load, workloads=max(1, round(size.load * gpus_in(fleet) * hours / 100)))
    found: list[tuple[float, Mast]] = []
    for _ in range(TRIES):
        asked = offered(load, fleet, seed)
        found.append((abs(asked / size.load - 1), load))
        if found[-1][0] <= CLOSE or asked <= first:
            break
        count = load.workloads * (size.load - first) / (asked - first)
        load = replace(load, workloads=max(1, round(count)))
    return min(found, key=lambda one: one[0])[1]


def offered(load: Workload, fleet: FleetSpec, seed: int) -> float:
    """The GPUs that would be held at a time, on the average over the hours of the load, if all ran as soon as it came: as a share of
    what there is. What runs on after these hours counts for those before their end alone.
    """
    total, hours = 0.0, load.span / HOUR
    for arrival in ScenarioSpec("load", "", fleet, (load,)).arrivals(random.Random(f"load/{seed}")):
        for job in arrival.spec.jobs:
            assert job.emulation is not None, "a drawn load is emulated"
            at, work = arrival.at / SECOND / HOUR, job.emulation.work / SECOND / HOUR
            total += gpu_milli_of((job,)) / MILLI * max(0.0, min(work, hours - at))
    return total / (gpus_in(fleet) * hours)


def errors_of(fleet: FleetSpec, hours: float) -> GpuError:
    """As many as are published of so many GPU-hours."""
    return GpuError(times=math.ceil(gpus_in(fleet) * hours / GPU_HOURS_PER_ERROR), one_node=True)


def failures_of(fleet: FleetSpec, hours: float) -> tuple[Fault, ...]:
    """These, and nodes that lose their power."""
    errors = errors_of(fleet, hours)
    outages = math.ceil(errors.times / ERRORS_PER_OUTAGE)
    return errors, NodeCrash(times=outages, down_seconds=DOWN_SECONDS)


def spec_of(name: str, size: Size, seed: int, like: Mast) -> ScenarioSpec:
    """The planet, its tenants, its load and its failures."""
    fleet = fleet_of(size)
    return ScenarioSpec(
        name=f"bench_{name}",
        survives="Days of more work than there is room for, while nodes fail.",
        fleet=fleet,
        workload=(load_of(size, fleet, seed, like),),
        faults=failures_of(fleet, size.warm_hours + size.hours),
        tenants=tenants_of(fleet),
    )


def seeds_option(parser: argparse.ArgumentParser, seeds: Sequence[int]) -> None:
    """`--seeds`."""
    text = ",".join(map(str, seeds))
    parser.add_argument("--seeds", type=_seeds, default=text, help="by comma (default: %(default)s)")
    parser.add_argument("--hours", type=_hours, help="that count, for a shorter play")


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(one) for one in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"whole numbers by comma, not {text!r}") from None


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0.0 < hours < math.inf:
        raise argparse.ArgumentTypeError(f"hours to play, more than none, not {text!r}")
    return hours


def seeds_of(chosen: argparse.Namespace | None, seeds: Sequence[int]) -> tuple[int, ...]:
    """Those that were chosen."""
    return tuple(seeds) if chosen is None else tuple(chosen.seeds)


def sized(size: Size, chosen: argparse.Namespace | None) -> Size:
    """As long as was chosen."""
    return size if chosen is None or not chosen.hours else replace(size, hours=chosen.hours)


def play(
    spec: ScenarioSpec,
    seed: int,
    warm_hours: float,
    *,
    tells: bool = False,
    watch: Callable[[Played], None] | None = None,
) -> Played:
    """All of it, from one seed.

    tells   how far it is, every hour of the play
    watch   is told every hour what came of it so far
    """
    settle_down()
    loop = VirtualLoop(START)
    try:
        with structlog.testing.capture_logs():
            playing = _Playing(spec, seed, loop, warm_hours, tells=tells, watch=watch)
            return loop.run_until_complete(playing.play())
    finally:
        loop.cancel_all()
        loop.close()


class _Playing:
    def __init__(
        self,
        spec: ScenarioSpec,
        seed: int,
        loop: VirtualLoop,
        warm_hours: float,
        *,
        tells: bool,
        watch: Callable[[Played], None] | None,
    ) -> None:
        self.spec, self.warm_hours, self.tells, self.watch = spec, warm_hours, tells, watch
        self.witness = Onlooker(spec.plan)
        self.world = SimulatedWorld(spec.plan, seed, loop, witness=self.witness)
        self.run = Run(spec, seed, self.world, self.witness)
        self.datasets = placed(spec.workload)
        self.run.users.binder = ByData(self.run.binder, self.datasets)
        self.figures: PlaneFigures | None = None
        self.loop = loop
        self._before: list[Fact] = []
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    async def play(self) -> Played:
        self.witness.watchers.append(self._take)
        looking = None
        try:
            await self.run.begin()
            await self._place_data()
            since = Instant(self.loop.now_ns() + round(self.warm_hours * HOUR * SECOND))
            figures = self.figures = PlaneFigures(since)
            for fact in self._before:
                figures.take(fact)
            looking = self.loop.create_task(self._look(), name="look")
            await self.run.strike()
            looking.cancel()
            until = Instant(self.loop.now_ns())
        finally:
            await self.run.stop()
        assert not self.world.failures, self.world.failures
        auditor = self.world.unit("auditor").state
        assert auditor is None or not auditor.violations, auditor.violations
        return self._played(figures, until)

    async def _place_data(self) -> None:
        operators = Operators(self.run.users)
        for name, regions in self.datasets.items():
            problems = await operators.place_dataset(name, regions, home=regions[0])
            assert not problems, problems

    def _played(self, figures: PlaneFigures, until: Instant) -> Played:
        found = figures.figures(until) | {
            "facts": float(sum(self.witness.facts.values())),
            "messages": float(self.world.messages()),
            "cpu_seconds": time.process_time() - self._cpu,
            "wall_seconds": time.perf_counter() - self._wall,
        }
        return Played(found, figures.hours(until), self.run.seed)

    def _take(self, fact: Fact) -> None:
        """What comes before the first arrival is kept until it is known since when things count."""
        if self.figures is None:
            self._before.append(fact)
        else:
            self.figures.take(fact)

    async def _look(self) -> None:
        """Operators release what is in quarantine, and how far it is is told: up to a minute ago, of which all facts are durable."""
        operators = Operators(self.run.users)
        begun = self.world.now()
        while True:
            await self.world.sleep(LOOK_HOURS * HOUR)
            for region in self.world.plan.region_names():
                await operators.release_quarantined(region)
            if self.tells:
                self._tell((self.world.now() - begun) / HOUR, time.process_time() - self._cpu)
            if self.watch is not None and self.figures is not None:
                until = Instant(self.loop.now_ns() - 60 * SECOND)
                if until > self.figures.since:
                    self.watch(replace(self._played(self.figures, until), is_whole=False))

    def _tell(self, hour: float, cpu: float) -> None:
        figures = self.figures
        assert figures is not None
        totals = [rates.spans.now for rates in figures.regions.values()]
        available, allocated = (sum(one[number] for one in totals) for number in (0, 1))
        waiting = len(self.world.unit("job_queue").state.order)
        print(
            f"hour {hour:5.0f}: {allocated / available:.4f} allocated, {waiting} wait, {cpu:.0f} s of CPU",
            flush=True,
        )
