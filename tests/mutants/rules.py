"""Deletes, one by one, the statements by which the invariants tell of a violation, and runs the tests that should notice.

`python -m tests.mutants.rules [MODULE ...]` prints every deletion that all tests survive. Each deletion is tried in a process of its
own, in which one module of core/invariants/ is compiled from changed text; no file is changed.
"""

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

HOUSE = Path(__file__).resolve().parents[2]
FOLDER = HOUSE / "core" / "invariants"
TESTS = (
    *sorted((HOUSE / "tests" / "core").glob("test_*invariants*.py")),
    HOUSE / "tests" / "core" / "test_devices.py",
    HOUSE / "tests" / "core" / "test_capacity.py",
    *sorted((HOUSE / "tests" / "components").glob("test_auditor*.py")),
)
FAILED = 1
"""The exit code of pytest by which a deletion was noticed."""


class Deletion(NamedTuple):
    """A statement, or an element of a list that is returned, and the text in its place."""

    line: int
    begin: int
    end: int
    """Offsets in the module's text."""
    after: str


def modules() -> list[str]:
    """Return the names of the modules of invariants that tell of violations."""
    return [path.stem for path in sorted(FOLDER.glob("*.py")) if deletions(path.read_text(encoding="utf-8"))]


def deletions(text: str) -> list[Deletion]:
    """Return every deletion of a module: what a function yields, adds to `found`, or returns in a list."""
    begins = [0]
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    found: set[Deletion] = set()
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    for node in {node for function in functions for node in ast.walk(function)}:
        for part, after in _deleted(node):
            assert part.end_lineno is not None, node
            assert part.end_col_offset is not None, node
            begin = begins[part.lineno - 1] + _column(text, part.lineno, part.col_offset)
            end = begins[part.end_lineno - 1] + _column(text, part.end_lineno, part.end_col_offset)
            found.add(Deletion(part.lineno, begin, end, after))
    return sorted(found)


def survivors(module: str) -> Iterator[str]:
    """Yield the deletions of a module that no test notices, each with its line and what was deleted."""
    path = FOLDER / f"{module}.py"
    text = path.read_text(encoding="utf-8")
    for deletion in deletions(text):
        changed = text[: deletion.begin] + deletion.after + text[deletion.end :]
        code = _tested(path, changed)
        if code != FAILED:
            was = " ".join(text[deletion.begin : deletion.end].split())
            yield f"{path.name}:{deletion.line}: {was} (pytest ends with {code})"


def _deleted(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.Expr(value=ast.Yield() | ast.YieldFrom()):
            yield node, "yield from ()"
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name("found"), attr="append" | "extend"))):
            yield node, "pass"
        case ast.AugAssign(target=ast.Name("found")):
            yield node, "pass"
        case ast.Return(value=ast.List(elts=[_, _, *_]) as value):
            yield from ((element, "*()") for element in value.elts)
        case ast.Return(value=ast.List(elts=[_]) | ast.ListComp() as value):
            yield value, "[]"
        case ast.Return(value=ast.IfExp(body=body, orelse=other) as value):
            if isinstance(body, ast.List) or isinstance(other, ast.List):
                yield value, "[]"


def _column(text: str, line: int, column: int) -> int:
    """Return the place in a line that the parser counts in bytes."""
    return len(text.splitlines()[line - 1].encode()[:column].decode())


class _Changed(MetaPathFinder, Loader):
    """Imports one module from another text than its file's."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text
        self._name = ".".join(path.relative_to(HOUSE).with_suffix("").parts)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return spec_from_loader(name, self, origin=str(self._path)) if name == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._text, str(self._path), "exec"), module.__dict__)  # noqa: S102  # our own source


def _tested(path: Path, text: str) -> int:
    """Return the exit code of the tests with a module of this text, those named for the module first."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.meta_path.insert(0, _Changed(path, text))
    ordered = sorted(TESTS, key=lambda test: (path.stem not in test.stem, test))
    os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *map(str, ordered)])))


def main() -> int:
    """Print the survivors of some modules, or of all."""
    os.chdir(HOUSE)
    assert not any(name.startswith("core.") for name in sys.modules), "the child imports the changed module"
    left = [survivor for module in sys.argv[1:] or modules() for survivor in survivors(module)]
    print("\n".join(left), end="\n" if left else "")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
