"""A fleet's agents, as their last beats show them: what each sees, does, and how often it met a conflict."""

from collections.abc import Iterable

from msgspec import Struct

from bus.port import Bus
from core.messages.agents import AgentFigures, AgentShown, AgentsShown, ShowAgents
from core.nouns.agents import AgentSettings
from core.nouns.ids import AgentName, RegionName
from core.nouns.instant import SECOND
from mizzen.connect.plane import ask
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.text import columns_text
from mizzen.views.plane_reads import chosen_regions

COLUMNS = (
    "REGION", "AGENT", "SEES", "REQUESTS", "BACK", "CLAIMS", "CONFLICTS", "TRIES", "WAIT", "QUALITY", "FRESHEST", "OLDEST",
)  # fmt: skip
FIGURES = ("REQUESTS", "BACK", "CLAIMS", "CONFLICTS", "TRIES", "WAIT", "QUALITY", "FRESHEST", "OLDEST")
UNKNOWN = "-"


class AgentRow(Struct, frozen=True):
    """One agent."""

    region: RegionName
    agent: AgentName
    is_full: bool
    """Whether it folds every fact."""
    heard_seconds: float
    figures: AgentFigures


class RegionAgents(Struct, frozen=True):
    """The agents of a region, and how they are set."""

    region: RegionName
    settings: AgentSettings
    agents: tuple[AgentRow, ...]

    @property
    def conflict_share(self) -> float:
        """Share of all tries that met a conflict."""
        claims = sum(row.figures.claims for row in self.agents)
        return sum(row.figures.conflicts for row in self.agents) / claims if claims else 0.0


async def agents_of_plane(
    bus: Bus, region: str = ""
) -> tuple[list[RegionAgents], list[tuple[RegionName, str]]]:
    """Return the agents by region, and the regions that do not tell, with what went wrong. Raises CommandError."""
    found: list[RegionAgents] = []
    silent: list[tuple[RegionName, str]] = []
    for name in await chosen_regions(bus, region):
        try:
            found.append(agents_of(name, await ask(bus, ShowAgents(name), AgentsShown)))
        except CommandError as error:
            silent.append((name, str(error)))
    return found, silent


def agents_of(region: RegionName, told: AgentsShown) -> RegionAgents:
    """Return what a region's broker told."""
    return RegionAgents(region, told.settings, tuple(_row_of(region, one) for one in told.agents))


def _row_of(region: RegionName, shown: AgentShown) -> AgentRow:
    return AgentRow(region, shown.agent, shown.is_full, round(shown.heard / SECOND, 1), shown.figures)


def lines_of(regions: Iterable[RegionAgents], width: int | None) -> list[str]:
    """Return how each region is set, and a table of all agents."""
    listed = list(regions)
    rows = [_cells(row) for one in listed for row in one.agents]
    return [
        *(settings_text(one.region, one.settings) for one in listed),
        *columns_text(COLUMNS, rows, width, FIGURES),
    ]


def settings_text(region: RegionName, settings: AgentSettings) -> str:
    """Return how a region's agents see it, in a sentence."""
    text = f"agents of {region} see by {settings.view}"
    if settings.has_rows_alone:
        every = f"{settings.sync_every / SECOND:g} s"
        text += f" and place {settings.placing}, {settings.partitions} partitions at most, each owned once in {every}; {settings.full} fold every fact"
    return text


def _cells(row: AgentRow) -> tuple[object, ...]:
    told = row.figures
    conflicts = f"{100 * told.conflicts / told.claims:.1f}%" if told.claims else UNKNOWN
    tries = f"{told.claims / told.awards:.2f}" if told.awards else UNKNOWN
    wait = f"{told.waited_ms / told.requests:.0f}ms" if told.requests else UNKNOWN
    quality = f"{told.quality_permille / told.picks / 1000:.2f}" if told.picks else UNKNOWN
    ages = (f"{told.freshest_ms / 1000:.1f}s", f"{told.oldest_ms / 1000:.1f}s")
    has_ages = bool(told.view) and told.view != "full"
    return (
        row.region, row.agent, told.view or UNKNOWN, told.requests, told.handed_back, told.claims, conflicts, tries, wait, quality,
        *(ages if has_ages else (UNKNOWN, UNKNOWN)),
    )  # fmt: skip
