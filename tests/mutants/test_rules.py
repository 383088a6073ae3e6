"""Every sentence by which the invariants tell of a violation is told by some test: deleted, it is missed."""

import subprocess
import sys

import pytest

from tests.mutants.rules import FOLDER, HOUSE, TESTS, deletions, modules


def test_every_module_of_invariants_is_changed() -> None:
    """Each has statements that can be deleted, more than one for each function that is a rule; and the tests are there."""
    names = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert names == set(modules())
    count = sum(len(deletions((FOLDER / f"{name}.py").read_text(encoding="utf-8"))) for name in names)
    assert count > 120
    assert [] == [path for path in TESTS if not path.is_file()]


def test_deletions_of_a_text() -> None:
    """What is yielded, added to `found` or returned in a list; and no other statement."""
    text = """def rule(a, b):
    found = ["é"] if a else []
    if a:
        found.append("one")
    found += b
    yield "two"
    yield from b
    return [*a, *b]


def other(a):
    if not a:
        return []
    return ["three"] if a > 1 else [f"{b}" for b in a]
"""
    deleted = [text[one.begin : one.end] for one in deletions(text)]
    assert [
        'found.append("one")', "found += b", 'yield "two"', "yield from b", "*a", "*b",
        '["three"] if a > 1 else [f"{b}" for b in a]',
    ] == deleted  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("module", modules())
def test_no_deletion_survives_the_tests(module: str) -> None:
    """A rule that is deleted in part makes a test fail."""
    command = [sys.executable, "-B", "-m", "tests.mutants.rules", module]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, check=False)
    assert ("", "") == (done.stdout, done.stderr)
    assert 0 == done.returncode
