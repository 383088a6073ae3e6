"""Writes docs/scenario-parts.md, which has every field and figure that a scenario file can name: `python -m scenarios.parts_page`.

All of it is taken from the structs and what stands beside their fields; a test sees that the page is up to date.
"""

import ast
import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
from msgspec import Struct

from runtime.fleet_file import RegionSpec
from scenarios.check import Check
from scenarios.controller import Controller
from scenarios.fault import Fault, KeeperFault, LinkFault, RegionFault, UnitFault, WorkerFault
from scenarios.scenario import CalmSpec, JobSpec
from scenarios.schema.expectations import FIGURES, OF_TENANTS
from scenarios.schema.fleet import FleetSpec, fleets
from scenarios.schema.parts import Part, parts_in
from scenarios.schema.preemption import PreemptionSpec
from scenarios.schema.tenants import BudgetSpec, EntitlementSpec, RankingSpec, TenantSpec
from scenarios.trace import Trace
from scenarios.variant import Variant
from scenarios.workload import Workload

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scenario-parts.md"
BASES = (Controller, Fault, UnitFault, KeeperFault, WorkerFault, RegionFault, LinkFault, Workload, Trace)
"""Whose fields are told once, for all who have them."""
HEAD = """\
# The parts of a scenario

What a scenario file can name, and the fields of each part with what they are if a file does not say them. A file is explained in
[scenarios/README.md](../scenarios/README.md). `python -m scenarios.parts_page` writes this page from the source.

A field that is drawn takes a number, or two between which one is drawn, as in `[1, 30]`.
"""


OF_ONE_TENANT = "Of one tenant alone: `FIGURE of TENANT <= NUMBER`, and of what it submitted at one priority `FIGURE of TENANT at LEVEL <= NUMBER`."


def page() -> str:
    """All of it."""
    return "\n".join([
        HEAD,
        *_section("Fleet", f"One of {_names(fleets())}; or regions that are alike, with these fields.", FleetSpec),
        *_section("A region by its name", "Instead of a number of `regions`: what each is.", RegionSpec),
        *_group("Workloads", "workloads", Workload),
        *_group("Faults", "faults", Fault),
        *_group("Controllers", "controllers", Controller),
        *_group("Variants", "variants", Variant),
        *_section("Tenants", "By their names, under `tenants`.", TenantSpec),
        *_section("An entitlement", "Under `entitled`, by GPU type.", EntitlementSpec),
        *_section("A budget", "", BudgetSpec),
        *_section("Ranking", "", RankingSpec),
        *_section("Preemption", "", PreemptionSpec),
        "## Checks\n",
        "None takes a field. All are asked, if a file names none.\n",
        *_rows(("check", "what must be so"), _described(parts_in("checks", Check))),
        *_section("Calm", "", CalmSpec),
        *_section("Jobs", "", JobSpec),
        "## Figures\n",
        "What `expectations` compare with a number, as in `completed_share >= 0.9`: with `<=`, `>=`, `<`, `>` or `==`.\n",
        f"{OF_ONE_TENANT} There are such of {_names(OF_TENANTS)}.\n",
        *_rows(("figure", "is"), ((f"`{name}`", text) for name, text in FIGURES.items())),
    ]).rstrip("\n") + "\n"  # fmt: skip


def _section(title: str, text: str, kind: type[Struct]) -> list[str]:
    """A struct that is no part."""
    return [f"## {title}\n", f"{text} {_docstring(kind)}\n".lstrip(), *_fields(kind, ())]


def _group(title: str, folder: str, kind: type[Part]) -> list[str]:
    """All parts of a folder: first the fields that several have, then each for itself."""
    parts = parts_in(folder, kind)
    lines = [f"## {title}\n"]
    for base in BASES:
        if not issubclass(base, kind):
            continue
        own = _own_fields(base)
        heirs = [name for name, part in parts.items() if issubclass(part, base)]
        if own and base is kind:
            lines += [f"Every one has these fields. {_docstring(base)}\n", *_fields(base, own)]
        elif own:
            lines += [f"{_names(heirs)} have these too. {_docstring(base)}\n", *_fields(base, own)]
    for name, part in parts.items():
        module = inspect.getdoc(inspect.getmodule(part)) or ""
        told = module.partition("\n\n")[0].replace("\n", " ")
        lines += [f"### {name}\n", f"{told} {_docstring(part)}\n"]
        # A part that says another default than its sort does tells the field once more.
        lines += _fields(part, _own_fields(part))
    return lines


def _own_fields(kind: type[Struct]) -> list[str]:
    """Those that it says itself."""
    return [name for name in kind.__struct_fields__ if name in inspect.get_annotations(kind)]


def _fields(kind: type[Struct], names: Iterable[str]) -> list[str]:
    """A table of these fields, or of all; nothing where there is none."""
    wanted = list(names) or ([] if issubclass(kind, Part) else list(kind.__struct_fields__))
    notes = {name: text for base in reversed(kind.__mro__) for name, text in _notes(base).items()}
    infos = {field.name: field for field in msgspec.structs.fields(kind)}
    rows = [(f"`{name}`", _default(infos[name]), notes.get(name, "")) for name in wanted]
    return _rows(("field", "if not said", ""), rows) if rows else []


def _default(field: Any) -> str:  # Any: msgspec keeps what it calls this to itself
    if field.required:
        return "must be said"
    value = field.default
    if value in (None, msgspec.NODEFAULT, "", ()):
        return ""
    value = list(value) if isinstance(value, tuple) else value
    return f"`{msgspec.json.encode(value).decode().replace(',', ', ')}`"


def _notes(kind: type) -> dict[str, str]:
    """What stands below each field in the source."""
    if not issubclass(kind, Struct) or kind in (Struct, Part):
        return {}
    (tree,) = ast.parse(dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef), kind
    notes: dict[str, str] = {}
    name = ""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        elif name and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            notes[name] = " ".join(str(node.value.value).split())
            name = ""
        else:
            name = ""
    return notes


def _described(parts: dict[str, type[Check]]) -> list[tuple[str, str]]:
    return [(f"`{name}`", _docstring(part)) for name, part in parts.items()]


def _docstring(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").split())


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _rows(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return [*(re.sub(r" +", " ", f"| {' | '.join(line)} |") for line in lines), ""]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
