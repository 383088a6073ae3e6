"""C-13: how long a stage runs is learnt by family, with the size of its input, and is the user's word or a prediction before that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.estimating.durations import DurationBy, duration_of, line_of
from core.estimating.run_times import KnownRuns, PastRun
from core.nouns.ids import TenantName
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import RUN_TIME_DEFAULT
from core.nouns.workload import NEVER, WorkloadSpec
from tests.builders import a_spec
from tests.core.properties import PROPERTY

ML = TenantName("ml")
MINUTE = 60 * SECOND


def runs_of(*minutes: float, sizes: tuple[int, ...] = (), is_whole: bool = True) -> KnownRuns:
    """Runs of the family `prep`, the oldest first."""
    known = KnownRuns()
    for place, span in enumerate(minutes):
        size = sizes[place] if sizes else 0
        known.add(ML, "prep", PastRun(Nanoseconds(round(span * MINUTE)), 1_000, "H100", is_whole, size))
    return known


def a_stage(*, expected: float = 0, size: int = 0, most: float = 0) -> WorkloadSpec:
    """One of that family."""
    spec = a_spec(name="prep", tenant=ML)
    spans = [Nanoseconds(round(span * MINUTE)) for span in (expected, most)]
    return replace(spec, expected=spans[0], input_size=size, max_duration=spans[1])


def minutes(known: KnownRuns, spec: WorkloadSpec) -> tuple[float, float, float, DurationBy]:
    """Cost, median and low quantile in minutes, and the source."""
    found = duration_of(known, spec, "prep")
    spans = [round(span / MINUTE, 3) for span in (found.cost, found.typical, found.least)]
    return spans[0], spans[1], spans[2], found.by


def test_few_runs_are_taken_at_the_90th_percentile() -> None:
    """C-13: of nine runs the ninth, for they show little of the tail; of ten and more the 75th."""
    assert (9, 5, 3, DurationBy.FAMILY) == minutes(runs_of(*range(1, 10)), a_stage())
    assert (8, 5, 3, DurationBy.FAMILY) == minutes(runs_of(*range(1, 11)), a_stage())


def test_runs_that_failed_do_not_count() -> None:
    """Beside one that came to its end they say nothing; without any, they are a guess on which nothing is refused."""
    known = runs_of(1, 1, 1, is_whole=False)
    known.add(ML, "prep", PastRun(Nanoseconds(7 * MINUTE), 1_000, "H100", is_whole=True))
    assert (7, 7, 0, DurationBy.FAMILY) == minutes(known, a_stage())
    assert 0 == minutes(runs_of(1, 1, 1, is_whole=False), a_stage())[2]


def test_cold_start() -> None:
    """C-13: the user's word first, then other work, then a default; only the first is ground for a refusal."""
    assert (40, 40, 40, DurationBy.EXPECTED) == minutes(KnownRuns(), a_stage(expected=40))
    default = RUN_TIME_DEFAULT / MINUTE
    assert (default, default, 0, DurationBy.PREDICTED) == minutes(KnownRuns(), a_stage())
    other = KnownRuns()
    other.add(ML, "else", PastRun(Nanoseconds(9 * MINUTE), 1_000, "H100", is_whole=True))
    assert (9, 9, 0, DurationBy.PREDICTED) == minutes(other, a_stage())


def test_two_runs_rule_nothing_out_beyond_the_users_word() -> None:
    """Fewer than three say little of how quick a run can be."""
    assert 0 == minutes(runs_of(50, 60), a_stage())[2]
    assert 30 == minutes(runs_of(50, 60), a_stage(expected=30))[2]
    assert 50 == minutes(runs_of(50, 60), a_stage(expected=90))[2]


def test_longer_inputs_take_longer() -> None:
    """C-13: ten minutes and one for each unit: an input of 200 takes 210 minutes, though no run was that long."""
    sizes = (10, 20, 30, 40, 50)
    known = runs_of(*(10 + size for size in sizes), sizes=sizes)
    assert (210, 210, 210, DurationBy.FAMILY) == minutes(known, a_stage(size=200))
    assert 60 == minutes(known, a_stage())[0], "of one of which no size is known"


def test_one_odd_run_in_four_changes_little() -> None:
    """The slope is a median of slopes."""
    sizes = (10, 20, 30, 40, 50, 60, 70, 80)
    spans = [10.0 + size for size in sizes]
    spans[3], spans[6] = 900, 2
    assert 110 == minutes(runs_of(*spans, sizes=sizes), a_stage(size=100))[1]


def test_shorter_runs_of_larger_inputs_have_no_slope() -> None:
    """b is never negative: what happened to be quicker with more is no law."""
    known = runs_of(40, 30, 20, sizes=(1, 2, 3))
    cost, typical, least, _ = minutes(known, a_stage(size=9))
    assert (40, 30, 20) == (cost, typical, least)


def test_runs_without_a_size_are_left_out_of_the_line() -> None:
    """And where all sizes are one, there is no line."""
    known = runs_of(10, 20, 500, sizes=(10, 20, 0))
    assert 30 == minutes(known, a_stage(size=30))[1]
    assert 2 == minutes(runs_of(1, 2, 3, sizes=(5, 5, 5)), a_stage(size=50))[1]


def test_no_run_is_longer_than_it_may_be() -> None:
    """It is stopped then."""
    assert (15, 15, 15, DurationBy.FAMILY) == minutes(runs_of(40, 40, 40), a_stage(most=15))
    assert (15, 15, 15, DurationBy.EXPECTED) == minutes(KnownRuns(), a_stage(expected=15, most=15))


POINTS = st.lists(st.tuples(st.integers(1, 10**12), st.integers(1, 10**15)), min_size=2, max_size=16).filter(
    lambda points: len({x for x, _ in points}) > 1
)


@PROPERTY
@given(POINTS)
def test_line_is_never_below_the_axes(points: list[tuple[int, int]]) -> None:
    """So that no size takes less than nothing; and it is not zero everywhere."""
    base, slope = line_of(points)
    assert base >= 0
    assert slope >= 0
    assert base + slope > 0


@PROPERTY
@given(st.integers(0, 10**9), st.integers(1, 10**6), st.sets(st.integers(1, 1_000), min_size=2, max_size=16))
def test_points_on_a_line_give_that_line(base: int, slope: int, sizes: set[int]) -> None:
    """Exactly, but for rounding."""
    found = line_of([(size, base + slope * size) for size in sorted(sizes)])
    assert found == pytest.approx((base, slope), rel=1e-9, abs=1e-3)


@PROPERTY
@given(
    st.lists(st.floats(0.1, 600), min_size=1, max_size=16),
    st.lists(st.integers(0, 50), min_size=16, max_size=16),
    st.integers(0, 50),
)
def test_quantiles_are_in_order(spans: list[float], sizes: list[int], size: int) -> None:
    """The cost is no less than the median, nor that than the low quantile."""
    found = duration_of(runs_of(*spans, sizes=tuple(sizes)), a_stage(size=size), "prep")
    assert found.cost >= found.typical >= found.least >= NEVER
