"""Calls on devices that inference pods lend while they are idle, and want back when they are busy.

Each pod is a task that has its node's GPU by the device book. After one idle sample the pod lends the GPU, as the plain rule says; at the
first busy one it writes that it wants the GPU back, and looks every 20 ms whether executors have left, as workers do before tasks begin.
A fixed number of calls of a few functions is open, so that no device is idle for want of calls.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, exp
from operator import attrgetter

from msgspec import Struct, field

from bench.support.functions.load import TENANT
from bench.support.functions.stage import REGION, ROUTER, START, Stage
from bench.support.harvest.machines import GRACE, Harvester, machine_names
from core.component import Effect
from core.effects import EndExecutor, StartExecutor
from core.messages.base import Message
from core.messages.functions import CallsAnswered, CountFunctions, FunctionsRemembered
from core.nouns.function import CallAnswer, CallOutcome, FunctionSpec, Place, WarmSpans
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.quantities import MILLI, Amount
from core.routing.policy import RoutingPolicy
from core.rules.harvest.odds import MILLION
from runtime.clock import Clock
from runtime.functions.emulated import BookSource, EmulatedExecutors
from runtime.spool import EmulatedSpool
from runtime.tasks.book import ExecutorUse, TaskNode
from runtime.tasks.tasks_first import SOON, any_executors
from scenarios.duty_cycles import Cycle, IdleRun
from scenarios.worlds.function_books import NodesBook

LOAD_SECONDS = 22.7
"""Weights onto a device. source: median of the base models of the same fleet, spec/cameo-harvest.md 2.4"""
PROCESS_SECONDS = 0.1
MEDIAN_SECONDS, SIGMA = 23.0, 0.65
"""Run times of calls, lognormal. source: medians and p90 (53 s) of the requests of the same fleet"""
FUNCTIONS = 4
OPEN_PART = 1.25
"""Calls that are open, for each pod."""
WITHIN = seconds(24 * 3_600)
"""Batch inference: a caller wants its answers within a day."""
NEED = Amount(MILLI, MILLI, 8 << 30)
TOTAL, POD = Amount(MILLI, 16 * MILLI, 128 << 30), Amount(MILLI, 8 * MILLI, 64 << 30)
GPU = Amount(MILLI)
SHARE = "pod"


class Lent(Struct):
    """What was measured of one run."""

    useful: float = 0.0
    """Device-seconds of calls that were done, as far as their pod was idle."""
    in_grace: float = 0.0
    """Device-seconds of the same calls after their pod was busy again: within the grace."""
    lost: float = 0.0
    lost_calls: int = 0
    """Runs that were lost."""
    done: int = 0
    starts: int = 0
    """Loads of weights."""
    lends: int = 0
    lent: float = 0.0
    """Device-seconds from lending until they were wanted back."""
    best: float = 0.0
    """Device-seconds that would have been useful to one that knows each idle run, and pays one load in each."""
    by_rule: float = 0.0
    """The same of one that waits one sample, and loses no call."""
    reclaims: list[float] = field(default_factory=list)
    """Seconds from when a device was wanted until its pod had it."""
    delay_ms: float = 0.0
    """Time in which an executor was on a device that its pod had."""

    def plus(self, other: "Lent") -> "Lent":
        """Return the sums of both, and all reclaims."""
        return Lent(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


class WatchedBook(NodesBook):
    """The book of one pod's node, which tells of each change of executors there."""

    def __init__(self, spool: EmulatedSpool, clock: Clock) -> None:
        super().__init__(spool, clock)
        self.noted: Callable[[], None] | None = None

    def note_executors(self, executors: tuple[ExecutorUse, ...]) -> None:
        """Remember what executors use, and tell."""
        super().note_executors(executors)
        if self.noted is not None:
            self.noted()


class Pod:
    """One inference pod, which lends its device and wants it back."""

    def __init__(self, stage: "Lending", node: int, book: WatchedBook, runs: Sequence[IdleRun]) -> None:
        self._stage, self._node, self._book = stage, node, book
        self._wanted_at: Instant | None = None
        self._looks_at: Instant | None = None
        self._has = True
        self._lent_at = Instant(0)
        self._shared_since: Instant | None = None
        self._place = Place(node, is_harvested=True)
        book.noted = self._watch
        book.tasks.have(SHARE, (TaskNode(node, POD),))
        for run in runs:
            if run.seen < run.end:
                stage.clock.call_at(after(START, seconds(run.seen)), self._lend)
                stage.clock.call_at(after(START, seconds(run.end)), self._want)

    def _lend(self) -> None:
        """Lend the device, if it is here: one that was wanted a moment ago may not have come back yet."""
        self._wanted_at, self._has = None, False
        self._watch()
        self._lent_at = self._stage.clock.now()
        self._stage.lent.lends += 1
        self._book.tasks.have(SHARE, (TaskNode(self._node, POD, lent=GPU),))
        self._book.pages.ring()

    def _want(self) -> None:
        now = self._stage.clock.now()
        self._stage.lent.lent += (now - self._lent_at) / SECOND
        self._wanted_at = now
        self._book.tasks.want(SHARE, (TaskNode(self._node, POD),))
        self._look()

    def _look(self) -> None:
        """Look whether the device is clear, and have it then; else look again when the grace is over, or sooner when executors leave."""
        self._looks_at = None
        if self._wanted_at is None:
            return
        now = self._stage.clock.now()
        if self._book.tasks.is_clear(SHARE, any_executors):
            self._book.tasks.have(SHARE, (TaskNode(self._node, POD),))
            self._stage.lent.reclaims.append((now - self._wanted_at) / SECOND)
            self._wanted_at, self._has = None, True
            self._watch()
        else:
            self._look_at(max(after(self._wanted_at, GRACE), after(now, SOON)))

    def _look_at(self, at: Instant) -> None:
        if self._looks_at is None or at < self._looks_at:
            self._looks_at = at
            self._stage.clock.call_at(at, self._look)

    def _watch(self) -> None:
        """Executors have come or gone, or the device: note how long an executor is on a device that the pod has."""
        now = self._stage.clock.now()
        if self._wanted_at is not None:
            # Workers look every SOON from when they wanted it.
            looks = max(1, ceil((now - self._wanted_at) / SOON))
            self._look_at(after(self._wanted_at, Nanoseconds(looks * SOON)))
        uses = any(one.use.place == self._place for one in self._book.pages.uses())
        if self._shared_since is not None and not (uses and self._has):
            self._stage.lent.delay_ms += (now - self._shared_since) / MILLISECOND
            self._shared_since = None
        elif self._shared_since is None and uses and self._has:
            self._shared_since = now


class Lending(Stage):
    """One run."""

    def __init__(
        self,
        policy: RoutingPolicy,
        cycles: Sequence[Cycle],
        begin: float,
        end: float,
        seed: int,
        told: Callable[[float], None],
    ) -> None:
        self._books: dict[str, WatchedBook] = {}
        super().__init__(policy, partial(self._make_books, len(cycles)))
        self.lent = Lent()
        self.lent.best, self.lent.by_rule = clairvoyant_seconds(cycles, begin, end)
        self._dice = random.Random(f"lending/{seed}")
        self._told_hours = told
        self._functions = [_function(number) for number in range(FUNCTIONS)]
        self._of_call: dict[int, FunctionSpec] = {}
        self._uncounted: set[int] = set()
        """Calls of which no end was counted."""
        self._idle: dict[str, list[IdleRun]] = {}
        """Idle runs of each pod, by its server."""
        self._end = seconds(end - begin)
        lends = 0
        for node, (name, cycle) in enumerate(zip(self._books, cycles, strict=True)):
            executors = self.servers[name].executors
            assert executors is not None
            self._books[name].kill = partial(_end, executors)
            runs = self._idle[name] = list(cycle.idle_between(begin, end))
            Pod(self, node, self._books[name], runs)
            lends += sum(run.seen < run.end for run in runs)
        recalls = round(MILLION * lends / (len(cycles) * (end - begin) / 3_600))
        self._harvester = Harvester(self, dict.fromkeys(self._books, TOTAL), lambda: recalls)
        self._harvester.offer(dict.fromkeys(self._books, TOTAL.minus(POD).plus(GPU)))

    def play(self) -> Lent:
        """Return what was measured."""
        for number in range(round(OPEN_PART * len(self._books))):
            self._call(self._functions[number % FUNCTIONS])
        self.say()
        self._tell()
        self.clock.call_at(after(START, self._end), self.loop.stop)
        self.loop.run_forever()
        self.loop.close()
        return self.lent

    def began(self, effect: Effect) -> None:
        """Count loads."""
        self.lent.starts += isinstance(effect, StartExecutor)

    def answered(self, answer: CallAnswer) -> None:
        """Count the call that was done, and call again."""
        self.lent.done += answer.outcome is CallOutcome.DONE
        self._call(self._of_call.pop(answer.number))

    def carry(self, message: Message) -> None:
        """Count the work of calls that have ended now: a server tells their caller at once."""
        if isinstance(message, CallsAnswered):
            for answer in message.answers:
                if answer.outcome is CallOutcome.DONE and answer.number in self._uncounted:
                    self._uncounted.remove(answer.number)
                    self._count(message.server, answer.ran)
        super().carry(message)

    def _count(self, server: str, ran: Nanoseconds) -> None:
        """Count work that ends now as useful as far as the pod there was idle."""
        end = (self.clock.now() - START) / SECOND
        begin = end - ran / SECOND
        useful = seconds_idle(self._idle[server], begin, end)
        self.lent.useful += useful
        self.lent.in_grace += end - begin - useful

    def told(self, message: Message) -> None:
        """Keep the router's counts, as a region's store does."""
        if not isinstance(message, CountFunctions):
            super().told(message)
            return
        self.lent.lost += sum(one.lost_span for one in message.counts) / SECOND
        self.lent.lost_calls += sum(one.retried for one in message.counts)
        kept = FunctionsRemembered(REGION, ROUTER, message.life, message.number)
        self.loop.call_soon(self.router.hear, kept)

    def _call(self, spec: FunctionSpec) -> None:
        run_time = seconds(MEDIAN_SECONDS * exp(self._dice.gauss(0, SIGMA)))
        number = self.add_call(spec, run_time, WITHIN)
        self._of_call[number] = spec
        self._uncounted.add(number)

    def _tell(self) -> None:
        self._told_hours(self.loop.time() / 3_600)
        self.loop.call_later(3_600, self._tell)

    def _make_books(self, count: int, clock: Clock) -> dict[str, BookSource]:
        self._books = {name: WatchedBook(EmulatedSpool(name, clock), clock) for name in machine_names(count)}
        return dict(self._books)


def seconds_idle(runs: Sequence[IdleRun], begin: float, end: float) -> float:
    """Return for how long a pod was idle between two seconds."""
    found = 0.0
    for run in runs[max(0, bisect_right(runs, begin, key=attrgetter("begin")) - 1) :]:
        if run.begin >= end:
            break
        found += max(0.0, min(end, run.end) - max(begin, run.begin))
    return found


def clairvoyant_seconds(cycles: Sequence[Cycle], begin: float, end: float) -> tuple[float, float]:
    """Return the useful device-seconds that one gets who knows each idle run, and those of the rule that waits one sample.

    Each has one load in each run that is longer than that, and loses no call.
    """
    best = waits = 0.0
    for cycle in cycles:
        for run in cycle.idle_between(begin, end):
            best += max(0.0, run.end - run.begin - LOAD_SECONDS)
            waits += max(0.0, run.end - run.seen - LOAD_SECONDS)
    return best, waits


def _end(executors: EmulatedExecutors, number: int) -> None:
    executors.begin(EndExecutor(number))


def _function(number: int) -> FunctionSpec:
    warm = WarmSpans(process=seconds(PROCESS_SECONDS), device=seconds(LOAD_SECONDS))
    return FunctionSpec(TENANT, f"model{number}", f"{number:08x}", NEED, warm=warm)
