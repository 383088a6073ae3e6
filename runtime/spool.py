"""The spool of one worker, for emulated tasks: what runs on its nodes, whether or not the worker lives.

An emulated task takes time, checkpoints and fails; its progress is a function of its start and of the times at which a partner on its
device came and went, so nothing is lost with the worker. A share is one attempt's tasks on the worker's nodes, which run and end together, or one run of one task that stands
alone. The highest sequence obeyed lives here too: it is the fence that a new worker starts behind.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import structlog
from msgspec import Struct
from msgspec.structs import replace

from core.agenda import Agenda
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
from core.messages.workers import (
    ISOLATED,
    NodesLooked,
    PrepareTasks,
    TasksChanged,
    TasksFound,
    TasksPhase,
    TasksState,
)
from core.nouns.harvest import LentPart
from core.nouns.ids import ShareKey
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds, after, earliest
from core.nouns.limits import CHECKPOINT_EVERY_MIN, GRACE
from core.nouns.sharing import MICRO_STEPS, WHOLE
from core.nouns.workload import Emulation, JobSpec
from runtime.clock import Clock
from runtime.effects import Done, tell_refused
from runtime.emulated.lending import EmulatedLending, Lender, Lends
from runtime.emulated.pairs import Pairs
from runtime.wake import Wake

logger = structlog.get_logger()

EXIT_STOPPED = 143
"""128 + SIGTERM, as a shell reports it."""
STEP: Nanoseconds = Nanoseconds(MILLISECOND)
"""Progress in one step of an emulated task."""
LETTING_GO: Nanoseconds = Nanoseconds(500 * MILLISECOND)
"""Time that a task which serves functions takes at least to stop, within its grace: executors leave it meanwhile."""
SAVES_BEHIND_MAX = 1_000
"""The most missed checkpoints that are made up for one by one after a pause; of more, only the newest counts."""


class Share(Struct):
    """One attempt's tasks on these nodes, or one run of one of them."""

    state: TasksState
    command: PrepareTasks
    started_at: Instant = Instant(0)
    saves_at: Instant | None = None
    ends_at: Instant | None = None
    exit_code: int = 0
    """At `ends_at`."""
    failed_nodes: tuple[int, ...] = ()
    """The same: where tasks fail first then."""
    is_isolated: bool = False
    """It was strict, and its region not heard: it stops, and need not stop again."""
    span: Nanoseconds = Nanoseconds(0)
    """How long it runs from its start to its end, alone on its device."""
    part: int = WHOLE
    """Millionths of its speed that it keeps beside its partner, since `paced_at`."""
    paced_at: Instant = Instant(0)
    ran: Nanoseconds = Nanoseconds(0)
    """How long a share alone would have run to be where it was at `paced_at`."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """All that it has tasks on."""
        return tuple(sorted({node for spread in self.command.spreads for node in spread.nodes}))

    @property
    def is_live(self) -> bool:
        """Whether any of it may be running."""
        return self.state.phase in (TasksPhase.RUNNING, TasksPhase.STOPPING)

    @property
    def is_serving(self) -> bool:
        """Return whether functions may use what any of its tasks holds."""
        return any(job.serves for job in self.command.jobs)


class Clearing(Protocol):
    """Has executors of functions leave before tasks are prepared (runtime/tasks/tasks_first.py)."""

    def admit(self, command: PrepareTasks) -> bool:
        """Return whether a share can be prepared now; else `passed` tells when."""

    def passed(self) -> list[PrepareTasks]:
        """Return the shares that waited and can be prepared now."""

    def due(self, now: Instant) -> Instant | None:
        """Return when to look again."""

    def have(self, command: PrepareTasks) -> None:
        """A share is prepared, or about to be."""

    def give_back(self, key: ShareKey) -> None:
        """A share has ended, or was never there."""

    def cancel(self, key: ShareKey) -> bool:
        """Let a share wait no longer. Return whether it did."""

    def forget(self) -> None:
        """No share waits."""


def cancelled(key: ShareKey) -> TasksState:
    """Return the state of a share that was stopped before it was prepared."""
    return TasksState(*key.attempt, TasksPhase.ENDED, exit_code=EXIT_STOPPED, task=key.task, run=key.run)


class EmulatedSpool:
    """Emulated tasks on one worker's nodes. Outlives the worker."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.shares: dict[ShareKey, Share] = {}
        self.sequence = 0
        self.starts = 0
        self._clock = clock
        self._wake = Wake(clock)
        self._due: Agenda[ShareKey] = Agenda()
        self._pairs = Pairs()
        self._done: Done | None = None
        self._heard_at = clock.now()
        """When the newest beat was said that the region acknowledged."""
        self._still_until = Instant(0)
        """The nodes stood still before it: whatever was to happen then happens now."""
        self.on_start: Callable[[ShareKey, Share], None] | None = None
        """Told of every share as it starts to run: a watcher's, not the worker's."""
        self.on_isolation: Callable[[ShareKey, Nanoseconds, Instant], None] | None = None
        """Told of every strict share that is to end because its region is not heard, with its grace."""
        self.clearing: Clearing | None = None
        """None: no executors run on these nodes, or somebody else has seen to it that they have left."""
        self.on_serving: Callable[[], None] | None = None
        """Told whenever what tasks hold for functions may have changed."""
        self.lending: EmulatedLending | None = None
        """None: nothing is lent, for no functions run on these nodes."""
        self.on_lent: Callable[[Share], None] | None = None
        """Told whenever a share lends another amount."""

    @property
    def ill(self) -> tuple[tuple[int, str], ...]:
        """Nodes whose hardware is ill, each with what is wrong."""
        return ()

    @property
    def is_frozen(self) -> bool:
        """Whether they stand still, and with them what runs there."""
        return False

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
                    if self.ill:
                        self._done(NodesLooked(self.ill))
            case PrepareShare(command):
                self._raise(command.sequence)
                self._prepare(command)
            case StartShare(key, sequence):
                self._raise(sequence)
                self._start(key, now)
            case StopShare(key, sequence, grace):
                self._raise(sequence)
                self._stop(key, Nanoseconds(grace), now)
            case ForgetShare(key, sequence):
                self._raise(sequence)
                self._forget(key, now)
            case KeepFence(sequence):
                self._raise(sequence)
            case KeepHeard(age):
                self._heard_at = max(self._heard_at, Instant(now - age))
            case TellRefused(problems):
                tell_refused(self.name, problems)
            case LookAtNodes(nodes):
                if self._done is not None:
                    self._done(NodesLooked(self.ill, nodes))

    def _raise(self, sequence: int) -> None:
        self.sequence = max(self.sequence, sequence)

    def _prepare(self, command: PrepareTasks) -> None:
        if command.key in self.shares:
            self._tell(self.shares[command.key])
        elif self.clearing is None or self.clearing.admit(command):
            self._prepare_now(command)
        else:
            self._wake.ring()

    def _prepare_now(self, command: PrepareTasks) -> None:
        key = command.key
        if self.clearing is not None:
            self.clearing.have(command)
        self.put(Share(TasksState(*key.attempt, TasksPhase.PREPARED, task=key.task, run=key.run), command))
        self._tell(self.shares[key])

    def put(self, share: Share) -> None:
        """Have this share from now on, as it is, in place of what is known of it."""
        key = share.command.key
        self.shares[key] = share
        self._pairs.add(share.command)
        if share.ends_at is not None:
            self._schedule(key, share)

    def component(self, key: ShareKey) -> list[ShareKey]:
        """Return the shares on which the pace of a share may have depended, without that share: its mates, theirs, and so on."""
        found = {key: None}
        waiting = [key] if key in self.shares else []
        while waiting:
            for mate in self._pairs.mates(self.shares[waiting.pop()].command):
                if mate not in found:
                    found[mate] = None
                    waiting.append(mate)
        return [mate for mate in found if mate != key]

    def _forget(self, key: ShareKey, now: Instant) -> None:
        share = self.shares.pop(key, None)
        self._due.drop(key)
        self._stop_lending(key)
        if share is not None:
            self._give_back(key)
            mates = self._pairs.mates(share.command)
            self._pairs.drop(share.command)
            self._pace_all(mates, now)
            self._tell_serving(share)

    def _start(self, key: ShareKey, now: Instant) -> None:
        share = self.shares.get(key)
        if share is None or share.state.phase != TasksPhase.PREPARED:
            return
        share.started_at = share.paced_at = now
        share.span = self._fate_of(share)
        share.ends_at = after(now, share.span)
        share.saves_at = self._next_save(share, after(now, self._set_up_of(share)))
        self._schedule(key, share)
        if self.lending is not None:
            self.lending.begin(share.command, now)
        self._change(share, TasksPhase.RUNNING)
        self._pace_all([key, *self._pairs.mates(share.command)], now)
        if self.on_start is not None:
            self.on_start(key, share)

    def _fate_of(self, share: Share) -> Nanoseconds:
        """How long it will run; its exit code is set, and where it fails."""
        span, share.exit_code, share.failed_nodes = _span_and_exit(share.command)
        return span

    def _set_up_of(self, share: Share) -> Nanoseconds:
        """How long from its start until it works."""
        return set_up_of(share.command.jobs)

    def isolate(self, key: ShareKey, grace: Nanoseconds, now: Instant) -> None:
        """Its region was not heard for too long: it stops by itself. One that is stopping may take no longer either."""
        share = self.shares[key]
        share.is_isolated = True
        if share.state.phase == TasksPhase.STOPPING:
            assert share.ends_at is not None, key
            share.ends_at = min(share.ends_at, after(now, grace))
            self._schedule(key, share)
            return
        self._stop(key, grace, now, ISOLATED)

    def _stop(self, key: ShareKey, grace: Nanoseconds, now: Instant, exit_code: int = EXIT_STOPPED) -> None:
        """SIGTERM: it writes a checkpoint and leaves, if its grace is long enough; SIGKILL otherwise."""
        share = self.shares.get(key)
        if share is None and self.clearing is not None and self.clearing.cancel(key) and self._done:
            self._done(TasksChanged(cancelled(key)))
        if share is None or share.state.phase in (TasksPhase.STOPPING, TasksPhase.ENDED):
            return
        if share.state.phase == TasksPhase.PREPARED:
            self._end(key, share, exit_code, now)
            return
        emulations = [job.emulation for job in share.command.jobs if job.emulation]
        stop_span = max(emulation.stop_span for emulation in emulations)
        if share.is_serving:
            stop_span = max(stop_span, LETTING_GO)
        saves = any(emulation.checkpoint_every for emulation in emulations) and stop_span <= grace
        if saves and share.command.is_leader:
            share.state = replace(share.state, saved_step=self._step(share, now))
        share.saves_at = None
        share.exit_code, share.failed_nodes = exit_code, ()
        share.ends_at = after(now, min(stop_span, grace))
        self._schedule(key, share)
        self._stop_lending(key)
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
                self._pass(key, self.shares[key], due, now)
        if self.lending is not None:
            self.lending.catch_up(now)
            due = earliest(due, self.lending.due())
        if self.clearing is None:
            return due
        for command in self.clearing.passed():
            self._prepare_now(command)
        return earliest(due, self.clearing.due(now))

    def look_again(self) -> None:
        """Executors have left: let shares go on that wait for that."""
        self._wake.ring()

    def close(self) -> None:
        """Let go of its timer."""
        self._wake.close()

    def _pass(self, key: ShareKey, share: Share, now: Instant, until: Instant) -> None:
        """Let what has come due by `now` happen to a share; `until` is the time up to which the spool catches up."""
        isolated_at = self._isolated_at(share)
        if share.ends_at is not None and share.ends_at <= now:
            self._end(key, share, share.exit_code, now, share.failed_nodes)
        elif share.saves_at is not None and share.saves_at <= now:
            saved_at = self._newest_save(share, share.saves_at, until)
            share.state = replace(share.state, saved_step=self._step(share, saved_at))
            share.saves_at = self._next_save(share, saved_at)
            self._schedule(key, share)
            self._tell(share)
        elif isolated_at is not None and isolated_at <= now:
            # It is gone by then whatever happens: its region counts on it, also where these nodes stood still.
            grace = Nanoseconds(max(0, after(isolated_at, GRACE) - now))
            if self.on_isolation is not None:
                self.on_isolation(key, grace, now)
            self.isolate(key, grace, now)
        else:
            self._schedule(key, share)  # Its region was heard meanwhile.

    def _isolated_at(self, share: Share) -> Instant | None:
        """When it stops by itself, if its region is not heard."""
        isolation = share.command.isolation
        return after(self._heard_at, Nanoseconds(isolation)) if isolation and not share.is_isolated else None

    def _end(
        self, key: ShareKey, share: Share, exit_code: int, now: Instant, failed_nodes: tuple[int, ...] = ()
    ) -> None:
        self._due.drop(key)
        self._stop_lending(key)
        share.ends_at = share.saves_at = None
        share.state = replace(
            share.state, phase=TasksPhase.ENDED, exit_code=exit_code, failed_nodes=failed_nodes, lends=()
        )
        self._give_back(key)
        self._tell(share)
        self._pace_all(self._pairs.mates(share.command), now)

    def _give_back(self, key: ShareKey) -> None:
        if self.clearing is not None:
            self.clearing.give_back(key)

    # Lending.

    def lend_by(self, lender: Lender) -> None:
        """Let tasks lend, from now on, what their cycles say; those that run lend what they do by the book."""
        self.lending = EmulatedLending(lender, self._lends_of, self._lent)
        for share in self.shares.values():
            lends: tuple[LentPart, ...] = ()
            if share.state.phase == TasksPhase.RUNNING:
                lends = self.lending.begin(share.command, self._clock.now())
            share.state = replace(share.state, lends=lends)
        self._wake.ring()

    def _lends_of(self, key: ShareKey) -> Lends:
        share = self.shares[key]
        works_at = after(share.started_at, self._set_up_of(share))
        return Lends(share.command, share.state.lends, works_at, not self._pairs.mates(share.command))

    def _lent(self, key: ShareKey, lends: tuple[LentPart, ...]) -> None:
        share = self.shares[key]
        share.state = replace(share.state, lends=lends)
        self._tell(share)
        if self.on_lent is not None:
            self.on_lent(share)

    def _stop_lending(self, key: ShareKey) -> None:
        if self.lending is not None:
            self.lending.end(key)

    # Partners.

    def _pace_all(self, keys: Iterable[ShareKey], now: Instant) -> None:
        """Let shares go on at the pace that they have from now on: a partner came or went."""
        for key in keys:
            share = self.shares[key]
            if share.state.phase != TasksPhase.RUNNING:
                continue
            part = self._part_of(share)
            if part != share.part:
                at = max(share.paced_at, self._moving_until(now))
                share.ran, share.paced_at, share.part = self._ran(share, at), at, part
                share.ends_at = after(at, self._left_of(share))
                self._schedule(key, share)

    def _part_of(self, share: Share) -> int:
        """Return the millionths of its speed that a share keeps: the least beside any live share on its device."""
        mates = [self.shares[key] for key in self._pairs.mates(share.command)]
        kept = dict(_beside_of(share.command.jobs))
        parts = [kept.get(model, WHOLE) for mate in mates if mate.is_live for model in _models_of(mate)]
        return min(parts, default=WHOLE)

    def _moving_until(self, now: Instant) -> Instant:
        """Return the time up to which the nodes' tasks went on."""
        return now

    def _ran(self, share: Share, at: Instant) -> Nanoseconds:
        """Return how long a share alone would have run to be where this one is. A partner slows work down, and no set-up."""
        more = at - share.paced_at
        free = min(more, max(0, self._set_up_of(share) - share.ran))
        return Nanoseconds(share.ran + free + (more - free) * share.part // WHOLE)

    def _left_of(self, share: Share) -> Nanoseconds:
        """Return how long a share still runs from `paced_at` on, at the pace since then."""
        free = max(0, self._set_up_of(share) - share.ran)
        work = max(0, share.span - share.ran - free)
        return Nanoseconds(free - -work * WHOLE // share.part)

    def _schedule(self, key: ShareKey, share: Share) -> None:
        assert share.ends_at is not None, key
        instants = [share.ends_at]
        if share.saves_at is not None:
            instants.append(share.saves_at)
        isolated_at = self._isolated_at(share)
        if isolated_at is not None:
            instants.append(max(isolated_at, share.started_at, self._still_until))
        self._due.put(key, min(instants))
        self._wake.ring()

    def _next_save(self, share: Share, now: Instant) -> Instant | None:
        every = save_span_of(share.command.jobs)
        return after(now, every) if every and share.command.is_leader else None

    def _newest_save(self, share: Share, saves_at: Instant, until: Instant) -> Instant:
        """Return when to save next: at `saves_at`, or if more than `SAVES_BEHIND_MAX` have come due since, at the newest of them."""
        every = save_span_of(share.command.jobs)
        ends = [at for at in (until, share.ends_at, self._isolated_at(share)) if at is not None]
        # From a partner's end on its steps come faster: the checkpoints before it are those of the pace before.
        mates = [self.shares[key] for key in self._pairs.mates(share.command)]
        ends += [mate.ends_at for mate in mates if mate.ends_at is not None]
        behind = max(0, min(ends) - saves_at) // every
        return after(saves_at, Nanoseconds(every * behind)) if behind > SAVES_BEHIND_MAX else saves_at

    def _step(self, share: Share, at: Instant) -> int:
        return step_after(share.command, self._ran(share, at))

    def _change(self, share: Share, phase: TasksPhase) -> None:
        share.state = replace(share.state, phase=phase)
        self._tell(share)

    def _tell(self, share: Share) -> None:
        self._tell_serving(share)
        if self._done is not None:
            self._done(TasksChanged(share.state))

    def _tell_serving(self, share: Share) -> None:
        if share.is_serving and self.on_serving is not None:
            self.on_serving()


def save_span_of(jobs: Iterable[JobSpec]) -> Nanoseconds:
    """Return the span between checkpoints of these jobs together; 0: they save none.

    An earlier build accepted spans that would keep a worker busy with nothing else.
    """
    every = [
        job.emulation.checkpoint_every for job in jobs if job.emulation and job.emulation.checkpoint_every
    ]
    return max(CHECKPOINT_EVERY_MIN, min(every)) if every else Nanoseconds(0)


def set_up_of(jobs: Iterable[JobSpec]) -> Nanoseconds:
    """How long after they were started the last of these works."""
    return max((job.emulation.set_up for job in jobs if job.emulation), default=Nanoseconds(0))


def step_after(command: PrepareTasks, ran: int) -> int:
    """How far it is when it has run for so many nanoseconds."""
    worked = max(0, ran - set_up_of(command.jobs))
    pace = pace_of(command.jobs)
    return command.resume_step + (worked * pace // (MICRO_STEPS * SECOND) if pace else worked // STEP)


def pace_of(jobs: Iterable[JobSpec]) -> int:
    """Return the millionths of a step in a second that jobs make on their type; 0: they work by time, a step in each `STEP`."""
    for job in jobs:
        if job.emulation and job.emulation.steps:
            speeds = dict(job.emulation.speeds)
            return speeds.get(job.gpu_type, min(speeds.values()))
    return 0


def _beside_of(jobs: Iterable[JobSpec]) -> Iterable[tuple[str, int]]:
    return (one for job in jobs if job.emulation for one in job.emulation.beside)


def _models_of(share: Share) -> list[str]:
    return [job.emulation.model for job in share.command.jobs if job.emulation]


def left_of(command: PrepareTasks, emulation: Emulation) -> int:
    """Return the nanoseconds that a task still works, from the checkpoint that it resumes."""
    if not emulation.steps:
        return emulation.work - command.resume_step * STEP
    return -(-(emulation.steps - command.resume_step) * MICRO_STEPS * SECOND // pace_of(command.jobs))


def _span_and_exit(command: PrepareTasks) -> tuple[Nanoseconds, int, tuple[int, ...]]:
    """How long the share runs from now on, the exit code it ends with, and where it fails, if it does.

    It ends with the first failure, which is on the job's first node here, or else with the longest job.
    """
    mine: list[tuple[Emulation, int]] = [
        (job.emulation, spread.nodes[0])
        for job, spread in zip(command.jobs, command.spreads, strict=True)
        if job.emulation and spread.nodes
    ]
    set_up = set_up_of(command.jobs)
    span = max((set_up + max(1, left_of(command, emulation)) for emulation, _ in mine), default=1)
    failures = [(set_up + one.fails_after, one.exit_code, node) for one, node in mine if one.fails_after]
    first = min(failures, default=None)
    if first is not None and first[0] < span:
        return Nanoseconds(first[0]), first[1], (first[2],)
    return Nanoseconds(span), 0, ()
