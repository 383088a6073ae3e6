"""Reports of a function server to the routers of its region: whole ones every second, and changes in between."""

from msgspec.structs import astuple

from components.function_server.state import Line, Lost, RouterLink, ServerState
from core.messages.functions import ServerReport
from core.messages.harvest import NodeUse, ServerSized
from core.nouns.function import Executors, Place, WarmLevel, member_of
from core.nouns.ids import RegionName, TenantName
from core.nouns.instant import Instant, Nanoseconds, earliest
from core.nouns.quantities import NOTHING, Amount
from core.routing.ring import slot_of


def is_in_use(state: ServerState, place: Place) -> bool:
    """Return whether routers have to hear of a place again and again: functions may use the place, or have left something there."""
    row = state.place(place)
    lines = (function.lines.get(place) for function in state.functions.values())
    return (
        row.size != NOTHING
        or any(link.ended for link in row.links.values())
        or any(line is not None and (line.executors or line.waiting) for line in lines)
    )


def next_report(state: ServerState, now: Instant) -> Instant | None:
    """Return when the next report is due."""
    links = [link for row in state.places.values() for link in row.links.values()]
    return earliest(*(now if link.fresh else link.whole_at for link in links))


def reports_of(state: ServerState, region: RegionName, server: str, now: Instant) -> tuple[ServerReport, ...]:
    """Return the reports that are due now, place by place."""
    found = (
        _report_of(state, region, server, place, router, now)
        for place in state.places
        for router in state.routers
    )
    return tuple(report for report in found if report is not None)


def _report_of(
    state: ServerState, region: RegionName, server: str, place: Place, router: str, now: Instant
) -> ServerReport | None:
    """Return the report on a place that is due for a router now, if one is."""
    row = state.place(place)
    link = row.links[router]
    is_whole = link.whole_at is not None and link.whole_at <= now
    if not (is_whole or link.fresh or link.changed):
        return None
    here = (function for function, one in state.functions.items() if place in one.lines)
    functions = here if is_whole else link.changed
    rows = (executors_of(state, (function, place)) for function in functions)
    return ServerReport(
        region,
        router,
        server,
        state.life,
        link.said + 1,
        slot_of(member_of(server, place)),
        row.size,
        tuple(used_by_others(state, place, router, link).items()),
        tuple(row.lent.items()),
        tuple(row for row in rows if not is_whole or row.idle + row.busy + row.starting),
        is_whole,
        link.to_tell(is_whole),
        link.life,
        link.numbers.taken,
        leaves_in=_leaves_in(state, place, now),
        place=place,
    )


def _leaves_in(state: ServerState, place: Place, now: Instant) -> Nanoseconds:
    """Return how long a place has until it is as small as was said; 0: it is."""
    left = [one.leaves_by for one in state.executors.values() if one.place == place and one.leaves_by]
    return Nanoseconds(max(1, max(left) - now)) if left else Nanoseconds(0)


def use_of(state: ServerState, region: RegionName, server: str, revision: int) -> ServerSized:
    """Return the use of harvested nodes by executors, for the harvester."""
    nodes = {one.place.node for one in state.executors.values() if one.place.is_harvested}
    lost = state.harvest.lost
    return ServerSized(
        region,
        server,
        revision,
        tuple(
            NodeUse(node, state.used_of_node(node), *astuple(lost.get(node, Lost())))
            for node in sorted({*nodes, *state.harvest.sizes})
        ),
    )


def executors_of(state: ServerState, line: Line) -> Executors:
    """Return how many executors of a function there are on a place."""
    idle = busy = starting = 0
    level = WarmLevel.COLD
    for number in state.line(line).executors:
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
    return Executors(line[0], idle, busy, starting, level)


def used_by_others(
    state: ServerState, place: Place, router: str, link: RouterLink
) -> dict[TenantName, Amount]:
    """Return the use of a place by executors with runs from other routers, by tenant: all of a function come from one, but for moments."""
    used: dict[TenantName, Amount] = {}
    for one in state.executors.values():
        if one.place == place and one.tickets:
            source = state.runs[next(iter(one.tickets))].sources[-1]
            if (source.router, source.life) != (router, link.life):
                used[one.tenant] = used.get(one.tenant, NOTHING).plus(one.need)
    return used
