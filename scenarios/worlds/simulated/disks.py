"""The disks of a simulated plane: one for each log, because keepers die one by one."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Self

import msgspec

from core.nouns.ids import LogName
from runtime.virtual_loop import VirtualLoop
from scenarios.accounting.witness import Witness
from scenarios.worlds.overlapping import Lasting
from store.chain import GENESIS, chain
from store.memory import MemoryLog, MemoryReader, MemoryStore
from store.memory_disk import DiskFile, Fate, MemoryDisk
from store.port import Row
from store.rows import facts_of

SYNC_SECONDS = 0.0005
"""How long a batch takes to be durable."""
FROM_THE_FUTURE = msgspec.msgpack.encode({"type": "from-the-future", "flux": 88})
"""A fact of a type that this build does not know."""


class Disks:
    """As store/port.py promises of a store, and with a disk's misfortunes."""

    def __init__(self, witness: Witness | None, loop: VirtualLoop) -> None:
        self._witness = witness
        self._loop = loop
        self._disks: dict[LogName, MemoryDisk] = {}
        self._slow: dict[LogName, Lasting[float]] = {}
        self._full: dict[LogName, Lasting[None]] = {}
        self._failing: dict[LogName, Lasting[Fate]] = {}
        self._writes: dict[LogName, list[asyncio.Future[None]]] = {}
        """Who waits for the next batch to be written."""
        self._rotten: set[tuple[LogName, int]] = set()

    def logs(self) -> list[LogName]:
        """Those that there are."""
        return sorted(log for log, disk in self._disks.items() if disk.file(log) is not None)

    def disk(self, log: LogName) -> MemoryDisk:
        """The disk that a log lies on."""
        disk = self._disks.get(log)
        if disk is None:
            disk = self._disks[log] = MemoryDisk()
            disk.on_file = self._watch
        return disk

    def put(self, log: LogName, disk: MemoryDisk) -> None:
        """A disk with a log that is there before the plane is."""
        self._disks[log] = disk
        file = disk.file(log)
        if file is not None:
            if self._witness is not None:
                self._see(log, file.rows[: file.durable])
            self._watch(log, file)

    async def open(self, name: LogName, log_id_if_new: str) -> MemoryLog:
        """As store/port.py promises."""
        return await self._store(name).open(name, log_id_if_new)

    async def reader(self, name: LogName) -> MemoryReader:
        """As store/port.py promises."""
        return self.reader_of(name)

    def reader_of(self, name: LogName) -> MemoryReader:
        """The same, without a store between."""
        return MemoryReader(name, self.disk(name))

    def head_hash(self, log: LogName) -> bytes:
        """Of the newest durable row."""
        file = self.disk(log).file(log)
        return GENESIS if file is None else file.hash_at(file.durable)

    def durable(self, log: LogName) -> tuple[int, str]:
        """How far a log is durable, and its id."""
        file = self.disk(log).file(log)
        return (0, "") if file is None else (file.durable, file.log_id)

    # Misfortune.

    def slow(self, log: LogName, seconds: float) -> Callable[[], None]:
        """Each batch takes so much longer to be durable, those under way too; the slowest counts. Returns what ends it."""
        return self._slow.setdefault(log, Lasting()).begin(seconds)

    def slowness(self, log: LogName) -> float:
        """How much longer each batch takes now."""
        return max(self._slow[log].values, default=0.0) if log in self._slow else 0.0

    def fill(self, log: LogName) -> Callable[[], None]:
        """There is no room for anything. Returns what ends it."""

        def changed() -> None:
            self.disk(log).is_full = bool(full)

        full = self._full.setdefault(log, Lasting(changed))
        return full.begin(None)

    def fail_sync(self, log: LogName, fate: Fate) -> Callable[[], None]:
        """The next syncs fail, by the newest fate that was ordered. Returns what ends it."""

        def changed() -> None:
            self.disk(log).sync_fails = failing.values[-1] if failing else None

        failing = self._failing.setdefault(log, Lasting(changed))
        return failing.begin(fate)

    async def next_write(self, log: LogName) -> None:
        """Wait until a batch of this log is written; its sync then takes `SYNC_SECONDS` at least."""
        written: asyncio.Future[None] = self._loop.create_future()
        waiting = self._writes.setdefault(log, [])
        waiting.append(written)
        try:
            await written
        finally:
            if written in waiting:
                waiting.remove(written)

    def under_way(self, log: LogName) -> list[Row]:
        """What is written and not synced."""
        file = self.disk(log).file(log)
        return file.rows[file.durable :] if file is not None and file.is_under_way else []

    def flip(self, log: LogName, place: float) -> int:
        """One byte of the durable row that is so far through the log; its sequence, 0 if there is none that is sound."""
        durable, _ = self.durable(log)
        sequence = min(durable, 1 + int(place * durable))
        if not sequence or (log, sequence) in self._rotten:
            return 0
        self._rotten.add((log, sequence))
        self.disk(log).flip_byte(log, sequence)
        return sequence

    def mend(self, log: LogName, sequence: int) -> None:
        """Flip it back."""
        self._rotten.remove((log, sequence))
        self.disk(log).flip_byte(log, sequence)

    def blank(self) -> Self:
        """Other disks, with nothing on them."""
        return type(self)(None, self._loop)

    def copy_with_newer_fact(self, log: LogName) -> Self:
        """Other disks with a copy of this log, to which a newer build has written a fact."""
        copied = self.blank()
        disk = copied._disks[log] = self.disk(log).copy()  # noqa: SLF001  # another one of ours
        file = disk.file(log)
        if file is not None and file.rows:
            row = file.rows[-1]
            newer = Row(row.sequence + 1, row.at, "", row.actor, "", FROM_THE_FUTURE)
            file.write([newer], chain(file.hashes[-1], [newer]), file.term)
            file.sync(newer.sequence)
        return copied

    # Helpers.

    def _store(self, log: LogName) -> MemoryStore:
        return MemoryStore(self.disk(log), partial(self._sync, log))

    async def _sync(self, log: LogName) -> None:
        begun = self._loop.time()
        # The disk may have become slower meanwhile.
        while (left := begun + SYNC_SECONDS + self.slowness(log) - self._loop.time()) > 0:
            await asyncio.sleep(left)

    def _watch(self, log: LogName, file: DiskFile) -> None:
        if self._witness is not None:
            file.on_durable = partial(self._see, log)
        file.on_written = partial(self._written, log)

    def _written(self, log: LogName) -> None:
        waiting = self._writes.get(log, [])
        while waiting:
            written = waiting.pop()
            if not written.done():
                written.set_result(None)

    def _see(self, log: LogName, rows: list[Row]) -> None:
        assert self._witness is not None, log
        self._witness.see(facts_of(log, rows), self._loop.time())
