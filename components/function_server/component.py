"""The function server: runs calls of functions on warm executors of one machine.

The server keeps no log, and survives in its callers alone, which say calls again (docs/functions.md). Executors and their
devices are the business of its doer (runtime/functions/ on real machines).

A run that a router sends is taken once: routers number their runs, and the server remembers the numbers. A call that comes again under
another number is recognised by caller and number while it runs, and for a minute afterwards (`state.KeptAnswers`).
"""

from components.function_server.answering import messages_of
from components.function_server.assigning import assignment, leaving, without_room
from components.function_server.notes import (
    BookAsked,
    CallsGiven,
    CodeAsked,
    CodeFound,
    CodeRefused,
    Ended,
    ExecutorSeen,
    ExecutorsEnded,
    ExecutorsLeave,
    FunctionsForgotten,
    HarvestSaid,
    Reported,
    RunsTaken,
    Sized,
    UseTold,
    fold,
)
from components.function_server.reports import reports_of, use_of
from components.function_server.state import CallKey, ExecutorRow, RunRow, ServerState
from core.calls.lives import is_older
from core.component import NOTHING, Decision, Effect, Follow, Images
from core.effects import EndExecutor, ForgetCode, GiveCalls, KeepCode, KeepHarvest, ReadBook, StartExecutor
from core.fact import Fact, Note
from core.messages.base import Envelope, Message, Woken
from core.messages.executors import BookRead, CallsEnded, CodeKept, EndedCall, ExecutorChanged
from core.messages.functions import (
    AskCalls,
    CallsKnown,
    CodeSent,
    CodeWanted,
    Run,
    RunCalls,
)
from core.messages.harvest import SizeServer
from core.nouns.function import CallAnswer, CallOutcome
from core.nouns.function_limits import (
    CALL_TRIES_MAX,
    CODE_AGAIN,
    CODE_BYTES_MAX,
    CODE_SPAN,
    KEEP_ALIVE_MAX,
    SERVER_GONE,
)
from core.nouns.ids import FunctionId, LogName, RegionName
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.rules.functions.calls import are_sizes_well_formed, is_answerable, is_run_well_formed
from core.rules.ownership import owns

STARTS_FAILED_MAX = 2
"""Failed starts of executors of one function, in a row, before the waiting calls have failed."""
GIVEN_BACK = CallAnswer(0, CallOutcome.REFUSED)


class FunctionServer:
    """The function server beside one worker."""

    noun = "function_server"
    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (
        RunCalls,
        AskCalls,
        CodeSent,
        SizeServer,
        BookRead,
        ExecutorChanged,
        CallsEnded,
        CodeKept,
    )
    follows: tuple[Follow, ...] = ()

    def __init__(self, region: RegionName, server: str, routers: tuple[str, ...]) -> None:
        self.region = region
        self.server = server
        self.routers = routers
        self.name = f"functions.{region}.{server}"
        self.scope: tuple[str, ...] = (region, server)

    def initial(self, images: Images) -> ServerState:
        """Return the state at a start: no call runs, and the size is not known yet."""
        return ServerState(images.at, self.routers)

    def due(self, state: ServerState) -> Instant | None:
        """Return when runs may be assigned, a report is due, an idle executor is ended, code is asked for, or functions are forgotten."""
        return earliest(
            state.assign_at,
            state.report_at,
            state.idle.due(),
            state.leaving.due(),
            state.sized_at,
            state.code.due(),
            state.forget_at,
        )

    def evolve(self, state: ServerState, fact: Fact) -> ServerState:
        """Fold a note."""
        assert isinstance(fact.event, Note), fact
        fold(state, fact.event, fact.at)
        return state

    def decide(self, state: ServerState, envelope: Envelope) -> Decision:
        """Take runs, give them to executors, and answer their callers."""
        match envelope.message:
            case Woken():
                return self._woken(state, envelope.at)
            case RunCalls() as message:
                return self._run(state, message, envelope.at)
            case CallsEnded(ends):
                return self._ended(state, ends)
            case ExecutorChanged() as changed:
                return self._changed(state, changed, envelope.at)
            case BookRead(places):
                return Decision((Sized(places),))
            case SizeServer() as said:
                return self._sized(state, said)
            case AskCalls() as asked:
                is_its_own = owns(envelope.tenant, asked.tenant) and is_answerable(asked.tenant, asked.caller)
                return self._known(state, asked) if is_its_own else NOTHING
            case CodeSent(_, _, tenant, function, code):
                row = state.functions.get(function)
                is_wanted = row is not None and row.code_missed_at > 0 and row.spec.tenant == tenant
                is_wanted = is_wanted and owns(envelope.tenant, tenant)
                keeps = is_wanted and len(code) <= CODE_BYTES_MAX
                return Decision(effects=(KeepCode(function, code),)) if keeps else NOTHING
            case CodeKept(function, problem) if function in state.functions:
                if not problem:
                    return Decision((CodeFound(function),))
                return self._refuse_all(state, function, f"its code cannot be kept: {problem}")
        return NOTHING

    def _sized(self, state: ServerState, said: SizeServer) -> Decision:
        """Keep the sizes of harvested nodes, and tell the use of them."""
        if said.revision < state.harvest.revision or not are_sizes_well_formed(said.sizes):
            return NOTHING
        told = use_of(state, self.region, self.server, said.revision)
        if (said.revision, {one.node: one for one in said.sizes}) == (
            state.harvest.revision,
            state.harvest.sizes,
        ):
            return Decision((UseTold(),), (told,))
        note = HarvestSaid(said.revision, said.sizes)
        return Decision((note, UseTold()), (told,), (KeepHarvest(said.revision, said.sizes),))

    # Runs.

    def _run(self, state: ServerState, message: RunCalls, now: Instant) -> Decision:
        if message.server_life != state.life or message.router not in self.routers:
            return NOTHING
        if not is_run_well_formed(message):
            return NOTHING
        link = state.place(message.place).links[message.router]
        if is_older(message.life, link.life) and now < after(link.heard_at, SERVER_GONE):
            return NOTHING  # Its words were long on their way. Of a life that only looks older, the clock has stepped back.
        is_new_life = link.life != message.life
        taken: list[Run] = []
        answers: list[tuple[CallKey, CallAnswer]] = []
        over: list[int] = []
        back: list[int] = []
        for run in message.runs:
            key: CallKey = (run.tenant, run.caller, run.call.number)
            answer = state.answers.get(key)
            if answer is not None:
                answers.append((key, answer))
                over.append(run.number)
            elif run.is_again and run.call.is_once and key not in state.tickets:
                answers.append((key, _lost(run.call.number)))
                over.append(run.number)
            elif run.is_kept_only and key not in state.tickets:
                back.append(run.number)
            elif is_new_life or run.number not in link.numbers:
                taken.append(run)
        note = RunsTaken(
            message.place,
            message.router,
            message.life,
            message.floor,
            message.function,
            tuple(taken),
            tuple(over),
            message.heard,
            tuple(back),
        )
        return Decision((note,), self._answered(answers))

    def _known(self, state: ServerState, asked: AskCalls) -> Decision:
        """Tell a caller which of its calls are here, and answer those that have ended."""
        running: list[int] = []
        answers: list[tuple[CallKey, CallAnswer]] = []
        for number in asked.numbers:
            key: CallKey = (asked.tenant, asked.caller, number)
            answer = state.answers.get(key)
            if answer is not None:
                answers.append((key, answer))
            elif key in state.tickets:
                running.append(number)
        messages = [*self._answered(answers)]
        if running:
            messages.append(CallsKnown(asked.tenant, asked.caller, self.region, self.server, tuple(running)))
        return Decision((), tuple(messages)) if messages else NOTHING

    def _answered(self, answers: list[tuple[CallKey, CallAnswer]]) -> tuple[Message, ...]:
        return tuple(messages_of(self.region, self.server, answers))

    # Executors.

    def _ended(self, state: ServerState, ends: tuple[EndedCall, ...]) -> Decision:
        """Answer calls that ended. Calls that were not begun wait again; so do those whose executor was taken, unless they may be begun once only."""
        answers: list[tuple[CallKey, CallAnswer]] = []
        over: list[tuple[int, CallAnswer]] = []
        again: list[int] = []
        begun: list[int] = []
        for end in ends:
            run = state.runs.get(end.ticket)
            if run is None or run.executor != end.executor:
                continue
            is_lost = end.answer.outcome is CallOutcome.LOST
            is_unbegun = end.answer.outcome is CallOutcome.REFUSED
            if is_lost and run.place.is_harvested and not run.is_once:
                over.append(
                    (end.ticket, end.answer)
                )  # Its router hears how long it ran, and sends it once more.
                continue
            # A call that was not begun may be given any number of times, but not for ever: each time the server has lost an
            # executor or capacity, or a call before this one has ended or counts a try; later calls wait behind this one.
            if is_unbegun or (is_lost and not run.is_once and run.tries + 1 < CALL_TRIES_MAX):
                again.append(end.ticket)
                if is_lost:
                    begun.append(end.ticket)
                continue
            answer = _answer(run, end.answer)
            answers.append((run.key, answer))
            over.append((end.ticket, answer))
        return Decision((Ended(tuple(over), tuple(again), frozenset(begun)),), self._answered(answers))

    def _changed(self, state: ServerState, changed: ExecutorChanged, now: Instant) -> Decision:
        row = state.executors.get(changed.executor)
        if row is None:
            return NOTHING
        function = state.functions[row.function]
        is_failed_start = (
            changed.is_gone and bool(changed.problem) and not row.is_ending and row.level < row.top
        )
        seen = ExecutorSeen(changed.executor, changed.level, changed.is_gone, is_failed_start)
        if changed.is_gone and row.tickets:
            ended = self._ended(state, _untold(changed.executor, row, now))
            return Decision((*ended.events, seen), ended.messages)
        if not is_failed_start or function.failed_starts + 1 < STARTS_FAILED_MAX:
            return Decision((seen,))
        refused = self._refuse_all(state, row.function, changed.problem)
        return Decision((seen, *refused.events), refused.messages)

    def _refuse_all(self, state: ServerState, function: FunctionId, problem: str) -> Decision:
        """Answer all calls of a function that wait for an executor: none of them can have one."""
        answers: list[tuple[CallKey, CallAnswer]] = []
        over = []
        for ticket in state.functions[function].waiting():
            run = state.runs[ticket]
            answer = CallAnswer(run.key[2], CallOutcome.FAILED, problem=problem)
            answers.append((run.key, answer))
            over.append((ticket, answer))
        return Decision((Ended(tuple(over), ()), CodeRefused(function)), self._answered(answers))

    # Time.

    def _woken(self, state: ServerState, now: Instant) -> Decision:
        notes: list[Note] = []
        messages: list[Message] = []
        effects: list[Effect] = []
        if not state.is_book_asked:
            notes.append(BookAsked())
            effects.append(ReadBook())
        if state.assign_at is not None and state.assign_at <= now:
            resized = tuple(place for place, row in state.places.items() if row.is_resized)
            found = [leaving(state, place, now) for place in resized]
            over = [number for one in found for number in one.now]
            homeless = without_room(state)
            if resized:
                notes.append(
                    ExecutorsLeave(resized, tuple(number for one in found for number in one.by_then))
                )
                # How their calls ended is told before they are gone: some may just have ended, most were not begun.
                notes.append(ExecutorsEnded(tuple(over)))
                effects += [EndExecutor(number) for number in over]
            elif homeless:
                # Their routers send them elsewhere, and callers hear of no end.
                notes.append(Ended(tuple((ticket, GIVEN_BACK) for ticket in homeless), ()))
            else:
                _assign(state, notes, effects)
        self._end_idle(state, now, notes, effects)
        late = tuple(state.leaving.passed(now))
        if late:
            notes.append(ExecutorsEnded(late))
            effects += [EndExecutor(number) for number in late]
        if state.sized_at is not None and state.sized_at <= now:
            messages.append(use_of(state, self.region, self.server, state.harvest.revision))
            notes.append(UseTold())
        self._ask_code(state, now, notes, messages)
        is_resized = any(isinstance(note, ExecutorsLeave) for note in notes)
        # Of places that have just changed routers hear once it is known who leaves them.
        if state.report_at is not None and state.report_at <= now and not is_resized:
            reports = reports_of(state, self.region, self.server, now)
            messages += reports
            notes.append(Reported(reports))
        if state.forget_at <= now:
            unused = _unused(state, now)
            notes.append(FunctionsForgotten(unused))
            pickled = tuple(one for one in unused if not state.functions[one].spec.code.target)
            effects += [ForgetCode(pickled)] if pickled else []
        return Decision(tuple(notes), tuple(messages), tuple(effects))

    def _end_idle(self, state: ServerState, now: Instant, notes: list[Note], effects: list[Effect]) -> None:
        """End executors that were idle for as long as they are kept, unless a call was just given to them."""
        given = {number for note in notes if isinstance(note, CallsGiven) for number, _ in note.given}
        ended = tuple(number for number in state.idle.passed(now) if number not in given)
        if ended:
            notes.append(ExecutorsEnded(ended))
            effects += [EndExecutor(number) for number in ended]

    def _ask_code(self, state: ServerState, now: Instant, notes: list[Note], messages: list[Message]) -> None:
        for function in state.code.passed(now):
            row = state.functions[function]
            waiting = row.waiting()
            if after(row.code_missed_at, CODE_SPAN) <= now or not waiting:
                refused = self._refuse_all(state, function, "its caller has not sent its code")
                notes += [event for event in refused.events if isinstance(event, Note)]
                messages += refused.messages
                continue
            tenant, caller, _ = state.runs[waiting[0]].key
            messages.append(CodeWanted(tenant, caller, self.region, self.server, function))
            notes.append(CodeAsked(function, after(now, CODE_AGAIN)))


def _assign(state: ServerState, notes: list[Note], effects: list[Effect]) -> None:
    """Add the plan for runs without an executor."""
    plan = assignment(state)
    notes.append(
        CallsGiven(
            tuple((number, tuple(tickets)) for number, tickets in plan.given.items()),
            tuple(plan.started.items()),
            tuple(plan.ended),
        )
    )
    effects += [EndExecutor(number) for number in plan.ended]
    effects += [
        StartExecutor(number, state.functions[function].spec, place)
        for number, (function, place) in plan.started.items()
    ]
    effects += [
        GiveCalls(number, tuple((ticket, state.runs[ticket].arguments) for ticket in tickets))
        for number, tickets in plan.given.items()
    ]


def _answer(run: RunRow, said: CallAnswer) -> CallAnswer:
    level = run.came_at if run.is_cold else said.level
    # A call that may be begun again is never lost: it has failed once that was tried often enough.
    has_failed = said.outcome is CallOutcome.LOST and not run.is_once
    outcome = CallOutcome.FAILED if has_failed else said.outcome
    return CallAnswer(run.key[2], outcome, said.value, said.problem, said.ran, level)


def _lost(number: int) -> CallAnswer:
    return CallAnswer(
        number, CallOutcome.LOST, problem="it may have run, and the server that had it does not know it"
    )


def _untold(number: int, row: ExecutorRow, now: Instant) -> tuple[EndedCall, ...]:
    """Return the ends of calls that were given to an executor which is gone, and of which no end was told.

    They came too late for one that was gone by itself. Where the server had the executor ended, the first may have begun.
    """
    may_have_begun = row.is_ending and row.level is row.top
    ran = Nanoseconds(max(0, now - row.begun_at))
    lost = CallAnswer(0, CallOutcome.LOST, problem="its server became smaller", ran=ran)
    return tuple(
        EndedCall(number, ticket, lost if may_have_begun and not place else GIVEN_BACK)
        for place, ticket in enumerate(row.tickets)
    )


def _unused(state: ServerState, now: Instant) -> tuple[FunctionId, ...]:
    """Return the functions without executors and runs that were not called for as long as an executor may be idle."""
    return tuple(
        function
        for function, row in state.functions.items()
        if not (row.has_executors or row.has_waiting) and after(row.used_at, KEEP_ALIVE_MAX) <= now
    )
