"""Drains and maintenances as a running plane has them: looked at once, or until their nodes are empty."""

import asyncio
import contextlib
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from msgspec import Struct

from bus.port import Bus
from core.messages.control import ControllersShown, ShowControllers
from core.nouns.ids import RegionName
from core.nouns.instant import Instant, seconds
from core.nouns.maintenance import ClosureKind
from mizzen.connect.plane import ask
from mizzen.terminal.output import CommandError, tell_json_line, tell_lines
from mizzen.views.nodes.drain_progress import SECTIONS, Progress, builtins_of, progress_of, sources_of
from mizzen.views.nodes.drain_text import brief_of, lines_of
from mizzen.views.nodes.occupants import WaitKind
from mizzen.views.plane_reads import LEISURE, LOOK_AGAIN, patiently, pause, region_image
from runtime.clock import wall_now

CONTROLLERS_SPAN = seconds(1)
"""How long task control may take to tell who answers: it is told beside what was asked for, and may be down."""

Key = tuple[RegionName, str]


class Look(Struct, frozen=True):
    """One drain or maintenance as it was just found; None: there is none of that name any more."""

    region: RegionName
    source: str
    progress: Progress | None
    heard: dict[str, int]
    at: Instant


async def all_of(
    bus: Bus, regions: Sequence[RegionName], kind: ClosureKind
) -> tuple[list[Progress], list[str]]:
    """Every drain or maintenance, and what is wrong with regions that do not tell."""
    found: list[Progress] = []
    silent: list[str] = []
    for region in regions:
        try:
            image = await region_image(bus, region, SECTIONS)
        except CommandError as error:
            silent.append(str(error))
            continue
        each = (progress_of(region, image, source, wall_now()) for source in sources_of(image, kind))
        found += [progress for progress in each if progress is not None]
    return found, silent


async def look(bus: Bus, region: RegionName, source: str) -> Look:
    """How far it is now. Raises CommandError."""
    image = await region_image(bus, region, SECTIONS)
    at = wall_now()
    progress = progress_of(region, image, source, at)
    return Look(region, source, progress, await _heard(bus, region, progress), at)


async def _heard(bus: Bus, region: RegionName, progress: Progress | None) -> dict[str, int]:
    """How long ago the controllers that are waited for were heard; nothing if task control does not tell."""
    racks = progress.racks if progress is not None else ()
    kinds = (row.wait.kind for rack in racks for row in rack.rows)
    if WaitKind.CONTROLLER not in kinds:
        return {}
    with contextlib.suppress(CommandError):
        shown = await ask(bus, ShowControllers(region), ControllersShown, CONTROLLERS_SPAN)
        return {f"{one.tenant}/{one.controller}": one.heard_ago for one in shown.controllers}
    return {}


async def watch(
    bus: Bus, keys: Sequence[Key], is_over: Callable[[Look], bool], *, is_json: bool
) -> list[Look]:
    """Show them until each is over, drawn anew on a terminal, else whenever one changes; the last looks. Raises CommandError."""
    if is_json or not sys.stdout.isatty():
        return await _tell_changes(bus, keys, is_over, is_json=is_json)
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(highlight=False), auto_refresh=False, screen=True) as live:
        async for looks in _looks(bus, keys):
            size = shutil.get_terminal_size()
            lines = [line for one in looks for line in [*text_of(one, size.columns), ""]]
            live.update(Text("\n".join(lines[: size.lines - 1])), refresh=True)
            if all(is_over(one) for one in looks):
                break
    tell_lines(line for one in looks for line in text_of(one, None))
    return looks


async def _tell_changes(
    bus: Bus, keys: Sequence[Key], is_over: Callable[[Look], bool], *, is_json: bool
) -> list[Look]:
    """A line for each change of what there is to see, but for the time that goes by."""
    before: dict[Key, Progress | None] = {}
    async for looks in _looks(bus, keys):
        for one in looks:
            key = (one.region, one.source)
            if key not in before or before[key] != one.progress:
                before[key] = one.progress
                if is_json:
                    tell_json_line(json_of(one))
                else:
                    print(*_brief(one), sep="\n", flush=True)
        if all(is_over(one) for one in looks):
            break
    return looks


async def _looks(bus: Bus, keys: Sequence[Key]) -> AsyncIterator[list[Look]]:
    """One after the other, for ever; what takes the region's reader long is asked for less often."""
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        yield [await patiently(partial(look, bus, *key)) for key in keys]
        await pause(max(LOOK_AGAIN, seconds(LEISURE * (loop.time() - began))))


def text_of(look: Look, width: int | None) -> list[str]:
    """For people."""
    if look.progress is None:
        return _brief(look)
    return lines_of(look.progress, look.at, look.heard, width)


def _brief(look: Look) -> list[str]:
    if look.progress is None:
        return [f"{look.source} of {look.region}: it is over, or was taken back"]
    return brief_of(look.progress, look.at, look.heard)


def json_of(look: Look) -> dict[str, object]:
    """For machines."""
    told = builtins_of(look.progress) if look.progress is not None else None
    return {
        "region": look.region,
        "source": look.source,
        "at": look.at,
        "progress": told,
        "heard": look.heard,
    }
