"""The spool of one worker, for emulated tasks: what runs on its nodes, whether or not the worker lives.

An emulated task takes time, checkpoints and fails; its progress is a function of its start, so nothing is lost with the
worker. A share is one attempt's tasks on the worker's nodes; they run and end together. The highest sequence obeyed lives
here too: it is the fence that a new worker starts behind.
"""

from collections.abc import Callable

import structlog
from msgspec import Struct
from msgspec.structs import replace

from core.agenda import Agenda
from core.component import Effect
from core.effects import FindTasks, ForgetShare, KeepFence, PrepareShare, StartShare, StopShare
from core.messages.workers import PrepareTasks, TasksChanged, TasksFound, TasksPhase, TasksState
from core.nouns.ids import AttemptKey
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, after
from core.nouns.workload import Emulation
from runtime.clock import Clock
from runtime.effects import Done
from runtime.wake import Wake

logger = structlog.get_logger()

EXIT_STOPPED = 143
"""128 + SIGTERM, as a shell reports it."""
STEP: Nanoseconds = Nanoseconds(MILLISECOND)
"""Progress in one step of an emulated task."""


class Share(Struct):
    """One attempt's tasks on these nodes."""

    state: TasksState
    command: PrepareTasks
    started_at: Instant = Instant(0)
    saves_at: Instant | None = None
    ends_at: Instant | None = None
    exit_code: int = 0
    """At `ends_at`."""

    @property
    def is_live(self) -> bool:
        """Whether any of it may be running."""
        return self.state.phase in (TasksPhase.RUNNING, TasksPhase.STOPPING)


class EmulatedSpool:
    """Emulated tasks on one worker's nodes. Outlives the worker."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.shares: dict[AttemptKey, Share] = {}
        self.sequence = 0
        self.starts = 0
        self._clock = clock
        self._wake = Wake(clock)
        self._due: Agenda[AttemptKey] = Agenda()
        self._done: Done | None = None
        self.on_start: Callable[[AttemptKey, Share], None] | None = None
        """Told of every share as it starts to run: a watcher's, not the worker's."""

    # Doer.

    def attach(self, done: Done) -> None:
        """A worker has just started; the one before it hears nothing more."""
        self._done = done

    def detach(self) -> None:
        """The worker is gone."""
        self._done = None

    def begin(self, effect: Effect) -> None:
        """Do what the worker asks for, at once."""
        self.do(effect, self._clock.now())

    def do(self, effect: Effect, now: Instant) -> None:
        """The same, as of then."""
        match effect:
            case FindTasks():
                self.starts += 1
                found = TasksFound(
                    tuple(share.state for share in self.shares.values()), self.sequence, self.starts
                )
                if self._done is not None:
                    self._done(found)
            case PrepareShare(command):
                self._raise(command.sequence)
                self._prepare(command)
            case StartShare(workload, epoch, sequence):
                self._raise(sequence)
                self._start((workload, epoch), now)
            case StopShare(workload, epoch, sequence, grace):
                self._raise(sequence)
                self._stop((workload, epoch), Nanoseconds(grace), now)
            case ForgetShare(workload, epoch, sequence):
                self._raise(sequence)
                self.shares.pop((workload, epoch), None)
                self._due.drop((workload, epoch))
            case KeepFence(sequence):
                self._raise(sequence)

    def _raise(self, sequence: int) -> None:
        self.sequence = max(self.sequence, sequence)

    def _prepare(self, command: PrepareTasks) -> None:
        key = (command.workload, command.epoch)
        if key not in self.shares:
            self.shares[key] = Share(TasksState(*key, TasksPhase.PREPARED), command)
        self._tell(self.shares[key])

    def _start(self, key: AttemptKey, now: Instant) -> None:
        share = self.shares.get(key)
        if share is None or share.state.phase != TasksPhase.PREPARED:
            return
        share.started_at = now
        share.ends_at = after(now, self._fate_of(share))
        share.saves_at = self._next_save(share, now)
        self._schedule(key, share)
        self._change(share, TasksPhase.RUNNING)
        if self.on_start is not None:
            self.on_start(key, share)

    def _fate_of(self, share: Share) -> Nanoseconds:
        """How long it will run; its exit code is set."""
        span, share.exit_code = _span_and_exit(share.command)
        return span

    def _stop(self, key: AttemptKey, grace: Nanoseconds, now: Instant) -> None:
        """SIGTERM: it writes a checkpoint and leaves, if its grace is long enough; SIGKILL otherwise."""
        share = self.shares.get(key)
        if share is None or share.state.phase in (TasksPhase.STOPPING, TasksPhase.ENDED):
            return
        if share.state.phase == TasksPhase.PREPARED:
            self._end(key, share, EXIT_STOPPED)
            return
        emulations = [job.emulation for job in share.command.jobs if job.emulation]
        stop_span = max(emulation.stop_span for emulation in emulations)
        saves = any(emulation.checkpoint_every for emulation in emulations) and stop_span <= grace
        if saves and share.command.is_leader:
            share.state = replace(share.state, saved_step=self._step(share, now))
        share.saves_at = None
        share.exit_code = EXIT_STOPPED
        share.ends_at = after(now, min(stop_span, grace))
        self._schedule(key, share)
        self._change(share, TasksPhase.STOPPING)

    # Time: one coroutine.

    async def run(self) -> None:
        """Let tasks save and end when their time has come, for ever."""
        while True:
            await self._wake.wait(self.catch_up(self._clock.now()))

    def catch_up(self, now: Instant) -> Instant | None:
        """Let all pass that has come due, each at its own time, also after a long pause; when the next is due."""
        while (due := self._due.due()) is not None and due <= now:
            for key in self._due.passed(due):
                self._pass(key, self.shares[key], due)
        return due

    def close(self) -> None:
        """Let go of its timer."""
        self._wake.close()

    def _pass(self, key: AttemptKey, share: Share, now: Instant) -> None:
        if share.ends_at is not None and share.ends_at <= now:
            self._end(key, share, share.exit_code)
            return
        assert share.saves_at is not None, key
        share.state = replace(share.state, saved_step=self._step(share, share.saves_at))
        share.saves_at = self._next_save(share, share.saves_at)
        self._schedule(key, share)
        self._tell(share)

    def _end(self, key: AttemptKey, share: Share, exit_code: int) -> None:
        self._due.drop(key)
        share.ends_at = share.saves_at = None
        share.state = replace(share.state, phase=TasksPhase.ENDED, exit_code=exit_code)
        self._tell(share)

    def _schedule(self, key: AttemptKey, share: Share) -> None:
        assert share.ends_at is not None, key
        self._due.put(key, share.ends_at if share.saves_at is None else min(share.ends_at, share.saves_at))
        self._wake.ring()

    def _next_save(self, share: Share, now: Instant) -> Instant | None:
        every = [
            job.emulation.checkpoint_every
            for job in share.command.jobs
            if job.emulation and job.emulation.checkpoint_every
        ]
        return after(now, min(every)) if every and share.command.is_leader else None

    def _step(self, share: Share, at: Instant) -> int:
        return share.command.resume_step + (at - share.started_at) // STEP

    def _change(self, share: Share, phase: TasksPhase) -> None:
        share.state = replace(share.state, phase=phase)
        self._tell(share)

    def _tell(self, share: Share) -> None:
        if self._done is not None:
            self._done(TasksChanged(share.state))


def _span_and_exit(command: PrepareTasks) -> tuple[Nanoseconds, int]:
    """How long the share runs from now on, and the exit code it ends with: the first failure, or the longest job's end."""
    mine: list[Emulation] = [
        job.emulation
        for job, spread in zip(command.jobs, command.spreads, strict=True)
        if job.emulation and spread.nodes
    ]
    done = command.resume_step * STEP
    span = max((max(1, emulation.work - done) for emulation in mine), default=1)
    failures = [(emulation.fails_after, emulation.exit_code) for emulation in mine if emulation.fails_after]
    first = min(failures, default=None)
    if first is not None and first[0] < span:
        return Nanoseconds(first[0]), first[1]
    return Nanoseconds(span), 0
