"""Parts of a scenario: faults, workloads and checks, one file each, found by the file's name.

A part is a struct whose fields are what a scenario file may say of it. The file `scenarios/faults/crash.py` holds one such
struct, and is written in a scenario as `crash: {role: worker}`, or as `crash` alone where no field needs saying.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from scenarios.schema.error_text import in_words

COUNT_MAX = 1_000_000
"""Of workloads and whatever else is counted in a scenario."""
TIMES_MAX = 10_000
HOURS_MAX = 10_000
MINUTES_MAX = 1_000_000
SECONDS_MAX = 10_000_000
COMPRESSION_MIN, COMPRESSION_MAX = 1e-3, 1e6
SKEW_SHARE_BELOW = 0.5
"""A clock that loses so much of each second all but stands."""

Positive = Annotated[int, Meta(gt=0, le=COUNT_MAX)]
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Times = Annotated[int, Meta(gt=0, le=TIMES_MAX)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
PositiveFloat = Annotated[float, Meta(gt=0.0, le=SECONDS_MAX)]
NotNegative = Annotated[float, Meta(ge=0.0, le=SECONDS_MAX)]
Hours = Annotated[float, Meta(gt=0.0, le=HOURS_MAX)]
Minutes = Annotated[float, Meta(gt=0.0, le=MINUTES_MAX)]
Compression = Annotated[float, Meta(ge=COMPRESSION_MIN, le=COMPRESSION_MAX)]
SkewShare = Annotated[float, Meta(ge=0.0, lt=SKEW_SHARE_BELOW)]
Range = NotNegative | Annotated[tuple[NotNegative, ...], Meta(min_length=2, max_length=2)]
"""A number, or two between which one is drawn."""
SkewRange = SkewShare | Annotated[tuple[SkewShare, ...], Meta(min_length=2, max_length=2)]
Endpoints = Annotated[tuple[str, ...], Meta(min_length=1)]


class Part(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One part of a scenario."""

    def __post_init__(self) -> None:
        """Two numbers between which one is drawn stand in their order. Raises ValueError."""
        for name in self.__struct_fields__:
            problem = _disorder(getattr(self, name))
            if problem:
                raise ValueError(f"`{name}`: {problem}")

    @property
    def name(self) -> str:
        """As it is called in scenario files: as its own file is."""
        return type(self).__module__.rpartition(".")[2]


Found = TypeVar("Found")
Some = TypeVar("Some", bound=Struct)
SomePart = TypeVar("SomePart", bound=Part)


Steps = tuple[str | int, ...]
"""To a field of a file: keys and numbers."""


class FieldError(Exception):
    """A field that cannot be used: where it is in the file (keys and numbers), and what is wrong with it."""

    def __init__(self, path: Steps, text: str) -> None:
        super().__init__(text)
        self.path = path
        self.text = text


class FieldErrors(Exception):
    """Everything that is wrong with a part of a file: one of them or many."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = tuple(errors)


def tried(errors: list[FieldError], read: Callable[[], Found]) -> Found | None:
    """What was read; or nothing, and what is wrong with it is among the errors: the rest can be looked at still."""
    try:
        return read()
    except FieldError as error:
        errors.append(error)
    except FieldErrors as several:
        errors.extend(several.errors)
    return None


@cache
def parts_in(folder: str, kind: type[SomePart]) -> dict[str, type[SomePart]]:
    """All parts of a folder, by their names."""
    package = importlib.import_module(f"scenarios.{folder}")
    found: dict[str, type[SomePart]] = {}
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda module: module.name):
        named = f"{package.__name__}.{module.name}"
        public = vars(importlib.import_module(named)).values()
        mine = [one for one in public if isinstance(one, type) and one.__module__ == named]
        (part,) = [one for one in mine if issubclass(one, kind) and not one.__name__.startswith("_")]
        found[module.name] = part
    return found


def read_part(
    folder: str, kind: type[SomePart], given: Any, path: Steps
) -> SomePart:  # Any: as YAML gives it
    """The part that is named and filled in. Raises FieldError and FieldErrors."""
    if isinstance(given, str):
        given = {given: None}
    if not isinstance(given, dict) or len(given) != 1:
        raise FieldError(path, f"it must be one name of {folder} with its fields, as in `name: {{...}}`")
    ((name, fields),) = given.items()
    parts = parts_in(folder, kind)
    if name not in parts:
        raise FieldError((*path, str(name)), unknown(str(name), parts, what=folder))
    kind = parts[name]
    return read_struct(kind, {} if fields is None else fields, (*path, name))


def read_struct(kind: type[Some], given: Any, path: Steps) -> Some:  # Any: as YAML gives it
    """A struct from what a file gives. Raises FieldErrors, which name each field and those that could be meant."""
    if not isinstance(given, dict):
        given = read_value(given, dict[str, Any], path)
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    errors: list[FieldError] = []
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in fields:
            errors.append(FieldError((*path, name), unknown(name, fields, what="field")))
            continue
        values[name] = tried(errors, partial(read_value, value, fields[name].type, (*path, name)))
    missing = [name for name, field in fields.items() if field.required and name not in given]
    errors += [FieldError(path, f"`{name}` is missing") for name in missing]
    if errors:
        raise FieldErrors(errors)
    return kind(**values)


def read_value(given: Any, kind: Any, path: Steps) -> Any:  # Any: of any type that a field has
    """A value of this type. Raises FieldError."""
    try:
        value = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        said, _, at = str(error).partition(" - at `$")
        raise FieldError((*path, *_steps(at.rstrip("`"))), in_words(said, given)) from error
    problem = _disorder(value)
    if problem:
        raise FieldError(path, problem)
    return value


def unknown(name: str, known: Iterable[str], *, what: str) -> str:
    """What is not known, what may have been meant, and what there is."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    meant = f" (did you mean `{close[0]}`?)" if close else ""
    return f"there is no {what.removesuffix('s')} `{name}`{meant}; there are {', '.join(names) or 'none'}"


def written(part: Part) -> dict[str, Any]:  # Any: whatever the fields are
    """The part as a scenario file would have it; what is as by default is left out."""
    return {part.name: msgspec.to_builtins(part)}


def _disorder(value: object) -> str:
    """That the larger one of two numbers stands first."""
    if (
        not isinstance(value, tuple)
        or len(value) != 2
        or not all(isinstance(one, int | float) for one in value)
    ):
        return ""
    first, second = value
    return f"it is from {first:g} to {second:g}: the smaller one comes first" if first > second else ""


def _steps(path: str) -> list[str | int]:
    """The steps of a path such as `.regions.eu[0]`, as msgspec spells it."""
    steps: list[str | int] = []
    for step in path.replace("[...]", "").replace("[", ".[").split("."):
        if step.startswith("[") and step[1:-1].isdecimal():
            steps.append(int(step[1:-1]))
        elif step and not step.startswith("["):
            steps.append(step)
    return steps
