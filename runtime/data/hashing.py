"""Datasets are hashed by a child process, one at a time for each data service: reading is bound by the disk."""

import asyncio
import sys
from pathlib import Path

import structlog
from msgspec import Struct

from core.nouns.data import CopyFailure
from runtime.data.child import EXIT_FULL, EXIT_MISSING
from runtime.data.children import Children

logger = structlog.get_logger()

HASHER = ("-P", "-m", "runtime.data.hasher", "--progress")
FAILURES = {EXIT_MISSING: CopyFailure.SOURCE_MISSING, EXIT_FULL: CopyFailure.DISK_FULL}


class Digest(Struct, frozen=True):
    """A dataset's content, by hash and bytes."""

    hash: str
    bytes: int


class Hashing:
    """Hashes the datasets of one data service."""

    def __init__(self, children: Children, command: tuple[str, ...] = HASHER) -> None:
        """`command` holds the arguments of the interpreter."""
        self._children = children
        self._command = command
        self._turn = asyncio.Lock()

    async def read(self, path: Path, *, mark: str = "", is_synced: bool = False) -> Digest | CopyFailure:
        """Return a dataset's hash and bytes, made durable too if asked; or why there are none. Raises OSError."""
        flags = ("--sync",) if is_synced else ()
        async with self._turn:
            ended = await self._children.run((sys.executable, *self._command, *flags, str(path)), mark=mark)
        if not ended.code and not ended.is_silent and (digest := _digest_of(ended.said)) is not None:
            return digest
        failure = FAILURES.get(ended.code, CopyFailure.COMMAND_FAILED)
        if ended.is_silent:
            failure = CopyFailure.COMMAND_SILENT
        logger.warning(
            "dataset_not_hashed", path=str(path), reason=failure, code=ended.code, said=ended.complaint
        )
        return failure


def _digest_of(line: str) -> Digest | None:
    digest, _, size = line.partition(" ")
    return Digest(digest, int(size)) if digest and size.isdecimal() else None
