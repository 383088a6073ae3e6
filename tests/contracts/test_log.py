"""What every log promises (store/port.py), asked of each implementation in turn."""

import asyncio
import contextlib
import errno
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from core.codec import encode
from core.events.region import GangStarted
from core.fact import Head
from core.nouns.ids import LogName, WorkloadId
from store.chain import GENESIS, chain
from store.errors import AppendFailed, LogBroken, LogFromNewerBuild, LogFull, LogInUse, NotNext
from store.memory import MemoryStore
from store.memory_disk import MemoryDisk
from store.port import Log, LogReader, LogStore, Page, Row, Snapshot
from store.rows import facts_of, row_of
from store.sqlite import SqliteLog, SqliteStore

LOG = LogName("region.eu")
MUCH = 1 << 20


class World(Protocol):
    """Where a log can be, and what can befall it there."""

    store: LogStore

    def flip(self, sequence: int) -> None:
        """One byte of a row's event is another."""

    def flip_snapshot(self, sequence: int) -> None:
        """One byte of a snapshot is another."""

    def fill(self, log: Log) -> None:
        """No room is left."""

    def free(self, log: Log) -> None:
        """There is room again."""

    def copy(self) -> "World":
        """A backup of what is there. Nobody has the log open."""


class MemoryWorld:
    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.store: LogStore = MemoryStore(disk)

    def flip(self, sequence: int) -> None:
        self.disk.flip_byte(LOG, sequence)

    def flip_snapshot(self, sequence: int) -> None:
        self.disk.flip_byte_in_snapshot(LOG, sequence)

    def fill(self, log: Log) -> None:
        self.disk.is_full = True

    def free(self, log: Log) -> None:
        self.disk.is_full = False

    def copy(self) -> World:
        return MemoryWorld(self.disk.copy())


class SlowMemoryWorld(MemoryWorld):
    """The same with a disk that takes a while, so that an append really waits."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.store = MemoryStore(disk, lambda: asyncio.sleep(0))

    def copy(self) -> World:
        return SlowMemoryWorld(self.disk.copy())


class SqliteWorld:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store: LogStore = SqliteStore(directory)

    def flip(self, sequence: int) -> None:
        with contextlib.closing(sqlite3.connect(self.directory / f"{LOG}.sqlite")) as connection:
            (event,) = connection.execute(
                "SELECT event FROM facts WHERE sequence = ?", (sequence,)
            ).fetchone()
            event = event[:-1] + bytes((event[-1] ^ 1,))
            connection.execute("UPDATE facts SET event = ? WHERE sequence = ?", (event, sequence))
            connection.commit()

    def flip_snapshot(self, sequence: int) -> None:
        path = self.directory / f"{LOG}.{sequence}.image"
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes((data[-1] ^ 1,)))

    def fill(self, log: Log) -> None:
        assert isinstance(log, SqliteLog)
        # SQLite holds itself to no fewer pages than it has.
        log._writer._connection.execute("PRAGMA max_page_count = 1")

    def free(self, log: Log) -> None:
        assert isinstance(log, SqliteLog)
        log._writer._connection.execute("PRAGMA max_page_count = 1000000")

    def copy(self) -> World:
        return SqliteWorld(Path(shutil.copytree(self.directory, self.directory.with_name("copy"))))


WORLDS: dict[str, Callable[[Path], World]] = {
    "memory": lambda directory: MemoryWorld(MemoryDisk()),
    "slow memory": lambda directory: SlowMemoryWorld(MemoryDisk()),
    "sqlite": lambda directory: SqliteWorld(directory / "logs"),
}


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """Each place where a log can be."""
    return WORLDS[request.param](tmp_path)


@pytest.fixture
async def log(world: World) -> AsyncIterator[Log]:
    """A new log, open."""
    opened = await world.store.open(LOG, "id-1")
    yield opened
    await opened.close()


def rows(first: int, count: int, about: str = "w-1") -> list[Row]:
    """So many rows in sequence."""
    return [
        Row(sequence, 1_000 + sequence, f"cause-{sequence}", "agent.eu", about, encode(_started(sequence)))
        for sequence in range(first, first + count)
    ]


def _started(epoch: int) -> GangStarted:
    return GangStarted(workload=WorkloadId("w-1"), epoch=epoch)


@contextlib.asynccontextmanager
async def reading(world: World) -> AsyncIterator[LogReader]:
    """A reader, closed again."""
    reader = await world.store.reader(LOG)
    try:
        yield reader
    finally:
        await reader.close()


async def everything(world: World) -> list[Row]:
    """All that a fresh reader sees."""
    async with reading(world) as reader:
        return (await reader.read(1, MUCH, MUCH)).rows


# Appending.


async def test_new_log_is_empty(world: World, log: Log) -> None:
    """Before anything is appended a log has an id, and nothing else."""
    assert Head(LOG, "id-1", 0, 0, GENESIS) == log.head
    async with reading(world) as reader:
        assert log.head == await reader.head()
        assert Page([], GENESIS, GENESIS) == await reader.read(1, MUCH, MUCH)
        assert await reader.snapshot() is None


async def test_log_that_was_never_made_reads_as_empty(world: World) -> None:
    """Whoever reads before the keeper's first start finds nothing, not even an id, and makes nothing."""
    async with reading(world) as reader:
        assert Head(LOG, "", 0, 0, GENESIS) == await reader.head()
        assert Page([], GENESIS, GENESIS) == await reader.read(1, MUCH, MUCH)
        assert [] == await reader.read_about("w-1", 0, 10, MUCH)
        assert await reader.snapshot() is None
        assert 0 == (await reader.verify()).broken_at
        log = await world.store.open(LOG, "id-1")
        assert "id-1" == (await reader.head()).log_id, "the same reader sees the log once it is there"
        await log.close()


async def test_what_is_appended_is_read_back(world: World, log: Log) -> None:
    """Rows come back equal, in order, with the hashes that chain them."""
    batches = [rows(1, 3), rows(4, 1), rows(5, 400, about=""), rows(405, 2)]
    for batch in batches:
        assert batch[-1].sequence == (await log.append(batch, 1)).sequence
    written = [row for batch in batches for row in batch]
    hashes = chain(GENESIS, written)
    assert Head(LOG, "id-1", 1, 406, hashes[-1]) == log.head
    async with reading(world) as reader:
        assert Page(written, GENESIS, hashes[-1]) == await reader.read(1, MUCH, MUCH)
        assert log.head == await reader.head()


async def test_odd_texts_are_read_back(world: World, log: Log) -> None:
    """Whatever a text or an event holds, it comes back: quotes, zeros, other scripts, nothing."""
    odd = [
        Row(1, 0, "", "", "", b""),
        Row(2, 2**62, "\0'\"\n", "Ωμέγα 🚢", "w'; DROP TABLE facts", b"\0" * 9),
        Row(3, -1, "x" * 5_000, "", "", bytes(range(256)) * 1024),
    ]
    await log.append(odd, 1)
    assert odd == await everything(world)


async def test_large_batch_is_whole(world: World, log: Log) -> None:
    """A batch larger than any statement or group is still one batch."""
    batch = rows(1, 10_000)
    assert 10_000 == (await log.append(batch, 1)).sequence
    assert batch == await everything(world)


@pytest.mark.parametrize(
    "wrong",
    [rows(1, 1), rows(3, 1), rows(5, 1), [*rows(4, 1), *rows(6, 1)], [*rows(4, 1), *rows(4, 1)]],
    ids=["from the start", "again", "leaving one out", "with a gap", "one twice"],
)
async def test_batch_that_does_not_follow_is_refused(world: World, log: Log, wrong: list[Row]) -> None:
    """Sequences have no gap and no repeat; a refused batch leaves nothing, and the log goes on."""
    head = await log.append(rows(1, 3), 1)
    with pytest.raises(NotNext):
        await log.append(wrong, 1)
    assert head == log.head
    assert 4 == (await log.append(rows(4, 1), 1)).sequence
    assert rows(1, 4) == await everything(world)


async def test_term_never_falls(world: World, log: Log) -> None:
    """A term stays or grows; it is remembered with the batch, and after closing too."""
    assert 3 == (await log.append(rows(1, 1), 3)).term
    with pytest.raises(NotNext):
        await log.append(rows(2, 1), 2)
    assert 3 == (await log.append(rows(2, 1), 3)).term
    assert 7 == (await log.append(rows(3, 1), 7)).term
    await log.close()
    again = await world.store.open(LOG, "id-2")
    assert 7 == again.head.term
    with pytest.raises(NotNext):
        await again.append(rows(4, 1), 6)
    await again.close()


async def test_appends_called_together_are_chained_in_the_order_of_the_calls(world: World, log: Log) -> None:
    """Many may wait at once: each gets the head after its own batch."""
    batches = [rows(1 + 3 * number, 3) for number in range(100)]
    heads = await asyncio.gather(*[log.append(batch, 1) for batch in batches])
    written = [row for batch in batches for row in batch]
    hashes = chain(GENESIS, written)
    assert [(3 * number, hashes[3 * number - 1]) for number in range(1, 101)] == [
        (head.sequence, head.hash) for head in heads
    ]
    assert written == await everything(world)


async def test_one_refused_among_many_harms_only_those_after_it(world: World, log: Log) -> None:
    """Of appends called together, one that does not follow is refused, and the next good one goes on from before it."""
    outcomes = await asyncio.gather(
        log.append(rows(1, 2), 1),
        log.append(rows(9, 1), 1),
        log.append(rows(3, 2), 1),
        return_exceptions=True,
    )
    assert ["Head", "NotNext", "Head"] == [type(outcome).__name__ for outcome in outcomes]
    assert rows(1, 4) == await everything(world)


async def test_row_that_cannot_be_written_is_refused(world: World, log: Log) -> None:
    """A text that has no encoding is its caller's mistake: the log goes on."""
    with pytest.raises(UnicodeEncodeError):
        await log.append([rows(1, 1)[0]._replace(cause="\ud800")], 1)
    assert 1 == (await log.append(rows(1, 1), 1)).sequence


async def test_no_rows_write_nothing(world: World, log: Log) -> None:
    """An empty append tells the head when all before it are settled."""
    assert log.head == await log.append([], 1)
    first, empty = await asyncio.gather(log.append(rows(1, 3), 1), log.append([], 1))
    assert first == empty
    assert log.head == empty


async def test_cancelled_append_is_whole_or_absent(world: World, log: Log) -> None:
    """Whoever waits may be cancelled at any moment; the batch is there or not, and the next append starts clean."""
    sequence = 0
    for patience in (0, 0, 1, 1, 2, 2):
        batch = rows(sequence + 1, 3)
        appending = asyncio.get_running_loop().create_task(log.append(batch, 1))
        for _ in range(patience):
            await asyncio.sleep(0)
        appending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await appending
        batch.clear()  # the caller's list is the caller's
        head = await log.append([], 1)
        assert head.sequence in {sequence, sequence + 3}
        sequence = (await log.append(rows(head.sequence + 1, 2), 1)).sequence
    assert rows(1, sequence) == await everything(world)


async def test_closed_log_takes_nothing(world: World, log: Log) -> None:
    """After closing an append fails; what was handed in before is there. Closing twice is closing."""
    appending = asyncio.gather(log.append(rows(1, 3), 1), log.append(rows(4, 3), 1))
    await asyncio.sleep(0)
    await asyncio.gather(appending, log.close())
    await log.close()
    with pytest.raises(AppendFailed):
        await log.append(rows(7, 1), 1)
    assert rows(1, 6) == await everything(world)


async def test_full_disk_refuses_the_batch_whole(world: World, log: Log) -> None:
    """When the disk is full a batch is absent, the log can be read, and it goes on when there is room again."""
    head = await log.append(rows(1, 3), 1)
    world.fill(log)
    for _ in range(2):
        with pytest.raises(LogFull):
            await log.append(rows(4, 1_000), 1)
        assert head == log.head
        assert head == await log.append([], 1)
        assert rows(1, 3) == await everything(world)
    world.free(log)
    assert 1_003 == (await log.append(rows(4, 1_000), 1)).sequence
    assert rows(1, 1_003) == await everything(world)


async def test_full_disk_refuses_all_that_waited_together(world: World, log: Log) -> None:
    """None of the batches of one commit is there when it finds no room."""
    world.fill(log)
    outcomes = await asyncio.gather(
        *[log.append(rows(1 + 500 * number, 500), 1) for number in range(3)], return_exceptions=True
    )
    assert isinstance(outcomes[0], LogFull)
    assert all(isinstance(outcome, LogFull | NotNext) for outcome in outcomes)
    assert 0 == log.head.sequence
    world.free(log)
    assert 3 == (await log.append(rows(1, 3), 1)).sequence


# Opening.


async def test_second_keeper_is_refused(world: World, log: Log) -> None:
    """One log, one keeper; a log closed is a log that the next may have."""
    with pytest.raises(LogInUse):
        await world.store.open(LOG, "id-2")
    await log.append(rows(1, 1), 1)
    await log.close()
    again = await world.store.open(LOG, "id-2")
    with pytest.raises(LogInUse):
        await world.store.open(LOG, "id-3")
    await again.close()


async def test_closed_and_reopened(world: World, log: Log) -> None:
    """What was appended stays, under the id that the log was made with."""
    head = await log.append(rows(1, 3), 1)
    await log.close()
    again = await world.store.open(LOG, "id-2")
    assert head == again.head
    assert "id-1" == again.head.log_id
    await again.append(rows(4, 2), 2)
    await again.close()
    assert rows(1, 5) == await everything(world)


async def test_logs_of_one_store_are_apart(world: World, log: Log) -> None:
    """Names that begin alike are different logs, and so are their snapshots."""
    other_name = LogName("region.eu.7")
    other = await world.store.open(other_name, "id-7")
    await log.append(rows(1, 3), 1)
    await other.append(rows(1, 9), 1)
    other_reader = await world.store.reader(other_name)
    await other_reader.keep_snapshot(Snapshot(other.head, b"other"))
    async with reading(world) as reader:
        assert await reader.snapshot() is None
        await reader.keep_snapshot(Snapshot(log.head, b"ours"))
        assert b"ours" == _image(await reader.snapshot())
    assert b"other" == _image(await other_reader.snapshot())
    assert 9 == len((await other_reader.read(1, MUCH, MUCH)).rows)
    await other_reader.close()
    await other.close()


async def test_older_copy_tells_an_older_head(world: World, log: Log) -> None:
    """A log put back from a backup is whole, under the same id; its head says that it went back."""
    await log.append(rows(1, 3), 1)
    await log.close()
    backup = world.copy()
    again = await world.store.open(LOG, "id-2")
    newest = await again.append(rows(4, 3), 2)
    await again.close()
    restored = await backup.store.open(LOG, "id-3")
    assert (newest.log_id, 3, 1) == (restored.head.log_id, restored.head.sequence, restored.head.term)
    assert 6 == (await restored.append(rows(4, 3, about="w-2"), 2)).sequence
    assert newest.hash != restored.head.hash, "another past, though it is as long"
    await restored.close()


# Reading.


async def test_read_limits(world: World, log: Log) -> None:
    """A page has at most so many rows and so many bytes, but one row at least; pages put together are the log."""
    written = [row._replace(event=bytes(100 * (row.sequence % 7))) for row in rows(1, 300)]
    await log.append(written, 1)
    hashes = [GENESIS, *chain(GENESIS, written)]
    async with reading(world) as reader:
        assert written[9:14] == (await reader.read(10, 5, MUCH)).rows
        assert written[9:10] == (await reader.read(10, 5, 1)).rows
        assert [] == (await reader.read(10, 0, MUCH)).rows
        for bytes_max in (1, 600, 2_000, 50_000, MUCH):
            first = 1
            while first <= 300:
                page = await reader.read(first, 250, bytes_max)
                after = first + len(page.rows)
                assert written[first - 1 : after - 1] == page.rows
                assert (hashes[first - 1], hashes[after - 1]) == (page.hash_before, page.hash_after)
                assert 1 <= len(page.rows) <= 250
                assert 1 == len(page.rows) or sum(len(row.event) for row in page.rows) <= bytes_max
                first = after


async def test_reading_beyond_the_head_finds_the_head(world: World, log: Log) -> None:
    """Who asks for rows that are not there yet gets none, and the head's hash to compare with."""
    head = await log.append(rows(1, 3), 1)
    async with reading(world) as reader:
        assert Page([], head.hash, head.hash) == await reader.read(4, 10, MUCH)
        assert Page([], head.hash, head.hash) == await reader.read(40, 10, MUCH)


async def test_reader_sees_whole_batches_while_they_are_written(world: World, log: Log) -> None:
    """Beside a busy keeper a reader sees a prefix of whole batches, never a part, and the keeper goes on."""
    seen: list[int] = []

    async def write() -> None:
        for first in range(1, 300, 3):
            await log.append(rows(first, 3), 1)

    async def read() -> None:
        async with reading(world) as reader:
            while not seen or seen[-1] < 300:
                head = await reader.head()
                page = await reader.read(1, MUCH, MUCH)
                assert len(page.rows) >= head.sequence
                seen.append(len(page.rows))
                await asyncio.sleep(0)

    await asyncio.gather(write(), read())
    assert [] == [count for count in seen if count % 3]
    assert sorted(seen) == seen


async def test_read_about(world: World, log: Log) -> None:
    """Rows about one thing behind a sequence, oldest first; what is about the log itself is about nothing."""
    written = [row._replace(about=f"w-{row.sequence % 3}" if row.sequence > 2 else "") for row in rows(1, 50)]
    await log.append(written, 1)
    about = [row for row in written if row.about == "w-1"]
    async with reading(world) as reader:
        assert about == await reader.read_about("w-1", 0, 100, MUCH)
        assert about[:4] == await reader.read_about("w-1", 0, 4, MUCH)
        after = about[3].sequence
        assert about[4:] == await reader.read_about("w-1", after, 100, MUCH)
        assert about[3:] == await reader.read_about("w-1", after - 1, 100, MUCH)
        for behind in (about[-1].sequence, 50, 51, 1_000):
            assert [] == await reader.read_about("w-1", behind, 100, MUCH)
        assert [] == await reader.read_about("w-9", 0, 100, MUCH)
        assert [] == await reader.read_about("", 0, 100, MUCH)


async def test_read_about_is_limited(world: World, log: Log) -> None:
    """By the count and by the bytes together, and one row comes at least; whoever asks again behind it has all."""
    small = rows(1, 1_000, about="w-2")
    large = [row._replace(event=bytes(100_000 * (1 + row.sequence % 3))) for row in rows(1_001, 12)]
    await log.append([*small, *large], 1)
    async with reading(world) as reader:
        assert small[:900] == await reader.read_about("w-2", 0, 900, MUCH)
        assert small == await reader.read_about("w-2", 0, 5_000, MUCH)
        for bytes_max in (1, 350_000, 650_000):
            found: list[Row] = []
            while page := await reader.read_about("w-1", found[-1].sequence if found else 0, 100, bytes_max):
                assert len(page) == 1 or sum(len(row.event) for row in page) <= bytes_max
                found += page
            assert large == found


async def test_read_about_sees_what_is_durable(world: World, log: Log) -> None:
    """A row that is appended later is found by whoever goes on behind the last one."""
    await log.append(rows(1, 3), 1)
    async with reading(world) as reader:
        assert rows(1, 3) == await reader.read_about("w-1", 0, 100, MUCH)
        await log.append([*rows(4, 2, about="w-2"), *rows(6, 1)], 1)
        assert rows(6, 1) == await reader.read_about("w-1", 3, 100, MUCH)


async def test_rows_are_facts(world: World, log: Log) -> None:
    """Facts become rows and rows the same facts."""
    facts = facts_of(LOG, rows(1, 5))
    await log.append([row_of(fact) for fact in facts], 1)
    assert facts == facts_of(LOG, await everything(world))
    assert [_started(sequence) for sequence in range(1, 6)] == [fact.event for fact in facts]


async def test_event_of_a_newer_build(world: World, log: Log) -> None:
    """The log reads; what its rows mean is what this build cannot say."""
    unknown = rows(2, 1)[0]._replace(event=encode({"type": "workload-teleported"}))
    await log.append([*rows(1, 1), unknown], 1)
    found = await everything(world)
    with pytest.raises(LogFromNewerBuild, match=r"sequence 2 .*workload-teleported"):
        facts_of(LOG, found)


# Damage.


async def test_whole_log_verifies(world: World, log: Log) -> None:
    """All rows follow, so nothing is found."""
    await log.append(rows(1, 2_500), 1)
    async with reading(world) as reader:
        found = await reader.verify()
    assert (2_500, 0, "") == (found.rows, found.broken_at, found.problem)


@pytest.mark.parametrize("sequence", [1, 7, 2_500])
async def test_flipped_byte_is_named(world: World, log: Log, sequence: int) -> None:
    """A byte that changed is found by verifying, by reading and by opening, each naming the row."""
    await log.append(rows(1, 2_500), 1)
    await log.close()
    world.flip(sequence)
    async with reading(world) as reader:
        found = await reader.verify()
        assert (sequence - 1, sequence) == (found.rows, found.broken_at)
        assert f"at sequence {sequence}" in found.problem
        with pytest.raises(LogBroken) as read:
            await reader.read(max(1, sequence - 3), 10, MUCH)
    with pytest.raises(LogBroken) as opened:
        await world.store.open(LOG, "id-2")
    assert [sequence, sequence] == [read.value.sequence, opened.value.sequence]
    with pytest.raises(LogBroken):
        await world.store.open(LOG, "id-2")  # and not LogInUse: the first try let go of it


async def test_reading_past_a_flipped_byte(world: World, log: Log) -> None:
    """Damage is met by whoever reads that row, and by nobody else."""
    await log.append(rows(1, 10), 1)
    world.flip(5)
    async with reading(world) as reader:
        assert rows(1, 4) == (await reader.read(1, 4, MUCH)).rows
        assert rows(6, 5) == (await reader.read(6, 10, MUCH)).rows
        with pytest.raises(LogBroken):
            await reader.read_about("w-1", 0, 10, MUCH)
        assert rows(6, 5) == await reader.read_about("w-1", 5, 10, MUCH)


async def test_opening_checks_from_the_snapshot_on(world: World, log: Log) -> None:
    """So that a start takes no longer the longer the history is: older damage is for verifying to find."""
    head = await log.append(rows(1, 10), 1)
    async with reading(world) as reader:
        await reader.keep_snapshot(Snapshot(head, b"image"))
    await log.append(rows(11, 10), 1)
    await log.close()
    world.flip(4)
    again = await world.store.open(LOG, "id-2")
    assert 20 == again.head.sequence
    await again.close()
    world.flip(13)
    with pytest.raises(LogBroken) as opened:
        await world.store.open(LOG, "id-2")
    assert 13 == opened.value.sequence
    async with reading(world) as reader:
        assert 4 == (await reader.verify()).broken_at


# Snapshots.


def _image(snapshot: Snapshot | None) -> bytes | None:
    return None if snapshot is None else snapshot.image


async def _with_snapshots(log: Log, reader: LogReader, count: int) -> list[Snapshot]:
    """A log with a snapshot every ten rows."""
    kept = []
    for number in range(count):
        head = await log.append(rows(10 * number + 1, 10), 1)
        kept.append(Snapshot(head, b"image %d" % number))
        await reader.keep_snapshot(kept[-1])
    return kept


async def test_newest_snapshot_and_tail(world: World, log: Log) -> None:
    """A start is the newest snapshot and the rows after it."""
    async with reading(world) as reader:
        kept = await _with_snapshots(log, reader, 2)
        await log.append(rows(21, 5), 1)
        snapshot = await reader.snapshot()
        assert kept[-1] == snapshot
        tail = await reader.read(snapshot.head.sequence + 1, MUCH, MUCH)
        assert (snapshot.head.hash, log.head.hash) == (tail.hash_before, tail.hash_after)
        assert rows(21, 5) == tail.rows


async def test_damaged_snapshot_is_skipped(world: World, log: Log) -> None:
    """The one before it and a longer tail give the same state; with both damaged it is the whole log."""
    async with reading(world) as reader:
        kept = await _with_snapshots(log, reader, 3)
        world.flip_snapshot(30)
        assert kept[1] == await reader.snapshot()
        world.flip_snapshot(20)
        assert await reader.snapshot() is None, "the newest two are kept, and no more"
        await log.close()
        again = await world.store.open(LOG, "id-2")
        assert 30 == again.head.sequence
        await again.close()


async def test_large_image_is_kept(world: World, log: Log) -> None:
    """An image of some size comes back as it was."""
    image = bytes(range(256)) * 20_000
    head = await log.append(rows(1, 1), 1)
    async with reading(world) as reader:
        await reader.keep_snapshot(Snapshot(head, image))
        assert image == _image(await reader.snapshot())


@pytest.mark.parametrize("wrong", ["hash", "log_id", "sequence"])
async def test_snapshot_of_another_past_is_not_used(world: World, log: Log, wrong: str) -> None:
    """A snapshot counts where the chain has its hash, and nowhere else."""
    async with reading(world) as reader:
        kept = await _with_snapshots(log, reader, 1)
        head = await log.append(rows(11, 2), 1)
        other = {"hash": b"x" * 16, "log_id": "id-9", "sequence": 11}[wrong]
        await reader.keep_snapshot(Snapshot(msgspec.structs.replace(head, **{wrong: other}), b"other"))
        assert kept[0] == await reader.snapshot()
        await log.close()
        await (await world.store.open(LOG, "id-2")).close()


async def test_snapshots_ahead_of_a_restored_log_make_way(world: World, log: Log) -> None:
    """After an older copy is put back its snapshots are the ones that are used and kept."""
    await log.append(rows(1, 5), 1)
    await log.close()
    backup = world.copy()
    again = await world.store.open(LOG, "id-2")
    async with reading(world) as reader:
        for first in (6, 11):
            snapshot = Snapshot(await again.append(rows(first, 5), 1), b"image")
            await reader.keep_snapshot(snapshot)
    await again.close()
    _move_snapshots(world, backup)
    restored = await backup.store.open(LOG, "id-3")
    head = await restored.append(rows(6, 1, about="w-2"), 1)
    async with reading(backup) as reader:
        assert await reader.snapshot() is None
        await reader.keep_snapshot(Snapshot(head, b"ours"))
        assert b"ours" == _image(await reader.snapshot())
    await restored.close()


def _move_snapshots(source: World, target: World) -> None:
    """The log was restored, what lay beside it stayed."""
    if isinstance(source, SqliteWorld) and isinstance(target, SqliteWorld):
        for path in source.directory.glob("*.image"):
            shutil.copy(path, target.directory)
    elif isinstance(source, MemoryWorld) and isinstance(target, MemoryWorld):
        images = source.disk._files[LOG].images
        target.disk._files[LOG].images.update(images)


async def test_full_disk_keeps_the_older_snapshots(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that finds no room is absent; those before it stay."""

    def no_room(_: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    async with reading(world) as reader:
        kept = await _with_snapshots(log, reader, 2)
        head = await log.append(rows(21, 1), 1)
        world.fill(log)
        monkeypatch.setattr("store.images.os.fsync", no_room)
        with pytest.raises(LogFull):
            await reader.keep_snapshot(Snapshot(head, b"too much"))
        monkeypatch.undo()
        assert kept[1] == await reader.snapshot()
