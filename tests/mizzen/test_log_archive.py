"""`mizzen log archive`, and that every command reads what it moved."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.images import empty_image
from core.images.versions import VERSIONS
from core.nouns.ids import GLOBAL_LOG, LogName
from mizzen.actions.log_archive import keep_from
from mizzen.cli import main
from mizzen.terminal.output import CommandError
from store.port import Snapshot
from store.rows import row_of
from store.sqlite import SqliteLog, SqliteStore, facts_in
from tests.builders import EU_LOG
from tests.core.histories import QueueHistory, RegionHistory

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A queue's and a region's, drawn, years old, each with a snapshot of a fact near its end."""
    for name in ("MIZZEN_NATS_URL", "MIZZEN_LOG", "MIZZEN_KEEP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("store.archiving.FACTS_MAX", 50)
    directory = tmp_path / ".mizzen"
    for log, facts in ((GLOBAL_LOG, QueueHistory(1).draw(200)), (EU_LOG, RegionHistory(1).draw(200))):

        async def fill(log: LogName = log, facts: Any = facts) -> None:  # Any: facts
            store, image = SqliteStore(directory), empty_image(log)
            keeper, reader = await store.open(log, "id"), await store.reader(log)
            for fact in facts[:-20]:
                image.fold(fact)
            rows = [row_of(fact) for fact in facts]
            await reader.keep_snapshot(
                Snapshot(await keeper.append(rows[:-20], 1), image.encode(), VERSIONS.made_of)
            )
            await keeper.append(rows[-20:], 1)
            await reader.close()
            await keeper.close()

        asyncio.run(fill())
    return directory


def ask(capsys: Captured, *words: str, exit_code: int = 0) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert exit_code == main(list(words)), capsys.readouterr().err
    return capsys.readouterr().out


def all_told(capsys: Captured, path: Path) -> list[str]:
    """What commands tell of a log, without how long that took."""
    log = str(path)
    told = [
        ask(capsys, "log", log, "--first", "1", "--json"),
        ask(capsys, "log", log, "--first", "90", "--count", "70"),
        ask(capsys, "log", log, "--about", "w-3"),
        ask(capsys, "replay", log, "--digest"),
        ask(capsys, "replay", log, "--digest", "--until", "77"),
        ask(capsys, "state", log),
        ask(capsys, "state", log, "--at", "40"),
        ask(capsys, "verify", log, "--json"),
    ]
    if path.name == "global.sqlite":
        told.append(ask(capsys, "report", str(path.parent), "--json"))
    return told


@pytest.mark.parametrize("name", ["global", "region.eu"])
def test_every_command_reads_what_was_archived(logs: Path, capsys: Captured, name: str) -> None:
    """They tell the same before and after, to the byte, and what was done is said."""
    path = logs / f"{name}.sqlite"
    before = all_told(capsys, path)
    count = json.loads(before[7])[0]["facts"]
    last = count - 21
    told = ask(capsys, "log", "archive", name, "--keep", "30d")
    files = sorted(file.name.split(".")[0] for file in (logs / f"{name}.archive").glob("*.facts"))
    assert ["1-50", "101-150" if last > 150 else f"101-{last}"] == files[:2]
    assert (
        f"facts 1 to {last} of {name} are in {len(files)} files (0.0 MB) of {logs}/{name}.archive\n" in told
    )
    assert f"{name}.sqlite had 0." in told
    assert before == all_told(capsys, path)
    again = json.loads(ask(capsys, "log", "archive", str(path), "--json"))
    assert (0, False) == (again["files"], again["is_kept"])
    assert f"before its oldest snapshot ({count - 20})" in again["why_none"]


def test_damaged_archive_is_told(logs: Path, capsys: Captured) -> None:
    """`verify` names the file and what to do, and goes on with other logs; who reads past it is told the same."""
    ask(capsys, "log", "archive", "global", "--keep", "30d")
    (file,) = (logs / "global.archive").glob("51-100.*")
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    capsys.readouterr()
    assert 1 == main(["verify", str(logs)])
    out, err = capsys.readouterr()
    assert "broken at 51" in out
    assert "whole" in out
    assert f"mizzen: log global: at sequence 51: archive file {file} is damaged" in err
    assert err.endswith("; put back a copy of that file\n")
    found = json.loads(ask(capsys, "verify", str(logs / "global.sqlite"), "--json", exit_code=1))
    assert str(file) == found[0]["archive"]
    for words in ("replay global", "state global --at 60", "log {}/global.sqlite --first 60", "report {}"):
        assert 1 == main(words.format(logs).split())
        assert "put back a copy of that file" in capsys.readouterr().err
    assert ask(capsys, "log", str(logs / "global.sqlite"), "--first", "101")
    assert ask(capsys, "state", "global")


@contextmanager
def kept(directory: Path) -> Iterator[SqliteLog]:
    """A keeper that has the queue's log open, in a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def opened() -> SqliteLog:
        return await SqliteStore(directory).open(GLOBAL_LOG, "id")

    log = asyncio.run_coroutine_threadsafe(opened(), loop).result()
    try:
        yield log
    finally:
        asyncio.run_coroutine_threadsafe(log.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_keeper_that_is_there_lets_go(logs: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes the files and waits until the keeper counts them; it never takes the log from it."""
    monkeypatch.setattr("store.sqlite_writer.LOOK_SECONDS", 0.01)
    before = [fact.sequence for fact in facts_in(logs, GLOBAL_LOG)]
    with kept(logs):
        told = ask(capsys, "log", "archive", "global", "--keep", "30d")
        assert "its keeper takes them out of global.sqlite, a little at a time" in told
        done = json.loads(ask(capsys, "log", "archive", "global", "--keep", "30d", "--json"))
        assert (0, True) == (done["files"], done["is_kept"])
        assert before == [fact.sequence for fact in facts_in(logs, GLOBAL_LOG)]
    assert "whole" in ask(capsys, "verify", str(logs))


def test_nothing_to_archive_is_told(logs: Path, capsys: Captured) -> None:
    """Why, and what would have to be otherwise; the log is as it was."""
    told = ask(capsys, "log", "archive", "global", "--keep", "36500d")
    assert "nothing of global was archived: it has no fact that is older" in told
    for image in logs.glob("global.*.image"):
        image.unlink()
    told = ask(capsys, "log", "archive", "global")
    assert "no snapshot of it is kept yet, and a start needs all of its facts" in told
    assert not (logs / "global.archive").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("log archive nowhere", "no file of a log nowhere is found from here"),
        ("log archive global --keep soon", "--keep is 'soon': "),
        ("log archive global --keep 0", "--keep is '0': facts are kept for a while; say how long, as in 90d"),
        ("log archive", "requires an argument"),
    ],
)
def test_mistake_is_one_sentence(logs: Path, capsys: Captured, words: str, said: str) -> None:
    """It says what was wrong."""
    assert main(words.split()) in {1, 2}
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n"))
    assert said in err


def test_how_long_facts_are_kept() -> None:
    """90 days unless the environment says otherwise; `never` archives nothing."""
    day = 86_400 * 10**9
    assert [90 * day, 30 * day, day // 2, 0] == [
        keep_from({"MIZZEN_KEEP": said} if said else {}) for said in ("", "30d", "12h", "never")
    ]
    for said in ("often", "0", "-3d"):
        with pytest.raises(CommandError, match="MIZZEN_KEEP is "):
            keep_from({"MIZZEN_KEEP": said})


@pytest.mark.parametrize("words", ["up --directory {}/plane", "start job_queue --directory {}/plane"])
def test_setting_that_is_no_span_is_told_at_once(
    logs: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Before anything is started."""
    monkeypatch.setenv("MIZZEN_KEEP", "often")
    assert 2 == main(words.format(logs.parent).split())
    assert "mizzen: MIZZEN_KEEP is 'often': " in capsys.readouterr().err
    assert not list((logs.parent / "plane").glob("*"))
