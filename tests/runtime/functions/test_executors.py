"""Executors at work: levels, code, devices, and calls one after the other."""

import os
import time
from pathlib import Path

import pytest

from core.effects import ForgetCode, GiveCalls, KeepCode
from core.messages.base import Message
from core.messages.executors import CallsEnded, CodeKept
from core.nouns.function import CallOutcome, GpuPart, WarmLevel
from core.nouns.function_limits import CALL_BATCH_BYTES
from core.nouns.quantities import Amount
from core.nouns.workload import Serves
from runtime.functions.packing import pack_arguments
from runtime.tasks.machine import NICENESS
from tests.runtime.functions.aids import ANNA, BERT, PATIENCE_SECONDS, Server, holding, serving, spec
from tests.runtime.functions.called import plain

pytestmark = pytest.mark.processes

CALLS_PER_SECOND_MIN = 5_000
"""A tenth of the rate on a busy machine of two cores."""


async def test_imported_function_answers_its_calls_in_order(tmp_path: Path) -> None:
    """Levels are told one by one; each call has the value of the function, and the level and run time of the executor."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec())
        assert [WarmLevel.PROCESS, WarmLevel.HOST] == server.levels(1)
        server.give(1, *((ticket, ticket) for ticket in range(1, 257)))
        assert 512 == await server.value(256)
        assert list(range(1, 257)) == list(server.answers())
        answer = await server.answer(7)
        assert (0, CallOutcome.DONE, WarmLevel.HOST, "") == (
            answer.number,
            answer.outcome,
            answer.level,
            answer.problem,
        )
        assert 0 < answer.ran < PATIENCE_SECONDS * 1e9


async def test_decorated_function_is_called_itself_after_its_init(tmp_path: Path) -> None:
    """The module has the SDK's object, which an executor never calls; `init` has run once before the first call."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:wrapped"))
        server.give(1, (1, 0), (2, 0))
        assert ["weights"] == await server.value(2)


async def test_pickled_function_is_called_after_its_init(tmp_path: Path) -> None:
    """Code by value: closures, and an `init` that shares a list with its function."""
    read: list[str] = []

    async def init() -> None:
        read.append("ready")

    def function(number: int) -> tuple[list[str], int]:
        return read, number

    async with serving(tmp_path) as server:
        await server.keep(spec(""), function, init)
        await server.ready(1, spec(""))
        server.give(1, (1, 5))
        assert (["ready"], 5) == await server.value(1)
        assert 1 == len(list((tmp_path / "code").iterdir()))


async def test_code_of_two_tenants_with_one_digest_is_kept_apart(tmp_path: Path) -> None:
    """A tenant that names another's digest changes nothing for the other."""
    async with serving(tmp_path) as server:
        await server.keep(spec(""), lambda _: "anna")
        await server.keep(spec("", tenant=BERT), lambda _: "bert")
        await server.ready(1, spec(""))
        server.give(1, (1, 0))
        assert "anna" == await server.value(1)


async def test_asynchronous_function_has_one_loop_in_all_calls(tmp_path: Path) -> None:
    """Connections that a call opens in the loop are there for the next."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:double_later"))
        server.give(1, (1, 4), (2, 5))
        assert (10, 1) == await server.value(2)


async def test_function_with_gpus_sees_them_alone(tmp_path: Path) -> None:
    """Two executors of one GPU each; the one without any sees none. The device level is told last."""
    gpus = (GpuPart(2, 1000), GpuPart(5, 1000))
    held = holding(gpus=gpus, amount=Amount(2000, 4000))
    function = spec("plain:seen", need=Amount(1000, 1000))
    async with serving(tmp_path, held) as server:
        await server.ready(1, function)
        await server.ready(2, function)
        await server.ready(3, spec("plain:seen"))
        assert [WarmLevel.PROCESS, WarmLevel.HOST, WarmLevel.DEVICE] == server.levels(1)
        for number in (1, 2, 3):
            server.give(number, (number, "CUDA_VISIBLE_DEVICES"))
        assert ["2", "5", ""] == [(await server.value(number))[2] for number in (1, 2, 3)]
        assert [(GpuPart(2, 1000),), (GpuPart(5, 1000),), ()] == [use.gpus for use in server.book.uses]


async def test_executor_is_forked_from_a_parent_of_one_thread(tmp_path: Path) -> None:
    """The parent forks safely. Executors are nice, and have only descriptors of their own, however many came before, and the function's directory."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:seen"))
        await server.ready(2, spec("plain:threads_of"))
        parent = server.doer._parent.pid
        server.give(1, (1, "MIZZEN_NATS_URL"))
        server.give(2, (2, parent))
        pid, its_parent, variable, cores, directory = await server.value(1)
        assert min(os.nice(0) + NICENESS, 19) == os.getpriority(os.PRIO_PROCESS, pid)
        assert (server.book.uses[0].pid, parent, None) == (pid, its_parent, variable)
        assert sorted(os.sched_getaffinity(0)) == cores
        assert str(Path(plain.__file__).parent) == directory
        assert 1 == await server.value(2)
        for number in (3, 4):
            await server.ready(number, spec("plain:descriptors"))
            server.give(number, (number, 0))
        assert await server.value(3) == await server.value(4)


async def test_executor_runs_on_the_cores_of_its_tenant(tmp_path: Path) -> None:
    """An executor may use its tenant's own cores and those for all; when holdings change, so do the cores of one that runs."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("one core cannot be told from another")
    common = holding("common", cpu_slots=(0,))
    own = holding("own", BERT, serves=Serves.OWN, cpu_slots=(1,))
    async with serving(tmp_path, common, own) as server:
        await server.ready(1, spec("plain:seen"))
        await server.ready(2, spec("plain:seen", tenant=BERT))
        server.give(1, (1, ""))
        server.give(2, (2, ""))
        assert usable[:1] == (await server.value(1))[3]
        assert usable[:2] == (await server.value(2))[3]
        assert [(0,), (0, 1)] == [use.cpu_slots for use in server.book.uses]
        server.book.write(holding("common", cpu_slots=(1,)))
        await _until_on(server, 1, usable[1:2])


async def test_tenants_have_executors_of_their_own(tmp_path: Path) -> None:
    """Two tenants with the same code run in two processes."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:seen"))
        await server.ready(2, spec("plain:seen", tenant=BERT))
        assert {"anna", "bert"} == {use.tenant for use in server.book.uses}
        assert 2 == len({use.pid for use in server.book.uses})


async def test_large_answers_travel_in_several_messages(tmp_path: Path) -> None:
    """A message to a caller has a bound, which answers that are ready together keep to."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:large"))
        server.give(1, *((ticket, 20_000) for ticket in range(100)), (100, 500_000))
        assert bytes(500_000) == await server.value(100)
        sizes = [
            [len(end.answer.value) for end in one.ends] for one in server.heard if isinstance(one, CallsEnded)
        ]
        assert 101 == sum(map(len, sizes))
        assert all(sum(size) <= CALL_BATCH_BYTES or len(size) == 1 for size in sizes)


async def test_large_arguments_wait_for_the_executor_and_not_for_the_server(tmp_path: Path) -> None:
    """More arguments than a pipe holds are given while the executor is busy; all are run."""
    async with serving(tmp_path) as server:
        await server.keep(spec(""), len)
        await server.ready(1, spec(""))
        begun = time.monotonic()
        server.give(1, *((ticket, bytes(400_000)) for ticket in range(1, 41)))
        assert time.monotonic() - begun < 1
        assert 400_000 == await server.value(40)


async def test_short_calls_are_many_a_second_and_few_messages(tmp_path: Path) -> None:
    """Windows of 256 no-ops: answers that are ready together travel together, and the executor goes on by itself."""
    count, arguments = 20_000, pack_arguments((1,), {})
    async with serving(tmp_path) as server:
        await server.ready(1, spec())
        left = list(range(count))

        def give(most: int) -> None:
            some, left[:] = left[:most], left[most:]
            server.doer.begin(GiveCalls(1, tuple((ticket, arguments) for ticket in some)))

        def hear(message: Message) -> None:
            server.hear(message)
            if isinstance(message, CallsEnded) and left:
                give(len(message.ends))

        server.doer._executors[1].tell = hear
        begun = time.monotonic()
        give(256)
        await server.until(lambda: bool(server.heard) and _last(server) == count - 1)
        assert count / (time.monotonic() - begun) > CALLS_PER_SECOND_MIN
        assert {CallOutcome.DONE} == {answer.outcome for answer in server.answers().values()}
        assert len(server.heard) < count / 16


async def test_answer_is_told_while_the_next_call_runs(tmp_path: Path) -> None:
    """A short call before a long one of the same window is answered at once."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:sleep"))
        server.give(1, (1, 0.0), (2, 600.0))
        assert 0.0 == await server.value(1)
        assert {1} == set(server.answers())


async def test_calls_given_early_wait_for_the_executor(tmp_path: Path) -> None:
    """Calls that come before the executor is ready are its first."""
    async with serving(tmp_path) as server:
        server.start(1, spec())
        server.give(1, (1, 21))
        assert 42 == await server.value(1)


async def test_effects_twice_or_late_change_nothing(tmp_path: Path) -> None:
    """A second start is the same executor; to end or feed one that is not there is answered, or nothing."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec())
        server.start(1, spec())
        server.give(9, (5, 1))
        server.end(9)
        assert not await server.until_gone(9)
        server.give(1, (1, 1))
        assert 2 == await server.value(1)
        assert 1 == len(server.book.uses)
        assert [1] == list(server.answers())


async def test_code_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    """A directory that cannot be written to is one sentence."""
    (tmp_path / "code").write_text("in the way")
    async with serving(tmp_path) as server:
        server.doer.begin(KeepCode(spec("").id, b"code"))
        kept = server.heard[-1]
        assert isinstance(kept, CodeKept)
        assert str(tmp_path / "code") in kept.problem


async def test_code_is_deleted_when_it_is_forgotten(tmp_path: Path) -> None:
    """And at the start of a server, which knows nothing of what others were sent."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "of_the_life_before").touch()
    async with serving(tmp_path) as server:
        assert [] == list((tmp_path / "code").iterdir())
        for tenant in (ANNA, BERT):
            await server.keep(spec("", tenant=tenant), len)
        assert 2 == len(list((tmp_path / "code").iterdir()))
        server.doer.begin(ForgetCode((spec("").id, spec().id)))
        assert 1 == len(list((tmp_path / "code").iterdir()))


async def _until_on(server: Server, number: int, cores: list[int]) -> None:
    """Ask an executor until it runs on these cores."""
    ticket = 100
    while True:
        server.give(number, (ticket, ""))
        if cores == (await server.value(ticket))[3]:
            return
        ticket += 1


def _last(server: Server) -> int:
    last = server.heard[-1]
    return last.ends[-1].ticket if isinstance(last, CallsEnded) else -1
