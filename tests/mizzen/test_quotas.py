"""What operators set of tenants: read from options, asked of a real queue, and listed as it stands."""

from typing import Any

import pytest

from core.events.tenants import BudgetSet, DeadlineBudgetSet, EntitlementSet, TenantSet
from core.messages.tenants import ListedTenant, SetTenant
from core.nouns.ids import GLOBAL_LOG, TenantName
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.tenant import Budget, Entitlement, TenantSettings, TypeUse
from mizzen.actions.quotas import (
    DeadlineWish,
    Wish,
    deadline_budget_of,
    set_deadline_budget,
    set_quota,
    tenant_listed,
    tenants_listed,
    tenants_of,
    wish_of,
)
from mizzen.connect.plane import RequestRefused, submitter
from mizzen.terminal.output import MISUSED, CommandError
from mizzen.views.fleet.tenant_table import behind_text, ceilings_of, deadlines_of, quota_of, table_of
from tests.mizzen.half_plane import awarded, half_plane
from tests.mizzen.nodes_scene import gang, nodes
from tests.runtime.aids import Place, virtual

ML = TenantName("ml")
HOUR = 3_600 * SECOND
WEEK = Nanoseconds(168 * HOUR)


def wish(*gpus: str, **options: Any) -> Wish:  # Any: texts, and whether it is forced
    """As typed."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("borrow", "lend", "level", "run_min", "pending_max", "budget"), ""
    )  # Any: as above
    return wish_of(gpus, **{**nothing, "is_forced": False, **options})


def test_options_are_read() -> None:
    """Each says what it says, and nothing of the others."""
    assert Wish((("H100", 64), ("A100", 0))) == wish("H100=64", "A100=0")
    assert Wish((("H100", 64),), 16, is_lent=False) == wish("H100=64", borrow="16", lend="no")
    assert Wish((("H100", 1),), -1, is_lent=True) == wish("H100=1", borrow="all", lend="yes")
    assert Wish(level=4, run_min=Nanoseconds(HOUR // 2)) == wish(level="4", run_min="30m")
    assert Wish(pending_max=0) == wish(pending_max="0")
    assert Wish(budget=Budget(10_000, WEEK)) == wish(budget="10000/7d")
    assert Wish(has_no_budget=True, is_forced=True) == wish(budget="none", is_forced=True)


@pytest.mark.parametrize(
    ("gpus", "options"),
    [
        (("H100",), {}),
        (("=4",), {}),
        (("H100=-1",), {}),
        (("H100=1", "H100=2"), {}),
        (("H100=1",), {"borrow": "some"}),
        (("H100=1",), {"lend": "maybe"}),
        ((), {"level": "high"}),
        ((), {"level": "4", "borrow": "3"}),
        ((), {"run_min": "soon"}),
        ((), {"pending_max": "many"}),
        ((), {"budget": "1000"}),
        ((), {"budget": "many/7d"}),
        ((), {"budget": "1000/week"}),
        ((), {}),
    ],
)
def test_invalid_quotas_are_told(gpus: tuple[str, ...], options: dict[str, str]) -> None:
    """In one sentence, before any request is sent."""
    with pytest.raises(CommandError) as wrong:
        wish(*gpus, **options)
    assert (MISUSED, 0) == (wrong.value.exit_code, len(wrong.value.problems))


def test_all_that_is_wrong_is_told_at_once() -> None:
    """A line for each."""
    with pytest.raises(CommandError, match="5 things are wrong") as wrong:
        wish("H100", borrow="x", lend="x", level="x", budget="x")
    assert 5 == len(wrong.value.problems)


@virtual
async def test_tenant_is_made_and_set(place: Place) -> None:
    """Each thing is a fact; what is not said stays as it is, whoever said it."""
    plane = await half_plane(place, (nodes("w0", 0),), TenantSet(TenantName("art"), 1))
    everything = wish("H100=8", borrow="4", lend="no", level="4", run_min="1h", budget="100/1h")
    row = await set_quota(plane.bus, ML, everything)
    by = submitter()
    settings = TenantSettings(4, Nanoseconds(HOUR))
    assert [TenantSet(TenantName("art"), 1), TenantSet(ML, 1, settings, by)] == await plane.events(
        GLOBAL_LOG, TenantSet
    )
    entitled = EntitlementSet(ML, 2, "H100", Entitlement(8, 4, is_lent=False), by)
    assert [entitled] == await plane.events(GLOBAL_LOG, EntitlementSet)
    assert [BudgetSet(ML, 3, Budget(100, Nanoseconds(HOUR)), by)] == await plane.events(GLOBAL_LOG, BudgetSet)
    assert (3, settings) == (row.revision, row.settings)
    row = await set_quota(plane.bus, ML, wish("H100=9", level="2", budget="none"))
    assert (TenantSettings(2, Nanoseconds(HOUR)), None) == (row.settings, row.budget)
    assert Entitlement(9, 4, is_lent=False) == row.uses["H100"].entitlement
    row = await set_quota(plane.bus, ML, wish("H100=9", borrow="all"))
    assert Entitlement(9, is_lent=False) == row.uses["H100"].entitlement
    row = await set_quota(plane.bus, ML, wish(pending_max="50"))
    assert TenantSettings(2, Nanoseconds(HOUR), 50) == row.settings


@virtual
async def test_refusals_are_told_with_the_settings_that_are_set(place: Place) -> None:
    """One alone in its own sentence; of several each, and the settings that were not refused are set."""
    plane = await half_plane(place, (nodes("w0", 0),))
    with pytest.raises(RequestRefused, match="nobody made ml"):
        await set_quota(plane.bus, ML, wish("H100=8"))
    with pytest.raises(CommandError, match="nothing of ml is set") as wrong:
        await set_quota(plane.bus, ML, wish("H100=8", level="7", budget="0/1h"))
    assert ["level", "H100", "budget"] == [text.partition(":")[0] for text in wrong.value.problems]
    assert [("default", 0, 1)] == [
        (row.tenant, row.revision, row.pending) for row in await tenants_of(plane.bus)
    ]
    with pytest.raises(CommandError, match="only level, H100 of ml is set") as wrong:
        await set_quota(plane.bus, ML, wish("H100=8", "H1000=8", level="4"))
    assert ["H1000"] == [text.partition(":")[0] for text in wrong.value.problems]
    row = await set_quota(plane.bus, ML, wish("H1000=8", is_forced=True))
    assert ["H100", "H1000"] == list(row.uses)


@virtual
async def test_tenants_are_listed(place: Place) -> None:
    """One line for each, all types together; and one for each type. Of 32 GPUs 2 are guaranteed to nobody."""
    plane = await half_plane(place, (nodes("w0", 0), *gang("w-1", {0: 8})), *awarded())
    await set_quota(plane.bus, ML, wish("H100=30", level="4", run_min="30m", budget="10000/7d"))
    listed = await tenants_listed(plane.bus)
    rows = listed.rows
    assert ["0 of at most 200000 workloads are pending; 0 of at most 1000000 ended ones are remembered"] == (
        ceilings_of(listed)
    )
    tables = [" ".join(line.split()) for line in (*table_of(rows, None), *quota_of(rows, None))]
    assert tables == [
        "TENANT LEVEL GPUS HELD BORROWED LENT PLACED PENDING BEHIND MIN_RUN BUDGET",
        "default - 0 8 8 0 1 0/100000 - - -",
        "ml 4 30 0 0 6 0 0/100000 - 30m 10000/7d",
        "TENANT TYPE GPUS BORROWS LENDS HELD BORROWED LENT USED SHARE HOURS LEFT RENEWS",
        "default H100 0 all yes 8 8 0 0% 0% 0h - -",
        "ml H100 30 all yes 0 0 6 0% 100% 0h 10000h 6d23h",
    ]


def test_gpus_of_a_shared_pool_are_under_no_quota() -> None:
    """A tenant holds them, and neither borrows nor lends them."""
    use = TypeUse(Entitlement(), 2_000, 0, 0)
    row = ListedTenant(ML, TenantSettings(), 0, None, {"shared/V100": use})
    assert ["ml", "shared/V100", "-", "-", "-", "2", "-", "-", "0%", "0%", "0h", "-", "-"] == quota_of(
        [row], None
    )[1].split()


def test_behind_is_told_in_time() -> None:
    """A minus is for who had more than was due."""
    assert ["-", "2h5m", "-12m", "-"] == [behind_text(round(lag * SECOND)) for lag in (0, 7_500, -750, 0.5)]


@virtual
async def test_tenants_of_many_pages_are_all_listed(place: Place) -> None:
    """One answer holds five hundred."""
    made = [TenantSet(TenantName(f"t{number:03}"), 1) for number in range(501)]
    plane = await half_plane(place, (), *made)
    listed = [row.tenant for row in await tenants_of(plane.bus)]
    assert ["default", *(event.tenant for event in made)] == listed


class Quicker:
    """A bus on which somebody else sets the tenant's level just before the request is said, the first time."""

    def __init__(self, bus: Any) -> None:  # Any: a bus that is only asked
        self._bus = bus
        self.is_quicker = True

    async def ask(self, message: Any, timeout: Nanoseconds) -> Any:  # Any: as the bus does
        """As the bus does."""
        if isinstance(message, SetTenant) and self.is_quicker:
            self.is_quicker = False
            await self._bus.ask(
                SetTenant(ML, TenantSettings(1, Nanoseconds(HOUR)), message.revision), timeout
            )
        return await self._bus.ask(message, timeout)


@virtual
async def test_tenant_is_set_again_after_another_operators_change(place: Place) -> None:
    """On the settings of the other operator."""
    plane = await half_plane(place)
    quicker: Any = Quicker(plane.bus)  # Any: a bus that can only be asked
    row = await set_quota(quicker, ML, wish(level="5"))
    assert (TenantSettings(5, Nanoseconds(HOUR)), 2) == (row.settings, row.revision)


# Work under deadlines.


def test_budget_of_work_under_deadlines_is_read() -> None:
    """GPU-hours and a period, or none; without options nothing is set."""
    assert deadline_budget_of("", "") is None
    assert DeadlineWish(None) == deadline_budget_of("none", "")
    assert DeadlineWish(Budget(500, WEEK)) == deadline_budget_of("500", "7d")
    assert DeadlineWish(Budget(0, WEEK)) == deadline_budget_of("0", "7d")


@pytest.mark.parametrize(
    ("gpu_hours", "period", "told"),
    [
        ("many", "7d", "--gpu-hours: many is no whole number; write --gpu-hours 500, or none"),
        ("1.5", "7d", "--gpu-hours: 1.5 is no whole number"),
        ("-1", "7d", "--gpu-hours: -1 is no whole number"),
        ("", "7d", "--gpu-hours: say how many in a period, as in --gpu-hours 500"),
        ("500", "", "--period: say for how long that is, as in --period 7d"),
        ("500", "soon", "--period: soon is no span"),
        ("none", "7d", "--period: without a limit there is no period; write --gpu-hours none alone"),
    ],
)
def test_invalid_budget_of_work_under_deadlines_is_told(gpu_hours: str, period: str, told: str) -> None:
    """In one sentence that names the option, before any request is sent."""
    with pytest.raises(CommandError) as wrong:
        deadline_budget_of(gpu_hours, period)
    assert str(wrong.value).startswith(told)
    assert (MISUSED, 0) == (wrong.value.exit_code, len(wrong.value.problems))


def test_all_that_is_wrong_with_a_budget_is_told_at_once() -> None:
    """A line for each option."""
    for gpu_hours, period in (("many", "soon"), ("", "soon"), ("none", "soon"), ("many", "")):
        with pytest.raises(CommandError, match="2 things are wrong; nothing was asked for") as wrong:
            deadline_budget_of(gpu_hours, period)
        assert {"--gpu-hours", "--period"} >= {text.partition(":")[0] for text in wrong.value.problems}
        assert 2 == len(wrong.value.problems)


@virtual
async def test_budget_of_work_under_deadlines_is_set(place: Place) -> None:
    """As a fact with the operator's name; told with what is used of it, and taken away again."""
    plane = await half_plane(place)
    five = DeadlineWish(Budget(5, WEEK))
    with pytest.raises(RequestRefused, match="nobody made ml"):
        await set_deadline_budget(plane.bus, ML, five)
    with pytest.raises(CommandError, match="there is no tenant ml; `mizzen tenants` lists them"):
        await tenant_listed(plane.bus, ML)
    await set_quota(plane.bus, ML, wish(level="4"))
    assert ["ml: as much work under deadlines as it likes"] == deadlines_of(
        [await tenant_listed(plane.bus, ML)]
    )
    row = await set_deadline_budget(plane.bus, ML, five)
    assert (Budget(5, WEEK), 2) == (row.deadlines, row.revision)
    assert row.revision == (await set_deadline_budget(plane.bus, ML, five)).revision, (
        "the same is no new fact"
    )
    assert [
        "ml: 0h of 5 predicted GPU-hours under deadlines in 7d; the next period begins in 6d23h"
    ] == deadlines_of([await tenant_listed(plane.bus, ML)])
    with pytest.raises(RequestRefused, match="period: it is not between 1 and 8784 hours"):
        await set_deadline_budget(plane.bus, ML, DeadlineWish(Budget(5, Nanoseconds(SECOND))))
    row = await set_deadline_budget(plane.bus, ML, DeadlineWish(None))
    assert (None, 3) == (row.deadlines, row.revision)
    by = submitter()
    assert [
        DeadlineBudgetSet(ML, 2, Budget(5, WEEK), by), DeadlineBudgetSet(ML, 3, None, by)
    ] == await plane.events(GLOBAL_LOG, DeadlineBudgetSet)  # fmt: skip
