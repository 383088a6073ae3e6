"""One archive file: consecutive rows of a log, compressed, which were taken out of the log's SQLite file.

From the beginning: a magic, the blocks, the index, the contents, and a trailer that says where the contents are and what
their digest is. A block holds some rows, column by column (rows of a block resemble each other column by column; row by
row the same rows take half as much again), compressed with zlib. The contents have the hash before each block, so each
block can be read and checked alone. Row hashes are not kept: they follow from the rows.

The index finds rows by what they are about: for each thing and block in which it occurs, three bytes of the thing's
digest and one byte for the block, sorted. A digest that two things share costs the reading of a block in vain.

Measured for a region's log (bench/log.py; 100,000 facts of 232 bytes), with blocks of 512 rows: zlib at level 6 keeps 16.6
bytes of a fact, in 2 µs, and reads it in 0.2 µs; lzma keeps 11.9 bytes, in 5.5 µs, and reads it in 1.9 µs, which would
make a replay half as fast. The index takes 4 bytes more.
"""

import os
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import accumulate, pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

from core.nouns.ids import LogName
from store.chain import chain
from store.errors import LogBroken
from store.port import Row

BLOCK_ROWS = 512
"""Rows in a block: the compression is within a tenth of that of blocks of 4,096, and a row is found in a millisecond."""
BLOCK_BYTES = 1 << 20
"""Bytes of events after which a block is closed: facts may be large, and a block is in memory as a whole."""
BLOCKS_MAX = 256
"""Blocks in a file: a block's number is one byte of the index."""
FACTS_MAX = 100_000
"""Facts in a file. All of its blocks have at most `BLOCK_ROWS`, so 256 of them have room for as many."""
LEVEL = 6
SEQUENCE_MAX = (1 << 63) - 1
"""SQLite knows no larger number."""

_MAGIC = b"mizzen-facts-1\n"
_DIGEST_BYTES = 16
_TRAILER_BYTES = 8 + _DIGEST_BYTES
_KEY_BYTES = 3
_ENTRY_BYTES = _KEY_BYTES + 1
_FANOUT = 256
_INT64 = 1 << 64
_SUFFIX = ".facts"


class ArchiveFile(Struct, frozen=True, order=True):
    """Which rows a file holds, and where they stand in the chain."""

    first: int
    last: int
    hash_before: bytes
    hash_after: bytes

    @property
    def name(self) -> str:
        """The file's name. It has part of the hash, so that files of another past of the log are other files."""
        return f"{self.first}-{self.last}.{self.hash_after[:8].hex()}{_SUFFIX}"


def range_of(name: str) -> tuple[int, int] | None:
    """The first and last sequence in a file of this name; None when it is no archive file's."""
    if not name.endswith(_SUFFIX):
        return None
    first, dash, last = name.partition(".")[0].partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        return None
    place = int(first), int(last)
    return place if 1 <= place[0] <= place[1] <= SEQUENCE_MAX else None


class Block(Struct, frozen=True, array_like=True):
    """Where a block is, and where its rows stand in the chain."""

    offset: int
    size: int
    first: int
    hash_before: bytes


class Contents(Struct, frozen=True, array_like=True):
    """What a file says of itself."""

    log: LogName
    log_id: str
    file: ArchiveFile
    blocks: tuple[Block, ...]
    index_at: int
    fanout: tuple[int, ...]
    """Of each first byte of a digest, how many entries of the index have that one or a lower one."""
    sums: tuple[int, ...]
    """Of each first byte of a digest, the checksum of its entries."""


class Index(NamedTuple):
    """Where the entries of a file's index are, by the first byte of the digest. It takes 2.3 KB of memory, where `Contents` take 60."""

    at: int
    fanout: "array[int]"
    sums: "array[int]"

    def blocks_about(self, log: LogName, path: Path, file: ArchiveFile, about: str) -> list[int]:
        """Return the blocks that may have rows about a thing, in order. Raises LogBroken."""
        key = _key(about)
        data = self.entries(log, path, file, key[0])
        places = range(0, len(data), _ENTRY_BYTES)

        def entry(place: int) -> bytes:
            return data[place : place + _ENTRY_BYTES]

        begin = bisect_left(places, key, key=entry)
        end = bisect_right(places, key + bytes((BLOCKS_MAX - 1,)), key=entry)
        return [data[place + _KEY_BYTES] for place in places[begin:end]]

    def entries(self, log: LogName, path: Path, file: ArchiveFile, byte: int) -> bytes:
        """Return the entries whose digests begin with a byte, sorted. Raises LogBroken."""
        begin, end = (self.fanout[byte - 1] if byte else 0), self.fanout[byte]
        try:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                data = os.pread(descriptor, (end - begin) * _ENTRY_BYTES, self.at + begin * _ENTRY_BYTES)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _unreadable(log, path, file.first, file.last, error) from error
        if zlib.crc32(data) != self.sums[byte]:
            raise _damaged(log, path, file.first, file.last, "its index is not what was written")
        return data


class Rows(NamedTuple):
    """A block's rows, checked, with their hashes."""

    rows: list[Row]
    hash_before: bytes
    hashes: list[bytes]


_contents = msgspec.msgpack.Decoder(Contents)
_columns = msgspec.msgpack.Decoder(tuple[list[int], list[str], list[str], list[str], list[bytes]])
_encode = msgspec.msgpack.Encoder().encode


# Writing.


class Writing:
    """A file that is being written, under a name that is not its own yet."""

    def __init__(self, file: BinaryIO, log: LogName, log_id: str, first: int, hash_before: bytes) -> None:
        self._file = file
        self._log = log
        self._log_id = log_id
        self._first = first
        self._hash_before = self._hash = hash_before
        self._next = first
        self._open: list[Row] = []
        self._open_bytes = 0
        self._blocks: list[Block] = []
        self._entries: set[bytes] = set()
        file.write(_MAGIC)

    @property
    def is_full(self) -> bool:
        """Whether no more rows may be added."""
        return len(self._blocks) == BLOCKS_MAX

    def add(self, rows: Iterable[Row]) -> None:
        """The next rows, which were checked; those that find no room any more are left out."""
        for row in rows:
            if self.is_full:
                return
            self._open.append(row)
            self._open_bytes += len(row.event)
            if len(self._open) == BLOCK_ROWS or self._open_bytes >= BLOCK_BYTES:
                self._close_block()

    def finish(self) -> ArchiveFile:
        """Write what is left, and make all of it durable. There was a row at least."""
        if self._open:
            self._close_block()
        written = ArchiveFile(self._first, self._next - 1, self._hash_before, self._hash)
        entries = sorted(self._entries)
        index_at = self._file.tell()
        self._file.write(b"".join(entries))
        keys = [entry[0] for entry in entries]
        fanout = tuple(bisect_right(keys, byte) for byte in range(_FANOUT))
        parts = (entries[begin:end] for begin, end in pairwise((0, *fanout)))
        sums = tuple(zlib.crc32(b"".join(part)) for part in parts)
        blocks = tuple(self._blocks)
        contents = _encode(Contents(self._log, self._log_id, written, blocks, index_at, fanout, sums))
        self._file.write(contents)
        self._file.write(len(contents).to_bytes(8, "big") + _digest(contents))
        self._file.flush()
        os.fsync(self._file.fileno())
        return written

    def _close_block(self) -> None:
        rows, number = self._open, len(self._blocks)
        data = zlib.compress(_encode(_columns_of(rows)), LEVEL)
        self._blocks.append(Block(self._file.tell(), len(data), self._next, self._hash))
        self._file.write(data)
        self._entries.update(_key(about) + bytes((number,)) for about in {row.about for row in rows} if about)
        self._hash = chain(self._hash, rows)[-1]
        self._next += len(rows)
        self._open, self._open_bytes = [], 0


def _columns_of(rows: list[Row]) -> tuple[list[int], list[str], list[str], list[str], list[bytes]]:
    """Instants as differences, which are small and alike."""
    _, instants, causes, actors, abouts, events = zip(*rows, strict=True)
    steps = [_wrapped(at - before) for before, at in zip((0, *instants), instants, strict=False)]
    return steps, list(causes), list(actors), list(abouts), list(events)


def _wrapped(number: int) -> int:
    """As 64 bits hold it: an instant may be anything that a row holds, and a difference of two of them has 65."""
    return (number + _INT64 // 2) % _INT64 - _INT64 // 2


def _key(about: str) -> bytes:
    return blake2b(about.encode(), digest_size=_KEY_BYTES).digest()


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


# Reading.


class Reading:
    """A file as it is read. It is opened for each question, so that none of thousands stays open."""

    def __init__(self, log: LogName, path: Path, file: ArchiveFile) -> None:
        """Read the contents. Raises LogBroken when they are not those of this file, or cannot be read."""
        self._log = log
        self.path = path
        self.file = file
        try:
            with path.open("rb") as opened:
                self.contents = self._read_contents(opened)
        except OSError as error:
            raise self._unreadable(file.first, file.last, error) from error
        # By its hashes, and not by its log's name: a copy of a log may have another one.
        contents = self.contents
        if contents.file != file:
            raise self._damaged(file.first, file.last, "it is another file's content")
        self.index = Index(contents.index_at, array("I", contents.fanout), array("I", contents.sums))

    def number_of(self, sequence: int) -> int:
        """The block that has this row."""
        return bisect_right([block.first for block in self.contents.blocks], sequence) - 1

    def last_of(self, number: int) -> int:
        """The last sequence in a block."""
        blocks = self.contents.blocks
        return blocks[number + 1].first - 1 if number + 1 < len(blocks) else self.file.last

    def rows(self, number: int) -> Rows:
        """A block's rows. Raises LogBroken."""
        block, last = self.contents.blocks[number], self.last_of(number)
        try:
            with self.path.open("rb") as opened:
                data = os.pread(opened.fileno(), block.size, block.offset)
            steps, causes, actors, abouts, events = _columns.decode(zlib.decompress(data))
        except OSError as error:
            raise self._unreadable(block.first, last, error) from error
        except (zlib.error, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._damaged(block.first, last, str(error)) from error
        instants = [_wrapped(at) for at in accumulate(steps)]
        sequences = range(block.first, last + 1)
        try:
            columns = zip(sequences, instants, causes, actors, abouts, events, strict=True)
            rows = [Row(*row) for row in columns]
        except ValueError as error:
            raise self._damaged(block.first, last, "it has another number of them") from error
        hashes = chain(block.hash_before, rows)
        blocks = self.contents.blocks
        expected = blocks[number + 1].hash_before if number + 1 < len(blocks) else self.file.hash_after
        if hashes[-1] != expected:
            raise self._damaged(block.first, last, "their hashes do not follow")
        return Rows(rows, block.hash_before, hashes)

    def blocks_about(self, about: str) -> list[int]:
        """Blocks that may have rows about a thing, in order. Raises LogBroken."""
        return self.index.blocks_about(self._log, self.path, self.file, about)

    def check(self) -> None:
        """Check every row and the whole index. Raises LogBroken."""
        for _ in self.checks():
            pass

    def checks(self) -> Iterator[None]:
        """Check the same, a block or a part of the index at a time. Raises LogBroken."""
        for number in range(len(self.contents.blocks)):
            self.rows(number)
            yield
        for byte in range(_FANOUT):
            self.index.entries(self._log, self.path, self.file, byte)
            yield

    def _read_contents(self, opened: BinaryIO) -> Contents:
        descriptor = opened.fileno()
        end = os.fstat(descriptor).st_size - _TRAILER_BYTES
        trailer = os.pread(descriptor, _TRAILER_BYTES, max(0, end))
        size = int.from_bytes(trailer[:8], "big")
        if os.pread(descriptor, len(_MAGIC), 0) == _MAGIC and len(_MAGIC) + size <= end:
            data = os.pread(descriptor, size, end - size)
            if _digest(data) == trailer[8:]:
                return _contents.decode(data)
        raise self._damaged(self.file.first, self.file.last, "what it says of itself cannot be read")

    def _damaged(self, first: int, last: int, why: str) -> LogBroken:
        return _damaged(self._log, self.path, first, last, why)

    def _unreadable(self, first: int, last: int, error: OSError) -> LogBroken:
        return _unreadable(self._log, self.path, first, last, error)


def _damaged(log: LogName, path: Path, first: int, last: int, why: str) -> LogBroken:
    text = f"archive file {path} is damaged ({why}), and facts {first} to {last} are in it"
    return LogBroken(log, first, f"{text}; put back a copy of that file", path)


def _unreadable(log: LogName, path: Path, first: int, last: int, error: OSError) -> LogBroken:
    why = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error.strerror})"
    text = f"archive file {path} {why}, and facts {first} to {last} are in it"
    return LogBroken(log, first, f"{text}; put back a copy of that file", path)
