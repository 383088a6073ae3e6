"""The full scan: levels, credit, the quota walk, borrowing, and what a change of a quota or of use does to the order."""

from collections.abc import Mapping

from msgspec.structs import replace

from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.ranking import CreditSettings
from core.ranking.scan import LOWEST, PendingWork, QuotaClass, Ranked, TenantState, scan

NOW = Instant(1_000 * SECOND)
SETTINGS = CreditSettings()
A, B = TenantName("a"), TenantName("b")
NOMINAL, BORROWING, BLOCKED = QuotaClass


def work(
    number: int, need: int | Mapping[str, int] = 1, *, tenant: TenantName = A, **more: int
) -> PendingWork:
    """Submitted in the order of the numbers, a second apart, unless `at` says otherwise."""
    at = Instant(more.pop("at", number) * SECOND)
    needs = {"H100": need} if isinstance(need, int) else need
    return PendingWork(WorkloadId(f"w-{number}"), tenant, number, at, (needs,), more.get("level"))


def holding(level: int, entitled: int, held: int) -> TenantState:
    """A tenant of which so much runs, at its own level and within quota."""
    mine = {"H100": held}
    return TenantState(level=level, entitled={"H100": entitled}, held=mine, within={level: mine})


def ranked(tenants: Mapping[TenantName, TenantState], *pending: PendingWork) -> list[Ranked]:
    """Now, with the default settings."""
    return scan(pending, tenants, SETTINGS, NOW)


def told(found: list[Ranked]) -> list[tuple[int, int, QuotaClass]]:
    """Number, level and standing."""
    return [(one.work.number, one.level, one.quota_class) for one in found]


def test_level_then_credit_then_number() -> None:
    """M6: a higher level is ahead however young; then the older; those of one instant as they were numbered."""
    tenants = {A: TenantState(level=2, entitled={"H100": 9}), B: TenantState(level=5, entitled={"H100": 9})}
    found = ranked(
        tenants,
        work(4, at=3),
        work(3, at=3),
        work(2, at=5),
        work(1, tenant=B, at=9),
        work(7, tenant=B, level=1),
    )
    assert [(1, 5, NOMINAL), (3, 2, NOMINAL), (4, 2, NOMINAL), (2, 2, NOMINAL), (7, 1, NOMINAL)] == told(
        found
    )


def test_level_is_never_above_the_tenants() -> None:
    """M6: a workload that asks for more than its tenant has gets its tenant's."""
    assert [(1, 2, NOMINAL)] == told(
        ranked({A: TenantState(level=2, entitled={"H100": 9})}, work(1, level=6))
    )


def test_beyond_the_cap_the_number_decides() -> None:
    """M6: two that have waited longer than the cap have equal credit."""
    settings = CreditSettings(age_cap=Nanoseconds(1))
    found = scan([work(2, at=1), work(1, at=2)], {}, settings, NOW)
    assert [1, 2] == [one.work.number for one in found]


def test_over_quota_is_lowest_and_a_smaller_one_behind_is_within() -> None:
    """M8: of 4 GPUs 1 is held; 2 fit, 3 more do not, 1 behind them does; then nothing does."""
    tenants = {A: holding(4, 4, 1)}
    found = ranked(tenants, work(1, 2), work(2, 3), work(3, 1), work(4, 1))
    expected = [(1, 4, NOMINAL), (3, 4, NOMINAL), (2, LOWEST, BORROWING), (4, LOWEST, BORROWING)]
    assert expected == told(found)


def keeping(tenants: Mapping[TenantName, TenantState], *pending: PendingWork) -> list[tuple[int, QuotaClass]]:
    """With a patience of 900 s, so that those submitted by second 100 have waited for long enough: number and standing."""
    found = scan(pending, tenants, SETTINGS, NOW, patience=Nanoseconds(900 * SECOND))
    return [(one.work.number, one.quota_class) for one in sorted(found, key=lambda one: one.work.number)]


def test_workload_that_waited_for_long_keeps_the_quota_from_those_behind() -> None:
    """Of 4 GPUs 1 is held: 4 do not fit, and 1 behind them waits for them; it starts if it is ahead, or if they came lately."""
    tenants = {A: holding(4, 4, 1)}
    assert [(1, BORROWING), (2, BORROWING)] == keeping(tenants, work(1, 4), work(2, 1))
    assert [(1, NOMINAL), (2, BORROWING), (3, BORROWING)] == keeping(
        tenants, work(1, 1), work(2, 4), work(3, 1)
    )
    assert [(101, BORROWING), (102, NOMINAL)] == keeping(tenants, work(101, 4), work(102, 1))
    assert [(1, NOMINAL), (2, BORROWING)] == keeping({A: holding(4, 4, 0)}, work(1, 4), work(2, 1))


def test_quota_hold_leaves_others_alone() -> None:
    """Its tenant's work of a higher level and other tenants' have the same quota class as without it; work of a lower level waits for
    it.
    """
    tenants = {A: holding(4, 4, 1), B: holding(4, 4, 1)}
    waiting = work(1, 4, level=3), work(2, 1, level=4), work(3, 1, level=2), work(4, 1, tenant=B)
    assert [(1, BORROWING), (2, NOMINAL), (3, BORROWING), (4, NOMINAL)] == keeping(tenants, *waiting)


def test_nothing_is_kept_for_a_workload_that_could_never_be_within() -> None:
    """5 of a quota of 4, and 4 beside 1 that has no end; where that is of a lower level, it is in no workload's way."""
    tenants = {A: holding(4, 4, 1)}
    assert [(1, BORROWING), (2, NOMINAL)] == keeping(tenants, work(1, 5), work(2, 1))
    lasts = {A: replace(tenants[A], lasting={4: {"H100": 1}})}
    assert [(1, BORROWING), (2, NOMINAL)] == keeping(lasts, work(1, 4), work(2, 1))
    below = {A: replace(tenants[A], lasting={2: {"H100": 1}})}
    assert [(1, BORROWING), (2, BORROWING)] == keeping(below, work(1, 4), work(2, 1))


def test_held_quota_is_not_borrowed_instead() -> None:
    """A tenant that may borrow nothing does not borrow the quota that its own workload holds; of 2 that may be borrowed 1 is left."""
    strict = {A: replace(holding(4, 4, 1), borrowed_max={})}
    assert [(1, BLOCKED), (2, BLOCKED)] == keeping(strict, work(1, 4), work(2, 1))
    two = {A: replace(holding(4, 4, 1), borrowed_max={"H100": 2})}
    assert [(1, BORROWING), (2, BORROWING), (3, BLOCKED)] == keeping(two, work(1, 4), work(2, 1), work(3, 1))


def test_only_the_type_that_lacks_is_kept() -> None:
    """A gang of one type keeps nothing of another; one of two types keeps both, unless somebody ahead of it keeps one of them."""
    both = {"H100": 4, "A100": 4}
    tenants = {A: TenantState(level=4, entitled=both, held={"H100": 1}, within={4: {"H100": 1}})}
    assert [(1, BORROWING), (2, NOMINAL)] == keeping(tenants, work(1, 4), work(2, {"A100": 1}))
    assert [(1, BORROWING), (2, BORROWING)] == keeping(tenants, work(1, both), work(2, {"A100": 1}))
    expected = [(1, BORROWING), (2, BORROWING), (3, NOMINAL)]
    assert expected == keeping(tenants, work(1, 4), work(2, both), work(3, {"A100": 1}))


def test_types_are_apart() -> None:
    """M8: a quota of one type gives nothing of another, and a workload of two types needs both."""
    tenants = {A: TenantState(level=4, entitled={"H100": 2, "A100": 1})}
    both = {"H100": 1, "A100": 2}
    found = ranked(
        tenants, work(1, both), work(2, {"B200": 1}), work(3, {"A100": 1}), work(4, 2), work(5, {})
    )
    expected = [
        (3, 4, NOMINAL),
        (4, 4, NOMINAL),
        (5, 4, NOMINAL),
        (1, LOWEST, BORROWING),
        (2, LOWEST, BORROWING),
    ]
    assert expected == told(found)


def test_work_without_entitlement_is_over_quota() -> None:
    """M8: of a tenant that is not stated, and of one that is entitled to nothing."""
    assert [(1, LOWEST, BORROWING), (2, LOWEST, BORROWING)] == told(
        ranked({B: TenantState(level=6)}, work(1), work(2, tenant=B))
    )


def test_within_quota_is_ahead_of_over_quota_at_the_lowest_level() -> None:
    """M19: also where the one within has the lowest level itself, and less credit."""
    tenants = {A: TenantState(level=6), B: TenantState(level=LOWEST, entitled={"H100": 1}, use=10)}
    found = ranked(tenants, work(1), work(2, tenant=B))
    assert [(2, LOWEST, NOMINAL), (1, LOWEST, BORROWING)] == told(found)
    assert found[0].credit < found[1].credit


def test_borrowing_has_a_limit() -> None:
    """Of 2 and 3 borrowed: 2 within, 2 and 1 borrow, 2 in between is held; a limit of nothing holds all that is over."""
    tenants = {A: TenantState(level=3, entitled={"H100": 2}, borrowed_max={"H100": 3})}
    waiting = [work(1, 2), work(2, 2), work(3, 2), work(4, 1)]
    expected = [(1, 3, NOMINAL), (2, 0, BORROWING), (4, 0, BORROWING), (3, 0, BLOCKED)]
    assert expected == told(ranked(tenants, *waiting))
    none = {A: TenantState(level=3, entitled={"H100": 2}, borrowed_max={})}
    assert [NOMINAL, BLOCKED, BLOCKED, BLOCKED] == [one.quota_class for one in ranked(none, *waiting)]


def test_use_of_another_tenant_changes_the_order() -> None:
    """M9: the same two workloads; when the tenant of the older one has used more, the younger is ahead."""
    even = {name: TenantState(level=3, entitled={"H100": 9}, use=100) for name in (A, B)}
    waiting = work(1), work(2, tenant=B)
    assert [1, 2] == [one.work.number for one in ranked(even, *waiting)]
    more = {**even, A: TenantState(level=3, entitled={"H100": 9}, use=300)}
    assert [2, 1] == [one.work.number for one in ranked(more, *waiting)]
    assert even[B] == more[B]


def test_freed_quota_lifts_a_waiting_workload() -> None:
    """M10: when 2 of the 4 that its tenant holds have ended, or its quota has grown, the next pass has it within."""
    full = holding(4, 4, 4)
    freed = holding(4, 4, 2)
    grown = holding(4, 6, 4)
    assert [[(1, LOWEST, BORROWING)], [(1, 4, NOMINAL)], [(1, 4, NOMINAL)]] == [
        told(ranked({A: tenant}, work(1, 2))) for tenant in (full, freed, grown)
    ]


def test_borrowed_gpus_take_no_quota() -> None:
    """M8: 4 of 4 are held over quota, for they are part of a gang of 6: the rest of the quota is still there for the next."""
    tenants = {A: TenantState(level=4, entitled={"H100": 4}, held={"H100": 6})}
    assert [(1, 4, NOMINAL)] == told(ranked(tenants, work(1, 4)))


def test_a_lower_level_takes_nothing_from_a_higher_one() -> None:
    """M8: of its own that runs, level 1 fills the quota for another of level 1, and not for one of level 3; that comes first."""
    running = {"H100": 4}
    tenants = {A: TenantState(level=3, entitled=running, held=running, within={1: running})}
    found = ranked(tenants, work(1, 1, level=1), work(2, 4), work(3, 1))
    assert [(2, 3, NOMINAL), (1, LOWEST, BORROWING), (3, LOWEST, BORROWING)] == told(found)


def test_the_papers_walk_heeds_no_level() -> None:
    """M8: by the paper's rule the older one takes the quota, whatever level each asks for, and all that runs counts."""
    tenants = {A: TenantState(level=3, entitled={"H100": 4}, held={"H100": 1}, within={0: {"H100": 1}})}
    waiting = [work(1, 3, level=1), work(2, 3)]
    by_paper = scan(waiting, tenants, SETTINGS, NOW, walks_by_level=False)
    assert [(1, 1, NOMINAL), (2, LOWEST, BORROWING)] == told(by_paper)
    assert [(2, 3, NOMINAL), (1, LOWEST, BORROWING)] == told(ranked(tenants, *waiting))


def test_any_of_several_types_will_do() -> None:
    """M8: the first with room in the quota; none: over quota of the first."""
    tenants = {A: TenantState(level=3, entitled={"H100": 1, "A100": 2}, borrowed_max={"A100": 1})}
    either = [
        PendingWork(WorkloadId(f"w-{one}"), A, one, NOW, ({"H100": 1}, {"A100": 1})) for one in range(1, 6)
    ]
    expected = [
        (1, 3, NOMINAL),
        (2, 3, NOMINAL),
        (3, 3, NOMINAL),
        (4, LOWEST, BORROWING),
        (5, LOWEST, BLOCKED),
    ]
    assert expected == told(ranked(tenants, *either))


def test_work_that_is_never_preempted_borrows_nothing() -> None:
    """Interactive work over quota waits."""
    one = PendingWork(WorkloadId("w-1"), A, 1, NOW, ({"H100": 1},), may_borrow=False)
    assert [(1, LOWEST, BLOCKED)] == told(ranked({A: TenantState(level=3)}, one))


def test_a_spent_budget_blocks_work_that_takes_gpus() -> None:
    """Within quota or over it; work without GPUs goes on."""
    spent = TenantState(level=3, entitled={"H100": 9}, is_spent=True)
    plain = PendingWork(WorkloadId("w-2"), A, 2, NOW, uses_gpus=False)
    assert [(2, 3, NOMINAL), (1, LOWEST, BLOCKED)] == told(ranked({A: spent}, work(1), plain))
