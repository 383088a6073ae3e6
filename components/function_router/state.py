"""State of a function router: callers with their calls, functions, and servers with their runs."""

from bisect import bisect_left, insort
from math import ceil

from msgspec import Struct, field

from core.calls.lives import life_of
from core.calls.numbers import Numbers
from core.messages.functions import CountFunctions
from core.nouns.function import Call, Executors, FunctionCount, FunctionEstimate, FunctionSpec, Place
from core.nouns.function_limits import CALL_WINDOW, CALL_WINDOW_MAX, FUNCTIONS_COUNTED
from core.nouns.harvest import HarvestUse
from core.nouns.ids import FunctionId, TenantName
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import NEED_MAX
from core.nouns.quantities import NOTHING, Amount
from core.routing.policy import MemberSet
from core.routing.rates import CallRates, RunTimes

CallerKey = tuple[TenantName, str]
"""Tenant and caller."""
CallKey = tuple[TenantName, str, int]
"""A caller, with the number of the call."""
Queue = tuple[FunctionId, bool]
"""Waiting calls of one function: those for any place, or those for held places, if there are any."""
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
    looks_before: int = 0
    """How often waiting calls had been looked at when this one began to wait."""
    may_have_begun: bool = False
    """A server is gone that had the call."""
    is_again: bool = False
    """The end was told, and the caller said the call again: the call has begun before."""
    is_kept_only: bool = False
    """The call was sent again to where it may not begin: only a kept answer is wanted there."""
    losses: int = 0
    """Runs of the call that were lost on harvested capacity."""
    is_held_only: bool = False
    """The call was lost so often that it is for places that tasks hold for functions, if there are any."""
    is_over: bool = False
    """The server has told the end: the call was answered, and the arguments are kept no more."""

    @property
    def order(self) -> tuple[Instant, CallKey]:
        """Return its place among calls that wait."""
        return self.start_by, self.key


class CallerRow(Struct):
    """One caller."""

    since: Instant
    """When the first word was heard that is remembered."""
    heard_at: Instant
    word: int = 0
    """The newest word that was heard."""
    answered: Numbers = field(default_factory=Numbers)
    """Calls that have an answer, as the caller said."""
    out: int = 0
    """Calls that have not ended."""
    size: int = 0
    """Bytes of their arguments."""
    calls: dict[int, CallRow] = field(default_factory=dict)
    over: dict[int, None] = field(default_factory=dict)
    """Calls that have ended, of which the caller may not have heard."""


class Counts(Struct):
    """Counts of calls that ended since the store was told last."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    refused: int = 0
    again: int = 0
    """That came again although they were known."""
    cold: list[int] = field(default_factory=lambda: [0, 0, 0])
    """By the level of the best executor when the call came."""
    ran: Nanoseconds = Nanoseconds(0)
    waited: Nanoseconds = Nanoseconds(0)
    """In this router."""
    harvested: int = 0
    """Done on harvested capacity."""
    harvested_span: Nanoseconds = Nanoseconds(0)
    retried: int = 0
    """Runs that were lost there, of calls that were sent once more."""
    lost_span: Nanoseconds = Nanoseconds(0)
    """How long all runs had run that were lost there."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is no call to count."""
        return not (self.done or self.failed or self.lost or self.refused or self.again or self.retried)

    def told(self, function: FunctionId) -> FunctionCount:
        """Return the counts as the store records them."""
        process, host, device = self.cold
        ran, waited, harvested, lost = (
            Nanoseconds(min(one, NEED_MAX))
            for one in (self.ran, self.waited, self.harvested_span, self.lost_span)
        )
        return FunctionCount(
            function,
            self.done,
            self.failed,
            self.lost,
            self.refused,
            self.again,
            (process, host, device),
            ran,
            waited,
            self.harvested,
            harvested,
            self.retried,
            lost,
        )


class FunctionRow(Struct):
    """One function."""

    spec: FunctionSpec
    rates: CallRates
    members: MemberSet | None = None
    waiting: list[tuple[Instant, CallKey]] = field(default_factory=list)
    """Calls that wait for any place, by start deadline."""
    waiting_held: list[tuple[Instant, CallKey]] = field(default_factory=list)
    """Calls that wait for a place that tasks hold for functions."""
    run_times: RunTimes = field(default_factory=RunTimes)
    running: int = 0
    called_at: Instant = Instant(0)
    counts: Counts = field(default_factory=Counts)
    before: Counts = field(default_factory=Counts)
    """Counts that the store was told last."""

    @property
    def window(self) -> int:
        """Return how many calls one executor is given at once."""
        run_time = self.rates.run_time
        return max(1, min(CALL_WINDOW_MAX, int(CALL_WINDOW / run_time))) if run_time else 1


class Odds(Struct, frozen=True):
    """The newest odds of the region's harvester."""

    recalls: int
    """Expected recalls of one node in an hour, in millionths."""
    grace: Nanoseconds
    uses: dict[TenantName, HarvestUse]
    """Settings of tenants that do not use all."""
    heard_at: Instant


class Windows(dict[FunctionId, int]):
    """How many calls one executor of a function is given at once, worked out when first asked for."""

    def __init__(self, functions: dict[FunctionId, FunctionRow]) -> None:
        super().__init__()
        self._functions = functions

    def __missing__(self, function: FunctionId) -> int:
        found = self[function] = self._functions[function].window
        return found


class ServerRow(Struct):
    """One place of a function server: to the router a server of its own."""

    server: str
    """The name by which runs are addressed."""
    place: Place
    life: str
    report: int
    """The number of the newest report."""
    heard_at: Instant
    slot: int
    size: Amount
    lent: dict[TenantName, Amount]
    used_by_others: dict[TenantName, Amount]
    leaves_in: Nanoseconds = Nanoseconds(0)
    executors: dict[FunctionId, Executors] = field(default_factory=dict)
    runs: dict[int, tuple[CallKey, FunctionId]] = field(default_factory=dict)
    """That have not ended, in the order of their numbers."""
    sent: int = 0
    """Number of the newest run."""
    unconfirmed: dict[int, Instant] = field(default_factory=dict)
    """Runs that the server has not shown yet, by when they were said."""
    floor_told: int = 1
    heard_whole: int = 0
    """Number of the newest whole report with ends of this life's runs."""
    heard_told: int = 0
    """That number as the server was told last."""
    out: dict[FunctionId, int] = field(default_factory=dict)
    """Runs that have not ended, by function."""

    @property
    def floor(self) -> int:
        """Return the lowest number of a run that has not ended."""
        return next(iter(self.runs), self.sent + 1)

    def take_out(self, number: int) -> tuple[CallKey, FunctionId] | None:
        """Know a run no more. Return its call and function, if it was known."""
        found = self.runs.pop(number, None)
        if found is not None:
            self.unconfirmed.pop(number, None)
            _, function = found
            self.out[function] -= 1
            if not self.out[function]:
                del self.out[function]
        return found

    def used(self, functions: dict[FunctionId, FunctionRow], windows: Windows) -> dict[TenantName, Amount]:
        """Return the amounts that runs of all routers use, by tenant."""
        used = dict(self.used_by_others)
        for function, count in self.out.items():
            spec = functions[function].spec
            need = spec.need.times(executors_for(count, windows[function]))
            used[spec.tenant] = used.get(spec.tenant, NOTHING).plus(need)
        return used


def executors_for(calls: int, window: int) -> int:
    """Return how many executors so many calls keep busy."""
    return ceil(calls / window)


class Held(Struct):
    """Calls of one tenant that have not ended."""

    calls: int = 0
    size: int = 0
    """Bytes of their arguments."""


class RouterState:
    """All that one life of a router knows."""

    def __init__(self, at: Instant) -> None:
        self.since = at
        self.life = life_of(at)
        self.callers: dict[CallerKey, CallerRow] = {}
        self.functions: dict[FunctionId, FunctionRow] = {}
        self.servers: dict[str, ServerRow] = {}
        """Rows by server and place (`member_of`)."""
        self.gone: dict[str, int] = {}
        """The number of the newest run, of servers that are taken for gone."""
        self.waits: dict[Queue, None] = {}
        """Queues with calls that wait."""
        self.odds: Odds | None = None
        """None: nothing was heard of harvested capacity, which nobody uses then."""
        self.held = 0
        """Calls of all callers that have not ended."""
        self.held_bytes = 0
        self.held_of: dict[TenantName, Held] = {}
        self.dispatch_at: Instant | None = None
        """Set while a dispatch may find something new."""
        self.looks = 0
        """How often waiting calls were looked at."""
        self.here_at = at
        self.here_said_at = Instant(0)
        """When the router tells next that it lives."""
        self.estimates: dict[FunctionId, FunctionEstimate] = {}
        """Loads from before this life, of functions that were not called yet."""
        self.count_number = -1
        """Of the newest count that the store was told; 0: the store was asked for loads alone, −1: for nothing yet."""
        self.told: CountFunctions | None = None
        """The newest words to the store, until it has answered."""
        self.count_at: Instant | None = at
        """When the store is told, or told again; None: there are no counts."""
        self.counted_at = at
        """When the counts were told last."""
        self.tick_at: Instant | None = None
        """When silent servers, repeats and expired calls are looked at next."""

    def call(self, key: CallKey) -> CallRow | None:
        """Return a call that is known."""
        caller = self.callers.get(key[:2])
        return None if caller is None else caller.calls.get(key[2])

    def awaited(self, key: CallKey, server: str, number: int) -> CallRow | None:
        """Return the call of a run, if the end of that run is awaited."""
        row = self.call(key)
        if row is None or row.is_over or (row.server, row.number) != (server, number):
            return None
        return row

    def count_soon(self) -> None:
        """Have the store told of calls a minute after the last time."""
        if self.count_at is None:
            self.count_at = after(self.counted_at, FUNCTIONS_COUNTED)

    def waiting(self, queue: Queue) -> list[tuple[Instant, CallKey]]:
        """Return the calls that wait in a queue, by start deadline."""
        function, is_held_only = queue
        row = self.functions[function]
        return row.waiting_held if is_held_only else row.waiting

    def wait(self, row: CallRow) -> None:
        """Have a call wait for a server."""
        row.server, row.number, row.looks_before, row.is_kept_only = "", 0, self.looks, False
        queue = row.function, row.is_held_only
        insort(self.waiting(queue), row.order)
        self.waits[queue] = None

    def wait_no_more(self, row: CallRow) -> None:
        """Take a call from those that wait."""
        queue = row.function, row.is_held_only
        waiting = self.waiting(queue)
        place = 0 if waiting and waiting[0] == row.order else bisect_left(waiting, row.order)
        assert waiting[place] == row.order, row.key
        del waiting[place]
        if not waiting:
            self.waits.pop(queue, None)

    def hold(self, row: CallRow) -> None:
        """Count a call that has not ended."""
        self._count_held(row, 1)

    def let_go(self, row: CallRow) -> None:
        """Count a call no more, and keep no arguments."""
        self._count_held(row, -1)
        row.call = Call(row.call.number, b"", row.call.within, row.call.is_once)

    def _count_held(self, row: CallRow, change: int) -> None:
        """Count a call more, or less."""
        size = change * len(row.call.arguments)
        tenant, caller = self.held_of.setdefault(row.key[0], Held()), self.callers[row.key[:2]]
        self.held, self.held_bytes = self.held + change, self.held_bytes + size
        tenant.calls, tenant.size = tenant.calls + change, tenant.size + size
        caller.out, caller.size = caller.out + change, caller.size + size
        if not tenant.calls:
            del self.held_of[row.key[0]]
