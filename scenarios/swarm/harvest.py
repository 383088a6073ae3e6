"""Scenarios of the swarm in which functions run on capacity that nobody else uses: in some of those with functions.

Drawn over whatever else a seed has, by dice of its own, so that nothing else is drawn otherwise.
"""

import random

from msgspec.structs import replace

from scenarios.fault import Fault
from scenarios.faults.crash import Crash
from scenarios.faults.pause import Pause
from scenarios.faults.recall_storm import RecallStorm
from scenarios.faults.recall_unheeded import RecallUnheeded
from scenarios.scenario import ScenarioSpec
from scenarios.schema.harvest import HarvestSpec
from scenarios.workloads.functions import Functions

HARVEST_SHARE = 0.6
"""Of the seeds with functions."""
OF_HARVEST: tuple[type[Fault], ...] = (RecallStorm, RecallUnheeded)
"""Faults that are drawn here alone."""


def has_harvest(spec: ScenarioSpec, dice: random.Random) -> bool:
    """Draw whether functions of a scenario may use free capacity."""
    has_functions = any(isinstance(load, Functions) for load in spec.workload)
    return has_functions and dice.random() < HARVEST_SHARE


def with_harvest(spec: ScenarioSpec, dice: random.Random) -> ScenarioSpec:
    """Return the same scenario with a pool that lends, calls that outlast the grace, and misfortunes of recalls."""
    harvest = HarvestSpec(
        grace_seconds=dice.choice((1.0, 5.0, 20.0)),
        after_seconds=dice.choice((0.5, 3.0, 10.0)),
        keep=dice.choice((0, 0, 4)),
    )
    longer = dice.choice((1.0, 10.0))
    workload = tuple(
        replace(load, run_seconds=load.run_seconds * longer, gpu_share=dice.choice((0.0, 0.5, 1.0)))
        if isinstance(load, Functions)
        else load
        for load in spec.workload
    )
    faults: list[Fault] = [RecallStorm(times=dice.randint(1, 3), for_seconds=(1.0, 30.0))]
    if dice.random() < 0.5:
        faults.append(Crash(role="harvester", times=dice.randint(1, 2), again_share=dice.choice((0.0, 0.5))))
    if dice.random() < 0.3:
        faults.append(Pause(role="function_server", times=1))
    if dice.random() < 0.6:
        faults.append(RecallUnheeded(times=dice.randint(1, 3), for_seconds=(5.0, 60.0)))
    fleet = replace(spec.fleet, harvest=harvest)
    return replace(spec, fleet=fleet, workload=workload, faults=(*spec.faults, *faults))
