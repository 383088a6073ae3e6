"""Reports of a function server to the routers of its region: whole ones every second, and changes in between."""

from components.function_server.state import FunctionRow, RouterLink, ServerState
from core.messages.functions import ServerReport
from core.nouns.function import Executors, WarmLevel
from core.nouns.ids import FunctionId, RegionName, TenantName
from core.nouns.instant import Instant
from core.nouns.quantities import NOTHING, Amount


def report_of(
    state: ServerState, region: RegionName, router: str, server: str, slot: int, now: Instant
) -> ServerReport | None:
    """Return the report that is due for a router now, if one is."""
    link = state.links[router]
    is_whole = link.whole_at <= now
    if not (is_whole or link.fresh or link.changed):
        return None
    functions = state.functions if is_whole else link.changed
    rows = (executors_of(state, function, state.functions[function]) for function in functions)
    return ServerReport(
        region,
        router,
        server,
        state.life,
        link.said + 1,
        slot,
        state.size,
        tuple(used_by_others(state, router, link).items()),
        tuple(state.lent.items()),
        tuple(row for row in rows if not is_whole or row.idle + row.busy + row.starting),
        is_whole,
        link.to_tell(is_whole),
        link.life,
        link.numbers.taken,
    )


def executors_of(state: ServerState, function: FunctionId, row: FunctionRow) -> Executors:
    """Return how many executors of a function there are."""
    idle = busy = starting = 0
    level = WarmLevel.COLD
    for number in row.executors:
        one = state.executors[number]
        if one.is_ending:
            continue
        if not one.is_ready:
            starting += 1
            level = max(level, one.level)
        elif one.tickets:
            busy += 1
        else:
            idle += 1
    return Executors(function, idle, busy, starting, level)


def used_by_others(state: ServerState, router: str, link: RouterLink) -> dict[TenantName, Amount]:
    """Return the use of executors with runs from other routers, by tenant: all of a function come from one router, but for moments."""
    used: dict[TenantName, Amount] = {}
    for one in state.executors.values():
        if one.tickets:
            source = state.runs[next(iter(one.tickets))].sources[-1]
            if (source.router, source.life) != (router, link.life):
                used[one.tenant] = used.get(one.tenant, NOTHING).plus(one.need)
    return used
