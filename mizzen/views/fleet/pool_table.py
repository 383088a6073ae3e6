"""What pools there are, what is free in each of their zones, and what operators set of them."""

from collections.abc import Iterable

from msgspec import Struct

from bus.port import Bus
from core.images import RegionImage
from core.nouns.ids import RegionName
from core.nouns.pool import PoolSettings, percent_text
from core.rules.headroom import Headroom
from core.rules.placement.rule_sets import rule_set_name
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.text import columns_text, gpus_text
from mizzen.views.plane_reads import chosen_regions, region_image

SECTIONS = ("capacity", "pools")
COLUMNS = ("REGION", "POOL", "ZONE", "NODES", "GPUS", "USED", "EMPTY", "RULES", "RESERVE", "LIMIT")
FIGURES = ("NODES", "GPUS", "USED", "EMPTY", "RESERVE", "LIMIT")


class PoolRow(Struct, frozen=True):
    """One zone of a pool, for which its reserve and its limit hold. GPUs are counted in milli."""

    region: RegionName
    pool: str
    zone: str
    nodes: int
    gpus: int
    """Of all of them, lost ones too."""
    open: int
    """Of those that are open: what the limit is a share of."""
    used: int
    """Of these: held, ending, or promised."""
    empty: int
    """Open nodes whose GPUs are all free: what the reserve is of."""
    rules: str
    """That it is searched by, also where nobody said so."""
    reserve: int
    limit: int
    """Permille."""


async def rows_of_plane(bus: Bus, region: str) -> tuple[list[PoolRow], list[tuple[RegionName, str]]]:
    """All rows, and the regions that do not tell, with what went wrong. Raises CommandError."""
    rows: list[PoolRow] = []
    silent: list[tuple[RegionName, str]] = []
    for name in await chosen_regions(bus, region):
        try:
            rows += rows_of(name, await region_image(bus, name, SECTIONS))
        except CommandError as error:
            silent.append((name, str(error).removeprefix(f"region {name}: ")))
    return rows, silent


def rows_of(region: RegionName, image: RegionImage) -> list[PoolRow]:
    """Of one region, by pool and zone."""
    rows = []
    for (pool, name), zone in sorted(Headroom(image.capacity).zones.items()):
        settings = image.pools.of(pool)
        rules = rule_set_name(settings.rules)
        figures = (zone.nodes, zone.gpu, zone.open_gpu, zone.used_gpu, zone.empty)
        rows.append(PoolRow(region, pool, name, *figures, rules, settings.reserve, settings.limit))
    return rows


def table_of(rows: Iterable[PoolRow], width: int | None) -> list[str]:
    """The lines of a table."""
    return columns_text(COLUMNS, [_cells(row) for row in rows], width, FIGURES)


def _cells(row: PoolRow) -> tuple[object, ...]:
    settings = (row.rules, row.reserve, percent_text(row.limit))
    gpus = (gpus_text(row.gpus), gpus_text(row.used))
    return (row.region, row.pool, row.zone, row.nodes, *gpus, row.empty, *settings)


def set_text(region: str, pool: str, settings: PoolSettings) -> str:
    """What a pool is set to, in a sentence."""
    nodes = f"{settings.reserve} empty node{'s' if settings.reserve != 1 else ''}" if settings.reserve else ""
    limit = f"{percent_text(settings.limit)} of the GPUs" if settings.limit < 1000 else ""
    kept = [f"keeps {nodes} in each zone" if nodes else "", f"takes work up to {limit}" if limit else ""]
    rules = f"is searched by {rule_set_name(settings.rules)}"
    return f"{pool} of {region} {', '.join([rules, *filter(None, kept)])}"
