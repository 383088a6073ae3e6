"""The search for moves that free whole nodes or racks for the least lost work.

Units (nodes or racks) that are partly used are tried in the order of their cost: the lost work of every gang or task with a part
on the unit, divided by the number of units that come free. A unit is emptied if an agent would find a place for all its work,
beside the moves planned before, and if more units come free than are newly used. No move uses capacity that another one leaves,
so moves may be made in any order. Work that an earlier move brings to a unit goes elsewhere by that same move, at no further
cost. The search is greedy: each step takes the cheapest unit, and the steps together need not be optimal.
"""

from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from core.defrag.what_if import Mover, MoverId, Sketch, movers_of
from core.images import RegionImage
from core.images.capacity import Capacity
from core.nouns.defragmentation import Freed, Freeing, Immovable, Plan
from core.nouns.ids import RegionName
from core.nouns.instant import Instant
from core.nouns.operation import WHOLE
from core.nouns.placement import Spread
from core.nouns.workload import JobSpec
from core.placing.diagnosis.fragmentation import is_unused, nodes_with_gpus, racks_of, wholeness_of
from core.placing.pool_set import request_of

SECTIONS = (
    "agents",
    "attempts",
    "capacity",
    "control",
    "maintenance",
    "pools",
    "preemption",
    "prices",
    "starts",
)
"""Sections of a region's image that a plan is made from."""
Cost = tuple[int, int, int, int]
"""GPU-seconds lost and GPU milli moved, each per unit that comes free; number of moves; the unit."""
Made = tuple[Mover, tuple[Spread, ...], tuple[Spread, ...]]
"""A mover, with its spreads before and after the move."""


def planned(
    image: RegionImage,
    region: RegionName,
    sequence: int,
    now: Instant,
    freeing: Freeing,
    *,
    count: int = 0,
    gpu_type: str = "",
) -> Plan:
    """Return the plan, the cheapest moves first.

    image       not changed; must have `SECTIONS`
    sequence    sequence of the region's log to which the image is folded
    now         time up to which lost work is counted
    count       number of nodes or racks to free; 0: as many as possible
    """
    search = _Search(image, now, freeing, gpu_type)
    freed = search.run(count)
    return Plan(
        region,
        image.attempts.log_id,
        sequence,
        now,
        freeing,
        gpu_type,
        freed,
        wholeness_of(image.capacity, gpu_type),
        wholeness_of(search.opened(), gpu_type),
        search.stays(),
    ).summed_up()


class _Search:
    """The state of nodes and units. Each unit is tried once, or twice if the first try shows a higher cost than estimated."""

    def __init__(self, image: RegionImage, now: Instant, freeing: Freeing, gpu_type: str) -> None:
        capacity = image.capacity
        nodes = nodes_with_gpus(capacity, gpu_type)
        is_of_racks = freeing is Freeing.RACKS
        self.units = racks_of(capacity, nodes) if is_of_racks else {node: [node] for node in nodes}
        self.freeing, self.unit_of = freeing, {n: unit for unit, mine in self.units.items() for n in mine}
        self.sketch, self.movers = Sketch(image), movers_of(image, now)
        self.on: dict[int, dict[MoverId, None]] = {}
        for mover in self.movers.values():
            for node in mover.nodes():
                self.on.setdefault(node, {})[mover.id] = None
        self.is_open = [
            capacity.has_node(node) and capacity.is_open(node) for node in range(len(capacity.rack))
        ]
        self.free = {unit for unit in self.units if self._is_free(unit)}
        self.why: dict[int, Immovable] = {}
        self._to: dict[MoverId, tuple[Spread, ...]] = {}
        """New spreads of the movers that move."""
        self._closed: list[int] = []
        self._homeless: set[object] = set()
        """Shapes of gangs that found no place as the first of their unit. Later tries skip them: free capacity never grows."""
        self._emptied: dict[frozenset[MoverId], int] = {}
        self._tried: set[int] = set()
        self._gain: dict[int, int] = {}
        """Number of units that come free, by unit that was tried and put back."""
        self._most = _most_beside(capacity, nodes)

    def run(self, count: int) -> tuple[Freed, ...]:
        """Return the freed units, until `count` more are free or no further unit can be freed."""
        freed: list[tuple[list[int], list[Mover]]] = []
        costs = [cost for unit in self.units if (cost := self._cost(unit)) is not None]
        heapify(costs)
        before = len(self.free)
        while costs and (not count or len(self.free) - before < count):
            cost = heappop(costs)
            unit = cost[-1]
            now = self._cost(unit) if unit not in self._tried else None
            if now is None:
                continue
            if now > cost:
                heappush(costs, now)
                continue
            one = self._try(unit, costs[0] if costs else cost)
            if one is not None:
                freed.append(one)
            # Units that are cheaper now, because part of their work moves as well; or the unit itself, at a corrected cost.
            for other in self._beside(one[1]) if one is not None else [unit]:
                cost_now = self._cost(other)
                if cost_now is not None:
                    heappush(costs, cost_now)
        return tuple(self._freed(*one) for one in freed)

    def _freed(self, gained: list[int], movers: list[Mover]) -> Freed:
        nodes = sorted(node for one in gained for node in self.units[one])
        racks = tuple(gained) if self.freeing is Freeing.RACKS else ()
        return Freed(tuple(nodes), tuple(mover.to(self._to[mover.id]) for mover in movers), racks)

    def opened(self) -> Capacity:
        """Return the capacity with all moves made and the emptied units open again."""
        for unit in self._closed:
            self.sketch.open(f"unit-{unit}", self.units[unit])
        self.sketch.let_go()
        return self.sketch.capacity

    def stays(self) -> dict[str, int]:
        """Return the number of examined units that stay in use, by reason."""
        found = Counter(str(why) for unit, why in self.why.items() if unit not in self.free)
        return dict(sorted(found.items()))

    # Costs.

    def _cost(self, unit: int) -> Cost | None:
        """Return the cost of emptying a unit; None if the unit is free, or stays in use for the reason then kept in `why`."""
        if unit in self.free:
            return None
        movers = self._movers_on(self.units[unit])
        why = self._why_not(unit, movers)
        if why is not None:
            self.why[unit] = why
            return None
        emptied = self._gain.get(unit) or self._emptied_by(frozenset(mover.id for mover in movers))
        return _cost_of(unit, [mover for mover in movers if mover.id not in self._to], emptied)

    def _movers_on(self, nodes: Iterable[int]) -> list[Mover]:
        found = dict.fromkeys(one for node in nodes for one in self.on.get(node, ()))
        return [self.movers[one] for one in found]

    def _why_not(self, unit: int, movers: list[Mover]) -> Immovable | None:
        nodes = self.units[unit]
        if not all(self.is_open[node] for node in nodes):
            return Immovable.CLOSED
        for mover in movers:
            if mover.why_not is not None:
                return mover.why_not
        if self._is_promised(nodes):
            return Immovable.PROMISED
        is_vain = self.freeing is Freeing.NODES and any(self._takes_free_ones(mover) for mover in movers)
        return Immovable.NO_GAIN if is_vain else None

    def _takes_free_ones(self, mover: Mover) -> bool:
        """Return whether every task is too large to fit beside other work: the move would take as many nodes as it frees."""
        return all(job.need.gpu_milli > self._most_for(job) for job in mover.jobs)

    def _most_for(self, job: JobSpec) -> int:
        return max((milli for node_type, milli in self._most.items() if job.takes(node_type)), default=0)

    def _emptied_by(self, movers: frozenset[MoverId]) -> int:
        """Return the number of units that are free once these movers are gone; at least 1, for the unit in question."""
        known = self._emptied.get(movers)
        if known is None:
            nodes = {node for one in sorted(movers) for node in self._nodes_of(one)}
            units = {self.unit_of[node] for node in nodes if node in self.unit_of}
            known = self._emptied[movers] = max(
                1, sum(self._is_left_by(movers, unit) for unit in sorted(units))
            )
        return known

    def _is_left_by(self, movers: frozenset[MoverId], unit: int) -> bool:
        nodes = self.units[unit]
        return all(self.is_open[node] and movers.issuperset(self.on.get(node, ())) for node in nodes)

    # Trying.

    def _try(self, unit: int, next_best: Cost) -> tuple[list[int], list[Mover]] | None:
        """Find places for all work of a unit; undo the moves if a place is missing or no unit is gained.

        next_best   cost of the next unit: a unit that proves dearer is put back and waits for its turn
        returns     the units that come free, and the movers that did not move before
        """
        self._tried.add(unit)
        self.sketch.close(f"unit-{unit}", self.units[unit])
        made: list[Made] = []
        movers = self._movers_on(self.units[unit])
        for mover in sorted(movers, key=lambda one: (-_size(one), -one.gpu_milli, one.id)):
            one = self._find(mover, unit, is_first=not made)
            if one is None:
                self._take_back(made, unit, Immovable.NO_ROOM)
                return None
            made.append(one)
        new = [mover for mover, at, _ in made if at == mover.spreads]
        changed = self._units_of(made)
        now_free = {one for one in sorted(changed) if self._is_free(one)}
        gained = sorted(now_free - self.free)
        gain = len(gained) - len((changed & self.free) - now_free)
        if gain <= 0:
            self._take_back(made, unit, Immovable.NO_GAIN)
            return None
        if unit not in self._gain and _cost_of(unit, new, gain) > next_best:
            self._gain[unit] = gain
            self._take_back(made, unit, None)
            self._tried.discard(unit)
            return None
        self._closed.append(unit)
        self.free -= changed
        self.free |= now_free
        self._emptied.clear()
        return gained, new

    def _find(self, mover: Mover, unit: int, *, is_first: bool) -> Made | None:
        """Move a mover to the place that an agent would choose, and return the move; without a place, leave the mover."""
        shape = tuple((request_of(job, mover.asker), job.tasks) for job in mover.jobs)
        if shape in self._homeless:
            return None
        at = self._to.get(mover.id, mover.spreads)
        self.sketch.take_out(mover, at)
        spreads = self.sketch.find(mover)
        self.sketch.put(mover, at if spreads is None else spreads)
        if spreads is not None:
            self._stands(mover, spreads)
            return mover, at, spreads
        is_all_there = all(self.unit_of.get(node) == unit for node in self._nodes_of(mover.id))
        if is_first and is_all_there and mover.task == WHOLE:
            self._homeless.add(shape)
        return None

    def _take_back(self, made: list[Made], unit: int, why: Immovable | None) -> None:
        for mover, at, spreads in reversed(made):
            self.sketch.take_out(mover, spreads)
            self.sketch.put(mover, at)
            self._stands(mover, at)
        self.sketch.open(f"unit-{unit}", self.units[unit])
        if why is not None:
            self.why[unit] = why

    def _stands(self, mover: Mover, spreads: tuple[Spread, ...]) -> None:
        """Record the present spreads of a mover."""
        for node in self._nodes_of(mover.id):
            del self.on[node][mover.id]
        if spreads == mover.spreads:
            self._to.pop(mover.id, None)
        else:
            self._to[mover.id] = spreads
        for node in self._nodes_of(mover.id):
            self.on.setdefault(node, {})[mover.id] = None

    def _units_of(self, made: list[Made]) -> set[int]:
        """Return the units that the moves leave or reach."""
        nodes = {node for _, at, spreads in made for spread in (*at, *spreads) for node in spread.nodes}
        return {self.unit_of[node] for node in nodes if node in self.unit_of}

    def _is_free(self, unit: int) -> bool:
        """Return whether the unit is open, without work once all planned moves are made, and without promised capacity."""
        nodes = self.units[unit]
        return all(self.is_open[node] and not self.on.get(node) for node in nodes) and not self._is_promised(
            nodes
        )

    def _is_promised(self, nodes: Iterable[int]) -> bool:
        capacity = self.sketch.capacity
        columns = (capacity.gpu, capacity.cpu, capacity.memory)
        return any(column.reserved[node] for node in nodes for column in columns)

    def _nodes_of(self, mover: MoverId) -> list[int]:
        """Return the nodes of a mover after the moves made so far."""
        spreads = self._to.get(mover, self.movers[mover].spreads)
        return sorted({node for spread in spreads for node in spread.nodes})

    def _beside(self, movers: list[Mover]) -> list[int]:
        """Return the units in use that are cheaper to empty now, because these movers leave them as well."""
        nodes = {node for mover in movers for node in mover.nodes()}
        return sorted({self.unit_of[node] for node in nodes if node in self.unit_of} - self.free)


def _cost_of(unit: int, new: Iterable[Mover], freed: int) -> Cost:
    """Return the cost of a unit: that of the new moves, divided by the number of units that come free."""
    movers = list(new)
    lost, milli = sum(mover.destroyed for mover in movers), sum(mover.gpu_milli for mover in movers)
    return -(-lost // freed), -(-milli // freed), len(movers), unit


def _size(mover: Mover) -> int:
    """Return the GPU milli of the mover's largest task."""
    return max((job.need.gpu_milli for job in mover.jobs), default=0)


def _most_beside(capacity: Capacity, nodes: Iterable[int]) -> dict[str, int]:
    """Return the most GPU milli available on an open node in use, by node type."""
    found: dict[str, int] = {}
    for node in nodes:
        if capacity.is_open(node) and not is_unused(capacity, node):
            milli = capacity.available(node).gpu_milli
            node_type = capacity.node_type[node]
            found[node_type] = max(found.get(node_type, 0), milli)
    return found
