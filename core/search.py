"""Where a workload fits: fewest racks, then best fit; and whom it could push out.

The policy is simple on purpose: rule sets come with the agents that serve 100,000 nodes. What stays is the form: arrays
in, spreads or a reason out, ties by node number.
"""

import numpy as np

from core.images.capacity import Capacity, Holding
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.placement import Shortage, Spread, gpu_milli_of, needs_of
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec, Kind
from core.view import Ints, NodeView, Room

Victim = tuple[WorkloadId, int, Holding]


def find_spreads(view: NodeView, room: Room, jobs: tuple[JobSpec, ...]) -> tuple[Spread, ...] | Reason:
    """Places for all tasks of all jobs, largest task first, or why there are none. Takes what it finds from `room`.

    source    DESIGN §5 (first policy): fewest racks, then best fit
    """
    found: dict[int, Spread] = {}
    for position in _largest_first(jobs):
        job = jobs[position]
        code = view.codes.get(job.node_type)
        if code is None:
            return Reason.NO_SUCH_HARDWARE
        spread = _find_spread(room, job, code)
        if spread is None:
            return Reason.NO_CAPACITY
        found[position] = spread
        room.take(
            (node, job.need.times(count)) for node, count in zip(spread.nodes, spread.tasks, strict=True)
        )
    return tuple(found[position] for position in range(len(jobs)))


def _largest_first(jobs: tuple[JobSpec, ...]) -> list[int]:
    return sorted(range(len(jobs)), key=lambda index: (-jobs[index].need.gpu_milli, index))


def shortage_of(view: NodeView, room: Room, jobs: tuple[JobSpec, ...]) -> Shortage | None:
    """What there is for the first job that finds no place, in figures for people; None when all find one. Takes from `room`."""
    for position in _largest_first(jobs):
        job = jobs[position]
        code = view.codes.get(job.node_type)
        if code is None:
            return Shortage(job.name, job.tasks, 0, 0, Amount(), Amount())
        fits = tasks_that_fit(room, job, code)
        spread = _find_spread(room, job, code)
        if spread is None:
            mine = room.kind == code
            free = [np.maximum(column[mine], 0) for column in (room.gpu, room.cpu, room.memory)]
            largest = Amount(*(int(column.max(initial=0)) for column in free))
            total = Amount(*(int(column.sum()) for column in free))
            return Shortage(job.name, job.tasks, int(fits.sum()), len(free[0]), total, largest)
        room.take(
            (node, job.need.times(count)) for node, count in zip(spread.nodes, spread.tasks, strict=True)
        )
    return None


def tasks_that_fit(room: Room, job: JobSpec, code: int) -> Ints:
    """How many tasks of a job each node has room for.

    returns   (nodes,) whole tasks, 0 on nodes of another type
    """
    need = job.need
    count = np.full(len(room.gpu), job.tasks, dtype=np.int64)
    for available, amount in (
        (room.gpu, need.gpu_milli),
        (room.cpu, need.cpu_milli),
        (room.memory, need.memory_bytes),
    ):
        if amount:
            np.minimum(count, available // amount, out=count)
    count[room.kind != code] = 0
    np.maximum(count, 0, out=count)
    return count


def _find_spread(room: Room, job: JobSpec, code: int) -> Spread | None:
    fits = tasks_that_fit(room, job, code)
    alone = np.flatnonzero(fits >= job.tasks)
    if len(alone):
        # One node holds them all: then fewest racks is one, and best fit decides.
        return Spread((int(alone[np.argmin(room.gpu[alone])]),), (job.tasks,))
    if int(fits.sum()) < job.tasks:
        return None
    per_rack = np.bincount(room.rack, weights=fits).astype(np.int64)
    chosen: dict[int, int] = {}
    left = job.tasks
    while left:
        rack = _smallest_that_holds(per_rack, left)
        nodes = np.flatnonzero((room.rack == rack) & (fits > 0))
        left -= _fill(room, nodes, fits, left, chosen)
        per_rack[rack] = 0
    nodes_chosen = tuple(sorted(chosen))
    return Spread(nodes_chosen, tuple(chosen[node] for node in nodes_chosen))


def _smallest_that_holds(room: Ints, wanted: int) -> int:
    """The tightest place that holds all that is wanted, or else the widest; ties by number."""
    enough = np.flatnonzero(room >= wanted)
    if len(enough):
        return int(enough[np.argmin(room[enough])])
    return int(np.argmax(room))


def _fill(room: Room, nodes: Ints, fits: Ints, wanted: int, chosen: dict[int, int]) -> int:
    """Place up to `wanted` tasks on these nodes: widest first, the last one on the tightest that holds the rest."""
    count = fits[nodes].copy()
    left = wanted
    while left:
        enough = np.flatnonzero(count >= left)
        if len(enough):
            # Among nodes that hold the rest, the one with least GPU to spare; then the lowest number.
            best = int(enough[np.argmin(room.gpu[nodes[enough]])])
        else:
            best = int(np.argmax(count))
            if count[best] == 0:
                break
        placed = min(left, int(count[best]))
        chosen[int(nodes[best])] = placed
        left -= placed
        count[best] = 0
    return wanted - left


def missing_gpu_milli(view: NodeView, room: Room, jobs: tuple[JobSpec, ...]) -> int:
    """How much must be freed, at least, before these jobs could fit: 1 when nothing better is known.

    A job that lacks m tasks needs, for each, at least the smallest gap between what a node has left over and one task.
    """
    most = 1
    for job in jobs:
        need = job.need.gpu_milli
        code = view.codes.get(job.node_type)
        if code is None or not need:
            continue
        mine = room.kind == code
        lacking = job.tasks - int((np.maximum(room.gpu, 0) // need)[mine].sum())
        if lacking > 0:
            gap = need - int((np.maximum(room.gpu, 0) % need)[mine].max(initial=0))
            most = max(most, lacking * gap)
    return most


class _Released:
    """What victims would give back, as arrays, so that trying a prefix of them costs one addition."""

    def __init__(self, victims: list[Victim], capacity: Capacity) -> None:
        self.victims = victims
        nodes: list[int] = []
        amounts: list[tuple[int, int, int]] = []
        self.ends = [0]
        for _, _, held in victims:
            for job, spread in zip(held.claim.jobs, held.claim.spreads, strict=True):
                need = job.need
                for node, count in zip(spread.nodes, spread.tasks, strict=True):
                    if capacity.is_open(node):  # A lost node gives nothing back, a closed one takes nothing.
                        nodes.append(node)
                        amounts.append(
                            (need.gpu_milli * count, need.cpu_milli * count, need.memory_bytes * count)
                        )
            self.ends.append(len(nodes))
        self.nodes = np.array(nodes, dtype=np.int64)
        self.amounts = np.array(amounts, dtype=np.int64).reshape(-1, 3)

    def room_after(self, room: Room, count: int) -> Room:
        """What would be available once the first so many have ended."""
        end = self.ends[count]
        copy = room.copy()
        for column, index in ((copy.gpu, 0), (copy.cpu, 1), (copy.memory, 2)):
            np.add.at(column, self.nodes[:end], self.amounts[:end, index])
        return copy


def find_with_victims(
    view: NodeView,
    room: Room,
    capacity: Capacity,
    jobs: tuple[JobSpec, ...],
    priority: int,
) -> tuple[tuple[Spread, ...], list[Victim]] | Reason:
    """Places for all tasks once some attempts of lower priority have ended, and which.

    source    MAST §4.3: lowest priority first, among those the longest-running, until it fits; then the largest of the
              chosen first, and those not needed are spared
    """
    candidates = _Released(_candidates(capacity, priority), capacity)
    count = len(candidates.victims)
    if not count or isinstance(find_spreads(view, candidates.room_after(room, count), jobs), Reason):
        return Reason.NO_CAPACITY
    chosen = candidates.victims[: _shortest_prefix(view, room, jobs, candidates)]
    chosen.sort(key=lambda victim: (-gpu_milli_of(victim[2].claim.jobs), victim[0], victim[1]))
    released = _Released(chosen, capacity)
    count = _shortest_prefix(view, room, jobs, released)
    spreads = find_spreads(view, released.room_after(room, count), jobs)
    assert not isinstance(spreads, Reason), spreads
    return spreads, _needed(room, jobs, spreads, chosen[:count])


def room_over_all(room: Room, capacity: Capacity, priority: int) -> Room:
    """What would be available if everybody who could be pushed out had ended: what a refusal's shortage is counted from."""
    candidates = _Released(_candidates(capacity, priority), capacity)
    return candidates.room_after(room, len(candidates.victims))


def _candidates(capacity: Capacity, priority: int) -> list[Victim]:
    promised = {
        key for epochs in capacity.promises.values() for claim in epochs.values() for key in claim.victims
    }
    found = [
        (workload, epoch, held)
        for workload, epoch, held in capacity.live()
        if held.claim.priority < priority
        and held.claim.kind != Kind.INTERACTIVE
        and not held.is_ending
        and (workload, epoch) not in promised
    ]
    found.sort(key=lambda victim: (victim[2].claim.priority, victim[2].granted_at, victim[0]))
    return found


def _shortest_prefix(view: NodeView, room: Room, jobs: tuple[JobSpec, ...], released: _Released) -> int:
    """How many of the first victims are enough, by halving; all of them are.

    More room almost never makes it fit worse: jobs of unlike tasks may be placed differently. Then the halving ends
    elsewhere, and what it ends with is still a prefix with which it fits.
    """
    low, high = 1, len(released.victims)
    while low < high:
        middle = (low + high) // 2
        if isinstance(find_spreads(view, released.room_after(room, middle), jobs), Reason):
            low = middle + 1
        else:
            high = middle
    return high


def _needed(
    room: Room, jobs: tuple[JobSpec, ...], spreads: tuple[Spread, ...], victims: list[Victim]
) -> list[Victim]:
    """Those that hold something on a node where the claim needs more than is available."""
    wanted: dict[int, list[int]] = {}
    for job, spread in zip(jobs, spreads, strict=True):
        for node, count in zip(spread.nodes, spread.tasks, strict=True):
            amount = job.need.times(count)
            sums = wanted.setdefault(node, [0, 0, 0])
            sums[0] += amount.gpu_milli
            sums[1] += amount.cpu_milli
            sums[2] += amount.memory_bytes
    short = {
        node
        for node, (gpu, cpu, memory) in wanted.items()
        if gpu > room.gpu[node] or cpu > room.cpu[node] or memory > room.memory[node]
    }
    return [victim for victim in victims if not short.isdisjoint(needs_of(victim[2].claim))]


def score(
    view: NodeView, room: Room, spreads: tuple[Spread, ...], victims: list[Victim], now: Instant
) -> tuple[int, ...]:
    """A bid's score, compared from the left; lower is better.

    returns   (victims' highest priority + 1 or 0, victims, GPU-seconds destroyed, racks, nodes, GPU permille held), as
              core/nouns/placement.py names them in SCORE_PARTS
    source    DESIGN §5.4
    """
    priority = max((victim[2].claim.priority + 1 for victim in victims), default=0)
    destroyed = sum(_destroyed(victim[2], now) for victim in victims)
    nodes = sorted({node for spread in spreads for node in spread.nodes})
    racks = len(set(room.rack[nodes].tolist()))
    held = 1000 - (1000 * int(room.gpu.sum())) // view.gpu_total if view.gpu_total else 1000
    return (priority, len(victims), destroyed, racks, len(nodes), held)


def _destroyed(held: Holding, now: Instant) -> int:
    """GPU-seconds since the newest checkpoint, or since the start."""
    since = max(held.started_at, held.saved_at) or now
    return gpu_milli_of(held.claim.jobs) * max(0, now - since) // (1000 * SECOND)
