"""A region played against a controller with every misfortune of the protocol: what a controller may never do is asked here."""

import random
from collections.abc import Callable, Sequence

from bench.support.task_control.model import ServiceModel
from core.messages.control import TaskControlRequest
from core.nouns.operation import Ack, OperationKind, OperationPhase

Decide = Callable[[TaskControlRequest], Sequence[Ack]]
"""How a controller answers."""
Judge = Callable[[set[int], set[int]], None]
"""Told whom a region just allowed to stop who was up, and who is down or may be any moment beside them. Raises if that is wrong."""
STEPS = 120
CALM_STEPS_MAX = 400


class Misfortune:
    """One run: operations are asked for, tasks fail, answers are lost and late, acknowledgements expire, controllers die."""

    def __init__(self, make: Callable[[], Decide], tasks: int, judge: Judge, seed: int) -> None:
        self._make, self._tasks, self._judge = make, tasks, judge
        self._dice = random.Random(seed)
        self._decide = make()
        self._late: list[tuple[int, Sequence[Ack]]] = []
        self._planned: set[int] = set()
        """Operations on tasks that were up when they were acknowledged."""
        self.model = ServiceModel()
        self.stopped = 0
        self.failed: set[int] = set()
        """Who is down by nobody's plan, as of the newest answer that counted."""

    def play(self) -> None:
        """Misfortune, and then calm, in which everything that was asked for must come to its end."""
        steps = (
            self._ask,
            self._ask,
            self._answer,
            self._answer,
            self._answer,
            self._answer_late,
            self._begin,
            self._begin,
            self._finish,
            self._finish,
            self._expire,
            self._fail,
            self._recover,
            self._restart,
        )
        for _ in range(STEPS):
            self._dice.choice(steps)()
        for _ in range(CALM_STEPS_MAX):
            self._recover()
            self._answer()
            self._begin()
            self._finish()
            if self.model.request() is None and not self.model.operations:
                return
        raise AssertionError(f"still waiting: {self.model.operations}, down: {self.model.down}")

    def waiting(self) -> list[int]:
        """Tasks on which an operation waits for a word."""
        return [self.model.operations[number].task for number in self._in(OperationPhase.ASKED)]

    def _some(self, numbers: Sequence[int]) -> list[int]:
        return [number for number in numbers if self._dice.random() < 0.5]

    def _in(self, phase: OperationPhase) -> list[int]:
        return [n for n, operation in self.model.operations.items() if operation.phase is phase]

    def _ask(self) -> None:
        """For an update of many, or work on a few nodes that cannot wait."""
        tasks = self._some(range(self._tasks))
        if self._dice.random() < 0.7:
            self.model.ask(OperationKind.UPDATE, tasks)
        else:
            notice = f"m-{self._dice.randrange(3)}"
            deadline = self._dice.randrange(1, 1000)
            self.model.ask(OperationKind.MOVE, tasks[:3], deadline=deadline, notice=notice)

    def _answer(self) -> None:
        """It may be lost, or come when something else has happened; then the request is said again."""
        request = self.model.request()
        if request is None:
            return
        acks = list(self._decide(request))
        assert len(acks) == len({ack.operation for ack in acks}), "nothing is acknowledged twice"
        fate = self._dice.random()
        if fate < 0.2:
            return
        self._late.append((request.sequence, acks))
        if fate > 0.4:
            self._take(*self._late.pop())

    def _answer_late(self) -> None:
        if self._late:
            self._take(*self._late.pop(self._dice.randrange(len(self._late))))

    def _take(self, sequence: int, acks: Sequence[Ack]) -> None:
        operations = self.model.operations
        self._planned = {
            n for n in self._planned if n in operations and operations[n].phase in ("acked", "begun")
        }
        beside = set(self.model.down) | {operations[n].task for n in self._planned}
        beside |= {operations[n].task for n in self._in(OperationPhase.ACKED)}
        self.failed = set(self.model.down) - {operations[n].task for n in self._planned}
        asked = {n: operation for n, operation in operations.items() if operation.phase == "asked"}
        if sequence == self.model.sequence:
            assert all(ack.operation in asked for ack in acks), "only what is asked for is acknowledged"
        taken = self.model.answer(sequence, acks)
        fresh = {n for n in taken if asked[n].task not in beside}
        self._planned |= fresh
        self.stopped += len(fresh)
        if fresh:
            self._judge({asked[n].task for n in fresh}, beside)

    def _begin(self) -> None:
        self.model.begin(self._some(self._in(OperationPhase.ACKED)))

    def _finish(self) -> None:
        begun = self._some(self._in(OperationPhase.BEGUN))
        self.model.come_up([self.model.operations[number].task for number in begun])

    def _expire(self) -> None:
        self.model.expire(self._some(self._in(OperationPhase.ACKED)))

    def _fail(self) -> None:
        if self._dice.random() < 0.3:
            self.model.lose(self._some(range(self._tasks))[:2])

    def _recover(self) -> None:
        """Those that are down without an operation that will see to it."""
        busy = {operation.task for operation in self.model.operations.values()}
        self.model.come_up([task for task in self.model.down if task not in busy])

    def _restart(self) -> None:
        """The controller's process dies, and another takes its place."""
        if self._dice.random() < 0.2:
            self._decide = self._make()
