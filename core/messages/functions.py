"""Calls of functions: from their callers to a router, to a function server, and back.

A caller's calls are numbered from 1 on. With each message a caller tells its floor: every call below has an answer. A router remembers
of each caller the calls from the floor on, so a repeat is known as one, however late; in the same way routers number what they send to
a server, and tell a floor of their own.
"""

from msgspec import Struct

from core.messages.base import Answer, Message
from core.nouns.function import (
    Call,
    CallAnswer,
    EndedRun,
    Executors,
    FunctionCount,
    FunctionEstimate,
    FunctionSpec,
    Place,
)
from core.nouns.ids import FunctionId, RegionName, TenantName
from core.nouns.instant import Nanoseconds
from core.nouns.quantities import NOTHING, Amount
from core.nouns.reasons import Reason

# From and to callers.


class CallFunction(Message, frozen=True, tag="call-function"):
    """Run these calls of one function. At most `CALLS_AT_ONCE_MAX`, with arguments of `CALL_BYTES_MAX` in all unless there is one alone."""

    region: RegionName
    router: str
    life: str
    """Of the router, as it said: a call that may be begun once only is for no other life. Empty: not known yet."""
    tenant: TenantName
    caller: str
    word: int
    """Counts the messages of this type from the caller, from 1 on: one that comes after a later one, or twice, is ignored."""
    floor: int
    """Every call with a lower number has an answer."""
    function: FunctionSpec
    calls: tuple[Call, ...]
    answered: tuple[tuple[int, int], ...] = ()
    """Ranges above the floor, first and last, of calls that have an answer."""
    since: Nanoseconds = Nanoseconds(0)
    """How long ago the first of these calls was said to this life first."""


class CallsRefused(Message, frozen=True, tag="calls-refused"):
    """A router takes these calls not: they are not begun for any word up to the one that is told."""

    tenant: TenantName
    caller: str
    region: RegionName
    router: str
    numbers: tuple[int, ...]
    word: int
    """The newest word of the caller that the router has heard."""
    reason: Reason
    problems: tuple[str, ...] = ()
    again_in: Nanoseconds = Nanoseconds(0)
    """When to say them again, there or elsewhere; 0: never, because they would be refused again."""
    gives_back: bool = False
    """Whether the router had taken them: there was capacity for them meanwhile."""


class CallsAnswered(Message, frozen=True, tag="calls-answered"):
    """These calls have ended."""

    tenant: TenantName
    caller: str
    region: RegionName
    server: str
    """Empty: the router answers, for a call that is lost."""
    answers: tuple[CallAnswer, ...]


class CodeWanted(Message, frozen=True, tag="code-wanted"):
    """A server has calls of a function whose code it does not have."""

    tenant: TenantName
    caller: str
    region: RegionName
    server: str
    function: FunctionId


class CodeSent(Message, frozen=True, tag="code-sent"):
    """The pickled code of a function."""

    region: RegionName
    server: str
    tenant: TenantName
    function: FunctionId
    code: bytes


class AskCalls(Message, frozen=True, tag="ask-calls"):
    """Every server of the region that knows one of these calls says so: their router is gone, and they may not be begun twice."""

    region: RegionName
    tenant: TenantName
    caller: str
    numbers: tuple[int, ...]


class CallsKnown(Message, frozen=True, tag="calls-known"):
    """A server has these calls, and will answer them. What has ended there is answered again at once."""

    tenant: TenantName
    caller: str
    region: RegionName
    server: str
    numbers: tuple[int, ...]


class RoutersWanted(Message, frozen=True, tag="routers-wanted"):
    """A caller that has heard no router asks all of them, of every region, to say that they live."""

    tenant: TenantName


class RouterHere(Message, frozen=True, tag="router-here"):
    """A router lives. Said every `ROUTER_INTERVAL`, and at `RoutersWanted`."""

    region: RegionName
    router: str
    life: str
    routers: tuple[str, ...]
    """All that the region has: a function belongs to one of them by rendezvous hashing."""
    load: int
    """Millionths of the region's size for functions that are in use or waited for; may exceed a million."""
    size: Amount
    """What functions may use in the region now."""
    warm: tuple[FunctionId, ...] = ()
    """Functions with an executor, at most `WARM_TOLD_MAX`."""


# Between routers and servers.


class Run(Struct, frozen=True, array_like=True, gc=False):
    """One call on its way from a router to a server."""

    number: int
    """Counts what one life of a router sends to one server, from 1 on."""
    caller: str
    tenant: TenantName
    call: Call
    is_again: bool = False
    """Whether the call may have run before: one that may be begun once only is lost if the server does not know it."""
    is_kept_only: bool = False
    """Whether a kept answer alone is wanted: a server that has none gives the call back, because it may not begin there again."""


class RunCalls(Message, frozen=True, tag="run-calls"):
    """Run these calls of one function; with none of them, only the floor is told."""

    region: RegionName
    server: str
    server_life: str
    """A server that has started again since takes none of them."""
    router: str
    life: str
    floor: int
    """Of the runs: the router has heard of the end of all below."""
    function: FunctionSpec | None = None
    runs: tuple[Run, ...] = ()
    heard: int = 0
    """The number of the newest whole report with ends that the router has heard of this life of the server; 0: none."""
    place: Place = Place()
    """Where the runs go: runs, floor and reports are counted for each place by itself."""


class ServerReport(Message, frozen=True, tag="server-report"):
    """How one place of a server stands: to each router of its region, every `SERVER_REPORT` and at changes."""

    region: RegionName
    router: str
    server: str
    life: str
    number: int
    """Counts the reports of a life on this place: an older one says nothing new."""
    slot: int
    """Its place on the ring."""
    size: Amount
    """What functions of all tenants together may use here now."""
    used: tuple[tuple[TenantName, Amount], ...]
    """By executors with calls of other routers than this one, by tenant. Idle executors make room, and count for nothing."""
    lent: tuple[tuple[TenantName, Amount], ...] = ()
    """Parts of the size that one tenant alone may use; the rest is everybody's."""
    executors: tuple[Executors, ...] = ()
    """Of each function, whole every `SERVER_REPORT`; in between only of those that changed."""
    is_whole: bool = True
    ended: tuple[EndedRun, ...] = ()
    """Runs of the router, in the life named, that have ended, the oldest ones first. Said again until the router has heard of them."""
    router_life: str = ""
    taken: int = 0
    """Every run of that life up to this number has come."""
    leaves_in: Nanoseconds = Nanoseconds(0)
    """The place is about to go, or to shrink, and takes nothing new; 0: it is not."""
    place: Place = Place()


# Between routers and the region's store.


class CountFunctions(Message, frozen=True, tag="count-functions"):
    """Record the calls that ended since the last count. With number 0 there is none: the router asks how functions were called before."""

    region: RegionName
    router: str
    life: str
    number: int
    """Counts the counts of one life, from 1 on."""
    span: Nanoseconds = Nanoseconds(0)
    """In which the calls ended."""
    counts: tuple[FunctionCount, ...] = ()


class FunctionsRemembered(Message, frozen=True, tag="functions-remembered"):
    """A router's count is in the log, or was there before."""

    region: RegionName
    router: str
    life: str
    number: int
    estimates: tuple[FunctionEstimate, ...] = ()
    """To a count of number 0: the loads of functions as they were counted last."""


# For people.


class ShowFunctions(Message, frozen=True, tag="show-functions"):
    """Tell what a router knows of functions: those of the credentials' tenant, or all."""

    region: RegionName
    router: str


class ShownFunction(Struct, frozen=True):
    """One function, as a router sees it."""

    function: FunctionId
    calls: int
    """That came in the last 60 s."""
    run_time: Nanoseconds
    """Mean of these."""
    cold: int
    """Calls since the count before the last one for which an executor was brought up: of one minute to two."""
    waiting: int
    running: int
    servers: tuple[str, ...]
    """Its min-worker-set."""
    warm: int
    """Executors."""
    lost: int
    """Of the same time."""


class FunctionsShown(Answer, frozen=True, tag="functions-shown"):
    """All of them, the one with most calls first."""

    functions: tuple[ShownFunction, ...]
    servers: int
    size: Amount = NOTHING


# What the server's machine tells the server, and never crosses the bus, is in core/messages/executors.py.

MESSAGES: tuple[type[Message], ...] = (
    CallFunction,
    CallsRefused,
    CallsAnswered,
    CodeWanted,
    CodeSent,
    AskCalls,
    CallsKnown,
    RoutersWanted,
    RouterHere,
    RunCalls,
    ServerReport,
    CountFunctions,
    FunctionsRemembered,
    ShowFunctions,
    FunctionsShown,
)
