"""Run times in little: spreads that are right to a tenth, and who is forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from core.estimating.run_times import (
    Family,
    KnownRuns,
    PastRun,
    RunTimes,
    median_of,
    size_of,
    span_of,
    step_of,
)
from core.nouns.ids import TenantName
from core.nouns.instant import MILLISECOND, SECOND, Nanoseconds
from core.nouns.limits import (
    FAMILIES_OF_TENANT_MAX,
    FAMILY_RUNS_MAX,
    HISTORY_TENANTS_MAX,
    RUN_TIMES_COUNTED_MAX,
)
from tests.core.properties import PROPERTY

ML = TenantName("ml")
SPANS = st.integers(MILLISECOND, 10**6 * SECOND).map(Nanoseconds)


def ran(seconds: float, *, is_whole: bool = True) -> PastRun:
    """A run of one GPU."""
    return PastRun(Nanoseconds(round(seconds * SECOND)), 1_000, "H100", is_whole)


@PROPERTY
@given(SPANS, SPANS)
def test_steps_keep_the_order_and_stand_for_their_spans(one: Nanoseconds, other: Nanoseconds) -> None:
    """A span is within an eighth of its step's span, and a longer one is in no lower step."""
    assert abs(span_of(step_of(one)) - one) <= one / 8
    assert step_of(min(one, other)) <= step_of(max(one, other))


@PROPERTY
@given(st.lists(SPANS, min_size=3, max_size=60), SPANS)
def test_spread_knows_the_remaining_time(spans: list[Nanoseconds], gone: Nanoseconds) -> None:
    """The median of the spans that lasted longer than that, to an eighth, of those that lasted clearly longer."""
    times = RunTimes()
    for span in spans:
        times.add(step_of(span))
    longer = [span for span in spans if step_of(span) > step_of(gone)]
    found = times.median_beyond(gone)
    if len(longer) < 3:
        assert found is None
        return
    expected = median_of(longer)
    assert expected is not None
    assert found == span_of(step_of(expected))
    assert found > gone


def test_old_run_times_fade() -> None:
    """A spread counts no more than its limit, and what is rare in it is forgotten."""
    times = RunTimes()
    times.add(step_of(Nanoseconds(1_000 * SECOND)))
    for _ in range(3 * RUN_TIMES_COUNTED_MAX):
        times.add(step_of(Nanoseconds(SECOND)))
    assert times.total == sum(times.counts.values()) <= RUN_TIMES_COUNTED_MAX
    assert [step_of(Nanoseconds(SECOND))] == list(times.counts)


def test_family_is_its_newest_runs() -> None:
    """M36: what ran long ago is forgotten; runs that failed count only where nothing else is known."""
    family = Family()
    assert family.typical() is None
    family.add(ran(5, is_whole=False))
    assert 5 * SECOND == family.typical()
    for _ in range(FAMILY_RUNS_MAX):
        family.add(ran(100))
    assert 100 * SECOND == family.typical()
    for seconds in range(1, FAMILY_RUNS_MAX + 1):
        family.add(ran(seconds))
    assert FAMILY_RUNS_MAX == len(family.runs)
    assert FAMILY_RUNS_MAX // 2 * SECOND == family.typical()
    assert 1 + 2 * FAMILY_RUNS_MAX == family.ended


def test_family_or_tenant_silent_longest_is_forgotten() -> None:
    """M36: of too many families of one tenant, and of too many tenants."""
    runs = KnownRuns()
    for number in range(FAMILIES_OF_TENANT_MAX):
        runs.add(ML, f"family-{number}", ran(1))
    runs.add(ML, "family-0", ran(1))
    runs.add(ML, "one more", ran(1))
    assert FAMILIES_OF_TENANT_MAX == len(runs.tenants[ML].families)
    assert runs.family(ML, "family-0") is not None
    assert runs.family(ML, "family-1") is None
    for number in range(HISTORY_TENANTS_MAX - 1):
        runs.add(TenantName(f"t{number}"), "train", ran(1))
    runs.add(ML, "family-0", ran(1))
    runs.add(TenantName("one more"), "train", ran(1))
    assert HISTORY_TENANTS_MAX == len(runs.tenants)
    assert runs.family(ML, "family-0") is not None
    assert TenantName("t0") not in runs.tenants


def test_sizes_are_octaves_of_gpus() -> None:
    """None, then 1, 2, 3 to 4, 5 to 8 and so on; a part of a GPU is one."""
    gpus = (0, 0.5, 1, 2, 3, 4, 5, 8, 9, 64)
    assert [0, 1, 1, 2, 3, 3, 4, 4, 5, 7] == [size_of(round(1_000 * count)) for count in gpus]
