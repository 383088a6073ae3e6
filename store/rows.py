"""Rows and what they mean: facts to rows for the log's keeper, rows to facts for whoever folds them."""

from collections.abc import Sequence

from core.codec import CodecError, decode_event, encode
from core.fact import Event, Fact
from core.nouns.ids import LogName
from core.nouns.instant import Instant
from store.errors import LogFromNewerBuild
from store.port import Row

ROW_OVERHEAD_BYTES = 32
"""What a row counts for beside its texts and its event, where a page is limited: numbers, and what frames them."""


def row_of(fact: Fact) -> Row:
    """A fact as its log holds it."""
    event = fact.event
    assert isinstance(event, Event), f"{type(event).__name__} is kept nowhere"
    return Row(fact.sequence, fact.at, fact.cause, fact.actor, event.about, encode(event))


def facts_of(log: LogName, rows: Sequence[Row]) -> list[Fact]:
    """What these rows say. Raises LogFromNewerBuild at the first event that this build does not know."""
    try:
        return [
            Fact(log, sequence, Instant(at), cause, actor, decode_event(data))
            for sequence, at, cause, actor, _, data in rows
        ]
    except CodecError:
        raise _unknown(log, rows) from None


def _unknown(log: LogName, rows: Sequence[Row]) -> LogFromNewerBuild:
    """The chain says that these are the bytes which were written; so somebody knew what they mean."""
    for row in rows:
        try:
            decode_event(row.event)
        except CodecError as error:
            problem = f"sequence {row.sequence} holds an event that this build does not know ({error})"
            return LogFromNewerBuild(log, f"{problem}; run a newer one")
    raise AssertionError("one of them could not be decoded")


def fitting(rows: Sequence[Row], bytes_max: int, at_least: int) -> tuple[int, int]:
    """How many of these rows, from the first on, are together no larger, and how large all of them are together.

    `at_least` so many always fit, if they are there.
    """
    weights = [
        len(cause) + len(actor) + len(about) + len(event) + ROW_OVERHEAD_BYTES
        for _, _, cause, actor, about, event in rows
    ]
    total = sum(weights)
    if total <= bytes_max:
        return len(rows), total
    for count, weight in enumerate(weights):
        bytes_max -= weight
        if bytes_max < 0 and count >= at_least:
            return count, total
    return len(rows), total
