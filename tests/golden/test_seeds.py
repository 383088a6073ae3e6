"""Runs of the library's scenarios come to the digests that are recorded: behaviour changes only where a commit says so."""

import pytest

from scenarios.scenario import library
from tests.golden.seeds import SCENARIOS, SEEDS, recorded
from tests.scenarios.runs import outcome_of_library


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_run_comes_to_the_recorded_digest(name: str, seed: int) -> None:
    """Every message and every log of the run is as recorded; `python -m tests.golden.seeds --record` records again.

    `make test` compares the first seed of each where it plays the library (tests/scenarios/test_library.py).
    """
    assert recorded()[name][seed] == outcome_of_library(name, seed).digest


def test_record_is_whole() -> None:
    """Each of the scenarios is in the library and has a digest for each seed, and no other is recorded."""
    assert {name: [*SEEDS] for name in SCENARIOS} == {name: [*one] for name, one in recorded().items()}
    assert set() == set(SCENARIOS) - set(library())
    assert len(SCENARIOS) >= 24
