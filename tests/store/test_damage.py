"""What scenarios do to the file of a log: it is found, and it is undone."""

from pathlib import Path

import pytest

from core.nouns.ids import GLOBAL_LOG
from store.damage import copy_with_event, flip_byte
from store.errors import LogFromNewerBuild
from store.port import Row
from store.sqlite import SqliteStore, facts_in

UNKNOWN = b"\x81\xa4type\xa7unheard"


async def a_log(directory: Path, rows: int = 5) -> None:
    """One with so many rows, closed."""
    log = await SqliteStore(directory).open(GLOBAL_LOG, "id-1")
    await log.append([Row(n, 1_000 + n, "", "queue", "", b"\x80" * n) for n in range(1, rows + 1)], 3)
    await log.close()


async def verified(directory: Path) -> tuple[int, int]:
    """How many rows are sound, and where the log is broken."""
    reader = await SqliteStore(directory).reader(GLOBAL_LOG)
    try:
        found = await reader.verify()
        return found.rows, found.broken_at
    finally:
        await reader.close()


@pytest.mark.parametrize("sequence", [1, 3, 5])
async def test_flipped_byte_is_found_where_it_is(tmp_path: Path, sequence: int) -> None:
    """And the log is sound again once it is flipped back."""
    await a_log(tmp_path)
    flip_byte(tmp_path, GLOBAL_LOG, sequence)
    assert (sequence - 1, sequence) == await verified(tmp_path)
    flip_byte(tmp_path, GLOBAL_LOG, sequence)
    assert (5, 0) == await verified(tmp_path)


async def test_copy_with_an_event_of_a_newer_build(tmp_path: Path) -> None:
    """Its chain is sound, its newest fact is not known here, and the log itself has nothing of it."""
    await a_log(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    assert 6 == copy_with_event(tmp_path, GLOBAL_LOG, elsewhere, UNKNOWN)
    assert (6, 0) == await verified(elsewhere)
    assert (5, 0) == await verified(tmp_path)
    with pytest.raises(LogFromNewerBuild, match="sequence 6 holds an event that this build does not know"):
        list(facts_in(elsewhere, GLOBAL_LOG, first=6))


async def test_copy_of_a_log_that_its_keeper_has(tmp_path: Path) -> None:
    """All that is durable is in it; the keeper notices nothing."""
    await a_log(tmp_path)
    log = await SqliteStore(tmp_path).open(GLOBAL_LOG, "id-2")
    try:
        await log.append([Row(6, 1_006, "", "queue", "", b"\x80")], 4)
        assert 7 == copy_with_event(tmp_path, GLOBAL_LOG, tmp_path / "elsewhere", UNKNOWN)
        await log.append([Row(7, 1_007, "", "queue", "", b"\x80")], 4)
    finally:
        await log.close()
    assert (7, 0) == await verified(tmp_path)
