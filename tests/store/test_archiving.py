"""Writing archive files: by one process at a time, durably, checked, and for the log's own user to read."""

import asyncio
import os
import re
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from store import sqlite_file
from store.archive import directory_of
from store.archive_file import ArchiveFile, Writing
from store.archiving import archive_next
from store.errors import LogBroken
from store.files import FileLock
from store.images import ImageFiles
from store.port import Snapshot
from store.sqlite import SqliteLog, SqliteStore
from tests.store.archived_logs import FOR_EVER, LOG, everything, fill, here, rows, verified, write_files
from tests.store.test_sqlite_syncs import HOUSE, can_trace

pytestmark = pytest.mark.usefixtures("small_files")


NOBODY = 65_534
"""A user and group that is not root."""


def first_facts(directory: Path) -> list[str]:
    """The archive files, by their sequences."""
    return sorted(path.name.split(".")[0] for path in directory_of(directory, LOG).glob("*.facts"))


async def test_another_archiver_in_between(
    tmp_path: Path, path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one writes a file, and the keeper deletes its rows, just before this one has the lock: it goes on from there."""
    await fill(tmp_path, log)
    loop = asyncio.get_running_loop()

    def lock_late(*words: Any) -> FileLock:  # Any: handed on
        monkeypatch.setattr("store.archiving.FileLock", FileLock)
        other = archive_next(tmp_path, LOG, 1_071, is_whole=False)
        assert other is not None
        assert (1, 70) == (other.first, other.last)
        asyncio.run_coroutine_threadsafe(log.shed(), loop).result()
        return FileLock(*words)

    monkeypatch.setattr("store.archiving.FileLock", lock_late)
    done = await asyncio.to_thread(archive_next, tmp_path, LOG, FOR_EVER, is_whole=True)
    assert done is not None
    assert (71, 170) == (done.first, done.last)
    await log.shed()
    assert 171 == here(path)[0]
    assert (450, 0, "") == await verified(tmp_path)


async def test_older_of_two_snapshots_can_be_started_from(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """The newest may be damaged: no row from the older one on moves."""
    reader = await SqliteStore(tmp_path).reader(LOG)
    for first, last in ((1, 250), (251, 390), (391, 450)):
        head = await log.append(rows(first, last - first + 1), 1)
        if last < 450:
            await reader.keep_snapshot(Snapshot(head, b"image"))
    await reader.close()
    await write_files(tmp_path, is_whole=False)
    assert ["1-100", "101-200", "201-249"] == first_facts(tmp_path)
    await log.shed()
    assert 250 == here(path)[0]
    tmp_path.joinpath(f"{LOG}.390.image").write_bytes(b"damaged")
    with closing(sqlite_file.connect_to_read(path)) as connection:
        images = ImageFiles(tmp_path, LOG)
        snapshot = sqlite_file.sound_snapshot(connection, images, log.head.log_id)
    assert snapshot is not None
    assert 250 == snapshot.head.sequence


async def test_file_is_read_again_before_it_has_its_name(
    tmp_path: Path, path: Path, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that keeps another byte than it was given: there is no file, and the rows stay; the next try writes it."""
    written = await fill(tmp_path, log)
    finish = Writing.finish

    def finish_damaged(writing: Writing) -> ArchiveFile:
        found = finish(writing)
        os.pwrite(writing._file.fileno(), b"?", 40)
        return found

    monkeypatch.setattr(Writing, "finish", finish_damaged)
    with pytest.raises(LogBroken, match="is damaged"):
        await write_files(tmp_path)
    assert [] == [file.name for file in directory_of(tmp_path, LOG).iterdir() if file.name != "lock"]
    await log.shed()
    assert 1 == here(path)[0]
    monkeypatch.setattr(Writing, "finish", finish)
    assert 3 == len(await write_files(tmp_path))
    assert written == await everything(tmp_path)


ARCHIVER = """
import os, sys
from pathlib import Path
from store import archiving
archiving.FACTS_MAX = 100
os.write(1, b"archiving\\n")
done = archiving.archive_next(Path(sys.argv[1]), "global", 1 << 62, is_whole=True)
os.write(1, done.path.encode())
"""


@pytest.mark.processes
@pytest.mark.skipif(not can_trace(), reason="strace is not installed, or may not trace")
async def test_file_is_durable_before_its_name_and_its_name_before_it_is_told(
    tmp_path: Path, log: SqliteLog
) -> None:
    """A power cut leaves the whole file or none: content, name and directory reach the disk in this order."""
    await fill(tmp_path, log)
    calls = tmp_path / "calls"
    trace = "trace=fsync,fdatasync,rename,renameat,renameat2,write"
    process = await asyncio.create_subprocess_exec(
        *("strace", "-f", "-y", "-s", "256", "-e", trace, "-o", str(calls)),
        *(sys.executable, "-c", ARCHIVER, str(tmp_path)),
        cwd=HOUSE,
        stdout=subprocess.PIPE,
    )
    out, _ = await process.communicate()
    file = Path(out.decode().removeprefix("archiving\n"))
    assert ["1-100"] == first_facts(tmp_path)
    _, _, traced = calls.read_text().partition('"archiving\\n"')
    before_told = re.split(rf'write\(1[^"]*"{re.escape(str(file))}"', traced)[0]
    steps = re.findall(
        rf"(fsync|rename)\w*\(.*?{re.escape(str(file.parent))}(/[^\">]*)?[\">].*\) = 0", before_told
    )
    assert [("fsync", ".tmp"), ("rename", ".tmp"), ("fsync", "")] == [
        (call, Path(name).suffix) for call, name in steps
    ]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o600])
async def test_whoever_reads_the_log_reads_its_archive(
    tmp_path: Path, path: Path, log: SqliteLog, mode: int
) -> None:
    """Archive files have the mode of the log's file, and their directory can be entered by the same."""
    await fill(tmp_path, log)
    path.chmod(mode)
    files = [Path(file) for file in await write_files(tmp_path)]
    assert {mode} == {stat.S_IMODE(file.stat().st_mode) for file in files}
    place = stat.S_IMODE(files[0].parent.stat().st_mode)
    assert (mode | 0o100) & 0o444 == place & 0o444
    assert (place & 0o444) >> 2 == place & 0o111


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_root_leaves_files_to_the_log_s_user(tmp_path: Path, path: Path, log: SqliteLog) -> None:
    """All that it makes beside the log, so that the plane goes on archiving."""
    await fill(tmp_path, log)
    os.chown(path, NOBODY, NOBODY)
    await write_files(tmp_path)
    place = directory_of(tmp_path, LOG)
    made = [place, *place.iterdir()]
    assert 5 == len(made)
    assert {(NOBODY, NOBODY)} == {(one.stat().st_uid, one.stat().st_gid) for one in made}
