"""Nodes for tasks, from an up-to-date class: one node for a task, or few racks for a gang.

One task goes to the best cluster with capacity, there to the nodes with the least key, and among them to a drawn one. A gang goes
to the tightest unit that holds all tasks: a node, else a rack, a pod, a cluster, the whole pool; inside the unit, to as few racks
and nodes as possible, better keys first.

Agents that search at one time keep apart. One that folds every fact first looks at pods of its own, unless a node elsewhere is of a
better tier for the task. One that takes in rows alone searches one partition (core/placing/partitions.py) and reads its rows alone:
clusters are not compared there, and of a key only the bits that follow from a node and its rack.

source    Protean §3 (random among the best), spec: best fit over units, fewest racks
"""

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from core.nouns.limits import BEST_MAX, BEST_SHARE
from core.nouns.workload import Extent
from core.placing.index.layout import RACKS_PER_POD
from core.placing.index.pool_partitions import PoolPartitions
from core.placing.index.request_classes import INVALID, RequestClass
from core.placing.index.rows import TableRows
from core.placing.index.table import NodeTable
from core.placing.pick.draw import drawn
from core.placing.pick.extents import Extents, evenly
from core.rules.placement.plan import KEY_BITS, NO_KEY, Plan
from core.rules.placement.rule import Codes, Flags, Numbers, Request

Placed = list[tuple[int, int]]
"""Slots, and the number of tasks on each."""
ALL_BITS = np.uint32(0xFFFFFFFF)
SURVIVORS_MAX = 512
"""The most nodes that a refinement reads; of more, so many are drawn."""


class Choice(Struct, frozen=True):
    """An agent's choice beside the rules, by which agents with one view choose different nodes."""

    seed: str
    stripe: int = 0
    stripes: int = 1
    """Pods whose number is `stripe` modulo `stripes` come first."""
    best: int = 1
    """The number of best nodes in the draw, beside nodes equal to the last of them (Protean's N0); 1: only equally good ones."""
    partition: int = -1
    """The partition that alone is searched; -1: the whole pool."""
    is_weighted: bool = False
    """True if each node of the partition with capacity may be drawn, better ones more often: for experiments (ParSync)."""


def best_of(best: int, candidates: int) -> int:
    """Return the number of nodes among which one is drawn, given `best`: never so many that packing is lost.

    source    spec/protean-parsync.md §6.4: without a cap fragmentation causes the conflicts that raise it
    """
    return max(1, min(best, BEST_MAX, candidates // BEST_SHARE))


def some_of(found: Numbers, seed: str, *, is_by_name: bool = False) -> Numbers:
    """Return as many as a refinement reads, at even distances from a drawn start, so that each is equally likely.

    is_by_name   start at the first one instead
    """
    count = len(found)
    if count <= SURVIVORS_MAX:
        return found
    start = 0 if is_by_name else drawn(f"{seed}|survivors", count)
    some: Numbers = found[(np.arange(SURVIVORS_MAX, dtype=np.int64) * count + start) // SURVIVORS_MAX]
    return some


def best_of_type(rank: Codes, node_type: Numbers, has_capacity: Flags) -> Flags:
    """Return the mask of rows with capacity in the best cluster with capacity of their type. Types are not compared by fullness.

    rank        rank of each row's cluster: 0 is best
    node_type   as in Layout
    """
    best = np.full(int(node_type.max(initial=0)) + 1, INVALID, dtype=np.uint32)
    np.minimum.at(best, node_type[has_capacity], rank[has_capacity])
    found: Flags = has_capacity & (rank == best[node_type])
    return found


def one_of(table: NodeTable, slots: Numbers, seed: str, *, is_by_name: bool) -> int:
    """Return one of the nodes that are equal by all rules, given in the order of slots: the first by name, or a drawn one."""
    if is_by_name:
        return int(slots[table.layout.node[slots].argmin()])
    return int(slots[drawn(seed, len(slots))])


def refined(table: NodeTable, plan: Plan, request: Request, slots: Numbers, seed: str) -> int:
    """Return the best by the plan's refinements of a few nodes that are equal by all preferences, given in the order of slots."""
    for rule in plan.refinements:
        if len(slots) == 1:
            break
        cost = rule.cost(TableRows(table, slots), request)
        slots = slots[cost == cost.min()]
    return one_of(table, slots, seed, is_by_name=plan.is_by_name)


class Picker:
    """The choice of slots by the classes of one table."""

    def __init__(self, table: NodeTable, plan: Plan) -> None:
        self._table, self._layout = table, table.layout
        self._plan = plan
        self._extents = Extents(table.layout)
        self.partitions: PoolPartitions | None = None
        """The racks of the pool by partition; None: no partition is ever searched by itself."""

    # One task.

    def pick(self, one: RequestClass, choice: Choice) -> int | None:
        """Return a slot for one task, or None."""
        if choice.partition >= 0:
            return self._pick_in_partition(one, choice)
        if choice.stripes > 1:
            own = self._least(one, choice.stripe, choice.stripes)
            best = int(own.min(initial=INVALID))
            if best != INVALID and self._is_of_best_tier(one, best):
                return self._pick_of(one, choice, own, choice.stripe, choice.stripes)
        return self._pick_of(one, choice, self._least(one, 0, 1), 0, 1)

    def _is_of_best_tier(self, one: RequestClass, best: int) -> bool:
        """Return whether no node elsewhere is of a better tier than the best one of the own pods."""
        shift = self._plan.tier_shift
        return shift == KEY_BITS or best >> shift == int(self._least(one, 0, 1).min()) >> shift

    def _least(self, one: RequestClass, first: int, step: int) -> Numbers:
        """Return the least keys of pods `first` modulo `step`, INVALID outside the best clusters with capacity."""
        least = one.pod_min if step == 1 else one.pod_min[first::step]
        if not one.has_rivals or self._table.clusters.is_level or not len(least):
            return least
        rank = self._table.clusters.code[self._layout.cluster_of_pod[first::step]]
        is_best = best_of_type(rank, self._layout.type_of_pod[first::step], least != INVALID)
        return np.where(is_best, least, INVALID)

    def _pick_of(
        self, one: RequestClass, choice: Choice, least: Numbers, first: int, step: int
    ) -> int | None:
        best = int(np.minimum.reduce(least)) if len(least) else INVALID
        if best == INVALID:
            return None
        pods = (least == best).nonzero()[0]
        if step > 1:
            pods = pods * step + first
        wanted = self._wanted(one, choice)
        if wanted > 1:
            return self._one_of_best(one, wanted, choice.seed, (least, first, step))
        if self._plan.refinements:
            return self._refined(one, choice, pods, best)
        if self._plan.is_by_name:
            found = self._slots_of(pods, np.flatnonzero(self._keys_of(one, pods) == best))
            return one_of(self._table, found, choice.seed, is_by_name=True)
        if len(pods) == 1:
            pod, which = int(pods[0]), drawn(choice.seed, int(one.pod_ties[pods[0]]))
        else:
            upto = one.pod_ties[pods].cumsum()
            which = drawn(choice.seed, int(upto[-1]))
            index = int(upto.searchsorted(which, side="right"))
            pod = int(pods[index])
            which -= int(upto[index - 1]) if index else 0
        first_slot = pod * self._layout.pod_slots
        inside = (one.key[first_slot : first_slot + self._layout.pod_slots] == best).nonzero()[0]
        return first_slot + int(inside[which])

    def _wanted(self, one: RequestClass, choice: Choice) -> int:
        """Return the number of best nodes among which one is drawn."""
        return best_of(choice.best, int(np.count_nonzero(one.cap))) if choice.best > 1 else 1

    # Some racks.

    def _pick_in_partition(self, one: RequestClass, choice: Choice) -> int | None:
        """Return a slot in one partition."""
        assert self.partitions is not None
        rows, mask = self.partitions.within(choice.partition), self._plan.mask_in_partition
        least = one.rack_keys(mask)[rows]
        best = int(least.min(initial=INVALID))
        if best >= NO_KEY:
            return None
        if choice.is_weighted:
            return self._weighted(one, rows, mask, choice.seed)
        size, wanted = self._layout.rack_slots, 1
        if choice.best > 1:
            wanted = best_of(choice.best, int(np.count_nonzero(one.cap.reshape(-1, size)[rows])))
        rows = rows[least < NO_KEY] if wanted > 1 else rows[least == best]
        return self._one_in(one, rows, mask, best, wanted, choice)

    def _one_in(
        self, one: RequestClass, rows: Numbers, mask: np.uint32, best: int, wanted: int, choice: Choice
    ) -> int:
        """Return one of the best nodes of some racks, which have nodes with capacity."""
        size = self._layout.rack_slots
        key = one.key.reshape(-1, size)[rows] & mask
        if wanted > 1:
            valid = key[key < NO_KEY]
            at = min(wanted, len(valid)) - 1
            found = np.flatnonzero(key <= np.partition(valid, at)[at])
        else:
            found = np.flatnonzero(key == best)
        slots: Numbers = rows[found // size] * size + found % size
        if wanted > 1:
            return int(slots[drawn(choice.seed, len(slots))])
        by_name = self._plan.is_by_name
        if self._plan.refinements:
            some = some_of(slots, choice.seed, is_by_name=by_name)
            return refined(self._table, self._plan, one.request, some, choice.seed)
        return one_of(self._table, slots, choice.seed, is_by_name=by_name)

    def _weighted(self, one: RequestClass, rows: Numbers, mask: np.uint32, seed: str) -> int:
        """Return a node with capacity, drawn by how much better its key is than the worst one.

        source    ParSync (ATC'21): weighted sampling by score
        """
        size = self._layout.rack_slots
        key = one.key.reshape(-1, size)[rows] & mask
        found = np.flatnonzero(key < NO_KEY)
        keys = key.ravel()[found].astype(np.int64)
        upto = (keys.max() - keys + 1).cumsum()
        at = found[int(upto.searchsorted(drawn(seed, int(upto[-1])), side="right"))]
        return int(rows[at // size] * size + at % size)

    def _keys_of(self, one: RequestClass, pods: Numbers) -> Numbers:
        by_pod = one.key.reshape(-1, self._layout.pod_slots)
        return by_pod if len(pods) == len(by_pod) else by_pod[pods]

    def _slots_of(self, pods: Numbers, found: Numbers) -> Numbers:
        """Return the slots of positions in the keys of these pods."""
        size = self._layout.pod_slots
        slots: Numbers = pods[found // size] * size + found % size
        return slots

    def _refined(self, one: RequestClass, choice: Choice, pods: Numbers, best: int) -> int:
        """Return the best node by the refinements, which are too slow to evaluate for every node."""
        equal, plan = np.flatnonzero(self._keys_of(one, pods) == best), self._plan
        found = self._slots_of(pods, some_of(equal, choice.seed, is_by_name=plan.is_by_name))
        return refined(self._table, plan, one.request, found, choice.seed)

    def _one_of_best(
        self, one: RequestClass, wanted: int, seed: str, pods_of: tuple[Numbers, int, int]
    ) -> int:
        """Return one of the best nodes: of the `wanted` best, and of all that equal the last of them."""
        least, first, step = pods_of
        # 1. Pods have at least so many nodes with their least key: with the wanted ones among them, no worse key is needed.
        in_order = np.argsort(least, kind="stable")
        upto = one.pod_ties[first::step][in_order].cumsum()
        last = min(int(upto.searchsorted(wanted)), len(upto) - 1)
        bound = min(int(least[in_order[last]]), INVALID - 1)
        pods = np.flatnonzero(least <= bound) * step + first
        # 2. Among these, the key of the last one wanted.
        key = self._keys_of(one, pods)
        better = key[key < bound]
        if len(better) >= wanted:
            bound = int(np.partition(better, wanted - 1)[wanted - 1])
        found = np.flatnonzero(key <= bound)
        which = drawn(seed, len(found))
        return int(self._slots_of(pods, found[which : which + 1])[0])

    # A gang.

    def place(
        self,
        one: RequestClass,
        tasks: int,
        choice: Choice,
        pack: Extent = Extent.ANY,
        spread: Extent = Extent.ANY,
    ) -> Placed | None:
        """Return slots for all tasks in the tightest unit that holds them, or None.

        pack     the largest unit in which the tasks may lie
        spread   the units over which the tasks are spread: all with capacity, as evenly as possible; tightly only inside each
        """
        layout = self._layout
        if choice.partition >= 0:
            return self._place_in_partition(one, tasks, choice)
        if int(one.pod_cap.sum()) < tasks:
            return None
        if spread:
            return self._spread(one, tasks, choice, pack, spread)
        racks = self._tightest(one.rack_cap, tasks, choice, RACKS_PER_POD)
        if racks is not None:
            return self._fill(one, np.asarray([racks]), tasks)
        if pack:
            return self._packed(one, tasks, choice, pack)
        pod = self._tightest(one.pod_cap, tasks, choice, 1)
        if pod is not None:
            return self._fill(one, self._racks_of(np.asarray([pod])), tasks)
        per_cluster = [int(one.pod_cap[first:last].sum()) for first, last in layout.pods_of]
        cluster = self._tightest(np.asarray(per_cluster), tasks, choice, 0)
        first, last = layout.pods_of[cluster] if cluster is not None else (0, layout.pods)
        pods = np.arange(first, last)
        return self._fill(one, self._racks_of(self._fewest(one.pod_cap, pods, tasks)), tasks)

    def _place_in_partition(self, one: RequestClass, tasks: int, choice: Choice) -> Placed | None:
        """Return slots for all tasks in the tightest rack of one partition, or None."""
        assert self.partitions is not None
        rows = self.partitions.within(choice.partition)
        row = self._tightest(one.rack_cap[rows], tasks, replace(choice, stripes=1), RACKS_PER_POD)
        if row is None:
            return None
        return self._fill(one, rows[row : row + 1], tasks, self._plan.mask_in_partition)

    def most_in_one(self, slots: Numbers, caps: Numbers, pack: Extent) -> int:
        """Return the tasks that the unit with most capacity holds, if `caps` (slots,) fit on these slots and no tasks on others."""
        if pack is Extent.NODE:
            return int(caps.max(initial=0))
        size = self._layout.rack_slots
        by_row = np.bincount(slots // size, weights=caps, minlength=self._layout.slots // size)
        return int(self._extents.sums(pack, by_row).max(initial=0))

    def _packed(self, one: RequestClass, tasks: int, choice: Choice, pack: Extent) -> Placed | None:
        """Return slots in the tightest rack, else pod, else zone that holds all tasks, up to the extent `pack`."""
        for extent in self._extents.up_to(pack):
            unit = self._tightest(self._extents.sums(extent, one.rack_cap), tasks, choice, 0)
            if unit is not None:
                return self._fill(one, self._extents.rows(extent, unit), tasks)
        return None

    def _spread(
        self, one: RequestClass, tasks: int, choice: Choice, pack: Extent, spread: Extent
    ) -> Placed | None:
        """Return slots with the tasks spread evenly over units; better units get one task more if not all can."""
        extents, caps = self._extents, one.rack_cap
        if pack:
            whole = extents.widest(pack, spread, caps, tasks)
            if whole is None:
                return None
            caps = np.where(extents.of_row[pack] == whole, caps, 0)
        best = one.key.reshape(len(caps), -1).min(axis=1)
        order = extents.best_first(spread, np.where(caps > 0, best, INVALID), choice.seed)
        counts = evenly(extents.sums(spread, caps), order, tasks)
        placed: Placed = []
        for unit in np.flatnonzero(counts).tolist():
            rows = extents.rows(spread, unit)
            placed.extend(self._fill(one, rows[caps[rows] > 0], int(counts[unit])))
        return placed

    def _tightest(self, caps: Numbers, tasks: int, choice: Choice, units_per_pod: int) -> int | None:
        """Return the smallest unit that holds all tasks, in the own stripe if possible; of equals, the first or a drawn one."""
        if not len(caps) or np.maximum.reduce(caps) < tasks:
            return None
        enough = np.flatnonzero(caps >= tasks)
        if choice.stripes > 1 and units_per_pod:
            own = enough[enough // units_per_pod % choice.stripes == choice.stripe]
            enough = own if len(own) else enough
        of_enough = caps[enough]
        best = enough[of_enough == of_enough.min()]
        return int(best[0 if self._plan.is_by_name else drawn(choice.seed, len(best))])

    def _racks_of(self, pods: Numbers) -> Numbers:
        return (pods[:, None] * RACKS_PER_POD + np.arange(RACKS_PER_POD)).ravel()

    def _fewest(self, caps: Numbers, units: Numbers, tasks: int) -> Numbers:
        """Return the fewest of these units that hold all tasks: the widest first, the last one the tightest that holds the rest."""
        mine = caps[units]
        order = np.argsort(-mine, kind="stable")
        upto = mine[order].cumsum()
        count = int(upto.searchsorted(tasks))
        rest = tasks - (int(upto[count - 1]) if count else 0)
        others = order[count:]
        enough = others[mine[others] >= rest]
        last = enough[np.argmin(mine[enough])]
        chosen: Numbers = units[np.append(order[:count], last)]
        return chosen

    def _fill(self, one: RequestClass, racks: Numbers, tasks: int, mask: np.uint32 = ALL_BITS) -> Placed:
        """Return slots for all tasks on the fewest of these racks: all but the last filled whole, the last on the fewest nodes.

        Between nodes of equal capacity in the last rack the better one is taken.
        """
        chosen = self._fewest(one.rack_cap, racks, tasks)
        size = self._layout.rack_slots
        placed: Placed = []
        whole, last = chosen[:-1], int(chosen[-1])
        if len(whole):
            slots = (whole[:, None] * size + np.arange(size)).ravel()
            caps = one.cap[slots]
            has = caps > 0
            placed.extend(zip(slots[has].tolist(), caps[has].tolist(), strict=True))
            tasks -= int(caps.sum())
        slots = np.arange(last * size, (last + 1) * size)
        caps, key = one.cap[slots], one.key[slots] & mask
        order = np.lexsort((key, -caps))
        upto = caps[order].cumsum(dtype=np.int64)
        count = int(upto.searchsorted(tasks))
        placed.extend(zip(slots[order[:count]].tolist(), caps[order[:count]].tolist(), strict=True))
        rest = tasks - (int(upto[count - 1]) if count else 0)
        if rest:
            others = order[count:]
            enough = others[caps[others] >= rest]
            tight = caps[enough] == caps[enough].min()
            best = enough[tight][np.argmin(key[enough[tight]])]
            placed.append((int(slots[best]), rest))
        return placed
