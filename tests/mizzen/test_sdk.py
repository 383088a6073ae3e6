"""The directory on each task's `PYTHONPATH`: enough for any Python from 3.9 on, and never in the way of a script's own `mizzen`."""

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

import mizzen
from core.messages.workers import TasksPhase
from core.nouns.workload import Program
from runtime.tasks.environment import SDK
from tests.runtime.tasks.aids import nodes, prepare

OLDEST = (3, 9)
MINORS = (9, 10, 11, 12, 13, 14)
ASKED = "import mizzen, sys; print(mizzen.should_preempt(), mizzen.__file__)"
OURS = SDK / "mizzen" / "__init__.py"
SAYS_MODULES = (
    "import json, sys; before = set(sys.modules); import mizzen; mizzen.should_preempt(); "
    "print(json.dumps([getattr(sys.modules[name], '__file__', None) for name in sorted(set(sys.modules) - before)]))"
)


@cache
def other_pythons() -> tuple[str, ...]:
    """Return interpreters of other versions than this one, from `PATH` or from pyenv's folder, one of each."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = []
    for minor in MINORS:
        on_path = shutil.which(f"python3.{minor}")
        candidates = [on_path] if on_path else []
        candidates += [str(path) for path in sorted(versions.glob(f"3.{minor}.*/bin/python3.{minor}"))]
        if minor != sys.version_info.minor:
            found += [path for path in candidates if _runs(path)][:1]
    return tuple(found)


def _runs(path: str) -> bool:
    """Return whether it is an interpreter and not a signpost to one that is not chosen."""
    return subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0


def said(command: Sequence[str], cwd: Path, **environment: str) -> str:
    """Return what a program prints, given this environment and no other."""
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    return done.stdout.strip()


def bare_venv(python: str, place: Path) -> str:
    """Make a virtual environment with nothing installed; return its interpreter."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(place)], check=True)
    return str(place / "bin" / "python")


def test_every_file_is_of_the_oldest_python_and_imports_the_standard_library_alone() -> None:
    """So a script's interpreter can read them all, and lacks nothing."""
    files = sorted(SDK.rglob("*.py"))
    assert OURS in files
    for path in files:
        tree = ast.parse(path.read_text(), str(path), feature_version=OLDEST)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names, path


def test_training_scripts_find_all_that_the_installed_package_names_for_them() -> None:
    """What `mizzen` offers without loading more is what the directory offers, from the same file."""
    offered = ast.literal_eval(
        next(
            node.value
            for node in ast.parse(OURS.read_text()).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        )
    )
    ours = ("mizzen.sdk.mizzen.task", "mizzen.sdk.mizzen.functions", "mizzen.sdk.mizzen.lending")
    loaded = {name for name in mizzen.__all__ if getattr(mizzen, name).__module__ in ours}
    assert {*offered} - {"function"} == loaded, "the installed package has a decorator of its own"


def test_python_without_any_package_imports_it(tmp_path: Path) -> None:
    """All that is loaded lies in the standard library or in the directory."""
    library = Path(os.__file__).parent
    command = (sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(SDK)!r}); {SAYS_MODULES}")
    files = [file for file in json.loads(said(command, tmp_path)) if file]
    strangers = [file for file in files if not Path(file).is_relative_to(library)]
    assert {
        str(OURS.with_name(name)) for name in ("__init__.py", "functions.py", "lending.py", "task.py")
    } == set(strangers)


@pytest.mark.parametrize("minor", [minor for minor in MINORS if minor != sys.version_info.minor])
def test_bare_environment_of_another_python(tmp_path: Path, minor: int) -> None:
    """It calls `should_preempt()` and keeps a checkpoint, with nothing installed."""
    python = next((path for path in other_pythons() if path.endswith(f"python3.{minor}")), None)
    if python is None:
        pytest.skip(f"there is no Python 3.{minor} here")
    bare = bare_venv(python, tmp_path / "venv")
    keeps = "mizzen.checkpoint_path(3).write_text('x'); mizzen.saved(3)"
    assert f"False {OURS}" == said((bare, "-c", f"{ASKED}; {keeps}"), tmp_path, PYTHONPATH=str(SDK))
    assert (tmp_path / "checkpoints" / "3.done").exists()


def test_own_package_of_the_script_wins(tmp_path: Path) -> None:
    """Whether it lies beside the script, in a place that its user named, or is installed in its environment."""
    bare = bare_venv(sys.executable, tmp_path / "venv")
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    path = os.pathsep.join
    for place, theirs in (("script", str(SDK)), ("named", path((str(tmp_path / "named"), str(SDK)))),
                          ("behind", path((str(SDK), str(tmp_path / "behind")))), ("installed", str(SDK))):  # fmt: skip
        folder = packages if place == "installed" else tmp_path / place
        own = folder / "mizzen"
        own.mkdir(parents=True)
        (own / "__init__.py").write_text("NAME = __name__\n")
        (own / "deeper.py").write_text("DEPTH = 2\n")
        script = tmp_path / ("script/own.py" if place == "script" else f"{place}.py")
        script.write_text(
            "import mizzen, mizzen.deeper\nprint(mizzen.__file__, mizzen.NAME, mizzen.deeper.DEPTH)\n"
        )
        expected = f"{own / '__init__.py'} mizzen 2"
        assert expected == said((bare, str(script)), tmp_path, PYTHONPATH=theirs), place
        shutil.rmtree(own)


def test_folder_of_that_name_is_no_package(tmp_path: Path) -> None:
    """Neither is a second directory for tasks: the search goes on and comes to an end."""
    bare = bare_venv(sys.executable, tmp_path / "venv")
    (tmp_path / "mizzen").mkdir()
    second = shutil.copytree(SDK, tmp_path / "second")
    path = os.pathsep.join((str(SDK), str(tmp_path), str(second), str(SDK)))
    # Without `-S` Python drops the repetition, and the second directory is the last.
    for options, last in (((), second), (("-S",), SDK)):
        expected = f"False {last / 'mizzen' / '__init__.py'}"
        assert expected == said((bare, *options, "-c", ASKED), tmp_path, PYTHONPATH=path)


def test_whole_mizzen_where_it_is_installed(tmp_path: Path) -> None:
    """A task may use the command line or write a controller: nothing of an installation is hidden from it."""
    command = (sys.executable, "-c", "import mizzen, mizzen.cli; print(mizzen.TaskController.__name__)")
    assert "TaskController" == said(command, tmp_path, PYTHONPATH=str(SDK))


CALLED = """
import mizzen

@mizzen.function(gpus="any:1", init=print, within="10s")
def double(number: int) -> int:
    "Twice a number."
    return 2 * number

@mizzen.function
def one():
    return 1

print(double(4), one(), double.__name__, double.__doc__)
for call in (double.call, double.map, double.acall, double.amap):
    try:
        call(4)
    except mizzen.NoPlane as error:
        print(error)
"""


def test_module_with_functions_is_imported_in_a_task(tmp_path: Path) -> None:
    """They run there as before; to call them elsewhere is refused with a sentence that tells what to do."""
    command = (sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(SDK)!r})\n{CALLED}")
    first, *problems = said(command, tmp_path).splitlines()
    assert "8 1 double Twice a number." == first
    (problem,) = set(problems)
    assert 4 == len(problems)
    assert problem.startswith("a task has no tenant's credentials")
    assert "double(…)" in problem


@pytest.mark.processes
async def test_task_on_a_node_asks_with_a_bare_python(tmp_path: Path) -> None:
    """A real task of a worker, by the oldest Python that is here, without packages; the user's own path comes first."""
    python = min(other_pythons(), key=lambda path: int(path.rpartition(".")[2]), default=sys.executable)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "own.py").write_text("NAME = 'own'\n")
    run = f"{shlex.quote(python)} -S -c {shlex.quote(f'import own; {ASKED}, own.NAME')}"
    async with nodes(tmp_path / "spool") as made:
        program = Program(run, env={"PYTHONPATH": str(tmp_path / "theirs")})
        ended = await made.finish(prepare(program))
        assert (TasksPhase.ENDED, 0) == (ended.phase, ended.exit_code), made.output()
        assert f"False {OURS}\n" == made.output()
        await made.until_nobody()
