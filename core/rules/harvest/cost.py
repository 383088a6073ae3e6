"""The price of a useful second of calls: the price of all capacity paid for, over the run time of the calls that were done there.

All times are of the last day, and of one region. Held capacity is paid for as long as the services have held it that hold some
now, whether calls run or not, and calls are counted from the hour in which the first of these began. Harvested capacity is paid for
while calls run, also those that are lost. Counts do not say how much of a device a call takes: useful and harvested time is the run
time of calls, as if each took one GPU (one core, on nodes without GPUs), and held time is that of GPUs.
"""

from collections.abc import Iterator

from msgspec import Struct

from core.images import RegionImage
from core.images.harvest_history import HOUR, HOURS_KEPT
from core.nouns.function import FunctionCount
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.pool import harvest_of
from core.nouns.quantities import MILLI
from core.nouns.workload import Serves
from core.rules.harvest.zones import units
from core.rules.scopes import group_of


class CapacityCost(Struct, frozen=True):
    """One sort of capacity."""

    is_harvested: bool
    price: int
    """Mean, of an hour of one GPU, or of one core on nodes without GPUs, in millionths of the operator's unit."""
    paid: Nanoseconds
    """Time that is paid for: of GPUs where capacity is held, of calls where it is harvested."""
    useful: Nanoseconds
    """Run time of calls that were done."""
    lost: Nanoseconds
    """Run time that recalls have ended; on held capacity there are none."""

    @property
    def per_useful_second(self) -> float | None:
        """Return the price of a useful second of calls, in the operator's unit; if calls were of use."""
        if not self.useful:
            return None
        return self.price / 1_000_000 / 3_600 * self.paid / self.useful


class HarvestedCalls(Struct, frozen=True):
    """The calls of the last day on harvested capacity, as routers counted them."""

    done: int
    retried: int
    """Runs that recalls have ended, of calls that were sent once more."""
    lost_span: Nanoseconds
    """Run time that was lost, also of calls that may be begun once only."""

    @property
    def success(self) -> float | None:
        """Return the part of runs that were done at once; if there were any."""
        return self.done / (self.done + self.retried) if self.done + self.retried else None


def harvested_calls(image: RegionImage, now: Instant) -> HarvestedCalls:
    """Return the calls of the last day on harvested capacity. The image has the section functions."""
    done = retried = lost = 0
    for count in _counts(image, 0, now):
        done += count.harvested
        retried += count.retried
        lost += count.lost_span
    return HarvestedCalls(done, retried, Nanoseconds(lost))


def costs_of(image: RegionImage, now: Instant) -> tuple[CapacityCost, CapacityCost]:
    """Return the costs of held and of harvested capacity. The image has the sections capacity, pools, harvest and functions."""
    price, paid, began = _held(image, now)
    useful = sum(_useful_held(count) for count in _counts(image, began, now))
    harvested = lost = 0
    for count in _counts(image, 0, now):
        harvested += count.harvested_span
        lost += count.lost_span
    return (
        CapacityCost(False, price, paid, Nanoseconds(useful), Nanoseconds(0)),
        CapacityCost(
            True,
            _harvested_price(image, now),
            Nanoseconds(harvested + lost),
            Nanoseconds(harvested),
            Nanoseconds(lost),
        ),
    )


def _counts(image: RegionImage, since: int, now: Instant) -> Iterator[FunctionCount]:
    """Yield the counts of all functions in the hours of the last day, from the hour of an instant on."""
    first = max(since // HOUR, now // HOUR - HOURS_KEPT + 1)
    for row in image.functions.rows.values():
        yield from (count for hour, count in row.hours.items() if hour >= first)


def _useful_held(count: FunctionCount) -> int:
    """Return the run time of a function's calls that were done on held capacity.

    What ran includes failed calls, of which no time is known apart: they are taken to have run for as long as the others.
    """
    done = max(0, count.done - count.harvested)
    ran = max(0, count.ran - count.harvested_span)
    return ran * done // max(1, done + count.failed)


def _held(image: RegionImage, now: Instant) -> tuple[int, Nanoseconds, int]:
    """Return the mean price of capacity that services hold for functions now, and for how long they have, at most for a day, and
    since when they hold any.
    """
    capacity, spent, paid, began = image.capacity, 0, 0, int(now)
    for _, _, held in capacity.live():
        span = min(now - held.granted_at, HOURS_KEPT * HOUR)
        for job, spread in zip(held.claim.jobs, held.claim.spreads, strict=True):
            if job.serves is Serves.NO:
                continue
            began = min(began, held.granted_at)
            for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
                time = units(capacity, node, job.need) * tasks * span // MILLI
                paid += time
                spent += time * image.pools.of(group_of(capacity, node).pool).price
    return spent // paid if paid else 0, Nanoseconds(paid), began


def _harvested_price(image: RegionImage, now: Instant) -> int:
    """Return the mean price of harvested capacity, each pool counted by the node-hours of harvest until now."""
    spent = total = 0
    for pool, history in image.harvest.pools.items():
        span = history.day_until(now).node_span
        total += span
        spent += span * harvest_of(pool, image.pools.of(pool)).price
    return spent // total if total else 0
