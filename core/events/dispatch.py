"""Events of the log `global` about the order in which hosts decide messages."""

from core.fact import Event
from core.nouns.dispatch import DispatchSettings


class DispatchSet(Event, frozen=True, tag="dispatch-set"):
    """From now on all hosts of the plane decide messages in this order."""

    settings: DispatchSettings
    revision: int
    by: str = ""


EVENTS: tuple[type[Event], ...] = (DispatchSet,)
