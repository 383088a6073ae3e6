"""What every message is, and the envelope in which a component hears one."""

from collections.abc import Mapping

from msgspec import Struct

from core.nouns.ids import LogName
from core.nouns.instant import Instant, Nanoseconds

NOTHING_REFUSED: Mapping[str, str] = {}


class Message(Struct, frozen=True):
    """Said to another component. Its scope fields (bus/catalogue.py) give the subject; its tag is written by hand."""

    @property
    def refusal(self) -> Mapping[str, str]:
        """What operators are told in a line when it is said, if it refuses something that no log remembers; empty: nothing."""
        return NOTHING_REFUSED


class Answer(Message, frozen=True):
    """Said to whoever asked, wherever that is: it has no subject of its own."""


class Notice(Message, frozen=True):
    """Said by a host to its own component; never crosses the bus."""


class Envelope(Struct, frozen=True):
    """A message as a component hears it."""

    message: Message
    sender: str
    """The name of the host that said it."""
    id: str
    """The cause of whatever follows from it."""
    at: Instant
    """The hearing host's time."""
    reply_to: str = ""
    """Where an answer goes; empty when none is expected."""
    tenant: str = ""
    """With whose credentials it was said (core/rules/ownership.py); empty: the plane's own, which may ask for everything."""
    waited: Nanoseconds = Nanoseconds(0)
    """How long it waited in the host's inbox."""


class Woken(Notice, frozen=True, tag="woken"):
    """`due` has passed."""


class LogSilent(Notice, frozen=True, tag="log-silent"):
    """A followed log's keeper was not heard for `HEAD_SILENCE_MAX`."""

    log: LogName


class LogHeard(Notice, frozen=True, tag="log-heard"):
    """A followed log's keeper is heard, and the fold has come up to its head."""

    log: LogName


class BusLost(Notice, frozen=True, tag="bus-lost"):
    """The host's own round trip over the bus fails: nobody's silence means anything until it works again."""


class BusBack(Notice, frozen=True, tag="bus-back"):
    """The host's own round trip works again."""


class Refused(Answer, frozen=True, tag="refused"):
    """The request changes nothing, and why."""

    reason: str
    sentence: str
    problems: tuple[str, ...] = ()
    """Every problem at once, each with its field."""
