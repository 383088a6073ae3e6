"""Logs in SQLite files with old facts, and what is in their files and archives."""

import contextlib
from pathlib import Path

from core.nouns.ids import LogName
from core.nouns.instant import Instant
from store import sqlite_file
from store.port import Row, Snapshot
from store.sqlite import SqliteLog, SqliteStore

LOG = LogName("global")
MUCH = 1 << 20
FOR_EVER = Instant(1 << 62)
STARTED = b"\x83\xa4type\xacgang-started\xa8workload\xa3w-1\xa5epoch\x01"
SMALL = 100
"""Facts in a file, in these tests."""


def rows(first: int, count: int, about: str = "w", event: bytes = STARTED) -> list[Row]:
    """So many rows in sequence."""
    return [
        Row(n, 1_000 + n, f"cause-{n}", "agent.eu", f"{about}-{n % 7}", event)
        for n in range(first, first + count)
    ]


async def fill(directory: Path, log: SqliteLog, count: int = 450, event: bytes = STARTED) -> list[Row]:
    """A log with a snapshot a hundred rows before its end."""
    written = rows(1, count, event=event)
    head = await log.append(written[: count - 100], 1)
    reader = await SqliteStore(directory).reader(LOG)
    await reader.keep_snapshot(Snapshot(head, b"image"))
    await reader.close()
    await log.append(written[count - 100 :], 1)
    return written


async def write_files(directory: Path, before: Instant = FOR_EVER, *, is_whole: bool = True) -> list[str]:
    """Archive all that is due; the keeper does not know yet. Returns the files."""
    reader = await SqliteStore(directory).reader(LOG)
    found = []
    while (done := await reader.archive(before, is_whole=is_whole)) is not None:
        found.append(done.path)
    await reader.close()
    return found


async def everything(directory: Path) -> list[Row]:
    """All that a fresh reader sees, page by page."""
    reader = await SqliteStore(directory).reader(LOG)
    found: list[Row] = []
    while page := (await reader.read(len(found) + 1, 170, MUCH)).rows:
        found += page
    await reader.close()
    return found


async def verified(directory: Path) -> tuple[int, int, str]:
    """How many rows are sound, which is the first that is not, and in which archive file."""
    reader = await SqliteStore(directory).reader(LOG)
    try:
        found = await reader.verify()
    finally:
        await reader.close()
    return found.rows, found.broken_at, Path(found.archive).name


def here(path: Path) -> list[int]:
    """The sequences that are in the SQLite file."""
    with contextlib.closing(sqlite_file.connect_to_read(path)) as connection:
        return [row[0] for row in connection.execute("SELECT sequence FROM facts ORDER BY sequence")]
