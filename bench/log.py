"""The log: durable appends beside raw SQLite, reading back, replaying into an image, archiving, and starting with a long history.

Appends are measured in short slices, ours and raw SQLite's in turn on two files that stay open, and compared slice with
slice: here an fsync takes 0.1 ms for some minutes and then 4 ms, so figures taken one after the other compare nothing.
Raw SQLite is what one would write without us: one thread, the same tables, settings and hash, BEGIN, `executemany`, COMMIT,
and as many rows a transaction as we have appenders, each of whom appends one row and waits.

The long history is archived as it grows, up to its second newest snapshot. `--facts 10000000` makes it ten times as long as it is
otherwise; that takes about six minutes instead of one and a half, and 350 MB of disk.

Everything is timed by the clock, and the median of several runs counts, so a machine that does something else meanwhile
gives lower figures; reports say how loaded it was. `read` is one thread's own; `reader_events_per_s` is what a host gets,
whose rows come from another thread.
"""

import argparse
import asyncio
import shutil
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from bench.support.report import Bar, Findings, Yardstick, at_least, at_most
from bench.support.store.archiving import archiving_figures
from bench.support.store.region_history import RegionHistory
from core.codec import encode
from core.events.region import CheckpointCommitted
from core.fact import Fact
from core.images.region import RegionImage
from core.images.versions import VERSIONS
from core.nouns.ids import LogName, RegionName, WorkloadId, region_log
from core.nouns.instant import Instant
from core.nouns.limits import READ_BYTES_MAX, READ_FACTS_MAX
from runtime.gc_tuning import settle_down
from runtime.keeping.opening import take_log
from store import sqlite_file
from store.chain import GENESIS, chain
from store.memory import MemoryStore
from store.memory_disk import MemoryDisk
from store.port import Log, LogReader, Row, Snapshot
from store.rows import facts_of, row_of
from store.sqlite import SqliteStore, facts_in

LOG = region_log(RegionName("bench"))
APPENDERS = (1, 16, 256)
PAIRS, QUICK_PAIRS = 14, 2
SLICE_SECONDS, QUICK_SLICE_SECONDS = 0.2, 0.01
READ_ROWS, QUICK_READ_ROWS = 200_000, 2_000
SHORT_ROWS, QUICK_SHORT_ROWS = 10_000, 1_000
LONG_ROWS, QUICK_LONG_ROWS = 1_000_000, 5_000
ARCHIVED_AT_ONCE = 500_000
"""Facts between snapshots of the long history, each of which lets the facts before the last one be archived."""
TAIL_ROWS, QUICK_TAIL_ROWS = 5_000, 500
BATCH_ROWS = 4096
REPETITIONS = 5
EVENT = encode(CheckpointCommitted(workload=WorkloadId("w-1234567"), epoch=1, step=123_456))

HAND_OVER = (
    "a commit costs two hand-overs between the loop's thread and the writer's, 60 to 100 µs on a virtual machine, beside an "
    "fsync that may take no longer; where fsyncs keep a beat of 4 ms, who comes so much later may wait for the next"
)
WAKING = (
    "whoever appends waits for the same commit, so the loop wakes all of them, 2.5 µs each, before the writer has work again; "
    "a host has one append in flight and never meets this"
)
READING = "a row costs SQLite 0.7 to 1.3 µs of one core (0.15 a column), its hash 0.6 to 1, its event 0.6"
SHEDDING = "a step of 2 ms is in the way of whoever comes meanwhile, and moving 16 MB from the write-ahead log to the file"
ARCHIVED = "zlib keeps a thirteenth of a fact, and the index by what facts are about takes 4 bytes more"
FOLDING = "a fact costs 2 µs to read, and the image what its fold costs: a claim of several nodes changes six columns each"


def options(parser: argparse.ArgumentParser) -> None:
    """How long the long history is."""
    parser.add_argument("--facts", type=int, default=0, help=f"of the long history (default: {LONG_ROWS:,})")


async def run(directory: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """All of it, in about two minutes."""
    settle_down()  # as every long-lived process of ours does
    figures: dict[str, float] = {}
    bars: list[Bar] = []
    for count in APPENDERS:
        found = await _appends(directory / f"{count}", count, is_quick=is_quick)
        figures |= found
        bars.append(
            at_least(
                f"append_ratio_{count}", found[f"append_ratio_{count}"], 0.7, (HAND_OVER, WAKING)[count > 16]
            )
        )
    figures["memory_append_us"] = await _memory_append_us(QUICK_READ_ROWS if is_quick else READ_ROWS)
    facts = (chosen.facts if chosen is not None else 0) or (QUICK_LONG_ROWS if is_quick else LONG_ROWS)
    figures |= await _history(directory / "history", facts, is_quick=is_quick)
    figures |= await archiving_figures(directory / "archiving", LOG, is_quick=is_quick)
    bars += [
        at_most("memory_append_us", figures["memory_append_us"], 3, "the hash of a row alone costs 0.5 µs"),
        at_least("read_events_per_s", figures["read_events_per_s"], 400_000, READING),
        at_least("replay_events_per_s", figures["replay_events_per_s"], 150_000, FOLDING),
        at_most(
            "startup_growth",
            figures["startup_growth"],
            1.2,
            "a start reads more than the newest image and its tail",
        ),
        at_most("append_p99_added_ms", figures["append_p99_added_ms"], 5, SHEDDING),
        at_most("archive_bytes_per_event", figures["archive_bytes_per_event"], 30, ARCHIVED),
    ]
    return Findings(figures, bars, YARDSTICKS)


YARDSTICKS = [
    Yardstick(
        "etcd_requests_per_s",
        30_000,
        "etcd.io/docs/v3.6/op-guide/performance: three members, heavy load, 'more than'. Replicated, which we are not",
    ),
    Yardstick(
        "jetstream_append_256_per_s",
        6_500,
        "nats-server 2.15.1 on such a machine, file storage, one replica, sync_interval always, 256 in flight, fast fsync",
    ),
    Yardstick(
        "jetstream_read_per_s",
        166_000,
        "the same with its default sync: ordered push consumer, decoded, no hash of ours",
    ),
]


# Appending.


async def _appends(directory: Path, count: int, *, is_quick: bool) -> dict[str, float]:
    """Rows made durable a second: by so many appenders, and by one thread of raw SQLite so many at a time."""
    seconds = QUICK_SLICE_SECONDS if is_quick else SLICE_SECONDS
    directory.mkdir()
    raw = _Raw(directory / "raw.sqlite", count)
    log = await SqliteStore(directory).open(LOG, "bench")
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(QUICK_PAIRS if is_quick else PAIRS):
        # In turn first, so that whatever drifts favours neither.
        if number % 2:
            theirs.append(raw.rows_per_s(seconds))
        ours.append(await _rows_per_s(log, count, seconds))
        if not number % 2:
            theirs.append(raw.rows_per_s(seconds))
    await log.close()
    raw.close()
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    return {
        f"append_{count}_per_s": statistics.median(ours),
        f"raw_append_{count}_per_s": statistics.median(theirs),
        f"append_ratio_{count}": statistics.median(ratios),
    }


def _row(sequence: int) -> Row:
    return Row(
        sequence,
        1_700_000_000_000_000_000 + sequence,
        f"worker-1.{sequence}",
        "worker-1",
        f"w-{sequence // 5}",
        EVENT,
    )


async def _rows_per_s(log: Log, count: int, seconds: float) -> float:
    """So many appenders, each of which appends one row and waits, for about so long."""
    sequence = first = log.head.sequence
    started = time.perf_counter()
    end = started + seconds

    async def append() -> None:
        nonlocal sequence
        while time.perf_counter() < end:
            sequence += 1
            await log.append([_row(sequence)], 1)

    await asyncio.gather(*[append() for _ in range(count)])
    return (sequence - first) / (time.perf_counter() - started)


class _Raw:
    """SQLite without us."""

    def __init__(self, path: Path, count: int) -> None:
        self._connection: sqlite3.Connection = sqlite_file.connect_to_write(LogName("raw"), path, "raw")
        self._count = count
        self._sequence = 0
        self._hash = GENESIS

    def rows_per_s(self, seconds: float) -> float:
        """Transactions of so many rows, for about so long."""
        execute, insert = self._connection.execute, sqlite_file.insert(1)
        first = self._sequence
        started = time.perf_counter()
        end = started + seconds
        while time.perf_counter() < end:
            rows = [_row(self._sequence + number) for number in range(1, self._count + 1)]
            hashes = chain(self._hash, rows)
            execute("BEGIN")
            self._connection.executemany(
                insert, [(*row, hash_) for row, hash_ in zip(rows, hashes, strict=True)]
            )
            execute("COMMIT")
            self._sequence, self._hash = rows[-1].sequence, hashes[-1]
        return (self._sequence - first) / (time.perf_counter() - started)

    def close(self) -> None:
        self._connection.close()


async def _memory_append_us(count: int) -> float:
    """What a row costs the simulated world, one a batch."""
    rows = [_row(sequence) for sequence in range(1, count + 1)]
    spent = []
    for _ in range(3):
        log = await MemoryStore(MemoryDisk()).open(LOG, "bench")
        started = time.perf_counter()
        for row in rows:
            await log.append([row], 1)
        spent.append(time.perf_counter() - started)
    return statistics.median(spent) / count * 1e6


# Reading, replaying, starting.


async def _history(directory: Path, long: int, *, is_quick: bool) -> dict[str, float]:
    """One region's log as it grows: what is read and replayed of it, and what a start costs early and late."""
    short, read, tail = (
        (QUICK_SHORT_ROWS, QUICK_READ_ROWS, QUICK_TAIL_ROWS)
        if is_quick
        else (SHORT_ROWS, READ_ROWS, TAIL_ROWS)
    )
    history = _Writing(directory)
    await history.grow(short - tail)
    await history.keep_snapshot()
    await history.grow(short)
    early = directory.with_name("early")
    shutil.copytree(directory, early)
    await history.grow(read)
    reading = _facts_per_s(directory, lambda: id)
    through_reader = await _reader_per_s(directory)
    replaying = _facts_per_s(directory, lambda: RegionImage.empty().fold)
    await history.grow_archived(long - tail)
    await history.grow(long)
    # In turn, so that whatever drifts favours neither.
    starts = [(await _startup_seconds(early), await _startup_seconds(directory)) for _ in range(REPETITIONS)]
    return {
        "read_events_per_s": reading,
        "reader_events_per_s": through_reader,
        "replay_events_per_s": replaying,
        f"startup_{short}_ms": 1000 * statistics.median(short for short, _ in starts),
        f"startup_{long}_ms": 1000 * statistics.median(long for _, long in starts),
        "startup_growth": statistics.median(long / short for short, long in starts),
        "long_log_mb": (directory / f"{LOG}.sqlite").stat().st_size / 1e6,
        "long_archive_mb": sum(path.stat().st_size for path in (directory / f"{LOG}.archive").iterdir())
        / 1e6,
    }


class _Writing:
    """A region's log being written, with the image of what is in it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._history = RegionHistory(LOG)
        self._facts = self._history.facts()
        self._image = RegionImage.empty()
        self._count = 0

    async def grow(self, count: int) -> None:
        """Until it has so many facts."""
        log = await SqliteStore(self._directory).open(LOG, "bench")
        while self._count < count:
            facts = [next(self._facts) for _ in range(min(BATCH_ROWS, count - self._count))]
            for fact in facts:
                self._image.fold(fact)
            await log.append([row_of(fact) for fact in facts], 1)
            self._count += len(facts)
        await log.close()

    async def grow_archived(self, count: int) -> None:
        """The same, and what is before the second newest snapshot is archived on the way."""
        (self._directory / f"{LOG}.archive").mkdir()
        while self._count < count:
            await self.grow(min(count, self._count + ARCHIVED_AT_ONCE))
            await self.keep_snapshot()
            store = SqliteStore(self._directory)
            log, reader = await store.open(LOG, "bench"), await store.reader(LOG)
            while await reader.archive(Instant(1 << 62)) is not None:
                pass
            await log.shed()
            await reader.close()
            await log.close()

    async def keep_snapshot(self) -> None:
        """The image as it is now."""
        reader = await SqliteStore(self._directory).reader(LOG)
        await reader.keep_snapshot(Snapshot(await reader.head(), self._image.encode(), VERSIONS.made_of))
        await reader.close()


async def _reader_per_s(directory: Path) -> float:
    """Facts a second through a host's reader, whose rows come from another thread."""
    settle_down()
    rates = []
    for _ in range(REPETITIONS):
        reader = await SqliteStore(directory).reader(LOG)
        started = time.perf_counter()
        count = 0
        async for rows in _pages(reader, 1):
            count += len(facts_of(LOG, rows))
        rates.append(count / (time.perf_counter() - started))
        await reader.close()
    return statistics.median(rates)


async def _pages(reader: LogReader, first: int) -> AsyncIterator[list[Row]]:
    while rows := (await reader.read(first, READ_FACTS_MAX, READ_BYTES_MAX)).rows:
        yield rows
        first += len(rows)


def _facts_per_s(directory: Path, receive: Callable[[], Callable[[Fact], object]]) -> float:
    """Facts a second from the file, hash checked and decoded, into whatever receives them afresh each time."""
    settle_down()
    rates = []
    for _ in range(REPETITIONS):
        take = receive()
        count = 0
        started = time.perf_counter()
        for fact in facts_in(directory, LOG):
            take(fact)
            count += 1
        rates.append(count / (time.perf_counter() - started))
    return statistics.median(rates)


async def _startup_seconds(directory: Path) -> float:
    """Return how long a keeper takes to take the log and fold its image: until it could decide."""
    settle_down()
    spent = []
    for _ in range(3):
        started = time.perf_counter()
        taken = await take_log(SqliteStore(directory), LOG, "bench")
        spent.append(time.perf_counter() - started)
        await taken.log.close()
    return statistics.median(spent)
