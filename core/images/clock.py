"""A section of both images: by how much the log's time may be ahead of its keeper's machine, as an operator accepted."""

from core.events.log import ClockAccepted
from core.fact import Fact
from core.images.base import Section


class AcceptedClock(Section):
    """The newest word of an operator. A keeper reads it when it starts, however long ago it was recorded."""

    FOLDS = {ClockAccepted: "_accepted"}

    ahead: int = 0
    """Nanoseconds; below zero the log was behind."""

    def _accepted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClockAccepted)
        self.ahead = event.ahead
