"""Snapshots as bytes, and as files beside the log: `<name>.<sequence>.image`.

A file is written under another name, made durable and then renamed, so that it is there whole or not at all. What is
damaged later is known by its digest and skipped: an older snapshot and a longer tail give the same state.
"""

import os
import tempfile
from hashlib import blake2b
from pathlib import Path

import msgspec

from core.codec import encode
from core.fact import Head
from core.nouns.ids import LogName
from store.files import sync_directory
from store.port import Snapshot

KEPT = 2
"""Snapshots that stay: the newest, and one to start from when that is damaged."""

_MAGIC = b"mizzen-image-1\n"
_DIGEST_BYTES = 32
_LENGTH_BYTES = 4
_SUFFIX = ".image"
_UNFINISHED = ".tmp"


class _Kept(Head, frozen=True):
    """What is kept before an image. Builds that knew no version of images kept the head alone."""

    made_of: str = ""


_heads = msgspec.msgpack.Decoder(_Kept)


def sealed(snapshot: Snapshot) -> bytes:
    """A snapshot as it is kept: magic, digest of all that follows, length of the head, head with the version, image."""
    head = encode(_Kept(**msgspec.structs.asdict(snapshot.head), made_of=snapshot.made_of))
    content = b"".join((len(head).to_bytes(_LENGTH_BYTES, "big"), head, snapshot.image))
    return b"".join((_MAGIC, _digest(content), content))


def unsealed(data: bytes) -> Snapshot | None:
    """The snapshot that these bytes hold; None when they are damaged or cut."""
    view = memoryview(data)
    content = view[len(_MAGIC) + _DIGEST_BYTES :]
    if view[: len(_MAGIC)] != _MAGIC or view[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES] != _digest(content):
        return None
    end = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "big")
    kept = _heads.decode(content[_LENGTH_BYTES:end])
    head = Head(kept.log, kept.log_id, kept.term, kept.sequence, kept.hash)
    return Snapshot(head, bytes(content[end:]), kept.made_of)


class ImageFiles:
    """The snapshots of one log, in its directory. Everything here blocks: call it from a thread."""

    def __init__(self, directory: Path, name: LogName) -> None:
        self._directory = directory
        self._prefix = f"{name}."

    def sequences(self) -> list[int]:
        """Of the snapshots that there are, damaged ones too; newest first."""
        found = []
        for path in self._directory.glob(f"{self._prefix}*{_SUFFIX}"):
            number = path.name[len(self._prefix) : -len(_SUFFIX)]
            # `region.eu` and `region.eu.7` may both be logs: only digits make it ours.
            if number.isdecimal():
                found.append(int(number))
        return sorted(found, reverse=True)

    def read(self, sequence: int) -> Snapshot | None:
        """One snapshot; None when it is damaged, or gone since a newer one was kept."""
        try:
            snapshot = unsealed(self._path(sequence).read_bytes())
        except FileNotFoundError:
            return None
        return snapshot if snapshot is not None and snapshot.head.sequence == sequence else None

    def keep(self, snapshot: Snapshot, head: Head) -> None:
        """Keep one more, whole or not at all, and let go of all but the newest.

        Those ahead of the log's head belong to another past, for an older copy of the log was put back; they go too,
        for otherwise they would crowd out the ones that can be used.
        """
        self._write(snapshot)
        found = self.sequences()
        kept = [sequence for sequence in found if sequence <= head.sequence][:KEPT]
        for sequence in found:
            if sequence not in kept:
                self._path(sequence).unlink(missing_ok=True)
        for left in self._directory.glob(f"{self._prefix}*{_UNFINISHED}"):
            number = left.name[len(self._prefix) : -len(_UNFINISHED)].partition("-")[0]
            # Whoever was writing an older one was killed, or is about to keep what nobody needs.
            if number.isdecimal() and int(number) < min(kept, default=0):
                left.unlink(missing_ok=True)

    def _write(self, snapshot: Snapshot) -> None:
        sequence = snapshot.head.sequence
        descriptor, name = tempfile.mkstemp(_UNFINISHED, f"{self._prefix}{sequence}-", self._directory)
        path = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(sealed(snapshot))
                file.flush()
                os.fsync(file.fileno())
            path.replace(self._path(sequence))
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        sync_directory(self._directory)

    def _path(self, sequence: int) -> Path:
        return self._directory / f"{self._prefix}{sequence}{_SUFFIX}"


def _digest(content: bytes | memoryview) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()
