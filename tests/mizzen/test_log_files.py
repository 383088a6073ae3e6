"""The commands that read a log's file, with no plane anywhere: log, replay, state."""

import asyncio
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core.events.moves import MovePlanned
from core.events.queue import RegionAdded, WorkloadAwarded, WorkloadBound, WorkloadCancelled
from core.events.region import AttemptEnded, GangStarted
from core.events.sharing import RoundBegun
from core.fact import Event
from core.images import Image, empty_image
from core.nouns.ids import GLOBAL_LOG, DatasetName, LogName, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.moving import MoveCost
from core.nouns.workload import EndCause, Kind
from mizzen.cli import main
from runtime.images import load_image
from store.port import Snapshot
from store.rows import facts_of, row_of
from store.sqlite import SqliteStore, facts_in
from tests.builders import (
    EU,
    EU_LOG,
    a_claim,
    a_fact,
    a_job,
    a_spec,
    a_spread,
    attempt,
    granted,
    joined,
    opened,
    submitted,
)

Captured = pytest.CaptureFixture[str]
W1 = WorkloadId("w-1")

QUEUE: tuple[Event, ...] = (
    opened(),
    RegionAdded(EU),
    *(submitted(number, a_spec(name=f"n{number}")) for number in range(1, 61)),
    WorkloadAwarded(W1, 1, EU, 0, ()),
    WorkloadBound(W1, 1, EU, 4),
)
REGION: tuple[Event, ...] = (
    opened(),
    joined("w0", 0, 4),
    granted(a_claim(placed={2: 1}, award_sequence=63)),
    GangStarted(*attempt()),
)


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A queue's and a region's, let go of by their keepers."""
    for name in ("MIZZEN_NATS_URL", "MIZZEN_LOG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "logs"
    write(directory, GLOBAL_LOG, QUEUE)
    write(directory, EU_LOG, REGION)
    return directory


def write(
    directory: Path, log: LogName, events: tuple[Event, ...], seconds: Sequence[int] | None = None
) -> None:
    """A whole log; all at one time, unless it is said at which."""
    facts = [a_fact(event, number, log=log) for number, event in enumerate(events, 1)]
    if seconds is not None:
        facts = [
            replace(fact, at=Instant(fact.at + second * SECOND))
            for fact, second in zip(facts, seconds, strict=True)
        ]

    async def fill() -> None:
        keeper = await SqliteStore(directory).open(log, "id")
        await keeper.append([row_of(fact) for fact in facts], 1)
        await keeper.close()

    asyncio.run(fill())


def folded(log: LogName, events: tuple[Event, ...]) -> Image:
    """What these come to."""
    image = empty_image(log)
    for number, event in enumerate(events, 1):
        image.fold(a_fact(event, number, log=log))
    return image


def ask(capsys: Captured, *words: str, exit_code: int = 0) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert exit_code == main(list(words)), capsys.readouterr().err
    return capsys.readouterr().out


def ask_json(capsys: Captured, *words: str, exit_code: int = 0) -> Any:  # Any: whatever JSON can hold
    """The same, as JSON."""
    return json.loads(ask(capsys, *words, "--json", exit_code=exit_code))


# Report.


def test_report_is_of_the_logs_alone(logs: Path, tmp_path: Path, capsys: Captured) -> None:
    """M40: an hour of a plane that has stopped: half of it one node of four was held, and work waited a minute for that."""
    queue = [
        (0, opened()),
        (0, submitted()),
        (60, WorkloadAwarded(W1, 1, EU, 0, ())),
        (60, WorkloadBound(W1, 1, EU, 4)),
    ]
    region = [
        (0, opened()),
        (0, joined("w0", 0, 4)),
        (60, granted(a_claim(placed={2: 8}, award_sequence=3))),
        (60, GangStarted(*attempt())),
        (1_860, AttemptEnded(*attempt(), EndCause.COMPLETED)),
        (3_600, opened(2)),
    ]
    directory = tmp_path / "stopped"
    for log, story in ((GLOBAL_LOG, queue), (EU_LOG, region)):
        write(directory, log, tuple(event for _, event in story), [second for second, _ in story])
    found = ask_json(capsys, "report", str(directory))
    assert [0.125, 0.125, 1] == pytest.approx(
        [found[name] for name in ("allocation_mean", "useful_rate", "within_quota_p95_minutes")], rel=0.05
    )
    assert "0.12" in ask(capsys, "report", str(directory))
    later = ask_json(capsys, "report", str(directory), "--skip", "0.5")
    assert 60 / 1_800 / 4 == pytest.approx(later["allocation_mean"], rel=0.1)
    assert "within_quota_p95_minutes" not in later
    write(tmp_path / "empty", GLOBAL_LOG, ())
    assert 1 == main(["report", str(tmp_path / "empty")])
    assert "are empty" in capsys.readouterr().err


# Log.


def test_log_tells_the_newest(logs: Path, capsys: Captured) -> None:
    """Fifty facts, unless somebody says where to begin or how many."""
    path = str(logs / "global.sqlite")

    def sequences(*words: str) -> list[int]:
        return [int(line.split()[0]) for line in ask(capsys, "log", path, *words).splitlines()]

    assert list(range(15, 65)) == sequences()
    assert [63, 64] == sequences("--count", "2")
    assert [7, 8, 9] == sequences("--first", "7", "--count", "3")
    assert list(range(7, 65)) == sequences("--first", "7")
    assert [3, 63, 64] == sequences("--about", "w-1")
    assert [63] == sequences("--about", "w-1", "--first", "4", "--count", "1")
    assert [] == sequences("--about", "nobody")
    assert [] == sequences("--first", "65")


def test_log_line(logs: Path, capsys: Captured) -> None:
    """Sequence, time, actor, type, what it is about, and the rest without what says nothing."""
    (line,) = ask(capsys, "log", str(logs / "global.sqlite"), "--first", "63", "--count", "1").splitlines()
    assert [
        "63",
        "1970-01-01T00:17:43.000Z",
        "actor",
        "workload-awarded",
        "w-1",
        "epoch=1",
        "region=eu",
        "rank=0",
    ] == (line.split())
    (line,) = ask(capsys, "log", str(logs / "global.sqlite"), "--first", "3", "--count", "1").splitlines()
    assert 'spec={"name":"n1","jobs":[{"name":"main","tasks":1,"need":{"gpu_milli":1000}' in line
    assert '"regions"' not in line
    fact = ask_json(capsys, "log", str(logs / "region.eu.sqlite"), "--first", "3", "--count", "1")
    assert ("region.eu", 3, "claim-granted", "w-1", "cause", "actor") == tuple(
        fact[name] for name in ("log", "sequence", "type", "about", "cause", "actor")
    )
    assert [2] == fact["event"]["claim"]["spreads"][0]["nodes"]
    assert "type" not in fact["event"]


# Replay.


@pytest.mark.parametrize(("log", "events"), [(GLOBAL_LOG, QUEUE), (EU_LOG, REGION)])
def test_replay_is_the_fold(logs: Path, log: LogName, events: tuple[Event, ...], capsys: Captured) -> None:
    """To the end and to any sequence before it."""
    path = str(logs / f"{log}.sqlite")
    for until in (1, 3, len(events)):
        told = ask_json(capsys, "replay", path, "--until", str(until), "--check")
        assert (log, until, folded(log, events[:until]).digest(), []) == (
            told["log"],
            told["sequence"],
            told["digest"],
            told["violations"],
        )
    assert f"{folded(log, events).digest()}\n" == ask(capsys, "replay", path, "--digest")
    lines = dict(line.split() for line in ask(capsys, "replay", path).splitlines())
    assert (log, str(len(events)), folded(log, events).digest()) == (
        lines["log"],
        lines["sequence"],
        lines["digest"],
    )
    assert int(lines["facts/s"]) > 0


def test_replay_finds_violations(logs: Path, tmp_path: Path, capsys: Captured) -> None:
    """Each with its sequence and its rule, and exit code 1; only if it was asked to look."""
    broken = tmp_path / "broken"
    write(broken, EU_LOG, (*REGION, granted(a_claim(epoch=2, placed={2: 9}, award_sequence=63))))
    write(broken, GLOBAL_LOG, (*QUEUE, WorkloadCancelled(W1), WorkloadBound(W1, 1, EU, 4)))
    path = str(broken / "region.eu.sqlite")
    told = ask_json(capsys, "replay", path, "--check", exit_code=1)
    assert {5} == {one["sequence"] for one in told["violations"]}
    assert {1} == {one["rule"] for one in told["violations"]}
    assert "granted without room on node 2" in told["violations"][0]["text"]
    capsys.readouterr()
    assert 1 == main(["replay", path, "--check", "--digest"])
    out, err = capsys.readouterr()
    assert (
        folded(EU_LOG, (*REGION, granted(a_claim(epoch=2, placed={2: 9}, award_sequence=63)))).digest()
        == out.strip()
    )
    assert err.startswith("5: rule 1: w-1.2: granted without room on node 2\n")
    assert err.splitlines()[-1].startswith("mizzen: ")
    assert "digest" in ask(capsys, "replay", path)
    told = ask_json(capsys, "replay", str(broken / "global.sqlite"), "--check", exit_code=1)
    assert (66, 3, "w-1: WorkloadBound after CANCELLED") == tuple(told["violations"][0].values())


def test_replay_checks_all_that_one_log_shows(tmp_path: Path, capsys: Captured) -> None:
    """As the auditor checks it; what rests on other logs is the auditor's alone."""
    needy = (
        submitted(61, a_spec(data=[DatasetName("clicks")])),
        WorkloadAwarded(WorkloadId("w-61"), 1, EU, 0, ()),
    )
    planned = MovePlanned(W1, 1, 2, EU, MoveCost(seconds(1), seconds(1), 1))
    begun = RoundBegun(1, (), {}, (W1,), seconds(60))
    write(tmp_path, GLOBAL_LOG, (*QUEUE, *needy, planned, begun))
    told = ask_json(capsys, "replay", str(tmp_path / "global.sqlite"), "--check", exit_code=1)
    assert [(66, 2), (67, 3), (68, 4)] == [(one["sequence"], one["rule"]) for one in told["violations"]]
    parts = a_claim("w-2", jobs=(a_job(1, 8.6),), spreads=(a_spread({0: 1}),), award_sequence=64)
    write(tmp_path, EU_LOG, (*REGION, granted(parts)))
    told = ask_json(capsys, "replay", str(tmp_path / "region.eu.sqlite"), "--check", exit_code=1)
    assert any("shared ones are held, which it has not" in one["text"] for one in told["violations"])
    other = tmp_path / "other"
    write(other, EU_LOG, (*REGION, granted(replace(parts, kind=Kind.SHARED))))
    told = ask_json(capsys, "replay", str(other / "region.eu.sqlite"), "--check", exit_code=1)
    assert any(
        "shared work is placed on nodes of the pool training" in one["text"] for one in told["violations"]
    )


# State.


def test_state_is_the_image(logs: Path, capsys: Captured) -> None:
    """At the head and at any sequence, in whole, by section, or of one thing."""
    path = str(logs / "global.sqlite")
    told = ask_json(capsys, "state", path)
    assert (64, 60) == (told["sequence"], told["sections"]["workloads"]["submitted"])
    early = ask_json(capsys, "state", path, "--at", "7", "--section", "workloads")
    assert (7, ["workloads"], 5) == (
        early["sequence"],
        list(early["sections"]),
        len(early["sections"]["workloads"]["rows"]),
    )
    one = ask_json(capsys, "state", path, "w-1", "--at", "63")["sections"]
    assert ({"workloads", "awards", "usage", "history"}, "AWARDED") == (
        set(one),
        one["workloads"]["rows"]["phase"],
    )
    assert {"sequences": 4} == ask_json(capsys, "state", path, "eu")["sections"]["regions"]
    region = str(logs / "region.eu.sqlite")
    node = ask_json(capsys, "state", region, "2")["sections"]["capacity"]["node"]
    assert ("H100", "w0", 1_000, 7_000) == (
        node["node_type"],
        node["worker"],
        node["gpu"]["held"],
        node["gpu"]["free"],
    )
    assert node == ask_json(capsys, "state", region, "eu-2")["sections"]["capacity"]["node"]
    assert ask(capsys, "state", region, "w0").startswith("{\n")


@pytest.mark.parametrize("is_readable", [True, False], ids=["of this build", "of another build"])
def test_state_begins_with_a_snapshot(logs: Path, capsys: Captured, is_readable: bool) -> None:
    """If it is not beyond the sequence that is asked for, and can be read; what comes out is the same."""

    async def keep() -> None:
        reader = await SqliteStore(logs).reader(GLOBAL_LOG)
        image = folded(GLOBAL_LOG, QUEUE[:30])
        head = (await load_image(reader, GLOBAL_LOG))[1]
        rows = (await reader.read(30, 1, 1)).rows
        assert 30 == facts_of(GLOBAL_LOG, rows)[0].sequence
        page = await reader.read(31, 1, 1)
        at = type(head)(GLOBAL_LOG, head.log_id, head.term, 30, page.hash_before)
        await reader.keep_snapshot(Snapshot(at, image.encode() if is_readable else b"\x00"))
        await reader.close()

    asyncio.run(keep())
    path = str(logs / "global.sqlite")
    for at in (10, 30, 40, 64):
        found = ask_json(capsys, "state", path, "--at", str(at), "--section", "workloads")["sections"][
            "workloads"
        ]
        assert min(60, at - 2) == len(found["rows"])


# Names and mistakes.


def test_log_of_a_plane_that_has_stopped(
    logs: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its logs are found by name from its folder and from those below."""
    shutil.copytree(logs, tmp_path / ".mizzen")
    below = tmp_path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    digest = folded(EU_LOG, REGION).digest()
    assert f"{digest}\n" == ask(capsys, "replay", "region.eu", "--digest")
    assert 64 == ask_json(capsys, "state", "global")["sequence"]


MISTAKES = {
    "replay global": "no file of a log global is found from here; name its path, which ends in .sqlite",
    "replay nowhere.sqlite": "nowhere.sqlite is not there; name a log's file, which ends in .sqlite",
    "report logs/none": "has no log of a queue in it",
    "report logs/global.sqlite": "has no log of a queue in it",
    "report logs --skip -1": "Must be >= 0",
    "log ./logs": "logs is no log; a log's file ends in .sqlite",
    "state global": "there is no plane here",
    "replay logs/global.sqlite --until 65": "has 64 facts, and not 65; ask for one of those",
    "replay logs/global.sqlite --until -1": "--until is a fact's sequence, and those begin at 1",
    "state logs/global.sqlite --at 65": "has 64 facts, and not 65",
    "state logs/global.sqlite --at -1": "--at is a fact's sequence, and those begin at 1",
    "state logs/global.sqlite --section x": "log global has no section x; it has workloads, awards, regions",
    "state logs/global.sqlite w-99": "the image of global at 64 has nothing of w-99; `mizzen log global --about w-99` may",
    "state logs/region.eu.sqlite 7": "has nothing of 7",
    "log logs/global.sqlite --count -1": "Must be >= 0",
    "log": "parameter LOG requires an argument",
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistake_is_one_sentence(words: str, logs: Path, capsys: Captured) -> None:
    """Also as JSON."""
    assert main(words.split()) in {1, 2}
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n")), err
    assert MISTAKES[words] in err
    assert main([*words.split(), "--json"]) in {1, 2}
    assert MISTAKES[words] in json.loads(capsys.readouterr().err)["error"]


def test_damaged_log(logs: Path, capsys: Captured) -> None:
    """The sequence is named, whichever command meets it."""
    path = logs / "global.sqlite"
    data = bytearray(path.read_bytes())
    data[data.index(b"n30")] ^= 1
    path.write_bytes(data)
    for words in ("log {} --first 30 --count 10", "replay {}", "state {}", "log {} --about w-30"):
        capsys.readouterr()
        assert 1 == main(words.format(path).split())
        assert "log global: at sequence 32: " in capsys.readouterr().err
    assert 10 == len(ask(capsys, "log", str(path), "--first", "40", "--count", "10").splitlines())


def test_log_without_facts(logs: Path, capsys: Captured) -> None:
    """It has been made, and nothing was said yet."""
    write(logs, LogName("region.us"), ())
    path = logs / "region.us.sqlite"
    assert 1 == main(["log", str(path)])
    assert "mizzen: log region.us has no facts yet\n" == capsys.readouterr().err
    assert 0 == ask_json(capsys, "replay", str(path))["sequence"]


def test_log_under_another_name(logs: Path, capsys: Captured) -> None:
    """Its facts can be told; what they come to cannot, for nobody knows whose they are."""
    path = shutil.copy(logs / "global.sqlite", logs / "backup.sqlite")
    assert 64 == len(ask(capsys, "log", str(path), "--first", "1").splitlines())
    for words in ("replay", "state"):
        assert 1 == main([words, str(path)])
        assert "so it cannot be told whose log it is" in capsys.readouterr().err


def test_end_of_an_attempt_leaves_the_ledger_whole(logs: Path, capsys: Captured) -> None:
    """What a check looks at once all facts are folded."""
    write(logs, LogName("region.us"), (*REGION, AttemptEnded(*attempt(), EndCause.COMPLETED, 0, 1_000)))
    assert [] == ask_json(capsys, "replay", str(logs / "region.us.sqlite"), "--check")["violations"]
    assert 5 == len(list(facts_in(logs, LogName("region.us"))))
