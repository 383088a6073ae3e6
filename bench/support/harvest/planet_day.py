"""Facts of a planet whose idle capacity is lent to functions: six regions under the published load, in the simulated world.

The planet and its failures are those of `allocation` (bench/support/planet/planet.py) in small, with room left: what is asked for is a part
of the GPUs. Every region runs functions and lends its free capacity as a pool does that is set to, and functions are called all the time.
"""

from collections import Counter

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from bench.support.planet.planet import HOUR, Onlooker, Size, spec_of
from core.events.harvest import EVENTS
from core.fact import Fact
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import Instant, after, seconds
from runtime.fleet_file import FunctionsSpec
from runtime.gc_tuning import settle_down
from runtime.virtual_loop import VirtualLoop
from scenarios.play.run import Run
from scenarios.scenario import ScenarioSpec
from scenarios.schema.fleet import regions_of
from scenarios.schema.harvest import HarvestSpec
from scenarios.workloads.functions import Functions
from scenarios.workloads.mast import Mast
from scenarios.worlds.simulated.world import START, SimulatedWorld

LOAD = 0.8
"""Of the GPUs, what is asked for."""
CALLS_PER_HOUR = 300


class Facts(Struct):
    """Facts of the hours that count."""

    hours: float
    by_type: Counter[str] = field(default_factory=Counter)
    """Of all logs."""
    of_regions: int = 0
    """In the logs of regions."""

    @property
    def count(self) -> int:
        """Return how many there are in all logs."""
        return self.by_type.total()

    @property
    def of_harvest(self) -> int:
        """Return how many are about harvested capacity."""
        return sum(self.by_type[kind.__name__] for kind in EVENTS)

    def plus(self, other: "Facts") -> "Facts":
        """Return the sums of both."""
        return Facts(
            self.hours + other.hours, self.by_type + other.by_type, self.of_regions + other.of_regions
        )


def facts_of_planet(size: Size, seed: int) -> Facts:
    """Play so many hours, and return the facts of those that count."""
    settle_down()
    loop = VirtualLoop(START)
    try:
        with structlog.testing.capture_logs():
            return loop.run_until_complete(_played(size, seed, loop))
    finally:
        loop.cancel_all()
        loop.close()


def lending(size: Size, seed: int) -> ScenarioSpec:
    """Return the planet, its load and its calls."""
    spec = spec_of("harvest_idle_cost", size, seed, Mast(workloads=1, hours=1, standing=LOAD))
    regions = {
        name: replace(region, cpu_nodes=0, functions=FunctionsSpec())
        for name, region in regions_of(spec.fleet).items()
    }
    hours = size.warm_hours + size.hours
    calls = Functions(workloads=0, hours=hours, calls=max(1, round(CALLS_PER_HOUR * hours)), gpu_share=0.5)
    fleet = replace(spec.fleet, regions=regions, harvest=HarvestSpec())
    return replace(spec, fleet=fleet, workload=(*spec.workload, calls))


async def _played(size: Size, seed: int, loop: VirtualLoop) -> Facts:
    spec = lending(size, seed)
    witness = Onlooker(spec.plan)
    world = SimulatedWorld(spec.plan, seed, loop, witness=witness)
    run = Run(spec, seed, world, witness)
    found = Facts(size.hours)
    since: Instant | None = None

    def take(fact: Fact) -> None:
        if since is not None and fact.at >= since:
            found.by_type[type(fact.event).__name__] += 1
            found.of_regions += fact.log != GLOBAL_LOG

    witness.watchers.append(take)
    try:
        await run.begin()
        since = after(Instant(loop.now_ns()), seconds(size.warm_hours * HOUR))
        await run.strike()
    finally:
        await run.stop()
    assert not world.failures, world.failures
    return found
