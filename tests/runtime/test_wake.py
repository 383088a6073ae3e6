"""The bell: wakes its sleeper when it is rung, when its instant has come, whichever is first, and never too late."""

import asyncio

import pytest

from core.nouns.instant import SECOND, Instant, after, seconds
from runtime.clock import Clock
from runtime.virtual_loop import NothingCanWake, run_virtual
from runtime.wake import Wake
from tests.runtime.aids import Place, virtual


def slept(place: Place, since: Instant) -> float:
    """Seconds since then."""
    return (place.loop.now_ns() - since) / SECOND


@virtual
async def test_rung(place: Place) -> None:
    """A ring wakes at once, and a ring that comes first keeps its sleeper from falling asleep, once."""
    wake, begun = Wake(place.clock()), place.loop.now_ns()
    place.loop.call_later(3, wake.ring)
    await wake.wait()
    assert 3 == slept(place, begun)
    wake.ring()
    wake.ring()
    await wake.wait()
    assert 3 == slept(place, begun)
    place.loop.call_later(1, wake.ring)
    await wake.wait()
    assert 4 == slept(place, begun)


@virtual
async def test_timed(place: Place) -> None:
    """It sleeps until the instant named; one that has passed is not slept for."""
    wake, clock = Wake(place.clock()), place.clock()
    begun = clock.now()
    await wake.wait(after(begun, seconds(5)))
    assert 5 == slept(place, begun)
    await wake.wait(after(begun, seconds(5)))
    await wake.wait(begun)
    assert 5 == slept(place, begun)


@virtual
async def test_rung_or_timed_whichever_is_first(place: Place) -> None:
    """Rung early it is up early; and the instant named next is kept, be it earlier or later than the one before."""
    wake = Wake(place.clock())
    begun = place.loop.now_ns()
    place.loop.call_later(2, wake.ring)
    await wake.wait(after(begun, seconds(10)))
    assert 2 == slept(place, begun)
    await wake.wait(after(begun, seconds(3)))
    assert 3 == slept(place, begun)
    await until(wake, place, after(begun, seconds(12)))
    assert 12 == slept(place, begun)
    await wake.wait(after(begun, seconds(11)))
    assert 12 == slept(place, begun)


async def until(wake: Wake, place: Place, at: Instant) -> None:
    """As every user of it does: it may wake early for nothing."""
    turns = 0
    while place.loop.now_ns() < at:
        await wake.wait(at)
        turns += 1
    assert turns <= 2


@virtual
async def test_cancelled_sleeper_leaves_a_bell_that_works(place: Place) -> None:
    """Whoever is cancelled in his sleep takes nothing along."""
    wake = Wake(place.clock())
    task = place.loop.create_task(wake.wait(after(place.loop.now_ns(), seconds(9))))
    await place.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    begun = place.loop.now_ns()
    await wake.wait(after(begun, seconds(2)))
    assert 2 == slept(place, begun)


def test_closed_lets_go_of_its_timer() -> None:
    """Nothing is left in the loop that could wake anybody."""

    async def main() -> None:
        clock = Clock(asyncio.get_running_loop(), Instant(0))
        wake = Wake(clock)
        task = asyncio.get_running_loop().create_task(wake.wait(seconds(5)))  # type: ignore[arg-type]
        await asyncio.sleep(1)
        wake.close()
        await task

    with pytest.raises(NothingCanWake):
        run_virtual(main())
