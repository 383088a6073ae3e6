"""The lines of `mizzen queue`: what the queue answers, as rows, and what changed between two looks."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bus.port import Bus
from core.messages.queue import ListedWorkload, ListWorkloads, WorkloadsListed
from core.nouns.ids import WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.reasons import Reason, sentence
from core.nouns.workload import Kind, Phase
from mizzen.connect.plane import ask
from mizzen.terminal.output import MISUSED, CommandError, tell_json_line
from mizzen.views.phrases.pipeline_text import waiting_text
from mizzen.views.phrases.text import columns_text, gpus_text, nodes_text, time_text
from mizzen.views.plane_reads import LEISURE, LOOK_AGAIN, ask_patiently, pause

COLUMNS = ("ID", "NAME", "TENANT", "PRIO", "STATE", "TIME", "GPUS", "NODES", "NODELIST(REASON)")
FIGURES = ("PRIO", "TIME", "GPUS", "NODES")
OVER = "over"
"""For a level, of what is over its tenant's quota: it has the lowest, whatever it asks for."""
NO_LEVEL = "-"
"""For that of a job of a shared pool, where weights decide."""
WAITS_AS_STAGE = (Reason.WAITS_FOR_STAGE, Reason.WAITS_FOR_WINDOW)
ALIVE = tuple(phase for phase in Phase if not phase.is_terminal)


class Wanted(Struct, frozen=True):
    """Which workloads are to be shown."""

    phases: tuple[Phase, ...]
    tenant: str = ""
    region: str = ""

    def has(self, row: ListedWorkload) -> bool:
        """Whether it is one of them. A region has what was awarded to it, and what waits and may run nowhere else."""
        if self.tenant and row.tenant != self.tenant:
            return False
        return not self.region or self.region == row.region or row.regions == (self.region,)


def phases_of(state: str, *, is_all: bool) -> tuple[Phase, ...]:
    """The phases that are meant. Raises CommandError."""
    if not state:
        return tuple(Phase) if is_all else ALIVE
    names = [name.strip().upper() for name in state.split(",")]
    for name in names:
        if name not in set(Phase):
            text = f"there is no state {name}; there are {', '.join(Phase)}, and several are joined by commas"
            raise CommandError(text, MISUSED)
    return tuple(Phase(name) for name in names)


async def listed(
    bus: Bus, wanted: Wanted, *, is_patient: bool = False
) -> tuple[list[ListedWorkload], dict[str, int]]:
    """All of them, in the order of submission, and how many there are in each phase. Raises CommandError."""
    rows: list[ListedWorkload] = []
    counts: dict[str, int] = {}
    after = 0
    while True:
        question = ListWorkloads(wanted.phases, after)
        asking = ask_patiently if is_patient else ask
        page = await asking(bus, question, WorkloadsListed)
        rows += [row for row in page.rows if wanted.has(row)]
        counts = counts or page.counts
        after = page.next
        if not after:
            return rows, counts


# For people, and for machines.


def table_of(rows: Iterable[ListedWorkload], width: int | None = None) -> list[str]:
    """The lines of a table."""
    return columns_text(COLUMNS, [_cells(row) for row in rows], width, FIGURES)


def _cells(row: ListedWorkload) -> tuple[object, ...]:
    """TIME is how long it waits while it waits, and how long it runs or ran from then on."""
    nodes = sum(last - first + 1 for first, last in row.node_runs)
    is_up = row.phase not in (Phase.PENDING, Phase.AWARDED)
    return (
        row.workload,
        row.name,
        row.tenant,
        NO_LEVEL if row.kind == Kind.SHARED else OVER if row.is_over else row.priority,
        row.phase,
        time_text(row.ran if is_up else row.waited),
        gpus_text(row.gpu_milli),
        nodes or "",
        place_text(row),
    )


def place_text(row: ListedWorkload) -> str:
    """Where it is, or in brackets why it is nowhere: the reason that counts, what it means, and every other region's."""
    place = nodes_text(row.region, row.node_runs) if row.region else ""
    if not row.reason:
        return place
    others = [
        f"{region}: {reason}" for region, reason in sorted(row.refusals.items()) if reason != row.reason
    ]
    waits = waiting_text(row.stage) if row.stage is not None and row.reason in WAITS_AS_STAGE else ""
    text = f"({'; '.join([row.reason, *others])}) {waits or sentence_of(row.reason)}".rstrip()
    return f"{place} {text}".lstrip()


def sentence_of(reason: str) -> str:
    """What a reason means, if this build knows it."""
    return sentence(Reason(reason)) if reason in set(Reason) else ""


def builtins_of(row: ListedWorkload) -> dict[str, Any]:  # Any: whatever JSON can hold
    """A row as JSON has it."""
    return {**msgspec.to_builtins(row), "sentence": sentence_of(row.reason)}


# Watching.


async def watch(bus: Bus, wanted: Wanted, *, is_json: bool) -> None:
    """Show it for ever: drawn anew on a terminal, a line for each change where there is none. Raises CommandError."""
    if is_json or not sys.stdout.isatty():
        await _tell_changes(bus, wanted, is_json=is_json)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(highlight=False), auto_refresh=False, screen=True) as live:
        async for rows, counts in _looks(bus, wanted):
            size = shutil.get_terminal_size()
            lines = [counts_text(counts), "", *table_of(rows, size.columns)]
            live.update(Text("\n".join(lines[: size.lines - 1])), refresh=True)


async def _looks(bus: Bus, wanted: Wanted) -> AsyncIterator[tuple[list[ListedWorkload], dict[str, int]]]:
    """One after the other, for ever; a list that takes the queue long is asked for less often."""
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        yield await listed(bus, wanted, is_patient=True)
        await pause(max(LOOK_AGAIN, seconds(LEISURE * (loop.time() - began))))


def counts_text(counts: dict[str, int]) -> str:
    """How many there are in each phase."""
    return ", ".join(f"{count} {phase}" for phase, count in counts.items()) or "no workloads"


async def _tell_changes(bus: Bus, wanted: Wanted, *, is_json: bool) -> None:
    before: dict[WorkloadId, ListedWorkload] = {}
    async for rows, _ in _looks(bus, wanted):
        now = {row.workload: row for row in rows}
        gone = [workload for workload in before if workload not in now]
        became = [row for workload in gone for row in await _became(bus, workload)]
        for row in [*became, *changed(before, rows)]:
            if is_json:
                tell_json_line(builtins_of(row))
            else:
                print(" ".join((row.workload, row.name, row.phase, place_text(row))).rstrip(), flush=True)
        before = now


async def _became(bus: Bus, workload: WorkloadId) -> tuple[ListedWorkload, ...]:
    """What it is now that it is no more what was to be shown; nothing when it is forgotten."""
    number = int(workload.removeprefix("w-"))
    page = await ask_patiently(bus, ListWorkloads((), number - 1, 1), WorkloadsListed)
    return tuple(row for row in page.rows if row.workload == workload)


def changed(before: dict[WorkloadId, ListedWorkload], rows: Iterable[ListedWorkload]) -> list[ListedWorkload]:
    """Those that are new or not as they were, but for the time that went by."""
    return [row for row in rows if row.workload not in before or _still(before[row.workload]) != _still(row)]


def _still(row: ListedWorkload) -> ListedWorkload:
    return replace(row, waited=Nanoseconds(0), ran=Nanoseconds(0))
