"""Never agrees to anything: it holds releases for ever, and maintenance until its deadline."""

import random
from collections.abc import Iterable

from core.messages.control import TaskControlRequest
from core.nouns.operation import Ack
from runtime.control.controller import TaskController
from scenarios.controller import Controller


class Refuses(Controller, frozen=True):
    """It answers, and says no."""

    def made(self, dice: random.Random) -> TaskController:
        """One that always says no."""
        return _Refusing()


class _Refusing(TaskController):
    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        return ()
