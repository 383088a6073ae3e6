"""Why there is no room now: what is there for the first job that finds none, and how much must be freed at least."""

from collections.abc import Mapping, Sequence

import numpy as np

from core.nouns.placement import Shortage
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.layout import NO_NODE
from core.placing.picking import Choice
from core.placing.pool_set import Asker, PoolSet, request_of
from core.placing.pools import PoolIndex
from core.rules.placement.rule import Numbers, Request


def shortage_of(pools: PoolSet, jobs: Sequence[JobSpec], asker: Asker, choice: Choice) -> Shortage | None:
    """What there is for the first job that finds no place, in figures for people; None when all find one."""
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


def missing_gpu_milli(
    pools: PoolSet, jobs: Sequence[JobSpec], asker: Asker, held: Mapping[str, Numbers] = {}
) -> int:
    """How much must be freed, at least, before these jobs could fit: 1 when nothing better is known.

    A job that lacks m tasks needs, for each, at least the smallest gap between what a node has left over and one task.

    held   by pool: (slots,) GPU milli that come free without anything being freed
    """
    most = 1
    for job in jobs:
        need = job.need.gpu_milli
        request = request_of(job, asker)
        columns = [_had(pool, _slots_for(pool, request), held) for pool in pools.pools_for(request)]
        if not need or not columns:
            continue
        gpu = np.concatenate(columns)
        lacking = job.tasks - int((gpu // need).sum())
        if lacking > 0:
            most = max(most, lacking * (need - int((gpu % need).max(initial=0))))
    return most


def _had(pool: PoolIndex, slots: Numbers, held: Mapping[str, Numbers]) -> Numbers:
    gpu = pool.table.gpu[slots]
    return gpu + held[pool.name][slots] if pool.name in held else gpu


def _slots_for(pool: PoolIndex, request: Request) -> Numbers:
    """The slots of nodes that could ever run it, but for those that are kept for the start of others."""
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
