"""What is peculiar to the archive of a log in an SQLite file: its size, damage, older copies, older formats, kills."""

import asyncio
import contextlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from core.nouns.ids import LogName
from core.nouns.instant import Instant
from store import sqlite_file
from store.archive import directory_of
from store.archive_file import ArchiveFile, Block, Contents, Reading, Writing, range_of
from store.chain import GENESIS, Stored, chain
from store.errors import ArchiveInUse, LogBroken, LogError, LogFromNewerBuild, LogFull
from store.files import FileLock
from store.port import Row, Snapshot
from store.shedding import Shedding
from store.sqlite import SqliteLog, SqliteStore, facts_in
from tests.store.archived_logs import (
    LOG,
    MUCH,
    SMALL,
    STARTED,
    everything,
    fill,
    here,
    rows,
    verified,
    write_files,
)

pytestmark = pytest.mark.usefixtures("small_files")


# Size.


async def test_log_with_old_facts_shrinks(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """It does not grow for ever: what is archived leaves the file, and the file gives the room back; less than a tenth of it
    is in the archive.
    """
    written = await fill(tmp_path, log, 10_000, event=STARTED + bytes(200))
    await log.close()
    before = path.stat().st_size
    again = await SqliteStore(tmp_path).open(LOG, "id-2")
    files = await write_files(tmp_path)
    await again.shed()
    await again.close()
    assert path.stat().st_size < before / 20
    assert sum(Path(file).stat().st_size for file in files) < before / 10
    assert list(range(9_801, 10_001)) == here(path)
    assert written == await everything(tmp_path)


async def test_keeper_lets_go_by_itself(tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A little at a time, while no append waits; and every append waits for the disk, as if nothing else went on."""
    # Until the appends below the thread looks for nothing: two threads that use a traced connection can block each other.
    monkeypatch.setattr("store.sqlite_writer.LOOK_SECONDS", 3_600.0)
    log = await SqliteStore(tmp_path).open(LOG, "id-1")
    statements: list[str] = []
    log._writer._connection.set_trace_callback(statements.append)
    written = await fill(tmp_path, log, event=STARTED + bytes(2_000))
    log._writer._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.stat().st_size
    await write_files(tmp_path)
    monkeypatch.setattr("store.sqlite_writer.LOOK_SECONDS", 0.0)
    monkeypatch.setattr("store.sqlite_writer.PAUSE_SECONDS", 0.0)
    log._writer._look_at = 0.0
    count = 450
    while here(path)[0] <= 300:
        count += 1
        await log.append(rows(count, 1), 1)
        await asyncio.sleep(0.001)  # Now and then no append waits.
    await log.close()
    assert path.stat().st_size < before / 2
    assert written + rows(451, count - 450) == await everything(tmp_path)
    level, appends, deletions = "FULL", 0, 0
    for statement in statements:
        if statement.startswith("PRAGMA synchronous"):
            level = statement.split()[-1]
        appends += statement.startswith("INSERT INTO facts")
        deletions += statement.startswith("DELETE FROM facts")
        assert level == "FULL" or not statement.startswith("INSERT INTO facts")
    assert appends >= 2
    assert deletions >= 3, "a file is taken up, and its rows go, before the next is"


async def test_large_facts_make_more_blocks(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block is closed when it is large, and a file when it has as many blocks as it may."""
    monkeypatch.setattr("store.archive_file.BLOCK_BYTES", 1_000)
    monkeypatch.setattr("store.archive_file.BLOCKS_MAX", 20)
    written = await fill(tmp_path, log, event=STARTED + bytes(400))
    files = await write_files(tmp_path)
    assert ["1-60", "61-120", "121-180", "181-240"] == [Path(file).name.split(".")[0] for file in files][:4]
    await log.shed()
    assert written == await everything(tmp_path)
    assert (450, 0, "") == await verified(tmp_path)


async def test_odd_facts_are_archived_as_they_are(tmp_path: Path, log: SqliteLog) -> None:
    """Texts, bytes and instants of any sort come back equal."""
    odd = [
        Row(1, 0, "", "", "", b""),
        Row(2, 2**62, "\0'\"\n", "Ωμέγα 🚢", "w'; DROP TABLE facts", b"\0" * 9),
        Row(3, -(2**63), "x" * 5_000, "", "", bytes(range(256)) * 1024),
        Row(4, 2**63 - 1, "", "", "Ωμέγα", b""),
        *rows(5, 296),
    ]
    await log.append(odd[:200], 1)
    reader = await SqliteStore(tmp_path).reader(LOG)
    await reader.keep_snapshot(Snapshot(log.head, b"image"))
    await log.append(odd[200:], 1)
    assert await reader.archive(Instant(2_000)) is not None
    await log.shed()
    assert odd == await everything(tmp_path)
    assert odd[3:4] == await reader.read_about("Ωμέγα", 0, 10, MUCH)
    assert (300, 0) == ((found := await reader.verify()).rows, found.broken_at)
    await reader.close()


async def test_whoever_reads_while_rows_go_sees_all(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool in the midst of a fold, and one that verifies: what goes meanwhile is read from the archive."""
    monkeypatch.setattr("store.sqlite_file.PAGE_ROWS", 10)
    await fill(tmp_path, log)
    await write_files(tmp_path)
    facts = facts_in(tmp_path, LOG)
    seen = [next(facts).sequence for _ in range(125)]
    reader = await SqliteStore(tmp_path).reader(LOG)
    fetch = reader._stored

    async def fetch_late(first: int, count: int, before: bytes | None = None) -> list[Stored]:
        """The keeper lets go of all that is archived while the reader is at the fifth page."""
        if first == 41:
            await log.shed()
        return await fetch(first, count, before)

    monkeypatch.setattr(reader, "_stored", fetch_late)
    found = await reader.verify()
    assert (450, 0) == (found.rows, found.broken_at)
    assert list(range(1, 451)) == [*seen, *(fact.sequence for fact in facts)]
    await reader.close()


# Damage.


async def test_damaged_archive_is_named(tmp_path: Path, log: SqliteLog) -> None:
    """Wherever a byte of it changes, verifying names the file and its facts; they cannot be read, whatever is in other blocks can,
    and the keeper starts.
    """
    written = await fill(tmp_path, log)
    files = [Path(file) for file in await write_files(tmp_path)]
    await log.shed()
    await log.close()
    whole = files[1].read_bytes()
    unnoticed = 0
    for place in range(0, len(whole), 97):
        files[1].write_bytes(whole[:place] + bytes((whole[place] ^ 0x10,)) + whole[place + 1 :])
        sound, broken, name = await verified(tmp_path)
        if not broken:
            assert written == await everything(tmp_path), "it struck a bit that says nothing"
            unnoticed += 1
            continue
        assert (broken - 1, files[1].name) == (sound, name), place
        assert 101 <= broken <= 200
        reader = await SqliteStore(tmp_path).reader(LOG)
        assert written[:100] == (await reader.read(1, 100, MUCH)).rows
        assert written[200:] == (await reader.read(201, 250, MUCH)).rows
        read, problems = 0, set()
        for sequence in (101, 116, 117, 132, 133, 148, 149, 180, 197, 200):
            try:
                assert [written[sequence - 1]] == (await reader.read(sequence, 1, MUCH)).rows
                read += 1
            except LogBroken as error:
                problems.add(str(error))
        assert read in {0, 8, 9, 10}, "the whole file, a block or the index"
        assert all(files[1].name in problem for problem in problems)
        await reader.close()
        if broken == 133:
            found = r"101-200.* is damaged .*facts 133 to 148 are in it; put back"
            with pytest.raises(LogBroken, match=found):
                list(facts_in(tmp_path, LOG))
    assert unnoticed < 3
    again = await SqliteStore(tmp_path).open(LOG, "id-2")
    assert 450 == again.head.sequence
    await again.close()


async def test_cut_or_missing_archive_is_named(tmp_path: Path, log: SqliteLog) -> None:
    """Whatever length is left of it; and facts before and behind it are read."""
    written = await fill(tmp_path, log)
    files = [Path(file) for file in await write_files(tmp_path)]
    await log.shed()
    whole = files[1].read_bytes()
    for length in range(0, len(whole), 97):
        files[1].write_bytes(whole[:length])
        assert (100, 101, files[1].name) == await verified(tmp_path)
    files[1].write_bytes(whole + b"!")
    assert (100, 101, files[1].name) == await verified(tmp_path)
    files[1].unlink()
    assert (100, 101, files[1].name) == await verified(tmp_path)
    reader = await SqliteStore(tmp_path).reader(LOG)
    assert written[200:] == (await reader.read(201, 250, MUCH)).rows
    with pytest.raises(LogBroken, match=r"101-200.* is missing, and facts 101 to 200 are in it"):
        await reader.read(150, 1, MUCH)
    await reader.close()


async def test_archive_of_another_log_is_not_read(tmp_path: Path, log: SqliteLog) -> None:
    """A file that was put in the place of another one is damage, though it is whole."""
    await fill(tmp_path, log)
    files = [Path(file) for file in await write_files(tmp_path)]
    await log.shed()
    shutil.copy(files[0], files[1])
    assert (100, 101, files[1].name) == await verified(tmp_path)


async def test_archive_with_other_rows_is_damage(tmp_path: Path, log: SqliteLog) -> None:
    """Though it is compressed as it should be, and says of itself what the file that it replaces says: the hashes are followed."""
    await fill(tmp_path, log)
    files = [Path(file) for file in await write_files(tmp_path)]
    await log.shed()
    reader = await SqliteStore(tmp_path).reader(LOG)
    await reader.verify()
    archived = reader._archive.files[1]
    await reader.close()
    contents = Reading(LOG, files[1], archived).contents
    with files[1].open("wb") as opened:
        writing = Writing(opened, LOG, "id-1", 101, archived.hash_before)
        forged = rows(101, 100)
        forged[60] = forged[60]._replace(actor="somebody")
        writing.add(forged)
        writing.finish()
    written = Reading(LOG, files[1], _said_of(files[1])).contents
    before = [block.hash_before for block in contents.blocks]
    _say(files[1], replace(written, file=archived, blocks=_with_hashes(written.blocks, before)))
    assert (148, 149, files[1].name) == await verified(tmp_path)


def _said_of(path: Path) -> ArchiveFile:
    """What a file says of itself."""
    data = path.read_bytes()
    size = int.from_bytes(data[-24:-16], "big")
    return msgspec.msgpack.decode(data[-24 - size : -24], type=Contents).file


def _with_hashes(blocks: tuple[Block, ...], before: list[bytes]) -> tuple[Block, ...]:
    return tuple(replace(block, hash_before=own) for block, own in zip(blocks, before, strict=True))


def _say(path: Path, contents: Contents) -> None:
    """Have a file say something else of itself."""
    data = path.read_bytes()
    size = int.from_bytes(data[-24:-16], "big")
    said = msgspec.msgpack.encode(contents)
    trailer = len(said).to_bytes(8, "big") + blake2b(said, digest_size=16).digest()
    path.write_bytes(data[: -24 - size] + said + trailer)


async def test_damage_here_is_told_beside_an_archive(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """The chain is checked over the border, and a row that is missing behind it is named."""
    await fill(tmp_path, log)
    await write_files(tmp_path)
    await log.shed()
    await log.close()
    for statement, broken in (
        ("UPDATE facts SET actor = 'x' WHERE sequence = 301", 301),
        ("DELETE FROM facts WHERE sequence = 301", 301),
        ("DELETE FROM facts WHERE sequence = 320", 320),
    ):
        directory = Path(shutil.copytree(tmp_path, tmp_path.with_name(f"copy-{broken}-{len(statement)}")))
        with contextlib.closing(sqlite3.connect(directory / path.name)) as connection:
            connection.execute(statement)
            connection.commit()
        assert (broken - 1, broken, "") == await verified(directory)
        for image in directory.glob("*.image"):
            image.unlink()
        with pytest.raises(LogBroken) as opened:
            await SqliteStore(directory).open(LOG, "id-2")
        assert broken == opened.value.sequence


# Older copies, and other pasts.


async def test_older_copy_beside_newer_archives(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """The SQLite file says what is archived. Put back from before that it has its rows itself, and lets go of them again."""
    written = await fill(tmp_path, log)
    await log.close()
    older = path.read_bytes()
    again = await SqliteStore(tmp_path).open(LOG, "id-2")
    await write_files(tmp_path)
    await again.shed()
    await again.close()
    path.write_bytes(older)
    assert written == await everything(tmp_path)
    assert 1 == here(path)[0]
    restored = await SqliteStore(tmp_path).open(LOG, "id-3")
    await restored.shed()
    assert 301 == here(path)[0]
    assert written == await everything(tmp_path)
    await restored.close()


async def test_newest_row_stays(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """A copy that ends where a file ends keeps that file's rows: a log's head is in its own file."""
    await log.append(rows(1, 100), 1)
    await log.close()
    older = path.read_bytes()
    again = await SqliteStore(tmp_path).open(LOG, "id-2")
    await again.append(rows(101, 200), 1)
    reader = await SqliteStore(tmp_path).reader(LOG)
    await reader.keep_snapshot(Snapshot(again.head, b"image"))
    await reader.close()
    assert 2 == len(await write_files(tmp_path))
    await again.close()
    path.write_bytes(older)
    restored = await SqliteStore(tmp_path).open(LOG, "id-3")
    await restored.shed()
    assert [1, 100] == [here(path)[0], restored.head.sequence]
    await restored.append(rows(101, 1), 2)
    await restored.shed()
    assert [101] == here(path), "now it is not the newest any more"
    assert rows(1, 101) == await everything(tmp_path)
    await restored.close()


async def test_nothing_is_archived_without_a_snapshot_to_start_from(tmp_path: Path, log: SqliteLog) -> None:
    """One that is damaged is none."""
    await fill(tmp_path, log)
    (image,) = tmp_path.glob("*.image")
    data = image.read_bytes()
    image.write_bytes(data[:-1] + b"?")
    assert [] == await write_files(tmp_path)
    image.write_bytes(data)
    assert 3 == len(await write_files(tmp_path))


async def test_archives_of_another_past_are_never_read(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """A copy put back from before their facts went another way: its own facts are archived beside them."""
    await log.append(rows(1, 150), 1)
    await log.close()
    older = path.read_bytes()
    again = await SqliteStore(tmp_path).open(LOG, "id-2")
    reader = await SqliteStore(tmp_path).reader(LOG)
    await again.append(rows(151, 200), 1)
    await reader.keep_snapshot(Snapshot(again.head, b"image"))
    await again.append(rows(351, 10), 1)
    await reader.close()
    others = await write_files(tmp_path)
    assert 3 == len(others)
    await again.shed()
    await again.close()
    path.write_bytes(older)
    restored = await SqliteStore(tmp_path).open(LOG, "id-3")
    written = [*rows(1, 150), *rows(151, 250, about="other")]
    await restored.append(written[150:350], 2)
    reader = await SqliteStore(tmp_path).reader(LOG)
    await reader.keep_snapshot(Snapshot(restored.head, b"image"))
    await reader.close()
    await restored.append(written[350:], 2)
    await restored.shed()
    assert 101 == here(path)[0], "the first file is of both pasts"
    assert written == await everything(tmp_path)
    ours = await write_files(tmp_path)
    assert not set(ours) & set(others)
    await restored.shed()
    assert 301 == here(path)[0]
    assert written == await everything(tmp_path)
    assert (400, 0, "") == await verified(tmp_path)
    await restored.close()


# Formats.

FORMAT_1 = (*sqlite_file.SCHEMA[:3], "INSERT INTO meta VALUES ('id-0', 3)", "PRAGMA user_version = 1")


def make_format_1(path: Path, written: list[Row]) -> None:
    """A log as the builds before this format left it."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for statement in FORMAT_1:
            connection.execute(statement)
        for row, hash_ in zip(written, chain(GENESIS, written), strict=True):
            connection.execute(sqlite_file.insert(1), (*row, hash_))
        assert (0,) == connection.execute("PRAGMA auto_vacuum").fetchone()


@pytest.mark.parametrize("is_large", [False, True])
async def test_log_of_the_format_before_is_brought_up(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    """Without a keeper it is read as it is; its next keeper goes on with it, and it can shrink: at once, or once it is rebuilt."""
    if is_large:
        monkeypatch.setattr("store.sqlite_file.REBUILT_BYTES_MAX", 1)
    make_format_1(path, rows(1, 350))
    assert rows(1, 350) == await everything(tmp_path)
    assert (350, 0, "") == await verified(tmp_path)
    assert 350 == len(list(facts_in(tmp_path, LOG)))
    log = await SqliteStore(tmp_path).open(LOG, "id-9")
    assert ("id-0", 3, 350) == (log.head.log_id, log.head.term, log.head.sequence)
    assert [(2,), (0 if is_large else 1,)] == [
        log._writer._connection.execute(f"PRAGMA {name}").fetchone()
        for name in ("user_version", "auto_vacuum")
    ]
    reader = await SqliteStore(tmp_path).reader(LOG)
    await reader.keep_snapshot(Snapshot(log.head, b"image"))
    await log.append(rows(351, 10), 4)
    await write_files(tmp_path)
    await log.shed()
    assert (1,) == log._writer._connection.execute("PRAGMA auto_vacuum").fetchone()
    assert 301 == here(path)[0]
    assert rows(1, 360) == await everything(tmp_path)
    await reader.close()
    await log.close()


async def test_newer_format_is_refused_by_readers_too(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """What a newer build moved elsewhere this one would take for missing."""
    await log.append(rows(1, 3), 1)
    await log.close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {sqlite_file.FORMAT + 1}")
    for _ in range(2):
        with pytest.raises(
            LogFromNewerBuild, match="its format is 3, and this build knows 2; run a newer one"
        ):
            await everything(tmp_path)
    with pytest.raises(LogFromNewerBuild):
        await verified(tmp_path)
    with pytest.raises(LogFromNewerBuild):
        list(facts_in(tmp_path, LOG))


# Kills.


def steps_of(directory: Path) -> Iterator[None]:
    """The keeper's steps, one by one, on a connection of its own: between two of them a kill may come."""
    with contextlib.closing(
        sqlite_file.connect_to_write(LOG, directory / f"{LOG}.sqlite", "id")
    ) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        shedding = Shedding(LOG, directory, connection)
        shedding._rows = 16
        while shedding.step():
            yield


async def test_killed_between_any_two_steps(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And at any frame of the write-ahead log: all is read once, from the file or the archive, and the next keeper goes on."""
    monkeypatch.setattr("store.shedding.ROWS_MAX", 16)
    directory = tmp_path / "logs"
    keeper = await SqliteStore(directory).open(LOG, "id-1")
    written = await fill(directory, keeper)
    await keeper.close()
    await write_files(directory)
    borders, firsts = set(), set()
    for number, _ in enumerate(steps_of(directory)):
        wal = (directory / f"{LOG}.sqlite-wal").read_bytes()
        lengths = (
            {len(wal), len(wal) - 1, len(wal) - 4_096, len(wal) * 2 // 3} if number % 3 == 0 else {len(wal)}
        )
        for length in lengths:
            killed = tmp_path / f"killed-{number}-{length}"
            killed.mkdir()
            for image in directory.glob("*.image"):
                shutil.copy(image, killed)
            shutil.copytree(directory_of(directory, LOG), directory_of(killed, LOG))
            shutil.copy(directory / f"{LOG}.sqlite", killed)
            (killed / f"{LOG}.sqlite-wal").write_bytes(wal[: max(0, length)])
            assert written == await everything(killed)
            assert (450, 0, "") == await verified(killed)
            assert 450 == len(list(facts_in(killed, LOG)))
            reader = await SqliteStore(killed).reader(LOG)
            about = [row for row in written if row.about == "w-3"]
            assert about == await reader.read_about("w-3", 0, 1_000, MUCH)
            await reader.close()
            firsts.add(here(killed / f"{LOG}.sqlite")[0])
            again = await SqliteStore(killed).open(LOG, "id-2")
            assert ("id-1", 450) == (again.head.log_id, again.head.sequence)
            borders.add(again._writer._shedding._border)
            await again.append(rows(451, 1), 2)
            await again.shed()
            await again.close()
            assert 301 == here(killed / f"{LOG}.sqlite")[0]
            assert written + rows(451, 1) == await everything(killed)
    assert {0, 100, 200, 300} == borders
    assert len(firsts) > 15


async def test_killed_while_writing_an_archive_file(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """A file without its name is not read, and goes; one with its name that is cut, though none ever is, is told, and nothing
    is deleted for it.
    """
    written = await fill(tmp_path, log)
    (file,) = [Path(one) for one in await write_files(tmp_path)][:1]
    whole = file.read_bytes()
    for left in directory_of(tmp_path, LOG).glob("*.facts"):
        left.unlink()
    half = file.with_name("1-abc.tmp")
    for length in (0, 20, len(whole) // 2, len(whole) - 1):
        half.write_bytes(whole[:length])
        file.write_bytes(whole[:length])
        with pytest.raises(LogError, match=r"1-100.* is damaged"):
            await log.shed()
        assert 1 == here(path)[0]
        assert written == await everything(tmp_path)
    assert 3 == len(await write_files(tmp_path))
    assert not half.exists()
    await log.shed()
    assert 301 == here(path)[0]
    assert written == await everything(tmp_path)


CHILD = f"""
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
import store.archive_file, store.archiving, store.shedding, store.sqlite_writer
from store.port import Row, Snapshot
from store.sqlite import SqliteStore
store.archiving.FACTS_MAX, store.archive_file.BLOCK_ROWS, store.shedding.ROWS_MAX = {SMALL}, 16, 16
store.sqlite_writer.LOOK_SECONDS = store.sqlite_writer.PAUSE_SECONDS = 0.0005

async def main():
    place = SqliteStore(Path(sys.argv[1]))
    log, reader = await place.open("global", "id"), await place.reader("global")
    async def archive():
        while True:
            await reader.keep_snapshot(Snapshot(log.head, b"image"))
            while await reader.archive(1 << 62):
                pass
            await asyncio.sleep(0.001)
    async def append():
        sequence = log.head.sequence
        while True:
            rows = [Row(n, 1000 + n, f"cause-{{n}}", "agent.eu", f"w-{{n % 7}}", {STARTED!r}) for n in range(sequence + 1, sequence + 4)]
            sequence = (await log.append(rows, 1)).sequence
            print(sequence, flush=True)
            await asyncio.sleep(0)
    await asyncio.gather(append(), archive())

asyncio.run(main())
"""


@pytest.mark.processes
def test_killed_while_archiving(tmp_path: Path, path: Path) -> None:
    """After kill -9 at any moment of it, again and again: whole batches, every one that was acknowledged, each fact once."""
    acknowledged = 0
    for count in (130, 260, 70, 200, 150, 310):
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            for _ in range(count):
                acknowledged = int(child.stdout.readline())
            child.kill()
            heard = [int(line) for line in child.stdout.read().split("\n")[:-1]]
        acknowledged = max([acknowledged, *heard])
        found = asyncio.run(everything(tmp_path))
        assert rows(1, len(found)) == found
        assert acknowledged <= len(found) <= acknowledged + 3
        assert 0 == len(found) % 3
        assert (len(found), 0, "") == asyncio.run(verified(tmp_path))
    assert here(path)[0] > 2 * SMALL


# Locks and full disks.


async def test_two_cannot_archive_at_once(tmp_path: Path, log: SqliteLog) -> None:
    """The second is told; the log itself is not locked by that."""
    await fill(tmp_path, log)
    place = directory_of(tmp_path, LOG)
    place.mkdir()
    lock = FileLock(LOG, place / "lock")
    with pytest.raises(ArchiveInUse, match="another process archives it"):
        await write_files(tmp_path)
    await log.append(rows(451, 1), 1)
    lock.release()
    assert 3 == len(await write_files(tmp_path))


async def test_full_disk_leaves_rows_where_they_are(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """What could not be deleted is deleted later; the log goes on, and its commits wait for the disk as before."""
    written = await fill(tmp_path, log)
    await write_files(tmp_path)
    connection = log._writer._connection

    def full(*_: object) -> bool:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    shedding = log._writer._shedding
    take_up, shedding._take_up = shedding._take_up, full  # type: ignore[method-assign]
    with pytest.raises(LogFull):
        await log.shed()
    assert (2,) == connection.execute("PRAGMA synchronous").fetchone()
    assert not connection.in_transaction
    await log.append(rows(451, 1), 1)
    shedding._take_up = take_up  # type: ignore[method-assign]
    await log.shed()
    assert 301 == here(path)[0]
    assert written + rows(451, 1) == await everything(tmp_path)


# Names.


def test_names_of_archive_files() -> None:
    """The name has the sequences and part of the hash; anything else in the directory is somebody else's."""
    file = ArchiveFile(101, 200, b"a" * 16, bytes(range(16)))
    assert "101-200.0001020304050607.facts" == file.name
    assert (101, 200) == range_of(file.name)
    strange = ("lock", "101-200.facts.tmp", "101.00.facts", "a-b.00.facts", "101-abc.tmp", "-5-6.0.facts")
    for name in (*strange, "0-5.0.facts", "6-5.0.facts", f"1-{1 << 63}.00.facts", f"1-{'9' * 200}.00.facts"):
        assert range_of(name) is None
    assert (1, (1 << 63) - 1) == range_of(f"1-{(1 << 63) - 1}.00.facts")


async def test_index_finds_every_block(tmp_path: Path, log: SqliteLog) -> None:
    """By whatever it is about, also where digests begin alike; and of what is not there seldom a block is read."""
    names = [f"w-{number}" for number in range(300)]
    written = [row._replace(about=names[row.sequence * 7 % 300]) for row in rows(1, 400)]
    await log.append(written[:350], 1)
    reader = await SqliteStore(tmp_path).reader(LOG)
    await reader.keep_snapshot(Snapshot(log.head, b"image"))
    await log.append(written[350:], 1)
    await write_files(tmp_path)
    await log.shed()
    for name in names:
        assert [row for row in written if row.about == name] == await reader.read_about(name, 0, 9, MUCH)
    (first, *_) = reader._archive.files
    reading = Reading(LOG, directory_of(tmp_path, LOG) / first.name, first)
    assert sum(bool(reading.blocks_about(f"x-{number}")) for number in range(1_000)) < 10
    await reader.close()


async def test_contents_of_a_file_are_read_once(
    tmp_path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many files there are, a second look for what is about a thing asks their indexes alone."""
    monkeypatch.setattr("store.archive.FILES_KNOWN_MAX", 1)
    await fill(tmp_path, log)
    files = await write_files(tmp_path)
    await log.shed()
    read, begin = [], Reading.__init__

    def watched(reading: Reading, name: LogName, path: Path, file: ArchiveFile) -> None:
        read.append(str(path))
        begin(reading, name, path, file)

    monkeypatch.setattr(Reading, "__init__", watched)
    reader = await SqliteStore(tmp_path).reader(LOG)
    for expected in (files, []):
        assert [] == await reader.read_about("w-none", 0, 10, MUCH)
        assert expected == read
        read.clear()
    monkeypatch.setattr("store.archive.INDEXES_KNOWN_MAX", 2)
    fresh = await SqliteStore(tmp_path).reader(LOG)
    for expected in (files, files[2:]):
        assert [] == await fresh.read_about("w-none", 0, 10, MUCH)
        assert expected == read, "what finds no room any more puts nothing else out"
        read.clear()
    await fresh.close()
    await reader.close()
