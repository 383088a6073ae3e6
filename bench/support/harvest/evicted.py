"""Calls on harvested workers that are evicted whole, with a warning, and come back: what becomes of each call, and the router's own odds.

The workers are evicted at random, each at the same rate while it is there, of which the region knows its own recalls alone. After the grace its machine is away for a minute. One worker
more is held for functions, for calls that were lost twice. Calls come in batches of one function, as maps send them.
"""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial

from msgspec import Struct, field

from bench.support.functions.stage import REGION, ROUTER, START, HeldBook, Stage
from bench.support.harvest.lengths import NEED, Lengths
from bench.support.harvest.machines import GRACE, Harvester, as_sources, machine_books, machine_names
from components.function_router.notes import ReportHeard
from core.fact import Note
from core.images.harvest_history import HOUR, PoolHistory
from core.messages.base import Message
from core.messages.functions import CallFunction, CallsAnswered, CountFunctions, FunctionsRemembered, RunCalls
from core.nouns.function import CallAnswer, CallOutcome, EndedRun, FunctionSpec, Place, member_of
from core.nouns.function_limits import FUNCTIONS_COUNTED
from core.nouns.ids import FunctionId
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.quantities import NOTHING, Amount
from core.routing.mws import MinWorkerSet
from core.rules.harvest.odds import MILLION, loss_odds, recalls_per_node_hour
from runtime.clock import Clock
from runtime.functions.emulated import BookSource

WORKERS, CORES, HELD_CORES = 10, 40, 16
TOTAL = Amount(0, 1_000 * CORES, NEED.memory_bytes * 16 * CORES)
"""Of one worker."""
AWAY = seconds(60)
"""From the grace's end until another machine is in the place of one that was evicted."""
FUNCTIONS = 100
BATCH = 16
RATE = 25.0
"""Calls a second: they keep half of the cores busy."""
TRIES = 6
"""A run ends so many times the longest call after the last one came: a call that has no answer then is lost silently. A call is tried twice on
harvested workers and once on held capacity, for which it may wait for others that do the same."""
COUNTED_BY_THEN = Nanoseconds(3 * FUNCTIONS_COUNTED)
"""After the end of a call."""
TOLD_EVERY = 50_000
"""Calls."""


class Ends(Struct):
    """What became of all calls of one run."""

    calls: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """First answers, by outcome."""
    answered_again: int = 0
    """Answers on the way to the caller, beyond the first of each call, without a call for them: a call that is said again may be
    answered again.
    """
    ended_again: int = 0
    """Runs that were done or failed, of calls of which another run was before, as the router heard."""
    counted_more: int = 0
    """Calls that the router counted as done, failed or lost, beyond those that there were, by function."""
    counted_less: int = 0
    """Calls that it did not count, by function."""
    harvested: int = 0
    """Runs that were done on harvested capacity."""
    retried: int = 0
    """Runs that were lost there, by the router's counts."""
    lost_runs: int = 0
    """The same, as servers told of each."""
    retried_calls: int = 0
    """Calls that did not succeed at the first try."""
    lost_seconds: float = 0.0
    estimated: float = 0.0
    """Runs that were to be lost of those on harvested capacity, by the odds that the router had when it sent each."""
    estimated_given: float = 0.0
    """The same with the rate at which workers are evicted in place of the region's own estimate of that."""
    evictions: int = 0
    hours: float = 0.0
    """Of virtual time."""

    def plus(self, other: "Ends") -> "Ends":
        """Return the sums of both."""
        return Ends(
            self.calls + other.calls,
            self.answers + other.answers,
            *(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__[2:]),
        )

    @property
    def silent(self) -> int:
        """Return how many calls ended neither for their caller nor in the counts of routers."""
        return max(self.calls - sum(self.answers.values()), self.counted_less)

    @property
    def twice(self) -> int:
        """Return how many calls ended twice: on the way to their caller, on servers or in counts."""
        return max(self.answered_again, self.ended_again, self.counted_more)

    @property
    def failures_per_million(self) -> float:
        """Return how many of a million calls were not done at their first try."""
        return MILLION * (1 - (self.answers[CallOutcome.DONE] - self.retried_calls) / max(1, self.calls))


class Tally:
    """Words, answers, runs and counts, each by call or by function."""

    def __init__(self) -> None:
        self.called: Counter[FunctionId] = Counter()
        self.counted: Counter[FunctionId] = Counter()
        """Ends, by the router's counts."""
        self.said: Counter[int] = Counter()
        """Words to the router."""
        self.answered: Counter[int] = Counter()
        """Answers to the caller."""
        self._ended: Counter[int] = Counter()
        """Runs that were done or failed."""
        self._lost: Counter[int] = Counter()
        """Runs that were lost on harvested capacity."""
        self._sent: dict[str, int] = {}
        """By server and life: the newest number of a run that was sent to its harvested capacity."""

    def end(self, call: int, run: EndedRun, *, is_harvested: bool) -> None:
        """Add the end of a run. One that is done and did not run has another number, under which it ended before."""
        if run.outcome is CallOutcome.FAILED or (run.outcome is CallOutcome.DONE and run.ran):
            self._ended[call] += 1
        elif run.outcome is CallOutcome.LOST and is_harvested:
            self._lost[call] += 1

    def send(self, message: RunCalls) -> int:
        """Return how many runs are sent for the first time: they are numbered."""
        key = f"{member_of(message.server, message.place)} {message.life}"
        newest = self._sent.get(key, 0)
        self._sent[key] = max([newest, *(run.number for run in message.runs)])
        return sum(run.number > newest for run in message.runs)

    def sum_up(self, ends: Ends) -> None:
        """Write sums and differences into what is reported."""
        ends.answered_again = sum(
            max(0, count - max(1, self.said[call])) for call, count in self.answered.items()
        )
        ends.ended_again = sum(count - 1 for count in self._ended.values())
        ends.lost_runs, ends.retried_calls = self._lost.total(), len(self._lost)
        ends.counted_more = (self.counted - self.called).total()
        ends.counted_less = (self.called - self.counted).total()


class Evicted(Stage):
    """One run."""

    def __init__(
        self,
        seed: int,
        calls: int,
        evictions_per_hour: float,
        told: Callable[[int], None],
        experience_hours: int = 0,
    ) -> None:
        """Take how much is played.

        experience_hours   for which the region has lent these workers, and has seen them evicted, before the first call
        """
        super().__init__(MinWorkerSet(), _books)
        self._lengths = Lengths(seed, FUNCTIONS)
        self._dice = random.Random(f"evicted/{seed}")
        self._calls, self._hourly, self._told_calls = calls, evictions_per_hour, told
        self._ends = Ends()
        self._tally = Tally()
        self._longest = Nanoseconds(0)
        """Run time of a call."""
        self._history = _experience(random.Random(f"experience/{seed}"), evictions_per_hour, experience_hours)
        """Recalls, as a region's image keeps them."""
        totals = dict.fromkeys(machine_names(WORKERS), TOTAL)
        self._harvester = Harvester(
            self, totals, lambda: recalls_per_node_hour([self._history], self.clock.now())
        )
        for name in machine_names(WORKERS):
            self._offer(name)
        self._arrive()

    def play(self) -> Ends:
        """Return what became of all calls."""
        self.loop.run_forever()
        self.loop.close()
        self._ends.hours = self.loop.time() / 3_600
        self._tally.sum_up(self._ends)
        return self._ends

    def noted(self, event: Note) -> None:
        """Keep how runs ended, before the router folds that."""
        if isinstance(event, ReportHeard):
            report = event.report
            row = self.router.state.servers.get(member_of(report.server, report.place))
            for one in report.ended if row else ():
                if one.number in row.runs:
                    self._tally.end(row.runs[one.number][0][2], one, is_harvested=report.place.is_harvested)

    def carry(self, message: Message) -> None:
        """Keep words and answers of each call, and the odds of runs that begin a way to harvested capacity."""
        match message:
            case CallFunction(calls=calls):
                self._tally.said.update(call.number for call in calls)
            case CallsAnswered(answers=answers):
                self._tally.answered.update(answer.number for answer in answers)
            case RunCalls(function=FunctionSpec(id=function), place=Place(is_harvested=True)):
                self._expect(message, function)
        super().carry(message)

    def answered(self, answer: CallAnswer) -> None:
        """Count the end of a call, and end the run some time after the last one."""
        answers = self._ends.answers
        answers[answer.outcome] += 1
        count = answers.total()
        if count % TOLD_EVERY == 0:
            self._told_calls(count)
        if count == self._calls:
            self.loop.call_after_ns(COUNTED_BY_THEN, self.loop.stop)

    def told(self, message: Message) -> None:
        """Keep the router's counts, as a region's store does."""
        if not isinstance(message, CountFunctions):
            super().told(message)
            return
        for count in message.counts:
            self._tally.counted[count.function] += count.ended
            self._ends.harvested += count.harvested
            self._ends.retried += count.retried
            self._ends.lost_seconds += count.lost_span / SECOND
        kept = FunctionsRemembered(REGION, ROUTER, message.life, message.number)
        self.loop.call_soon(self.router.hear, kept)

    def _expect(self, message: RunCalls, function: FunctionId) -> None:
        """Add the odds of runs that are sent for the first time."""
        state = self.router.state
        count = self._tally.send(message)
        row = state.functions.get(function)
        if not count or row is None or state.odds is None:
            return
        run_times = row.run_times.weighted()
        given = round(MILLION * self._hourly)
        self._ends.estimated += count * loss_odds(state.odds.recalls, run_times, state.odds.grace) / MILLION
        self._ends.estimated_given += count * loss_odds(given, run_times, state.odds.grace) / MILLION

    # Calls.

    def _arrive(self) -> None:
        self.loop.call_later(self._dice.expovariate(RATE / BATCH), self._call)

    def _call(self) -> None:
        function = self._dice.randrange(FUNCTIONS)
        for _ in range(min(BATCH, self._calls - self._ends.calls)):
            run_time = self._lengths.run_time(function)
            self._longest = max(self._longest, run_time)
            spec = self._lengths.functions[function]
            self.add_call(spec, run_time)
            self._tally.called[spec.id] += 1
            self._ends.calls += 1
        self.say()
        if self._ends.calls < self._calls:
            self._arrive()
        else:
            longest = TRIES * (self._longest + GRACE + AWAY)
            self.loop.call_after_ns(Nanoseconds(longest + COUNTED_BY_THEN), self.loop.stop)

    # Workers.

    def _bring(self, name: str) -> None:
        self._history.begin(self.clock.now())
        self._offer(name)

    def _offer(self, name: str) -> None:
        self._harvester.offer({name: TOTAL})
        self.loop.call_later(self._dice.expovariate(self._hourly / 3_600), self._evict, name)

    def _evict(self, name: str) -> None:
        self._ends.evictions += 1
        self._history.recall(self.clock.now(), TOTAL, TOTAL, NOTHING)
        self._harvester.offer({name: NOTHING})
        self.loop.call_after_ns(Nanoseconds(GRACE + AWAY), partial(self._bring, name))


def _experience(dice: random.Random, evictions_per_hour: float, hours: int) -> PoolHistory:
    """Return a history of so many hours before the start in which workers were evicted at the same rate, and at whose end all are there."""
    begin = START - hours * HOUR
    changes: list[tuple[int, bool]] = []
    for _ in range(WORKERS if hours else 0):
        at = begin
        while at < START:
            end = at + seconds(dice.expovariate(evictions_per_hour / 3_600))
            changes += [(at, True), (end, False)]
            at = end + GRACE + AWAY
    history = PoolHistory()
    for at, comes in sorted(one for one in changes if one[0] < START):
        if comes:
            history.begin(at)
        else:
            history.recall(at, TOTAL, TOTAL, NOTHING)
    while history.nodes < WORKERS:
        history.begin(START)
    return history


def _books(clock: Clock) -> dict[str, BookSource]:
    held = HeldBook(Amount(0, 1_000 * HELD_CORES, NEED.memory_bytes * 16 * HELD_CORES))
    return {**as_sources(machine_books(clock, WORKERS)), "held": held}
