"""`mizzen policy` on a plane that runs and has no shared pool, by the commands, as they are typed."""

import asyncio
import json
from pathlib import Path

import pytest

from mizzen.cli import main
from tests.mizzen.asking import Captured, ask, ask_json, refused
from tests.mizzen.running import RunningPlane

pytestmark = pytest.mark.processes

SHARED = """
name: bert
run: python3 train.py
resources: {gpus: H100:1}
checkpoint: {grace: 9s}
share: {model: bert, weight: 2}
"""


def test_policy_is_set_and_shown(plane: RunningPlane, capsys: Captured) -> None:
    """The settings, and that no round has begun; alone as with `status`; then they are set back."""
    assert "no node of a shared pool" in ask(capsys, "policy")
    assert "makespan, in rounds of 2m" in ask(capsys, "policy set --policy makespan --round 2m")
    told = ask_json(capsys, "policy")
    assert told == ask_json(capsys, "policy status")
    assert ("makespan", 120_000_000_000) == (told["settings"]["policy"], told["settings"]["round_span"])
    assert (0, None, [], "") == (
        told["round"],
        told["next_round_seconds"],
        told["tenants"],
        told["shares"]["problem"],
    )
    assert "max_min, in rounds of 6m" in ask(capsys, "policy set max_min --round 6m")
    assert [] == ask_json(capsys, "policy show")


def test_mistakes_are_answered(plane: RunningPlane, tmp_path: Path, capsys: Captured) -> None:
    """Each in one sentence: a job that is not there, and a job file that asks for a pool which the fleet has not."""
    assert "w-999 is no job of a shared pool" in refused(capsys, "policy show w-999")
    path = tmp_path / "bert.yaml"
    path.write_text(SHARED)
    for _ in range(50):  # A region that has no node yet could have one of the pool.
        capsys.readouterr()
        if main(["submit", str(path), "--json"]):
            break
        plane.call(asyncio.sleep(0.2))
    said = json.loads(capsys.readouterr().err)
    assert "share: the fleet has no node in the pool shared" in json.dumps(said)
