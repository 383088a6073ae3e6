"""The check finds agents that take a partition in once and never again, though nothing else tells."""

# rows: S12

from pathlib import Path

import pytest

from core.placing.believed import Believed
from scenarios.play.simulated import run_simulated
from scenarios.scenario import load_scenario
from scenarios.schema.outcome import Outcome

LIBRARY = Path(__file__).resolve().parents[2] / "scenarios" / "library"


def played() -> Outcome:
    """Agents come and go, with one seed."""
    return run_simulated(load_scenario(str(LIBRARY / "agents_come_and_go.yaml")), 1)


def test_partitions_that_are_never_taken_in_again_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when rounds of other settings are taken for rounds long past."""
    due = Believed.due
    monkeypatch.setattr(
        Believed, "due", lambda self, turn, at: due(self, turn, at) if self.turn is None else None
    )
    outcome = played()
    assert not outcome.is_good
    assert outcome.problems
    assert all("older than its newest one" in problem for problem in outcome.problems)
