"""One log as an SQLite file: its tables, how it is opened, and how its rows are asked for. Shared by writer and readers.

Every statement here is finished within one call, so that none leaves a read transaction open: a pinned reader lets the
write-ahead log grow without limit (127 MB for 60,000 rows when it was tried).
"""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from core.nouns.ids import LogName
from store.archive import Archive
from store.archive_file import ArchiveFile
from store.chain import GENESIS, Stored, checked
from store.errors import LogBroken, LogError, LogFromNewerBuild
from store.images import ImageFiles
from store.port import Row, Snapshot

FORMAT = 2
"""Kept as the file's `user_version`. A higher one was written by a newer build; a lower one is brought up to this one when the
log is opened by its keeper, and read as it is by everybody else. Format 1 had no `archived` and kept its free pages for ever."""

REBUILT_BYTES_MAX = 64 << 20
"""A file of format 1 no larger than this is rebuilt when it is brought up, in less than a second, so that it can shrink. A larger
one only uses its free pages again; `mizzen log archive` rebuilds it while the plane is down."""

SHRINKING = 1
"""The mode of `auto_vacuum` in which a commit that frees pages moves the file's last ones into their place, and cuts the file. It
costs one page written for each page freed, in the same step of SQLite. In the incremental mode each page is a step of its own,
at each of which the sqlite3 module gives up the interpreter's lock."""

BUSY_SECONDS_MAX = 5.0
"""How long a connection waits for another one's lock: only while a file is made, recovered or checkpointed at the end."""

CHECKPOINT_PAGES = 4000
"""Pages of 4 KiB in the write-ahead log before they are moved to the file: 16 MB. A later checkpoint moves fewer pages in
all, because appends write the same last pages again and again; SQLite's own default is 1000."""

PAGE_ROWS = 200
"""Rows fetched at once where all are wanted, so few that they stay in the processor's cache while they are checked, decoded
and folded: a replay with 2,000 took twice as long a row (5.0 against 9.9 µs, at worst)."""

STATEMENT_ROWS_MAX = 256
"""Rows in one INSERT: 1,792 values, where SQLite allows 32,766."""

ARCHIVED = """CREATE TABLE archived (
        last INTEGER PRIMARY KEY,
        first INTEGER NOT NULL,
        hash_before BLOB NOT NULL,
        hash_after BLOB NOT NULL
    )"""
"""Which archive files have the rows up to the newest `last`. Such rows may still be in `facts`, until they are deleted."""

SCHEMA = (
    """CREATE TABLE facts (
        sequence INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        cause TEXT NOT NULL,
        actor TEXT NOT NULL,
        about TEXT NOT NULL,
        event BLOB NOT NULL,
        hash BLOB NOT NULL
    )""",
    # Partial, because a fact about the log itself is not looked for by what it is about.
    "CREATE INDEX facts_about ON facts (about) WHERE about <> ''",
    "CREATE TABLE meta (log_id TEXT NOT NULL, term INTEGER NOT NULL)",
    ARCHIVED,
)

MIGRATIONS: dict[int, tuple[str, ...]] = {1: (ARCHIVED,)}
"""What brings a file of each older format up to the next one."""

COLUMNS = "sequence, at, cause, actor, about, event, hash"
FROM = f"SELECT {COLUMNS} FROM facts WHERE sequence >= ? ORDER BY sequence LIMIT ?"
ONE = f"SELECT {COLUMNS} FROM facts WHERE sequence = ?"
HASH = "SELECT hash FROM facts WHERE sequence = ?"
SYNCHRONOUS = "PRAGMA synchronous = FULL"
"""A commit that returned is on the disk."""
USER_VERSION = "PRAGMA user_version"
BORDER = "SELECT last, hash_after FROM archived ORDER BY last DESC LIMIT 1"
ARCHIVE_FILES = "SELECT first, last, hash_before, hash_after FROM archived WHERE last > ? ORDER BY last"
HEAD = """SELECT log_id, term, coalesce(sequence, 0), coalesce(hash, x'')
    FROM meta LEFT JOIN (SELECT sequence, hash FROM facts ORDER BY sequence DESC LIMIT 1)"""
# Each with the hash of the row before it, so that it can be checked alone. `about <> ''` lets the index be used.
ABOUT = f"""SELECT {", ".join(f"found.{column}" for column in COLUMNS.split(", "))}, before.hash
    FROM facts AS found LEFT JOIN facts AS before ON before.sequence = found.sequence - 1
    WHERE found.about = ? AND found.about <> '' AND found.sequence > ? ORDER BY found.sequence LIMIT ?"""

HeadRow = tuple[str, int, int, bytes]
"""Log id, term, sequence and hash."""


@cache
def insert(rows: int) -> str:
    """The statement that adds so many rows at once.

    One statement, because the sqlite3 module gives up the interpreter's lock at every step and may wait 5 ms to have it
    back from a busy loop: `executemany` steps once a row. It is 1.4 times as fast besides (256 rows: 411 against 588 µs).
    """
    return f"INSERT INTO facts ({COLUMNS}) VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * rows)


def path_of(directory: Path, name: LogName, suffix: str = ".sqlite") -> Path:
    """Where a log is, or what lies beside it."""
    assert name, "a log has a name"
    assert not {"/", "\\", "\0"} & set(name), name
    return directory / f"{name}{suffix}"


def connect_to_write(log: LogName, path: Path, log_id_if_new: str) -> sqlite3.Connection:
    """The one writing connection, with the tables in place. The caller holds the log's lock.

    Raises LogBroken when this is no log's file, and LogFromNewerBuild.
    """
    connection = sqlite3.connect(
        path,
        timeout=BUSY_SECONDS_MAX,
        isolation_level=None,  # we say BEGIN and COMMIT ourselves
        check_same_thread=False,  # one thread uses it; tests take it when that one waits
        cached_statements=STATEMENT_ROWS_MAX + 32,
    )
    try:
        if not connection.execute("PRAGMA schema_version").fetchone()[0]:
            # Before anything is written, or it says nothing. An older file has what it was made with, and would be written to,
            # which a full disk refuses: a log is to be read all the same.
            connection.execute(f"PRAGMA auto_vacuum = {SHRINKING}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(SYNCHRONOUS)
        # On macOS fsync does not reach the disk; elsewhere these say nothing.
        connection.execute("PRAGMA fullfsync = 1")
        connection.execute("PRAGMA checkpoint_fullfsync = 1")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        _make_tables(log, connection, log_id_if_new)
    except sqlite3.DatabaseError as error:
        connection.close()
        if is_damage(error):
            raise LogBroken(log, 1, f"{path} cannot be read as a log ({error})") from error
        raise LogError(log, f"{path} cannot be opened ({error})") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _make_tables(log: LogName, connection: sqlite3.Connection, log_id_if_new: str) -> None:
    """All or none, if there are none yet: a log that has tables has an id. Those of an older format are brought up to this one."""
    version = format_of(log, connection)
    if version == FORMAT:
        return
    connection.execute("BEGIN IMMEDIATE")
    if version:
        for older in range(version, FORMAT):
            for statement in MIGRATIONS[older]:
                connection.execute(statement)
    else:
        for statement in SCHEMA:
            connection.execute(statement)
        connection.execute("INSERT INTO meta VALUES (?, 0)", (log_id_if_new,))
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")
    if version and size_of(connection) <= REBUILT_BYTES_MAX:
        # A disk without room for a copy leaves it as it is; everything else about it is done.
        with suppress(sqlite3.OperationalError):
            rebuild(connection)


def format_of(log: LogName, connection: sqlite3.Connection) -> int:
    """The file's format; 0 when its tables are not made yet. Raises LogFromNewerBuild."""
    version: int = connection.execute(USER_VERSION).fetchone()[0]
    check_format(log, version)
    return version


def check_format(log: LogName, version: int) -> None:
    """Raise LogFromNewerBuild unless this build knows the format."""
    if version > FORMAT:
        raise LogFromNewerBuild(
            log, f"its format is {version}, and this build knows {FORMAT}; run a newer one"
        )


def size_of(connection: sqlite3.Connection) -> int:
    """Bytes of the file, free pages and those that are still in the write-ahead log included."""
    pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * size)


def can_shrink(connection: sqlite3.Connection) -> bool:
    """Whether the file gives up free pages; one that an older build made does not before it is rebuilt."""
    return bool(connection.execute("PRAGMA auto_vacuum").fetchone()[0] == SHRINKING)


def rebuild(connection: sqlite3.Connection) -> None:
    """Copy the file's content into itself, so that it has no free page and can give up those to come. Nothing else changes."""
    connection.execute(f"PRAGMA auto_vacuum = {SHRINKING}")
    connection.execute("VACUUM")


def reading_uri(path: Path) -> str:
    """For a connection that can only read, and never makes a file."""
    return f"{path.absolute().as_uri()}?mode=ro"


def archive_files(connection: sqlite3.Connection, after: int = 0) -> list[ArchiveFile]:
    """The archive files that the log has, behind one that is known."""
    try:
        return [ArchiveFile(*row) for row in connection.execute(ARCHIVE_FILES, (after,))]
    except sqlite3.OperationalError as error:
        if is_unmade(error):  # Format 1.
            return []
        raise


def border(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """The newest sequence that is archived, and its hash; the beginning when none is."""
    try:
        found = connection.execute(BORDER).fetchone()
    except sqlite3.OperationalError as error:
        if not is_unmade(error):
            raise
        found = None
    return found or (0, GENESIS)


def hash_at(connection: sqlite3.Connection, sequence: int) -> bytes | None:
    """The hash of a row, or of the newest row of an archive file; None when it is not known here."""
    if sequence == 0:
        return GENESIS
    found = connection.execute(HASH, (sequence,)).fetchone()
    if found is None:
        ends = [file.hash_after for file in archive_files(connection, sequence - 1) if file.last == sequence]
        return ends[0] if ends else None
    return bytes(found[0])


def sound_snapshot(connection: sqlite3.Connection, images: ImageFiles, log_id: str) -> Snapshot | None:
    """The newest snapshot that is whole and stands where the log has this hash."""
    for sequence in images.sequences():
        snapshot = images.read(sequence)
        if snapshot is None or snapshot.head.log_id != log_id:
            continue
        if hash_at(connection, sequence) == snapshot.head.hash:
            return snapshot
    return None


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection of one's own, for tools that may wait."""
    return sqlite3.connect(reading_uri(path), uri=True, timeout=BUSY_SECONDS_MAX, isolation_level=None)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite means that the file's bytes are wrong, and not that a disk or a lock is in the way."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        # The module's own word, without a code, for text that is no UTF-8.
        return "decode to UTF-8" in str(error)
    return code & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def is_unmade(error: sqlite3.Error) -> bool:
    """Whether the file is there, and its tables are still being made, or those of its format are fewer."""
    return "no such table" in str(error)


def checked_pages(
    connection: sqlite3.Connection, log: LogName, first: int, before: bytes
) -> Iterator[tuple[list[Row], bytes]]:
    """All rows from `first` on, page by page, each page with the hash of its last row. Raises LogBroken."""
    while True:
        try:
            stored: list[Stored] = connection.execute(FROM, (first, PAGE_ROWS)).fetchall()
        except sqlite3.DatabaseError as error:
            raise explained(log, error, connection, first, before) from error
        if not stored:
            return
        rows = checked(log, stored, first, before)
        first, before = first + len(rows), stored[-1][-1]
        yield rows, before


def all_pages(
    connection: sqlite3.Connection, directory: Path, log: LogName, first: int
) -> Iterator[tuple[list[Row], bytes]]:
    """All rows from `first` on, archived ones too, page by page, each page with the hash of its last row. Raises LogBroken.

    From 2 on, the chain is believed up to the row before the first.
    """
    archive = Archive(directory, log)
    before = GENESIS if first == 1 else hash_at(connection, first - 1)
    while True:
        archive.add(archive_files(connection, archive.last))
        for rows, last in archive.pages(first):
            first, before = first + len(rows), last
            yield rows, last
        if before is None:
            return  # There is no such row yet.
        try:
            for rows, last in checked_pages(connection, log, first, before):
                first, before = first + len(rows), last
                yield rows, last
        except LogBroken:
            if archive_files(connection, archive.last):
                continue  # Its keeper let go of it meanwhile.
            raise
        return


def explained(
    log: LogName,
    error: sqlite3.DatabaseError,
    connection: sqlite3.Connection,
    first: int,
    before: bytes | None,
) -> LogError:
    """What SQLite means by an error while it read rows from `first` on: which row is damaged, or what is in the way.

    Rows are read singly, for SQLite does not tell how far it came. `before` is the hash that the first one follows; None
    when it is not known, and the first row is then believed if it can be read.
    """
    if not is_damage(error):
        return LogError(log, f"the file cannot be read ({error})")
    with suppress(sqlite3.DatabaseError):
        archived, hash_ = border(connection)
        if first <= archived:
            first, before = archived + 1, hash_
    sequence = first
    while True:
        try:
            stored: list[Stored] = connection.execute(ONE, (sequence,)).fetchall()
            if before is not None:
                checked(log, stored, sequence, before)
        except LogBroken as broken:
            return broken
        except sqlite3.DatabaseError as unreadable:
            return LogBroken(log, sequence, f"the row cannot be read ({unreadable})")
        if not stored:
            return LogBroken(log, sequence, f"the row cannot be found ({error})")
        before = stored[0][-1]
        sequence += 1


def head_row(connection: sqlite3.Connection) -> HeadRow:
    """How far the log has come."""
    row: Any = connection.execute(HEAD).fetchone()  # Any: sqlite3 knows no column types
    log_id, term, sequence, hash_ = row
    return log_id, term, sequence, hash_
