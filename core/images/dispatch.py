"""A section of the queue's image: in which order hosts decide messages."""

from core.events.dispatch import DispatchSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.dispatch import DispatchSettings


class Dispatch(Section):
    """What operators set of all mailboxes."""

    FOLDS = {DispatchSet: "_set"}

    settings: DispatchSettings = DispatchSettings()
    revision: int = 0
    """Grows with every change: a command names the one that it was given for. 0: nothing was ever set."""

    def _set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, DispatchSet)
        self.settings, self.revision = event.settings, event.revision
