"""Scenarios of the swarm in which regions run functions.

Drawn over whatever else a seed has, by dice of its own, so that nothing else is drawn otherwise.
"""

import random
from typing import Literal

from msgspec.structs import replace

from core.nouns.pool import SHARED_POOL
from runtime.fleet_file import FunctionsSpec, RegionSpec
from scenarios.fault import Fault
from scenarios.faults.crash import Crash
from scenarios.faults.node_freeze import NodeFreeze
from scenarios.faults.pause import Pause
from scenarios.scenario import ScenarioSpec
from scenarios.schema.fleet import regions_of
from scenarios.workload import gpus_of
from scenarios.workloads.functions import Functions

FUNCTIONS_SHARE = 0.12
"""Of all seeds."""
REGION_SHARE = 0.8
"""Of regions of such a fleet, those that run functions; the first one always does."""
POLICIES: tuple[Literal["mws", "jsq", "hash", "mws_published"], ...] = (
    "mws",
    "mws",
    "jsq",
    "hash",
    "mws_published",
)
ROLES = ("function_router", "function_server")
CALLS_MAX = 600


def has_functions(dice: random.Random) -> bool:
    """Draw whether regions of a scenario run functions."""
    return dice.random() < FUNCTIONS_SHARE


def with_functions(spec: ScenarioSpec, dice: random.Random) -> ScenarioSpec:
    """Return the same scenario with functions, services that hold capacity for them, and misfortunes of their processes."""
    regions, serving = regions_of(spec.fleet), list[RegionSpec]()
    for name, region in regions.items():
        if region.pool != SHARED_POOL and (not serving or dice.random() < REGION_SHARE):
            how = FunctionsSpec(routers=dice.choice((1, 1, 2)), policy=dice.choice(POLICIES))
            serving.append(replace(region, functions=how))
            regions = {**regions, name: serving[-1]}
    like = spec.workload[0]
    narrowest = min(gpus_of(region) for region in serving)
    gpus = dice.choice((1, 1, 2))
    load = Functions(
        workloads=dice.randint(1, 5),
        tasks=dice.randint(1, max(1, min(4, narrowest // (2 * gpus)))),
        gpus=gpus,
        for_all=dice.random() < 0.3,
        come_and_go=dice.random() < 0.5,
        hours=like.hours,
        compression=like.compression,
        functions=dice.randint(1, 12),
        zipf=dice.choice((0.0, 1.0, 2.0)),
        gpu_share=dice.choice((0.0, 0.4)),
        callers=dice.randint(1, 4),
        calls=dice.randint(50, CALLS_MAX),
        run_seconds=dice.choice((0.01, 0.3, 2.0)),
        run_seconds_max=20.0,
        cold_seconds=dice.choice((0.1, 2.0, 8.0)),
        map_share=dice.choice((0.0, 0.2, 1.0)),
        map_calls=dice.choice((10, 300)),
        once_share=dice.choice((0.0, 0.3, 1.0)),
        within_share=dice.choice((0.0, 0.0, 0.3)),
        within_seconds=dice.choice((2.0, 30.0)),
        hot_share=dice.choice((0.0, 0.0, 0.8)),
        leave_share=dice.choice((0.0, 0.2)),
        tenants=like.tenants,
    )
    faults: list[Fault] = [
        Crash(role=role, times=dice.randint(1, 3), again_share=dice.choice((0.0, 0.5)))
        for role in ROLES
        if dice.random() < 0.6
    ]
    if dice.random() < 0.4:
        faults.append(Pause(role=dice.choice(ROLES), times=dice.randint(1, 2)))
    if dice.random() < 0.3:
        faults.append(NodeFreeze(times=1))
    fleet = replace(spec.fleet, regions=regions)
    return replace(spec, fleet=fleet, workload=(*spec.workload, load), faults=(*spec.faults, *faults))
