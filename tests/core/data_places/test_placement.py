"""The exact gain of a step equals the difference of the objective from scratch."""

import numpy as np
import pytest

from core.data_places.actions import ADD_COPY, DROP_COPY, MOVE_HOME
from core.data_places.placement import Placement
from core.data_places.price import Prices
from tests.core.data_places.instances import drawn


@pytest.mark.parametrize("is_odd", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_gain_is_what_the_objective_falls_by(seed: int, *, is_odd: bool) -> None:
    """M29: steps drawn at random, of one to three tables: gain, waiting jobs, bytes and storage all equal those from scratch."""
    problem = drawn(seed, tables=12, jobs=14, is_odd=is_odd)
    prices = Prices(problem)
    placement, dice, applied = Placement(prices), np.random.default_rng(seed), 0
    for _ in range(200):
        tables = np.sort(dice.choice(12, dice.integers(1, 4), replace=False))
        step = placement.tried(
            int(dice.choice([MOVE_HOME, ADD_COPY, DROP_COPY])), tables, int(dice.integers(3))
        )
        if step is None:
            continue
        before = prices.terms(placement.home, placement.held).objective
        placement.apply(step)
        applied += 1
        assert before - prices.terms(placement.home, placement.held).objective == pytest.approx(
            step.gain, abs=1e-12
        )
        assert_sums_are_right(placement)
    assert applied > 3


def assert_sums_are_right(placement: Placement) -> None:
    """The sums that a placement keeps equal those of a placement that starts there."""
    problem, prices = placement.problem, placement.prices
    held = placement.held
    assert (placement.waits == ~((placement.missing == 0) & prices.job_runs).any(axis=1)).all()
    assert (problem.elsewhere + (problem.sizes[:, None] * held).sum(axis=0)).tolist() == placement.used
    copied = (problem.sizes[:, None] * (held & ~problem.held)).sum()
    assert problem.bytes_max - copied == placement.bytes_left >= 0
    somewhere = np.flatnonzero(placement.home < prices.regions)
    assert held[somewhere, placement.home[somewhere]].all()
    assert (
        placement.protected[somewhere]
        == prices.is_protected(somewhere, placement.home[somewhere], held[somewhere])
    ).all()
    over = np.array(placement.used) > np.maximum(
        prices.capacity, problem.elsewhere + (problem.sizes[:, None] * problem.held).sum(axis=0)
    )
    assert not (over & prices.stated).any()


def test_snapshot_changes_by_itself() -> None:
    """What is tried on a copy leaves the placement as it was."""
    placement = Placement(Prices(drawn(3)))
    twin = placement.snapshot()
    before = placement.held.copy(), placement.counts.copy(), placement.objective
    for table in range(8):
        for region in range(3):
            step = twin.tried(MOVE_HOME, np.array([table]), region)
            if step is not None:
                twin.apply(step)
    assert twin.objective != placement.objective
    assert (before[0] == placement.held).all()
    assert (before[1] == placement.counts).all()
    assert before[2] == placement.objective
