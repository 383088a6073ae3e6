"""The function router: takes calls from callers, and sends each to a function server of its region.

The router keeps no log, and remembers calls only as long as it lives: their callers say them again to the next life
(docs/functions.md). Of each caller it knows which calls have come, so within a life no call is begun twice by a repeat; what its server
loses is sent anew; calls that may be begun once only are answered as lost.
"""

from collections.abc import Iterator
from itertools import groupby

from components.function_router.answers import given_up, lost, lost_too_often, messages_of, too_late
from components.function_router.dispatching import Sending, could_run, dispatch, is_usable
from components.function_router.notes import (
    CallersForgotten,
    CallsGivenBack,
    CallsHeard,
    CallsOver,
    CallsSent,
    CallsSentAgain,
    CountKept,
    CountTold,
    Dispatched,
    FunctionsForgotten,
    HereSaid,
    HereWanted,
    MembersChanged,
    OddsHeard,
    ReportHeard,
    RunsRepeated,
    ServerLost,
    Ticked,
    fold,
)
from components.function_router.shown import load_of, shown_functions, warm_functions
from components.function_router.state import (
    CallerKey,
    CallKey,
    CallRow,
    Queue,
    RouterState,
    ServerRow,
)
from components.function_router.taking import has_room_for_caller, sorted_calls, within_ceilings
from components.replies import answered
from core.calls.lives import is_older
from core.component import NOTHING, Decision, Follow, Images
from core.fact import Fact, Note
from core.messages.base import Envelope, Message, Woken
from core.messages.functions import (
    CallFunction,
    CallsAnswered,
    CallsRefused,
    CountFunctions,
    FunctionsRemembered,
    RouterHere,
    RoutersWanted,
    Run,
    RunCalls,
    ServerReport,
    ShowFunctions,
)
from core.messages.harvest import HarvestOdds
from core.nouns.function import Call, FunctionSpec, member_of
from core.nouns.function_limits import (
    CALL_BATCH_BYTES,
    CALLER_SILENCE_MAX,
    CALLS_AT_ONCE_MAX,
    CALLS_KNOWN_MAX,
    FUNCTIONS_COUNTED_MAX,
    KEEP_ALIVE_MAX,
    NO_SERVER_AGAIN,
    RUN_AGAIN,
    SERVER_GONE,
)
from core.nouns.ids import FunctionId, LogName, RegionName
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, after, earliest, seconds
from core.nouns.reasons import Reason
from core.nouns.workload import NEVER
from core.routing import POLICIES
from core.rules.functions.calls import (
    are_odds_well_formed,
    is_answerable,
    is_report_well_formed,
    problems_of_call,
)
from core.rules.ownership import owns

HERE_AT_MOST_EVERY = Nanoseconds(100 * MILLISECOND)
"""However many callers ask for it."""
FULL_SPAN = seconds(1)
"""After which calls are said again that a full router did not take."""


class FunctionRouter:
    """One router of a region."""

    noun = "function_router"
    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (
        CallFunction,
        RoutersWanted,
        ServerReport,
        HarvestOdds,
        FunctionsRemembered,
        ShowFunctions,
    )
    follows: tuple[Follow, ...] = ()

    def __init__(
        self, region: RegionName, router: str, routers: tuple[str, ...], policy: str = "mws"
    ) -> None:
        self.region = region
        self.router = router
        self.routers = routers
        self.policy = POLICIES[policy]
        self.name = f"router.{region}.{router}"
        self.scope: tuple[str, ...] = (region, router)

    def initial(self, images: Images) -> RouterState:
        """Return the state at a start: no caller and no server was heard."""
        return RouterState(images.at)

    def due(self, state: RouterState) -> Instant | None:
        """Return when calls may be sent, or something is looked at or said again."""
        return earliest(state.dispatch_at, state.here_at, state.tick_at, state.count_at)

    def evolve(self, state: RouterState, fact: Fact) -> RouterState:
        """Fold a note."""
        assert isinstance(fact.event, Note), fact
        fold(state, fact.event, fact.at)
        return state

    def decide(self, state: RouterState, envelope: Envelope) -> Decision:
        """Take calls, follow servers, and send the calls for which there is room."""
        match envelope.message:
            case Woken():
                return self._woken(state, envelope.at)
            case CallFunction() as said:
                is_its_own = owns(envelope.tenant, said.tenant) and is_answerable(said.tenant, said.caller)
                return self._call(state, said, envelope.at) if is_its_own else NOTHING
            case RoutersWanted():
                is_new = after(state.here_said_at, HERE_AT_MOST_EVERY) <= envelope.at < state.here_at
                return Decision((HereWanted(),)) if is_new else NOTHING
            case ServerReport() as report:
                return self._report(state, report) if is_report_well_formed(report) else NOTHING
            case HarvestOdds() as said:
                return Decision((OddsHeard(said),)) if are_odds_well_formed(said) else NOTHING
            case FunctionsRemembered(_, _, life, number, estimates):
                is_awaited = state.told is not None and (life, number) == (state.life, state.told.number)
                return Decision((CountKept(estimates),)) if is_awaited else NOTHING
            case ShowFunctions():
                return answered(shown_functions(state, envelope.tenant, envelope.at))
        return NOTHING

    # Calls.

    def _call(self, state: RouterState, said: CallFunction, at: Instant) -> Decision:
        """Take the calls that are new, send those again of which the end was told, and refuse those without room."""
        numbers = tuple(call.number for call in said.calls)
        problems = problems_of_call(said)
        if problems:
            return Decision(messages=(self._refused(said, numbers, Reason.INVALID, problems),))
        caller = state.callers.get((said.tenant, said.caller))
        if caller is not None and said.word <= caller.word:
            return NOTHING
        found = sorted_calls(state, said, caller, at)
        homeless: list[Call] = []
        if found.new and not could_run(state, said.function, at):
            found.new, homeless = homeless, found.new
        taken, refused = within_ceilings(state, said.tenant, found.new, caller)
        notes: list[Note] = []
        if caller is not None or has_room_for_caller(state, said.tenant):
            answered_too = caller is None or caller.answered.gaps < CALLS_KNOWN_MAX
            ranges = said.answered if answered_too else ()
            key = (said.tenant, said.caller)
            notes.append(CallsHeard(key, said.word, said.floor, ranges, said.function, tuple(taken)))
        messages: list[Message] = []
        for server, group in groupby(
            sorted(found.again, key=lambda one: (one[0], one[1].number)), key=lambda one: one[0]
        ):
            calls = tuple(call for _, call in group)
            kept_only = tuple(call.number for call in calls if call.number in found.kept_only)
            notes.append(CallsSentAgain(server, (said.tenant, said.caller), calls, kept_only))
            messages += self._runs(state, server, said, calls, kept_only)
        for left_out, reason, span in (
            (refused, Reason.ROUTER_FULL, FULL_SPAN),
            (found.late, Reason.OTHER_ROUTER, FULL_SPAN),
            (homeless, Reason.NO_FUNCTION_SERVER, NO_SERVER_AGAIN),
        ):
            if left_out:
                numbers = tuple(call.number for call in left_out)
                messages.append(self._refused(said, numbers, reason, (), span))
        if found.answers:
            answers = tuple(found.answers)
            messages.append(CallsAnswered(said.tenant, said.caller, self.region, "", answers))
        return Decision(tuple(notes), tuple(messages))

    def _runs(
        self,
        state: RouterState,
        server: str,
        said: CallFunction,
        calls: tuple[Call, ...],
        kept_only: tuple[int, ...],
    ) -> Iterator[RunCalls]:
        row = state.servers[server]
        runs = tuple(
            Run(row.sent + 1 + place, said.caller, said.tenant, call, True, call.number in kept_only)
            for place, call in enumerate(calls)
        )
        yield from self._messages(row, state.life, said.function, runs)

    def _refused(
        self,
        said: CallFunction,
        numbers: tuple[int, ...],
        reason: Reason,
        problems: tuple[str, ...] = (),
        again_in: Nanoseconds = NEVER,
    ) -> CallsRefused:
        return CallsRefused(
            said.tenant, said.caller, self.region, self.router, numbers, said.word, reason, problems, again_in
        )

    # Servers.

    def _report(self, state: RouterState, report: ServerReport) -> Decision:
        member = member_of(report.server, report.place)
        known = state.servers.get(member)
        if known is not None and is_older(report.life, known.life):
            return NOTHING
        notes: list[Note] = []
        messages: list[Message] = []
        if known is None or known.life != report.life:
            for name, row in state.servers.items():
                if row.server == report.server and (name == member or is_older(row.life, report.life)):
                    self._lose(state, name, notes, messages)
        messages += messages_of(
            self.region, ((key, given_up(key[2])) for key in lost_too_often(state, report))
        )
        notes.append(ReportHeard(report))
        return Decision(tuple(notes), tuple(messages))

    def _lose(self, state: RouterState, server: str, notes: list[Note], messages: list[Message]) -> None:
        """Add the consequences of a server's end: its calls wait again, or are lost."""
        ended: list[CallRow] = []
        for number, (key, _) in state.servers[server].runs.items():
            call = state.awaited(key, server, number)
            if call is not None and call.call.is_once:
                ended.append(call)
        if ended:
            notes.append(CallsOver(lost=tuple(call.key for call in ended)))
            messages += messages_of(self.region, ((call.key, lost(call.key[2])) for call in ended))
        notes.append(ServerLost(server))

    # Time.

    def _woken(self, state: RouterState, now: Instant) -> Decision:
        notes: list[Note] = []
        messages: list[Message] = []
        if state.tick_at is not None and state.tick_at <= now:
            self._tick(state, now, notes, messages)
            notes.append(Ticked())
        elif state.dispatch_at is not None and state.dispatch_at <= now:
            self._dispatch(state, now, notes, messages)
        if state.here_at <= now:
            size, load = load_of(state, now)
            warm = warm_functions(state)
            messages.append(RouterHere(self.region, self.router, state.life, self.routers, load, size, warm))
            notes.append(HereSaid())
        if state.count_at is not None and state.count_at <= now:
            told = state.told or self._counts(state, now)
            messages.append(told)
            notes.append(CountTold(told))
        return Decision(tuple(notes), tuple(messages))

    def _counts(self, state: RouterState, now: Instant) -> CountFunctions:
        """Return the counts since the last ones, of the functions with most calls. The first words of a life only ask for loads."""
        told = [
            row.counts.told(function) for function, row in state.functions.items() if not row.counts.is_empty
        ]
        told.sort(key=lambda one: (-one.ended, one.function))
        number = state.count_number + 1
        counts = tuple(told[:FUNCTIONS_COUNTED_MAX]) if number else ()
        span = Nanoseconds(now - state.counted_at)
        return CountFunctions(self.region, self.router, state.life, number, span, counts)

    def _dispatch(self, state: RouterState, now: Instant, notes: list[Note], messages: list[Message]) -> None:
        found = dispatch(state, self.policy, now)
        if found.members:
            notes.append(MembersChanged(found.members))
        sent: dict[str, int] = {}
        for sending in found.sendings:
            notes.append(CallsSent(sending.server, sending.keys))
            messages += self._sent(state, sending, sent)
        notes.append(Dispatched(is_whole=not found.is_cut))

    def _sent(self, state: RouterState, sending: Sending, sent: dict[str, int]) -> Iterator[RunCalls]:
        """Return the messages of one sending. `sent` counts the runs of this decision by server."""
        row = state.servers[sending.server]
        first = row.sent + sent.get(sending.server, 0) + 1
        sent[sending.server] = sent.get(sending.server, 0) + len(sending.keys)
        runs = tuple(_run(state, key, first + place) for place, key in enumerate(sending.keys))
        spec = state.functions[sending.function].spec
        yield from self._messages(row, state.life, spec, runs)

    def _messages(
        self, row: ServerRow, life: str, spec: FunctionSpec | None, runs: tuple[Run, ...]
    ) -> Iterator[RunCalls]:
        """Return the messages that carry these runs, each of a size that may be."""
        begin = size = 0
        for place, run in enumerate(runs):
            size += len(run.call.arguments)
            is_full = place - begin >= CALLS_AT_ONCE_MAX or (size > CALL_BATCH_BYTES and place > begin)
            if is_full:
                yield self._message(row, life, spec, runs[begin:place])
                begin, size = place, len(run.call.arguments)
        yield self._message(row, life, spec, runs[begin:])

    def _message(
        self, row: ServerRow, life: str, spec: FunctionSpec | None, runs: tuple[Run, ...]
    ) -> RunCalls:
        return RunCalls(
            self.region,
            row.server,
            row.life,
            self.router,
            life,
            row.floor,
            spec,
            runs,
            row.heard_whole,
            row.place,
        )

    def _tick(self, state: RouterState, now: Instant, notes: list[Note], messages: list[Message]) -> None:
        """Look for silence, and for calls that are wanted no more."""
        for server, row in state.servers.items():
            if after(row.heard_at, SERVER_GONE) <= now:
                self._lose(state, server, notes, messages)
            elif is_usable(row, now):
                self._repeat(state, server, row, now, notes, messages)
        gone = tuple(
            key for key, one in state.callers.items() if after(one.heard_at, CALLER_SILENCE_MAX) <= now
        )
        if gone:
            notes.append(CallersForgotten(gone))
        homeless = [
            (one, is_held_only)
            for one, is_held_only in state.waits
            if not could_run(state, state.functions[one].spec, now)
        ]
        self._give_back(state, homeless, gone, notes, messages)
        waiting = (
            state.call(key)
            for queue in state.waits
            if queue not in homeless
            for _, key in state.waiting(queue)
            if key[:2] not in gone
        )
        over = [call for call in waiting if call is not None and 0 < call.ends_by <= now]
        if over:
            begun = tuple(call.key for call in over if call.may_have_begun)
            refused = tuple(call.key for call in over if not call.may_have_begun)
            notes.append(CallsOver(begun, refused))
            messages += messages_of(self.region, ((call.key, too_late(call)) for call in over))
        idle = _idle_functions(state, now)
        if idle:
            notes.append(FunctionsForgotten(idle))

    def _give_back(
        self,
        state: RouterState,
        queues: list[Queue],
        gone: tuple[CallerKey, ...],
        notes: list[Note],
        messages: list[Message],
    ) -> None:
        """Give calls back to their callers that wait for capacity which no server has any more: another region may have some."""
        by_caller: dict[CallerKey, list[int]] = {}
        for queue in queues:
            for _, key in state.waiting(queue):
                if key[:2] not in gone:
                    by_caller.setdefault(key[:2], []).append(key[2])
        reason = Reason.NO_FUNCTION_SERVER
        for (tenant, caller), numbers in by_caller.items():
            refused = CallsRefused(
                tenant,
                caller,
                self.region,
                self.router,
                tuple(numbers),
                state.callers[tenant, caller].word,
                reason,
                again_in=NO_SERVER_AGAIN,
                gives_back=True,
            )
            messages.append(refused)
            notes.append(CallsGivenBack((tenant, caller), refused.numbers))

    def _repeat(
        self,
        state: RouterState,
        server: str,
        row: ServerRow,
        now: Instant,
        notes: list[Note],
        messages: list[Message],
    ) -> None:
        """Say runs again that have not come, or forget those that are wanted no more; and the floor if no run has told the floor."""
        by_function: dict[FunctionId, list[Run]] = {}
        unwanted: list[int] = []
        for number, said_at in row.unconfirmed.items():
            if after(said_at, RUN_AGAIN) > now or number not in row.runs:
                continue
            key, function = row.runs[number]
            if state.awaited(key, server, number) is None:
                unwanted.append(number)
            else:
                by_function.setdefault(function, []).append(_run(state, key, number))
        for function, runs in by_function.items():
            spec = state.functions[function].spec
            messages += self._messages(row, state.life, spec, tuple(runs))
        numbers = tuple(run.number for runs in by_function.values() for run in runs)
        is_news = row.floor != row.floor_told or row.heard_whole != row.heard_told
        if numbers or unwanted or is_news:
            if not numbers:
                messages.append(self._message(row, state.life, None, ()))
            notes.append(RunsRepeated(server, numbers, tuple(unwanted), row.floor))


def _run(state: RouterState, key: CallKey, number: int) -> Run:
    call = state.call(key)
    assert call is not None, key
    return Run(number, key[1], key[0], call.call, call.is_again, call.is_kept_only)


def _idle_functions(state: RouterState, now: Instant) -> tuple[FunctionId, ...]:
    """Return the functions that were not called for long, of which no call waits or runs, and with nothing to count."""
    running = {function for row in state.servers.values() for function in row.out}
    return tuple(
        function
        for function, row in state.functions.items()
        if after(row.called_at, KEEP_ALIVE_MAX) <= now
        and not (row.waiting or row.waiting_held)
        and function not in running
        and row.counts.is_empty
    )
