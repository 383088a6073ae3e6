"""A worker's spool with real processes under it, and what it says."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from core.component import Effect
from core.effects import FindTasks, ForgetShare, PrepareShare, StartShare, StopShare
from core.messages.base import Message, Refused
from core.messages.output import OutputPage, ReadOutput
from core.messages.workers import PrepareTasks, TasksChanged, TasksFound, TasksPhase, TasksState
from core.nouns.ids import RegionName, ShareKey, WorkerName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.operation import WHOLE, task_number
from core.nouns.placement import Spread
from core.nouns.quantities import Amount
from core.nouns.workload import Emulation, JobSpec, Program
from runtime.clock import Clock, wall_now
from runtime.tasks import processes
from runtime.tasks.output import page_of
from runtime.tasks.share import TaskLimits
from runtime.tasks.slots import Device
from runtime.tasks.spool import TaskSpool
from tests.mizzen.processes import until

JOB = WorkloadId("w-1")
PATIENCE_SECONDS = 20.0
"""What must come comes at once; on a machine that is busy beyond measure it may take so long."""
GRACE = seconds(15)
"""Longer than a test may take: whoever ends within it was not killed for its sake."""
EXIT_KILLED = 137
EXIT_STOPPED = 143


class Nodes:
    """A spool that runs, and all that its worker heard."""

    def __init__(
        self,
        directory: Path,
        limits: TaskLimits | None,
        inherited: Mapping[str, str],
        devices: Sequence[Device] | None,
    ) -> None:
        clock = Clock(asyncio.get_running_loop(), wall_now())
        self.spool = TaskSpool(
            "worker.here.w0", clock, directory, limits=limits, inherited=inherited, devices=devices
        )
        self.heard: list[Message] = []
        self.spool.attach(self.heard.append)
        self.spool.begin(FindTasks())

    def begin(self, *effects: Effect) -> None:
        for effect in effects:
            self.spool.begin(effect)

    async def prepare(self, command: PrepareTasks) -> TasksState:
        """Until it is."""
        self.begin(PrepareShare(command))
        return await self.until(TasksPhase.PREPARED, command.epoch, command.task, command.run)

    async def start(self, command: PrepareTasks) -> TasksState:
        """Prepare it, start it, and wait until it runs, or has run."""
        await self.prepare(command)
        self.begin(StartShare(command.key, command.sequence))
        return await self.until(TasksPhase.RUNNING, command.epoch, command.task, command.run)

    async def finish(self, command: PrepareTasks) -> TasksState:
        """Let it run to its end."""
        await self.prepare(command)
        self.begin(StartShare(command.key, command.sequence))
        return await self.until(TasksPhase.ENDED, command.epoch, command.task, command.run)

    async def stop(self, epoch: int = 1, grace: int = GRACE) -> TasksState:
        """Stop it, and wait until it has."""
        self.begin(StopShare(ShareKey(JOB, epoch), 20, grace))
        return await self.until(TasksPhase.ENDED, epoch)

    def forget(self, epoch: int = 1) -> None:
        self.begin(ForgetShare(ShareKey(JOB, epoch), 30))

    @property
    def found(self) -> TasksFound:
        """What a worker was told that had just started."""
        (found,) = [message for message in self.heard if isinstance(message, TasksFound)]
        return found

    def states(self, epoch: int = 1, task: int = WHOLE, run: int = 0) -> list[TasksState]:
        """All that was said of a share, in order, what was found included."""
        said: list[TasksState] = []
        for message in self.heard:
            if isinstance(message, TasksChanged):
                said.append(message.tasks)
            elif isinstance(message, TasksFound):
                said.extend(message.tasks)
        return [state for state in said if state.key == ShareKey(JOB, epoch, task, run)]

    def phases(self, epoch: int = 1, task: int = WHOLE, run: int = 0) -> list[str]:
        return [str(state.phase) for state in self.states(epoch, task, run)]

    async def until(self, phase: TasksPhase, epoch: int = 1, task: int = WHOLE, run: int = 0) -> TasksState:
        """Wait until a share is in this phase, or was."""
        await self.until_true(
            lambda: phase in self.phases(epoch, task, run), lambda: f"{self.states(epoch, task, run)}"
        )
        return [state for state in self.states(epoch, task, run) if state.phase == phase][-1]

    async def until_true(self, holds: Callable[[], bool], what: Callable[[], str] = lambda: "") -> None:
        await until(holds, PATIENCE_SECONDS, what)

    def output(self, rank: int = 0, job: str = "job-0", epoch: int = 1) -> str:
        """All that a task wrote, as it stands."""
        return read(self.spool.layout.outputs, rank, job, epoch).decode(errors="replace")

    async def until_said(self, text: str, rank: int = 0, epoch: int = 1) -> str:
        """Wait until a task wrote it; all that it wrote."""
        await self.until_true(
            lambda: text in self.output(rank, epoch=epoch), lambda: self.output(rank, epoch=epoch)
        )
        return self.output(rank, epoch=epoch)

    async def until_nobody(self) -> None:
        """Wait until nothing of any task is there, runners included: they end a moment after their last word."""
        await self.until_true(lambda: not self.alive, lambda: f"{self.alive}")

    @property
    def alive(self) -> list[int]:
        """Every process that descends from a task of this spool."""
        return [pid for pid, _ in processes.marked_under(str(self.spool.layout.shares))]


@asynccontextmanager
async def nodes(
    directory: Path,
    *,
    limits: TaskLimits | None = None,
    inherited: Mapping[str, str] | None = None,
    devices: Sequence[Device] | None = None,
) -> AsyncIterator[Nodes]:
    """A spool that runs until the block ends. What runs in it goes on."""
    seen = {"PATH": os.environ["PATH"]} if inherited is None else inherited
    made = Nodes(directory, limits, seen, devices)
    running = asyncio.get_running_loop().create_task(made.spool.run(), name="spool")
    try:
        yield made
        assert not running.done(), running
    finally:
        running.cancel()
        await asyncio.wait([running])
        made.spool.close()


def read(outputs: Path, rank: int = 0, job: str = "job-0", epoch: int = 1) -> bytes:
    """All that is there of a task's output."""
    data, offset = b"", 0
    while True:
        page = page_of(outputs, asked(offset, rank, job, epoch))
        if isinstance(page, Refused):
            return data
        assert isinstance(page, OutputPage)
        data, offset = data + page.data, page.next_offset
        if not page.data:
            return data


def asked(offset: int, rank: int = 0, job: str = "job-0", epoch: int = 1) -> ReadOutput:
    """A question for output, for pages that are small."""
    return ReadOutput(RegionName("here"), WorkerName("w0"), JOB, epoch, job, rank, offset, 65_536)


def prepare(*programs: Program | str, tasks: int = 1, epoch: int = 1, **changed: object) -> PrepareTasks:
    """A command to prepare such jobs, each with so many tasks, all on this node."""
    jobs = tuple(
        JobSpec(
            f"job-{index}",
            tasks,
            Amount(1000),
            "cpu",
            program=Program(program) if isinstance(program, str) else program,
        )
        for index, program in enumerate(programs)
    )
    return command_of(jobs, tasks, epoch, **changed)


def alone(command: PrepareTasks, rank: int, *, group: int = 0, run: int = 0) -> PrepareTasks:
    """The same for one task of the first job, which stands alone, on a node that is the job's so many-th."""
    others = len(command.jobs) - 1
    return replace(
        command,
        spreads=(Spread((group,), (1,)), *(Spread((), ()),) * others),
        ranks=((rank,), *((),) * others),
        groups=((group,), *((),) * others),
        task=task_number(0, rank),
        run=run,
    )


def emulated(work_seconds: float, epoch: int = 1, **more: float) -> PrepareTasks:
    """A command to prepare an emulated task, whatever else is named in seconds too."""
    spans: dict[str, Any] = {name: seconds(value) for name, value in more.items()}  # Any: fields by name
    job = JobSpec("job-0", 1, Amount(1000), "cpu", Emulation(seconds(work_seconds), **spans))
    return command_of((job,), 1, epoch)


def command_of(jobs: tuple[JobSpec, ...], tasks: int, epoch: int, **changed: object) -> PrepareTasks:
    """A command to prepare these jobs, so many tasks of each, on this node."""
    command = PrepareTasks(
        RegionName("here"),
        WorkerName("w0"),
        10 + epoch,
        JOB,
        epoch,
        jobs,
        (Spread((0,), (tasks,)),) * len(jobs),
        is_leader=True,
    )
    return replace(command, **changed)
