"""What a plane that runs tells of one workload: what became of it, and why."""

import re

import pytest
from msgspec.structs import replace

from core.events.queue import WorkloadsForgotten
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import seconds
from core.nouns.placement import SCORE_PARTS
from core.nouns.reasons import SENTENCES, Reason
from core.nouns.workload import Phase
from mizzen.cli import main
from store.sqlite import facts_in
from tests.mizzen.asking import ENDLESS, Captured, ask, ask_json, cancel, ended, refused
from tests.mizzen.running import RunningPlane
from tests.worlds.plane import work

pytestmark = pytest.mark.processes


# Show.


def test_show_of_one_that_was_tried_twice(plane: RunningPlane, capsys: Captured) -> None:
    """What was asked for, and each attempt with its region, its times, its cause and its exit code."""
    spec = work("twice", gpus=2, milliseconds=300, save_every=20, fails_after=50, exit_code=9, retries=1)
    workload = ended(plane, spec, Phase.FAILED)
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
    monkeypatch.setattr("components.job_queue.retention.RETENTION", seconds(0))
    monkeypatch.setattr("components.job_queue.retention.FORGET_INTERVAL", seconds(0))
    state = plane.world.unit("job_queue").state
    state.sweep_at = type(state.sweep_at)(0)
    ask(capsys, f"cancel {waiting}")
    rows = state.image.workloads.rows
    plane.call(plane.world.until(lambda: waiting not in rows, 10, "it is forgotten"))
    assert "PENDING" not in ask(capsys, f"show {waiting}")
    told = ask_json(capsys, f"show {waiting}")
    assert ("CANCELLED", "wide", []) == (told["phase"], told["name"], told["attempts"])
    assert f"{waiting} is CANCELLED while nothing of it ran" in ask(capsys, f"explain {waiting}")
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
        "main needs 4 x 8 GPUs, 8 CPUs, 8 GiB and there is capacity for 2: 16 GPUs",
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
    """P27: the bids with every part of their scores by name, what the losers lost on, what the agent knew, and its choice."""
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
    chosen = told["chosen"]
    assert ("equal", award["view_sequence"]) == (
        chosen["retraced"]["outcome"],
        chosen["retraced"]["sequence"],
    )
    (choice,) = chosen["retraced"]["choices"]
    assert str(award["node_runs"][0][0]) == choice["chosen"]
    assert ["in_pool", "draw"] == [choice["steps"][0]["rule"], choice["steps"][-1]["rule"]]
    assert f"recomputed from region.{award['region']} {award['view_sequence']}: equal" in text
    cancel(plane, workload)


def test_explanation_of_a_preempted_workload(plane: RunningPlane, capsys: Captured) -> None:
    """By which workload, which promise led to it, and how it ended; of the other, which workload it preempted."""
    low = plane.submit(replace(work("low", tasks=4, milliseconds=ENDLESS, region="r1"), priority=1))
    plane.until(low, Phase.RUNNING)
    high = plane.submit(replace(work("high", tasks=4, milliseconds=ENDLESS, region="r1"), priority=5))
    plane.until(high, Phase.RUNNING)
    plane.until(low, Phase.PENDING)
    explained = ask_json(capsys, f"explain {high}")
    award = explained["award"]
    assert [[low, 1]] == award["victims"]
    assert "equal" == explained["chosen"]["retraced"]["outcome"]
    assert 2 == award["bids"][0]["score"]["victims' highest priority + 1"]
    assert f"it preempted {low} (attempt 1)" in ask(capsys, f"explain {high}")
    because = ask_json(capsys, f"explain {low}")["because"]
    assert ["attempt-closed", "attempt-ended", "stop-ordered", "claim-promised"] == [
        one["type"] for one in because
    ]
    assert f"its capacity was promised to {high} (attempt 1, priority 5)" == because[-1]["text"]
    assert "why its last attempt ended:" in ask(capsys, f"explain {low}")
    assert f"preempted for {high}" in ask(capsys, f"show {low}")
    for workload in (low, high):
        cancel(plane, workload)


def test_explanation_of_one_that_failed(plane: RunningPlane, capsys: Captured) -> None:
    """From the end back to the exit code."""
    workload = ended(plane, work("fails", milliseconds=300, fails_after=20, exit_code=3), Phase.FAILED)
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
