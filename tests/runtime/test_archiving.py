"""Beside the reader of a log: its old facts are archived, a file at a time."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from bus.simulated import SimulatedNetwork
from bus.simulated_endpoint import SimulatedBus
from core.events.log import ClockAccepted
from core.images import empty_image
from core.images.versions import VERSIONS
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from core.nouns.limits import SNAPSHOT_FACTS, SNAPSHOT_INTERVAL
from runtime.archiving.archiver import Archiver
from runtime.clock import Clock, wall_now
from runtime.host import Host
from runtime.host_status import HostStatus
from runtime.keeping.kept import Kept
from runtime.keeping.opening import take_log
from runtime.reader import Reader
from runtime.status.unit_status import COUNTS
from runtime.virtual_loop import VirtualLoop
from runtime.wiring import Plan, Surroundings, Unit, open_unit
from store.archive import directory_of
from store.files import FileLock
from store.port import Row, Snapshot
from store.rows import row_of
from store.sqlite import SqliteLog, SqliteStore
from tests.core.histories import QueueHistory
from tests.runtime.aids import START, Counter, Place, count_many, virtual

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


@pytest.fixture
def bus() -> Iterator[SimulatedBus]:
    """An endpoint on which nothing is heard."""
    with closing(VirtualLoop()) as loop:
        yield SimulatedNetwork(Random(1), loop, "fleet").endpoint("unit")


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


async def test_lasting_trouble_is_one_line_and_counted(tmp_path: Path, bus: SimulatedBus) -> None:
    """A line when it begins and one when it is over; the reader's status counts every try, and so is heard of."""
    log = await filled(tmp_path)
    reader = await SqliteStore(tmp_path).reader(GLOBAL_LOG)
    clock = Clock(asyncio.get_running_loop(), wall_now())
    archiver = Archiver(GLOBAL_LOG, reader, clock, DAY)
    part = Reader(GLOBAL_LOG, reader, bus, clock)
    place = directory_of(tmp_path, GLOBAL_LOG)
    place.write_bytes(b"a file where the directory should be")
    with capture_logs() as lines:
        task = asyncio.get_running_loop().create_task(archiver.run())
        while part.losses()["not_archived"] < 5:
            await asyncio.sleep(0.01)
        place.unlink()
        while "facts_archived" not in [line["event"] for line in lines]:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
    archiver.close()
    part.close()
    assert [
        ("error", "facts_not_archived"),
        ("info", "facts_archived_again"),
        ("info", "facts_archived"),
    ] == [(line["log_level"], line["event"]) for line in lines][:3]
    assert {"not_archived"} == {name for name, count in part.losses().items() if count} <= set(COUNTS)
    await reader.close()
    await log.close()


async def test_keeper_counts_what_it_could_not_delete(
    tmp_path: Path, bus: SimulatedBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its status has the count of its log."""
    monkeypatch.setattr("store.sqlite_writer.LOOK_SECONDS", 0.01)
    monkeypatch.setattr("store.sqlite_writer.RETRY_SECONDS", 0.01)
    log = await filled(tmp_path)
    clock = Clock(asyncio.get_running_loop(), wall_now())
    kept = Kept(log, empty_image(GLOBAL_LOG), "fleet", "test")
    status = HostStatus(Host(Counter(), bus, clock, kept))
    assert 0 == status.losses()["not_archived"]
    directory_of(tmp_path, GLOBAL_LOG).write_bytes(b"a file where the directory should be")
    while status.losses()["not_archived"] < 3:
        await asyncio.sleep(0.01)
    assert set(status.losses()) <= set(COUNTS)
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
    own = [f"reader.global/{work}" for work in ("answering", "finding", "folding")]
    for plan, expected in (
        (Plan("fleet", ()), own),
        (Plan("fleet", (), keep=DAY), [*own, "archive.global"]),
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
