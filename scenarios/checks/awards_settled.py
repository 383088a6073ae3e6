"""In calm every award is soon granted or declined: who waits for the queue to ask for it back was left without an answer."""

from typing import ClassVar

from core.messages.base import Message
from core.messages.broker import WithdrawAward
from scenarios.check import Check, Run
from scenarios.play.run import PATIENCE, WARM_UP

KEPT_MAX = 10


class AwardsSettled(Check, frozen=True):
    """No award is overdue in calm. Asking for it back heals what a lost answer left, and so hides who never answers."""

    sees_through: ClassVar[bool] = True

    def begin(self, run: Run) -> None:
        """Listen."""
        world, found = run.world, run.outcome.problems
        patient_until = world.now() + WARM_UP[world.world] + run.spec.span + PATIENCE

        def overhear(_: str, message: Message) -> None:
            assert isinstance(message, WithdrawAward), message
            if message.is_overdue and world.now() > patient_until and len(found) < KEPT_MAX:
                found.append(
                    f"the award of {message.workload}.{message.epoch} to {message.region} is overdue in calm"
                )

        world.overhear((WithdrawAward,), overhear)
