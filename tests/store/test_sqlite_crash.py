"""What is left of a log in SQLite when its keeper is killed, at every byte that it could have come to."""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.nouns.ids import LogName
from store import sqlite_file
from store.chain import GENESIS
from store.port import Row
from store.sqlite import SqliteStore

LOG = LogName("global")
BATCH_ROWS = 3


def rows(first: int, count: int) -> list[Row]:
    """So many small rows in sequence."""
    return [Row(number, number, "c", "a", f"w-{number}", b"event") for number in range(first, first + count)]


def prefix_of(path: Path) -> int:
    """How many rows there are, all of them checked, for a reader that recovers the file and changes nothing."""
    with contextlib.closing(sqlite_file.connect_to_read(path)) as connection:
        count = 0
        for page, _ in sqlite_file.checked_pages(connection, LOG, 1, GENESIS):
            assert rows(count + 1, len(page)) == page
            count += len(page)
        return count


async def _written(directory: Path, batches: int) -> tuple[bytes, bytes, list[int]]:
    """A log in the midst of its life: file, write-ahead log, and how long that was after each batch."""
    store = SqliteStore(directory)
    # Closed once, so that its tables are in the file and the write-ahead log holds batches only.
    await (await store.open(LOG, "id")).close()
    log = await store.open(LOG, "id-2")
    wal = directory / f"{LOG}.sqlite-wal"
    sizes = []
    for number in range(batches):
        await log.append(rows(1 + BATCH_ROWS * number, BATCH_ROWS), 1)
        sizes.append(wal.stat().st_size)
    contents = (directory / f"{LOG}.sqlite").read_bytes(), wal.read_bytes()
    await log.close()
    return *contents, sizes


def test_write_ahead_log_cut_at_every_byte(tmp_path: Path) -> None:
    """Whatever length the write-ahead log has after a kill, whole batches remain, a prefix, with none lost that fits."""
    file, wal, sizes = asyncio.run(_written(tmp_path, 3))
    # On a file system in memory where there is one: what is cut here was never to survive a power cut.
    place = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else tmp_path
    cut = place / f"mizzen-cut-{os.getpid()}"
    cut.mkdir()
    try:
        path, cut_wal = cut / "log.sqlite", cut / "log.sqlite-wal"
        path.write_bytes(file)
        cut_wal.write_bytes(wal)
        counts = []
        for length in range(len(wal), -1, -1):
            os.truncate(cut_wal, length)
            counts.append(prefix_of(path))
        assert file == path.read_bytes()
    finally:
        shutil.rmtree(cut)
    expected = [BATCH_ROWS * sum(size <= length for size in sizes) for length in range(len(wal), -1, -1)]
    assert expected == counts
    assert len(wal) > 20_000
    assert (3 * BATCH_ROWS, 0) == (counts[0], counts[-1])


async def test_write_ahead_log_damaged_in_the_middle(tmp_path: Path) -> None:
    """What follows the damage is gone, and what is left is a prefix of whole batches: the head tells."""
    file, wal, sizes = await _written(tmp_path / "whole", 4)
    for place in range(32, len(wal), 997):
        path = tmp_path / "log.sqlite"
        path.write_bytes(file)
        path.with_name("log.sqlite-wal").write_bytes(
            wal[:place] + bytes((wal[place] ^ 8,)) + wal[place + 1 :]
        )
        assert BATCH_ROWS * sum(size <= place for size in sizes) == prefix_of(path)


async def test_opening_after_a_cut(tmp_path: Path) -> None:
    """The next keeper takes the log as it is left and goes on from there; so at a frame's end, within one, and before."""
    file, wal, sizes = await _written(tmp_path / "whole", 4)
    for length in (0, 31, 32, sizes[0] - 1, sizes[0], sizes[1] + 17, sizes[3] - 1, sizes[3]):
        directory = tmp_path / f"cut-{length}"
        directory.mkdir()
        (directory / f"{LOG}.sqlite").write_bytes(file)
        (directory / f"{LOG}.sqlite-wal").write_bytes(wal[:length])
        log = await SqliteStore(directory).open(LOG, "id-3")
        left = BATCH_ROWS * sum(size <= length for size in sizes)
        assert ("id", left) == (log.head.log_id, log.head.sequence)
        assert (1 if left else 0) == log.head.term
        await log.append(rows(left + 1, 2), 2)
        await log.close()
        assert left + 2 == prefix_of(directory / f"{LOG}.sqlite")


async def test_opening_after_a_cut_in_the_making(tmp_path: Path) -> None:
    """A log whose tables were never durable was never made: it is made now, under the new id."""
    log = await SqliteStore(tmp_path / "whole").open(LOG, "id")
    wal = (tmp_path / "whole" / f"{LOG}.sqlite-wal").read_bytes()
    file = (tmp_path / "whole" / f"{LOG}.sqlite").read_bytes()
    await log.close()
    for length in range(0, len(wal) + 1, len(wal) // 20):
        directory = tmp_path / f"cut-{length}"
        directory.mkdir()
        (directory / f"{LOG}.sqlite").write_bytes(file)
        (directory / f"{LOG}.sqlite-wal").write_bytes(wal[:length])
        log = await SqliteStore(directory).open(LOG, "id-2")
        assert "id-2" == log.head.log_id
        await log.append(rows(1, 1), 1)
        await log.close()


CHILD = f"""
import asyncio, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
from store.port import Row
from store.sqlite import SqliteStore

async def main():
    log = await SqliteStore(Path(sys.argv[1])).open("global", "id")
    sequence = log.head.sequence
    async def append(first):
        rows = [Row(n, n, "c", "a", f"w-{{n}}", b"event") for n in range(first, first + {BATCH_ROWS})]
        head = await log.append(rows, 1)
        print(head.sequence, flush=True)
    while True:
        await asyncio.gather(*[append(sequence + 1 + {BATCH_ROWS} * n) for n in range(4)])
        sequence += {BATCH_ROWS} * 4

asyncio.run(main())
"""


@pytest.mark.processes
def test_killed_while_writing(tmp_path: Path) -> None:
    """After kill -9 at any moment, all that was acknowledged is there, and whole batches only; and so again and again."""
    count = 0
    for acknowledgements in (1, 5, 60, 200):
        command = [sys.executable, "-c", CHILD, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            heard = [int(child.stdout.readline()) for _ in range(acknowledgements)]
            child.send_signal(signal.SIGKILL)
            heard += [int(line) for line in child.stdout.read().split("\n")[:-1]]
        # Not closed, not recovered: as the next keeper, or a reader beside it, finds it.
        count, before = prefix_of(tmp_path / f"{LOG}.sqlite"), count
        assert count >= heard[-1]
        assert 0 == count % BATCH_ROWS
        assert sorted(heard) == heard
        assert before < heard[0]
