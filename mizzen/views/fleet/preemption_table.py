"""How each region chooses whom it pushes out, what may be destroyed by that, and what was."""

from collections.abc import Iterable

from msgspec import Struct

from bus.port import Bus
from core.images import RegionImage
from core.nouns.ids import RegionName
from core.nouns.instant import Instant
from core.nouns.preemption import PreemptionSettings
from mizzen.jobs.values import span_text
from mizzen.views.phrases.text import columns_text
from mizzen.views.plane_reads import region_images
from runtime.clock import wall_now

COLUMNS = ("REGION", "ORDER", "SCORE", "ASK", "CLAIM MAX", "HOUR MAX", "THIS HOUR", "IN ALL", "PREEMPTED")
FIGURES = ("ASK", "CLAIM MAX", "HOUR MAX", "THIS HOUR", "IN ALL", "PREEMPTED")


class PreemptionRow(Struct, frozen=True):
    """One region. What may be destroyed, and what was, is in GPU-seconds."""

    region: RegionName
    order: str
    score: str
    ask: int
    """Nanoseconds for which a victim's controller may put off its stop."""
    claim_max: int
    hour_max: int
    this_hour: int
    """Destroyed in the last hour, and pledged by promises that stand."""
    in_all: int
    """Destroyed since the region's log began."""
    preempted: int
    """Attempts since then."""


async def rows_of_plane(bus: Bus, region: str) -> tuple[list[PreemptionRow], list[tuple[RegionName, str]]]:
    """All rows, and the regions that do not tell, with what went wrong. Raises CommandError."""
    images, silent = await region_images(bus, region, ("preemption",))
    return [row_of(name, image, wall_now()) for name, image in images], silent


def row_of(region: RegionName, image: RegionImage, now: Instant) -> PreemptionRow:
    """Of one region, at a time on its keeper's clock, as well as can be told."""
    one = image.preemption
    settings = one.settings
    caps = (one.claim_cap, one.hour_cap)
    told = (one.metered(now), one.destroyed, one.preempted)
    return PreemptionRow(region, settings.order, settings.score, settings.ask_span, *caps, *told)


def table_of(rows: Iterable[PreemptionRow], width: int | None) -> list[str]:
    """The lines of a table; work in GPU-hours."""
    return columns_text(COLUMNS, [_cells(row) for row in rows], width, FIGURES)


def _cells(row: PreemptionRow) -> tuple[object, ...]:
    hours = (hours_text(one) for one in (row.claim_max, row.hour_max, row.this_hour, row.in_all))
    return (row.region, row.order, row.score, span_text(row.ask), *hours, row.preempted)


def hours_text(gpu_seconds: int) -> str:
    """In GPU-hours, to the tenth."""
    return f"{gpu_seconds / 3_600:.1f}"


def preemption_text(settings: PreemptionSettings) -> str:
    """What a region is set to, in a sentence."""
    caps = [
        f"{hours_text(value)} GPU-hours {what}" if value else f"{what} by its size"
        for value, what in ((settings.claim_max, "a claim"), (settings.hour_max, "an hour"))
    ]
    asked = f"controllers are asked for {span_text(settings.ask_span)}"
    return f"order {settings.order}, score {settings.score}, {asked}, at most {', '.join(caps)}"
