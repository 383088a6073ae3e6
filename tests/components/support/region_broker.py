"""A region's broker with two workers, and what they report."""

from collections.abc import Callable
from typing import Any

from components.region_broker.component import RegionBroker
from core.component import Decision
from core.events.control import ControlAnswered, OperationsBegun, OperationsRequested
from core.events.region import ClaimGranted, GangStarted
from core.messages.agents import PresenceWanted
from core.messages.base import Message
from core.messages.workers import PartOfBeat, TasksPhase, TasksState, WorkerBeat, WorkerReport
from core.nouns.ids import AttemptKey, ShareKey, WorkerName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.operation import WHOLE, Ack, Answer, BegunBy, OperationKind
from core.nouns.placement import Claim
from tests.builders import EU, EU_LOG, a_claim, attempt, granted, joined
from tests.components.support.machine import Machine
from tests.matching import all_of, said_once

Start = Callable[..., Machine[Any]]
W0, W1 = WorkerName("w0"), WorkerName("w1")
A_SECOND = seconds(1)
GANG = a_claim("w-1", placed={1: 2, 2: 1})
"""Two tasks on a node of the first worker, one on a node of the second."""


def share(
    phase: TasksPhase, key: AttemptKey | None = None, *, saved: int = 0, exit_code: int = 0
) -> TasksState:
    """A worker's share of an attempt."""
    return TasksState(*(key or attempt("w-1")), phase, saved, exit_code)


PREPARED = share(TasksPhase.PREPARED)
RUNNING = share(TasksPhase.RUNNING)
STOPPING = share(TasksPhase.STOPPING)
ENDED = share(TasksPhase.ENDED)
NEVER: list[Message] = []


class Broker:
    """The broker's machine, which life it is in, and where its workers are in their reports."""

    def __init__(self, machine: Machine[Any], reports: int = 0) -> None:
        self.machine = machine
        self.woken = machine.wake()
        """What it says as soon as it lives."""
        self.life = said_once(self.woken, PresenceWanted).life
        self.reports = reports

    def beat(
        self, worker: WorkerName, *shares: TasksState, order: tuple[int, int] | None = None, life: int = 0
    ) -> Decision:
        """The worker reports all that it runs."""
        return self.machine.hear(WorkerBeat(EU, worker, shares, order or self._next(), life or self.life))

    def part_of_beat(self, worker: WorkerName, *shares: TasksState, unsaid: ShareKey) -> Decision:
        """The host hands on these shares of a beat, and leaves one out."""
        return self.machine.hear(
            PartOfBeat(WorkerBeat(EU, worker, shares, self._next(), self.life), (unsaid,))
        )

    def report(
        self, worker: WorkerName, one: TasksState, order: tuple[int, int] | None = None, life: int = 0
    ) -> Decision:
        """The worker reports one share."""
        return self.machine.hear(WorkerReport(EU, worker, one, order or self._next(), life or self.life))

    def both(self, one: TasksState) -> Decision:
        """Both workers report their shares; returns what is said at once and what follows."""
        told = [self.report(worker, one) for worker in (W0, W1)]
        return all_of([*told, self.machine.wake()])

    def wait(self, span: Nanoseconds, *alive: WorkerName, every: Nanoseconds = A_SECOND) -> Decision:
        """Time passes, and these workers beat meanwhile with all that they last reported."""
        decisions: list[Decision] = []
        for _ in range(span // every):
            shares = self.machine.state.shares
            decisions.extend(self.beat(worker, *shares.at(worker)) for worker in alive)
            decisions.append(self.machine.wait(every))
        return all_of(decisions)

    def begin(
        self,
        kind: OperationKind,
        *tasks: int,
        first: int = 1,
        source: str = "",
        answer: Answer = Answer.PROCEED,
        key: AttemptKey | None = None,
    ) -> None:
        """The log shows that an operation on each of these tasks, or on the gang, was asked for, agreed to and begun."""
        about, meant = key or attempt("w-1"), tasks or (WHOLE,)
        numbers = tuple(range(first, first + len(meant)))
        acks = tuple(Ack(number, answer) for number in numbers)
        self.machine.fact(
            EU_LOG,
            OperationsRequested(*about, first, kind, meant, "because", source),
            ControlAnswered(*about, self.machine.sequence(EU_LOG) + 1, acks),
            OperationsBegun(*about, numbers, BegunBy.ACK),
        )

    def restart(self) -> "Broker":
        """Another broker of the region; the workers are the same."""
        self.machine.wait(Nanoseconds(1))
        return Broker(self.machine.restart(), self.reports)

    def _next(self) -> tuple[int, int]:
        self.reports += 1
        return 1, self.reports


def a_broker(start: Start, *, is_known: bool = True) -> Broker:
    """One whose region has workers `w0` (nodes 0 and 1) and `w1` (nodes 2 and 3), both heard just now."""
    machine = start(RegionBroker(EU))
    machine.fact(EU_LOG, joined("w0", 0, 2), joined("w1", 2, 2))
    broker = Broker(machine)
    if is_known:
        for worker in (W0, W1):
            broker.beat(worker)
    return broker


def with_gang(start: Start, claim: Claim = GANG) -> Broker:
    """The gang was granted, and is to be brought up."""
    broker = a_broker(start)
    broker.machine.fact(EU_LOG, granted(claim))
    return broker


def words(decision: Decision, *kinds: type[Message]) -> list[Any]:  # Any: of whichever kinds
    """What is said of these kinds, or of all but acknowledged beats."""
    return [message for message in decision.messages if not kinds or isinstance(message, kinds)]


def running(start: Start, gang: ClaimGranted | None = None) -> Broker:
    """The gang runs, and the log shows it."""
    broker = a_broker(start)
    broker.machine.fact(EU_LOG, gang or granted(GANG))
    broker.machine.wake()
    broker.both(PREPARED)
    broker.both(RUNNING)
    broker.machine.fact(EU_LOG, GangStarted(*attempt()))
    assert NEVER == words(broker.machine.wake())
    return broker
