"""A model of what a region does with one service: asks its controller, takes its word, stops and starts tasks.

It has the rules of the plane on which a controller relies and none of its parts: a request is the whole state at a sequence,
an answer to an older one counts for nothing, only what was acknowledged begins, what is over is told until an answer shows
that it was heard, and a task whose node is lost is asked to move, which happens unasked after a while.
"""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field

from core.messages.control import JobHandle, OperationAsked, OperationCompleted, TaskControlRequest
from core.nouns.ids import RegionName, TenantName, WorkloadId
from core.nouns.limits import FAILURE_DEADLINE
from core.nouns.operation import Ack, OperationKind, OperationPhase, Outcome

JOB = JobHandle(RegionName("r0"), WorkloadId("service"), 1)


class Operation(Struct):
    """One operation on one task."""

    kind: OperationKind
    task: int
    deadline: int = 0
    notice: str = ""
    phase: OperationPhase = OperationPhase.ASKED
    outcome: Outcome = Outcome.HEALTHY


class ServiceModel(Struct):
    """One service's tasks and operations. Whoever plays it says when things happen; the model says what they mean."""

    down: dict[int, str] = field(default_factory=dict)
    """Tasks that are not up, each with why."""
    operations: dict[int, Operation] = field(default_factory=dict)
    sequence: int = 1
    next_operation: int = 1
    answers_ignored: int = 0

    def ask(self, kind: OperationKind, tasks: Iterable[int], *, deadline: int = 0, notice: str = "") -> None:
        """Something is to happen to these; an operation with a deadline takes the place of one that waits for ever."""
        live = self._live()
        for task in tasks:
            if task in live:
                operation = self.operations[live[task]]
                if operation.phase is OperationPhase.BEGUN or not deadline or operation.deadline:
                    continue
                self._end(live[task], Outcome.WITHDRAWN)
            self.operations[self.next_operation] = Operation(kind, task, deadline, notice)
            self.next_operation += 1
        self.sequence += 1

    def request(self) -> TaskControlRequest | None:
        """What its controller is asked now; None when there is nothing to hear or to decide."""
        asked = self._in(OperationPhase.ASKED)
        done = self._in(OperationPhase.DONE)
        if not asked and not done:
            return None
        return TaskControlRequest(
            tenant=TenantName("bench"),
            controller="shards",
            job=JOB,
            requests=tuple(
                OperationAsked(n, o.kind, o.task, "it is to be", o.notice, o.deadline)
                for n, o in asked.items()
            ),
            completed=tuple(OperationCompleted(n, o.kind, o.task, o.outcome) for n, o in done.items()),
            notices=(),
            unhealthy=tuple(sorted(self.down)),
            sequence=self.sequence,
            acked=tuple(sorted(operation.task for operation in self._in(OperationPhase.ACKED).values())),
        )

    def answer(self, sequence: int, acks: Iterable[Ack]) -> list[int]:
        """Take a controller's word: the operations that it lets begin."""
        if sequence != self.sequence:
            self.answers_ignored += 1
            return []
        for number in self._in(OperationPhase.DONE):
            del self.operations[number]
        taken = [ack.operation for ack in acks if ack.operation in self._in(OperationPhase.ASKED)]
        for number in taken:
            self.operations[number].phase = OperationPhase.ACKED
        self.sequence += 1
        return taken

    def expire(self, numbers: Iterable[int]) -> None:
        """These were acknowledged too long ago."""
        for number in numbers:
            self.operations[number].phase = OperationPhase.ASKED
        self.sequence += 1

    def begin(self, numbers: Iterable[int]) -> list[int]:
        """These proceed: the tasks that were up, and stop."""
        stopped = []
        for number in numbers:
            operation = self.operations[number]
            operation.phase = OperationPhase.BEGUN
            if operation.kind.stops and operation.task not in self.down:
                self.down[operation.task] = operation.kind
                stopped.append(operation.task)
        self.sequence += 1
        return stopped

    def come_up(self, tasks: Iterable[int]) -> None:
        """These are healthy, and what was begun on them is done."""
        live = self._live()
        for task in tasks:
            self.down.pop(task, None)
            if task in live and self.operations[live[task]].phase is OperationPhase.BEGUN:
                self._end(live[task], Outcome.HEALTHY)
        self.sequence += 1

    def lose(self, tasks: Iterable[int]) -> None:
        """Their nodes are lost: each is to go elsewhere, unless something is under way with it already."""
        lost = list(tasks)
        for task in lost:
            self.down[task] = "node_lost"
        self.ask(OperationKind.MOVE, lost, deadline=FAILURE_DEADLINE)

    def mask(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """(tasks,) which of so many are not up."""
        found = np.zeros(count, dtype=np.bool_)
        found[list(self.down)] = True
        return found

    def _live(self) -> dict[int, int]:
        """The operation on each task that is not over: one at most."""
        return {o.task: n for n, o in self.operations.items() if o.phase is not OperationPhase.DONE}

    def _in(self, phase: OperationPhase) -> dict[int, Operation]:
        return {n: operation for n, operation in self.operations.items() if operation.phase is phase}

    def _end(self, number: int, outcome: Outcome) -> None:
        self.operations[number].phase = OperationPhase.DONE
        self.operations[number].outcome = outcome
