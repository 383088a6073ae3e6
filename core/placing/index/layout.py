"""The slot of each node of a pool in an agent's arrays: in the order of the topology, so that every level is a reshape.

A cluster holds like nodes: one zone, one node type, one memory of a GPU, one size of islands. Each rack takes the same number
of slots, each pod 16 racks, each cluster whole pods; slots without a node are padding. The order depends on the nodes alone and
not on when they joined, so that the same draw finds the same node in every copy of the layout.
"""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from core.images.capacity import Capacity
from core.nouns.cluster import Cluster, cluster_of, joined
from core.nouns.fleet import NodeGroup

Numbers = NDArray[np.int32]

RACKS_PER_POD = 16
RACK_SLOTS_MAX = 64
"""A larger rack fills several rows of slots."""
NO_NODE = -1


def _named(group: NodeGroup) -> tuple[str, str, str, int, int]:
    return group.pool, group.zone, group.node_type, group.gpu_memory, group.island


class Layout:
    """Slots of a pool's nodes.

    clusters    the pool's clusters, in order
    largest     GPU milli of the largest node
    pods_of     by cluster: the first pod, and the one after the last
    node        (slots,) node numbers, NO_NODE in padding
    rack        (slots,) rack numbers
    node_types  types of all nodes, ascending
    node_type   (slots,) index into `node_types`, in padding that of the nodes beside it; type_of_pod the same by pod
    domain      (slots,) index into `domains`
    gpu_total   (slots,) GPU milli that each node has
    slot_of     (node numbers,) slots, NO_NODE where the pool has no such node
    """

    def __init__(self, groups: Iterable[NodeGroup]) -> None:
        found = sorted(groups, key=lambda group: (_named(group), group.rack_first, group.first))
        largest: dict[tuple[str, str, str, int, int], Cluster] = {}
        for group in found:
            here, known = cluster_of(group), largest.get(_named(group))
            largest[_named(group)] = here if known is None else joined(known, here)
        self.clusters = tuple(sorted(largest.values()))
        self.largest = max((cluster.gpu_milli for cluster in self.clusters), default=0)
        self.domains = sorted({_domain_of(group) for group in found})
        of_cluster = {name: number for number, name in enumerate(sorted(largest))}
        of_domain = {domain: number for number, domain in enumerate(self.domains)}
        columns = [
            np.concatenate([np.asarray(column(group), dtype=np.int32) for group in found])
            if found
            else np.zeros(0, dtype=np.int32)
            for column in (
                lambda group: np.full(group.count, of_cluster[_named(group)]),
                lambda group: (
                    group.rack_first + (group.into_rack + np.arange(group.count)) // group.nodes_per_rack
                ),
                lambda group: group.first + np.arange(group.count),
                lambda group: np.full(group.count, of_domain[_domain_of(group)]),
                lambda group: np.full(group.count, group.total.gpu_milli),
            )
        ]
        self._place(*columns)

    def _place(
        self, cluster: Numbers, rack: Numbers, node: Numbers, domain: Numbers, gpu_milli: Numbers
    ) -> None:
        order = np.lexsort((node, rack, cluster))
        cluster, rack, node, domain = cluster[order], rack[order], node[order], domain[order]
        in_rack = _within(np.stack([cluster, rack]))
        widest = min(int(in_rack.max(initial=0)) + 1, RACK_SLOTS_MAX)
        self.rack_slots = 1 << (widest - 1).bit_length()
        self.pod_slots = RACKS_PER_POD * self.rack_slots
        row = in_rack // self.rack_slots
        rows = _numbered(np.stack([cluster, rack, row]))
        pod_keys = np.stack([cluster, rack // RACKS_PER_POD])
        row_in_pod = _within_values(pod_keys, rows)
        pods = _numbered(np.stack([*pod_keys, row_in_pod // RACKS_PER_POD]))
        slot = (
            pods * self.pod_slots + row_in_pod % RACKS_PER_POD * self.rack_slots + in_rack % self.rack_slots
        )
        self.pods = int(pods.max(initial=-1)) + 1
        self.slots = self.pods * self.pod_slots
        self.node = _spread_over(self.slots, slot, node, NO_NODE)
        self.rack = _spread_over(self.slots, slot, rack, NO_NODE)
        self.domain = _spread_over(self.slots, slot, domain, 0)
        self.gpu_total = _spread_over(self.slots, slot, gpu_milli[order], 0)
        self.slot_of = _spread_over(int(node.max(initial=-1)) + 1, node, slot, NO_NODE)
        self.cluster_of_pod = np.zeros(self.pods, dtype=np.int32)
        self.cluster_of_pod[pods] = cluster
        ends = np.searchsorted(self.cluster_of_pod, np.arange(len(self.clusters) + 1))
        self.node_types = tuple(sorted({one.node_type for one in self.clusters}))
        types = [self.node_types.index(one.node_type) for one in self.clusters]
        self.type_of_pod = np.asarray(types, dtype=np.int16)[self.cluster_of_pod]
        self.node_type = np.repeat(self.type_of_pod, self.pod_slots)
        self.pods_of = [(int(first), int(last)) for first, last in pairwise(ends)]

    def slot(self, node: int) -> int:
        """Return the slot of a node; NO_NODE if the pool does not have the node."""
        return int(self.slot_of[node]) if 0 <= node < len(self.slot_of) else NO_NODE


def layouts_of(capacity: Capacity) -> dict[str, Layout]:
    """Return the layout of each pool of a region, by name."""
    by_pool: dict[str, list[NodeGroup]] = {}
    for row in capacity.workers.values():
        for group in row.inventory.groups:
            by_pool.setdefault(group.pool, []).append(group)
    return {name: Layout(groups) for name, groups in sorted(by_pool.items())}


def _domain_of(group: NodeGroup) -> str:
    return group.power_domain or group.zone


def _spread_over(size: int, at: Numbers, values: Numbers, otherwise: int) -> Numbers:
    column = np.full(size, otherwise, dtype=np.int32)
    column[at] = values
    return column


def _numbered(keys: Numbers) -> Numbers:
    """Return for each of the sorted columns of keys (k, n) the number of different columns before."""
    if not keys.shape[1]:
        return np.zeros(0, dtype=np.int32)
    is_new = np.any(keys[:, 1:] != keys[:, :-1], axis=0)
    return np.concatenate([[0], np.cumsum(is_new)]).astype(np.int32)


def _within(keys: Numbers) -> Numbers:
    """Return for each of the sorted columns of keys (k, n) the position among equal columns."""
    return _within_values(keys, np.arange(keys.shape[1], dtype=np.int32))


def _within_values(keys: Numbers, values: Numbers) -> Numbers:
    """Return each value less the first value of the same key."""
    numbers = _numbered(keys)
    if not len(numbers):
        return numbers
    firsts = values[np.searchsorted(numbers, np.arange(numbers[-1] + 1))]
    return (values - firsts[numbers]).astype(np.int32)
