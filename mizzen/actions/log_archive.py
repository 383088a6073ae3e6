"""Archiving a log by hand: files for all facts that are old enough, and then the log's own file without them."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from core.nouns.ids import LogName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import KEEP, SNAPSHOT_FACTS
from mizzen.jobs.values import Unreadable, span_of
from mizzen.terminal.output import MISUSED, CommandError, explained
from mizzen.views.logs.log_source import name_of
from store.archive import directory_of
from store.errors import LogError, LogInUse
from store.images import ImageFiles
from store.port import Archived, LogReader
from store.sqlite import SqliteLog, SqliteStore, archived_up_to

KEEP_VARIABLE = "MIZZEN_KEEP"
NEVER = "never"
TAKEN_UP_SECONDS = 30.0
"""How long a keeper is waited for that is to take the files up: it looks for them every ten."""
LOOK_SECONDS = 0.25


class ArchivedByHand(Struct, frozen=True):
    """What was done to one log."""

    log: LogName
    files: int
    """How many were written."""
    first: int
    last: int
    """Which facts they have."""
    archive_bytes: int
    """How large they are together."""
    directory: str
    bytes_before: int
    bytes_after: int
    """Of the log's own file."""
    is_kept: bool
    """Whether a keeper has the log open, and deletes the facts by itself."""
    why_none: str = ""
    """Why no file was written."""


def keep_from(environment: Mapping[str, str]) -> Nanoseconds:
    """How long facts stay in a log's own file, as the environment says; 0 for ever. Raises CommandError."""
    said = environment.get(KEEP_VARIABLE, "")
    if said == NEVER:
        return Nanoseconds(0)
    return keep_said(said, KEEP_VARIABLE) if said else KEEP


def keep_said(text: str, where: str) -> Nanoseconds:
    """A span that somebody wrote. Raises CommandError."""
    try:
        span = span_of(text.strip())
    except Unreadable as error:
        raise CommandError(f"{where} is {text!r}: {error}", MISUSED) from error
    if span <= 0:
        raise CommandError(
            f"{where} is {text!r}: facts are kept for a while; say how long, as in 90d", MISUSED
        )
    return span


async def archive_by_hand(path: Path, keep: Nanoseconds) -> ArchivedByHand:
    """Archive what is older than `keep` of the log in a file.

    Without a keeper the log is taken meanwhile, and its file is as small at the end as it can be. With one the keeper lets
    go of the facts, which is waited for. Raises CommandError.
    """
    name, store = name_of(path), SqliteStore(path.parent)
    reader = await store.reader(name)
    try:
        with explained(LogError):
            head = await reader.head()
            if not head.sequence:
                raise CommandError(f"log {name} has no facts yet")
            before = path.stat().st_size
            log = await _taken(store, name)
            try:
                done = await _write(reader, Instant(time.time_ns() - keep))
                if log is not None:
                    await log.shed()
            finally:
                if log is not None:
                    await log.close()
            if log is None and done:
                await _taken_up(path, done[-1].last)
    finally:
        await reader.close()
    return ArchivedByHand(
        name,
        len(done),
        done[0].first if done else 0,
        done[-1].last if done else 0,
        sum(file.bytes for file in done),
        str(directory_of(path.parent, name)),
        before,
        path.stat().st_size,
        is_kept=log is None,
        why_none="" if done else _why_none(path, name),
    )


async def _taken(store: SqliteStore, name: LogName) -> SqliteLog | None:
    """The log, open; None when its keeper has it."""
    try:
        return await store.open(name, "")
    except LogInUse:
        return None


async def _write(reader: LogReader, before: Instant) -> list[Archived]:
    done: list[Archived] = []
    while (file := await reader.archive(before, is_whole=False)) is not None:
        done.append(file)
    return done


async def _taken_up(path: Path, last: int) -> None:
    """Wait until the keeper counts these facts as archived."""
    until = time.monotonic() + TAKEN_UP_SECONDS
    while archived_up_to(path.parent, name_of(path)) < last and time.monotonic() < until:
        await asyncio.sleep(LOOK_SECONDS)


def _why_none(path: Path, name: LogName) -> str:
    snapshots = ImageFiles(path.parent, name).sequences()
    if not snapshots:
        return f"no snapshot of it is kept yet, and a start needs all of its facts; one is kept every {SNAPSHOT_FACTS} facts"
    return f"it has no fact that is older, not archived, and before its oldest snapshot ({snapshots[-1]})"
