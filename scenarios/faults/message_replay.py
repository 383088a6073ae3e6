"""Old messages come again, as they were said: what a link had kept is delivered a second time."""

from scenarios.fault import LinkFault
from scenarios.schema.parts import NotNegative
from scenarios.worlds.interface import Disturbance


class MessageReplay(LinkFault, frozen=True):
    """All that is said on a link comes again so much later, in its order: a whole conversation that is long over."""

    seconds: NotNegative = 30.0

    def disturbance(self) -> Disturbance:
        """Each message repeats, and all of them by the same delay."""
        return Disturbance(repeat=1.0, repeat_seconds=self.seconds, repeats_in_order=True)
