"""What operators set of tenants: recorded once, refused with every reason, and told with what is held."""

from typing import Any

import pytest

from core.component import Decision
from core.events.queue import StandingChanged
from core.events.tenants import BudgetSet, EntitlementSet, TenantSet
from core.fact import Event
from core.images.queue import GlobalImage
from core.messages.base import Message, Refused
from core.messages.tenants import (
    ListedTenant,
    ListTenants,
    SetBudget,
    SetEntitlement,
    SetTenant,
    TenantAnswered,
    TenantsListed,
)
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import ENTITLEMENTS_MAX, NAME_LENGTH_MAX
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL, Budget, Entitlement, TenantSettings, TypeUse
from core.nouns.workload import Kind
from tests.builders import EU_LOG, US_LOG, a_claim, a_job, a_queue, a_spec, a_spread, granted
from tests.components.support.job_queue import Start, a_job_queue, awarded, submit
from tests.components.support.machine import Machine
from tests.components.support.quota import award, ends, levels, runs, tenant, up, waits
from tests.matching import facts, said_once

ML = TenantName("ml")
WEEK = Nanoseconds(7 * 86_400 * SECOND)
HIGH = TenantSettings(5, Nanoseconds(600 * SECOND))


def revised(machine: Machine[Any], message: Message, *recorded: Event) -> int:
    """It is answered so, these are recorded, and this is the revision of the tenant now."""
    decision = machine.hear(message)
    assert [*recorded] == facts(decision)
    answer = said_once(decision, TenantAnswered)
    assert ML == answer.tenant
    assert machine.state.image.tenants.rows[ML].revision == answer.revision
    return answer.revision


def refusal(decision: Decision) -> tuple[str, list[str]]:
    """Why nothing is recorded, and the fields that are wrong."""
    assert [] == facts(decision)
    answer = said_once(decision, Refused)
    return answer.reason, [text.partition(":")[0] for text in answer.problems]


def test_interactive_work_over_a_shrunk_quota_is_told_apart(start: Start) -> None:
    """It stays until it ends: of 16 over quota 8 do. What else is over quota may be pushed out."""
    queue = a_job_queue(start)
    tenant(queue, ML, 24)
    runs(queue)
    runs(queue, node=1)
    candidates = waits(queue, kind=Kind.INTERACTIVE)
    award(queue, candidates, node=2)
    up(queue, candidates, 3, node=2)
    tenant(queue, ML, 8)
    queue.wake()
    assert 2 == list(levels(queue).values()).count(OVER_LEVEL)
    assert OVER_LEVEL == levels(queue)[candidates]
    (row,) = said_once(queue.hear(ListTenants()), TenantsListed).rows
    use = row.uses["H100"]
    assert (24_000, 16_000, 8_000) == (use.held, use.borrowed, use.stays)
    ends(queue, candidates)
    (row,) = said_once(queue.hear(ListTenants()), TenantsListed).rows
    assert 0 == row.uses["H100"].stays


def with_ml(start: Start, **known: Any) -> Machine[Any]:  # Any: as `a_job_queue` takes it
    """A queue that knows one tenant."""
    machine = a_job_queue(start, **known)
    assert 1 == revised(machine, SetTenant(ML, HIGH, 0, "olga"), TenantSet(ML, 1, HIGH, "olga"))
    return machine


def holding(start: Start, gpus: int = 12) -> Machine[Any]:
    """Its tenant has 16 H100 guaranteed and holds so many."""
    machine = with_ml(start)
    machine.hear(SetEntitlement(ML, "H100", Entitlement(16), 1))
    job = a_job(gpus, 1)
    submit(machine, a_spec(job, tenant=ML))
    awarded(machine)
    spread = a_spread({0: 8, 1: gpus - 8} if gpus > 8 else {0: gpus})
    machine.fact(EU_LOG, granted(a_claim("w-1", jobs=(job,), spreads=(spread,))))
    return machine


def listed(machine: Machine[Any], after: str = "", count_max: int = 100) -> TenantsListed:
    """What is told of tenants."""
    return said_once(machine.hear(ListTenants(TenantName(after), count_max)), TenantsListed)


def test_settings_are_recorded_with_their_revision_and_requester(start: Start) -> None:
    """Level, entitlement and budget of one tenant have one revision."""
    machine = with_ml(start)
    wish = Entitlement(64, 16, is_lent=False)
    event: Event = EntitlementSet(ML, 2, "H100", wish, "olga")
    assert 2 == revised(machine, SetEntitlement(ML, "H100", wish, 1, "olga"), event)
    event = BudgetSet(ML, 3, Budget(1_000, WEEK), "olga")
    assert 3 == revised(machine, SetBudget(ML, Budget(1_000, WEEK), 2, "olga"), event)
    row = machine.state.image.tenants.rows[ML]
    assert (HIGH, {"H100": wish}, Budget(1_000, WEEK)) == (row.settings, row.entitlements, row.budget)
    assert 4 == revised(machine, SetBudget(ML, None, 3), BudgetSet(ML, 4, None))
    assert row.budget is None


def test_repeat_finds_its_settings(start: Start) -> None:
    """The bus repeats messages; a request for settings that are so already changes nothing either."""
    machine = with_ml(start)
    assert 1 == revised(machine, SetTenant(ML, HIGH, 0)) == revised(machine, SetTenant(ML, HIGH, 1))
    machine.hear(SetEntitlement(ML, "H100", Entitlement(8), 1))
    assert 2 == revised(machine, SetEntitlement(ML, "H100", Entitlement(8), 1))
    machine.hear(SetBudget(ML, Budget(5, WEEK), 2))
    assert 3 == revised(machine, SetBudget(ML, Budget(5, WEEK), 2))


def test_nothing_guaranteed_can_be_said_of_a_type(start: Start) -> None:
    """It is what holds anyway, and from then on it is told."""
    machine = with_ml(start)
    revised(machine, SetEntitlement(ML, "H100", Entitlement(), 1), EntitlementSet(ML, 2, "H100"))
    assert ["H100"] == list(listed(machine).rows[0].uses)


def test_request_with_an_older_revision_is_refused(start: Start) -> None:
    """Any change of the tenant counts."""
    machine = with_ml(start)
    machine.hear(SetEntitlement(ML, "H100", Entitlement(8), 1))
    for revision in (0, 1, 3):
        for message in (
            SetTenant(ML, TenantSettings(1), revision),
            SetEntitlement(ML, "H100", Entitlement(9), revision),
            SetBudget(ML, Budget(5, WEEK), revision),
        ):
            assert (Reason.SUPERSEDED, ["revision"]) == refusal(machine.hear(message))


def test_unknown_tenant_is_told_with_everything_else(start: Start) -> None:
    """Only its level makes it one."""
    machine = a_job_queue(start)
    unknown = Reason.UNKNOWN_TENANT
    assert (unknown, ["tenant"]) == refusal(machine.hear(SetEntitlement(ML, "H100", Entitlement(1), 0)))
    wrong = SetEntitlement(ML, "any", Entitlement(-1), 0, "x" * (NAME_LENGTH_MAX + 1))
    assert (unknown, ["tenant", "gpu_type", "gpus", "by"]) == refusal(machine.hear(wrong))
    zero = SetBudget(ML, Budget(0, WEEK), 0)
    assert (unknown, ["tenant", "budget.gpu_hours"]) == refusal(machine.hear(zero))


def test_bad_input_is_told_all_at_once(start: Start) -> None:
    """A level that there is not, a name that cannot be, a budget of zero."""
    machine = with_ml(start)
    by = "x" * (NAME_LENGTH_MAX + 1)
    bad = SetTenant(TenantName("a.b"), TenantSettings(7, Nanoseconds(-1)), 0, by)
    assert (Reason.INVALID, ["tenant", "level", "run_min", "by"]) == refusal(machine.hear(bad))
    zero = SetBudget(ML, Budget(0, Nanoseconds(0)), 1, by)
    wrong = ["budget.gpu_hours", "budget.period", "by"]
    assert (Reason.INVALID, wrong) == refusal(machine.hear(zero))
    assert (Reason.INVALID, ["by"]) == refusal(machine.hear(SetBudget(ML, None, 1, by)))


def test_type_that_there_is_not_needs_force(start: Start) -> None:
    """It may be a slip, or come tomorrow; what all regions have is known."""
    machine = with_ml(start)
    wish = SetEntitlement(ML, "H1000", Entitlement(8), 1)
    assert (Reason.NO_SUCH_HARDWARE, ["gpu_type"]) == refusal(machine.hear(wish))
    forced = EntitlementSet(ML, 2, "H1000", Entitlement(8), "olga", is_forced=True)
    revised(machine, SetEntitlement(ML, "H1000", Entitlement(8), 1, "olga", is_forced=True), forced)


def test_region_that_is_not_known_speaks_against_no_type(start: Start) -> None:
    """It may have it."""
    machine = with_ml(start, unknown=(US_LOG,))
    wish = SetEntitlement(ML, "B200", Entitlement(8), 1)
    assert 2 == revised(machine, wish, EntitlementSet(ML, 2, "B200", Entitlement(8)))


def test_types_of_one_tenant_have_an_end(start: Start) -> None:
    """Also by force; one that it has can still be set."""
    machine = with_ml(start)
    for number in range(ENTITLEMENTS_MAX):
        machine.hear(SetEntitlement(ML, f"G{number}", Entitlement(8), number + 1, is_forced=True))
    many = ENTITLEMENTS_MAX + 1
    one_more = SetEntitlement(ML, "H100", Entitlement(8), many, is_forced=True)
    assert (Reason.INVALID, ["gpu_type"]) == refusal(machine.hear(one_more))
    known = SetEntitlement(ML, "G0", Entitlement(9), many, is_forced=True)
    assert many + 1 == said_once(machine.hear(known), TenantAnswered).revision


def test_tenants_have_an_end(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that there is can still be set."""
    machine = with_ml(start)
    monkeypatch.setattr("components.job_queue.requests.tenants.TENANTS_MAX", 2)
    made = machine.hear(SetTenant(TenantName("last"), HIGH, 0))
    assert 1 == said_once(made, TenantAnswered).revision
    assert (Reason.INVALID, ["tenant"]) == refusal(machine.hear(SetTenant(TenantName("more"), HIGH, 0)))
    assert (
        2
        == said_once(
            machine.hear(SetTenant(TenantName("last"), TenantSettings(), 1)), TenantAnswered
        ).revision
    )


def test_quota_below_the_held_gpus_needs_force(start: Start) -> None:
    """The answer has how many those are; nothing that runs is stopped by it, but before it is so what runs is over quota."""
    machine = holding(start)
    decision = machine.hear(SetEntitlement(ML, "H100", Entitlement(11), 2))
    assert (Reason.BELOW_HELD, ["gpus"]) == refusal(decision)
    assert ("gpus: ml holds 12 of H100",) == said_once(decision, Refused).problems
    wrong = SetEntitlement(ML, "H100", Entitlement(11, -2), 2)
    assert (Reason.INVALID, ["borrow_max", "gpus"]) == refusal(machine.hear(wrong))
    event: Event = EntitlementSet(ML, 3, "H100", Entitlement(12))
    revised(machine, SetEntitlement(ML, "H100", Entitlement(12), 2), event)
    over = StandingChanged(WorkloadId("w-1"), 1, 1, ML, OVER_LEVEL, {"H100": 12_000})
    event = EntitlementSet(ML, 4, "H100", Entitlement(0, 0), is_forced=True)
    revised(machine, SetEntitlement(ML, "H100", Entitlement(0, 0), 3, is_forced=True), over, event)


def test_list_tells_held_and_borrowed_gpus(start: Start) -> None:
    """Of tenants that are entitled to something, that only have work, and that have nothing, by name."""
    machine = holding(start, 20)
    for name in ("art", "default"):
        machine.hear(SetTenant(TenantName(name), TenantSettings(), 0))
    submit(machine, a_spec())
    machine.fact(EU_LOG, granted(a_claim("w-2")))
    art, default, ml = listed(machine).rows
    assert ListedTenant(TenantName("art"), TenantSettings(), 1, None, {}) == art
    use = TypeUse(Entitlement(), 1_000, 1_000, 0)
    assert ListedTenant(TenantName("default"), TenantSettings(), 1, None, {"H100": use}, pending=1) == default
    use = TypeUse(Entitlement(16), 20_000, 4_000, 0)
    assert ListedTenant(ML, HIGH, 2, None, {"H100": use}, share_entitled_permille=1_000, placed=1) == ml


def test_list_comes_in_pages(start: Start) -> None:
    """Each goes on where the one before ended, and the last says so."""
    machine = with_ml(start)
    for name in ("a", "b"):
        machine.hear(SetTenant(TenantName(name), HIGH, 0))
    pages: list[list[str]] = []
    after = ""
    while not pages or after:
        page = listed(machine, after, 2)
        pages.append([row.tenant for row in page.rows])
        after = page.next
    assert [["a", "b"], ["ml"]] == pages


def test_section_is_folded_from_its_facts_alone() -> None:
    """Each replaces what it says and nothing else."""
    image: GlobalImage = a_queue(
        TenantSet(ML, 1, HIGH, "olga"),
        EntitlementSet(ML, 2, "H100", Entitlement(8)),
        EntitlementSet(ML, 3, "A100", Entitlement(4)),
        TenantSet(ML, 4, TenantSettings(1)),
        EntitlementSet(ML, 5, "H100", Entitlement(9)),
        BudgetSet(ML, 6, Budget(5, WEEK)),
    )
    row = image.tenants.rows[ML]
    assert (TenantSettings(1), 6, Budget(5, WEEK)) == (row.settings, row.revision, row.budget)
    assert {"H100": Entitlement(9), "A100": Entitlement(4)} == row.entitlements
    assert (6, 0) == (image.tenants.revision_of(ML), image.tenants.revision_of(TenantName("art")))
