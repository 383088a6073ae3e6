"""Mailboxes: messages of one sender about one thing keep their order, and none waits longer than its class may."""

from typing import ClassVar

from scenarios.check import Check, Run


class MailInOrder(Check, frozen=True):
    """Watched at every message that every host takes (scenarios/accounting/mail_watch.py)."""

    sees_through: ClassVar[bool] = True

    async def at_end(self, run: Run) -> list[str]:
        """What was seen on the way."""
        return run.world.mail_problems()
