"""Spans, times, sizes, counts and GPUs as people write them, in a job file and for Slurm.

Everything becomes a whole number of the smallest unit, exactly; what cannot is refused with how to write it.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal

from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds
from core.nouns.limits import NAME_LENGTH_MAX, NEED_MAX
from core.nouns.pipeline import DailyWindow
from core.nouns.quantities import MILLI
from runtime.yaml_tree import shown

DIGITS_MAX = 15
"""More are no count of anything, and Python would not read thousands of them."""
SPAN_MAX: Nanoseconds = Nanoseconds(36_500 * 86_400 * SECOND)
"""A hundred years: what a log's 64 bits hold, and more than anybody waits."""

_NUMBER = rf"[0-9]{{1,{DIGITS_MAX}}}(?:\.[0-9]{{1,9}})?"
_UNITS = {"d": 86_400 * SECOND, "h": 3_600 * SECOND, "m": 60 * SECOND, "s": SECOND, "ms": MILLISECOND}
_SPAN = re.compile(r"\s*".join(rf"(?:(?P<{unit}>{_NUMBER})\s*{unit})?" for unit in _UNITS))
_CLOCK = re.compile(r"(?:(?P<days>[0-9]{1,6})-)?(?P<rest>[0-9]{1,9}(?::[0-9]{1,2}){0,2})")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:[Zz]|[+-]\d\d:?\d\d)?", re.ASCII)
"""No date alone, and no time alone: midnight, or tomorrow's, is not for us to guess."""
_WINDOW_LASTS = Nanoseconds(3_600 * SECOND)
_WINDOW = re.compile(r"daily\s+([0-9]{1,2}):([0-9]{2})(?:\s+for\s+(.+))?")
_SIZE = re.compile(rf"({_NUMBER})\s*([A-Za-z]*)")
_SIZES = {"": 1, "b": 1}
_SIZES |= {f"{letter}b": 1_000**power for power, letter in enumerate("kmgtp", 1)}
_SIZES |= {f"{letter}ib": 1_024**power for power, letter in enumerate("kmgtp", 1)}
_SIZES |= {f"{letter}i": 1_024**power for power, letter in enumerate("kmgtp", 1)}
_SLURM_SIZES = {letter: 1_024**power for power, letter in enumerate("kmgtp", 1)}
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_GPUS = re.compile(rf"({_NAME}):({_NUMBER})")


class Unreadable(Exception):
    """A value that is not what its field takes; the text says what it is and how to write it."""


def span_of(text: str) -> Nanoseconds:
    """`30s`, `5m`, `1h30m`, `1d`, plain seconds, or hours, minutes and seconds as Slurm writes them. Raises Unreadable."""
    if re.fullmatch(_NUMBER, text):
        return _span(text, Decimal(text) * SECOND)
    match = _SPAN.fullmatch(text)
    if match is not None and any(match.groups()):
        parts = [Decimal(match[unit] or 0) * length for unit, length in _UNITS.items()]
        return _span(text, sum(parts, Decimal(0)))
    if text.startswith("-"):
        raise Unreadable(
            f"{shown(text)} is no span, for it is less than nothing; write for example 90s, 5m, 1h30m or 1:30:00"
        )
    if ":" in text or "-" in text:
        return clock_of(text)
    raise Unreadable(f"{shown(text)} is no span; write for example 90s, 5m, 1h30m or 1:30:00")


def positive_span_of(text: str) -> Nanoseconds:
    """A span that is longer than zero. Raises Unreadable."""
    span = span_of(text)
    if not span:
        raise Unreadable("it must be longer than zero")
    return span


def instant_of(text: str) -> Instant:
    """`2026-11-22T03:00`, which is UTC unless it says otherwise. Raises Unreadable."""
    form = "write for example 2026-11-22T03:00, which is UTC unless it says otherwise"
    if not _TIME.fullmatch(text):
        raise Unreadable(f"{shown(text)} is no time; {form}")
    try:
        moment = datetime.fromisoformat(text.upper().replace(" ", "T"))
    except ValueError as error:
        raise Unreadable(f"{shown(text)} is no time of any calendar; {form}") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC)
    at = (since_epoch.days * 86_400 + since_epoch.seconds) * SECOND + since_epoch.microseconds * 1_000
    if at <= 0:
        raise Unreadable(f"{shown(text)} is no time of this age; {form}")
    return Instant(at)


def window_of(text: str) -> DailyWindow:
    """`daily 02:00`, for an hour, or `daily 02:00 for 2h`; in UTC. Raises Unreadable."""
    match = _WINDOW.fullmatch(text)
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise Unreadable(
            f"{shown(text)} is no window; write for example daily 02:00, or daily 02:00 for 2h, in UTC"
        )
    opens = Nanoseconds((int(match[1]) * 60 + int(match[2])) * 60 * SECOND)
    return DailyWindow(opens, _WINDOW_LASTS if match[3] is None else positive_span_of(match[3]))


def window_text(window: DailyWindow) -> str:
    """A window as a job file writes it."""
    hours, minutes = divmod(window.opens // (60 * SECOND), 60)
    return f"daily {hours:02}:{minutes:02} for {span_text(window.lasts)}"


def slurm_span_of(text: str) -> Nanoseconds:
    """What Slurm takes for `--time`: a bare number is minutes, and zero or UNLIMITED no limit. Raises Unreadable."""
    if text.upper() in {"UNLIMITED", "INFINITE"}:
        return Nanoseconds(0)
    return clock_of(text)


def clock_of(text: str) -> Nanoseconds:
    """`minutes[:seconds]`, `hours:minutes:seconds` or `days-hours[:minutes[:seconds]]`. Raises Unreadable."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise Unreadable(f"{shown(text)} is no span; write it for example as 1:30:00 or 2-12:00:00")
    numbers = [int(number) for number in match["rest"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = (*numbers, 0, 0)[:3]
    elif len(numbers) == 3:
        hours, minutes, seconds = numbers
    else:
        hours, (minutes, seconds) = 0, (*numbers, 0)[:2]
    whole = ((int(match["days"] or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    return _span(text, Decimal(whole) * SECOND)


def _span(text: str, nanoseconds: Decimal) -> Nanoseconds:
    if nanoseconds > SPAN_MAX:
        raise Unreadable(f"{shown(text)} is more than a hundred years")
    return Nanoseconds(int(nanoseconds))


def decimal_of(text: str, digits: int) -> Decimal:
    """A number that is not less than zero, with so many digits behind the point at most. Raises Unreadable."""
    if not re.fullmatch(_NUMBER, text):
        raise Unreadable(f"{shown(text)} is no number; write for example 2 or 12.5")
    if len(text.partition(".")[2]) > digits:
        raise Unreadable(f"{shown(text)} has more than {digits} digits behind the point")
    return Decimal(text)


def span_text(span: int) -> str:
    """A span as a job file writes it: `1h30m`, `90s` as `1m30s`."""
    parts = []
    for unit, length in _UNITS.items():
        count, span = divmod(span, length)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def bytes_of(text: str) -> int:
    """`16GiB`, `16GB` or plain bytes, of one machine. Raises Unreadable."""
    return _bytes(text, exact_bytes_of(text))


def exact_bytes_of(text: str) -> Decimal:
    """The same, not rounded and of any amount. Raises Unreadable; also for `16G`, which means one thing here and another there."""
    match = _SIZE.fullmatch(text)
    unit = match[2].lower() if match else ""
    if match is None or unit not in _SIZES:
        if match is not None and unit in _SLURM_SIZES:
            letter = match[2].upper()
            raise Unreadable(
                f"{shown(text)} can be read in two ways; write {letter}iB (1024s) or {letter}B (1000s)"
            )
        raise Unreadable(f"{shown(text)} is no size; write for example 16GiB, 16GB or 512MiB")
    return Decimal(match[1]) * _SIZES[unit]


def slurm_bytes_of(text: str) -> int:
    """What Slurm takes for `--mem`: megabytes unless a letter says otherwise, and all of them in 1024s. Raises Unreadable."""
    match = _SIZE.fullmatch(text)
    letter = (match[2].lower().removesuffix("b") or "m") if match else ""
    if match is None or letter not in _SLURM_SIZES:
        raise Unreadable(f"{shown(text)} is no size; write for example 16G")
    return _bytes(text, Decimal(match[1]) * _SLURM_SIZES[letter])


def _bytes(text: str, amount: Decimal) -> int:
    if amount > NEED_MAX:
        raise Unreadable(f"{shown(text)} is more than any machine has")
    return int(amount)


def whole_of(text: str) -> int:
    """A whole number. Raises Unreadable."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise Unreadable(f"{shown(text)} is no whole number")
    if len(text) > DIGITS_MAX:
        raise Unreadable(f"{shown(text)} is too large")
    return int(text)


def cpu_milli_of(text: str) -> int:
    """`4` cores, `0.5` of one, or `500m`. Raises Unreadable."""
    number = text.removesuffix("m")
    if not re.fullmatch(_NUMBER, number):
        raise Unreadable(f"{shown(text)} is no number of CPUs; write for example 4 or 500m")
    return _milli(text, Decimal(number) * (1 if text.endswith("m") else MILLI))


def gpus_of(text: str) -> tuple[str, int]:
    """The type and the GPU milli of `H100:8` or `H100:0.5`. Raises Unreadable."""
    match = _GPUS.fullmatch(text)
    if match is not None:
        return match[1], _milli(text, Decimal(match[2]) * MILLI)
    if re.fullmatch(_NUMBER, text):
        raise Unreadable(
            f"{shown(text)} names no type; write TYPE:COUNT, for example H100:{shown(text)}, or any:{shown(text)}"
        )
    hint = f"; write {shown(text)}:1 for one" if re.fullmatch(_NAME, text) else ""
    raise Unreadable(f"{shown(text)} is not TYPE:COUNT{hint}")


def name_of(text: str) -> str:
    """The name of a tenant or a region. Raises Unreadable."""
    if not re.fullmatch(_NAME, text) or len(text) > NAME_LENGTH_MAX:
        raise Unreadable(f"{shown(text)} is no name; use letters, digits, '.', '_' and '-'")
    return text


def _milli(text: str, amount: Decimal) -> int:
    if amount != int(amount):
        raise Unreadable(f"{shown(text)} is finer than thousandths")
    return int(amount)
