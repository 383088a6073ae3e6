"""A plane in one process, in a thread of its own, so that commands can be run beside it as they are."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from bus.port import Bus
from core.messages.base import Message
from core.messages.queue import Submitted, SubmitWorkload
from core.nouns.ids import RegionName, WorkerName, WorkloadId
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec, Phase, Program, RetryLimits, WorkloadSpec
from runtime.clock import Clock, wall_now
from runtime.fleet_file import FleetFile, RegionSpec, plan_of_file
from runtime.tasks.output import OutputServer
from runtime.tasks.spool import TaskSpool
from scenarios.worlds.one_process import OneProcessWorld
from tests.worlds import plane as worlds

Result = TypeVar("Result")

HERE = RegionName("here")
EMULATED = RegionSpec(nodes=4, gpu_type="H100", workers=2)
FLEET = FleetFile({"r0": EMULATED, "r1": EMULATED, HERE: RegionSpec(this_machine=True)}, "fleet")


class RunningPlane:
    """Regions `r0` and `r1` of four nodes with eight GPUs each and two workers, and `here`, which is this machine."""

    def __init__(self, loop: asyncio.AbstractEventLoop, world: OneProcessWorld, user: Bus) -> None:
        self.world = world
        self._loop = loop
        self._user = user
        self._keys = count()

    def call(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Do something in the plane's own thread."""
        return self.begin(work).result(worlds.PATIENCE_SECONDS)

    def begin(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """The same, without waiting for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def submit(self, spec: WorkloadSpec) -> WorkloadId:
        """Its id. Submitted again, it is another one."""
        answer = self.say(SubmitWorkload(spec, "user", f"key-{next(self._keys)}"))
        assert isinstance(answer, Submitted), answer
        return answer.workload

    def say(self, message: Message) -> Message:
        """Ask, until there is an answer."""
        return self.call(worlds.insist(self._user, message))

    def until(self, workload: WorkloadId, phase: Phase) -> None:
        """Wait until the queue has it there."""
        self.call(worlds.until_phase(self.world, workload, phase))

    @contextlib.contextmanager
    def without(self, role: str, region: str = "") -> Iterator[None]:
        """While one of its parts is down."""
        unit = self.world.unit(role, region)
        self.call(unit.kill())
        try:
            yield
        finally:
            self.call(unit.start())

    def program(self, name: str, run: str, tasks: int = 1, *, retries: int = 0) -> WorkloadSpec:
        """A workload that runs this here."""
        (inventory,) = next(plan.inventories for plan in self.world.plan.regions if plan.region == HERE)
        job = JobSpec(
            "main", tasks, Amount(gpu_milli=1000), inventory.groups[0].gpu_type, program=Program(run)
        )
        return WorkloadSpec(name, (job,), regions=(HERE,), retry=RetryLimits(task_failed=retries))

    def describe(self, folder: Path) -> Path:
        """Write the file by which commands that are run in this folder find the plane."""
        path = folder / ".mizzen" / "plane.json"
        path.parent.mkdir(exist_ok=True)
        found = {
            "url": self.world.url,
            "fleet": self.world.plan.fleet,
            "directory": str(self.world.directory),
            "pid": 1,
        }
        path.write_text(json.dumps(found))
        return path


class SpoolHere(TaskSpool):
    """Where an emulated one is expected."""

    def detach(self) -> None:
        """The worker is gone; the next one attaches itself."""


@contextlib.contextmanager
def running_plane(directory: Path, fleet: FleetFile = FLEET) -> Iterator[RunningPlane]:
    """One that is up, with all its nodes; it ends with the block. What runs here has this directory."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="plane", daemon=True)
    thread.start()
    stack = contextlib.AsyncExitStack()
    try:
        yield asyncio.run_coroutine_threadsafe(_started(stack, directory, fleet), loop).result(
            worlds.PATIENCE_SECONDS
        )
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(worlds.PATIENCE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(worlds.PATIENCE_SECONDS)
        loop.close()


async def _started(stack: contextlib.AsyncExitStack, directory: Path, fleet: FleetFile) -> RunningPlane:
    loop = asyncio.get_running_loop()
    world = OneProcessWorld(plan_of_file(fleet))
    stack.push_async_callback(world.stop)
    spool = SpoolHere("worker.here.w0", Clock(loop, wall_now()), directory)
    world.unit("worker", HERE).spool = spool  # type: ignore[assignment]  # it does all that an emulated one does
    world.keep_running(spool)  # type: ignore[arg-type]
    await world.start()
    user = await world.client("client.user")
    output = OutputServer(HERE, WorkerName("w0"), spool.layout.outputs, user, Clock(loop, wall_now()))
    serving = loop.create_task(output.run(), name="output")
    stack.callback(output.close)
    stack.callback(serving.cancel)
    await world.until(lambda: worlds._has_joined(world), worlds.PATIENCE_SECONDS, "all nodes have joined")
    return RunningPlane(loop, world, user)
