"""What every log promises (store/port.py) of facts that are old: they may move, and whoever reads is not told the difference."""

import pytest

from core.nouns.instant import Instant
from store.chain import GENESIS, chain
from store.port import Log, LogReader, Page, Row, Snapshot
from tests.contracts.logs import LOG, MUCH, World, everything, reading, rows

FOR_EVER = Instant(1 << 62)


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred facts in a file, sixteen in a block."""
    monkeypatch.setattr("store.archiving.FACTS_MAX", 100)
    monkeypatch.setattr("store.archive_file.BLOCK_ROWS", 16)


async def _filled(log: Log, reader: LogReader, count: int = 450) -> list[Row]:
    """A log with snapshots after the 350th row and the last but 50, and rows about three things."""
    written = [row._replace(about=f"w-{row.sequence % 3}") for row in rows(1, count)]
    for first, last in ((0, 350), (350, count - 50), (count - 50, count)):
        head = await log.append(written[first:last], 1)
        if last < count:
            await reader.keep_snapshot(Snapshot(head, b"image"))
    return written


async def _archived(world: World, log: Log, reader: LogReader, before: Instant = FOR_EVER) -> int:
    """Archive whole files until none is due, and let go of the rows; returns the last that was archived."""
    last = 0
    while (done := await reader.archive(before)) is not None:
        assert last in {0, done.first - 1}
        last = done.last
    await world.shed(log)
    return last


async def test_old_rows_are_read_as_before(world: World, log: Log) -> None:
    """Every page, by any limits, and every row about a thing, wherever the rows are; and the whole verifies."""
    async with reading(world) as reader:
        written = await _filled(log, reader)
        before = await reader.head()
        moved = await _archived(world, log, reader)
        assert moved in {0, 300}, (
            "three whole files before the oldest snapshot, or a log that keeps all in place"
        )
        assert before == log.head == await reader.head()
        hashes = [GENESIS, *chain(GENESIS, written)]
        async with reading(world) as fresh:
            for one in (reader, fresh):
                assert Page(written, GENESIS, before.hash) == await one.read(1, MUCH, MUCH)
                assert (450, 0) == ((found := await one.verify()).rows, found.broken_at)
                for first in (1, 2, 16, 17, 99, 100, 101, 299, 300, 301, 302, 350, 449, 450):
                    for count, size in ((1, MUCH), (37, MUCH), (250, MUCH), (250, 2_000), (5, 1)):
                        page = await one.read(first, count, size)
                        end = first - 1 + len(page.rows)
                        assert written[first - 1 : end] == page.rows
                        assert (hashes[first - 1], hashes[end]) == (page.hash_before, page.hash_after)
                        assert 1 <= len(page.rows) <= count
                assert Page([], before.hash, before.hash) == await one.read(451, 9, MUCH)
                assert Page([], before.hash, before.hash) == await one.read(999, 9, MUCH)


async def test_old_rows_are_found_by_what_they_are_about(world: World, log: Log) -> None:
    """From before, within and behind what moved, by count and by bytes, none left out at the border."""
    async with reading(world) as reader:
        written = await _filled(log, reader)
        await _archived(world, log, reader)
        about = [row for row in written if row.about == "w-1"]
        for after in (0, 1, 150, 298, 299, 300, 301, 349, 448):
            rest = [row for row in about if row.sequence > after]
            assert rest == await reader.read_about("w-1", after, 1_000, MUCH)
            assert rest[:7] == await reader.read_about("w-1", after, 7, MUCH)
        for limits in ((40, MUCH), (1_000, 700), (3, 1)):
            found: list[Row] = []
            while page := await reader.read_about("w-1", found[-1].sequence if found else 0, *limits):
                assert len(page) <= limits[0]
                found += page
            assert about == found
        assert [] == await reader.read_about("w-9", 0, 100, MUCH)
        assert [] == await reader.read_about("", 0, 100, MUCH)


async def test_log_goes_on_from_what_moved(world: World, log: Log) -> None:
    """The next keeper takes the log with the same id, head and term, with and without a snapshot, and appends."""
    async with reading(world) as reader:
        await _filled(log, reader)
        await _archived(world, log, reader)
        head = log.head
        await log.close()
        again = await world.store.open(LOG, "id-2")
        assert head == again.head
        kept = await reader.snapshot()
        assert kept is not None
        assert 400 == kept.head.sequence
        for sequence in (350, 400):
            world.flip_snapshot(sequence)
        await again.append(rows(451, 2), 2)
        await again.close()
        assert await reader.snapshot() is None
        last = await world.store.open(LOG, "id-3")
        assert (452, 2) == (last.head.sequence, last.head.term)
        await last.close()
    assert list(range(1, 453)) == [row.sequence for row in await everything(world)]


async def test_nothing_young_moves_and_nothing_a_start_needs(world: World, log: Log) -> None:
    """No row without a snapshot, none from the oldest one on, none that is recorded at the instant or later, and no part of a
    file unless it is asked for.
    """
    async with reading(world) as reader:
        await log.append(rows(1, 250), 1)
        assert await reader.archive(FOR_EVER) is None, "a start would have to read it all"
        await reader.keep_snapshot(Snapshot(log.head, b"image"))
        await log.append(rows(251, 250), 1)
        at = Instant(rows(100, 1)[0].at)
        assert await reader.archive(at) is None, "the hundredth is recorded at that instant, and not before"
        assert await _archived(world, log, reader, Instant(at + 1)) in {0, 100}
        assert await _archived(world, log, reader) in {0, 200}
        for _ in range(2):
            rest = await reader.archive(FOR_EVER, is_whole=False)
            await world.shed(log)
            assert rest is None or (201, 249) == (rest.first, rest.last)
        assert rows(1, 500) == await everything(world)
