"""Parts of a scenario: faults, workloads and checks, one file each, found by the file's name.

A part is a struct whose fields are what a scenario file may say of it. The file `scenarios/faults/crash.py` holds one such
struct, and is written in a scenario as `crash: {role: worker}`, or as `crash` alone where no field needs saying.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

Positive = Annotated[int, Meta(gt=0)]
Count = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
PositiveFloat = Annotated[float, Meta(gt=0.0)]
NotNegative = Annotated[float, Meta(ge=0.0)]
Range = NotNegative | Annotated[tuple[NotNegative, ...], Meta(min_length=2, max_length=2)]
"""A number, or two between which one is drawn."""


class Part(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """One part of a scenario."""

    def __post_init__(self) -> None:
        """Two numbers between which one is drawn stand in their order. Raises ValueError."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            is_range = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], int | float)
            if is_range and value[0] > value[1]:
                raise ValueError(
                    f"`{name}` is from {value[0]:g} to {value[1]:g}: the smaller one comes first"
                )

    @property
    def name(self) -> str:
        """As it is called in scenario files: as its own file is."""
        return type(self).__module__.rpartition(".")[2]


Some = TypeVar("Some", bound=Struct)
SomePart = TypeVar("SomePart", bound=Part)


class FieldError(Exception):
    """A field that cannot be used: where it is in the file (keys and numbers), and what is wrong with it."""

    def __init__(self, path: tuple[str | int, ...], text: str) -> None:
        super().__init__(text)
        self.path = path
        self.text = text


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
    folder: str, kind: type[SomePart], given: Any, path: tuple[str | int, ...]
) -> SomePart:  # Any: as YAML gives it
    """The part that is named and filled in. Raises FieldError."""
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


def read_struct(kind: type[Some], given: Any, path: tuple[str | int, ...]) -> Some:  # Any: as YAML gives it
    """A struct from what a file gives. Raises FieldError, which names the field and those that could be meant."""
    if isinstance(given, dict):
        fields = [field.name for field in msgspec.structs.fields(kind)]
        for name in given:
            if name not in fields:
                raise FieldError((*path, str(name)), unknown(str(name), fields, what="field"))
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `$")
        raise FieldError((*path, *_steps(at.rstrip("`"))), text) from error


def unknown(name: str, known: Iterable[str], *, what: str) -> str:
    """What is not known, what may have been meant, and what there is."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    meant = f" (did you mean `{close[0]}`?)" if close else ""
    return f"there is no {what.removesuffix('s')} `{name}`{meant}; there are {', '.join(names) or 'none'}"


def written(part: Part) -> dict[str, Any]:  # Any: whatever the fields are
    """The part as a scenario file would have it; what is as by default is left out."""
    return {part.name: msgspec.to_builtins(part)}


def _steps(path: str) -> list[str | int]:
    """The steps of a path such as `.regions.eu[0]`, as msgspec spells it."""
    steps: list[str | int] = []
    for step in path.replace("[...]", "").replace("[", ".[").split("."):
        if step.startswith("[") and step[1:-1].isdecimal():
            steps.append(int(step[1:-1]))
        elif step and not step.startswith("["):
            steps.append(step)
    return steps
