"""`mizzen submit`: only the id is printed, nothing is submitted twice, and whatever is wrong is told with its line."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from bus.server import URL_VARIABLE
from core.nouns.ids import WorkloadId
from core.nouns.instant import seconds
from core.nouns.workload import Phase
from mizzen.actions import submit as submission
from mizzen.cli import main
from mizzen.connect.plane import FLEET_VARIABLE
from mizzen.jobs.file import read_job
from mizzen.jobs.source import Source, sheet_of
from mizzen.terminal.output import CommandError
from scenarios.worlds.one_process import OneProcessWorld
from tests.worlds.plane import PATIENCE_SECONDS, plane, until_phase

HOUSE = Path(__file__).resolve().parents[2]
Captured = pytest.CaptureFixture[str]

SHORT = "name: short\nemulate: {work: 50ms}\nresources: {gpus: H100:8}\n"
ENDLESS = "name: endless\nemulate: {work: 1h}\nresources: {gpus: H100:8}\n"
FAILING = "name: failing\nemulate: {work: 1h, fails_after: 20ms}\nresources: {gpus: H100:8}\n"
PROGRAM = "name: hello\nrun: echo hello $1\nresources: {gpus: cpu:1}\n"


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a folder of its own, where there is no plane."""
    monkeypatch.delenv(URL_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)


@dataclass
class Done:
    """What a command answered."""

    exit_code: int
    out: str
    err: str


async def run(world: OneProcessWorld, text: str, *words: str, until: str = "", then: int = 0) -> Done:
    """`mizzen submit -` as a process of its own; once it has printed something it may be sent a signal."""
    environment = {**os.environ, URL_VARIABLE: world.url, FLEET_VARIABLE: world.plan.fleet}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mizzen", "submit", "-", *words,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=HOUSE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        process.stdin.write(text.encode())
        process.stdin.close()
        first = await process.stdout.readline() if then else b""
        if then:
            process.send_signal(then)
        out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, (first + out).decode(), err.decode())


# With a plane.


@pytest.mark.processes
async def test_submission_to_a_plane() -> None:
    """Accepted, waited for, refused: on standard output is only what was asked for."""
    async with plane() as world:
        # 1. The id is all; the same key answers the same.
        first = await run(world, SHORT, "--key", "k", "--priority", "5")
        again = await run(world, SHORT, "--key", "k", "--json")
        assert (Done(0, "w-1\n", ""), Done(0, '{"workload": "w-1"}\n', "")) == (first, again)
        row = world.unit("job_queue").state.image.workloads.rows[WorkloadId("w-1")]
        assert ("short", 5) == (row.spec.name, row.spec.priority)
        # 2. To wait is to exit as it ends.
        assert Done(0, "w-2\n", "") == await run(world, SHORT, "-w")
        failed = await run(world, FAILING, "--wait", "--json")
        phases = [{"workload": "w-3"}, {"workload": "w-3", "phase": "FAILED"}]
        assert (1, phases) == (failed.exit_code, [json.loads(line) for line in failed.out.splitlines()])
        assert "w-3 has ended FAILED" in json.loads(failed.err)["error"]
        # 3. What is waited for goes on without whoever waited.
        left = await run(world, ENDLESS, "-w", then=signal.SIGINT)
        assert (130, "w-4\n") == (left.exit_code, left.out)
        assert "mizzen: w-4 goes on; `mizzen cancel w-4` ends it\n" == left.err
        await until_phase(world, WorkloadId("w-4"), Phase.RUNNING)
        # 4. What could never run is refused, with its line and in numbers.
        await _refused(world)


async def _refused(world: OneProcessWorld) -> None:
    never = await run(world, SHORT.replace("H100:8", "H100:9") + "tasks: 2\n")
    assert (1, "") == (never.exit_code, never.out)
    assert [
        "stdin:3:19: resources.gpus: a task asks for 9 H100, and no node of the fleet has more than 8",
        "mizzen: nothing was submitted: The fleet could not hold the workload even if nothing else ran.",
    ] == never.err.splitlines()
    program = await run(world, PROGRAM.replace("cpu", "H100"), "--json")
    assert (1, "") == (program.exit_code, program.out)
    [problem] = json.loads(program.err)["problems"]
    said = "all nodes with H100 are emulated and run no programs; for programs the fleet has none"
    assert f"stdin:3:19: resources.gpus: {said}" == problem
    elsewhere = await run(world, SHORT, "--region", "mars")
    assert "--region: regions: mars is not in the fleet\n" in elsewhere.err


@pytest.mark.processes
async def test_submission_while_the_queue_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said again until the queue is back, and accepted once; who gives up tells how to go on."""
    async with plane() as world:
        queue = world.unit("job_queue")
        await queue.kill()
        job = read_job(sheet_of(Source("job.yaml", SHORT)), HOUSE)
        user = await world.client("client.user")
        monkeypatch.setattr(submission, "SUBMIT_SPAN", seconds(0.5))
        with pytest.raises(
            CommandError, match=r"not known; submit it again with --key mine, which never submits"
        ):
            await submission.submitted(user, job, "mine")
        monkeypatch.undo()
        accepted, _ = await asyncio.gather(submission.submitted(user, job, "mine"), queue.start())
        assert accepted == await submission.submitted(user, job, "mine")
        assert Phase.COMPLETED == await submission.ended(user, accepted)
        assert [accepted] == list(queue.state.image.workloads.rows)


# Without one.


def test_dry_run_needs_no_plane(tmp_path: Path, capsys: Captured) -> None:
    """It tells what would be asked for; what the command line says goes before the file."""
    path = tmp_path / "job.yaml"
    path.write_text(PROGRAM)
    words = ["submit", str(path), "--dry-run", "--name", "b", "--tenant", "t", "--region", "eu", "--region", "us",
             "--priority", "6", "--set", "tasks=2", "--set", "env.A=x", "--set", "data=[clicks, users]"]  # fmt: skip
    assert 0 == main([*words, "--json", "--", "a b"])
    lines = json.loads(capsys.readouterr().out)
    assert 0 == main([*words, "--", "a b"])
    out, err = capsys.readouterr()
    assert "" == err
    assert [
        "name b", "tenant t", "priority 6", "kind training", "regions eu, us", "reads clicks, users"
    ] == [" ".join(line.split()) for line in out.splitlines()[:6]]  # fmt: skip
    assert "tasks         2 of cpu:1\nrun           set -- 'a b' (and 1 more lines)\n" in out
    assert f"directory     {tmp_path}\nenv           A=x\n" in out
    assert ("b", "set -- 'a b'\necho hello $1") == (lines["name"], lines["jobs"][0]["program"]["run"])


def test_dry_run_of_a_script_tells_ignored_options(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error; a type on the command line is as good as one in the script."""
    text = b"#SBATCH --gres=gpu:8 -p long\ntrue\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert 0 == main(["submit", "-", "--dry-run", "--set", "gpus=H100:8"])
    out, err = capsys.readouterr()
    assert "tasks         1 of H100:8\n" in out
    assert err.startswith("mizzen: note: stdin:1:22: --partition is left out: ")


def test_every_problem_has_its_line(tmp_path: Path, capsys: Captured) -> None:
    """Above the one sentence that says what came of it; as JSON in one object."""
    path = tmp_path / "job.yaml"
    path.write_text("name: a\nruns: x\nresources: {gpus: H100:x}\n")
    words = [
        "submit",
        str(path),
        "--priority",
        "high",
        "--set",
        "tasks",
        "--set",
        "name.x=1",
        "--set",
        "env.A={",
    ]
    assert 2 == main(words)
    out, err = capsys.readouterr()
    assert "" == out
    *told, sentence = err.splitlines()
    assert [
        "--priority: priority: high is no whole number",
        "--set env.A: it is not YAML: expected the node content, but found '<stream end>' while parsing a flow node",
        "--set name.x: name.x: there is no such field",
        "--set tasks: it is not of the form FIELD=VALUE",
        f"{path}:1:1: run: it is missing; say what to run",
        f"{path}:2:1: unknown field 'runs'; did you mean 'run'?",
        f"{path}:3:19: resources.gpus: H100:x is not TYPE:COUNT",
    ] == told
    assert f"mizzen: nothing was submitted: {path} has 7 problems" == sentence
    assert 2 == main([*words, "--json"])
    found = json.loads(capsys.readouterr().err)
    assert (sentence.removeprefix("mizzen: "), told) == (found["error"], found["problems"])


MISTAKES = {
    "": "parameter FILE requires an argument",
    "nowhere.yaml": "nowhere.yaml: no such file or directory; see that it is there and that you may use it",
    ".": ".: it is a directory; name a job file in it",
    "--whatever": "there is no option --whatever; `mizzen submit --help` shows what there is",
    "job.yaml --whatever": "Unknown option: --whatever.",
    "job.yaml": "there is no plane here; start one with `mizzen up`",
    "job.yaml --dry-run -- a b": "arguments: no run takes them; write",
    f"job.yaml --key {'k' * 300}": "a key has 256 printable characters at most",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistake_is_one_sentence(words: str, tmp_path: Path, capsys: Captured) -> None:
    """And nothing on standard output."""
    (tmp_path / "job.yaml").write_text(SHORT)
    assert main(["submit", *words.split()]) in {1, 2}
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n"))
    assert MISTAKES[words] in err


def test_name_that_is_not_text_is_told(tmp_path: Path, capsys: Captured) -> None:
    """An argument may be any bytes."""
    (tmp_path / "job.yaml").write_text(PROGRAM)
    assert 2 == main(["submit", "job.yaml", "--dry-run", "--", "\udcff"])
    assert "an argument or the folder's name is not UTF-8" in capsys.readouterr().err


@pytest.mark.processes
@pytest.mark.parametrize(
    ("words", "dear"),
    [
        (["submit", "--help"], {"asyncio", "nats", "numpy", "structlog", "yaml"}),
        (
            ["submit", str(HOUSE / "examples" / "hello.yaml"), "--dry-run"],
            {"nats", "numpy", "rich.table", "structlog"},
        ),
    ],
    ids=["help", "dry run"],
)
def test_unneeded_modules_are_not_loaded(words: list[str], dear: set[str]) -> None:
    """So that help is there at once, and a dry run soon after."""
    listing = f"import sys; from mizzen.cli import main; main({words!r}); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", listing], cwd=HOUSE, capture_output=True, text=True, check=True, timeout=30
    )
    assert set() == dear & set(done.stdout.splitlines()[-1].split())
