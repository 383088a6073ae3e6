"""`mizzen up`: a scenario in real processes, and a plane that is kept up; both leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bus.server import NatsServer
from mizzen.cli import main
from mizzen.connect.join import plane_to_join, region_to_join
from mizzen.terminal.output import CommandError
from runtime.tasks.processes import marked_under

pytestmark = pytest.mark.processes

HOUSE = Path(__file__).parents[2]
PATIENCE_SECONDS = 40.0
LEAVING_SECONDS = 5.0
GPU_HOUR = 1_000 * 3_600
"""In GPU milli seconds."""
PAUSE = threading.Event()
"""Never set: waited on, so that no loop is in the way of the command line's own."""

JOB = """
name: charlm
tenant: ml
run: {python} {script} --steps 1500 --hidden 64 --batch 64 --save-every 10 --print-every 5
tasks: 2
resources: {{gpus: cpu:1}}
checkpoint: {{grace: 10s}}
"""
SCENARIO = """
name: small_light
survives: A gang, beside a few emulated workloads, though an agent and a worker are killed.
fleet:
  regions:
    east: {nodes: 8, gpu_type: H100}
    here: {this_machine: true}
tenants:
  ml: {entitled: {H100: {gpus: 64}, cpu: {gpus: 4}}, budget: {gpu_hours: 9, hours: 24}}
  art: {entitled: {H100: {gpus: 0}}}
workload:
  steady: {workloads: 12, tenants: {ml: 1, art: 3}, hours: 1, compression: 1200, minutes_median: 10, minutes_max: 30, gpus_max: 16}
jobs: [{file: job.yaml, requeue_after_seconds: 0.5}]
calm: {minutes: 1.2}
faults:
  - crash: {role: allocation_agent, region: east, after_seconds: 0.5, down_seconds: 0}
  - crash: {role: worker, region: east, after_seconds: 1, down_seconds: 0}
"""


def written(directory: Path) -> Path:
    """The scenario's file, its job beside it."""
    script = HOUSE / "examples" / "train_charlm.py"
    (directory / "job.yaml").write_text(JOB.format(python=sys.executable, script=script))
    path = directory / "small_light.yaml"
    path.write_text(SCENARIO)
    return path


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait, but not for ever."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, what
        PAUSE.wait(0.02)


def up(directory: Path, *words: str) -> "subprocess.Popen[str]":
    """`mizzen up`, as in a terminal of its own."""
    command = [sys.executable, "-P", "-m", "mizzen", "up", *words, "--directory", str(directory / "plane")]
    environment = {name: text for name, text in os.environ.items() if name != "MIZZEN_NATS_URL"}
    return subprocess.Popen(
        command, env=environment, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def left_of(directory: Path) -> list[str]:
    """Command lines of living processes that have to do with a directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            line = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(directory) in line and int(path.name) != os.getpid():
            found.append(line)
    return found + [mark for _, mark in marked_under(str(directory))]


def assert_nothing_is_left_of(directory: Path) -> None:
    """The server that processes are forked from ends when it reads that `mizzen up` has: a moment later."""
    end = time.monotonic() + LEAVING_SECONDS
    while left_of(directory) and time.monotonic() < end:
        PAUSE.wait(0.02)
    assert [] == left_of(directory)


def test_scenario_in_real_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The gang trains, is requeued, and goes on where it saved; kills are survived; logs fold to what keepers said.

    Of two tenants one borrows all that it holds, and the other's budget pays for what it used.
    """
    with up(tmp_path, str(written(tmp_path)), "--json") as process:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert 0 == process.returncode, (out, err)
    summary: dict[str, Any] = json.loads((tmp_path / "plane" / "summary.json").read_text())
    assert json.loads(out) == summary
    assert (13, 13, 0, 0, 2) == tuple(
        summary[name]
        for name in (
            "workloads_submitted",
            "workloads_ended",
            "workloads_lost",
            "invariant_violations",
            "kills",
        )
    )
    most, last = ({row["tenant"]: row for row in at["rows"]} for at in summary["tenants"])
    assert ["art", "ml"] == [*most] == [*last]
    art, ml = most["art"]["uses"]["H100"], most["ml"]["uses"]
    assert 0 < art["borrowed"] == art["held"]
    assert (64, 4) == tuple(ml[kind]["entitlement"]["gpus"] for kind in ("H100", "cpu"))
    assert 0 == ml["H100"]["borrowed"] == ml["cpu"]["borrowed"]
    assert {0} == {use["held"] for row in last.values() for use in row["uses"].values()}
    assert most["ml"]["used_gpu_milli_seconds"] < last["ml"]["used_gpu_milli_seconds"] < 9 * GPU_HOUR
    gang = summary["gang"]
    assert gang["loss_last"] < gang["loss_first"]
    assert 0 < gang["saved_step"] == gang["resumed_step"] < 1500
    for log, digest in summary["digests"].items():
        assert 0 == main(["replay", f"{summary['directory']}/{log}.sqlite", "--digest"])
        assert digest == capsys.readouterr().out.strip()
    assert_nothing_is_left_of(tmp_path)


@pytest.mark.slow
def test_run_in_which_nothing_was_trained_is_not_good(tmp_path: Path) -> None:
    """Nothing was lost and no rule broken, and yet the scenario names a gang that did not train. What was to follow it is not waited for."""
    path = written(tmp_path)
    late = "{file: late.yaml, pushes_out_after_seconds: 0.1}"
    path.write_text(
        SCENARIO.partition("faults:")[0]
        .replace("workloads: 12", "workloads: 1")
        .replace("5}]", f"5}}, {late}]")
    )
    (tmp_path / "late.yaml").write_text("{name: late, tenant: ml, run: 'true', resources: {gpus: cpu:1}}")
    (tmp_path / "job.yaml").write_text("{name: nobody, tenant: ml, run: exit 3, resources: {gpus: cpu:1}}")
    with up(tmp_path, str(path), "--json") as process:
        out, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert 1 == process.returncode
    summary = json.loads(out)
    assert (0, [], None) == (summary["workloads_lost"], summary["violations"], summary["gang"])
    assert {
        "nobody ended FAILED before it had run for 0.5 s and saved",
        "nobody ended FAILED before it had run for 0.1 s and saved: late was not submitted",
        "nobody (w-1) ended FAILED",
        "nobody told no loss",
        "saved, awarded and resumed steps are not one: (0,)",
    } == set(summary["problems"])


def test_ctrl_c_ends_a_scenario_and_all_that_it_runs(tmp_path: Path) -> None:
    """Programs too: nobody is left to stop them."""
    with up(tmp_path, str(written(tmp_path))) as process:
        until(lambda: bool(marked_under(str(tmp_path))), "the gang does not start")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert 130 == process.returncode, (out, err)
    assert "Traceback" not in err
    assert_nothing_is_left_of(tmp_path)


def test_plane_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """T25: found from the folder it was started in; tasks run on when it is killed whole, and it finds them when it is
    up again.

    A machine that joins brings its slots.
    """
    monkeypatch.delenv("MIZZEN_NATS_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    job = tmp_path / "job.yaml"
    job.write_text("{name: long, run: 'while true; do date; sleep 0.1; done', resources: {gpus: cpu:2}}")
    reached = tmp_path / ".mizzen" / "plane.json"

    def says(*words: str) -> str:
        code = main(words)
        out, err = capsys.readouterr()
        return out if code == 0 else f"{code}: {err}"

    def workloads() -> list[dict[str, Any]]:
        said = says("queue", "--json")
        rows: list[dict[str, Any]] = json.loads(said)["workloads"] if said.startswith("{") else []
        return rows

    command = [sys.executable, "-P", "-m", "mizzen"]
    first = subprocess.Popen([*command, "up"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    second = joining = None
    try:
        until(reached.exists, "the plane does not come up")
        until(lambda: says("submit", str(job), "--key", "k") == "w-1\n", "nothing can be submitted")
        until(lambda: [row["phase"] for row in workloads()] == ["RUNNING"], "it does not run")
        first.kill()
        first.wait()
        assert "does not answer" in says("queue")
        assert marked_under(str(tmp_path)), "what users run goes on"
        second = subprocess.Popen([*command, "up"], cwd=tmp_path, stdout=subprocess.DEVNULL)
        until(
            lambda: [row["epoch"] for row in workloads() if row["phase"] == "RUNNING"] == [1],
            "it is not found",
        )
        where = ["--join", ".mizzen", "--member", "second", "--slots", "3", "--directory", "second"]
        where += ["--zone", "zone-1", "--power-domain", "power-7", "--pool", "shared", "--rack", "0"]
        joining = subprocess.Popen(
            [*command, "start", "worker", *where],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(lambda: "second" in says("nodes"), "the second machine does not join")
        again = ["--join", ".mizzen", "--member", "second", "--directory", "elsewhere"]
        assert "another name with --member" in says("start", "worker", *again)
        moved = says("start", "worker", *where[:8], "--zone", "zone-2", "--rack", "1")
        assert "worker second joined region here with --zone zone-1, --rack 0; say that or nothing" in moved
        assert "d-1 drains here-1 (1 node)" in says("drain", "--power-domain", "power-7", "--reason", "fan")
        for where_else in ("--zone=zone-1", "--pool=shared"):
            assert "d-" in says("drain", where_else, "--reason", "fan")
        assert "here-[0-1] (2 nodes)" in says("drain", "--rack", "0", "--reason", "fan", "--yes")
        assert "lifted" in says("undrain", "--all")
        assert "w-1" in says("cancel", "w-1", "-w")
        assert [] == marked_under(str(tmp_path))
    finally:
        for process in (joining, second, first):
            if process is not None:
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE_SECONDS)
    assert not reached.exists()
    assert_nothing_is_left_of(tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.yaml"], "nowhere.yaml: no such file or directory"),
        (["list.yaml"], "list.yaml: Expected `object`, got `array`"),
        (["text.yaml"], "text.yaml: it is neither a fleet file nor a scenario"),
        (["--port", "70000"], "--port: 70000 is not between 0 and 65535"),
        (
            ["--listen", "192.0.2.1"],
            "the server cannot listen on 192.0.2.1 (cannot assign requested address)",
        ),
        (["light.yaml", "--trace", "nowhere"], "nowhere/jobs.csv.gz: there is no such file"),
        (["jobless.yaml"], "job.yaml"),
    ],
)
def test_mistake_is_one_sentence(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And nothing is left running."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MIZZEN_NATS_URL", raising=False)
    (tmp_path / "list.yaml").write_text("[1, 2]")
    (tmp_path / "text.yaml").write_text("a: b: c")
    (tmp_path / "light.yaml").write_text(
        SCENARIO.replace("jobs: [{file: job.yaml, requeue_after_seconds: 0.5}]", "")
    )
    (tmp_path / "jobless.yaml").write_text(SCENARIO)
    assert main(["up", *words]) in {1, 2}
    out, err = capsys.readouterr()
    assert ("", True) == (out, err.startswith("mizzen: "))
    assert said in err
    assert "Traceback" not in err


async def test_machine_that_joins_the_wrong_fleet(tmp_path: Path) -> None:
    """It is told how to name the right one."""
    server = NatsServer({"PATH": os.environ["PATH"]})
    access = await server.start()
    try:
        with pytest.raises(CommandError, match=r"no queue of the fleet lab answers there; .* MIZZEN_FLEET"):
            await region_to_join(plane_to_join(access.url, "lab"), "", "second", tmp_path)
    finally:
        await server.stop()
