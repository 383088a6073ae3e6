"""How a log's SQLite file lets go of the rows that archive files hold: the side of the keeper, in its writer's thread.

Another process writes archive files (store/archiving.py). A file under its own name is durable and was checked, so two
sorts of step are left, each one short transaction, taken while no append waits:

1. Take a file up: the file's rows follow those archived before, and its last hash is that of the same row here, so it has
   the same rows. From the commit on its rows count as archived (table `archived`).
2. Delete some of the rows that are archived, oldest first. The commit gives the pages that became free back to the file
   system.

After a crash at any moment the rows are in the archive file, or here, or in both, and `archived` says from where they are
read. A step that is not durable is taken again.
"""

import sqlite3
import time
from pathlib import Path

from core.nouns.ids import LogName
from store import sqlite_file as file
from store.archive import directory_of
from store.archive_file import ArchiveFile, Reading, range_of
from store.errors import LogBroken

STEP_SECONDS = 0.002
"""How long a step may hold up an append that comes meanwhile, beside its commit. Steps become smaller or larger by it."""
ROWS_MIN, ROWS_FIRST, ROWS_MAX = 16, 128, 512
"""Rows that are deleted in one step. More would free so many pages that moving others into their place takes longer than that."""
SETTLED_SECONDS = 2.0
"""A directory that changed so lately may change again at what looks like the same time."""


class Shedding:
    """The steps, one after the other."""

    def __init__(self, log: LogName, directory: Path, connection: sqlite3.Connection) -> None:
        self._log = log
        self._directory = directory_of(directory, log)
        self._connection = connection
        self._border = file.border(connection)[0]
        self._rows = ROWS_FIRST
        self._has_rows = True
        """Whether rows that are archived may still be here."""
        self._looked_at = 0
        """When the directory had changed last, as far as it was looked through."""

    def step(self) -> bool:
        """Take the next step; whether there was one. Raises sqlite3.Error, and then `recover` must follow.

        Its commit waits for no disk: a step that a power cut undoes is taken again, and the fsync of the next append makes it
        durable before what is appended.
        """
        execute = self._connection.execute
        execute("PRAGMA synchronous = NORMAL")
        found = self._delete() or self._take_up()
        execute(file.SYNCHRONOUS)
        return found

    def recover(self) -> bool:
        """Roll back a step that failed, and have commits wait for the disk again; whether both worked."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._connection.execute(file.SYNCHRONOUS)
        except sqlite3.Error:
            return False
        return True

    def finish(self) -> None:
        """Take all steps, and leave no free page, whatever the file was made with. Appends wait. Raises sqlite3.Error."""
        self._looked_at = 0
        while self.step():
            pass
        if not file.can_shrink(self._connection):
            file.rebuild(self._connection)
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _delete(self) -> bool:
        if not self._has_rows:
            return False
        (oldest,) = self._connection.execute("SELECT min(sequence) FROM facts").fetchone()
        self._has_rows = oldest is not None and oldest <= self._border
        if not self._has_rows:
            return False
        last = min(self._border, oldest + self._rows - 1)
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        began = time.perf_counter()
        execute("DELETE FROM facts WHERE sequence <= ?", (last,))
        seconds = time.perf_counter() - began
        execute("COMMIT")
        if seconds > STEP_SECONDS:
            self._rows = max(ROWS_MIN, self._rows // 2)
        elif seconds < STEP_SECONDS / 3:
            self._rows = min(ROWS_MAX, self._rows * 2)
        return True

    def _take_up(self) -> bool:
        try:
            changed = self._directory.stat().st_mtime_ns
        except OSError:
            return False  # Nothing was ever archived, or it is out of reach for now.
        if changed == self._looked_at:
            return False
        if time.time_ns() - changed > SETTLED_SECONDS * 1e9:
            self._looked_at = changed
        found = next_file(self._log, self._directory, self._connection, self._border)
        if found is None:
            return False
        values = (found.last, found.first, found.hash_before, found.hash_after)
        self._connection.execute(
            "INSERT INTO archived (last, first, hash_before, hash_after) VALUES (?, ?, ?, ?)", values
        )
        self._border, self._has_rows, self._looked_at = found.last, True, 0
        return True


def next_file(
    log: LogName, directory: Path, connection: sqlite3.Connection, after: int
) -> ArchiveFile | None:
    """The file in the archive's directory whose rows follow a sequence, and are the rows that the SQLite file has there.

    The newest row stays where it is: a file that has it is not one.
    """
    try:
        names = sorted(entry.name for entry in directory.iterdir())
    except OSError:
        return None
    for name in names:
        place = range_of(name)
        if place is None or place[0] != after + 1:
            continue
        found = _as_here(log, directory / name, connection, *place)
        if found is not None:
            return found
    return None


def _as_here(
    log: LogName, path: Path, connection: sqlite3.Connection, first: int, last: int
) -> ArchiveFile | None:
    """What a file holds, if its rows are between the same hashes as here."""
    before, after = file.hash_at(connection, first - 1), file.hash_at(connection, last)
    (newest,) = connection.execute("SELECT max(sequence) FROM facts").fetchone()
    if before is None or after is None or newest <= last:
        return None
    expected = ArchiveFile(first, last, before, after)
    try:
        return Reading(log, path, expected).file if path.name == expected.name else None
    except LogBroken:
        return None
