"""Makes a scenario that fails smaller while it still fails: fewer faults, workloads, regions, nodes and processes.

Each fault draws from dice of its own (scenarios/fault.py), so taking one away leaves the others as they were. What is left
is not the smallest there is, but nothing that is tried here can be taken away from it.
"""

import time
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from runtime.fleet_file import RegionSpec
from scenarios.scenario import ScenarioError, ScenarioSpec, parse_scenario, scenario_written
from scenarios.schema.data import DataFleetSpec
from scenarios.schema.fleet import regions_of
from scenarios.workloads.functions import Functions

Fails = Callable[[ScenarioSpec], bool]


def shrunk(spec: ScenarioSpec, fails: Fails, *, seconds: float = 120.0) -> ScenarioSpec:
    """The smallest that was found within the time. `fails` plays a scenario and says whether it fails as the first did."""
    deadline = time.monotonic() + seconds
    has_shrunk = True
    while has_shrunk:
        has_shrunk = False
        for smaller in _smaller(spec):
            if time.monotonic() > deadline:
                return spec
            if _is_sound(smaller) and fails(smaller):
                spec, has_shrunk = smaller, True
                break
    return spec


def _smaller(spec: ScenarioSpec) -> Iterator[ScenarioSpec]:
    """One step smaller, the largest steps first."""
    for half in (spec.faults[len(spec.faults) // 2 :], spec.faults[: len(spec.faults) // 2]):
        if len(spec.faults) > 3:
            yield replace(spec, faults=half)
    for number in range(len(spec.faults)):
        yield replace(spec, faults=spec.faults[:number] + spec.faults[number + 1 :])
    for number, fault in enumerate(spec.faults):
        if fault.times > 1:
            fewer = replace(fault, times=fault.times // 2)
            yield replace(spec, faults=(*spec.faults[:number], fewer, *spec.faults[number + 1 :]))
    if len(spec.workload) > 1:
        for number in range(len(spec.workload)):
            yield replace(spec, workload=spec.workload[:number] + spec.workload[number + 1 :])
    for number, workload in enumerate(spec.workload):
        for count in sorted({workload.amount // 2, workload.amount - 1} - {0}):
            loads = (
                *spec.workload[:number],
                workload.of_amount(count),
                *spec.workload[number + 1 :],
            )
            yield replace(spec, workload=loads)
        if isinstance(workload, Functions) and workload.calls > 1:
            fewer_calls = replace(workload, calls=workload.calls // 2)
            yield replace(spec, workload=(*spec.workload[:number], fewer_calls, *spec.workload[number + 1 :]))
    regions = regions_of(spec.fleet)
    for name in regions:
        rest = {other: region for other, region in regions.items() if other != name}
        if rest:
            data = _without(spec.fleet.data, name, next(iter(rest)))
            yield replace(spec, fleet=replace(spec.fleet, regions=rest, data=data))
    for name, region in regions.items():
        for smaller in _smaller_regions(region):
            yield replace(spec, fleet=replace(spec.fleet, regions={**regions, name: smaller}))


def _without(data: DataFleetSpec | None, region: str, other: str) -> DataFleetSpec | None:
    """Return the same data without a region; datasets with their home there have it in another region."""
    if data is None:
        return None
    datasets = {}
    for name, one in data.datasets.items():
        home = other if one.home == region else one.home
        copies = tuple(copy for copy in one.copies if copy not in (region, home))
        datasets[name] = replace(one, home=home, copies=copies)
    return replace(data, datasets=datasets)


def _smaller_regions(region: RegionSpec) -> Iterator[RegionSpec]:
    if region.nodes > 1:
        nodes = region.nodes // 2
        yield replace(region, nodes=nodes, workers=min(region.workers, nodes))
        yield replace(region, nodes=region.nodes - 1, workers=min(region.workers, region.nodes - 1))
    if region.workers > 1:
        yield replace(region, workers=1)
    if region.agents > 1:
        yield replace(region, agents=1)


def _is_sound(spec: ScenarioSpec) -> bool:
    """Whether it is still a scenario: a fault may mean somebody who is gone."""
    try:
        parse_scenario(scenario_written(spec), spec.name)
    except ScenarioError:
        return False
    return True
