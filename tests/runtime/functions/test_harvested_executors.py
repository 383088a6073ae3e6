"""Executors on what is harvested of a machine: they are idle, leave in time, and are no failures when a worker has killed them."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from core.nouns.function import CallOutcome, GpuPart, Holding, Place
from core.nouns.instant import Instant, after, seconds
from core.nouns.quantities import NOTHING, Amount
from core.nouns.workload import Serves
from tests.runtime.functions.aids import serving, spec

pytestmark = pytest.mark.processes

HARVESTED = Place(0, is_harvested=True)
NEVER_BY = Instant(0)


def harvest(gpus: int = 2, *, leaves_by: Instant = NEVER_BY) -> Holding:
    """So many GPUs of the machine are harvested."""
    amount = Amount(1_000 * gpus, 4_000, 8 << 30) if gpus else NOTHING
    parts = tuple(GpuPart(index, 1_000) for index in range(gpus))
    return Holding(
        "harvest.0",
        spec("plain:seen").tenant,
        Serves.ALL,
        False,
        parts,
        (),
        amount,
        HARVESTED,
        leaves_by,
        slows=True,
    )


NEED = Amount(1_000, 1_000)


async def test_executor_there_runs_at_idle_priority(tmp_path: Path) -> None:
    """H-10: whoever else wants a CPU has it."""
    async with serving(tmp_path, harvest()) as server:
        await server.ready(1, spec("plain:seen", need=NEED), HARVESTED)
        (use,) = server.book.uses
        assert os.SCHED_IDLE == os.sched_getscheduler(use.pid)
        assert HARVESTED == use.place


async def test_executor_stays_until_its_time(tmp_path: Path) -> None:
    """The component ends it before; if that does not, the doer does."""
    async with serving(tmp_path, harvest()) as server:
        await server.ready(1, spec("plain:sleep", need=NEED), HARVESTED)
        server.give(1, (1, 600.0))
        server.book.write(harvest(0, leaves_by=after(server.doer._clock.now(), seconds(1))))
        await asyncio.sleep(0.5)
        assert None is server.gone(1)
        assert "" == await server.until_gone(1)
        assert CallOutcome.LOST is server.answers()[1].outcome


async def test_executor_that_a_worker_has_killed_is_no_failure(tmp_path: Path) -> None:
    """Its call is lost, and not to blame."""
    async with serving(tmp_path, harvest()) as server:
        await server.ready(1, spec("plain:sleep", need=NEED), HARVESTED)
        server.give(1, (1, 600.0))
        (use,) = server.book.uses
        server.book.killed.append((use.pid, use.number))
        os.kill(use.pid, signal.SIGKILL)
        assert "" == await server.until_gone(1)
        assert CallOutcome.LOST is server.answers()[1].outcome


async def test_executor_does_not_begin_on_what_tasks_want(tmp_path: Path) -> None:
    """Also while those that run there have some time left."""
    async with serving(tmp_path, harvest()) as server:
        server.book.write(harvest(0, leaves_by=after(server.doer._clock.now(), seconds(60))))
        server.start(1, spec("plain:seen", need=NEED), HARVESTED)
        await asyncio.sleep(0.3)
        assert () == server.book.uses
