"""`mizzen verify`: whether logs are whole, and where the first broken one breaks."""

import asyncio
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from core.nouns.ids import LogName
from mizzen.terminal.options import Json
from mizzen.terminal.output import FAILED, CommandError, explained, tell_json, tell_problem, tell_table
from store.errors import LogBroken, LogError
from store.port import Verification
from store.sqlite import SqliteStore

SUFFIX = ".sqlite"


class Verified(Struct, frozen=True):
    """What was found of one log."""

    log: LogName
    facts: int
    broken_at: int
    problem: str
    archive: str = ""
    """The archive file in which it breaks; empty when that is the log's own file."""


def verify(path: Path, /, *, json: Json = False) -> int:
    """Check that each fact of a log follows from the one before it, archived ones too.

    PATH is a log's file, or a directory whose logs are all checked. A keeper may have them open meanwhile.
    """
    files = _files(path)
    with explained(LogError):
        found = asyncio.run(_verify(files))
    broken = [verified for verified in found if verified.broken_at]
    if json:
        tell_json([asdict(verified) for verified in found])
        return FAILED if broken else 0
    rows = [(one.log, one.facts, f"broken at {one.broken_at}" if one.broken_at else "whole") for one in found]
    tell_table(("log", "facts", "state"), rows)
    for one in broken:
        own = f"put back a copy of {one.log}{SUFFIX} that verifies, and its .image files with it"
        tell_problem(one.problem if one.archive else f"{one.problem}; {own}", is_json=False)
    return FAILED if broken else 0


def _files(path: Path) -> list[Path]:
    """The logs' files. Raises CommandError when there are none."""
    if not path.exists():
        raise CommandError(
            f"{path} is not there; name a log's file, or the directory that a keeper was started with"
        )
    if path.is_file():
        if path.suffix != SUFFIX:
            raise CommandError(f"{path} is no log; a log's file ends in {SUFFIX}")
        return [path]
    with explained():
        files = sorted(path.glob(f"*{SUFFIX}"))
    if not files:
        raise CommandError(f"{path} has no logs in it; name the directory that a keeper was started with")
    return files


async def _verify(files: list[Path]) -> list[Verified]:
    return [await _verify_one(file) for file in files]


async def _verify_one(file: Path) -> Verified:
    log = LogName(file.name.removesuffix(SUFFIX))
    reader = await SqliteStore(file.parent).reader(log)
    try:
        found = await reader.verify()
    except LogBroken as broken:
        archive = str(broken.archive or "")
        found = Verification(broken.sequence - 1, broken.sequence, str(broken), archive)
    finally:
        await reader.close()
    return Verified(log, found.rows, found.broken_at, found.problem, found.archive)
