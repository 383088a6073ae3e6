"""The page that teaches controllers: what stands in it runs, and is what lies in examples/."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mizzen.commands.controller import find_controller
from mizzen.jobs.file import load_job

HOUSE = Path(__file__).resolve().parents[2]
PAGE = (HOUSE / "docs" / "task-controllers.md").read_text()


def block(name: str) -> str:
    """The code of a file, as the page has it."""
    found = re.search(rf"<!-- {re.escape(name)} -->\n```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert found is not None, name
    return found[1]


def imported(path: Path) -> ModuleType:
    """A module under its file's name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_and_example_are_one() -> None:
    """Whoever copies either has the other; and it is as short as it is said to be."""
    assert (HOUSE / "examples" / "careful.py").read_text() == block("careful.py")
    lines = [
        line
        for line in block("careful.py").splitlines()
        if line.strip() and not line.strip().startswith('"""')
    ]
    assert len(lines) <= 25


@pytest.mark.parametrize("name", ["test_one_replica_of_a_shard_at_a_time", "test_short_work_is_sat_out"])
def test_tests_of_the_page_pass(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand there, in a folder with the controller."""
    for file in ("careful.py", "test_careful.py"):
        (tmp_path / file).write_text(block(file))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "careful", raising=False)
    module = imported(tmp_path / "test_careful.py")
    assert {"test_one_replica_of_a_shard_at_a_time", "test_short_work_is_sat_out"} == {
        one for one in vars(module) if one.startswith("test_")
    }
    getattr(module, name)()
    monkeypatch.delitem(sys.modules, "careful")


def test_job_file_names_the_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example's job and its controller belong together, and the page's job file can be read."""
    spec = load_job(HOUSE / "examples" / "search.yaml")
    assert ("careful", "search", 6) == (spec.control.controller, spec.tenant, spec.jobs[0].tasks)
    monkeypatch.chdir(HOUSE / "examples")
    monkeypatch.delitem(sys.modules, "careful", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert "Careful" == type(find_controller("careful:Careful")).__name__
    monkeypatch.delitem(sys.modules, "careful")


def test_classes_that_the_page_names_are_there() -> None:
    """Ready-made ones, and what a controller imports."""
    for name in re.findall(r"`(mizzen\.control\.[a-z_.]+)\.([A-Za-z]+)", PAGE):
        assert hasattr(importlib.import_module(name[0]), name[1]), name
