"""In which order hosts decide messages: operators set it, and the queue tells all hosts again and again."""

from collections.abc import Callable

from components.job_queue.state.queue_state import DispatchSaid, QueueState
from components.replies import answered, refused
from core.component import NOTHING, Decision
from core.dispatch.settings import problems_of_settings
from core.events.dispatch import DispatchSet
from core.fact import Fact
from core.messages.base import Envelope, Message
from core.messages.dispatch import DispatchAnswered, DispatchTold, SetDispatch, ShowDispatchSettings
from core.nouns.instant import Instant, after
from core.nouns.limits import DISPATCH_INTERVAL, NAME_LENGTH_MAX
from core.nouns.reasons import Reason

HEARD_OF_DISPATCH: tuple[type[Message], ...] = (SetDispatch, ShowDispatchSettings)


class DispatchRecords:
    """The queue's deciders for dispatch."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            SetDispatch: self._set,
            ShowDispatchSettings: self._show,
        }

    def _set(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SetDispatch)
        known = state.image.dispatch
        if message.settings == known.settings and message.revision in (known.revision, known.revision - 1):
            return answered(DispatchAnswered(known.settings, known.revision))
        problems = problems_of_settings(message.settings)
        if len(message.by) > NAME_LENGTH_MAX:
            problems.append(f"by: {NAME_LENGTH_MAX} characters are the most")
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        if message.revision != known.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {known.revision} now",))
        event = DispatchSet(message.settings, known.revision + 1, message.by)
        return answered(DispatchAnswered(message.settings, known.revision + 1), event)

    def _show(self, state: QueueState, envelope: Envelope) -> Decision:
        known = state.image.dispatch
        return answered(DispatchAnswered(known.settings, known.revision))


def index_dispatch(state: QueueState, fact: Fact) -> None:
    """Fold a fact or a note: hosts are told at once of what was set, and then every `DISPATCH_INTERVAL`."""
    if isinstance(fact.event, DispatchSet):
        state.dispatch_at = fact.at
    elif isinstance(fact.event, DispatchSaid):
        state.dispatch_at = after(fact.at, DISPATCH_INTERVAL) if state.image.dispatch.revision else None


def tell_dispatch(state: QueueState, now: Instant) -> Decision:
    """Return what all hosts are told, if it is time: they may have started, or not have heard it."""
    if state.dispatch_at is None or state.dispatch_at > now:
        return NOTHING
    known = state.image.dispatch
    messages = (
        (DispatchTold(known.settings, known.revision, state.image.regions.term),) if known.revision else ()
    )
    return Decision((DispatchSaid(),), messages)
