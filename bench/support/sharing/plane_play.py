"""A shared pool played on the whole plane in the simulated world: queue, stores, agents, brokers, workers, and a planner with the real solver.

What is folded is what became durable in the logs. The auditor watches as on any plane, and a violation ends the play.
"""

from collections.abc import Mapping, Sequence

import structlog
from msgspec import Struct

from bench.support.sharing.turns import Turns
from core.fact import Fact
from core.nouns.instant import SECOND
from core.nouns.sharing import SharingSettings
from runtime.fleet_file import RegionSpec
from runtime.gc_tuning import settle_down
from runtime.virtual_loop import VirtualLoop
from scenarios.accounting.witness import Witness
from scenarios.play.run import Run
from scenarios.scenario import ScenarioSpec
from scenarios.schema.fleet import FleetSpec, parts_of
from scenarios.workload import Arrival
from scenarios.workloads.shared import Shared
from scenarios.worlds.simulated.world import START, SimulatedWorld

LOOK_SECONDS = 60.0


class PoolPlayed(Struct, frozen=True):
    """What came of a play."""

    figures: dict[str, float]
    facts: int
    """In all logs."""


class PoolPlay:
    """One play, from one seed."""

    def __init__(self, regions: Mapping[str, RegionSpec], seed: int) -> None:
        """On regions of which all nodes are in the shared pool."""
        fleet = FleetSpec(dict(regions), planner=True)
        self.spec = ScenarioSpec(
            name="bench_shared_pool",
            survives="Jobs of a shared pool take turns.",
            fleet=fleet,
            workload=(Shared(workloads=1, hours=1),),
        )
        self.loop = VirtualLoop(START)
        self.witness = Witness(self.spec.plan)
        self.world = SimulatedWorld(self.spec.plan, seed, self.loop, witness=self.witness)
        self.run = Run(self.spec, seed, self.world, self.witness)
        self.round_span = SharingSettings().round_span
        self.turns = Turns(columns_of(regions), self.round_span)
        self.witness.watchers.append(self._take)

    def play(self, arrivals: Sequence[Arrival], *, hours_max: float, rounds: int = 0) -> PoolPlayed:
        """Submit the jobs from the begin of a round on, and play until all have ended, or for so many rounds if any are given.

        A play longer than `hours_max` fails: then jobs wait for ever.
        """
        settle_down()
        try:
            with structlog.testing.capture_logs():
                self.loop.run_until_complete(self._play(arrivals, hours_max, rounds))
        finally:
            self.loop.cancel_all()
            self.loop.close()
        assert not self.witness.violations, self.witness.violations[0]
        assert not self.world.failures, self.world.failures
        assert not self.run.users.problems, self.run.users.problems
        assert not self.run.users.refused, next(iter(self.run.users.refused.values()))
        return PoolPlayed(self.turns.figures(), sum(self.witness.facts.values()))

    async def _play(self, arrivals: Sequence[Arrival], hours_max: float, rounds: int) -> None:
        run, world = self.run, self.world
        try:
            await run.begin()
            span = self.round_span / SECOND
            await world.sleep(span - world.now() % span)
            begun = world.now()
            run.users.play(arrivals, "load")
            while not self._is_over(len(arrivals), rounds):
                assert world.now() - begun < 3_600 * hours_max, f"not over after {hours_max} h"
                await world.sleep(LOOK_SECONDS)
        finally:
            await run.stop()

    def _is_over(self, jobs: int, rounds: int) -> bool:
        if self.witness.violations or self.world.failures:
            return True
        if rounds:
            return self.turns.rounds > rounds
        return len(self.turns.jobs) == jobs and all(job.ended_at for job in self.turns.jobs.values())

    def _take(self, fact: Fact) -> None:
        self.turns.take(fact)


def columns_of(regions: Mapping[str, RegionSpec]) -> dict[str, int]:
    """Return the GPUs of these regions by name of a column."""
    found: dict[str, int] = {}
    for name, region in regions.items():
        for part in parts_of(region):
            column = f"{name}/{part.gpu_type}"
            found[column] = found.get(column, 0) + part.nodes * part.gpus_per_node
    return found
