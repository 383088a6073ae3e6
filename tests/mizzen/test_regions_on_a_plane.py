"""An operator gives up a region of a plane that runs, and takes it back, by the commands as they are typed."""

import pytest

from core.nouns.workload import EndCause, Phase
from mizzen.actions import move
from tests.mizzen.asking import Captured, ask, ask_json, refused
from tests.mizzen.running import RunningPlane
from tests.worlds.plane import PATIENCE_SECONDS, work

pytestmark = pytest.mark.processes


def test_region_is_given_up_and_taken_back(plane: RunningPlane, capsys: Captured) -> None:
    """What runs there goes on elsewhere, and is told why; the region is asked again once it is readmitted."""
    assert "may run twice until the region answers again: " in refused(capsys, "region abandon r0", 2)
    assert "region: mars is not in the fleet" in refused(capsys, "region abandon mars")
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
    assert f"attempt 1 was abandoned, and may still run in {lost}: an operator abandoned the region" in told
    pinned = plane.submit(work("pinned", milliseconds=10, region=lost))
    assert "region_abandoned" in ask(capsys, f"explain {pinned}")
    assert [lost, "UP"] == ask(capsys, f"region readmit {lost}").splitlines()[1].split()[:2]
    plane.until(pinned, Phase.COMPLETED)
    rows = {row["region"]: row for row in ask_json(capsys, "region")}
    assert (False, 2, 0) == tuple(rows[lost][name] for name in ("is_abandoned", "revision", "left_behind"))


def test_gang_is_moved_to_another_region(plane: RunningPlane, capsys: Captured) -> None:
    """It is told what that costs; the other region keeps room before it stops, and it goes on there from what it saved."""
    workload = plane.submit(work("travels", milliseconds=120_000, save_every=200))
    plane.until(workload, Phase.RUNNING)
    (shown,) = ask_json(capsys, f"show {workload}")["attempts"]
    here, there = shown["region"], {"r0": "r1", "r1": "r0"}[shown["region"]]
    assert "the workload runs in this region" in refused(capsys, f"move {workload} --to {here}").lower()
    assert "mars is not in the fleet" in refused(capsys, f"move {workload} --to mars")
    assert "--force is for a move" in refused(capsys, f"move {workload} --force", 2)
    assert "leave out" in refused(capsys, f"move {workload} --to {there} --tasks 3", 2)
    assert "say one of them" in refused(capsys, f"preempt {workload} --now --deadline 5s", 2)
    told = ask(capsys, f"move {workload} --to {there}")
    assert told.startswith(f"{workload} moves from {here} to {there}: it stops as its controller agrees")

    def has_moved() -> bool:
        row = plane.world.unit("job_queue").state.image.workloads.rows[workload]
        return bool(row.region == there and row.phase == Phase.RUNNING and row.move is None)

    plane.call(plane.world.until(has_moved, PATIENCE_SECONDS, f"{workload} runs in {there}"))
    first, second = ask_json(capsys, f"show {workload}")["attempts"]
    assert (here, EndCause.MOVED, there) == (first["region"], first["end_cause"], second["region"])
    assert (1, first["saved_step"]) == (second["resume_epoch"], second["resume_step"])
    log = ask(capsys, f"log global --about {workload}")
    assert {"move-planned", "move-begun"} <= set(log.split())


def test_gang_whose_move_was_given_up_stays(
    plane: RunningPlane, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its region did not answer in time: told so, whoever asked may rely on it, also if the answer comes later."""
    monkeypatch.setattr(move, "LOOKS_MAX", 2)
    workload = plane.submit(work("stays", milliseconds=120_000))
    plane.until(workload, Phase.RUNNING)
    (shown,) = ask_json(capsys, f"show {workload}")["attempts"]
    here, there = shown["region"], {"r0": "r1", "r1": "r0"}[shown["region"]]
    with plane.without("region_broker", there):
        told = refused(capsys, f"move {workload} --to {there}")
        assert f"{there} does not say whether it has capacity; try again in a moment" == told
        assert {} == plane.world.unit("job_queue").state.moves_asked
    assert "the workload runs in this region" in refused(capsys, f"move {workload} --to {here}").lower()
