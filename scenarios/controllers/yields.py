"""Makes room when somebody of higher priority is promised its own, in one of the ways in which that can be answered."""

import random
from collections.abc import Iterable
from enum import StrEnum

from core.messages.control import TaskControlRequest
from core.nouns.instant import seconds
from core.nouns.operation import WHOLE, Ack, Answer, OperationKind
from runtime.control.controller import TaskController
from scenarios.controller import Controller
from scenarios.parts import NotNegative


class Way(StrEnum):
    """How it answers."""

    NOW = "now"
    CHECKPOINT = "checkpoint"
    """Once there is a new one."""
    LATER = "later"
    """In so many seconds, or with a new checkpoint, if that is there before."""
    OFFER = "offer"
    """Another of the workloads that it decides for, as far as it has heard of any; else once there is a new checkpoint."""


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
        """Workloads that it was asked about, the newest last."""

    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        mine = request.job.workload
        self._heard.pop(mine, None)
        others = [*reversed(self._heard)]
        self._heard[mine] = None
        return [
            self._answer(asked.operation, others)
            if asked.kind is OperationKind.PREEMPT
            else Ack(asked.operation, after_checkpoint=asked.task == WHOLE)
            for asked in request.requests
        ]

    def _answer(self, operation: int, others: list[str]) -> Ack:
        match self._part.way:
            case Way.NOW:
                return Ack(operation)
            case Way.LATER:
                return Ack(operation, after_checkpoint=True, within=seconds(self._part.seconds))
            case Way.OFFER if others:
                return Ack(operation, Answer.INSTEAD, instead=others[0])
        return Ack(operation, after_checkpoint=True)
