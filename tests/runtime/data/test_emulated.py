"""Emulated copies on a virtual clock: bytes over rate, faults that come and go, and disks that outlive the doer."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from core.component import Effect
from core.effects import CopyData, DropData, ForgetCopy, HashData
from core.messages.base import Message
from core.messages.copies import CopyChanged, DataDropped, DataHashed
from core.nouns.data import CopyFailure
from core.nouns.ids import DatasetName, RegionName
from core.nouns.instant import MILLISECOND, SECOND, Instant
from core.nouns.limits import COPY_REPORT_INTERVAL
from runtime.clock import Clock
from runtime.data.emulated import EmulatedData
from runtime.data.emulated_world import Content, DataWorld, EmulatedDisk, Partial, hash_of
from tests.runtime.aids import Place, in_virtual_time
from tests.runtime.data.aids import EU, US, WORDS

Body = Callable[["World"], Coroutine[Any, Any, None]]  # Any: as typeshed
RATE = 1_000
BYTES = 100_000
"""Of the dataset: it takes 100 s."""
ORDER = CopyData(1, WORDS, EU, BYTES, RATE, hash_of(WORDS))
ASIA = RegionName("asia")


class World:
    """The doer of `us` in a world of several regions, and all that it tells, with the second in which it does."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.clock: Clock = place.clock()
        self.begun_at: Instant = self.clock.now()
        self.data = DataWorld()
        self.heard: list[tuple[float, Message]] = []
        self.restart()

    @property
    def disk(self) -> EmulatedDisk:
        """Return the disk of `us`."""
        return self.data.disk(US)

    def restart(self) -> None:
        """Begin a service's life with a new doer, as a new process does."""
        self.us = EmulatedData(US, self.data, self.clock)
        self.us.attach(self._hear)
        self.place.loop.create_task(self.us.run())

    def begin(self, *effects: Effect) -> None:
        """Ask for each."""
        for effect in effects:
            self.us.begin(effect)

    async def at(self, second: float) -> None:
        """Wait until so long after the beginning."""
        await self.place.loop.sleep_ns(self.begun_at + round(second * SECOND) - self.clock.now())  # type: ignore[arg-type]  # a span

    def ends(self) -> list[tuple[float, CopyChanged]]:
        """Return the ends of copies."""
        return [
            (at, message)
            for at, message in self.heard
            if isinstance(message, CopyChanged) and message.is_over
        ]

    def _hear(self, message: Message) -> None:
        milliseconds = (self.clock.now() - self.begun_at) // MILLISECOND
        self.heard.append((milliseconds / 1000, message))


def emulated(body: Body) -> Callable[[], None]:
    """A test whose body runs in virtual time."""

    def test() -> None:
        async def main(place: Place) -> None:
            await body(World(place))

        in_virtual_time(main)

    test.__name__ = test.__qualname__ = getattr(body, "__name__", "test")
    test.__doc__ = body.__doc__
    test.__module__ = body.__module__
    return test


def over(reason: str = "", moved: int = BYTES, copy: int = 1) -> CopyChanged:
    """Return the end of a copy."""
    return CopyChanged(copy, moved, is_over=True, reason=reason)


@emulated
async def test_copy_takes_its_bytes_over_its_rate(world: World) -> None:
    """Told every interval and at the end, to the byte; then the disk holds the dataset."""
    world.begin(ORDER, ORDER)
    await world.at(200)
    interval = COPY_REPORT_INTERVAL // SECOND
    progress = [(float(at), CopyChanged(1, at * RATE)) for at in range(interval, 100, interval)]
    assert [*progress, (100.0, over())] == world.heard
    assert (Content(hash_of(WORDS), BYTES), {}) == (world.disk.contents[WORDS], world.disk.incoming)
    world.begin(ORDER)
    assert (200.0, over()) == world.heard[-1]


@emulated
async def test_end_is_exact_for_odd_rates(world: World) -> None:
    """The last byte is there in the nanosecond in which it is due, and none before."""
    world.begin(CopyData(1, WORDS, EU, 1_000, 7, hash_of(WORDS)))
    await world.at(142.857)
    assert [] == world.ends()
    await world.at(142.858)
    assert [(142.857, over(moved=1_000))] == world.ends()


@emulated
async def test_nothing_moves_over_a_cut_link(world: World) -> None:
    """Until it is restored; the rest then takes what it would have."""
    world.begin(ORDER)
    await world.at(30)
    world.data.cut_link(EU, US)
    await world.at(505)
    assert (500.0, CopyChanged(1, 30 * RATE)) == world.heard[-1]
    world.data.restore_link(EU, US)
    await world.at(1_000)
    assert [(575.0, over())] == world.ends()


@emulated
async def test_slow_link_and_other_links(world: World) -> None:
    """A factor is of each copy's own rate, also of one that begins meanwhile; other links are as they were."""
    world.data.slow_link(EU, US, 500)
    world.begin(ORDER, CopyData(2, DatasetName("other"), ASIA, BYTES, RATE, hash_of(DatasetName("other"))))
    await world.at(20)
    world.data.slow_link(EU, US, 2_000)
    world.data.cut_link(US, EU)
    await world.at(300)
    assert [(20 + 90_000 / 2_000, over()), (100.0, over(copy=2))] == world.ends()


@emulated
async def test_next_copies_arrive_corrupt(world: World) -> None:
    """Over a link, or of a dataset: after all bytes have moved the hash differs, and nothing is left; then copies are right again."""
    world.data.corrupt_link(EU, US)
    world.data.corrupt_link(US, EU)
    world.begin(ORDER)
    await world.at(150)
    world.data.corrupt_dataset(WORDS)
    world.begin(CopyData(2, WORDS, ASIA, BYTES, RATE, hash_of(WORDS)))
    await world.at(300)
    world.begin(CopyData(3, WORDS, EU, BYTES, RATE, hash_of(WORDS)))
    await world.at(500)
    differs = CopyFailure.HASH_DIFFERS
    assert [(100.0, over(differs)), (250.0, over(differs, copy=2)), (400.0, over(copy=3))] == world.ends()
    assert {} == world.disk.incoming


@emulated
async def test_killed_service_goes_on_where_it_was(world: World) -> None:
    """Nothing moves while no service lives, and the disk keeps the bytes; the next one moves the rest."""
    world.begin(ORDER)
    await world.at(40)
    world.us.detach()
    await world.at(300)
    assert {1: Partial(WORDS, 40 * RATE)} == world.disk.incoming
    world.restart()
    world.begin(ORDER)
    await world.at(320)
    world.restart()  # Another process, while the one before it was not yet told to end.
    world.begin(ORDER)
    await world.at(1_000)
    assert [(360.0, over())] == world.ends()
    world.restart()
    world.begin(ORDER)
    assert (1_000.0, over()) == world.heard[-1]


@emulated
async def test_doer_that_lives_on_is_attached_again(world: World) -> None:
    """A service's next life beside the same doer leaves its copies alone."""
    world.begin(ORDER)
    await world.at(40)
    world.us.attach(world._hear)
    world.begin(ORDER)
    await world.at(200)
    assert [(100.0, over())] == world.ends()


@emulated
async def test_full_disk(world: World) -> None:
    """Copies under way fail at once and those that begin do too; nothing of them is left."""
    world.begin(ORDER)
    await world.at(50)
    world.data.fill_disk(US)
    world.begin(CopyData(2, WORDS, EU, BYTES, RATE, hash_of(WORDS)))
    full = CopyFailure.DISK_FULL
    assert [(50.0, over(full, 50_000)), (50.0, over(full, 0, copy=2))] == world.ends()
    assert {} == world.disk.incoming
    world.data.free_disk(US)
    world.begin(CopyData(3, WORDS, EU, BYTES, RATE, hash_of(WORDS)))
    await world.at(200)
    assert (150.0, over(copy=3)) == world.ends()[-1]


@emulated
async def test_size_that_was_stated_wrongly(world: World) -> None:
    """A hash tells the true bytes; a copy of more than was ordered is none, and one of less ends early."""
    world.data.put(EU, WORDS, BYTES + 1)
    world.data.put(US, DatasetName("mine"), 7)
    world.begin(ORDER, HashData(9, DatasetName("mine")))
    await world.at(150)
    world.data.put(EU, WORDS, 10_000)
    world.begin(CopyData(2, WORDS, EU, BYTES, RATE, hash_of(WORDS)))
    await world.at(300)
    assert DataHashed(9, DatasetName("mine"), hash_of(DatasetName("mine")), 7) == world.heard[0][1]
    assert [(100.0, over(CopyFailure.SIZE_DIFFERS)), (160.0, over(moved=10_000, copy=2))] == world.ends()


@emulated
async def test_dataset_that_was_put_nowhere(world: World) -> None:
    """It is where an order says that it is, of the size that operators stated, until it is deleted there."""
    stated = DataWorld(lambda dataset: 5 * len(dataset))
    heard: list[Message] = []
    eu = EmulatedData(EU, stated, world.clock)
    eu.attach(heard.append)
    for effect in (HashData(1, WORDS), DropData(WORDS), DropData(WORDS), HashData(1, WORDS)):
        eu.begin(effect)
    missing = DataHashed(1, WORDS, "", 0, CopyFailure.SOURCE_MISSING)
    dropped = DataDropped(WORDS)
    assert [DataHashed(1, WORDS, hash_of(WORDS), 25), dropped, dropped, missing] == heard
    us = EmulatedData(US, stated, world.clock)
    us.attach(heard.append)
    us.begin(ORDER)
    assert over(CopyFailure.SOURCE_MISSING, 0) == heard[-1]


@emulated
async def test_deleted_dataset_is_put_back(world: World) -> None:
    """As an operator puts files back; what is there stays."""
    world.data.take_away(EU, WORDS)
    world.data.put_back(EU, WORDS)
    world.begin(ORDER)
    await world.at(150)
    assert [(100.0, over())] == world.ends()
    world.data.put(EU, WORDS, 5, "mine")
    world.data.put_back(EU, WORDS)
    assert Content("mine", 5) == world.data.content(EU, WORDS)


@emulated
async def test_source_is_deleted_and_place_taken_meanwhile(world: World) -> None:
    """A copy whose source is gone fails; what an operator put in its place stays."""
    other = CopyData(2, DatasetName("other"), EU, BYTES, RATE, hash_of(DatasetName("other")))
    world.begin(ORDER, other)
    await world.at(50)
    world.data.take_away(EU, WORDS)
    world.data.put(US, DatasetName("other"), 1, "an operator's")
    await world.at(200)
    failures = [CopyFailure.SOURCE_MISSING, CopyFailure.HASH_DIFFERS]
    assert failures == [end.reason for _, end in world.ends()]
    assert Content("an operator's", 1) == world.disk.contents[DatasetName("other")]
    world.begin(other)
    assert CopyFailure.HASH_DIFFERS == world.ends()[-1][1].reason


@emulated
async def test_copy_of_an_ended_order_makes_room_for_other_content(world: World) -> None:
    """As with real files: no order stands where the log has a copy, so a copy that was made before is deleted."""
    world.begin(ORDER)
    await world.at(150)
    world.begin(ForgetCopy(1))
    world.data.put(EU, WORDS, BYTES, "new")
    world.begin(CopyData(2, WORDS, EU, BYTES, RATE, "new"))
    await world.at(300)
    assert [(100.0, over()), (250.0, over(copy=2))] == world.ends()
    assert Content("new", BYTES) == world.disk.contents[WORDS]


@emulated
async def test_copy_is_forgotten(world: World) -> None:
    """Under way or left by an earlier life: nothing is left of it, and nothing is told."""
    world.begin(ORDER)
    await world.at(50)
    world.disk.incoming[7] = Partial(WORDS, 3)
    world.begin(ForgetCopy(1), ForgetCopy(7), ForgetCopy(8))
    told = len(world.heard)
    await world.at(500)
    assert ({}, told) == (world.disk.incoming, len(world.heard))


@emulated
async def test_copy_of_nothing(world: World) -> None:
    """Zero bytes take no time, also over a cut link."""
    world.data.cut_link(EU, US)
    world.begin(CopyData(1, WORDS, EU, 0, RATE, hash_of(WORDS)))
    await world.at(1)
    assert [(0.0, over(moved=0))] == world.heard


@pytest.mark.parametrize("cuts", [1, 10, 1_000])
def test_faults_lose_no_bytes(cuts: int) -> None:
    """However often a link is cut for a moment, a copy is late by those moments alone."""

    async def body(place: Place) -> None:
        world = World(place)
        world.begin(ORDER)
        for number in range(cuts):
            await world.at(number * 90 / cuts)
            world.data.cut_link(EU, US)
            world.data.restore_link(EU, US)
        await world.at(200)
        ((at, end),) = world.ends()
        assert over() == end
        assert abs(at - 100) <= cuts / RATE  # A byte each, at most.

    in_virtual_time(body)
