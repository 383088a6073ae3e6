"""Misfortunes that overlap: the last one to end ends what they did to the same thing, and none ends another's."""

from collections.abc import Awaitable, Callable

import pytest

from core.nouns.ids import GLOBAL_LOG
from runtime.wiring import Unit
from scenarios.worlds.overlapping import Lasting
from tests.scenarios.misfortunes import Struck, storm_of, struck


def test_last_one_to_end_ends_it() -> None:
    """Each ends its own entry, also where two are equal, and once more does no harm."""
    changes: list[int] = []
    lasting: Lasting[int] = Lasting(lambda: changes.append(len(lasting)))
    first, second, third = (lasting.begin(value) for value in (7, 7, 9))
    first()
    first()
    assert [7, 9] == lasting.values
    third()
    assert [7] == lasting.values
    lasting.forget()
    again = lasting.begin(8)
    second()
    assert [8] == lasting.values
    again()
    assert [1, 2, 3, 2, 1, 1, 0] == changes


Deed = Callable[[Struck, Unit, int], Awaitable[object]]
Goes = Callable[[Struck, Unit], object]

DEEDS: dict[str, tuple[str, Deed, Goes, list[object]]] = {
    "stop_bus": (
        "job_queue",
        lambda place, _, __: place.world.stop_bus(),
        lambda place, _: not place.world.network.is_up,
        [False, True, True, False],
    ),
    "fill_disk": (
        "job_queue",
        lambda place, _, __: place.world.fill_disk(GLOBAL_LOG),
        lambda place, _: place.world.store.disk(GLOBAL_LOG).is_full,
        [False, True, True, False],
    ),
    "slow_disk": (
        "job_queue",
        lambda place, _, turn: place.world.slow_disk(GLOBAL_LOG, (1.5, 0.5)[turn]),
        lambda place, _: place.world.store.slowness(GLOBAL_LOG),
        [0.0, 1.5, 0.5, 0.0],
    ),
    "skew_clock": (
        "job_queue",
        lambda place, unit, turn: place.world.skew_clock(unit, (0.01, 0.002)[turn]),
        lambda place, unit: place.world.process(unit).clock_skew,
        [0.0, 0.012, 0.002, 0.0],
    ),
    "pause": (
        "region_broker",
        lambda place, unit, _: place.world.pause(unit),
        lambda place, unit: unit.name in place.loop._frozen,
        [False, True, True, False],
    ),
    "freeze": (
        "worker",
        lambda place, unit, _: place.world.freeze(unit),
        lambda place, unit: (place.nodes(unit).is_frozen, unit.name in place.loop._frozen),
        [(False, False), (True, True), (True, True), (False, False)],
    ),
    "slow_tasks": (
        "worker",
        lambda place, unit, turn: place.world.slow_tasks(unit, (3.0, 2.0)[turn]),
        lambda place, unit: place.nodes(unit).factor,
        [1.0, 3.0, 2.0, 1.0],
    ),
    "break_nodes": (
        "worker",
        lambda place, unit, turn: place.world.break_nodes(unit, (7, 9)[turn]),
        lambda place, unit: place.nodes(unit).broken_exit_code,
        [0, 9, 9, 0],
    ),
    "ail_nodes": (
        "worker",
        lambda place, unit, turn: place.world.ail_nodes(unit, ("hot", "gone")[turn]),
        lambda place, unit: {text for _, text in place.nodes(unit).ill},
        [set(), {"gone"}, {"gone"}, set()],
    ),
}


@pytest.mark.parametrize("name", DEEDS)
def test_two_of_a_sort_do_not_undo_each_other(name: str) -> None:
    """Before, with both, after the first has ended, and after both have."""
    role, deed, goes, expected = DEEDS[name]

    async def body(place: Struck) -> None:
        unit = place.unit(role).unit
        seen = [goes(place, unit)]
        handles = [await deed(place, unit, turn) for turn in (0, 1)]
        seen.append(goes(place, unit))
        for handle in handles:
            await place.world.calm(handle)
            seen.append(goes(place, unit))
        assert expected == seen
        await place.sleep(20)
        assert [] == await place.world.dead()

    struck(body)


def test_pause_ends_with_its_life() -> None:
    """What is started after a kill runs, and the end of the pause that was changes nothing for a pause of the next life."""

    async def body(place: Struck) -> None:
        broker = place.unit("region_broker", "r0")
        first = await place.world.pause(broker.unit)
        await place.world.kill(broker.unit)
        await place.world.revive(broker.unit)
        await place.sleep(5)
        assert (True, 0) == (broker.is_alive, broker.pauses)
        second = await place.world.pause(broker.unit)
        await place.world.calm(first)
        assert 1 == broker.pauses
        await place.world.calm(second)
        assert 0 == broker.pauses

    struck(body)


def test_dead_process_is_not_paused() -> None:
    """There is nothing that could stand still; the life that comes next runs."""

    async def body(place: Struck) -> None:
        broker = place.unit("region_broker", "r0")
        await place.world.kill(broker.unit)
        await place.world.pause(broker.unit)
        await place.world.revive(broker.unit)
        await place.sleep(5)
        assert (True, 0) == (broker.is_alive, broker.pauses)

    struck(body)


def test_machine_that_stands_still_starts_nothing() -> None:
    """A worker that is killed while it is frozen comes back when its nodes thaw; their tasks stood still all the time."""

    async def body(place: Struck) -> None:
        await place.load()
        worker = place.busiest()
        one = place.world.process(worker)
        ends = {key: share.ends_at for key, share in place.nodes(worker).shares.items() if share.ends_at}
        assert ends
        frozen = await place.world.freeze(worker)
        await place.world.kill(worker)
        await place.world.revive(worker)
        await place.sleep(3)
        assert (False, True) == (one.is_alive, place.nodes(worker).is_frozen)
        await place.world.calm(frozen)
        assert not place.nodes(worker).is_frozen
        later = {key: place.nodes(worker).shares[key].ends_at for key in ends}
        assert all((later[key] or 0) > ends[key] for key in ends)
        await place.sleep(5)
        assert one.is_alive

    struck(body)


def test_machine_that_lost_its_power_is_frozen_no_more() -> None:
    """It is another machine that comes back, so to speak: it starts at once, and the thaw of the old one changes nothing."""

    async def body(place: Struck) -> None:
        worker = place.unit("worker", "r0").unit
        frozen = await place.world.freeze(worker)
        await place.world.power_off(worker)
        await place.world.revive(worker)
        await place.sleep(5)
        assert place.world.process(worker).is_alive
        again = await place.world.freeze(worker)
        await place.world.calm(frozen)
        assert place.nodes(worker).is_frozen
        await place.world.calm(again)
        assert not place.nodes(worker).is_frozen

    struck(body)


def test_disk_that_becomes_slow_delays_the_batch_under_way() -> None:
    """As it does those that come after it."""

    async def body(place: Struck) -> None:
        storm = place.begin(storm_of(1, 0.0))
        await place.world.store.next_write(GLOBAL_LOG)
        begun = place.world.now()
        slow = await place.world.slow_disk(GLOBAL_LOG, 2.0)
        while place.world.store.under_way(GLOBAL_LOG):
            await place.sleep(0.001)
        assert 2.0 < place.world.now() - begun < 2.1
        await place.world.calm(slow)
        await storm

    struck(body)
