"""When processes are struck: in the middle of something, and not only while they wait for something to do."""

import asyncio
from collections import Counter

import pytest

from runtime.wiring import Unit
from scenarios.faults.crash import Crash
from scenarios.worlds.simulated.strike_times import Moments
from scenarios.worlds.simulated.unit import SimulatedUnit
from tests.runtime.aids import Place, virtual
from tests.scenarios.misfortunes import Struck, storm_of, struck

SEEDS = range(1, 9)


def innermost(task: "asyncio.Task[None]") -> str:
    """The coroutine in which a task waits."""
    coroutine = task.get_coro()
    name = ""
    while getattr(coroutine, "cr_frame", None) is not None:
        name = coroutine.cr_frame.f_code.co_qualname  # type: ignore[union-attr]  # it has one
        coroutine = coroutine.cr_await  # type: ignore[union-attr]
    return name


def doing(unit: SimulatedUnit) -> str:
    """What a process does: its log waits for the disk, or it has just begun and asks for an image; or nothing."""
    places = {(task.get_name().rpartition("/")[2], innermost(task)) for task in unit._tasks}
    if ("appending", "sleep") in places:
        return "syncs"
    return "asks" if "SimulatedBus.ask" in {place for _, place in places} else "waits"


def test_kills_come_in_the_middle_of_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over a few seeds keepers under load die while they start and ask, while a batch waits for the disk, and idle."""
    seen: Counter[str] = Counter()
    is_on = False
    kill = SimulatedUnit.kill

    def watched(unit: SimulatedUnit, fate: str = "") -> None:
        if is_on:
            seen[doing(unit)] += 1
        kill(unit, fate)

    monkeypatch.setattr(SimulatedUnit, "kill", watched)

    async def body(place: Struck) -> None:
        nonlocal is_on
        storm = place.begin(storm_of(60, 120.0))
        is_on = True
        for role in ("job_queue", "placement_store") * 4:
            await place.begin(Crash(role=role, down_seconds=0.1, again_share=0.6))
            await place.sleep(4)
        is_on = False
        await storm
        await place.sleep(30)
        assert [] == await place.world.dead()

    for seed in SEEDS:
        struck(body, seed)
    assert {"asks", "syncs", "waits"} == set(seen)
    assert min(seen.values()) > sum(seen.values()) / 10, seen


@virtual
async def test_strike_comes_after_callbacks_of_its_own(place: Place) -> None:
    """Of the process that is struck, and not of others; of one that does nothing, after two seconds."""
    moments = Moments(place.loop, 1)
    begun = place.loop.time()
    times = []
    for _ in range(20):
        await moments.strike("nobody", lambda: lambda: None)
        times.append(round(place.loop.time() - begun, 6))
        begun = place.loop.time()
    assert {0.0, 2.0} == set(times)


@virtual
async def test_strike_that_is_cut_short_has_not_happened(place: Place) -> None:
    """At whatever turn of the loop: what was done is undone, and what was not done never comes."""
    done = 0

    def act() -> object:
        nonlocal done
        done += 1
        return undo

    def undo() -> None:
        nonlocal done
        done -= 1

    for delay in (0.0, 1.0, 2.0, 2.0):
        for _ in range(5):
            task = place.loop.create_task(_strike(place, act))
            await asyncio.sleep(delay)
            is_late = task.done()
            task.cancel()
            await asyncio.wait([task])
            assert int(is_late or not task.cancelled()) == done
            done = 0
            await asyncio.sleep(5)
            assert 0 == done
    assert {} == place.loop._countdowns


async def _strike(place: Place, act: object) -> None:
    await Moments(place.loop, 3).strike(Unit("job_queue").name, act)  # type: ignore[arg-type]  # as it is above
