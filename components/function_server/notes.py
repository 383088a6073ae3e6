"""Notes of a function server, and how each is folded into the state."""

from components.function_server.state import (
    ENDS_TOLD_MAX,
    FORGET_SPAN,
    CallKey,
    ExecutorRow,
    FunctionRow,
    RouterLink,
    RunRow,
    ServerState,
    Source,
)
from core.fact import Note
from core.messages.functions import Run, ServerReport
from core.nouns.function import CallAnswer, CallOutcome, EndedRun, FunctionSpec, WarmLevel
from core.nouns.function_limits import SERVER_REPORT
from core.nouns.ids import FunctionId, TenantName
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.quantities import Amount


class BookAsked(Note, frozen=True):
    """The doer was asked for the size."""


class Sized(Note, frozen=True):
    """The size for functions has changed."""

    size: Amount
    lent: tuple[tuple[TenantName, Amount], ...]


class RunsTaken(Note, frozen=True):
    """A router sent runs. The calls of those in `over` have an answer already."""

    router: str
    life: str
    floor: int
    function: FunctionSpec | None
    runs: tuple[Run, ...]
    over: tuple[int, ...]
    heard: int
    """The whole report that the router has heard."""


class CallsGiven(Note, frozen=True):
    """Runs were given to executors, executors started, and idle ones ended."""

    given: tuple[tuple[int, tuple[int, ...]], ...]
    started: tuple[tuple[int, FunctionId], ...]
    ended: tuple[int, ...]


class Ended(Note, frozen=True):
    """Runs ended with these answers, or were not begun (`REFUSED`); those in `again` were taken from their executors, and wait again."""

    over: tuple[tuple[int, CallAnswer], ...]
    again: tuple[int, ...]
    begun: frozenset[int] = frozenset()
    """Those of `again` that had begun."""


class ExecutorSeen(Note, frozen=True):
    """An executor came to a level, or is gone."""

    executor: int
    level: WarmLevel
    is_gone: bool
    is_failed_start: bool = False
    """The executor was to blame, and had not come to its top level."""


class ExecutorsEnded(Note, frozen=True):
    """Executors are being ended. Their runs, if they have any, are told as ended before they are gone."""

    executors: tuple[int, ...]


class CodeAsked(Note, frozen=True):
    """A caller was asked for code."""

    function: FunctionId
    again_at: Instant


class CodeFound(Note, frozen=True):
    """The code of a function is here."""

    function: FunctionId


class CodeRefused(Note, frozen=True):
    """The waiting calls of a function were answered, and none is started for it until the next call."""

    function: FunctionId


class Reported(Note, frozen=True):
    """Routers were told how the server stands, by these reports."""

    reports: tuple[ServerReport, ...]


class FunctionsForgotten(Note, frozen=True):
    """Functions that are not used any more were looked for."""

    functions: tuple[FunctionId, ...]


def fold(state: ServerState, note: Note, now: Instant) -> None:
    """Fold a note of the server's own."""
    match note:
        case BookAsked():
            state.is_book_asked = True
        case Sized(size, lent):
            state.size, state.lent = size, dict(lent)
            state.is_sized = state.is_resized = True
            state.assign_at = now
            for link in state.links.values():
                link.whole_at = now
            state.report_at = now
        case RunsTaken():
            _take(state, note, now)
        case CallsGiven():
            _give(state, note, now)
        case Ended():
            _end(state, note, now)
        case ExecutorSeen():
            _see(state, note, now)
        case ExecutorsEnded(executors):
            for number in executors:
                _mark_ending(state, number)
        case CodeAsked(function, again_at):
            state.code.put(function, again_at)
        case CodeFound(function):
            row = state.functions[function]
            row.has_code, row.code_missed_at = True, Instant(0)
            state.code.drop(function)
            state.assign_at = now
        case CodeRefused(function):
            state.functions[function].failed_starts = 0
            state.functions[function].code_missed_at = Instant(0)
            state.code.drop(function)
        case Reported(reports):
            _note_reported(state, reports, now)
        case FunctionsForgotten(functions):
            state.forget_at = after(now, FORGET_SPAN)
            for function in functions:
                _forget(state, function)
        case _:
            raise AssertionError(note)


# Runs.


def _take(state: ServerState, note: RunsTaken, now: Instant) -> None:
    link = state.links[note.router]
    if link.life != note.life:
        link.reset(note.life)
    link.heard_at = now
    link.rise(note.floor)
    link.hear(note.heard)
    if len(link.ended) > ENDS_TOLD_MAX and not link.told:
        # More than one report tells, and the router has heard the newest: the next whole one follows at once.
        link.whole_at = state.report_at = now
    for number in note.over:
        link.numbers.add(number)
        _report_end(state, link, EndedRun(number, CallOutcome.DONE, Nanoseconds(0), WarmLevel.DEVICE), now)
    if note.runs and note.function is not None:
        _know(state, note.function, now)
    for run in note.runs:
        link.numbers.add(run.number)
        assert note.function is not None, note
        _wait(state, note, note.function, run, now)


def _know(state: ServerState, spec: FunctionSpec, now: Instant) -> None:
    row = state.functions.get(spec.id)
    if row is None:
        has_code = bool(spec.code.target) or spec.warm is not None
        row = state.functions[spec.id] = FunctionRow(spec, has_code)
    row.used_at = now


def _forget(state: ServerState, function: FunctionId) -> None:
    del state.functions[function]
    state.code.drop(function)
    for link in state.links.values():
        link.changed.pop(function, None)


def _wait(state: ServerState, note: RunsTaken, spec: FunctionSpec, run: Run, now: Instant) -> None:
    source = Source(note.router, note.life, run.number)
    key: CallKey = (run.tenant, run.caller, run.call.number)
    known = state.tickets.get(key)
    if known is not None:
        state.runs[known].sources.append(source)
        return
    state.ticket_count += 1
    ticket = state.ticket_count
    state.tickets[key] = ticket
    row = state.functions[spec.id]
    levels = [state.executors[one].level for one in row.executors if not state.executors[one].is_ending]
    came_at = max(levels, default=WarmLevel.COLD)
    state.runs[ticket] = RunRow(key, spec.id, run.call.arguments, run.call.is_once, [source], came_at=came_at)
    row.waiting.append(ticket)
    state.waits[spec.id] = None
    state.assign_at = now
    if not row.has_code and not row.code_missed_at:
        row.code_missed_at = now
        state.code.put(spec.id, now)


def _give(state: ServerState, note: CallsGiven, now: Instant) -> None:
    state.assign_at, state.is_resized = None, False
    for number in note.ended:
        _mark_ending(state, number)
    for number, function in note.started:
        row = state.functions[function]
        state.executor_count = max(state.executor_count, number)
        state.executors[number] = ExecutorRow(function, row.spec.tenant, row.spec.need, row.spec.top)
        row.executors[number] = None
        _note_change(state, function, now)
    for number, tickets in note.given:
        executor = state.executors[number]
        row = state.functions[executor.function]
        if not executor.tickets:
            row.gaps.append(now - executor.idle_since)
            state.idle.drop(number)
        for ticket in tickets:
            executor.tickets[ticket] = None
            state.runs[ticket].executor = number
        given = set(tickets)
        # Mostly those that wait first.
        while row.waiting and row.waiting[0] in given:
            given.discard(row.waiting.popleft())
        for ticket in given:
            row.waiting.remove(ticket)
        if not row.waiting:
            state.waits.pop(executor.function, None)
        _note_change(state, executor.function, now)


def _end(state: ServerState, note: Ended, now: Instant) -> None:
    for ticket, answer in note.over:
        run = state.runs.pop(ticket)
        del state.tickets[run.key]
        if answer.outcome is not CallOutcome.REFUSED:
            state.answers.put(run.key, answer, now)
        row = state.functions[run.function]
        if run.executor:
            _leave(state, run.executor, ticket, now)
            row.add_run(answer.ran)
        else:
            row.waiting.remove(ticket)
        if not row.waiting:
            state.waits.pop(run.function, None)
        for source in run.sources:
            link = state.links[source.router]
            if link.life == source.life:
                level = run.came_at if run.is_cold else row.spec.top
                _report_end(state, link, EndedRun(source.number, answer.outcome, answer.ran, level), now)
        _note_change(state, run.function, now)
    for ticket in reversed(note.again):
        run = state.runs[ticket]
        if run.executor:
            _leave(state, run.executor, ticket, now)
        run.executor = 0
        run.tries += ticket in note.begun
        state.functions[run.function].waiting.appendleft(ticket)
        state.waits[run.function] = None
        _note_change(state, run.function, now)
    if state.waits:
        state.assign_at = now


def _leave(state: ServerState, number: int, ticket: int, now: Instant) -> None:
    """An executor has a run no more."""
    executor = state.executors.get(number)
    if executor is None:
        return
    executor.tickets.pop(ticket, None)
    if not executor.tickets and executor.is_ready:
        _rest(state, number, executor, now)


def _rest(state: ServerState, number: int, executor: ExecutorRow, now: Instant) -> None:
    executor.idle_since = now
    state.idle.put(number, after(now, state.functions[executor.function].keep_alive))
    if state.waits:
        state.assign_at = now


# Executors.


def _see(state: ServerState, note: ExecutorSeen, now: Instant) -> None:
    executor = state.executors[note.executor]
    function = state.functions[executor.function]
    if note.is_gone:
        function.failed_starts += note.is_failed_start
        assert not executor.tickets, note
        del state.executors[note.executor]
        function.executors.pop(note.executor, None)
        state.idle.drop(note.executor)
    elif note.level > executor.level:
        executor.level = note.level
        if executor.is_ready:
            function.failed_starts = 0
            for ticket in function.waiting:
                state.runs[ticket].is_cold = True
            _rest(state, note.executor, executor, now)
    _note_change(state, executor.function, now)
    state.assign_at = now


def _mark_ending(state: ServerState, number: int) -> None:
    executor = state.executors[number]
    executor.is_ending = True
    state.idle.drop(number)


# Reports.


def _report_end(state: ServerState, link: RouterLink, ended: EndedRun, now: Instant) -> None:
    if ended.number < link.floor:
        return
    link.ended[ended.number] = ended
    link.fresh[ended.number] = None
    state.report_at = earliest(state.report_at, now)


def _note_change(state: ServerState, function: FunctionId, now: Instant) -> None:
    for link in state.links.values():
        link.changed[function] = None
    state.report_at = earliest(state.report_at, now)


def _note_reported(state: ServerState, reports: tuple[ServerReport, ...], now: Instant) -> None:
    for report in reports:
        link = state.links[report.router]
        link.said = report.number
        link.note_told(report.number, report.is_whole, report.ended)
        link.changed = {}
        if report.is_whole:
            link.whole_at = after(now, SERVER_REPORT)
    state.report_at = earliest(*(now if link.fresh else link.whole_at for link in state.links.values()))
