"""Which waiting calls go to which server now.

Calls go by start deadline. A call goes where the policy of the region says (core/routing/), and no further than the server's size: what
fits nowhere waits here. While no waiting call is late, executors that have become free take calls of their own function first, which costs
no start: of the calls that have waited, because a call that has just come goes where the policy says.
"""

from collections.abc import Iterator

from msgspec import Struct

from components.function_router.state import (
    CallKey,
    FunctionRow,
    Queue,
    RouterState,
    ServerRow,
    Windows,
    executors_for,
)
from core.nouns.function import FunctionSpec
from core.nouns.function_limits import ODDS_STALE, SERVER_STALE
from core.nouns.harvest import USES_ALL
from core.nouns.ids import FunctionId, TenantName
from core.nouns.instant import Instant
from core.nouns.quantities import Amount
from core.routing.policy import Candidate, MemberSet, RoutingPolicy
from core.routing.room import Room
from core.rules.harvest.odds import MILLION, loss_odds

_Need = tuple[TenantName, Amount]
"""The need of one executor, and its tenant."""
NOBODY = TenantName("")
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
        self.is_harvested = row.place.is_harvested
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

    def candidate(self, function: FunctionId, may_harvest: bool) -> Candidate:
        """Return the server as the policy reads it."""
        is_open = may_harvest or not self.is_harvested
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
            is_open and self.room_for(function) > 0,
            is_open and self.is_usable and self._room.ever_fits(tenant, row.spec.need),
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
        self._full: set[tuple[_Need, bool]] = set()
        """Executors for which no server has room: as calls are sent, there will not be more."""
        self._state, self._now = state, now
        self._may_harvest: dict[Queue, bool] = {}

    def may_harvest(self, queue: Queue) -> bool:
        """Return whether calls of a queue may run on harvested capacity."""
        if queue not in self._may_harvest:
            function, is_held_only = queue
            row = self._functions[function]
            may = may_harvest(self._state, row, self._now)
            self._may_harvest[queue] = may and not (is_held_only and is_held_for(self._state, row.spec))
        return self._may_harvest[queue]

    def open_to(self, queue: Queue) -> Iterator[_Tally]:
        """Yield the servers that calls of a queue may go to."""
        may = self.may_harvest(queue)
        return (tally for tally in self.tallies.values() if may or not tally.is_harvested)

    def have_room(self, queue: Queue) -> bool:
        """Return whether a server may have one call more of a queue."""
        function, _ = queue
        one = _need(self._functions[function])
        kind = one, self.may_harvest(queue)
        if kind not in self._full:
            if any(tally.fits(one) for tally in self.open_to(queue)):
                return True
            self._full.add(kind)
        # Executors that are busy may still be given some, behind those that they have.
        return self.windows[function] > 1 and any(
            tally.room_for(function) for tally in self.open_to(queue) if function in tally.out
        )

    def with_executors(self, queue: Queue) -> list[_Tally]:
        """Return the servers that have executors of a queue's function."""
        return [tally for tally in self.open_to(queue) if queue[0] in tally.executors]


def _need(row: FunctionRow) -> _Need:
    return row.spec.tenant, row.spec.need


def is_usable(row: ServerRow, now: Instant) -> bool:
    """Return whether a server may be sent calls: its report is fresh, and it is not about to leave."""
    return now - row.heard_at < SERVER_STALE and not row.leaves_in


def may_harvest(
    state: RouterState, row: FunctionRow | None, now: Instant, tenant: TenantName = NOBODY
) -> bool:
    """Return whether calls of a function may run on harvested capacity: its tenant's setting says so, and the odds are known.

    row     None: the function was not called before, and nothing is known of its run times
    tenant  of a function without a row
    """
    odds = state.odds
    if odds is None or now - odds.heard_at > ODDS_STALE:
        return False
    use = odds.uses.get(row.spec.tenant if row is not None else tenant, USES_ALL)
    if not use.is_on or use.risk_max >= MILLION or row is None:
        return use.is_on
    return loss_odds(odds.recalls, row.run_times.weighted(), odds.grace) <= use.risk_max


def is_held_for(state: RouterState, spec: FunctionSpec) -> bool:
    """Return whether tasks hold room for an executor of a function on some place."""
    return any(
        Room(row.size, row.lent, {}).ever_fits(spec.tenant, spec.need)
        for row in state.servers.values()
        if not row.place.is_harvested
    )


def could_run(state: RouterState, spec: FunctionSpec, now: Instant) -> bool:
    """Return whether a server has, when empty, room for an executor of a function. Until servers have told their sizes, one may have."""
    if now - state.since < SERVER_STALE:
        return True
    may = may_harvest(state, state.functions.get(spec.id), now, spec.tenant)
    return any(
        Room(row.size, row.lent, {}).ever_fits(spec.tenant, spec.need)
        for row in state.servers.values()
        if may or not row.place.is_harvested
    )


def dispatch(state: RouterState, policy: RoutingPolicy, now: Instant) -> Dispatch:
    """Return the sendings of now."""
    servers = _Servers(state, now)
    taken: dict[Queue, int] = {}
    sent: dict[tuple[str, FunctionId], list[CallKey]] = {}
    members: dict[FunctionId, MemberSet] = {}
    left = CALLS_SENT_MAX
    heads = sorted((state.waiting(one)[0], one) for one in state.waits)
    if heads and heads[0][0][0] > now:
        left -= _to_own(
            state, servers, [one for head, one in heads if _has_waited(state, head[1])], taken, sent
        )
    queues = [
        (state.waiting(one)[taken.get(one, 0)], one) for _, one in heads if _has_more(state, one, taken)
    ]
    queues.sort(reverse=True)
    while queues and left > 0:
        _, queue = queues.pop()
        function, is_held_only = queue
        row = state.functions[function]
        if policy.waits and not servers.have_room(queue):
            continue
        may = servers.may_harvest(queue)
        ring = [tally.candidate(function, may) for tally in servers.tallies.values()]
        load = row.rates.load(now, row.spec.need)
        known = None if is_held_only else members.get(function, row.members)
        chosen = policy.choose(function, load, ring, known, now)
        if chosen.members is not None and not is_held_only:
            members[function] = chosen.members
        if not chosen.server:
            continue
        most = max(1, servers.tallies[chosen.server].room_for(function))
        left -= _send(state, queue, servers, chosen.server, most, taken, sent)
        if _has_more(state, queue, taken):
            queues.append((state.waiting(queue)[taken[queue]], queue))
            queues.sort(reverse=True)
    return Dispatch(
        tuple(Sending(server, function, tuple(keys)) for (server, function), keys in sent.items()),
        tuple((one, found) for one, found in members.items() if found != state.functions[one].members),
        left <= 0,
    )


def _to_own(
    state: RouterState,
    servers: _Servers,
    queues: list[Queue],
    taken: dict[Queue, int],
    sent: dict[tuple[str, FunctionId], list[CallKey]],
) -> int:
    """Send calls to free executors of their own function. Return how many."""
    count = 0
    for queue in queues:
        function, _ = queue
        if not servers.have_room(queue):
            continue
        for tally in servers.with_executors(queue):
            if not _has_more(state, queue, taken):
                break
            ready = tally.ready_for(function)
            room = min(ready * servers.windows[function], tally.room_for(function)) if ready else 0
            if room:
                count += _send(state, queue, servers, tally.name, room, taken, sent)
    return count


def _send(
    state: RouterState,
    queue: Queue,
    servers: _Servers,
    server: str,
    most: int,
    taken: dict[Queue, int],
    sent: dict[tuple[str, FunctionId], list[CallKey]],
) -> int:
    """Take the calls that are due first for a server. Return how many."""
    begin = taken.get(queue, 0)
    keys = [key for _, key in state.waiting(queue)[begin : begin + most]]
    sent.setdefault((server, queue[0]), []).extend(keys)
    taken[queue] = begin + len(keys)
    servers.tallies[server].send(queue[0], len(keys))
    return len(keys)


def _has_waited(state: RouterState, key: CallKey) -> bool:
    """Return whether no server was found for a call when the router looked last."""
    call = state.call(key)
    return call is not None and call.looks_before < state.looks


def _has_more(state: RouterState, queue: Queue, taken: dict[Queue, int]) -> bool:
    return taken.get(queue, 0) < len(state.waiting(queue))
