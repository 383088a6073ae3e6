"""Whether a machine is well, as its driver tells."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from core.effects import FindTasks, LookAtNodes, TellRefused
from core.messages.base import Message
from core.messages.workers import NodesLooked
from core.nouns.fleet import UNNUMBERED
from core.nouns.instant import Instant, after
from core.nouns.limits import HEALTH_LOOK
from runtime.clock import Clock
from runtime.tasks.health import Health
from runtime.tasks.slots import Device
from runtime.tasks.spool import TaskSpool
from tests.runtime.tasks.aids import nodes

DEVICES = [Device("GPU-a", "NVIDIA H200"), Device("GPU-b", "NVIDIA H200")]


class NVMLError(Exception):
    """What the library raises."""


class Library:
    """A driver under which devices fail as a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gone: set[str] = set()
        self.errors: dict[str, int] = {}
        self.counts = True
        self.answers = True
        self.open = 0
        module = SimpleNamespace(
            NVMLError=NVMLError,
            NVML_MEMORY_ERROR_TYPE_UNCORRECTED=1,
            NVML_VOLATILE_ECC=0,
            nvmlInit=self._init,
            nvmlShutdown=self._shutdown,
            nvmlDeviceGetHandleByUUID=self._handle,
            nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=1),
            nvmlDeviceGetTotalEccErrors=self._total,
        )
        monkeypatch.setitem(sys.modules, "pynvml", module)

    def _init(self) -> None:
        if not self.answers:
            raise NVMLError("Driver Not Loaded")
        self.open += 1

    def _shutdown(self) -> None:
        self.open -= 1

    def _handle(self, uuid: str) -> str:
        if uuid in self.gone:
            raise NVMLError("GPU is lost")
        return uuid

    def _total(self, handle: str, kind: int, counter: int) -> int:
        assert (1, 0) == (kind, counter)
        if not self.counts:
            raise NVMLError("Not Supported")
        return self.errors.get(handle, 0)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    """One under which all is well."""
    return Library(monkeypatch)


def looked(health: Health) -> str:
    """What is wrong with the machine."""
    health.look()
    return health.ill[0][1] if health.ill else ""


def test_machine_is_as_well_as_its_devices(library: Library) -> None:
    """A device that is gone, or had errors that were not corrected, makes it ill until that is over; the driver is let go."""
    health = Health(DEVICES, lambda: None)
    assert "" == looked(health)
    library.gone.add("GPU-b")
    assert "GPU-b is gone or does not answer: GPU is lost" == looked(health)
    library.errors["GPU-a"] = 3
    assert (
        "GPU-a has had 3 memory errors that were not corrected; GPU-b is gone or does not answer: GPU is lost"
        == looked(health)
    )
    assert ((UNNUMBERED, looked(health)),) == health.ill
    library.gone.clear()
    library.errors.clear()
    assert "" == looked(health)
    library.counts = False
    assert "" == looked(health), "not every device counts errors"
    library.answers = False
    assert "the driver does not answer: Driver Not Loaded" == looked(health)
    assert 0 == library.open


@pytest.mark.parametrize("devices", [[], [Device("", "cpu")]])
def test_machine_without_gpus_is_never_ill(library: Library, devices: list[Device]) -> None:
    """Nor is it ever asked."""
    library.answers = False
    health = Health(devices, lambda: pytest.fail("it was asked"))
    assert health.look_in_time(Instant(0)) is None
    assert "" == looked(health)


def test_machine_without_the_library_is_never_ill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can tell."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "" == looked(Health(DEVICES, lambda: None))


def test_machine_is_looked_at_in_its_time(library: Library) -> None:
    """Every half minute; a change is told once."""
    told: list[object] = []
    health = Health(DEVICES, lambda: told.append(health.ill))
    start = Instant(1_000)
    assert after(start, HEALTH_LOOK) == health.look_in_time(start)
    library.gone.add("GPU-a")
    assert after(start, HEALTH_LOOK) == health.look_in_time(Instant(after(start, HEALTH_LOOK) - 1))
    assert [] == told
    health.look_in_time(after(start, HEALTH_LOOK))
    health.look_in_time(Instant(start + 2 * HEALTH_LOOK))
    library.gone.clear()
    health.look_in_time(Instant(start + 3 * HEALTH_LOOK))
    assert [((UNNUMBERED, "GPU-a is gone or does not answer: GPU is lost"),), ()] == told


async def test_spool_says_how_its_machine_is(library: Library, spool_path: Path) -> None:
    """To a worker that asks, and to one that has just started on an ill machine; not before it has asked what runs."""
    library.gone.add("GPU-a")
    ill = ((UNNUMBERED, "GPU-a is gone or does not answer: GPU is lost"),)
    async with nodes(spool_path, devices=DEVICES) as made:
        await made.until_true(lambda: NodesLooked(ill) in made.heard)
        library.gone.clear()
        made.begin(LookAtNodes((7,)))
        assert NodesLooked((), (7,)) == made.heard[-1]
        library.gone.add("GPU-a")
        made.begin(LookAtNodes((7,)))
        assert NodesLooked(ill, (7,)) == made.heard[-1]
    heard: list[Message] = []
    clock = Clock(asyncio.get_running_loop(), Instant(0))
    spool = TaskSpool("worker.here.w0", clock, spool_path, devices=DEVICES)
    spool.attach(heard.append)
    spool.begin(LookAtNodes((7,)))
    assert [] == heard
    spool.begin(FindTasks())
    assert NodesLooked(ill) == heard[-1]
    spool.close()


async def test_refused_nodes_are_a_line_in_the_log(library: Library, spool_path: Path) -> None:
    """With every reason, for whoever started the worker."""
    async with nodes(spool_path, devices=DEVICES) as made:
        with capture_logs() as lines:
            made.begin(TellRefused(("it serves no node",)))
        assert [["it serves no node"]] == [
            line["problems"] for line in lines if line["event"] == "join_refused"
        ]
