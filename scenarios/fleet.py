"""A fleet from a scenario: regions that are alike, or regions by name."""

from collections.abc import Sequence

from core.nouns.ids import RegionName
from runtime.fleet_file import FleetFile, RegionSpec, plan_of_file
from runtime.wiring import Plan, Unit
from scenarios.scenario import FleetSpec, KillSpec, ScenarioError


def plan_of(fleet: FleetSpec, name: str) -> Plan:
    """The plane that serves this fleet."""
    return plan_of_file(FleetFile(regions_of(fleet), name))


def regions_of(fleet: FleetSpec) -> dict[str, RegionSpec]:
    """Every region by its name."""
    if isinstance(fleet.regions, dict):
        return fleet.regions
    assert fleet.nodes is not None, "checked when the scenario was read"
    alike = RegionSpec(
        nodes=fleet.nodes,
        gpu_type=fleet.gpu_type,
        gpus_per_node=fleet.gpus_per_node,
        workers=fleet.workers,
        agents=fleet.agents,
        nodes_per_rack=fleet.nodes_per_rack,
    )
    return {f"r{number}": alike for number in range(fleet.regions)}


def emulated_regions(fleet: FleetSpec) -> dict[RegionName, RegionSpec]:
    """Those for which a load is drawn."""
    return {RegionName(name): spec for name, spec in regions_of(fleet).items() if not spec.this_machine}


def unit_meant(units: Sequence[Unit], kill: KillSpec) -> Unit:
    """Whom a scenario wants killed. Raises ScenarioError."""
    for unit in units:
        if unit.role == kill.role and kill.region in ("", unit.region) and kill.member in ("", unit.member):
            return unit
    where = f" in region {kill.region}" if kill.region else ""
    raise ScenarioError(f"misfortune.kills: there is no {kill.role} {kill.member}".rstrip() + where)
