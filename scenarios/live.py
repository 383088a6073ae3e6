"""Plays one scenario in real processes for people who watch: the run of any scenario (scenarios/run.py), the job files that it
names, what a plane looks like at each moment, and what its auditor found.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from bus.errors import BusError
from core.messages.auditor import AuditShown, ShowAudit
from core.messages.output import OutputPage, ReadOutput
from core.messages.queue import ListedWorkload, ListWorkloads, RequeueWorkload, WorkloadsListed
from core.nouns.ids import RegionName, WorkerName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.workload import Phase, WorkloadSpec
from runtime.wiring import Plan
from scenarios.run import Run
from scenarios.scenario import JobSpec, ScenarioSpec
from scenarios.witness import Witness
from scenarios.worlds.processes import ProcessesWorld

ASK: Nanoseconds = seconds(2)
AGAIN_SECONDS = 0.25
LOOK_SECONDS = 0.4
"""Between looks at the plane."""
AUDIT_SECONDS_MAX = 20.0
"""For the auditor to come up to the heads of all logs once everything has ended. It takes a hundredth of a second."""
OUTPUT_BYTES = 256 * 1024
LOSS = re.compile(rb"^step (\d+) loss ([0-9.]+)", re.MULTILINE)

RESUMED = re.compile(rb"^resumed at step (\d+)", re.MULTILINE)


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
        """The directory has the fleet file."""
        self.spec = spec
        self.jobs = jobs
        self.plan: Plan = spec.plan
        self.witness = Witness(self.plan)
        self.look = Look(total=_totals(self.plan))
        self.world = ProcessesWorld(self.plan, seed, directory, self.witness, self.look.kills.append)
        self.run = Run(spec, seed, self.world, self.witness)
        self.users = self.run.users
        self.audit: AuditShown | None = None
        self._watch = watch
        self._begun = time.monotonic()
        self._gang_at: tuple[RegionName, WorkerName] | None = None
        """Where the first job was last seen."""
        self._offsets: dict[int, int] = {}
        """By epoch of the gang, how far its output was read."""

    async def play(self) -> None:
        """From the start of the plane to its end. Raises PlaneError and BusError."""
        run, users = self.run, self.users
        try:
            await run.begin()
            self._begun = time.monotonic()
            users.wanted += len(self.jobs)
            for number, job in enumerate(self.jobs):
                users.begin(self._run_job(f"job-{number}", job), f"job/{number}")
            users.begin(self._keep_looking(), "look")
            await run.strike()
            await run.calm_down()
            await self._look()
            self.audit = await self._audited()
            await run.conclude()
        finally:
            await run.stop()

    # Load.

    async def _run_job(self, key: str, job: Job) -> None:
        await asyncio.sleep(max(0.0, self._begun + job.when.after_seconds - time.monotonic()))
        users = self.users
        workload = await users.submit(key, job.spec)
        if workload is None or not job.when.requeue_after_seconds:
            return
        while True:
            listed = await users.insist(ListWorkloads((Phase.RUNNING,)))
            assert isinstance(listed, WorkloadsListed), listed
            row = next((row for row in listed.rows if row.workload == workload), None)
            if row is not None and row.ran >= job.when.requeue_after_seconds * SECOND and row.saved_step:
                await users.insist(RequeueWorkload(workload, row.epoch))
                self.look.kills.append(f"{job.spec.name} requeued")
                return
            await asyncio.sleep(AGAIN_SECONDS)

    # Looking.

    async def _keep_looking(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """Look at the plane, and tell whoever watches."""
        rows, counts = await self._listed()
        look, users = self.look, self.users
        look.seconds = time.monotonic() - self._begun
        look.wanted, look.submitted = users.wanted, len(users.accepted)
        look.counts = counts
        look.waiting = dict(Counter(row.reason or "starting" for row in rows if row.phase == Phase.PENDING))
        held: Counter[RegionName] = Counter()
        for row in rows:
            if row.phase == Phase.RUNNING:  # An award may still wait for those whom it pushes out.
                held[row.region] += row.gpu_milli
        look.held = dict(held)
        gang = users.accepted.get("job-0")
        if gang is not None:
            await self._look_at_gang(next((row for row in rows if row.workload == gang), None))
        self._watch(look)

    async def _listed(self) -> tuple[list[ListedWorkload], dict[str, int]]:
        """All that has not ended."""
        phases = tuple(phase for phase in Phase if not phase.is_terminal)
        rows: list[ListedWorkload] = []
        counts: dict[str, int] = {}
        after = 0
        while True:
            listed = await self.users.insist(ListWorkloads(phases, after))
            assert isinstance(listed, WorkloadsListed), listed
            rows += listed.rows
            counts = counts or listed.counts
            after = listed.next
            if not after:
                return rows, counts

    async def _look_at_gang(self, row: ListedWorkload | None) -> None:
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
            await self._read_output(*self._gang_at, epoch)

    async def _read_output(self, region: RegionName, worker: WorkerName, epoch: int) -> None:
        job = self.jobs[0].spec.jobs[0].name
        while True:
            offset = self._offsets.get(epoch, 0)
            asked = ReadOutput(
                region, worker, self.users.accepted["job-0"], epoch, job, 0, offset, OUTPUT_BYTES
            )
            try:
                page = await self.users.bus.ask(asked, ASK)
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

    async def _audited(self) -> AuditShown | None:
        """What the auditor found, once nothing waits."""
        deadline = time.monotonic() + AUDIT_SECONDS_MAX
        while time.monotonic() < deadline:
            shown = await self.users.insist(ShowAudit())
            assert isinstance(shown, AuditShown), shown
            if not shown.waiting and len(shown.checked) == len(self.plan.regions) + 1:
                return shown
            await asyncio.sleep(AGAIN_SECONDS)
        self.users.problems.append("the auditor did not come up to the heads of all logs")
        return None


def _totals(plan: Plan) -> dict[RegionName, int]:
    return {
        region.region: sum(
            group.count * group.total.gpu_milli for one in region.inventories for group in one.groups
        )
        for region in plan.regions
    }
