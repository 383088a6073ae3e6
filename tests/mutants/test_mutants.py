"""The swarm finds every bug that is planted in the real source: a net that catches nothing proves nothing."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.mutants.find import SEEDS_MAX, known_seeds, search
from tests.mutants.mutants import MUTANTS, Edit, Mutant
from tests.mutants.planted import HOUSE, BadlyPlanted, copy_house, plant, planted_in, violations

SEARCH_SECONDS_MAX = 3600


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The house without any mutant."""
    return copy_house(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Where a mutant is planted."""
    return tmp_path / "tree"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_has_its_place(mutant: Mutant) -> None:
    """What it replaces stands in the source exactly once, so that no mutant rots unseen."""
    for edit in mutant.edits:
        text = (HOUSE / edit.file).read_text(encoding="utf-8")
        assert text != planted_in(text, edit, mutant.name)


def test_text_that_stands_twice_is_refused() -> None:
    """Nobody could say which of the two was meant."""
    with pytest.raises(BadlyPlanted, match="stands 2 times in"):
        planted_in("a\na\n", Edit("core/a.py", "a\n", ""), "late")


def test_every_mutant_has_a_seed_that_finds_it() -> None:
    """Among the first 300; `python -m tests.mutants.find` searches anew."""
    known = known_seeds()
    assert [mutant.name for mutant in MUTANTS] == list(known)
    assert [] == [
        name for name, found in known.items() if not (0 < found.seed <= SEEDS_MAX and found.violation)
    ]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_seed_finds_the_mutant(mutant: Mutant, sound: Path, tree: Path) -> None:
    """Planted, it makes its seed fail, and what was wrong is told."""
    seed = known_seeds()[mutant.name].seed
    planted = plant(mutant, sound, tree)
    with closing(violations(planted, [seed], needs_twins=mutant.needs_twins)) as played:
        ((of_seed, violation),) = played
    assert seed == of_seed
    assert violation, f"seed {seed} finds it no more: python -m tests.mutants.find {mutant.name}"


@pytest.mark.parametrize(
    "needs_twins",
    [pytest.param(False, marks=pytest.mark.slow, id="once"), pytest.param(True, id="twice")],
)
def test_seeds_pass_without_a_mutant(sound: Path, *, needs_twins: bool) -> None:
    """It is the mutant that makes a seed fail, and nothing else: `make swarm` plays the same 300 seeds, but not all of them twice."""
    known = known_seeds()
    seeds = sorted({known[mutant.name].seed for mutant in MUTANTS if mutant.needs_twins == needs_twins})
    assert seeds
    played = list(violations(sound, seeds, needs_twins=needs_twins))
    assert [(seed, "") for seed in seeds] == played


@pytest.mark.slow
@pytest.mark.timeout(SEARCH_SECONDS_MAX)
def test_swarm_finds_every_mutant_again() -> None:
    """From seed 1 on, whatever the swarm draws today."""
    assert sorted(mutant.name for mutant in MUTANTS) == sorted(search(MUTANTS))
