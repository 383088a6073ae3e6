"""A commit of an SQLite log waits for the disk: without that, a machine that loses its power forgets facts that were told."""

import asyncio
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from core.nouns.ids import LogName
from store.sqlite_writer import Writer

HOUSE = Path(__file__).parents[2]
SYNCHRONOUS_FULL = 2
"""`PRAGMA synchronous` of a connection that syncs the write-ahead log at every commit; NORMAL is 1, OFF is 0."""

APPENDS = 20
KEEPER = f"""
import asyncio, os, sys
from pathlib import Path
from store.port import Row
from store.sqlite import SqliteStore

async def main():
    log = await SqliteStore(Path(sys.argv[1])).open("global", "id-1")
    for number in range(1, {APPENDS + 1}):
        await log.append([Row(number, number, "", "queue", "", b"event")], 1)
        os.write(1, b"durable\\n")
    await log.close()

asyncio.run(main())
"""


@cache
def can_trace() -> bool:
    """Return whether strace is installed and permitted here."""
    if shutil.which("strace") is None:
        return False
    return (
        subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode
        == 0
    )


async def test_writing_connection_syncs_every_commit(tmp_path: Path) -> None:
    """The writer's own connection says so: a write-ahead log, and `synchronous = FULL`, also once facts were appended."""
    writer = Writer(LogName("global"), tmp_path, "id-1")
    await writer.open()
    said = {
        pragma: writer._connection.execute(f"PRAGMA {pragma}").fetchone()[0]
        for pragma in ("journal_mode", "synchronous", "fullfsync", "checkpoint_fullfsync")
    }
    await writer.hand_in_close()
    wanted = {
        "journal_mode": "wal",
        "synchronous": SYNCHRONOUS_FULL,
        "fullfsync": 1,
        "checkpoint_fullfsync": 1,
    }
    assert wanted == said


@pytest.mark.processes
@pytest.mark.skipif(not can_trace(), reason="strace is not installed, or may not trace")
async def test_each_commit_is_synced_before_it_is_told(tmp_path: Path) -> None:
    """Between the words of two appends, the system was asked to write the log's file to the disk, and answered."""
    traced = tmp_path / "calls"
    command = [
        "strace",
        "-f",
        "-e",
        "trace=fsync,fdatasync,write",
        "-o",
        str(traced),
        sys.executable,
        "-c",
        KEEPER,
    ]
    process = await asyncio.create_subprocess_exec(
        *command, str(tmp_path / "logs"), cwd=HOUSE, stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert b"durable\n" * APPENDS == out
    before_each = re.split(r'write\(1, "durable\\n"', traced.read_text())[:-1]
    synced = [
        len(re.findall(r"\b(?:fsync|fdatasync)(?:\(| resumed)[^\n]*= 0$", calls, re.MULTILINE))
        for calls in before_each
    ]
    assert APPENDS == len(synced)
    assert [] == [number for number, count in enumerate(synced, 1) if not count]
