"""The health of a process: what its socket tells of each unit, and what the program that asks makes of it."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bus.nats import NatsConnection
from bus.server import NatsServer
from core.nouns.ids import GLOBAL_LOG, RegionName, region_log
from runtime.fleet_file import plan_of_this_machine
from runtime.health.check import HEALTH_VARIABLE, main, problem_of_process, problem_of_server
from runtime.health.serving import Health
from runtime.process import Ground, run_process, run_unit
from runtime.wiring import OpenUnit, Unit
from store.sqlite import SqliteStore

pytestmark = pytest.mark.processes

HERE = RegionName("here")
QUEUE, READER, BROKER = Unit("job_queue"), Unit("reader", member=GLOBAL_LOG), Unit("region_broker", HERE)
AUDITOR = Unit("auditor")
PATIENCE_SECONDS = 20.0


@pytest.fixture
def path() -> Iterator[Path]:
    """Where a socket may be: its path has a hundred bytes at most."""
    directory = Path(tempfile.mkdtemp(prefix="mizzen-health-"))
    yield directory / "socket"
    shutil.rmtree(directory)


@pytest.fixture
async def served() -> AsyncIterator[tuple[NatsServer, str]]:
    """A server of the test's own, and its address."""
    server = NatsServer({"PATH": os.environ["PATH"]})
    access = await server.start()
    yield server, access.url
    await server.stop()


@asynccontextmanager
async def process_of(url: str, path: Path, units: list[Unit], directory: Path) -> AsyncIterator[None]:
    """Units as in one process, until the block ends."""
    lives = run_process(plan_of_this_machine(), units, url, directory, {}, health=path)
    running = asyncio.get_running_loop().create_task(lives)
    try:
        yield
        assert not running.done(), running
    finally:
        running.cancel()
        await asyncio.wait([running])


async def until_said(path: Path, text: str) -> None:
    """Wait until the problem contains this; no text: until all is well."""
    said = "not asked"
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (text not in said) if text else said:
                said = await asyncio.to_thread(problem_of_process, str(path))
    except TimeoutError:
        raise AssertionError(said) from None


async def test_keeper_and_reader_are_well(
    served: tuple[NatsServer, str], path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket that another process left is no hindrance; the program that asks exits with 0."""
    _, url = served
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    async with process_of(url, path, [QUEUE, READER], tmp_path):
        await until_said(path, "")
        assert 0o600 == path.stat().st_mode & 0o777
        monkeypatch.setenv(HEALTH_VARIABLE, str(path))
        assert 0 == await asyncio.to_thread(main, [])


async def test_process_is_not_well_while_it_is_cut_off(
    served: tuple[NatsServer, str], path: Path, tmp_path: Path
) -> None:
    """A keeper without a bus does not answer over it; once the server is back it does."""
    server, url = served
    async with process_of(url, path, [QUEUE], tmp_path):
        await until_said(path, "")
        await server.kill()
        await until_said(path, "job_queue: it does not answer over the bus")
        await server.start()
        await until_said(path, "")


async def test_follower_is_not_well_before_it_has_its_logs(
    served: tuple[NatsServer, str], path: Path, tmp_path: Path
) -> None:
    """A region's broker waits until its region's keeper and reader are there; a reader without a log does not answer."""
    _, url = served
    reader = Unit("reader", HERE, region_log(HERE))
    beside = path.with_name("beside")
    async with process_of(url, path, [BROKER], tmp_path / "broker"):
        await until_said(path, "region_broker.here: it waits for the logs that it follows")
        async with process_of(url, beside, [reader], tmp_path / "logs"):
            await until_said(beside, "reader.here.region.here: it does not answer over the bus")
            async with process_of(
                url, path.with_name("keeper"), [Unit("placement_store", HERE)], tmp_path / "logs"
            ):
                await until_said(beside, "")
                await until_said(path, "")


async def test_unit_is_not_well_between_its_lives(served: tuple[NatsServer, str], tmp_path: Path) -> None:
    """Its process is, and the bus carries what the process says; but nobody is there to decide."""
    _, url = served
    lives: dict[str, OpenUnit] = {}
    connection = await NatsConnection.connect(url, "mizzen", "auditor")
    health = Health(connection.endpoint("health"), [AUDITOR], lives)
    assert "auditor: it has not started" == await health.problem()
    ground = Ground(connection.endpoint, SqliteStore(tmp_path))
    alive = asyncio.get_running_loop().create_task(
        run_unit(plan_of_this_machine(), AUDITOR, ground, lambda life: lives.update({AUDITOR.name: life}))
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await health.problem():
            await asyncio.sleep(0.01)
    alive.cancel()
    await asyncio.wait([alive])
    assert "auditor: it has died, and is about to start again" == await health.problem()
    await connection.close()


async def test_process_that_stands_still_is_not_well(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes the connection of a process that is stopped, and no answer comes."""
    monkeypatch.setattr("runtime.health.check.ANSWER_SECONDS_MAX", 0.05)
    monkeypatch.setenv(HEALTH_VARIABLE, str(path))
    assert 1 == main([]), "there is none"
    with socket.socket(socket.AF_UNIX) as stopped:
        stopped.bind(str(path))
        stopped.listen()
        assert "the process does not answer" in problem_of_process(str(path))
        assert 1 == main([])


async def test_server_is_well_when_it_greets(
    served: tuple[NatsServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it asks who is there. A port on which nothing, or something else, answers is no server."""
    _, url = served
    address = url.rpartition("@")[2]
    assert "" == problem_of_server(address)
    assert 0 == main(["--nats", address])
    assert "no NATS server answers" in problem_of_server("127.0.0.1:1")
    assert "no NATS server answers" in problem_of_server("nowhere")
    monkeypatch.setattr("runtime.health.check.ANSWER_SECONDS_MAX", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert "no NATS server answers" in problem_of_server(f"127.0.0.1:{silent.getsockname()[1]}")


def test_program_that_is_asked_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how it is used, and that is no good health."""
    monkeypatch.delenv(HEALTH_VARIABLE, raising=False)
    assert 1 == main([])
    assert 1 == main(["--nats"])
    assert HEALTH_VARIABLE in capsys.readouterr().out


def test_program_is_light() -> None:
    """It runs every few seconds in each container, so it loads the standard library alone, and little of that."""
    program = "import sys; before = set(sys.modules); import runtime.health.check; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"asyncio", "nats", "msgspec", "structlog", "numpy", "cyclopts"}
