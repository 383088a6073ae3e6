"""A pool's nodes as arrays, free capacity of each rack, pod, power domain and cluster, and a journal of changes.

A row always holds the latest state. The journal names rows by slots, each change with a revision of its own, so that data derived
from rows can be updated from their own revision on. A unit's code is computed when one of its rows changes; only if the code
changed are all rows of the unit noted as changed.

source    Protean §4 (journal, revisions); Protean's cells are units here
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from core.nouns.quantities import MILLI
from core.placing.index.layout import NO_NODE, RACKS_PER_POD, Layout
from core.placing.index.node_classes import Alike
from core.rules.placement.errors import RuleFailed
from core.rules.placement.rule import NOBODY, Flags, Level, Numbers, UnitPreference

JOURNAL_LENGTH = 1 << 12
"""Changes that can be read back; data with an older revision are computed from scratch."""
FEW = 32
"""Up to so many entries of the journal, and eight times as many slots, a loop is faster than an array."""
CODES_MAX = 1 << 16
"""The most entries in a memo of codes, one for each pair of free and total GPU milli of a unit."""
NO_SLOTS = np.zeros(0, dtype=np.int32)
Span = tuple[int, int]
Changed = slice | Numbers


class Units:
    """The racks, pods, power domains or clusters of a pool: free GPUs of each, and the code of the rules on units."""

    def __init__(self, count: int, rules: Sequence[tuple[int, UnitPreference]]) -> None:
        self.rules = rules
        """Rules, each with the shift of its score in a key."""
        self.free = [0] * count
        self.total = [1] * count
        self.code = np.zeros(count, dtype=np.uint32)
        self._codes = self.code.data
        self._is_level: bool | None = True
        self._code_of: dict[tuple[int, int], int] = {}
        """Memo: codes by free and total GPU milli."""
        self.failures: dict[int, RuleFailed] = {}
        """Errors of rules, by unit. Rows stay right without the code; the next search gets the error."""

    def fill(self, free: Numbers, total: Numbers) -> None:
        """Set all units at once, in GPU milli."""
        total = np.maximum(total, 1)
        self.free, self.total = free.tolist(), total.tolist()
        self.code[:] = 0
        self._is_level = None
        self.failures.clear()
        judged = np.clip(free, 0, total)
        try:
            for shift, rule in self.rules:
                self.code |= (rule.score(judged, total) << shift).astype(np.uint32)
        except RuleFailed:
            self.code[:] = 0
            for unit in range(len(self.free)):
                self.add(unit, 0)

    def add(self, unit: int, gpu_milli: int) -> bool:
        """Add to a unit's free GPU milli, which may be negative; return whether the unit's code changed."""
        self.free[unit] = free = self.free[unit] + gpu_milli
        if not self.rules:
            return False
        total = self.total[unit]
        # A hypothetical search may free more than the total.
        judged = 0 if free < 0 else min(free, total)
        code = self._code_of.get((judged, total), -1)
        if code < 0:
            try:
                code = self._judge(judged, total)
            except RuleFailed as error:
                self.failures[unit] = error
                return False
        if self.failures:
            self.failures.pop(unit, None)
        if code == self._codes[unit]:
            return False
        self._codes[unit] = code
        self._is_level = None
        return True

    def _judge(self, free: int, total: int) -> int:
        code = 0
        for shift, rule in self.rules:
            code |= int(rule.score(free, total)) << shift
        if len(self._code_of) >= CODES_MAX:
            self._code_of.clear()
        self._code_of[free, total] = code
        return code

    @property
    def is_level(self) -> bool:
        """True if all units have the same code."""
        if self._is_level is None:
            self._is_level = bool((self.code == self.code[:1]).all())
        return self._is_level


class NodeTable:
    """Columns over the slots of a layout.

    gpu, cpu     (slots,) int32: milli available; 0 where no task may be placed
    memory       (slots,) int64: bytes available
    gpu_total    (slots,) int32: GPU milli that the node has
    whole        (slots,) int32: milli of wholly free devices: `gpu` less the milli free on shared devices
    shared       (slots, most) int16: milli free on each shared device, in no order; `most` is 0 while no device is shared
    is_open      (slots,) int8: 1 where tasks may be placed
    upkeep       (slots,) int8: 1 where work is planned
    owner        (slots,) int64, coded as in core/placing/index/owners.py
    start        (slots,) int64: the reservation that the node is kept for, by its sequence; 0: no reservation
    not_spare    (slots,) bool: true if no reserve counts the node, because the node is empty only in a hypothetical search
    """

    def __init__(
        self, layout: Layout, rules: Mapping[Level, Sequence[tuple[int, UnitPreference]]] | None = None
    ) -> None:
        self.layout = layout
        rules = rules or {}
        slots = layout.slots
        self.gpu = np.zeros(slots, dtype=np.int32)
        self.whole = self.gpu
        """Milli of wholly free devices: `gpu` itself while no device is shared."""
        self.shared = np.zeros((slots, 0), dtype=np.int16)
        self._shares = False
        self.cpu = np.zeros(slots, dtype=np.int32)
        self.memory = np.zeros(slots, dtype=np.int64)
        self.is_open = np.zeros(slots, dtype=np.int8)
        self.upkeep = np.zeros(slots, dtype=np.int8)
        self.owner = np.full(slots, NOBODY, dtype=np.int64)
        self.start = np.zeros(slots, dtype=np.int64)
        self.has_starts = False
        """True if a node was ever kept for a reservation."""
        self.has_plans = False
        """True if work was ever planned on a node."""
        self.has_owners = False
        """True if a node ever had an owner."""
        self.gpu_total = layout.gpu_total
        self.not_spare = np.zeros(slots, dtype=np.bool_)
        self.island = np.zeros(slots, dtype=np.int32)
        for cluster, (first, last) in zip(layout.clusters, layout.pods_of, strict=True):
            span = slice(first * layout.pod_slots, last * layout.pod_slots)
            self.island[span] = cluster.island
        self.has_islands = bool(((self.island > 0) & (self.island * MILLI < self.gpu_total)).any())
        self.racks = Units(slots // max(1, layout.rack_slots), rules.get(Level.RACK, ()))
        self.pods = Units(layout.pods, rules.get(Level.POD, ()))
        self.domains = Units(len(layout.domains), rules.get(Level.DOMAIN, ()))
        self.clusters = Units(len(layout.clusters), rules.get(Level.CLUSTER, ()))
        self.empty = [0] * len(layout.clusters)
        """Open nodes with all GPUs available, by cluster, without `not_spare`."""
        self.open_gpu = [0] * len(layout.clusters)
        """GPU milli that open nodes have, by cluster."""
        self._units = (self.racks, self.pods, self.domains, self.clusters)
        self.gpu_free = 0
        self.revision = 0
        self._oldest = 0
        """Changes up to this revision are not in the journal."""
        self._firsts, self._lasts = (
            array("i", bytes(4 * JOURNAL_LENGTH)),
            array("i", bytes(4 * JOURNAL_LENGTH)),
        )
        """The journal: the first slot of each change, and the slot after the last."""
        self._answered: tuple[int, int] = (-1, -1)
        """Revisions from and to which `_answer` holds: a class and its shared codes read the same changes in turn."""
        self._answer: Changed | None = None
        self._domain_slots: dict[int, list[Span]] = {}
        self._alike = Alike(slots)
        # Views of the same memory, through which one row is read and written much faster than through the arrays.
        self._gpu, self._cpu, self._memory = self.gpu.data, self.cpu.data, self.memory.data
        self._is_open, self._gpu_total = self.is_open.data, self.gpu_total.data
        self._domain = layout.domain.data

    # Changes.

    def set(
        self, slot: int, gpu: int, cpu: int, memory: int, *, is_open: bool, shared: Sequence[int] = ()
    ) -> None:
        """Set one row."""
        if not is_open:
            gpu = cpu = memory = 0
        is_other = self._set_shared(slot, gpu, shared if is_open else ()) if shared or self._shares else False
        had, was_open = self._gpu[slot], self._is_open[slot]
        more = gpu - had
        if more:
            self._gpu[slot] = gpu
        elif cpu == self._cpu[slot] and memory == self._memory[slot] and is_open == self._is_open[slot]:
            if is_other:
                self._changed(slot, 0)
            return
        self._cpu[slot] = cpu
        self._memory[slot] = memory
        self._is_open[slot] = is_open
        if more or was_open != is_open:
            self._count(slot, had, was_open)
        self._changed(slot, more)

    def set_many(self, rows: Iterable[tuple[int, int, int, int, int]]) -> None:
        """Set many rows of nodes without shared devices, with one update of each unit for all its rows.

        rows   slot, GPU milli, CPU milli, bytes, 1 where tasks may be placed; each slot once
        """
        layout, had_gpu, was_open = self.layout, self._gpu, self._is_open
        rack_slots, domain_of = layout.rack_slots, self._domain
        racks: dict[int, int] = {}
        domains: dict[int, int] = {}
        for slot, gpu, cpu, memory, is_open in rows:
            if self._shares:
                self.set(slot, gpu, cpu, memory, is_open=bool(is_open))
                continue
            if not is_open:
                gpu = cpu = memory = 0  # noqa: PLW2901  # no task may be placed there
            had, open_before = had_gpu[slot], was_open[slot]
            if (
                gpu == had
                and cpu == self._cpu[slot]
                and memory == self._memory[slot]
                and is_open == open_before
            ):
                continue
            had_gpu[slot], self._cpu[slot], self._memory[slot] = gpu, cpu, memory
            was_open[slot] = is_open
            if gpu != had or is_open != open_before:
                self._count(slot, had, open_before)
            self._note((slot, slot + 1))
            if gpu != had:
                rack = slot // rack_slots
                racks[rack] = racks.get(rack, 0) + gpu - had
                domain = domain_of[slot]
                domains[domain] = domains.get(domain, 0) + gpu - had
        self._free_in_units(racks, domains)

    def _set_shared(self, slot: int, gpu: int, shared: Sequence[int]) -> bool:
        """Set the milli free on a node's shared devices; return whether they changed."""
        if not self._shares:
            self._shares, self.whole = True, self.gpu.copy()
        most = self.shared.shape[1]
        if len(shared) > most:
            self.shared = np.pad(self.shared, ((0, 0), (0, len(shared) - most)))
            most = len(shared)
        now = (*shared, *(0,) * (most - len(shared)))
        whole = max(0, gpu - sum(shared))
        if self.whole[slot] == whole and tuple(self.shared[slot].tolist()) == now:
            return False
        self.whole[slot], self.shared[slot] = whole, now
        return True

    def shared_at(self, slot: int) -> tuple[int, ...]:
        """Return the milli free on each shared device of a node, ascending."""
        return tuple(sorted(milli for milli in self.shared[slot].tolist() if milli)) if self._shares else ()

    def set_upkeep(self, slot: int, upkeep: int) -> None:
        """Set whether work on a node is planned: 1 or 0."""
        if self.upkeep[slot] != upkeep:
            self.upkeep[slot] = upkeep
            self.has_plans = True
            self._changed(slot, 0)

    def mark(self, upkeep: Numbers, owner: Numbers, start: Numbers) -> None:
        """Set these columns at once, before data are derived from them: the changes are not noted in the journal."""
        self.upkeep[:], self.owner[:], self.start[:] = upkeep, owner, start
        self.has_plans, self.has_owners = bool(upkeep.any()), bool((owner != NOBODY).any())
        self.has_starts = bool(start.any())

    def set_start(self, slot: int, start: int) -> None:
        """Set the reservation that a node is kept for."""
        if self.start[slot] != start:
            self.start[slot] = start
            self.has_starts = True
            self._changed(slot, 0)

    def set_owner(self, slot: int, owner: int) -> None:
        """Set the owner of a node."""
        if self.owner[slot] != owner:
            self.owner[slot] = owner
            self.has_owners = True
            self._changed(slot, 0)

    def fill(
        self,
        slots: Numbers,
        gpu: Numbers,
        cpu: Numbers,
        memory: Numbers,
        is_open: Flags,
        shared: Numbers | None = None,
    ) -> None:
        """Set many rows at once; all derived data must be computed from scratch afterwards.

        shared   as the column, for all slots
        """
        self.gpu[slots] = np.where(is_open, gpu, 0)
        self.cpu[slots] = np.where(is_open, cpu, 0)
        self.memory[slots] = np.where(is_open, memory, 0)
        self.is_open[slots] = is_open
        self._shares = shared is not None and shared.shape[1] > 0
        self.shared = np.zeros((len(self.gpu), 0), dtype=np.int16)
        self.whole = self.gpu
        if shared is not None and self._shares:
            self.shared = np.where(self.is_open[:, None] > 0, shared, 0).astype(np.int16)
            self.whole = np.maximum(self.gpu - self.shared.sum(axis=1, dtype=np.int32), 0)
        layout = self.layout
        free, total = self.gpu.astype(np.int64), self.gpu_total.astype(np.int64)
        pod_free, pod_total = (column.reshape(layout.pods, -1).sum(axis=1) for column in (free, total))
        rack_shape = (len(self.racks.free), layout.rack_slots)
        self.racks.fill(free.reshape(rack_shape).sum(axis=1), total.reshape(rack_shape).sum(axis=1))
        self.pods.fill(pod_free, pod_total)
        for units, number, columns in (
            (self.domains, layout.domain, (free, total)),
            (self.clusters, layout.cluster_of_pod, (pod_free, pod_total)),
        ):
            sums = [np.bincount(number, weights=column, minlength=len(units.free)) for column in columns]
            units.fill(sums[0].astype(np.int64), sums[1].astype(np.int64))
        self.gpu_free = int(pod_free.sum())
        every = slice(0, layout.slots)
        for figures, column in ((self.empty, self.is_empty(every)), (self.open_gpu, total * self.is_open)):
            by_pod = column.reshape(layout.pods, -1).sum(axis=1)
            by_cluster = np.bincount(layout.cluster_of_pod, weights=by_pod, minlength=len(figures))
            figures[:] = by_cluster.astype(np.int64).tolist()
        self.revision += 1
        self._oldest = self.revision

    def _count(self, slot: int, had: int, was_open: int) -> None:
        """Update the cluster's counts after a row changed from `had` GPU milli, and from open (1) or closed (0)."""
        total, is_open = self._gpu_total[slot], self._is_open[slot]
        was_empty, is_empty = was_open and had == total, is_open and self._gpu[slot] == total
        if was_empty == is_empty and was_open == is_open:
            return
        cluster = int(self.layout.cluster_of_pod[slot // self.layout.pod_slots])
        if total and not self.not_spare[slot]:
            self.empty[cluster] += bool(is_empty) - bool(was_empty)
        self.open_gpu[cluster] += total * (is_open - was_open)

    def _changed(self, slot: int, more: int) -> None:
        """Note a changed row, and add `more` GPU milli to its units."""
        self._note((slot, slot + 1))
        if more:
            self._free_in_units({slot // self.layout.rack_slots: more}, {self._domain[slot]: more})

    def _free_in_units(self, racks: dict[int, int], domains: dict[int, int]) -> None:
        """Add free GPU milli to racks and power domains, and to the pods and clusters of these racks."""
        layout = self.layout
        pods: dict[int, int] = {}
        clusters: dict[int, int] = {}
        for rack, more in racks.items():
            if self.racks.add(rack, more):
                self._note((rack * layout.rack_slots, (rack + 1) * layout.rack_slots))
            pod = rack // RACKS_PER_POD
            pods[pod] = pods.get(pod, 0) + more
        for pod, more in pods.items():
            if self.pods.add(pod, more):
                self._note((pod * layout.pod_slots, (pod + 1) * layout.pod_slots))
            cluster = int(layout.cluster_of_pod[pod])
            clusters[cluster] = clusters.get(cluster, 0) + more
        for domain, more in domains.items():
            if self.domains.add(domain, more):
                for span in self._spans_of(domain):
                    self._note(span)
        for cluster, more in clusters.items():
            self.gpu_free += more
            self.clusters.add(cluster, more)  # No key has a cluster's code, so no rows are noted.

    def _note(self, span: Span) -> None:
        at = self.revision % JOURNAL_LENGTH
        self._firsts[at], self._lasts[at] = span
        self.revision += 1

    def _spans_of(self, domain: int) -> list[Span]:
        """Return the slots of a power domain, as runs."""
        known = self._domain_slots.get(domain)
        if known is None:
            inside = np.flatnonzero((self.layout.domain == domain) & (self.layout.node != NO_NODE))
            breaks = np.flatnonzero(np.diff(inside) != 1) + 1
            runs = [run for run in np.split(inside, breaks) if len(run)]
            known = self._domain_slots[domain] = [(int(run[0]), int(run[-1]) + 1) for run in runs]
        return known

    # Reads.

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the columns."""
        columns = (
            self.gpu,
            self.cpu,
            self.memory,
            self.gpu_total,
            self.is_open,
            self.upkeep,
            self.owner,
            self.start,
            self.island,
        )
        return sum(column.nbytes for column in columns)

    def is_empty(self, at: Changed) -> Flags:
        """Return which of these rows a reserve counts: open nodes with all GPUs available, without `not_spare`."""
        total = self.gpu_total[at]
        is_whole = (self.gpu[at] == total) & (total > 0) & (self.is_open[at] > 0)
        found: Flags = is_whole & ~self.not_spare[at]
        return found

    @property
    def knows_alike(self) -> bool:
        """True if `alike` was ever called."""
        return self._alike.seen >= 0

    def alike(self) -> Alike:
        """Return the sorts of alike nodes, up to date. They are computed on demand, so a rare caller waits longer."""
        alike = self._alike
        if alike.seen != self.revision:
            at = self.changed_since(alike.seen) if alike.seen >= 0 else None
            columns = (self.layout.node_type, self.gpu, self.cpu, self.memory)
            alike.update(columns, self.shared, at)
            alike.seen = self.revision
        return alike

    @property
    def failed(self) -> RuleFailed | None:
        """The error of a rule on units; until the rule works again, no task can be placed by this rule set."""
        for units in self._units:
            if units.failures:
                return next(iter(units.failures.values()))
        return None

    def changed_since(self, revision: int) -> Changed | None:
        """Return the slots that changed after a revision, ascending; None if they are unknown.

        None also if separate runs add up to more than a quarter of all slots.

        returns   a slice if the slots are adjacent, else an array
        """
        count = self.revision - revision
        if revision < self._oldest or count > JOURNAL_LENGTH:
            return None
        first = revision % JOURNAL_LENGTH
        if count == 1:
            return slice(self._firsts[first], self._lasts[first])
        if not count:
            return slice(0, 0)
        asked = revision, self.revision
        if self._answered != asked:
            self._answered, self._answer = asked, self._slots_in(first, count)
        return self._answer

    def _slots_in(self, first: int, count: int) -> Changed | None:
        """Return the slots of `count` entries of the journal, from index `first`."""
        if count <= FEW:
            return self._few_in(first, count)
        at = np.arange(first, first + count) % JOURNAL_LENGTH
        firsts, lasts = (np.frombuffer(column, dtype=np.int32)[at] for column in (self._firsts, self._lasts))
        is_run = lasts - firsts > 1
        return self._slots_of(set(zip(firsts[is_run].tolist(), lasts[is_run].tolist(), strict=True)), firsts)

    def _few_in(self, first: int, count: int) -> Changed | None:
        """Return the same as `_slots_in`, faster for few entries."""
        last, wrapped = first + count, first + count - JOURNAL_LENGTH
        spans = set(zip(self._firsts[first:last], self._lasts[first:last], strict=True))
        if wrapped > 0:
            spans.update(zip(self._firsts[:wrapped], self._lasts[:wrapped], strict=True))
        lowest, highest = min(span[0] for span in spans), max(span[1] for span in spans)
        if (lowest, highest) in spans:
            return slice(lowest, highest)
        if sum(end - start for start, end in spans) > 8 * FEW:
            return self._slots_of(spans)
        slots = {slot for start, end in spans for slot in range(start, end)}
        if highest - lowest == len(slots):
            return slice(lowest, highest)
        return None if 4 * len(slots) > self.layout.slots else np.asarray(sorted(slots), dtype=np.int64)

    def _slots_of(self, spans: Iterable[Span], singles: Numbers = NO_SLOTS) -> Changed | None:
        """Return the slots of some spans, and single slots beside them."""
        is_changed = np.zeros(self.layout.slots, dtype=bool)
        is_changed[singles] = True
        for start, end in spans:
            is_changed[start:end] = True
        slots = np.flatnonzero(is_changed)
        lowest, highest = int(slots[0]), int(slots[-1]) + 1
        if highest - lowest == len(slots):
            return slice(lowest, highest)
        return None if 4 * len(slots) > self.layout.slots else slots
