"""The search of a region partition by partition: which partition comes first for a job, and a place for all its tasks in it.

A job is looked for in one partition if one node holds all its tasks, or one rack that the agent owns. The strategy says which
partitions come first (core/placing/strategies/); of these, those whose best node is not empty; and of these, the one that the round
says. Anything else, and whatever rows cannot tell, is for a search of the whole region.
"""

from collections.abc import Collection

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from core.nouns.placement import Spread
from core.nouns.workload import Extent, JobSpec
from core.placing.index.request_classes import RequestClass
from core.placing.pick.draw import drawn
from core.placing.pick.nodes import Choice
from core.placing.pool import PoolIndex, whole_of
from core.placing.pool_set import Asker, PoolSet, request_of, spread_of
from core.placing.strategies.strategy import Candidates, Flags, Numbers, Strategy, least
from core.rules.placement.plan import NO_KEY
from core.rules.placement.rule import Request


class Knowledge(Struct, frozen=True):
    """What an agent knows of partitions, and how it orders them.

    fresh      (partitions,) grows with the time at which each was taken in
    owned      partitions that the agent owns in the present round
    round      of the agent's turn; None: the agent owns none before others
    """

    fresh: Numbers
    owned: Collection[int]
    strategy: Strategy
    is_late: bool = False
    round: int | None = None

    @property
    def order(self) -> Numbers:
        """(partitions,) As `fresh`, owned ones above all others: those may be as new, but other agents look at them first."""
        order = self.fresh.copy()
        order[list(self.owned)] += int(order.max()) + 1
        return order

    def one_of(self, first: Flags, opens: Numbers, choice: Choice) -> int:
        """Return one of the partitions that the strategy puts first.

        opens   (partitions,) 0 where the best node is not empty, or the rules do not care
        """
        equal = least(first, opens)
        if self.round is not None:
            equal = first_in_round(equal, self.owned, self.round)
        among = np.flatnonzero(equal)
        return int(among[drawn(f"{choice.seed}|partition", len(among))])


def first_in_round(equal: Flags, owned: Collection[int], number: int) -> Flags:
    """Return, of equally good partitions, the own one that comes first in this round; all if the agent owns none of them.

    An owner goes through its partitions in one direction, and begins at the one where the owner before would have come last: claims
    that are still on their way when a round ends are elsewhere.
    """
    position, count = np.zeros(len(equal), dtype=np.int64), len(owned)
    position[list(owned)] = 1 + (np.arange(count) - number) % count
    return least(equal, -position)


class InPartition(Struct, frozen=True):
    """A place for all tasks of a job in one partition."""

    spread: Spread
    partition: int
    quality_permille: int = -1
    """Permille of the partitions with capacity in which no node is better than the best one of the chosen partition; -1 for a gang."""
    is_in_a_rack: bool = False
    """True for a gang in the tightest rack of the agent's own partitions: no strategy chose it."""


def find_in_partition(
    pools: PoolSet, job: JobSpec, asker: Asker, choice: Choice, knowledge: Knowledge
) -> InPartition | None:
    """Return a place in a partition, or None. The tables must be up to date. Raises RuleFailed."""
    request = request_of(job, asker)
    for pool in pools.pools_for(request):
        if pool.bounds.concern(request):
            return None  # How much of a zone is free, the rows of one partition do not tell.
        found = _find(pool, request, job.tasks, choice, knowledge)
        if found is not None:
            return found
    return None


def _find(
    pool: PoolIndex, request: Request, tasks: int, choice: Choice, knowledge: Knowledge
) -> InPartition | None:
    whole = whole_of(request, tasks)
    if whole is not None:
        found = _on_a_node(pool, whole, tasks, choice, knowledge)
        if found is not None:
            return found
    if tasks == 1 or request.spread or request.pack is Extent.NODE or not request.has_one_type:
        return None
    return _in_a_rack(pool, request, tasks, choice, knowledge)


def _on_a_node(
    pool: PoolIndex, request: Request, tasks: int, choice: Choice, knowledge: Knowledge
) -> InPartition | None:
    one, partitions, plan = pool.class_of(request), pool.picker.partitions, pool.plan
    assert partitions is not None, pool.name
    least_key = partitions.least(one.rack_keys(plan.mask_in_partition))
    has_capacity = least_key < NO_KEY
    if not has_capacity.any():
        return None
    first = knowledge.strategy(
        Candidates(
            has_capacity,
            least_key.astype(np.int64) >> plan.tier_shift,
            knowledge.order,
            lambda: _mean_keys(pool, one),
            is_late=knowledge.is_late,
        )
    )
    partition = knowledge.one_of(first, (least_key & plan.mask_of_empty).astype(np.int64), choice)
    slot = pool.picker.pick(one, replace(choice, partition=partition))
    assert slot is not None, (pool.name, partition)
    better = int(np.count_nonzero(least_key < least_key[partition]))
    quality = 1000 - 1000 * better // int(np.count_nonzero(has_capacity))
    return InPartition(spread_of(pool, [(slot, tasks)]), partition, quality)


def _mean_keys(pool: PoolIndex, one: RequestClass) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return (partitions,) the mean masked key of the nodes with capacity; 0 where there are none."""
    partitions = pool.picker.partitions
    assert partitions is not None, pool.name
    size = pool.layout.rack_slots
    key = one.key.reshape(-1, size) & pool.plan.mask_in_partition
    has_capacity: Flags = key < NO_KEY
    of_row = np.maximum(partitions.of_row, 0)
    sums = np.bincount(
        of_row,
        weights=np.where(has_capacity, key, 0).sum(axis=1, dtype=np.float64),
        minlength=partitions.count,
    )
    counts = np.bincount(of_row, weights=has_capacity.sum(axis=1), minlength=partitions.count)
    return sums / np.maximum(counts, 1)


def _in_a_rack(
    pool: PoolIndex, request: Request, tasks: int, choice: Choice, knowledge: Knowledge
) -> InPartition | None:
    """Return a place in the tightest rack of the owned partitions."""
    one, partitions = pool.class_of(request), pool.picker.partitions
    assert partitions is not None, pool.name
    rows = np.flatnonzero(np.isin(partitions.of_row, list(knowledge.owned)))
    enough = rows[one.rack_cap[rows] >= tasks]
    if not len(enough):
        return None
    caps = one.rack_cap[enough]
    has_best = np.zeros(partitions.count, dtype=bool)
    has_best[partitions.of_row[enough[caps == caps.min()]]] = True
    partition = knowledge.one_of(has_best, np.zeros(partitions.count, dtype=np.int64), choice)
    placed = pool.picker.place(one, tasks, replace(choice, partition=partition))
    assert placed is not None, (pool.name, partition)
    return InPartition(spread_of(pool, placed), partition, is_in_a_rack=True)
