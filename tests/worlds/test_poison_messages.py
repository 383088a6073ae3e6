"""One workload whose reports make its region's broker fail: that workload is held, and everything else on its worker runs on."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import structlog

from components.region_broker.component import RegionBroker
from components.region_broker.state import BrokerState, WorkerSeen
from core.component import Decision
from core.fact import Fact
from core.messages.base import Envelope
from core.messages.queue import Submitted, SubmitWorkload
from core.messages.workers import PartOfBeat, TasksState, WorkerBeat, WorkerReport
from core.nouns.ids import WorkloadId
from core.nouns.instant import seconds
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, JobSpec, Phase, WorkloadSpec
from runtime.errors import HostError
from runtime.fleet_file import RegionSpec
from runtime.virtual_loop import VirtualLoop
from scenarios.schema.fleet import FleetSpec, plan_of
from scenarios.worlds.simulated.world import START, SimulatedWorld

FLEET = FleetSpec({"r0": RegionSpec(nodes=4, gpu_type="H100", workers=1, agents=1)})
SPEC = WorkloadSpec(
    "w", (JobSpec("main", 1, Amount(1_000, 1_000, 1 << 30), "H100", Emulation(seconds(3_000))),)
)


class Poisoned(HostError):
    """The broker failed on the report of one workload."""


class Poison:
    """The workload on whose shares the broker fails, once there is one."""

    def __init__(self) -> None:
        self.workload: WorkloadId | None = None

    def strike(self, tasks: tuple[TasksState, ...]) -> None:
        """Fail if these shares are of the workload."""
        if any(one.workload == self.workload for one in tasks):
            raise Poisoned(str(self.workload))

    def in_decisions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the broker fail when it decides."""
        decide = RegionBroker.decide

        def failing(broker: RegionBroker, state: BrokerState, envelope: Envelope) -> Decision:
            match envelope.message:
                case WorkerReport(tasks=one):
                    self.strike((one,))
                case WorkerBeat(tasks=tasks) | PartOfBeat(beat=WorkerBeat(tasks=tasks)):
                    self.strike(tasks)
            return decide(broker, state, envelope)

        monkeypatch.setattr(RegionBroker, "decide", failing)

    def in_beats(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the broker fail when it decides on a beat, and on no report."""
        beat = RegionBroker._beat

        def failing(broker: RegionBroker, state: BrokerState, envelope: Envelope) -> Decision:
            match envelope.message:
                case WorkerBeat(tasks=tasks) | PartOfBeat(beat=WorkerBeat(tasks=tasks)):
                    self.strike(tasks)
            return beat(broker, state, envelope)

        monkeypatch.setattr(RegionBroker, "_beat", failing)

    def in_folds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the broker fail when it evolves, so that its state is changed in part."""
        evolve = RegionBroker.evolve

        def failing(broker: RegionBroker, state: BrokerState, fact: Fact) -> BrokerState:
            state = evolve(broker, state, fact)
            if isinstance(fact.event, WorkerSeen):
                self.strike(fact.event.tasks)
            return state

        monkeypatch.setattr(RegionBroker, "evolve", failing)


def play(script: Callable[[SimulatedWorld], Coroutine[Any, Any, None]]) -> None:
    """Run a script against a plane in virtual time."""
    loop = VirtualLoop(START)

    async def run() -> None:
        world = SimulatedWorld(plan_of(FLEET, "fleet"), 1, loop)
        try:
            await world.start()
            await script(world)
            assert [] == world.failures
        finally:
            await world.stop()

    try:
        with structlog.testing.capture_logs():
            loop.run_until_complete(run())
    finally:
        loop.cancel_all()
        loop.close()


@pytest.mark.parametrize("place", [Poison.in_decisions, Poison.in_beats, Poison.in_folds])
def test_poison_of_one_workload_costs_no_worker(
    place: Callable[[Poison, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beats of its worker count, its neighbours run on in their first attempts, and the broker dies three times at most."""
    poison = Poison()
    place(poison, monkeypatch)

    async def script(world: SimulatedWorld) -> None:
        user = world.user("client.user")

        async def submit(number: int) -> WorkloadId:
            answer = await user.ask(SubmitWorkload(SPEC, "user", key=str(number)), seconds(5))
            assert isinstance(answer, Submitted)
            return answer.workload

        await world.sleep(20)
        rows = world.unit("job_queue").state.image.workloads.rows
        good = [await submit(number) for number in range(3)]
        await world.sleep(20)
        assert [Phase.RUNNING] * 3 == [rows[one].phase for one in good]
        poison.workload = await submit(3)
        await world.sleep(300)
        assert [(Phase.RUNNING, 1, False)] * 3 == [
            (rows[one].phase, rows[one].epoch, rows[one].is_held) for one in good
        ]
        assert rows[poison.workload].is_held
        deaths = {unit.unit.role: len(unit.deaths) for unit in world.all if unit.deaths}
        assert ["region_broker"] == list(deaths)
        assert deaths["region_broker"] <= 3

    play(script)
