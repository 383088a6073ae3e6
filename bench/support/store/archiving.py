"""What archiving costs: bytes of a fact in the log and in its archive, and how long an append waits while it goes on.

Appends come one at a time, 2 ms after the one before has ended, from a loop that does nothing else. They are timed while
nothing is archived, while another process writes an archive file, as the reader's does in a plane, and while the keeper's
thread deletes what the file has; in turn, so that whatever drifts favours none of the three.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.support.store.region_history import RegionHistory
from core.nouns.ids import LogName
from store import sqlite_file, sqlite_writer
from store.archive_file import FACTS_MAX
from store.port import Row, Snapshot
from store.rows import row_of
from store.sqlite import SqliteLog, SqliteStore

BATCH_ROWS = 4096
PAUSE_SECONDS = 0.002
TURNS, QUICK_TURNS = 3, 1
QUIET_SECONDS, QUICK_QUIET_SECONDS = 4.0, 0.1
QUICK_FACTS = 1_000
LOOK_SECONDS = 0.05
"""Instead of ten seconds: the keeper's thread is to find a file as soon as it is there."""

CHILD = """
import sys
from pathlib import Path
from store import archiving
archiving.FACTS_MAX = int(sys.argv[3])
assert archiving.archive_next(Path(sys.argv[1]), sys.argv[2], 1 << 62, is_whole=True) is not None
"""


async def archiving_figures(directory: Path, log_name: LogName, *, is_quick: bool) -> dict[str, float]:
    """By name; delays in milliseconds."""
    turns, quiet_seconds = (QUICK_TURNS, QUICK_QUIET_SECONDS) if is_quick else (TURNS, QUIET_SECONDS)
    facts = QUICK_FACTS if is_quick else FACTS_MAX
    look, sqlite_writer.LOOK_SECONDS = sqlite_writer.LOOK_SECONDS, LOOK_SECONDS
    try:
        log = await SqliteStore(directory).open(log_name, "bench")
        appending = _Appending(log, log_name)
        await appending.fill(turns * facts + 1)
        reader = await SqliteStore(directory).reader(log_name)
        await reader.keep_snapshot(Snapshot(log.head, b""))
        await reader.close()
        await appending.fill(BATCH_ROWS)
        bytes_per_event = _size(directory, log_name) / log.head.sequence
        delays: dict[str, list[float]] = {"quiet": [], "writing": [], "shedding": []}
        writing = shedding = 0.0
        for turn in range(1, turns + 1):
            delays["quiet"] += await appending.timed(_seconds(quiet_seconds))
            began = time.perf_counter()
            # The file has its name, by which the keeper finds it, when the process is about to end.
            delays["writing"] += await appending.timed(await _child(directory, log_name, facts))
            writing += time.perf_counter() - began
            began = time.perf_counter()
            delays["shedding"] += await appending.timed(_gone(directory, log_name, turn * facts))
            shedding += time.perf_counter() - began
        await log.close()
    finally:
        sqlite_writer.LOOK_SECONDS = look
    archived = sum(path.stat().st_size for path in (directory / f"{log_name}.archive").iterdir())
    found = {
        f"append_{quantile}_{when}_ms": 1000 * _quantile(of, int(quantile[1:]) / 100)
        for when, of in delays.items()
        for quantile in ("p50", "p99")
    }
    return found | {
        "append_p99_added_ms": found["append_p99_shedding_ms"] - found["append_p99_quiet_ms"],
        "log_bytes_per_event": bytes_per_event,
        "archive_bytes_per_event": archived / (turns * facts),
        "archive_write_us": 1e6 * writing / (turns * facts),
        "shed_events_per_s": turns * facts / shedding,
    }


class _Appending:
    """A region's log being written."""

    def __init__(self, log: SqliteLog, log_name: LogName) -> None:
        self._log = log
        self._facts = RegionHistory(log_name).facts()

    async def fill(self, count: int) -> None:
        """So many more facts, fast."""
        for first in range(0, count, BATCH_ROWS):
            await self._log.append([self._row() for _ in range(min(BATCH_ROWS, count - first))], 1)

    async def timed(self, is_over: Callable[[], bool]) -> list[float]:
        """Seconds that each append of one fact took, until it is over."""
        delays: list[float] = []
        while not delays or not is_over():
            row = self._row()
            began = time.perf_counter()
            await self._log.append([row], 1)
            delays.append(time.perf_counter() - began)
            await asyncio.sleep(PAUSE_SECONDS)
        return delays

    def _row(self) -> Row:
        return row_of(next(self._facts))


def _seconds(count: float) -> Callable[[], bool]:
    end = time.perf_counter() + count
    return lambda: time.perf_counter() >= end


async def _child(directory: Path, log_name: LogName, facts: int) -> Callable[[], bool]:
    """Write the next archive file in another process; over when that has ended."""
    words = (sys.executable, "-c", CHILD, str(directory), log_name, str(facts))
    child = await asyncio.create_subprocess_exec(*words)
    ended = asyncio.get_running_loop().create_task(child.wait())

    def is_over() -> bool:
        assert not ended.done() or ended.result() == 0, "it failed"
        return ended.done()

    return is_over


def _gone(directory: Path, log_name: LogName, last: int) -> Callable[[], bool]:
    """Over when the keeper has let go of these facts."""

    def is_over() -> bool:
        with closing(sqlite_file.connect_to_read(sqlite_file.path_of(directory, log_name))) as connection:
            (oldest,) = connection.execute("SELECT min(sequence) FROM facts").fetchone()
        return bool(oldest > last)

    return is_over


def _size(directory: Path, log_name: LogName) -> int:
    with closing(sqlite_file.connect_to_read(sqlite_file.path_of(directory, log_name))) as connection:
        return sqlite_file.size_of(connection)


def _quantile(delays: list[float], share: float) -> float:
    return sorted(delays)[min(len(delays) - 1, int(len(delays) * share))]
