"""A router's own figures: functions for people, load for callers."""

from bisect import bisect_left

from components.function_router.dispatching import is_usable
from components.function_router.state import FunctionRow, RouterState, Windows, executors_for
from core.messages.functions import FunctionsShown, ShownFunction
from core.nouns.function_limits import SERVER_STALE, WARM_TOLD_MAX
from core.nouns.ids import FunctionId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.quantities import NOTHING, Amount
from core.routing.ring import start_of
from core.routing.room import Room
from core.rules.ownership import owns

MILLION = 1_000_000


def shown_functions(state: RouterState, tenant: str, now: Instant) -> FunctionsShown:
    """Return the functions that these credentials may see, the one with most calls first."""
    rows = []
    for function, row in state.functions.items():
        if not owns(tenant, row.spec.tenant):
            continue
        executors = [one.executors[function] for one in state.servers.values() if function in one.executors]
        running = sum(one.out.get(function, 0) for one in state.servers.values())
        rows.append(
            ShownFunction(
                function,
                row.rates.counted(now),
                Nanoseconds(round(row.rates.run_time)),
                sum(row.counts.cold) + sum(row.before.cold),
                len(row.waiting) + len(row.waiting_held),
                running,
                _members(state, function, row, now),
                sum(one.idle + one.busy for one in executors),
                row.counts.lost + row.before.lost,
            )
        )
    rows.sort(key=lambda one: (-one.calls, one.function))
    return FunctionsShown(tuple(rows), len(state.servers), size_of(state, now))


def _members(state: RouterState, function: FunctionId, row: FunctionRow, now: Instant) -> tuple[str, ...]:
    """Return a function's min-worker-set; of a policy without sets the servers with an executor."""
    if row.members is None:
        return tuple(name for name, one in state.servers.items() if function in one.executors)
    need, tenant = row.spec.need, row.spec.tenant
    ring = sorted(
        (one.slot, name)
        for name, one in state.servers.items()
        if is_usable(one, now) and Room(one.size, one.lent, {}).ever_fits(tenant, need)
    )
    first = bisect_left(ring, (start_of(function), ""))
    return tuple(name for _, name in (*ring[first:], *ring[:first]))[: row.members.size]


def warm_functions(state: RouterState) -> tuple[FunctionId, ...]:
    """Return the functions with executors, those first that were called last."""
    warm = {function for row in state.servers.values() for function in row.executors}
    known = [one for one in warm if one in state.functions]
    known.sort(key=lambda one: (-state.functions[one].called_at, one))
    return tuple(known[:WARM_TOLD_MAX])


def size_of(state: RouterState, now: Instant) -> Amount:
    """Return the size for functions of all servers with a fresh report."""
    size = NOTHING
    for row in state.servers.values():
        if now - row.heard_at < SERVER_STALE:
            size = size.plus(row.size)
    return size


def load_of(state: RouterState, now: Instant) -> tuple[Amount, int]:
    """Return the size of all servers, and the part in millionths that calls need, those among them that wait."""
    size, needed = size_of(state, now), NOTHING
    windows = Windows(state.functions)
    for row in state.servers.values():
        for amount in row.used(state.functions, windows).values():
            needed = needed.plus(amount)
    for queue in state.waits:
        one = state.functions[queue[0]]
        needed = needed.plus(one.spec.need.times(executors_for(len(state.waiting(queue)), one.window)))
    parts = [
        used * MILLION // has
        for used, has in (
            (needed.gpu_milli, size.gpu_milli),
            (needed.cpu_milli, size.cpu_milli),
            (needed.memory_bytes, size.memory_bytes),
        )
        if has
    ]
    return size, max(parts, default=MILLION)
