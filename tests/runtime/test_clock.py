"""A host's clock: never behind its log, never going back, and exact."""

import asyncio

from core.nouns.instant import SECOND, Instant, after, seconds
from runtime.clock import Clock, wall_now
from runtime.virtual_loop import run_virtual
from tests.runtime.aids import START, Place, count, virtual


@virtual
async def test_begins_at_the_wall_clock_or_the_log(place: Place) -> None:
    """Whichever is later: a wall clock that was set back does not take time back from the log."""
    assert START == Clock(place.loop, START).now()
    later = after(START, seconds(3600))
    clock = Clock(place.loop, START, not_before=later)
    assert later == clock.now()
    await place.sleep(1.5)
    assert after(later, seconds(1.5)) == clock.now()
    assert after(START, seconds(1.5)) == Clock(place.loop, place.loop.now_ns(), not_before=START).now()


@virtual
async def test_timers_come_when_it_says_so(place: Place) -> None:
    """A timer set for an instant of this clock finds it at that instant, to the nanosecond."""
    clock = Clock(place.loop, Instant(12_345), not_before=Instant(1_767_225_600_123_456_789))
    await place.sleep(0.1)
    at = after(clock.now(), seconds(86_400.000_000_001))
    heard: list[Instant] = []
    clock.call_at(at, lambda: heard.append(clock.now()))
    await place.sleep(90_000)
    assert [at] == heard


@virtual
async def test_facts_never_go_back_in_time(place: Place) -> None:
    """A keeper whose wall clock is behind its log goes on from the log's last time."""
    keeper = await place.keep()
    await place.sleep(100)
    await place.ask(count("a"))
    place.crash(keeper)
    place.wall_offset = seconds(-3600)
    await place.keep()
    await place.ask(count("b"))
    times = [row.at for row in place.file.rows]
    assert sorted(times) == times


def test_goes_on_with_a_real_loop_too() -> None:
    """On a loop that has no clock of whole nanoseconds the monotonic clock carries it, and its timers are the loop's."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = Clock(loop, START)
        first = clock.now()
        assert START <= first < START + 60 * SECOND
        heard: asyncio.Future[Instant] = loop.create_future()
        clock.call_at(first, lambda: heard.set_result(clock.now()))
        assert first <= await heard

    asyncio.run(main())
    assert wall_now() > START


def test_two_clocks_of_one_loop_agree_on_spans() -> None:
    """Each counts from its own start, and both count alike."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        one, other = Clock(loop, START), Clock(loop, Instant(0))
        await asyncio.sleep(7)
        assert seconds(7) == one.now() - START
        assert after(Instant(0), seconds(7)) == other.now()

    run_virtual(main(), START)
