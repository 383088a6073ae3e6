"""What every log promises (store/port.py) to its keeper, asked of each implementation in turn."""

import asyncio
import contextlib

import pytest

from core.fact import Head
from core.nouns.ids import LogName
from store.chain import GENESIS, chain
from store.errors import AppendFailed, LogFull, LogInUse, NotNext
from store.port import Log, Page, Row, Snapshot
from tests.contracts.logs import LOG, MUCH, World, everything, image_of, reading, rows

# Appending.


async def test_new_log_is_empty(world: World, log: Log) -> None:
    """Before anything is appended a log has an id, and nothing else."""
    assert Head(LOG, "id-1", 0, 0, GENESIS) == log.head
    async with reading(world) as reader:
        assert log.head == await reader.head()
        assert Page([], GENESIS, GENESIS) == await reader.read(1, MUCH, MUCH)
        assert await reader.snapshot() is None


async def test_log_that_was_never_made_reads_as_empty(world: World) -> None:
    """Whoever reads before the keeper's first start finds nothing, not even an id, and makes nothing."""
    async with reading(world) as reader:
        assert Head(LOG, "", 0, 0, GENESIS) == await reader.head()
        assert Page([], GENESIS, GENESIS) == await reader.read(1, MUCH, MUCH)
        assert [] == await reader.read_about("w-1", 0, 10, MUCH)
        assert await reader.snapshot() is None
        assert 0 == (await reader.verify()).broken_at
        log = await world.store.open(LOG, "id-1")
        assert "id-1" == (await reader.head()).log_id, "the same reader sees the log once it is there"
        await log.close()


async def test_appended_rows_are_read_back(world: World, log: Log) -> None:
    """Rows come back equal, in order, with the hashes that chain them."""
    batches = [rows(1, 3), rows(4, 1), rows(5, 400, about=""), rows(405, 2)]
    for batch in batches:
        assert batch[-1].sequence == (await log.append(batch, 1)).sequence
    written = [row for batch in batches for row in batch]
    hashes = chain(GENESIS, written)
    assert Head(LOG, "id-1", 1, 406, hashes[-1]) == log.head
    async with reading(world) as reader:
        assert Page(written, GENESIS, hashes[-1]) == await reader.read(1, MUCH, MUCH)
        assert log.head == await reader.head()


async def test_odd_texts_are_read_back(world: World, log: Log) -> None:
    """Whatever a text or an event holds, it comes back: quotes, zeros, other scripts, nothing."""
    odd = [
        Row(1, 0, "", "", "", b""),
        Row(2, 2**62, "\0'\"\n", "Ωμέγα 🚢", "w'; DROP TABLE facts", b"\0" * 9),
        Row(3, -1, "x" * 5_000, "", "", bytes(range(256)) * 1024),
    ]
    await log.append(odd, 1)
    assert odd == await everything(world)


async def test_large_batch_is_whole(world: World, log: Log) -> None:
    """A batch larger than any statement or group is still one batch."""
    batch = rows(1, 10_000)
    assert 10_000 == (await log.append(batch, 1)).sequence
    assert batch == await everything(world)


@pytest.mark.parametrize(
    "wrong",
    [rows(1, 1), rows(3, 1), rows(5, 1), [*rows(4, 1), *rows(6, 1)], [*rows(4, 1), *rows(4, 1)]],
    ids=["from the start", "again", "leaving one out", "with a gap", "one twice"],
)
async def test_batch_that_does_not_follow_is_refused(world: World, log: Log, wrong: list[Row]) -> None:
    """Sequences have no gap and no repeat; a refused batch leaves nothing, and the log goes on."""
    head = await log.append(rows(1, 3), 1)
    with pytest.raises(NotNext):
        await log.append(wrong, 1)
    assert head == log.head
    assert 4 == (await log.append(rows(4, 1), 1)).sequence
    assert rows(1, 4) == await everything(world)


async def test_term_never_falls(world: World, log: Log) -> None:
    """A term stays or grows; it is remembered with the batch, and after closing too."""
    assert 3 == (await log.append(rows(1, 1), 3)).term
    with pytest.raises(NotNext):
        await log.append(rows(2, 1), 2)
    assert 3 == (await log.append(rows(2, 1), 3)).term
    assert 7 == (await log.append(rows(3, 1), 7)).term
    await log.close()
    again = await world.store.open(LOG, "id-2")
    assert 7 == again.head.term
    with pytest.raises(NotNext):
        await again.append(rows(4, 1), 6)
    await again.close()


async def test_appends_called_together_are_chained_in_the_order_of_the_calls(world: World, log: Log) -> None:
    """Many may wait at once: each gets the head after its own batch."""
    batches = [rows(1 + 3 * number, 3) for number in range(100)]
    heads = await asyncio.gather(*[log.append(batch, 1) for batch in batches])
    written = [row for batch in batches for row in batch]
    hashes = chain(GENESIS, written)
    assert [(3 * number, hashes[3 * number - 1]) for number in range(1, 101)] == [
        (head.sequence, head.hash) for head in heads
    ]
    assert written == await everything(world)


async def test_one_refused_among_many_harms_only_those_after_it(world: World, log: Log) -> None:
    """Of appends called together, one that does not follow is refused, and the next good one goes on from before it."""
    outcomes = await asyncio.gather(
        log.append(rows(1, 2), 1),
        log.append(rows(9, 1), 1),
        log.append(rows(3, 2), 1),
        return_exceptions=True,
    )
    assert ["Head", "NotNext", "Head"] == [type(outcome).__name__ for outcome in outcomes]
    assert rows(1, 4) == await everything(world)


async def test_row_that_cannot_be_written_is_refused(world: World, log: Log) -> None:
    """A text that has no encoding is its caller's mistake: the log goes on."""
    with pytest.raises(UnicodeEncodeError):
        await log.append([rows(1, 1)[0]._replace(cause="\ud800")], 1)
    assert 1 == (await log.append(rows(1, 1), 1)).sequence


async def test_no_rows_write_nothing(world: World, log: Log) -> None:
    """An empty append tells the head when all before it are settled."""
    assert log.head == await log.append([], 1)
    first, empty = await asyncio.gather(log.append(rows(1, 3), 1), log.append([], 1))
    assert first == empty
    assert log.head == empty


async def test_cancelled_append_is_whole_or_absent(world: World, log: Log) -> None:
    """Whoever waits may be cancelled at any moment; the batch is there or not, and the next append starts clean."""
    sequence = 0
    for patience in (0, 0, 1, 1, 2, 2):
        batch = rows(sequence + 1, 3)
        appending = asyncio.get_running_loop().create_task(log.append(batch, 1))
        for _ in range(patience):
            await asyncio.sleep(0)
        appending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await appending
        batch.clear()  # the caller's list is the caller's
        head = await log.append([], 1)
        assert head.sequence in {sequence, sequence + 3}
        sequence = (await log.append(rows(head.sequence + 1, 2), 1)).sequence
    assert rows(1, sequence) == await everything(world)


async def test_closed_log_takes_nothing(world: World, log: Log) -> None:
    """After closing an append fails; what was handed in before is there. Closing twice is closing."""
    appending = asyncio.gather(log.append(rows(1, 3), 1), log.append(rows(4, 3), 1))
    await asyncio.sleep(0)
    await asyncio.gather(appending, log.close())
    await log.close()
    with pytest.raises(AppendFailed):
        await log.append(rows(7, 1), 1)
    assert rows(1, 6) == await everything(world)


async def test_full_disk_refuses_the_batch_whole(world: World, log: Log) -> None:
    """When the disk is full a batch is absent, the log can be read, and it goes on when there is room again."""
    head = await log.append(rows(1, 3), 1)
    world.fill(log)
    for _ in range(2):
        with pytest.raises(LogFull):
            await log.append(rows(4, 1_000), 1)
        assert head == log.head
        assert head == await log.append([], 1)
        assert rows(1, 3) == await everything(world)
    world.free(log)
    assert 1_003 == (await log.append(rows(4, 1_000), 1)).sequence
    assert rows(1, 1_003) == await everything(world)


async def test_full_disk_refuses_all_that_waited_together(world: World, log: Log) -> None:
    """None of the batches of one commit is there when it finds no room."""
    world.fill(log)
    outcomes = await asyncio.gather(
        *[log.append(rows(1 + 500 * number, 500), 1) for number in range(3)], return_exceptions=True
    )
    assert isinstance(outcomes[0], LogFull)
    assert all(isinstance(outcome, LogFull | NotNext) for outcome in outcomes)
    assert 0 == log.head.sequence
    world.free(log)
    assert 3 == (await log.append(rows(1, 3), 1)).sequence


# Opening.


async def test_second_keeper_is_refused(world: World, log: Log) -> None:
    """One log, one keeper; a log closed is a log that the next may have."""
    with pytest.raises(LogInUse):
        await world.store.open(LOG, "id-2")
    await log.append(rows(1, 1), 1)
    await log.close()
    again = await world.store.open(LOG, "id-2")
    with pytest.raises(LogInUse):
        await world.store.open(LOG, "id-3")
    await again.close()


async def test_closed_and_reopened(world: World, log: Log) -> None:
    """What was appended stays, under the id that the log was made with."""
    head = await log.append(rows(1, 3), 1)
    await log.close()
    again = await world.store.open(LOG, "id-2")
    assert head == again.head
    assert "id-1" == again.head.log_id
    await again.append(rows(4, 2), 2)
    await again.close()
    assert rows(1, 5) == await everything(world)


async def test_logs_of_one_store_are_apart(world: World, log: Log) -> None:
    """Names that begin alike are different logs, and so are their snapshots."""
    other_name = LogName("region.eu.7")
    other = await world.store.open(other_name, "id-7")
    await log.append(rows(1, 3), 1)
    await other.append(rows(1, 9), 1)
    other_reader = await world.store.reader(other_name)
    await other_reader.keep_snapshot(Snapshot(other.head, b"other"))
    async with reading(world) as reader:
        assert await reader.snapshot() is None
        await reader.keep_snapshot(Snapshot(log.head, b"ours"))
        assert b"ours" == image_of(await reader.snapshot())
    assert b"other" == image_of(await other_reader.snapshot())
    assert 9 == len((await other_reader.read(1, MUCH, MUCH)).rows)
    await other_reader.close()
    await other.close()


async def test_older_copy_tells_an_older_head(world: World, log: Log) -> None:
    """A log put back from a backup is whole, under the same id; its head says that it went back."""
    await log.append(rows(1, 3), 1)
    await log.close()
    backup = world.copy()
    again = await world.store.open(LOG, "id-2")
    newest = await again.append(rows(4, 3), 2)
    await again.close()
    restored = await backup.store.open(LOG, "id-3")
    assert (newest.log_id, 3, 1) == (restored.head.log_id, restored.head.sequence, restored.head.term)
    assert 6 == (await restored.append(rows(4, 3, about="w-2"), 2)).sequence
    assert newest.hash != restored.head.hash, "another past, though it is as long"
    await restored.close()
