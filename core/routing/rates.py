"""Estimates of a function's load from its calls: plain data that a router keeps for each function and changes as it folds."""

from typing import Protocol

from msgspec import Struct, field

from core.nouns.instant import SECOND, Instant, Nanoseconds, seconds
from core.nouns.quantities import Amount
from core.routing.policy import Load

WINDOW_SECONDS = 60
"""Length of the window in which calls are counted. source: spec/cameo-harvest.md 2.2 and 2.4"""
RUN_TIMES_MAX = 4_096
"""Run times of one function that count at once: then all of them count for half."""
FRESH_WEIGHT = 64
"""Weight of a run time that has just come, in the spread: halved with each fading, and forgotten once it is 0."""
KINDS = 32
"""Kinds of run times within a factor of two: so many that a kind's mean stands for each of its times (the odds of a loss are exact but
for 1/128 of the grace)."""
RUN_TIME_WEIGHT = 1 / 16
"""Weight of a new run time in the smoothed one, once there have been 16; the mean of all before that."""
BATCH = 5
"""Run times that the published estimator averages. source: spec/cameo-harvest.md 2.2"""
FIRST_WINDOW: Nanoseconds = seconds(0.010)
"""Published estimator: 10 s, which the artifact compares with milliseconds."""
LATER_WINDOW: Nanoseconds = seconds(0.060)
"""Published estimator: 60 s, which the artifact compares with milliseconds."""


class Rates(Protocol):
    """An estimator of one function's load."""

    def called(self, now: Instant, calls: int = 1) -> None:
        """Record that so many calls have arrived now."""

    def ran(self, run_time: Nanoseconds) -> None:
        """Record how long a call ran that has ended."""

    def load(self, now: Instant, need: Amount) -> Load:
        """Return the load now of a function with executors of this need. Changes no estimate."""


class CallRates(Struct):
    """The rate over a true window of 60 s, and a smoothed run time. A call costs constant time."""

    since: Instant | None = None
    """Time of the first call; None before that."""
    second: int = 0
    """Newest second with a count, in whole seconds since the epoch."""
    counts: list[int] = field(default_factory=lambda: [0] * WINDOW_SECONDS)
    """Calls by second modulo 60, for the 60 seconds up to `second`."""
    total: int = 0
    """Sum of the counts."""
    run_time: float = 0.0
    """Smoothed, in nanoseconds; 0 before the first call has ended."""
    ended: int = 0
    """Calls in the smoothed run time."""

    @classmethod
    def remembered(cls, now: Instant, rate: float, run_time: Nanoseconds) -> "CallRates":
        """Return estimates that start from a rate and a mean run time known from before, as if calls had come evenly for 60 s."""
        total = round(rate * WINDOW_SECONDS)
        rates = cls(
            Instant(now - WINDOW_SECONDS * SECOND), now // SECOND, total=total, run_time=run_time, ended=1
        )
        for place in range(WINDOW_SECONDS):
            rates.counts[(rates.second + 1 + place) % WINDOW_SECONDS] = (
                total * (place + 1) // WINDOW_SECONDS - total * place // WINDOW_SECONDS
            )
        return rates

    def called(self, now: Instant, calls: int = 1) -> None:
        """Record that so many calls have arrived now. A time before the newest second counts as that second."""
        second = now // SECOND
        if self.since is None:
            self.since, self.second = now, second
        if second > self.second:
            self.total -= self._outdated(second)
            for passed in range(max(self.second, second - WINDOW_SECONDS) + 1, second + 1):
                self.counts[passed % WINDOW_SECONDS] = 0
            self.second = second
        self.counts[self.second % WINDOW_SECONDS] += calls
        self.total += calls

    def ran(self, run_time: Nanoseconds) -> None:
        """Record how long a call ran that has ended."""
        self.ended += 1
        self.run_time += (run_time - self.run_time) * max(1 / self.ended, RUN_TIME_WEIGHT)

    def load(self, now: Instant, need: Amount) -> Load:
        """Return the load now of a function with executors of this need. Changes no estimate.

        The rate counts the present second so far and the 59 whole seconds before, over exactly that time. Before the first 60 s have
        passed it counts over the time since the first call, at least 1 s.
        """
        if self.since is None:
            return Load(0.0, Nanoseconds(0), need)
        second = max(now // SECOND, self.second)
        start = max(self.since, (second - WINDOW_SECONDS + 1) * SECOND)
        calls = self.total - self._outdated(second)
        return Load(calls * SECOND / max(now - start, SECOND), Nanoseconds(round(self.run_time)), need)

    def counted(self, now: Instant) -> int:
        """Return the calls of the present second so far and the 59 whole seconds before."""
        return self.total - self._outdated(max(now // SECOND, self.second))

    def _outdated(self, second: int) -> int:
        """Return the calls of the counted seconds that are outside the window which ends with a later second."""
        if second - self.second >= WINDOW_SECONDS:
            return self.total
        return sum(self.counts[passed % WINDOW_SECONDS] for passed in range(self.second + 1, second + 1))


class RunTimes(Struct):
    """The spread of a function's run times: those of a kind are counted and summed together; old ones fade.

    A kind is a part of a factor of two: of `KINDS` equal ones, so its times differ by 1/`KINDS` at most. A call that was lost tells
    a lower bound.
    """

    kinds: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By kind: the weight of its run times, and their sum, each times its weight."""
    weight: int = 0
    """Of all kinds."""

    def add_lost(self, ran: Nanoseconds) -> None:
        """Learn from a call that was lost after so long: it would have run for longer, and counts as if for an eighth longer."""
        self.add(Nanoseconds(ran + ran // 8))

    def add(self, ran: Nanoseconds) -> None:
        """Learn from a call that ended."""
        kind = _kind_of(ran)
        weight, total = self.kinds.get(kind, (0, 0))
        self.kinds[kind] = weight + FRESH_WEIGHT, total + FRESH_WEIGHT * ran
        self.weight += FRESH_WEIGHT
        if self.weight >= FRESH_WEIGHT * RUN_TIMES_MAX:
            # A kind keeps its mean, and lone times of a long tail stay until they have faded several times.
            self.kinds = {
                kind: (weight // 2, total * (weight // 2) // weight)
                for kind, (weight, total) in self.kinds.items()
                if weight > 1
            }
            self.weight = sum(weight for weight, _ in self.kinds.values())

    def weighted(self) -> list[tuple[Nanoseconds, int]]:
        """Return the mean of each kind, with its weight."""
        return [(Nanoseconds(total // weight), weight) for weight, total in self.kinds.values()]

    def expected_rest(self, ran: Nanoseconds) -> Nanoseconds | None:
        """Return how much longer a call runs that has run for so long; None: none is known that ran for longer."""
        longer = [(time, weight) for time, weight in self.weighted() if time > ran]
        weights = sum(weight for _, weight in longer)
        if not weights:
            return None
        return Nanoseconds(sum(weight * (time - ran) for time, weight in longer) // weights)


def _kind_of(ran: Nanoseconds) -> int:
    """Return the kind of a run time: longer ones are of the same or of a higher kind."""
    shift = max(0, ran.bit_length() - KINDS.bit_length())
    return shift * KINDS + (ran >> shift)


class PublishedRates(Struct):
    """The published estimator, for comparison. Its windows are 1,000 times too short, so the rate is close to one over the last gap
    between two calls. The rate changes at calls only, and never falls when they stop.
    """

    start: Instant | None = None
    """Start of the present window; None before the first call."""
    calls: int = 0
    """Arrived in the present window."""
    rate: float = 0.0
    """Calls a second in the last window that is over; 0 before that."""
    is_first: bool = True
    """The present window is the first one."""
    run_time: float = 0.0
    """Mean of the last whole batch, in nanoseconds; before that, the first run time."""
    batch: list[int] = field(default_factory=list)
    """Run times of the present batch, in nanoseconds."""

    def called(self, now: Instant, calls: int = 1) -> None:
        """Record that so many calls have arrived now."""
        if self.start is None:
            self.start = now
        self.calls += calls
        if now - self.start > (FIRST_WINDOW if self.is_first else LATER_WINDOW):
            self.rate = self.calls * SECOND / (now - self.start)
            self.start, self.calls, self.is_first = now, 0, False

    def ran(self, run_time: Nanoseconds) -> None:
        """Record how long a call ran that has ended."""
        self.run_time = self.run_time or run_time
        self.batch.append(run_time)
        if len(self.batch) == BATCH:
            self.run_time = sum(self.batch) / BATCH
            self.batch.clear()

    def load(self, now: Instant, need: Amount) -> Load:
        """Return the load of a function with executors of this need, as of the last call. Changes no estimate."""
        return Load(self.rate, Nanoseconds(round(self.run_time)), need)
