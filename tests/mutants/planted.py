"""Trees with a bug planted in them, and seeds of the swarm played there, each tree in processes of its own."""

import compileall
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from scenarios.swarm.pool import Played, twin_hash_seed
from tests.mutants.child import PACKAGES
from tests.mutants.mutants import Edit, Mutant

HOUSE = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("child.py")
HASH_SEED = 1
"""Under which a seed is played, the first time."""
MISTAKES = ("AttributeError", "ImportError", "NameError", "SyntaxError", "TypeError", "UnboundLocalError")
"""What a mutant dies of that is badly planted: to find it proves nothing."""


class BadlyPlanted(Exception):
    """A mutant's text does not stand once where it should, or its tree does not run."""


def copy_house(folder: Path) -> Path:
    """A tree with the packages as they are, compiled once for all that are copied from it."""
    for package in PACKAGES:
        shutil.copytree(HOUSE / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder, quiet=2)
    return folder


def plant(mutant: Mutant, sound: Path, folder: Path) -> Path:
    """A copy of a sound tree with one mutant in it. Raises BadlyPlanted."""
    shutil.copytree(sound, folder, dirs_exist_ok=True)
    for edit in mutant.edits:
        source = folder / edit.file
        text = source.read_text(encoding="utf-8")
        source.write_text(planted_in(text, edit, mutant.name), encoding="utf-8")
        # What is compiled is told apart by second and size, and an edit may change neither.
        for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*"):
            compiled.unlink()
    return folder


def planted_in(text: str, edit: Edit, name: str) -> str:
    """A file's text with one edit. Raises BadlyPlanted."""
    count = text.count(edit.before)
    if count != 1:
        raise BadlyPlanted(f"{name}: its text stands {count} times in {edit.file}")
    return text.replace(edit.before, edit.after)


@contextmanager
def playing(tree: Path, seeds: Iterable[int], hash_seed: int = HASH_SEED) -> Iterator[Iterator[Played]]:
    """Each seed as it is played, in order, in a process that ends with the context."""
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [sys.executable, "-P", str(CHILD), str(tree), *map(str, seeds)],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": str(hash_seed)},
            stdout=subprocess.PIPE,
            stderr=complaints,
        )
        with process:
            try:
                yield _heard(process, complaints)
            finally:
                process.kill()


def _heard(process: subprocess.Popen[bytes], complaints: IO[bytes]) -> Iterator[Played]:
    assert process.stdout is not None, process.args
    for line in process.stdout:
        yield msgspec.json.decode(line, type=Played)
    if process.wait() != 0:
        complaints.seek(0)
        raise BadlyPlanted(complaints.read().decode(errors="replace")[-2000:])


def violations(tree: Path, seeds: Sequence[int], *, needs_twins: bool) -> Generator[tuple[int, str]]:
    """Each seed with what was wrong with it, or nothing, in order; the processes end with the iterator."""
    if needs_twins:
        yield from ((seed, _violation_beside_twin(tree, seed)) for seed in seeds)
        return
    with playing(tree, seeds) as played:
        for one in played:
            yield one.seed, one.problem


def _violation_beside_twin(tree: Path, seed: int) -> str:
    """Played twice, as the swarm plays one seed in ten."""
    with playing(tree, [seed]) as first, playing(tree, [seed], twin_hash_seed(seed)) as second:
        (one,), (other,) = first, second
    if one.digest == other.digest or one.problem or other.problem:
        return one.problem or other.problem
    return f"two digests under two PYTHONHASHSEEDs: {one.digest} and {other.digest}"
