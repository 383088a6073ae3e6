"""The worker: serves nodes, obeys the region's broker, and reports the state of tasks.

The worker keeps no log. The data that must survive a restart (the tasks, and the highest sequence obeyed) are in the spool
beside the tasks (runtime/tasks/spool.py). A worker that starts reads the spool before it obeys any command.

Every command carries the sequence of the region's log at which the broker decided it. A sequence below the highest obeyed
comes from an outdated broker, and the command is ignored. A broker that was merely late learns the state from reports and
beats, and repeats the command with a higher sequence.

A worker obeys only while joined: while its newest acknowledged beat is younger than the silence after which the broker
counts the worker as lost. After a partition a worker must join first, and then ignores commands decided before: a delayed
command cannot start an attempt that the log ended meanwhile.

The worker notifies the spool of the age of the newest acknowledged beat. A strict task stops itself when that becomes too
old, even if no worker is alive to stop it.
"""

from collections import Counter
from collections.abc import Callable

from core.component import NOTHING, Decision, Follow, Images
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
from core.fact import Fact, Note
from core.messages.agents import PresenceWanted
from core.messages.base import Envelope, Message, Woken
from core.messages.workers import (
    BeatHeard,
    CheckNodes,
    EndRecorded,
    InventoryWanted,
    JoinRefused,
    NodesChecked,
    NodesLooked,
    PrepareTasks,
    StartTasks,
    StopTasks,
    TasksChanged,
    TasksFound,
    TasksPhase,
    TasksState,
    WorkerBeat,
    WorkerInventory,
    WorkerReport,
)
from core.nouns.fleet import UNNUMBERED, Inventory
from core.nouns.ids import LogName, RegionName, ShareKey, WorkloadId
from core.nouns.instant import Instant, after
from core.nouns.limits import PRESENCE_INTERVAL, PRESENCE_SILENCE_MAX

Task = tuple[WorkloadId, int, int]
"""Workload, epoch and task: a `ShareKey` without the run."""


class Asked(Note, frozen=True):
    """The spool was asked for the tasks."""


class Found(Note, frozen=True):
    """The spool answered with the tasks, the highest sequence obeyed, and the number of this start."""

    tasks: tuple[TasksState, ...]
    sequence: int
    start: int


class Obeyed(Note, frozen=True):
    """A command of this sequence was obeyed."""

    sequence: int


class ShareChanged(Note, frozen=True):
    """A share of an attempt changed to this state."""

    tasks: TasksState


class Preparing(Note, frozen=True):
    """A share is being prepared, which takes time; the spool reports the end."""

    key: ShareKey


class ShareForgotten(Note, frozen=True):
    """The region's log shows the end of a share, which need not be reported again."""

    key: ShareKey


class Looked(Note, frozen=True):
    """The nodes were looked at; these are ill."""

    ill: tuple[tuple[int, str], ...]


class RefusalHeard(Note, frozen=True):
    """The region refused these nodes."""

    problems: tuple[str, ...]


class Reported(Note, frozen=True):
    """A share was reported."""


class Beaten(Note, frozen=True):
    """All shares were reported."""


class Joined(Note, frozen=True):
    """The newest beat was acknowledged."""


class BrokerHeard(Note, frozen=True):
    """The broker reported this life: the instant of its start."""

    life: int


class WorkerState:
    """The memory of a worker, read from the spool after a start."""

    def __init__(self, at: Instant) -> None:
        self.is_asked = False
        self.is_ready = False
        self.sequence = 0
        self.start = 0
        self.reports = 0
        self.shares: dict[ShareKey, TasksState] = {}
        self.preparing: dict[ShareKey, None] = {}
        self.ill: tuple[tuple[int, str], ...] = ()
        self.refused: tuple[str, ...] = ()
        """Problems for which the region last refused these nodes."""
        self.beat_at = at
        """When the next beat is due."""
        self.beaten_at = at
        self.beat_order = (0, 0)
        self.joined_until = at
        self.life = 0
        """The broker's life, as last reported."""
        self._epochs: dict[WorkloadId, Counter[int]] = {}
        """Number of shares here by workload and epoch, so that a command need not scan all shares."""
        self._runs: dict[Task, dict[ShareKey, None]] = {}

    def put(self, share: TasksState) -> None:
        """Record the state of a share."""
        key = share.key
        if key not in self.shares:
            self._epochs.setdefault(key.workload, Counter())[key.epoch] += 1
            self._runs.setdefault(key[:3], {})[key] = None
        self.shares[key] = share

    def drop(self, key: ShareKey) -> None:
        """Forget a share, if it is known."""
        if self.shares.pop(key, None) is None:
            return
        epochs, runs = self._epochs[key.workload], self._runs[key[:3]]
        epochs[key.epoch] -= 1
        if not epochs[key.epoch]:
            del epochs[key.epoch]
        if not epochs:
            del self._epochs[key.workload]
        del runs[key]
        if not runs:
            del self._runs[key[:3]]

    def knows_newer(self, key: ShareKey) -> bool:
        """Return whether a newer attempt of the workload is here, or a newer run of the same task."""
        if max(self._epochs.get(key.workload, ()), default=0) > key.epoch:
            return True
        return any(one.run > key.run for one in self._runs.get(key[:3], ()))

    def live_before(self, key: ShareKey) -> TasksState | None:
        """Return an older run of the same task that has not ended, if there is one: two runs never overlap."""
        older = [self.shares[one] for one in self._runs.get(key[:3], ()) if one.run < key.run]
        return next((share for share in older if share.phase != TasksPhase.ENDED), None)


class Worker:
    """One worker of one region."""

    keeps: LogName | None = None
    follows: tuple[Follow, ...] = ()
    hears: tuple[type[Message], ...] = (
        PrepareTasks,
        StartTasks,
        StopTasks,
        EndRecorded,
        CheckNodes,
        BeatHeard,
        InventoryWanted,
        JoinRefused,
        PresenceWanted,
        TasksChanged,
        TasksFound,
        NodesLooked,
    )

    def __init__(self, region: RegionName, inventory: Inventory) -> None:
        self.region = region
        self.inventory = inventory
        self.worker = inventory.worker
        self.name = f"worker.{region}.{self.worker}"
        self.noun = "worker"
        self.scope = (region, self.worker)
        self._deciders: dict[type[Message], Callable[[WorkerState, Envelope], Decision]] = {
            Woken: self._woken,
            TasksFound: self._found,
            TasksChanged: self._changed,
            NodesLooked: self._looked,
            PrepareTasks: self._prepare,
            StartTasks: self._start,
            StopTasks: self._stop,
            EndRecorded: self._end_recorded,
            CheckNodes: self._check,
            BeatHeard: self._beat_heard,
            InventoryWanted: self._inventory_wanted,
            JoinRefused: self._join_refused,
            PresenceWanted: self._presence_wanted,
        }

    def initial(self, images: Images) -> WorkerState:
        """Return the state before the spool has answered."""
        return WorkerState(images.at)

    def due(self, state: WorkerState) -> Instant | None:
        """Return when to ask the spool or to beat; None while the spool's answer is awaited."""
        return state.beat_at if state.is_ready or not state.is_asked else None

    def decide(self, state: WorkerState, envelope: Envelope) -> Decision:
        """Obey, report, or ignore a command that is older than one obeyed."""
        return self._deciders[type(envelope.message)](state, envelope)

    def evolve(self, state: WorkerState, fact: Fact) -> WorkerState:
        """Fold one note."""
        match fact.event:
            case ShareChanged(tasks):
                state.put(tasks)
                state.preparing.pop(tasks.key, None)
            case Preparing(key):
                state.preparing[key] = None
            case ShareForgotten(key):
                state.drop(key)
            case Obeyed(sequence):
                state.sequence = max(state.sequence, sequence)
            case Looked(ill):
                state.ill = ill
                state.beat_at = fact.at  # At once: ill nodes must get no further tasks.
            case RefusalHeard(problems):
                state.refused = problems
            case Reported():
                state.reports += 1
            case Beaten():
                state.beat_order = (state.start, state.reports)
                state.reports += 1
                state.beaten_at = fact.at
                state.beat_at = after(fact.at, PRESENCE_INTERVAL)
            case BrokerHeard(life):
                if life != state.life:
                    state.life = life
                    state.beat_at = fact.at  # The broker ignores beats sent to an earlier life.
            case Joined():
                state.joined_until = after(state.beaten_at, PRESENCE_SILENCE_MAX)
            case Asked():
                state.is_asked = True
            case Found(tasks, sequence, start):
                state.is_ready = True
                state.start = start
                state.sequence = max(state.sequence, sequence)
                for known in list(state.shares):
                    state.drop(known)
                for share in tasks:
                    state.put(share)
                state.preparing = {}
        return state

    # From the host and the spool.

    def _woken(self, state: WorkerState, envelope: Envelope) -> Decision:
        if not state.is_asked:
            return Decision(events=(Asked(),), effects=(FindTasks(),))
        return self._beat(state)

    def _found(self, state: WorkerState, envelope: Envelope) -> Decision:
        found = envelope.message
        assert isinstance(found, TasksFound)
        return Decision(events=(Found(found.tasks, found.sequence, found.start),))

    def _changed(self, state: WorkerState, envelope: Envelope) -> Decision:
        changed = envelope.message
        assert isinstance(changed, TasksChanged)
        return Decision((ShareChanged(changed.tasks), Reported()), (self._report(state, changed.tasks),))

    def _looked(self, state: WorkerState, envelope: Envelope) -> Decision:
        looked = envelope.message
        assert isinstance(looked, NodesLooked)
        ill = self.inventory.ailing(looked.ill)
        texts = dict(ill)
        found = [(node, texts.get(node, texts.get(UNNUMBERED, ""))) for node in looked.asked]
        well = tuple(node for node, text in found if not text)
        answer = NodesChecked(self.region, self.worker, well, tuple(one for one in found if one[1]))
        return Decision((Looked(ill),) if ill != state.ill else (), (answer,) if looked.asked else ())

    # From the broker.

    def _prepare(self, state: WorkerState, envelope: Envelope) -> Decision:
        command = envelope.message
        assert isinstance(command, PrepareTasks)
        if not self._may(state, envelope, command.sequence):
            return NOTHING
        share = state.shares.get(command.key) or state.live_before(command.key)
        if share is not None:
            return self._obeyed(state, command.sequence, share)
        if command.key in state.preparing or state.knows_newer(command.key):
            return NOTHING
        return Decision((Obeyed(command.sequence), Preparing(command.key)), effects=(PrepareShare(command),))

    def _start(self, state: WorkerState, envelope: Envelope) -> Decision:
        command = envelope.message
        assert isinstance(command, StartTasks)
        share = state.shares.get(command.key)
        if share is None or not self._may(state, envelope, command.sequence):
            return NOTHING
        if share.phase != TasksPhase.PREPARED:
            return self._obeyed(state, command.sequence, share)
        effect = StartShare(command.key, command.sequence, command.masters, command.hosts)
        return Decision(events=(Obeyed(command.sequence),), effects=(effect,))

    def _stop(self, state: WorkerState, envelope: Envelope) -> Decision:
        """Stop a share. An unknown share is reported as ended: older commands to prepare it are ignored from now on."""
        command = envelope.message
        assert isinstance(command, StopTasks)
        if not self._may(state, envelope, command.sequence):
            return NOTHING
        share = state.shares.get(command.key)
        if share is None and command.key in state.preparing:
            # One that waits ends now. Another is stopped once prepared, because the broker repeats the command.
            effect = StopShare(command.key, command.sequence, command.grace)
            return Decision(events=(Obeyed(command.sequence),), effects=(effect,))
        if share is None:
            gone = TasksState(
                command.workload, command.epoch, TasksPhase.ENDED, task=command.task, run=command.run
            )
            return self._obeyed(state, command.sequence, gone)
        if share.phase in (TasksPhase.STOPPING, TasksPhase.ENDED):
            return self._obeyed(state, command.sequence, share)
        effect = StopShare(command.key, command.sequence, command.grace)
        return Decision(events=(Obeyed(command.sequence),), effects=(effect,))

    def _end_recorded(self, state: WorkerState, envelope: Envelope) -> Decision:
        command = envelope.message
        assert isinstance(command, EndRecorded)
        share = state.shares.get(command.key)
        if (
            not self._may(state, envelope, command.sequence)
            or share is None
            or share.phase != TasksPhase.ENDED
        ):
            return NOTHING
        return Decision(
            events=(Obeyed(command.sequence), ShareForgotten(command.key)),
            effects=(ForgetShare(command.key, command.sequence),),
        )

    def _check(self, state: WorkerState, envelope: Envelope) -> Decision:
        """Check nodes, joined or not: a check changes no state."""
        command = envelope.message
        assert isinstance(command, CheckNodes)
        return Decision(effects=(LookAtNodes(command.nodes),)) if state.is_ready else NOTHING

    def _beat_heard(self, state: WorkerState, envelope: Envelope) -> Decision:
        heard = envelope.message
        assert isinstance(heard, BeatHeard)
        if not state.is_ready or heard.order != state.beat_order:
            return NOTHING
        age = KeepHeard(envelope.at - state.beaten_at)
        if envelope.at < state.joined_until or heard.sequence <= state.sequence:
            return Decision(events=(Joined(), BrokerHeard(heard.life)), effects=(age,))
        return Decision(
            events=(Joined(), BrokerHeard(heard.life), Obeyed(heard.sequence)),
            effects=(age, KeepFence(heard.sequence)),
        )

    def _inventory_wanted(self, state: WorkerState, envelope: Envelope) -> Decision:
        return Decision(messages=(WorkerInventory(self.region, self.worker, self.inventory),))

    def _join_refused(self, state: WorkerState, envelope: Envelope) -> Decision:
        """Report the region's refusal once, although every join is refused again."""
        refused = envelope.message
        assert isinstance(refused, JoinRefused)
        if refused.problems == state.refused:
            return NOTHING
        return Decision(events=(RefusalHeard(refused.problems),), effects=(TellRefused(refused.problems),))

    def _presence_wanted(self, state: WorkerState, envelope: Envelope) -> Decision:
        wanted = envelope.message
        assert isinstance(wanted, PresenceWanted)
        return Decision(events=(BrokerHeard(wanted.life),))  # A new life makes the next beat due at once.

    # Helpers.

    def _may(self, state: WorkerState, envelope: Envelope, sequence: int) -> bool:
        return state.is_ready and envelope.at < state.joined_until and sequence >= state.sequence

    def _obeyed(self, state: WorkerState, sequence: int, share: TasksState) -> Decision:
        """Record the command's sequence and report the share: the command leaves no other work."""
        report = self._report(state, share)
        if sequence <= state.sequence:
            return Decision((Reported(),), (report,))
        return Decision((Obeyed(sequence), Reported()), (report,), (KeepFence(sequence),))

    def _report(self, state: WorkerState, share: TasksState) -> WorkerReport:
        return WorkerReport(self.region, self.worker, share, (state.start, state.reports), state.life)

    def _beat(self, state: WorkerState) -> Decision:
        order = (state.start, state.reports)
        shares = tuple(state.shares.values())
        beat = WorkerBeat(self.region, self.worker, shares, order, state.life, state.ill)
        return Decision((Beaten(),), (beat,))
