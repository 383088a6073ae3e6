"""The programs that run as children, as an operator may run them: what they copy, hash and delete, and their exit codes."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.data import hasher
from runtime.data.child import EXIT_FULL, EXIT_MISSING, EXIT_USAGE, PARENT, Progress
from runtime.data.copier import Pace, copy
from runtime.data.deleter import delete
from runtime.data.errors import DatasetMissing, UnsafeEntry
from runtime.data.tree import entries
from tests.runtime.data.aids import FAST, hash_of, write_tree


class Counting(Pace):
    """A pace that counts by itself what is written, and what was there."""

    def __init__(self) -> None:
        super().__init__(FAST)
        self.there = self.written = 0

    def found(self, count: int) -> None:
        self.there += count

    def wrote(self, count: int) -> None:
        self.written += count


def copied(source: Path, target: Path) -> tuple[int, int]:
    """Copy, and return the bytes that were there, and those that were written."""
    pace = Counting()
    copy(source, target, pace)
    return pace.there, pace.written


def program(name: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a program as a person does."""
    words = [sys.executable, "-P", "-m", f"runtime.data.{name}", *arguments]
    return subprocess.run(words, check=False, text=True, capture_output=True, **options)  # type: ignore[call-overload, no-any-return]  # of each its own


def test_hash_is_what_the_documented_recipe_computes(tmp_path: Path) -> None:
    """An operator needs no more than a shell, b2sum, find and sort."""
    write_tree(tmp_path / "words", 5_000)
    (tmp_path / "words" / "deep" / "link").unlink()
    text = hasher.__doc__ or ""
    recipe = text[text.index("    cd DATASET") : text.index("With `--sync`")]
    (said, *_) = subprocess.run(
        ["bash", "-c", recipe.replace("DATASET", str(tmp_path / "words"))], check=True, capture_output=True
    ).stdout.split()
    digest, size = hash_of(tmp_path / "words")
    assert digest == said.decode()
    ended = program("hasher", "--sync", str(tmp_path / "words"))
    assert (0, f"{digest} {size}\n") == (ended.returncode, ended.stdout)


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda root: (root / "deep-er").write_bytes(b"BEFORE what is in deep/"),
    "size": lambda root: (root / "deep-er").write_bytes(b"before what is in deep/ and more"),
    "name": lambda root: (root / "deep-er").rename(root / "deep-est"),
    "place": lambda root: (root / "deep-er").rename(root / "deep" / "deep-er"),
    "one more": lambda root: (root / "deep" / "more").write_bytes(b""),
    "one less": lambda root: (root / "empty").unlink(),
    "link": lambda root: _link(root / "deep" / "link", "er"),
    "link to file": lambda root: _link(root / "empty", "deep-er"),
}


def _link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize("change", CHANGES)
def test_hash_tells_datasets_apart(tmp_path: Path, change: str) -> None:
    """By paths, sizes, contents and links; modes, times and empty directories do not count."""
    root = tmp_path / "words"
    write_tree(root)
    before, _ = hash_of(root)
    (root / "data").chmod(0o600)
    os.utime(root / "data", (1, 1))
    (root / "nothing in here").rmdir()
    assert before == hash_of(root)[0]
    CHANGES[change](root)
    assert before != hash_of(root)[0]


def test_order_of_paths_is_that_of_their_bytes(tmp_path: Path) -> None:
    """A directory's files come where their whole paths do: `a-b` before `a/b`, which is before `a0`."""
    for name in ("a/b", "a-b", "a0", "a/c.d/e", "a/c-d", "a/c"):
        path = tmp_path / "x" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    files = [entry.relative for entry in entries(tmp_path / "x") if not entry.is_directory]
    assert sorted(files) == files
    assert [b"a-b", b"a/b", b"a/c", b"a/c-d", b"a/c.d/e", b"a0"] == files


def test_copier_goes_on_with_what_is_there(tmp_path: Path) -> None:
    """Whole files are left alone, shorter ones gone on with, longer ones written anew."""
    source, target = tmp_path / "source", tmp_path / "target"
    write_tree(source, 10_000)
    (source / "deep-er").chmod(0o444)
    _, size = hash_of(source)
    assert (0, size) == copied(source, target)
    assert hash_of(source) == hash_of(target)
    assert (size, 0) == copied(source, target)
    os.truncate(target / "data", 4_000)
    assert (size - 6_000, 6_000) == copied(source, target)
    with (target / "data").open("ab") as file:
        file.write(b"more")
    assert (size - 10_000, 10_000) == copied(source, target)
    assert hash_of(source) == hash_of(target)
    assert 0o444 == (target / "deep-er").stat().st_mode & 0o777
    (target / "data").unlink()
    (target / "data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        copied(source, target)
    assert not (tmp_path / "elsewhere").exists()


def test_copier_follows_no_link_in_the_target(tmp_path: Path) -> None:
    """A link in the place of a directory would lead the copy out of the region's directory."""
    source, target = tmp_path / "source", tmp_path / "target"
    write_tree(source)
    (tmp_path / "elsewhere").mkdir()
    target.symlink_to("elsewhere")
    with pytest.raises(UnsafeEntry):
        copied(source, target)
    target.unlink()
    target.mkdir()
    (target / "deep").symlink_to("../elsewhere")
    with pytest.raises(UnsafeEntry):
        copied(source, target)
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_all_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file by the copier, and by the hasher before a rename once more, with every directory."""
    source, target = tmp_path / "source", tmp_path / "target"
    write_tree(source)
    synced: set[str] = set()
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    copied(source, target)
    everything = [entry for entry in entries(target) if not entry.link]
    assert {str(entry.path) for entry in everything if not entry.is_directory} == synced
    hasher.read_dataset(target, Progress(""), is_synced=True)
    assert {str(entry.path) for entry in everything} == synced


def test_dataset_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Else a name in the directory would lead out of it."""
    write_tree(tmp_path / "real")
    (tmp_path / "words").symlink_to("real")
    with pytest.raises(UnsafeEntry, match="is a symbolic link"):
        hash_of(tmp_path / "words")
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "x").symlink_to("x")
    with pytest.raises(UnsafeEntry, match="to itself"):
        hash_of(tmp_path / "loop")
    with pytest.raises(DatasetMissing):
        hash_of(tmp_path / "gone")


def test_deleter_deletes_a_tree_and_no_more(tmp_path: Path) -> None:
    """Links are deleted and not followed; read-only directories and trees that go meanwhile are no obstacle."""
    (tmp_path / "kept").write_bytes(b"abc")
    root = tmp_path / "words"
    write_tree(root)
    (root / "out").symlink_to(tmp_path)
    (root / "deep" / "er").chmod(0o500)
    (root / "deep").chmod(0)
    delete(root, Progress(""))
    delete(root, Progress(""))
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    delete(tmp_path / "link", Progress(""))
    assert [tmp_path / "kept"] == list(tmp_path.iterdir())


def test_exit_codes(tmp_path: Path) -> None:
    """One for each thing that a service tells apart, with one line on standard error."""
    (tmp_path / "words").write_bytes(b"abc" * 1000)
    source, target, gone = str(tmp_path / "words"), str(tmp_path / "copy"), str(tmp_path / "gone")
    for name, arguments in (
        ("copier", (source, target)),
        ("copier", (source, target, "0")),
        ("hasher", ()),
        ("deleter", ()),
    ):
        assert EXIT_USAGE == program(name, *arguments).returncode
    missing = program("copier", gone, target, "1000")
    assert (EXIT_MISSING, f"{gone} does not exist\n") == (missing.returncode, missing.stderr)
    assert EXIT_MISSING == program("hasher", gone).returncode
    full = program("copier", source, target, "1000000", preexec_fn=_write_little)
    assert (EXIT_FULL, 1) == (full.returncode, len(full.stderr.splitlines()))
    whole = program("copier", source, target, "1000000")
    assert (0, "moved 3000") == (whole.returncode, whole.stdout.splitlines()[-1])


def test_child_of_a_dead_service_does_nothing(tmp_path: Path) -> None:
    """A child that the service did not live to see writes nothing."""
    (tmp_path / "words").write_bytes(b"abc")
    words = (str(tmp_path / "words"), str(tmp_path / "copy"), "1000")
    ended = program("copier", *words, env={**os.environ, PARENT: "1"})
    assert 0 != ended.returncode
    assert not (tmp_path / "copy").exists()


def test_tools_of_the_recipe_are_there() -> None:
    """Else the test above would say nothing about the recipe."""
    assert all(shutil.which(tool) for tool in ("bash", "find", "sort", "b2sum", "stat", "cut"))


def _write_little() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
