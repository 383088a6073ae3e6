"""The arithmetic of pipelines: by when each stage must start, which stages are late, when each will start and end, and
the earliest end of a pipeline.

    start_by(s) = D - c(s) - C_path(s),   C_path(s) = max over successors d of (w(d) + c(d) + C_path(d))

A stage that begins in a window has the last opening from which c + C_path still meets D in place of w + c + C_path: forerunners are
due at that opening, and have no gain from an earlier end.

Stages are numbered so that each comes after all forerunners. Pure: from costs and instants to instants, within 1 and `NUMBER_MAX`.

source    Cameo (NSDI'21), the start deadline of a message and its frontier, with workloads in place of messages
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import NUMBER_MAX
from core.nouns.pipeline import DailyWindow

LAXITY_PART = 100
"""A start deadline that moved by no more than this part of the laxity is not recorded again."""


class Step(Struct, frozen=True):
    """One stage in this arithmetic."""

    after: tuple[int, ...] = ()
    begins: DailyWindow | None = None
    """Unset without a window, and once the stage has begun."""


class Known(Struct, frozen=True):
    """How far a stage has come."""

    started_at: Instant = Instant(0)
    """0: the stage has not started, or waits again after an attempt."""
    ends_at: Instant = Instant(0)
    """The end, past or expected; 0: the stage has not started."""


class Span(Struct, frozen=True):
    """The start and the end of a stage, past or expected."""

    starts_at: Instant
    ends_at: Instant


def start_deadlines(
    steps: Sequence[Step], costs: Sequence[Nanoseconds], waits: Sequence[Nanoseconds], due_at: Instant
) -> list[Instant]:
    """Return the instant by which each stage must start.

    costs    run time of each stage
    waits    time that each stage usually waits, start included
    due_at   the deadline of the last stages
    """
    ends_by = [due_at] * len(steps)
    found = [due_at] * len(steps)
    for index in range(len(steps) - 1, -1, -1):
        step = steps[index]
        start_by = _within(ends_by[index] - costs[index])
        needed_by = _within(start_by - waits[index])
        if step.begins is not None:
            needed_by = _within(step.begins.opened_at(start_by))
            start_by = Instant(min(start_by, needed_by + step.begins.lasts))
        found[index] = start_by
        for before in step.after:
            ends_by[before] = min(ends_by[before], needed_by)
    return found


def latest_starts(steps: Sequence[Step], typical: Sequence[Nanoseconds], due_at: Instant) -> list[Instant]:
    """Return the last instant at which each stage can start so that the deadline is met without waiting from there on.

    typical   run time of each stage
    """
    ends_by = [due_at] * len(steps)
    found = [due_at] * len(steps)
    for index in range(len(steps) - 1, -1, -1):
        last = _within(ends_by[index] - typical[index])
        window = steps[index].begins
        if window is not None:
            last = _within(min(last, window.opened_at(last) + window.lasts - 1))
        found[index] = last
        for before in steps[index].after:
            ends_by[before] = min(ends_by[before], last)
    return found


def forecast(
    steps: Sequence[Step],
    costs: Sequence[Nanoseconds],
    waits: Sequence[Nanoseconds],
    known: Sequence[Known],
    now: Instant,
) -> list[Span]:
    """Return when each stage starts and ends: as recorded, or as is to be expected from now on."""
    found: list[Span] = []
    for index, step in enumerate(steps):
        so_far = known[index]
        if so_far.started_at:
            found.append(Span(so_far.started_at, so_far.ends_at))
            continue
        ready_at = max((now, *(found[before].ends_at for before in step.after)))
        if step.begins is not None:
            ready_at = step.begins.begins_from(ready_at)
        starts_at = _within(ready_at + waits[index])
        found.append(Span(starts_at, _within(starts_at + costs[index])))
    return found


def misses_deadline(
    steps: Sequence[Step],
    typical: Sequence[Nanoseconds],
    known: Sequence[Known],
    due_at: Instant,
    now: Instant,
) -> bool:
    """Return whether the deadline is missed, at the median, even without more waiting: each stage that has not started is late then."""
    none = [Nanoseconds(0)] * len(steps)
    return any(span.ends_at > due_at for span in forecast(steps, typical, none, known, now))


def turns_late_at(
    steps: Sequence[Step],
    typical: Sequence[Nanoseconds],
    known: Sequence[Known],
    due_at: Instant,
    now: Instant,
) -> Instant | None:
    """Return the first instant after now at which the deadline is missed because a stage that could start still waits, if there is one."""
    latest = latest_starts(steps, typical, due_at)
    ready = [
        last
        for step, one, last in zip(steps, known, latest, strict=True)
        if not one.started_at and all(0 < known[before].ends_at <= now for before in step.after)
    ]
    return min((Instant(last + 1) for last in ready if last >= now), default=None)


def earliest_end(steps: Sequence[Step], least: Sequence[Nanoseconds], now: Instant) -> Instant:
    """Return when a pipeline submitted now ends if each stage runs for the least time without waiting."""
    spans = forecast(steps, least, [Nanoseconds(0)] * len(steps), [Known()] * len(steps), now)
    return max(span.ends_at for span in spans)


def critical_path(steps: Sequence[Step], spans: Sequence[Span]) -> list[int]:
    """Return the stages, first to last, of which each ends last among those that the next one waits for."""
    last = max(range(len(spans)), key=lambda index: (spans[index].ends_at, -index))
    path = [last]
    while steps[path[-1]].after:
        path.append(max(steps[path[-1]].after, key=lambda index: (spans[index].ends_at, -index)))
    return path[::-1]


def has_moved(old: Instant, new: Instant, now: Instant) -> bool:
    """Return whether a start deadline moved by more than a second and more than a hundredth of the laxity."""
    return abs(new - old) > max(SECOND, abs(old - now) // LAXITY_PART)


def ordered(after: Sequence[Iterable[int]]) -> list[int] | None:
    """Return an order of stages in which each comes after all forerunners, else as given; None if there is a cycle."""
    left = {index: set(before) for index, before in enumerate(after)}
    found: list[int] = []
    while left:
        free = next((index for index, before in left.items() if not before), None)
        if free is None:
            return None
        del left[free]
        for before in left.values():
            before.discard(free)
        found.append(free)
    return found


def _within(at: int) -> Instant:
    """Return an instant that a fact can hold, and that differs from `NO_DEADLINE`."""
    return Instant(min(max(1, at), NUMBER_MAX))
