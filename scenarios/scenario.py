"""A scenario file: a fleet, a load and misfortune, every field typed; unknown fields are refused with their name."""

from pathlib import Path
from typing import Annotated

import msgspec
import yaml
from msgspec import Meta, Struct

LIBRARY = Path(__file__).parent / "library"

Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(gt=0)]
PositiveFloat = Annotated[float, Meta(gt=0.0)]


class ScenarioError(Exception):
    """A scenario file that cannot be run; the text names the file and the field."""


class FleetSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """Regions that are alike."""

    regions: Positive
    nodes: Positive
    """In each region."""
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


class ScenarioSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """One scenario."""

    name: str
    survives: str
    """What must survive, in two sentences."""
    fleet: FleetSpec
    load: LoadSpec
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
        return msgspec.convert(yaml.safe_load(text), ScenarioSpec)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise ScenarioError(f"{source}: {error}") from error
