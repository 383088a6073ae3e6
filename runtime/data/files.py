"""The doer of a region's data service, on real files.

Each copy is a child process and a task of its own; hashing is one dataset at a time. The words about one order are carried out one after
the other, so that no two processes write one unfinished copy. All memory is in the directory
(runtime/data/directory.py): an order that is asked again is gone on with, found made, or begun.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import structlog

from core.component import Effect
from core.effects import CopyData, DropData, ForgetCopy, HashData
from core.messages.base import Message
from core.messages.copies import CopyChanged, DataDropped, DataHashed
from core.nouns.data import CopyFailure
from core.nouns.ids import DatasetName, RegionName
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import (
    COMMAND_SILENCE_MAX,
    COPY_REPORT_INTERVAL,
    DATA_LOCK_SPAN,
    DROP_RETRY,
    PARTIAL_KEPT,
)
from core.rules.data.datasets import is_dataset_name
from runtime.data.children import Children
from runtime.data.command import CopyCommand
from runtime.data.directory import DataDirectory
from runtime.data.file_copy import FileCopy
from runtime.data.hashing import HASHER, Digest, Hashing
from runtime.effects import Done

logger = structlog.get_logger()


class DataFiles:
    """The datasets of one region. Outlives the data service's lives in this process."""

    def __init__(
        self,
        region: RegionName,
        directory: Path,
        directories: Mapping[RegionName, Path],
        copy: str | Sequence[str] = "",
        *,
        report_interval: Nanoseconds = COPY_REPORT_INTERVAL,
        silence_max: Nanoseconds = COMMAND_SILENCE_MAX,
        partial_kept: Nanoseconds = PARTIAL_KEPT,
        lock_span: Nanoseconds = DATA_LOCK_SPAN,
        drop_retry: Nanoseconds = DROP_RETRY,
        hasher: tuple[str, ...] = HASHER,
    ) -> None:
        """Nothing is touched before `run`.

        directories  of the other regions, as this machine or the command reaches them
        copy         the command that copies (runtime/data/command.py); empty: our own program
        hasher       arguments of the interpreter, to hash

        Raises ValueError when the command's quotes do not match.
        """
        self.region = region
        self._directories = dict(directories)
        self._command = CopyCommand(copy)
        self._children = Children(silence_max, report_interval)
        self._directory = DataDirectory(directory, self._children, lock_span)
        self._hashing = Hashing(self._children, hasher)
        self._verifying = Hashing(self._children, hasher)
        """Copies are verified beside datasets that are hashed for other regions, of which one may take hours."""
        self._report_seconds = report_interval / SECOND
        self._kept_seconds = partial_kept / SECOND
        self._drop_retry_seconds = drop_retry / SECOND
        self._done: Done | None = None
        self._group: asyncio.TaskGroup | None = None
        """Of the tasks; None while `run` does not run."""
        self._early: list[Effect] = []
        """Asked for before `run` began."""
        self._copies: dict[int, FileCopy] = {}
        """Copies that are asked for and not over, by the order's number."""
        self._turns: dict[int, asyncio.Task[None]] = {}
        """The newest task about each order."""
        self._hashes: dict[int, asyncio.Task[None]] = {}
        self._drops: dict[DatasetName, asyncio.Task[None]] = {}
        self._asked: set[int] = set()
        """Copies that this life of the service has asked for."""
        self._is_new = False
        """Whether a life has begun since the last report."""
        self._sweep_at: float | None = None
        """When copies that this life has not asked for are forgotten, by the loop's clock."""

    def attach(self, done: Done) -> None:
        """A service has just started, and will ask for all that the log orders. Copies under way go on."""
        self._done = done
        self._asked.clear()
        self._is_new = True

    def detach(self) -> None:
        """The service is gone. Copies under way go on; the next life finds their ends when the orders are asked again."""
        self._done = None

    def begin(self, effect: Effect) -> None:
        """Begin a deed in a task of its own."""
        if self._group is None:
            self._early.append(effect)
            return
        match effect:
            case CopyData(copy):
                self._asked.add(copy)
                self._begin_copy(effect)
            case ForgetCopy(copy):
                self._asked.discard(copy)
                self._forget(copy)
            case HashData(copy):
                if copy not in self._hashes:
                    self._hashes[copy] = self._group.create_task(self._hash(effect))
            case DropData(dataset):
                if dataset not in self._drops:
                    self._drops[dataset] = self._group.create_task(self._drop(dataset))
            case _:
                raise AssertionError(effect)

    async def run(self) -> None:
        """Do the deeds, and tell how far copies are, for ever. Children are gone when this ends."""
        try:
            # One group more than the supervisor's: a copy takes hours, and others must not wait for it.
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._clean_up())
                early, self._early = self._early, []
                for effect in early:
                    self.begin(effect)
                while True:
                    await asyncio.sleep(self._report_seconds)
                    self._report()
                    self._sweep(asyncio.get_running_loop().time())
        finally:
            self._group = None
            for tasks in (self._copies, self._turns, self._hashes, self._drops):
                tasks.clear()

    def close(self) -> None:
        """Kill all children, and let another process serve the directory."""
        self._children.kill_all()
        self._directory.release()

    # Copies.

    def _begin_copy(self, order: CopyData) -> None:
        if order.copy in self._copies:
            return
        copy = FileCopy(
            order, self._directory, self._directories, self._command, self._children, self._verifying
        )
        self._copies[order.copy] = copy
        self._take_turn(order.copy, lambda: self._carry_out(copy))

    def _forget(self, number: int) -> None:
        """End a copy if it is under way; then delete its files."""
        task = self._turns.get(number)
        if self._copies.pop(number, None) is not None and task is not None:
            task.cancel()
        self._take_turn(number, lambda: self._discard(number))

    async def _discard(self, number: int) -> None:
        if await self._directory.opened():
            await self._directory.discard(number)
            await (
                self._directory.delete_thrown()
            )  # A deletion may have been under way when the copy was ended.

    def _take_turn(self, number: int, work: Callable[[], Awaitable[None]]) -> None:
        """Do this about an order when all that was begun about it before is over."""
        assert self._group is not None, number
        before = self._turns.get(number)

        async def turn() -> None:
            try:
                if before is not None:
                    await asyncio.wait([before])
                await work()
            finally:
                if self._turns.get(number) is asyncio.current_task():
                    del self._turns[number]

        self._turns[number] = self._group.create_task(turn(), name=f"copy/{number}")

    async def _carry_out(self, copy: FileCopy) -> None:
        failure = await copy.carry_out()
        number = copy.order.copy
        if self._copies.get(number) is copy:
            del self._copies[number]
            self._tell(CopyChanged(number, copy.moved, is_over=True, reason=failure or ""))

    def _report(self) -> None:
        for number, copy in self._copies.items():
            self._tell(CopyChanged(number, min(copy.moved, copy.order.bytes)))

    # Hashes and deletions.

    async def _hash(self, effect: HashData) -> None:
        found = await self._hashed(effect.dataset)
        del self._hashes[effect.copy]
        if isinstance(found, Digest):
            self._tell(DataHashed(effect.copy, effect.dataset, found.hash, found.bytes))
        else:
            self._tell(DataHashed(effect.copy, effect.dataset, "", 0, found))

    async def _hashed(self, dataset: DatasetName) -> Digest | CopyFailure:
        if not is_dataset_name(dataset):
            return CopyFailure.SOURCE_MISSING
        if not await self._directory.opened():
            return CopyFailure.NO_DIRECTORY
        try:
            return await self._hashing.read(self._directory.dataset(dataset))
        except OSError as error:
            logger.warning("dataset_not_hashed", dataset=dataset, error=str(error))
            return CopyFailure.COMMAND_FAILED

    async def _drop(self, dataset: DatasetName) -> None:
        """Delete a dataset, however long its directory cannot be written: the order to delete stands until that is told."""
        while is_dataset_name(dataset) and not await self._dropped(dataset):
            await asyncio.sleep(self._drop_retry_seconds)
        del self._drops[dataset]
        self._tell(DataDropped(dataset))

    async def _dropped(self, dataset: DatasetName) -> bool:
        if not await self._directory.opened():
            return False
        try:
            await self._directory.drop(dataset)
        except OSError as error:
            logger.error("dataset_not_deleted", dataset=dataset, error=str(error))
            return False
        return True

    # Cleaning up.

    async def _clean_up(self) -> None:
        """Delete the trees that an earlier process had begun to delete."""
        if self._directory.path.is_dir() and await self._directory.opened():
            await self._directory.delete_thrown()

    def _sweep(self, now: float) -> None:
        """Forget the copies that a life of the service has not asked for in a long time: their orders do not stand any more."""
        if self._is_new:
            self._is_new, self._sweep_at = False, now + self._kept_seconds
        if self._sweep_at is None or now < self._sweep_at or self._done is None:
            return
        self._sweep_at = None
        assert self._group is not None
        self._group.create_task(self._clean_up())
        for number in sorted({*self._directory.partials(), *self._copies} - self._asked):
            logger.warning("copy_not_asked_for", copy=number, region=self.region)
            self._forget(number)

    def _tell(self, message: Message) -> None:
        if self._done is not None:
            self._done(message)
