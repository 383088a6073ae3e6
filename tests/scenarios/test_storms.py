"""Storms: the plane under more misfortune than it will ever see, from seeds nobody chose."""

import pytest
from structlog.testing import capture_logs

from tests.scenarios.storm import STORM, run_storm


def survives(seed: int) -> None:
    """Nothing is lost, nothing runs twice but where a cut hid it, nothing is held at the end, every log replays."""
    with capture_logs():
        outcome = run_storm(seed)
    assert [] == outcome.violations
    assert [] == outcome.problems
    (load,) = STORM.workload
    assert load.workloads == outcome.figures["submitted"] == sum(outcome.ended.values())
    assert outcome.kills > 50
    assert len(STORM.faults) == len(outcome.strikes)
    assert {} == outcome.skipped


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_storm(seed: int) -> None:
    """The plane comes out of it with every workload ended."""
    survives(seed)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_storms(seed: int) -> None:
    """The same, many times over."""
    survives(seed)
