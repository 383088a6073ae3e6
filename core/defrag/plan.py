"""Which moves free whole nodes or racks for the least destroyed work.

Nodes, or racks, that are partly used are tried in the order of what it costs to empty them: the work since the newest
checkpoint of all that is there (of a gang all of it, wherever it lies), divided by how many come free. One is taken if an agent
would find a place for everything that is there, beside what was taken before, and if more comes free than is newly taken.
Room that one move leaves is never counted on by another, so that they may be made in any order; where the work of a unit is on
its way there by an earlier move, that move goes elsewhere instead, and costs nothing more. This is greedy: what is taken first is
the cheapest that can be; all together need not be the most, or the cheapest, that there are.
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

SECTIONS = ("attempts", "capacity", "control", "maintenance", "pools", "preemption", "prices", "starts")
"""Of a region's image: what a plan is made from."""
Cost = tuple[int, int, int, int]
"""For each that comes free GPU-seconds destroyed and GPU milli moved; then moves, and which it is."""
Made = tuple[Mover, tuple[Spread, ...], tuple[Spread, ...]]
"""Who moves, from where as it is by then, and where to."""


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
    """What to move, the cheapest first.

    image       is left as it is; it has `SECTIONS`
    sequence    of the region's log, that it is folded to
    now         up to when destroyed work is counted
    count       how many nodes or racks are to come free; 0: as many as can
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
    """What is known of each node, and of each unit: a node by itself, or a rack. Units that are tried are tried once."""

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
        """Where those go that move."""
        self._closed: list[int] = []
        self._homeless: set[object] = set()
        """Shapes for which nothing was free, when nothing else was on its way: there is never more."""
        self._emptied: dict[frozenset[MoverId], int] = {}
        self._tried: set[int] = set()
        self._gain: dict[int, int] = {}
        """By unit that was tried and put back, how many come free with it."""
        self._most = _most_beside(capacity, nodes)

    def run(self, count: int) -> tuple[Freed, ...]:
        """Until so many have come free, or nothing more does."""
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
            # What is cheaper now, because something of it has left too; or dearer than was thought.
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
        """The region with all moves made, and nothing closed for them any more."""
        for unit in self._closed:
            self.sketch.open(f"unit-{unit}", self.units[unit])
        self.sketch.let_go()
        return self.sketch.capacity

    def stays(self) -> dict[str, int]:
        """Why those that are not free stay so, as far as they were looked at."""
        found = Counter(str(why) for unit, why in self.why.items() if unit not in self.free)
        return dict(sorted(found.items()))

    # What it would cost.

    def _cost(self, unit: int) -> Cost | None:
        """None if it is free, or stays as it is; then why."""
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
        """Whether all of it is too large to lie beside anything: it would take as many nodes as it leaves."""
        return all(job.need.gpu_milli > self._most_for(job) for job in mover.jobs)

    def _most_for(self, job: JobSpec) -> int:
        return max((milli for node_type, milli in self._most.items() if job.takes(node_type)), default=0)

    def _emptied_by(self, movers: frozenset[MoverId]) -> int:
        """How many are free once these are gone: at least the one for which it is asked."""
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
        """Find places for all that is there; take everything back if there are none, or if nothing is gained.

        next_best   what the next one costs: if this one turns out to cost more, it has to wait for its turn
        returns     what comes free, and who moves that did not before
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
        """It goes where an agent would put it, or stays where it is if that is nowhere."""
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
        """It is there now."""
        for node in self._nodes_of(mover.id):
            del self.on[node][mover.id]
        if spreads == mover.spreads:
            self._to.pop(mover.id, None)
        else:
            self._to[mover.id] = spreads
        for node in self._nodes_of(mover.id):
            self.on.setdefault(node, {})[mover.id] = None

    def _units_of(self, made: list[Made]) -> set[int]:
        """Those that the moves leave or come to."""
        nodes = {node for _, at, spreads in made for spread in (*at, *spreads) for node in spread.nodes}
        return {self.unit_of[node] for node in nodes if node in self.unit_of}

    def _is_free(self, unit: int) -> bool:
        """Whether nobody is there, who need not have left yet, and nothing is promised."""
        nodes = self.units[unit]
        return all(self.is_open[node] and not self.on.get(node) for node in nodes) and not self._is_promised(
            nodes
        )

    def _is_promised(self, nodes: Iterable[int]) -> bool:
        capacity = self.sketch.capacity
        columns = (capacity.gpu, capacity.cpu, capacity.memory)
        return any(column.reserved[node] for node in nodes for column in columns)

    def _nodes_of(self, mover: MoverId) -> list[int]:
        """Where it is, with the moves made so far."""
        spreads = self._to.get(mover, self.movers[mover].spreads)
        return sorted({node for spread in spreads for node in spread.nodes})

    def _beside(self, movers: list[Mover]) -> list[int]:
        """Units that are cheaper now, because something of theirs has left with that."""
        nodes = {node for mover in movers for node in mover.nodes()}
        return sorted({self.unit_of[node] for node in nodes if node in self.unit_of} - self.free)


def _cost_of(unit: int, new: Iterable[Mover], freed: int) -> Cost:
    """What it costs to move these, by so many that come free."""
    movers = list(new)
    lost, milli = sum(mover.destroyed for mover in movers), sum(mover.gpu_milli for mover in movers)
    return -(-lost // freed), -(-milli // freed), len(movers), unit


def _size(mover: Mover) -> int:
    """Of its largest task."""
    return max((job.need.gpu_milli for job in mover.jobs), default=0)


def _most_beside(capacity: Capacity, nodes: Iterable[int]) -> dict[str, int]:
    """By node type, the most GPU milli that are available on a node on which something is."""
    found: dict[str, int] = {}
    for node in nodes:
        if capacity.is_open(node) and not is_unused(capacity, node):
            milli = capacity.available(node).gpu_milli
            node_type = capacity.node_type[node]
            found[node_type] = max(found.get(node_type, 0), milli)
    return found
