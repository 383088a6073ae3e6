"""Whole logs of a plane that an older build ran, kept so that every later build is tried on them.

They are rows exactly as the old build wrote them, without snapshots: whoever starts from them folds every fact.
"""

import zlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from core.nouns.ids import LogName
from store.chain import GENESIS, chain
from store.memory_disk import MemoryDisk
from store.port import Row


class HistoryError(Exception):
    """A file that is no history, or that has rotted; the text names it."""


class OldLog(msgspec.Struct, frozen=True):
    """One log."""

    log: LogName
    log_id: str
    term: int
    rows: list[Row]
    hash: bytes
    """Of the last row, as the old build had it."""


def read_history(path: Path) -> dict[LogName, MemoryDisk]:
    """Each log on a disk of its own. The hashes are worked out anew, and must come to what the old build had.

    Raises HistoryError.
    """
    try:
        logs = msgspec.msgpack.decode(zlib.decompress(path.read_bytes()), type=list[OldLog])
    except (zlib.error, msgspec.MsgspecError) as error:
        raise HistoryError(f"{path.name} is no history ({error})") from error
    disks: dict[LogName, MemoryDisk] = {}
    for kept in logs:
        disk = disks[kept.log] = MemoryDisk()
        file = disk.make_file(kept.log, kept.log_id)
        file.write(kept.rows, chain(GENESIS, kept.rows), kept.term)
        file.sync(len(kept.rows))
        if file.hash_at(file.durable) != kept.hash:
            raise HistoryError(f"{path.name}: {kept.log} has rotted, or hashes have changed")
    return disks


def keep_history(path: Path, disks: Mapping[LogName, MemoryDisk]) -> None:
    """Write all that is durable in these logs."""
    kept = []
    for log, disk in sorted(disks.items()):
        file = disk.file(log)
        assert file is not None, log
        kept.append(
            OldLog(log, file.log_id, file.term, file.rows[: file.durable], file.hash_at(file.durable))
        )
    path.write_bytes(zlib.compress(msgspec.msgpack.encode(kept), 9))
