"""Each unit tells its status: at its start, every ten seconds, and when it is asked; a count that grew is a warning."""

import contextvars
from pathlib import Path

import msgspec
from structlog.testing import capture_logs

from bus.port import Address
from core.codec import Parcel
from core.messages.units import AsideMessage, StatusWanted, UnitStatus
from core.nouns.instant import SECOND
from core.nouns.limits import STATUS_INTERVAL, WORKER_STATUS_FACTOR
from runtime.status.unit_status import COUNTS, Identity, StatusReporter, identity_of
from runtime.supervision.life_line import LifeLine
from runtime.virtual_loop import OWNER
from tests.runtime.aids import Place, virtual

UNIT = "agent.eu.a0"


class Part:
    """A part of a unit, with whatever a test makes of it."""

    def __init__(self) -> None:
        self.lost = dict.fromkeys(COUNTS, 0)
        self.aside: tuple[AsideMessage, ...] = ()
        self.waits = ""

    def losses(self) -> dict[str, int]:
        return self.lost

    def behind(self) -> int:
        return 7

    def waiting(self) -> int:
        return 3

    def put_aside(self) -> tuple[AsideMessage, ...]:
        return self.aside

    def waits_for(self) -> str:
        return self.waits


class Unit:
    """One unit's reporter, and all that it told."""

    def __init__(self, place: Place, *, is_worker: bool = False, life_line: LifeLine | None = None) -> None:
        self.part = Part()
        self.told: list[UnitStatus] = []
        self.place = place
        self.bus = place.network.endpoint(UNIT)
        identity = Identity(UNIT, "0.1.0", "node-1", "first", 2, "killed by SIGKILL")
        self.reporter = StatusReporter(
            identity, self.part, self.bus, place.clock(), is_worker=is_worker, life_line=life_line
        )

    async def begin(self, context: contextvars.Context | None = None) -> "Unit":
        await self.place.network.endpoint("ear").listen(Address("status"), self._hear)
        self.task = self.place.loop.create_task(self.reporter.run(), context=context)
        await self.place.moment()
        return self

    def _hear(self, parcel: Parcel, _: str) -> None:
        assert isinstance(parcel.message, UnitStatus)
        self.told.append(parcel.message)


@virtual
async def test_status_is_told_at_the_start_and_every_ten_seconds(place: Place) -> None:
    """With all that the unit knows of itself."""
    unit = await Unit(place).begin()
    unit.part.aside = (AsideMessage("find-bid", "workload w-1", "ValueError", 4),)
    unit.part.waits = "its clock is wrong"
    await place.sleep(30)
    assert 4 == len(unit.told)
    assert [0, 10, 20, 30] == [round(one.up_for / SECOND) for one in unit.told]
    newest = unit.told[-1]
    assert (UNIT, "node-1", "0.1.0", "first", 2, "killed by SIGKILL", STATUS_INTERVAL) == (
        newest.unit, newest.host, newest.build, newest.life, newest.restarts, newest.last_end, newest.again_in,
    )  # fmt: skip
    assert (7, 3, unit.part.aside, "its clock is wrong") == (
        newest.behind, newest.waiting, newest.aside, newest.waits_for,
    )  # fmt: skip


@virtual
async def test_status_is_told_when_it_is_wanted(place: Place) -> None:
    """And then again when it would have been."""
    unit = await Unit(place).begin()
    await place.sleep(4)
    place.client.say(StatusWanted())
    await place.moment()
    assert [0, 4] == [round(one.up_for / SECOND) for one in unit.told]
    await place.sleep(6)
    assert [0, 4, 10] == [round(one.up_for / SECOND) for one in unit.told]


@virtual
async def test_worker_tells_unasked_only_and_seldom(place: Place) -> None:
    """There may be 100,000 of them, and one question must not make them all speak at once."""
    unit = await Unit(place, is_worker=True).begin()
    place.client.say(StatusWanted())
    await place.sleep(119)
    assert [0, 60] == [round(one.up_for / SECOND) for one in unit.told]
    assert {WORKER_STATUS_FACTOR * STATUS_INTERVAL} == {one.again_in for one in unit.told}


@virtual
async def test_count_that_grows_is_a_warning(place: Place) -> None:
    """Once for each growth, with what it grew by; a count that stands still says nothing."""
    unit = await Unit(place).begin()
    with capture_logs() as lines:
        await place.sleep(10)
        unit.part.lost["inbox_lost"] = 5
        unit.bus.counts.lost = 1
        await place.sleep(20)
        unit.part.lost["inbox_lost"] = 7
        await place.sleep(10)
    grown = [(line["log_level"], line["count"], line["by"], line["now"]) for line in lines]
    assert [
        ("warning", "inbox_lost", 5, 5),
        ("warning", "lost", 1, 1),
        ("warning", "inbox_lost", 2, 7),
    ] == grown
    assert {"inbox_lost": 7, "lost": 1} == unit.told[-1].counts


@virtual
async def test_count_that_grew_is_told_for_two_intervals(place: Place) -> None:
    """However often an operator asks meanwhile."""
    unit = await Unit(place).begin()
    unit.part.lost["log_full"] = 1
    await place.sleep(10)
    place.client.say(StatusWanted())
    await place.sleep(31)
    assert [
        (0, ()), (10, ("log_full",)), (10, ("log_full",)), (20, ("log_full",)), (30, ("log_full",)), (40, ()),
    ] == [(round(one.up_for / SECOND), one.grown) for one in unit.told]  # fmt: skip


@virtual
async def test_worst_beat_since_the_last_status_is_told(place: Place) -> None:
    """A loop that stood still between two statuses was late for its beats, and not for the status."""
    context = contextvars.copy_context()
    context.run(OWNER.set, UNIT)
    line = LifeLine()
    context.run(line.begin, place.loop)
    unit = await Unit(place, life_line=line).begin(context)
    await place.sleep(3.5)
    place.loop.freeze(UNIT)
    await place.sleep(2)
    place.loop.thaw(UNIT)
    await place.sleep(16)
    assert [0, 1.5, 0] == [round(one.late / SECOND, 1) for one in unit.told]


def test_status_of_an_older_build_is_read() -> None:
    """Without the fields that came later."""
    older = b'{"type":"unit-status","unit":"u","host":"h","build":"b","life":"l","up_for":1,"again_in":2}'
    status = msgspec.json.decode(older, type=UnitStatus)
    assert (("", 0), ()) == ((status.waits_for, status.late), status.grown)


@virtual
async def test_lateness_of_the_loop_is_told(place: Place) -> None:
    """A process that stood still from its 9th to its 25th second comes 15 seconds late to its second status."""
    context = contextvars.copy_context()
    context.run(OWNER.set, UNIT)
    unit = await Unit(place).begin(context)
    await place.sleep(9)
    place.loop.freeze(UNIT)
    await place.sleep(16)
    place.loop.thaw(UNIT)
    await place.sleep(11)
    assert [0, 15, 0] == [round(one.late / SECOND) for one in unit.told]


def test_identity_says_what_the_supervisor_knows() -> None:
    """The lives before, and how the last one ended; without a supervisor there are none."""
    known = identity_of(UNIT, "1", {"MIZZEN_RESTARTS": "3", "MIZZEN_LAST_END": "killed by SIGABRT"})
    assert (3, "killed by SIGABRT") == (known.restarts, known.last_end)
    alone = identity_of(UNIT, "1", {"MIZZEN_RESTARTS": "many"})
    assert (0, "") == (alone.restarts, alone.last_end)
    assert known.life != alone.life


def test_every_count_is_in_the_page_for_operators() -> None:
    """With what to do about it."""
    page = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
    assert [] == [name for name in COUNTS if f"`{name}`" not in page]
