"""`mizzen invoke`, `mizzen map` and `mizzen functions` against real executors."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import mizzen
from core.nouns.workload import Phase
from mizzen.cli import main
from mizzen.commands.map import ProgressLine
from mizzen.connect.credentials import let_in
from mizzen.connect.plane import Plane
from mizzen.connect.tenant import stranger_of
from mizzen.functions.map_files import Progress, finished_in
from mizzen.functions.session import close
from mizzen.jobs.file import load_job
from runtime.fleet_file import FleetFile, RegionSpec
from tests.mizzen.asking import Captured, ask, ask_json
from tests.mizzen.functions.running import FLEET, FunctionsPlane, functions_plane
from tests.mizzen.running import HERE, running_plane

HOUSE = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.processes

MODULE = '''
"""Functions that commands call."""

import os
import pathlib

import mizzen

@mizzen.function(within="60s")
def double(number, more=0):
    """Return twice the number."""
    return 2 * number + more

def plain(text):
    return text.upper()

@mizzen.function
def strict(number):
    if number == 2:
        raise ValueError("two is not allowed")
    if number == 3:
        return {3}
    with pathlib.Path("calls.txt").open("a") as file:
        file.write(f"{number}\\n")
    return {"number": number, "pid": os.getpid()}

large = 7
'''


@pytest.fixture
def here(plane: FunctionsPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of commands, with a module."""
    return with_module(tmp_path, monkeypatch)


def with_module(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the module there; it is imported anew."""
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "jobs_of_ml", raising=False)
    (here / "jobs_of_ml.py").write_text(MODULE)
    return here


def refused(capsys: Captured, *words: str, exit_code: int = 2) -> str:
    """All that a command says instead."""
    capsys.readouterr()
    assert exit_code == main(words)
    out, err = capsys.readouterr()
    assert "" == out
    return err.strip()


# invoke


def test_invoke_prints_the_value(here: Path, capsys: Captured) -> None:
    """As JSON; of a decorated function, and of a plain one."""
    assert "42\n" == ask(capsys, "invoke jobs_of_ml:double 21")
    assert 47 == ask_json(capsys, 'invoke jobs_of_ml:double 21 --kwargs {"more":5}')
    assert '"TEXT"\n' == ask(
        capsys, 'invoke jobs_of_ml:plain "text" --gpus cpu:1 --memory 64MiB --timeout 20s'
    )
    assert "-8\n" == ask(capsys, "invoke jobs_of_ml:double -- -4")


def test_invoke_tells_what_was_raised(here: Path, capsys: Captured) -> None:
    """With the traceback of the executor above the sentence."""
    *trace, told = refused(capsys, "invoke", "jobs_of_ml:strict", "2", exit_code=1).splitlines()
    assert "mizzen: ValueError: two is not allowed" == told
    assert any("in strict" in line for line in trace)
    told = refused(capsys, "invoke", "jobs_of_ml:strict", "3", exit_code=1)
    assert told.startswith("mizzen: the value of jobs_of_ml:strict cannot be written as JSON")


@pytest.mark.parametrize(
    ("words", "told", "exit_code"),
    [
        (("jobs_of_ml", "1"), "jobs_of_ml is not of the form module:name", 2),
        (("no_module_of_ml:f", "1"), "cannot be imported from here: ModuleNotFoundError", 1),
        (("jobs_of_ml:triple", "1"), "cannot be imported from here: AttributeError", 1),
        (("jobs_of_ml:large", "1"), "is no function, but of type int", 2),
        (("jobs_of_ml:double", "one"), "an argument is no JSON", 2),
        (("jobs_of_ml:double", "1", "--kwargs", "[1]"), "--kwargs takes a JSON object", 2),
        (("jobs_of_ml:double", "1", "--gpus", "H100:1"), "--gpus: H100:1 names a type", 2),
        (("jobs_of_ml:plain", "1", "--within", "soon"), "--within: soon is no span", 2),
    ],
)
def test_invoke_refuses(
    words: tuple[str, ...], told: str, exit_code: int, here: Path, capsys: Captured
) -> None:
    """In one sentence."""
    assert told in refused(capsys, "invoke", *words, exit_code=exit_code)


# map


def inputs(here: Path, *lines: object) -> None:
    """Write a file of inputs."""
    (here / "in.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def values(out: Path) -> dict[str, object]:
    """All values that there are, by file."""
    return {path.name: json.loads(path.read_text()) for path in sorted(out.iterdir())}


def test_map_writes_a_file_for_each_line(here: Path, capsys: Captured) -> None:
    """And nothing else; a second run has nothing to do."""
    inputs(here, *range(300))
    words = "map jobs_of_ml:double --inputs in.jsonl --out out"
    assert "300 of 300 values written to out\n" == ask(capsys, words)
    assert {f"{number:06}.json": 2 * number for number in range(300)} == values(here / "out")
    assert {"inputs": 300, "before": 300, "done": 0, "failed": []} == ask_json(capsys, words)


def test_map_goes_on_where_it_was(here: Path, capsys: Captured) -> None:
    """What failed is tried again, and what has a file is not: neither is an empty file one."""
    inputs(here, *range(6))
    with (here / "in.jsonl").open("a") as file:
        file.write("{not JSON\n")
    words = "map jobs_of_ml:strict --inputs in.jsonl --out out"
    capsys.readouterr()
    assert 1 == main(words.split())
    out, err = capsys.readouterr()
    assert "4 of 7 values written to out\n" == out
    assert [
        "000002: ValueError: two is not allowed",
        "000003: its value cannot be written as JSON: Object of type set is not JSON serializable",
        "000006: it is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "mizzen: 3 of 7 inputs have failed; the same command tries them again",
    ] == err.splitlines()
    (here / "out" / "000001.json").unlink()
    (here / "out" / "000004.json").write_text("")
    (here / "out" / ".000005.0123.part").write_text("half")
    inputs(here, 0, 1, 12, 13, 4, 5)
    assert "4 of 6 values written to out, 2 were there before\n" == ask(capsys, words)
    assert set(range(6)) == finished_in(here / "out")
    assert [0, 1, 1, 4, 4, 5, 12, 13] == sorted(map(int, (here / "calls.txt").read_text().split()))


def test_map_of_a_function_that_never_runs_ends(here: Path, capsys: Captured) -> None:
    """With the reason, instead of asking for each input."""
    inputs(here, *range(3000))
    close()
    words = (
        "map",
        "jobs_of_ml:double",
        "--inputs",
        "in.jsonl",
        "--out",
        "out",
        "--memory",
        "1TiB",
        "--within",
        "200ms",
    )
    assert "mizzen: jobs_of_ml.double: no router could take it within" in refused(capsys, *words, exit_code=1)
    assert {} == values(here / "out")


def test_map_without_its_file_says_so(here: Path, capsys: Captured) -> None:
    """And makes no call."""
    words = ("map", "jobs_of_ml:double", "--inputs", "none.jsonl", "--out", "out")
    assert "none.jsonl: no such file" in refused(capsys, *words, exit_code=1)


def test_progress_is_one_line_of_a_terminal(capsys: Captured) -> None:
    """Drawn now and then, and at the end; not shown where there is no terminal."""
    for is_shown in (False, True):
        line = ProgressLine(is_shown=is_shown)
        for done in range(100):
            line.tell(Progress(2000, 900, done + 1, {7: "bad"}))
        line.end()
        drawn = capsys.readouterr().err
        assert is_shown == ("1,000 of 2,000 done, 1 failed, " in drawn)
        assert drawn.count("\n") == is_shown


# functions


def test_functions_are_listed_by_router(here: Path, plane: FunctionsPlane, capsys: Captured) -> None:
    """With their rates and executors, for people and as JSON."""
    ask(capsys, "invoke jobs_of_ml:double 21")
    router, columns, *rows = ask(capsys, "functions").splitlines()
    assert router.startswith("here/r0: 1 server, ")
    assert ["FUNCTION", "RATE", "RUN", "SET", "WARM", "COLD", "WAIT", "RUNS", "LOST"] == columns.split()
    digest = sys.modules["jobs_of_ml"].double.description.digest
    (row,) = (row.split() for row in rows if digest[:8] in row)
    assert f"default/jobs_of_ml.double/{digest[:8]}" == row[0]
    assert ["1", "0", "0", "0"] == [row[3], row[6], row[7], row[8]]
    (told,) = ask_json(capsys, "functions --region here")
    assert ("here", "r0", 1) == (told["region"], told["router"], told["servers"])
    assert "default/jobs_of_ml.double" in [one["function"].rpartition("/")[0] for one in told["functions"]]
    assert "no router of region there was heard" in refused(
        capsys, "functions", "--region", "there", exit_code=1
    )
    told = refused(capsys, "functions", "serve", "--region", "there", "--region", "yonder", exit_code=1)
    assert "no router of region there or region yonder was heard" in told


def test_tenant_calls_with_its_credentials(
    here: Path, plane: FunctionsPlane, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """The server of messages lets it say and hear what a caller does; the functions are its own, and it sees no others."""
    directory = plane.server.directory
    assert directory is not None
    operators = Plane(plane.url, FLEET)
    url = plane.call(let_in(directory, operators, stranger_of(FLEET, "ml")))
    (here / "ml.json").write_bytes(msgspec.json.encode(Plane(url, FLEET)))
    ask(capsys, "invoke jobs_of_ml:double 21")
    monkeypatch.delenv("MIZZEN_NATS_URL")
    monkeypatch.setenv("MIZZEN_CREDENTIALS", str(here / "ml.json"))
    assert "42\n" == ask(capsys, "invoke jobs_of_ml:double 21")
    pickled = mizzen.function(lambda number: number + 1)
    assert 2 == pickled.call(1)
    close()
    (router,) = ask_json(capsys, "functions")
    assert {"ml"} == {one["function"].partition("/")[0] for one in router["functions"]}
    inputs(here, 1)
    monkeypatch.delenv("MIZZEN_CREDENTIALS")
    words = "map jobs_of_ml:double --inputs in.jsonl --out out --credentials ml.json"
    assert "1 of 1 values written to out\n" == ask(capsys, words)
    monkeypatch.delenv("MIZZEN_CREDENTIALS")


# The document.


def test_examples_of_the_document_run(plane: FunctionsPlane, tmp_path: Path, capsys: Captured) -> None:
    """The module, the script that calls it, the map and its job."""
    text = (HOUSE / "docs" / "functions.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        (tmp_path / block.split()[1]).write_text(block)
    done = subprocess.run(
        [sys.executable, "evaluate.py"], capture_output=True, text=True, timeout=60, check=False
    )
    assert "" == done.stderr
    first, *values_, late, all_late = done.stdout.splitlines()
    assert (["1", "1", "-1", "2"], "2", "[1, -1]") == ([first, *values_[:3]], late, all_late)
    assert ["0 1", "1 -1"] == sorted(values_[3:])
    (tmp_path / "texts.jsonl").write_text('"good"\n"bad"\n"great"\n')
    (command, told) = re.findall(r"^\$ mizzen (map .*)\n(.*)", text, re.MULTILINE)[0]
    done = subprocess.run(
        [sys.executable, "-m", "mizzen", *command.split()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (f"{told}\n", "") == (done.stdout, done.stderr)
    assert {"000000.json": 1, "000001.json": -1, "000002.json": 2} == values(tmp_path / "scores")
    (job,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "job.yaml").write_text(job)
    run = load_job(tmp_path / "job.yaml").jobs[0].program
    assert run is not None
    assert command.removesuffix(" --inputs texts.jsonl --out scores") in run.run


# Detached.


def test_detached_map_is_a_workload(
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    """One task runs the same driver on a node, finds the plane from its directory, and leaves the files."""
    for name in ("MIZZEN_CREDENTIALS", "MIZZEN_NATS_URL", "MIZZEN_FLEET"):
        monkeypatch.delenv(name, raising=False)
    close()
    monkeypatch.chdir(tmp_path)
    with_module(tmp_path, monkeypatch)
    inputs(tmp_path, *range(40))
    fleet = FleetFile({HERE: RegionSpec(this_machine=True)}, FLEET)
    with (
        running_plane(tmp_path_factory.mktemp("plane"), fleet) as plane,
        functions_plane(tmp_path_factory.mktemp("functions"), plane.world.url),
    ):
        plane.describe(tmp_path)
        words = "map jobs_of_ml:double --inputs in.jsonl --out out --detach"
        workload = ask(capsys, words).strip()
        plane.until(workload, Phase.COMPLETED)  # type: ignore[arg-type]  # an id
        assert {f"{number:06}.json": 2 * number for number in range(40)} == values(tmp_path / "out")
        shutil.rmtree(tmp_path / ".mizzen")
        monkeypatch.setenv("MIZZEN_NATS_URL", plane.world.url)
        monkeypatch.setenv("MIZZEN_FLEET", FLEET)
        problem, told = refused(capsys, *words.split()).splitlines()
        assert "map.credentials: it is missing" in problem
        assert "mizzen: nothing was submitted: a map has no credentials" == told
        assert "with --detach" in refused(capsys, *words.split(), "--gpus", "cpu:2")
