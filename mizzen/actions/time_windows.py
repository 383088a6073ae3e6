"""When and for how long, as operators write it: `in 2h`, `now`, `2026-11-22T03:00`, `90m`.

A time without a zone is UTC, as every time that Mizzen shows.
"""

import re
from datetime import UTC, datetime

from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds
from mizzen.jobs.values import SPAN_MAX, Unreadable, span_of
from mizzen.views.phrases.durations import short_text
from runtime.yaml_tree import shown

_FORMS = "write for example now, 'in 2h' or 2026-11-22T03:00, which is UTC unless it says otherwise"
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d\d:?\d\d)?", re.ASCII)
"""No date alone, and no time alone: midnight, or tomorrow's, is not for us to guess."""


def starts_in(text: str, now: Instant) -> Nanoseconds:
    """From now until what is meant. Raises Unreadable, also for the past."""
    said = text.strip()
    if said.lower() == "now":
        return Nanoseconds(0)
    for opening in ("in ", "+"):
        if said.lower().startswith(opening):
            return span_of(said[len(opening) :].strip())
    if not _TIME.fullmatch(said):
        raise Unreadable(f"{shown(text)} is no time; {_FORMS}")
    try:
        moment = datetime.fromisoformat(said.upper().replace(" ", "T"))
    except ValueError as error:
        raise Unreadable(f"{shown(text)} is no time of any calendar; {_FORMS}") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC)
    at = (since_epoch.days * 86_400 + since_epoch.seconds) * SECOND + since_epoch.microseconds * 1_000
    if at < now:
        raise Unreadable(f"{shown(text)} has passed, {short_text(now - at)} ago; {_FORMS}")
    if at - now > SPAN_MAX:
        raise Unreadable(f"{shown(text)} is more than a hundred years ahead")
    return Nanoseconds(at - now)


def some_span(text: str, span_max: int = SPAN_MAX) -> Nanoseconds:
    """A span that is more than nothing, and no more than there may be. Raises Unreadable."""
    span = span_of(text.strip())
    if span < MILLISECOND:
        raise Unreadable(f"{shown(text)} is no time at all")
    return _within(text, span, span_max)


def any_span(text: str, span_max: int = SPAN_MAX) -> Nanoseconds:
    """A span, or none, as in `0`. Raises Unreadable."""
    return _within(text, span_of(text.strip()), span_max)


def _within(text: str, span: Nanoseconds, span_max: int) -> Nanoseconds:
    if span > span_max:
        raise Unreadable(f"{shown(text)} is too long; {span_max // (86_400 * SECOND)} days is the most")
    return span
