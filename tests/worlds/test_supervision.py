"""The supervisor of a process: what dies is started again, later each time, and nothing of the life before stays behind."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from bus.errors import BusError
from bus.simulated import SimulatedNetwork
from core.messages.logs import AskHead, HeadAnswer
from core.messages.queue import Submitted, SubmitWorkload
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import SECOND, seconds
from core.nouns.limits import RESTART_DELAY_MAX, RESTART_DELAY_MIN
from runtime.errors import BrokenInvariant
from runtime.process import Ground, run_unit
from runtime.virtual_loop import VirtualLoop, run_virtual
from runtime.wiring import OpenUnit, Unit
from scenarios.schema.fleet import plan_of
from store.errors import LogBroken, LogInUse
from store.memory import MemoryStore
from store.memory_disk import MemoryDisk
from tests.worlds.plane import SMALL, work

PLAN = plan_of(SMALL, "fleet")
QUEUE = Unit("job_queue")
ASK = seconds(1)


class Grounds:
    """A network, a disk, and the lives of one queue on them."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.network = SimulatedNetwork(Random(7), loop, PLAN.fleet)
        self.disk = MemoryDisk()
        self.store = MemoryStore(self.disk)
        self.user = self.network.endpoint("user")
        self.births: list[float] = []

    def run(
        self, opened: Callable[[OpenUnit], None] | None = None, *, is_supervised: bool = False
    ) -> asyncio.Task[None]:
        """Begin."""

        def born(life: OpenUnit) -> None:
            self.births.append(self.loop.time())
            if opened is not None:
                opened(life)

        ground = Ground(self.network.endpoint, self.store)
        return self.loop.create_task(run_unit(PLAN, QUEUE, ground, born, is_supervised=is_supervised))

    async def cancel(self, task: asyncio.Task[None]) -> None:
        """End it, and see that its log is free and that nobody answers for it."""
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await (await self.store.open(GLOBAL_LOG, "another")).close()
        with pytest.raises(BusError):
            await self.user.ask(AskHead(GLOBAL_LOG), ASK)


def in_virtual_time(body: Callable[[Grounds], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test in virtual time, which costs no time to wait in."""

    async def run() -> None:
        await body(Grounds())

    def test() -> None:
        run_virtual(run())

    test.__doc__ = body.__doc__
    return test


@in_virtual_time
async def test_keeper_that_dies_at_once_is_started_ever_later(grounds: Grounds) -> None:
    """From a tenth of a second to ten, and never more; each time the log was closed, or it could not be opened."""

    def die(life: OpenUnit) -> None:
        raise BrokenInvariant("queue", "it dies")

    task = grounds.run(die)
    await asyncio.sleep(60)
    await grounds.cancel(task)
    waits = [after - before for before, after in zip(grounds.births, grounds.births[1:], strict=False)]
    wanted = [min(RESTART_DELAY_MIN * 2**number, RESTART_DELAY_MAX) / SECOND for number in range(len(waits))]
    assert len(waits) > 8
    assert wanted == pytest.approx(waits, abs=0.01)


@in_virtual_time
async def test_death_is_the_supervisors_where_there_is_one(grounds: Grounds) -> None:
    """It tells of it and starts the process again, so nobody dies again and again unseen."""

    def die(life: OpenUnit) -> None:
        raise BrokenInvariant("queue", "it dies")

    with pytest.raises(BrokenInvariant, match="it dies"):
        await grounds.run(die, is_supervised=True)
    assert 1 == len(grounds.births)
    await (await grounds.store.open(GLOBAL_LOG, "another")).close()


@in_virtual_time
async def test_keeper_that_lived_long_is_started_soon(grounds: Grounds) -> None:
    """The delay is for a keeper that dies again and again."""

    def die_later(life: OpenUnit) -> None:
        tasks = life.tasks

        async def fall() -> None:
            await asyncio.sleep(RESTART_DELAY_MAX / SECOND + 1)
            raise AssertionError("it dies")

        life.tasks = lambda: [*tasks(), ("fall", fall())]  # type: ignore[method-assign]

    task = grounds.run(die_later)
    await asyncio.sleep(40)
    await grounds.cancel(task)
    span = (RESTART_DELAY_MAX + RESTART_DELAY_MIN) / SECOND + 1
    assert [span * number for number in range(4)] == pytest.approx(grounds.births, abs=0.05)


@in_virtual_time
async def test_order_to_end_is_heard_in_the_moment_of_a_death(grounds: Grounds) -> None:
    """Whoever is told to end while it dies ends, and is not started again."""

    def die_while_told(life: OpenUnit) -> None:
        tasks = life.tasks

        async def fall() -> None:
            task.cancel()
            raise AssertionError("it dies")

        life.tasks = lambda: [*tasks(), ("fall", fall())]  # type: ignore[method-assign]

    task = grounds.run(die_while_told)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [0.0] == grounds.births


@in_virtual_time
async def test_next_life_knows_the_promises_of_the_one_before(grounds: Grounds) -> None:
    """A full disk kills the keeper; meanwhile it refuses, and when there is space it goes on from its log."""
    task = grounds.run()
    first = await _submit(grounds, "one")
    grounds.disk.is_full = True
    assert not isinstance(await _ask(grounds, "two"), Submitted)
    assert not isinstance(await _ask(grounds, "two"), Submitted)
    grounds.disk.is_full = False
    assert first == await _submit(grounds, "one")
    assert first != await _submit(grounds, "two")
    head = await grounds.user.ask(AskHead(GLOBAL_LOG), ASK)
    assert isinstance(head, HeadAnswer)
    assert 2 == head.term == len(grounds.births)
    await grounds.cancel(task)


@in_virtual_time
async def test_problem_that_needs_a_person_is_raised(grounds: Grounds) -> None:
    """A log that another process has or that is broken: another start would not help. At the first start, or later."""
    held = await grounds.store.open(GLOBAL_LOG, "id")
    with pytest.raises(LogInUse):
        await grounds.run()
    await held.close()

    def break_log(life: OpenUnit) -> None:
        if len(grounds.births) == 2:
            raise LogBroken(GLOBAL_LOG, 1, "it is broken")
        raise BrokenInvariant("queue", "it dies")

    with pytest.raises(LogBroken):
        await grounds.run(break_log)
    assert 2 == len(grounds.births)
    await (await grounds.store.open(GLOBAL_LOG, "another")).close()


async def _ask(grounds: Grounds, name: str) -> object:
    try:
        return await grounds.user.ask(SubmitWorkload(work(name), "user", key=name), ASK)
    except BusError as error:
        return error


async def _submit(grounds: Grounds, name: str) -> WorkloadId:
    """Until it is accepted, as any client asks."""
    for _ in range(100):
        answer = await _ask(grounds, name)
        if isinstance(answer, Submitted):
            return answer.workload
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} is never accepted")
