"""The list of pipelines: those that go on, the least laxity first, then those that have ended."""

from collections.abc import AsyncIterator, Iterable

from bus.port import Bus
from core.messages.pipelines import ListedPipeline, ListPipelines, PipelinesListed
from core.nouns.ids import PipelineId
from core.nouns.instant import Instant
from core.nouns.pipeline import Outcome
from mizzen.connect.plane import ask
from mizzen.views.phrases.durations import clock_text, short_text
from mizzen.views.phrases.pipeline_text import outcome_text, runs_text
from mizzen.views.phrases.text import columns_text
from mizzen.views.plane_reads import ask_patiently, pause

COLUMNS = ("ID", "NAME", "TENANT", "STAGES", "DEADLINE", "LAXITY", "ENDS", "STATE")
FIGURES = ("STAGES", "LAXITY")
NONE = "-"


async def pipelines_listed(bus: Bus, *, is_patient: bool = False) -> tuple[list[ListedPipeline], Instant]:
    """Return all pipelines, and when they were listed. Raises CommandError."""
    asking = ask_patiently if is_patient else ask
    rows: dict[PipelineId, ListedPipeline] = {}
    after = 0
    while True:
        page = await asking(bus, ListPipelines(after), PipelinesListed)
        # The order changes with time: a pipeline may be in two pages.
        rows |= {row.pipeline: row for row in page.rows}
        after = page.next
        if not after:
            return list(rows.values()), page.now


async def looks(bus: Bus) -> AsyncIterator[tuple[list[ListedPipeline], Instant]]:
    """List all pipelines again and again, for ever. Raises CommandError."""
    while True:
        yield await pipelines_listed(bus, is_patient=True)
        await pause()


def table_of(rows: Iterable[ListedPipeline], now: Instant, width: int | None = None) -> list[str]:
    """Return the lines of a table: STAGES are completed of all, ENDS is past or forecast."""
    return columns_text(COLUMNS, [_cells(row, now) for row in rows], width, FIGURES)


def _cells(row: ListedPipeline, now: Instant) -> tuple[object, ...]:
    laxity = NONE
    if row.laxity is not None:
        laxity = short_text(row.laxity) if row.laxity >= 0 else f"-{short_text(-row.laxity)}"
    return (
        row.pipeline,
        row.name,
        row.tenant,
        f"{row.completed}/{row.stages}",
        clock_text(row.due_at, now) if row.due_at else NONE,
        laxity,
        clock_text(row.ends_at, now) if row.ends_at else NONE,
        _state(row),
    )


def _state(row: ListedPipeline) -> str:
    if row.outcome:
        by = f" by {short_text(row.late_by)}" if row.outcome is Outcome.LATE else ""
        return f"{outcome_text(row.outcome, row.due_at)}{by}"
    so_far = runs_text(row.running) if row.running else "waits"
    # A stage that ended without completion leaves no end to be expected.
    return f"{'late, ' if row.is_late else ''}{so_far}" if row.ends_at else f"{so_far}, cannot complete"
