"""One plane for all tests of a file, found from where each test stands; and two workloads on it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.nouns.ids import WorkloadId
from core.nouns.instant import seconds
from core.nouns.workload import Phase
from mizzen.views import plane_reads as reading
from mizzen.views.nodes import drain_watch as emptying_watch
from mizzen.views.plane_reads import pause
from runtime.logs import set_up_logs
from tests.mizzen.asking import ENDLESS, As, Captured, ask, cancel, until_refused
from tests.mizzen.running import RunningPlane, running_plane
from tests.worlds.plane import work


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlane]:
    """The one plane: r0 and r1 have four nodes each, in a rack for each of two workers."""
    set_up_logs({}, default="error")
    with running_plane(tmp_path_factory.mktemp("here")) as plane:
        yield plane


@pytest.fixture
def plane(shared: RunningPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunningPlane:
    """The plane is found from where the test stands."""
    for name in ("MIZZEN_CREDENTIALS", "MIZZEN_NATS_URL", "MIZZEN_FLEET", "MIZZEN_LOG"):
        monkeypatch.delenv(name, raising=False)
    for module in (reading, emptying_watch):
        monkeypatch.setattr(module, "LOOK_AGAIN", seconds(0.02))
    monkeypatch.setattr(pause, "__defaults__", (seconds(0.02),))
    set_up_logs({}, default="error")
    shared.describe(tmp_path)
    monkeypatch.chdir(tmp_path)
    return shared


@pytest.fixture
def let_in(plane: RunningPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> As:
    """Commands have the credentials of a tenant from then on."""
    found = plane.describe(tmp_path)
    (tmp_path / ".mizzen" / "nats").symlink_to(plane.world.server.directory)
    found.write_text(json.dumps({**json.loads(found.read_text()), "directory": str(tmp_path / ".mizzen")}))

    def become(tenant: str) -> None:
        monkeypatch.delenv("MIZZEN_CREDENTIALS", raising=False)
        if tenant:
            ask(capsys, f"tenants grant {tenant}")
            monkeypatch.setenv("MIZZEN_CREDENTIALS", f"{tenant}.credentials.json")

    return become


@pytest.fixture
def running(plane: RunningPlane) -> Iterator[WorkloadId]:
    """One that runs on half of r0."""
    workload = plane.submit(work("endless", tasks=2, milliseconds=ENDLESS, region="r0", save_every=20))
    plane.until(workload, Phase.RUNNING)
    yield workload
    cancel(plane, workload)


@pytest.fixture
def waiting(plane: RunningPlane, running: WorkloadId) -> Iterator[WorkloadId]:
    """One that would need all of r0, and is pinned to it."""
    workload = plane.submit(work("wide", tasks=4, milliseconds=50, region="r0"))
    until_refused(plane, workload)
    yield workload
    cancel(plane, workload)
