"""Programs of a run that call functions: what they tell of their calls, what is wrong with that, and that they end with the run."""

import errno
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core.nouns.ids import WorkloadId
from scenarios.play.live_functions import CallsMade, CallsTold, lines_of_calls
from scenarios.scenario import parse_scenario, scenario_written
from tests.mizzen.test_up import PATIENCE_SECONDS, assert_nothing_is_left_of, until, up

HOUSE = Path(__file__).parents[2]
TOLD = CallsTold(2000, done=2000, right=2000, seconds=12.5, longest_seconds=1.25)
MADE = CallsMade("program", WorkloadId("w-2"), TOLD, 0, killed=["function_server.here.w0"], is_over=True)

TRAINS = """
name: charlm
run: {python} {house}/examples/train_charlm.py --steps 40 --print-every 5
tasks: 1
resources: {{gpus: cpu:1}}
"""
SCENARIO = """
name: small_calls
survives: Calls of a function, beside a gang, though the function's router and server are killed.
fleet:
  regions:
    east: {{nodes: 2, gpu_type: H100}}
    here: {{this_machine: true, functions: true}}
workload:
  steady: {{workloads: 4, hours: 1, compression: 400, minutes_median: 10, minutes_max: 20, gpus_max: 8}}
jobs:
  - {{file: train.yaml}}
  - {{file: {house}/examples/serve_small.yaml, calls: "{program}"}}
calm: {{minutes: 1.5}}
faults:
  - crash: {{role: function_router, region: here, after_seconds: 6.5, down_seconds: 0}}
  - crash: {{role: function_server, region: here, after_seconds: 8, down_seconds: 0}}
"""
WAITS = """
import pathlib, threading
pathlib.Path("waits").touch()
threading.Event().wait()
"""


def written(directory: Path, program: str) -> Path:
    """Return the scenario's file, with its jobs beside it."""
    (directory / "train.yaml").write_text(TRAINS.format(python=sys.executable, house=HOUSE))
    path = directory / "small_calls.yaml"
    path.write_text(SCENARIO.format(house=HOUSE, program=program))
    return path


def played(directory: Path, program: str) -> tuple[int, dict[str, Any]]:  # Any: a summary in JSON
    """Play the scenario, and return its exit code and its summary."""
    with up(directory, str(written(directory, program)), "--json") as process:
        out, err = process.communicate(timeout=3 * PATIENCE_SECONDS)
    assert out, err
    return process.returncode, json.loads(out)


@pytest.mark.processes
@pytest.mark.timeout(180)
def test_every_call_ends_though_router_and_server_are_killed(tmp_path: Path) -> None:
    """Each is done, with the right value; the service is cancelled then, and nothing is left."""
    program = f"{sys.executable} {HOUSE}/examples/decipher.py --calls 320 --per-second 40"
    code, summary = played(tmp_path, program)
    assert 0 == code, summary
    (calls,) = summary["calls"]
    told = calls["told"]
    ends = [told[name] for name in ("calls", "done", "failed", "lost", "refused", "right")]
    assert [320, 320, 0, 0, 0, 320] == ends
    assert told["seconds"] >= 319 / 40
    assert (0, "", True) == (calls["exit_code"], calls["complaint"], calls["is_over"])
    assert "function_server.here.w0" in calls["killed"]
    assert 6 == summary["workloads_ended"] == summary["workloads_submitted"]
    assert_nothing_is_left_of(tmp_path)


@pytest.mark.processes
@pytest.mark.timeout(180)
@pytest.mark.slow
def test_run_whose_program_failed_is_not_good(tmp_path: Path) -> None:
    """The last line that it wrote says why."""
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit('no texts here')")
    code, summary = played(tmp_path, f"{sys.executable} {script}")
    assert 0 != code
    assert [f"calls of `{sys.executable} {script}`: it told of no calls: no texts here"] == summary[
        "problems"
    ]
    assert summary["workloads_ended"] == summary["workloads_submitted"], (
        "the service was cancelled all the same"
    )


@pytest.mark.processes
@pytest.mark.timeout(180)
@pytest.mark.slow
def test_run_whose_program_is_not_there_is_not_good(tmp_path: Path) -> None:
    """The system says why."""
    code, summary = played(tmp_path, "no-such-program")
    assert 0 != code
    (problem,) = summary["problems"]
    assert problem.startswith("calls of `no-such-program`: it told of no calls: ")
    assert os.strerror(errno.ENOENT) in problem


@pytest.mark.processes
@pytest.mark.timeout(180)
def test_program_ends_with_an_interrupted_run(tmp_path: Path) -> None:
    """The run alone was told to end."""
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    with up(tmp_path, str(written(tmp_path, f"{sys.executable} {script}"))) as process:
        until((tmp_path / "waits").exists, "the program did not begin")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert 130 == process.returncode, err
    assert_nothing_is_left_of(tmp_path)


def test_line_of_calls() -> None:
    """How many ended in each way, the check of their values, their time, and the processes that were killed meanwhile."""
    text = (
        "2000 calls: 2000 done, 0 failed, 0 lost, 0 refused; 2000 answers right; 12.5 s, 160 a second, the longest 1.2 s; "
        "killed meanwhile: function_server.here.w0"
    )
    assert [("functions (w-2)", text)] == lines_of_calls([MADE])
    ((_, quiet),) = lines_of_calls([replace(MADE, killed=[])])
    assert quiet == text.partition("; killed")[0]
    assert [] == lines_of_calls([])


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (MADE, ""),
        (replace(MADE, exit_code=None), "it did not end"),
        (replace(MADE, told=CallsTold(), exit_code=1, complaint="no"), "it told of no calls: no"),
        (replace(MADE, told=CallsTold()), "it told of no calls: exit code 0"),
        (replace(MADE, told=replace(TOLD, done=1998)), "2 of 2000 calls have no answer"),
        (replace(MADE, told=replace(TOLD, done=1999, lost=1)), "0 calls failed, 1 were lost and 0 refused"),
        (replace(MADE, told=replace(TOLD, right=1999)), "1 of 2000 answers are wrong"),
        (replace(MADE, exit_code=-9), "it ended with -9"),
    ],
)
def test_problems(made: CallsMade, problem: str) -> None:
    """A call without an answer, one that was not done, or a wrong value is one; so is a program that tells nothing or fails."""
    assert problem == made.problem


def test_scenario_names_a_program() -> None:
    """It is read from what was written."""
    spec = parse_scenario(SCENARIO.format(house=HOUSE, program="program -x"), "small_calls.yaml")
    assert ["", "program -x"] == [job.calls for job in spec.jobs]
    assert spec == parse_scenario(scenario_written(spec), "small_calls.yaml")
