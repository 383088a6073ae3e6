"""How operators set in which order hosts decide messages, how hosts hear of it, and what each tells of its mailbox."""

from msgspec import Struct

from core.messages.base import Answer, Message
from core.nouns.dispatch import DispatchSettings
from core.nouns.instant import Nanoseconds


class SetDispatch(Message, frozen=True, tag="set-dispatch", forbid_unknown_fields=True):
    """From now on all hosts of the plane decide messages in this order."""

    settings: DispatchSettings
    revision: int
    """Of the settings, as whoever asks saw it; another one is refused as superseded."""
    by: str = ""


class DispatchAnswered(Answer, frozen=True, tag="dispatch-answered"):
    """These settings are set."""

    settings: DispatchSettings
    revision: int


class ShowDispatchSettings(Message, frozen=True, tag="show-dispatch-settings", forbid_unknown_fields=True):
    """To the queue: in which order are hosts to decide messages?"""


class DispatchTold(Message, frozen=True, tag="dispatch-told"):
    """To every host, again and again once operators have set something: the settings of the newest revision."""

    settings: DispatchSettings
    revision: int
    term: int
    """Of the queue's log."""


class ShowDispatch(Message, frozen=True, tag="show-dispatch", forbid_unknown_fields=True):
    """To one host: what waits in the mailbox, how long did it wait, and what was late?"""

    process: str
    """The host's name on the bus."""


class ClassWaits(Struct, frozen=True):
    """What one mailbox tells of one class. Counts are since the start of the process."""

    sort: str
    waiting: int
    taken: int
    p50: Nanoseconds
    """Of the waits of the newest messages."""
    p99: Nanoseconds
    late: int
    """Decided after their chain should have been over."""
    handed_over: int
    """Times that another lane was preferred to one of this class that had more messages, because the quantum was over."""
    moved: int
    """Messages that were next because they had waited `max_wait`."""
    lost: int
    """Messages that did not fit the mailbox."""
    disbelieved: int
    """Messages whose urgency was not theirs to have; their type's own counted."""


class DispatchShown(Answer, frozen=True, tag="dispatch-shown"):
    """One host's mailbox."""

    process: str
    settings: DispatchSettings
    revision: int
    """Of the settings by which the mailbox goes; 0: the default ones."""
    classes: tuple[ClassWaits, ...]


MESSAGES: tuple[type[Message], ...] = (
    SetDispatch,
    DispatchAnswered,
    ShowDispatchSettings,
    DispatchTold,
    ShowDispatch,
    DispatchShown,
)
