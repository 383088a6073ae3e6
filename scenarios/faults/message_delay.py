"""Messages are late."""

from scenarios.fault import LinkFault
from scenarios.schema.parts import NotNegative, Share
from scenarios.worlds.interface import Disturbance


class MessageDelay(LinkFault, frozen=True):
    """A share of what is said on a link takes longer; what one says to one hearer keeps its order."""

    share: Share = 0.1
    seconds: NotNegative = 5.0
    """Late by up to so much."""

    def disturbance(self) -> Disturbance:
        """Nothing but delay."""
        return Disturbance(delay=self.share, delay_seconds=self.seconds)
