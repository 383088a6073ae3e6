"""Messages overtake each other."""

from scenarios.fault import LinkFault
from scenarios.schema.parts import NotNegative, Share
from scenarios.worlds.interface import Disturbance


class MessageReorder(LinkFault, frozen=True):
    """What one says to one hearer arrives in another order, which is beyond what the bus promises to allow."""

    share: Share = 0.2
    """Who are late, and so are overtaken."""
    seconds: NotNegative = 1.0
    """Late by up to so much."""

    def disturbance(self) -> Disturbance:
        """Without a delay there would be little to overtake."""
        return Disturbance(delay=self.share, delay_seconds=self.seconds, reorders=True)
