"""Prices of a region: which pools are searched by them, when they are outdated, and whether new ones are well formed."""

from core.images.capacity import Capacity
from core.images.pools import Pools
from core.nouns.limits import NEED_MAX, PRICES_LEVELS_MAX, TYPICAL_SHAPES_MAX
from core.nouns.mix import WEIGHT
from core.nouns.prices import MICRO, Prices
from core.nouns.quantities import MILLI
from core.nouns.solved_from import SolvedFrom
from core.rules.placement.rule_sets import rule_set

FIRST, SECOND, EVERY = 100, 300, 850
"""Numbers of arrived tasks at the first and at the second solution of prices; and between two solutions from then on.

source    packing studied on the public traces, with the demand learned from arrivals: these figures gave within 0.3 points of
          the result with the whole demand known from the beginning; every 400 gave the same
"""
MILLI_MAX = 1 << 40
"""The most GPU milli and CPU milli of a shape: far beyond any node, and times a million still within the 64 bits of a table."""
GREW_PART = 20
"""One in so many of a region's GPUs has come or gone since. Chosen: prices are solved for all open nodes, whether in use or not."""


def next_arrived(arrived: int) -> int:
    """Return the number of arrived tasks at which prices solved from `arrived` tasks are outdated."""
    return next((count for count in (FIRST, SECOND) if arrived < count), arrived + EVERY)


def is_old(known: SolvedFrom, now: SolvedFrom) -> bool:
    """Return whether prices that were solved from `known` are to be solved again, from `now`."""
    if now.arrived >= next_arrived(known.arrived):
        return True
    if not known.sequence:
        return False
    return GREW_PART * abs(now.gpu_milli - known.gpu_milli) >= max(1, known.gpu_milli)


def goes_by_prices(rules: str) -> bool:
    """Return whether a pool with these rules is searched by a rule that reads prices."""
    return any(rule.reads_prices for rule in rule_set(rules).rules)


def priced_pools(capacity: Capacity, pools: Pools) -> tuple[str, ...]:
    """Return the pools of a region that are searched by prices, by name."""
    names = {group.pool for row in capacity.workers.values() for group in row.inventory.groups}
    return tuple(name for name in sorted(names) if goes_by_prices(pools.of(name).rules))


def problems_of(prices: Prices) -> list[str]:
    """Return every problem of prices, each with its field."""
    found, shapes = [], prices.mix.shapes
    if not 0 < len(shapes) <= TYPICAL_SHAPES_MAX:
        found.append(f"mix: it has {len(shapes)} shapes, and 1 to {TYPICAL_SHAPES_MAX} are wanted")
    figures = [(one.gpus, one.part_milli, one.cpu_milli, one.memory_bytes, one.weight) for one in shapes]
    if any(figure < 0 for of_one in figures for figure in of_one):
        found.append("mix: a shape needs less than nothing")
    if any(max(one.gpu_milli, one.cpu_milli) > MILLI_MAX or one.memory_bytes > NEED_MAX for one in shapes):
        found.append(f"mix: a shape needs more than {MILLI_MAX} milli, or {NEED_MAX} bytes")
    if any(one.part_milli >= MILLI for one in shapes):
        found.append(f"mix: a part of a device has less than {MILLI} milli")
    if sum(one.weight for one in shapes) > WEIGHT:
        found.append(f"mix: its weights come to more than {WEIGHT}")
    if not 0 < len(prices.rents) <= PRICES_LEVELS_MAX:
        found.append(f"rents: 1 to {PRICES_LEVELS_MAX} levels of demand are wanted")
    if any(len(level) != len(shapes) for level in prices.rents):
        found.append("rents: each level has one for each shape")
    if any(rent < 0 for level in prices.rents for rent in level):
        found.append("rents: none is negative")
    if any(rent > NEED_MAX for level in prices.rents for rent in level):
        found.append(f"rents: none is more than {NEED_MAX}")
    if any(not 0 <= scarcity <= 2 * MICRO for _, scarcity in prices.scarcity):
        found.append(f"scarcity: it is from 0 to {2 * MICRO}")
    names = [node_type for node_type, _ in prices.scarcity]
    if names != sorted(set(names)):
        found.append("scarcity: each node type stands once, in ascending order")
    return found
