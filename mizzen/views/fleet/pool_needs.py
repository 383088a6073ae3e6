"""Needs of pools beside the GPUs that the pools have now, and beside the rest that the loss of each power domain would leave.

Nodes count as core/pooling/classes.py counts them: those that are lost, drained, worked on or in quarantine count for no pool.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from core.images import RegionImage
from core.nouns.ids import RegionName
from core.nouns.pool import Survives
from core.pooling.classes import Standing, standing_of
from mizzen.views.phrases.text import columns_text

COLUMNS = ("REGION", "POOL", "TYPE", "NEEDS", "HAS", "LEFT", "WAITING")
FIGURES = ("NEEDS", "HAS", "LEFT", "SHORT", "WAITING")
NO_FIGURE = "-"
LOSSES_SHOWN_MAX = 40
"""Lines of the table of losses; those below a need come first."""

ByDomain = dict[str, int]
"""GPUs by power domain."""


class NeedRow(Struct, frozen=True):
    """The need of one pool for one node type, in GPUs."""

    region: RegionName
    pool: str
    node_type: str
    needs: int
    survives: Survives
    has: int
    """On nodes that are in the pool now and count."""
    left: int
    """The same, after the loss of the power domain in which the pool has most."""
    waiting: int
    """Nodes that are closed until they are vacant, and come into the pool then."""
    is_still: bool
    """Whether a drain or a maintenance names the pool: its nodes do not count, and none moves."""


class Loss(Struct, frozen=True):
    """The rest of one pool's GPUs of one type after the loss of one power domain."""

    domain: str
    pool: str
    node_type: str
    needs: int
    left: int
    short: int
    """GPUs below the need; 0 for a pool that need not survive the loss."""


class Alone(Struct, frozen=True):
    """A node type of which all nodes of the region that count are in one power domain, or of which none counts."""

    node_type: str
    domain: str
    """Empty: none counts."""
    pools: tuple[str, ...]
    """Pools that need the type."""


class Needs(Struct, frozen=True):
    """The needs of a region's pools, and the GPUs that they have now."""

    rows: tuple[NeedRow, ...]
    """By pool and type."""
    losses: tuple[Loss, ...]
    """By power domain, pool and type; types of one power domain alone are in `alone` instead."""
    alone: tuple[Alone, ...]
    """By type."""
    still: tuple[str, ...]
    """Pools with needs that a drain or a maintenance names."""


NO_NEEDS = Needs((), (), (), ())


def needs_of(region: RegionName, image: RegionImage) -> Needs:
    """Return the needs of a region's pools beside the GPUs that they have. Reads every node if any pool has needs."""
    if not image.pools.has_needs:
        return NO_NEEDS
    standing = standing_of(image)
    gpus = _gpus_of(standing)
    rows = tuple(
        _row(region, image, standing, pool, node_type, gpus.get((pool, node_type), {}))
        for pool, settings in sorted(image.pools.settings.items())
        for node_type, _ in settings.needs
    )
    domains = _domains_of(standing)
    still = tuple(sorted({row.pool for row in rows if row.is_still}))
    return Needs(rows, tuple(_losses(rows, gpus, domains)), tuple(_alone(rows, domains)), still)


def _row(
    region: RegionName, image: RegionImage, standing: Standing, pool: str, node_type: str, gpus: ByDomain
) -> NeedRow:
    settings, has = image.pools.of(pool), sum(gpus.values())
    waiting = sum(
        len(nodes)
        for one, nodes in standing.nodes.items()
        if one.node_type == node_type and one.going == pool != one.pool
    )
    return NeedRow(
        region,
        pool,
        node_type,
        dict(settings.needs)[node_type],
        settings.survives,
        has,
        has - max(gpus.values(), default=0),
        waiting,
        pool in standing.still,
    )


def _gpus_of(standing: Standing) -> dict[tuple[str, str], ByDomain]:
    """Return GPUs by pool and node type, each by power domain."""
    found: dict[tuple[str, str], ByDomain] = {}
    for one, nodes in standing.nodes.items():
        mine = found.setdefault((one.pool, one.node_type), {})
        mine[one.domain] = mine.get(one.domain, 0) + one.gpus * len(nodes)
    return found


def _domains_of(standing: Standing) -> dict[str, list[str]]:
    """Return the power domains of each node type, ascending."""
    found: dict[str, set[str]] = {}
    for one in standing.nodes:
        found.setdefault(one.node_type, set()).add(one.domain)
    return {node_type: sorted(domains) for node_type, domains in found.items()}


def _losses(
    rows: Iterable[NeedRow], gpus: dict[tuple[str, str], ByDomain], domains: dict[str, list[str]]
) -> Iterator[Loss]:
    counted = [row for row in rows if not row.is_still]
    for domain in sorted({name for names in domains.values() if len(names) > 1 for name in names}):
        for row in counted:
            names = domains.get(row.node_type, [])
            if len(names) < 2 or domain not in names:
                continue
            left = row.has - gpus.get((row.pool, row.node_type), {}).get(domain, 0)
            short = max(0, row.needs - left) if row.survives is Survives.POWER_DOMAIN else 0
            yield Loss(domain, row.pool, row.node_type, row.needs, left, short)


def _alone(rows: Iterable[NeedRow], domains: dict[str, list[str]]) -> Iterator[Alone]:
    pools: dict[str, list[str]] = {}
    for row in rows:
        if not row.is_still and len(domains.get(row.node_type, ())) < 2:
            pools.setdefault(row.node_type, []).append(row.pool)
    for node_type, mine in sorted(pools.items()):
        yield Alone(node_type, next(iter(domains.get(node_type, ())), ""), tuple(mine))


# Tables.


def table_of(rows: Iterable[NeedRow], width: int | None) -> list[str]:
    """Return the needs as a table; no line if no pool has needs."""
    cells = [_cells(row) for row in rows]
    return columns_text(COLUMNS, cells, width, FIGURES) if cells else []


def _cells(row: NeedRow) -> tuple[object, ...]:
    has = NO_FIGURE if row.is_still else row.has
    left = row.left if row.survives is Survives.POWER_DOMAIN and not row.is_still else NO_FIGURE
    return (row.region, row.pool, row.node_type, row.needs, has, left, row.waiting)


def losses_table(losses: Iterable[Loss], width: int | None) -> list[str]:
    """Return the rest after each loss as a table, marked where that is below the need; no line if there are no losses."""
    ordered = sorted(losses, key=lambda one: not one.short)
    cells = [
        (one.domain, one.pool, one.node_type, one.needs, one.left, f"{one.short} short" if one.short else "")
        for one in ordered[:LOSSES_SHOWN_MAX]
    ]
    if not cells:
        return []
    lines = columns_text(("LOST", "POOL", "TYPE", "NEEDS", "LEFT", ""), cells, width, FIGURES)
    more = ordered[LOSSES_SHOWN_MAX:]
    short = sum(one.short > 0 for one in more)
    if more:
        lines.append(f"and {len(more)} more lines, {short or 'none'} of them short; --json has all")
    return lines


def alone_text(region: str, alone: Alone) -> str:
    """Return a sentence about a type that the loss of one power domain ends."""
    pools = ", ".join(alone.pools)
    if not alone.domain:
        return f"no node with {alone.node_type} takes work in {region}, and {pools} {_need(alone)} some"
    text = f"all {alone.node_type} of {region} are in power domain {alone.domain}"
    return f"{text}: its loss would leave {pools} none"


def _need(alone: Alone) -> str:
    return "needs" if len(alone.pools) == 1 else "need"
