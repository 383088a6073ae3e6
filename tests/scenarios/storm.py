"""More misfortune than any scenario of the library: a third of all messages lost and a third repeated, out of order, every
process killed five times, servers restarted, disks full for a while, nodes without power.
"""

from collections.abc import Callable
from functools import partial

from core.messages.base import Message, Refused
from core.nouns.instant import seconds
from core.nouns.reasons import Reason
from runtime.virtual_loop import VirtualLoop
from scenarios.run import Outcome, Run
from scenarios.scenario import FleetSpec, LoadSpec, MisfortuneSpec, ScenarioSpec
from scenarios.worlds.simulated import START, SimulatedUnit
from store.memory_disk import MemoryDisk
from tests.interleavings.watch import WatchedSpool, watch_spools

STORM = ScenarioSpec(
    name="storm",
    survives="Half an hour of everything at once, on a handful of nodes.",
    fleet=FleetSpec(regions=2, nodes=4, workers=2),
    load=LoadSpec(
        workloads=40,
        hours=0.5,
        minutes_median=2,
        minutes_max=15,
        gpus_max=32,
        fails_share=0.15,
        cancels_share=0.15,
    ),
    misfortune=MisfortuneSpec(
        drop=0.3, repeat=0.3, reorders=True, crashes_each=5, down_seconds_max=20, workers_lost=3
    ),
    calm_hours=12,
)


class Storm(Run):
    """A run with a watch on its spools, and with what a scenario file cannot ask for yet."""

    def __init__(self, spec: ScenarioSpec, seed: int, loop: VirtualLoop) -> None:
        super().__init__(spec, seed, loop)
        self.watch = watch_spools(self.world)

    async def _insist(self, message: Message) -> Message:
        """Users come again when there is room on the disk."""
        while True:
            answer = await super()._insist(message)
            if not isinstance(answer, Refused) or answer.reason != Reason.LOG_FULL:
                return answer
            await self.loop.sleep_ns(seconds(1))

    def _begin_misfortune(self) -> None:
        super()._begin_misfortune()
        for _ in range(6):
            self._sometime(self._restart_the_server)
        for log in self._logs():
            for _ in range(4):
                self._sometime(partial(self._fill, self.world.store.disk(log)))
        for unit in self.world.units:
            if isinstance(unit.spool, WatchedSpool):
                for _ in range(3):
                    self._sometime(partial(self._lose_power, unit))

    def _sometime(self, act: Callable[[], None]) -> None:
        self.loop.call_later(self.dice.uniform(0.0, 3600 * self.spec.load.hours), act)

    def _restart_the_server(self) -> None:
        network = self.world.network
        if network.is_up:
            network.down()
            self.loop.call_later(self.dice.uniform(1.0, 60.0), network.up)

    def _fill(self, disk: MemoryDisk) -> None:
        disk.is_full = True
        self.loop.call_later(self.dice.uniform(1.0, 60.0), lambda: setattr(disk, "is_full", False))

    def _lose_power(self, unit: SimulatedUnit) -> None:
        if unit.is_alive and isinstance(unit.spool, WatchedSpool):
            self.world.kill(unit, lambda: self.dice.uniform(0.1, 60.0))
            unit.spool.lose_power()

    async def _check(self) -> None:
        await super()._check()
        self.outcome.problems.extend(f"ran twice: {one}" for one in self.watch.unexcused(self.world))


def run_storm(seed: int) -> Outcome:
    """Play it from a seed."""
    loop = VirtualLoop(START)
    try:
        return loop.run_until_complete(Storm(STORM, seed, loop).play())
    finally:
        loop.cancel_all()
        loop.close()
