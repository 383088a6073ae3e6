"""A job waits for a dataset that lies in another region's directory: its files are copied, verified, and the job reads them."""

import random
from pathlib import Path

import pytest

from mizzen.cli import main
from tests.mizzen.asking import Captured, ask, ask_json
from tests.mizzen.test_up import assert_nothing_is_left_of, until, up

pytestmark = pytest.mark.processes

FLEET = """
fleet: lab
planner: false
regions:
  here: {{this_machine: true, data: {{directory: {here}}}}}
  archive: {{nodes: 1, gpu_type: A100, data: {{directory: {archive}}}}}
"""
JOB = """
name: reads
run: cat $MIZZEN_DATA_DIR/corpus/part-* | wc -c
resources: {gpus: cpu:1}
data: [corpus]
"""


def test_files_of_another_region_are_copied_for_a_job(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the commands, as they are typed; and the copy is told while it is under way."""
    here, archive = tmp_path / "data" / "here", tmp_path / "data" / "archive"
    (archive / "corpus").mkdir(parents=True)
    here.mkdir()
    dice = random.Random(1)
    for number in range(3):
        (archive / "corpus" / f"part-{number}").write_bytes(dice.randbytes(400_000))
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET.format(here=here, archive=archive))
    job = tmp_path / "job.yaml"
    job.write_text(JOB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MIZZEN_NATS_URL", raising=False)
    with up(tmp_path, str(fleet)) as process:
        try:
            plane = tmp_path / "plane" / "plane.json"
            until(plane.exists, "the plane is up")
            (tmp_path / ".mizzen").symlink_to(tmp_path / "plane")
            until(lambda: main(["queue"]) == 0, "the queue answers")
            for words in ("storage here 1GB", "storage archive 1GB", "links archive here 2MB"):
                ask(capsys, f"data {words}")
            ask(capsys, "data place corpus archive --home archive")
            workload = ask(capsys, f"submit {job}").strip()
            until(lambda: bool(ask_json(capsys, "data copies")["orders"]), "a copy is ordered")
            until(lambda: "COMPLETED" in ask(capsys, f"show {workload}"), "the job has read its data")
            assert "1200000\n" == ask(capsys, f"logs {workload}")
            (row,) = ask_json(capsys, "data")
            assert (1_200_000, ["archive", "here"], "archive") == (row["size"], row["regions"], row["home"])
            sources = {path.name: path.read_bytes() for path in (archive / "corpus").iterdir()}
            assert sources == {path.name: path.read_bytes() for path in (here / "corpus").iterdir()}
            assert [] == list((here / ".incoming").glob("[0-9]*"))
        finally:
            process.terminate()
            process.communicate(timeout=20)
    assert_nothing_is_left_of(tmp_path)
