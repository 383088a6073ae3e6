"""What every log promises (store/port.py) to whoever reads it, also once it is damaged, asked of each implementation in turn."""

import asyncio

import pytest

from core.codec import encode
from store.chain import GENESIS, chain
from store.errors import LogBroken, LogFromNewerBuild
from store.port import Log, Page, Row, Snapshot
from store.rows import facts_of, row_of
from tests.contracts.logs import LOG, MUCH, World, everything, reading, rows, started

# Reading.


async def test_read_limits(world: World, log: Log) -> None:
    """A page has at most so many rows and so many bytes, but one row at least; pages put together are the log."""
    written = [row._replace(event=bytes(100 * (row.sequence % 7))) for row in rows(1, 300)]
    await log.append(written, 1)
    hashes = [GENESIS, *chain(GENESIS, written)]
    async with reading(world) as reader:
        assert written[9:14] == (await reader.read(10, 5, MUCH)).rows
        assert written[9:10] == (await reader.read(10, 5, 1)).rows
        assert [] == (await reader.read(10, 0, MUCH)).rows
        for bytes_max in (1, 600, 2_000, 50_000, MUCH):
            first = 1
            while first <= 300:
                page = await reader.read(first, 250, bytes_max)
                after = first + len(page.rows)
                assert written[first - 1 : after - 1] == page.rows
                assert (hashes[first - 1], hashes[after - 1]) == (page.hash_before, page.hash_after)
                assert 1 <= len(page.rows) <= 250
                assert 1 == len(page.rows) or sum(len(row.event) for row in page.rows) <= bytes_max
                first = after


async def test_reading_beyond_the_head_finds_the_head(world: World, log: Log) -> None:
    """Who asks for rows that are not there yet gets none, and the head's hash to compare with."""
    head = await log.append(rows(1, 3), 1)
    async with reading(world) as reader:
        assert Page([], head.hash, head.hash) == await reader.read(4, 10, MUCH)
        assert Page([], head.hash, head.hash) == await reader.read(40, 10, MUCH)


async def test_reader_sees_whole_batches_while_they_are_written(world: World, log: Log) -> None:
    """Beside a busy keeper a reader sees a prefix of whole batches, never a part, and the keeper goes on."""
    seen: list[int] = []

    async def write() -> None:
        for first in range(1, 300, 3):
            await log.append(rows(first, 3), 1)

    async def read() -> None:
        async with reading(world) as reader:
            while not seen or seen[-1] < 300:
                head = await reader.head()
                page = await reader.read(1, MUCH, MUCH)
                assert len(page.rows) >= head.sequence
                seen.append(len(page.rows))
                await asyncio.sleep(0)

    await asyncio.gather(write(), read())
    assert [] == [count for count in seen if count % 3]
    assert sorted(seen) == seen


async def test_read_about(world: World, log: Log) -> None:
    """Rows about one thing behind a sequence, oldest first; what is about the log itself is about nothing."""
    written = [row._replace(about=f"w-{row.sequence % 3}" if row.sequence > 2 else "") for row in rows(1, 50)]
    await log.append(written, 1)
    about = [row for row in written if row.about == "w-1"]
    async with reading(world) as reader:
        assert about == await reader.read_about("w-1", 0, 100, MUCH)
        assert about[:4] == await reader.read_about("w-1", 0, 4, MUCH)
        after = about[3].sequence
        assert about[4:] == await reader.read_about("w-1", after, 100, MUCH)
        assert about[3:] == await reader.read_about("w-1", after - 1, 100, MUCH)
        for behind in (about[-1].sequence, 50, 51, 1_000):
            assert [] == await reader.read_about("w-1", behind, 100, MUCH)
        assert [] == await reader.read_about("w-9", 0, 100, MUCH)
        assert [] == await reader.read_about("", 0, 100, MUCH)


async def test_read_about_is_limited(world: World, log: Log) -> None:
    """By the count and by the bytes together, and one row comes at least; whoever asks again behind it has all."""
    small = rows(1, 1_000, about="w-2")
    large = [row._replace(event=bytes(100_000 * (1 + row.sequence % 3))) for row in rows(1_001, 12)]
    await log.append([*small, *large], 1)
    async with reading(world) as reader:
        assert small[:900] == await reader.read_about("w-2", 0, 900, MUCH)
        assert small == await reader.read_about("w-2", 0, 5_000, MUCH)
        for bytes_max in (1, 350_000, 650_000):
            found: list[Row] = []
            while page := await reader.read_about("w-1", found[-1].sequence if found else 0, 100, bytes_max):
                assert len(page) == 1 or sum(len(row.event) for row in page) <= bytes_max
                found += page
            assert large == found


async def test_read_about_sees_durable_rows(world: World, log: Log) -> None:
    """A row that is appended later is found by a reader that goes on behind the last one."""
    await log.append(rows(1, 3), 1)
    async with reading(world) as reader:
        assert rows(1, 3) == await reader.read_about("w-1", 0, 100, MUCH)
        await log.append([*rows(4, 2, about="w-2"), *rows(6, 1)], 1)
        assert rows(6, 1) == await reader.read_about("w-1", 3, 100, MUCH)


async def test_rows_are_facts(world: World, log: Log) -> None:
    """Facts become rows and rows the same facts."""
    facts = facts_of(LOG, rows(1, 5))
    await log.append([row_of(fact) for fact in facts], 1)
    assert facts == facts_of(LOG, await everything(world))
    assert [started(sequence) for sequence in range(1, 6)] == [fact.event for fact in facts]


async def test_event_of_a_newer_build(world: World, log: Log) -> None:
    """The log reads; what its rows mean is what this build cannot say."""
    unknown = rows(2, 1)[0]._replace(event=encode({"type": "workload-teleported"}))
    await log.append([*rows(1, 1), unknown], 1)
    found = await everything(world)
    with pytest.raises(LogFromNewerBuild, match=r"sequence 2 .*workload-teleported"):
        facts_of(LOG, found)


# Damage.


async def test_whole_log_verifies(world: World, log: Log) -> None:
    """All rows follow, so nothing is found."""
    await log.append(rows(1, 2_500), 1)
    async with reading(world) as reader:
        found = await reader.verify()
    assert (2_500, 0, "") == (found.rows, found.broken_at, found.problem)


@pytest.mark.parametrize("sequence", [1, 7, 2_500])
async def test_flipped_byte_is_named(world: World, log: Log, sequence: int) -> None:
    """A byte that changed is found by verifying, by reading and by opening, each naming the row."""
    await log.append(rows(1, 2_500), 1)
    await log.close()
    world.flip(sequence)
    async with reading(world) as reader:
        found = await reader.verify()
        assert (sequence - 1, sequence) == (found.rows, found.broken_at)
        assert f"at sequence {sequence}" in found.problem
        with pytest.raises(LogBroken) as read:
            await reader.read(max(1, sequence - 3), 10, MUCH)
    with pytest.raises(LogBroken) as opened:
        await world.store.open(LOG, "id-2")
    assert [sequence, sequence] == [read.value.sequence, opened.value.sequence]
    with pytest.raises(LogBroken):
        await world.store.open(LOG, "id-2")  # and not LogInUse: the first try let go of it


async def test_reading_past_a_flipped_byte(world: World, log: Log) -> None:
    """Damage is met by whoever reads that row, and by nobody else."""
    await log.append(rows(1, 10), 1)
    world.flip(5)
    async with reading(world) as reader:
        assert rows(1, 4) == (await reader.read(1, 4, MUCH)).rows
        assert rows(6, 5) == (await reader.read(6, 10, MUCH)).rows
        with pytest.raises(LogBroken):
            await reader.read_about("w-1", 0, 10, MUCH)
        assert rows(6, 5) == await reader.read_about("w-1", 5, 10, MUCH)


async def test_opening_checks_from_the_snapshot_on(world: World, log: Log) -> None:
    """So that a start takes no longer the longer the history is: older damage is for verifying to find."""
    head = await log.append(rows(1, 10), 1)
    async with reading(world) as reader:
        await reader.keep_snapshot(Snapshot(head, b"image"))
    await log.append(rows(11, 10), 1)
    await log.close()
    world.flip(4)
    again = await world.store.open(LOG, "id-2")
    assert 20 == again.head.sequence
    await again.close()
    world.flip(13)
    with pytest.raises(LogBroken) as opened:
        await world.store.open(LOG, "id-2")
    assert 13 == opened.value.sequence
    async with reading(world) as reader:
        assert 4 == (await reader.verify()).broken_at
