"""Time as whole nanoseconds. It is always handed in; nothing below `runtime/` reads a clock."""

from typing import NewType

Instant = NewType("Instant", int)
"""Nanoseconds since the Unix epoch, on the hearing host's clock."""

Nanoseconds = NewType("Nanoseconds", int)
"""A span of time."""

SECOND = 1_000_000_000
MILLISECOND = 1_000_000


def seconds(count: float) -> Nanoseconds:
    """The span of so many seconds, rounded to whole nanoseconds."""
    return Nanoseconds(round(count * SECOND))


def after(instant: Instant, span: Nanoseconds) -> Instant:
    """The instant that lies `span` after another."""
    return Instant(instant + span)


def earliest(*instants: Instant | None) -> Instant | None:
    """The first of those that are set; None when none is."""
    first = None
    for instant in instants:
        if instant is not None and (first is None or instant < first):
            first = instant
    return first
