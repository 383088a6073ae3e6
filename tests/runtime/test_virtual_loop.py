"""The virtual loop: waiting moves the clock, runs repeat, and a wait without end is an error that names who waits."""

import asyncio
import contextvars
import inspect
import os
import subprocess
import sys
from asyncio import base_events
from pathlib import Path
from random import Random

import pytest

from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from runtime import virtual_loop
from runtime.virtual_loop import OWNER, NothingCanWake, NoThreads, SpinsForEver, VirtualLoop, run_virtual

HOUSE = Path(__file__).resolve().parents[2]
START = Instant(1_700_000_000 * SECOND + 1)


def loop_here() -> VirtualLoop:
    """The loop that runs the caller."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def test_wait_moves_the_clock_exactly() -> None:
    """A year passes at once, and not a nanosecond of it is lost, wherever the clock began."""

    async def main() -> None:
        loop = loop_here()
        assert loop.now_ns() == START
        await asyncio.sleep(365 * 86_400)
        assert START + 365 * 86_400 * SECOND == loop.now_ns()
        await loop.sleep_ns(Nanoseconds(1))
        assert START + 365 * 86_400 * SECOND + 1 == loop.now_ns()
        assert 365 * 86_400 == pytest.approx(loop.time())

    run_virtual(main(), START)


def test_wait_until_a_time_between_two_nanoseconds_ends() -> None:
    """However short what is left of it is, to wait for it moves the clock: whoever looks again does not look for ever."""

    async def main() -> float:
        loop = loop_here()
        until = loop.time() + 7200 / 328
        while loop.time() < until:
            before = loop.time()
            await asyncio.sleep(min(10.0, until - before))
            assert loop.time() > before
        return until

    assert 7200 / 328 == run_virtual(main(), START)


def test_callbacks_come_in_order() -> None:
    """By time, and at one instant in the order in which they were set; what is ready goes before what becomes due."""

    async def main() -> list[str]:
        loop = loop_here()
        seen: list[str] = []
        loop.call_later(2, seen.append, "late")
        for number in range(5):
            loop.call_later(1, seen.append, f"timer{number}")
        loop.call_at_ns(Instant(loop.now_ns() - 5), seen.append, "overdue")
        loop.call_soon(seen.append, "soon")
        loop.call_after_ns(seconds(1), seen.append, "timer5")
        await asyncio.sleep(3)
        return seen

    assert ["soon", "overdue", *(f"timer{n}" for n in range(6)), "late"] == run_virtual(main(), START)


def test_cancelled_callback_is_not_called() -> None:
    """Neither a timer nor what is ready, and thousands of cancelled timers are cleared out of the heap."""

    async def main() -> None:
        loop = loop_here()
        seen: list[int] = []
        for number in range(10_000):
            loop.call_later(1000, seen.append, number).cancel()
        kept = loop.call_later(500, seen.append, -1)
        loop.call_soon(seen.append, 1).cancel()
        gone = loop.call_later(1, seen.append, 2)
        gone.cancel()
        gone.cancel()
        assert gone.cancelled()
        assert not kept.cancelled()
        assert 500 == kept.when()
        await asyncio.sleep(400)
        assert len(loop._timers) < 1000
        await asyncio.sleep(1000)
        assert [-1] == seen
        kept.cancel()  # after it was called

    run_virtual(main())


def test_asyncio_works_in_it() -> None:
    """Tasks, groups, timeouts, events, queues, context variables and async generators are those of asyncio."""

    async def main() -> str:
        loop = loop_here()
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="outer")

        async def produce() -> None:
            name.set("inner")
            for number in range(3):
                await queue.put(number)
                await asyncio.sleep(10)

        async with asyncio.TaskGroup() as group:
            group.create_task(produce(), name="producer")
            assert [0, 1, 2] == [await queue.get() for _ in range(3)]
        assert 30 == loop.time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.create_future(), 5)
        assert 40 == loop.time()
        return name.get()

    assert "outer" == run_virtual(main())


def test_wait_without_end_is_an_error_that_names_the_waiting_tasks() -> None:
    """Virtual deadlock: no timer, no callback, and a task waits. Every task that is left is then cancelled."""
    ended: list[str] = []

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waiter")

    async def main() -> None:
        await asyncio.get_running_loop().create_task(wait_for_ever(), name="the-waiter")

    with pytest.raises(NothingCanWake) as stuck:
        run_virtual(main(), START)
    task, waiter = str(stuck.value).splitlines()[1:]
    assert task.startswith("  task-1 in ")
    assert waiter.startswith("  the-waiter in ")
    assert "Event.wait:" in waiter
    assert ["waiter"] == ended


def test_poll_without_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever polls with `sleep(0)` keeps time from passing, so what it polls for can never come."""
    monkeypatch.setattr(virtual_loop, "SPINS_MAX", 1000)

    async def main() -> None:
        while loop_here().time() < 1:
            await asyncio.sleep(0)

    with pytest.raises(SpinsForEver, match="task-1"):
        run_virtual(main())


def test_threads_are_refused() -> None:
    """An hour of virtual time passes while a thread does a moment's work, so there are none."""

    async def main() -> None:
        await asyncio.to_thread(sum, [1])

    with pytest.raises(NoThreads):
        run_virtual(main())


def test_callback_that_raises_ends_the_run() -> None:
    """In a simulation nothing fails silently; with an exception handler set it is as in asyncio."""

    def fail() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        loop_here().call_later(1, fail)
        await asyncio.sleep(2)

    async def handled() -> int:
        seen: list[str] = []
        loop_here().set_exception_handler(lambda _, context: seen.append(context["message"]))
        loop_here().call_later(1, fail)
        await asyncio.sleep(2)
        return len(seen)

    with pytest.raises(ZeroDivisionError):
        run_virtual(main())
    assert 1 == run_virtual(handled())


def test_tasks_left_behind_are_cancelled_in_order() -> None:
    """In the order of creation, and async generators are closed."""
    ended: list[str] = []

    async def wait(name: str) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append(name)

    async def main() -> None:
        tasks = [asyncio.get_running_loop().create_task(wait(f"w{number}")) for number in range(50)]
        await asyncio.sleep(1)
        assert not any(task.done() for task in tasks)

    run_virtual(main())
    assert [f"w{number}" for number in range(50)] == ended


def chaos(seed: int) -> list[tuple[int, int]]:
    """Tasks that sleep, fail and cancel each other as dice say: when each did what."""
    dice = Random(seed)
    seen: list[tuple[int, int]] = []

    async def one(number: int) -> None:
        try:
            for _ in range(dice.randrange(20)):
                await asyncio.sleep(dice.random())
                seen.append((number, loop_here().now_ns()))
            if number % 10 == 0:
                raise ZeroDivisionError
        except asyncio.CancelledError:
            seen.append((-number, loop_here().now_ns()))
            raise

    async def main() -> None:
        for _ in range(20):
            try:
                async with asyncio.TaskGroup() as group:
                    for number in range(1, 60):
                        group.create_task(one(number))
            except* ZeroDivisionError:
                pass

    run_virtual(main())
    return seen


def test_same_seed_gives_the_same_run() -> None:
    """Also where a TaskGroup cancels the set of its tasks, and under another PYTHONHASHSEED."""
    assert chaos(3) == chaos(3)
    assert chaos(3) != chaos(4)
    program = (
        "import sys, zlib; junk = [object() for _ in range(int(sys.argv[1]))]; "
        "from tests.runtime.test_virtual_loop import chaos; print(zlib.crc32(repr(chaos(3)).encode()))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program, str(seed * 1000)],
            cwd=HOUSE,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in (1, 2)
    }
    assert 1 == len(found)


def owned(owner: str) -> contextvars.Context:
    """A context whose callbacks and tasks are this owner's."""
    context = contextvars.copy_context()
    context.run(OWNER.set, owner)
    return context


def test_frozen_owner_stands_still_while_time_goes_on() -> None:
    """Tasks, timers and what is called soon wait, and run in their order once it is thawed; others go on."""

    async def main() -> list[tuple[str, float]]:
        loop = loop_here()
        seen: list[tuple[str, float]] = []

        async def tick(name: str) -> None:
            for _ in range(3):
                await asyncio.sleep(1)
                seen.append((name, loop.time()))

        tasks = [loop.create_task(tick(name), context=owned(name)) for name in ("mine", "other")]
        await asyncio.sleep(1.5)
        loop.freeze("mine")
        loop.freeze("mine")  # No harm.
        loop.call_at_ns(
            Instant(loop.now_ns() + SECOND // 4), seen.append, ("timer", 1.75), context=owned("mine")
        )
        await asyncio.sleep(8.5)
        assert [("mine", 1.0), ("other", 1.0), ("other", 2.0), ("other", 3.0)] == seen
        loop.thaw("mine")
        loop.thaw("nobody")
        await asyncio.gather(*tasks)
        return seen[4:]

    assert [("timer", 1.75), ("mine", 10.0), ("mine", 11.0)] == run_virtual(main())


def test_task_that_is_cancelled_while_it_is_frozen_ends_when_it_is_thawed() -> None:
    """As a process that is killed while it is stopped: nothing more of what it was about to do is done."""

    async def main() -> list[str]:
        loop = loop_here()
        seen: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(1)
                seen.append("worked")
            finally:
                seen.append("ended")

        task = loop.create_task(work(), context=owned("mine"))
        await asyncio.sleep(0.5)
        loop.freeze("mine")
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.sleep(5)
        assert [] == seen
        loop.thaw("mine")
        await asyncio.wait([task])
        assert task.cancelled()
        return seen

    assert ["ended"] == run_virtual(main())


def test_call_comes_after_so_many_of_somebodys() -> None:
    """Right after the last of them and before anything else, in the middle of whatever a task does; others' do not count."""

    async def main() -> list[str]:
        loop = loop_here()
        seen: list[str] = []

        async def work(name: str) -> None:
            for step in range(3):
                seen.append(f"{name} {step}")
                await asyncio.sleep(0)

        loop.call_after_calls("mine", 2, seen.append, "now")
        loop.call_after_calls("mine", 9, seen.append, "never")
        loop.call_after_calls("mine", 1, seen.append, "cancelled").cancel()
        tasks = [loop.create_task(work(name), context=owned(name)) for name in ("mine", "other")]
        await asyncio.wait(tasks)
        return seen

    assert ["mine 0", "other 0", "mine 1", "now", "other 1", "mine 2", "other 2"] == run_virtual(main())


def test_no_countdown_is_left_once_all_have_been_called() -> None:
    """So that counting costs nothing where there is no countdown."""

    async def main() -> None:
        loop = loop_here()
        for count in (1, 2):
            loop.call_after_calls("mine", count, lambda: None)
        loop.call_after_calls("other", 1, lambda: None).cancel()
        assert ["mine"] == list(loop._countdowns)
        for _ in range(2):
            loop.call_soon(lambda: None, context=owned("mine"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert {} == loop._countdowns

    run_virtual(main())


def test_loop_without_an_owner_cannot_be_frozen() -> None:
    """Callbacks that belong to no owner are the loop's own, and cannot stand still."""
    loop = VirtualLoop()
    with pytest.raises(AssertionError):
        loop.freeze("")
    loop.close()


def test_private_names_of_the_base_loop_mean_the_same() -> None:
    """Each private name that the loop takes from BaseEventLoop is still used there in the same way."""
    base = base_events.BaseEventLoop
    assert "self._run_once()\n" in inspect.getsource(base.run_forever)
    assert "if self._stopping:\n" in inspect.getsource(base.run_forever)
    assert "self._stopping = True" in inspect.getsource(base.stop)
    assert "self._ready.clear()" in inspect.getsource(base.close)
    loop = VirtualLoop()
    assert loop._stopping is False
    assert 0 == len(loop._ready)
    loop.close()
