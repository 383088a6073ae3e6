"""Racks, pods and zones as users name them, for tasks that must lie in one unit or are spread over many.

A layout cuts a rack into rows of slots: a large rack into several, a rack of unlike nodes into one or more for each sort of node.
Here a unit is the whole rack, pod or zone, regardless of its nodes. Units form a tree: racks with one pod's numbers in two zones
are two pods.
"""

import numpy as np

from core.nouns.workload import Extent
from core.placing.index.layout import NO_NODE, RACKS_PER_POD, Layout
from core.placing.pick.draw import drawn
from core.rules.placement.rule import Numbers

UPWARD = (Extent.RACK, Extent.POD, Extent.ZONE)


def pod_of_rack(rack: int) -> int:
    """Return the number of a rack's pod: racks are numbered through the region, those of a pod consecutively."""
    return rack // RACKS_PER_POD


class Extents:
    """The units of a layout.

    of_row    by extent: (rows,) the unit of each row of slots, numbered from 0
    """

    def __init__(self, layout: Layout) -> None:
        rack = layout.rack.reshape(-1, layout.rack_slots).max(axis=1, initial=NO_NODE)
        zones = sorted({cluster.zone for cluster in layout.clusters})
        of_cluster = np.asarray([zones.index(cluster.zone) for cluster in layout.clusters], dtype=np.int32)
        zone = np.repeat(of_cluster[layout.cluster_of_pod], RACKS_PER_POD) if len(of_cluster) else rack
        pod = np.where(rack == NO_NODE, NO_NODE, rack // RACKS_PER_POD)
        columns = (_inside(zone, rack), _inside(zone, pod), zone)
        self.of_row: dict[Extent, Numbers] = {
            extent: np.unique(column, return_inverse=True)[1].astype(np.int32)
            for extent, column in zip(UPWARD, columns, strict=True)
        }

    def up_to(self, extent: Extent) -> tuple[Extent, ...]:
        """Return the extents from the smallest to this one."""
        return UPWARD[: UPWARD.index(extent) + 1]

    def sums(self, extent: Extent, by_row: Numbers) -> Numbers:
        """Return (units,) the sum of each unit's rows."""
        return np.bincount(self.of_row[extent], weights=by_row).astype(np.int64)

    def rows(self, extent: Extent, unit: int) -> Numbers:
        """Return the rows of a unit."""
        return np.flatnonzero(self.of_row[extent] == unit)

    def widest(self, pack: Extent, spread: Extent, caps: Numbers, tasks: int) -> int | None:
        """Return, of the `pack` units that hold all tasks, the one with most `spread` units with capacity; of equals the tightest.

        More `spread` units than tasks count no further. None if no `pack` unit holds all tasks.
        """
        holds = self.sums(pack, caps)
        enough = np.flatnonzero(holds >= tasks)
        if not len(enough):
            return None
        has_capacity = caps > 0
        pairs = np.unique(
            np.stack([self.of_row[pack][has_capacity], self.of_row[spread][has_capacity]]), axis=1
        )
        inside = np.minimum(np.bincount(pairs[0], minlength=len(holds)), tasks)
        return int(enough[np.lexsort((enough, holds[enough], -inside[enough]))[0]])

    def best_first(self, extent: Extent, key_by_row: Numbers, seed: str) -> Numbers:
        """Return the units by the key of their best node, equal ones from a drawn start on."""
        of_row = self.of_row[extent]
        units = int(of_row.max(initial=-1)) + 1
        best = np.full(units, np.iinfo(np.uint32).max, dtype=np.uint32)
        np.minimum.at(best, of_row, key_by_row.astype(np.uint32))
        turned = (np.arange(units) - drawn(seed, units)) % max(1, units)
        return np.lexsort((turned, best))


def _inside(zone: Numbers, number: Numbers) -> Numbers:
    """Return one number for each pair of these."""
    both: Numbers = zone.astype(np.int64) << 32 | (number.astype(np.int64) + 1)
    return both


def evenly(caps: Numbers, order: Numbers, tasks: int) -> Numbers:
    """Return equal numbers of tasks for all units, except units with less capacity; max-min fair.

    caps      (units,) the most tasks of each unit; their sum is at least `tasks`
    order     (units,) units in the order in which they get one task more, if not all can
    returns   (units,) tasks of each unit, which sum to `tasks`
    """
    low, high = 0, tasks
    while low < high:
        level = (low + high + 1) // 2
        if int(np.minimum(caps, level).sum()) <= tasks:
            low = level
        else:
            high = level - 1
    counts: Numbers = np.minimum(caps, low)
    more = order[caps[order] > low][: tasks - int(counts.sum())]
    counts[more] += 1
    return counts
