"""Snapshots as the builds that kept them left them, each with the facts that it was folded from.

`python -m tests.golden.images` records those of this build, once for each version of the images (core/images/versions.py),
and never overwrites any. A file holds whole logs, so that what a later build makes of such a snapshot can be compared with
what it makes of the facts.
"""

import json
import zlib
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from core.fact import Head
from core.images import GlobalImage, RegionImage, empty_image
from core.images.versions import VERSIONS
from core.nouns.ids import GLOBAL_LOG, LogName
from core.nouns.instant import SECOND, Nanoseconds, after
from store.chain import GENESIS, chain
from store.images import sealed
from store.port import Row, Snapshot
from store.rows import facts_of, row_of
from tests.builders import EU_LOG, START, a_fact
from tests.core.histories import QueueHistory, RegionHistory
from tests.golden.history import HISTORY, PAUSES

FOLDER = Path(__file__).parent / "images"
SUFFIX = ".images"
LOG_ID = "golden"
EVERY = 7
"""Facts between snapshots of the history that has every event."""
SAYS_NOTHING = frozenset({"description", "enum", "title"})
"""Parts of a schema that an encoded image does not depend on. A new member of an enumeration is one of them: no older image has it."""
DRAWN = 200
"""Facts of a drawn history, with a snapshot after each half."""


class GoldenLog(msgspec.Struct, frozen=True):
    """A log's rows, and snapshots as they lay beside it, sealed."""

    log: LogName
    rows: list[Row]
    snapshots: list[bytes]


def read_golden(version: str) -> list[GoldenLog]:
    """The logs and snapshots that were recorded of one version."""
    data = zlib.decompress((FOLDER / f"{version}{SUFFIX}").read_bytes())
    return msgspec.msgpack.decode(data, type=list[GoldenLog])


def golden_of_this_build() -> list[GoldenLog]:
    """The history that has every event, and a drawn one that is full of rows; of either log."""
    histories = {log: _every_event(log) for log in (GLOBAL_LOG, EU_LOG)}
    found = [_golden(log, rows, range(EVERY, len(rows) + 1, EVERY)) for log, rows in histories.items()]
    for log, facts in ((GLOBAL_LOG, QueueHistory(1).draw(DRAWN)), (EU_LOG, RegionHistory(1).draw(DRAWN))):
        rows = [row_of(fact) for fact in facts]
        found.append(_golden(log, rows, (len(rows) // 2, len(rows))))
    return found


def _every_event(log: LogName) -> list[Row]:
    rows: list[Row] = []
    now = START
    for own, event in HISTORY:
        now = after(now, Nanoseconds(PAUSES.get(type(event), SECOND)))
        if own == log:
            rows.append(row_of(a_fact(event, len(rows) + 1, log=log, at=now)))
    return rows


def _golden(log: LogName, rows: list[Row], cuts: Sequence[int]) -> GoldenLog:
    hashes = chain(GENESIS, rows)
    image, snapshots = empty_image(log), []
    for fact in facts_of(log, rows):
        image.fold(fact)
        if fact.sequence in cuts:
            head = Head(log, LOG_ID, 1, fact.sequence, hashes[fact.sequence - 1])
            snapshots.append(sealed(Snapshot(head, image.encode(), VERSIONS.made_of)))
    return GoldenLog(log, rows, snapshots)


def record(version: str) -> Path | None:
    """Keep those of this build under the name of a version, unless that is there."""
    path = FOLDER / f"{version}{SUFFIX}"
    if path.exists():
        return None
    FOLDER.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(msgspec.msgpack.encode(golden_of_this_build()), 9))
    return path


def shape_of_this_build() -> str:
    """A digest of what an encoded image is made of: sections, fields, their types and their defaults."""
    known = {}
    for image in (GlobalImage, RegionImage):
        schemas, components = msgspec.json.schema_components(list(image.SECTIONS.values()))
        known[image.__name__] = [sorted(image.SECTIONS), _bare(list(schemas)), _bare(components)]
    return blake2b(json.dumps(known, sort_keys=True).encode(), digest_size=8).hexdigest()


def _bare(schema: Any) -> Any:  # Any: what JSON holds
    if isinstance(schema, dict):
        # A field of such a name has a schema of its own.
        return {
            name: _bare(part)
            for name, part in schema.items()
            if name not in SAYS_NOTHING or isinstance(part, dict)
        }
    return [_bare(part) for part in schema] if isinstance(schema, list) else schema


if __name__ == "__main__":
    print(f"the shape of this build's images is {shape_of_this_build()}")
    written = record(str(len(VERSIONS.shapes)))
    print(f"wrote {written}" if written else "its version is recorded; it is kept once")
