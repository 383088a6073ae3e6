"""Of several GPU types that would do for a gang, the one it gets: its tasks train together, so all are on nodes of one type.

It is placed on each type as if there were no other, and then the places are compared: first how tightly it lies, as among units
of one type, and then by the rules. Where one node holds all its tasks this is not asked: nodes of all types are one class then,
and the rules alone decide.
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
    """The best of these places, each with the class of its type; drawn among equals.

    Fewest zones, pods, racks and nodes; or, of what is to be spread, over the most units. Then the place whose
    worst node is better.
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
