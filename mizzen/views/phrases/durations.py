"""Spans and times within a sentence: `3m12s`, `1h30m`, `04:30Z`. Tables have theirs as squeue does (texts.py)."""

from datetime import UTC, datetime

from core.nouns.instant import SECOND

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def short_text(nanoseconds: int) -> str:
    """A span by its two largest units, rounded down: nobody is promised a second that is not there."""
    seconds = max(0, nanoseconds) // SECOND
    if seconds >= _DAY:
        return _two(seconds, _DAY, "d", _HOUR, "h")
    if seconds >= _HOUR:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds >= 10 * _MINUTE:
        return f"{seconds // _MINUTE}m"
    return _two(seconds, _MINUTE, "m", 1, "s") if seconds >= _MINUTE else f"{seconds}s"


def clock_text(at: int, now: int) -> str:
    """A time of day in UTC, with its date unless that is within half a day: what is read at night is not looked up."""
    moment = datetime.fromtimestamp(at // SECOND, UTC)
    is_near = abs(at - now) < 12 * _HOUR * SECOND
    return f"{moment:%H:%MZ}" if is_near else f"{moment:%Y-%m-%dT%H:%MZ}"


def moment_text(at: int, now: int) -> str:
    """The same to the second, for what happens within minutes."""
    moment = datetime.fromtimestamp(at // SECOND, UTC)
    is_near = abs(at - now) < 12 * _HOUR * SECOND
    return f"{moment:%H:%M:%SZ}" if is_near else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _two(seconds: int, large: int, its_name: str, small: int, other_name: str) -> str:
    whole, rest = divmod(seconds, large)
    part = rest // small
    return f"{whole}{its_name}{part}{other_name}" if part else f"{whole}{its_name}"
