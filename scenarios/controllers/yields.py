"""Makes room when somebody of higher priority is promised its own, in one of the ways in which that can be answered."""

import random
from collections.abc import Iterable
from enum import StrEnum

from core.messages.control import TaskControlRequest
from core.nouns.instant import seconds
from core.nouns.operation import WHOLE, Ack, Answer, OperationKind
from runtime.control.controller import TaskController
from scenarios.controller import Controller
from scenarios.schema.parts import NotNegative


class Way(StrEnum):
    """How it answers."""

    NOW = "now"
    CHECKPOINT = "checkpoint"
    """Once there is a new one."""
    LATER = "later"
    """In so many seconds, or with a new checkpoint, if that is there before."""
    OFFER = "offer"
    """Another of the workloads that it decides for: of those of which it has heard one after the other, for which of them still run it
    does not know. If it has heard of none, or is asked once more, once there is a new checkpoint."""


class Yields(Controller, frozen=True):
    """To a preemption; to whatever else it is asked about a gang, it agrees once there is a checkpoint."""

    way: Way = Way.CHECKPOINT
    seconds: NotNegative = 20.0
    """Of `later`."""

    def made(self, dice: random.Random) -> TaskController:
        """One that answers like that."""
        return _Yielding(self)


class _Yielding(TaskController):
    def __init__(self, part: Yields) -> None:
        self._part = part
        self._heard: dict[str, None] = {}
        """Workloads that it was asked about, those last that it was asked about or offered last."""
        self._offered: set[tuple[str, int]] = set()
        """Operations, by workload, for which it offered another."""

    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        mine = request.job.workload
        self._heard.pop(mine, None)
        others = [*self._heard]
        self._heard[mine] = None
        return [
            self._answer(mine, asked.operation, others)
            if asked.kind is OperationKind.PREEMPT
            else Ack(asked.operation, after_checkpoint=asked.task == WHOLE)
            for asked in request.requests
        ]

    def _answer(self, workload: str, operation: int, others: list[str]) -> Ack:
        match self._part.way:
            case Way.NOW:
                return Ack(operation)
            case Way.LATER:
                return Ack(operation, after_checkpoint=True, within=seconds(self._part.seconds))
            case Way.OFFER if others and (workload, operation) not in self._offered:
                self._offered.add((workload, operation))
                del self._heard[others[0]]
                self._heard[others[0]] = None
                return Ack(operation, Answer.INSTEAD, instead=others[0])
        return Ack(operation, after_checkpoint=True)
