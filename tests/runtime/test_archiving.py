"""Beside the reader of a log: its old facts are archived, a file at a time."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from core.events.log import ClockAccepted
from core.images import empty_image
from core.images.versions import VERSIONS
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from core.nouns.limits import SNAPSHOT_FACTS, SNAPSHOT_INTERVAL
from runtime.archiving.archiver import Archiver
from runtime.clock import Clock, wall_now
from runtime.keeping.opening import take_log
from runtime.wiring import Plan, Surroundings, Unit, open_unit
from store.archive import directory_of
from store.files import FileLock
from store.port import Row, Snapshot
from store.rows import row_of
from store.sqlite import SqliteLog, SqliteStore
from tests.core.histories import QueueHistory
from tests.runtime.aids import START, Place, count_many, virtual

DAY = Nanoseconds(86_400 * SECOND)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.archiving.FACTS_MAX", 100)
    monkeypatch.setattr("runtime.archiving.archiver.ARCHIVE_PAUSE", seconds(0.001))
    monkeypatch.setattr("runtime.archiving.archiver.ARCHIVE_INTERVAL", seconds(0.01))


async def filled(directory: Path) -> SqliteLog:
    """A log of 350 facts that are ten days old, and 100 of today, the last of which has a snapshot."""
    store, now = SqliteStore(directory), wall_now()
    log, reader = await store.open(GLOBAL_LOG, "id"), await store.reader(GLOBAL_LOG)
    rows = [Row(n, now - (10 * DAY if n <= 350 else 0), "", "queue", "", b"\x80") for n in range(1, 451)]
    await reader.keep_snapshot(Snapshot(await log.append(rows, 1), b"image"))
    await reader.close()
    return log


async def test_old_facts_are_archived(tmp_path: Path) -> None:
    """By whole files, up to the first fact that is too young; each is a line."""
    log = await filled(tmp_path)
    reader = await SqliteStore(tmp_path).reader(GLOBAL_LOG)
    clock = Clock(asyncio.get_running_loop(), wall_now())
    archiver = Archiver(GLOBAL_LOG, reader, clock, Nanoseconds(3 * DAY))
    with capture_logs() as lines:
        task = asyncio.get_running_loop().create_task(archiver.run())
        while len(lines) < 3:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
    archiver.close()
    assert [("facts_archived", 1, 100), ("facts_archived", 101, 200), ("facts_archived", 201, 300)] == [
        (line["event"], line["first"], line["last"]) for line in lines
    ]
    assert [Path(line["path"]).stat().st_size for line in lines] == [line["bytes"] for line in lines]
    await reader.close()
    await log.close()


async def test_what_goes_wrong_is_said_and_tried_again(tmp_path: Path) -> None:
    """Another one archives the log; once that has ended this one goes on."""
    log = await filled(tmp_path)
    reader = await SqliteStore(tmp_path).reader(GLOBAL_LOG)
    place = directory_of(tmp_path, GLOBAL_LOG)
    place.mkdir()
    lock = FileLock(GLOBAL_LOG, place / "lock")
    clock = Clock(asyncio.get_running_loop(), wall_now())
    archiver = Archiver(GLOBAL_LOG, reader, clock, DAY)
    with capture_logs() as lines:
        task = asyncio.get_running_loop().create_task(archiver.run())
        while not lines:
            await asyncio.sleep(0.01)
        lock.release()
        while lines[-1]["event"] != "facts_archived":
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
    archiver.close()
    assert "facts_not_archived" == lines[0]["event"]
    assert "another process archives it" in lines[0]["error"]
    await reader.close()
    await log.close()


@virtual
async def test_reader_archives_if_facts_are_not_kept_for_ever(place: Place) -> None:
    """It is one of the tasks of the reader's unit; a plan that says nothing keeps all where it is."""
    loop = asyncio.get_running_loop()
    around = Surroundings(
        place.network.endpoint("reader.global"),
        place.store,
        lambda: START,
        lambda start, not_before: Clock(loop, start, not_before),
        lambda: "id",
    )
    unit = Unit("reader", member=GLOBAL_LOG)
    for plan, expected in (
        (Plan("fleet", ()), ["reader.global/answering", "reader.global/folding"]),
        (Plan("fleet", (), keep=DAY), ["reader.global/answering", "reader.global/folding", "archive.global"]),
    ):
        opened = await open_unit(plan, unit, around)
        tasks = opened.tasks()
        assert expected == [name for name, _ in tasks]
        for _, task in tasks:
            task.close()
        await opened.close()


@virtual
async def test_reader_says_what_its_snapshots_are_made_of(place: Place) -> None:
    """So that the next build knows whether it can go on from them."""
    await place.keep()
    await place.serve()
    await place.ask(count_many("n", SNAPSHOT_FACTS))
    await place.sleep(2 * SNAPSHOT_INTERVAL / SECOND)
    snapshot = await (await place.store.reader(GLOBAL_LOG)).snapshot()
    assert snapshot is not None
    assert VERSIONS.made_of == snapshot.made_of


async def test_start_reads_no_archive_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keeper starts although one is missing, and an operator's word about its clock, long archived, still counts."""
    monkeypatch.setattr("store.archiving.FACTS_MAX", 50)
    history = [replace(fact, sequence=fact.sequence + 1) for fact in QueueHistory(1).draw(199)]
    facts = [replace(history[0], sequence=1, event=ClockAccepted(1, 7)), *history]
    image = empty_image(GLOBAL_LOG)
    for fact in facts[:150]:
        image.fold(fact)
    store, rows = SqliteStore(tmp_path), [row_of(fact) for fact in facts]
    log, reader = await store.open(GLOBAL_LOG, "id"), await store.reader(GLOBAL_LOG)
    await reader.keep_snapshot(Snapshot(await log.append(rows[:150], 1), image.encode(), VERSIONS.made_of))
    await log.append(rows[150:], 1)
    while await reader.archive(Instant(1 << 62)):
        pass
    await log.shed()
    await reader.close()
    await log.close()
    gone = sorted(directory_of(tmp_path, GLOBAL_LOG).glob("*.facts"))
    assert len(gone) > 1
    for path in gone:
        path.unlink()
    taken = await take_log(store, GLOBAL_LOG, "id")
    await taken.log.close()
    assert (len(rows), rows[-1].at, 7) == (taken.head.sequence, taken.newest_at, taken.accepted_ahead)
