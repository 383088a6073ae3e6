"""Opening a log for its one keeper: what is not ours, not readable, damaged or kept already is refused, and says why."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from core.codec import encode
from core.events.log import LogOpened
from core.events.queue import RegionAdded
from core.fact import Event
from core.nouns.fleet import Inventory
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, region_log
from core.nouns.instant import Instant, seconds
from core.nouns.limits import SETTINGS
from runtime.clock import Clock
from runtime.errors import KeeperExists, KeeperSilent
from runtime.wiring import BUILD, OpenUnit, Plan, RegionPlan, Surroundings, Unit, open_unit
from store.errors import LogBroken, LogFromNewerBuild, LogInUse, LogOfAnotherFleet
from store.memory import MemoryStore
from store.memory_disk import MemoryDisk
from store.port import Row
from tests.runtime.aids import Place, virtual

REGION = RegionName("r0")
KEEPERS = [Unit("job_queue"), Unit("placement_store", REGION)]


def plan(fleet: str) -> Plan:
    """A fleet of one empty region."""
    inventories: tuple[Inventory, ...] = ()
    return Plan(fleet, (RegionPlan(REGION, inventories),))


def log_of(unit: Unit) -> LogName:
    """What it keeps."""
    return GLOBAL_LOG if unit.role == "job_queue" else region_log(REGION)


class FromTheFuture(Event, frozen=True, tag="from-the-future"):
    """An event that this build does not know."""


class Plane:
    """Keepers of a fleet on one disk."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.disk = MemoryDisk()
        self.opened: list[tuple[OpenUnit, list[asyncio.Task[None]], Any]] = []

    async def start(self, unit: Unit, fleet: str = "fleet", disk: MemoryDisk | None = None) -> OpenUnit:
        """Open a keeper and let it run."""
        place = self.place
        bus = place.network.endpoint(unit.name)
        around = Surroundings(
            bus=bus,
            store=MemoryStore(disk or self.disk),
            now=place.loop.now_ns,
            clock=lambda start, not_before: Clock(place.loop, start, not_before),
            new_log_id=lambda: f"id-{len(self.opened)}",
        )
        opened = await open_unit(plan(fleet), unit, around)
        tasks = [place.loop.create_task(task, name=name) for name, task in opened.tasks()]
        self.opened.append((opened, tasks, bus))
        await place.moment()
        return opened

    async def stop(self) -> None:
        """End the newest in good order."""
        opened, tasks, bus = self.opened[-1]
        bus.crash()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await opened.close()

    async def append(self, unit: Unit, *events: Event) -> None:
        """Write facts behind the keeper's back, while none is there."""
        log = await MemoryStore(self.disk).open(log_of(unit), "id")
        first, term = log.head.sequence + 1, log.head.term
        at = self.place.loop.now_ns()
        rows = [Row(first + index, at, "", "", "", encode(event)) for index, event in enumerate(events)]
        await log.append(rows, term)
        await log.close()


def for_each_keeper(
    body: Callable[[Plane, Unit], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    """One body, once for each sort of keeper."""

    async def both(place: Place) -> None:
        for unit in KEEPERS:
            await body(Plane(place), unit)

    both.__name__, both.__doc__, both.__module__ = body.__name__, body.__doc__, body.__module__
    return virtual(both)


@for_each_keeper
async def test_log_opened_is_the_first_fact_of_each_term(plane: Plane, unit: Unit) -> None:
    """T35: one id for ever, one term more at each opening, which build and fleet writes what follows, and under which
    limits.
    """
    for _ in range(3):
        await plane.start(unit)
        await plane.stop()
    file = plane.disk.file(log_of(unit))
    assert file is not None
    openings = [row for row in file.rows if b"log-opened" in row.event]
    assert [encode(LogOpened("id-0", term, "fleet", BUILD, SETTINGS)) for term in (1, 2, 3)] == [
        row.event for row in openings
    ]
    assert (1, 3) == (openings[0].sequence, file.term)
    assert "id-0" == file.log_id


@for_each_keeper
async def test_log_of_another_fleet_is_refused(plane: Plane, unit: Unit) -> None:
    """It is not ours to write; nothing is changed, and its own fleet can have it."""
    await plane.start(unit, "theirs")
    await plane.stop()
    before = plane.disk.copy().file(log_of(unit))
    with pytest.raises(LogOfAnotherFleet, match="it belongs to fleet 'theirs', and this is 'fleet'"):
        await plane.start(unit, "fleet")
    after = plane.disk.file(log_of(unit))
    assert before is not None
    assert after is not None
    assert before.rows == after.rows
    await plane.start(unit, "theirs")
    await plane.stop()


@for_each_keeper
async def test_log_from_a_newer_build_is_refused(plane: Plane, unit: Unit) -> None:
    """What we cannot read we cannot go on from: the refusal names the sequence, and lets go of the file."""
    await plane.start(unit)
    await plane.stop()
    file = plane.disk.file(log_of(unit))
    assert file is not None
    sequence = file.durable + 1
    await plane.append(unit, FromTheFuture())
    with pytest.raises(
        LogFromNewerBuild, match=f"sequence {sequence} holds an event that this build does not know"
    ):
        await plane.start(unit)
    assert file.holder is None


@for_each_keeper
async def test_broken_log_names_its_sequence(plane: Plane, unit: Unit) -> None:
    """A row that is not the one written stops the start, and the refusal says which."""
    await plane.start(unit)
    await plane.stop()
    await plane.append(unit, *(RegionAdded(RegionName(f"x{number}")) for number in range(9)))
    plane.disk.flip_byte(log_of(unit), 5)
    with pytest.raises(LogBroken) as broken:
        await plane.start(unit)
    assert 5 == broken.value.sequence
    assert f"log {log_of(unit)}: at sequence 5" in str(broken.value)


@for_each_keeper
async def test_second_keeper_of_one_file_is_refused(plane: Plane, unit: Unit) -> None:
    """The file is locked: who comes second does not get it, and the first does not notice."""
    first = await plane.start(unit)
    with pytest.raises(LogInUse):
        await plane.start(unit)
    await plane.place.sleep(5)
    assert first.host is not None
    assert first.host.is_open
    await plane.stop()


@for_each_keeper
async def test_second_keeper_of_one_name_is_refused(plane: Plane, unit: Unit) -> None:
    """T35, L6: on another machine, with a copy of the file, no lock helps: the first answers for the log on the bus.
    The second writes nothing, lets go of its file, and may start once the first is gone.
    """
    await plane.start(unit)
    copy = plane.disk.copy()
    with pytest.raises(KeeperExists, match=f"log {log_of(unit)} is kept already, up to ") as refused:
        await plane.start(unit, disk=copy)
    file = copy.file(log_of(unit))
    assert file is not None
    assert log_of(unit) == refused.value.log
    assert (1, None) == (file.term, file.holder)
    await plane.stop()
    await plane.start(unit, disk=copy)
    assert 2 == file.term
    await plane.stop()


@virtual
async def test_keeper_that_does_not_answer_is_not_replaced(place: Place) -> None:
    """It may stand still, and would go on beside us; or our questions were lost. Who comes second gives up for now, and
    writes nothing.
    """
    plane = Plane(place)
    await plane.start(Unit("job_queue"))
    first = plane.opened[-1][2]
    place.network.pause(first)
    disk = MemoryDisk()
    begun = place.loop.now_ns()
    with pytest.raises(KeeperSilent, match="log global may be kept already"):
        await plane.start(Unit("job_queue"), disk=disk)
    assert Instant(begun + seconds(6)) == place.loop.now_ns()
    file = disk.file(log_of(Unit("job_queue")))
    assert file is not None
    assert ([], None) == (file.rows, file.holder)
    place.network.resume(first)
    with pytest.raises(KeeperExists):
        await plane.start(Unit("job_queue"), disk=disk)


@virtual
async def test_lost_questions_are_asked_again(place: Place) -> None:
    """Two of three may be lost, and the other keeper is found all the same."""
    plane = Plane(place)
    await plane.start(Unit("job_queue"))
    place.network.faults.drop_probability = 1.0
    place.loop.call_after_ns(seconds(3), setattr, place.network.faults, "drop_probability", 0.0)
    with pytest.raises(KeeperExists):
        await plane.start(Unit("job_queue"), disk=MemoryDisk())
