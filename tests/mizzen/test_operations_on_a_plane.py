"""Users touch their work on a plane that runs: a service that is restarted, moved, changed and resized, and one that is held."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core.messages.queue import CancelWorkload
from core.nouns.ids import WorkloadId
from core.nouns.instant import seconds
from core.nouns.operation import ControlSpec
from core.nouns.workload import Kind, Phase, RetryLimits, WorkloadSpec
from mizzen.cli import main
from mizzen.views import plane_reads as reading
from mizzen.views.plane_reads import pause
from runtime.logs import set_up_logs
from tests.mizzen.running import RunningPlane, running_plane
from tests.worlds.plane import work

pytestmark = pytest.mark.processes

Captured = pytest.CaptureFixture[str]
ENDLESS = 600_000
LOOKS_MAX = 400
SERVE = "name: serve\nkind: service\nemulate: {work: 20m}\ntasks: %d\nresources: {gpus: H100:2, cpus: 2, memory: 2GiB}\n"


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningPlane]:
    """It is found from where the test stands."""
    for name in ("MIZZEN_CREDENTIALS", "MIZZEN_NATS_URL", "MIZZEN_FLEET", "MIZZEN_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(reading, "LOOK_AGAIN", seconds(0.02))
    monkeypatch.setattr(pause, "__defaults__", (seconds(0.02),))
    set_up_logs({}, default="error")
    with running_plane(tmp_path) as plane:
        plane.describe(tmp_path)
        monkeypatch.chdir(tmp_path)
        yield plane


def a_service(name: str, controller: str = "") -> WorkloadSpec:
    """Three tasks in r0 that run for ever."""
    spec = work(name, tasks=3, gpus=2, milliseconds=ENDLESS, region="r0")
    control = ControlSpec(controller, unavailable_max=3)
    return replace(spec, kind=Kind.SERVICE, control=control, retry=RetryLimits(task_failed=-1))


def ask(capsys: Captured, *words: str, exit_code: int = 0) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert exit_code == main(words), capsys.readouterr().err
    return capsys.readouterr().out


def tasks_of(capsys: Captured, workload: WorkloadId) -> list[dict[str, Any]]:  # Any: whatever JSON can hold
    """As `mizzen tasks` tells them."""
    found: list[dict[str, Any]] = json.loads(ask(capsys, "tasks", workload, "--json"))["tasks"]
    return found


def until(capsys: Captured, workload: WorkloadId, holds: Callable[[list[dict[str, Any]]], bool]) -> None:
    """Look at the tasks until they are so; whatever is asked of a plane takes it a moment."""
    for _ in range(LOOKS_MAX):
        if holds(tasks_of(capsys, workload)):
            return
    pytest.fail(f"it does not come to hold: {tasks_of(capsys, workload)}")


def test_service_from_its_first_task_to_its_last(plane: RunningPlane, capsys: Captured) -> None:
    """What its user asks for happens to the tasks that are named, and to no other; what must wait says for whom."""
    workload = plane.submit(a_service("serve"))
    plane.until(workload, Phase.RUNNING)
    assert [("up", 0)] * 3 == [(one["state"], one["run"]) for one in tasks_of(capsys, workload)]
    # Restarted where it is; moved to another node.
    was = [one["node"] for one in tasks_of(capsys, workload)]
    assert f"{workload}: restart of task main/1 is asked for\n" in ask(
        capsys, "restart", workload, "--tasks", "1"
    )
    until(
        capsys,
        workload,
        lambda rows: [(one["state"], one["run"]) for one in rows] == [("up", 0), ("up", 1), ("up", 0)],
    )
    ask(capsys, "move", workload, "--tasks", "2", "--reason", "a quieter place")
    until(capsys, workload, lambda rows: [one["run"] for one in rows if one["state"] == "up"] == [0, 1, 1])
    now = [one["node"] for one in tasks_of(capsys, workload)]
    assert (was[:2], True) == (now[:2], was[2] != now[2])
    # It grows, and is changed: those that are there follow.
    assert "revision 1" in ask(capsys, "resize", workload, "--tasks", "4")
    until(capsys, workload, lambda rows: [one["state"] for one in rows] == ["up"] * 4)
    Path("serve.yaml").write_text(SERVE % 2)
    assert "revision 2" in ask(capsys, "update", workload, "serve.yaml")
    until(
        capsys,
        workload,
        lambda rows: (
            [one["state"] for one in rows] == ["up"] * 2 and not any(one["operation"] for one in rows)
        ),
    )
    assert "is so already" in ask(capsys, "update", workload, "serve.yaml")
    # It is told.
    assert "what happened to it lately:" in ask(capsys, "explain", workload)
    assert "changed" in ask(capsys, "show", workload)
    # Another waits for its controller, which is not there.
    held = plane.submit(a_service("held", "replicas"))
    plane.until(held, Phase.RUNNING)
    assert "  they wait for the word of controller replicas\n" in ask(capsys, "restart", held)
    assert "controller" in {one["operation"]["waits"] for one in tasks_of(capsys, held)}
    assert ["r0", "default", "replicas", "never"] == _row(ask(capsys, "controllers"))[:4]
    for one in (workload, held):
        plane.say(CancelWorkload(one))
        plane.until(one, Phase.CANCELLED)
    assert (
        exit_of(capsys, "restart", workload)
        == f"mizzen: {workload} has ended CANCELLED, so there is nothing to touch\n"
    )


def _row(table: str) -> list[str]:
    return [
        cell for cell in table.splitlines()[1].replace("unreachable (", "").replace(")", "").split() if cell
    ]


def exit_of(capsys: Captured, *words: str) -> str:
    """What a command that fails says."""
    capsys.readouterr()
    assert 1 == main(words)
    return capsys.readouterr().err
