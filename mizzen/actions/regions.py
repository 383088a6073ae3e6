"""Regions as wholes: told by the queue, given up and taken back there."""

from collections.abc import Callable

from bus.port import Bus
from core.messages.base import Message
from core.messages.regions import (
    AbandonRegion,
    ListedRegion,
    ListRegions,
    ReadmitRegion,
    RegionAnswered,
    RegionsListed,
)
from core.nouns.ids import RegionName
from mizzen.actions.workloads import TRIES_MAX, before_try
from mizzen.connect.plane import ask, ask_on_revision, submitter
from mizzen.terminal.output import CommandError


async def regions_of(bus: Bus) -> tuple[ListedRegion, ...]:
    """All of them, by name. Raises CommandError."""
    return (await ask(bus, ListRegions(), RegionsListed)).rows


async def abandon_region(bus: Bus, region: RegionName, *, is_forced: bool) -> ListedRegion:
    """Give it up. Raises CommandError."""
    return await _set(bus, region, lambda revision: AbandonRegion(region, revision, is_forced, submitter()))


async def readmit_region(bus: Bus, region: RegionName) -> ListedRegion:
    """Have work placed there again. Raises CommandError."""
    return await _set(bus, region, lambda revision: ReadmitRegion(region, revision, submitter()))


async def _set(bus: Bus, region: RegionName, made: Callable[[int], Message]) -> ListedRegion:
    """Once more when somebody else was quicker."""
    for number in range(TRIES_MAX):
        await before_try(number)
        known = {row.region: row.revision for row in await regions_of(bus)}
        done = await ask_on_revision(bus, made(known.get(region, 0)), RegionAnswered)
        if done is not None:
            return next(row for row in await regions_of(bus) if row.region == region)
    raise CommandError("others set this region all the time; try again in a moment")
