"""Which waiting calls go to which server now.

Calls go by start deadline. A call goes where the policy of the region says (core/routing/), and no further than the server's size: what
fits nowhere waits here. While no waiting call is late, executors that have become free take calls of their own function first, which costs
no start: of the calls that have waited, because a call that has just come goes where the policy says.
"""

from msgspec import Struct

from components.function_router.state import (
    CallKey,
    FunctionRow,
    RouterState,
    ServerRow,
    Windows,
    executors_for,
)
from core.nouns.function import FunctionSpec
from core.nouns.function_limits import SERVER_STALE
from core.nouns.ids import FunctionId, TenantName
from core.nouns.instant import Instant
from core.nouns.quantities import Amount
from core.routing.policy import Candidate, MemberSet, RoutingPolicy
from core.routing.room import Room

_Need = tuple[TenantName, Amount]
"""The need of one executor, and its tenant."""
CALLS_SENT_MAX = 2_048
"""In one decision."""


class Sending(Struct, frozen=True):
    """Calls of one function for one server."""

    server: str
    function: FunctionId
    keys: tuple[CallKey, ...]


class Dispatch(Struct, frozen=True):
    """The result of a look at all waiting calls."""

    sendings: tuple[Sending, ...]
    members: tuple[tuple[FunctionId, MemberSet], ...]
    """Min-worker-sets that changed."""
    is_cut: bool
    """More could be sent at once."""


class _Tally:
    """One server while calls are sent there, one after the other."""

    def __init__(
        self,
        name: str,
        row: ServerRow,
        functions: dict[FunctionId, FunctionRow],
        windows: Windows,
        now: Instant,
    ) -> None:
        self.name = name
        self.slot = row.slot
        self.is_usable = is_usable(row, now)
        self.executors = row.executors
        self.out = dict(row.out)
        self._row = row
        self._functions = functions
        self._windows = windows
        self._room = Room(row.size, row.lent, row.used(functions, windows))
        self._fits: dict[_Need, bool] = {}
        self._used: dict[TenantName, Amount] = {}
        """The use of what a tenant may use, by tenant."""

    def fits(self, one: _Need) -> bool:
        """Return whether one executor more may be busy."""
        if one not in self._fits:
            self._fits[one] = self.is_usable and self._room.fits(*one)
        return self._fits[one]

    def room_for(self, function: FunctionId) -> int:
        """Return how many calls more of a function the server may have."""
        if not self.is_usable:
            return 0
        out, window = self.out.get(function, 0), self._windows[function]
        slack = executors_for(out, window) * window - out
        return slack + (window if self.fits(_need(self._functions[function])) else 0)

    def ready_for(self, function: FunctionId) -> int:
        """Return how many ready executors of a function have no call."""
        known = self.executors.get(function)
        if known is None or not self.is_usable:
            return 0
        busy = executors_for(self.out.get(function, 0), self._windows[function])
        return max(0, known.idle + known.busy - busy)

    def candidate(self, function: FunctionId) -> Candidate:
        """Return the server as the policy reads it."""
        row = self._functions[function]
        tenant, out = row.spec.tenant, executors_for(self.out.get(function, 0), self._windows[function])
        if tenant not in self._used:
            self._used[tenant] = self._room.used_of(tenant)
        return Candidate(
            self.name,
            self.slot,
            self._size_for(tenant),
            self._used[tenant],
            row.spec.need.times(out),
            self.ready_for(function),
            self.room_for(function) > 0,
            self.is_usable and self._room.ever_fits(tenant, row.spec.need),
        )

    def send(self, function: FunctionId, count: int) -> None:
        """Count calls that are sent."""
        row, window = self._functions[function], self._windows[function]
        before = executors_for(self.out.get(function, 0), window)
        self.out[function] = self.out.get(function, 0) + count
        more = row.spec.need.times(executors_for(self.out[function], window) - before)
        self._room.add(row.spec.tenant, more)
        self._fits.clear()
        self._used.clear()

    def _size_for(self, tenant: TenantName) -> Amount:
        size = self._row.size
        for name, amount in self._row.lent.items():
            if name != tenant:
                size = size.minus(amount)
        return size


class _Servers:
    """All servers while calls are sent."""

    def __init__(self, state: RouterState, now: Instant) -> None:
        functions = state.functions
        self.windows = Windows(functions)
        rows = sorted(state.servers.items(), key=lambda one: (one[1].slot, one[0]))
        self.tallies = {name: _Tally(name, row, functions, self.windows, now) for name, row in rows}
        """In the order of the ring."""
        self._functions = functions
        self._full: set[_Need] = set()
        """Executors for which no server has room: as calls are sent, there will not be more."""

    def have_room(self, function: FunctionId) -> bool:
        """Return whether a server may have one call more of a function."""
        one = _need(self._functions[function])
        if one not in self._full:
            if any(tally.fits(one) for tally in self.tallies.values()):
                return True
            self._full.add(one)
        # Executors that are busy may still be given some, behind those that they have.
        return self.windows[function] > 1 and any(
            tally.room_for(function) for tally in self.tallies.values() if function in tally.out
        )

    def with_executors(self, function: FunctionId) -> list[_Tally]:
        """Return the servers that have executors of a function."""
        return [tally for tally in self.tallies.values() if function in tally.executors]


def _need(row: FunctionRow) -> _Need:
    return row.spec.tenant, row.spec.need


def is_usable(row: ServerRow, now: Instant) -> bool:
    """Return whether a server may be sent calls: its report is fresh, and it is not about to leave."""
    return now - row.heard_at < SERVER_STALE and not row.leaves_in


def could_run(state: RouterState, spec: FunctionSpec, now: Instant) -> bool:
    """Return whether a server has, when empty, room for an executor of a function. Until servers have told their sizes, one may have."""
    return now - state.since < SERVER_STALE or any(
        Room(row.size, row.lent, {}).ever_fits(spec.tenant, spec.need) for row in state.servers.values()
    )


def dispatch(state: RouterState, policy: RoutingPolicy, now: Instant) -> Dispatch:
    """Return the sendings of now."""
    servers = _Servers(state, now)
    taken: dict[FunctionId, int] = {}
    sent: dict[tuple[str, FunctionId], list[CallKey]] = {}
    members: dict[FunctionId, MemberSet] = {}
    left = CALLS_SENT_MAX
    heads = sorted((state.functions[one].waiting[0], one) for one in state.waits)
    if heads and heads[0][0][0] > now:
        left -= _to_own(
            state, servers, [one for head, one in heads if _has_waited(state, head[1])], taken, sent
        )
    queue = [
        (state.functions[one].waiting[taken.get(one, 0)], one)
        for _, one in heads
        if _has_more(state, one, taken)
    ]
    queue.sort(reverse=True)
    while queue and left > 0:
        _, function = queue.pop()
        row = state.functions[function]
        if policy.waits and not servers.have_room(function):
            continue
        ring = [tally.candidate(function) for tally in servers.tallies.values()]
        load = row.rates.load(now, row.spec.need)
        chosen = policy.choose(function, load, ring, members.get(function, row.members), now)
        if chosen.members is not None:
            members[function] = chosen.members
        if not chosen.server:
            continue
        most = max(1, servers.tallies[chosen.server].room_for(function))
        count = _send(row, function, servers, chosen.server, most, taken, sent)
        left -= count
        if _has_more(state, function, taken):
            queue.append((row.waiting[taken[function]], function))
            queue.sort(reverse=True)
    return Dispatch(
        tuple(Sending(server, function, tuple(keys)) for (server, function), keys in sent.items()),
        tuple((one, found) for one, found in members.items() if found != state.functions[one].members),
        left <= 0,
    )


def _to_own(
    state: RouterState,
    servers: _Servers,
    functions: list[FunctionId],
    taken: dict[FunctionId, int],
    sent: dict[tuple[str, FunctionId], list[CallKey]],
) -> int:
    """Send calls to free executors of their own function. Return how many."""
    count = 0
    for function in functions:
        row = state.functions[function]
        if not servers.have_room(function):
            continue
        for tally in servers.with_executors(function):
            if not _has_more(state, function, taken):
                break
            ready = tally.ready_for(function)
            room = min(ready * servers.windows[function], tally.room_for(function)) if ready else 0
            if room:
                count += _send(row, function, servers, tally.name, room, taken, sent)
    return count


def _send(
    row: FunctionRow,
    function: FunctionId,
    servers: _Servers,
    server: str,
    most: int,
    taken: dict[FunctionId, int],
    sent: dict[tuple[str, FunctionId], list[CallKey]],
) -> int:
    """Take the calls that are due first for a server. Return how many."""
    begin = taken.get(function, 0)
    keys = [key for _, key in row.waiting[begin : begin + most]]
    sent.setdefault((server, function), []).extend(keys)
    taken[function] = begin + len(keys)
    servers.tallies[server].send(function, len(keys))
    return len(keys)


def _has_waited(state: RouterState, key: CallKey) -> bool:
    """Return whether no server was found for a call when the router looked last."""
    call = state.call(key)
    return call is not None and call.looks_before < state.looks


def _has_more(state: RouterState, function: FunctionId, taken: dict[FunctionId, int]) -> bool:
    return taken.get(function, 0) < len(state.functions[function].waiting)
