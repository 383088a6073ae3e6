"""Where a log can be, what can befall it there, and what is written to it and read."""

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

from core.codec import encode
from core.events.region import GangStarted
from core.nouns.ids import LogName, WorkloadId
from store.memory import MemoryStore
from store.memory_disk import MemoryDisk
from store.port import Log, LogReader, LogStore, Row, Snapshot
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

    async def shed(self, log: Log) -> None:
        """Its keeper lets go of what is archived."""

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

    async def shed(self, log: Log) -> None:
        pass

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

    async def shed(self, log: Log) -> None:
        assert isinstance(log, SqliteLog)
        await log.shed()

    def copy(self) -> World:
        return SqliteWorld(Path(shutil.copytree(self.directory, self.directory.with_name("copy"))))


WORLDS: dict[str, Callable[[Path], World]] = {
    "memory": lambda directory: MemoryWorld(MemoryDisk()),
    "slow memory": lambda directory: SlowMemoryWorld(MemoryDisk()),
    "sqlite": lambda directory: SqliteWorld(directory / "logs"),
}


def rows(first: int, count: int, about: str = "w-1") -> list[Row]:
    """So many rows in sequence."""
    return [
        Row(sequence, 1_000 + sequence, f"cause-{sequence}", "agent.eu", about, encode(started(sequence)))
        for sequence in range(first, first + count)
    ]


def started(epoch: int) -> GangStarted:
    """The event of a row."""
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


def image_of(snapshot: Snapshot | None) -> bytes | None:
    """What it holds, if there is one."""
    return None if snapshot is None else snapshot.image
