"""How a workload stands to its tenant's quota, as people are told."""

from msgspec.structs import replace

from core.messages.queue import Holder, ListedWorkload, RegionOutlook, WorkloadExplained
from core.messages.tenants import ListedTenant
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL, Budget, Entitlement, TenantSettings, TypeUse
from core.nouns.workload import Kind, Phase
from mizzen.views.fleet.tenant_table import beyond_of, quota_of
from mizzen.views.phrases.quota_text import (
    credit_text,
    held_to_text,
    level_text,
    priority_text,
    standing_text,
)
from mizzen.views.workloads.queue_lines import table_of as queue_of
from tests.builders import EU, a_job, a_spec, of_types
from tests.mizzen.test_stories import _lines, a_waiting

HOUR = 3_600 * SECOND
SPEC = a_spec(a_job(1, 8), tenant=TenantName("ml"))
W1 = WorkloadId("w-1")


def live(**changed: object) -> WorkloadExplained:
    """What the queue says of one that waits."""
    waiting = a_waiting(**changed).waiting
    assert waiting is not None
    return waiting


def test_no_level_below_all_is_shown_as_a_number() -> None:
    """To people it is no level at all: not of who holds a region, and not in the queue."""
    assert ("over quota", "priority 0") == (level_text(OVER_LEVEL), level_text(0))
    holders = (Holder(WorkloadId("w-5"), OVER_LEVEL, 8_000), Holder(WorkloadId("w-6"), 2, 500))
    told = _lines(a_waiting(RegionOutlook(EU, Reason.NO_CAPACITY, "Full.", holders=holders)))
    assert "most is held by w-5 (8 GPUs, over quota), w-6 (0.5 GPUs, priority 2)" in told[-1]
    row = ListedWorkload(
        W1,
        "train",
        "ml",
        4,
        "training",
        Phase.RUNNING,
        1,
        8_000,
        1,
        Nanoseconds(0),
        Nanoseconds(0),
        is_over=True,
    )
    assert ["w-1", "train", "ml", "over", "RUNNING"] == queue_of([row])[1].split()[:5]
    assert "-" == queue_of([replace(row, kind="shared", is_over=False)])[1].split()[3]


def test_standing_of_waiting_work() -> None:
    """Within quota with level and credit; over it, behind all work that is within; held, with the reason."""
    credit = 12 * HOUR + 300 * SECOND
    within = live(standing="within", level=4, credit=credit)
    assert "within the quota of ml, at level 4, with a credit of 12h5m" == standing_text(within, SPEC)
    over = standing_text(live(standing="over", level=OVER_LEVEL), SPEC)
    assert over.startswith("over the quota of ml: it may hold capacity that other tenants leave unused")
    assert over.endswith("behind all that is within quota, with a credit of 0s")
    held = live(standing="held", level=OVER_LEVEL, reason=Reason.BORROWED_ALL)
    assert "and must wait: ml may borrow no more" in standing_text(held, SPEC)
    spent = live(standing="held", level=OVER_LEVEL, reason=Reason.BUDGET_SPENT)
    assert "ml has used its GPU-hours of this period" in standing_text(spent, SPEC)
    behind = live(standing="held", level=OVER_LEVEL, reason=Reason.QUOTA_KEPT)
    assert "and must wait: the rest of that quota is held for work of ml ahead of it" in standing_text(
        behind, SPEC
    )
    first = live(standing="held", level=OVER_LEVEL, reason=Reason.QUOTA_DRAINS)
    assert "held for it until enough running work of ml has ended" in standing_text(first, SPEC)
    late = live(standing="held", level=OVER_LEVEL, reason=Reason.NOT_RANKED)
    assert standing_text(late, SPEC).startswith("not in the order before the next pass")
    desk = a_spec(tenant=TenantName("ml"), kind=Kind.INTERACTIVE)
    assert standing_text(held, desk).endswith("interactive work is never preempted, so it may not borrow")
    assert "" == standing_text(live(), SPEC)
    placed = live(region=EU, level=OVER_LEVEL)
    assert standing_text(placed, SPEC).endswith("work within quota may preempt it")
    assert "within the quota of ml, at level 2" == standing_text(live(region=EU, level=2), SPEC)
    told = _lines(a_waiting(RegionOutlook(EU), standing="within", level=4, rank=0))
    assert [
        "  it is within the quota of default, at level 4, with a credit of 0s",
        "  it is the first in the queue",
    ] == told[1:3]


def test_credit_is_told_as_waiting() -> None:
    """Whatever waiting earns; where it earns nothing it is a number."""
    assert "a credit of 1h" == credit_text(HOUR, 1) == credit_text(3 * HOUR, 3)
    assert "a credit of -2h, for its tenant used more than its share" == credit_text(-2 * HOUR, 1)
    assert "a credit of 7" == credit_text(7, 0)


def test_priority_left_to_the_tenant() -> None:
    """It is its tenant's, and that is a number where it is known."""
    assert "5" == priority_text(a_spec(priority=5), None)
    none = replace(SPEC, priority=None)
    assert "its tenant's" == priority_text(none, None) == priority_text(none, live(level=OVER_LEVEL))
    assert "4, its tenant's" == priority_text(none, live(level=4))
    shared = replace(none, kind=Kind.SHARED)
    assert "none: in a shared pool weights decide" == priority_text(shared, live(level=0))
    assert "" == standing_text(live(region=EU, level=0), shared), "it is under no quota"


def test_types_without_headroom_in_the_quota_are_told() -> None:
    """Of the jobs that are held to fewer types than they name."""
    jobs = (of_types(a_job(1, 8, name="a"), "H100", "A100"), a_job(1, 1, name="b"))
    told = {"is_held_to": ("A100", jobs[1].type_text)}
    within, over = live(standing="within", **told), live(standing="over", **told)
    assert "asked for only where its tenant's quota has headroom: a on A100" == held_to_text(within, jobs)
    assert "asked for only where other tenants leave some: a on A100" == held_to_text(over, jobs)
    assert "" == held_to_text(live(standing="held", **told), jobs)
    assert "" == held_to_text(live(), jobs)


def test_no_region_is_asked_for_work_over_quota_or_without_a_pick() -> None:
    """A region that would be asked is not, and the other region is shown with its own reason."""
    for reason in (Reason.OVER_QUOTA, Reason.BORROWED_ALL, Reason.BUDGET_SPENT, Reason.WAITS_FOR_ROUND):
        told = _lines(
            a_waiting(RegionOutlook(EU), RegionOutlook(EU, Reason.NO_CAPACITY, "Full."), reason=reason)
        )
        assert ["eu", "not", "asked"] == told[-2].split()
        assert ["eu", "no_capacity", "Full"] == told[-1].split()


def test_gpus_held_beyond_a_new_quota_are_told() -> None:
    """Of the types that were set: work that may be preempted goes on until then; interactive work stays until it ends."""

    def told(borrowed: int, stays: int) -> str:
        use = TypeUse(Entitlement(8), 24_000, borrowed, 0, stays)
        row = ListedTenant(TenantName("ml"), TenantSettings(), 3, None, {"A100": use, "H100": use})
        return " ".join(beyond_of(row, {"H100": 8}))

    assert "" == told(0, 0)
    pushed = "ml holds 16 H100 more than that: work within quota may preempt it, and until then it goes on"
    assert pushed == told(16_000, 0)
    assert f"{pushed}; but 8 of them are interactive work, which stays until it ends" == told(16_000, 8_000)
    only = "ml holds 16 H100 more than that: it is interactive work, which is never preempted and stays until it ends"
    assert only == told(16_000, 16_000)


def test_quota_of_several_types_has_the_budget_once() -> None:
    """In the first line of each tenant; of one with nothing but a budget there is a line too."""
    budget = Budget(100, Nanoseconds(168 * HOUR))
    uses = {
        "A100": TypeUse(Entitlement(8, 0, is_lent=False), 0, 0, 0),
        "H100": TypeUse(Entitlement(16), 24_000, 8_000, 0),
    }
    used = 1_000 * 3_600 * 825 // 10
    ml = ListedTenant(
        TenantName("ml"), TenantSettings(), 3, budget, uses, used, Nanoseconds(76 * HOUR), 241, 1000
    )
    over = ListedTenant(TenantName("zoo"), TenantSettings(), 1, budget, {}, 2 * used, Nanoseconds(HOUR))
    assert [
        "ml A100 8 0 no 0 0 0 24.1% 100% 82.5h 17.5h 3d4h",
        "ml H100 16 all yes 24 8 0",
        "zoo - - - - - - - 0% 0% 165h 0h 1h",
    ] == [" ".join(line.split()) for line in quota_of([ml, over], None)[1:]]
