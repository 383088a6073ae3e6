"""The command line as a person meets it: what it answers, and what it says about mistakes."""

import asyncio
import importlib.metadata
import json
import resource
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from core.events.queue import RegionAdded
from core.fact import Fact
from core.nouns.ids import GLOBAL_LOG, RegionName, region_log
from core.nouns.instant import Instant
from mizzen.cli import main, with_negatives
from runtime.wiring import BUILD, ROLES
from scenarios.scenario import library, load_scenario
from scenarios.swarm.draw import mix_of
from store.rows import row_of
from store.sqlite import SqliteStore

HOUSE = Path(__file__).resolve().parents[2]
FACTS = 50
Captured = pytest.CaptureFixture[str]

SCENARIO = """
name: tiny
survives: A few workloads on a few nodes all end.
fleet: {regions: 1, nodes: 2, workers: 1}
workload: {steady: {workloads: 3, hours: 0.1, minutes_median: 1, minutes_max: 5, gpus_max: 8}}
calm: {minutes: 60}
expectations: [submitted == 3, kills == 0]
"""


@pytest.fixture(autouse=True)
def _without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have a plane of their own."""
    for name in ("MIZZEN_NATS_URL", "MIZZEN_NATS_SERVER", "MIZZEN_LOG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A directory with two logs, let go of by their keepers."""
    directory = tmp_path / "logs"

    async def fill() -> None:
        for name in (GLOBAL_LOG, region_log(RegionName("eu"))):
            log = await SqliteStore(directory).open(name, "id")
            facts = [
                Fact(name, number, Instant(number), "cause", "actor", RegionAdded(RegionName(f"r{number}")))
                for number in range(1, FACTS + 1)
            ]
            await log.append([row_of(fact) for fact in facts], 1)
            await log.close()

    asyncio.run(fill())
    return directory


# Every mistake, and what is said about it.

MISTAKES = {
    "frobnicate": 'Unknown command "frobnicate"',
    "start": "parameter ROLE requires an argument. `mizzen start --help` shows",
    "start captain": "captain is no role; start one of job_queue, placement_store",
    "start worker": "worker is of a region; name it with --region here",
    "start worker --region moon": "region moon is not in the fleet mizzen; it has here, and another fleet is named by",
    "start worker --region here --member w9": "there is no worker w9 in region here; name one with --member w0",
    "start worker --zone zone-1": "--zone is for a worker that joins a plane; give --join, or say it in the fleet file",
    "start worker --rack 0": "--rack is for a worker that joins a plane",
    "start worker --join nats://127.0.0.1:1 --pool a.b": "--pool: 'a.b' is no name; use letters, digits, '-' and '_'",
    "start worker --join nats://127.0.0.1:1 --rack -2": "--rack: a rack's number is 0 to",
    "restart": "parameter ID requires an argument",
    "restart x": "x is no workload; an id is one like w-7",
    "restart w-1 --tasks 3-": "3- is no rank; write --tasks 3,5-7",
    "move w-1 --deadline soon": "--deadline: soon is no span; write for example 90s",
    "move w-1 --deadline 0s": "--deadline: it must be longer than zero",
    "move w-1 --deadline -5m": "--deadline: -5m is no span, for it is less than nothing; write for example 90s",
    "drain d-1 --deadline -5m": "--deadline: -5m is no span, for it is less than nothing; write for example 90s",
    "drain d-1 --deadline -1:30:00": "--deadline: -1:30:00 is no span, for it is less than nothing",
    "drain d-1 --deadline": "parameter --deadline requires an argument",
    "drain d-1 --deadline --watch": "parameter --deadline requires an argument",
    f"move w-1 --reason {'x' * 300}": "a reason has 256 printable characters at most",
    "resize w-1": "parameter --tasks requires an argument",
    "resize w-1 --tasks few": "unable to convert",
    "update w-1": "parameter FILE requires an argument",
    "update w-1 nowhere.yaml": "nowhere.yaml: no such file or directory",
    "update w-1 --frob": "there is no option --frob; `mizzen update --help` shows what there is",
    "tasks w-1": "there is no plane here; start one with `mizzen up`",
    "controllers": "there is no plane here; start one with `mizzen up`",
    "region abandon r0": "there is no plane here; start one with `mizzen up`",
    "start job_queue --region here": "job_queue is of no region; leave --region out",
    "start region_broker --region here --member b0": "region_broker has no members; leave --member out",
    "start job_queue": "set MIZZEN_NATS_URL or MIZZEN_CREDENTIALS, or give --nats, for example nats://127.0.0.1:4222",
    "start job_queue --nats localhost:4222": "give one like nats://127.0.0.1:4222",
    "start job_queue --nats nats://host:port": "give one like nats://127.0.0.1:4222",
    "start job_queue --fleet nowhere.yaml": "nowhere.yaml: no such file or directory; see that it is there",
    "start job_queue --directory": "parameter --directory requires an argument",
    "scenario run nowhere": "there is no scenario `nowhere`; there are agents_come_and_go, ",
    "scenario run quite_day": "there is no scenario `quite_day` (did you mean `quiet_day`?); there are ",
    "scenario run nowhere.yaml": "nowhere.yaml: there is no such file",
    "scenario run lossy_hour --seed x": "Invalid value for --seed",
    "scenario run lossy_hour --world moon": 'Invalid value "moon" for --world. Choose from: "simulated", "processes"',
    "scenario swarm --seeds 0": "--seeds and --minutes are more than 0, --first-seed is not less, --workers is 1 to 256",
    "scenario swarm --first-seed -1": "--seeds and --minutes are more than 0, --first-seed is not less, --workers is 1 to 256",
    "scenario swarm --workers 0": "--seeds and --minutes are more than 0, --first-seed is not less, --workers is 1 to 256",
    "scenario swarm --minutes nan": "--seeds and --minutes are more than 0, --first-seed is not less, --workers is 1 to 256",
    "scenario swarm --seeds many": "Invalid value for --seeds",
    "verify nowhere": "nowhere is not there; name a log's file, or the directory that a keeper was started with",
    f"verify {HOUSE / 'core'}": "has no logs in it; name the directory that a keeper was started with",
    f"verify {HOUSE / 'pyproject.toml'}": "pyproject.toml is no log; a log's file ends in .sqlite",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistake_is_one_sentence(words: str, capsys: Captured) -> None:
    """On standard error, with an exit code that is not zero, and as JSON if JSON was asked for."""
    assert main(words.split()) in {1, 2}
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n"))
    assert err.startswith("mizzen: ")
    assert MISTAKES[words] in err
    assert main([*words.split(), "--json"]) in {1, 2}
    out, err = capsys.readouterr()
    assert "" == out
    assert ["error"] == list(json.loads(err))


@pytest.mark.parametrize("url", ["plane", "http://127.0.0.1:4222", "nats://", "nats://127.0.0.1:99999"])
def test_address_that_is_none(url: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is called so, and not a plane that does not answer; what it is stays unsaid, for a password may be in it."""
    monkeypatch.setenv("MIZZEN_NATS_URL", url)
    assert 2 == main(["queue"])
    assert (
        "mizzen: the address in MIZZEN_NATS_URL cannot be used; give one like nats://127.0.0.1:4222\n"
        == capsys.readouterr().err
    )


def test_negative_value_is_its_options() -> None:
    """Written apart, too; what else begins with a hyphen, or is for somebody else, is left alone."""
    assert ["drain", "--deadline=-5m", "-w"] == with_negatives(["drain", "--deadline", "-5m", "-w"])
    for words in (["drain", "-5m"], ["drain", "--deadline=1", "-5m"], ["submit", "x", "--", "--lr", "-5"]):
        assert words == with_negatives(words)


def test_unknown_log_level_is_explained(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting can be a mistake too."""
    monkeypatch.setenv("MIZZEN_LOG", "loud")
    assert 1 == main(["scenario", "run", "lossy_hour"])
    assert (
        "mizzen: MIZZEN_LOG is 'loud'; set it to one of debug, info, warning, error\n"
        == capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("regions: {eu: {nodes: 1, gpu_type: H100, workers: 0}}", "`int` >= 1 - at `$.regions[...].workers`"),
        (
            "regions: {eu: {gpu_type: H100}}",
            "`nodes` and `gpu_type`, or `this_machine: true` - at `$.regions.eu`",
        ),
        ("regions: {eu: {this_machine: true, nodes: 3}}", "has emulated `nodes` - at `$.regions.eu`"),
        ("regions: {eu: {nodes: 1, gpu_typ: H100}}", "unknown field `gpu_typ`"),
        ("regions: {}", "length >= 1 - at `$.regions`"),
        ("regions: {e.u: {nodes: 1, gpu_type: H100}}", "matching regex"),
        ("regions: [", "while parsing"),
    ],
)
def test_mistake_in_a_fleet_file_is_named(text: str, said: str, tmp_path: Path, capsys: Captured) -> None:
    """With the file and the field."""
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    assert 1 == main(["start", "job_queue", "--fleet", str(path)])
    err = capsys.readouterr().err
    assert err.startswith(f"mizzen: {path}: ")
    assert said in err


def test_mistake_of_ours_shows_no_trace(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens, a person reads a sentence, and we read where it was."""
    monkeypatch.setattr("mizzen.commands.verify.tell_table", lambda *_: 1 // 0)
    monkeypatch.setattr("mizzen.commands.verify._files", lambda _: [])
    assert 1 == main(["verify", "."])
    assert "please report it: ZeroDivisionError: " in capsys.readouterr().err


# The commands.


def test_help_names_every_command(capsys: Captured) -> None:
    """And every role, where one is to be named."""
    assert 0 == main(["--help"])
    shown = capsys.readouterr().out
    assert [] == [name for name in ("scenario", "start", "verify", "version") if name not in shown]
    assert 0 == main(["start", "--help"])
    shown = capsys.readouterr().out
    assert [] == [role for role in ROLES if role not in shown]


def test_version_tells_its_build_and_libraries(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build is the one that is installed and that writes the facts; a configured server is told without its password."""
    assert 0 == main(["version", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert BUILD == importlib.metadata.version("mizzen") == found["mizzen"]
    assert sqlite3.sqlite_version == found["sqlite"]
    assert found["nats_server"].endswith("nats-server")
    assert [2] == [int(part) for part in found["nats_version"].split(".")[:1]]
    monkeypatch.setenv("MIZZEN_NATS_URL", "nats://user:secret@example.org:4222")
    assert 0 == main(["version"])
    shown = capsys.readouterr().out
    assert "nats server  example.org:4222, by MIZZEN_NATS_URL\n" in shown
    assert "secret" not in shown
    monkeypatch.delenv("MIZZEN_NATS_URL")
    monkeypatch.setenv("MIZZEN_NATS_SERVER", "/nowhere")
    assert 0 == main(["version"])
    assert "none: MIZZEN_NATS_SERVER names /nowhere" in capsys.readouterr().out


@pytest.mark.processes
def test_version_starts_at_once() -> None:
    """In 0.3 s, most of it Python's own start, because what only other commands need is not loaded."""
    listing = "import sys; from mizzen.cli import main; main(['version']); print(*sys.modules)"
    before = _children_seconds()
    done = subprocess.run(
        [sys.executable, "-c", listing], cwd=HOUSE, capture_output=True, text=True, check=True, timeout=30
    )
    # The processor's time, twice what is wanted: whoever else is at work here makes it longer.
    assert _children_seconds() - before < 0.6
    loaded = set(done.stdout.splitlines()[-1].split())
    assert set() == loaded & {"rich.table", "numpy", "structlog", "nats", "runtime.wiring", "yaml"}


def test_scenarios_are_listed(capsys: Captured) -> None:
    """The whole library, by the names under which its scenarios can be run, with what each must survive."""
    assert 0 == main(["scenario", "list"])
    shown = capsys.readouterr().out
    assert 0 == main(["scenario", "list", "--json"])
    listed = json.loads(capsys.readouterr().out)
    assert library() == [spec["name"] for spec in listed]
    assert [] == [spec["name"] for spec in listed if spec["name"] not in shown]
    (herd,) = [spec for spec in listed if spec["name"] == "thundering_herd"]
    assert ["submission_storm", "crash_each"] == herd["faults"]
    assert herd["survives"] == load_scenario("thundering_herd").survives.strip()


def test_scenario_run_tells_its_outcome(tmp_path: Path, capsys: Captured) -> None:
    """The same digest for the same seed, in the table and in JSON; log lines only if they are asked for."""
    path = tmp_path / "tiny.yaml"
    path.write_text(SCENARIO)
    assert 0 == main(["scenario", "run", str(path), "--seed", "3", "--json"])
    out, err = capsys.readouterr()
    outcome = json.loads(out)
    assert "" == err
    assert (True, [], [], 3) == tuple(outcome[key] for key in ("is_good", "violations", "problems", "seed"))
    assert 3 == outcome["figures"]["submitted"]
    assert 0.0 < outcome["goodput_ratio"] <= 1.0
    assert outcome["gpu_seconds_lost"] == outcome["figures"]["gpu_seconds_lost"]
    assert [("submitted == 3", 3.0, True), ("kills == 0", 0.0, True)] == [
        (met["expectation"], met["value"], met["is_met"]) for met in outcome["expectations"]
    ]
    assert 0 == main(["scenario", "run", str(path), "--seed", "3"])
    shown = capsys.readouterr().out
    assert outcome["digest"] in shown
    assert "tiny, seed 3, simulated" in shown
    assert "met: submitted == 3, it is 3" in shown
    assert 0 == main(["scenario", "run", str(path), "--seed", "4", "--json"])
    assert outcome["digest"] != json.loads(capsys.readouterr().out)["digest"]


def test_scenario_that_is_not_good_fails(tmp_path: Path, capsys: Captured) -> None:
    """With exit code 1, and with what was wrong."""
    path = tmp_path / "hasty.yaml"
    path.write_text(
        SCENARIO.replace("minutes: 60", "minutes: 0.1").replace("minutes_median: 1", "minutes_median: 100")
        .replace("minutes_max: 5", "minutes_max: 600").replace("hours: 0.1", "hours: 0.001")
    )  # fmt: skip
    assert 1 == main(["scenario", "run", str(path)])
    assert "at the end" in capsys.readouterr().out


def test_expectation_that_is_missed_fails(tmp_path: Path, capsys: Captured) -> None:
    """With exit code 1, and with the value beside what was expected."""
    path = tmp_path / "ambitious.yaml"
    path.write_text(SCENARIO.replace("submitted == 3", "submitted >= 4"))
    assert 1 == main(["scenario", "run", str(path)])
    assert "MISSED: submitted >= 4, it is 3" in capsys.readouterr().out


def test_mistake_in_a_scenario_is_named(tmp_path: Path, capsys: Captured) -> None:
    """With the file, the line and the field."""
    path = tmp_path / "mistaken.yaml"
    path.write_text(SCENARIO + "faults:\n  - crahs: {}\n")
    assert 1 == main(["scenario", "run", str(path)])
    err = capsys.readouterr().err
    assert err.startswith(f"mizzen: {path}:9:5: faults[0].crahs: ")
    assert "there is no fault `crahs` (did you mean `crash`?)" in err


@pytest.mark.processes
def test_swarm_tells_its_outcome(capsys: Captured) -> None:
    """Every seed that was asked for was played, and none failed."""
    words = ["scenario", "swarm", "--first-seed", "1", "--seeds", "3", "--no-shrink"]
    assert 0 == main([*words, "--json"])
    out, err = capsys.readouterr()
    swarm = json.loads(out)
    assert ("", 3, []) == (err, swarm["seeds"], swarm["failed"])
    assert swarm["seconds"] > 0
    assert swarm["facts"] > 100
    assert swarm["mix"]["workloads"] == mix_of(range(1, 4)).workloads


def test_whole_logs_verify(logs: Path, capsys: Captured) -> None:
    """One by its file, or all of a directory, also beside a keeper."""
    assert 0 == main(["verify", str(logs), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [("global", FACTS, 0), ("region.eu", FACTS, 0)] == [
        (one["log"], one["facts"], one["broken_at"]) for one in found
    ]
    assert 0 == main(["verify", str(logs / "region.eu.sqlite")])
    shown = capsys.readouterr().out
    assert "region.eu" in shown
    assert "global" not in shown


def test_flipped_byte_is_found_and_named(logs: Path, capsys: Captured) -> None:
    """The log, the first fact that does not follow, what to do, and exit code 1; the other logs are checked all the same."""
    path = logs / "global.sqlite"
    data = bytearray(path.read_bytes())
    place = data.index(b"r30")
    data[place] ^= 1
    path.write_bytes(data)
    assert 1 == main(["verify", str(logs)])
    out, err = capsys.readouterr()
    assert "broken at 30" in out
    assert "whole" in out
    assert err.startswith("mizzen: log global: at sequence 30: ")
    assert "put back a copy of global.sqlite" in err
    assert 1 == main(["verify", str(path), "--json"])
    assert 30 == json.loads(capsys.readouterr().out)[0]["broken_at"]


def test_file_that_is_no_log_is_found(logs: Path, capsys: Captured) -> None:
    """Another file under a log's name, and one cut short."""
    shutil.copy(HOUSE / "LICENSE", logs / "global.sqlite")
    whole = (logs / "region.eu.sqlite").read_bytes()
    (logs / "region.eu.sqlite").write_bytes(whole[: len(whole) // 2])
    assert 1 == main(["verify", str(logs)])
    out, err = capsys.readouterr()
    assert 2 == err.count("mizzen: log ")
    assert "whole" not in out


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
