"""Which partitions each strategy puts first."""

import numpy as np
import pytest
from numpy.typing import NDArray

from core.nouns.agents import Placing
from core.nouns.instant import MILLISECOND, Nanoseconds
from core.placing.strategies import STRATEGIES
from core.placing.strategies.adaptive import IN_TIME, LATE, is_late_after
from core.placing.strategies.strategy import Candidates


def candidates(
    *rows: tuple[int, int, int, float], is_late: bool = False, never_mean: bool = False
) -> Candidates:
    """Of each partition: whether it has capacity, its tier, how fresh it is, and its mean cost."""
    has, tier, fresh, mean = zip(*rows, strict=True)

    def mean_cost() -> NDArray[np.float64]:
        assert not never_mean
        return np.array(mean, dtype=np.float64)

    columns = (np.array(has, dtype=bool), np.array(tier), np.array(fresh))
    return Candidates(*columns, mean_cost, is_late=is_late)


def first(name: Placing, these: Candidates) -> list[int]:
    """Which come first."""
    return [int(number) for number in np.flatnonzero(STRATEGIES[name](these))]


SOME = ((0, 0, 9, 0.0), (1, 1, 8, 5.0), (1, 0, 3, 7.0), (1, 0, 5, 6.0), (1, 0, 5, 9.0))


def test_every_strategy_that_can_be_set_is_there() -> None:
    """And no other."""
    assert set(Placing) == set(STRATEGIES)


def test_freshest_partition_comes_first() -> None:
    """S6: of those with capacity, whatever their tier and their scores."""
    assert [1] == first(Placing.LATENCY_FIRST, candidates(*SOME, never_mean=True))


def test_best_mean_score_comes_first() -> None:
    """S7: however old it is."""
    assert [1] == first(Placing.QUALITY_FIRST, candidates(*SOME))


def test_best_tier_and_in_it_the_freshest() -> None:
    """S9: a fresher partition of a worse tier comes behind; of equals all."""
    assert [3, 4] == first(Placing.TIER_FIRST, candidates(*SOME, never_mean=True))


def test_adaptive_is_quality_first_until_it_is_late() -> None:
    """S8: and then latency-first."""
    rows = ((1, 0, 1, 1.0), (1, 0, 2, 2.0))
    assert [0] == first(Placing.ADAPTIVE, candidates(*rows))
    assert [1] == first(Placing.ADAPTIVE, candidates(*rows, is_late=True, never_mean=True))


@pytest.mark.parametrize("name", list(Placing))
def test_nothing_comes_first_where_nothing_has_capacity(name: Placing) -> None:
    """No partition is named that would be searched in vain."""
    assert [] == first(name, candidates((0, 0, 1, 1.0), (0, 1, 2, 2.0)))


def test_adaptive_does_not_flap() -> None:
    """S8: late from 1.5 s on, until a wait is below half of that; what lies between changes nothing."""
    assert (1_500, 750) == (LATE // MILLISECOND, IN_TIME // MILLISECOND)
    waits = [100, 1_400, 1_600, 1_400, 800, 700, 800, 1_499, 1_500]
    is_late, seen = False, []
    for wait in waits:
        is_late = is_late_after(Nanoseconds(wait * MILLISECOND), was_late=is_late)
        seen.append(is_late)
    assert [False, False, True, True, True, False, False, False, True] == seen
