"""What was harvested in a run in real processes: how long, how soon it was given back, and the calls that this has cost."""

from collections.abc import Mapping

from msgspec import Struct

from core.images import Image, RegionImage
from core.nouns.ids import LogName, RegionName, region_log
from core.nouns.instant import MILLISECOND, SECOND


class HarvestedIn(Struct, frozen=True):
    """One region."""

    region: str
    node_seconds: float
    """That nodes were harvested, of all nodes together."""
    recalls: int
    slowest_seconds: float
    """From a recall to its release, of the slowest."""
    lost: int
    """Calls that were ended before they were done: sent once more, but for those that may be begun once only."""
    lost_seconds: float
    """How long these had run."""
    counted: int
    """Calls that were done on harvested capacity, as far as the region's log has been told: once a minute."""


def harvested_in(images: Mapping[LogName, Image], regions: list[RegionName]) -> list[HarvestedIn]:
    """Return what was harvested in each region in which something was."""
    found = []
    for region in regions:
        image = images.get(region_log(region))
        if not isinstance(image, RegionImage):
            continue
        pools = image.harvest.pools.values()
        hours = [hour for pool in pools for hour in pool.hours.values()]
        counts = [hour for row in image.functions.rows.values() for hour in row.hours.values()]
        if any(hour.node_span for hour in hours):
            found.append(
                HarvestedIn(
                    region,
                    sum(hour.node_span for hour in hours) * MILLISECOND / SECOND,
                    sum(hour.recalls for hour in hours),
                    max((one for pool in pools for one in pool.releases), default=0) / SECOND,
                    sum(hour.lost for hour in hours),
                    sum(hour.lost_span for hour in hours) / SECOND,
                    sum(count.harvested for count in counts),
                )
            )
    return found


def lines_of_harvest(harvested: list[HarvestedIn]) -> list[tuple[str, str]]:
    """Return a line for each region."""
    return [(f"harvest ({one.region})", _text(one)) for one in harvested]


def _text(one: HarvestedIn) -> str:
    recalls = f"{one.recalls} recalls, the slowest over after {one.slowest_seconds:.2f} s"
    lost = f"{one.lost} calls were ended for that after {one.lost_seconds:.1f} s in all"
    again = ", and sent once more, but for those that may be begun once only" if one.lost else ""
    return f"functions could use free slots for {one.node_seconds:.0f} s; {recalls}; {lost}{again}"
