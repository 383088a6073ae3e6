"""What may go wrong while a keeper deletes archived rows: it is told and tried again, and the keeper goes on."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from store import sqlite_file
from store.archive import directory_of
from store.errors import AppendFailed, LogError
from store.shedding import Shedding
from store.sqlite import SqliteLog, SqliteStore
from store.sqlite_writer import Append, Outcome
from tests.store.archived_logs import LOG, everything, fill, here, rows, verified, write_files

pytestmark = pytest.mark.usefixtures("small_files")

TOLD, OVER = "archived_facts_not_deleted", "archived_facts_deleted_again"
SECONDS = 5.0
"""Longer than any append takes."""


def failing(error: Exception) -> Callable[..., bool]:
    """A step that fails."""

    def fail(*_: object) -> bool:
        raise error

    return fail


def ill_disk(code: int = sqlite3.SQLITE_IOERR_READ) -> sqlite3.Error:
    """What SQLite raises when the system cannot read or write."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


async def append(log: SqliteLog, count: int = 1) -> None:
    """So many appends, each of which is answered."""
    for _ in range(count):
        async with asyncio.timeout(SECONDS):
            await log.append(rows(log.head.sequence + 1, 1), 1)


async def append_until(log: SqliteLog, is_so: Callable[[], bool]) -> None:
    """Go on appending until something is so."""
    async with asyncio.timeout(SECONDS):
        while not is_so():
            await append(log)
            await asyncio.sleep(0.002)


def waits_of_appends(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """For each group of appends from now on, PRAGMA synchronous and whether a transaction was open, as it began."""
    writer, waits = log._writer, []
    committed, connection = writer._committed, writer._connection

    def seen(group: list[Append]) -> list[Outcome]:
        (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        waits.append((synchronous, connection.in_transaction))
        return committed(group)

    monkeypatch.setattr(writer, "_committed", seen)
    return waits


def flip(file: Path, place: int = 40) -> None:
    """Damage a block of an archive file; what the file says of itself stays whole."""
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


@pytest.fixture
async def eager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteLog:
    """A log that is filled, whose keeper is always looking for archive files, and tries again soon."""
    for name in ("LOOK_SECONDS", "PAUSE_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(f"store.sqlite_writer.{name}", 0.005)
    log = await SqliteStore(tmp_path).open(LOG, "id-1")
    await fill(tmp_path, log)
    return log


@pytest.mark.parametrize(
    "error",
    [ill_disk(), ill_disk(sqlite3.SQLITE_IOERR_FSYNC), sqlite3.OperationalError("locked"), RuntimeError("x")],
    ids=["read", "sync", "lock", "mistake"],
)
async def test_keeper_outlives_a_disk_that_cannot_delete(
    tmp_path: Path, path: Path, eager: SqliteLog, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Appends go on, and wait for the disk as before; once the disk is well the rows go."""
    shedding = eager._writer._shedding
    delete, shedding._delete = shedding._delete, failing(error)  # type: ignore[method-assign]
    await append_until(eager, lambda: eager.not_archived >= 1)
    waits = waits_of_appends(eager, monkeypatch)
    await append_until(eager, lambda: eager.not_archived >= 4)
    assert set(waits) == {(2, False)}
    shedding._delete = delete  # type: ignore[method-assign]
    await write_files(tmp_path)
    await append_until(eager, lambda: here(path)[0] == 301)
    count = eager.head.sequence
    await eager.close()
    assert rows(1, count) == await everything(tmp_path)


async def test_append_after_a_lost_sync_depends_on_nothing_lost(
    path: Path, eager: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the system could not sync it may forget, so the write-ahead log begins anew; while it cannot, no append succeeds."""
    shedding = eager._writer._shedding
    lost = ill_disk(sqlite3.SQLITE_IOERR_FSYNC)
    monkeypatch.setattr("store.sqlite_writer.RETRY_SECONDS", 60.0)
    shedding._delete = failing(lost)  # type: ignore[method-assign]
    while not eager.not_archived:
        await asyncio.sleep(0.002)
    assert 0 == Path(f"{path}-wal").stat().st_size
    await append(eager)
    eager._writer._connection.execute("PRAGMA busy_timeout = 0")
    reader = sqlite3.connect(path, isolation_level=None)
    try:
        reader.execute("BEGIN")
        assert (451,) == reader.execute("SELECT count(*) FROM facts").fetchone()
        with pytest.raises(AppendFailed):
            await eager.shed()
        with pytest.raises(AppendFailed):
            await append(eager)
    finally:
        reader.close()
        await eager.close()


async def test_failing_step_is_not_tried_at_once(tmp_path: Path, eager: SqliteLog) -> None:
    """After a pause only: whatever is wrong with the disk is not made worse."""
    await eager.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("store.sqlite_writer.RETRY_SECONDS", 60.0)
        log = await SqliteStore(tmp_path).open(LOG, "id-1")
        log._writer._shedding._delete = failing(ill_disk())  # type: ignore[method-assign]
        for _ in range(30):
            await append(log)
            await asyncio.sleep(0.005)
        assert 1 == log.not_archived
        await log.close()


async def test_failures_are_told_once_each(tmp_path: Path, eager: SqliteLog) -> None:
    """A line when deleting begins to fail, one when it fails otherwise, and one when it works again; each try is counted."""
    shedding = eager._writer._shedding
    delete = shedding._delete
    with capture_logs() as lines:
        for error in (ill_disk(), sqlite3.DatabaseError("malformed")):
            count = eager.not_archived
            if not isinstance(error, sqlite3.OperationalError):
                error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            shedding._delete = failing(error)  # type: ignore[method-assign]
            await append_until(eager, lambda count=count: eager.not_archived >= count + 4)  # type: ignore[misc]
        shedding._delete = delete  # type: ignore[method-assign]
        await append_until(eager, lambda: lines[-1]["event"] == OVER)
        await append(eager, 20)
    await eager.close()
    assert [("error", TOLD), ("error", TOLD), ("info", OVER)] == [
        (line["log_level"], line["event"]) for line in lines
    ]
    assert [True, True] == [
        word in line["error"] for word, line in zip(("I/O", "malformed"), lines, strict=False)
    ]
    assert {LOG} == {line["log"] for line in lines}


async def test_file_with_a_strange_name_stops_nothing(tmp_path: Path, path: Path, eager: SqliteLog) -> None:
    """A number that SQLite does not know is no sequence."""
    place = directory_of(tmp_path, LOG)
    place.mkdir()
    (place / "1-99999999999999999999.00.facts").write_bytes(b"")
    await append(eager, 5)
    await write_files(tmp_path)
    await append_until(eager, lambda: here(path)[0] == 301)
    assert 0 == eager.not_archived
    await eager.close()


async def test_directory_that_cannot_be_read_is_told(tmp_path: Path, eager: SqliteLog) -> None:
    """It is not taken for one without files."""
    directory_of(tmp_path, LOG).write_bytes(b"this is a file")
    with capture_logs() as lines:
        await append_until(eager, lambda: bool(lines))
    assert (TOLD, True) == (lines[0]["event"], "Not a directory" in lines[0]["error"])
    await eager.close()


async def test_mistake_in_the_thread_is_heard_by_all(tmp_path: Path, eager: SqliteLog) -> None:
    """Appends fail, those that wait and those to come, and the log closes: nobody waits for a thread that is no more."""
    eager._writer._numbered = failing(KeyError("mistake"))  # type: ignore[assignment, method-assign]
    waiting = (append(eager), append(eager), eager.shed())
    async with asyncio.timeout(SECONDS):
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [AppendFailed] * 3 == [type(outcome) for outcome in outcomes]
    with pytest.raises(AppendFailed, match="mistake"):
        await append(eager)
    with pytest.raises(AppendFailed, match="mistake"):
        await eager.shed()
    async with asyncio.timeout(SECONDS):
        await eager.close()
    again = await SqliteStore(tmp_path).open(LOG, "id-2")
    await append(again)
    await again.close()


async def test_nothing_is_deleted_for_a_damaged_file(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """Wherever it is damaged; the file is named, and written again by the process that archives, and then its rows go."""
    await fill(tmp_path, log)
    files = [Path(file) for file in await write_files(tmp_path)]
    whole = files[0].read_bytes()
    for place in range(20, len(whole), 101):
        flip(files[0], place)
        with pytest.raises(LogError, match=rf"stay in the log .*{files[0].name} is damaged"):
            await log.shed()
        assert 1 == here(path)[0], place
        files[0].write_bytes(whole)
    flip(files[0])
    assert [] != await write_files(tmp_path), "written again"
    assert whole == files[0].read_bytes()
    await log.shed()
    assert 301 == here(path)[0]
    assert (450, 0, "") == await verified(tmp_path)


async def test_damaged_file_beside_a_sound_one(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """Of two that begin at the same fact the sound one is taken."""
    await fill(tmp_path, log)
    (part,) = [Path(file) for file in await write_files(tmp_path, 1_051, is_whole=False)]  # type: ignore[arg-type]
    kept = part.read_bytes()
    part.unlink()
    await write_files(tmp_path)
    part.write_bytes(kept)
    (whole,) = directory_of(tmp_path, LOG).glob("1-100.*")
    flip(whole)
    await log.shed()
    assert 51 == here(path)[0]


async def test_file_is_durable_before_it_counts(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content, then its name, and then the row of the table: a power cut may come at any moment."""
    await fill(tmp_path, log)
    files = await write_files(tmp_path)
    sync, done = os.fsync, []

    def watched(descriptor: int) -> None:
        done.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    log._writer._connection.set_trace_callback(
        lambda statement: done.append("taken up") if "INTO archived" in statement else None
    )
    await log.shed()
    place = str(directory_of(tmp_path, LOG))
    assert [step for file in files for step in (file, place, "taken up")] == done


async def test_checking_is_done_in_parts(
    tmp_path: Path, path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step has an end after its two milliseconds, in the midst of a file, so that no append waits for a whole one."""
    monkeypatch.setattr("store.shedding.STEP_SECONDS", 0.0)
    await fill(tmp_path, log)
    await write_files(tmp_path)
    await log.close()
    with contextlib.closing(sqlite_file.connect_to_write(LOG, path, "id")) as connection:
        shedding, steps = Shedding(LOG, tmp_path, connection), 0
        while sqlite_file.border(connection)[0] == 0:
            assert shedding.step()
            steps += 1
    assert 7 + 256 + 1 == steps, "blocks, parts of the index, and what is left when all are checked"
