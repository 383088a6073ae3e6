"""What tenants have used: charged exactly, however often it is looked at, and in periods that roll over."""

from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.codec import encode
from core.events.queue import AttemptClosed, AwardReturned, StandingChanged, WorkloadAwarded, WorkloadBound
from core.events.tenants import BudgetSet, RankingSet, SharesDue
from core.fact import Event
from core.images.usage import GPU_HOUR, Usage
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.ranking import CreditSettings, RankingSettings
from core.nouns.reasons import Reason
from core.nouns.tenant import Budget
from core.nouns.workload import EndCause, Phase
from core.ranking.fair_lag import FairShare
from tests.builders import EU, START, a_fact
from tests.core.properties import PROPERTY

ML = TenantName("ml")
W1 = WorkloadId("w-1")
HOUR = 3_600
UNIT = 1_000 * SECOND
"""GPU milli nanoseconds in a GPU-second."""


def fold(usage: Usage, second: float, *events: Event) -> Usage:
    """These are recorded so long after the start."""
    for event in events:
        getattr(usage, Usage.FOLDS[type(event)])(a_fact(event, log=GLOBAL_LOG, at=at(second)))
    return usage


def at(second: float) -> Instant:
    """So long after the start."""
    return after(START, Nanoseconds(round(second * SECOND)))


def award(workload: WorkloadId = W1, gpus: int = 8, tenant: TenantName = ML) -> WorkloadAwarded:
    """Of so many H100."""
    return WorkloadAwarded(workload, 1, EU, 0, (), tenant=tenant, level=3, charge={"H100": gpus * 1_000})


def bound(workload: WorkloadId = W1) -> WorkloadBound:
    """All of its tasks run."""
    return WorkloadBound(workload, 1, EU, 2)


def holds(revision: int, gpus: int, level: int = 3, workload: WorkloadId = W1) -> StandingChanged:
    """From now on."""
    return StandingChanged(workload, 1, revision, ML, level, {"H100": gpus * 1_000} if gpus else {})


def closed(workload: WorkloadId = W1) -> AttemptClosed:
    """Its attempt is over."""
    return AttemptClosed(workload, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 5)


def budget(hours: int | None, period: int = 24 * HOUR) -> BudgetSet:
    """Of ML."""
    return BudgetSet(ML, 1, None if hours is None else Budget(hours, seconds(period)))


def used(usage: Usage, second: float) -> Fraction:
    """GPU-seconds in the period in which that lies."""
    return Fraction(usage.rows[ML].used_at(at(second)), UNIT)


def test_charged_from_bound_to_closed_with_a_resize_between() -> None:
    """Not from the award, and not beyond the end; from the resize on for what is held then."""
    usage = fold(Usage(), 0, budget(100), award())
    assert 0 == used(usage, 50)
    fold(usage, 100, bound())
    assert 80 == used(usage, 110)
    fold(usage, 110, holds(1, 16))
    fold(usage, 120, holds(2, 16, level=-1))  # Over quota it uses as much.
    assert 80 + 320 == used(usage, 130)
    fold(usage, 140, closed())
    assert 80 + 480 == used(usage, 140) == used(usage, HOUR)
    assert {} == usage.awards
    assert 560 / HOUR == usage.rows[ML].used_at(at(150)) / GPU_HOUR


def test_declined_award_costs_nothing() -> None:
    """It never ran."""
    usage = fold(Usage(), 0, budget(100), award())
    fold(usage, 60, AwardReturned(W1, 1, Reason.NO_CAPACITY, EU, 3))
    fold(usage, 60, award())
    fold(usage, 90, holds(1, 16), bound())
    assert 16 * 10 == used(usage, 100)


def test_periods_roll_over() -> None:
    """Whether or not anything happens meanwhile; what runs is charged to the period in which it runs."""
    usage = fold(Usage(), 0, budget(100, HOUR), award(), bound())
    assert 8 * HOUR - 8 == used(usage, HOUR - 1)
    assert 0 == used(usage, HOUR)
    assert 8 * 60 == used(usage, 3 * HOUR + 60)
    assert at(3 * HOUR) == usage.rows[ML].began_at(at(3 * HOUR + 60))
    fold(usage, 3 * HOUR + 60, closed())
    assert 8 * 60 == used(usage, 4 * HOUR - 1)
    assert 0 == used(usage, 4 * HOUR) == used(usage, 40 * HOUR)


def test_other_gpu_hours_leave_the_period_and_another_period_begins_at_zero() -> None:
    """Used GPU-hours stay used, unless the period itself is another."""
    usage = fold(Usage(), 0, budget(100, HOUR), award(), bound())
    fold(usage, 60, budget(5, HOUR))
    assert 8 * 90 == used(usage, 90)
    fold(usage, 90, budget(5, 2 * HOUR))
    assert 0 == used(usage, 90)
    assert at(90) == usage.rows[ML].began_at(at(2 * HOUR))
    fold(usage, 2 * HOUR, budget(None))
    assert 0 == usage.rows[ML].period


steps = st.lists(st.tuples(st.integers(0, 4_000), st.sampled_from([0, 1, 4, 8, 24])), max_size=6)


@PROPERTY
@given(steps, st.lists(st.integers(0, 24_000), max_size=8), st.sampled_from([0, HOUR, 5_000]))
def test_looking_in_between_changes_nothing(
    resizes: list[tuple[int, int]], looks: list[int], period: int
) -> None:
    """Folding in any split equals: facts that change nothing, and images that are decoded anew, leave use as it is, to the last unit;
    faded use to half a milli-GPU-second for each.
    """
    events: list[tuple[int, int, Event]] = []
    second = held = 0
    amounts: list[tuple[int, int]] = [(0, 8)]
    for number, (span, gpus) in enumerate(resizes, 1):
        second += span
        amounts.append((second, gpus))
        events.append((second, 0, holds(number, gpus)))
    plain, split = (
        fold(Usage(), 0, *([budget(9, period)] if period else []), award(), bound()) for _ in range(2)
    )
    for when, _, event in events:
        fold(plain, when, event)
    for look in looks:
        held = [gpus for when, gpus in amounts if when <= look][-1]
        events.append((look, 1, holds(1, held)))
    for when, _, event in sorted(events, key=lambda one: one[:2]):
        fold(split, when, event)
    end = 24_001
    ours, theirs = plain.rows[ML], split.rows[ML]
    assert ours.used_at(at(end)) == theirs.used_at(at(end))
    assert ours.began_at(at(end)) == theirs.began_at(at(end))
    assert abs(plain.faded(ML, at(end)) - split.faded(ML, at(end))) <= len(events) + 1
    if not period:
        spans = zip(amounts, [*amounts[1:], (end, 0)], strict=True)
        assert sum(gpus * (until - since) for (since, gpus), (until, _) in spans) == used(plain, end)


def test_half_life_counts_from_when_it_is_set() -> None:
    """What faded before has faded by the earlier one."""
    usage = fold(Usage(), 0, award(), bound())
    fold(usage, 10, closed())
    assert 80_000 - 80 <= usage.faded(ML, at(10)) <= 80_000
    settings = RankingSettings(CreditSettings(half_life=seconds(100)))
    fold(usage, 10, RankingSet(1, settings))
    before = usage.faded(ML, at(10))
    assert abs(before // 2 - usage.faded(ML, at(110))) <= 1
    assert abs(before // 8 - usage.faded(ML, at(310))) <= 1


def test_use_of_many_years_can_be_encoded() -> None:
    """A tenant that holds 800,000 GPUs for ten years, with a budget and without one, and never has its fair share."""
    usage = fold(Usage(), 0, RankingSet(1, RankingSettings()), award(gpus=800_000), bound())
    others = {"a100": FairShare(1_000, 1_000), "ml": FairShare(900_000_000, 1_000)}
    fold(usage, 1, SharesDue({TenantName(name): due for name, due in others.items()}, ("H100",)))
    years = 10 * 365 * 24
    for hours in range(1, years + 1, 1_000):
        fold(usage, hours * HOUR, holds(hours, 800_000))
    read = msgspec.msgpack.decode(encode(usage), type=Usage)
    assert 800_000 * years * HOUR == pytest.approx(used(read, years * HOUR), rel=1e-9)
    assert used(usage, years * HOUR) == used(read, years * HOUR)
    fold(read, years * HOUR, budget(1, 31 * 24 * HOUR))
    assert 0 == used(read, years * HOUR)
    fold(read, years * HOUR + 30 * 24 * HOUR, closed())
    encode(read)
    assert 800_000 * 30 * 24 * HOUR == used(read, years * HOUR + 30 * 24 * HOUR)
