"""Announcing a durable batch: its facts in order, in parts that fit a message, with the hashes around each part."""

from collections.abc import Iterator

from core.fact import Head
from core.messages.logs import FactsTold, ToldFact
from core.nouns.instant import Instant
from core.nouns.limits import TOLD_BYTES_MAX
from store.chain import chain
from store.port import Row

_TOLD_OVERHEAD_BYTES = 48
"""Of a told fact beside its texts and its event: field names, numbers and lengths take 42 at most."""


def announcements(rows: list[Row], before: Head, head: Head, term: int, packed: bytes) -> Iterator[FactsTold]:
    """What a keeper tells of a batch. The packed node rows go beside its last part, if there is room for them."""
    for part, hash_before, hash_after in _parts(rows, before, head):
        beside = packed if part[-1] is rows[-1] and len(packed) <= TOLD_BYTES_MAX else b""
        yield FactsTold(
            log=head.log,
            log_id=head.log_id,
            term=term,
            first=part[0].sequence,
            hash_before=hash_before,
            hash_after=hash_after,
            facts=tuple(ToldFact(Instant(row.at), row.cause, row.actor, row.event) for row in part),
            rows=beside,
        )


def _parts(rows: list[Row], before: Head, head: Head) -> list[tuple[list[Row], bytes, bytes]]:
    """A batch cut so that each part fits an announcement, with the hashes around each."""
    if sum(map(_weight, rows)) <= TOLD_BYTES_MAX:
        return [(rows, before.hash, head.hash)]
    parts: list[tuple[list[Row], bytes, bytes]] = []
    part: list[Row] = []
    weight, hash_before = 0, before.hash
    for row, hash_after in zip(rows, chain(before.hash, rows), strict=True):
        part.append(row)
        weight += _weight(row)
        if weight >= TOLD_BYTES_MAX or row is rows[-1]:
            parts.append((part, hash_before, hash_after))
            part, weight, hash_before = [], 0, hash_after
    return parts


def _weight(row: Row) -> int:
    """What a row weighs in an announcement: small facts weigh more by their causes than by themselves."""
    return len(row.event) + len(row.cause) + len(row.actor) + _TOLD_OVERHEAD_BYTES
