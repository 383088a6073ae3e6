"""One log as an SQLite file: its tables, how it is opened, and how its rows are asked for. Shared by writer and readers.

Every statement here is finished within one call, so that none leaves a read transaction open: a pinned reader lets the
write-ahead log grow without limit (127 MB for 60,000 rows when it was tried).
"""

import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from core.nouns.ids import LogName
from store.chain import Stored, checked
from store.errors import LogBroken, LogError, LogFromNewerBuild
from store.port import Row

FORMAT = 1
"""Kept as the file's `user_version`. A higher one was written by a newer build."""

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
)

COLUMNS = "sequence, at, cause, actor, about, event, hash"
FROM = f"SELECT {COLUMNS} FROM facts WHERE sequence >= ? ORDER BY sequence LIMIT ?"
ONE = f"SELECT {COLUMNS} FROM facts WHERE sequence = ?"
HASH = "SELECT hash FROM facts WHERE sequence = ?"
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
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
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
    """All or none, if there are none yet: a log that has tables has an id."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > FORMAT:
        raise LogFromNewerBuild(
            log, f"its format is {version}, and this build knows {FORMAT}; run a newer one"
        )
    if version == FORMAT:
        return
    connection.execute("BEGIN IMMEDIATE")
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES (?, 0)", (log_id_if_new,))
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def reading_uri(path: Path) -> str:
    """For a connection that can only read, and never makes a file."""
    return f"{path.absolute().as_uri()}?mode=ro"


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
    """Whether the file is there, and its tables are still being made."""
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
