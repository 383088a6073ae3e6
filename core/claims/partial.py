"""Which part of a claim fits now, where its tasks are of use without each other.

source    Omega: an incremental transaction applies the claims that pass and returns the rest (spec/protean-parsync.md §3.1)
"""

from bisect import bisect_left
from collections.abc import Callable, Container

from msgspec.structs import replace

from core.claims.checks import has_room
from core.device_shares import part_of
from core.images.capacity import Capacity
from core.nouns.placement import Claim, Spread
from core.nouns.quantities import Amount
from core.nouns.workload import Extent, Kind

Taken = tuple[Amount, list[int]]
"""What of a node is taken, and what of that are parts of devices."""


def may_be_partial(claim: Claim) -> bool:
    """Whether a part of it may be granted: its tasks stand alone, its user said so, and nobody has to end for it.

    Not where all tasks must lie in one rack, pod or zone: those that come later might find no room there.
    """
    if not claim.is_incremental or claim.kind != Kind.SERVICE or claim.victims:
        return False
    return all(job.topology.pack is Extent.ANY for job in claim.jobs)


def part_that_fits(
    claim: Claim, capacity: Capacity, short: Container[int], forbidden: Container[int]
) -> tuple[Claim, tuple[int, ...]] | None:
    """The claim of the tasks for which there is room, and how many of each job there is none for.

    short       nodes that have no room for all of it that is theirs: of these alone it is counted
    forbidden   nodes that may take none of it
    returns     None when some job would have no task at all: its workload would be without it
    """
    kept: list[dict[int, int]] = [{} for _ in claim.jobs]
    taken: dict[int, Taken] = {}
    for job, (spec, spread) in enumerate(zip(claim.jobs, claim.spreads, strict=True)):
        for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
            if node in forbidden or not capacity.is_open(node):
                continue
            count = tasks
            if node in short:
                before = taken.get(node, (Amount(), []))
                count = bisect_left(range(tasks), True, key=_has_none(capacity, node, before, spec.need))
                taken[node] = _with(before, spec.need, count)
            if count:
                kept[job][node] = count
    counts = [sum(found.values()) for found in kept]
    if not all(counts):
        return None
    jobs = tuple(replace(job, tasks=count) for job, count in zip(claim.jobs, counts, strict=True))
    spreads = tuple(Spread(tuple(found), tuple(found.values())) for found in kept)
    unplaced = tuple(job.tasks - count for job, count in zip(claim.jobs, counts, strict=True))
    return replace(claim, jobs=jobs, spreads=spreads), unplaced


def _with(before: Taken, need: Amount, count: int) -> Taken:
    """So many tasks more, each of this need."""
    taken, parts = before
    part = part_of(need.gpu_milli)
    return taken.plus(need.times(count)), [*parts, *([part] * count if part else [])]


def _has_none(capacity: Capacity, node: int, before: Taken, need: Amount) -> Callable[[int], bool]:
    """Whether there is no room for one task after so many of this need."""
    return lambda count: not has_room(capacity, node, *_with(before, need, count + 1))
