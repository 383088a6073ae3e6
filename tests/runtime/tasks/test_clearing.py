"""A worker's tasks have their node back from executors of functions: real processes on both sides."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.effects import PrepareShare, StopShare
from core.messages.harvest import NodeSize
from core.messages.workers import PrepareTasks, TasksPhase
from core.nouns.function import GpuPart, Place
from core.nouns.ids import TenantName
from core.nouns.instant import seconds
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import JobSpec, Program
from runtime.tasks.book import EXECUTOR_MARK, BookFiles, ExecutorUse, Harvested, HarvestNode, TaskNode
from runtime.tasks.processes import kill, start_of_living
from runtime.tasks.slots import Device
from runtime.tasks.tasks_first import TaskBook
from tests.runtime.tasks.aids import JOB, Nodes, command_of, nodes

pytestmark = pytest.mark.processes

FORKS_AND_STARTS = """
import os, subprocess, time
if os.fork():
    subprocess.Popen(["sleep", "600"], start_new_session=True)
time.sleep(600)
"""
STARTED = 3
"""Processes that belong to each of them: itself, the fork, and a program in a session of its own."""
SLOTS = 4
GRACE_SECONDS = 0.6
ML = TenantName("ml")
HARVESTED = Place(0, is_harvested=True)
GPUS = tuple(Device(f"GPU-{number}", "NVIDIA H100") for number in range(SLOTS))


def lend(made: Nodes, *, is_cpu: bool) -> BookFiles:
    """All of the node is harvested."""
    book = BookFiles(made.spool.layout.book)
    total = Amount(SLOTS * MILLI, SLOTS * MILLI, 8 << 30)
    book.keep_harvested(
        Harvested(1, (HarvestNode(NodeSize(0, total, total, seconds(GRACE_SECONDS), is_cpu)),))
    )
    return book


def wanting(tasks: int, *, is_cpu: bool = False) -> PrepareTasks:
    """A command to prepare so many tasks of a slot each."""
    gpu_type = "cpu" if is_cpu else "H100"
    job = JobSpec("job-0", tasks, Amount(MILLI), gpu_type, program=Program("sleep 600"))
    return command_of((job,), tasks, 1)


@asynccontextmanager
async def executors(book: BookFiles, count: int, *, is_cpu: bool) -> AsyncIterator[list[int]]:
    """Processes that use a slot each, as a function server notes them that stands still from then on. Each has started others."""
    marks = [f"{book.directory}/code/{serial}" for serial in range(count)]
    code = FORKS_AND_STARTS
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", code, env={**os.environ, EXECUTOR_MARK: mark}, start_new_session=True
        )
        for mark in marks
    ]
    uses = [
        ExecutorUse(
            one.pid,
            os.getpid(),
            ML,
            () if is_cpu else (GpuPart(number, MILLI),),
            (),
            Amount(0, MILLI, 1 << 20) if is_cpu else Amount(MILLI, MILLI, 1 << 20),
            HARVESTED,
            marks[number],
        )
        for number, one in enumerate(processes)
    ]
    book.use(uses)
    noted = book.uses()
    try:
        for used in noted:
            async with asyncio.timeout(10):
                while len(used.started()) < STARTED:
                    await asyncio.sleep(0.01)
        yield [one.pid for one in processes]
    finally:
        started = [pid for used in noted for pid in used.started()]
        for pid in (*started, *(one.pid for one in processes)):
            kill(pid)
        for one in processes:
            await one.wait()


def living(pids: list[int]) -> list[int]:
    """Which of the executors live."""
    return [one for one in pids if start_of_living(one)]


@pytest.mark.parametrize("is_cpu", [True, False])
async def test_worker_kills_who_does_not_leave_in_time(spool_path: Path, is_cpu: bool) -> None:
    """H-10: with the function server and the plane dead: as many as are in the way, the newest first, and what they have started."""
    async with nodes(spool_path, devices=GPUS if not is_cpu else None) as made:
        book = lend(made, is_cpu=is_cpu)
        async with executors(book, SLOTS, is_cpu=is_cpu) as pids:
            begun, uses = time.monotonic(), book.uses()
            command = wanting(2, is_cpu=is_cpu)
            made.begin(PrepareShare(command))
            await asyncio.sleep(GRACE_SECONDS / 2)
            assert ([], SLOTS) == (made.phases(), len(living(pids)))
            await made.until(TasksPhase.PREPARED)
            assert GRACE_SECONDS <= time.monotonic() - begun < GRACE_SECONDS + 5
            assert pids[:2] == living(pids)
            assert [STARTED, STARTED, 0, 0] == [len(one.started()) for one in uses]
            assert [False, False, True, True] == [book.was_killed(one.use.pid, 0) for one in uses]
            taken = book.taken_by(f"{JOB}.1")
            assert taken is not None
            assert 0 == taken.clears_by
            if not is_cpu:
                assert ((2, MILLI), (3, MILLI)) == taken.nodes[0].slots, "devices that no executor has"
            await made.stop()
            assert None is book.taken_by(f"{JOB}.1")


async def test_tasks_that_fit_beside_executors_wait_for_none(spool_path: Path) -> None:
    """They get the slots that are left."""
    async with nodes(spool_path, devices=GPUS) as made:
        book = lend(made, is_cpu=False)
        async with executors(book, 2, is_cpu=False) as pids:
            command = wanting(2)
            await made.prepare(command)
            assert pids == living(pids)
            taken = book.taken_by(f"{JOB}.1")
            assert taken is not None
            assert ((2, MILLI), (3, MILLI)) == taken.nodes[0].slots
            await made.stop()


async def test_share_is_prepared_when_executors_have_left(spool_path: Path) -> None:
    """As soon as the function server has written so."""
    async with nodes(spool_path, devices=GPUS) as made:
        book = lend(made, is_cpu=False)
        async with executors(book, SLOTS, is_cpu=False):
            made.begin(PrepareShare(wanting(4)))
            await asyncio.sleep(0.1)
            begun = time.monotonic()
            book.use(())
            await made.until(TasksPhase.PREPARED)
            assert time.monotonic() - begun < GRACE_SECONDS / 2
            await made.stop()


async def test_time_of_a_share_outlasts_its_worker(spool_path: Path) -> None:
    """A worker that starts again is asked again, and gives executors no new grace."""
    command = wanting(4)
    async with nodes(spool_path, devices=GPUS) as made:
        book = lend(made, is_cpu=False)
        async with executors(book, SLOTS, is_cpu=False):
            made.begin(PrepareShare(command))
            await made.until_true(lambda: book.taken_by(f"{JOB}.1") is not None)
            before = book.taken_by(f"{JOB}.1")
    async with nodes(spool_path, devices=GPUS) as made:
        made.begin(PrepareShare(command))
        after = book.taken_by(f"{JOB}.1")
        assert before is not None
        assert after is not None
        assert after.clears_by in (0, before.clears_by)
        await made.until(TasksPhase.PREPARED)
        await made.stop()


async def test_what_a_dead_executor_has_started_is_in_the_way(spool_path: Path) -> None:
    """The executor is dead, and so is the process that ends what executors leave."""
    async with nodes(spool_path, devices=GPUS) as made:
        book = lend(made, is_cpu=False)
        async with executors(book, SLOTS, is_cpu=False) as pids:
            gone = await asyncio.create_subprocess_exec("true")
            await gone.wait()
            book.use(replace(one.use, parent=gone.pid) for one in book.uses())
            uses = book.uses()
            for pid in pids:
                kill(pid)
            while living(pids):
                await asyncio.sleep(0.01)
            assert [STARTED - 1] * SLOTS == [len(one.started()) for one in uses]
            begun = time.monotonic()
            made.begin(PrepareShare(wanting(4)))
            await made.until(TasksPhase.PREPARED)
            assert time.monotonic() - begun >= GRACE_SECONDS
            assert [0] * SLOTS == [len(one.started()) for one in uses]
            await made.stop()


async def test_slots_are_chosen_again_if_an_executor_came_meanwhile(
    spool_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function server has noted an executor, and read a book in which the share had no slots yet."""
    async with nodes(spool_path, devices=GPUS) as made:
        book = lend(made, is_cpu=False)
        async with executors(book, 1, is_cpu=False):
            (used,) = book.uses()
            book.use(())
            allot = TaskBook.allot
            came: list[tuple[tuple[int, int], ...]] = []

            def late(side: TaskBook, share: str, parts: tuple[TaskNode, ...]) -> list[ExecutorUse]:
                if not came:
                    came.append(parts[0].slots)
                    book.use((used.use,))
                return allot(side, share, parts)

            monkeypatch.setattr(TaskBook, "allot", late)
            await made.prepare(wanting(2))
            assert [((0, MILLI), (1, MILLI))] == came
            taken = book.taken_by(f"{JOB}.1")
            assert taken is not None
            assert ((1, MILLI), (2, MILLI)) == taken.nodes[0].slots
            await made.stop()


async def test_share_that_waits_is_stopped_at_once(spool_path: Path) -> None:
    """No call is killed for tasks that nobody wants any more."""
    async with nodes(spool_path, devices=GPUS) as made:
        book = lend(made, is_cpu=False)
        async with executors(book, SLOTS, is_cpu=False) as pids:
            command = wanting(4)
            made.begin(PrepareShare(command))
            await made.until_true(lambda: book.taken_by(f"{JOB}.1") is not None)
            made.begin(StopShare(command.key, command.sequence + 1, seconds(5)))
            await made.until(TasksPhase.ENDED)
            assert None is book.taken_by(f"{JOB}.1")
            await asyncio.sleep(2 * GRACE_SECONDS)
            assert pids == living(pids)
