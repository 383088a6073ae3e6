"""The part of a claim that fits now, for services with tasks that are of use without each other.

source    Omega: an incremental transaction applies the claims that pass and returns the rest (spec/protean-parsync.md §3.1)
"""

from bisect import bisect_left
from collections.abc import Callable, Container

from msgspec.structs import replace

from core.claims.checks import has_capacity
from core.device_shares import part_of
from core.images.capacity import Capacity
from core.nouns.placement import Claim, Spread
from core.nouns.quantities import Amount
from core.nouns.workload import Extent, Kind

Taken = tuple[Amount, list[int]]
"""Capacity taken on a node, and the GPU milli of each part of a device within that."""


def may_be_partial(claim: Claim) -> bool:
    """Return whether a part of the claim may be granted: only of an incremental service without victims.

    A job must not have to lie in one rack, pod or zone: later tasks might find no capacity there.
    """
    if not claim.is_incremental or claim.kind != Kind.SERVICE or claim.victims:
        return False
    return all(job.topology.pack is Extent.ANY for job in claim.jobs)


def part_that_fits(
    claim: Claim, capacity: Capacity, short: Container[int], forbidden: Container[int]
) -> tuple[Claim, tuple[int, ...]] | None:
    """Return the claim of the tasks that fit, and by job the number of tasks that do not.

    short       nodes that lack capacity for all their tasks of the claim: tasks that fit are counted on these only
    forbidden   nodes that may take no task of the claim
    returns     None if a job would have no task at all, because the workload needs all its jobs
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
    """Return `before` and `count` more tasks of this need."""
    taken, parts = before
    part = part_of(need.gpu_milli)
    return taken.plus(need.times(count)), [*parts, *([part] * count if part else [])]


def _has_none(capacity: Capacity, node: int, before: Taken, need: Amount) -> Callable[[int], bool]:
    """Return the predicate of a count: no further task fits after `before` and so many tasks of this need."""
    return lambda count: not has_capacity(capacity, node, *_with(before, need, count + 1))
