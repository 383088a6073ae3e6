"""Says whatever comes to it: acks of what was never asked, twice, with answers that make no sense, or nothing and an error."""

import random
from collections.abc import Iterable

from core.messages.control import TaskControlRequest
from core.nouns.instant import SECOND
from core.nouns.operation import Ack, Answer
from runtime.control.controller import TaskController
from scenarios.controller import Controller


class Lies(Controller, frozen=True):
    """Some of what it says is true by chance."""

    def made(self, dice: random.Random) -> TaskController:
        """One whose lies are drawn."""
        return _Lying(dice)


class _Lying(TaskController):
    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        dice = self._dice
        if dice.random() < 0.2:
            raise RuntimeError("this controller fails on purpose")
        known = [asked.operation for asked in request.requests]
        numbers = [*known, *(dice.randrange(-5, 1 << 40) for _ in range(dice.randrange(20)))]
        dice.shuffle(numbers)
        answers = list(Answer)
        named = ("", request.job.workload, f"w-{dice.randrange(1, 100)}")
        return [
            Ack(
                number,
                dice.choice(answers),
                after_checkpoint=dice.random() < 0.5,
                within=dice.choice((0, 0, -1, 5 * SECOND, 1 << 62)),
                instead=dice.choice(named),
            )
            for number in numbers[: dice.randint(0, len(numbers))]
        ] * dice.randint(1, 3)
