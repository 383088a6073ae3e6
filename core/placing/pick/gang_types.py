"""The GPU type of a gang that accepts several: its tasks train together, so all of them are placed on nodes of one type.

The gang is placed on each type as if there were no other, and then the places are compared: first by tightness, as among units of
one type, and then by the rules. If one node holds all tasks, the types are not compared in this way: nodes of all types are then
one class, and only the rules decide.
"""

from collections.abc import Sequence

import numpy as np

from core.nouns.workload import Extent
from core.placing.index.request_classes import RequestClass
from core.placing.index.table import NodeTable
from core.placing.pick.draw import drawn
from core.placing.pick.extents import pod_of_rack
from core.placing.pick.nodes import Placed

Rank = tuple[int, ...]


def best_of_types(
    found: Sequence[tuple[RequestClass, Placed]], table: NodeTable, spread: Extent, seed: str
) -> Placed | None:
    """Return the best of these places, each given with the class of its type; drawn among equals.

    The best place has fewest zones, then pods, racks and nodes; for a gang that is spread, most units of that extent. Of equal
    places, the one with the better worst node is best.
    """
    if len(found) < 2:
        return found[0][1] if found else None
    ranks = [_rank(one, placed, table, spread) for one, placed in found]
    best = [placed for rank, (_, placed) in zip(ranks, found, strict=True) if rank == min(ranks)]
    return best[drawn(seed, len(best))]


def _rank(one: RequestClass, placed: Placed, table: NodeTable, spread: Extent) -> Rank:
    layout = table.layout
    slots = np.asarray([slot for slot, _ in placed])
    clusters = layout.cluster_of_pod[slots // layout.pod_slots].tolist()
    racks = set(layout.rack[slots].tolist())
    counts = {
        Extent.ZONE: len({layout.clusters[cluster].zone for cluster in clusters}),
        Extent.POD: len(set(map(pod_of_rack, racks))),
        Extent.RACK: len(racks),
    }
    width = (-counts[spread],) if spread else (*counts.values(), len(slots))
    return (*width, int(one.key[slots].max()))
