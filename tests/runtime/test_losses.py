"""Each count of losses is provoked, and read from the status of the unit that lost something."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from bus.catalogue import STATUS, subject_of
from bus.nats import NatsConnection
from bus.port import Address, Bus
from bus.server_users import Allowed, Permissions, ServerUser
from components.auditor.component import Auditor
from core.codec import Parcel
from core.messages.logs import FetchImage, ReadLog
from core.messages.queue import SubmitWorkload
from core.messages.units import UnitStatus
from core.nouns.ids import GLOBAL_LOG
from core.nouns.instant import seconds
from core.nouns.limits import INBOX_MAX, MESSAGE_BYTES_MAX
from runtime.clock import Clock, wall_now
from runtime.host_status import HostStatus
from runtime.status.put_aside import Suspects
from runtime.status.unit_status import COUNTS, Identity, StatusReporter, Told
from tests.builders import a_spec, a_status
from tests.bus.test_server_users import a_place, until
from tests.runtime.aids import (
    FLEET,
    Place,
    Running,
    Serving,
    count,
    how_many,
    in_virtual_time,
    large_answer,
    virtual,
)
from tests.runtime.test_following import a_head, a_watched_counter
from tests.runtime.test_unit_status import Part

IDENTITY = Identity("unit", "0.1.0", "node-1", "first")
PARCEL = Parcel("client.0.0", "client", how_many())
Scene = Callable[[Place], Coroutine[None, None, UnitStatus]]


async def status_of(place: Place, part: Told, bus: Bus) -> UnitStatus:
    """The status that a unit of this part tells."""
    told: list[UnitStatus] = []

    def hear(parcel: Parcel, _: str) -> None:
        assert isinstance(parcel.message, UnitStatus)
        told.append(parcel.message)

    ear = place.network.endpoint("ear")
    await ear.listen(Address(STATUS.noun), hear)
    reporter = StatusReporter(IDENTITY, part, bus, place.clock())
    running = place.loop.create_task(reporter.run(), name="status")
    await place.moment()
    running.cancel()
    reporter.close()
    await ear.close()
    return next(one for one in told if one.unit == IDENTITY.unit)


async def of_host(place: Place, running: Running) -> UnitStatus:
    """The status of a host."""
    return await status_of(place, HostStatus(running.host), running.bus)


async def of_reader(place: Place, serving: Serving) -> UnitStatus:
    """The status of a reader."""
    return await status_of(place, serving.reader, serving.bus)


async def inbox_lost(place: Place) -> UnitStatus:
    """More than the inbox holds."""
    keeper = await place.keep()
    for _ in range(INBOX_MAX + 3):
        keeper.host.hear(PARCEL, "")
    return await of_host(place, keeper)


async def unexpected(place: Place) -> UnitStatus:
    """Messages that the counter does not hear."""
    keeper = await place.keep()
    for _ in range(3):
        place.client.say(SubmitWorkload(a_spec(), "user"))
    await place.moment()
    return await of_host(place, keeper)


async def put_aside(place: Place) -> UnitStatus:
    """Messages whose like has made the counter fail twice."""
    suspects = Suspects(None, "", place.loop.now_ns)
    for _ in range(2):
        suspects.blame(count("w-13"), OverflowError())
    keeper = await place.keep(suspects=suspects)
    for _ in range(3):
        place.client.say(count("w-13"))
    await place.moment()
    return await of_host(place, keeper)


async def not_said(place: Place) -> UnitStatus:
    """Answers that no message holds."""
    keeper = await place.keep()
    for _ in range(3):
        await place.ask(large_answer(MESSAGE_BYTES_MAX))
    return await of_host(place, keeper)


async def lost(place: Place) -> UnitStatus:
    """Messages said while the server is away, or on their way when it went."""
    keeper = await place.keep()
    keeper.bus.say(count("a"))
    before = keeper.bus.counts.lost
    place.network.down()
    for _ in range(3 - (keeper.bus.counts.lost - before)):
        keeper.bus.say(count("a"))
    place.network.up()
    return await of_host(place, keeper)


async def dead_letters(place: Place) -> UnitStatus:
    """Bytes that are no message."""
    keeper = await place.keep()
    for _ in range(3):
        place.network.deliver_raw(subject_of(FLEET, count("a")), b"no message")
    await place.moment()
    return await of_host(place, keeper)


async def reconnects(place: Place) -> UnitStatus:
    """A server that goes and comes back."""
    keeper = await place.keep()
    for _ in range(3):
        place.network.down()
        place.network.up()
    return await of_host(place, keeper)


async def gaps(place: Place) -> UnitStatus:
    """Facts that are not heard, each before one that is."""
    _, watcher = await a_watched_counter(place, "a")
    for name in ("b", "d", "f"):
        cut = place.network.cut(["queue"], ["auditor"])
        await place.ask(count(name))
        place.network.heal(cut)
        await place.ask(count(f"{name} and one"))
        await place.moment()
    return await of_host(place, watcher)


async def refused(place: Place) -> UnitStatus:
    """Heads of another log."""
    _, watcher = await a_watched_counter(place, "a")
    for _ in range(3):
        place.client.say(a_head(place, log_id="other", term=9, sequence=9))
    await place.moment()
    return await of_host(place, watcher)


async def asks_lost(place: Place) -> UnitStatus:
    """More reads than the reader's inbox holds."""
    await place.keep()
    serving = await place.serve()
    for _ in range(INBOX_MAX + 3):
        serving.reader._hear(Parcel("client.0.0", "client", ReadLog(GLOBAL_LOG, 1, 1)), "inbox")
    return await of_reader(place, serving)


async def unanswered(place: Place) -> UnitStatus:
    """A page that cannot be read, and two images that wait to be encoded from a log that cannot be read."""
    await place.keep()
    await place.ask(count("a"))
    place.disk.flip_byte(GLOBAL_LOG, 2)
    serving = await place.serve()
    for asked in (ReadLog(GLOBAL_LOG, 2, 1), FetchImage(GLOBAL_LOG, ()), FetchImage(GLOBAL_LOG, ())):
        place.client.say(asked, "inbox")
    await place.moment()
    return await of_reader(place, serving)


async def log_full(place: Place) -> UnitStatus:
    """Three tries, a second apart, to open a log on a disk that is full."""
    place.crash(await place.keep())
    place.disk.is_full = True
    keeper = await place.keep()
    await place.sleep(2)
    return await of_host(place, keeper)


async def units_not_kept(place: Place) -> UnitStatus:
    """Statuses of three units, in a roster with room for those of the plan."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("components.auditor.roster.UNITS_KEPT_MAX", 2)
        auditor = place.follow(Auditor((), ("job_queue", "auditor")))
        await place.moment()
        for name in ("job_queue", "one", "two", "three"):
            place.client.say(a_status(name))
        await place.moment()
        return await of_host(place, auditor)


SCENES: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (
        inbox_lost,
        unexpected,
        put_aside,
        not_said,
        lost,
        dead_letters,
        reconnects,
        gaps,
        refused,
        asks_lost,
        unanswered,
        log_full,
        units_not_kept,
    )
}
ON_REAL_PARTS = {"forbidden", "not_archived"}
"""The simulated bus has no permissions, and a log in memory no archive (test_archiving.py provokes the latter)."""


@pytest.mark.parametrize("name", sorted(set(COUNTS) - ON_REAL_PARTS))
def test_what_is_lost_is_told(name: str) -> None:
    """Three losses of each sort are three in the status, under their own name."""

    async def body(place: Place) -> None:
        status = await SCENES[name](place)
        assert 3 == status.counts.get(name), status.counts

    in_virtual_time(body)


@virtual
async def test_facts_that_are_not_folded_yet_are_told(place: Place) -> None:
    """All that were announced: two, while no reader has the one that was not heard."""
    await place.keep()
    serving = await place.serve()
    watcher = place.follow()
    await place.until(lambda: watcher.host.state is not None)
    assert 0 == (await of_host(place, watcher)).behind
    serving.kill()
    cut = place.network.cut(["queue"], ["auditor"])
    await place.ask(count("a"))
    place.network.heal(cut)
    await place.ask(count("b"))
    await place.moment()
    assert 2 == (await of_host(place, watcher)).behind


@virtual
async def test_messages_that_wait_are_told(place: Place) -> None:
    """Those of the inbox."""
    keeper = await place.keep()
    for _ in range(3):
        keeper.host.hear(PARCEL, "")
    assert 3 == HostStatus(keeper.host).waiting()


@pytest.mark.processes
async def test_what_the_server_forbids_is_told(tmp_path: Path) -> None:
    """By every unit of the connection, for the server names none; what is allowed is not counted."""
    subject, inbox = subject_of(FLEET, a_status("unit")), "_INBOX.unit"
    own = f"{inbox}.>"
    async with a_place(tmp_path / "nats") as server:
        await server.grant(
            ServerUser("unit", "secret", Permissions(Allowed((subject, own)), Allowed((own,))))
        )
        url = f"nats://unit:secret@{server.address}"
        line = await NatsConnection.connect(url, FLEET, "unit", inbox=inbox, timeout=seconds(5))
        server.connections.append(line)
        unit, other = line.endpoint("unit"), line.endpoint("other")
        unit.say(a_status("unit"))
        assert await unit.round_trip(seconds(10))
        assert 0 == unit.counts.forbidden
        for _ in range(3):
            unit.say(count("w-1"))
        await until(lambda: unit.counts.forbidden >= 3)
        assert 3 == other.counts.forbidden
        told = await server.hears(Address(STATUS.noun))
        loop = asyncio.get_running_loop()
        reporter = StatusReporter(IDENTITY, Part(), unit, Clock(loop, wall_now()), is_worker=True)
        running = loop.create_task(reporter.run(), name="status")
        await until(lambda: bool(told))
        assert [{"forbidden": 3}] == [one.counts for one in told if isinstance(one, UnitStatus)]
        running.cancel()
        reporter.close()
