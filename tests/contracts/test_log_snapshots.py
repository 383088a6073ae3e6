"""What every log promises (store/port.py) about its snapshots, asked of each implementation in turn."""

import errno
import shutil

import msgspec
import pytest

from store.errors import LogFull
from store.port import Log, LogReader, Snapshot
from tests.contracts.logs import LOG, MUCH, MemoryWorld, SqliteWorld, World, image_of, reading, rows


async def _with_snapshots(log: Log, reader: LogReader, count: int) -> list[Snapshot]:
    """A log with a snapshot every ten rows."""
    kept = []
    for number in range(count):
        head = await log.append(rows(10 * number + 1, 10), 1)
        kept.append(Snapshot(head, b"image %d" % number))
        await reader.keep_snapshot(kept[-1])
    return kept


async def test_newest_snapshot_and_tail(world: World, log: Log) -> None:
    """A start is the newest snapshot and the rows after it."""
    async with reading(world) as reader:
        kept = await _with_snapshots(log, reader, 2)
        await log.append(rows(21, 5), 1)
        snapshot = await reader.snapshot()
        assert kept[-1] == snapshot
        tail = await reader.read(snapshot.head.sequence + 1, MUCH, MUCH)
        assert (snapshot.head.hash, log.head.hash) == (tail.hash_before, tail.hash_after)
        assert rows(21, 5) == tail.rows


async def test_damaged_snapshot_is_skipped(world: World, log: Log) -> None:
    """The one before it and a longer tail give the same state; with both damaged it is the whole log."""
    async with reading(world) as reader:
        kept = await _with_snapshots(log, reader, 3)
        world.flip_snapshot(30)
        assert kept[1] == await reader.snapshot()
        world.flip_snapshot(20)
        assert await reader.snapshot() is None, "the newest two are kept, and no more"
        await log.close()
        again = await world.store.open(LOG, "id-2")
        assert 30 == again.head.sequence
        await again.close()


async def test_large_image_is_kept(world: World, log: Log) -> None:
    """An image of some size comes back as it was."""
    image = bytes(range(256)) * 20_000
    head = await log.append(rows(1, 1), 1)
    async with reading(world) as reader:
        await reader.keep_snapshot(Snapshot(head, image))
        assert image == image_of(await reader.snapshot())


@pytest.mark.parametrize("wrong", ["hash", "log_id", "sequence"])
async def test_snapshot_of_another_past_is_not_used(world: World, log: Log, wrong: str) -> None:
    """A snapshot counts where the chain has its hash, and nowhere else."""
    async with reading(world) as reader:
        kept = await _with_snapshots(log, reader, 1)
        head = await log.append(rows(11, 2), 1)
        other = {"hash": b"x" * 16, "log_id": "id-9", "sequence": 11}[wrong]
        await reader.keep_snapshot(Snapshot(msgspec.structs.replace(head, **{wrong: other}), b"other"))
        assert kept[0] == await reader.snapshot()
        await log.close()
        await (await world.store.open(LOG, "id-2")).close()


async def test_snapshots_ahead_of_a_restored_log_make_way(world: World, log: Log) -> None:
    """After an older copy is put back its snapshots are the ones that are used and kept."""
    await log.append(rows(1, 5), 1)
    await log.close()
    backup = world.copy()
    again = await world.store.open(LOG, "id-2")
    async with reading(world) as reader:
        for first in (6, 11):
            snapshot = Snapshot(await again.append(rows(first, 5), 1), b"image")
            await reader.keep_snapshot(snapshot)
    await again.close()
    _move_snapshots(world, backup)
    restored = await backup.store.open(LOG, "id-3")
    head = await restored.append(rows(6, 1, about="w-2"), 1)
    async with reading(backup) as reader:
        assert await reader.snapshot() is None
        await reader.keep_snapshot(Snapshot(head, b"ours"))
        assert b"ours" == image_of(await reader.snapshot())
    await restored.close()


def _move_snapshots(source: World, target: World) -> None:
    """The log was restored, what lay beside it stayed."""
    if isinstance(source, SqliteWorld) and isinstance(target, SqliteWorld):
        for path in source.directory.glob("*.image"):
            shutil.copy(path, target.directory)
    elif isinstance(source, MemoryWorld) and isinstance(target, MemoryWorld):
        images = source.disk._files[LOG].images
        target.disk._files[LOG].images.update(images)


async def test_full_disk_keeps_the_older_snapshots(
    world: World, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that finds no room is absent; those before it stay."""

    def no_room(_: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    async with reading(world) as reader:
        kept = await _with_snapshots(log, reader, 2)
        head = await log.append(rows(21, 1), 1)
        world.fill(log)
        monkeypatch.setattr("store.images.os.fsync", no_room)
        with pytest.raises(LogFull):
            await reader.keep_snapshot(Snapshot(head, b"too much"))
        monkeypatch.undo()
        assert kept[1] == await reader.snapshot()
