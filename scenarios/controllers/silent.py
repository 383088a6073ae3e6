"""Never answers: it was never started, or cannot be reached."""

import random
from collections.abc import Iterable

from core.messages.control import TaskControlRequest
from core.nouns.operation import Ack
from runtime.control.controller import TaskController
from scenarios.controller import Controller


class Silent(Controller, frozen=True):
    """What it is asked it hears, and fails each time."""

    def made(self, dice: random.Random) -> TaskController:
        """One that never comes to an answer."""
        return _Silent()


class _Silent(TaskController):
    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        raise RuntimeError("this controller is silent on purpose")
