"""What a user is told of starts by a plane that runs, by the commands as they are typed."""

from pathlib import Path

import pytest

from core.nouns.ids import WorkloadId
from mizzen.cli import main
from tests.mizzen.asking import Captured, ask, ask_json, refused
from tests.mizzen.running import RunningPlane

pytestmark = pytest.mark.processes


def test_queue_tells_when_waiting_work_will_start(
    plane: RunningPlane, waiting: WorkloadId, capsys: Captured
) -> None:
    """In its order with a band, and how often bands held; which options go with it and which do not."""
    del plane
    (line,) = [line for line in ask(capsys, "queue --start").splitlines() if line.startswith(waiting)]
    assert line.endswith("no_capacity")
    told = ask_json(capsys, "queue --start")
    (row,) = [row for row in told["starts"] if row["workload"] == waiting]
    assert row["start"]["low"] <= row["start"]["middle"] <= row["start"]["high"]
    assert 0 < row["start"]["span"]
    assert [] == ask_json(capsys, "queue --start --tenant nobody")["starts"]
    assert "it goes with --tenant and --json alone" in refused(capsys, "queue --start --all", 2)
    assert "it is estimated to start in about" in ask(capsys, f"explain {waiting}")


def test_tested_submission_submits_nothing(plane: RunningPlane, capsys: Captured, tmp_path: Path) -> None:
    """It is told when it would start; what is wrong with it as `submit` tells it, with the same exit code."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("name: t-1\nemulate: {work: 1s}\nresources: {gpus: H100:1}\n")
    bad.write_text("name: t-1\nemulate: {work: 1s}\nresources: {gpus: H100:1}\nnodes: 90000\n")
    before = plane.world.unit("job_queue").state.image.workloads.submitted
    assert ask(capsys, f"submit --test-only {good}").startswith("it would start in about")
    assert ask_json(capsys, f"submit --test-only {good}")["regions"]
    told = []
    for words in ("--test-only", "--name t-1"):
        assert 1 == main(f"submit {words} {bad}".split())
        *problems, sentence = capsys.readouterr().err.splitlines()
        told.append((problems, sentence.rpartition(": ")[2]))
    assert told[0] == told[1]
    assert "nodes: 90000 tasks ask for" in told[0][0][0]
    assert "--test-only submits nothing" in refused(capsys, f"submit --test-only --wait {good}", 2)
    assert before == plane.world.unit("job_queue").state.image.workloads.submitted
