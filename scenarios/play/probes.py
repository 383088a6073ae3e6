"""Probes: small workloads that try, once all is calm, whether a plane still does what a user may ask of it.

Each is one emulated task of one GPU in one region, and looks at what became durable of it. They run side by side.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from core.messages.base import Refused
from core.messages.queue import Acknowledged, CancelWorkload
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import SECOND, seconds
from core.nouns.pool import SHARED_POOL
from core.nouns.quantities import MILLI, Amount
from core.nouns.reasons import Reason
from core.nouns.sharing import ShareSpec
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import Emulation, EndCause, JobSpec, Kind, Phase, RetryLimits, WorkloadSpec
from runtime.fleet_file import RegionSpec
from runtime.spool import STEP
from scenarios.accounting.attempts import AttemptAccount
from scenarios.check import Run
from scenarios.schema.fleet import emulated_regions

EXIT_CODE = 7
"""Of the probe that fails: no other task exits with it."""
NEED = Amount(MILLI, 1000, 1 << 30)
CLOSE_ENOUGH = 0.002
"""Seconds: two steps of an emulated task."""


class Pace(Struct, frozen=True):
    """Spans of probes, in seconds."""

    work: float
    look: float
    """Between looks at what became of them."""
    held: float
    """For which one of them is held, and must not start."""
    cancelled_within: float
    deadline: float


PACES = {
    "simulated": Pace(work=10.0, look=0.25, held=5.0, cancelled_within=30.0, deadline=120.0),
    # A hold and a requeue must reach a probe before it has ended, also on a machine that is busy.
    "processes": Pace(work=3.0, look=0.1, held=1.0, cancelled_within=15.0, deadline=30.0),
}
Story = Callable[["Probe"], Awaitable[list[str]]]
"""What happens to a probe: returns what was not as it should be."""
LONG = 3600.0
"""Seconds of work that nobody waits for."""


class Probe:
    """One probe: a workload, and what is known of it."""

    def __init__(self, run: Run, region: RegionName, spec: RegionSpec, name: str) -> None:
        self.run, self.region, self.gpu_type, self.name = run, region, spec.gpu_type, name
        self.is_shared = spec.pool == SHARED_POOL
        self.pace = PACES[run.world.world]
        self.workload = WorkloadId("")
        self.waits_for = "it is accepted"
        """What is told of it if its time is over."""

    def __str__(self) -> str:
        return f"serving again in {self.region}, {self.name} ({self.workload or 'not accepted'})"

    # What is done with it.

    async def tried(self, story: Story) -> list[str]:
        """Let a story happen to it: what was not as it should be. Whatever comes of it, it has ended afterwards, or this says
        that it has not.
        """
        try:
            async with asyncio.timeout(self.pace.deadline):
                found = await story(self)
        except TimeoutError:
            found = [f"after {self.pace.deadline:.0f} s it is still not so that {self.waits_for}"]
        if self.workload and not self.has_ended:
            found += await self._ended_by_force()
        return [f"{self}: {text}" for text in found]

    async def submit(self, emulation: Emulation, retries: int = 0) -> bool:
        """Whether it was accepted."""
        job = JobSpec("probe", 1, NEED, self.gpu_type, emulation)
        spec = WorkloadSpec(
            name=f"probe-{self.name.replace(' ', '-')}",
            jobs=(job,),
            tenant=TenantName(next(iter(self.run.spec.tenants), "probe")),
            regions=(self.region,),
            retry=RetryLimits(task_failed=retries),
        )
        if self.is_shared:
            spec = replace(spec, kind=Kind.SHARED, grace=seconds(self.pace.work), share=ShareSpec())
        self.run.users.wanted += 1
        workload = await self.run.users.submit(f"probe/{self.region}/{self.name}", spec)
        self.workload = workload or self.workload
        return workload is not None

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until something holds. Raises TimeoutError in the end, by its deadline."""
        self.waits_for = what
        while True:
            self.look()
            if holds():
                return
            await self.run.world.sleep(self.pace.look)

    async def until_it_runs(self) -> None:
        """As the queue has it."""
        await self.until("it runs", lambda: self.phase == Phase.RUNNING or self.has_ended)

    async def until_it_ended(self, wanted: Phase) -> list[str]:
        """What is wrong with how it ended."""
        await self.until(f"it is {wanted}", lambda: self.has_ended)
        return [] if self.phase == wanted else [f"it is {self.phase}, and should be {wanted}"]

    # What is known of it.

    def look(self) -> None:
        """At whatever is durable by now."""
        for log in self.run.witness.logs:
            self.run.world.look(log)

    @property
    def has_ended(self) -> bool:
        """By the queue's log."""
        return self.workload in self.run.witness.ended

    @property
    def phase(self) -> Phase:
        """By the queue's log."""
        ended = self.run.witness.ended.get(self.workload)
        row = self.run.witness.queue.workloads.rows.get(self.workload)
        return ended or (row.phase if row is not None else Phase.PENDING)

    @property
    def epoch(self) -> int:
        """Of its newest award."""
        row = self.run.witness.queue.workloads.rows.get(self.workload)
        return row.epoch if row is not None else 0

    @property
    def attempts(self) -> list[AttemptAccount]:
        """All that were granted, but for those that another probe may end too: preempted over quota, or another's round in a shared pool."""
        granted = self.run.witness.accounting.attempts.get(self.workload, [])
        return [
            one
            for one in granted
            if one.cause != EndCause.ROUND_OVER
            and (one.cause, one.claim.priority) != (EndCause.PREEMPTED, OVER_LEVEL)
        ]

    def not_ended_by(self, *causes: EndCause) -> list[str]:
        """What is wrong with how its attempts ended: each by its cause, and no more of them."""
        ended, wanted = ", ".join(attempt.cause for attempt in self.attempts), ", ".join(causes)
        return (
            [] if ended == wanted else [f"its attempts ended by {ended or 'nothing'}, and should by {wanted}"]
        )

    def cut_short(self, work: float) -> list[str]:
        """Whether its last attempt can have done all that was left of its work."""
        last = self.attempts[-1] if self.attempts else None
        if last is None or last.ended_at is None:
            return ["it has ended, and no attempt of it has"]
        held, left = last.ended_at - last.granted_at, work - last.claim.resume_step * STEP / SECOND
        return [f"it was done after {held:.1f} s of {left:.1f} s"] if held < left - CLOSE_ENOUGH else []

    async def _ended_by_force(self) -> list[str]:
        """Nothing of it goes on. Returns that it does, all the same."""
        try:
            async with asyncio.timeout(self.pace.cancelled_within):
                await self.run.users.cancel(self.workload)
                await self.until("it has ended", lambda: self.has_ended)
        except TimeoutError:
            return ["it was cancelled then, and goes on"]
        return []


async def completes(probe: Probe) -> list[str]:
    """It runs to its end, and whoever cancels it then is told that he comes too late."""
    work = probe.pace.work
    if not await probe.submit(Emulation(seconds(work))):
        return ["it was refused"]
    found = await probe.until_it_ended(Phase.COMPLETED)
    found += probe.not_ended_by(EndCause.COMPLETED) + probe.cut_short(work)
    probe.waits_for = "the cancel of what has ended is answered"
    answer = await probe.run.users.insist(CancelWorkload(probe.workload))
    if not isinstance(answer, Refused) or answer.reason != Reason.ALREADY_ENDED:
        found.append(f"it had ended, and its cancel was answered with {answer}")
    return found


async def fails(probe: Probe) -> list[str]:
    """Its task fails, is tried once more as its user allows, and no third time."""
    work = probe.pace.work
    emulation = Emulation(seconds(work), fails_after=seconds(work / 10), exit_code=EXIT_CODE)
    if not await probe.submit(emulation, retries=1):
        return ["it was refused"]
    found = await probe.until_it_ended(Phase.FAILED)
    found += probe.not_ended_by(EndCause.TASK_FAILED, EndCause.TASK_FAILED)
    codes = [attempt.exit_code for attempt in probe.attempts]
    if any(code != EXIT_CODE for code in codes):
        found.append(f"its tasks exited with {EXIT_CODE}, and its attempts with {codes}")
    return found


async def held(probe: Probe) -> list[str]:
    """Held while it runs, it goes on; stopped then, it does not start before it is released."""
    users, work = probe.run.users, probe.pace.work
    if not await probe.submit(Emulation(seconds(work))):
        return ["it was refused"]
    await probe.until_it_runs()
    await users.set_hold(probe.workload, is_held=True)
    await users.requeue(probe.workload)
    await probe.until(
        "its stopped attempt has ended", lambda: probe.phase == Phase.PENDING or probe.has_ended
    )
    epoch = probe.epoch
    await probe.run.world.sleep(probe.pace.held)
    probe.look()
    found = ["it was held, and awarded all the same"] if probe.epoch != epoch else []
    await users.set_hold(probe.workload, is_held=False)
    found += await probe.until_it_ended(Phase.COMPLETED)
    return found + probe.not_ended_by(EndCause.REQUEUED, EndCause.COMPLETED) + probe.cut_short(work)


async def cancelled(probe: Probe) -> list[str]:
    """Cancelled while it runs it ends soon, and to cancel it again changes nothing."""
    users, within = probe.run.users, probe.pace.cancelled_within
    if not await probe.submit(Emulation(seconds(LONG))):
        return ["it was refused"]
    await probe.until_it_runs()
    begun = probe.run.world.now()
    await users.cancel(probe.workload)
    found = await probe.until_it_ended(Phase.CANCELLED)
    took = probe.run.world.now() - begun
    if took > within:
        found.append(f"it went on for {took:.1f} s after it was cancelled")
    answer = await users.insist(CancelWorkload(probe.workload))
    if not isinstance(answer, Acknowledged):
        found.append(f"cancelled again, it was answered with {answer}")
    return found + probe.not_ended_by(EndCause.CANCELLED)


async def resumed(probe: Probe) -> list[str]:
    """Stopped after a checkpoint, it goes on from the newest one that counts, and does no more than what is left."""
    work = 2 * probe.pace.work
    saves_every = seconds(probe.pace.work / 5)
    if not await probe.submit(Emulation(seconds(work), checkpoint_every=saves_every)):
        return ["it was refused"]
    await probe.until("a checkpoint counts", lambda: bool(probe.attempts and probe.attempts[-1].saved_step))
    await probe.run.users.requeue(probe.workload)
    found = await probe.until_it_ended(Phase.COMPLETED)
    found += probe.not_ended_by(EndCause.REQUEUED, EndCause.COMPLETED)
    if found:
        return found
    first, second = probe.attempts
    wanted, given = (first.epoch, first.saved_step), (second.claim.resume_epoch, second.claim.resume_step)
    if given != wanted:
        found.append(f"it resumed epoch and step {given}, and its newest checkpoint is {wanted}")
    if second.started_at is not None and second.ended_at is not None:
        ran = second.ended_at - second.started_at
        found += [f"it did all its {work:.0f} s of work again"] if ran >= work else []
    return found + probe.cut_short(work)


STORIES: dict[str, Story] = {
    "one that completes": completes,
    "one that fails": fails,
    "one that is held": held,
    "one that is cancelled": cancelled,
    "one that is stopped after a checkpoint": resumed,
}
"""What is tried on each sort of hardware, under the name by which problems call it."""
FIRST = next(iter(STORIES))
"""What is tried in every region."""


def probes_of(run: Run) -> list[tuple[Probe, Story]]:
    """Every probe with its story: all stories in the first region of each GPU type, the first story in the others."""
    probes: list[tuple[Probe, Story]] = []
    seen: set[str] = set()
    for region, spec in sorted(emulated_regions(run.spec.fleet).items()):
        stories = STORIES if spec.gpu_type not in seen else {FIRST: STORIES[FIRST]}
        seen.add(spec.gpu_type)
        probes += [(Probe(run, region, spec, name), story) for name, story in stories.items()]
    return probes
