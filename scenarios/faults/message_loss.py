"""Messages are lost."""

from scenarios.fault import LinkFault
from scenarios.schema.parts import Share
from scenarios.worlds.interface import Disturbance


class MessageLoss(LinkFault, frozen=True):
    """A share of what is said on a link goes nowhere, and nobody is told."""

    share: Share = 0.1

    def disturbance(self) -> Disturbance:
        """Nothing but loss."""
        return Disturbance(drop=self.share)
