"""What a user sees of the queue and the nodes of a plane that runs, and how workloads are steered there: each test has its own."""

import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest

from core.messages.queue import Acknowledged, CancelWorkload, HoldWorkload, ReleaseWorkload, WorkloadShown
from core.nouns.ids import WorkloadId
from core.nouns.reasons import SENTENCES, Reason
from core.nouns.workload import Phase
from mizzen.cli import main
from mizzen.connect.plane import ask as asked_plane
from mizzen.views import plane_reads as reading
from mizzen.views.workloads import queue_lines as listing
from tests.mizzen.asking import ENDLESS, Captured, ask, ask_json, ended, refused
from tests.mizzen.running import RunningPlane
from tests.worlds.plane import work

pytestmark = pytest.mark.processes


class Until:
    """Ends what goes on for ever, once something was printed or done often enough."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, steps: list[Callable[[], object]]) -> None:
        self._steps = iter(steps)
        for module in (listing, reading):
            monkeypatch.setattr(module, "pause", self)

    async def __call__(self, *_: object) -> None:
        step = next(self._steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()


# Queue.


def test_queue_lists_running_and_waiting_workloads(
    plane: RunningPlane, waiting: WorkloadId, capsys: Captured
) -> None:
    """With nodes, or with the reason and its meaning; an ended workload is left out."""
    over = ended(plane, work("over"), Phase.COMPLETED)
    lines = ask(capsys, "queue").splitlines()
    assert ["ID", "NAME", "TENANT", "PRIO", "STATE", "TIME", "GPUS", "NODES", "NODELIST(REASON)"] == lines[
        0
    ].split()
    assert not any(line.split()[0] == over for line in lines)
    runs = next(line for line in lines if "endless" in line)
    assert re.search(r"default +3 +RUNNING +0:\d\d +16 +2 +r0-\[\d-\d\]$", runs), runs
    waits = next(line for line in lines if line.split()[0] == waiting)
    assert waits.endswith(f"32         (no_capacity) {SENTENCES[Reason.NO_CAPACITY]}")


def test_queue_of_some(plane: RunningPlane, waiting: WorkloadId, capsys: Captured) -> None:
    """By state, tenant and region; a state that is none is named."""
    over = ended(plane, work("over", region="r1"), Phase.COMPLETED)

    def found(words: str) -> set[str]:
        return {row["workload"] for row in ask_json(capsys, f"queue {words}")["workloads"]}

    assert waiting in found("--state pending")
    assert over not in found("--state pending,running")
    assert {over, waiting} <= found("--all")
    assert over in found("--state COMPLETED")
    assert waiting in found("--region r0")
    assert set() == found("--region r1")
    assert set() == found("--tenant nobody")
    assert waiting in found("--tenant default")
    said = refused(capsys, "queue --state asleep", 2)
    assert said.startswith("there is no state ASLEEP; there are PENDING, AWARDED, RUNNING")


def test_queue_as_json(plane: RunningPlane, waiting: WorkloadId, capsys: Captured) -> None:
    """Every field, the sentence too, and how many there are in each state."""
    told = ask_json(capsys, "queue")
    row = next(row for row in told["workloads"] if row["workload"] == waiting)
    assert ("no_capacity", {"r0": "no_capacity"}) == (row["reason"], row["refusals"])
    assert SENTENCES[Reason.NO_CAPACITY] == row["sentence"]
    assert told["counts"]["PENDING"] >= 1


def test_queue_in_pages(plane: RunningPlane, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that is longer than an answer is whole all the same."""
    monkeypatch.setattr("components.job_queue.requests.queries.LISTED_MAX", 2)
    ids = [plane.submit(work(f"page-{number}")) for number in range(5)]
    told = [row["workload"] for row in ask_json(capsys, "queue --all")["workloads"]]
    assert ids == [workload for workload in told if workload in ids]
    assert len(told) == len(set(told))


def test_queue_that_is_watched(
    plane: RunningPlane, waiting: WorkloadId, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line for each change, and what became of those that are not to be shown any more; until Ctrl-C."""
    Until(
        monkeypatch,
        [
            lambda: None,
            lambda: plane.say(HoldWorkload(waiting, 0)),
            lambda: plane.say(CancelWorkload(waiting)),
        ],
    )
    lines = ask(capsys, "queue -w --state PENDING", 130).splitlines()
    mine = [line for line in lines if line.startswith(f"{waiting} ")]
    assert [
        f"{waiting} wide PENDING (no_capacity)",
        f"{waiting} wide PENDING (held)",
        f"{waiting} wide CANCELLED",
    ] == [line.partition(") ")[0] + (")" if ")" in line else "") for line in mine]
    Until(monkeypatch, [])
    assert {"RUNNING"} == {
        json.loads(line)["phase"]
        for line in ask(capsys, "queue --watch --json --state RUNNING", 130).splitlines()
    }


def test_queue_that_is_watched_on_a_terminal(
    plane: RunningPlane, running: WorkloadId, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is drawn anew, the whole of it."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    Until(monkeypatch, [lambda: None])
    capsys.readouterr()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert 130 == main(["queue", "-w"])
    shown = capsys.readouterr().out
    assert "NODELIST(REASON)" in shown
    assert running in shown
    assert "RUNNING" in shown


# Steering.


def test_hold_release_and_cancel(plane: RunningPlane, waiting: WorkloadId, capsys: Captured) -> None:
    """A line for each workload; what could not be done for one is said, and the others are done all the same."""
    assert f"{waiting} held\n" == ask(capsys, f"hold {waiting}")
    assert f"{waiting} held\n" == ask(capsys, f"hold {waiting}")
    assert "held" == ask_json(capsys, f"show {waiting}")["reason"]
    capsys.readouterr()
    assert 1 == main(["release", waiting, "w-99999"])
    out, err = capsys.readouterr()
    assert (f"{waiting} released\n", True) == (out, err.startswith("mizzen: w-99999: No workload of this id"))
    assert f"{waiting} cancelled\n" == ask(capsys, f"cancel {waiting}")
    assert f"{waiting} cancelled\n" == ask(capsys, f"cancel {waiting}")
    capsys.readouterr()
    assert 1 == main(["hold", waiting])
    assert (
        f"mizzen: {waiting}: The workload has ended, and an end is final: it is CANCELLED\n"
        == capsys.readouterr().err
    )
    (told,) = ask_json(capsys, f"cancel {waiting}")
    assert (waiting, "CANCELLED", "") == (told["workload"], told["phase"], told["error"])
    assert "name a workload" in refused(capsys, "cancel", 2)


def test_hold_after_another_users_change(
    plane: RunningPlane, waiting: WorkloadId, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The superseded request is made again on the newest revision."""
    first = True
    as_it_is = asked_plane

    async def slow(bus: Any, message: Any, expected: type[Any]) -> Any:
        nonlocal first
        answer = await as_it_is(bus, message, expected)
        if first and isinstance(answer, WorkloadShown):
            first = False
            for other in (HoldWorkload(waiting, 0), ReleaseWorkload(waiting, 1)):
                await as_it_is(bus, other, Acknowledged)
        return answer

    monkeypatch.setattr("mizzen.actions.workloads.ask", slow)
    assert f"{waiting} held\n" == ask(capsys, f"hold {waiting}")
    assert 3 == ask_json(capsys, f"show {waiting}")["hold_revision"]


def test_requeue(plane: RunningPlane, running: WorkloadId, waiting: WorkloadId, capsys: Captured) -> None:
    """The next attempt goes on from the checkpoint of the one that was stopped; what waits has none."""
    ask(capsys, f"hold {waiting}")
    assert f"{running} attempt 1 is being stopped, and the next is placed\n" == ask(
        capsys, f"requeue {running}"
    )
    rows = plane.world.unit("job_queue").state.image.workloads.rows
    plane.call(plane.world.until(lambda: rows[running].epoch == 2, 10, "it is placed anew"))
    plane.until(running, Phase.RUNNING)
    first, second = ask_json(capsys, f"show {running}")["attempts"]
    assert ("requeued", 1) == (first["end_cause"], second["resume_epoch"])
    capsys.readouterr()
    assert 1 == main(["requeue", waiting])
    assert f"{waiting}: it is PENDING, so there is no attempt to stop" in capsys.readouterr().err


def test_cancel_that_waits(plane: RunningPlane, running: WorkloadId, capsys: Captured) -> None:
    """Until the region has ended it; without waiting it is said that it is being stopped, or that it was."""
    assert f"{running} cancelled\n" == ask(capsys, f"cancel --wait {running}")
    assert "CANCELLED" == ask_json(capsys, f"show {running}")["phase"]
    other = plane.submit(work("other", milliseconds=ENDLESS))
    plane.until(other, Phase.RUNNING)
    assert ask(capsys, f"cancel {other}") in {f"{other} is being stopped\n", f"{other} cancelled\n"}
    plane.until(other, Phase.CANCELLED)


# Nodes.


def test_nodes_by_group_and_one_by_one(plane: RunningPlane, running: WorkloadId, capsys: Captured) -> None:
    """What is free and held, by whom it is served, and who is on it; the figures add up."""
    lines = ask(capsys, "nodes").splitlines()
    assert [
        "REGION",
        "NODELIST",
        "NODES",
        "TYPE",
        "WORKER",
        "STATE",
        "GPUS",
        "FREE",
        "HELD",
        "ENDING",
        "LOST",
        "WORKLOADS",
    ] == lines[0].split()
    assert 6 == len(lines)
    rows = ask_json(capsys, "nodes --region r0")
    assert {("r0", "H100", 2, 16_000)} == {
        (row["region"], row["node_type"], row["nodes"], row["total"]) for row in rows
    }
    each = ask_json(capsys, "nodes --region r0 --all")
    assert [[[node, node]] for node in range(4)] == [row["node_runs"] for row in each]
    assert 16_000 == sum(row["held"] for row in each)
    assert ["full", "full", "idle", "idle"] == sorted(row["use"] for row in each)
    assert {"open"} == {row["state"] for row in each}
    assert {running} == {workload for row in each for workload in row["workloads"]}
    for row in each:
        assert row["total"] == row["free"] + row["held"] + row["ending"] + row["lost"]
    assert "there is no region moon; there are here, r0, r1" == refused(capsys, "nodes --region moon", 2)
