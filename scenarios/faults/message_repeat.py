"""Messages arrive twice."""

from scenarios.fault import LinkFault
from scenarios.schema.parts import NotNegative, Share
from scenarios.worlds.interface import Disturbance


class MessageRepeat(LinkFault, frozen=True):
    """A share of what is said on a link comes again, also after whoever heard it first has died and is back."""

    share: Share = 0.1
    seconds: NotNegative = 60.0
    """The second comes up to so much later."""

    def disturbance(self) -> Disturbance:
        """Nothing but repeats."""
        return Disturbance(repeat=self.share, repeat_seconds=self.seconds)
