"""Harvested capacity by region and pool, as each region's harvester tells it; and what a useful second of calls costs."""

from collections.abc import Iterable

from msgspec import Struct

from bus.port import Bus
from core.images.harvest_history import HOUR
from core.messages.harvest import HarvestShown, ShowHarvest, ShownHarvest
from core.nouns.ids import RegionName
from core.nouns.instant import MILLISECOND, SECOND, Instant
from core.nouns.placement import runs_of
from core.nouns.quantities import NOTHING, Amount
from core.rules.harvest.cost import CapacityCost, HarvestedCalls, costs_of, harvested_calls
from mizzen.connect.plane import ask
from mizzen.terminal.output import CommandError
from mizzen.views.fleet.function_table import heard_routers
from mizzen.views.phrases.durations import short_text
from mizzen.views.phrases.pool_text import price_text
from mizzen.views.phrases.text import amount_text, columns_text, numbers_text
from mizzen.views.plane_reads import region_image, region_images

COLUMNS = (
    "REGION",
    "POOL",
    "HARVEST",
    "NODES",
    "OFFERED",
    "USED",
    "RECALLED",
    "P50",
    "P99",
    "EVICTED/H",
    "LAMBDA",
)
FIGURES = ("NODES", "P50", "P99", "EVICTED/H", "LAMBDA")
CALL_SECTIONS = ("functions",)
COST_SECTIONS = ("capacity", "pools", "harvest", "functions")
COST_COLUMNS = ("REGION", "CAPACITY", "PRICE/H", "PAID", "USEFUL", "LOST", "PER-SECOND")
COST_FIGURES = ("PRICE/H", "PAID", "USEFUL", "LOST", "PER-SECOND")
NOTHING_TEXT = "-"


class RegionHarvest(Struct, frozen=True):
    """What is harvested in one region."""

    region: RegionName
    shown: HarvestShown
    calls: HarvestedCalls | None = None
    """None: the region's log was not read."""


class RegionCost(Struct, frozen=True):
    """What capacity for functions costs in one region, by the prices of its pools."""

    region: RegionName
    is_harvested: bool
    price: int
    """Of an hour of one GPU, in millionths."""
    paid: int
    """GPU time that is paid for, in nanoseconds."""
    useful: int
    lost: int
    per_useful_second: float | None
    """In the operator's unit."""


async def harvest_of_plane(
    bus: Bus, region: str, now: Instant
) -> tuple[list[RegionHarvest], list[tuple[str, str]]]:
    """Return the harvest of the region that is named, or of all that run functions; and those without an answer."""
    found, silent = [], []
    for name in sorted({name for name, _ in await heard_routers(bus, region)}):
        try:
            shown = await ask(bus, ShowHarvest(name), HarvestShown)
            calls = harvested_calls(await region_image(bus, name, CALL_SECTIONS), now)
            found.append(RegionHarvest(name, shown, calls))
        except CommandError as error:
            silent.append((str(name), str(error)))
    return found, silent


async def costs_of_plane(
    bus: Bus, region: str, now: Instant
) -> tuple[list[RegionCost], list[tuple[str, str]]]:
    """Return the costs of held and of harvested capacity, by region."""
    images, silent = await region_images(bus, region, COST_SECTIONS)
    rows = [_cost(name, cost) for name, image in images for cost in costs_of(image, now)]
    return rows, [(str(name), why) for name, why in silent]


def _cost(region: RegionName, cost: CapacityCost) -> RegionCost:
    figures = (cost.paid, cost.useful, cost.lost, cost.per_useful_second)
    return RegionCost(region, cost.is_harvested, cost.price, *figures)


def lines_of(found: Iterable[RegionHarvest], width: int | None) -> list[str]:
    """Return a table of pools, a line on the calls of each region, and one for each pool with nodes that were not given back in time."""
    listed = list(found)
    rows = [
        _cells(one.region, pool, one.shown.recalls_per_node_hour)
        for one in listed
        for pool in one.shown.pools
    ]
    lines = columns_text(COLUMNS, rows, width, FIGURES) if rows else ["no pool is harvested"]
    for one in listed:
        if one.calls is not None and one.calls.success is not None:
            lines.append(_calls_text(one.region, one.calls))
        for pool in one.shown.pools:
            if pool.unconfirmed:
                numbers = numbers_text(runs_of(pool.unconfirmed))
                text = f"{one.region}/{pool.pool}: nodes {numbers} did not give back in time"
                lines.append(f"{text}; nothing more is offered there until their function servers are heard")
    return lines


def _calls_text(region: RegionName, calls: HarvestedCalls) -> str:
    """Return a sentence on how calls fared."""
    assert calls.success is not None
    done = f"{region}: {calls.done} calls were done on harvested capacity in the last day, {100 * calls.success:.6g}% of runs"
    return f"{done}; runs ended by recalls: {calls.retried}; run time lost: {short_text(calls.lost_span)}"


def _cells(region: RegionName, pool: ShownHarvest, recalls: int) -> tuple[object, ...]:
    hours = pool.node_span * MILLISECOND / HOUR
    return (
        region,
        pool.pool,
        "on" if pool.is_on else "off",
        pool.nodes,
        *map(_amount, (pool.offered, pool.used, pool.recalled)),
        _reclaim(pool.reclaim_p50),
        _reclaim(pool.reclaim_p99),
        f"{pool.recalls / hours:.3g}" if hours else NOTHING_TEXT,
        f"{recalls / 1_000_000:.3g}",
    )


def _amount(amount: Amount) -> str:
    return amount_text(amount) if amount != NOTHING else NOTHING_TEXT


def _reclaim(span: int) -> str:
    return f"{span / SECOND:.3g}s" if span else NOTHING_TEXT


def cost_lines(rows: Iterable[RegionCost], width: int | None) -> list[str]:
    """Return a table of costs."""
    return columns_text(COST_COLUMNS, [_cost_cells(row) for row in rows], width, COST_FIGURES)


def _cost_cells(row: RegionCost) -> tuple[object, ...]:
    return (
        row.region,
        "harvested" if row.is_harvested else "held",
        price_text(row.price),
        short_text(row.paid),
        short_text(row.useful),
        short_text(row.lost),
        NOTHING_TEXT if row.per_useful_second is None else f"{row.per_useful_second:.3g}",
    )
