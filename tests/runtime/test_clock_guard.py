"""A keeper whose machine's clock is not to be believed says so, refuses what is asked, and waits for the clock or a word."""

import pytest
from structlog.testing import capture_logs

from core.codec import decode_event
from core.events.log import ClockAccepted
from core.messages.base import Refused
from core.messages.logs import AcceptClock, ClockWord
from core.messages.queue import Acknowledged
from core.nouns.ids import GLOBAL_LOG, RegionName
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.limits import CLOCK_APART_MAX
from core.nouns.reasons import Reason
from runtime.clock import Clock
from runtime.health.serving import Health
from runtime.host_status import HostStatus
from runtime.wiring import OpenUnit, Plan, RegionPlan, Surroundings, Unit, open_unit
from tests.runtime.aids import FLEET, Place, Running, count, in_virtual_time, virtual

HOUR = seconds(3_600)
QUEUE = Unit("job_queue")
PLAN = Plan(FLEET, (RegionPlan(RegionName("r"), ()),))


class Keeper:
    """The queue on a machine whose clock a test sets, life after life."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.wrong = 0
        """Nanoseconds by which the machine's clock is ahead of true time."""
        self.life: Running | None = None
        self._opened: OpenUnit | None = None

    async def start(self) -> None:
        """Begin another life."""
        if self.life is not None:
            self.place.crash(self.life)
        place = self.place
        bus = place.network.endpoint("queue")
        around = Surroundings(
            bus=bus,
            store=place.store,
            now=lambda: Instant(place.loop.now_ns() + self.wrong),
            clock=lambda start, not_before: Clock(place.loop, start, not_before),
            new_log_id=lambda: "log-1",
            elapsed=place.loop.now_ns,
        )
        self._opened = await open_unit(PLAN, QUEUE, around)
        assert self._opened.host is not None
        self.life = Running(place.loop, self._opened.host, bus)
        await place.sleep(0.1)

    @property
    def waits_for(self) -> str:
        """As its status says."""
        assert self.life is not None
        return HostStatus(self.life.host).waits_for()

    async def health(self) -> str:
        """As a health check of its container tells it."""
        assert self._opened is not None
        health = Health(self.place.network.endpoint("health"), [QUEUE], {QUEUE.name: self._opened})
        return await health.problem()

    async def says(self) -> str:
        """`yes`, or the reason for which it refuses a request."""
        answer = await self.place.ask(count("w-1"))
        assert isinstance(answer, Refused | Acknowledged), answer
        return answer.reason if isinstance(answer, Refused) else "yes"

    async def word(self) -> bool:
        """An operator's; whether it was waited for."""
        answer = await self.place.ask(AcceptClock(GLOBAL_LOG))
        assert isinstance(answer, ClockWord)
        await self.place.sleep(1)
        return answer.was_waited_for

    async def accepted(self) -> list[ClockAccepted]:
        """The words that its log has."""
        reader = await self.place.store.reader(GLOBAL_LOG)
        rows = await reader.read_about("clock", 0, 100, 100_000)
        return [event for row in rows if isinstance(event := decode_event(row.event), ClockAccepted)]

    async def newest_at(self) -> Instant:
        """The time of its log's newest fact."""
        reader = await self.place.store.reader(GLOBAL_LOG)
        head = await reader.head()
        return Instant((await reader.read(head.sequence, 1, 10_000)).rows[0].at)


async def a_keeper(place: Place) -> Keeper:
    """One that has begun under a right clock."""
    keeper = Keeper(place)
    await keeper.start()
    assert Reason.UNKNOWN_WORKLOAD == await keeper.says()
    return keeper


async def one_from_the_future(place: Place) -> Keeper:
    """Its machine's clock was two hours ahead, and was set right while it was dead."""
    keeper = Keeper(place)
    keeper.wrong = 2 * HOUR
    await keeper.start()
    keeper.wrong = 0
    return keeper


@virtual
async def test_log_that_is_an_hour_ahead_waits(place: Place) -> None:
    """It says what is wrong and what to do, and accepts nothing; no fact is written."""
    keeper = await one_from_the_future(place)
    durable = place.durable
    with capture_logs() as lines:
        await keeper.start()
    await place.sleep(60)
    assert Reason.CLOCK_UNCERTAIN == await keeper.says()
    [line] = [line for line in lines if line["event"] == "clock_uncertain"]
    assert "error" == line["log_level"]
    assert keeper.waits_for.startswith(
        f"the newest fact of global, {durable}, is 2.0 h ahead of this machine's clock"
    )
    assert "mizzen plane accept-clock global" in keeper.waits_for
    assert durable == place.durable


@virtual
async def test_log_goes_on_with_an_operators_word(place: Place) -> None:
    """From the time of its newest fact; the word is a fact, by which the next life need not ask again."""
    keeper = await one_from_the_future(place)
    before = await keeper.newest_at()
    await keeper.start()
    assert await keeper.word()
    assert ("", Reason.UNKNOWN_WORKLOAD) == (keeper.waits_for, await keeper.says())
    [accepted] = await keeper.accepted()
    assert 2 * HOUR == pytest.approx(accepted.ahead, abs=5 * SECOND)
    assert await keeper.newest_at() >= before
    await keeper.start()
    await place.sleep(20)
    assert ("", Reason.UNKNOWN_WORKLOAD) == (keeper.waits_for, await keeper.says())
    assert not await keeper.word(), "it does not wait, and the word changes nothing"
    assert 1 == len(await keeper.accepted())


@virtual
async def test_log_goes_on_when_the_clock_is_right_again(place: Place) -> None:
    """Without a word."""
    keeper = await one_from_the_future(place)
    await keeper.start()
    assert keeper.waits_for
    keeper.wrong = 2 * HOUR
    await place.sleep(2)
    assert ("", Reason.UNKNOWN_WORKLOAD) == (keeper.waits_for, await keeper.says())
    assert [] == await keeper.accepted()


@pytest.mark.parametrize(("by", "told"), [(2 * HOUR, "forward by 2.0 h"), (-5 * HOUR, "back by 5.0 h")])
def test_clock_that_jumps_under_a_keeper_stops_it(by: int, told: str) -> None:
    """Within ten seconds; the word lets it go on in its own time, which has not jumped."""
    in_virtual_time(lambda place: jumps(place, by, told))


async def jumps(place: Place, by: int, told: str) -> None:
    """The clock of a keeper's machine jumps, and an operator lets the keeper go on."""
    keeper = await a_keeper(place)
    keeper.wrong = by
    await place.sleep(11)
    assert Reason.CLOCK_UNCERTAIN == await keeper.says()
    assert f"has jumped {told}" in keeper.waits_for
    before = await keeper.newest_at()
    assert await keeper.word()
    assert Reason.UNKNOWN_WORKLOAD == await keeper.says()
    [accepted] = await keeper.accepted()
    assert -by == pytest.approx(accepted.ahead, abs=SECOND)
    assert 0 <= await keeper.newest_at() - before <= 60 * SECOND
    await place.sleep(60)
    assert "" == keeper.waits_for


@pytest.mark.parametrize("by", [CLOCK_APART_MAX, -CLOCK_APART_MAX, 60 * SECOND])
def test_clock_that_is_off_by_less_stops_nothing(by: int) -> None:
    """Up to an hour, at the start and later."""
    in_virtual_time(lambda place: is_off(place, by))


async def is_off(place: Place, by: int) -> None:
    """The clock of a keeper's machine is wrong for a while, and then right at the next start."""
    keeper = await a_keeper(place)
    keeper.wrong = by
    await place.sleep(30)
    assert ("", Reason.UNKNOWN_WORKLOAD) == (keeper.waits_for, await keeper.says())
    keeper.wrong = 0
    await keeper.start()
    await place.sleep(30)
    assert ("", Reason.UNKNOWN_WORKLOAD) == (keeper.waits_for, await keeper.says())


@virtual
async def test_plane_that_was_down_for_days_starts(place: Place) -> None:
    """Its newest fact is behind the clock, however far: that is no jump."""
    keeper = await a_keeper(place)
    assert keeper.life is not None
    place.crash(keeper.life)
    keeper.life = None
    await place.sleep(5 * 86_400)
    await keeper.start()
    assert ("", Reason.UNKNOWN_WORKLOAD) == (keeper.waits_for, await keeper.says())


@virtual
async def test_health_check_tells_what_the_clock_is_waited_for(place: Place) -> None:
    """Before the log is opened, and after the clock has jumped; no disk is full. Once the word is given, all is well."""
    keeper = await one_from_the_future(place)
    await keeper.start()
    assert keeper.waits_for
    assert f"job_queue: {keeper.waits_for}" == await keeper.health()
    assert await keeper.word()
    assert "" == await keeper.health()
    keeper.wrong = -5 * HOUR
    await place.sleep(60)
    assert "has jumped back by 5.0 h" in await keeper.health()
