"""Devices that emulated tasks lend while these are idle, as the cycles of their workloads have it.

What a share lends is a function of the time at which it began to work, so nothing of it is lost with a worker. What it wants back it has
once no executor uses it any more; how long that took is counted.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from core.agenda import Agenda
from core.messages.workers import PrepareTasks
from core.nouns.harvest import LentPart, lent_of
from core.nouns.ids import ShareKey
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.quantities import NOTHING, Amount

WAITS_MAX = 100_000
"""The newest waits for what was lent that are remembered."""


class Lender(Protocol):
    """The device book, as emulated tasks that lend use it (runtime/tasks/emulated.py `EmulatedLender`)."""

    def lent_by(self, key: ShareKey) -> tuple[LentPart, ...]:
        """Return what a share lends by the book."""

    def lend(self, command: PrepareTasks, lent: Mapping[int, Amount]) -> bool:
        """Let a share lend so much of each node, no less than before. Return whether that could be written down."""

    def take_back(
        self, command: PrepareTasks, lent: Mapping[int, Amount], back: Mapping[int, Amount]
    ) -> bool:
        """Return whether a share lends no more than `lent`, executors having left what it wants `back`; else ask again."""

    def keep_lending(self, key: ShareKey) -> None:
        """A share wants nothing back any more."""

    def is_used(self, nodes: Iterable[int]) -> bool:
        """Return whether executors use anything of what is harvested of these nodes."""


class Lends(NamedTuple):
    """A share that runs, as far as it may lend."""

    command: PrepareTasks
    lends: tuple[LentPart, ...]
    """Now, what it wants back included."""
    works_at: Instant
    """When it has begun to work, or begins."""
    is_alone: bool
    """No other share has a part of its devices."""


class LendingFigures(Struct):
    """How soon shares had back what they lent."""

    taken_back: int = 0
    waits: deque[Nanoseconds] = field(default_factory=lambda: deque(maxlen=WAITS_MAX))
    """Of those that had to wait for executors."""
    waited_for_nobody: int = 0
    """Nanoseconds of waits for devices that no executor used."""


class Cycle:
    """When how many devices of each task of one job are idle."""

    def __init__(self, idle: tuple[tuple[Nanoseconds, int], ...]) -> None:
        self._ends = list(accumulate(span for span, _ in idle))
        self._counts = [count for _, count in idle]

    def at(self, worked: int) -> tuple[int, int]:
        """Return how many are idle after so many nanoseconds of work, and after how many more that may change."""
        into = worked % self._ends[-1]
        span = bisect_right(self._ends, into)
        return self._counts[span], self._ends[span] - into


class EmulatedLending:
    """What the emulated tasks of one spool lend."""

    def __init__(
        self,
        lender: Lender,
        of: Callable[[ShareKey], Lends],
        tell: Callable[[ShareKey, tuple[LentPart, ...]], None],
    ) -> None:
        """`of` returns a share that runs. `tell` is called with all that a share lends whenever that has changed."""
        self.figures = LendingFigures()
        self._lender = lender
        self._of = of
        self._tell = tell
        self._cycles: dict[ShareKey, list[Cycle | None]] = {}
        """By job, of shares that run and may lend."""
        self._due: Agenda[ShareKey] = Agenda()
        self._wanting: dict[ShareKey, tuple[Instant, bool]] = {}
        """Shares that wait for what they lent: since when, and whether an executor used any of it then."""

    def begin(self, command: PrepareTasks, now: Instant) -> tuple[LentPart, ...]:
        """A share runs from now on, or is found running. Return what it lends by the book."""
        cycles = [
            Cycle(job.emulation.idle) if job.emulation and job.emulation.idle and not job.serves else None
            for job in command.jobs
        ]
        if not any(cycles) or command.beside is not None:
            return ()
        self._cycles[command.key] = cycles
        self._due.put(command.key, now)
        return self._lender.lent_by(command.key)

    def end(self, key: ShareKey) -> None:
        """A share stops, or has ended: it lends what it lends until its end is in the book."""
        if self._cycles.pop(key, None) is not None:
            self._due.drop(key)
            self._wanting.pop(key, None)

    def due(self) -> Instant | None:
        """Return when a cycle goes on."""
        return self._due.due()

    def catch_up(self, now: Instant) -> None:
        """Lend, and want back, what is to be lent and wanted by now."""
        for key in list(self._wanting):
            self._look(key, now)
        while keys := self._due.passed(now):
            for key in keys:
                self._due.put(key, self._look(key, now))

    def _look(self, key: ShareKey, now: Instant) -> Instant:
        """Return when to look again."""
        share = self._of(key)
        target, span = self._target(key, share, now)
        lent = {one.node: one.size for one in share.lends}
        less = {
            node: left
            for node, size in lent.items()
            if (left := target.get(node, NOTHING).smallest(size)) != NOTHING
        }
        if less != lent and self._has_back(share.command, lent, less, now):
            lent = less
            self._tell(key, _parts(lent))
        elif less == lent and key in self._wanting:
            self._count(key, now)  # It is idle again before it had all back.
            self._lender.keep_lending(key)
        if target != lent and key not in self._wanting and self._lender.lend(share.command, target):
            self._tell(key, _parts(target))
        return after(now, span)

    def _has_back(
        self, command: PrepareTasks, lent: dict[int, Amount], less: dict[int, Amount], now: Instant
    ) -> bool:
        """Return whether a share lends no more than `less` by now."""
        key = command.key
        back = {
            node: more
            for node, size in sorted(lent.items())
            if (more := size.minus(less.get(node, NOTHING))) != NOTHING
        }
        if key not in self._wanting:
            self._wanting[key] = now, self._lender.is_used(back)
        if not self._lender.take_back(command, less, back):
            return False
        self.figures.taken_back += 1
        self._count(key, now)
        return True

    def _count(self, key: ShareKey, now: Instant) -> None:
        """Count the time for which a share has waited."""
        since, was_used = self._wanting.pop(key)
        if now > since:
            self.figures.waits.append(Nanoseconds(now - since))
            self.figures.waited_for_nobody += 0 if was_used else now - since

    def _target(self, key: ShareKey, share: Lends, now: Instant) -> tuple[dict[int, Amount], Nanoseconds]:
        """Return what a share is to lend of each node, and for how long."""
        worked = now - share.works_at
        if worked < 0:
            return {}, Nanoseconds(-worked)
        found: dict[int, Amount] = {}
        spans = []
        jobs = zip(share.command.jobs, share.command.spreads, self._cycles[key], strict=True)
        for job, spread, cycle in jobs:
            if cycle is None or job.emulation is None:
                continue
            idle, span = cycle.at(worked)
            spans.append(span)
            each = lent_of(job.need, idle, job.emulation.keeps_bytes)
            for node, count in zip(spread.nodes, spread.tasks, strict=True) if each != NOTHING else ():
                found[node] = found.get(node, NOTHING).plus(each.times(count))
        return found if share.is_alone else {}, Nanoseconds(min(spans))


def _parts(lent: Mapping[int, Amount]) -> tuple[LentPart, ...]:
    return tuple(LentPart(node, lent[node]) for node in sorted(lent))
