"""Notes of a function server, and how each is folded into the state."""

from components.function_server.reports import is_in_use, next_report
from components.function_server.state import (
    ENDS_TOLD_MAX,
    FORGET_SPAN,
    CallKey,
    ExecutorRow,
    FunctionRow,
    Line,
    Lost,
    RouterLink,
    RunRow,
    ServerState,
    Source,
)
from core.fact import Note
from core.messages.executors import PlaceRead
from core.messages.functions import Run, ServerReport
from core.messages.harvest import NodeSize
from core.nouns.function import CallAnswer, CallOutcome, EndedRun, FunctionSpec, Place, WarmLevel
from core.nouns.function_limits import SERVER_REPORT
from core.nouns.ids import FunctionId
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, after, earliest
from core.nouns.quantities import NOTHING

EARLY = Nanoseconds(200 * MILLISECOND)
"""Before their time, executors with a call are ended: a worker that looks at that time finds their devices free."""


class BookAsked(Note, frozen=True):
    """The doer was asked for the size."""


class Sized(Note, frozen=True):
    """The sizes for functions have changed, of some places."""

    places: tuple[PlaceRead, ...]
    """All that are not empty."""


class RunsTaken(Note, frozen=True):
    """A router sent runs to a place. The calls of those in `over` have an answer already."""

    place: Place
    router: str
    life: str
    floor: int
    function: FunctionSpec | None
    runs: tuple[Run, ...]
    over: tuple[int, ...]
    heard: int
    """The whole report that the router has heard."""
    back: tuple[int, ...] = ()
    """Runs of which a kept answer alone was wanted, which the server has not any more."""


class CallsGiven(Note, frozen=True):
    """Runs were given to executors, executors started, and idle ones ended."""

    given: tuple[tuple[int, tuple[int, ...]], ...]
    started: tuple[tuple[int, Line], ...]
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


class ExecutorsLeave(Note, frozen=True):
    """Executors have to leave their places, which have become smaller, when their calls end or their time comes."""

    places: tuple[Place, ...]
    executors: tuple[int, ...]


class HarvestSaid(Note, frozen=True):
    """The harvester said how much functions may use of the machine's nodes."""

    revision: int
    sizes: tuple[NodeSize, ...]


class UseTold(Note, frozen=True):
    """The harvester was told the use of executors."""


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
        case Sized(places):
            _size(state, places, now)
        case RunsTaken():
            _take(state, note, now)
        case CallsGiven():
            _give(state, note, now)
        case Ended():
            _end(state, note, now)
        case ExecutorSeen():
            _see(state, note, now)
        case ExecutorsLeave(places, executors):
            _have_leave(state, places, executors, now)
        case HarvestSaid(revision, sizes):
            _hear_harvest(state, revision, sizes)
        case UseTold():
            state.sized_at = None
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


def _size(state: ServerState, places: tuple[PlaceRead, ...], now: Instant) -> None:
    told = {one.place: one for one in places}
    for place in dict.fromkeys((*state.places, *told)):
        row, said = state.place(place), told.get(place, PlaceRead(place, NOTHING))
        before = PlaceRead(place, row.size, tuple(row.lent.items()), row.leaves_by, row.slows)
        if said == before:
            continue
        row.size, row.lent, row.leaves_by, row.slows = said.size, dict(said.lent), said.leaves_by, said.slows
        row.is_resized = True
        for link in row.links.values():
            link.whole_at = now
    state.is_sized = True
    state.assign_at = state.report_at = now


def _hear_harvest(state: ServerState, revision: int, sizes: tuple[NodeSize, ...]) -> None:
    known = state.harvest
    if revision < known.revision:
        return
    for one in sizes:
        before = known.sizes.get(one.node)
        if before is not None and not one.size.covers(before.size):
            known.lost.pop(one.node, None)
    known.revision, known.sizes = revision, {one.node: one for one in sizes}
    for node in [node for node in known.lost if node not in known.sizes]:
        del known.lost[node]


def _have_leave(
    state: ServerState, places: tuple[Place, ...], executors: tuple[int, ...], now: Instant
) -> None:
    """Fold that these executors of some places have to leave, and no others there."""
    for number, one in state.executors.items():
        if one.place in places and one.leaves_by and number not in executors:
            one.leaves_by = Instant(0)
            state.leaving.drop(number)
    for number in executors:
        one = state.executors[number]
        # The earlier of two times: a later recall gives no time for what an earlier one takes.
        leaves_by = state.place(one.place).leaves_by
        one.leaves_by = min(one.leaves_by or leaves_by, leaves_by)
        state.leaving.put(number, max(now, after(one.leaves_by, Nanoseconds(-EARLY))))
    for place in places:
        state.place(place).is_resized = False
    leaving = (state.executors[number] for number in executors)
    for line in dict.fromkeys((one.function, one.place) for one in leaving):
        _note_change(state, line, now)
    state.assign_at = now


# Runs.


def _take(state: ServerState, note: RunsTaken, now: Instant) -> None:
    link = state.place(note.place).links[note.router]
    if link.life != note.life:
        link.reset(note.life)
    link.heard_at = now
    if link.whole_at is None:
        link.whole_at = state.report_at = now
    link.rise(note.floor)
    link.hear(note.heard)
    if len(link.ended) > ENDS_TOLD_MAX and not link.told:
        # More than one report tells, and the router has heard the newest: the next whole one follows at once.
        link.whole_at = state.report_at = now
    for numbers, outcome in ((note.over, CallOutcome.DONE), (note.back, CallOutcome.REFUSED)):
        for number in numbers:
            link.numbers.add(number)
            _report_end(state, link, EndedRun(number, outcome, Nanoseconds(0), WarmLevel.DEVICE), now)
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
    for row in state.places.values():
        for link in row.links.values():
            link.changed.pop(function, None)


def _wait(state: ServerState, note: RunsTaken, spec: FunctionSpec, run: Run, now: Instant) -> None:
    source = Source(note.router, note.life, run.number, note.place)
    key: CallKey = (run.tenant, run.caller, run.call.number)
    known = state.tickets.get(key)
    if known is not None:
        state.runs[known].sources.append(source)
        return
    state.ticket_count += 1
    ticket = state.ticket_count
    state.tickets[key] = ticket
    row, line = state.functions[spec.id], (spec.id, note.place)
    here = state.line(line)
    levels = [state.executors[one].level for one in here.executors if not state.executors[one].is_ending]
    came_at = max(levels, default=WarmLevel.COLD)
    state.runs[ticket] = RunRow(
        key, spec.id, note.place, run.call.arguments, run.call.is_once, [source], came_at=came_at
    )
    here.waiting.append(ticket)
    state.waits[line] = None
    state.assign_at = now
    if not row.has_code and not row.code_missed_at:
        row.code_missed_at = now
        state.code.put(spec.id, now)


def _give(state: ServerState, note: CallsGiven, now: Instant) -> None:
    state.assign_at = None
    for place in state.places.values():
        place.is_resized = False
    for number in note.ended:
        _mark_ending(state, number)
    for number, line in note.started:
        function, where = line
        spec = state.functions[function].spec
        state.executor_count = max(state.executor_count, number)
        state.executors[number] = ExecutorRow(function, where, spec.tenant, spec.need, spec.top)
        state.line(line).executors[number] = None
        _note_change(state, line, now)
    for number, tickets in note.given:
        executor = state.executors[number]
        line = executor.function, executor.place
        row = state.line(line)
        if not executor.tickets:
            executor.begun_at = now
            state.functions[executor.function].gaps.append(now - executor.idle_since)
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
            state.waits.pop(line, None)
        _note_change(state, line, now)


def _end(state: ServerState, note: Ended, now: Instant) -> None:
    for ticket, answer in note.over:
        run = state.runs.pop(ticket)
        del state.tickets[run.key]
        is_lost = answer.outcome is CallOutcome.LOST
        if answer.outcome is not CallOutcome.REFUSED and (run.is_once or not is_lost):
            state.answers.put(run.key, answer, now)
        if is_lost and run.place.is_harvested:
            lost = state.harvest.lost.setdefault(run.place.node, Lost())
            lost.calls, lost.span = lost.calls + 1, Nanoseconds(lost.span + answer.ran)
        row, line = state.functions[run.function], (run.function, run.place)
        here = state.line(line)
        if run.executor:
            _leave(state, run.executor, ticket, now)
            row.add_run(answer.ran, is_lost=is_lost)
        else:
            here.waiting.remove(ticket)
        if not here.waiting:
            state.waits.pop(line, None)
        for source in run.sources:
            link = state.place(source.place).links[source.router]
            if link.life == source.life:
                level = run.came_at if run.is_cold else row.spec.top
                where = run.place.is_harvested
                ended = EndedRun(source.number, answer.outcome, answer.ran, level, where)
                _report_end(state, link, ended, now)
        _note_change(state, line, now)
    for ticket in reversed(note.again):
        run = state.runs[ticket]
        if run.executor:
            _leave(state, run.executor, ticket, now)
        run.executor = 0
        run.tries += ticket in note.begun
        line = run.function, run.place
        state.line(line).waiting.appendleft(ticket)
        state.waits[line] = None
        _note_change(state, line, now)
    if state.waits:
        state.assign_at = now


def _leave(state: ServerState, number: int, ticket: int, now: Instant) -> None:
    """An executor has a run no more."""
    executor = state.executors.get(number)
    if executor is None:
        return
    executor.tickets.pop(ticket, None)
    executor.begun_at = now
    if not executor.tickets and executor.is_ready:
        _rest(state, number, executor, now)


def _rest(state: ServerState, number: int, executor: ExecutorRow, now: Instant) -> None:
    executor.idle_since = now
    keeps = Nanoseconds(0) if executor.leaves_by else state.functions[executor.function].keep_alive
    state.idle.put(number, after(now, keeps))
    if state.waits:
        state.assign_at = now


# Executors.


def _see(state: ServerState, note: ExecutorSeen, now: Instant) -> None:
    executor = state.executors[note.executor]
    function, line = state.functions[executor.function], (executor.function, executor.place)
    here = state.line(line)
    if note.is_gone:
        function.failed_starts += note.is_failed_start
        assert not executor.tickets, note
        _note_left(state, executor, now)
        del state.executors[note.executor]
        here.executors.pop(note.executor, None)
        state.idle.drop(note.executor)
        state.leaving.drop(note.executor)
    elif note.level > executor.level:
        executor.level = note.level
        if executor.is_ready:
            function.failed_starts = 0
            for ticket in here.waiting:
                state.runs[ticket].is_cold = True
            _rest(state, note.executor, executor, now)
    _note_change(state, line, now)
    state.assign_at = now


def _note_left(state: ServerState, executor: ExecutorRow, now: Instant) -> None:
    """An executor is gone. If its node was to be given back, the harvester hears of that."""
    size = state.harvest.sizes.get(executor.place.node)
    if executor.place.is_harvested and size is not None:
        used = state.used_of_node(executor.place.node)
        if not size.size.covers(used):
            state.sized_at = now


def _mark_ending(state: ServerState, number: int) -> None:
    executor = state.executors[number]
    executor.is_ending = True
    state.idle.drop(number)
    state.leaving.drop(number)


# Reports.


def _report_end(state: ServerState, link: RouterLink, ended: EndedRun, now: Instant) -> None:
    if ended.number < link.floor:
        return
    link.ended[ended.number] = ended
    link.fresh[ended.number] = None
    state.report_at = earliest(state.report_at, now)


def _note_change(state: ServerState, line: Line, now: Instant) -> None:
    function, place = line
    for link in state.place(place).links.values():
        link.changed[function] = None
    state.report_at = earliest(state.report_at, now)


def _note_reported(state: ServerState, reports: tuple[ServerReport, ...], now: Instant) -> None:
    for report in reports:
        link = state.place(report.place).links[report.router]
        link.said = report.number
        link.note_told(report.number, report.is_whole, report.ended)
        link.changed = {}
        if report.is_whole:
            link.whole_at = after(now, SERVER_REPORT) if is_in_use(state, report.place) else None
    state.report_at = next_report(state, now)
