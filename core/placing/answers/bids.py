"""The score of a bid; for a refusal, the capacity missing even with preemption, and the setting that keeps capacity free."""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from core.nouns.instant import SECOND, Instant
from core.nouns.placement import needs_of
from core.nouns.preemption import BidScore
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec
from core.placing.answers.shortages import missing_milli, scarce_for
from core.placing.pick.nodes import Choice
from core.placing.placer import Found
from core.placing.pool_set import Asker, PoolSet
from core.placing.preemption.victim_index import VictimIndex, clusters_for, slots_in
from core.placing.preemption.victims import destroyed_gpu_seconds

RUN_SECONDS_MAX = 1_000_000
VICTIMS_MAX = 1_000
"""The largest run time and number of victims of one job that the paper's score distinguishes."""


def score(pools: PoolSet, found: Found, now: Instant, order: BidScore = BidScore.VECTOR) -> tuple[int, ...]:
    """Return a bid's score, compared from the left; lower is better.

    returns   (victims' highest priority + 1 or 0, victims, GPU-seconds of lost work, racks, nodes, GPU permille held), named in
              SCORE_PARTS of core/nouns/placement.py
    source    DESIGN §5.4; by the paper's setting the first part is `paper_score`, and the next two are 0
    """
    nodes = {node for spread in found.spreads for node in spread.nodes}
    shape = (pools.racks_of(nodes), len(nodes), pools.held_permille)
    if order is BidScore.PAPER:
        return (paper_score(found, now), 0, 0, *shape)
    priority = max((held.claim.priority + 1 for _, _, held in found.victims), default=0)
    destroyed = destroyed_gpu_seconds(found.victims, now)
    return (priority, len(found.victims), destroyed, *shape)


def paper_score(found: Found, now: Instant) -> int:
    """Return the cost of victims as in the paper: a figure for each job, summed over the workload's jobs; lower is better.

    A job without victims costs 0. Otherwise the highest priority of its victims counts before their number, and their number before
    their newness (999,999 less their average run time in seconds). The paper does not give the weights: these are the smallest that
    keep its order within one job.
    source    MAST §4.3
    """
    total = 0
    for spread in found.spreads:
        mine = [
            held for _, _, held in found.victims if not needs_of(held.claim).keys().isdisjoint(spread.nodes)
        ]
        if mine:
            priority = max(held.claim.priority for held in mine) + 1
            ran = sum(max(0, now - (held.started_at or now)) for held in mine) // (len(mine) * SECOND)
            newness = max(0, RUN_SECONDS_MAX - 1 - ran)
            total += (priority * VICTIMS_MAX + min(len(mine), VICTIMS_MAX - 1)) * RUN_SECONDS_MAX + newness
    return total


def missing_over_all(pools: PoolSet, jobs: Sequence[JobSpec], asker: Asker, order: VictimIndex) -> int:
    """Return the milli of GPUs (of CPUs for work without GPUs) that must be freed beyond all possible victims: for a refusal.

    An attempt before its minimum run time counts as a victim, because it becomes one without any capacity being freed.
    """
    where, scarce = clusters_for(pools, jobs, asker), scarce_for(jobs)
    order.refresh(pools)
    held = {
        name: np.zeros(pool.layout.slots, dtype=np.int32)
        for name, pool in pools.by_name.items()
        if any(name == one for one, _ in where)
    }
    for claim in order.claims_under(asker.priority, where):
        for job, spread in zip(claim.jobs, claim.spreads, strict=True):
            for name, column in held.items():
                slots, tasks = slots_in(pools.by_name[name].layout, spread)
                if len(slots):
                    column[slots] += np.asarray(tasks * scarce.of(job.need), dtype=np.int32)
    for name, column in held.items():
        column[pools.by_name[name].table.is_open == 0] = 0
    return missing_milli(pools, jobs, asker, held)


def why_kept(pools: PoolSet, jobs: Sequence[JobSpec], asker: Asker, choice: Choice) -> Reason:
    """Return the reason why jobs that do not fit are kept out of free capacity, or `no_capacity` if the capacity is not there.

    Tried in turn: without the pools' reserves; also without their limits; with both, but without reservations that bar the jobs.
    """
    without_reserve = replace(asker, heeds_reserve=False)
    for reason, other in (
        (Reason.RESERVED, without_reserve),
        (Reason.OVER_LIMIT, asker.unbound()),
        (Reason.START_RESERVED, replace(asker, barred=())),
    ):
        if other != asker and not isinstance(pools.find(jobs, other, choice), Reason):
            return reason
    return Reason.NO_CAPACITY
