"""A region's pools as they would be without some attempts: rows are changed in place, and restored after the search.

Only rows with freed capacity change, so that classes are updated by the journal and no row is copied. Equals `PoolSet.released`,
which copies every row, and which is used if more than `IN_PLACE_MAX` nodes change.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from core.nouns.quantities import Amount
from core.placing.pool import PoolIndex
from core.placing.pool_set import PoolSet

IN_PLACE_MAX = 1024
"""The most nodes changed in place: more would overrun the journal, and its readers would compute all rows from scratch
(core/placing/index/table.py)."""
Freed = Mapping[int, Amount]


@contextmanager
def vacated(
    pools: PoolSet, freed: Freed, owners: Mapping[int, int], shared: Mapping[int, Sequence[int]]
) -> Iterator[PoolSet]:
    """Yield the pools as if these amounts more were available on nodes, and restore them at the end.

    owners   owner then, by node
    shared   by node with other shared devices then: milli free on each shared device
    """
    if len(freed) > IN_PLACE_MAX:
        yield pools.released(freed.items(), owners, shared)
        return
    kept: list[tuple[PoolIndex, int, bool]] = []
    owned: list[tuple[PoolIndex, int, int]] = []
    with pools.trial() as trial:
        try:
            for node, amount in freed.items():
                place = pools.place_of(node)
                if place is None:
                    continue
                pool, slot = place
                table = pool.table
                if pool.bounds.settings.keeps_something_free and not table.not_spare[slot]:
                    kept.append((pool, slot, False))
                    table.not_spare[slot] = not bool(table.is_empty(slice(slot, slot + 1))[0])
                row = pool.row(slot)
                trial.put(replace(row, free=row.free.plus(amount), parts=tuple(shared.get(node, row.parts))))
                if node in owners:
                    owned.append((pool, slot, int(table.owner[slot])))
                    table.set_owner(slot, owners[node])
            yield pools
        finally:
            trial.undo()
            for pool, slot, owner in owned:
                pool.table.set_owner(slot, owner)
            for pool, slot, was in kept:
                pool.table.not_spare[slot] = was


def sum_of(freed: Iterable[tuple[int, Amount]]) -> dict[int, Amount]:
    """Return the sum of freed amounts of each node."""
    found: dict[int, Amount] = {}
    for node, amount in freed:
        found[node] = found[node].plus(amount) if node in found else amount
    return found
