"""Racks, pods and zones as users name them, for tasks that must lie in one or are spread over many.

A layout cuts a rack into rows of slots: a large one into several, and one whose nodes are unlike into one or more for each
sort. Here a unit is the whole of it, whatever its nodes are. Units make a tree: racks of one pod's numbers in two zones are two
pods.
"""

import numpy as np

from core.nouns.workload import Extent
from core.placing.index.layout import NO_NODE, RACKS_PER_POD, Layout
from core.placing.pick.draw import drawn
from core.rules.placement.rule import Numbers

UPWARD = (Extent.RACK, Extent.POD, Extent.ZONE)


def pod_of_rack(rack: int) -> int:
    """Racks are numbered through the region, a pod's together."""
    return rack // RACKS_PER_POD


class Extents:
    """Units of a layout.

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
        """From the nearest to this one."""
        return UPWARD[: UPWARD.index(extent) + 1]

    def sums(self, extent: Extent, by_row: Numbers) -> Numbers:
        """(units,) What all rows of each unit come to."""
        return np.bincount(self.of_row[extent], weights=by_row).astype(np.int64)

    def rows(self, extent: Extent, unit: int) -> Numbers:
        """The rows of a unit."""
        return np.flatnonzero(self.of_row[extent] == unit)

    def widest(self, pack: Extent, spread: Extent, caps: Numbers, tasks: int) -> int | None:
        """The unit with the most units in it that have room, of those that hold all tasks; of equals the tightest."""
        holds = self.sums(pack, caps)
        enough = np.flatnonzero(holds >= tasks)
        if not len(enough):
            return None
        has_room = caps > 0
        pairs = np.unique(np.stack([self.of_row[pack][has_room], self.of_row[spread][has_room]]), axis=1)
        inside = np.minimum(np.bincount(pairs[0], minlength=len(holds)), tasks)
        return int(enough[np.lexsort((enough, holds[enough], -inside[enough]))[0]])

    def best_first(self, extent: Extent, key_by_row: Numbers, seed: str) -> Numbers:
        """Units by their best node, equals in an order that is drawn."""
        of_row = self.of_row[extent]
        units = int(of_row.max(initial=-1)) + 1
        best = np.full(units, np.iinfo(np.uint32).max, dtype=np.uint32)
        np.minimum.at(best, of_row, key_by_row.astype(np.uint32))
        turned = (np.arange(units) - drawn(seed, units)) % max(1, units)
        return np.lexsort((turned, best))


def _inside(zone: Numbers, number: Numbers) -> Numbers:
    """One number for each pair of these."""
    both: Numbers = zone.astype(np.int64) << 32 | (number.astype(np.int64) + 1)
    return both


def evenly(caps: Numbers, order: Numbers, tasks: int) -> Numbers:
    """As many tasks for each unit as for every other, but for those with less room; max-min fair.

    caps      (units,) tasks that each has room for; their sum is `tasks` at least
    order     (units,) who gets one more first, where not all can
    returns   (units,) sums to `tasks`
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
