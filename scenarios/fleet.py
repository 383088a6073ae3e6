"""A fleet from a scenario: regions of like nodes, cut among workers."""

from core.nouns.ids import RegionName
from runtime.fleet_file import RegionSpec, emulated_region
from runtime.wiring import Plan, RegionPlan
from scenarios.scenario import FleetSpec


def plan_of(fleet: FleetSpec, name: str) -> Plan:
    """The plane that serves this fleet."""
    regions = tuple(region_plan(fleet, RegionName(f"r{number}")) for number in range(fleet.regions))
    return Plan(name, regions)


def region_plan(fleet: FleetSpec, region: RegionName) -> RegionPlan:
    """One region of that sort."""
    spec = RegionSpec(
        nodes=fleet.nodes,
        gpu_type=fleet.gpu_type,
        gpus_per_node=fleet.gpus_per_node,
        workers=fleet.workers,
        agents=fleet.agents,
        nodes_per_rack=fleet.nodes_per_rack,
    )
    return emulated_region(region, spec)
