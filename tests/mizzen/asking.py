"""What a user types at a plane that runs, what it prints, and workloads to type it about."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from core.messages.queue import CancelWorkload, ShowWorkload, WorkloadShown
from core.nouns.ids import WorkloadId
from core.nouns.reasons import Reason
from core.nouns.workload import Phase, WorkloadSpec
from mizzen.cli import main
from tests.mizzen.running import RunningPlane

Captured = pytest.CaptureFixture[str]
As = Callable[[str], None]
"""Lets in the tenant of this name from now on; an operator, for none."""
ENDLESS = 600_000


def ask(capsys: Captured, words: str, exit_code: int = 0) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert exit_code == main(words.split()), capsys.readouterr().err
    return capsys.readouterr().out


def ask_json(capsys: Captured, words: str, exit_code: int = 0) -> Any:  # Any: whatever JSON can hold
    """The same, as JSON."""
    return json.loads(ask(capsys, f"{words} --json", exit_code))


def refused(capsys: Captured, words: str, exit_code: int = 1) -> str:
    """The one sentence that a command says instead; with JSON, the same."""
    capsys.readouterr()
    assert exit_code == main(words.split())
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n")), err
    assert exit_code == main([*words.split(), "--json"])
    out, as_json = capsys.readouterr()
    said = err.strip().removeprefix("mizzen: ")
    assert said == json.loads(as_json)["error"]
    return said


def cancel(plane: RunningPlane, workload: WorkloadId) -> None:
    """It ends, if it has not."""
    plane.say(CancelWorkload(workload))
    rows = plane.world.unit("job_queue").state.image.workloads.rows
    plane.call(
        plane.world.until(
            lambda: workload not in rows or rows[workload].phase.is_terminal, 10, f"{workload} has ended"
        )
    )


def until_refused(plane: RunningPlane, workload: WorkloadId) -> None:
    """There is no room for it, and the queue says so."""
    while True:
        shown = plane.say(ShowWorkload(workload))
        assert isinstance(shown, WorkloadShown)
        if shown.reason == Reason.NO_CAPACITY:
            return


def ended(plane: RunningPlane, spec: WorkloadSpec, phase: Phase) -> WorkloadId:
    """One that has come to this end."""
    workload = plane.submit(spec)
    plane.until(workload, phase)
    return workload
