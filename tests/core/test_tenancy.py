"""Whether a tenant may be set so; what each holds, has borrowed and has lent."""

import pytest
from msgspec.structs import replace

from core.events.queue import WorkloadSubmitted
from core.events.region import AttemptEnded, ClaimGranted, GangStarted
from core.fact import Event
from core.images import GlobalImage, RegionImage, empty_image
from core.images.tenants import TenantRow, Tenants
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.limits import (
    BUDGET_GPU_HOURS_MAX,
    BUDGET_PERIOD_MAX,
    BUDGET_PERIOD_MIN,
    ENTITLED_GPUS_MAX,
    NAME_LENGTH_MAX,
    TENANT_RUN_MIN_MAX,
)
from core.nouns.pool import shared_name
from core.nouns.tenant import Budget, Entitlement, TenantSettings, TypeUse
from core.nouns.workload import EndCause, JobSpec, Kind
from core.rules.tenancy import (
    Held,
    gpus_by_type,
    held_by_tenant,
    is_below_held,
    problems_of_budget,
    problems_of_entitlement,
    problems_of_name,
    problems_of_settings,
    uses_by_tenant,
)
from tests.builders import (
    EU_LOG,
    a_claim,
    a_job,
    a_queue,
    a_spec,
    a_spread,
    attempt,
    folded,
    granted,
    joined,
    of_types,
    promised,
)

A, B, C = TenantName("a"), TenantName("b"), TenantName("c")
HOUR = 3_600 * SECOND


def fields(problems: list[str]) -> list[str]:
    """Which fields are wrong."""
    return [text.partition(":")[0] for text in problems]


def asked(number: int, tenant: TenantName, *jobs: JobSpec) -> WorkloadSubmitted:
    """A tenant's workload."""
    return WorkloadSubmitted(WorkloadId(f"w-{number}"), number, replace(a_spec(*jobs), tenant=tenant), "ada")


def a_region(*events: Event) -> RegionImage:
    """Four nodes of 8 H100 and two of 8 A100, and then this."""
    image = empty_image(EU_LOG)
    assert isinstance(image, RegionImage)
    # Those with the higher numbers come first.
    first = (joined("w1", 4, 2, gpu_type="A100"), joined())
    return folded(image, (*first, *events))


def grant(number: int, *jobs: JobSpec, nodes: tuple[dict[int, int], ...]) -> ClaimGranted:
    """These jobs lie so."""
    spreads = tuple(a_spread(placed) for placed in nodes)
    return granted(a_claim(f"w-{number}", jobs=jobs, spreads=spreads))


def held(queue: GlobalImage, *regions: RegionImage) -> Held:
    """By whom what is held."""
    return held_by_tenant(queue.workloads.rows, regions)


@pytest.mark.parametrize("level", [0, 6])
@pytest.mark.parametrize("run_min", [0, TENANT_RUN_MIN_MAX])
def test_settings_within_bounds_are_right(level: int, run_min: int) -> None:
    """The bounds belong to what may be."""
    assert [] == problems_of_settings(TenantSettings(level, Nanoseconds(run_min)))


@pytest.mark.parametrize("level", [-1, 7])
@pytest.mark.parametrize("run_min", [-1, TENANT_RUN_MIN_MAX + 1])
def test_every_wrong_setting_is_told(level: int, run_min: int) -> None:
    """There are seven levels, as a workload has them; all is told at once."""
    assert ["level", "run_min"] == fields(problems_of_settings(TenantSettings(level, Nanoseconds(run_min))))


def test_name_follows_the_rules_of_a_subject() -> None:
    """It can be part of a subject, and it has an end."""
    assert [] == problems_of_name(TenantName("ml_2-b")) == problems_of_name(TenantName("x" * NAME_LENGTH_MAX))
    for name in ("", "a.b", "a b", "ä", "x" * (NAME_LENGTH_MAX + 1)):
        assert ["tenant"] == fields(problems_of_name(TenantName(name)))


@pytest.mark.parametrize("gpus", [0, ENTITLED_GPUS_MAX])
@pytest.mark.parametrize("borrow_max", [-1, 0, ENTITLED_GPUS_MAX])
def test_entitlements_within_bounds_are_right(gpus: int, borrow_max: int) -> None:
    """Nothing guaranteed is an entitlement too, and so is unlimited borrowing."""
    assert [] == problems_of_entitlement("H100", Entitlement(gpus, borrow_max))


@pytest.mark.parametrize("gpus", [-1, ENTITLED_GPUS_MAX + 1])
@pytest.mark.parametrize("borrow_max", [-2, ENTITLED_GPUS_MAX + 1])
@pytest.mark.parametrize("gpu_type", ["", "any", "H 100", ".H100", "H" * (NAME_LENGTH_MAX + 1)])
def test_everything_wrong_with_an_entitlement_is_told(gpus: int, borrow_max: int, gpu_type: str) -> None:
    """All at once, each with its field."""
    wrong = problems_of_entitlement(gpu_type, Entitlement(gpus, borrow_max))
    assert ["gpu_type", "gpus", "borrow_max"] == fields(wrong)


def test_budget_of_zero_has_an_answer_of_its_own() -> None:
    """Nothing could ever run: no budget at all is something else."""
    (problem,) = problems_of_budget(Budget(0, Nanoseconds(HOUR)))
    assert "budget.gpu_hours: with none nothing could run; name 1 at least, or no budget" == problem


def test_budget_has_bounds() -> None:
    """Hours and period, both told at once."""
    for hours, period in ((1, BUDGET_PERIOD_MIN), (BUDGET_GPU_HOURS_MAX, BUDGET_PERIOD_MAX)):
        assert [] == problems_of_budget(Budget(hours, period))
    wrong = ["budget.gpu_hours", "budget.period"]
    for hours, period in (
        (-1, Nanoseconds(BUDGET_PERIOD_MIN - 1)),
        (BUDGET_GPU_HOURS_MAX + 1, Nanoseconds(BUDGET_PERIOD_MAX + 1)),
    ):
        assert wrong == fields(problems_of_budget(Budget(hours, period)))


@pytest.mark.parametrize(
    ("was", "wanted", "is_below"),
    [
        (Entitlement(16), Entitlement(12), False),
        (Entitlement(16), Entitlement(11), True),  # its guarantee
        (Entitlement(8), Entitlement(10), False),  # more than before, though less than it holds
        (Entitlement(8), Entitlement(8, 4), False),  # leave to hold just that
        (Entitlement(8), Entitlement(8, 3), True),  # leave to hold it
        (Entitlement(8, 1), Entitlement(8, 2), False),
        (Entitlement(8, 3), Entitlement(8, 2), True),
        (Entitlement(8, 1), Entitlement(8), False),
    ],
)
def test_change_below_the_held_gpus_takes_from_them(
    was: Entitlement, wanted: Entitlement, *, is_below: bool
) -> None:
    """Of a tenant that holds 12: a change for the better never takes anything, however little it gives."""
    assert is_below == is_below_held(was, wanted, 12_000)


def test_held_gpus_are_those_of_granted_attempts_that_have_not_ended() -> None:
    """By tenant and type, of all regions; a promise holds nothing, and neither does a waiting workload."""
    two, eight = a_job(2, 4), a_job(1, 8)
    queue = a_queue(*(asked(number, tenant, two) for number, tenant in enumerate((A, A, B, B, C), 1)))
    here = a_region(
        grant(1, two, nodes=({0: 2},)),
        grant(2, two, nodes=({1: 1, 2: 1},)),
        GangStarted(*attempt("w-2")),
        grant(3, two, nodes=({3: 2},)),
        AttemptEnded(*attempt("w-3"), EndCause.COMPLETED),
        promised(a_claim("w-4", jobs=(two,), spreads=(a_spread({0: 2}),), victims=(attempt("w-1"),))),
    )
    assert {A: {"H100": 16_000}} == held(queue, here)
    there = a_region(grant(5, eight, nodes=({0: 1},)))
    queue = a_queue(asked(1, A, two), asked(2, A, two), asked(5, C, eight))
    assert {A: {"H100": 16_000}, C: {"H100": 8_000}} == held(queue, here, there)
    assert {"H100": 64_000, "A100": 32_000} == gpus_by_type([here, there])


def test_held_is_of_the_type_that_work_runs_on() -> None:
    """Not of the one that it named first; in milli, and nothing of jobs without GPUs."""
    either, some, none = of_types(a_job(2, 4), "H100", "A100"), a_job(3, 0.25), a_job(2, 0, cpus=1)
    whichever = replace(a_job(1, 1), gpu_type="any")
    queue = a_queue(
        asked(1, A, either, replace(some, name="b"), replace(none, name="c")), asked(2, B, whichever)
    )
    here = a_region(
        grant(1, either, replace(some, name="b"), replace(none, name="c"), nodes=({5: 2}, {0: 3}, {1: 2})),
        grant(2, whichever, nodes=({4: 1},)),
    )
    assert {A: {"A100": 8_000, "H100": 750}, B: {"A100": 1_000}} == held(queue, here)


def test_nodes_are_found_by_type_in_whatever_order_they_joined() -> None:
    """The runs are kept in the order of their numbers."""
    hardware = a_region().hardware
    assert ["H100"] * 4 + ["A100"] * 2 == [hardware.type_of(node) for node in range(6)]
    with pytest.raises(AssertionError):
        hardware.type_of(6)


def of(**rows: Entitlement) -> Tenants:
    """Tenants that are entitled to so many H100."""
    return Tenants({TenantName(name): TenantRow(entitlements={"H100": one}) for name, one in rows.items()})


def figures(tenants: Tenants, gpus: int, **holds: int) -> dict[str, tuple[int, int]]:
    """GPUs borrowed and lent by tenants that hold so many H100, of so many in the fleet."""
    now: Held = {TenantName(name): {"H100": 1000 * count} for name, count in holds.items() if count}
    uses = uses_by_tenant(tenants, now, {"H100": 1000 * gpus})
    for name, use in uses.items():
        for one in use.values():
            assert now.get(name, {}).get("H100", 0) == one.held
    return {
        name: (use["H100"].borrowed // 1000, use["H100"].lent // 1000)
        for name, use in uses.items()
        if "H100" in use
    }


def test_borrowed_gpus_are_those_beyond_the_guarantee() -> None:
    """Also of a tenant without settings: to it nothing is guaranteed."""
    tenants = of(a=Entitlement(16), b=Entitlement(8))
    assert {"a": (0, 0), "b": (2, 0), "c": (4, 0)} == figures(tenants, 100, a=16, b=10, c=4)


def test_lent_gpus_are_those_borrowed_beyond_unguaranteed_capacity() -> None:
    """Capacity that is guaranteed to no tenant is borrowed first; then idle guarantees, in proportion, of the tenants that lend."""
    tenants = of(a=Entitlement(30), b=Entitlement(10), d=Entitlement(10, is_lent=False))
    assert {"a": (0, 0), "b": (0, 0), "c": (10, 0), "d": (0, 0)} == figures(tenants, 60, c=10)
    assert {"a": (0, 6), "b": (0, 2), "c": (18, 0), "d": (0, 0)} == figures(tenants, 60, c=18)
    assert {"a": (0, 2), "b": (0, 2), "c": (4, 0), "d": (0, 0)} == figures(tenants, 50, a=20, c=4)
    # More is guaranteed than there is, and more borrowed than is idle: nobody lends more than it does not use.
    assert {"a": (0, 3), "b": (0, 4), "c": (20, 0), "d": (0, 0)} == figures(tenants, 30, a=27, b=6, c=20)


def test_lent_sums_up_exactly_in_whole_gpus() -> None:
    """What rounding leaves is somebody's; nobody lends a third of a GPU because three have one idle."""
    tenants = of(a=Entitlement(1), b=Entitlement(1), c=Entitlement(1))
    uses = uses_by_tenant(tenants, {TenantName("d"): {"H100": 1_000}}, {"H100": 3_000})
    assert [1_000, 0, 0, 0] == [use["H100"].lent for use in uses.values()]
    uses = uses_by_tenant(tenants, {TenantName("d"): {"H100": 1_500}}, {"H100": 3_000})
    assert [1_000, 500, 0, 0] == [use["H100"].lent for use in uses.values()]


def test_uses_are_of_types_that_matter_to_a_tenant() -> None:
    """Those that it is entitled to and those that it holds, by name; a tenant with neither is there all the same."""
    tenants = of(a=Entitlement(4))
    tenants.rows[TenantName("b")] = TenantRow()
    uses = uses_by_tenant(tenants, {A: {"A100": 500}}, {})
    assert ["A100", "H100"] == list(uses[A])
    assert TypeUse(Entitlement(), 500, 500, 0) == uses[A]["A100"]
    assert {} == uses[TenantName("b")]


def test_nothing_is_borrowed_of_a_shared_pool() -> None:
    """Its GPUs are under no quota: a tenant holds them, and they are lent by nobody."""
    tenants = of(a=Entitlement(4))
    uses = uses_by_tenant(tenants, {TenantName("b"): {shared_name("H100"): 2_000}}, {"H100": 4_000})
    assert TypeUse(Entitlement(), 2_000, 0, 0) == uses[TenantName("b")][shared_name("H100")]
    assert 0 == uses[A]["H100"].lent


def test_half_a_gpu_is_held_where_two_jobs_may_share_it() -> None:
    """In a shared pool, of a job of one GPU, alone or not: as it is charged."""
    one, wide = (replace(a_spec(a_job(1, gpus)), tenant=A, kind=Kind.SHARED) for gpus in (1, 2))
    queue = a_queue(
        *(WorkloadSubmitted(WorkloadId(f"w-{n}"), n, spec, "ada") for n, spec in enumerate((one, wide), 1))
    )
    jobs = (one.jobs, wide.jobs)
    region = a_region(*(grant(n, *mine, nodes=({n: 1},)) for n, mine in enumerate(jobs, 1)))
    amounts = [
        held_by_tenant(queue.workloads.rows, (region,), has_pairs=has_pairs)[A] for has_pairs in (False, True)
    ]
    assert [{"shared/H100": 3_000}, {"shared/H100": 2_500}] == amounts
