"""A class of requests: for every node the number of tasks that fit, and all preferences' scores in one integer, the key.

A class is kept with the revision of the table for which the class holds. Before use, only rows that changed since are computed
again; then the class equals one made from scratch.

key         (slots,) uint32: every preference's score, the most important one in the highest bits; INVALID where none fits
cap         (slots,) int16: tasks that fit
rack_cap    (racks,) int32, pod_cap (pods,) int32: sums of `cap`
pod_min     (pods,) uint32: the least key of a pod; pod_ties (pods,) int32: nodes with that key

source    Protean §4: rule objects, rule-evaluation objects, and shared inputs (here the units of core/placing/index/table.py)
"""

from collections.abc import Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from core.nouns.quantities import MILLI, Amount
from core.placing.index.layout import RACKS_PER_POD, Layout
from core.placing.index.rack_keys import RackKeys
from core.placing.index.rows import TableRows, codes_of
from core.placing.index.table import Changed, NodeTable
from core.rules.placement.plan import KeyPart, Plan
from core.rules.placement.rule import (
    Codes,
    Numbers,
    Request,
)

INVALID = 0xFFFFFFFF
CAP_MAX = np.iinfo(np.int16).max
ALIKE_MIN = 512
"""Fewer nodes are scored one by one, because to find alike nodes costs time for each node that changed."""


_NO_ROWS = slice(0, 0)


class SharedCodes:
    """Results of the rules that read one set of traits without the need, for every node: once for all classes equal in the set.

    code    (slots,) uint32: the rules' part of a key; INVALID where a rule forbids the node; computed only in clusters in which
            a class of these traits may run
    """

    def __init__(self, plan: Plan, traits: frozenset[str], table: NodeTable, request: Request) -> None:
        self._validators = [rule for rule in plan.node_validators if rule.traits == traits]
        self._parts = [part for part in plan.node_parts if part.rule.traits == traits]
        self._request = request
        self._table = table
        self.computed = 0
        """Rows computed so far, for tests."""
        self.code = np.zeros(0, dtype=np.uint32)
        self._known: set[int] = set()
        """Clusters with computed codes."""
        self._pod_known = np.zeros(0, dtype=bool)
        self.seen = -1

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self.code.nbytes

    def update(self, clusters: Sequence[int]) -> None:
        """Update the codes to the table's revision, and compute those of new clusters among these."""
        layout = self._table.layout
        if self.seen != self._table.revision:
            self._catch_up()
        for number in clusters:
            if number not in self._known:
                first, last = layout.pods_of[number]
                at = slice(first * layout.pod_slots, last * layout.pod_slots)
                if not self.is_idle:
                    self.code[at] = self._of(at)
                self._known.add(number)
                self._pod_known[first:last] = True

    @property
    def is_idle(self) -> bool:
        """True if no rule distinguishes nodes, or ever did."""
        rows = TableRows(self._table, _NO_ROWS)
        return all(part.rule.is_idle(rows) for part in self._parts) and all(
            rule.is_idle(rows) for rule in self._validators
        )

    def _catch_up(self) -> None:
        table, layout = self._table, self._table.layout
        if self.seen >= 0 and self.is_idle:
            self.seen = table.revision
            return
        at = table.changed_since(self.seen) if self.seen >= 0 else None
        if at is None:
            self.code = np.zeros(layout.slots, dtype=np.uint32)
            self._pod_known = np.zeros(layout.pods, dtype=bool)
            self._known.clear()
            self.seen = table.revision
            return
        if len(self._known) < len(layout.clusters):
            if isinstance(at, slice):
                at = np.arange(at.start, at.stop, dtype=np.int32)
            at = at[self._pod_known[at // layout.pod_slots]]
        self.code[at] = self._of(at)
        self.seen = table.revision  # Last: if a rule raised, the old revision must stay.

    def _of(self, at: Changed) -> Codes:
        rows = TableRows(self._table, at)
        codes = _packed(self._parts, rows, self._request)
        for rule in self._validators:
            if not rule.is_idle(rows):
                codes[~rule.allows(rows, self._request)] = INVALID
        self.computed += len(codes)
        return codes


class RequestClass:
    """One class: keys and capacities of all nodes for requests of equal traits."""

    def __init__(self, plan: Plan, table: NodeTable, request: Request, shared: Sequence[SharedCodes]) -> None:
        self.request = request
        self.used_at = 0
        self._plan, self._table, self._shared = plan, table, shared
        mine = [part for part in plan.own_parts if part.rule.concerns(request)]
        self._own_parts = [part for part in mine if not part.rule.is_dear]
        self._dear_parts = [part for part in mine if part.rule.is_dear]
        """Expensive rules, evaluated only for nodes with capacity."""
        self._part = request.part
        layout = table.layout
        self.clusters = [
            number
            for number, cluster in enumerate(layout.clusters)
            if all(rule.admits(cluster, request) for rule in plan.cluster_validators)
        ]
        """Clusters in which the request may run at all."""
        types = [layout.clusters[number].node_type for number in self.clusters]
        self.has_rivals = len(types) > len(set(types))
        """True if several of the clusters have one type: only clusters of one type are compared."""
        self.is_everywhere = len(self.clusters) == len(layout.clusters)
        self._pod_admitted = np.isin(layout.cluster_of_pod, self.clusters)
        self._cluster_code = _codes_of_clusters(plan, table, request)
        self.key = np.zeros(0, dtype=np.uint32)
        self.cap = np.zeros(0, dtype=np.int16)
        self.rack_cap = self.pod_cap = self.pod_ties = np.zeros(0, dtype=np.int32)
        self.pod_min = np.zeros(0, dtype=np.uint32)
        self.by_mask: dict[int, RackKeys] = {}
        """Memo by mask: each rack's least key."""
        self.seen = -1
        self.builds = self.computed = 0
        """Number of builds from scratch, and of rows computed so far, for tests."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory, without shared codes."""
        columns = (self.key, self.cap, self.rack_cap, self.pod_cap, self.pod_min, self.pod_ties)
        return sum(column.nbytes for column in columns)

    @property
    def shared(self) -> Sequence[SharedCodes]:
        """Codes shared with other classes."""
        return self._shared

    def update(self) -> None:
        """Update the class to the table's revision."""
        table = self._table
        if self.seen == table.revision:
            return
        at = table.changed_since(self.seen) if self.seen >= 0 else None
        if at is None:
            self._build()
        elif isinstance(at, slice):
            self._update_run(at)
        else:
            self._update_many(at)
        self.seen = table.revision  # Last: if a rule raised, the old revision must stay.

    def rack_keys(self, mask: np.uint32) -> Codes:
        """Return (racks,) the least key of each rack, other bits than those of the mask left out; the class must be up to date."""
        known = self.by_mask.get(int(mask))
        if known is None:
            known = self.by_mask[int(mask)] = RackKeys(self._table, mask)
        known.update(self.key)
        return known.least

    def narrowed(self) -> "RequestClass":
        """Return a copy of which the capacities may be lowered, for one search only."""
        narrow = copy(self)
        narrow.key, narrow.cap = self.key.copy(), self.cap.copy()
        narrow.by_mask = {}
        return narrow

    def _build(self) -> None:
        layout = self._table.layout
        self.builds += 1
        self.key = np.full(layout.slots, INVALID, dtype=np.uint32)
        self.cap = np.zeros(layout.slots, dtype=np.int16)
        for shared in self._shared:
            shared.update(self.clusters)
        for number in self.clusters:
            first, last = layout.pods_of[number]
            at = slice(first * layout.pod_slots, last * layout.pod_slots)
            self.key[at], self.cap[at] = self._evaluate(at)
        self.sum_up(layout)

    def sum_up(self, layout: Layout) -> None:
        """Compute the columns of racks and pods from those of nodes."""
        self.rack_cap = self.cap.reshape(-1, layout.rack_slots).sum(axis=1, dtype=np.int32)
        self.pod_cap = self.rack_cap.reshape(layout.pods, -1).sum(axis=1, dtype=np.int32)
        pods = self.key.reshape(layout.pods, -1)
        self.pod_min = pods.min(axis=1)
        self.pod_ties = (pods == self.pod_min[:, None]).sum(axis=1, dtype=np.int32)

    def _update_run(self, at: slice) -> None:
        """Update adjacent rows, usually those of one rack."""
        layout = self._table.layout
        pod = at.start // layout.pod_slots
        if (at.stop - 1) // layout.pod_slots != pod:
            self._update_many(np.arange(at.start, at.stop, dtype=np.int32))
            return
        if not (self.is_everywhere or self._pod_admitted[pod]):
            return
        for shared in self._shared:
            shared.update(self.clusters)
        key, cap = self._evaluate(at)
        self.key[at] = key
        rack = at.start // layout.rack_slots
        more = int(np.add.reduce(cap - self.cap[at]))
        self.cap[at] = cap
        self.pod_cap[pod] += more
        if (at.stop - 1) // layout.rack_slots == rack:
            self.rack_cap[rack] += more
        else:
            span = self.cap[pod * layout.pod_slots : (pod + 1) * layout.pod_slots]
            racks = slice(pod * RACKS_PER_POD, (pod + 1) * RACKS_PER_POD)
            self.rack_cap[racks] = span.reshape(RACKS_PER_POD, -1).sum(axis=1, dtype=np.int32)
        whole = self.key[pod * layout.pod_slots : (pod + 1) * layout.pod_slots]
        least = np.minimum.reduce(whole)
        self.pod_min[pod] = least
        self.pod_ties[pod] = np.count_nonzero(whole == least)

    def _update_many(self, at: Numbers) -> None:
        layout = self._table.layout
        if not self.is_everywhere:
            at = at[self._pod_admitted[at // layout.pod_slots]]
        if not len(at):
            return
        for shared in self._shared:
            shared.update(self.clusters)
        self.key[at], self.cap[at] = self._evaluate(at)
        pods = np.array(sorted(set((at >> layout.pod_slots.bit_length() - 1).tolist())))
        caps = self.cap.reshape(layout.pods, RACKS_PER_POD, layout.rack_slots)[pods].sum(
            axis=2, dtype=np.int32
        )
        self.rack_cap.reshape(layout.pods, RACKS_PER_POD)[pods] = caps
        self.pod_cap[pods] = caps.sum(axis=1)
        keys = self.key.reshape(layout.pods, -1)[pods]
        self.pod_min[pods] = least = keys.min(axis=1)
        self.pod_ties[pods] = (keys == least[:, None]).sum(axis=1)

    def _evaluate(self, at: Changed) -> tuple[Codes, Numbers]:
        table, request = self._table, self.request
        rows = TableRows(table, at)
        cap = tasks_that_fit(rows, request.need, self._part, request.together)
        self.computed += len(cap)
        if request.tasks_per_node:
            np.minimum(cap, request.tasks_per_node, out=cap)
        key = _packed(self._own_parts, rows, request)
        if self._dear_parts:
            at_slots = np.arange(at.start, at.stop) if isinstance(at, slice) else at
            has_capacity = np.flatnonzero(cap > 0)
            for part in self._dear_parts if len(has_capacity) else ():
                key[has_capacity] |= _dear_codes(part, table, at_slots[has_capacity], request)
        layout = table.layout
        if table.racks.rules:
            key |= codes_of(table.racks.code, layout.rack_slots, at)
        if table.pods.rules:
            key |= codes_of(table.pods.code, layout.pod_slots, at)
        if table.domains.rules:
            key |= table.domains.code[layout.domain[at]]
        if self._cluster_code is not None:
            key |= codes_of(self._cluster_code, layout.pod_slots, at)
        for shared in self._shared:
            key |= shared.code[at]
        np.putmask(key, cap <= 0, INVALID)
        for rule in self._plan.own_validators:
            np.putmask(key, ~rule.allows(rows, request), INVALID)
        cap *= key != INVALID
        return key, cap


def _codes_of_clusters(plan: Plan, table: NodeTable, request: Request) -> Codes | None:
    """Return (pods,) codes of the preferences on clusters; None if all codes are 0."""
    codes = np.zeros(len(table.layout.clusters), dtype=np.uint32)
    for shift, rule in plan.cluster_parts:
        scores = [min(rule.score(cluster, request), rule.steps - 1) for cluster in table.layout.clusters]
        codes |= np.asarray(scores, dtype=np.uint32) << np.uint32(shift)
    return codes[table.layout.cluster_of_pod] if codes.any() else None


def tasks_that_fit(rows: TableRows, need: Amount, part: int = 0, together: int = 1) -> NDArray[np.int32]:
    """Return how many tasks of this need fit on each of these nodes; 0 or less where no task may be placed.

    part      milli of the part of a device that each of `together` tasks needs; `need` is then the sum of their needs
    """
    count: Numbers | None = None
    if part:
        count = parts_that_fit(rows, need.gpu_milli // together, part) // together
    for available, amount in (
        (rows.memory, need.memory_bytes),
        (rows.whole, 0 if part else need.gpu_milli),
        (rows.cpu, need.cpu_milli),
    ):
        if amount:
            here = available // amount
            count = here if count is None else np.minimum(count, here, out=count)
    if count is None:
        return rows.is_open.astype(np.int32) * CAP_MAX
    return np.minimum(count, CAP_MAX, out=count).astype(np.int32)


def parts_that_fit(rows: TableRows, gpu_milli: int, part: int) -> Numbers:
    """Return how many tasks that need a part of a device find devices on each of these nodes.

    gpu_milli   need of one task; a part beside whole devices counts as one more whole device
    """
    whole: Numbers = rows.whole // MILLI
    if gpu_milli > MILLI:
        return whole // (gpu_milli // MILLI + 1)
    whole = whole * (MILLI // part)
    shared = rows.shared
    if shared.shape[1]:
        whole += (shared // np.int16(part)).sum(axis=1, dtype=np.int32)
    return whole


def _packed(parts: Sequence[KeyPart], rows: TableRows, request: Request) -> Codes:
    codes = None
    for part in parts:
        if part.rule.is_idle(rows):
            continue
        code = part.rule.score(rows, request).astype(np.uint32)
        code <<= part.shift
        codes = code if codes is None else np.bitwise_or(codes, code, out=codes)
    return np.zeros(len(rows.gpu), dtype=np.uint32) if codes is None else codes


def _dear_codes(part: KeyPart, table: NodeTable, slots: Numbers, request: Request) -> Codes:
    """Return the codes of an expensive rule for these nodes; if they are many, one node of each sort is scored."""
    if len(slots) < ALIKE_MIN:
        code = part.rule.score(TableRows(table, slots), request)
    else:
        asked, which = table.alike().samples(slots)
        code = part.rule.score(TableRows(table, asked), request)[which]
    code = code.astype(np.uint32)
    code <<= part.shift
    return code
