"""How executors end: with their server, with its lives, with their parent, and with the capacity on which they run."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from core.nouns.function import CallOutcome, GpuPart, Holding, WarmLevel
from core.nouns.ids import TenantName
from core.nouns.quantities import Amount
from core.nouns.workload import Serves
from runtime.tasks.processes import start_of_living
from tests.mizzen.processes import HOUSE
from tests.runtime.functions.aids import ANNA, BERT, holding, serving, spec, until_none

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("is_parent_stopped", [False, True])
async def test_all_end_with_a_server_that_is_killed(tmp_path: Path, is_parent_stopped: bool) -> None:
    """The kernel ends parent, executors and what they started, even while the parent can do nothing."""
    owner = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.runtime.functions.owner",
        str(tmp_path),
        stdout=asyncio.subprocess.PIPE,
        cwd=HOUSE,
    )
    try:
        assert owner.stdout is not None
        pids = [int(word) for word in (await owner.stdout.readline()).split()]
        assert 8 == len(pids)
        assert all(start_of_living(pid) for pid in pids)
        if is_parent_stopped:
            os.kill(pids[0], signal.SIGSTOP)
    finally:
        owner.kill()
        await owner.wait()
    await until_none(set(pids))


async def test_parent_starts_with_the_first_executor(tmp_path: Path) -> None:
    """A server without executors has no process."""
    async with serving(tmp_path) as server:
        assert 0 == server.doer._parent.pid
        assert 1 == len(server.books())
        await server.ready(1, spec())
        assert server.doer._parent.pid


async def test_parent_that_dies_is_started_again(tmp_path: Path) -> None:
    """Its executors end with it and are told as gone; their calls are no failures. The next executor has a new parent."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:sleep"))
        await server.ready(2, spec())
        server.give(1, (1, 600.0), (2, 0.0))
        old = {server.doer._parent.pid, *(use.pid for use in server.book.uses)}
        os.kill(server.doer._parent.pid, signal.SIGKILL)
        problem = "the process that forks executors died"
        assert [problem] * 2 == [await server.until_gone(number) for number in (1, 2)]
        assert [CallOutcome.LOST, CallOutcome.REFUSED] == [
            server.answers()[ticket].outcome for ticket in (1, 2)
        ]
        assert () == server.book.uses
        await until_none(old)
        await server.ready(3, spec())
        assert server.doer._parent.pid not in {0, *old}


async def test_executor_that_is_ended_tells_of_no_call(tmp_path: Path) -> None:
    """The component has answered the calls: it is told that the executor is gone, without a problem, once the process is."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:sleep"))
        server.give(1, (1, 600.0))
        (use,) = server.book.uses
        server.end(1)
        assert "" == await server.until_gone(1)
        assert not start_of_living(use.pid)
        assert {} == server.answers()
        assert () == server.book.uses


async def test_executor_that_is_killed_from_outside_failed_its_call(tmp_path: Path) -> None:
    """As when the machine is out of memory: the executor died of the call, as far as anyone can tell."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:sleep"))
        server.give(1, (1, 600.0))
        os.kill(server.book.uses[0].pid, signal.SIGKILL)
        assert "its executor died of it: signal 9 (SIGKILL)" == await server.failure(1)
        assert await server.until_gone(1)


@pytest.mark.parametrize("target", ["plain:spawn", "plain:spawn_apart", "plain:spawn_behind"])
@pytest.mark.parametrize("is_parent_killed", [False, True])
async def test_programs_of_an_executor_end_with_it(
    tmp_path: Path, target: str, is_parent_killed: bool
) -> None:
    """In its group, in a session of their own, or left by the process that started them: they are gone before the executor is."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec(target))
        server.give(1, (1, 600))
        program = await server.value(1)
        assert start_of_living(program)
        if is_parent_killed:
            os.kill(server.doer._parent.pid, signal.SIGKILL)
        else:
            server.end(1)
        await server.until_gone(1)
        assert not start_of_living(program)
        assert () == server.book.uses


async def test_programs_of_an_executor_outlive_another_one(tmp_path: Path) -> None:
    """Also one in the background, which is the parent's child by then; once it has ended by itself, no zombie is left."""
    async with serving(tmp_path) as server:
        for number in (1, 2):
            await server.ready(number, spec("plain:spawn_behind"))
        server.give(1, (1, 600))
        server.give(2, (2, 600), (3, 0))
        programs = [await server.value(ticket) for ticket in (1, 2, 3)]
        server.end(1)
        await server.until_gone(1)
        assert [False, True] == [bool(start_of_living(program)) for program in programs[:2]]
        async with asyncio.timeout(5):
            while Path(f"/proc/{programs[2]}").exists():
                await asyncio.sleep(0.02)


async def test_next_life_of_a_server_begins_without_executors(tmp_path: Path) -> None:
    """Executors of the life before end and are never heard of, though numbers begin anew; their place is free once they are gone."""
    async with serving(tmp_path, holding(cores=1)) as server:
        await server.ready(1, spec("plain:sleep"))
        server.give(1, (1, 600.0))
        (old,) = (use.pid for use in server.book.uses)
        server.doer.detach()
        server.begin()
        await server.ready(1, spec("plain:sleep"))
        assert not start_of_living(old)
        server.give(1, (1, 0.0))
        assert 0.0 == await server.value(1)
        assert None is server.gone(1)
        assert Amount(cpu_milli=1000) == server.book.most


async def test_executor_waits_for_the_place_of_one_that_ends(tmp_path: Path) -> None:
    """The component ends one and starts another in one breath: both never run together. One that waits can be ended."""
    async with serving(tmp_path, holding(cores=1)) as server:
        await server.ready(1, spec("plain:sleep"))
        server.give(1, (1, 600.0))  # Without a call it would have left its core to others already.
        server.end(1)
        server.start(2, spec())
        server.start(3, spec())
        await server.until(lambda: WarmLevel.HOST in server.levels(2))
        gone = next(place for place, one in enumerate(server.heard) if getattr(one, "is_gone", False))
        assert all(getattr(one, "executor", 1) == 1 for one in server.heard[:gone])
        assert Amount(cpu_milli=1000) == server.book.most
        server.end(3)
        assert "" == await server.until_gone(3)


async def test_executor_waits_for_cores_that_a_call_leaves(tmp_path: Path) -> None:
    """An executor without a call has none: when the last call of one ends, the next executor begins, and the first stays."""
    async with serving(tmp_path, holding(cores=1)) as server:
        await server.ready(1, spec("plain:sleep"))
        server.give(1, (1, 0.2))
        server.start(2, spec())
        await server.until(lambda: WarmLevel.HOST in server.levels(2))
        assert 1 in server.answers()
        assert 2 == len(server.book.uses)


async def test_executors_on_gpus_of_a_holding_that_ends(tmp_path: Path) -> None:
    """The component hears first; executors on these GPUs that it does not end are killed, and their calls run elsewhere."""
    first, second = (_gpu(share, index) for share, index in (("s1", 0), ("s2", 1)))
    function = spec("plain:sleep", need=Amount(1000, 1000))
    async with serving(tmp_path, first, second) as server:
        await server.ready(1, function)
        await server.ready(2, function)
        server.give(1, (1, 600.0), (2, 0.0))
        server.book.write(_gpu("s1", 0, is_ending=True), second)
        assert Amount(1000, 4000) == server.books()[-1].places[0].size
        assert "" == await server.until_gone(1)
        assert [CallOutcome.LOST, CallOutcome.REFUSED] == [
            server.answers()[ticket].outcome for ticket in (1, 2)
        ]
        assert None is server.gone(2)
        assert [(GpuPart(1, 1000),)] == [use.gpus for use in server.book.uses]


async def test_executors_beyond_a_smaller_size(tmp_path: Path) -> None:
    """The newest of those that use the common part are killed, not those on their tenant's own."""
    own = holding("own", BERT, serves=Serves.OWN, cores=1)
    async with serving(tmp_path, holding("common", cores=2), own) as server:
        await server.ready(1, spec("plain:sleep"))
        await server.ready(2, spec("plain:sleep"))
        await server.ready(3, spec("plain:sleep", tenant=BERT))
        for number in (1, 2, 3):
            server.give(number, (number, 600.0))
        server.book.write(holding("common", cores=1), own)
        assert "" == await server.until_gone(2)
        assert {ANNA, BERT} == {use.tenant for use in server.book.uses}


async def test_executor_that_is_taken_back_while_it_starts_is_no_failure(tmp_path: Path) -> None:
    """A start that failed by no fault of its function has no problem: the component tries again."""
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(600)\n")
    async with serving(tmp_path) as server:
        server.start(1, spec("slow:f", directory=tmp_path))
        await server.until_noted()
        server.book.write(holding(cores=0))
        assert "" == await server.until_gone(1)


async def test_closed_doer_leaves_no_process_and_no_note(tmp_path: Path) -> None:
    """Also with executors that start, that run, and that wait."""
    async with serving(tmp_path, holding(cores=2)) as server:
        await server.ready(1, spec("plain:spin"))
        server.give(1, (1, 600.0))
        server.start(2, spec())
        server.start(3, spec())
        book, pids = server.book, server.pids
        server.doer.close()
        assert () == book.uses
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def _gpu(share: str, index: int, tenant: TenantName = ANNA, **others: Any) -> Holding:
    return holding(share, tenant, gpus=(GpuPart(index, 1000),), amount=Amount(1000, 4000), **others)
