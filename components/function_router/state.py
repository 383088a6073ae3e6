"""State of a function router: callers with their calls, functions, and servers with their runs."""

from bisect import bisect_left, insort
from math import ceil

from msgspec import Struct, field

from core.calls.numbers import Numbers
from core.nouns.function import Call, Executors, FunctionSpec
from core.nouns.function_limits import CALL_WINDOW, CALL_WINDOW_MAX
from core.nouns.ids import FunctionId, TenantName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.quantities import NOTHING, Amount
from core.routing.policy import MemberSet
from core.routing.rates import CallRates

CallerKey = tuple[TenantName, str]
"""Tenant and caller."""
CallKey = tuple[TenantName, str, int]
"""A caller, with the number of the call."""
COUNTS_KEPT = 60
"""Seconds of which outcomes are told to people."""


class CallRow(Struct):
    """One call without an answer that its caller has, as far as is known."""

    key: CallKey
    function: FunctionId
    call: Call
    start_by: Instant
    """The latest start."""
    ends_by: Instant
    """The caller wants the call no more after this; 0: never."""
    server: str = ""
    """Empty: the call waits."""
    server_life: str = ""
    number: int = 0
    """Number of the run."""
    arrived_at: Instant = Instant(0)
    is_over: bool = False
    """The server has told the end: the call was answered, and the arguments are kept no more."""

    @property
    def order(self) -> tuple[Instant, CallKey]:
        """Return its place among calls that wait."""
        return self.start_by, self.key


class CallerRow(Struct):
    """One caller."""

    heard_at: Instant
    answered: Numbers = field(default_factory=Numbers)
    """Calls that have an answer, as the caller said."""
    out: int = 0
    """Calls that have not ended."""
    calls: dict[int, CallRow] = field(default_factory=dict)
    over: dict[int, None] = field(default_factory=dict)
    """Calls that have ended, of which the caller may not have heard."""


class Counts(Struct):
    """Counts of calls that ended since the store was told last."""

    done: int = 0
    lost: int = 0
    refused: int = 0
    again: int = 0
    """That came again although they were known."""
    cold: int = 0
    ran: Nanoseconds = Nanoseconds(0)
    waited: Nanoseconds = Nanoseconds(0)
    """In this router."""


class FunctionRow(Struct):
    """One function."""

    spec: FunctionSpec
    rates: CallRates
    members: MemberSet | None = None
    waiting: list[tuple[Instant, CallKey]] = field(default_factory=list)
    """Calls that wait, by start deadline."""
    running: int = 0
    called_at: Instant = Instant(0)
    counts: Counts = field(default_factory=Counts)

    @property
    def window(self) -> int:
        """Return how many calls one executor is given at once."""
        run_time = self.rates.run_time
        return max(1, min(CALL_WINDOW_MAX, int(CALL_WINDOW / run_time))) if run_time else 1


class ServerRow(Struct):
    """One function server."""

    life: str
    report: int
    """The number of the newest report."""
    heard_at: Instant
    slot: int
    size: Amount
    lent: dict[TenantName, Amount]
    used_by_others: Amount
    leaves_in: Nanoseconds = Nanoseconds(0)
    executors: dict[FunctionId, Executors] = field(default_factory=dict)
    runs: dict[int, tuple[CallKey, FunctionId]] = field(default_factory=dict)
    """That have not ended, in the order of their numbers."""
    sent: int = 0
    """Runs, in this life."""
    unconfirmed: dict[int, Instant] = field(default_factory=dict)
    """Runs that the server has not shown yet, by when they were said."""
    floor_told: int = 1
    out: dict[FunctionId, int] = field(default_factory=dict)
    """Runs that have not ended, by function."""

    @property
    def floor(self) -> int:
        """Return the lowest number of a run that has not ended."""
        return next(iter(self.runs), self.sent + 1)

    def used_by(self, functions: dict[FunctionId, FunctionRow]) -> dict[TenantName, Amount]:
        """Return the amounts that runs of this router use, by tenant."""
        used: dict[TenantName, Amount] = {}
        for function, count in self.out.items():
            row = functions[function]
            need = row.spec.need.times(executors_for(count, row.window))
            used[row.spec.tenant] = used.get(row.spec.tenant, NOTHING).plus(need)
        return used


def executors_for(calls: int, window: int) -> int:
    """Return how many executors so many calls keep busy."""
    return ceil(calls / window)


class RouterState:
    """All that one life of a router knows."""

    def __init__(self, at: Instant) -> None:
        self.since = at
        self.life = f"{at:x}"
        self.callers: dict[CallerKey, CallerRow] = {}
        self.functions: dict[FunctionId, FunctionRow] = {}
        self.servers: dict[str, ServerRow] = {}
        self.waits: dict[FunctionId, None] = {}
        """Functions with calls that wait."""
        self.held = 0
        """Calls of all callers that have not ended."""
        self.held_bytes = 0
        self.dispatch_at: Instant | None = None
        """Set while a dispatch may find something new."""
        self.here_at = at
        """When the router tells next that it lives."""
        self.tick_at: Instant | None = None
        """When silent servers, repeats and expired calls are looked at next."""

    def call(self, key: CallKey) -> CallRow | None:
        """Return a call that is known."""
        caller = self.callers.get(key[:2])
        return None if caller is None else caller.calls.get(key[2])

    def wait(self, row: CallRow) -> None:
        """Have a call wait for a server."""
        row.server, row.number = "", 0
        insort(self.functions[row.function].waiting, row.order)
        self.waits[row.function] = None

    def wait_no_more(self, row: CallRow) -> None:
        """Take a call from those that wait."""
        waiting = self.functions[row.function].waiting
        place = 0 if waiting and waiting[0] == row.order else bisect_left(waiting, row.order)
        assert waiting[place] == row.order, row.key
        del waiting[place]
        if not waiting:
            self.waits.pop(row.function, None)

    def hold(self, row: CallRow) -> None:
        """Count a call that has not ended."""
        self.held += 1
        self.held_bytes += len(row.call.arguments)
        self.callers[row.key[:2]].out += 1

    def let_go(self, row: CallRow) -> None:
        """Count a call no more, and keep no arguments."""
        self.held -= 1
        self.callers[row.key[:2]].out -= 1
        self.held_bytes -= len(row.call.arguments)
        row.call = Call(row.call.number, b"", row.call.within, row.call.is_once)
