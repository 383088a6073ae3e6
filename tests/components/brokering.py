"""A region's broker with two workers, and what they report."""

from collections.abc import Callable
from typing import Any

from components.region_broker import RegionBroker
from core.component import Decision
from core.messages.agents import PresenceWanted
from core.messages.workers import TasksPhase, TasksState, WorkerBeat, WorkerReport
from core.nouns.ids import AttemptKey, WorkerName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.placement import Claim
from tests.builders import EU, EU_LOG, a_claim, attempt, granted, joined
from tests.components.machine import Machine
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
        decisions = []
        for _ in range(span // every):
            for worker in alive:
                known = self.machine.state.shares
                mine = [shares[worker] for shares in known.values() if worker in shares]
                decisions.append(self.beat(worker, *mine))
            decisions.append(self.machine.wait(every))
        return all_of(decisions)

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
