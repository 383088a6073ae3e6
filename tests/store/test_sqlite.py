"""What is peculiar to logs in SQLite files: other processes, damaged files, failing disks, threads."""

import asyncio
import contextlib
import resource
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from core.nouns.ids import LogName
from store import sqlite_file
from store.chain import GENESIS
from store.errors import AppendFailed, LogBroken, LogError, LogFromNewerBuild, LogInUse
from store.port import Row, Snapshot
from store.sqlite import SqliteLog, SqliteStore, facts_in

LOG = LogName("region.eu")
MUCH = 1 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The log's file."""
    return tmp_path / "region.eu.sqlite"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqliteLog]:
    """A new log, open."""
    opened = await SqliteStore(tmp_path).open(LOG, "id-1")
    yield opened
    await opened.close()


def rows(first: int, count: int, event: bytes = b"event") -> list[Row]:
    """So many rows in sequence."""
    return [
        Row(number, 1_000 + number, f"cause-{number}", "agent.eu", f"w-{number}", event)
        for number in range(first, first + count)
    ]


async def seen(directory: Path) -> list[Row]:
    """All that a fresh reader sees."""
    reader = await SqliteStore(directory).reader(LOG)
    try:
        return (await reader.read(1, MUCH, MUCH)).rows
    finally:
        await reader.close()


async def broken_at(directory: Path) -> int:
    """Where verifying finds the log broken."""
    reader = await SqliteStore(directory).reader(LOG)
    try:
        return (await reader.verify()).broken_at
    finally:
        await reader.close()


def change(path: Path, statement: str, *values: object) -> None:
    """Change the file behind the log's back."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, values)
        connection.commit()


# Other processes.


KEEPER = """
import asyncio, sys
from pathlib import Path
from store.errors import LogInUse
from store.sqlite import SqliteStore

async def main():
    try:
        log = await SqliteStore(Path(sys.argv[1])).open("region.eu", "id-2")
    except LogInUse:
        print("in use", flush=True)
        return
    print("open", log.head.sequence, flush=True)
    sys.stdin.read()

asyncio.run(main())
"""


@pytest.mark.processes
async def test_keeper_in_another_process_is_refused(tmp_path: Path, log: SqliteLog) -> None:
    """T35: the lock holds between processes, and goes with the one that had it, however it dies."""

    async def keeper() -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", KEEPER, str(tmp_path)),
            cwd=Path(__file__).parents[2],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )

    await log.append(rows(1, 2), 1)
    assert b"in use\n" == (await (await keeper()).communicate())[0]
    await log.close()
    other = await keeper()
    assert other.stdout is not None
    assert b"open 2\n" == await other.stdout.readline()
    with pytest.raises(LogInUse):
        await SqliteStore(tmp_path).open(LOG, "id-3")
    other.kill()
    await other.communicate()
    again = await SqliteStore(tmp_path).open(LOG, "id-3")
    assert "id-1" == again.head.log_id
    await again.close()


async def test_log_left_by_a_killed_keeper_can_be_read(tmp_path: Path, log: SqliteLog) -> None:
    """A reader needs no keeper, also where everything is still in the write-ahead log."""
    await log.append(rows(1, 2), 1)
    left = tmp_path / "left"
    left.mkdir()
    for suffix in (".sqlite", ".sqlite-wal"):
        name = f"{LOG}{suffix}"
        (left / name).write_bytes((tmp_path / name).read_bytes())
    assert rows(1, 2) == await seen(left)
    assert 0 == await broken_at(left)


async def test_reader_makes_nothing(tmp_path: Path) -> None:
    """Reading a log that is not there leaves no file behind."""
    assert [] == await seen(tmp_path / "nowhere")
    assert [] == await seen(tmp_path)
    assert [] == list(tmp_path.iterdir())


async def test_opening_again_writes_nothing(tmp_path: Path, log: SqliteLog) -> None:
    """So that a keeper on a full disk starts, is read and says why it accepts nothing."""
    await log.append(rows(1, 1), 1)
    reader = await SqliteStore(tmp_path).reader(LOG)
    await reader.head()  # The write-ahead log stays while somebody reads.
    await log.close()
    parts = [path for path in tmp_path.iterdir() if path.suffix in (".sqlite", ".sqlite-wal")]
    before = {path: path.read_bytes() for path in parts}
    again = await SqliteStore(tmp_path).open(LOG, "id")
    after = {path: path.read_bytes() for path in parts}
    await again.close()
    await reader.close()
    assert 2 == len(before)
    assert before == after


async def test_reader_in_the_middle_of_a_transaction_does_not_hinder(
    tmp_path: Path, path: Path, log: SqliteLog
) -> None:
    """Whoever holds a read transaction open sees the past, and the keeper goes on."""
    await log.append(rows(1, 2), 1)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN")
        assert (2,) == other.execute("SELECT count(*) FROM facts").fetchone()
        await log.append(rows(3, 2), 1)
        assert rows(1, 4) == await seen(tmp_path)
        assert (2,) == other.execute("SELECT count(*) FROM facts").fetchone()


async def test_closing_leaves_nothing_in_the_write_ahead_log(tmp_path: Path, log: SqliteLog) -> None:
    """A closed log is one file, which may be copied as it is."""
    await log.append(rows(1, 300), 1)
    await log.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [f"{LOG}.lock", f"{LOG}.sqlite"] == names


# Damage.


@pytest.mark.parametrize(
    "assignment",
    [
        "event = x'00'",
        "event = CAST(event AS TEXT)",
        "hash = randomblob(16)",
        "hash = CAST(hash AS TEXT)",
        "at = at + 1",
        "at = 'soon'",
        "cause = cause || ' '",
        "cause = CAST(x'ff' AS TEXT)",
        "actor = ''",
        "about = 'w-9999'",
        "sequence = 5000",
    ],
)
async def test_every_part_of_a_row_is_covered(
    tmp_path: Path, path: Path, log: SqliteLog, assignment: str
) -> None:
    """Whatever of a row changes, be it into another type or into no text at all, verifying names the row."""
    await log.append(rows(1, 4_100), 1)
    await log.close()
    change(path, f"UPDATE facts SET {assignment} WHERE sequence = 3001")
    assert 3_001 == await broken_at(tmp_path)
    with pytest.raises(LogBroken) as opened:
        await SqliteStore(tmp_path).open(LOG, "id-2")
    with pytest.raises(LogBroken) as replayed:
        list(_raw(path))
    reader = await SqliteStore(tmp_path).reader(LOG)
    with pytest.raises(LogBroken) as read:
        await reader.read(2_990, 20, MUCH)
    await reader.close()
    assert [3_001] * 3 == [opened.value.sequence, replayed.value.sequence, read.value.sequence]


def _raw(path: Path) -> Iterator[list[Row]]:
    with contextlib.closing(sqlite_file.connect_to_read(path)) as connection:
        yield from (page for page, _ in sqlite_file.checked_pages(connection, LOG, 1, GENESIS))


@pytest.mark.parametrize("missing", [1, 2, 2_000, 2_001, 3_000])
async def test_missing_row_is_named(tmp_path: Path, path: Path, log: SqliteLog, missing: int) -> None:
    """A row that is gone leaves a gap, whatever page it was on."""
    await log.append(rows(1, 3_001), 1)
    await log.close()
    change(path, "DELETE FROM facts WHERE sequence = ?", missing)
    assert missing == await broken_at(tmp_path)
    with pytest.raises(LogBroken) as opened:
        await SqliteStore(tmp_path).open(LOG, "id-2")
    assert missing == opened.value.sequence
    reader = await SqliteStore(tmp_path).reader(LOG)
    with pytest.raises(LogBroken) as read:
        await reader.read(missing + 1, 10, MUCH)
    assert missing == read.value.sequence
    await reader.close()


async def test_flipped_bytes_of_the_file_are_found(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """A disk rots bytes, not fields: wherever it strikes the facts' pages, some row is named or all rows are there."""
    written = rows(1, 300, event=b"e" * 40)
    await log.append(written, 1)
    await log.close()
    whole = path.read_bytes()
    page_bytes = 4096
    with contextlib.closing(sqlite3.connect(path)) as connection:
        pages = _pages_of_facts(connection, whole, page_bytes)
    found = 0
    for page in pages:
        for offset in range(0, page_bytes, 61):
            place = (page - 1) * page_bytes + offset
            path.write_bytes(whole[:place] + bytes((whole[place] ^ 0x41,)) + whole[place + 1 :])
            broken = await broken_at(tmp_path)
            if broken:
                found += 1
                assert 1 <= broken <= 301
            else:
                assert written == await seen(tmp_path), "it struck where nothing is"
    assert found > len(pages) * page_bytes // 61 // 2


def _pages_of_facts(connection: sqlite3.Connection, whole: bytes, page_bytes: int) -> list[int]:
    """The leaf pages of the table: those below its root."""
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'facts'").fetchone()
    leaves = []
    for page in range(2, len(whole) // page_bytes + 1):
        is_table_leaf = whole[(page - 1) * page_bytes] == 0x0D
        if is_table_leaf and b"agent.eu" in whole[(page - 1) * page_bytes : page * page_bytes]:
            leaves.append(page)
    assert root not in leaves
    return leaves


async def test_file_that_is_no_log_is_refused(tmp_path: Path, path: Path) -> None:
    """Something else under the log's name is never overwritten."""
    path.write_bytes(b"This is a letter. " * 1_000)
    with pytest.raises(LogBroken):
        await SqliteStore(tmp_path).open(LOG, "id-1")
    with pytest.raises(LogBroken):
        await seen(tmp_path)
    assert path.read_bytes().startswith(b"This is a letter.")


async def test_format_of_a_newer_build_is_refused(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """Tables that this build does not know are left alone, and the lock is let go."""
    await log.close()
    change(path, f"PRAGMA user_version = {sqlite_file.FORMAT + 1}")
    for _ in range(2):
        with pytest.raises(LogFromNewerBuild):
            await SqliteStore(tmp_path).open(LOG, "id-1")


async def test_directory_that_cannot_be(tmp_path: Path) -> None:
    """Where no log can be made, the error says so; nobody hangs."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises((LogError, OSError)):
        await SqliteStore(tmp_path / "file").open(LOG, "id-1")


# Failing disks.


@contextlib.contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """A disk that refuses writes, though not for lack of room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_failed_append_stops_the_log_until_it_is_reopened(tmp_path: Path, log: SqliteLog) -> None:
    """When a write fails nobody knows what is there: the log refuses all, until an opening has looked."""
    await log.append(rows(1, 3), 1)
    size = (tmp_path / f"{LOG}.sqlite-wal").stat().st_size
    with no_file_larger_than(size + 100), pytest.raises(AppendFailed):
        await log.append(rows(4, 3), 1)
    with pytest.raises(AppendFailed):
        await log.append(rows(4, 3), 1)
    with pytest.raises(AppendFailed):
        await log.append([], 1)
    await log.close()
    again = await SqliteStore(tmp_path).open(LOG, "id-2")
    assert again.head.sequence in {3, 6}
    await again.append(rows(again.head.sequence + 1, 1), 2)
    assert rows(1, again.head.sequence) == await seen(tmp_path)
    await again.close()


async def test_appends_called_together_fail_together(tmp_path: Path, log: SqliteLog) -> None:
    """Everybody who waited for the commit that failed, or for one after it, hears of it."""
    await log.append(rows(1, 3), 1)
    size = (tmp_path / f"{LOG}.sqlite-wal").stat().st_size
    with no_file_larger_than(size + 100):
        waiting = [log.append(rows(4 + number, 1), 1) for number in range(20)]
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert ["AppendFailed"] * 20 == [type(outcome).__name__ for outcome in outcomes]


# Threads.


async def test_cancelled_opening_lets_go(tmp_path: Path) -> None:
    """Whoever gives up while a log is opened leaves it to the next one."""
    before = threading.enumerate()
    opening = asyncio.get_running_loop().create_task(SqliteStore(tmp_path).open(LOG, "id-1"))
    await asyncio.sleep(0)
    (thread,) = [thread for thread in threading.enumerate() if thread not in before]
    opening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await opening
    await asyncio.to_thread(thread.join)
    again = await SqliteStore(tmp_path).open(LOG, "id-2")
    await again.append(rows(1, 1), 1)
    await again.close()


def test_loop_that_ends_first(tmp_path: Path) -> None:
    """A loop that is gone before its appends are told loses none that was handed in before the end."""

    async def leave() -> None:
        log = await SqliteStore(tmp_path).open(LOG, "id-1")
        asyncio.get_running_loop().create_task(log.append(rows(1, 3), 1))
        await asyncio.sleep(0)
        asyncio.get_running_loop().create_task(log.close())
        await asyncio.sleep(0)

    asyncio.run(leave())
    for thread in threading.enumerate():
        if thread.name == f"log {LOG}":
            thread.join()
    assert rows(1, 3) == asyncio.run(seen(tmp_path))


async def test_waiting_appends_share_commits(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """A thousand that wait at once cost a few commits, not a thousand."""
    commits = 0

    def count(statement: str) -> None:
        nonlocal commits
        commits += statement.startswith(("INSERT", "COMMIT"))

    await log.append(rows(1, 1), 1)
    log._writer._connection.set_trace_callback(count)
    await asyncio.gather(*[log.append(rows(2 + number, 1), 1) for number in range(1_000)])
    log._writer._connection.set_trace_callback(None)
    assert 1_001 == log.head.sequence
    assert commits < 50


async def test_write_ahead_log_stays_small(tmp_path: Path, log: SqliteLog) -> None:
    """It is moved into the file as it grows, beside a reader that reads all the time."""
    reader = await SqliteStore(tmp_path).reader(LOG)
    batch_rows = 2_000
    for number in range(15):
        await log.append(rows(1 + batch_rows * number, batch_rows, event=bytes(2_000)), 1)
        await reader.read(1, 100, MUCH)
    await reader.close()
    wal_bytes = (tmp_path / f"{LOG}.sqlite-wal").stat().st_size
    assert (tmp_path / f"{LOG}.sqlite").stat().st_size > 40_000_000
    assert wal_bytes < 2 * sqlite_file.CHECKPOINT_PAGES * 4_096


# Tools.


async def test_facts_in_reads_beside_the_keeper(tmp_path: Path, log: SqliteLog) -> None:
    """A tool gets facts, from any row on, while the keeper has the log."""
    event = b"\x83\xa4type\xacgang-started\xa8workload\xa3w-1\xa5epoch\x01"
    await log.append(rows(1, 4_500, event=event), 1)
    assert list(range(1, 4_501)) == [fact.sequence for fact in facts_in(tmp_path, LOG)]
    assert [4_499, 4_500] == [fact.sequence for fact in facts_in(tmp_path, LOG, first=4_499)]
    assert [] == list(facts_in(tmp_path, LOG, first=4_501))
    assert [] == list(facts_in(tmp_path, LOG, first=9_999))


async def test_snapshot_half_written_is_swept(tmp_path: Path, log: SqliteLog) -> None:
    """What a killed writer of snapshots left goes when it is older than all that are kept; others are left alone."""
    reader = await SqliteStore(tmp_path).reader(LOG)
    (tmp_path / f"{LOG}.3-abc.tmp").write_bytes(b"half")
    (tmp_path / f"{LOG}.40-abc.tmp").write_bytes(b"being written")
    for first in (1, 11, 21):
        head = await log.append(rows(first, 10), 1)
        await reader.keep_snapshot(Snapshot(head, b"image"))
    await reader.close()
    kept = sorted(path.name for path in tmp_path.iterdir() if ".sqlite" not in path.name)
    assert [f"{LOG}.20.image", f"{LOG}.30.image", f"{LOG}.40-abc.tmp", f"{LOG}.lock"] == kept
