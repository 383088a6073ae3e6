"""A region's broker with a service of three tasks that stand alone, and what its workers report of them."""

from typing import Any

from core.events.control import ClaimRevised, OperationsDone, TasksDown, TasksGone, TasksUp
from core.events.region import GangStarted
from core.messages.agents import AgentPresent
from core.messages.base import Message
from core.messages.control import (
    PlaceTasks,
    RecordTasksDown,
    RecordTasksGone,
    RecordTasksUp,
    ReviseClaim,
)
from core.messages.store import OrderStop, RecordEnd, RecordStarted
from core.messages.workers import (
    PrepareTasks,
    StartTasks,
    StopTasks,
    TasksPhase,
    TasksState,
)
from core.nouns.ids import AgentName
from core.nouns.instant import Nanoseconds
from core.nouns.limits import TASKS_LOOK
from core.nouns.operation import OperationKind, Outcome, TaskMove
from core.nouns.workload import EndCause, Kind
from tests.builders import EU, EU_LOG, a_claim, attempt, granted
from tests.components.support.region_broker import NEVER, W0, W1, Broker, Start, a_broker, words

A0 = AgentName("a0")
SERVICE = a_claim("w-1", placed={0: 1, 1: 1, 2: 1}, kind=Kind.SERVICE)
"""Three tasks: two on nodes of the first worker, one on a node of the second."""
RECORDS = (RecordTasksDown, RecordTasksGone, RecordTasksUp, RecordStarted, RecordEnd, OrderStop)
NEW_RUNS = (ReviseClaim, PlaceTasks)
TO_WORKERS = (PrepareTasks, StartTasks, StopTasks)
WORKER = {0: W0, 1: W0, 2: W1}
"""By rank, where it is at first."""


def one(rank: int, phase: TasksPhase, run: int = 0, **more: Any) -> TasksState:
    """One task's share."""
    return TasksState(*attempt(), phase, task=rank, run=run, **more)


class Service:
    """A broker and the service that it looks after."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.machine = broker.machine

    def report(
        self, rank: int, phase: TasksPhase, run: int = 0, *, at: Any = None, **more: Any
    ) -> list[Message]:
        """A task's share changed; returns what is said at once."""
        told = self.broker.report(at or WORKER[rank], one(rank, phase, run, **more))
        return list(told.messages)

    def all(self, phase: TasksPhase) -> None:
        """Every task's first share changed."""
        for rank in WORKER:
            self.report(rank, phase)

    def look(self, *kinds: type[Message]) -> list[Any]:  # Any: of whichever kinds
        """What is said by the next look, of these kinds."""
        return words(self.machine.wait(TASKS_LOOK), *kinds)

    def wait(self, span: int, *kinds: type[Message]) -> list[Any]:  # Any: of whichever kinds
        """What is said, of these kinds, while so much time passes in which both workers beat."""
        return words(self.broker.wait(Nanoseconds(span), W0, W1), *kinds)

    def fact(self, *events: Any) -> None:
        """The log shows this."""
        self.machine.fact(EU_LOG, *events)

    def gone(self, *ranks: int, cause: str = EndCause.TASK_FAILED) -> None:
        """The log shows that these failed by themselves, and that nothing is left of them."""
        row = self.machine.state.image.control.row(*attempt())
        for rank in ranks:
            self.report(rank, TasksPhase.ENDED, row.tasks[rank].run, exit_code=1)
        self.fact(TasksDown(*attempt(), ranks, cause, 1, is_gone=True))

    def moved(self, rank: int, node_from: int, node_to: int, revision: int = 1) -> None:
        """The log shows a task's next run."""
        self.fact(ClaimRevised(*attempt(), revision, (TaskMove(rank, node_from, node_to),)))


def granted_service(start: Start, claim: Any = SERVICE) -> Service:
    """It was granted, and is to be brought up."""
    broker = a_broker(start)
    broker.machine.hear(AgentPresent(EU, A0))
    broker.machine.fact(EU_LOG, granted(claim))
    return Service(broker)


def up(start: Start, claim: Any = SERVICE) -> Service:
    """All of it runs, and the log shows it."""
    service = granted_service(start, claim)
    service.look()
    service.all(TasksPhase.PREPARED)
    service.look()
    service.all(TasksPhase.RUNNING)
    service.look()
    service.fact(GangStarted(*attempt()))
    assert NEVER == service.look()
    return service


def restart_a_task(broker: Broker) -> None:
    """A service of one task, which is restarted, and moves."""
    key = attempt("w-8")
    machine = broker.machine
    machine.fact(EU_LOG, granted(a_claim("w-8", placed={0: 1}, kind=Kind.SERVICE)), GangStarted(*key))
    for kind, first, ends in ((OperationKind.RESTART, 1, 0), (OperationKind.MOVE, 2, 3)):
        broker.begin(kind, 0, first=first, key=key)
        machine.wait(TASKS_LOOK)
        machine.fact(EU_LOG, TasksGone(*key, (0,)))
        machine.wait(TASKS_LOOK)
        machine.fact(EU_LOG, ClaimRevised(*key, first, (TaskMove(0, 0, ends),)))
        machine.wait(TASKS_LOOK)
        machine.fact(EU_LOG, TasksUp(*key, (0,)), OperationsDone(*key, (first,), Outcome.HEALTHY))
        machine.wait(TASKS_LOOK)
