"""Whole nodes come free on a plane that runs, by the commands, as they are typed."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.messages.queue import CancelWorkload
from core.nouns.ids import WorkloadId
from core.nouns.workload import Phase
from mizzen.cli import main
from tests.mizzen.running import RunningPlane
from tests.worlds.plane import work

pytestmark = pytest.mark.processes

Captured = pytest.CaptureFixture[str]
ENDLESS = 600_000
LOOKS_MAX = 400


def told(capsys: Captured, *words: str, exit_code: int = 0) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert exit_code == main(words), capsys.readouterr().err
    return capsys.readouterr().out


def told_json(capsys: Captured, *words: str, exit_code: int = 0) -> Any:  # Any: whatever JSON can hold
    """The same, as JSON."""
    return json.loads(told(capsys, *words, "--json", exit_code=exit_code))


def scattered(plane: RunningPlane) -> list[WorkloadId]:
    """Two nodes of r1 have two GPUs in use each: what else was there is gone."""
    small: list[WorkloadId] = []
    large: list[WorkloadId] = []
    for _ in range(2):
        for gpus, into in ((6, large), (2, small)):
            into.append(plane.submit(work("w", gpus=gpus, milliseconds=ENDLESS, region="r1", save_every=20)))
            plane.until(into[-1], Phase.RUNNING)
    for workload in large:
        plane.say(CancelWorkload(workload))
        plane.until(workload, Phase.CANCELLED)
    return small


def test_plan_is_shown_and_carried_out(plane: RunningPlane, capsys: Captured, tmp_path: Path) -> None:
    """P30: moves that free a whole node are shown first, then made with consent, and told as what they were; a plan is made once."""
    small = scattered(plane)
    file = tmp_path / "plan.json"
    shown = told(capsys, "defrag", "r1", "--plan", "--out", str(file))
    assert shown.startswith("1 move would free 1 node of r1 and destroy ")
    assert f"`mizzen defrag r1 --execute {file}` asks for them" in shown
    plan = json.loads(file.read_text())
    (moved,) = [move["workload"] for move in plan["freed"][0]["moves"]]
    assert moved in small
    assert 1 == plan["after"]["free_nodes"] - plan["before"]["free_nodes"]
    done = told_json(capsys, "defrag", "--execute", str(file))
    assert ([], 1, 1) == (done["skipped"], done["nodes"], done["moves"])
    for _ in range(LOOKS_MAX):
        if not told_json(capsys, "defrag", "r1", "--status"):
            break
    assert "no nodes of r1 are being freed" in told(capsys, "defrag", "r1", "--status")
    facts = told(capsys, "log", "region.r1", "--about", done["name"])
    assert "its nodes are free" in facts
    plane.until(WorkloadId(moved), Phase.RUNNING)
    assert "moved by defragmentation" in told(capsys, "show", moved)
    assert [] == told_json(capsys, "defrag", "r1")["freed"]
    again = told(capsys, "defrag", "--execute", str(file), exit_code=1)
    assert again.startswith("nothing of this plan holds any more in r1; nothing is asked for")
    assert f"{moved} is not there any more" in again
    for workload in small:
        plane.say(CancelWorkload(workload))
        plane.until(workload, Phase.CANCELLED)


def test_wrong_options_are_refused(plane: RunningPlane, capsys: Captured, tmp_path: Path) -> None:
    """The user is told what to do instead; nothing is asked for."""
    file = tmp_path / "no-plan.json"
    file.write_text('{"region": "r1"}')
    for words, wrong in (
        (("--plan", "--status"), "say one of --plan, --execute and --status"),
        (("--status", "--count", "2"), "--out, --count and --type are of a plan that is made"),
        (("--within", "5m"), "--within is how long a plan may take that is executed"),
        (("--free", "pods"), "--free: pods is neither nodes nor racks"),
        (("--count", "-1"), "--count: it must not be negative"),
        (("--execute", str(file), "--within", "soon"), "--within: soon is no span"),
        (("--execute", str(tmp_path / "none.json")), "cannot be read: no such file"),
        (("--execute", str(file)), "is no plan (Object missing required field `log_id`)"),
        (("nowhere",), "there is no region nowhere"),
        (("r1", "--type", "A100"), "r1 has no nodes with A100"),
    ):
        capsys.readouterr()
        assert 2 == main(["defrag", *words]), words
        assert wrong in capsys.readouterr().err, words
