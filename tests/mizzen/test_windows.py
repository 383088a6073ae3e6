"""When and for how long, as operators write it, and as it is told to them."""

import pytest

from core.nouns.instant import SECOND, Instant
from core.nouns.limits import MAINTENANCE_LEAD_MAX, MAINTENANCE_SPAN_MAX
from mizzen.actions.time_windows import any_span, some_span, starts_in
from mizzen.jobs.values import Unreadable
from mizzen.views.phrases.durations import clock_text, short_text

NOW = Instant(1_795_305_600 * SECOND)
"""2026-11-22T00:00:00Z."""
MINUTE = 60 * SECOND


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("now", 0),
        ("Now", 0),
        ("in 2h", 120),
        ("in  90m", 90),
        ("+1h30m", 90),
        ("in 0:30:00", 30),
        ("2026-11-22T03:00", 180),
        ("2026-11-22 03:00", 180),
        ("2026-11-22t03:00z", 180),
        ("2026-11-22T03:00:00.000Z", 180),
        ("2026-11-22T03:00+01:00", 120),
        ("2026-11-21T22:00-0300", 60),
        ("2026-11-22T00:00", 0),
        ("2028-02-29T00:00", 464 * 24 * 60),
    ],
)
def test_when_it_starts(text: str, minutes: int) -> None:
    """In UTC unless it says otherwise, as every time that is shown; a span from now; to the nanosecond."""
    assert minutes * MINUTE == starts_in(text, NOW)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2026-11-21T23:59", "'?2026-11-21T23:59'? has passed, 1m ago; write for example now"),
        ("2025-11-22T00:00", "has passed, 365d ago"),
        ("1969-01-01T00:00", "has passed"),
        ("3000-01-01T00:00", "more than a hundred years ahead"),
        ("2026-11-22", "is no time; write"),
        ("03:00", "is no time; write"),
        ("tomorrow", "is no time; write"),
        ("", "is no time; write"),
        ("2027-02-29T00:00", "is no time of any calendar"),
        ("2026-11-22T25:00", "is no time of any calendar"),
        ("2026-11-22T03:00+99:00", "is no time of any calendar"),
        ("in", "is no time; write"),
        ("in -2h", "is no span"),
        ("in a while", "is no span"),
        ("in 101000d", "more than a hundred years"),
        ("٢٠٢٦-11-22T03:00", "is no time; write"),
    ],
)
def test_invalid_start(text: str, said: str) -> None:
    """The past is refused, and the refusal has how long ago it was: a slip of the date or of the zone is seen at once."""
    with pytest.raises(Unreadable, match=said):
        starts_in(text, NOW)


def test_spans() -> None:
    """A window lasts more than nothing, notice may be none, and both have a ceiling."""
    assert (90 * MINUTE, 30 * MINUTE, 0) == (some_span("90m"), any_span(" 30m "), any_span("0"))
    for text in ("0", "0s", "0:00"):
        with pytest.raises(Unreadable, match="no time at all"):
            some_span(text)
    for text in ("", "soon", "-5m", "5 minutes"):
        with pytest.raises(Unreadable, match="is no span"):
            some_span(text)
    assert 30 * 24 * 60 * MINUTE == some_span("30d", MAINTENANCE_SPAN_MAX)
    with pytest.raises(Unreadable, match="too long; 30 days is the most"):
        some_span("31d", MAINTENANCE_SPAN_MAX)
    with pytest.raises(Unreadable, match="too long; 7 days is the most"):
        any_span("8d", MAINTENANCE_LEAD_MAX)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (192, "3m12s"), (599, "9m59s"), (749, "12m"), (3_600, "1h"),
     (5_459, "1h30m"), (86_399, "23h59m"), (86_400, "1d"), (273_600, "3d4h")],
)  # fmt: skip
def test_short_span(seconds: float, text: str) -> None:
    """By its two largest units, rounded down; one that has passed is none."""
    assert text == short_text(round(seconds * SECOND))


def test_time_of_day() -> None:
    """With its date, unless it is so near that nobody could take it for another day's."""
    assert "03:30Z" == clock_text(NOW + 210 * MINUTE, NOW)
    assert "23:00Z" == clock_text(NOW - 60 * MINUTE, NOW)
    assert "2026-11-22T12:00Z" == clock_text(NOW + 720 * MINUTE, NOW)
