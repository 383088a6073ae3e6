"""A small plane under way in the simulated world, for tests that strike it with one fault and look at what it does."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable

import structlog
from msgspec.structs import replace

from core.fact import Fact
from core.nouns.instant import seconds
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import Unit
from scenarios.accounting.witness import Witness
from scenarios.controller import Controllers
from scenarios.fault import Fault, Stage
from scenarios.faults.submission_storm import SubmissionStorm
from scenarios.schema.fleet import FleetSpec, plan_of
from scenarios.users import Users
from scenarios.workloads.steady import Steady
from scenarios.worlds.nodes import TroubledNodes
from scenarios.worlds.simulated.unit import SimulatedUnit
from scenarios.worlds.simulated.world import START, SimulatedWorld

FLEET = FleetSpec(regions=2, nodes=4, workers=4, nodes_per_rack=2)
LOAD = Steady(workloads=12, hours=0.01, minutes_median=60, minutes_max=60, gpus_max=8, fails_share=0.0)
"""So short a while that all of it soon runs, and so long that it goes on."""
SPAN = 1000.0


class Watching(Witness):
    """Remembers each fact with the instant at which it became durable."""

    seen: list[tuple[int, Fact]]

    def see(self, facts: Iterable[Fact], at: float | None = None) -> None:
        told = list(facts)
        assert at is not None
        now = START + seconds(at)
        self.seen = [*getattr(self, "seen", []), *((now, fact) for fact in told)]
        super().see(told, at)


class Struck:
    """The plane, its users, and the fault that strikes it."""

    def __init__(self, loop: VirtualLoop, seed: int, world: type[SimulatedWorld]) -> None:
        self.loop = loop
        self.seed = seed
        plan = plan_of(FLEET, "struck")
        self.witness = Watching(plan)
        self.world = world(plan, seed, loop, witness=self.witness)
        self.users = Users(self.world, self.world.user("client.user"), "user")
        self.stage = Stage(self.world, self.users, random.Random(seed), SPAN, FLEET, Controllers((), seed))

    def begin(self, fault: Fault) -> "asyncio.Task[None]":
        """Let it strike from now on."""
        return self.loop.create_task(fault.strike(self.stage), name="fault")

    async def cancel(self, struck: "asyncio.Task[None]") -> None:
        """Misfortune ends."""
        struck.cancel()
        await asyncio.wait([struck])
        assert struck.cancelled() or struck.exception() is None, struck

    async def sleep(self, span: float) -> None:
        await self.world.sleep(span)

    async def load(self) -> None:
        """Submit a load, and wait until it runs."""
        arrivals = [
            replace(arrival, cancel_after=None) for arrival in LOAD.arrivals(FLEET, random.Random(self.seed))
        ]
        self.users.play(arrivals, "load")
        await self.sleep(60)

    def unit(self, role: str, region: str = "", member: str = "") -> SimulatedUnit:
        """One process."""
        (found, *_) = [
            one
            for one in self.world.all
            if one.unit.role == role and region in ("", one.unit.region) and member in ("", one.unit.member)
        ]
        return found

    def nodes(self, worker: Unit) -> TroubledNodes:
        """Those that a worker serves."""
        spool = self.unit("worker", worker.region, worker.member).spool
        assert spool is not None, worker
        return spool

    def workers(self) -> list[SimulatedUnit]:
        return [one for one in self.world.all if one.spool is not None]

    def busiest(self, region: str = "") -> Unit:
        """The worker that runs most."""
        mine = [one for one in self.workers() if region in ("", one.unit.region)]
        return max(mine, key=lambda one: len(self.running(one.unit))).unit

    def running(self, worker: Unit) -> list[object]:
        """What runs on its nodes."""
        return [key for key, share in self.nodes(worker).shares.items() if share.is_live]


def struck(
    body: Callable[[Struck], Awaitable[None]], seed: int = 1, world: type[SimulatedWorld] = SimulatedWorld
) -> None:
    """Run a body in a plane that has come up."""

    async def main() -> None:
        place = Struck(loop, seed, world)
        await place.world.start()
        try:
            await place.sleep(20)
            await body(place)
            assert [] == place.world.failures
            assert [] == place.witness.violations
        finally:
            place.users.stop()
            await place.world.stop()

    loop = VirtualLoop(START)
    try:
        with structlog.testing.capture_logs():
            loop.run_until_complete(main())
    finally:
        loop.cancel_all()
        loop.close()


def storm_of(workloads: int, seconds: float = 20.0) -> SubmissionStorm:
    """Small ones, so that keepers have something to write."""
    return SubmissionStorm(workloads=workloads, seconds=seconds, gpus_max=8)
