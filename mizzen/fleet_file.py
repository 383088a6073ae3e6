"""The fleet file: which regions there are and who serves what, the same file for every process of a plane.

    fleet: lab
    regions:
      eu: {nodes: 40, gpu_type: H100, workers: 2}
      us: {nodes: 8, gpu_type: A100, gpus_per_node: 4, agents: 1}

Every field is typed, and a field that is not known is refused by its name.
"""

from pathlib import Path
from typing import Annotated

import msgspec
import yaml
from msgspec import Meta, Struct, field

from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import RegionName, WorkerName
from core.nouns.limits import NAME_LENGTH_MAX
from core.nouns.quantities import MILLI, Amount
from runtime.wiring import Plan, RegionPlan
from scenarios.fleet import region_plan
from scenarios.scenario import FleetSpec, Positive

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]+$", max_length=NAME_LENGTH_MAX)]
"""Part of subjects and of file names."""

HERE = RegionName("here")
CPU_SLOTS = 8


class FleetFileError(Exception):
    """A fleet file that cannot be used; the text names the file and the field."""


class RegionSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """One region: its nodes are alike, and cut among its workers."""

    nodes: Positive
    gpu_type: Name
    gpus_per_node: Positive = 8
    workers: Positive = 1
    """`w0`, `w1`, and so on."""
    agents: Positive = 2
    """`a0`, `a1`, and so on."""
    nodes_per_rack: Positive = 16


class FleetFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole fleet."""

    regions: Annotated[dict[Name, RegionSpec], Meta(min_length=1)]
    fleet: Name = field(default="mizzen")


def load_plan(path: Path) -> Plan:
    """The plane that serves the fleet of this file. Raises FleetFileError, and OSError when it cannot be read."""
    try:
        file = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), FleetFile)
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise FleetFileError(f"{path}: {error}") from error
    return Plan(file.fleet, tuple(_region(RegionName(name), spec) for name, spec in file.regions.items()))


def plan_of_this_machine() -> Plan:
    """Without a fleet file: one region with one worker and one node, whose CPU is eight slots of type `cpu`."""
    node = NodeGroup(0, 1, Amount(gpu_milli=CPU_SLOTS * MILLI), "cpu", 0, 1)
    return Plan("mizzen", (RegionPlan(HERE, (Inventory(WorkerName("w0"), (node,)),), agents=2),))


def _region(name: RegionName, spec: RegionSpec) -> RegionPlan:
    alike = FleetSpec(
        regions=1,
        nodes=spec.nodes,
        workers=spec.workers,
        agents=spec.agents,
        gpus_per_node=spec.gpus_per_node,
        gpu_type=spec.gpu_type,
        nodes_per_rack=spec.nodes_per_rack,
    )
    return region_plan(alike, name)
