"""One run at one rate on a region in virtual time (stage.py): calls arrive whatever becomes of those before, and their latencies are measured."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from unittest.mock import patch

from msgspec import Struct

from bench.support.functions.load import Arrival, CallLoad
from bench.support.functions.stage import START, HeldBook, Stage
from components.function_router.notes import MembersChanged
from core.component import Effect
from core.effects import StartExecutor
from core.fact import Note
from core.nouns.function import CallAnswer, CallOutcome
from core.nouns.function_limits import KEEP_ALIVE_MAX
from core.nouns.ids import FunctionId
from core.nouns.instant import SECOND, Nanoseconds, after, seconds
from core.nouns.quantities import Amount
from core.routing.policy import RoutingPolicy
from core.routing.rates import CallRates, PublishedRates
from runtime.clock import Clock
from runtime.functions.emulated import BookSource

SERVERS, SIZE = 10, Amount(0, 16_000, 64 << 30)
LATE_SECONDS = 50.0
"""Latency that 99 of 100 calls may have at most. source: spec/cameo-harvest.md 2.3"""
LATE_PART = 0.01
HOPELESS_SECONDS = 2 * LATE_SECONDS
"""A run is over its capacity, and given up, as soon as more calls are open than arrive in so much time."""


class Spans(Struct, frozen=True):
    """Seconds of one run."""

    warm: float
    """Before the measured time; in the first half of them the rate rises."""
    measured: float


class Setup(Struct, frozen=True):
    """One way to route calls."""

    policy: RoutingPolicy
    rates: Callable[[], CallRates | PublishedRates] = CallRates
    keep_alive_min: Nanoseconds = KEEP_ALIVE_MAX
    """Idle executors are kept for 10 minutes; with `KEEP_ALIVE_MIN` for as long as servers have learned."""


class Measured(Struct):
    """The calls that arrived in the measured time of one run."""

    latencies: list[float] = []
    """Seconds, of those with an answer."""
    calls: int = 0
    late: int = 0
    """Calls without an answer in time."""
    is_given_up: bool = False
    starts: int = 0
    """Of executors, in the measured time."""
    resizes: int = 0
    """Changes of the size of sets, in the measured time."""

    @property
    def is_within(self) -> bool:
        """Return whether 99 of 100 calls had their answer in time."""
        return not self.is_given_up and self.late <= LATE_PART * self.calls

    @property
    def cold_share(self) -> float:
        """Return executors started for each call."""
        return self.starts / max(1, self.calls)


def held_books(_: Clock) -> dict[str, BookSource]:
    """Return the books of ten equal servers."""
    return {f"w{one}": HeldBook(SIZE) for one in range(SERVERS)}


class Region(Stage):
    """One run."""

    def __init__(
        self,
        setup: Setup,
        load: CallLoad,
        rate: float,
        spans: Spans,
        books: Callable[[Clock], Mapping[str, BookSource]] = held_books,
    ) -> None:
        super().__init__(setup.policy, books)
        self.measured = Measured()
        self.is_measuring = False
        self._setup, self._load, self._rate = setup, load, rate
        self._begin = seconds(spans.warm)
        self._end = seconds(spans.warm + spans.measured)
        self._open: dict[int, Nanoseconds] = {}
        """Calls without an answer, by number: time of arrival."""
        self._sizes: dict[FunctionId, int] = {}

    def play(self) -> Measured:
        """Return what was measured."""
        self._arrive(self._load.arrivals(self._rate, self._begin / SECOND / 2))
        with (
            patch("components.function_router.notes.CallRates", self._setup.rates),
            patch("components.function_server.state.KEEP_ALIVE_MIN", self._setup.keep_alive_min),
        ):
            self.loop.run_forever()
        self.loop.close()
        return self.measured

    def began(self, effect: Effect) -> None:
        """Count executors that are started."""
        self.measured.starts += self.is_measuring and isinstance(effect, StartExecutor)

    def noted(self, event: Note) -> None:
        """Count the changes of sizes in a note."""
        if isinstance(event, MembersChanged):
            sizes = {function: members.size for function, members in event.members}
            changed = sum(self._sizes.get(function, size) != size for function, size in sizes.items())
            self.measured.resizes += self.is_measuring * changed
            self._sizes |= sizes

    def answered(self, answer: CallAnswer) -> None:
        """Measure how long a call took. One that no server is large enough for is late."""
        at = self._open.pop(answer.number)
        if self._begin <= at < self._end:
            latency = (self.clock.now() - START - at) / SECOND
            self.measured.latencies.append(latency)
            self.measured.late += latency > LATE_SECONDS or answer.outcome is not CallOutcome.DONE

    def _arrive(self, arrivals: Iterator[Arrival]) -> None:
        arrival = next(arrivals)
        self.clock.call_at(after(START, arrival.at), partial(self._call, arrival, arrivals))

    def _call(self, arrival: Arrival, arrivals: Iterator[Arrival]) -> None:
        self.is_measuring = self._begin <= arrival.at < self._end
        self.measured.calls += self.is_measuring
        self._open[self.add_call(self._load.functions[arrival.function], arrival.run_time)] = arrival.at
        self.say()
        if not self._is_over(arrival.at):
            self._arrive(arrivals)

    def _is_over(self, now: Nanoseconds) -> bool:
        """End the run once all measured calls are answered or late, or are known to be late too often."""
        measured = self.measured
        late_max = LATE_PART * self._rate * (self._end - self._begin) / SECOND
        if len(self._open) > HOPELESS_SECONDS * self._rate or measured.late > 2 * late_max:
            measured.is_given_up = True
        elif now < self._end + seconds(LATE_SECONDS):
            return False
        measured.late += sum(self._begin <= at < self._end for at in self._open.values())
        self.loop.stop()
        return True
