"""Scenarios of the swarm in which nodes follow the needs of pools: more nodes, needs, power domains that are lost, and needs that change.

Drawn over whatever else a seed has, by dice of its own, so that nothing else is drawn otherwise. Each region gets as many nodes more as its
services need, and training keeps needing as much as there was: whatever could run before still can, once all nodes are back.
"""

import random

from msgspec.structs import replace

from core.nouns.pool import SHARED_POOL
from runtime.fleet_file import RegionSpec
from scenarios.fault import Fault
from scenarios.faults.crash import Crash
from scenarios.faults.domain_loss import DomainLoss
from scenarios.faults.drain import Drain
from scenarios.faults.pool_need_set import PoolNeedSet
from scenarios.faults.submission_storm import SubmissionStorm
from scenarios.scenario import CalmSpec, ScenarioSpec
from scenarios.schema.fleet import regions_of
from scenarios.schema.pools import Needs, PoolsSpec
from scenarios.workload import gpus_of

POOLED_SHARE = 0.15
"""Of all seeds, but for those with a shared pool, whose nodes a policy divides."""
MORE_NODES_MAX = 4
CALM_MINUTES = 120.0
"""Work that waits for a whole region waits until nodes have come back into its pool: half an hour at most where what is on them stays."""
OF_POOLS: tuple[type[Fault], ...] = (DomainLoss, PoolNeedSet)
"""Faults that are drawn here alone."""


def has_pools(spec: ScenarioSpec, dice: random.Random) -> bool:
    """Draw whether pools of a scenario have needs."""
    is_drawn = dice.random() < POOLED_SHARE
    return is_drawn and all(region.pool != SHARED_POOL for region in regions_of(spec.fleet).values())


def with_pools(spec: ScenarioSpec, dice: random.Random) -> ScenarioSpec:
    """Return the same scenario with needs, and faults of nodes and of the planner."""
    regions: dict[str, RegionSpec] = {}
    needs: dict[str, Needs] = {}
    for name, region in regions_of(spec.fleet).items():
        more = dice.randint(2, MORE_NODES_MAX)
        nodes = region.nodes + more
        regions[name] = replace(
            region,
            nodes=nodes,
            workers=min(nodes, region.workers + more),
            power_domains=dice.choice((0, 2, 3)),
        )
        service = region.gpus_per_node * dice.randint(1, max(1, more // 2))
        needs[name] = {"training": {region.gpu_type: gpus_of(region)}, "service": {region.gpu_type: service}}
    is_survived = all(region.power_domains for region in regions.values()) and dice.random() < 0.5
    pools = PoolsSpec(
        in_region=needs,
        survive_nothing=("training",) if is_survived else ("training", "service"),
        at_once_percent=dice.choice((20.0, 50.0, 100.0)),
    )
    faults: list[Fault] = [PoolNeedSet(pool="service", share=(0.2, 1.0), times=dice.randint(1, 4))]
    if dice.random() < 0.5:
        faults.append(DomainLoss(down_seconds=(10.0, 200.0), times=dice.randint(1, 2)))
    if dice.random() < 0.5:
        faults.append(Drain(times=dice.randint(1, 3)))
    if dice.random() < 0.5:
        faults.append(Crash(role="planner", times=dice.randint(1, 3), again_share=dice.choice((0.0, 0.5))))
    # Gangs are drawn by what regions have: none may be wider than what training needs.
    widest = min(gpus_of(region) for region in regions_of(spec.fleet).values())
    loads = [replace(load, gpus_max=min(load.gpus_max or widest, widest)) for load in spec.workload]
    known = [
        replace(fault, gpus_max=min(fault.gpus_max or widest, widest))
        if isinstance(fault, SubmissionStorm)
        else fault
        for fault in spec.faults
    ]
    return replace(
        spec,
        fleet=replace(spec.fleet, regions=regions, planner=True, pools=pools),
        workload=tuple(loads),
        faults=(*known, *faults),
        calm=CalmSpec(max(CALM_MINUTES, spec.calm.minutes)),
    )
