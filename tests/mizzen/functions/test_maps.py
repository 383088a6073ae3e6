"""Maps on real executors: in order or as calls end, with inputs pulled no further ahead than there is room."""

import asyncio
import itertools
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import mizzen
from core.nouns.function_limits import CALLS_AT_ONCE_MAX
from mizzen.functions.decorator import Function
from mizzen.functions.maps import AHEAD_BYTES_MAX, AHEAD_MAX, Ahead
from mizzen.functions.session import session
from tests.mizzen.functions import called
from tests.mizzen.functions.running import FunctionsPlane

pytestmark = pytest.mark.processes


def on_executors(function: Any, **options: Any) -> Function[..., Any]:
    """The same function, to be called elsewhere."""
    made: Function[..., Any] = mizzen.function(**options)(function)
    return made


class Pulled:
    """Inputs without end, and how many were pulled."""

    def __init__(self) -> None:
        self.count = 0

    def __iter__(self) -> Iterator[int]:
        for number in itertools.count():
            self.count += 1
            yield number


def nothing_is_out() -> bool:
    """Whether the session waits for no call."""
    found = session()
    has_looked = threading.Event()
    assert found._loop is not None
    found._loop.call_soon_threadsafe(has_looked.set)
    assert has_looked.wait(10)
    return found._speaker._out == {} == found._speaker._codes


def test_values_come_in_the_order_of_inputs(plane: FunctionsPlane) -> None:
    """Whichever ends first; of many more than may be out at once."""
    assert [2 * number for number in range(12_000)] == list(on_executors(called.double).map(range(12_000)))
    (router,) = session()._speaker._caller.routers.values()
    assert 0 == router.rests_until, "a map never asks more of a router than the router takes"
    assert [0.2, 0.0, 0.1] == list(on_executors(called.sleep).map([0.2, 0.0, 0.1]))
    assert [] == list(on_executors(called.double).map([]))
    assert nothing_is_out()


def test_values_come_as_calls_end(plane: FunctionsPlane) -> None:
    """Each with the place of its input."""
    one = on_executors(called.sleep, name="as_completed")
    assert [(1, 0.0), (2, 0.1), (0, 0.6)] == list(one.map([0.6, 0.0, 0.1], as_completed=True))


def test_values_are_yielded_while_later_calls_run(plane: FunctionsPlane, tmp_path: Path) -> None:
    """The second call waits for what is done with the value of the first."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    values = on_executors(called.wait_for, name="yielded").map([str(first), str(second)])
    assert str(first) == next(values)
    second.touch()
    assert [str(second)] == list(values)


def test_inputs_are_pulled_as_values_are_taken(plane: FunctionsPlane) -> None:
    """Of inputs without end only so many, however often a value is taken."""
    inputs = Pulled()
    values = on_executors(called.double).map(inputs)
    assert 0 == inputs.count
    assert [0, 2, 4] == list(itertools.islice(values, 3))
    assert inputs.count <= CALLS_AT_ONCE_MAX + AHEAD_MAX
    list(itertools.islice(values, 3000))
    assert inputs.count <= 3003 + AHEAD_MAX
    values.close()  # type: ignore[attr-defined]  # it is a generator
    assert nothing_is_out()


@pytest.mark.parametrize("as_completed", [False, True])
def test_slow_inputs_hold_no_value_back(plane: FunctionsPlane, *, as_completed: bool) -> None:
    """A value that is there is taken before an input for which one has to wait: values do not fall behind more and more."""
    one, pulled, pause = on_executors(called.double, name="slow_inputs"), 0, threading.Event()
    one.call(0)

    def inputs() -> Iterator[int]:
        nonlocal pulled
        for number in range(150):
            pause.wait(0.01)
            pulled += 1
            yield number

    behind = [pulled - taken for taken, _ in enumerate(one.map(inputs(), as_completed=as_completed), 1)]
    assert min(behind[60:75]) < 15, behind


def test_failure_is_raised_in_its_place(plane: FunctionsPlane) -> None:
    """And ends the map: the calls behind it are dropped."""
    values = on_executors(called.no_thirteen).map(range(1000))
    assert list(range(13)) == list(itertools.islice(values, 13))
    with pytest.raises(called.Unlucky):
        next(values)
    assert [] == list(values)
    assert nothing_is_out()


def test_failures_are_values_if_wanted(plane: FunctionsPlane) -> None:
    """Those of arguments that cannot be sent too."""
    inputs = [12, 13, bytes(600_000), threading.Lock(), 14]
    one = on_executors(called.no_thirteen)
    found = list(one.map(inputs, return_exceptions=True))
    assert [12, 14] == [found[0], found[4]]
    assert [called.Unlucky, mizzen.CallTooLarge, TypeError] == [type(error) for error in found[1:4]]
    pairs = dict(one.map(inputs, as_completed=True, return_exceptions=True))
    assert {place: type(value) for place, value in enumerate(found)} == {
        place: type(value) for place, value in pairs.items()
    }


def test_inputs_that_raise_end_the_map(plane: FunctionsPlane) -> None:
    """With what they raised."""

    def inputs() -> Iterator[int]:
        yield 1
        raise OSError("the file is damaged")

    with pytest.raises(OSError, match="damaged"):
        list(on_executors(called.double).map(inputs()))
    assert nothing_is_out()


def test_interrupt_drops_the_calls(plane: FunctionsPlane, tmp_path: Path) -> None:
    """Ctrl-C while the map waits; the next call is served."""
    path = tmp_path / "file"

    def interrupt() -> None:
        while not Path(f"{path}.begun").exists():
            threading.Event().wait(0.005)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        list(on_executors(called.wait_for, name="interrupted").map([str(path)]))
    path.touch()
    assert nothing_is_out()
    assert 4 == on_executors(called.double).call(2)


@pytest.mark.parametrize("role", ["function_router", "function_server"])
def test_unit_that_dies_mid_map_loses_no_value(plane: FunctionsPlane, role: str) -> None:
    """The next life of a router, or of a server, is told again what has no answer."""
    one = on_executors(called.double, name=f"restarted_{role}")
    values = one.map(range(6000))
    found = list(itertools.islice(values, 1000))
    plane.restart(role)
    found += values
    assert [2 * number for number in range(6000)] == found


def test_server_of_messages_that_dies_mid_map_loses_no_value(plane: FunctionsPlane) -> None:
    """The NATS server is killed, and comes back under the same address."""

    async def restart() -> None:
        await plane.server.kill()
        await plane.server.start()

    values = on_executors(called.double, name="nats_died").map(range(6000))
    found = list(itertools.islice(values, 1000))
    plane.call(restart())
    found += values
    assert [2 * number for number in range(6000)] == found


def test_maps_in_two_threads(plane: FunctionsPlane) -> None:
    """Each gets its own values."""
    one = on_executors(called.double)
    found: dict[int, list[int]] = {}

    def run(first: int) -> None:
        found[first] = list(one.map(range(first, first + 3000)))

    threads = [threading.Thread(target=run, args=(first,)) for first in (0, 100_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert {first: [2 * number for number in range(first, first + 3000)] for first in (0, 100_000)} == found


async def test_asynchronous_map(plane: FunctionsPlane) -> None:
    """Of plain and of asynchronous inputs; others of the loop run meanwhile."""

    async def inputs() -> AsyncIterator[int]:
        for number in range(3):
            await asyncio.sleep(0.01)
            yield number

    one = on_executors(called.double)
    assert [2 * number for number in range(5000)] == [value async for value in one.amap(range(5000))]
    assert [0, 2, 4] == [value async for value in one.amap(inputs())]
    pairs = [pair async for pair in one.amap(range(300), as_completed=True)]
    assert [(number, 2 * number) for number in range(300)] == sorted(pairs)
    with pytest.raises(called.Unlucky):
        [value async for value in on_executors(called.no_thirteen).amap(range(20))]
    assert nothing_is_out()


# How far ahead.


def test_map_begins_with_few_calls_and_learns() -> None:
    """It grows by one call for each answer, up to a ceiling."""
    assert Ahead(count=CALLS_AT_ONCE_MAX - 1).has_room()
    assert not Ahead(count=CALLS_AT_ONCE_MAX).has_room()
    assert Ahead(count=CALLS_AT_ONCE_MAX, answered=1).has_room()
    assert not Ahead(count=AHEAD_MAX, answered=1_000_000).has_room()


def test_map_holds_few_bytes() -> None:
    """Of arguments, of values that are there, and of those that are to come, by their mean; one call is always possible."""
    assert not Ahead(count=1, size=AHEAD_BYTES_MAX).has_room()
    assert Ahead(count=0, size=AHEAD_BYTES_MAX).has_room()
    megabyte = 1 << 20
    assert Ahead(count=63, out=63, answered=10, answered_size=10 * megabyte).has_room()
    assert not Ahead(count=64, out=64, answered=10, answered_size=10 * megabyte).has_room()
