"""What a worker has its effects done by: tasks on this machine, real and emulated, in a directory that outlives it.

The fence and the count of starts are on disk before anything is done: whoever starts next obeys nothing older, and its
reports come after those before. Not synced: what a power cut takes from the file it takes from the tasks too.
"""

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.component import Effect
from core.effects import (
    FindTasks,
    ForgetShare,
    KeepFence,
    KeepHeard,
    LookAtNodes,
    PrepareShare,
    StartShare,
    StopShare,
    TellRefused,
)
from core.messages.base import Message
from core.messages.workers import NodesLooked, PrepareTasks, TasksChanged, TasksFound, TasksPhase, TasksState
from core.nouns.ids import ShareKey
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import OUTPUTS_INTERVAL
from runtime.clock import Clock
from runtime.effects import Done, tell_refused
from runtime.spool import cancelled
from runtime.tasks.book import BookFiles
from runtime.tasks.cleanup import Rubbish
from runtime.tasks.emulated import EmulatedLender, EmulatedOnDisk
from runtime.tasks.errors import SpoolDamaged
from runtime.tasks.health import Health
from runtime.tasks.layout import Layout, attempt_name, share_name
from runtime.tasks.lock import SpoolLock
from runtime.tasks.programs import SOON, Programs
from runtime.tasks.retention import Retention
from runtime.tasks.share import TaskLimits
from runtime.tasks.slots import Device, find_devices
from runtime.tasks.tasks_first import Clearing, Fits, TaskBook, any_executors, kill_executor
from runtime.wake import Wake


class QuotaHold(Struct, frozen=True):
    """What must never be forgotten."""

    starts: int = 0
    sequence: int = 0


class TaskSpool:
    """One worker's tasks. It is a `Nodes` of runtime/process.py."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        directory: Path,
        *,
        host: str = "127.0.0.1",
        devices: Sequence[Device] | None = None,
        limits: TaskLimits | None = None,
        inherited: Mapping[str, str] | None = None,
        checkpoints: Path | None = None,
    ) -> None:
        """Finds what runs there. Made in a running loop.

        host       the address under which other nodes reach tasks of this one
        devices    of this machine; found if not named
        inherited  the environment of which tasks see a little; that of this process if not named
        checkpoints  where attempts keep them unless their program names a place; in the spool if not named

        Raises SpoolInUse, SpoolDamaged, and OSError when the directory cannot be used.
        """
        limits = limits or TaskLimits()
        self.name = name
        self.layout = Layout(directory, checkpoints)
        self.layout.make()
        self._lock = SpoolLock(self.layout.lock)
        self._clock = clock
        self._wake = Wake(clock)
        self._done: Done | None = None
        self._has_found = False
        found = find_devices() if devices is None else devices
        self._health = Health(found, self._looked)
        try:
            self._kept = _read(self.layout.kept)
            self._rubbish = Rubbish(self.layout.rubbish)
            self._rubbish.remove()
            book = TaskBook(BookFiles(self.layout.book), clock.now, kill_executor)
            self._clearing = Clearing(book)
            self._emulated = EmulatedOnDisk(
                name,
                clock,
                self.layout.emulated,
                self._change,
                self.layout.emulated_holdings,
                EmulatedLender(self._clearing),
            )
            self._programs = Programs(
                self.layout,
                self._rubbish,
                host=host,
                devices=found,
                limits=limits,
                inherited=os.environ if inherited is None else inherited,
                changed=self._wake.ring,
                tell=self._tell,
                clearing=self._clearing,
            )
            self._keep_taken(book)
        except BaseException:
            self._lock.release()
            raise
        self._retention = Retention(
            self.layout.outputs, self._rubbish, limits.outputs_bytes_max, limits.outputs_span
        )
        self._sweeps_at = clock.now()

    # Nodes of runtime/process.py.

    def attach(self, done: Done) -> None:
        """A worker has just started; the one before it hears nothing more, and this one nothing before it asks."""
        self._done = done
        self._has_found = False

    def begin(self, effect: Effect) -> None:
        """Do it. What it hears comes with its next turn, after what it changed is on disk."""
        match effect:
            case FindTasks():
                self._keep(replace(self._kept, starts=self._kept.starts + 1))
                self._find()
            case PrepareShare(command):
                self._raise(command.sequence)
                self._prepare(command)
            case (
                StartShare(sequence=sequence) | StopShare(sequence=sequence) | ForgetShare(sequence=sequence)
            ):
                self._raise(sequence)
                self._pass_on(effect)
            case KeepFence(sequence):
                self._raise(sequence)
            case KeepHeard(age):
                self._emulated.begin(effect)
                self._programs.keep_heard(time.monotonic_ns() - age)
            case TellRefused(problems):
                tell_refused(self.name, problems)
            case LookAtNodes(nodes):
                self._health.look()
                self._hear(NodesLooked(self._health.ill, nodes))
        self._wake.ring()

    async def run(self) -> None:
        """Let tasks go on, for ever."""
        while True:
            now = self._clock.now()
            for command in self._clearing.passed():
                self._prepare_now(command)
            due = earliest(
                self._clearing.due(now),
                self._emulated.catch_up(now),
                self._programs.look(now),
                self._health.look_in_time(now),
                self._sweep(now),
            )
            await self._wake.wait(due)

    def close(self) -> None:
        """Let go of everything. Tasks run on."""
        self._wake.close()
        self._emulated.close()
        self._programs.close()
        self._rubbish.reap()
        self._lock.release()

    # Helpers.

    def _prepare(self, command: PrepareTasks) -> None:
        """Prepare a share, once no executor is in its way."""
        is_program, is_known = _is_program(command), self._knows(command.key)
        try:
            if is_known or self._clearing.admit(command, self._fits(command)):
                self._prepare_now(command)
        except OSError as error:
            if not is_program:
                raise
            self._programs.refuse(command, error)

    def _prepare_now(self, command: PrepareTasks) -> None:
        if _is_program(command):
            if not self._programs.prepare(command):
                self._clearing.wait(command, self._fits(command))
        else:
            if not self._emulated.knows(command.key):
                self._clearing.have(command)
            self._emulated.begin(PrepareShare(command))

    def _fits(self, command: PrepareTasks) -> Fits:
        """Return whether a share could have devices beside executors."""
        return partial(self._programs.has_slots, command) if _is_program(command) else any_executors

    def _knows(self, key: ShareKey) -> bool:
        return key in self._programs.shares or self._emulated.knows(key)

    def _keep_taken(self, book: TaskBook) -> None:
        """Take out of the device book whatever does not live any more."""
        emulated = [one.key for one in self._emulated.states() if one.phase != TasksPhase.ENDED]
        programs = [key for key, one in self._programs.shares.items() if one.phase != TasksPhase.ENDED]
        book.keep(map(share_name, (*emulated, *programs)))
        self._clearing.adopt((*emulated, *programs))

    def _pass_on(self, effect: StartShare | StopShare | ForgetShare) -> None:
        if isinstance(effect, StopShare) and self._clearing.cancel(effect.key):
            self._tell(cancelled(effect.key))
            return
        if effect.key not in self._programs.shares:
            self._emulated.begin(effect)
            return
        match effect:
            case StartShare():
                self._programs.start(effect)
            case StopShare():
                self._programs.stop(effect)
            case ForgetShare():
                self._programs.forget(effect)

    def _find(self) -> None:
        self._has_found = True
        tasks = (*self._emulated.states(), *self._programs.states())
        if self._done is not None:
            self._done(TasksFound(tasks, self._kept.sequence, self._kept.starts))
        if self._health.ill:
            self._looked()

    def _tell(self, state: TasksState) -> None:
        self._change(TasksChanged(state))

    def _change(self, message: Message) -> None:
        """A share has changed: one that has ended has nothing any more."""
        if isinstance(message, TasksChanged) and message.tasks.phase == TasksPhase.ENDED:
            self._clearing.give_back(message.tasks.key)
        self._hear(message)

    def _looked(self) -> None:
        self._hear(NodesLooked(self._health.ill))

    def _hear(self, message: Message) -> None:
        if self._done is not None and self._has_found:
            self._done(message)

    def _raise(self, sequence: int) -> None:
        if sequence > self._kept.sequence:
            self._keep(replace(self._kept, sequence=sequence))

    def _keep(self, kept: QuotaHold) -> None:
        """Whole or not at all."""
        self._kept = kept
        unfinished = self.layout.kept.with_suffix(".new")
        unfinished.write_bytes(msgspec.json.encode(kept))
        unfinished.replace(self.layout.kept)

    def _sweep(self, now: Instant) -> Instant:
        """Outputs within their limits, and the processes that remove rubbish let go of."""
        if now >= self._sweeps_at:
            self._sweeps_at = after(now, OUTPUTS_INTERVAL)
            self._retention.sweep({attempt_name(key.attempt) for key in self._programs.shares}, now)
        self._rubbish.reap()
        return after(now, SOON) if self._rubbish.is_removing else self._sweeps_at


def _is_program(command: PrepareTasks) -> bool:
    return any(job.program for job in command.jobs)


def _read(path: Path) -> QuotaHold:
    """Raises SpoolDamaged."""
    if not path.exists():
        return QuotaHold()
    try:
        return msgspec.json.decode(path.read_bytes(), type=QuotaHold)
    except msgspec.MsgspecError as error:
        raise SpoolDamaged(path, str(error)) from error
