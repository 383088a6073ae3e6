"""What a function server hears of its machine: the capacity that functions may use, its executors, and the ends of calls.

Nothing here crosses the bus: each is a notice, said by what does the server's effects (runtime/functions/ for real ones, and
scenarios/worlds/ for emulated ones).
"""

from msgspec import Struct

from core.messages.base import Notice
from core.nouns.function import CallAnswer, Place, WarmLevel
from core.nouns.ids import FunctionId, TenantName
from core.nouns.instant import Instant
from core.nouns.quantities import Amount


class PlaceRead(Struct, frozen=True):
    """What functions may use of one place."""

    place: Place
    size: Amount
    """All of it."""
    lent: tuple[tuple[TenantName, Amount], ...] = ()
    """Parts that one tenant's functions alone may use, by tenant; the rest is for functions of all tenants."""
    leaves_by: Instant = Instant(0)
    """When executors beyond the size have to be gone at the latest; a time that has passed: now."""
    slows: bool = False
    """Executors stay where they use more cores than there are, and become slower."""


class BookRead(Notice, frozen=True, tag="book-read"):
    """What functions may use on this machine now: after `ReadBook`, and whenever that changes."""

    places: tuple[PlaceRead, ...]
    """All that are not empty."""


class ExecutorChanged(Notice, frozen=True, tag="executor-changed"):
    """An executor has come to a level, or is gone."""

    executor: int
    level: WarmLevel
    is_gone: bool = False
    problem: str = ""
    """Of one that is gone by itself: one sentence. Calls that it had are told as ended before, by `CallsEnded`."""


class EndedCall(Struct, frozen=True, array_like=True, gc=False):
    """One call that ended in an executor."""

    executor: int
    ticket: int
    """As in `GiveCalls`."""
    answer: CallAnswer
    """Its number is 0: the server puts in the caller's. `REFUSED`: the executor ended before it began the call."""


class CallsEnded(Notice, frozen=True, tag="calls-ended"):
    """Calls ended, in this order. An executor goes on with the next of those that it was given by itself."""

    ends: tuple[EndedCall, ...]


class CodeKept(Notice, frozen=True, tag="code-kept"):
    """The pickled code of a function is on this machine, or cannot be used."""

    function: FunctionId
    problem: str = ""
    """One sentence; empty: executors can load it."""
