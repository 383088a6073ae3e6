"""The rules of the house that no linter knows.

Where things lie and are imported from, how large and how pure they are, and whether the container files
name commands that exist. Each test lists everybody who breaks its rule, so one run shows all.
"""

import ast
import importlib
import importlib.metadata
import io
import json
import re
import tokenize
import tomllib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.sources import tree_of

HOUSE = Path(__file__).resolve().parents[1]
FOLDERS = ("bench", "bus", "components", "core", "mizzen", "runtime", "scenarios", "store")
PURE_FOLDERS = ("components", "core")
# Kept like the others, but run where they lie: never imported, never installed.
SCRIPT_FOLDERS = ("examples",)

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
MODULES_MAX = 24
# Folders with one file a part: each is found by the part's name, so their number is no burden.
ONE_FILE_A_PART = frozenset({
    "bench", "core/events", "core/images", "core/messages", "core/nouns", "core/rules/placement", "mizzen/commands", "scenarios/checks",
    "scenarios/faults", "scenarios/workloads",
})  # fmt: skip
# "core/x.py" or "core/x.py: name" -> why it may be longer. Whoever adds one explains it to the reader.
LONGER_FOR_A_REASON: dict[str, str] = {}

# Roles without work in a plane of one region that runs no functions.
ROLES_LEFT_OUT = frozenset({"data_service", "function_router", "function_server", "harvester"})

# The clock, dice, files, sockets, log lines, threads and solvers: all that makes two runs differ.
IMPURE_MODULES = frozenset({
    "aiosqlite", "asyncio", "clarabel", "concurrent", "cvxpy", "datetime", "highspy", "io", "logging", "multiprocessing",
    "nats", "os", "pathlib", "queue", "random", "scipy", "secrets", "select", "selectors", "shutil", "signal", "socket",
    "sqlite3", "ssl", "structlog", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid",
})  # fmt: skip
# `hash` of text and `id` differ from run to run; the others speak to the world.
IMPURE_CALLS = frozenset({"breakpoint", "hash", "id", "input", "open", "print"})
# What walks through its argument in order. (`sorted`, `min`, `max`, `sum`, `len`, `any`, `all` ask for none.)
ORDERED_READERS = frozenset({"enumerate", "iter", "list", "map", "filter", "tuple", "zip"})

# A path of ours, as code and documents name it.
NAMED_PATH = re.compile(
    r"(?<![\w./-])((?:bench|bus|components|core|docs|examples|mizzen|runtime|scenarios|store|tests)/[\w./-]*\w\.(?:py|md|yaml|toml|json|svg))\b"
)
# "file: path" of texts that look like a path of ours and are none.
NO_PATHS = frozenset({
    "docs/placement-rules.md: core/rules/placement/memory_left.py",
    "tests/mutants/test_mutants.py: core/a.py",
    "tests/test_house.py: core/x.py",
    "tests/test_house.py: core/rules/placement/memory_left.py",
    "tests/test_house.py: core/a.py",
})  # fmt: skip

DOCKERFILE_WORDS = frozenset({
    "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "RUN", "SHELL",
    "STOPSIGNAL", "USER", "VOLUME", "WORKDIR",
})  # fmt: skip


@pytest.mark.parametrize("folder", FOLDERS)
def test_import_name_is_ours(folder: str) -> None:
    """A top-level name means this checkout's folder, and no stray distribution claims it too."""
    module = importlib.import_module(folder)
    assert module.__file__ is not None, f"{folder}/ has no __init__.py"
    assert HOUSE / folder / "__init__.py" == Path(module.__file__).resolve()
    owners = set(importlib.metadata.packages_distributions().get(folder, ()))
    assert owners <= {"mizzen"}, f"{folder} is also installed by {sorted(owners - {'mizzen'})}"


def test_installed_folders_are_the_listed_ones() -> None:
    """pyproject installs exactly these folders: nothing of tests/ or docs/ reaches anybody's environment."""
    find = _pyproject()["tool"]["setuptools"]["packages"]["find"]
    assert sorted(FOLDERS) == sorted({pattern.partition(".")[0] for pattern in find["include"]})
    assert sorted(FOLDERS) == sorted(_pyproject()["tool"]["importlinter"]["root_packages"])


def test_no_file_is_empty() -> None:
    """A file says something; a folder of Python opens with what lives in it."""
    empty = [_name(path) for path in _files() if not path.read_bytes().strip()]
    assert [] == empty
    without = [
        _name(path)
        for path in _files(".py")
        if path.name == "__init__.py" and not ast.get_docstring(tree_of(path))
    ]
    assert [] == without, "these __init__.py say nothing"
    folders = sorted({path.parent for path in _files(".py", folders=FOLDERS)})
    bare = [_name(folder) for folder in folders if not (folder / "__init__.py").exists()]
    assert [] == bare, "these folders have no __init__.py"


def test_files_are_short_enough_to_read() -> None:
    """A file keeps to 400 lines of code; past that it has a seam."""
    long = {
        _name(path): count for path in _files(".py") if (count := len(_code_lines(path))) > FILE_LINES_MAX
    }
    assert {} == {name: count for name, count in long.items() if name not in LONGER_FOR_A_REASON}


def test_folders_are_small_enough_to_survey() -> None:
    """A folder has at most 24 modules, but for those with one file a part."""
    counts = {
        _name(folder): len(list(folder.glob("*.py"))) for folder in {one.parent for one in _files(".py")}
    }
    crowded = {name: count for name, count in sorted(counts.items()) if count > MODULES_MAX}
    assert {} == {name: count for name, count in crowded.items() if name not in ONE_FILE_A_PART}
    assert set() == ONE_FILE_A_PART - counts.keys()


def test_paths_that_are_named_exist() -> None:
    """A path in ARCHITECTURE, in another document, in a docstring or in a comment leads to a file of the house."""
    gone = [
        f"{_name(path)}: {named}"
        for path in [*_files(".py"), *_documents(), *(HOUSE / "tests").rglob("*.py")]
        for named in sorted(set(NAMED_PATH.findall(path.read_text())))
        if not _is_there(named, beside=path) and f"{_name(path)}: {named}" not in NO_PATHS
    ]
    assert [] == gone


def test_functions_are_short_enough_to_read() -> None:
    """A function keeps to 60 lines of code; past that it is two."""
    long = {}
    for path in _files(".py"):
        lines = _code_lines(path)
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = bisect_right(lines, node.end_lineno or 0) - bisect_left(lines, node.lineno)
                if count > FUNCTION_LINES_MAX:
                    long[f"{_name(path)}: {node.name}"] = count
    assert {} == {name: count for name, count in long.items() if name not in LONGER_FOR_A_REASON}


def test_exceptions_to_length_still_exist() -> None:
    """Who is excused is still there, and says why."""
    gone = [name for name in LONGER_FOR_A_REASON if not (HOUSE / name.partition(":")[0]).exists()]
    assert [] == gone
    assert all(reason.strip() for reason in LONGER_FOR_A_REASON.values())


def test_subjects_are_spelled_in_the_catalogue() -> None:
    """Nobody but bus/catalogue.py puts a fleet and a dot together."""
    spelled = [
        f"{_name(path)}:{node.lineno}"
        for path in _files(".py")
        if _name(path) != "bus/catalogue.py"
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.JoinedStr) and _opens_with_fleet(node)
    ]
    assert [] == spelled


def test_pure_folders_import_nothing_impure() -> None:
    """core/ and components/ know no clock, dice, files, sockets, log lines, threads or solvers."""
    found = [
        f"{_name(path)}:{node.lineno} {module}"
        for path in _pure_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in _imported(node)
        if module.partition(".")[0] in IMPURE_MODULES
    ]
    assert [] == found


def test_pure_folders_wait_for_nothing_and_have_no_effects() -> None:
    """Only the host awaits; a decision prints nothing, opens nothing and asks no address for a number."""
    waiting = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
    found = []
    for path in _pure_files():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, waiting):
                found.append(f"{_name(path)}:{node.lineno} waits")
            if isinstance(node, ast.Call) and _called(node) in IMPURE_CALLS:
                found.append(f"{_name(path)}:{node.lineno} calls {_called(node)}")
    assert [] == found


def test_pure_folders_never_walk_through_a_set() -> None:
    """A set has no order that two runs share: sort it first."""
    found = [
        f"{_name(path)}:{walked.lineno}"
        for path in _pure_files()
        for node in ast.walk(tree_of(path))
        for walked in _walked(node)
        if _is_set(walked)
    ]
    assert [] == found


def test_core_explains_itself() -> None:
    """Every public module, class and function of the core opens with a docstring."""
    silent = []
    for path in _files(".py", folders=("core",)):
        tree = tree_of(path)
        if not path.name.startswith("_") or path.name == "__init__.py":
            silent += [] if ast.get_docstring(tree) else [_name(path)]
        silent += [
            f"{_name(path)}: {node.name}"
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and not node.name.startswith("_")
            and not ast.get_docstring(node)
        ]
    assert [] == silent


def test_compose_file_names_commands_that_exist() -> None:
    """Every service of ours is `mizzen start ROLE` for a role that the wiring knows, and all roles are there that one region needs."""
    from runtime.wiring import ROLES

    started = []
    for name, service in _compose()["services"].items():
        if name == "nats":
            continue
        words = service["command"]
        assert ["mizzen", "start"] == words[:2], name
        assert words[2] in ROLES, f"{name} starts {words[2]}, which is none of {sorted(ROLES)}"
        options = {word for word in words[3:] if word.startswith("--")}
        assert options <= {"--region", "--member", "--directory", "--no-reader"}, name
        started.append(words[2])
    assert set(ROLES) - ROLES_LEFT_OUT == set(started)


def test_compose_file_is_careful() -> None:
    """Services come back and tell their health, ports stay on loopback, and what is mounted is declared."""
    compose = _compose()
    for name, service in compose["services"].items():
        assert "unless-stopped" == service["restart"], name
        assert "CMD" == service["healthcheck"]["test"][0], name
        assert (["no-new-privileges:true"], ["ALL"]) == (service["security_opt"], service["cap_drop"]), name
        published = [str(port) for port in service.get("ports", ())]
        assert all(port.startswith("127.0.0.1:") for port in published), name
        mounted = [volume.partition(":")[0] for volume in service.get("volumes", ())]
        assert set(mounted) <= set(compose["volumes"]), name
    assert not {"--jetstream", "-js"} & set(compose["services"]["nats"]["command"])


def test_compose_file_has_no_secret() -> None:
    """Secrets are files, each for one service, in a folder that is never committed; no word and no variable has one."""
    compose = _compose()
    given = [
        secret["source"] if isinstance(secret, dict) else secret
        for service in compose["services"].values()
        for secret in service["secrets"]
    ]
    assert sorted(compose["secrets"]) == sorted(given)
    assert all(secret["file"].startswith("./secrets/") for secret in compose["secrets"].values())
    assert "secrets/" in (HOUSE / ".gitignore").read_text().splitlines()
    said = json.dumps([(one["command"], one.get("environment")) for one in compose["services"].values()])
    assert not re.search(r"\$|token|password|--auth|--user|--pass|nats://", said, re.IGNORECASE)


def test_dockerfile_copies_existing_files_and_runs_as_an_ordinary_user() -> None:
    """The image is built from files that exist, ends as an ordinary user and starts our command."""
    steps = _dockerfile()
    assert {word for word, _ in steps} <= DOCKERFILE_WORDS
    for word, rest in steps:
        if word == "COPY" and not rest.startswith("--from="):
            sources = [source for source in rest.split()[:-1] if not source.startswith("--")]
            assert [] == [source for source in sources if not (HOUSE / source).exists()]
    users = [rest for word, rest in steps if word == "USER"]
    assert users
    assert users[-1] not in {"root", "0"}
    command = [json.loads(rest) for word, rest in steps if word == "CMD"][-1]
    assert command[0] in _pyproject()["project"]["scripts"]


def test_image_carries_every_folder() -> None:
    """What pyproject installs is copied into the image, and let through by .dockerignore."""
    copied = {source for word, rest in _dockerfile() if word == "COPY" for source in rest.split()[:-1]}
    assert set(FOLDERS) <= copied
    let_through = {line[1:] for line in (HOUSE / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    assert set(FOLDERS) <= let_through


@pytest.mark.parametrize("lock", ["run", "dev", "planner"])
def test_locks_name_exact_versions_with_hashes(lock: str) -> None:
    """A lock holds one version of each package to a Python, its hashes, and no place it came from."""
    text = (HOUSE / "requirements" / f"{lock}.lock").read_text()
    entries = text.replace("\\\n", "").splitlines()
    entries = [entry for entry in entries if entry.strip() and not entry.startswith("#")]
    assert [] == [entry[:60] for entry in entries if "==" not in entry or "--hash=sha256:" not in entry]
    assert "://" not in text


def test_locks_agree() -> None:
    """What two locks both name is the same version, and the widest has all: an image and a checkout run the same."""
    run, dev, planner = (_locked(name) for name in ("run", "dev", "planner"))
    assert run <= planner
    assert dev <= planner


def _files(suffix: str = "", folders: tuple[str, ...] = (*FOLDERS, *SCRIPT_FOLDERS)) -> list[Path]:
    found = [path for folder in folders for path in (HOUSE / folder).rglob(f"*{suffix}")]
    return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)


def _documents() -> list[Path]:
    return [*HOUSE.glob("*.md"), *(HOUSE / "docs").rglob("*.md"), *(HOUSE / "scenarios").rglob("*.md")]


def _is_there(named: str, *, beside: Path) -> bool:
    """Return whether a path exists from the house's root, from `tests/`, or from beside the file that names it."""
    return any((place / named).exists() for place in (HOUSE, HOUSE / "tests", beside.parent))


def _pure_files() -> list[Path]:
    return _files(".py", folders=PURE_FOLDERS)


def _name(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()


@cache
def _code_lines(path: Path) -> tuple[int, ...]:
    """The numbers of the lines that hold code, ascending: neither blank, nor only a comment, nor a docstring's."""
    text = path.read_text()
    layout = {
        tokenize.COMMENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.INDENT, tokenize.NEWLINE, tokenize.NL,
    }  # fmt: skip
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in layout:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return tuple(sorted(lines))


def _opens_with_fleet(node: ast.JoinedStr) -> bool:
    """Whether a text begins with a fleet's name and a dot, as a subject does."""
    if len(node.values) < 2:
        return False
    first, second = node.values[:2]
    if not isinstance(first, ast.FormattedValue) or not isinstance(second, ast.Constant):
        return False
    spoken = ast.unparse(first.value).lower()
    return spoken.rpartition(".")[2].lstrip("_") in {"fleet", "fleet_name"} and str(second.value).startswith(
        "."
    )


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""]


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _walked(node: ast.AST) -> Iterator[ast.expr]:
    """What a piece of code goes through item by item."""
    if isinstance(node, ast.For | ast.comprehension):
        yield node.iter
    elif isinstance(node, ast.Starred):
        yield node.value
    elif isinstance(node, ast.Call):
        is_join = isinstance(node.func, ast.Attribute) and node.func.attr == "join"
        yield from node.args if is_join or _called(node) in ORDERED_READERS else ()


def _is_set(node: ast.expr) -> bool:
    """Whether an expression is plainly a set; what hides behind a name the second hash seed finds."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.BinOp):
        is_set_operator = isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor | ast.Sub)
        return is_set_operator and (_is_set(node.left) or _is_set(node.right))
    return isinstance(node, ast.Call) and _called(node) in {"set", "frozenset"}


def _pyproject() -> dict[str, Any]:  # Any: whatever TOML may hold
    return tomllib.loads((HOUSE / "pyproject.toml").read_text())


def _compose() -> dict[str, Any]:  # Any: whatever YAML may hold
    compose = yaml.safe_load((HOUSE / "docker-compose.yml").read_text())
    assert isinstance(compose, dict)
    return compose


def _dockerfile() -> list[tuple[str, str]]:
    """The instructions: a word and the rest, with continued lines joined."""
    text = (HOUSE / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    steps = [line.partition(" ") for line in joined]
    return [(word, rest.strip()) for word, _, rest in steps]


def _locked(name: str) -> set[str]:
    """The lines of a lock that name a version, with the Pythons it is for."""
    text = (HOUSE / "requirements" / f"{name}.lock").read_text()
    return {
        line.removesuffix("\\").strip() for line in text.splitlines() if "==" in line and line[:1] not in " #"
    }
