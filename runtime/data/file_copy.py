"""One order of a copy, on real files, from the first look at the disk to the rename.

A copy of which an earlier process did a part is found: a dataset that is in its place is hashed, and an unfinished copy is gone on with.
The unfinished copy may be damaged, or the command may be unable to go on with it. So if such a copy fails by its content, it is deleted
and made anew, once.

A dataset in its place with another hash than the order's is left alone, unless it is a copy that was made here for an earlier order. While
an order stands, the log says that the region holds no copy, so nothing reads that one; it is deleted, and the order carried out.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import structlog

from core.effects import CopyData
from core.nouns.data import CopyFailure
from core.nouns.ids import RegionName
from core.rules.data.datasets import is_dataset_name
from runtime.data.child import EXIT_FULL, EXIT_MISSING, FULL
from runtime.data.children import Children, Ended, Watch, end_strays
from runtime.data.command import CopyCommand
from runtime.data.directory import DataDirectory, Measure, free_bytes, measured
from runtime.data.hashing import Digest, Hashing

logger = structlog.get_logger()

OF_CONTENT = (CopyFailure.HASH_DIFFERS, CopyFailure.SIZE_DIFFERS, CopyFailure.COMMAND_FAILED)
"""Failures that an unfinished copy of an earlier process may cause."""
NOT_FOUND = 127
"""Exit code of shells that do not find a program."""
FOREIGN_FACTOR, FOREIGN_SPARE = 2, 64 << 20
"""A foreign command may have an old and a new file side by side while it runs, and lists of its own."""


class FileCopy:
    """The copy of one order."""

    def __init__(
        self,
        order: CopyData,
        directory: DataDirectory,
        directories: Mapping[RegionName, Path],
        command: CopyCommand,
        children: Children,
        hashing: Hashing,
    ) -> None:
        """`directories` are those of the regions to copy from."""
        self.order = order
        self.moved = 0
        """Bytes of the dataset that are in this region."""
        self._here = ""
        """Hash of the dataset that was found in its place."""
        self._directory = directory
        self._from = directories.get(order.source)
        self._command = command
        self._children = children
        self._hashing = hashing
        self._incoming = directory.incoming(order.copy)
        self._target = self._incoming / order.dataset
        self._mark = str(self._incoming)
        """By which the processes that write the copy are found."""

    async def carry_out(self) -> CopyFailure | None:
        """Copy, verify and rename; return the failure, if any. Then nothing of the copy is left."""
        order = self.order
        if not is_dataset_name(order.dataset):
            failure: CopyFailure | None = CopyFailure.SOURCE_MISSING
        elif not await self._directory.opened():
            failure = CopyFailure.NO_DIRECTORY
        else:
            failure = await self._attempts()
        if failure is not None:
            logger.warning("copy_failed", copy=order.copy, dataset=order.dataset, reason=failure)
        return failure

    async def _attempts(self) -> CopyFailure | None:
        order, place = self.order, self._directory.dataset(self.order.dataset)
        is_resumed = os.path.lexists(self._incoming)
        if is_resumed and not await end_strays(self._mark):
            return CopyFailure.COMMAND_SILENT
        failure = await self._found(place) if os.path.lexists(place) else None
        if failure is CopyFailure.HASH_DIFFERS and self._is_old_copy():
            failure = await self._drop_old()
        if failure is None and not os.path.lexists(place):
            failure = await self._attempt(place)
            if is_resumed and failure in OF_CONTENT:
                logger.warning("copy_made_anew", copy=order.copy, dataset=order.dataset, reason=failure)
                await self._directory.discard(order.copy)
                failure = await self._attempt(place)
        await self._directory.discard(order.copy)
        return failure

    async def _attempt(self, place: Path) -> CopyFailure | None:
        try:
            return await self._copied() or await self._verified() or await self._settled(place)
        except OSError as error:
            logger.warning("copy_step_failed", copy=self.order.copy, error=str(error))
            return CopyFailure.DISK_FULL if error.errno in FULL else CopyFailure.COMMAND_FAILED

    def _is_old_copy(self) -> bool:
        """Return whether the dataset that was found is a copy that was made here."""
        return bool(self._here) and self._here == self._directory.made(self.order.dataset)

    async def _drop_old(self) -> CopyFailure | None:
        """Delete the copy that was made for an earlier order."""
        logger.warning("old_copy_dropped", copy=self.order.copy, dataset=self.order.dataset, hash=self._here)
        try:
            await self._directory.drop(self.order.dataset)
        except OSError as error:
            logger.warning("copy_step_failed", copy=self.order.copy, error=str(error))
            return CopyFailure.COMMAND_FAILED
        return None

    # The steps.

    async def _copied(self) -> CopyFailure | None:
        """Copy, or go on with an unfinished copy."""
        order, directory = self.order, self._directory
        source = self._source()
        if source is None:
            return CopyFailure.SOURCE_MISSING
        words = self._command.words(source, self._target, order.rate)
        if words is None:
            return CopyFailure.COMMAND_MISSING
        self.moved = (await measured(self._target)).bytes
        if free_bytes(directory.path) < order.bytes - self.moved:
            return CopyFailure.DISK_FULL
        directory.begin(order.copy)
        watch = _OwnWatch(self) if self._command.is_own else _ForeignWatch(self, self._incoming)
        ended = await self._children.run(words, watch, mark=self._mark, has_family=not self._command.is_own)
        if not self._command.is_own:
            self.moved = (await measured(self._target)).bytes
        failure = self._failure_of(ended, watch)
        if failure is not None:
            logger.warning(
                "copy_command_failed",
                copy=order.copy,
                dataset=order.dataset,
                reason=failure,
                code=ended.code,
                said=ended.complaint,
            )
        return failure

    def _source(self) -> Path | None:
        """Return the dataset to copy; None if there is none. A foreign command may reach a dataset that this machine does not see."""
        if self._from is None:
            return None
        source = self._from.absolute() / self.order.dataset
        is_seen = self._from.is_dir() and not self._from.samefile(self._directory.path)
        if (is_seen or self._command.is_own) and not os.path.lexists(source):
            return None
        return source

    def _failure_of(self, ended: Ended, watch: Watch) -> CopyFailure | None:
        if watch.is_enough() or (not ended.code and self.moved > self.order.bytes):
            return CopyFailure.SIZE_DIFFERS
        if ended.is_silent:
            return CopyFailure.COMMAND_SILENT
        if not ended.code:
            return None
        if self._command.is_own:
            known = {EXIT_MISSING: CopyFailure.SOURCE_MISSING, EXIT_FULL: CopyFailure.DISK_FULL}
            return known.get(ended.code, CopyFailure.COMMAND_FAILED)
        if ended.code == NOT_FOUND:
            return CopyFailure.COMMAND_MISSING
        if free_bytes(self._directory.path) < max(1, self.order.bytes - self.moved):
            return CopyFailure.DISK_FULL
        return CopyFailure.COMMAND_FAILED

    async def _verified(self) -> CopyFailure | None:
        """Compare the copy with the order's hash, and make it durable."""
        digest = await self._hashing.read(self._target, mark=self._mark, is_synced=True)
        if isinstance(digest, CopyFailure):
            return CopyFailure.HASH_DIFFERS if digest is CopyFailure.SOURCE_MISSING else digest
        if digest.hash != self.order.hash:
            return CopyFailure.HASH_DIFFERS
        self.moved = digest.bytes
        return None

    async def _settled(self, place: Path) -> CopyFailure | None:
        """Rename the copy. Files that an operator put there meanwhile stay."""
        if os.path.lexists(place):
            return await self._found(place)
        self._directory.settle(self.order.copy, self.order.dataset, self.order.hash)
        return None

    async def _found(self, place: Path) -> CopyFailure | None:
        """Compare the dataset that is there with the order's hash: an earlier process may have made the copy."""
        try:
            digest = await self._hashing.read(place, mark=self._mark, is_synced=True)
            self._directory.sync()
        except OSError as error:
            logger.warning("copy_step_failed", copy=self.order.copy, error=str(error))
            return CopyFailure.COMMAND_FAILED
        if isinstance(digest, Digest) and digest.hash == self.order.hash:
            self.moved = digest.bytes
            return None
        self._here = digest.hash if isinstance(digest, Digest) else ""
        if isinstance(digest, Digest) or digest is CopyFailure.SOURCE_MISSING:
            return CopyFailure.HASH_DIFFERS
        return digest


class _OwnWatch(Watch):
    """Hears from our own program how many bytes are there."""

    def __init__(self, copy: FileCopy) -> None:
        self._copy = copy

    def heard(self, line: str) -> None:
        word, _, number = line.partition(" ")
        if word == "moved" and number.isdecimal():
            self._copy.moved = int(number)

    def is_enough(self) -> bool:
        return self._copy.moved > self._copy.order.bytes


class _ForeignWatch(Watch):
    """Measures the files of a foreign command."""

    def __init__(self, copy: FileCopy, incoming: Path) -> None:
        self._copy = copy
        self._incoming = incoming
        self._measure = Measure()
        self._most = FOREIGN_FACTOR * copy.order.bytes + FOREIGN_SPARE

    async def sign(self) -> object:
        self._measure = await measured(self._incoming)
        self._copy.moved = self._measure.bytes
        return self._measure

    def is_enough(self) -> bool:
        return self._measure.bytes > self._most
