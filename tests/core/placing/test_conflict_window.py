"""Among how many an agent draws follows from the conflicts that it met lately, and is capped."""

import random

from hypothesis import given
from hypothesis import strategies as st

from core.nouns.limits import BEST_MAX, CONFLICT_WINDOW, CONFLICTS_MANY
from core.placing.pick.conflict_window import ConflictWindow
from core.placing.pick.nodes import best_of
from tests.core.properties import PROPERTY


def heard(window: ConflictWindow, *outcomes: bool) -> list[int]:
    """N0 after each outcome, True for a conflict."""
    found = []
    for is_conflict in outcomes:
        window.heard(is_conflict=is_conflict)
        found.append(window.best)
    return found


def test_quiet_stays_at_one() -> None:
    """P11: whoever meets nobody draws among equals alone."""
    assert {1} == set(heard(ConflictWindow(), *[False] * 1000))


def test_burst_raises_it_and_quiet_lowers_it() -> None:
    """P11: four conflicts among the last 64 outcomes raise it, again and again; each quiet window halves it, down to 1."""
    window = ConflictWindow()
    burst = heard(window, *[False, True] * CONFLICTS_MANY * 3)
    assert [1, 8, 16, 32] == sorted(set(burst))
    assert burst == sorted(burst)
    calm = heard(window, *[False] * CONFLICT_WINDOW * 4)
    assert [32, 16, 8, 1] == sorted(set(calm), reverse=True)
    assert calm == sorted(calm, reverse=True)
    assert 1 == calm[-1]


def test_a_stray_conflict_changes_nothing() -> None:
    """P11: fewer than four in a window neither raise it nor keep it from being where it is."""
    window = ConflictWindow()
    outcomes = ([True] + [False] * (CONFLICT_WINDOW // (CONFLICTS_MANY - 1))) * 40
    assert {1} == set(heard(window, *outcomes))


def test_conflicts_long_ago_are_forgotten() -> None:
    """P11: the window slides: three conflicts, a quiet window, and three more raise nothing."""
    window = ConflictWindow()
    few = [True] * (CONFLICTS_MANY - 1)
    assert {1} == set(heard(window, *few, *[False] * CONFLICT_WINDOW, *few))


@PROPERTY
@given(st.lists(st.booleans(), max_size=400), st.integers(0, 200_000))
def test_cap_holds_whatever_is_heard(outcomes: list[bool], candidates: int) -> None:
    """P11: 4,096, and the best 20th of the candidates, are the most among which one is drawn; one is the least."""
    for best in heard(ConflictWindow(), *outcomes):
        assert 1 <= best <= BEST_MAX
        assert 1 <= best_of(best, candidates) <= max(1, min(BEST_MAX, candidates // 20))


def test_storm_reaches_the_cap_and_stays_there() -> None:
    """P11: the cap is reached by conflicts alone, and left by quiet."""
    window = ConflictWindow()
    assert BEST_MAX == heard(window, *[True] * 1000)[-1]
    assert BEST_MAX // 2 == heard(window, *[False] * CONFLICT_WINDOW)[-1]


def test_two_agents_that_draw_among_more_meet_less() -> None:
    """P11: agents that choose from one view, and hear at once whether they met, settle where they seldom meet."""
    dice, windows = random.Random(1), [ConflictWindow(), ConflictWindow()]
    met: list[bool] = []
    for _ in range(4000):
        first, second = (dice.randrange(best_of(window.best, 10_000)) for window in windows)
        met.append(first == second)
        for window in windows:
            window.heard(is_conflict=met[-1])
    assert all(met[:CONFLICTS_MANY])
    assert sum(met[400:]) < 0.1 * len(met[400:])
