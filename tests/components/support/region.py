"""A whole region by hand: its store, task control, broker and an agent, with workers and controllers that are played.

What one says the others hear at once, unless a test loses it; the clock goes as far as a test says. Every run of every task is
written down, so that a test can tell what ran when, and that nothing ever ran twice.
"""

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from components.allocation_agent.component import AllocationAgent
from components.placement_store.component import PlacementStore
from components.region_broker.component import RegionBroker
from components.task_control.component import TaskControl
from core.component import Decision
from core.events.queue import RegionAdded, WorkloadAwarded
from core.events.region import GangStarted
from core.fact import Event, Fact
from core.images.control import AttemptControl, TaskPhase
from core.messages.base import Message
from core.messages.control import OperateTasks, TaskControlRequest, TaskControlResponse
from core.messages.store import RecordJoin, SubmitClaim
from core.messages.workers import (
    EndRecorded,
    PrepareTasks,
    StartTasks,
    StopTasks,
    TasksPhase,
    TasksState,
    WorkerBeat,
    WorkerReport,
)
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import GLOBAL_LOG, AgentName, ShareKey, WorkerName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after, earliest, seconds
from core.nouns.limits import PRESENCE_INTERVAL
from core.nouns.operation import WHOLE, Ack, ControlSpec, OperationKind
from core.nouns.placement import Claim
from core.nouns.workload import Kind
from tests.builders import EU, EU_LOG, NODE, US, a_claim, attempt
from tests.components.support.machine import Machine

Start = Callable[..., Machine[Any]]
Controller = Callable[[TaskControlRequest], Iterable[Ack] | None]
"""What a controller answers; None: nothing."""
W = WorkloadId("w-1")
TURNS_MAX = 20_000


class Ran(Struct):
    """One run of a share, as its worker saw it."""

    key: ShareKey
    worker: WorkerName
    nodes: tuple[int, ...]
    began: Instant
    ended: Instant | None = None
    resume: tuple[int, int] = (0, 0)


class PlayedWorker:
    """Obeys as a worker does: prepares, starts and stops at once, and refuses what is older than what it obeyed."""

    def __init__(self, region: "Region", name: WorkerName, nodes: range) -> None:
        self.region, self.name, self.nodes = region, name, nodes
        self.shares: dict[ShareKey, TasksState] = {}
        self.commands: dict[ShareKey, PrepareTasks] = {}
        self.sequence = 0
        self.start = 1
        self.reports = 0
        self.is_cut = False
        self.beats_at = region.now

    def hear(self, message: Message) -> None:
        """Obey, and say how it stands."""
        if self.is_cut or not isinstance(message, PrepareTasks | StartTasks | StopTasks | EndRecorded):
            return
        if message.sequence < self.sequence:
            return
        self.sequence = message.sequence
        known = self.shares.get(message.key)
        phase = known.phase if known else None
        match message:
            case PrepareTasks():
                newer = any(self._is_newer(key, message.key) for key in self.shares)
                if known is None and not newer:
                    self.commands[message.key] = message
                    self._becomes(message.key, TasksPhase.PREPARED)
            case StartTasks() if phase is TasksPhase.PREPARED:
                command = self.commands[message.key]
                nodes = tuple(node for spread in command.spreads for node in spread.nodes)
                resume = (command.resume_epoch, command.resume_step)
                ran = Ran(message.key, self.name, nodes, self.region.now, None, resume)
                self.region.ran.append(ran)
                self._becomes(message.key, TasksPhase.RUNNING)
            case StopTasks() if phase is not TasksPhase.ENDED:
                self.end(message.key, 143 if known else 0)
            case EndRecorded() if phase is TasksPhase.ENDED:
                del self.shares[message.key]
                return
        if message.key in self.shares:
            self._report(self.shares[message.key])

    def _is_newer(self, key: ShareKey, than: ShareKey) -> bool:
        is_same = (key.workload, key.task) == (than.workload, than.task)
        return is_same and (key.epoch, key.run) > (than.epoch, than.run)

    def end(self, key: ShareKey, exit_code: int, **more: Any) -> None:
        """The share ends."""
        self._becomes(key, TasksPhase.ENDED, exit_code=exit_code, **more)
        for ran in self.region.ran:
            if ran.key == key and ran.worker == self.name and ran.ended is None:
                ran.ended = self.region.now

    def fail(self, task: int, exit_code: int = 1) -> None:
        """What it runs of a task ends by itself."""
        for key in [key for key, share in self.shares.items() if key.task == task]:
            if self.shares[key].phase is TasksPhase.RUNNING:
                self.end(key, exit_code)
                self._report(self.shares[key])
        self.region.settle()

    def save(self, step: int) -> None:
        """Whatever leads an attempt here saves a step."""
        for key, share in self.shares.items():
            if share.phase is TasksPhase.RUNNING and self.commands[key].is_leader:
                self.shares[key] = replace(share, saved_step=step)
                self._report(self.shares[key])
        self.region.settle()

    def lose_power(self) -> None:
        """All that it had is gone; it starts anew."""
        for key in list(self.shares):
            self.end(key, 1)
        self.shares, self.commands = {}, {}
        self.start, self.reports = self.start + 1, 0

    def beat(self) -> None:
        """All that it has."""
        self.beats_at = after(self.region.now, PRESENCE_INTERVAL)
        if not self.is_cut:
            shares, life = tuple(self.shares.values()), self.region.broker.state.life
            self.region.say(WorkerBeat(EU, self.name, shares, self._next(), life))

    def _becomes(self, key: ShareKey, phase: TasksPhase, **more: Any) -> None:
        saved = self.shares[key].saved_step if key in self.shares else 0
        self.shares[key] = TasksState(
            key.workload, key.epoch, phase, saved, task=key.task, run=key.run, **more
        )

    def _report(self, share: TasksState) -> None:
        if not self.is_cut:
            life = self.region.broker.state.life
            self.region.say(WorkerReport(EU, self.name, share, self._next(), life))

    def _next(self) -> tuple[int, int]:
        self.reports += 1
        return self.start, self.reports


class Region:
    """All of it, and what was said and recorded."""

    def __init__(self, start: Start, *, workers: int = 3, nodes: int = 2, pool: str = "training") -> None:
        self.store = start(PlacementStore(EU))
        self.control = start(TaskControl(EU))
        self.broker = start(RegionBroker(EU))
        self.agent = start(AllocationAgent(EU, AgentName("a0")))
        self.followers = [self.control, self.broker, self.agent]
        self.now = self.store.now
        self.told = 0
        self.said: list[Message] = []
        """All that was said, in order; what was lost too."""
        self.happened: list[tuple[Instant, Event | Message]] = []
        """Facts, and requests to controllers, in order."""
        self.ran: list[Ran] = []
        self.controller: Controller = lambda request: ()
        self.loses = 0.0
        """How many of the messages are lost."""
        self.dice = Random(0)
        self._waiting: deque[tuple[str, Message]] = deque()
        self._sender = "user"
        self._queue(RegionAdded(EU), RegionAdded(US))
        self.workers = {}
        for number in range(workers):
            name = WorkerName(f"w{number}")
            group = NodeGroup(
                nodes * number, nodes, NODE, "H100", number, nodes, power_domain=f"power-{number}", pool=pool
            )
            self.workers[name] = PlayedWorker(self, name, group.numbers())
            self.hear(RecordJoin(EU, Inventory(name, (group,))))

    # What a test does.

    def grant(self, claim: Claim) -> None:
        """It is awarded, and claimed; what follows is the broker's."""
        award = self._queue(WorkloadAwarded(claim.workload, claim.epoch, EU, 0, ()))
        self.hear(SubmitClaim(EU, replace(claim, award_sequence=award)))

    def operate(self, kind: OperationKind, *tasks: int, by: str = "user:ada") -> None:
        """Somebody wants something done to tasks of `w-1`."""
        row = self.store.state.image.control.spec_of(*attempt())
        first = row.next_operation if row is not None else 0
        self.hear(OperateTasks(EU, *attempt(), kind, tasks, "because", requester=by, first=first))

    def hear(self, message: Message) -> None:
        """Somebody says this, and all that follows from it at once happens."""
        self.say(message)
        self.settle()

    def say(self, message: Message) -> None:
        """It is on its way."""
        self._waiting.append((self._sender, message))

    def restart(self, name: str) -> None:
        """One of the followers dies, and another takes its place: what it had noted is gone."""
        self.now = after(self.now, Nanoseconds(1))
        machine: Machine[Any] = getattr(self, name)
        again = machine.restart(at=self.now)
        setattr(self, name, again)
        self.followers = [self.control, self.broker, self.agent]
        self.settle()

    def wait(self, span: Nanoseconds) -> None:
        """So much time passes."""
        end = after(self.now, span)
        while self.now < end:
            dues = [machine.component.due(machine.state) for machine in self._machines()]
            beats = [worker.beats_at for worker in self.workers.values()]
            due = earliest(*dues, *beats, end)
            assert due is not None
            self.now = max(self.now, min(due, end))
            self.settle()

    def until(self, holds: Callable[[], bool], span: Nanoseconds) -> None:
        """Wait until something holds; fail when it does not in this time."""
        end = after(self.now, span)
        while not holds():
            assert self.now < end, "it does not come to hold"
            self.wait(Nanoseconds(min(100_000_000, end - self.now)))

    # What follows.

    def settle(self) -> None:
        """Until nobody has anything to say now."""
        for turn in range(TURNS_MAX):
            for worker in self.workers.values():
                if worker.beats_at <= self.now:
                    worker.beat()
            if self._waiting:
                sender, message = self._waiting.popleft()
                self._deliver(sender, message)
                continue
            due = [
                m for m in self._machines() if (at := m.component.due(m.state)) is not None and at <= self.now
            ]
            if not due:
                return
            for machine in due:
                machine.now = self.now
                self._hear_of(machine, machine.hear_due_once())
            assert turn < TURNS_MAX - 1, "it goes on for ever"

    def _machines(self) -> list[Machine[Any]]:
        return [self.store, *self.followers]

    def _deliver(self, sender: str, message: Message) -> None:
        self.said.append(message)
        if self.dice.random() < self.loses:
            return
        if isinstance(message, TaskControlRequest):
            self.happened.append((self.now, message))
            self._answer(message)
            return
        if isinstance(message, PrepareTasks | StartTasks | StopTasks | EndRecorded):
            if message.worker in self.workers:
                self.workers[message.worker].hear(message)
            return
        for machine in self._machines():
            if type(message) in machine.component.hears and getattr(message, "agent", "a0") in ("a0", ""):
                machine.now = self.now
                self._hear_of(machine, machine.hear(message, sender=sender))
                return

    def _answer(self, request: TaskControlRequest) -> None:
        acks = self.controller(request)
        if acks is not None:
            self.say(
                TaskControlResponse(
                    EU,
                    request.tenant,
                    request.controller,
                    request.job.workload,
                    request.job.epoch,
                    request.sequence,
                    tuple(acks),
                )
            )

    def _hear_of(self, machine: Machine[Any], decision: Decision) -> None:
        self._forward()
        name = machine.component.name
        self._waiting.extend((name, message) for message in decision.messages)

    def _forward(self) -> None:
        fresh = self.store.logs[EU_LOG][self.told :]
        self.told += len(fresh)
        for fact in fresh:
            assert isinstance(fact.event, Event)
            self.happened.append((self.now, fact.event))
            for machine in self.followers:
                machine.now = self.now
                heard = Fact(fact.log, fact.sequence, fact.at, fact.cause, fact.actor, fact.event, self.now)
                machine.logs[EU_LOG].append(heard)
                machine.fold(heard)

    def _queue(self, *events: Event) -> int:
        """The queue's log shows this."""
        for machine in (self.store, self.control):
            machine.now = self.now
            sequence = machine.fact(GLOBAL_LOG, *events)
        return sequence

    # Looking.

    def row(self, workload: WorkloadId = W, epoch: int = 1) -> AttemptControl:
        """What the log has of its tasks and operations."""
        row: AttemptControl | None = self.store.state.image.control.row(workload, epoch)
        assert row is not None, (workload, epoch)
        return row

    def tasks(self) -> list[int]:
        """By number; of a gang, that of the whole."""
        row = self.store.state.image.control.row(*attempt())
        return sorted(row.tasks) if row is not None else [WHOLE]

    def is_up(self, *ranks: int) -> bool:
        """Whether these tasks are in discovery; all, if none is named."""
        if self.store.state.image.control.row(*attempt()) is None:
            return True  # A gang of which nothing was ever asked.
        tasks = self.row().tasks
        return all(tasks[rank].phase is TaskPhase.UP for rank in ranks or tasks)

    def nodes(self) -> dict[int, int]:
        """Where each task is."""
        return {number: task.node for number, task in self.row().tasks.items()}

    def runs(self) -> dict[int, int]:
        """Which run each task is in."""
        if self.store.state.image.control.row(*attempt()) is None:
            return {WHOLE: 0}
        return {number: task.run for number, task in self.row().tasks.items()}

    def requests(self) -> list[TaskControlRequest]:
        """All that was asked of controllers."""
        return [one for _, one in self.happened if isinstance(one, TaskControlRequest)]

    def recorded(self, *kinds: type[Event]) -> list[Any]:  # Any: of whichever kinds
        """All facts of these types."""
        return [one for _, one in self.happened if isinstance(one, kinds)]

    def running(self) -> dict[int, list[tuple[WorkerName, int]]]:
        """By task, where it runs now, and in which run."""
        found: dict[int, list[tuple[WorkerName, int]]] = {}
        for ran in self.ran:
            if ran.ended is None:
                found.setdefault(ran.key.task, []).append((ran.worker, ran.key.run))
        return found

    def doubles(self) -> list[tuple[Ran, Ran]]:
        """Runs of one standing task, or of one gang at one worker, that overlapped in time."""
        found = []
        for number, one in enumerate(self.ran):
            for other in self.ran[number + 1 :]:
                is_same = (one.key.workload, one.key.task) == (other.key.workload, other.key.task)
                is_one_gang = one.key.task < 0 and one.worker != other.worker and one.key[1:] == other.key[1:]
                if is_same and not is_one_gang and (one.ended is None or one.ended > other.began):
                    found.append((one, other))
        return found


CONTROLLED = ControlSpec(controller="shards", unavailable_max=1)
SERVICE = replace(a_claim("w-1", placed={0: 1, 1: 1}, gpus=2, kind=Kind.SERVICE), control=CONTROLLED)
"""Two tasks of two GPUs, on two nodes of one rack, with eight each."""


def agrees(request: TaskControlRequest) -> Iterable[Ack]:
    """To all that is asked."""
    return [Ack(asked.operation) for asked in request.requests]


def region_that_runs(start: Start, *claims: Claim) -> Region:
    """Six nodes, on which these run."""
    region = Region(start)
    region.wait(seconds(1))
    for claim in claims:
        region.grant(claim)
    region.wait(seconds(1))
    assert len(claims) == len(region.recorded(GangStarted))
    return region
