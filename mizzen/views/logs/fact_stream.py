"""What `mizzen log` tells: some facts of a log, and then whatever comes."""

import shutil
import sys
from collections.abc import AsyncIterator

from msgspec import Struct

from bus.port import Bus
from core.fact import Fact
from mizzen.terminal.output import CommandError, tell_json_line
from mizzen.views.logs import fact_lines
from mizzen.views.logs.log_source import PlaneSource, Source
from mizzen.views.plane_reads import LOOK_AGAIN, PATIENCE, check_log, pause

NEWEST = 50
"""Facts that are told unless somebody says where to begin or how many."""
ALL = 1 << 62


class Asked(Struct, frozen=True):
    """Which facts."""

    first: int = 0
    """0: so that the newest are told."""
    count: int = 0
    """0: not said."""
    about: str = ""
    is_followed: bool = False
    is_json: bool = False


async def tell_plane_log(bus: Bus, log: str, asked: Asked) -> None:
    """The facts of a running plane's log. Raises CommandError."""
    await tell(PlaneSource(bus, await check_log(bus, log)), asked)


async def tell(source: Source, asked: Asked) -> None:
    """One a line. Raises CommandError."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    async for fact in _facts(source, asked):
        if asked.is_json:
            tell_json_line(fact_lines.builtins_of(fact))
        else:
            line = fact_lines.line_of(fact)
            print(line if width is None or len(line) <= width else f"{line[: width - 1]}…", flush=True)


async def _facts(source: Source, asked: Asked) -> AsyncIterator[Fact]:
    head = await source.head()
    if not head and not asked.is_followed:
        raise CommandError(f"log {source.log} has no facts yet")
    last = 0
    async for fact in _begun(source, asked, head):
        yield fact
        last = fact.sequence
    after = max(last, head, asked.first - 1)
    in_vain = 0
    while asked.is_followed:
        await pause()
        try:
            coming = [fact async for fact in _behind(source, asked, after)]
        except CommandError:
            in_vain += 1
            if in_vain * LOOK_AGAIN > PATIENCE:
                raise
            continue
        in_vain = 0
        for fact in coming:
            yield fact
            after = fact.sequence


async def _begun(source: Source, asked: Asked, head: int) -> AsyncIterator[Fact]:
    """What is there already."""
    if asked.about:
        number = 0
        async for fact in source.each_about(asked.about, max(0, asked.first - 1)):
            if asked.count and number == asked.count:
                return
            yield fact
            number += 1
        return
    count = asked.count or (ALL if asked.first else NEWEST)
    first = asked.first or max(1, head - count + 1)
    async for fact in source.each_from(first, count):
        yield fact


def _behind(source: Source, asked: Asked, after: int) -> AsyncIterator[Fact]:
    return source.each_about(asked.about, after) if asked.about else source.each_from(after + 1, ALL)
