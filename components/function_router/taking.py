"""Which calls a router takes: as many as its ceilings let it, and none to be begun once that may have come before."""

from msgspec import Struct, field

from components.function_router.answers import given_up, lost
from components.function_router.dispatching import is_held_for, may_harvest
from components.function_router.state import CallerRow, CallRow, Held, RouterState, ServerRow
from core.messages.functions import CallFunction
from core.nouns.function import Call, CallAnswer, FunctionSpec
from core.nouns.function_limits import (
    CALL_TRIES_MAX,
    CALLER_SILENCE_MAX,
    CALLERS_MAX,
    CALLS_HELD_BYTES_MAX,
    CALLS_HELD_MAX,
    CALLS_KNOWN_MAX,
    CALLS_TAKEN_MAX,
)
from core.nouns.ids import TenantName
from core.nouns.instant import Instant, Nanoseconds

FORGETS_FROM = Nanoseconds(CALLER_SILENCE_MAX // 2)
"""A caller that says a call for so long may be forgotten already, also by words that were long on their way."""


class Sorted(Struct):
    """Calls of one message, without those that wait or run, and those that have an answer."""

    new: list[Call] = field(default_factory=list)
    again: list[tuple[str, Call]] = field(default_factory=list)
    """Calls of which a server has told the end: it may have the answers still."""
    kept_only: dict[int, None] = field(default_factory=dict)
    """Numbers of those that may not begin there again, in order."""
    answers: list[CallAnswer] = field(default_factory=list)
    """Of calls that may not be begun again: those to be begun once of a server that is gone, and those that were lost too often."""
    late: list[Call] = field(default_factory=list)
    """Calls to be begun once that may have come before."""


def sorted_calls(state: RouterState, said: CallFunction, caller: CallerRow | None, at: Instant) -> Sorted:
    """Return the calls of a message by what the router knows of them."""
    found = Sorted()
    for call in said.calls:
        row = caller.calls.get(call.number) if caller is not None else None
        if call.number < said.floor or (caller is not None and call.number in caller.answered):
            continue
        if row is None:
            is_late = call.is_once and may_be_forgotten(state, said, caller, at)
            (found.late if is_late else found.new).append(call)
        elif row.is_over:
            server = state.servers.get(row.server)
            if row.losses >= CALL_TRIES_MAX:
                found.answers.append(given_up(call.number))
            elif server is not None and server.life == row.server_life:
                found.again.append((row.server, call))
                if not _may_begin_again(state, said.function, row, server, at):
                    found.kept_only[call.number] = None
            elif call.is_once:
                found.answers.append(lost(call.number))
            else:
                found.new.append(call)
    return found


def _may_begin_again(
    state: RouterState, spec: FunctionSpec, row: CallRow, server: ServerRow, at: Instant
) -> bool:
    """Return whether a call may begin anew on the place that told its end, if no answer is kept there any more."""
    if row.call.is_once or not server.place.is_harvested:
        return True  # A server begins no call twice that may be begun once only.
    is_lost_often = row.is_held_only and is_held_for(state, spec)
    may = may_harvest(state, state.functions.get(spec.id), at, spec.tenant)
    return may and not is_lost_often and not server.leaves_in


def may_be_forgotten(state: RouterState, said: CallFunction, caller: CallerRow | None, at: Instant) -> bool:
    """Return whether calls that are not known may have come before: to an earlier life, or before their caller was forgotten."""
    is_known_since = caller is not None and said.since <= at - caller.since
    return said.life != state.life or (said.since >= FORGETS_FROM and not is_known_since)


def has_room_for_caller(state: RouterState, tenant: TenantName) -> bool:
    """Return whether the router may remember one caller more of a tenant."""
    if 2 * len(state.callers) < CALLERS_MAX:
        return True
    of_tenant = sum(one == tenant for one, _ in state.callers)
    return len(state.callers) < CALLERS_MAX and 2 * of_tenant < CALLERS_MAX


def within_ceilings(
    state: RouterState, tenant: TenantName, new: list[Call], caller: CallerRow | None
) -> tuple[list[Call], list[Call]]:
    """Return the calls that are taken, and those for which there is no room."""
    if caller is None and not has_room_for_caller(state, tenant):
        return [], new
    if caller is not None and len(caller.calls) >= CALLS_KNOWN_MAX:
        return [], new
    held, out, size = state.held_of.get(tenant, Held()), 0, 0
    if caller is not None:
        out, size = caller.out, caller.size
    room = min(CALLS_TAKEN_MAX - out, CALLS_HELD_MAX - state.held, CALLS_HELD_MAX // 2 - held.calls)
    more = sum(len(call.arguments) for call in new)
    if (
        state.held_bytes + more > CALLS_HELD_BYTES_MAX
        or held.size + more > CALLS_HELD_BYTES_MAX // 2
        or size + more > CALLS_HELD_BYTES_MAX // 4
    ):
        return [], new
    return new[: max(0, room)], new[max(0, room) :]
