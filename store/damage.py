"""What may become of a log's SQLite file while no keeper has it: a byte rots, a newer build writes to a copy of it.

For scenarios and tests alone. Nobody who keeps a log imports this.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from core.nouns.ids import LogName
from store import sqlite_file as file
from store.chain import GENESIS, chain
from store.port import Row


def flip_byte(directory: Path, log: LogName, sequence: int) -> None:
    """The lowest bit of the first byte of a row's event; once more, and it is as it was. The row's hash stays."""
    with closing(_connected(directory, log)) as connection:
        (event,) = connection.execute("SELECT event FROM facts WHERE sequence = ?", (sequence,)).fetchone()
        flipped = bytes([event[0] ^ 1]) + event[1:]
        connection.execute("UPDATE facts SET event = ? WHERE sequence = ?", (flipped, sequence))


def copy_with_event(directory: Path, log: LogName, elsewhere: Path, event: bytes) -> int:
    """Another directory gets a copy of the log, and in it one more row with this event, whose hash follows.

    A keeper may have the log meanwhile. Returns the new row's sequence.
    """
    elsewhere.mkdir(parents=True, exist_ok=True)
    with (
        closing(file.connect_to_read(file.path_of(directory, log))) as source,
        closing(_connected(elsewhere, log)) as copy,
    ):
        source.backup(copy)
        _, _, head, before = file.head_row(copy)
        at = copy.execute("SELECT coalesce(max(at), 0) FROM facts").fetchone()[0]
        row = Row(head + 1, at, "", "newer", "", event)
        (hash_,) = chain(before or GENESIS, [row])
        copy.execute(file.insert(1), (*row, hash_))
        return row.sequence


def _connected(directory: Path, log: LogName) -> sqlite3.Connection:
    return sqlite3.connect(file.path_of(directory, log), isolation_level=None)
