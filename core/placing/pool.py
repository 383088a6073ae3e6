"""An agent's index of one pool: layout, table, rule set, and the recently used classes of requests.

source    Protean §4 (three layers of caches, LRU with a memory bound); core/placing/index/request_classes.py
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from core.images.capacity import Capacity
from core.nouns.limits import CLASS_AGE_MAX, CLASS_BYTES_MAX, CLASSES_MAX, TOGETHER_MAX
from core.nouns.placement import NodeRow
from core.nouns.quantities import Amount
from core.nouns.workload import Extent
from core.placing.index.layout import NO_NODE, Layout
from core.placing.index.overlay import Overlay
from core.placing.index.request_classes import RequestClass, SharedCodes
from core.placing.index.table import NodeTable
from core.placing.pick.gang_types import best_of_types
from core.placing.pick.nodes import Choice, Picker, Placed
from core.placing.pick.pool_limits import Bounds
from core.placing.pick.single_node import pick_lazily
from core.rules.placement.errors import RuleFailed
from core.rules.placement.plan import Plan
from core.rules.placement.rule import Numbers, Request


class Counts:
    """Hits, misses and evictions of the cache of classes: figures for people, part of no decision."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self.evicted = 0


class PoolIndex:
    """One pool's nodes, ready to be searched."""

    def __init__(self, name: str, layout: Layout, plan: Plan, *, is_passing: bool = False) -> None:
        self.name, self.layout, self.plan = name, layout, plan
        self._is_passing = is_passing
        """True if the index is searched a few times and then dropped: a class would be used once."""
        self.table = NodeTable(layout, plan.units)
        self.picker = Picker(self.table, plan)
        self.bounds = Bounds(layout)
        self.counts = Counts()
        self._classes: OrderedDict[object, RequestClass] = OrderedDict()
        self._shared: WeakValueDictionary[tuple[object, ...], SharedCodes] = WeakValueDictionary()
        self._clusters: dict[object, tuple[int, ...]] = {}
        self._bytes = 0
        self._asked = 0
        self._largest_gpu_milli = max((cluster.gpu_milli for cluster in layout.clusters), default=0)

    def admits(self, request: Request) -> bool:
        """Return whether some node of the pool could ever run the request, regardless of the work there."""
        return bool(self.clusters_for(request))

    def by_type(self, request: Request) -> list[Request]:
        """Return the request once for each acceptable node type of the pool: all tasks of a job run on one type."""
        if request.has_one_type:
            return [request]
        return [request.on(node_type) for node_type in self._types_for(request)]

    def type_of(self, slot: int) -> str:
        """Return the type of a node."""
        layout = self.layout
        return layout.clusters[int(layout.cluster_of_pod[slot // layout.pod_slots])].node_type

    def clusters_for(self, request: Request) -> tuple[int, ...]:
        """Return the clusters with nodes that could ever run the request, ascending."""
        traits = self.plan.class_of(request)
        known = self._clusters.get(traits)
        if known is None:
            if len(self._clusters) >= CLASSES_MAX:
                self._clusters.clear()
            rules = self.plan.cluster_validators
            known = self._clusters[traits] = tuple(
                number
                for number, cluster in enumerate(self.layout.clusters)
                if all(rule.admits(cluster, request) for rule in rules)
            )
        return known

    def _types_for(self, request: Request) -> tuple[str, ...]:
        """Return the types of nodes that could ever run the request, ascending."""
        clusters = self.layout.clusters
        return tuple(sorted({clusters[number].node_type for number in self.clusters_for(request)}))

    def class_of(self, request: Request) -> RequestClass:
        """Return the class of a request, up to date. Raises RuleFailed."""
        if self.table.failed is not None:
            raise self.table.failed
        key = self.plan.class_of(request)
        self._asked += 1
        found = self._classes.get(key)
        if found is None:
            self.counts.misses += 1
            found = RequestClass(self.plan, self.table, request, self._shared_by(request))
            found.update()
            self._classes[key] = found
            self._bytes += found.nbytes
            self._free_capacity()
        else:
            self.counts.hits += 1
            if found.used_at != self._asked - 1:
                self._classes.move_to_end(key)
            found.update()
        found.used_at = self._asked
        return found

    def kept(self) -> tuple[RequestClass, ...]:
        """Return the classes in the cache, the least recently used first."""
        return tuple(self._classes.values())

    def class_within(self, request: Request, tasks: int) -> RequestClass:
        """Return the part of the request's class that so many tasks may use within the pool's reserve and limit."""
        return self.bounds.within(self.table, self.class_of(request), request, tasks)

    def refresh_classes(self, most: int) -> None:
        """Update the most recently used classes, and drop old ones, while no request waits.

        A class for which a rule raises stays as it is: the next search that uses the class gets the error.
        """
        self._free_capacity()
        for key in list(reversed(self._classes))[:most]:
            with suppress(RuleFailed):
                self._classes[key].update()
        if self.table.knows_alike:
            self.table.alike()

    def _shared_by(self, request: Request) -> list[SharedCodes]:
        found = []
        for traits in self.plan.shared:
            key = (traits, *(getattr(request, trait) for trait in sorted(traits)))
            codes = self._shared.get(key)
            if codes is None:
                codes = self._shared[key] = SharedCodes(self.plan, traits, self.table, request)
            found.append(codes)
        return found

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory of all classes, with shared codes counted once."""
        return self._bytes + sum(codes.nbytes for codes in self._shared.values())

    def _free_capacity(self) -> None:
        while len(self._classes) > 1:
            oldest = next(iter(self._classes.values()))
            is_over = len(self._classes) > CLASSES_MAX or self.nbytes > CLASS_BYTES_MAX
            if not is_over and self._asked - oldest.used_at < CLASS_AGE_MAX:
                return
            self._classes.popitem(last=False)
            self._bytes -= oldest.nbytes
            self.counts.evicted += 1
            del oldest  # Frees the codes that only this class used, before `nbytes` is read again.

    # Searching.

    def place(self, request: Request, tasks: int, choice: Choice) -> Placed | None:
        """Return slots for all tasks, or None: one node if one holds them all, else nodes of one type, unless they must lie on one."""
        whole = whole_of(request, tasks)
        if whole is not None and self._largest_gpu_milli >= whole.need.gpu_milli:
            slot = self._pick(whole, choice)
            if slot is not None:
                return [(slot, tasks)]
        if tasks == 1 or request.pack is Extent.NODE:
            return None
        if request.has_one_type:
            return self._place_gang(request, tasks, choice)
        found = [(one, self._place_gang(one, tasks, choice)) for one in self.by_type(request)]
        return best_of_types(
            [(self.class_of(one), placed) for one, placed in found if placed is not None],
            self.table,
            request.spread,
            choice.seed,
        )

    def _place_gang(self, request: Request, tasks: int, choice: Choice) -> Placed | None:
        one = self.class_within(request, tasks)
        return self.picker.place(one, tasks, choice, request.pack, request.spread)

    def as_found(self, request: Request, tasks: int, placed: Placed) -> Request:
        """Return the request that led to a place: with all its types if one node holds all tasks, else on the chosen type."""
        if request.has_one_type or (len(placed) == 1 and whole_of(request, tasks) is not None):
            return request
        return request.on(self.type_of(placed[0][0]))

    def _pick(self, request: Request, choice: Choice) -> int | None:
        if self._is_passing and not self.bounds.concern(request):
            return pick_lazily(self.table, self.plan, request, choice)
        return self.picker.pick(self.class_within(request, 1), choice)

    # Rows.

    def under(self, plan: Plan) -> "PoolIndex":
        """Return an index with the same rows in the same slots, searched by other rules."""
        other, table = PoolIndex(self.name, self.layout, plan), self.table
        other.bounds, other.picker.partitions = self.bounds, self.picker.partitions
        other.table.mark(table.upkeep, table.owner, table.start)
        other.table.not_spare[:] = table.not_spare
        every = np.flatnonzero(self.layout.node != NO_NODE)
        columns = (table.gpu[every], table.cpu[every], table.memory[every])
        other.table.fill(every, *columns, table.is_open[every] > 0, table.shared)
        return other

    def released(
        self, slots: Numbers, amounts: NDArray[np.int64], shared: Mapping[int, Sequence[int]] | None = None
    ) -> "PoolIndex":
        """Return a copy of the index in which these amounts more are available.

        slots     (n,), a slot may be named more than once; amounts (n, 3): GPU milli, CPU milli, bytes
        shared    by slot with other shared devices then: milli free on each shared device
        """
        other, table = PoolIndex(self.name, self.layout, self.plan, is_passing=True), self.table
        other.bounds, other.picker.partitions = self.bounds, self.picker.partitions
        gpu, cpu, memory = table.gpu.copy(), table.cpu.copy(), table.memory.copy()
        for index, column in enumerate[Numbers]((gpu, cpu, memory)):
            np.add.at(column, slots, amounts[:, index].astype(column.dtype))
        other.table.mark(table.upkeep, table.owner, table.start)
        other.table.not_spare[:] = table.not_spare
        other.table.not_spare[slots] |= ~table.is_empty(slots)
        every = np.flatnonzero(self.layout.node != NO_NODE)
        columns = (gpu[every], cpu[every], memory[every])
        other.table.fill(every, *columns, table.is_open[every] > 0, _with(table.shared, shared or {}))
        return other

    def fill(self, capacity: Capacity, overlay: Overlay) -> None:
        """Set every row from the image and the overlay."""
        nodes = self.layout.node[self.layout.node != NO_NODE]
        slots = self.layout.slot_of[nodes]
        picked = nodes.tolist()
        gpu, cpu, memory = (
            np.maximum(_picked(columns.free, picked) - _picked(columns.reserved, picked), 0)
            for columns in (capacity.gpu, capacity.cpu, capacity.memory)
        )
        is_open = (_picked(capacity.is_lost, picked) == 0) & (_picked(capacity.closed, picked) == 0)
        self.table.fill(slots, gpu.astype(np.int32), cpu.astype(np.int32), memory, is_open)
        for node in sorted({*overlay.nodes(), *capacity.devices.by_node}):
            slot = self.layout.slot(node)
            if slot != NO_NODE:
                self.put(slot, overlay.row(capacity, node))

    def put(self, slot: int, row: NodeRow) -> None:
        """Set one row."""
        free = row.free
        self.table.set(
            slot, free.gpu_milli, free.cpu_milli, free.memory_bytes, is_open=row.is_open, shared=row.parts
        )

    def row(self, slot: int) -> NodeRow:
        """Return one row."""
        table = self.table
        free = Amount(int(table.gpu[slot]), int(table.cpu[slot]), int(table.memory[slot]))
        shared = table.shared_at(slot)
        return NodeRow(int(self.layout.node[slot]), free, bool(table.is_open[slot]), shared)


def _picked(column: Sequence[int], nodes: Sequence[int]) -> NDArray[np.int64]:
    return np.asarray(column, dtype=np.int64)[nodes] if nodes else np.zeros(0, dtype=np.int64)


def whole_of(request: Request, tasks: int) -> Request | None:
    """Return all tasks as one, for a node that holds them all; None for tasks that are spread or too many for one node."""
    if tasks == 1:
        return request
    most = request.tasks_per_node or tasks
    if request.spread or tasks > min(TOGETHER_MAX, most):
        return None
    together = tasks if request.part else 1
    return replace(request, need=request.need.times(tasks), tasks_per_node=0, together=together)


def _with(shared: Numbers, others: Mapping[int, Sequence[int]]) -> Numbers:
    """Return the column with other rows for these slots."""
    most = max([shared.shape[1], *map(len, others.values())])
    found = np.pad(shared, ((0, 0), (0, most - shared.shape[1])))
    for slot, parts in others.items():
        found[slot] = (*parts, *(0,) * (most - len(parts)))
    return found
