"""A scenario file: a fleet, a load and misfortune, every field typed; unknown fields are refused with their name."""

from pathlib import Path
from typing import Annotated

import msgspec
import yaml
from msgspec import Meta, Struct

from runtime.fleet_file import Count, Name, Positive, RegionSpec

LIBRARY = Path(__file__).parent / "library"

Share = Annotated[float, Meta(ge=0.0, le=1.0)]
PositiveFloat = Annotated[float, Meta(gt=0.0)]
NotNegative = Annotated[float, Meta(ge=0.0)]


class ScenarioError(Exception):
    """A scenario file that cannot be run; the text names the file and the field."""


class FleetSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """So many regions that are alike; or regions by name, as in a fleet file, which say all else themselves."""

    regions: Positive | Annotated[dict[Name, RegionSpec], Meta(min_length=1)]
    nodes: Positive | None = None
    """In each of the regions that are alike."""
    workers: Positive = 3
    """Processes that serve a region's nodes."""
    agents: Positive = 2
    gpus_per_node: Positive = 8
    gpu_type: str = "H100"
    nodes_per_rack: Positive = 16


class LoadSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """Workloads drawn from the calibrated distributions (scenarios/load.py), time and size scaled."""

    workloads: Positive
    hours: PositiveFloat
    """Over which they arrive."""
    minutes_median: PositiveFloat = 20.0
    minutes_max: PositiveFloat = 600.0
    gpus_max: Positive = 256
    fails_share: Share = 0.05
    """Whose tasks fail once they ran for a while."""
    cancels_share: Share = 0.02
    compression: PositiveFloat = 1.0
    """By which every span that is drawn is divided: a day in minutes."""


class JobSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A job file that is submitted too."""

    file: str
    """Beside the scenario file, unless its path is absolute."""
    after_seconds: NotNegative = 0.0
    """After the first arrival could come."""
    requeue_after_seconds: NotNegative = 0.0
    """After it began to run, and once a checkpoint counts, it is requeued; 0: never."""


class KillSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A process that is killed, as by kill -9."""

    role: str
    after_seconds: NotNegative
    region: str = ""
    member: str = ""
    """One of several; empty: the first."""


class MisfortuneSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """What goes wrong, drawn from the seed."""

    drop: Share = 0.0
    repeat: Share = 0.0
    reorders: bool = False
    crashes_each: Count = 0
    """How often each process of the plane is killed, at any await, and started again."""
    down_seconds_max: PositiveFloat = 30.0
    workers_lost: Count = 0
    """Workers cut off from the bus until they count as lost, and back again."""
    kills: tuple[KillSpec, ...] = ()
    """These, at these times, beside whatever is drawn."""


class ScenarioSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """One scenario."""

    name: str
    survives: str
    """What must survive, in two sentences."""
    fleet: FleetSpec
    load: LoadSpec
    jobs: tuple[JobSpec, ...] = ()
    misfortune: MisfortuneSpec = MisfortuneSpec()
    calm_hours: PositiveFloat = 12.0
    """After the last arrival and the last fault, everything must have ended within so long."""


def load_scenario(name: str) -> ScenarioSpec:
    """A scenario of the library by its name, or any file by its path. Raises ScenarioError."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise ScenarioError(f"{name}: there is no such file")
        return parse_scenario(path.read_text(encoding="utf-8"), name)
    found = LIBRARY / f"{name}.yaml"
    if not found.is_file():
        raise ScenarioError(f"{name}: the library has {', '.join(library())}")
    return parse_scenario(found.read_text(encoding="utf-8"), f"{name}.yaml")


def library() -> list[str]:
    """Names of the scenarios that come with Mizzen."""
    return sorted(path.stem for path in LIBRARY.glob("*.yaml"))


def parse_scenario(text: str, source: str) -> ScenarioSpec:
    """From YAML. Raises ScenarioError."""
    try:
        spec = msgspec.convert(yaml.safe_load(text), ScenarioSpec)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ScenarioError(f"{source}: {error}") from error
    if isinstance(spec.fleet.regions, dict):
        for name, region in spec.fleet.regions.items():
            problem = region.problem()
            if problem:
                raise ScenarioError(f"{source}: {problem} - at `$.fleet.regions.{name}`")
    elif spec.fleet.nodes is None:
        raise ScenarioError(f"{source}: Object missing required field `nodes` - at `$.fleet`")
    return spec
