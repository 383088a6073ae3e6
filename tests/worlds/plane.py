"""A plane in one real process, what a user does with it, and what must be so of it in the end."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bus.errors import BusError
from bus.port import Bus
from core.images import GlobalImage, RegionImage
from core.invariants.consistency import check_ledger
from core.messages.base import Message
from core.messages.queue import ShowWorkload, Submitted, SubmitWorkload, WorkloadShown
from core.nouns.ids import DatasetName, RegionName, WorkloadId
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, JobSpec, Phase, RetryLimits, WorkloadSpec
from runtime.images import load_image
from runtime.wiring import log_kept_by
from scenarios.schema.fleet import FleetSpec, plan_of
from scenarios.worlds.one_process import OneProcessWorld, RealUnit
from store.port import LogReader

PATIENCE_SECONDS = 40.0
"""Everything here ends in a few seconds; a machine that is busy beyond measure may take so long."""
ASK = seconds(2)
SMALL = FleetSpec(regions=2, nodes=4, workers=2)


@asynccontextmanager
async def plane() -> AsyncIterator[OneProcessWorld]:
    """Two regions of four nodes with eight GPUs each, all joined; stopped whatever happens in it."""
    world = OneProcessWorld(plan_of(SMALL, "fleet"))
    try:
        await world.start()
        await world.until(lambda: _has_joined(world), PATIENCE_SECONDS, "all nodes have joined")
        yield world
    finally:
        await world.stop()


def work(
    name: str,
    tasks: int = 1,
    gpus: int = 8,
    *,
    milliseconds: int = 100,
    region: str = "",
    save_every: int = 0,
    fails_after: int = 0,
    exit_code: int = 1,
    retries: int = 0,
    data: Sequence[str] = (),
) -> WorkloadSpec:
    """A workload of one job; its spans are in milliseconds."""
    emulation = Emulation(
        work=_milliseconds(milliseconds),
        checkpoint_every=_milliseconds(save_every),
        fails_after=_milliseconds(fails_after),
        exit_code=exit_code,
    )
    need = Amount(1000 * gpus, 1000 * gpus, gpus << 30)
    regions = (RegionName(region),) if region else ()
    job = JobSpec("main", tasks, need, "H100", emulation)
    limits = RetryLimits(task_failed=retries)
    return WorkloadSpec(name, (job,), regions=regions, retry=limits, data=tuple(map(DatasetName, data)))


async def insist(user: Bus, message: Message) -> Message:
    """Ask until there is an answer, as any client does."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return await user.ask(message, ASK)
            except BusError:
                await asyncio.sleep(0.05)


async def submit(user: Bus, spec: WorkloadSpec) -> WorkloadId:
    """Submit under its name as the key, and return its id."""
    answer = await insist(user, SubmitWorkload(spec, "user", key=spec.name))
    assert isinstance(answer, Submitted), answer
    return answer.workload


async def shown(user: Bus, workload: WorkloadId) -> WorkloadShown:
    """Where it is, as the queue tells."""
    answer = await insist(user, ShowWorkload(workload))
    assert isinstance(answer, WorkloadShown), answer
    return answer


async def until_phase(world: OneProcessWorld, workload: WorkloadId, phase: Phase) -> None:
    """Wait until the queue has it there."""
    await world.until(lambda: phase == phase_of(world, workload), PATIENCE_SECONDS, f"{workload} is {phase}")


async def until_ended(world: OneProcessWorld, workloads: list[WorkloadId]) -> None:
    """Wait until all have ended."""
    await world.until(
        lambda: all(phase_of(world, workload) in ENDED for workload in workloads),
        PATIENCE_SECONDS,
        "all workloads have ended",
    )


ENDED = (Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED, Phase.TIMEOUT)


def phase_of(world: OneProcessWorld, workload: WorkloadId) -> Phase | None:
    """Where the queue's memory has it; None while there is no queue."""
    state = world.unit("job_queue").state
    row = state.image.workloads.rows.get(workload) if state is not None else None
    return row.phase if row is not None else None


async def assert_all_is_well(world: OneProcessWorld) -> None:
    """Nothing is held or runs, the auditor has seen everything and found nothing, every log is whole and replays."""
    await world.until(lambda: _is_quiet(world), PATIENCE_SECONDS, "nothing is held and nothing runs")
    for unit in _keepers(world):
        log = log_kept_by(unit.unit)
        assert log is not None
        reader = await world.store.reader(log)
        try:
            await _assert_replays(unit, reader)
            verified = await reader.verify()
            assert (0, "") == (verified.broken_at, verified.problem)
        finally:
            await reader.close()
    await world.until(lambda: _has_seen_all(world), PATIENCE_SECONDS, "the auditor has folded every log")
    assert [] == world.unit("auditor").state.violations
    for unit in _keepers(world):
        if isinstance(unit.state.image, RegionImage):
            assert [] == list(check_ledger(unit.state.image.capacity))
    assert [] == world.failures()


async def _assert_replays(unit: RealUnit, reader: LogReader) -> None:
    """What is read from the file folds to what the keeper has in memory, at one and the same sequence."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            log = log_kept_by(unit.unit)
            assert log is not None
            image, head, _ = await load_image(reader, log)
            if head.sequence == unit.state.sequence:
                assert unit.state.image.digest() == image.digest()
                return


def _keepers(world: OneProcessWorld) -> list[RealUnit]:
    return [unit for unit in world.units if log_kept_by(unit.unit) is not None]


def _has_joined(world: OneProcessWorld) -> bool:
    for plan in world.plan.regions:
        state = world.unit("placement_store", plan.region).state
        if state is None or len(state.image.capacity.workers) != len(plan.inventories):
            return False
    return True


def _is_quiet(world: OneProcessWorld) -> bool:
    for unit in _keepers(world):
        state = unit.state
        if state is None:
            return False
        image = state.image
        if isinstance(image, GlobalImage):
            if any(not row.phase.is_terminal for row in image.workloads.rows.values()):
                return False
        elif image.capacity.holdings or image.capacity.promises or _lost(image):
            return False
    spools = [unit.spool for unit in world.units if unit.spool is not None]
    return not any(share.is_live for spool in spools for share in spool.shares.values())


def _lost(image: RegionImage) -> list[str]:
    return [worker for worker, row in image.capacity.workers.items() if row.is_lost]


def _has_seen_all(world: OneProcessWorld) -> bool:
    auditor = world.unit("auditor").state
    if auditor is None or auditor.waiting:
        return False
    keepers = {log_kept_by(unit.unit): unit.state.sequence for unit in _keepers(world)}
    return bool(keepers == auditor.sequences)


def _milliseconds(count: int) -> Nanoseconds:
    return Nanoseconds(count * MILLISECOND)
