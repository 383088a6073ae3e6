"""A scenario file: a fleet, workloads and faults, checks, a time to calm down, and expectations with numbers.

Every field is typed; what is not known is refused with its line and its name, and parts are found by theirs
(scenarios/schema/parts.py).
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from core.dispatch.settings import problems_of_settings
from runtime.fleet_file import Name
from runtime.wiring import Plan, units_of
from runtime.yaml_tree import Fields, Listing, Place, Problem, Tree, read_yaml
from scenarios.check import Check
from scenarios.controller import Controller
from scenarios.fault import Fault
from scenarios.schema.dispatch import DispatchSpec
from scenarios.schema.expectations import Expectation, read_expectation
from scenarios.schema.fleet import FleetSpec, plan_of, read_fleet, regions_of
from scenarios.schema.history import HistoryError, read_history
from scenarios.schema.parts import (
    FieldError,
    FieldErrors,
    Found,
    Minutes,
    NotNegative,
    SomePart,
    Steps,
    parts_in,
    read_part,
    read_struct,
    read_value,
    tried,
    unknown,
    written,
)
from scenarios.schema.preemption import PreemptionSpec
from scenarios.schema.tenants import RankingSpec, TenantSpec, problems_of_tenants, read_tenants
from scenarios.schema.values import values_of
from scenarios.variant import Variant
from scenarios.variants.exhaustive import Exhaustive
from scenarios.workload import Arrival, Workload

S = TypeVar("S", bound=Struct)

LIBRARY = Path(__file__).parent / "library"
FLEET = "scenario"
"""What every scenario's fleet is called, so that one can go on from another's logs."""
HISTORIES = Path(__file__).parent / "histories"
CALM_MINUTES = 720
"""Unless a scenario says another time: half a day."""
SUFFIXES = (".yaml", ".yml")
EXHAUSTIVE = Exhaustive()
_MUST = ("name", "survives", "fleet", "workload")


class ScenarioError(Exception):
    """A scenario file that cannot be run; the text names the file, the line and the field."""

    def __init__(self, text: str, problems: Sequence[str] = ()) -> None:
        """Where there are many problems, the text counts them, and each has a line of its own."""
        super().__init__(text)
        self.problems = tuple(problems)


class JobSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A job file that is submitted too; it runs programs on this machine."""

    file: str
    """Beside the scenario file, unless its path is absolute."""
    after_seconds: NotNegative = 0.0
    """After the first arrival could come."""
    requeue_after_seconds: NotNegative = 0.0
    """After it began to run, and once a checkpoint counts, it is requeued; 0: never."""
    controller: str = ""
    """Who must agree before it is touched: one of the scenario's `controllers`."""
    drain_after_seconds: NotNegative = 0.0
    """After it began to run, and once a checkpoint counts, its nodes are drained, and given back once it has left; 0: never."""
    once_back: bool = False
    """It is submitted only once the first job runs again, after the drain or the requeue that this scenario names."""
    pushes_out_after_seconds: NotNegative = 0.0
    """It is submitted only once the first job has run for so long in its newest attempt and has a checkpoint of that, and after it
    has left a drain, if it is to, and programs with `calls` have ended: to push that one out. 0: as `after_seconds` says."""
    calls: str = ""
    """Of a service for functions: a program that calls them once it runs, as a user of its tenant, and after which it is cancelled."""


class CalmSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """What happens once the load and the misfortune are over."""

    minutes: Minutes
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
    controllers: tuple[Controller, ...] = ()
    """Who answers for work that names them."""
    tenants: dict[str, TenantSpec] = {}
    """What operators set of them at the start, by their names."""
    ranking: RankingSpec | None = None
    """By which rules the queue ranks, if not by its own."""
    preemption: PreemptionSpec | None = None
    """How regions choose whom they push out, if not by their own rules."""
    dispatch: DispatchSpec = DispatchSpec()
    """In which order hosts decide messages, and how long that takes in simulation."""
    checks: tuple[Check, ...] = ()
    calm: CalmSpec = CalmSpec(CALM_MINUTES)
    expectations: tuple[Expectation, ...] = ()
    variant: Variant = EXHAUSTIVE
    """By which design places are looked for."""
    history: str = ""
    """Of `scenarios/histories/`: logs that an older build wrote, from which the plane starts."""

    @property
    def span(self) -> float:
        """Seconds over which workloads arrive and faults strike."""
        return max(workload.span for workload in self.workload)

    @property
    def plan(self) -> Plan:
        """The plane that serves the fleet."""
        return plan_of(self.variant.served(self.fleet), FLEET)

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
        "workloads": like.amount,
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
    if name in library():
        return parse_scenario((LIBRARY / f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml")
    path = Path(name)
    if name and path.is_dir():
        raise ScenarioError(f"{name}: it is a directory, and a scenario file is wanted")
    if path.suffix not in SUFFIXES:
        if "/" in name or (name and path.exists()):
            raise ScenarioError(f"{name}: the name of a scenario file ends in .yaml")
        raise ScenarioError(unknown(name, library(), what="scenarios"))
    try:
        return parse_scenario(path.read_text(encoding="utf-8"), name)
    except FileNotFoundError as error:
        raise ScenarioError(f"{name}: there is no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{name}: it cannot be read ({error})") from error


def library() -> list[str]:
    """Names of the scenarios that come with Mizzen."""
    return sorted(path.stem for path in LIBRARY.glob("*.yaml"))


def parse_scenario(text: str, source: str) -> ScenarioSpec:
    """From YAML. Raises ScenarioError."""
    tree, problems = read_yaml(text, source)
    if problems or tree is None:
        raise _error_of(source, problems)
    given, errors = values_of(text)
    spec = tried(errors, lambda: read_scenario(given))
    if spec is None or errors:
        raise _error_of(source, [_problem_of(tree, error) for error in errors])
    return spec


def read_scenario(given: Any) -> ScenarioSpec:  # Any: as YAML gives it
    """From plain values. Raises FieldError and FieldErrors, which are all that is wrong."""
    if not isinstance(given, dict):
        raise FieldError((), "it must be a mapping of fields, such as `name: my_day`")
    errors = [
        FieldError((name,), unknown(str(name), FIELDS, what="fields")) for name in given if name not in FIELDS
    ]
    errors += [FieldError((), f"`{name}` is missing") for name in _MUST if given.get(name) is None]
    fleet = tried(errors, lambda: read_fleet(given["fleet"], ("fleet",))) if given.get("fleet") else None
    loads = _loads(given, errors)
    faults = _parts("faults", Fault, given, "faults", errors)
    controllers = _parts("controllers", Controller, given, "controllers", errors)
    checks = _parts("checks", Check, given, "checks", errors)
    variant = (
        tried(errors, lambda: read_part("variants", Variant, given["variant"], ("variant",)))
        if given.get("variant") is not None
        else None
    )
    _check(fleet, loads, faults, variant or EXHAUSTIVE, errors)
    jobs = _each(given, "jobs", errors, partial(read_struct, JobSpec))
    named = {path: load.controller for path, load in loads.items()}
    named |= {("jobs", number): job.controller for number, job in enumerate(jobs)}
    named = {(*path, "controller"): name for path, name in named.items()}
    named |= {(*path, "called"): fault.controller for path, fault in faults.items()}
    _check_controllers(named, controllers, errors)
    tenants = read_tenants(given, errors)
    expectations = _each(given, "expectations", errors, read_expectation)
    errors += problems_of_tenants(tenants, fleet, _tenants_named(loads, faults, expectations))
    calm = tried(errors, lambda: read_struct(CalmSpec, given["calm"], ("calm",))) if "calm" in given else None
    history = _text(given, "history", errors) if "history" in given else ""
    if history:
        tried(errors, lambda: _look_at_history(history))
    fields: dict[str, Any] = {  # Any: as each field has it
        "name": _name(given, errors),
        "survives": _text(given, "survives", errors),
        "jobs": jobs,
        "expectations": expectations,
        "tenants": tenants,
        "ranking": _struct(given, "ranking", RankingSpec, errors),
        "preemption": _struct(given, "preemption", PreemptionSpec, errors),
        "dispatch": _dispatch(given, errors),
    }
    if errors or fleet is None:
        raise FieldErrors(errors)
    return ScenarioSpec(
        **fields,
        fleet=fleet,
        workload=tuple(loads.values()),
        faults=tuple(faults.values()),
        controllers=tuple(controllers.values()),
        checks=tuple(checks.values()) or all_checks(),
        calm=calm or CalmSpec(CALM_MINUTES),
        variant=variant or EXHAUSTIVE,
        history=history,
    )


def _struct(given: Any, name: str, kind: type[S], errors: list[FieldError]) -> S | None:
    """A field that is a mapping, if it is there."""  # Any: as YAML gives it
    found = given.get(name)
    return None if found is None else tried(errors, lambda: read_struct(kind, found, (name,)))


def _dispatch(given: dict[str, Any], errors: list[FieldError]) -> DispatchSpec:
    """As the queue would check it."""
    spec = _struct(given, "dispatch", DispatchSpec, errors) or DispatchSpec()
    errors += [FieldError(("dispatch",), problem) for problem in problems_of_settings(spec.settings)]
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
        "controllers": [written(part) for part in spec.controllers],
        "tenants": msgspec.to_builtins(spec.tenants),
        "ranking": msgspec.to_builtins(spec.ranking),
        "preemption": msgspec.to_builtins(spec.preemption),
        "dispatch": msgspec.to_builtins(spec.dispatch),
        "checks": [] if spec.checks == every else [written(part) for part in spec.checks],
        "calm": msgspec.to_builtins(spec.calm),
        "expectations": [str(expectation) for expectation in spec.expectations],
        "variant": {} if spec.variant == EXHAUSTIVE else written(spec.variant),
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


def _check(
    fleet: FleetSpec | None,
    loads: dict[Steps, Workload],
    faults: dict[Steps, Fault],
    variant: Variant,
    errors: list[FieldError],
) -> None:
    """What fields cannot say each for itself, of those that could be read."""
    if fleet is None:
        return
    units = units_of(plan_of(variant.served(fleet), FLEET))
    span = max((load.span for load in loads.values()), default=None)
    found = [load.problem(fleet, path) for path, load in loads.items()]
    for path, fault in faults.items():
        found += [fault.problem(fleet, units, path), None if span is None else _too_late(fault, span, path)]
    errors += [error for error in found if error is not None]


def _check_controllers(
    named: dict[Steps, str], controllers: dict[Steps, Controller], errors: list[FieldError]
) -> None:
    """Each name once, and none that nobody has."""
    names: dict[str, None] = {}
    for path, controller in controllers.items():
        if controller.called in names:
            text = f"two controllers are called `{controller.called}`"
            errors.append(FieldError((*path, "called"), text))
        names[controller.called] = None
    for path, name in named.items():
        if name and name not in names:
            text = unknown(name, names, what="controllers")
            errors.append(FieldError(path, text))


def _tenants_named(
    loads: dict[Steps, Workload], faults: dict[Steps, Fault], expectations: Sequence[Expectation]
) -> list[tuple[Steps, str]]:
    """Where a file names tenants. A load names one, or those that have none of it alone would be refused."""
    named = [
        ((*path, "tenant"), name)
        for path, load in loads.items()
        if not load.controller
        for name in load.of_tenants or ("",)
    ]
    named += [((*path, "tenant"), name) for path, fault in faults.items() for name in fault.of_tenants]
    return named + [
        (("expectations", number), one.tenant) for number, one in enumerate(expectations) if one.tenant
    ]


def _too_late(fault: Fault, span: float, path: Steps) -> FieldError | None:
    """That its time cannot come."""
    after = fault.after_seconds
    if after is None:
        return None
    first = after[0] if isinstance(after, tuple) else after
    if first <= span:
        return None
    return FieldError(
        (*path, "after_seconds"), f"the load is over after {span:g} seconds, and faults with it"
    )


def _loads(given: dict[str, Any], errors: list[FieldError]) -> dict[Steps, Workload]:
    """One, or a list of them, each with its place."""
    workload = given.get("workload")
    if workload is None:
        return {}
    if workload == []:
        errors.append(FieldError(("workload",), "it must not be empty: something must be submitted"))
    if isinstance(workload, list):
        return _parts("workloads", Workload, given, "workload", errors)
    load = tried(errors, lambda: read_part("workloads", Workload, workload, ("workload",)))
    return {} if load is None else {("workload", load.name): load}


def _parts(
    folder: str, kind: type[SomePart], given: dict[str, Any], field: str, errors: list[FieldError]
) -> dict[Steps, SomePart]:
    """Those of a list that can be read, each with its place."""
    found: dict[Steps, SomePart] = {}
    for number, item in enumerate(_list(given, field, errors)):
        part = tried(errors, partial(read_part, folder, kind, item, (field, number)))
        if part is not None:
            found[field, number, part.name] = part
    return found


def _each(
    given: dict[str, Any], field: str, errors: list[FieldError], read: Callable[[Any, Steps], Found]
) -> tuple[Found, ...]:
    """All of a list that can be read."""
    items = enumerate(_list(given, field, errors))
    found = [tried(errors, partial(read, item, (field, number))) for number, item in items]
    return tuple(item for item in found if item is not None)


def _list(given: dict[str, Any], name: str, errors: list[FieldError]) -> list[Any]:
    value = given.get(name)
    if isinstance(value, list):
        return value
    if value is not None:
        errors.append(FieldError((name,), "it must be a list"))
    return []


def _name(given: dict[str, Any], errors: list[FieldError]) -> str:
    """Part of the name of a directory."""
    if given.get("name") is None:
        return ""
    return tried(errors, lambda: read_value(given["name"], Name, ("name",))) or ""


def _text(given: dict[str, Any], name: str, errors: list[FieldError]) -> str:
    value = given.get(name)
    if isinstance(value, str) and value.strip():
        return value
    if value is not None:
        errors.append(FieldError((name,), "it must be a text"))
    return ""


def _look_at_history(name: str) -> None:
    """That there is one, and that it can be read. Raises FieldError."""
    known = [path.name for path in HISTORIES.iterdir() if path.is_file()]
    if name not in known:
        raise FieldError(("history",), unknown(name, known, what="history"))
    try:
        read_history(HISTORIES / name)
    except HistoryError as error:
        raise FieldError(("history",), str(error)) from error


def _error_of(source: str, problems: Sequence[Problem]) -> ScenarioError:
    """All of them by their lines; of those with one field, the first."""
    first: dict[tuple[Place, str], Problem] = {}
    for problem in problems:
        first.setdefault((problem.place, problem.field or problem.text), problem)
    lines = [str(problem) for problem in sorted(first.values())]
    if len(lines) == 1:
        return ScenarioError(lines[0])
    return ScenarioError(f"{source}: {len(lines)} things in it are wrong", lines)


def _problem_of(tree: Tree, error: FieldError) -> Problem:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.path)
    return Problem(place_of(tree, error.path), path.lstrip("."), error.text)
