"""A plane as processes in one directory: it comes up, is kept up, and is resumed whatever ended it."""

import asyncio
import os
import socket
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from bus.errors import BusError
from bus.nats import NatsConnection
from bus.port import Bus
from bus.server import NatsServer
from core.messages.base import Message
from core.messages.queue import ShowWorkload, Submitted, SubmitWorkload, WorkloadShown
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND, seconds
from core.nouns.limits import RESTART_DELAY_MIN
from core.nouns.workload import Emulation, Phase
from runtime.fleet_file import load_plan
from runtime.plane import PLANE_FILE, PROCESSES, PlaneError, PlaneProcesses, Reached
from runtime.wiring import Unit
from tests.builders import a_job, a_spec

pytestmark = pytest.mark.processes

FLEET = "{fleet: lab, regions: {eu: {nodes: 2, gpu_type: H100, agents: 1}}}"
PATIENCE_SECONDS = 30.0
HOUSE = Path(__file__).parents[2]


def a_plane(directory: Path, *, port: int = 0, fleet: str = FLEET) -> PlaneProcesses:
    """Of one small region."""
    file = directory / "given.yaml"
    file.write_text(fleet)
    return PlaneProcesses(load_plan(file), file, directory / "plane", port=port)


@asynccontextmanager
async def kept_up(plane: PlaneProcesses) -> AsyncIterator[PlaneProcesses]:
    """One that is stopped, whatever happens."""
    await plane.start()
    try:
        yield plane
    finally:
        await plane.stop()


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Bus]:
    """Somebody who asks."""
    connection = await NatsConnection.connect(url, "lab", "user", timeout=seconds(5))
    try:
        yield connection.endpoint("user")
    finally:
        await connection.close()


async def insist(bus: Bus, message: Message) -> Message:
    """Ask until there is an answer."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await bus.ask(message, seconds(1))
        except BusError:
            assert time.monotonic() < end, "nobody answers"
            await asyncio.sleep(0.05)


async def phase_of(bus: Bus, workload: WorkloadId) -> str:
    """Where it is in its life."""
    shown = await insist(bus, ShowWorkload(workload))
    assert isinstance(shown, WorkloadShown), shown
    return shown.phase


async def until_completed(bus: Bus, workload: WorkloadId) -> None:
    """Wait for its end, but not for ever."""
    end = time.monotonic() + PATIENCE_SECONDS
    while await phase_of(bus, workload) != Phase.COMPLETED:
        assert time.monotonic() < end, "it does not end"
        await asyncio.sleep(0.05)


async def submitted(bus: Bus) -> WorkloadId:
    """One that runs for a moment."""
    job = replace(a_job(2, 1), emulation=Emulation(work=seconds(0.1)))
    answer = await insist(bus, SubmitWorkload(a_spec(job), "ada"))
    assert isinstance(answer, Submitted), answer
    return answer.workload


async def test_plane_survives_the_death_of_each_process(tmp_path: Path) -> None:
    """The server's too: each comes back, and what is submitted then runs to its end."""
    async with kept_up(a_plane(tmp_path)) as plane, client_of(plane.url) as bus:
        await until_completed(bus, await submitted(bus))
        names = plane.supervisor.names()
        killed = [pid for pid in map(plane.supervisor.kill, names) if pid]
        assert len(names) == len(killed)
        await until_completed(bus, await submitted(bus))
        assert plane.supervisor.restarts >= len(names)


UP = """
import asyncio, sys
from pathlib import Path
from tests.runtime.test_plane import a_plane

async def main():
    await a_plane(Path(sys.argv[1])).start()
    await asyncio.get_running_loop().create_future()

if __name__ == "__main__":
    asyncio.run(main())
"""


async def test_plane_that_was_killed_whole_is_resumed(tmp_path: Path) -> None:
    """Nothing of it is left, and whoever starts it again in its directory finds all that it knew, at the same address."""
    script = tmp_path / "up.py"
    script.write_text(UP)
    environment = {**os.environ, "PYTHONPATH": str(HOUSE)}
    first = await asyncio.create_subprocess_exec(sys.executable, str(script), str(tmp_path), env=environment)
    try:
        path = tmp_path / "plane" / PLANE_FILE
        await until(path.exists)
        reached = msgspec.json.decode(path.read_bytes(), type=Reached)
        assert (first.pid, "lab") == (reached.pid, reached.fleet)
        assert 0o600 == stat.S_IMODE(path.stat().st_mode)
        async with client_of(reached.url) as bus:
            workload = await submitted(bus)
            await until_completed(bus, workload)
    finally:
        first.kill()
        await first.wait()
    port = int(reached.url.rpartition(":")[2])
    await until(lambda: not is_served(port))
    async with kept_up(a_plane(tmp_path)) as plane, client_of(reached.url) as bus:
        assert reached.url == plane.url
        assert Phase.COMPLETED == await phase_of(bus, workload)
        assert f"w-{int(workload[2:]) + 1}" == await submitted(bus)
    assert not path.exists(), "who looks for a plane finds none that is gone"


def is_served(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def until(holds: Callable[[], bool]) -> None:
    """Wait, but not for ever."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it does not come about"
        await asyncio.sleep(0.02)


async def test_second_plane_in_one_directory_is_refused(tmp_path: Path) -> None:
    """And so is one of another fleet."""
    async with kept_up(a_plane(tmp_path)):
        with pytest.raises(PlaneError, match="already kept up"):
            await a_plane(tmp_path).start()
    other = FLEET.replace("nodes: 2", "nodes: 3")
    with pytest.raises(PlaneError, match="another fleet file"):
        await a_plane(tmp_path, fleet=other).start()


async def test_port_in_use_is_named(tmp_path: Path) -> None:
    """Nothing is left of the try, so the next one works."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PlaneError, match=f"port {port} is in use"):
            await a_plane(tmp_path, port=port).start()
    async with kept_up(a_plane(tmp_path, port=port)) as plane:
        assert plane.url.endswith(f":{port}")


async def test_server_with_a_port_that_is_taken_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again until it is up: the plane does not stay dead because one try failed."""
    monkeypatch.setattr("runtime.plane.RESTART_DELAY_MAX", RESTART_DELAY_MIN)
    died: list[str] = []
    plane = a_plane(tmp_path)
    plane.on_death = lambda name, _: died.append(name)
    async with kept_up(plane), client_of(plane.url) as bus:
        await until_completed(bus, await submitted(bus))
        port = int(plane.url.rpartition(":")[2])
        server = plane.server
        assert server is not None
        await server.kill()
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            await until(lambda: has_taken(taken, port))
            await until(lambda: died.count("nats") > 2)
        await until(lambda: is_served(port))
        await until_completed(bus, await submitted(bus))


def has_taken(probe: socket.socket, port: int) -> bool:
    """Whether we were faster than whoever starts the server again."""
    try:
        probe.bind(("127.0.0.1", port))
        probe.listen()
    except OSError:
        return False
    return True


async def test_bus_that_is_stopped_stays_away(tmp_path: Path) -> None:
    """Until it is started again, at the same address; nobody restarts it meanwhile, and no process dies of it."""
    async with kept_up(a_plane(tmp_path)) as plane, client_of(plane.url) as bus:
        await until_completed(bus, await submitted(bus))
        port = int(plane.url.rpartition(":")[2])
        await plane.stop_bus()
        await plane.stop_bus()
        await asyncio.sleep(3 * RESTART_DELAY_MIN / SECOND)
        assert not is_served(port)
        await plane.start_bus()
        await asyncio.sleep(3 * RESTART_DELAY_MIN / SECOND)
        assert not is_served(port), "somebody else keeps it away"
        await plane.start_bus()
        await plane.start_bus()
        assert is_served(port)
        await until_completed(bus, await submitted(bus))
        assert 0 == plane.supervisor.restarts


async def test_stop_of_the_bus_that_is_cut_short_stops_nothing(tmp_path: Path) -> None:
    """The server may have died of it, and comes back by itself."""
    async with kept_up(a_plane(tmp_path)) as plane:
        port = int(plane.url.rpartition(":")[2])
        stopping = asyncio.get_running_loop().create_task(plane.stop_bus())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping])
        assert stopping.cancelled()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while is_served(port):  # It is being killed.
                await asyncio.sleep(0.01)
            while not is_served(port):
                await asyncio.sleep(0.01)


async def test_each_unit_has_variables_of_its_own(tmp_path: Path) -> None:
    """They come before those that all have."""
    lab = a_plane(tmp_path)

    def variables(unit: Unit) -> dict[str, str]:
        return {"MIZZEN_LOG": "info" if unit.role == "auditor" else "error"}

    plane = PlaneProcesses(lab.plan, tmp_path / "given.yaml", lab.directory, variables=variables)
    wrote = plane.directory / PROCESSES
    async with kept_up(plane), client_of(plane.url) as bus:
        await until_completed(bus, await submitted(bus))
        await until(lambda: "unit_started" in (wrote / "auditor.log").read_text())
        assert "unit_started" not in (wrote / "job_queue.log").read_text()


async def test_plane_on_a_foreign_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is started, and the foreign server is left alone."""
    server = NatsServer({"PATH": os.environ["PATH"]})
    access = await server.start()
    monkeypatch.setenv("MIZZEN_NATS_URL", access.url)
    try:
        async with kept_up(a_plane(tmp_path)) as plane, client_of(access.url) as bus:
            assert (access.url, None) == (plane.url, plane.server)
            await until_completed(bus, await submitted(bus))
        assert is_served(int(access.url.rpartition(":")[2]))
    finally:
        await server.stop()


async def test_plane_that_ends_leaves_anothers_address(tmp_path: Path) -> None:
    """What it wrote for others to find goes with it, unless another plane has written there since."""
    found = tmp_path / "found.json"
    async with kept_up(a_plane(tmp_path)) as plane:
        plane.write_how_to_reach_it(found)
        other = Reached("nats://127.0.0.1:1", "lab", "elsewhere", 1)
        found.write_bytes(msgspec.json.encode(other))
    assert other == msgspec.json.decode(found.read_bytes(), type=Reached)
