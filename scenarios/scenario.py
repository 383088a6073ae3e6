"""A scenario file: a fleet, workloads and faults, checks, a time to calm down, and expectations with numbers.

Every field is typed; what is not known is refused with its line and its name, and parts are found by theirs
(scenarios/parts.py).
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from runtime.wiring import Plan, units_of
from runtime.yaml_tree import Fields, Listing, Place, Tree, read_yaml
from scenarios.check import Check
from scenarios.expectations import Expectation, read_expectation
from scenarios.fault import Fault
from scenarios.fleet import FleetSpec, plan_of, read_fleet, regions_of
from scenarios.parts import (
    FieldError,
    NotNegative,
    PositiveFloat,
    SomePart,
    parts_in,
    read_part,
    read_struct,
    unknown,
    written,
)
from scenarios.workload import Arrival, Workload

LIBRARY = Path(__file__).parent / "library"
FLEET = "scenario"
"""What every scenario's fleet is called, so that one can go on from another's logs."""
HISTORIES = Path(__file__).parent / "histories"


class ScenarioError(Exception):
    """A scenario file that cannot be run; the text names the file, the line and the field."""


class JobSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job file that is submitted too; it runs programs on this machine."""

    file: str
    """Beside the scenario file, unless its path is absolute."""
    after_seconds: NotNegative = 0.0
    """After the first arrival could come."""
    requeue_after_seconds: NotNegative = 0.0
    """After it began to run, and once a checkpoint counts, it is requeued; 0: never."""


class CalmSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """What happens once the load and the misfortune are over."""

    minutes: PositiveFloat
    """Within so long everything must have ended, and nothing be held, running or lost."""


class ScenarioSpec(Struct, frozen=True):
    """One scenario."""

    name: str
    survives: str
    """What must survive, in two sentences."""
    fleet: FleetSpec
    workload: tuple[Workload, ...]
    jobs: tuple[JobSpec, ...] = ()
    faults: tuple[Fault, ...] = ()
    checks: tuple[Check, ...] = ()
    calm: CalmSpec = CalmSpec(720)
    expectations: tuple[Expectation, ...] = ()
    history: str = ""
    """Of `scenarios/histories/`: logs that an older build wrote, from which the plane starts."""

    @property
    def span(self) -> float:
        """Seconds over which workloads arrive and faults strike."""
        return max(workload.span for workload in self.workload)

    @property
    def plan(self) -> Plan:
        """The plane that serves the fleet."""
        return plan_of(self.fleet, FLEET)

    @property
    def runs_programs(self) -> bool:
        """Whether it needs this machine."""
        return bool(self.jobs) or any(region.this_machine for region in regions_of(self.fleet).values())

    def arrivals(self, dice: random.Random) -> list[Arrival]:
        """All that is submitted, by arrival. The loads are drawn one after the other."""
        drawn = [arrival for workload in self.workload for arrival in workload.arrivals(self.fleet, dice)]
        return sorted(drawn, key=lambda arrival: arrival.at)


def with_trace(spec: ScenarioSpec, directory: Path) -> ScenarioSpec:
    """The scenario with jobs of the Philly trace in a folder for its first load, and no other. Raises ScenarioError."""
    like = spec.workload[0]
    fields = {
        "workloads": like.workloads,
        "hours": like.hours,
        "compression": like.compression,
        "minutes_max": like.minutes_max,
        "gpus_max": like.gpus_max,
        "directory": str(directory),
    }
    trace = read_part("workloads", Workload, {"philly": fields}, ("workload",))
    problem = trace.problem(spec.fleet, ("workload", trace.name))
    if problem is not None:
        raise ScenarioError(problem.text)
    return replace(spec, workload=(trace,))


FIELDS = tuple(field.name for field in msgspec.structs.fields(ScenarioSpec))


def all_checks() -> tuple[Check, ...]:
    """Every check, as it is by default."""
    return tuple(check() for check in parts_in("checks", Check).values())


def load_scenario(name: str) -> ScenarioSpec:
    """A scenario of the library by its name, or any file by its path. Raises ScenarioError."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        try:
            return parse_scenario(path.read_text(encoding="utf-8"), name)
        except FileNotFoundError as error:
            raise ScenarioError(f"{name}: there is no such file") from error
        except (OSError, UnicodeDecodeError) as error:
            raise ScenarioError(f"{name}: it cannot be read ({error})") from error
    found = LIBRARY / f"{name}.yaml"
    if not found.is_file():
        raise ScenarioError(unknown(name, library(), what="scenarios"))
    return parse_scenario(found.read_text(encoding="utf-8"), f"{name}.yaml")


def library() -> list[str]:
    """Names of the scenarios that come with Mizzen."""
    return sorted(path.stem for path in LIBRARY.glob("*.yaml"))


def parse_scenario(text: str, source: str) -> ScenarioSpec:
    """From YAML. Raises ScenarioError."""
    tree, problems = read_yaml(text, source)
    if problems or tree is None:
        raise ScenarioError("\n".join(str(problem) for problem in problems))
    try:
        return read_scenario(yaml.safe_load(text))
    except FieldError as error:
        raise ScenarioError(f"{place_of(tree, error.path)}: {_told(error)}") from error
    except (yaml.YAMLError, ValueError) as error:
        # What the tree allows and YAML's own types do not, such as a date in month 13.
        raise ScenarioError(f"{source}: {error}") from error


def read_scenario(given: Any) -> ScenarioSpec:  # Any: as YAML gives it
    """From plain values. Raises FieldError."""
    if not isinstance(given, dict):
        raise FieldError((), "it must be a mapping of fields, such as `name: my_day`")
    for name in given:
        if name not in FIELDS:
            raise FieldError((str(name),), unknown(str(name), FIELDS, what="fields"))
    for name in ("name", "survives", "fleet", "workload"):
        if given.get(name) is None:
            raise FieldError((), f"`{name}` is missing")
    fleet = read_fleet(given["fleet"], ("fleet",))
    workload = given["workload"]
    loads = _parts("workloads", Workload, workload if isinstance(workload, list) else [workload], "workload")
    spec = ScenarioSpec(
        name=_text(given, "name"),
        survives=_text(given, "survives"),
        fleet=fleet,
        workload=loads,
        jobs=tuple(read_struct(JobSpec, job, ("jobs", n)) for n, job in enumerate(_list(given, "jobs"))),
        faults=_parts("faults", Fault, _list(given, "faults"), "faults"),
        checks=_parts("checks", Check, _list(given, "checks"), "checks") or all_checks(),
        calm=read_struct(CalmSpec, given["calm"], ("calm",)) if "calm" in given else CalmSpec(720),
        expectations=tuple(
            read_expectation(text, ("expectations", number))
            for number, text in enumerate(_list(given, "expectations"))
        ),
        history=_text(given, "history") if "history" in given else "",
    )
    _check(spec, is_listed=isinstance(workload, list))
    return spec


def scenario_written(spec: ScenarioSpec) -> str:
    """The scenario as a file; `parse_scenario` reads the same from it."""
    every = all_checks()
    fields: dict[str, Any] = {  # Any: as YAML takes it
        "name": spec.name,
        "survives": spec.survives,
        "fleet": msgspec.to_builtins(spec.fleet),
        "workload": [written(part) for part in spec.workload],
        "jobs": msgspec.to_builtins(spec.jobs),
        "faults": [written(part) for part in spec.faults],
        "checks": [] if spec.checks == every else [written(part) for part in spec.checks],
        "calm": msgspec.to_builtins(spec.calm),
        "expectations": [str(expectation) for expectation in spec.expectations],
        "history": spec.history,
    }
    return yaml.safe_dump(
        {name: value for name, value in fields.items() if value},
        sort_keys=False,
        allow_unicode=True,
        width=120,
    )


def place_of(tree: Tree, path: Sequence[str | int]) -> Place:
    """Where a field was written, or the nearest that there is around it."""
    place = tree.place
    for step in path:
        if isinstance(tree, Fields) and step in tree.entries:
            place, tree = tree.keys[str(step)], tree.entries[str(step)]
        elif isinstance(tree, Listing) and isinstance(step, int) and step < len(tree.items):
            tree = tree.items[step]
            place = tree.place
        else:
            break
    return place


def _check(spec: ScenarioSpec, *, is_listed: bool) -> None:
    """What fields cannot say each for itself. Raises FieldError."""
    units = units_of(spec.plan)
    problems: list[FieldError | None] = []
    for number, workload in enumerate(spec.workload):
        path = ("workload", number) if is_listed else ("workload",)
        problems.append(workload.problem(spec.fleet, (*path, workload.name)))
    for number, fault in enumerate(spec.faults):
        problems.append(fault.problem(spec.fleet, units, ("faults", number, fault.name)))
    for problem in problems:
        if problem is not None:
            raise problem
    if spec.history and not (HISTORIES / spec.history).is_file():
        known = [path.name for path in HISTORIES.iterdir() if path.is_file()]
        raise FieldError(("history",), unknown(spec.history, known, what="history"))


def _parts(folder: str, kind: type[SomePart], given: list[Any], field: str) -> tuple[SomePart, ...]:
    is_one = field == "workload" and len(given) == 1
    return tuple(
        read_part(folder, kind, item, (field,) if is_one else (field, number))
        for number, item in enumerate(given)
    )


def _list(given: dict[str, Any], name: str) -> list[Any]:
    value = given.get(name) or []
    if not isinstance(value, list):
        raise FieldError((name,), "it must be a list")
    return value


def _text(given: dict[str, Any], name: str) -> str:
    if not isinstance(given[name], str) or not given[name].strip():
        raise FieldError((name,), "it must be a text")
    return str(given[name])


def _told(error: FieldError) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.path)
    return f"{path.lstrip('.')}: {error.text}" if path else error.text
