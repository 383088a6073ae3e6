"""A fleet from a scenario: regions that are alike, or regions by name; or one of `scenarios/fleets/` by its name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from msgspec import Meta, Struct

from core.nouns.ids import RegionName
from runtime.fleet_file import FleetFile, Name, RegionSpec, plan_of_file
from runtime.wiring import Plan, Unit
from scenarios.parts import FieldError, Positive, read_struct, unknown

FLEETS = Path(__file__).parent / "fleets"


class FleetSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """So many regions that are alike; or regions by name, as in a fleet file, which say all else themselves."""

    regions: Positive | Annotated[dict[Name, RegionSpec], Meta(min_length=1)]
    nodes: Positive | None = None
    """In each of the regions that are alike."""
    workers: Positive = 3
    """Processes that serve a region's nodes; a fault that takes a machine takes one of them with all its nodes."""
    agents: Positive = 2
    gpus_per_node: Positive = 8
    gpu_type: str = "H100"
    nodes_per_rack: Positive = 16
    zones: Positive = 1
    """Among which a region's workers are cut, with all their nodes."""


def fleets() -> list[str]:
    """Names of the fleets that come with Mizzen."""
    return sorted(path.stem for path in FLEETS.glob("*.yaml"))


def read_fleet(given: Any, path: tuple[str | int, ...]) -> FleetSpec:  # Any: as YAML gives it
    """A fleet by its name, or as it is written. Raises FieldError."""
    if isinstance(given, str):
        if given not in fleets():
            raise FieldError(path, unknown(given, fleets(), what="fleets"))
        given = yaml.safe_load((FLEETS / f"{given}.yaml").read_text(encoding="utf-8"))
    _read_regions(given, path)
    spec = read_struct(FleetSpec, given, path)
    if not isinstance(spec.regions, dict) and spec.nodes is None:
        raise FieldError((*path, "nodes"), "a fleet needs `nodes`: how many each region has")
    for name, region in regions_of(spec).items():
        problem = region.problem()
        if problem:
            raise FieldError((*path, "regions", name), problem)
    return spec


def plan_of(fleet: FleetSpec, name: str) -> Plan:
    """The plane that serves this fleet."""
    return plan_of_file(fleet_file_of(fleet, name))


def fleet_file_of(fleet: FleetSpec, name: str) -> FleetFile:
    """The same fleet as a fleet file has it."""
    return FleetFile(regions_of(fleet), name)


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
        zones=fleet.zones,
    )
    return {f"r{number}": alike for number in range(fleet.regions)}


def emulated_regions(fleet: FleetSpec) -> dict[RegionName, RegionSpec]:
    """Those for which a load is drawn."""
    return {RegionName(name): spec for name, spec in regions_of(fleet).items() if not spec.this_machine}


def units_meant(units: Sequence[Unit], role: str = "", region: str = "", member: str = "") -> list[Unit]:
    """Those of this role, in this region, of this name; whatever is empty does not matter."""
    return [
        unit
        for unit in units
        if role in ("", unit.role) and region in ("", unit.region) and member in ("", unit.member)
    ]


def _read_regions(given: Any, path: tuple[str | int, ...]) -> None:  # Any: as YAML gives it
    """Look at each region that has a name for itself, so that what is wrong is said of it. Raises FieldError."""
    regions = given.get("regions") if isinstance(given, dict) else None
    if not isinstance(regions, dict):
        return
    for name, region in regions.items():
        read_struct(RegionSpec, region, (*path, "regions", name))
    for name in given:
        if name != "regions" and name in FleetSpec.__struct_fields__:
            text = "regions that are named say this themselves, each for itself"
            raise FieldError((*path, name), text)
