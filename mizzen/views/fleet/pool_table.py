"""Pools by zone: the capacity that is free, and the settings; then the needs of pools, where there are any."""

from collections.abc import Iterable

from msgspec import Struct

from bus.port import Bus
from core.images import RegionImage
from core.nouns.ids import RegionName
from core.nouns.pool import PoolSettings, percent_text
from core.rules.headroom import Headroom, Zone
from core.rules.placement.rule_sets import rule_set_name
from mizzen.views.fleet import pool_needs
from mizzen.views.fleet.pool_needs import NO_FIGURE, NeedRow, needs_of
from mizzen.views.phrases.pool_text import settings_text
from mizzen.views.phrases.text import columns_text, gpus_text
from mizzen.views.plane_reads import region_images

SECTIONS = ("capacity", "maintenance", "pools", "starts")
"""Sections of a region's image by which the needs of its pools are judged."""
COLUMNS = ("REGION", "POOL", "ZONE", "NODES", "GPUS", "USED", "EMPTY", "RULES", "RESERVE", "LIMIT")
FIGURES = ("NODES", "GPUS", "USED", "EMPTY", "RESERVE", "LIMIT")


class PoolRow(Struct, frozen=True):
    """One zone of a pool, for which its reserve and its limit hold. GPUs are counted in milli."""

    region: RegionName
    pool: str
    zone: str
    """Empty for a pool that has needs, and no node yet."""
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
    needs: tuple[NeedRow, ...] = ()
    """Of the whole pool, by node type: the same in each of its zones."""


async def rows_of_plane(bus: Bus, region: str) -> tuple[list[PoolRow], list[tuple[RegionName, str]]]:
    """All rows, and the regions that do not tell, with what went wrong. Raises CommandError."""
    images, silent = await region_images(bus, region, SECTIONS)
    return [row for name, image in images for row in rows_of(name, image)], silent


def rows_of(region: RegionName, image: RegionImage) -> list[PoolRow]:
    """Return the rows of one region, by pool and zone. A pool that has needs and no node has one row."""
    rows = []
    needs: dict[str, list[NeedRow]] = {}
    for need in needs_of(region, image).rows:
        needs.setdefault(need.pool, []).append(need)
    zones = dict(Headroom(image.capacity).zones)
    there = {pool for pool, _ in zones}
    zones |= {(pool, ""): Zone(pool, "") for pool in needs if pool not in there}
    for (pool, name), zone in sorted(zones.items()):
        settings = image.pools.of(pool)
        rules = rule_set_name(settings.rules)
        figures = (zone.nodes, zone.gpu, zone.open_gpu, zone.used_gpu, zone.empty)
        set_of_it = (rules, settings.reserve, settings.limit, tuple(needs.get(pool, ())))
        rows.append(PoolRow(region, pool, name, *figures, *set_of_it))
    return rows


def table_of(rows: Iterable[PoolRow], width: int | None) -> list[str]:
    """Return the lines of a table; and of a second one, with the needs of pools, if any pool has some."""
    listed = list(rows)
    lines = columns_text(COLUMNS, [_cells(row) for row in listed], width, FIGURES)
    needs = {(row.region, row.pool): row.needs for row in listed}
    second = pool_needs.table_of([need for mine in needs.values() for need in mine], width)
    return [*lines, "", *second] if second else lines


def _cells(row: PoolRow) -> tuple[object, ...]:
    settings = (row.rules, row.reserve, percent_text(row.limit))
    gpus = (gpus_text(row.gpus), gpus_text(row.used))
    return (row.region, row.pool, row.zone or NO_FIGURE, row.nodes, *gpus, row.empty, *settings)


def set_text(region: str, pool: str, settings: PoolSettings) -> str:
    """Return the settings of a pool as a sentence."""
    return f"{pool} of {region} {settings_text(settings)}"
