"""Searches for the first seed of the swarm that finds each mutant: `python -m tests.mutants.find [NAME ...]`.

To be run whenever what the swarm draws has changed. A seed counts that fails with the mutant and passes without it.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from scenarios.swarm.draw import TWICE_EVERY
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.planted import MISTAKES, BadlyPlanted, copy_house, plant, violations

SEEDS = Path(__file__).with_name("seeds.json")
SEEDS_MAX = 300


class Found(Struct, frozen=True):
    """The first seed that finds a mutant."""

    seed: int
    violation: str


class Search:
    """Looks for mutants, beside a tree without any."""

    def __init__(self, folder: Path, seeds_max: int = SEEDS_MAX) -> None:
        self._folder = folder
        self._seeds_max = seeds_max
        self._sound = copy_house(folder / "sound")
        self._problems: dict[tuple[int, bool], str] = {}
        """What is wrong with a seed without any mutant."""

    def first(self, mutant: Mutant) -> Found | None:
        """The first seed that finds it; None if none does. Raises BadlyPlanted."""
        tree = plant(mutant, self._sound, self._folder / mutant.name)
        step = TWICE_EVERY if mutant.needs_twins else 1
        seeds = range(step, self._seeds_max + 1, step)
        with closing(violations(tree, seeds, needs_twins=mutant.needs_twins)) as played:
            for seed, violation in played:
                if violation and not self._problem(seed, needs_twins=mutant.needs_twins):
                    if violation.startswith(MISTAKES) or any(f"of {name}(" in violation for name in MISTAKES):
                        raise BadlyPlanted(f"{mutant.name}: seed {seed}: {violation}")
                    return Found(seed, violation)
        return None

    def _problem(self, seed: int, *, needs_twins: bool) -> str:
        key = (seed, needs_twins)
        if key not in self._problems:
            ((_, self._problems[key]),) = violations(self._sound, [seed], needs_twins=needs_twins)
        return self._problems[key]


def search(mutants: Sequence[Mutant], seeds_max: int = SEEDS_MAX) -> dict[str, Found]:
    """Look for all of them, two at a time; who is missing was not found."""
    found: dict[str, Found] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(2) as pool:
        wanted = Search(Path(folder), seeds_max)

        def look(mutant: Mutant) -> tuple[Mutant, Found | None, float]:
            begun = time.monotonic()
            return mutant, wanted.first(mutant), time.monotonic() - begun

        for mutant, first, span in pool.map(look, mutants):
            told = f"seed {first.seed}: {first.violation}" if first else f"not found in {seeds_max} seeds"
            print(f"{mutant.name} ({span:.0f} s): {told}", flush=True)
            if first is not None:
                found[mutant.name] = first
    return found


def known_seeds() -> dict[str, Found]:
    """As the last search left them."""
    return msgspec.json.decode(SEEDS.read_bytes(), type=dict[str, Found]) if SEEDS.exists() else {}


def main() -> int:
    """Search, and keep what was found."""
    names = [mutant.name for mutant in MUTANTS]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; none: all")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX)
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(names))
    if unknown:
        parser.error(f"there is no mutant {', '.join(unknown)}")
    wanted = [mutant for mutant in MUTANTS if mutant.name in (given.names or names)]
    found = search(wanted, given.seeds)
    known = known_seeds() | found
    gone = {mutant.name for mutant in wanted} - found.keys()
    kept = {name: known[name] for name in names if name in known and name not in gone}
    SEEDS.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=2) + b"\n")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main())
