"""One share of programs: what was commanded, its tasks, and what is so of it by their files.

    every task has ended                            ended, with the first exit code that was not zero
    it was told to stop, or a task ended badly      stopping: the others are told
    a runner is not there yet                       nobody hears of it
    every task was started                          running
    otherwise                                       prepared

Nothing of this is remembered, so a new worker finds it as the last one left it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from core.messages.workers import ISOLATED, LOST, PrepareTasks, TasksPhase, TasksState
from core.nouns.fleet import CPU_TYPE
from core.nouns.harvest import LentPart
from core.nouns.instant import Nanoseconds
from core.nouns.limits import (
    CHECKPOINT_LOOK,
    GRACE,
    OUTPUT_SEGMENT_BYTES,
    OUTPUT_SEGMENTS_MAX,
    OUTPUTS_BYTES_MAX,
    OUTPUTS_SPAN,
    PREPARED_SPAN,
    RUNNER_BEAT,
)
from core.nouns.workload import NEVER
from runtime.tasks import running
from runtime.tasks.environment import (
    Addresses,
    Place,
    SecretMissing,
    checkpoints_of,
    environment_of,
    of_holding,
    of_lending,
    program_of,
    run_of,
    secrets_of,
    without_lost_checkpoint,
)
from runtime.tasks.errors import SpoolDamaged
from runtime.tasks.layout import WORK, Layout, task_name
from runtime.tasks.slots import cpus_of
from runtime.tasks.task import Task, TaskState

logger = structlog.get_logger()

SHELL = "/bin/sh"

assert (LOST, ISOLATED) == (running.LOST, running.ISOLATED)


class TaskLimits(Struct, frozen=True):
    """What a task may take; other figures are for tests."""

    prepared_span: Nanoseconds = PREPARED_SPAN
    beat: Nanoseconds = RUNNER_BEAT
    checkpoint_look: Nanoseconds = CHECKPOINT_LOOK
    output_segment_bytes: int = OUTPUT_SEGMENT_BYTES
    output_segments_max: int = OUTPUT_SEGMENTS_MAX
    outputs_bytes_max: int = OUTPUTS_BYTES_MAX
    outputs_span: Nanoseconds = OUTPUTS_SPAN

    def fields(self) -> dict[str, str]:
        """As a runner reads them."""
        return {
            "wait": str(self.prepared_span),
            "beat": str(self.beat),
            "look": str(self.checkpoint_look),
            "segment_bytes": str(self.output_segment_bytes),
            "segments_max": str(self.output_segments_max),
        }


class Commanded(Struct, frozen=True):
    """What a share is, as its file holds it."""

    command: PrepareTasks
    host: str
    ports: tuple[int, ...]
    places: tuple[Place, ...]
    grace: int | None = None
    """Once it was told to stop."""


class ProgramShare:
    """One attempt's tasks on these nodes, or one run of one of them."""

    def __init__(
        self, layout: Layout, directory: Path, commanded: Commanded, changed: Callable[[], None]
    ) -> None:
        self.directory = directory
        self.commanded = commanded
        self.key = commanded.command.key
        self.told: TasksState | None = None
        """What the worker last heard."""
        self.lends: tuple[LentPart, ...] = ()
        """By node, what functions may use of it for now (lending.py)."""
        self._layout = layout
        output = layout.output(self.key.attempt)
        names = [task_name(commanded.command.jobs[place.job].name, place.rank) for place in commanded.places]
        self.tasks = [
            Task(self.directory / name, output / name, place, changed)
            for name, place in zip(names, commanded.places, strict=True)
        ]

    @property
    def phase(self) -> TasksPhase | None:
        """Where it is; None before all of its runners are there."""
        phases = [task.phase for task in self.tasks]
        if all(phase == running.ENDED for phase in phases):
            return TasksPhase.ENDED
        if self._why_stop() is not None:
            return TasksPhase.STOPPING
        if not all(phases):
            return None
        is_running = all(phase in (running.STARTED, running.ENDED) for phase in phases)
        return TasksPhase.RUNNING if is_running else TasksPhase.PREPARED

    @property
    def is_live(self) -> bool:
        """Whether any of it may run, or wait to run."""
        return self.phase != TasksPhase.ENDED

    @property
    def state(self) -> TasksState | None:
        """What the worker is to hear of it."""
        phase = self.phase
        if phase is None:
            return None
        saved = max(task.state.saved if task.state else 0 for task in self.tasks)
        failed = self._first_failed() if phase == TasksPhase.ENDED else None
        return TasksState(
            self.key.workload,
            self.key.epoch,
            phase,
            saved,
            failed[1].exit_code if failed else 0,
            self.commanded.host,
            self.commanded.ports,
            self.key.task,
            self.key.run,
            self._failed_nodes(failed),
            () if phase == TasksPhase.ENDED else self.lends,
        )

    def keep(self) -> None:
        """Write what it is, whole or not at all. Raises OSError."""
        unfinished = self.directory / "share.new"
        unfinished.write_bytes(msgspec.json.encode(self.commanded))
        unfinished.replace(self.directory / "share.json")

    def spawn(self, limits: TaskLimits) -> None:
        """Start the runners, which wait. Raises OSError."""
        work = self._layout.output(self.key.attempt) / WORK
        work.mkdir(mode=0o700, parents=True, exist_ok=True)
        for task in self.tasks:
            task.spawn(self._task_fields(task, work) | limits.fields())

    def start(self, addresses: Addresses, inherited: Mapping[str, str]) -> None:
        """Tell every runner to go, or why its task cannot. Raises OSError."""
        command = self.commanded.command
        if not addresses.masters:
            addresses = self._own_addresses()
        for task in self.tasks:
            environ = environment_of(
                command, task.place, addresses, task.files, self._layout.checkpoints, inherited
            )
            environ |= of_holding(
                command, task.place, f"{self.directory.name}.{task.directory.name}", self._layout.book
            )
            environ |= of_lending(task.place, self._layout.told)
            task.note(without_lost_checkpoint(environ))
            try:
                secrets = secrets_of(program_of(command, task.place), inherited, self._layout.secrets)
            except SecretMissing as error:
                task.fail(running.NOT_STARTED, f"mizzen: the task cannot be started: {error}\n")
            else:
                task.go(environ, secrets)

    def stop(self, grace: int) -> None:
        """From now on it is to end."""
        if self.commanded.grace is None:
            self.commanded = replace(self.commanded, grace=grace)
            try:
                self.keep()
            except OSError as error:  # It stops all the same.
                logger.error("stop_not_kept", share=str(self.directory), error=str(error))
        self.enforce()

    def enforce(self) -> None:
        """If it is to end, every task is told: also those whom the last worker had no time to tell."""
        grace = self._why_stop()
        if grace is not None:
            for task in self.tasks:
                warning = program_of(self.commanded.command, task.place).early_warning
                task.stop(grace, warning if self.commanded.grace is not None else NEVER)

    def close(self) -> list[int]:
        """Let go of it; it runs on. Returns children that have not been reaped."""
        return [pid for task in self.tasks if (pid := task.close())]

    def _why_stop(self) -> int | None:
        """The grace with which its tasks end, if they are to."""
        if self.commanded.grace is not None:
            return self.commanded.grace
        has_failed = any(task.state is not None and task.state.exit_code for task in self.tasks)
        return GRACE if has_failed else None

    def _first_failed(self) -> tuple[Task, TaskState] | None:
        """The first in time whose exit code was not zero."""
        ends = [(task, task.state) for task in self.tasks if task.state is not None and task.state.exit_code]
        return min(ends, key=lambda end: end[1].at, default=None)

    def _failed_nodes(self, failed: tuple[Task, TaskState] | None) -> tuple[int, ...]:
        """Where it failed by itself: what was told to stop, or was left alone, says nothing about its node."""
        if failed is None or failed[1].exit_code == ISOLATED or self.commanded.grace is not None:
            return ()
        return (failed[0].place.node,)

    def _own_addresses(self) -> Addresses:
        """Of a gang that is all here, or of a task that stands alone."""
        spreads = self.commanded.command.spreads
        host = self.commanded.host
        return Addresses(
            tuple(f"{host}:{port}" for port in self.commanded.ports),
            tuple((host,) * len(spread.nodes) for spread in spreads),
        )

    def _task_fields(self, task: Task, work: Path) -> dict[str, str]:
        """What its runner must know before it is told to go."""
        command, place = self.commanded.command, task.place
        program = program_of(command, place)
        checkpoints = checkpoints_of(command, place, self._layout.checkpoints) / str(command.epoch)
        is_first = command.is_leader and (place.job, place.rank) == (0, 0)
        is_for_cpus = command.jobs[place.job].gpu_type == CPU_TYPE
        return {
            "name": f"{self.directory.name}/{task.directory.name}",
            "told": str(self._layout.told),
            "output": str(task.output),
            "shell": SHELL,
            "run": run_of(command, place),
            "directory": program.directory or str(work),
            "cpus": ",".join(map(str, cpus_of(place.slots))) if is_for_cpus and place.slots else "",
            "checkpoints": str(checkpoints) if is_first else "",
            "isolation": str(command.isolation),
            "isolated_grace": str(GRACE),
            "heard": str(self._layout.heard),
        }


def read_share(layout: Layout, directory: Path, changed: Callable[[], None]) -> ProgramShare | None:
    """A share that another process commanded, its tasks found again; None when it was never whole. Raises SpoolDamaged."""
    path = directory / "share.json"
    try:
        commanded = msgspec.json.decode(path.read_bytes(), type=Commanded)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise SpoolDamaged(path, str(error)) from error
    share = ProgramShare(layout, directory, commanded, changed)
    for task in share.tasks:
        task.adopt()
    return share
