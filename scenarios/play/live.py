"""Plays one scenario in real processes for people who watch: the run of any scenario (scenarios/play/run.py), the job files that it
names, what a plane looks like at each moment, and what its auditor found.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from core.messages.auditor import AuditShown, ShowAudit
from core.messages.queue import (
    ListedWorkload,
    ListWorkloads,
    RequeueWorkload,
    ShowWorkload,
    WorkloadShown,
    WorkloadsListed,
)
from core.messages.tenants import ListedTenant
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.instant import SECOND
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.operation import ControlSpec, OperationPhase
from core.nouns.pipeline import PipelineSpec
from core.nouns.placement import numbers_in
from core.nouns.workload import Phase, WorkloadSpec
from runtime.wiring import Plan
from scenarios.accounting.witness import Witness
from scenarios.play.live_functions import CallsMade, make_calls
from scenarios.play.live_gangs import GangLook, GangReader
from scenarios.play.operators import Operators
from scenarios.play.run import Run
from scenarios.scenario import JobSpec, ScenarioSpec
from scenarios.workload import CONTROLLED
from scenarios.worlds.processes.world import ProcessesWorld

AGAIN_SECONDS = 0.25
LOOK_SECONDS = 0.4
"""Between looks at the plane."""
AUDIT_SECONDS_MAX = 20.0
"""For the auditor to come up to the heads of all logs once everything has ended. It takes a hundredth of a second."""


class EndedTooSoon(Exception):
    """A job is over, and something was to be done with it while it ran."""


class Job(Struct, frozen=True):
    """A job file that is submitted too, as read."""

    when: JobSpec
    spec: WorkloadSpec


class PipelineJob(Struct, frozen=True):
    """A job file with stages that is submitted too, as read."""

    when: JobSpec
    spec: PipelineSpec


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
    tenants: list[ListedTenant] = []
    """If the scenario has any."""
    kills: list[str] = []
    gangs: list[GangLook] = []
    """The jobs that the scenario names, in its order."""
    calls: list[CallsMade] = []
    """By programs that call functions, in the same order."""


class TenantsAt(Struct, frozen=True):
    """What tenants held at one moment, as `mizzen quota` lists it."""

    seconds: float
    """Since the run began."""
    rows: list[ListedTenant]

    @property
    def held(self) -> int:
        """GPU milli, by all of them."""
        return sum(use.held for row in self.rows for use in row.uses.values())


Watch = Callable[[Look], None]


class LiveRun:
    """One scenario under way in real processes."""

    def __init__(
        self,
        spec: ScenarioSpec,
        jobs: Sequence[Job],
        directory: Path,
        seed: int,
        watch: Watch,
        pipelines: Sequence[PipelineJob] = (),
    ) -> None:
        """The directory has the fleet file."""
        self.spec = spec
        self.jobs = jobs
        self.pipelines = pipelines
        self.plan: Plan = spec.plan
        self.witness = Witness(self.plan)
        self._calls = {
            f"job-{number}": CallsMade(job.when.calls) for number, job in enumerate(jobs) if job.when.calls
        }
        gangs = [GangLook(job.spec.name) for job in jobs]
        self.look = Look(total=_totals(self.plan), gangs=gangs, calls=[*self._calls.values()])
        self.world = ProcessesWorld(self.plan, seed, directory, self.witness, self.look.kills.append)
        self.run = Run(spec, seed, self.world, self.witness)
        self.users = self.run.users
        self.audit: AuditShown | None = None
        self.drain_waited = 0.0
        """Seconds from a drain until the work on its nodes was told to leave; 0: nothing was drained."""
        self.most_held: TenantsAt | None = None
        """The tenants at the look that saw most held; None: the scenario has none."""
        self.tenants_in_calm: TenantsAt | None = None
        """The same, once everything had ended."""
        self._tenants_now: TenantsAt | None = None
        self._operators = Operators(self.users)
        self._watch = watch
        self._begun = time.monotonic()
        self._readers = [
            GangReader(self.users, self.plan, job.spec.jobs[0].name, look)
            for job, look in zip(jobs, self.look.gangs, strict=True)
        ]

    async def play(self) -> None:
        """From the start of the plane to its end. Raises PlaneError and BusError."""
        run, users = self.run, self.users
        try:
            await run.begin()
            self._begun = time.monotonic()
            users.wanted += len(self.jobs)
            for number, job in enumerate(self.jobs):
                users.begin(self._run_job(f"job-{number}", job), f"job/{number}")
            for number, pipeline in enumerate(self.pipelines):
                users.wanted += len(pipeline.spec.stages)
                users.begin(self._run_pipeline(f"pipeline-{number}", pipeline), f"pipeline/{number}")
            users.begin(self._keep_looking(), "look")
            await run.strike()
            await run.calm_down()
            with run.unless_failed():
                await self._look()
                self.tenants_in_calm = self._tenants_now
                self.audit = await self._audited()
            await run.conclude()
        finally:
            await run.stop()

    # Load.

    async def _run_job(self, key: str, job: Job) -> None:
        try:
            await self._do_with(key, job)
        except EndedTooSoon as early:
            is_left_out = key not in self.users.accepted
            self.users.wanted -= is_left_out
            self.users.problems.append(f"{early}{f': {job.spec.name} was not submitted' * is_left_out}")

    async def _run_pipeline(self, key: str, pipeline: PipelineJob) -> None:
        await asyncio.sleep(max(0.0, self._begun + pipeline.when.after_seconds - time.monotonic()))
        await self.users.submit_pipeline(key, on_account(pipeline.spec, CONTROLLED))

    async def _do_with(self, key: str, job: Job) -> None:
        await asyncio.sleep(max(0.0, self._begun + job.when.after_seconds - time.monotonic()))
        users, spec = self.users, job.spec
        if job.when.once_back:
            await self._until_first_ran(0.0)
        if job.when.pushes_out_after_seconds:
            await self._until_first_may_go(job.when.pushes_out_after_seconds)
            await self._until_calls_are_over()
            self.look.kills.append(f"{spec.name} submitted, at a higher priority")
        if job.when.controller:
            spec = replace(spec, tenant=CONTROLLED, control=ControlSpec(job.when.controller))
        if job.when.calls:
            spec = replace(spec, tenant=CONTROLLED)
        workload = await users.submit(key, spec)
        if workload is None:
            return
        if job.when.calls:
            await self._call_functions(self._calls[key], workload)
        if job.when.requeue_after_seconds:
            row = await self._until_it_ran(workload, job.when.requeue_after_seconds)
            await users.insist(RequeueWorkload(workload, row.epoch))
            self.look.kills.append(f"{spec.name} requeued")
        if job.when.drain_after_seconds:
            row = await self._until_it_ran(workload, job.when.drain_after_seconds)
            await self._drain(spec.name, row)

    async def _call_functions(self, made: CallsMade, service: WorkloadId) -> None:
        """Run a program that calls functions while a service runs, and cancel that."""
        made.workload = service
        await self._until_in(service, Phase.RUNNING)
        await make_calls(made, CONTROLLED, self.world.directory, self.look.kills)
        await self.users.cancel(service)
        await self._until_in(service, Phase.CANCELLED)
        made.is_over = True

    async def _until_in(self, workload: WorkloadId, phase: Phase) -> None:
        """It is in a phase, or has ended."""
        while True:
            shown = await self.users.show(workload)
            if shown is None or shown.phase == phase or Phase(shown.phase).is_terminal:
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _until_calls_are_over(self) -> None:
        while not all(made.is_over for made in self._calls.values()):
            await asyncio.sleep(AGAIN_SECONDS)

    async def _until_first_may_go(self, seconds_: float) -> None:
        """The first job has run for so long, and has saved something in this attempt."""
        row = await self._until_first_ran(seconds_)
        while (await self._saved(row)) <= row.saved_step:
            await asyncio.sleep(AGAIN_SECONDS)

    async def _until_first_ran(self, seconds_: float) -> ListedWorkload:
        """The first job has run for so long in one attempt, and, if it has to leave a drain, in one after that."""
        when, users = self.jobs[0].when, self.users
        while "job-0" not in users.accepted:
            await asyncio.sleep(AGAIN_SECONDS)
        epoch = 2 if when.drain_after_seconds or when.requeue_after_seconds else 1
        return await self._until_it_ran(users.accepted["job-0"], seconds_, epoch)

    async def _saved(self, row: ListedWorkload) -> int:
        image = await self._operators.image(RegionName(row.region), "attempts")
        attempt = image.attempts.row(row.workload, row.epoch)
        return attempt.saved_step if attempt is not None else row.saved_step + 1

    async def _until_it_ran(
        self, workload: WorkloadId, seconds_: float, epoch_min: int = 1
    ) -> ListedWorkload:
        """For so long in one attempt, and until a checkpoint counts. Raises EndedTooSoon."""
        while True:
            shown = await self.users.insist(ShowWorkload(workload))
            if isinstance(shown, WorkloadShown) and Phase(shown.phase).is_terminal:
                raise EndedTooSoon(
                    f"{shown.name} ended {shown.phase} before it had run for {seconds_:g} s and saved"
                )
            listed = await self.users.insist(ListWorkloads((Phase.RUNNING,)))
            assert isinstance(listed, WorkloadsListed), listed
            row = next((row for row in listed.rows if row.workload == workload), None)
            is_there = row is not None and row.epoch >= epoch_min
            if row is not None and is_there and row.ran >= seconds_ * SECOND and row.saved_step:
                return row
            await asyncio.sleep(AGAIN_SECONDS)

    async def _drain(self, name: str, row: ListedWorkload) -> None:
        """Have the nodes emptied of an attempt that runs, tell what it waits for, and give them back once it has left."""
        operators = self._operators
        nodes = tuple(str(node) for node in numbers_in(row.node_runs))
        scope, region = Scope(ScopeKind.NODE, nodes), RegionName(row.region)
        told = self.look.kills.append
        told(f"{region} drained: {name}'s controller is asked")
        await operators.drain(region, scope, "to show how a drain waits")
        asked, told_of_word, step = time.monotonic(), False, row.saved_step
        while True:
            image = await operators.image(region, "control", "attempts")
            attempt = image.attempts.row(row.workload, row.epoch)
            control = image.control.row(row.workload, row.epoch)
            if attempt is None or attempt.stop_cause or not attempt.phase.is_live:
                break
            words = control.operations.values() if control is not None else ()
            if not told_of_word and any(word.phase is OperationPhase.ACKED for word in words):
                told_of_word, step = True, attempt.saved_step
                told(f"it agrees, once there is a checkpoint after step {step}")
            await asyncio.sleep(AGAIN_SECONDS / 2)
        saved = attempt.saved_step if attempt is not None else 0
        self.drain_waited = time.monotonic() - asked
        told(f"checkpoint at step {saved}: {name} leaves, {self.drain_waited:.1f} s after the drain")
        await asyncio.sleep(LOOK_SECONDS)
        await operators.undrain(region, scope)
        told(f"{region} given back")

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
        if self.spec.tenants:
            look.tenants = await self._operators.tenants()
            now = self._tenants_now = TenantsAt(round(look.seconds, 1), look.tenants)
            if self.most_held is None or now.held > self.most_held.held:
                self.most_held = now
        for number, reader in enumerate(self._readers):
            workload = users.accepted.get(f"job-{number}")
            if workload is not None:
                await reader.read(workload, rows)
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


def on_account(spec: PipelineSpec, tenant: TenantName) -> PipelineSpec:
    """Return a pipeline on account of a tenant."""
    stages = (replace(stage, workload=replace(stage.workload, tenant=tenant)) for stage in spec.stages)
    return replace(spec, stages=tuple(stages))


def _totals(plan: Plan) -> dict[RegionName, int]:
    return {
        region.region: sum(
            group.count * group.total.gpu_milli for one in region.inventories for group in one.groups
        )
        for region in plan.regions
    }
