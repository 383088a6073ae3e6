"""A fleet from a scenario: regions of like nodes, cut among workers."""

from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import RegionName, WorkerName
from core.nouns.quantities import Amount
from runtime.wiring import Plan, RegionPlan
from scenarios.scenario import FleetSpec


def plan_of(fleet: FleetSpec, name: str) -> Plan:
    """The plane that serves this fleet."""
    regions = tuple(region_plan(fleet, RegionName(f"r{number}")) for number in range(fleet.regions))
    return Plan(name, regions)


def region_plan(fleet: FleetSpec, region: RegionName) -> RegionPlan:
    """One region of that sort: its nodes cut among its workers."""
    total = Amount(1000 * fleet.gpus_per_node, 96_000, 1 << 40)
    inventories = []
    first = 0
    for number in range(min(fleet.workers, fleet.nodes)):
        count = fleet.nodes // fleet.workers + (number < fleet.nodes % fleet.workers)
        # Each worker's nodes begin a rack of their own.
        rack = number * (fleet.nodes // fleet.nodes_per_rack + 1)
        group = NodeGroup(first, count, total, fleet.gpu_type, rack, fleet.nodes_per_rack)
        inventories.append(Inventory(WorkerName(f"w{number}"), (group,)))
        first += count
    return RegionPlan(region, tuple(inventories), fleet.agents)
