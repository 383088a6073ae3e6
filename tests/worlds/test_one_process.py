"""A whole plane in one real process: NATS, SQLite and the system's clock under the components that simulation has tested."""

import asyncio
from pathlib import Path

import pytest

from bus.port import Bus
from core.messages.queue import Acknowledged, CancelWorkload, HoldWorkload, ReleaseWorkload, SubmitWorkload
from core.nouns.ids import WorkloadId
from core.nouns.workload import Phase
from runtime.errors import KeeperExists
from runtime.process import Ground, connected, run_unit
from runtime.wiring import Unit
from scenarios.worlds.one_process import OneProcessWorld
from store.errors import LogInUse
from store.sqlite import SqliteStore
from tests.worlds.plane import (
    PATIENCE_SECONDS,
    assert_all_is_well,
    insist,
    phase_of,
    plane,
    shown,
    submit,
    until_ended,
    until_phase,
    work,
)

pytestmark = pytest.mark.processes

A_DOZEN = [
    work("gang", tasks=2, milliseconds=200),
    work("retried", gpus=4, milliseconds=300, save_every=50, fails_after=200, retries=5),
    work("failing", gpus=2, milliseconds=300, fails_after=50, exit_code=3),
    *[work(f"plain-{number}", tasks=1 + number % 3, gpus=1 << number % 4, milliseconds=50 + 25 * number)
      for number in range(9)],
]  # fmt: skip
ENDS = {spec.name: Phase.FAILED if spec.name == "failing" else Phase.COMPLETED for spec in A_DOZEN}


async def test_every_workload_ends_as_it_should() -> None:
    """Gangs and single tasks, one retried, one that fails, one cancelled while it runs, one held and released."""
    async with plane() as world:
        user = await world.client("client.user")
        # 1. While the endless one has half of the region, the wide one cannot be placed, and so can be held.
        endless = await submit(user, work("endless", tasks=2, milliseconds=600_000, region="r0"))
        await until_phase(world, endless, Phase.RUNNING)
        wide = await submit(user, work("wide", tasks=4, milliseconds=50, region="r0"))
        assert Acknowledged(wide, 1) == await insist(user, HoldWorkload(wide, 0))
        # 2. All others end beside them.
        ids = {spec.name: await submit(user, spec) for spec in A_DOZEN}
        await until_ended(world, list(ids.values()))
        assert ENDS == {name: phase_of(world, workload) for name, workload in ids.items()}
        retried = world.unit("job_queue").state.image.workloads.rows[ids["retried"]]
        assert retried.tasks_failed >= 1
        assert retried.epoch > retried.tasks_failed  # An award that came to nothing has an epoch too.
        # 3. What is cancelled leaves its room to the wide one, which does not take it before it is released.
        assert Acknowledged(endless) == await insist(user, CancelWorkload(endless))
        await until_phase(world, endless, Phase.CANCELLED)
        held = await shown(user, wide)
        assert (Phase.PENDING, True, "held") == (held.phase, held.is_held, held.reason)
        assert Acknowledged(wide, 2) == await insist(user, ReleaseWorkload(wide, held.hold_revision))
        await until_phase(world, wide, Phase.COMPLETED)
        await assert_all_is_well(world)


async def test_every_workload_ends_though_server_queue_and_store_are_killed() -> None:
    """M26: the server by kill -9, the queue and one store in the middle of it all; each is started again."""
    async with plane() as world:
        user = await world.client("client.user")
        ids = {spec.name: await submit(user, spec) for spec in A_DOZEN}
        await world.until(
            lambda: Phase.RUNNING in [phase_of(world, workload) for workload in ids.values()],
            PATIENCE_SECONDS,
            "one runs",
        )
        await world.server.kill()
        await world.server.start()
        await _kill_and_start(world, "job_queue")
        await _kill_and_start(world, "placement_store", "r0")
        ids["late"] = await submit(user, work("late", tasks=2))
        await until_ended(world, list(ids.values()))
        phases = {name: phase_of(world, workload) for name, workload in ids.items()}
        assert {**ENDS, "late": Phase.COMPLETED} == phases
        await assert_all_is_well(world)


async def test_second_keeper_is_refused(tmp_path: Path) -> None:
    """On the same files by the lock, on files of its own by the first one's answer; the first one goes on."""
    async with plane() as world:
        for unit in (Unit("job_queue"), world.unit("placement_store", "r1").unit):
            connection = await connected(world.url, world.plan.fleet, "second")
            try:
                with pytest.raises(LogInUse, match="another process keeps it"):
                    await run_unit(
                        world.plan, unit, Ground(connection.endpoint, SqliteStore(world.directory))
                    )
                with pytest.raises(KeeperExists, match="stop that keeper first"):
                    await run_unit(world.plan, unit, Ground(connection.endpoint, SqliteStore(tmp_path)))
            finally:
                await connection.close()
        user = await world.client("client.user")
        workload = await submit(user, work("after"))
        await until_phase(world, workload, Phase.COMPLETED)
        await assert_all_is_well(world)


async def test_same_key_is_answered_by_the_same_id() -> None:
    """Also at one and the same time, and after the queue was killed and started again."""
    async with plane() as world:
        user = await world.client("client.user")
        once, twice = await asyncio.gather(submit(user, work("one")), submit(user, work("one")))
        await _kill_and_start(world, "job_queue")
        assert [once, once, once] == [once, twice, await submit(user, work("one"))]
        assert once != await _submit_as(user, "somebody-else")
        await world.until(lambda: phase_of(world, once) == Phase.COMPLETED, PATIENCE_SECONDS, "it has ended")


async def _submit_as(user: Bus, submitter: str) -> WorkloadId:
    answer = await insist(user, SubmitWorkload(work("one"), submitter, key="one"))
    workload: WorkloadId = answer.workload  # type: ignore[attr-defined]  # anything else fails here, as it should
    return workload


async def _kill_and_start(world: OneProcessWorld, role: str, region: str = "") -> None:
    unit = world.unit(role, region)
    await unit.kill()
    assert not unit.is_alive
    await unit.start()
