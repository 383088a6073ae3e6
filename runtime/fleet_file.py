"""The fleet file: which regions there are and who serves what, the same file for every process of a plane.

    fleet: lab
    regions:
      here: {this_machine: true}
      eu: {nodes: 40, gpu_type: H100, workers: 2}
      us: {nodes: 8, gpu_type: A100, gpus_per_node: 4, agents: 1}
      asia: {nodes: 64, gpu_type: H100, workers: 4, nodes_per_rack: 8, zones: 2, power_domains: 2}
      serving: {nodes: 16, gpu_type: A100, pool: service}

Whether prices are solved for is `planner: true` or `false`; true, if it is not said.

A region is this machine, which runs programs, or nodes that are emulated. Every field is typed, and a field that is not
known is refused by its name.
"""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from core.nouns.fleet import CPU_TYPE, Inventory, NodeGroup
from core.nouns.ids import RegionName, WorkerName
from core.nouns.limits import NAME_LENGTH_MAX, WORKER_NODES_MAX
from core.nouns.quantities import MILLI, Amount
from runtime.tasks.slots import CPU_SLOTS, find_devices, inventory_of_this_machine
from runtime.wiring import DataPlan, FunctionsPlan, Plan, RegionPlan

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]+$", max_length=NAME_LENGTH_MAX)]
"""Part of subjects and of file names."""
Positive = Annotated[int, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]

FLEET = "mizzen"
POOL = "training"
ZONE = "zone-0"
HERE = RegionName("here")
EMULATED_NODE = Amount(0, 96_000, 1 << 40)
"""What an emulated node has beside its GPUs."""


class FleetFileError(Exception):
    """A fleet file that cannot be used; the text names the file and the field."""


class DataSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a region keeps datasets, and how they come there."""

    directory: Annotated[str, Meta(min_length=1)]
    """An absolute path, for processes of the region run in directories of their own: each dataset is a file or a directory in it."""
    copy: str = ""
    """A command with `{source}`, `{target}` and `{rate}` (bytes a second); empty: Mizzen copies by itself."""


class FunctionsSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """How a region runs functions."""

    routers: Annotated[int, Meta(ge=1, le=16)] = 1
    policy: Literal["mws", "jsq", "hash", "mws_published"] = "mws"
    """By which calls are sent to servers (docs/functions.md)."""


class RegionSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """One region: this machine, or nodes that are alike and cut among workers."""

    this_machine: bool = False
    """Its one node is this machine, and runs programs on its GPUs, or on slots of its CPUs if it has none."""
    cpu_slots: Positive = CPU_SLOTS
    """Of this machine, if it has no GPUs."""
    nodes: Count = 0
    """Emulated ones."""
    gpu_type: str = ""
    gpus_per_node: Positive = 8
    workers: Positive = 1
    """`w0`, `w1`, and so on."""
    agents: Positive = 2
    """`a0`, `a1`, and so on."""
    nodes_per_rack: Positive = 16
    zones: Positive = 1
    """`zone-0`, `zone-1`, and so on, among which the workers are cut with all their nodes: no rack lies in two of them."""
    power_domains: Count = 0
    """`power-0`, `power-1`, and so on, which fail as one when their main switchboard does: each zone's workers are dealt out to them in turn, so that a domain reaches into every zone. 0: nobody knows what feeds the nodes."""
    pool: Name = POOL
    """What its nodes are used for."""

    gpu_memory: Count = 0
    """Bytes of one emulated GPU; 0: nobody knows, and who asks for some memory does not run there. Real ones tell it."""
    island: Count = 0
    """Emulated GPUs joined by NVLink; 0: nobody knows."""
    cpu_nodes: Count = 0
    """Emulated machines without GPUs beside them, in racks of their own, cut among the same workers: for tasks of the type `cpu`."""

    data: DataSpec | bool = False
    """True: its datasets are emulated. Without any data nothing can be copied to the region or from it."""
    functions: FunctionsSpec | bool = False
    """True: its workers run functions beside tasks, and one router sends them calls."""

    def problem(self) -> str:
        """What its type cannot say is wrong; empty when nothing is."""
        return next(iter(self.problems().values()), "")

    def problems(self) -> dict[str, str]:
        """All of that, by the field that it is about; by no name, about several."""
        if self.this_machine and self.nodes:
            return {"": "it is either `this_machine` or has emulated `nodes`"}
        if self.this_machine and self.cpu_nodes:
            return {"cpu_nodes": "`this_machine` is one node, and has the CPUs that it has"}
        if not self.this_machine and not (self.nodes and self.gpu_type):
            return {"": "it needs `nodes` and `gpu_type`, or `this_machine: true`"}
        workers = 1 if self.this_machine else min(self.workers, self.nodes)
        if self.zones > 1 and self.zones > workers:
            return {"zones": f"its {self.zones} `zones` need a worker each, and a node for each worker"}
        every = self.nodes + self.cpu_nodes
        needed = -(-every // WORKER_NODES_MAX)
        if needed > workers:
            text = f"its {every} `nodes` need {needed} `workers`: one serves {WORKER_NODES_MAX} at most"
            return {"workers": text}
        largest = -(-workers // self.zones)
        if self.power_domains > largest:
            text = f"its {self.power_domains} `power_domains` need a worker each in one zone, and a zone has {largest} at most"
            return {"power_domains": text}
        if isinstance(self.data, DataSpec):
            return _problems_of_data(self.data)
        return {}


class FleetFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole fleet."""

    regions: Annotated[dict[Name, RegionSpec], Meta(min_length=1)]
    fleet: Name = field(default=FLEET)
    planner: bool = True
    """Whether prices are solved for (docs/commands.md, `mizzen prices`)."""


def load_plan(path: Path) -> Plan:
    """The plane that serves the fleet of this file. Raises FleetFileError, and OSError when it cannot be read."""
    try:
        file = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), FleetFile)
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise FleetFileError(f"{path}: {error}") from error
    for name, spec in file.regions.items():
        problem = spec.problem()
        if problem:
            raise FleetFileError(f"{path}: {problem} - at `$.regions.{name}`")
    return plan_of_file(file)


def plan_of_file(file: FleetFile) -> Plan:
    """The plane that serves this fleet."""
    regions = tuple(_region(RegionName(name), spec) for name, spec in file.regions.items())
    return Plan(file.fleet, regions, file.planner)


def plan_of_this_machine() -> Plan:
    """Without a fleet file: one region with one worker and one node, whose CPU is eight slots of type `cpu`."""
    return plan_of_file(FleetFile({HERE: RegionSpec(this_machine=True)}))


def emulated_region(region: RegionName, spec: RegionSpec) -> RegionPlan:
    """Like nodes cut among workers, each of which begins a rack of its own; workers cut among zones, and each zone's dealt out
    to the power domains.
    """
    total = Amount(MILLI * spec.gpus_per_node, EMULATED_NODE.cpu_milli, EMULATED_NODE.memory_bytes)
    inventories = []
    first = 0
    workers = min(spec.workers, spec.nodes)
    in_zone: dict[str, int] = {}
    for number in range(workers):
        count = spec.nodes // spec.workers + (number < spec.nodes % spec.workers)
        rack = number * (spec.nodes // spec.nodes_per_rack + 1)
        zone = f"zone-{number * spec.zones // workers}"
        power = _power_domain(spec, in_zone.setdefault(zone, 0))
        in_zone[zone] += 1
        group = NodeGroup(
            first,
            count,
            total,
            spec.gpu_type,
            rack,
            spec.nodes_per_rack,
            zone,
            power,
            spec.pool,
            gpu_memory=spec.gpu_memory,
            island=spec.island,
        )
        inventories.append(Inventory(WorkerName(f"w{number}"), (group, *_cpu_nodes(spec, number, group))))
        first += count
    return RegionPlan(region, tuple(inventories), spec.agents, _data(spec), _functions(spec))


def _cpu_nodes(spec: RegionSpec, worker: int, beside: NodeGroup) -> tuple[NodeGroup, ...]:
    """A worker's machines without GPUs, behind all nodes and racks that have some."""
    each, more = divmod(spec.cpu_nodes, min(spec.workers, spec.nodes))
    count = each + (worker < more)
    if not count:
        return ()
    racks = spec.nodes // spec.nodes_per_rack + 1
    group = replace(
        beside,
        first=spec.nodes + worker * each + min(worker, more),
        count=count,
        total=EMULATED_NODE,
        gpu_type=CPU_TYPE,
        rack_first=spec.workers * racks + worker * (spec.cpu_nodes // spec.nodes_per_rack + 1),
        gpu_memory=0,
        island=0,
    )
    return (group,)


def _region(name: RegionName, spec: RegionSpec) -> RegionPlan:
    if spec.this_machine:
        inventory = inventory_of_this_machine(
            WorkerName("w0"),
            find_devices(spec.cpu_slots),
            first=0,
            rack=0,
            power_domain=_power_domain(spec, 0),
            pool=spec.pool,
        )
        return RegionPlan(name, (inventory,), spec.agents, _data(spec), _functions(spec))
    return emulated_region(name, spec)


def _data(spec: RegionSpec) -> DataPlan | None:
    if isinstance(spec.data, DataSpec):
        return DataPlan(spec.data.directory, spec.data.copy)
    return DataPlan() if spec.data else None


def _functions(spec: RegionSpec) -> FunctionsPlan | None:
    if isinstance(spec.functions, FunctionsSpec):
        return FunctionsPlan(spec.functions.routers, spec.functions.policy)
    return FunctionsPlan() if spec.functions else None


def _problems_of_data(data: DataSpec) -> dict[str, str]:
    if not Path(data.directory).is_absolute():
        return {"data": f"its `directory` {data.directory} is no absolute path"}
    if not data.copy:
        return {}
    try:
        shlex.split(data.copy)
    except ValueError as error:
        return {"data": f"its `copy` cannot be read as a command: {error}"}
    missing = [name for name in ("{source}", "{target}") if name not in data.copy]
    return {"data": f"its `copy` does not say where {' and '.join(missing)} go"} if missing else {}


def _power_domain(spec: RegionSpec, number: int) -> str:
    """Of a zone's worker of this number."""
    return f"power-{number % spec.power_domains}" if spec.power_domains else ""
