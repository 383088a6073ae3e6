"""What only the log in memory can do: have misfortunes at the moment they are wanted."""

import asyncio
from collections.abc import Iterator

import pytest

from core.nouns.ids import LogName
from store.errors import AppendFailed, LogBroken, LogInUse
from store.memory import MemoryLog, MemoryStore
from store.memory_disk import Fate, MemoryDisk
from store.port import Row

LOG = LogName("global")


def rows(first: int, count: int) -> list[Row]:
    """So many rows in sequence."""
    return [
        Row(sequence, sequence, "cause", "actor", "w-1", b"event") for sequence in range(first, first + count)
    ]


class Gate:
    """A disk that takes as long as the test likes."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        self._waiting.append(asyncio.get_running_loop().create_future())
        await self._waiting[-1]

    def open(self, number: int = 0) -> None:
        """Let one of those who wait go on."""
        self._waiting.pop(number).set_result(None)


async def _waiting(log: MemoryLog, *batches: list[Row]) -> list[asyncio.Task[object]]:
    """Appends that are written and wait for the disk."""
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[object]] = [loop.create_task(log.append(batch, 1)) for batch in batches]
    await asyncio.sleep(0)
    return tasks


async def _count(store: MemoryStore) -> int:
    """Rows that a reader sees."""
    reader = await store.reader(LOG)
    return len((await reader.read(1, 1_000, 1_000_000)).rows)


@pytest.mark.parametrize(("fate", "left"), [(Fate.LOST, 2), (Fate.KEPT, 9), (Fate.TORN, 5)])
async def test_crash_leaves_whole_batches(fate: Fate, left: int) -> None:
    """What was not synced is lost, or kept, or its last batch is torn: always a prefix of whole batches."""
    disk, gate = MemoryDisk(), Gate()
    await (await MemoryStore(disk).open(LOG, "id")).append(rows(1, 2), 1)
    disk.crash()
    log = await MemoryStore(disk, gate.wait).open(LOG, "id")
    tasks = await _waiting(log, rows(3, 3), rows(6, 4))
    assert 2 == await _count(MemoryStore(disk)), "a reader sees durable rows only"
    disk.crash(fate)
    assert left == await _count(MemoryStore(disk))
    again = await MemoryStore(disk).open(LOG, "id")
    assert left == again.head.sequence
    gate.open()
    gate.open()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, AppendFailed) for outcome in outcomes), (
        "nobody tells of a keeper's batch after it"
    )
    await again.append(rows(left + 1, 1), 2)
    assert left + 1 == await _count(MemoryStore(disk))
    with pytest.raises(AppendFailed):
        await log.append(rows(left + 2, 1), 1)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
async def test_torn_batch_is_told_by_its_mark(count: int) -> None:
    """Half of its rows lie there, the last of them in half, and nothing but the missing mark says so; opening drops them."""
    disk, gate = MemoryDisk(), Gate()
    await (await MemoryStore(disk).open(LOG, "id")).append(rows(1, 2), 1)
    disk.crash()
    log = await MemoryStore(disk, gate.wait).open(LOG, "id")
    file = disk.file(LOG)
    assert file is not None
    (task,) = await _waiting(log, rows(3, count))
    disk.crash(Fate.TORN)
    left = (count + 1) // 2
    assert (2 + left, [(2, 1)]) == (len(file.rows), file.marks)
    whole, *torn = [row.event for row in file.rows[1:]]
    assert [whole] * (left - 1) == torn[:-1]
    assert 0 < len(torn[-1]) < len(whole)
    again = await MemoryStore(disk).open(LOG, "id")
    assert (2, 1, 2) == (again.head.sequence, again.head.term, len(file.rows))
    gate.open()
    await asyncio.gather(task, return_exceptions=True)


async def test_written_batch_is_told_before_it_is_durable() -> None:
    """That is the moment at which a crash decides what becomes of it."""
    disk, gate = MemoryDisk(), Gate()
    log = await MemoryStore(disk, gate.wait).open(LOG, "id")
    file = disk.file(LOG)
    assert file is not None
    seen: list[tuple[int, int, bool]] = []
    file.on_written = lambda: seen.append((len(file.rows), file.durable, file.is_under_way))
    (task,) = await _waiting(log, rows(1, 2))
    assert [(2, 0, True)] == seen
    gate.open()
    await task
    assert not file.is_under_way


async def test_batches_are_durable_in_order() -> None:
    """Whoever syncs later takes along what was written before; nothing overtakes."""
    disk, gate = MemoryDisk(), Gate()
    log = await MemoryStore(disk, gate.wait).open(LOG, "id")
    first, second = await _waiting(log, rows(1, 2), rows(3, 2))
    gate.open(1)
    await second
    assert 4 == log.head.sequence
    assert not first.done()
    gate.open()
    assert 2 == getattr(await first, "sequence", 0)
    assert 4 == log.head.sequence


async def test_cancelled_append_is_taken_along() -> None:
    """Its rows are written: a crash decides, or the next append makes them durable too."""
    for fate, left in [(Fate.LOST, 0), (Fate.KEPT, 2), (None, 3)]:
        disk, gate = MemoryDisk(), Gate()
        log = await MemoryStore(disk, gate.wait).open(LOG, "id")
        (task,) = await _waiting(log, rows(1, 2))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert 0 == log.head.sequence
        if fate is not None:
            disk.crash(fate)
        else:
            await _settled(log, gate)
        assert left == await _count(MemoryStore(disk))


async def _settled(log: MemoryLog, gate: Gate) -> None:
    (task,) = await _waiting(log, rows(3, 1))
    gate.open(-1)
    await task


@pytest.mark.parametrize(("fate", "left"), [(Fate.LOST, 1), (Fate.KEPT, 3)])
async def test_failed_sync_is_known_only_after_reopening(fate: Fate, left: int) -> None:
    """The keeper hears that the append failed; whether the batch is there the next opening tells."""
    disk = MemoryDisk()
    log = await MemoryStore(disk).open(LOG, "id")
    await log.append(rows(1, 1), 1)
    disk.sync_fails = fate
    with pytest.raises(AppendFailed):
        await log.append(rows(2, 2), 1)
    disk.sync_fails = None
    with pytest.raises(AppendFailed):
        await log.append(rows(2, 2), 1)
    assert left == (await MemoryStore(disk).open(LOG, "id")).head.sequence


async def test_crash_of_one_keeper_leaves_the_others() -> None:
    """A keeper dies alone, or the machine with all of them."""
    disk = MemoryDisk()
    store = MemoryStore(disk)
    log = await store.open(LOG, "id")
    other = await store.open(LogName("region.eu"), "id-2")
    disk.crash(name=LOG)
    with pytest.raises(AppendFailed):
        await log.append(rows(1, 1), 1)
    await other.append(rows(1, 1), 1)
    await store.open(LOG, "id")
    with pytest.raises(LogInUse):
        await store.open(LogName("region.eu"), "id-2")


async def test_copy_is_apart() -> None:
    """What befalls a disk does not befall its copy."""
    disk = MemoryDisk()
    log = await MemoryStore(disk).open(LOG, "id")
    await log.append(rows(1, 2), 1)
    copy = disk.copy()
    disk.flip_byte(LOG, 1)
    await log.append(rows(3, 2), 1)
    assert 2 == await _count(MemoryStore(copy))
    with pytest.raises(LogBroken):
        await _count(MemoryStore(disk))


def test_append_without_delay_never_suspends() -> None:
    """The virtual loop turns for nothing but what takes time."""

    def steps() -> Iterator[object]:
        log = yield from MemoryStore(MemoryDisk()).open(LOG, "id").__await__()
        yield from log.append(rows(1, 3), 1).__await__()

    assert [] == list(steps())
