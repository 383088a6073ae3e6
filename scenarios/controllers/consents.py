"""Agrees to whatever it is asked, at once or after a while."""

import random
from collections.abc import Iterable

from core.messages.control import TaskControlRequest
from core.nouns.operation import WHOLE, Ack, Answer
from runtime.control.controller import TaskController
from scenarios.controller import Controller
from scenarios.schema.parts import Share


class Consents(Controller, frozen=True):
    """To all of it, or to a share of what waits each time that it is asked."""

    share: Share = 1.0
    answer: Answer = Answer.PROCEED
    """To operations that make room for maintenance; to others it says that they may proceed."""
    after_checkpoint: bool = False
    """Gangs are to write a checkpoint first."""

    def made(self, dice: random.Random) -> TaskController:
        """As it says."""
        return _Consenting(self, dice)


class _Consenting(TaskController):
    def __init__(self, part: Consents, dice: random.Random) -> None:
        self._part, self._dice = part, dice

    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        maintenances = {notice.notice for notice in request.notices if notice.kind is not None}
        return [
            Ack(
                asked.operation,
                self._part.answer if asked.notice in maintenances else Answer.PROCEED,
                after_checkpoint=self._part.after_checkpoint and asked.task == WHOLE,
            )
            for asked in request.requests
            if self._dice.random() < self._part.share
        ]
