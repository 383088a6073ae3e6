"""A region's index made from a history, and searches in it."""

from core.images.capacity import Capacity
from core.nouns.placement import NodeRow, Spread
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.index.layout import NO_NODE
from core.placing.index.overlay import Overlay
from core.placing.pick.nodes import Choice
from core.placing.placer import Placer
from core.placing.pool_set import Asker
from core.rules.placement.rule_sets import PLAIN

CHOICE = Choice("w-1.1")
ANYBODY = Asker(priority=5)


def placer_of(capacity: Capacity, overlay: Overlay | None = None) -> Placer:
    """An index of it, ready to be searched."""
    placer = Placer(capacity, overlay or Overlay(), lambda _: PLAIN)
    placer.refresh()
    return placer


def looked_for(placer: Placer, *wanted: JobSpec, choice: Choice = CHOICE) -> tuple[Spread, ...] | Reason:
    """What a search over everything that is available finds."""
    placer.refresh()
    return placer.pools.find(wanted, ANYBODY, choice)


def placed(placer: Placer, *wanted: JobSpec, choice: Choice = CHOICE) -> list[dict[int, int]]:
    """The same, of a search that finds something: tasks by node for each job."""
    found = looked_for(placer, *wanted, choice=choice)
    assert not isinstance(found, Reason), found
    return [dict(zip(spread.nodes, spread.tasks, strict=True)) for spread in found]


def rows_of(placer: Placer) -> dict[int, NodeRow]:
    """What it takes each node to be."""
    placer.refresh()
    rows = [
        pool.row(slot)
        for pool in placer.pools.by_name.values()
        for slot in range(pool.layout.slots)
        if pool.layout.node[slot] != NO_NODE
    ]
    return {row.node: row for row in rows}


def available(placer: Placer) -> dict[int, Amount]:
    """What may be placed on each node."""
    return {node: row.free for node, row in sorted(rows_of(placer).items())}
