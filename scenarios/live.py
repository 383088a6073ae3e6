"""Plays one scenario in real processes: starts the plane, submits the load and the jobs, kills whom the scenario names, waits
for the end, and checks every log.
"""

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import structlog
from msgspec import Struct

from bus.errors import BusError
from bus.nats import NatsConnection
from bus.port import Bus
from core.messages.auditor import AuditShown, ShowAudit
from core.messages.base import Message, Refused
from core.messages.output import OutputPage, ReadOutput
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    ListedWorkload,
    ListWorkloads,
    RequeueWorkload,
    Submitted,
    SubmitWorkload,
    WorkloadsListed,
)
from core.nouns.ids import RegionName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.workload import Phase, WorkloadSpec
from runtime.plane import FLEET_FILE, PlaneProcesses
from runtime.wiring import Plan, units_of
from scenarios.fleet import plan_of, unit_meant
from scenarios.load import Arrival, draw_load
from scenarios.philly import trace_load
from scenarios.scenario import JobSpec, ScenarioSpec

logger = structlog.get_logger()

ASK: Nanoseconds = seconds(2)
AGAIN_SECONDS = 0.25
"""Before a request that nobody answered is made again, as any client would."""
LOOK_SECONDS = 0.4
"""Between looks at the plane."""
AUDIT_SECONDS_MAX = 20.0
"""For the auditor to come up to the heads of all logs once everything has ended. It takes a hundredth of a second."""
OUTPUT_BYTES = 256 * 1024
LOSS = re.compile(rb"^step (\d+) loss ([0-9.]+)", re.MULTILINE)

RESUMED = re.compile(rb"^resumed at step (\d+)", re.MULTILINE)

Told = TypeVar("Told", bound=Message)


class Job(Struct, frozen=True):
    """A job file that is submitted too, as read."""

    when: JobSpec
    spec: WorkloadSpec


class Point(Struct, frozen=True):
    """What a training program said of itself."""

    epoch: int
    step: int
    loss: float


class Look(Struct):
    """A plane at one moment, for whoever watches."""

    seconds: float = 0.0
    submitted: int = 0
    wanted: int = 0
    counts: dict[str, int] = {}
    """Workloads by phase."""
    waiting: dict[str, int] = {}
    """Pending workloads by reason."""
    held: dict[RegionName, int] = {}
    """GPU milli by region, of what runs."""
    total: dict[RegionName, int] = {}
    kills: list[str] = []
    gang: ListedWorkload | None = None
    """The first job, as it was last seen among what has not ended."""
    gang_has_ended: bool = False
    curve: list[Point] = []
    resumed_step: int = 0
    """At which the program said that it resumes."""


Watch = Callable[[Look], None]


class LiveRun:
    """One scenario under way in real processes."""

    def __init__(
        self, spec: ScenarioSpec, jobs: Sequence[Job], directory: Path, seed: int, watch: Watch
    ) -> None:
        self.spec = spec
        self.jobs = jobs
        self.plan: Plan = plan_of(spec.fleet, spec.name)
        self.plane = PlaneProcesses(self.plan, directory / FLEET_FILE, directory)
        self.found_at: Path | None = None
        """Where commands in another terminal may find the plane while it runs."""
        self.look = Look(wanted=spec.load.workloads + len(jobs), total=_totals(self.plan))
        self.accepted: dict[str, WorkloadId] = {}
        """By idempotency key."""
        self.problems: list[str] = []
        self.audit: AuditShown | None = None
        self._watch = watch
        self._dice = random.Random(f"scenario/{spec.name}/{seed}")
        self._begun = time.monotonic()
        self._tasks: list[asyncio.Task[None]] = []
        self._gang_at: tuple[RegionName, WorkerName] | None = None
        """Where the first job was last seen."""
        self._offsets: dict[int, int] = {}
        """By epoch of the gang, how far its output was read."""

    async def play(self, trace: Path | None = None) -> None:
        """From the start of the plane to its end. The load is drawn from its distributions, or from a trace.

        Raises ScenarioError, PlaneError and BusError.
        """
        load, fleet = self.spec.load, self.spec.fleet
        if trace is None:
            drawn = draw_load(load, fleet, self._dice)
        else:
            drawn = trace_load(trace, load, fleet, self._dice)
        self.look.wanted = len(drawn) + len(self.jobs)
        await self.plane.start()
        if self.found_at is not None:
            self.plane.write_how_to_reach_it(self.found_at)
        try:
            connection = await NatsConnection.connect(self.plane.url, self.plan.fleet, "user", timeout=ASK)
            try:
                await self._play(connection.endpoint("user"), drawn)
            finally:
                for task in self._tasks:
                    task.cancel()
                await connection.close()
        finally:
            await self.plane.stop(ends_tasks=True)

    async def _play(self, user: Bus, arrivals: list[Arrival]) -> None:
        await self._wait_until_up(user)
        self._begun = time.monotonic()
        self._begin(self._submit_all(user, arrivals), "load")
        for number, job in enumerate(self.jobs):
            self._begin(self._run_job(user, f"job-{number}", job), f"job/{number}")
        self._begin_misfortune()
        deadline = time.monotonic() + 3600 * self.spec.calm_hours
        while not await self._has_ended(user):
            if time.monotonic() > deadline:
                self.problems.append(f"not everything has ended after {3600 * self.spec.calm_hours:.0f} s")
                break
            await asyncio.sleep(LOOK_SECONDS)
        self.audit = await self._audited(user)

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    async def _wait_until_up(self, user: Bus) -> None:
        """The queue answers, and has heard of every region's nodes."""
        while True:
            listed = await self._insist(user, ListWorkloads(), WorkloadsListed)
            if set(listed.regions) == set(self.plan.region_names()):
                return
            await asyncio.sleep(AGAIN_SECONDS)

    # Load.

    async def _submit_all(self, user: Bus, arrivals: list[Arrival]) -> None:
        for number, arrival in enumerate(arrivals):
            await self._sleep_until(arrival.at / SECOND)
            self._begin(self._submit_one(user, f"load-{number}", arrival), f"load/{number}")

    async def _submit_one(self, user: Bus, key: str, arrival: Arrival) -> None:
        workload = await self._submitted(user, key, arrival.spec)
        if workload and arrival.cancel_after is not None:
            await asyncio.sleep(arrival.cancel_after / SECOND)
            await self._insist(user, CancelWorkload(workload), Message)

    async def _run_job(self, user: Bus, key: str, job: Job) -> None:
        await self._sleep_until(job.when.after_seconds)
        workload = await self._submitted(user, key, job.spec)
        if not workload or not job.when.requeue_after_seconds:
            return
        while True:
            listed = await self._insist(user, ListWorkloads((Phase.RUNNING,)), WorkloadsListed)
            row = next((row for row in listed.rows if row.workload == workload), None)
            if row is not None and row.ran >= job.when.requeue_after_seconds * SECOND and row.saved_step:
                await self._insist(user, RequeueWorkload(workload, row.epoch), Acknowledged)
                self.look.kills.append(f"{job.spec.name} requeued")
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _submitted(self, user: Bus, key: str, spec: WorkloadSpec) -> WorkloadId:
        answer = await self._insist(user, SubmitWorkload(spec, "scenario", key), Message)
        if isinstance(answer, Submitted):
            self.accepted[key] = answer.workload
            self.look.submitted = len(self.accepted)
            return answer.workload
        said = (
            f"{answer.sentence} {' '.join(answer.problems)}" if isinstance(answer, Refused) else repr(answer)
        )
        self.problems.append(f"{key} was not accepted: {said}")
        return WorkloadId("")

    async def _insist(self, user: Bus, message: Message, expected: type[Told]) -> Told:
        """Ask until there is an answer, as any client does."""
        while True:
            try:
                answer = await user.ask(message, ASK)
            except BusError:
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            assert isinstance(answer, expected), answer
            return answer

    async def _sleep_until(self, offset_seconds: float) -> None:
        await asyncio.sleep(max(0.0, self._begun + offset_seconds - time.monotonic()))

    # Misfortune.

    def _begin_misfortune(self) -> None:
        units = units_of(self.plan)
        loop = asyncio.get_running_loop()
        for kill in self.spec.misfortune.kills:
            loop.call_later(kill.after_seconds, self._kill, unit_meant(units, kill).name)

    def _kill(self, name: str) -> None:
        if self.plane.supervisor.kill(name):
            self.look.kills.append(f"{name} killed")

    # Looking.

    async def _has_ended(self, user: Bus) -> bool:
        """Look at the plane, tell whoever watches, and whether everything was submitted and has ended."""
        rows, counts = await self._listed(user)
        look = self.look
        look.seconds = time.monotonic() - self._begun
        look.counts = counts
        look.waiting = dict(Counter(row.reason or "starting" for row in rows if row.phase == Phase.PENDING))
        held: Counter[RegionName] = Counter()
        for row in rows:
            if row.phase == Phase.RUNNING:  # An award may still wait for those whom it pushes out.
                held[row.region] += row.gpu_milli
        look.held = dict(held)
        gang = self.accepted.get("job-0")
        if gang is not None:
            await self._look_at_gang(user, next((row for row in rows if row.workload == gang), None))
        self._watch(look)
        is_over = len(self.accepted) + len(self.problems) >= look.wanted
        return is_over and not rows

    async def _listed(self, user: Bus) -> tuple[list[ListedWorkload], dict[str, int]]:
        """All that has not ended."""
        phases = tuple(phase for phase in Phase if not phase.is_terminal)
        rows: list[ListedWorkload] = []
        counts: dict[str, int] = {}
        after = 0
        while True:
            listed = await self._insist(user, ListWorkloads(phases, after), WorkloadsListed)
            rows += listed.rows
            counts = counts or listed.counts
            after = listed.next
            if not after:
                return rows, counts

    async def _look_at_gang(self, user: Bus, row: ListedWorkload | None) -> None:
        """What rank 0 of the first job wrote, attempt by attempt."""
        look = self.look
        look.gang = row or look.gang
        look.gang_has_ended = row is None and look.gang is not None
        for region in self.plan.regions:
            if row is not None and region.region == row.region:
                self._gang_at = (region.region, region.inventories[0].worker)
        if look.gang is None or self._gang_at is None:
            return
        for epoch in range(max(1, look.gang.epoch - 1), look.gang.epoch + 1):
            await self._read_output(user, *self._gang_at, epoch)

    async def _read_output(self, user: Bus, region: RegionName, worker: WorkerName, epoch: int) -> None:
        job = self.jobs[0].spec.jobs[0].name
        while True:
            offset = self._offsets.get(epoch, 0)
            asked = ReadOutput(region, worker, self.accepted["job-0"], epoch, job, 0, offset, OUTPUT_BYTES)
            try:
                page = await user.ask(asked, ASK)
            except BusError:
                return
            if not isinstance(page, OutputPage):
                return
            whole = page.data.rfind(b"\n") + 1
            found = [Point(epoch, int(step), float(loss)) for step, loss in LOSS.findall(page.data[:whole])]
            self.look.curve += found
            resumed = RESUMED.search(page.data[:whole])
            if resumed is not None:
                self.look.resumed_step = self.look.resumed_step or int(resumed[1])
            self._offsets[epoch] = page.offset + whole
            if not whole:
                return

    async def _audited(self, user: Bus) -> AuditShown | None:
        """What the auditor found, once nothing waits."""
        deadline = time.monotonic() + AUDIT_SECONDS_MAX
        while time.monotonic() < deadline:
            shown = await self._insist(user, ShowAudit(), AuditShown)
            if not shown.waiting and len(shown.checked) == len(self.plan.regions) + 1:
                return shown
            await asyncio.sleep(AGAIN_SECONDS)
        self.problems.append("the auditor did not come up to the heads of all logs")
        return None


def _totals(plan: Plan) -> dict[RegionName, int]:
    return {
        region.region: sum(
            group.count * group.total.gpu_milli for one in region.inventories for group in one.groups
        )
        for region in plan.regions
    }
