"""A run is repeatable to the byte from its scenario and its seed: every message and every fact of it."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from components import AllocationAgent, JobQueue, PlacementStore
from scenarios.schema.outcome import Outcome
from tests.scenarios.runs import TINY, digest_elsewhere, run_quietly


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """Of the tiny scenario, seed 1."""
    return run_quietly(TINY, 1)


def test_tiny_scenario_is_good_and_eventful(outcome: Outcome) -> None:
    """It would prove little if nothing happened in it: processes died, messages were lost, workloads ended in several ways."""
    assert [] == outcome.violations
    assert [] == outcome.problems
    (load,) = TINY.workload
    assert load.workloads == outcome.figures["submitted"] == sum(outcome.ended.values())
    assert len(TINY.faults) == len(outcome.strikes)
    assert {} == outcome.skipped
    assert len(outcome.ended) >= 2
    assert outcome.kills >= 10
    assert outcome.facts > 100
    assert outcome.messages > 500


def test_same_seed_gives_the_same_digest(outcome: Outcome) -> None:
    """N3: twice in one process: nothing is left behind by a run that sways the next."""
    again = run_quietly(TINY, 1)
    assert outcome.digest == again.digest
    assert (outcome.facts, outcome.messages, outcome.virtual_seconds) == (
        again.facts,
        again.messages,
        again.virtual_seconds,
    )


def test_other_seed_gives_another_digest(outcome: Outcome) -> None:
    """Chance comes from the seed, and from all of it."""
    digests = {run_quietly(TINY, seed).digest for seed in (2, 3)}
    assert 3 == len({outcome.digest, *digests})


def test_hash_seed_does_not_matter(outcome: Outcome) -> None:
    """N3: in processes of their own, under whatever hash seed, the run is the same: nothing walks through a set."""
    with ThreadPoolExecutor(2) as pool:
        digests = list(pool.map(lambda hash_seed: digest_elsewhere(1, hash_seed), ("0", "4242")))
    assert [outcome.digest] * 2 == digests


def test_deciding_everything_twice_changes_nothing(outcome: Outcome) -> None:
    """A decision changes nothing, and is the same again with every memo emptied: so says a run that decides all twice."""
    again = run_quietly(TINY, 1, decides_twice=True)
    assert outcome.digest == again.digest


def test_run_that_decides_twice_empties_the_memos_of_each_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would compare nothing, and pass."""
    emptied: Counter[type] = Counter()

    def watched(component: Any) -> None:  # Any: a class of any component
        forget = component.forget_memos

        def forget_and_count(self: Any, state: Any) -> None:  # Any: as in core/component.py
            emptied[component] += 1
            forget(self, state)

        monkeypatch.setattr(component, "forget_memos", forget_and_count)

    for component in (AllocationAgent, JobQueue, PlacementStore):
        watched(component)
    short = replace(TINY, faults=(), workload=(replace(TINY.workload[0], workloads=2),))
    run_quietly(short, 1)
    assert Counter() == emptied
    run_quietly(short, 1, decides_twice=True)
    assert {AllocationAgent, JobQueue, PlacementStore} == set(emptied)


def test_time_is_virtual(outcome: Outcome) -> None:
    """Minutes of the plane pass in moments of ours."""
    assert outcome.virtual_seconds > TINY.span
    assert outcome.wall_seconds < outcome.virtual_seconds
