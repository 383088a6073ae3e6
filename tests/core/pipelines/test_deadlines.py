"""C-11: start deadlines of a chain, a diamond, a window, and stages of which nothing is known; who is late; when a pipeline ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import NUMBER_MAX, SPAN_MAX
from core.nouns.pipeline import DAY, DailyWindow
from core.rules.pipelines.deadlines import (
    Known,
    Step,
    critical_path,
    earliest_end,
    forecast,
    has_moved,
    misses_deadline,
    ordered,
    start_deadlines,
    turns_late_at,
)
from tests.core.properties import PROPERTY

HOUR = 3_600 * SECOND
CHAIN = [Step(), Step((0,)), Step((1,))]
DIAMOND = [Step(), Step((0,)), Step((0,)), Step((1, 2))]
"""a, then b and c, then d."""
AT_TWO = DailyWindow(Nanoseconds(2 * HOUR), Nanoseconds(HOUR))


def hours(*spans: float) -> list[Nanoseconds]:
    """So many hours each."""
    return [Nanoseconds(round(span * HOUR)) for span in spans]


def at(hour: float) -> Instant:
    """So many hours after some midnight."""
    return Instant(round(20_000 * DAY + hour * HOUR))


def hours_of(instants: list[Instant]) -> list[float]:
    """The same, back."""
    return [(instant - 20_000 * DAY) / HOUR for instant in instants]


def test_chain() -> None:
    """D less everything from here on, the waits of later stages among that, and not one's own."""
    found = start_deadlines(CHAIN, hours(1, 2, 3), hours(0.5, 0.25, 0.125), at(24))
    assert [24 - 3 - 0.125 - 2 - 0.25 - 1, 24 - 3 - 0.125 - 2, 21] == hours_of(found)


def test_diamond_goes_by_its_longer_side() -> None:
    """The other side has slack."""
    found = start_deadlines(DIAMOND, hours(1, 2, 5, 1), hours(0, 0, 0, 0), at(24))
    assert [17, 21, 18, 23] == hours_of(found)


def test_unknown_stage_costs_nothing_of_its_own() -> None:
    """With a cost of 0 it must start when what follows must."""
    assert [20, 20, 20] == hours_of(start_deadlines(CHAIN, hours(0, 0, 4), hours(0, 0, 0), at(24)))


def test_forerunners_of_a_window_are_due_at_its_last_opening() -> None:
    """Not sooner, which is Cameo's frontier: the stage could begin by 22:00 of the second day, and its window opens at 2:00."""
    steps = [Step(), Step((0,), AT_TWO)]
    found = start_deadlines(steps, hours(1, 2), hours(0, 0), at(24 + 24))
    assert [24 + 2 - 1, 24 + 3] == hours_of(found)
    tight = start_deadlines(steps, hours(1, 2), hours(0, 0), at(24 + 3.5))
    assert [1, 3] == hours_of(tight), "the opening at 2:00 of the second day would be too late"
    waits = start_deadlines(steps, hours(1, 2), hours(0, 0.5), at(24 + 4.25))
    assert [24 + 1, 24 + 2.25] == hours_of(waits), (
        "its own wait is not counted: it begins when the window opens"
    )


def test_window_may_be_used_until_it_closes_or_the_deadline_is_near() -> None:
    """Whichever comes first."""
    found = start_deadlines([Step((), AT_TWO)], hours(1), hours(0), at(3.5))
    assert [2.5] == hours_of(found)


@pytest.mark.parametrize(
    ("hour", "begins"), [(0, 2), (2, 2), (2.999, 2.999), (3, 26), (25.9, 26), (26, 26), (27, 50)]
)
def test_first_instant_at_which_a_stage_may_begin(hour: float, begins: float) -> None:
    """Inside of a window at once, else when it opens."""
    assert at(begins) == AT_TWO.begins_from(at(hour))


def test_window_over_midnight() -> None:
    """It is open until 1:00 of the next day."""
    late = DailyWindow(Nanoseconds(23 * HOUR), Nanoseconds(2 * HOUR))
    assert at(24.5) == late.begins_from(at(24.5))
    assert at(47) == late.begins_from(at(25))


def test_forecast_goes_on_from_what_is_known() -> None:
    """The first has ended, the second runs until 5:00, and the third waits half an hour then."""
    known = [Known(at(0), at(2)), Known(at(2), at(5)), Known()]
    spans = forecast(CHAIN, hours(9, 9, 3), hours(0, 0, 0.5), known, at(4))
    assert [(at(0), at(2)), (at(2), at(5)), (at(5.5), at(8.5))] == [
        (span.starts_at, span.ends_at) for span in spans
    ]


def test_forecast_waits_for_the_window() -> None:
    """The forerunner ends at 3:00, when the window has just closed."""
    spans = forecast([Step(), Step((0,), AT_TWO)], hours(3, 1), hours(0, 0), [Known(), Known()], at(0))
    assert (at(26), at(27)) == (spans[1].starts_at, spans[1].ends_at)


def test_deadline_is_missed_when_even_a_start_now_would_be_late() -> None:
    """At the median: to the nanosecond."""
    known = [Known(), Known(), Known()]
    assert not misses_deadline(CHAIN, hours(1, 2, 3), known, at(6), at(0))
    assert misses_deadline(CHAIN, hours(1, 2, 3), known, at(6), Instant(at(0) + 1))


def test_deadline_is_missed_by_the_slower_side() -> None:
    """Of a diamond, whether that waits or runs; then no other stage can help."""
    known = [Known(at(0), at(1)), Known(), Known(), Known()]
    assert not misses_deadline(DIAMOND, hours(1, 2, 5, 1), known, at(7), at(1))
    assert misses_deadline(DIAMOND, hours(1, 2, 5, 1), known, at(6.5), at(1))
    running = [Known(at(0), at(1)), Known(), Known(at(2), at(7)), Known()]
    assert misses_deadline(DIAMOND, hours(1, 2, 5, 1), running, at(7.5), at(3))
    assert not misses_deadline(DIAMOND, hours(1, 2, 5, 1), running, at(8), at(3))


def test_numbers_stay_within_what_facts_hold() -> None:
    """256 stages of a hundred years each end after the last instant, and should have started before the first."""
    chain = [Step((place - 1,) if place else ()) for place in range(256)]
    costs = [SPAN_MAX] * 256
    found = start_deadlines(chain, costs, costs, at(24))
    assert {Instant(1)} == set(found)
    spans = forecast(chain, costs, costs, [Known()] * 256, at(0))
    assert NUMBER_MAX == spans[-1].ends_at == earliest_end(chain, costs, at(0))
    windows = [Step(one.after, AT_TWO) for one in chain]
    assert NUMBER_MAX >= forecast(windows, costs, costs, [Known()] * 256, at(0))[-1].ends_at
    assert min(start_deadlines(windows, costs, costs, at(24))) >= 1


def test_when_a_stage_turns_late() -> None:
    """One that could start, just after the last instant; what waits for others turns late by them alone."""
    known = [Known(), Known(), Known()]
    assert at(18) + 1 == turns_late_at(CHAIN, hours(1, 2, 3), known, at(24), at(0))
    assert turns_late_at(CHAIN, hours(1, 2, 3), known, at(24), at(19)) is None
    running = [Known(at(0), at(9)), Known(), Known()]
    assert turns_late_at(CHAIN, hours(1, 2, 3), running, at(24), at(1)) is None


def test_earliest_end_is_that_of_the_longest_way() -> None:
    """Without waits; a window is waited for."""
    assert at(7) == earliest_end(DIAMOND, hours(1, 2, 5, 1), at(0))
    assert at(27) == earliest_end([Step(), Step((0,), AT_TWO)], hours(3, 1), at(0))


def test_critical_path_is_the_longer_side() -> None:
    """From the first stage to the last."""
    known = [Known()] * 4
    spans = forecast(DIAMOND, hours(1, 2, 5, 1), hours(0, 0, 0, 0), known, at(0))
    assert [0, 2, 3] == critical_path(DIAMOND, spans)


@pytest.mark.parametrize(
    ("moved", "laxity", "is_told"),
    [(SECOND, 0, False), (SECOND + 1, 0, True), (36 * SECOND, HOUR, False), (36 * SECOND + 1, HOUR, True)],
)
def test_small_moves_are_not_told(moved: int, laxity: int, is_told: bool) -> None:  # a case
    """By a second, or a hundredth of the laxity, whichever is more; in either direction."""
    old, now = Instant(at(5) + laxity), at(5)
    assert is_told == has_moved(old, Instant(old + moved), now) == has_moved(old, Instant(old - moved), now)


def test_order_and_circles() -> None:
    """Each after those that it waits for, else as they were given; none for a circle."""
    assert [0, 1, 2] == ordered([(), (), ()])
    assert [2, 0, 1] == ordered([(2,), (0,), ()])
    assert ordered([(1,), (0,), ()]) is None


# Properties.


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[list[Step], list[Nanoseconds], list[Nanoseconds]]:
    """Up to eight stages with costs and waits of up to a day, some of which begin in windows."""
    steps = []
    for place in range(draw(st.integers(1, 8))):
        after = draw(st.sets(st.integers(0, place - 1), max_size=3)) if place else set()
        opens, lasts = draw(st.integers(0, DAY - 1)), draw(st.integers(1, DAY))
        window = DailyWindow(Nanoseconds(opens), Nanoseconds(lasts)) if draw(st.integers(0, 3)) == 0 else None
        steps.append(Step(tuple(sorted(after)), window))
    spans = st.lists(st.integers(0, DAY).map(Nanoseconds), min_size=len(steps), max_size=len(steps))
    return steps, draw(spans), draw(spans)


@PROPERTY
@given(pipelines(), st.integers(0, 10 * DAY))
def test_stages_that_start_by_their_deadlines_meet_it(
    drawn: tuple[list[Step], list[Nanoseconds], list[Nanoseconds]], ahead: int
) -> None:
    """What ends after its cost and what then waits as usual starts by its own deadline; the last end by D."""
    steps, costs, waits = drawn
    due_at = Instant(at(0) + ahead)
    found = start_deadlines(steps, costs, waits, due_at)
    for place, step in enumerate(steps):
        assert found[place] + costs[place] <= due_at
        for before in step.after:
            ready_at = Instant(found[before] + costs[before])
            if step.begins is None:
                assert ready_at + waits[place] <= found[place]
            else:
                assert step.begins.begins_from(ready_at) <= found[place]


@PROPERTY
@given(pipelines(), st.integers(0, 10 * DAY))
def test_what_can_be_met_is_not_late(
    drawn: tuple[list[Step], list[Nanoseconds], list[Nanoseconds]], ahead: int
) -> None:
    """None is if the earliest end meets the deadline, and as long as none waits beyond `turns_late_at`."""
    steps, costs, _ = drawn
    due_at, known = Instant(at(0) + ahead), [Known()] * len(steps)
    is_met = earliest_end(steps, costs, at(0)) <= due_at
    assert is_met == (not misses_deadline(steps, costs, known, due_at, at(0)))
    turns_at = turns_late_at(steps, costs, known, due_at, at(0))
    if is_met:
        assert turns_at is not None
        assert not misses_deadline(steps, costs, known, due_at, Instant(turns_at - 1))
        assert misses_deadline(steps, costs, known, due_at, turns_at)


@PROPERTY
@given(pipelines())
def test_order_of_a_valid_graph_stays(drawn: tuple[list[Step], list[Nanoseconds], list[Nanoseconds]]) -> None:
    """Stages that stand in a possible order stay in it."""
    assert list(range(len(drawn[0]))) == ordered([step.after for step in drawn[0]])
