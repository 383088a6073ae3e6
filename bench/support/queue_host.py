"""A real component in its real host, for benchmarks to ask: the job queue over a log in SQLite."""

import asyncio
import tempfile
from pathlib import Path

from bus.port import Bus
from core.nouns.ids import RegionName
from runtime.clock import Clock, wall_now
from runtime.wiring import Plan, RegionPlan, Surroundings, Unit, open_unit
from store.sqlite import SqliteStore

LIVES: list[asyncio.Task[None]] = []
"""What the loop itself would only hold weakly."""


async def host_answers(bus: Bus) -> None:
    """Let a job queue answer: `ShowWorkload` of a workload that it does not have is refused, which needs no fact."""
    loop = asyncio.get_running_loop()
    plan = Plan(bus.name, (RegionPlan(RegionName("r0"), ()),))
    around = Surroundings(
        bus=bus,
        store=SqliteStore(Path(tempfile.mkdtemp(prefix="mizzen-bench-queue-"))),
        now=wall_now,
        clock=lambda start, not_before: Clock(loop, start, not_before),
        new_log_id=lambda: "bench",
    )
    opened = await open_unit(plan, Unit("job_queue"), around)
    assert opened.host is not None
    for name, task in opened.tasks():
        LIVES.append(loop.create_task(task, name=name))
    while not opened.host.is_open:
        await asyncio.sleep(0.001)
