"""Work with a deadline in the order: its age counts from an earlier time, and all else is as without deadlines.

C-16, in part: declaring everything urgent changes nothing between tenants but the age that credit knows, which is capped.
"""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.ranking import CreditSettings
from core.ranking.scan import NO_PATIENCE, PendingWork, TenantState, scan
from tests.core.properties import PROPERTY

TENANTS = tuple(TenantName(name) for name in "abc")
CAP = 40
SETTINGS = CreditSettings(age_weight=3, age_cap=Nanoseconds(CAP), share_weight=50, lag_weight=4)
NOW = Instant(200)
TYPES = ("A100", "H100")

amounts = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 12))
states = st.builds(
    TenantState,
    level=st.integers(0, 6),
    entitled=amounts,
    borrowed_max=st.none() | amounts,
    held=amounts,
    use=st.integers(0, 500),
    weight=st.integers(1, 5),
    lag=st.integers(-20, 20),
)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[list[PendingWork], dict[TenantName, TenantState]]:
    """Up to fifteen workloads of three tenants, submitted one after the other within a hundred nanoseconds."""
    count = draw(st.integers(1, 15))
    times = sorted(draw(st.lists(st.integers(100, 200), min_size=count, max_size=count)))
    pending = [
        PendingWork(
            WorkloadId(f"w-{number}"),
            draw(st.sampled_from(TENANTS)),
            number,
            Instant(at),
            (draw(st.dictionaries(st.sampled_from(TYPES), st.integers(1, 6), min_size=1)),),
            draw(st.none() | st.integers(0, 6)),
        )
        for number, at in enumerate(times)
    ]
    return pending, {name: draw(states) for name in TENANTS}


def hurried(pending: list[PendingWork], who: Mapping[int, int]) -> list[PendingWork]:
    """The same, of which some must start at an instant: they count from the cap before that, if that is sooner than they do."""
    return [
        replace(work, since=Instant(min(work.submitted_at, who[work.number] - CAP)))
        if work.number in who
        else work
        for work in pending
    ]


urgent = st.dictionaries(st.integers(0, 14), st.integers(100, 400), max_size=15)


@PROPERTY
@given(crowds(), urgent, st.sampled_from(TENANTS))
def test_deadlines_of_one_tenant_change_no_level_or_standing_of_others(
    drawn: tuple[list[PendingWork], dict[TenantName, TenantState]], who: dict[int, int], tenant: TenantName
) -> None:
    """Nor the room that is left to any: levels, quota classes and credits of others stay, and their order among themselves."""
    pending, tenants = drawn
    mine = {work.number for work in pending if work.tenant == tenant}
    others = {number: at for number, at in who.items() if number in mine}
    before = scan(pending, tenants, SETTINGS, NOW, patience=NO_PATIENCE)
    after = scan(hurried(pending, others), tenants, SETTINGS, NOW, patience=NO_PATIENCE)
    assert [one for one in before if one.work.tenant != tenant] == [
        one for one in after if one.work.tenant != tenant
    ]


@PROPERTY
@given(crowds(), urgent, st.integers(0, 300))
def test_ordinary_work_that_waited_for_the_cap_is_behind_no_later_stage(
    drawn: tuple[list[PendingWork], dict[TenantName, TenantState]], who: dict[int, int], wait: int
) -> None:
    """Of its tenant and band, however urgent that is: so work without a deadline is delayed by a day at most."""
    pending, tenants = drawn
    now = Instant(NOW + wait)
    found = scan(hurried(pending, who), tenants, SETTINGS, now, patience=NO_PATIENCE)
    for place, one in enumerate(found):
        if one.work.number in who or now - one.work.submitted_at < CAP:
            continue
        for ahead in found[:place]:
            same = ahead.work.tenant == one.work.tenant and ahead.group[0] == one.group[0]
            assert not same or ahead.work.number < one.work.number


@PROPERTY
@given(crowds())
def test_without_deadlines_nothing_changes(
    drawn: tuple[list[PendingWork], dict[TenantName, TenantState]],
) -> None:
    """A start deadline more than the cap away is none; and age counts from the submission where nothing is said."""
    pending, tenants = drawn
    far = {work.number: work.submitted_at + CAP for work in pending}
    assert pending == hurried(pending, far)
    assert all(work.since == work.submitted_at for work in pending)
    order = scan(pending, tenants, SETTINGS, NOW, patience=NO_PATIENCE)
    assert order == scan(hurried(pending, far), tenants, SETTINGS, NOW, patience=NO_PATIENCE)


def test_patience_counts_from_the_submission() -> None:
    """Who must start soon holds no quota for that alone: it has not waited."""
    tenants = {
        TENANTS[0]: TenantState(level=3, entitled={"H100": 4}, held={"H100": 2}, within={3: {"H100": 2}})
    }
    large = PendingWork(WorkloadId("w-1"), TENANTS[0], 1, Instant(199), ({"H100": 4},), since=Instant(100))
    small = PendingWork(WorkloadId("w-2"), TENANTS[0], 2, Instant(199), ({"H100": 2},))
    classes = {
        one.work.number: one.quota_class.text
        for one in scan([large, small], tenants, SETTINGS, NOW, patience=Nanoseconds(CAP))
    }
    assert {1: "over", 2: "within"} == classes
    patient = replace(large, submitted_at=Instant(100))
    classes = {
        one.work.number: one.quota_class.text
        for one in scan([patient, small], tenants, SETTINGS, NOW, patience=Nanoseconds(CAP))
    }
    assert {1: "over", 2: "over"} == classes
