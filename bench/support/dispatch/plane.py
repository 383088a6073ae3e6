"""A real plane whose policy of dispatch is changed while it runs, and a client that starts work of one GPU, one after the other."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.support.plane_client import PATIENCE, Client, emulated, until
from bus.nats import NatsConnection
from core.events.region import AttemptEnded, GangStarted
from core.fact import Event
from core.messages.dispatch import (
    DispatchAnswered,
    DispatchShown,
    SetDispatch,
    ShowDispatch,
    ShowDispatchSettings,
)
from core.messages.queue import CancelWorkload
from core.nouns.dispatch import DispatchSettings
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.workload import WorkloadSpec
from runtime.fleet_file import load_plan
from runtime.plane import PlaneProcesses
from runtime.wiring import bus_name_of, units_of

EAST = RegionName("east")
FLEET = "fleet: bench\nregions:\n  east: {nodes: %d, gpu_type: H100, agents: 1}\n"
TOLD_SECONDS_MAX = 30.0
START_SECONDS_MAX = 60.0
SINGLE = emulated(1, 1)


class PolicyPlane:
    """One plane, and its client."""

    def __init__(self, plane: PlaneProcesses, connection: NatsConnection) -> None:
        self.plane = plane
        self.connection = connection
        self.client = Client(connection.endpoint("client"), (EAST,))
        self._started: dict[WorkloadId, float] = {}
        self._ended: set[WorkloadId] = set()
        self.client.on_fact.append(self._hear)

    def _hear(self, event: Event, _: int, now: float) -> None:
        if isinstance(event, GangStarted):
            self._started[event.workload] = now
        elif isinstance(event, AttemptEnded):
            self._ended.add(event.workload)

    async def go_by(self, policy: str) -> None:
        """Return once every process but the workers goes by a policy."""
        shown = await self.client.ask(ShowDispatchSettings())
        assert isinstance(shown, DispatchAnswered), shown
        done = await self.client.ask(SetDispatch(DispatchSettings(policy), shown.revision, "bench"))
        assert isinstance(done, DispatchAnswered), done
        for unit in units_of(self.plane.plan):
            if unit.role in ("reader", "worker"):
                continue
            deadline = time.monotonic() + TOLD_SECONDS_MAX
            while True:
                answer = await self.client.ask(ShowDispatch(bus_name_of(unit)))
                assert isinstance(answer, DispatchShown), answer
                if answer.revision == done.revision:
                    break
                assert time.monotonic() < deadline, f"{unit.name} does not hear of it"
                await asyncio.sleep(0.1)

    async def start_ms(self, spec: WorkloadSpec = SINGLE) -> float:
        """Return milliseconds from a submission until the work runs; it is ended then."""
        begun = time.perf_counter()
        (workload,) = await self.client.submit([spec])
        await until(lambda: workload in self._started, START_SECONDS_MAX, "it does not start")
        took = 1e3 * (self._started.pop(workload) - begun)
        await self.client.bus.ask(CancelWorkload(workload), PATIENCE)
        await until(lambda: workload in self._ended, START_SECONDS_MAX, "it does not end")
        self._ended.clear()
        return took


@asynccontextmanager
async def policy_plane(directory: Path, nodes: int) -> AsyncIterator[PolicyPlane]:
    """A plane of one region with so many nodes of eight GPUs and one agent, which has started work once."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "fleet.yaml"
    file.write_text(FLEET % nodes)
    plane = PlaneProcesses(load_plan(file), file, directory / "plane")
    await plane.start()
    try:
        connection = await NatsConnection.connect(plane.url, "bench", "client", timeout=PATIENCE)
        try:
            found = PolicyPlane(plane, connection)
            await found.client.begin()
            await found.start_ms()
            yield found
        finally:
            await connection.close()
    finally:
        await plane.stop()
