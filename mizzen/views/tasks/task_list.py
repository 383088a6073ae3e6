"""What `mizzen tasks` tells: the tasks of a workload as its region's log has them, once or for as long as it lives."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.images import RegionImage
from core.images.control import AttemptControl
from core.messages.control import ControllersShown, ShowControllers
from core.messages.queue import ShowWorkload, WorkloadShown
from core.nouns.ids import AttemptKey, RegionName, WorkloadId
from core.nouns.instant import SECOND, Instant, seconds
from core.nouns.operation import Answer
from core.nouns.workload import Phase
from mizzen.connect.plane import RequestRefused, ask
from mizzen.terminal.output import CommandError, tell_json_line
from mizzen.views.plane_reads import LEISURE, LOOK_AGAIN, PATIENCE, pause, region_image
from mizzen.views.tasks.operation_waits import Controllers
from mizzen.views.tasks.task_table import (
    OF_RETURNS,
    SECTIONS,
    TaskShown,
    ranks_text,
    rows_of,
    table_of,
    why_text,
)
from runtime.clock import wall_now

WallClock = Callable[[], Instant]


class RegionLook(Struct, frozen=True):
    """What a region's log shows of one attempt."""

    region: RegionName
    key: AttemptKey
    image: RegionImage
    controllers: Controllers
    at: Instant
    up_for: int = -1
    """Nanoseconds since the gang is up, as the queue knows it."""

    @property
    def row(self) -> AttemptControl | None:
        """Its tasks and operations; None before it is granted."""
        return self.image.control.spec_of(*self.key)

    @property
    def tasks(self) -> list[TaskShown]:
        """All of them."""
        return rows_of(self.image, self.key, self.at, self.controllers, self.up_for)


class TasksSeen(Struct, frozen=True):
    """Where a workload is, and its tasks while it is anywhere."""

    workload: WorkloadId
    name: str
    phase: Phase
    region: RegionName
    """Empty while nothing stands for it."""
    epoch: int
    reason: str
    """Why it does not run."""
    sentence: str
    tasks: tuple[TaskShown, ...]


async def look_at(
    bus: Bus, region: RegionName, key: AttemptKey, clock: WallClock = wall_now, up_for: int = -1
) -> RegionLook:
    """One attempt in its region. Raises CommandError."""
    image = await region_image(bus, region, SECTIONS)
    row = image.control.spec_of(*key)
    if row is not None and any(one.answer is Answer.STOP_AND_RETURN for one in row.operations.values()):
        image = await region_image(bus, region, OF_RETURNS)
        row = image.control.spec_of(*key)
    controllers: Controllers = {}
    if row is not None and row.spec.controller and any(one.is_live for one in row.operations.values()):
        controllers = await controllers_of(bus, region)
    return RegionLook(region, key, image, controllers, clock(), up_for)


async def controllers_of(bus: Bus, region: RegionName) -> Controllers:
    """Those that the region knows; none while nobody tells: what waits for them is known all the same."""
    try:
        shown = await ask(bus, ShowControllers(region), ControllersShown)
    except CommandError:
        return {}
    return {(one.tenant, one.controller): one for one in shown.controllers}


async def seen(bus: Bus, workload: WorkloadId, clock: WallClock = wall_now) -> TasksSeen:
    """Raises CommandError, also when nobody knows the workload."""
    shown = await ask(bus, ShowWorkload(workload), WorkloadShown)
    region = RegionName(shown.region)
    tasks: list[TaskShown] = []
    if region:
        tasks = (await look_at(bus, region, (workload, shown.epoch), clock, shown.up_for)).tasks
    return TasksSeen(
        workload=workload,
        name=shown.name,
        phase=Phase(shown.phase),
        region=region,
        epoch=shown.epoch,
        reason=shown.reason,
        sentence=shown.sentence,
        tasks=tuple(tasks),
    )


# For people, and for machines.


def builtins_of(found: TasksSeen) -> dict[str, Any]:  # Any: whatever JSON can hold
    """As JSON has it."""
    told: dict[str, Any] = msgspec.to_builtins(found)
    return told


def lines_of(found: TasksSeen, width: int | None = None) -> list[str]:
    """For people."""
    if not found.tasks:
        return [without_text(found)]
    return table_of(found.region, found.tasks, width)


def head_text(found: TasksSeen) -> str:
    """The workload in a line."""
    where = f" in {found.region}, attempt {found.epoch}" if found.region else ""
    return f"{found.workload} {found.name} is {found.phase}{where}"


def without_text(found: TasksSeen) -> str:
    """Why there is no task to show, and what tells more."""
    command = "show" if found.phase.is_terminal else "explain"
    more = f"`mizzen {command} {found.workload}` tells more"
    why = f" ({found.reason})" if found.reason else ""
    return f"{head_text(found)}{why}; it has no tasks now, and {more}"


# Watching.


async def watch(bus: Bus, workload: WorkloadId, clock: WallClock = wall_now, *, is_json: bool) -> None:
    """Until it has ended: drawn anew on a terminal, a line for each change where there is none. Raises CommandError."""
    if is_json or not sys.stdout.isatty():
        await _tell_changes(_looks(bus, workload, clock), is_json=is_json)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(highlight=False), auto_refresh=False, screen=True) as live:
        async for found in _looks(bus, workload, clock):
            size = shutil.get_terminal_size()
            lines = [head_text(found), "", *lines_of(found, size.columns)]
            live.update(Text("\n".join(lines[: size.lines - 1])), refresh=True)
    print(head_text(found))


async def _looks(bus: Bus, workload: WorkloadId, clock: WallClock) -> AsyncIterator[TasksSeen]:
    """One after the other, the last once it has ended. What takes long is asked for less often."""
    loop = asyncio.get_running_loop()
    heard_at = loop.time()
    while True:
        began = loop.time()
        try:
            found = await seen(bus, workload, clock)
        except RequestRefused:
            raise
        except CommandError:
            if loop.time() - heard_at > PATIENCE / SECOND:
                raise
            await pause()
            continue
        heard_at = loop.time()
        yield found
        if found.phase.is_terminal:
            return
        await pause(max(LOOK_AGAIN, seconds(LEISURE * (loop.time() - began))))


async def _tell_changes(looks: AsyncIterator[TasksSeen], *, is_json: bool) -> None:
    before: dict[str, TaskShown] = {}
    phase: str = ""
    async for found in looks:
        if found.phase != phase:
            phase = found.phase
            if is_json:
                tell_json_line({**builtins_of(found), "tasks": []})
            else:
                print(head_text(found), flush=True)
        for row in changed(before, found.tasks):
            if is_json:
                tell_json_line({"workload": found.workload, "epoch": found.epoch, **msgspec.to_builtins(row)})
            else:
                print(line_of(found.region, row), flush=True)
        before = {ranks_text(row): row for row in found.tasks}


def line_of(region: RegionName, row: TaskShown) -> str:
    """A task in a line."""
    text = f"{ranks_text(row)} {row.state}"
    text += f" on {region}-{row.node}" if row.node >= 0 else ""
    text += f", {row.cause}" if row.cause else ""
    operation = row.operation
    if operation is None:
        return text
    return (
        f"{text}; {operation.kind} {operation.number} ({why_text(operation)}) waits for {operation.waits_for}"
    )


def changed(before: dict[str, TaskShown], rows: Iterable[TaskShown]) -> list[TaskShown]:
    """Those that are new or not as they were, but for the time that went by."""
    return [
        row for row in rows if ranks_text(row) not in before or _still(before[ranks_text(row)]) != _still(row)
    ]


def _still(row: TaskShown) -> TaskShown:
    operation = row.operation
    if operation is not None:
        # The words hold spans that go by; the code says what it waits for.
        operation = replace(operation, asked_ago=0, begins_in=0, waits_for="")
    return replace(row, ago=0, operation=operation)
