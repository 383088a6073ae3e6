"""A fleet from a scenario: regions that are alike, or regions by name; or one of `scenarios/fleets/` by its name."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from msgspec import Meta, Struct
from msgspec.structs import replace

from core.nouns.agents import AgentView
from core.nouns.fleet import Inventory
from core.nouns.ids import RegionName, WorkerName
from core.nouns.instant import SECOND, seconds
from core.nouns.limits import NEED_MAX
from core.nouns.pool import SHARED_POOL
from core.nouns.sharing import ROUND_SPAN, SharingSettings
from core.rules.shared_pools import ROUND_SPAN_MAX, ROUND_SPAN_MIN
from core.sharing.policies import POLICIES
from runtime.fleet_file import POOL, FleetFile, FunctionsSpec, Name, RegionSpec, emulated_region, plan_of_file
from runtime.wiring import Plan, RegionPlan, Unit
from scenarios.schema.agents import AgentsSpec
from scenarios.schema.data import DataFleetSpec
from scenarios.schema.harvest import HarvestSpec
from scenarios.schema.parts import FieldError, FieldErrors, Steps, read_struct, read_value, tried, unknown
from scenarios.schema.pools import PoolsSpec

FLEETS = Path(__file__).resolve().parents[1] / "fleets"
REGIONS_MAX = 100
NODES_MAX = 200_000
"""Of one region."""
PROCESSES_MAX = 1_000
"""Of one region and one role."""
GPUS_PER_NODE_MAX = 1_000
ZONES_MAX = 1_000
Beside = TypeVar("Beside", bound=Struct)
Regions = Annotated[int, Meta(gt=0, le=REGIONS_MAX)]
Nodes = Annotated[int, Meta(gt=0, le=NODES_MAX)]
Processes = Annotated[int, Meta(gt=0, le=PROCESSES_MAX)]
GpusPerNode = Annotated[int, Meta(gt=0, le=GPUS_PER_NODE_MAX)]
Zones = Annotated[int, Meta(gt=0, le=ZONES_MAX)]
GpuMemory = Annotated[int, Meta(ge=0, le=NEED_MAX)]
RoundSeconds = Annotated[float, Meta(ge=ROUND_SPAN_MIN / SECOND, le=ROUND_SPAN_MAX / SECOND)]
Island = Annotated[int, Meta(ge=0, le=NODES_MAX)]
PowerDomains = Annotated[int, Meta(ge=0, le=ZONES_MAX)]
MOST = {
    "nodes": NODES_MAX,
    "cpu_nodes": NODES_MAX,
    "workers": PROCESSES_MAX,
    "agents": PROCESSES_MAX,
    "gpus_per_node": GPUS_PER_NODE_MAX,
    "zones": ZONES_MAX,
    "power_domains": ZONES_MAX,
    "nodes_per_rack": NODES_MAX,
    "gpu_memory": NEED_MAX,
    "island": NODES_MAX,
    "cpu_slots": GPUS_PER_NODE_MAX,
}
"""Of a region that is named: a plane's own fleet file may say more."""


OF_ALL_REGIONS = ("regions", "planner", "shared", "agent_settings", "data", "pools", "harvest")
"""Fields that stand beside `regions` that are named."""


class SharedSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the shared pools of a fleet are divided. An operator sets it at the start, as `mizzen policy set` does."""

    policy: str = SharingSettings().policy
    """One of core/sharing/policies/."""
    round_seconds: RoundSeconds = ROUND_SPAN / SECOND
    """From one round to the next."""
    space_sharing: bool = False
    """Whether two jobs may share a GPU."""

    @property
    def settings(self) -> SharingSettings:
        """Return the settings as the plane is told."""
        return SharingSettings(self.policy, seconds(self.round_seconds), has_pairs=self.space_sharing)


class FleetSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """So many regions that are alike; or regions by name, as in a fleet file, which say all else themselves."""

    regions: Regions | Annotated[dict[Name, RegionSpec], Meta(min_length=1)]
    nodes: Nodes | None = None
    """In each of the regions that are alike."""
    workers: Processes = 3
    """Processes that serve a region's nodes, one for each node at most; a fault that takes a machine takes one of them with all its nodes."""
    agents: Processes = 2
    gpus_per_node: GpusPerNode = 8
    gpu_type: Annotated[str, Meta(min_length=1)] = "H100"
    nodes_per_rack: Nodes = 16
    zones: Zones = 1
    """Among which a region's workers are cut, with all their nodes."""
    power_domains: PowerDomains = 0
    """To which each zone's workers are dealt out in turn, with all their nodes; 0: none are known."""
    pool: Name = POOL
    """What all nodes are used for."""
    gpu_memory: GpuMemory = 0
    """Bytes of one GPU; 0: nobody knows."""
    island: Island = 0
    """GPUs joined by NVLink; 0: nobody knows."""
    functions: FunctionsSpec | bool = False
    """Whether each of the regions that are alike runs functions, and how."""
    planner: bool = False
    """Whether prices are solved for; it is said beside `regions` that are named, too."""
    shared: SharedSpec | None = None
    """The settings of the pool `shared`, beside `regions` that are named too; None: those that a plane begins with."""
    agent_settings: AgentsSpec | None = None
    """How agents see their regions, beside `regions` that are named too; None: as a plane begins."""
    data: DataFleetSpec | None = None
    """Storage, links and datasets, beside `regions` that are named too; None: no region has a data service."""
    pools: PoolsSpec | None = None
    """Needs of pools, beside `regions` that are named too; None: nodes stay in the pools of their workers."""
    harvest: HarvestSpec | None = None
    """A pool that lends its free capacity to functions, beside `regions` that are named too; None: a plane's own settings."""


class MixedRegion(RegionSpec, frozen=True):
    """A region with several GPU types: parts of one type each, with workers and racks of their own. No file can say this."""

    parts: tuple[RegionSpec, ...] = ()


def mixed(parts: Sequence[RegionSpec]) -> MixedRegion:
    """Return the region that these emulated regions are together. Agents and GPUs of a node are those of the first."""
    first = parts[0]
    return MixedRegion(
        nodes=sum(part.nodes for part in parts),
        cpu_nodes=sum(part.cpu_nodes for part in parts),
        workers=sum(part.workers for part in parts),
        gpu_type=first.gpu_type,
        gpus_per_node=first.gpus_per_node,
        agents=first.agents,
        parts=tuple(parts),
    )


def parts_of(region: RegionSpec) -> tuple[RegionSpec, ...]:
    """Return a region by GPU type: itself, if the region is not mixed."""
    return region.parts if isinstance(region, MixedRegion) else (region,)


def fleets() -> list[str]:
    """Names of the fleets that come with Mizzen."""
    return sorted(path.stem for path in FLEETS.glob("*.yaml"))


def read_fleet(given: Any, path: Steps) -> FleetSpec:  # Any: as YAML gives it
    """A fleet by its name, or as it is written. Raises FieldError and FieldErrors."""
    if isinstance(given, str):
        if given not in fleets():
            raise FieldError(path, unknown(given, fleets(), what="fleets"))
        given = yaml.safe_load((FLEETS / f"{given}.yaml").read_text(encoding="utf-8"))
    if isinstance(given, dict) and isinstance(given.get("regions"), dict):
        return _read_regions(given, path)
    spec = read_struct(FleetSpec, given, path)
    if spec.nodes is None:
        raise FieldError((*path, "nodes"), "a fleet needs `nodes`: how many each region has")
    problems = regions_of(spec)["r0"].problems()
    errors = [FieldError((*path, name), text) for name, text in problems.items()]
    errors += _problems_of_shared(spec, path)
    errors += _problems_of_agents(spec, path)
    errors += _problems_of_data(spec, path)
    errors += _problems_of_pools(spec, path)
    if errors:
        raise FieldErrors(errors)
    return spec


def _problems_of_shared(fleet: FleetSpec, path: Steps) -> list[FieldError]:
    """Return the problems of the settings of shared pools: there is no such policy, or no such pool."""
    if fleet.shared is None:
        return []
    errors = []
    if fleet.shared.policy not in POLICIES:
        text = f"there is no policy `{fleet.shared.policy}`; there are {', '.join(sorted(POLICIES))}"
        errors.append(FieldError((*path, "shared", "policy"), text))
    if all(region.pool != SHARED_POOL for region in regions_of(fleet).values()):
        text = f"no region of the fleet has nodes in the pool `{SHARED_POOL}`"
        errors.append(FieldError((*path, "shared"), text))
    return errors


def _problems_of_agents(fleet: FleetSpec, path: Steps) -> list[FieldError]:
    """Return the problems of the settings of agents: a region that there is not, or one with too few agents."""
    spec, regions = fleet.agent_settings, regions_of(fleet)
    if spec is None:
        return []
    at = (*path, "agent_settings")
    errors = [
        FieldError((*at, "regions"), unknown(name, sorted(regions), what="regions"))
        for name in spec.regions
        if name not in regions
    ]
    for name, region in regions.items():
        is_meant = (not spec.regions or name in spec.regions) and spec.view is not AgentView.STREAM
        if is_meant and spec.full >= region.agents:
            text = f"it must be less than the {region.agents} agents of {name}"
            errors.append(FieldError((*at, "full"), text))
    return errors


def _problems_of_data(fleet: FleetSpec, path: Steps) -> list[FieldError]:
    """Return the problems of data: a region that there is not, or that has no data service."""
    if fleet.data is None:
        return []
    regions = sorted(regions_of(fleet))
    served = fleet.data.served(regions)
    errors = [
        FieldError((*path, "data", "directories"), unknown(region, regions, what="regions"))
        for region in fleet.data.directories
        if region not in regions
    ]
    return errors + [
        FieldError((*path, "data", "datasets", name), unknown(region, served, what="regions with data"))
        for name, region in fleet.data.unknown_regions(frozenset(served))
    ]


def _problems_of_pools(fleet: FleetSpec, path: Steps) -> list[FieldError]:
    """Return the problems of needs: a pool that there is not, or no planner that could meet them."""
    if fleet.pools is None:
        return []
    errors = fleet.pools.problems(sorted(regions_of(fleet)), (*path, "pools"))
    if not fleet.planner:
        errors.append(
            FieldError((*path, "pools"), "needs are met by a planner; say `planner: true` beside them")
        )
    return errors


def plan_of(fleet: FleetSpec, name: str) -> Plan:
    """The plane that serves this fleet."""
    plan = plan_of_file(fleet_file_of(fleet, name))
    specs = regions_of(fleet)
    regions = (_with_parts(region, specs[region.region]) for region in plan.regions)
    return replace(plan, regions=tuple(regions))


def _with_parts(plan: RegionPlan, spec: RegionSpec) -> RegionPlan:
    if not isinstance(spec, MixedRegion):
        return plan
    return replace(plan, inventories=tuple(_side_by_side(plan.region, spec.parts)))


def _side_by_side(region: RegionName, parts: Sequence[RegionSpec]) -> Iterator[Inventory]:
    """The workers of all parts, with nodes, racks and names behind those of the parts before."""
    nodes = racks = workers = 0
    for part in parts:
        inventories = emulated_region(region, part).inventories
        groups = [group for one in inventories for group in one.groups]
        for one in inventories:
            moved = tuple(
                replace(group, first=nodes + group.first, rack_first=racks + group.rack_first)
                for group in one.groups
            )
            yield Inventory(WorkerName(f"w{workers}"), moved)
            workers += 1
        nodes += part.nodes + part.cpu_nodes
        racks += max(group.rack_first + -(-group.count // group.nodes_per_rack) for group in groups)


def fleet_file_of(fleet: FleetSpec, name: str) -> FleetFile:
    """The same fleet as a fleet file has it."""
    regions = regions_of(fleet)
    if fleet.data is not None:
        served = fleet.data.served(regions)
        regions = {
            region: replace(spec, data=True) if region in served else spec for region, spec in regions.items()
        }
    return FleetFile(regions, name, fleet.planner)


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
        power_domains=fleet.power_domains,
        pool=fleet.pool,
        gpu_memory=fleet.gpu_memory,
        island=fleet.island,
        functions=fleet.functions,
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


def _beside(
    given: dict[str, Any], name: str, kind: type[Beside], path: Steps, errors: list[FieldError]
) -> Beside | None:  # Any: as YAML gives it
    """Return what is said beside regions that are named, if it is; what is wrong with it goes to `errors`."""
    said = given.get(name)
    return None if said is None else tried(errors, partial(read_struct, kind, said, (*path, name)))


def _read_regions(given: dict[str, Any], path: Steps) -> FleetSpec:  # Any: as YAML gives it
    """Regions by their names, each read for itself, so that what is wrong is said of it. Raises FieldErrors."""
    errors: list[FieldError] = []
    for name in given:
        if name in FleetSpec.__struct_fields__ and name not in OF_ALL_REGIONS:
            text = "regions that are named say this themselves, each for itself"
            errors.append(FieldError((*path, name), text))
        elif name not in OF_ALL_REGIONS:
            errors.append(FieldError((*path, name), unknown(name, FleetSpec.__struct_fields__, what="field")))
    at = (*path, "regions")
    planner = tried(errors, partial(read_value, given.get("planner", False), bool, (*path, "planner")))
    shared = _beside(given, "shared", SharedSpec, path, errors)
    agents = _beside(given, "agent_settings", AgentsSpec, path, errors)
    data = _beside(given, "data", DataFleetSpec, path, errors)
    pools = _beside(given, "pools", PoolsSpec, path, errors)
    harvest = _beside(given, "harvest", HarvestSpec, path, errors)
    found = {}
    for name, region in given["regions"].items():
        tried(errors, partial(read_value, name, Name, (*at, name)))
        found[name] = tried(errors, partial(_read_region, region, (*at, name)))
    if not found:
        errors.append(FieldError(at, "it must not be empty"))
    if len(found) > REGIONS_MAX:
        errors.append(FieldError(at, f"there must be at most {REGIONS_MAX} of them"))
    if errors:
        raise FieldErrors(errors)
    regions = {name: region for name, region in found.items() if region is not None}
    fleet = FleetSpec(
        regions,
        planner=bool(planner),
        shared=shared,
        agent_settings=agents,
        data=data,
        pools=pools,
        harvest=harvest,
    )
    errors = [
        *_problems_of_shared(fleet, path),
        *_problems_of_agents(fleet, path),
        *_problems_of_data(fleet, path),
        *_problems_of_pools(fleet, path),
    ]
    if errors:
        raise FieldErrors(errors)
    return fleet


def _read_region(given: Any, path: Steps) -> RegionSpec:  # Any: as YAML gives it
    """Raises FieldError and FieldErrors."""
    region = read_struct(RegionSpec, given, path)
    errors = [
        FieldError((*path, name), f"it must be at most {most:,}")
        for name, most in MOST.items()
        if getattr(region, name) > most
    ]
    if not errors:
        errors = [
            FieldError((*path, name) if name else path, text) for name, text in region.problems().items()
        ]
    if errors:
        raise FieldErrors(errors)
    return region
