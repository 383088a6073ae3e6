"""Pipelines that are watched: drawn again and again on a terminal, or a line for each change."""

import shutil
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from bus.port import Bus
from core.messages.pipelines import ListedPipeline, PipelineShown, ShowPipeline
from core.nouns.ids import PipelineId
from core.nouns.instant import Instant
from mizzen.views.phrases.durations import clock_text
from mizzen.views.phrases.pipeline_text import outcome_text, runs_text
from mizzen.views.phrases.text import instant_text
from mizzen.views.pipelines import stages, table
from mizzen.views.plane_reads import ask_patiently, patiently, pause


async def drawn(bus: Bus, pipeline: PipelineId | None) -> None:
    """Draw all pipelines for ever, or one to its end. Raises CommandError."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(highlight=False), auto_refresh=False, screen=pipeline is None) as live:
        async for lines, is_over in _pictures(bus, pipeline):
            live.update(Text("\n".join(lines[: shutil.get_terminal_size().lines - 1])), refresh=True)
            if is_over:
                return


async def _pictures(bus: Bus, pipeline: PipelineId | None) -> AsyncIterator[tuple[list[str], bool]]:
    if pipeline is None:
        async for rows, now in table.looks(bus):
            yield table.table_of(rows, now, shutil.get_terminal_size().columns), False
    while pipeline is not None:
        told = await patiently(lambda: stages.pipeline_told(bus, pipeline))
        yield stages.lines_of(told, shutil.get_terminal_size().columns), bool(told.shown.outcome)
        await pause()


async def told_as_lines(
    bus: Bus, pipeline: PipelineId | None, *, is_json: bool
) -> AsyncIterator[Any]:  # Any: a line, or whatever JSON can hold
    """Yield a line for each change of a pipeline's state, or of a stage's; of one pipeline to its end. Raises CommandError."""
    before: dict[str, str] = {}
    if pipeline is None:
        async for rows, now in table.looks(bus):
            for row in rows:
                text = _listed_text(row, now)
                if before.get(row.pipeline) != text:
                    before[row.pipeline] = text
                    yield (
                        {"at": now, **msgspec.to_builtins(row)} if is_json else f"{instant_text(now)}  {text}"
                    )
    while pipeline is not None:
        shown = await ask_patiently(bus, ShowPipeline(pipeline), PipelineShown)
        for name, text in _stage_texts(shown).items():
            if before.get(name) != text:
                before[name] = text
                line = {"at": shown.now, "stage": name, "state": text}
                yield line if is_json else f"{instant_text(shown.now)}  {name or shown.pipeline} {text}"
        if shown.outcome:
            return
        await pause()


def _listed_text(row: ListedPipeline, now: Instant) -> str:
    state = outcome_text(row.outcome, row.due_at)
    if not row.outcome:
        running = f", {runs_text(row.running)}" if row.running else ""
        state = f"{row.completed} of {row.stages} stages completed{running}"
    due = f", deadline {clock_text(row.due_at, now)}" if row.due_at else ""
    return f"{row.pipeline} {row.name} {state}{due}"


def _stage_texts(shown: PipelineShown) -> Mapping[str, str]:
    """Return the state of each stage, and under the empty name that of the pipeline, once it has ended."""
    found = {}
    for stage in shown.stages:
        is_late = stage.is_late and stage.phase in stages.TO_START
        found[stage.name] = f"{stage.phase}{' (late)' if is_late else ''}"
    if shown.outcome:
        found[""] = outcome_text(shown.outcome, shown.due_at)
    return found
