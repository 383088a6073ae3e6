"""Runs of the library's scenarios come to the digests that are recorded: behaviour changes only where a commit says so."""

import pytest

from scenarios.scenario import library
from tests.golden.seeds import SCENARIOS, SEEDS, recorded
from tests.scenarios.runs import outcome_of_library

QUICK = ("drain_with_consent", "gangs_move_between_regions", "kill_each_component", "quota_shrinks")
"""Scenarios of a second each, whose first seed `make test` plays; `make soak` plays all."""
PLAYED = [
    pytest.param(name, seed, marks=[] if name in QUICK and seed == SEEDS[0] else [pytest.mark.slow])
    for name in SCENARIOS
    for seed in SEEDS
]


@pytest.mark.parametrize(("name", "seed"), PLAYED)
def test_run_comes_to_the_recorded_digest(name: str, seed: int) -> None:
    """Every message and every log of the run is as recorded; `python -m tests.golden.seeds --record` records again."""
    assert recorded()[name][seed] == outcome_of_library(name, seed).digest


def test_record_is_whole() -> None:
    """Each of the scenarios is in the library and has a digest for each seed, and no other is recorded."""
    assert {name: [*SEEDS] for name in SCENARIOS} == {name: [*one] for name, one in recorded().items()}
    assert set() == set(SCENARIOS) - set(library())
    assert set() == set(QUICK) - set(SCENARIOS)
    assert len(SCENARIOS) >= 24
