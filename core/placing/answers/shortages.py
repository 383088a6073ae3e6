"""The lack of capacity now: the capacity for the first job that does not fit, and the least that must be freed."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np

from core.nouns.placement import Shortage
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.index.layout import NO_NODE
from core.placing.pick.nodes import Choice
from core.placing.pool import PoolIndex
from core.placing.pool_set import Asker, PoolSet, request_of
from core.rules.placement.rule import Numbers, Request


def shortage_of(pools: PoolSet, jobs: Sequence[JobSpec], asker: Asker, choice: Choice) -> Shortage | None:
    """Return the capacity for the first job that finds no place, in figures for people; None if all jobs find places."""
    found: list[Shortage] = []
    reason = pools.find(
        jobs, asker, choice, lambda job, request: found.append(_shortage(pools, job, request))
    )
    if reason is Reason.NO_SUCH_HARDWARE:
        lacking = next(job for job in jobs if not pools.pools_for(request_of(job, asker)))
        return Shortage(lacking.name, lacking.tasks, 0, 0, Amount(), Amount())
    return found[0] if found else None


def _shortage(pools: PoolSet, job: JobSpec, request: Request) -> Shortage:
    mine = pools.pools_for(request)
    fits = max(
        sum(int(pool.class_of(one).pod_cap.sum()) for pool in mine if one in pool.by_type(request))
        for one in dict.fromkeys(one for pool in mine for one in pool.by_type(request))
    )
    free = [_columns(pool, _slots_for(pool, request)) for pool in mine]
    sums, most = zip(
        *(
            (
                sum(int(column.sum()) for column in columns),
                max(int(column.max(initial=0)) for column in columns),
            )
            for columns in zip(*free, strict=True)
        ),
        strict=True,
    )
    nodes = sum(len(columns[0]) for columns in free)
    return Shortage(job.name, job.tasks, fits, nodes, Amount(*sums), Amount(*most))


class Scarce(StrEnum):
    """The resource in which missing capacity is counted: GPUs, or CPUs for work without GPUs."""

    GPU = "gpu"
    CPU = "cpu"

    def of(self, amount: Amount) -> int:
        """Return the milli of the resource in an amount."""
        return amount.gpu_milli if self is Scarce.GPU else amount.cpu_milli


def scarce_for(jobs: Sequence[JobSpec]) -> Scarce:
    """Return the resource in which missing capacity of these jobs is counted."""
    return Scarce.GPU if any(job.need.gpu_milli for job in jobs) else Scarce.CPU


def missing_milli(
    pools: PoolSet, jobs: Sequence[JobSpec], asker: Asker, held: Mapping[str, Numbers] = {}
) -> int:
    """Return the least milli of the scarce resource that must be freed before these jobs could fit; 1 if no better bound is known.

    A job with m tasks too many needs, for each of them, at least the smallest gap between a node's remainder and one task.

    held   (slots,) milli by pool that count as available already
    """
    most, scarce = 1, scarce_for(jobs)
    for job in jobs:
        need = scarce.of(job.need)
        request = request_of(job, asker)
        columns = [_had(pool, _slots_for(pool, request), held, scarce) for pool in pools.pools_for(request)]
        if not need or not columns:
            continue
        had = np.concatenate(columns)
        lacking = job.tasks - int((had // need).sum())
        if lacking > 0:
            most = max(most, lacking * (need - int((had % need).max(initial=0))))
    return most


def _had(pool: PoolIndex, slots: Numbers, held: Mapping[str, Numbers], scarce: Scarce) -> Numbers:
    column = pool.table.gpu if scarce is Scarce.GPU else pool.table.cpu
    return column[slots] + held[pool.name][slots] if pool.name in held else column[slots]


def _slots_for(pool: PoolIndex, request: Request) -> Numbers:
    """Return the slots of nodes that could ever run the request, without nodes kept for reservations that bar the request."""
    layout = pool.layout
    admitted = [
        all(rule.admits(cluster, request) for rule in pool.plan.cluster_validators)
        for cluster in layout.clusters
    ]
    by_pod = np.asarray(admitted, dtype=bool)[layout.cluster_of_pod]
    there = np.repeat(by_pod, layout.pod_slots) & (layout.node != NO_NODE)
    if request.barred and pool.table.has_starts:
        there &= ~np.isin(pool.table.start, request.barred)
    return np.flatnonzero(there)


def _columns(pool: PoolIndex, slots: Numbers) -> tuple[Numbers, ...]:
    return tuple(column[slots] for column in (pool.table.gpu, pool.table.cpu, pool.table.memory))
