"""Notes of a function router, and how each is folded into the state."""

from components.function_router.state import (
    CallerKey,
    CallerRow,
    CallKey,
    CallRow,
    Counts,
    FunctionRow,
    Odds,
    RouterState,
    ServerRow,
)
from core.fact import Note
from core.messages.functions import CountFunctions, ServerReport
from core.messages.harvest import HarvestOdds
from core.nouns.function import Call, CallOutcome, EndedRun, FunctionEstimate, FunctionSpec, member_of
from core.nouns.function_limits import CALL_TRIES_MAX, COUNT_AGAIN, ROUTER_INTERVAL
from core.nouns.ids import FunctionId
from core.nouns.instant import Instant, Nanoseconds, after, seconds
from core.routing.policy import MemberSet
from core.routing.rates import CallRates

NO_HURRY: Nanoseconds = seconds(60)
"""The span by which calls without a time of their own are ranked."""
LOSSES_MAX = 2
"""Losses of a call on harvested capacity after which held capacity is preferred: after the first, the call is sent there once more."""
TICK = Nanoseconds(ROUTER_INTERVAL // 4)
"""Between two looks for silence, and for calls that are wanted no more."""


class CallsHeard(Note, frozen=True):
    """A caller said calls, and up to where there are answers."""

    caller: CallerKey
    word: int
    floor: int
    answered: tuple[tuple[int, int], ...]
    function: FunctionSpec
    calls: tuple[Call, ...]
    """That wait now. The end of some of them may have been told, of which their caller has not heard."""


class CallsSent(Note, frozen=True):
    """Calls that waited were sent to a server, numbered from its newest run on."""

    server: str
    keys: tuple[CallKey, ...]


class CallsSentAgain(Note, frozen=True):
    """Calls of which the end was told were sent once more to the server that told it."""

    server: str
    caller: CallerKey
    calls: tuple[Call, ...]
    kept_only: tuple[int, ...] = ()
    """Numbers of those that may not begin there again."""


class CallsOver(Note, frozen=True):
    """Calls that waited, or had been sent to a server that is gone, were answered by the router: none of them runs any more."""

    lost: tuple[CallKey, ...] = ()
    refused: tuple[CallKey, ...] = ()


class CallsGivenBack(Note, frozen=True):
    """Calls of one caller that waited do so no more: no server could run them."""

    caller: CallerKey
    numbers: tuple[int, ...]


class MembersChanged(Note, frozen=True):
    """Min-worker-sets are these from now on."""

    members: tuple[tuple[FunctionId, MemberSet], ...]


class Dispatched(Note, frozen=True):
    """All calls with room were sent."""

    is_whole: bool


class ReportHeard(Note, frozen=True):
    """A server told how it stands."""

    report: ServerReport


class OddsHeard(Note, frozen=True):
    """The harvester told how often capacity is recalled, and who may use it."""

    said: HarvestOdds


class ServerLost(Note, frozen=True):
    """A server is gone: its calls wait again. `CallsOver` before has those that may not be begun twice."""

    server: str


class RunsRepeated(Note, frozen=True):
    """Runs were said again to a server, and the floor."""

    server: str
    numbers: tuple[int, ...]
    unwanted: tuple[int, ...]
    """Runs that the server has not shown, and that are forgotten: their calls have ended otherwise."""
    floor: int


class CallersForgotten(Note, frozen=True):
    """Callers were silent for so long that their calls are of no use."""

    callers: tuple[CallerKey, ...]


class FunctionsForgotten(Note, frozen=True):
    """Functions were not called for long."""

    functions: tuple[FunctionId, ...]


class CountTold(Note, frozen=True):
    """The store was told counts, or asked for loads, once more or for the first time."""

    message: CountFunctions


class CountKept(Note, frozen=True):
    """The store has the newest counts."""

    estimates: tuple[FunctionEstimate, ...]


class HereSaid(Note, frozen=True):
    """The router told that the router lives."""


class HereWanted(Note, frozen=True):
    """A caller has heard no router yet."""


class Ticked(Note, frozen=True):
    """Silence, and calls that are wanted no more, were looked for."""


def fold(state: RouterState, note: Note, now: Instant) -> None:
    """Fold a note of the router's own."""
    match note:
        case CallsHeard():
            _hear(state, note, now)
        case CallsSent(server, keys):
            for key in keys:
                call = state.call(key)
                assert call is not None, key
                state.wait_no_more(call)
                _send(state, server, call, now)
        case CallsSentAgain(server, caller, calls, kept_only):
            for said in calls:
                _send_again(state, server, caller, said, now, is_kept_only=said.number in kept_only)
        case CallsOver(lost, refused):
            _end_calls(state, lost, refused)
        case CallsGivenBack(caller, numbers):
            for number in numbers:
                _drop(state, (*caller, number))
        case MembersChanged(members):
            for function, found in members:
                state.functions[function].members = found
        case Dispatched(is_whole):
            state.dispatch_at = None if is_whole else now
            state.looks += 1
        case ReportHeard(report):
            _report(state, report, now)
        case OddsHeard(said):
            uses = {one.tenant: one.use for one in said.tenants}
            state.odds = Odds(said.recalls, said.grace, uses, now)
        case ServerLost(server):
            _lose(state, server, now)
        case RunsRepeated(server, numbers, unwanted, floor):
            row = state.servers[server]
            row.floor_told, row.heard_told = floor, row.heard_whole
            for number in numbers:
                row.unconfirmed[number] = now
            for number in unwanted:
                row.take_out(number)
        case CallersForgotten(callers):
            for caller in callers:
                _forget(state, caller)
        case FunctionsForgotten(functions):
            for function in functions:
                del state.functions[function]
        case CountTold(message):
            _tell_counts(state, message, now)
        case CountKept(estimates):
            state.told = state.count_at = None
            if not all(row.counts.is_empty for row in state.functions.values()):
                state.count_soon()
            state.estimates |= {one.function: one for one in estimates if one.function not in state.functions}
        case HereSaid():
            state.here_said_at, state.here_at = now, after(now, ROUTER_INTERVAL)
        case HereWanted():
            state.here_at = now
        case Ticked():
            _tick(state, now)
        case _:
            raise AssertionError(note)


def _end_calls(state: RouterState, lost: tuple[CallKey, ...], refused: tuple[CallKey, ...]) -> None:
    for key in lost:
        _count(state, key).lost += 1
        call = state.call(key)
        assert call is not None, key
        if not call.server:
            state.wait_no_more(call)
        _finish(state, call)
    for key in refused:
        _count(state, key).refused += 1
        _drop(state, key)


def _tick(state: RouterState, now: Instant) -> None:
    for name, heard in state.callers.items():
        for number in [number for number in heard.calls if number in heard.answered]:
            _drop(state, (*name, number))
    is_idle = not (state.servers or state.callers)
    state.tick_at = None if is_idle else after(now, TICK)


# Callers.


def _hear(state: RouterState, note: CallsHeard, now: Instant) -> None:
    caller = state.callers.setdefault(note.caller, CallerRow(now, now))
    caller.heard_at, caller.word = now, note.word
    caller.answered.take_up_to(note.floor - 1)
    caller.answered.add_ranges(note.answered)
    for number in [number for number in caller.over if number in caller.answered]:
        _drop(state, (*note.caller, number))
    row = state.functions.get(note.function.id)
    if row is None:
        row = state.functions[note.function.id] = FunctionRow(
            note.function, _rates(state, note.function, now)
        )
    row.called_at = now
    new = 0
    for said in note.calls:
        known = caller.calls.get(said.number)
        if known is not None:
            known.call, known.is_over, known.may_have_begun = said, False, True
            caller.over.pop(said.number, None)
            row.counts.again += 1
        else:
            ends_by = after(now, said.within) if said.within else Instant(0)
            key: CallKey = (*note.caller, said.number)
            start_by = _start_by(row, ends_by, now)
            known = caller.calls[said.number] = CallRow(
                key, row.spec.id, said, start_by, ends_by, arrived_at=now
            )
            new += 1
        state.hold(known)
        state.wait(known)
    if note.calls:
        row.rates.called(now, new)
        state.dispatch_at = now
    if state.tick_at is None:
        state.tick_at = after(now, TICK)


def _rates(state: RouterState, function: FunctionSpec, now: Instant) -> CallRates:
    """Return estimates of a function that is called for the first time in this life."""
    known = state.estimates.pop(function.id, None)
    return (
        CallRates()
        if known is None
        else CallRates.remembered(now, known.calls_per_minute / 60, known.run_time)
    )


def _tell_counts(state: RouterState, message: CountFunctions, now: Instant) -> None:
    if state.told is None:
        for count in message.counts:
            row = state.functions[count.function]
            row.before, row.counts = row.counts, Counts()
        state.counted_at = now
    state.told, state.count_number = message, message.number
    state.count_at = after(now, COUNT_AGAIN)


def _start_by(row: FunctionRow, ends_by: Instant, now: Instant) -> Instant:
    """Return when a call must start, so that its caller has the answer in time; without a time, as if wanted within a minute."""
    return Instant((ends_by or after(now, NO_HURRY)) - round(row.rates.run_time))


def _drop(state: RouterState, key: CallKey) -> None:
    """Know a call no more. Where the call runs, it runs on."""
    call = state.call(key)
    if call is None:
        return
    if not call.is_over:
        if not call.server:
            state.wait_no_more(call)
        state.let_go(call)
    caller = state.callers[key[:2]]
    del caller.calls[key[2]]
    caller.over.pop(key[2], None)


def _forget(state: RouterState, key: CallerKey) -> None:
    for number in list(state.callers[key].calls):
        _drop(state, (*key, number))
    del state.callers[key]


def _count(state: RouterState, key: CallKey) -> Counts:
    call = state.call(key)
    assert call is not None, key
    state.count_soon()
    return state.functions[call.function].counts


# Servers.


def _send(state: RouterState, server: str, call: CallRow, now: Instant) -> None:
    row = state.servers[server]
    row.sent += 1
    row.heard_told = row.heard_whole
    row.runs[row.sent] = call.key, call.function
    row.unconfirmed[row.sent] = now
    row.out[call.function] = row.out.get(call.function, 0) + 1
    call.server, call.server_life, call.number = server, row.life, row.sent
    counts = state.functions[call.function].counts
    counts.waited = Nanoseconds(counts.waited + now - call.arrived_at)
    call.arrived_at = now


def _send_again(
    state: RouterState, server: str, caller: CallerKey, said: Call, now: Instant, *, is_kept_only: bool
) -> None:
    """Fold that a call is sent again of which the end was told."""
    call = state.callers[caller].calls[said.number]
    call.call, call.is_over, call.is_again, call.is_kept_only = said, False, True, is_kept_only
    call.may_have_begun = True
    state.callers[caller].over.pop(said.number, None)
    state.hold(call)
    state.functions[call.function].counts.again += 1
    _send(state, server, call, now)


def _report(state: RouterState, report: ServerReport, now: Instant) -> None:
    member = member_of(report.server, report.place)
    row = state.servers.get(member)
    if row is None:
        row = state.servers[member] = ServerRow(
            report.server,
            report.place,
            report.life,
            0,
            now,
            report.slot,
            report.size,
            dict(report.lent),
            dict(report.used),
        )
        # A server that was taken for gone remembers the numbers of its runs: none is used twice, whichever life is heard.
        row.sent = state.gone.pop(member, 0)
    row.heard_at = now
    if report.number > row.report:
        row.report, row.slot, row.leaves_in = report.number, report.slot, report.leaves_in
        row.size, row.lent, row.used_by_others = report.size, dict(report.lent), dict(report.used)
        told = {one.function: one for one in report.executors}
        row.executors = told if report.is_whole else {**row.executors, **told}
    if report.router_life == state.life:
        for number in [number for number in row.unconfirmed if number <= report.taken]:
            del row.unconfirmed[number]
        for ended in report.ended:
            _end_run(state, member, row, ended)
        if report.is_whole and report.ended:
            row.heard_whole = max(row.heard_whole, report.number)
    if state.waits:
        state.dispatch_at = now
    if state.tick_at is None:
        state.tick_at = after(now, TICK)


def _end_run(state: RouterState, server: str, row: ServerRow, ended: EndedRun) -> None:
    number, ran = ended.number, ended.ran
    found = row.take_out(number)
    if found is None:
        return
    key, function = found
    counted = state.functions[function]
    call = state.awaited(key, server, number)
    if ended.outcome is CallOutcome.LOST and ended.is_harvested:
        counted.counts.lost_span = Nanoseconds(counted.counts.lost_span + ran)
        if ran:
            counted.run_times.add_lost(ran)
        ran = Nanoseconds(0)
    if ended.outcome is CallOutcome.LOST and call is not None and not call.call.is_once:
        # Its server has sent no answer, on whichever place the router saw the run.
        _begin_again(state, counted, call)
        return
    if ran:
        counted.run_times.add(ran)
        counted.rates.ran(ran)
        counted.counts.ran = Nanoseconds(counted.counts.ran + ran)
        if ended.level < counted.spec.top:
            counted.counts.cold[ended.level] += 1
    state.count_soon()
    counted.counts.done += (
        ended.outcome is CallOutcome.DONE and ran > 0
    )  # Else the call was counted when it ended.
    if ran and ended.is_harvested and ended.outcome is CallOutcome.DONE:
        counted.counts.harvested += 1
        counted.counts.harvested_span = Nanoseconds(counted.counts.harvested_span + ran)
    counted.counts.failed += ended.outcome is CallOutcome.FAILED
    counted.counts.lost += ended.outcome is CallOutcome.LOST
    if call is not None and ended.outcome is CallOutcome.REFUSED:
        state.wait(call)  # The server has become too small for the call.
    elif call is not None:
        _finish(state, call)


def _begin_again(state: RouterState, counted: FunctionRow, call: CallRow) -> None:
    """Fold that a run was lost on harvested capacity: its call is sent there once more, and then to held places, if there are any.

    The last loss ends the call (`answers.lost_too_often`).
    """
    state.count_soon()
    call.losses, call.may_have_begun = call.losses + 1, True
    call.is_held_only = call.losses >= LOSSES_MAX
    if call.losses >= CALL_TRIES_MAX:
        counted.counts.failed += 1
        _finish(state, call)
        return
    counted.counts.retried += 1
    state.wait(call)


def _finish(state: RouterState, call: CallRow) -> None:
    """Remember that a call has ended, so that none is begun if its caller says it again."""
    state.let_go(call)
    call.is_over = True
    caller, number = state.callers[call.key[:2]], call.key[2]
    caller.over[number] = None
    if number in caller.answered:
        _drop(state, call.key)


def _lose(state: RouterState, server: str, now: Instant) -> None:
    row = state.servers.pop(server)
    state.gone[server] = row.sent
    for number, (key, _) in row.runs.items():
        call = state.awaited(key, server, number)
        if call is not None:
            call.may_have_begun = True
            state.wait(call)
    state.dispatch_at = now
