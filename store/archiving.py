"""Writing archive files: what the process beside a log's keeper does, or a tool, with or without a keeper.

An archive file is written under another name, made durable, read again and checked row by row, and only then gets its
name. The keeper, when it finds the name, deletes the rows (store/shedding.py). Nothing here writes to the SQLite file.

What is archived is always the oldest that is not, at most up to the row before the oldest snapshot that is kept: a start
never reads an archive file.
"""

import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from core.nouns.ids import LogName
from store import sqlite_file as file
from store.archive import directory_of
from store.archive_file import FACTS_MAX, ArchiveFile, Reading, Writing
from store.errors import ArchiveInUse, LogBroken, LogInUse
from store.files import FileLock, make_alike, make_directory, sync_directory
from store.images import ImageFiles
from store.port import Archived
from store.shedding import as_here, following

UNFINISHED = ".tmp"
AT = "SELECT at FROM facts WHERE sequence = ?"


def archive_next(directory: Path, log: LogName, before: int, *, is_whole: bool) -> Archived | None:
    """Write the next archive file, of facts that were recorded before an instant; None when none is due.

    `is_whole`: only with as many facts as a file may have. Raises LogError and OSError.
    """
    path = file.path_of(directory, log)
    if not path.exists():
        return None
    place = directory_of(directory, log)
    with closing(file.connect_to_read(path)) as connection:
        file.format_of(log, connection)
        if not place.is_dir():
            # Where nothing is due no directory is made, nor a lock.
            if _due(connection, directory, log, before, is_whole=is_whole) is None:
                return None
            make_directory(place)
            make_alike(place, path)
        lock = _locked(log, place, path)
        try:
            for left in place.glob(f"*{UNFINISHED}"):
                left.unlink(missing_ok=True)  # Whoever wrote that was killed.
            # Only behind the lock: another archiver may have written a file since the first look.
            due = _due(connection, directory, log, before, is_whole=is_whole)
            return None if due is None else _write(connection, log, path, *due)
        finally:
            lock.release()


def _locked(log: LogName, place: Path, model: Path) -> FileLock:
    path = place / "lock"
    is_new = not path.exists()
    try:
        lock = FileLock(log, path)
    except LogInUse as error:
        raise ArchiveInUse(log, f"another process archives it ({path} is locked)") from error
    if is_new:
        make_alike(path, model)
    return lock


def _due(
    connection: sqlite3.Connection, directory: Path, log: LogName, before: int, *, is_whole: bool
) -> tuple[int, int, bytes] | None:
    """The first and last row of the next file, and the hash before them; None when none is due."""
    written, hash_before = _written(connection, directory, log)
    end = _end(connection, directory, log, written + 1, before, is_whole=is_whole)
    return None if end <= written else (written + 1, end, hash_before)


def _written(connection: sqlite3.Connection, directory: Path, log: LogName) -> tuple[int, bytes]:
    """Up to which row there are archive files, with its hash; the keeper may not have taken up the newest yet.

    The file that the keeper takes up next is checked whole: a damaged one would stop the keeper, and is written again.
    """
    last, hash_ = border = file.border(connection)
    place = directory_of(directory, log)
    while (found := _next_file(connection, place, log, last, is_checked=last == border[0])) is not None:
        last, hash_ = found.last, found.hash_after
    return last, hash_


def _next_file(
    connection: sqlite3.Connection, place: Path, log: LogName, after: int, *, is_checked: bool
) -> ArchiveFile | None:
    for path in following(place, after):
        with suppress(LogBroken):
            found = as_here(log, path, connection)
            if found is not None:
                if is_checked:
                    found.check()
                return found.file
    return None


def _end(
    connection: sqlite3.Connection, directory: Path, log: LogName, first: int, before: int, *, is_whole: bool
) -> int:
    """The last row of the next file; one before `first` when none is due. What costs least is looked at first."""
    log_id, _, head, _ = file.head_row(connection)
    images = ImageFiles(directory, log)
    oldest = min((sequence for sequence in images.sequences() if sequence <= head), default=0)
    end = min(first + FACTS_MAX, oldest) - 1
    if end < first or (is_whole and end < first + FACTS_MAX - 1):
        return first - 1
    if is_whole:
        end = end if _at(connection, end) < before else first - 1
    else:
        end = _newest_before(connection, first, end, before)
    # Last, for it reads a whole image: without one that can be used a start would have to read the archive.
    if end < first or file.sound_snapshot(connection, images, log_id) is None:
        return first - 1
    return end


def _at(connection: sqlite3.Connection, sequence: int) -> int:
    found = connection.execute(AT, (sequence,)).fetchone()
    return int(found[0])


def _newest_before(connection: sqlite3.Connection, first: int, last: int, before: int) -> int:
    """The newest of these rows that was recorded before an instant. Instants never fall from one row to the next."""
    low, high = first - 1, last
    while low < high:
        middle = (low + high + 1) // 2
        if _at(connection, middle) < before:
            low = middle
        else:
            high = middle - 1
    return low


def _write(
    connection: sqlite3.Connection, log: LogName, source: Path, first: int, last: int, hash_before: bytes
) -> Archived:
    """Rows `first` to `last` of the log's file, or as many as find room in a file."""
    place = directory_of(source.parent, log)
    log_id = file.head_row(connection)[0]
    descriptor, name = tempfile.mkstemp(UNFINISHED, f"{first}-", place)
    path = Path(name)
    try:
        make_alike(path, source)
        with os.fdopen(descriptor, "wb") as opened:
            writing = Writing(opened, log, log_id, first, hash_before)
            for rows, _ in file.checked_pages(connection, log, first, hash_before):
                writing.add(row for row in rows if row.sequence <= last)
                if writing.is_full or rows[-1].sequence >= last:
                    break
            written = writing.finish()
        # Read again before anything is deleted for it: what was written may not be what is there.
        Reading(log, path, written).check()
        path.replace(place / written.name)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    sync_directory(place)
    return _archived(place, written)


def _archived(place: Path, written: ArchiveFile) -> Archived:
    path = place / written.name
    return Archived(written.first, written.last, str(path), path.stat().st_size)
