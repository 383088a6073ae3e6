"""What room in each region is worth, to which tasks, and how old these prices are."""

from collections.abc import Iterable

from msgspec import Struct

from bus.port import Bus
from core.images import GlobalImage, RegionImage
from core.nouns.ids import GLOBAL_LOG, RegionName
from core.nouns.mix import WEIGHT, TypicalShape
from core.nouns.prices import MICRO
from core.nouns.quantities import MILLI
from core.rules.repricing import next_arrived, priced_pools
from mizzen.connect.plane import fetch_image
from mizzen.views.phrases.text import GIB, columns_text, gpus_text, time_text
from mizzen.views.plane_reads import region_images

SECTIONS = ("capacity", "pools", "prices")
COLUMNS = ("SHARE", "GPUS", "CPUS", "GIB", "NODES OF", "PAYS", "RENT")
FIGURES = ("SHARE", "GPUS", "CPUS", "GIB", "PAYS", "RENT")


class ShapePrice(Struct, frozen=True):
    """Tasks of one shape that are expected to come, in millionths of a GPU."""

    shape: TypicalShape
    pays: int
    """For its room: its GPUs less the rent."""
    rent: int
    """What one more of them would be worth for the reason alone that they are few: the mean over the levels of demand."""


class RegionPrices(Struct, frozen=True):
    """Of one region."""

    region: RegionName
    revision: int
    """0: none were ever set, and pools that are searched by prices go by what is expected of any region."""
    set_at: int
    by: str
    pools: tuple[str, ...]
    """That are searched by prices."""
    arrived: int
    """Tasks that had been asked for, by which they were solved."""
    arrived_now: int
    solved_again_at: int
    """So many tasks."""
    shapes: tuple[ShapePrice, ...]
    scarcity: tuple[tuple[str, int], ...]
    """By node type: how much of its GPUs those want who can have no other, in millionths."""


async def prices_of_plane(bus: Bus, region: str) -> tuple[list[RegionPrices], list[tuple[RegionName, str]]]:
    """Of the region that is named or of all, and the regions that do not tell, with what went wrong. Raises CommandError."""
    images, silent = await region_images(bus, region, SECTIONS)
    queue, _ = await fetch_image(bus, GLOBAL_LOG, ("demand",))
    assert isinstance(queue, GlobalImage)
    return [prices_of(name, image, queue.demand.arrived) for name, image in images], silent


def prices_of(region: RegionName, image: RegionImage, arrived_now: int) -> RegionPrices:
    """Of one region, after so many tasks."""
    known = image.prices
    prices, arrived = known.prices, known.solved_from.arrived
    return RegionPrices(
        region,
        known.revision,
        known.set_at,
        known.by,
        priced_pools(image.capacity, image.pools),
        arrived,
        arrived_now,
        next_arrived(arrived),
        tuple(
            _price_of(shape, [level[at] for level in prices.rents])
            for at, shape in enumerate(prices.mix.shapes)
        ),
        prices.scarcity,
    )


def _price_of(shape: TypicalShape, rents: list[int]) -> ShapePrice:
    rent = sum(rents) // len(rents)
    return ShapePrice(shape, max(0, shape.gpu_milli * MICRO // MILLI - rent), rent)


def lines_of(found: Iterable[RegionPrices], now: int, width: int | None) -> list[str]:
    """Each region's prices in a sentence and a table."""
    lines: list[str] = []
    for one in found:
        lines += [""] if lines else []
        lines += [f"{one.region}: {_state_text(one, now)}", f"  {_pools_text(one)}"]
        if one.revision:
            lines += [f"  {line}" for line in columns_text(COLUMNS, map(_cells, one.shapes), width, FIGURES)]
            scarce = [f"{name} {value / MICRO:.0%}" for name, value in one.scarcity if value]
            lines += [f"  wanted by tasks that can have no other type: {', '.join(scarce)}"] if scarce else []
    return lines


def _state_text(one: RegionPrices, now: int) -> str:
    if not one.revision:
        if one.arrived_now < one.solved_again_at:
            told = (
                f"{one.arrived_now:,} of the {one.solved_again_at:,} tasks that it takes have been asked for"
            )
        else:
            told = f"{one.arrived_now:,} tasks have been asked for, but none that could run there, or no planner solves"
        return f"no prices are solved yet; {told}"
    more = one.arrived_now - one.arrived
    return (
        f"prices {one.revision}, set {time_text(now - one.set_at)} ago by {one.by}, solved from {one.arrived:,} tasks;"
        f" {more:,} more have come, and {one.solved_again_at - one.arrived:,} make them old"
    )


def _pools_text(one: RegionPrices) -> str:
    if not one.pools:
        return "no pool is searched by prices"
    return f"searched by prices: {', '.join(one.pools)}"


def _cells(one: ShapePrice) -> tuple[object, ...]:
    shape = one.shape
    return (
        f"{100 * shape.weight / WEIGHT:.1f}%",
        gpus_text(shape.gpu_milli),
        f"{shape.cpu_milli / MILLI:g}",
        f"{shape.memory_bytes / GIB:.4g}",
        "|".join(shape.node_types) or "any type",
        f"{one.pays / MICRO:.3f}",
        f"{one.rent / MICRO:.3f}",
    )
