"""An operator gives up a region of a plane that runs, and takes it back, by the commands as they are typed."""

import pytest

from core.nouns.workload import EndCause, Phase
from tests.mizzen.asking import Captured, ask, ask_json, refused
from tests.mizzen.running import RunningPlane
from tests.worlds.plane import PATIENCE_SECONDS, work

pytestmark = pytest.mark.processes


def test_region_is_given_up_and_taken_back(plane: RunningPlane, capsys: Captured) -> None:
    """What runs there goes on elsewhere, and is told why; the region is asked again once it is readmitted."""
    assert "may run twice" in refused(capsys, "region abandon r0", 2)
    assert "region: mars is not in the fleet" in refused(capsys, "region abandon mars --yes")
    workload = plane.submit(work("moves", milliseconds=60_000))
    plane.until(workload, Phase.RUNNING)
    (shown,) = ask_json(capsys, f"show {workload}")["attempts"]
    lost, other = shown["region"], {"r0": "r1", "r1": "r0"}[shown["region"]]
    assert "drain it, or insist with --force" in refused(capsys, f"region abandon {lost} --yes")
    line = ask(capsys, f"region abandon {lost} --yes --force").splitlines()[1].split()
    assert [lost, "ABANDONED", "-"] == line[:3]

    def has_moved() -> bool:
        row = plane.world.unit("job_queue").state.image.workloads.rows[workload]
        return bool(row.region == other and row.phase == Phase.RUNNING)

    plane.call(plane.world.until(has_moved, PATIENCE_SECONDS, f"{workload} runs in {other}"))
    first, second = ask_json(capsys, f"show {workload}")["attempts"]
    assert (lost, EndCause.ABANDONED, other) == (first["region"], first["end_cause"], second["region"])
    told = ask(capsys, f"explain {workload}")
    assert f"attempt 1 was given up, and may still run in {lost}: an operator gave the region up" in told
    pinned = plane.submit(work("pinned", milliseconds=10, region=lost))
    assert "region_abandoned" in ask(capsys, f"explain {pinned}")
    assert [lost, "UP"] == ask(capsys, f"region readmit {lost}").splitlines()[1].split()[:2]
    plane.until(pinned, Phase.COMPLETED)
    rows = {row["region"]: row for row in ask_json(capsys, "region")}
    assert (False, 2, 0) == tuple(rows[lost][name] for name in ("is_abandoned", "revision", "left_behind"))
