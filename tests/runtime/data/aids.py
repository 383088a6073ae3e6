"""Two regions' directories on this machine, a doer that serves one of them, and datasets to copy."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from core.component import Effect
from core.effects import CopyData, DropData, ForgetCopy, HashData
from core.messages.base import Message
from core.messages.copies import CopyChanged, DataDropped, DataHashed
from core.nouns.ids import DatasetName, RegionName
from runtime.data.child import Progress
from runtime.data.files import DataFiles
from runtime.data.hasher import read_dataset

EU, US = RegionName("eu"), RegionName("us")
WORDS = DatasetName("words")
PATIENCE_SECONDS = 30.0
FAST = 1 << 30
"""Bytes a second: as fast as the disk."""


class Regions(Struct, frozen=True):
    """The directories of `eu`, from which is copied, and of `us`, which is served."""

    eu: Path
    us: Path

    def source(self, dataset: str = WORDS) -> Path:
        """Return where a dataset lies in `eu`."""
        return self.eu / dataset

    def target(self, dataset: str = WORDS) -> Path:
        """Return where a dataset lies in `us`."""
        return self.us / dataset

    def partial(self, copy: int = 1) -> Path:
        """Return where an unfinished copy lies."""
        return self.us / ".incoming" / str(copy)

    def left(self) -> list[str]:
        """Return all in `.incoming` but the lock, and the notes of copies that were made."""
        incoming = self.us / ".incoming"
        kept = (".lock", "made-")
        return sorted(path.name for path in incoming.glob("*") if not path.name.startswith(kept))

    def order(
        self, copy: int = 1, dataset: str = WORDS, rate: int = FAST, **fields: Any
    ) -> CopyData:  # Any: of each field its own
        """Return an order to copy a dataset as it lies in `eu`."""
        found = os.path.lexists(self.source(dataset)) and dataset not in ("", "..")
        digest, size = hash_of(self.source(dataset)) if found else ("0" * 64, 0)
        order = CopyData(copy, DatasetName(dataset), EU, size, rate, digest)
        return replace(order, **fields)


class Serving:
    """A doer under way, and all that it tells."""

    def __init__(self, data: DataFiles, task: asyncio.Task[None]) -> None:
        self.data = data
        self.task = task
        self.heard: list[Message] = []
        self._unread: asyncio.Queue[Message] = asyncio.Queue()
        self.attach()

    def attach(self) -> None:
        """Begin a life of the service."""
        self.data.attach(self._hear)

    def begin(self, *effects: Effect) -> None:
        """Ask for each."""
        for effect in effects:
            self.data.begin(effect)

    async def end(self) -> Message:
        """Return the next notice that is no mere progress."""
        while True:
            message = await self._next()
            if not isinstance(message, CopyChanged) or message.is_over:
                return message

    async def progress(self) -> CopyChanged:
        """Return the next notice of progress."""
        message = await self._next()
        assert isinstance(message, CopyChanged), message
        assert not message.is_over, message
        return message

    async def copied(self, order: CopyData) -> CopyChanged:
        """Ask for a copy, and return its end."""
        self.begin(order)
        end = await self.end()
        assert isinstance(end, CopyChanged), end
        return end

    async def hashed(self, copy: int, dataset: DatasetName = WORDS) -> DataHashed:
        """Ask for a hash, and return it."""
        self.begin(HashData(copy, dataset))
        end = await self.end()
        assert isinstance(end, DataHashed), end
        return end

    async def dropped(self, dataset: DatasetName = WORDS) -> None:
        """Ask for a deletion, and wait for its end."""
        self.begin(DropData(dataset))
        assert DataDropped(dataset) == await self.end()

    async def runs(self) -> None:
        """Wait until the doer does what is asked for at once."""
        while self.data._group is None:
            await asyncio.sleep(0)

    async def forgotten(self, copy: int) -> None:
        """Ask for a copy to be forgotten, and wait until that is done."""
        await self.runs()
        self.begin(ForgetCopy(copy))
        turn = self.data._turns[copy]
        await asyncio.wait_for(asyncio.wait([turn]), PATIENCE_SECONDS)

    async def _next(self) -> Message:
        getting = asyncio.get_running_loop().create_task(self._unread.get())
        await asyncio.wait([getting, self.task], timeout=PATIENCE_SECONDS, return_when="FIRST_COMPLETED")
        if not getting.done():
            getting.cancel()
            assert self.task.done(), f"nothing was told in {PATIENCE_SECONDS} s"
            self.task.result()
        return getting.result()

    def _hear(self, message: Message) -> None:
        self.heard.append(message)
        self._unread.put_nowait(message)


@asynccontextmanager
async def serving(
    regions: Regions,
    copy: str | Sequence[str] = "",
    **options: Any,  # Any: as DataFiles
) -> AsyncIterator[Serving]:
    """Serve `us`; all ends with the block."""
    data = DataFiles(US, regions.us, {EU: regions.eu}, copy, **options)
    task = asyncio.get_running_loop().create_task(data.run())
    try:
        yield Serving(data, task)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        data.close()


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


def hash_of(path: Path) -> tuple[str, int]:
    """Return a dataset's hash and bytes."""
    return read_dataset(path, Progress(""), is_synced=False)


def write_tree(root: Path, size: int = 0) -> None:
    """Make a dataset of a few files with odd names, and one of so many bytes."""
    (root / "deep" / "er").mkdir(parents=True)
    (root / "nothing in here").mkdir()
    (root / "deep" / "er" / "-rf *").write_bytes(b"a dash")
    (root / "two\nlines").write_bytes(b"a newline")
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe")).write_bytes(b"no UTF-8")
    (root / "deep-er").write_bytes(b"before what is in deep/")
    (root / "empty").write_bytes(b"")
    (root / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "deep" / "link").symlink_to("../deep-er")
    (root / "data").write_bytes(os.urandom(size))


def python(text: str) -> list[str]:
    """Return a command that runs a program with source, target and rate as arguments."""
    return [sys.executable, "-c", text, "{source}", "{target}", "{rate}"]
