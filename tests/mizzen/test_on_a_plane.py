"""The commands that read and steer a plane, against one that runs: all of them share it, so each makes its own workloads."""

import asyncio
import json
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core.events.queue import WorkloadsForgotten
from core.images import decode_image
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    ShowWorkload,
    WorkloadShown,
)
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import seconds
from core.nouns.placement import SCORE_PARTS
from core.nouns.reasons import SENTENCES, Reason
from core.nouns.workload import Phase, WorkloadSpec
from mizzen.cli import main
from mizzen.plane import ask as asked_plane
from mizzen.views import fact_stream, listing, reading
from mizzen.views.reading import pause
from runtime.logs import set_up_logs
from store.sqlite import facts_in
from tests.mizzen.running import RunningPlane, running_plane
from tests.worlds.plane import work

pytestmark = pytest.mark.processes

Captured = pytest.CaptureFixture[str]
ENDLESS = 600_000


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlane]:
    """The one plane."""
    set_up_logs({}, default="error")
    with running_plane(tmp_path_factory.mktemp("here")) as plane:
        yield plane


@pytest.fixture
def plane(shared: RunningPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunningPlane:
    """The plane is found from where the test stands."""
    for name in ("MIZZEN_NATS_URL", "MIZZEN_FLEET", "MIZZEN_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(reading, "LOOK_AGAIN", seconds(0.02))
    monkeypatch.setattr(pause, "__defaults__", (seconds(0.02),))
    set_up_logs({}, default="error")
    shared.describe(tmp_path)
    monkeypatch.chdir(tmp_path)
    return shared


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


@pytest.fixture
def running(plane: RunningPlane) -> Iterator[WorkloadId]:
    """One that runs on half of r0."""
    workload = plane.submit(work("endless", tasks=2, milliseconds=ENDLESS, region="r0", save_every=20))
    plane.until(workload, Phase.RUNNING)
    yield workload
    _cancel(plane, workload)


@pytest.fixture
def waiting(plane: RunningPlane, running: WorkloadId) -> Iterator[WorkloadId]:
    """One that would need all of r0, and is pinned to it."""
    workload = plane.submit(work("wide", tasks=4, milliseconds=50, region="r0"))
    _until_refused(plane, workload)
    yield workload
    _cancel(plane, workload)


def _cancel(plane: RunningPlane, workload: WorkloadId) -> None:

    plane.say(CancelWorkload(workload))
    rows = plane.world.unit("job_queue").state.image.workloads.rows
    plane.call(
        plane.world.until(
            lambda: workload not in rows or rows[workload].phase.is_terminal, 10, f"{workload} has ended"
        )
    )


def _until_refused(plane: RunningPlane, workload: WorkloadId) -> None:

    while True:
        shown = plane.say(ShowWorkload(workload))
        assert isinstance(shown, WorkloadShown)
        if shown.reason == Reason.NO_CAPACITY:
            return


def _ended(plane: RunningPlane, spec: WorkloadSpec, phase: Phase) -> WorkloadId:
    workload = plane.submit(spec)
    plane.until(workload, phase)
    return workload


# Queue.


def test_queue_lists_what_runs_and_what_waits(
    plane: RunningPlane, waiting: WorkloadId, capsys: Captured
) -> None:
    """With nodes, or with the reason and what it means; what has ended is left out."""
    over = _ended(plane, work("over"), Phase.COMPLETED)
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
    over = _ended(plane, work("over", region="r1"), Phase.COMPLETED)

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
    monkeypatch.setattr("components.queue_answers.LISTED_MAX", 2)
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


# Show.


def test_show_of_one_that_was_tried_twice(plane: RunningPlane, capsys: Captured) -> None:
    """What was asked for, and each attempt with its region, its times, its cause and its exit code."""
    spec = work("twice", gpus=2, milliseconds=300, save_every=20, fails_after=50, exit_code=9, retries=1)
    workload = _ended(plane, spec, Phase.FAILED)
    told = ask_json(capsys, f"show {workload}")
    assert ("twice", "FAILED", 2, "user") == (told["name"], told["phase"], told["epoch"], told["submitter"])
    assert 2_000 == told["spec"]["jobs"][0]["need"]["gpu_milli"]
    first, second = told["attempts"]
    assert [("ended", "task_failed", 9, "PENDING"), ("ended", "task_failed", 9, "FAILED")] == [
        (one["state"], one["end_cause"], one["exit_code"], one["closed_as"]) for one in (first, second)
    ]
    assert first["checkpoints"] >= 1
    assert (1, first["saved_step"]) == (second["resume_epoch"], second["resume_step"])
    for one in (first, second):
        instants = [one[name] for name in ("awarded_at", "granted_at", "started_at", "ended_at")]
        assert sorted(instants) == instants
        assert told["submitted_at"] < instants[0]
    lines = ask(capsys, f"show {workload.removeprefix('w-')}").splitlines()
    assert f"{workload} twice" == lines[0]
    assert any("1 x 2 GPUs, 2 CPUs, 2 GiB on H100" in line for line in lines)
    assert 2 == sum("ended" in line and "task_failed" in line for line in lines)


def test_show_of_one_that_waits_and_runs(
    plane: RunningPlane, waiting: WorkloadId, running: WorkloadId, capsys: Captured
) -> None:
    """Why it waits is asked of the queue; where it runs, of the logs."""
    assert f"PENDING (no_capacity): {SENTENCES[Reason.NO_CAPACITY]}" in ask(capsys, f"show {waiting}")
    assert "RUNNING in r0, attempt 1 running" in ask(capsys, f"show {running}")
    ask(capsys, f"hold {waiting}")
    assert f"`mizzen release {waiting}` lets it run" in ask(capsys, f"show {waiting}")


def test_workload_that_has_left_the_image(
    plane: RunningPlane, waiting: WorkloadId, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue forgot it: its facts still tell all of it."""
    monkeypatch.setattr("components.job_queue.RETENTION", seconds(0))
    monkeypatch.setattr("components.job_queue.FORGET_INTERVAL", seconds(0))
    state = plane.world.unit("job_queue").state
    state.sweep_at = type(state.sweep_at)(0)
    ask(capsys, f"cancel {waiting}")
    rows = state.image.workloads.rows
    plane.call(plane.world.until(lambda: waiting not in rows, 10, "it is forgotten"))
    assert "PENDING" not in ask(capsys, f"show {waiting}")
    told = ask_json(capsys, f"show {waiting}")
    assert ("CANCELLED", "wide", []) == (told["phase"], told["name"], told["attempts"])
    assert f"{waiting} is CANCELLED: nothing of it ran" in ask(capsys, f"explain {waiting}")
    assert any(isinstance(fact, WorkloadsForgotten) for fact in _events(plane))
    assert "unknown" not in ask(capsys, f"log global --about {waiting}")


def _events(plane: RunningPlane) -> list[object]:

    return [fact.event for fact in facts_in(plane.world.directory, GLOBAL_LOG)]


def test_workload_that_never_was(plane: RunningPlane, capsys: Captured) -> None:
    """One sentence, whatever is asked of it."""
    for words in ("show w-99999", "explain w-99999", "logs w-99999"):
        assert refused(capsys, words).startswith("there is no workload w-99999, nor was there ever")
    assert 1 == main(["cancel", "w-99999"])
    assert "w-99999: No workload of this id is known" in capsys.readouterr().err
    for words in ("show seven", "explain w-", "cancel w-1x", "logs -1"):
        assert "is no workload; an id is one like w-7" in refused(capsys, words, 2) or "logs" in words


# Explain.


def test_explanation_of_one_that_waits(
    plane: RunningPlane, waiting: WorkloadId, running: WorkloadId, capsys: Captured
) -> None:
    """Every region: what it needs, what is free there, the largest piece, who holds most; and which are excluded."""
    lines = ask(capsys, f"explain {waiting}").splitlines()
    assert f"{waiting} is PENDING (no_capacity): {SENTENCES[Reason.NO_CAPACITY]}" == lines[0]
    r0 = next(line for line in lines if line.split()[:1] == ["r0"])
    for words in (
        "main needs 4 x 8 GPUs, 8 CPUs, 8 GiB and there is room for 2: 16 GPUs",
        "free on 4 nodes of H100, at most 8 GPUs",
        "16 more GPUs must be freed before it is asked again",
        f"most is held by {running} (16 GPUs, priority 3)",
    ):
        assert words in r0
    assert "region_excluded" in next(line for line in lines if line.split()[:1] == ["r1"])
    told = ask_json(capsys, f"explain {waiting}")["waiting"]
    first = next(one for one in told["regions"] if one["region"] == "r0")
    assert ("no_capacity", 16_000, 2) == (
        first["reason"],
        first["missing_gpu_milli"],
        first["shortage"]["tasks_fit"],
    )
    assert first["view_sequence"] >= 1


def test_explanation_of_one_that_runs(plane: RunningPlane, capsys: Captured) -> None:
    """The bids with every part of their scores by name, what the losers lost on, and what the agent knew."""
    workload = plane.submit(work("anywhere", milliseconds=ENDLESS))
    plane.until(workload, Phase.RUNNING)
    told = ask_json(capsys, f"explain {workload}")
    award = told["award"]
    assert (
        f"{workload} is RUNNING in {award['region']} (attempt 1), whose bid was the best of 2"
        == told["verdict"]
    )
    winner, loser = award["bids"]
    assert (award["region"], "") == (winner["region"], winner["lost_on"])
    assert list(SCORE_PARTS) == list(winner["score"]) == list(loser["score"])
    assert "against" in loser["lost_on"] or "alike" in loser["lost_on"]
    assert (False, []) == (award["is_merged"], award["victims"])
    assert 0 < award["view_sequence"] < award["claim_sequence"]
    text = ask(capsys, f"explain {workload}")
    assert f"claimed {award['region']}-{award['node_runs'][0][0]} knowing the log up to" in text
    _cancel(plane, workload)


def test_explanation_of_one_that_was_pushed_out(plane: RunningPlane, capsys: Captured) -> None:
    """By whom, which promise led to it, and what became of it; of the other, whom it pushed out."""
    low = plane.submit(replace(work("low", tasks=4, milliseconds=ENDLESS, region="r1"), priority=1))
    plane.until(low, Phase.RUNNING)
    high = plane.submit(replace(work("high", tasks=4, milliseconds=ENDLESS, region="r1"), priority=5))
    plane.until(high, Phase.RUNNING)
    plane.until(low, Phase.PENDING)
    award = ask_json(capsys, f"explain {high}")["award"]
    assert [[low, 1]] == award["victims"]
    assert 2 == award["bids"][0]["score"]["victims' highest priority + 1"]
    assert f"it pushed out {low} (attempt 1)" in ask(capsys, f"explain {high}")
    because = ask_json(capsys, f"explain {low}")["because"]
    assert ["attempt-closed", "attempt-ended", "stop-ordered", "claim-promised"] == [
        one["type"] for one in because
    ]
    assert f"its capacity was promised to {high} (attempt 1, priority 5)" == because[-1]["text"]
    assert "why its last attempt ended:" in ask(capsys, f"explain {low}")
    assert f"preempted for {high}" in ask(capsys, f"show {low}")
    for workload in (low, high):
        _cancel(plane, workload)


def test_explanation_of_one_that_failed(plane: RunningPlane, capsys: Captured) -> None:
    """From the end back to the exit code."""
    workload = _ended(plane, work("fails", milliseconds=300, fails_after=20, exit_code=3), Phase.FAILED)
    told = ask_json(capsys, f"explain {workload}")
    assert ["attempt-closed", "attempt-ended"] == [one["type"] for one in told["because"]]
    assert "FAILED: attempt 1 ended, task_failed (yours); no retry was left" in told["verdict"]
    assert "task_failed with exit code 3" in told["because"][-1]["text"]


def test_explanation_of_one_that_was_cancelled(
    plane: RunningPlane, running: WorkloadId, capsys: Captured
) -> None:
    """Down to who asked for it."""
    ask(capsys, f"cancel -w {running}")
    because = ask_json(capsys, f"explain {running}")["because"]
    assert "cancel-requested" == because[-1]["type"]
    assert re.fullmatch(r"\S+@\S+ asked for it", because[-1]["text"])


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


def test_hold_when_somebody_else_is_quicker(
    plane: RunningPlane, waiting: WorkloadId, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Superseded, it is asked for anew and said again."""
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

    monkeypatch.setattr("mizzen.steering.ask", slow)
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


# Logs and images.


def test_log_of_a_plane(plane: RunningPlane, running: WorkloadId, capsys: Captured) -> None:
    """The newest facts, some from a sequence on, or all about one thing."""
    first = ask(capsys, "log global --first 1 --count 2").splitlines()
    assert ["1", "log-opened"] == [first[0].split()[0], first[0].split()[3]]
    assert 2 == len(first)
    about = [json.loads(line) for line in ask(capsys, f"log region.r0 --about {running} --json").splitlines()]
    assert ["claim-granted", "gang-started"] == [fact["type"] for fact in about[:2]]
    assert {running} == {fact["about"] for fact in about}
    assert {"at", "time", "actor", "cause", "event", "log", "sequence", "type", "about"} == set(about[0])
    assert about[:1] == [
        json.loads(line)
        for line in ask(capsys, f"log region.r0 --about {running} --json --count 1").splitlines()
    ]
    assert about[1:2] == [
        json.loads(line)
        for line in ask(
            capsys, f"log region.r0 --about {running} --json --count 1 --first {about[1]['sequence']}"
        ).splitlines()
    ]
    newest = ask(capsys, "log global --count 3").splitlines()
    assert 3 == len(newest)
    assert int(newest[0].split()[0]) > 2
    assert "" == ask(capsys, "log global --first 999999")
    assert refused(capsys, "log region.moon", 2).startswith(
        "there is no log region.moon; the plane has global"
    )


def test_log_that_is_followed(
    plane: RunningPlane, waiting: WorkloadId, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes is told as it comes, from the plane and from the file."""
    for log in ("global", str(plane.world.directory / "global.sqlite")):
        steps = [["hold", waiting], ["release", waiting], []]

        async def next_step(steps: list[list[str]] = steps) -> None:
            if not steps:
                raise KeyboardInterrupt
            words = steps.pop(0)
            assert 0 == (await asyncio.to_thread(main, words) if words else 0)

        monkeypatch.setattr(fact_stream, "pause", next_step)
        out = ask(capsys, f"log {log} --about {waiting} -f", 130)
        told = [line.split()[3] for line in out.splitlines() if len(line.split()) > 3]
        assert ["workload-held", "workload-released"] == told[-2:]
        assert "workload-submitted" == told[0]


def test_replay_comes_to_what_the_keeper_has(
    plane: RunningPlane, running: WorkloadId, capsys: Captured
) -> None:
    """P4: by the log's name or its file; to a sequence too; with every check on the way."""
    ask(capsys, f"cancel -w {running}")
    for log, role, region in (("global", "job_queue", ""), ("region.r0", "placement_store", "r0")):
        state = plane.world.unit(role, region).state
        for name in (log, str(plane.world.directory / f"{log}.sqlite")):
            told = ask_json(capsys, f"replay {name} --check")
            assert (log, state.sequence, state.image.digest(), []) == (
                told["log"],
                told["sequence"],
                told["digest"],
                told["violations"],
            )
        assert f"{state.image.digest()}\n" == ask(capsys, f"replay {log} --digest")
        early = ask_json(capsys, f"replay {log} --until 3")
        assert 3 == early["sequence"]
        assert early["digest"] != state.image.digest()
        assert "has" in refused(capsys, f"replay {log} --until 999999")
    assert "facts/s" in ask(capsys, "replay global")


def test_state_of_a_log(plane: RunningPlane, running: WorkloadId, capsys: Captured) -> None:
    """Now and at a sequence, whole or in part; of a file, or of a plane that is only known by its address."""
    told = ask_json(capsys, "state global")
    assert {"workloads", "awards", "regions"} == set(told["sections"])
    assert "RUNNING" == told["sections"]["workloads"]["rows"][running]["phase"]
    one = ask_json(capsys, f"state global {running}")["sections"]
    assert ("RUNNING", True) == (one["workloads"]["rows"]["phase"], one["awards"]["rows"]["is_standing"])
    submitted = json.loads(ask(capsys, f"log global --about {running} --json").splitlines()[0])["sequence"]
    early = ask_json(capsys, f"state global {running} --at {submitted} --section workloads")
    assert ("PENDING", submitted) == (early["sections"]["workloads"]["rows"]["phase"], early["sequence"])
    path = plane.world.directory / "region.r0.sqlite"
    held = ask_json(capsys, f"state {path} {running}")["sections"]["capacity"]
    assert 1 == held["holdings"]["1"]["claim"]["epoch"]
    assert 8_000 == ask_json(capsys, f"state {path} r0-1")["sections"]["capacity"]["node"]["gpu"]["total"]
    assert "has nothing of w-99999" in refused(capsys, "state global w-99999")
    assert "has no section nodes; it has workloads, awards, regions" in refused(
        capsys, "state global --section nodes", 2
    )
    assert "has" in refused(capsys, "state global --at 999999")


def test_plane_that_is_known_by_its_address(
    plane: RunningPlane, running: WorkloadId, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything but its files."""
    monkeypatch.setenv("MIZZEN_NATS_URL", plane.world.url)
    monkeypatch.setenv("MIZZEN_FLEET", plane.world.plan.fleet)
    assert running in ask(capsys, "queue")
    assert running in ask_json(capsys, "state global --section workloads")["sections"]["workloads"]["rows"]
    assert "the plane tells only the newest image" in refused(capsys, "state global --at 3")
    assert "name its path" in refused(capsys, "replay global")


# What is down.


def test_part_of_a_plane_is_down(plane: RunningPlane, running: WorkloadId, capsys: Captured) -> None:
    """One sentence; what can be told without it is told."""
    with plane.without("job_queue"):
        assert refused(capsys, "queue").startswith("nobody answers; that part of the plane is down")
        assert 0 == main(["show", running])
        out, err = capsys.readouterr()
        assert "RUNNING in r0" in out
        assert "note: what the queue says now is missing: nobody answers" in err
    with plane.without("reader", "r0"):
        capsys.readouterr()
        assert 1 == main(["nodes"])
        out, err = capsys.readouterr()
        assert "r1-[0-1]" in out
        assert "r0-" not in out
        assert "mizzen: region r0 is missing: nobody answers" in err
        assert 0 == main(["show", running])
        out, err = capsys.readouterr()
        assert "note: what r0 knows of it is missing: log region.r0: nobody answers" in err
        assert refused(capsys, "log region.r0").startswith("log region.r0: nobody answers")
        said = refused(capsys, f"logs {running}")
        assert said.startswith(
            f"where {running} was placed is not known without r0: log region.r0: nobody answers"
        )
    with plane.without("reader"):
        for words in (f"show {running}", "log global", "nodes"):
            assert refused(capsys, words).startswith("log global: nobody answers")
        assert running in ask(capsys, f"log region.r0 --about {running}")
        assert running in ask(capsys, "queue")


# Output of tasks.


def test_output_of_tasks(plane: RunningPlane, capsys: Captured) -> None:
    """Of one rank or of all, in one attempt or the newest, all of it or its last lines."""
    spec = plane.program("talks", "for i in 1 2 3; do echo $i from $RANK; done", tasks=2)
    workload = _ended(plane, spec, Phase.COMPLETED)
    assert "1 from 0\n2 from 0\n3 from 0\n" == ask(capsys, f"logs {workload}")
    assert "2 from 1\n3 from 1\n" == ask(capsys, f"logs {workload} --rank 1 --tail 2 --attempt 1")
    assert "" == ask(capsys, f"logs {workload} --tail 0")
    lines = ask(capsys, f"logs {workload} --rank all").splitlines()
    assert [f"[{rank}] {number} from {rank}" for rank in (0, 1) for number in (1, 2, 3)] == lines
    told = [json.loads(line) for line in ask(capsys, f"logs {workload} --json").splitlines()]
    assert "1 from 0\n2 from 0\n3 from 0\n" == "".join(one["text"] for one in told)
    assert (1, "main", 0, 0) == tuple(told[0][name] for name in ("epoch", "job", "rank", "offset"))
    assert "job main has no rank 2; it has 0 to 1" in refused(capsys, f"logs {workload} --rank 2", 2)
    assert "has no job other; it has main" in refused(capsys, f"logs {workload} --job other", 2)
    assert "has no attempt 9 that was placed; there are 1" in refused(
        capsys, f"logs {workload} --attempt 9", 2
    )


def test_output_is_followed_over_a_restart(plane: RunningPlane, capsys: Captured) -> None:
    """Until the workload has ended, from before it was placed."""
    spec = plane.program("again", "echo attempt $MIZZEN_ATTEMPT; sleep 0.1; echo over; exit 3", retries=1)
    workload = plane.submit(spec)
    capsys.readouterr()
    assert 0 == main(["logs", workload, "-f"])
    out, err = capsys.readouterr()
    assert "attempt 1\nover\nattempt 2\nover\n" == out
    assert "mizzen: note: attempt 2 in here\n" == err
    assert "attempt 1\nover\n" == ask(capsys, f"logs {workload} --attempt 1")


def test_output_that_is_not_there(
    plane: RunningPlane, running: WorkloadId, waiting: WorkloadId, capsys: Captured
) -> None:
    """Of emulated tasks, and of one that was never placed."""
    assert "is emulated, and emulated tasks write nothing" in refused(capsys, f"logs {running}")
    assert "is PENDING and has not been placed" in refused(capsys, f"logs {waiting}")


# Without a plane.


ON_A_PLANE = (
    "queue", "nodes", "show w-1", "explain w-1", "logs w-1", "cancel w-1", "hold w-1", "release w-1", "requeue w-1",
    "log global",
    "drain", "undrain r0-1", "maintain m-1", "nodes release r0-1",
)  # fmt: skip


@pytest.mark.parametrize("words", ON_A_PLANE)
def test_no_plane_here(words: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to do about it, in a sentence."""
    monkeypatch.delenv("MIZZEN_NATS_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, words).startswith("there is no plane here; start one with `mizzen up`")


def test_plane_that_does_not_answer(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address is told, without the password."""
    monkeypatch.setattr("mizzen.plane.CONNECT_SPAN", seconds(0.1))
    monkeypatch.setenv("MIZZEN_NATS_URL", "nats://user:secret@127.0.0.1:1")
    said = refused(capsys, "queue")
    assert said.startswith("the plane at 127.0.0.1:1 does not answer")
    assert "secret" not in said


def test_image_on_the_plane_is_the_fold(plane: RunningPlane, capsys: Captured) -> None:
    """What `state` shows of a running plane is what its file folds to."""
    path = plane.world.directory / "global.sqlite"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        (count,) = connection.execute("SELECT max(sequence) FROM facts").fetchone()
    told = ask_json(capsys, f"state {path} --at {count}")
    assert count == told["sequence"]
    image = plane.world.unit("job_queue").state.image
    assert decode_image(GLOBAL_LOG, image.encode()).digest() == image.digest()
