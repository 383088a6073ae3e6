"""Asking a running plane: the queue for what is so now, the readers beside the keepers for what was."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from bus.port import Bus
from core.codec import CodecError, decode_event
from core.fact import Fact
from core.images import GlobalImage, RegionImage
from core.messages.base import Message
from core.messages.logs import AboutPage, LogPage, ReadAbout, ReadLog
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, WorkloadId, region_log
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import READ_FACTS_MAX
from mizzen.connect.plane import (
    ASK_SPAN,
    Plane,
    RequestRefused,
    ask,
    client_of,
    fetch_image,
    find_plane,
    submitter,
)
from mizzen.terminal.output import MISUSED, CommandError, explained
from runtime.logs import UnknownLevel, set_up_logs

LOOK_AGAIN: Nanoseconds = seconds(0.5)
"""Between two looks of whoever follows something."""
PATIENCE: Nanoseconds = seconds(60)
"""How long whoever follows something goes on without an answer: parts of a plane start anew in a second or two."""

LEISURE = 4
"""How many times as long as a list took to be answered the plane is left alone before the next."""

Answered = TypeVar("Answered", bound=Message)
Result = TypeVar("Result")


def on_plane(work: Callable[[Bus, Plane], Coroutine[Any, Any, Result]]) -> Result:
    """Do something with the plane that is found from here. Raises CommandError."""
    with explained(UnknownLevel):
        set_up_logs(os.environ, default="error")
    plane = find_plane()

    async def run() -> Result:
        # Under this name the logs tell who asked for something.
        async with client_of(plane, submitter()) as bus:
            return await work(bus, plane)

    return asyncio.run(run())


def workload_of(text: str) -> WorkloadId:
    """The workload that is meant by `w-7`, or by `7`. Raises CommandError."""
    number = text.removeprefix("w-")
    if text.startswith("p-"):
        raise CommandError(f"{text} is a pipeline; `mizzen pipeline {text}` shows its stages", MISUSED)
    if not (number.isascii() and number.isdigit()):
        raise CommandError(
            f"{text} is no workload; an id is one like w-7, and `mizzen queue` lists them", MISUSED
        )
    return WorkloadId(f"w-{number}")


async def pause(span: Nanoseconds = LOOK_AGAIN) -> None:
    """Before the next look."""
    await asyncio.sleep(span / SECOND)


async def ask_patiently(bus: Bus, message: Message, expected: type[Answered]) -> Answered:
    """As `ask`, and again while nobody answers. Raises CommandError for a refusal, and when patience is at its end."""
    return await patiently(lambda: ask(bus, message, expected))


async def patiently(asking: Callable[[], Awaitable[Result]]) -> Result:
    """Again while nobody answers: parts of a plane start anew in a second or two. Raises CommandError as `ask_patiently`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE / SECOND
    while True:
        try:
            return await asking()
        except RequestRefused:
            raise
        except CommandError:
            if loop.time() > deadline:
                raise
            await pause()


# Logs.


async def ask_reader(
    bus: Bus, log: LogName, message: Message, expected: type[Answered], timeout: Nanoseconds = ASK_SPAN
) -> Answered:
    """As `ask`, and an error says which log nobody serves. Raises CommandError."""
    try:
        return await ask(bus, message, expected, timeout)
    except CommandError as error:
        raise CommandError(f"log {log}: {error}", error.exit_code) from error


async def facts_about(bus: Bus, log: LogName, about: str, after: int = 0) -> list[Fact]:
    """Every fact of a log about one thing, in order. Raises CommandError."""
    return [fact async for fact in each_about(bus, log, about, after)]


async def each_about(bus: Bus, log: LogName, about: str, after: int = 0) -> AsyncIterator[Fact]:
    """The same, page by page."""
    while True:
        page = await ask_reader(bus, log, ReadAbout(log, about, after), AboutPage)
        for told in page.facts:
            yield _fact(log, told.sequence, told)
        if not page.next:
            return
        after = page.next


async def head_of(bus: Bus, log: LogName) -> int:
    """How far a log has come. Raises CommandError."""
    # Nothing is about nothing: an answer without facts.
    return (await ask_reader(bus, log, ReadAbout(log, "", 0, 1), AboutPage)).head


async def each_from(bus: Bus, log: LogName, first: int, count: int) -> AsyncIterator[Fact]:
    """Facts of a log from `first` on, up to its head. Raises CommandError."""
    while count > 0:
        asked = ReadLog(log, first, min(count, READ_FACTS_MAX))
        page = await ask_reader(bus, log, asked, LogPage)
        for sequence, told in enumerate(page.facts, first):
            yield _fact(log, sequence, told)
        if not page.facts:
            return
        first += len(page.facts)
        count -= len(page.facts)


def _fact(
    log: LogName, sequence: int, told: Any
) -> Fact:  # Any: a ToldFact or an AboutFact, alike where it matters
    try:
        event = decode_event(told.event)
    except CodecError as error:
        text = f"log {log} holds at {sequence} a fact or field that this build does not know ({error}); use a newer one"
        raise CommandError(text) from error
    return Fact(log, sequence, told.at, told.cause, told.actor, event)


# Regions.


async def regions_of(bus: Bus) -> list[RegionName]:
    """All regions of the fleet, as the queue's log has them. Raises CommandError."""
    try:
        image, _ = await fetch_image(bus, GLOBAL_LOG, ("regions",))
    except CommandError as error:
        raise CommandError(f"log {GLOBAL_LOG}: {error}", error.exit_code) from error
    assert isinstance(image, GlobalImage)
    return sorted(image.regions.sequences)


async def chosen_regions(bus: Bus, region: str) -> list[RegionName]:
    """The one that is named, or all. Raises CommandError when there is none of that name."""
    regions = await regions_of(bus)
    if not region:
        return regions
    if region not in regions:
        raise CommandError(f"there is no region {region}; there are {', '.join(regions)}", MISUSED)
    return [RegionName(region)]


async def check_log(bus: Bus, log: str) -> LogName:
    """The log of this name. Raises CommandError when the plane has none, if it can tell which it has."""
    try:
        names = [GLOBAL_LOG, *(region_log(region) for region in await regions_of(bus))]
    except CommandError:
        return LogName(log)  # Whoever serves that log may be there all the same.
    if log not in names:
        text = f"there is no log {log}; the plane has {', '.join(names)}, and a file's path ends in .sqlite"
        raise CommandError(text, MISUSED)
    return LogName(log)


async def region_image(bus: Bus, region: RegionName, sections: tuple[str, ...]) -> RegionImage:
    """Return these sections of a region's newest image. Raises CommandError."""
    image, _ = await region_image_at(bus, region, sections)
    return image


async def region_images(
    bus: Bus, region: str, sections: tuple[str, ...]
) -> tuple[list[tuple[RegionName, RegionImage]], list[tuple[RegionName, str]]]:
    """Return these sections of the region that is named, or of all; and the regions without an answer, each with the reason. Raises CommandError."""
    found: list[tuple[RegionName, RegionImage]] = []
    silent: list[tuple[RegionName, str]] = []
    for name in await chosen_regions(bus, region):
        try:
            found.append((name, await region_image(bus, name, sections)))
        except CommandError as error:
            silent.append((name, str(error).removeprefix(f"region {name}: ")))
    return found, silent


async def region_image_at(bus: Bus, region: RegionName, sections: tuple[str, ...]) -> tuple[RegionImage, int]:
    """Return these sections of a region's newest image, and the sequence that it is folded to. Raises CommandError."""
    try:
        image, sequence = await fetch_image(bus, region_log(region), sections)
    except CommandError as error:
        raise CommandError(f"region {region}: {error}", error.exit_code) from error
    assert isinstance(image, RegionImage)
    return image, sequence
