"""Tenants of a scenario: read from its file, set by operators at the start and in the middle, and what a run tells of each."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

import pytest
import structlog
from msgspec.structs import replace

from core.events.data import DatasetSet
from core.events.queue import WorkloadAwarded, WorkloadSubmitted
from core.events.region import AttemptEnded, AttemptRanked, GangStarted, StopOrdered
from core.events.tenants import BudgetSet, EntitlementSet, RankingSet, TenantSet
from core.fact import Event, Fact
from core.images import GlobalImage
from core.nouns.ids import GLOBAL_LOG, DatasetName, TenantName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.placement import Claim
from core.nouns.tenant import OVER_LEVEL, Budget, Entitlement, TenantSettings
from core.nouns.workload import Emulation, EndCause, JobSpec, WorkloadSpec
from runtime.virtual_loop import VirtualLoop
from scenarios.accounting.quotas import Quotas, Wait, waiting_for_room
from scenarios.accounting.witness import Witness
from scenarios.checks.over_quota_leaves import RECLAIM_SECONDS, OverQuotaLeaves
from scenarios.play.operators import Operators
from scenarios.play.run import Run
from scenarios.scenario import ScenarioError, parse_scenario, scenario_written
from scenarios.workloads.steady import Steady
from scenarios.worlds.simulated.world import START as BEGIN
from scenarios.worlds.simulated.world import SimulatedWorld
from tests.builders import (
    EU,
    EU_LOG,
    START,
    US,
    a_claim,
    a_fact,
    a_job,
    a_queue,
    a_region,
    a_spec,
    a_spread,
    attempt,
    folded,
    granted,
    joined,
    promised,
    submitted,
)

THREE = """\
name: three
survives: Three tenants on two nodes.
fleet: {regions: 1, nodes: 2, workers: 1}
tenants:
  ours: {level: 5, run_min_seconds: 30, entitled: {H100: {gpus: 8, borrow_max: 4, is_lent: false}}, budget: {gpu_hours: 9, hours: 24}}
  theirs: {entitled: {H100: {gpus: 8}}}
  nobody: {}
ranking: {walks_by_level: false}
workload:
  - steady: {workloads: 8, hours: 0.02, tenants: {ours: 1, theirs: 3}, minutes_median: 0.2, minutes_max: 0.4, gpus_max: 8}
faults:
  - quota_set: {tenant: theirs, gpus: 4, after_seconds: 30}
calm: {minutes: 30}
expectations:
  - submitted of ours <= 8
  - p99_start_seconds of theirs at 3 <= 60
"""
OURS, THEIRS = TenantName("ours"), TenantName("theirs")
W1, W2 = WorkloadId("w-1"), WorkloadId("w-2")


# Files.


def test_tenants_are_read_and_written() -> None:
    """Levels, entitlements, budgets and the rules of ranking; a figure of one tenant keeps whose it is."""
    spec = parse_scenario(THREE, "three.yaml")
    assert ["ours", "theirs", "nobody"] == [*spec.tenants]
    ours = spec.tenants["ours"]
    assert TenantSettings(5, seconds(30)) == ours.settings
    assert Entitlement(8, 4, is_lent=False) == ours.entitled["H100"].entitlement
    assert ours.budget is not None
    assert Budget(9, Nanoseconds(24 * 3600 * SECOND)) == ours.budget.told
    assert spec.tenants["nobody"].budget is None
    assert spec.ranking is not None
    assert (False, False) == (spec.ranking.settings.walks_by_level, spec.ranking.settings.counts_borrowed)
    assert ["submitted of ours <= 8", "p99_start_seconds of theirs at 3 <= 60"] == [
        str(one) for one in spec.expectations
    ]
    assert spec == parse_scenario(scenario_written(spec), "written.yaml")


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("{tenant: theirs,", "{tenant: others,", "faults[0].quota_set.tenant: there is no tenant `others` (did you mean `theirs`?)"),
        ("{ours: 1,", "{us: 1,", "workload[0].steady.tenant: there is no tenant `us`"),
        ("tenants: {ours: 1, theirs: 3}, ", "", "so it must be said whose this is"),
        ("tenants: {ours: 1, theirs: 3}", "tenant: ours, tenants: {ours: 1}", "either `tenant` or `tenants` says whose they are"),
        ("{ours: 1,", "{ours: 0,", "workload[0].steady.tenants: it must be more than 0"),
        ("theirs: {entitled: {H100:", "theirs: {entitled: {H200:", "tenants.theirs.entitled.H200: there is no GPU type `H200`"),
        ("level: 5", "level: 7", "tenants.ours.level: it must be at most 6"),
        ("level: 5", "lvl: 5", "tenants.ours.lvl: there is no field `lvl` (did you mean `level`?)"),
        ("nobody: {}", "no body: {}", "tenants.no body: "),
        ("submitted of ours", "kills of ours", "`kills` is of all together; of one tenant there are submitted, "),
        ("submitted of ours", "submitted of us", "expectations[0]: there is no tenant `us`"),
        ("walks_by_level", "walk_by_level", "ranking.walk_by_level: there is no field `walk_by_level`"),
        ("tenants:\n", "tenants: 3\nweather:\n", "tenants: it must be tenants by their names"),
    ],
)  # fmt: skip
def test_bad_tenants_are_refused_with_their_field(good: str, bad: str, said: str) -> None:
    """Before anything is played."""
    with pytest.raises(ScenarioError) as raised:
        parse_scenario(THREE.replace(good, bad), "mine.yaml")
    assert said in "\n".join((str(raised.value), *raised.value.problems))


def test_load_is_of_the_named_tenants() -> None:
    """One tenant's, or several tenants' by weight; at their levels, and else drawn as without."""
    fleet = parse_scenario(THREE, "three.yaml").fleet
    load = Steady(workloads=200, hours=1)

    def drawn(one: Steady) -> list[tuple[TenantName, int | None, int]]:
        arrivals = one.arrivals(fleet, random.Random(7))
        return [(arrival.spec.tenant, arrival.spec.priority, arrival.at) for arrival in arrivals]

    alone = drawn(replace(load, tenant="ours"))
    assert {(OURS, None)} == {(tenant, priority) for tenant, priority, _ in alone}
    assert [at for *_, at in drawn(load)] == [at for *_, at in alone]
    assert {2} == {priority for _, priority, _ in drawn(replace(load, tenant="ours", priority=2))}
    counts = Counter(tenant for tenant, *_ in drawn(replace(load, tenants={"ours": 1.0, "theirs": 3.0})))
    assert {OURS, THEIRS} == set(counts)
    assert 30 < counts[OURS] < 70


# Runs.


class Listening(Witness):
    """Remembers each event."""

    told: list[Event]

    def see(self, facts: Iterable[Fact], at: float | None = None) -> None:
        """As it does, and more."""
        facts = list(facts)
        self.told = [
            *getattr(self, "told", []),
            *(fact.event for fact in facts if isinstance(fact.event, Event)),
        ]
        super().see(facts, at)


def played(body: Callable[[Run], Awaitable[None]]) -> Run:
    """The scenario, with something happening to its plane."""
    spec = parse_scenario(THREE, "three.yaml")
    loop = VirtualLoop(BEGIN)
    witness = Listening(spec.plan)
    run = Run(spec, 1, SimulatedWorld(spec.plan, 1, loop, witness=witness), witness)
    try:
        with structlog.testing.capture_logs():
            loop.run_until_complete(body(run))
    finally:
        loop.cancel_all()
        loop.close()
    return run


def test_operators_set_tenants_before_the_first_submission_and_otherwise_later() -> None:
    """As facts of the queue's log, in the words of `mizzen quota`; a run tells each tenant's own figures."""

    async def body(run: Run) -> None:
        await run.play()

    run = played(body)
    assert isinstance(run.witness, Listening)
    assert "" == run.outcome.first_problem()
    of_tenants = TenantSet | EntitlementSet | BudgetSet | RankingSet
    told = run.witness.told
    begun = next(number for number, event in enumerate(told) if isinstance(event, WorkloadSubmitted))
    before = [type(event) for event in told[:begun] if isinstance(event, of_tenants)]
    assert [RankingSet, TenantSet, EntitlementSet, BudgetSet, TenantSet, EntitlementSet, TenantSet] == before
    (later,) = [event for event in told[begun:] if isinstance(event, of_tenants)]
    assert isinstance(later, EntitlementSet)
    assert (THEIRS, Entitlement(4), True) == (later.tenant, later.entitlement, later.is_forced)
    whose = Counter(event.spec.tenant for event in told if isinstance(event, WorkloadSubmitted))
    assert {OURS, THEIRS} == set(whose)
    figures = run.outcome.figures
    theirs = run.witness.figures_of(THEIRS, None, run.world.facts_now())
    assert 8 == figures["submitted of ours"] + theirs["submitted"]
    assert 0.0 == run.witness.figures_of(THEIRS, 6, run.world.facts_now())["submitted"]
    assert 0 < theirs["gpu_seconds_held"] < figures["gpu_seconds_held"]


def test_workload_that_waits_for_gpus_held_over_quota_is_found() -> None:
    """M19: where no agent is left that could preempt any work, that is found, and how long it lasted."""

    async def body(run: Run) -> None:
        await run.begin()
        run.quiet_from = run.world.facts_now()
        users = run.users
        assert "" == await Operators(users).entitle(OURS, "H100", Entitlement(8))
        job = a_job(2, 8)
        long = replace(job, emulation=Emulation(work=seconds(3600)))
        borrows = await users.submit("borrows", a_spec(long, tenant="theirs"))
        await run.world.sleep(5)
        assert borrows is not None
        assert OVER_LEVEL == run.witness.queue.workloads.rows[borrows].level
        for unit in run.world.units:
            if unit.role == "allocation_agent":
                await run.world.kill(unit)
        waits = await users.submit("waits", a_spec(a_job(1, 8), tenant="ours"))
        await run.world.sleep(RECLAIM_SECONDS / 2)
        assert [] == await OverQuotaLeaves().at_end(run)
        await run.world.sleep(RECLAIM_SECONDS)
        found.extend(await OverQuotaLeaves().at_end(run))
        assert waits is not None
        assert found[0].startswith(f"{waits} was within quota and waited 9")
        run.quiet_from = run.world.facts_now()
        assert [] == await OverQuotaLeaves().at_end(run)
        await run.stop()

    found: list[str] = []
    played(body)
    assert 1 == len(found)


# Accounts.

AN_HOUR = Instant(3_600 * SECOND)
SIXTEEN = a_job(2, 8)


def of(tenant: str, job: JobSpec = SIXTEEN) -> WorkloadSpec:
    """A workload of one tenant's."""
    return a_spec(job, tenant=tenant)


def held_by_theirs(run_min: int = 0, level: int = OVER_LEVEL) -> Claim:
    """Both nodes, since the beginning."""
    claim = a_claim("w-1", jobs=(SIXTEEN,), spreads=(a_spread({0: 1, 1: 1}),), priority=level)
    return replace(claim, tenant=THEIRS, run_min=run_min)


def a_full_fleet(level: int = OVER_LEVEL, ours: int = 8, data: tuple[DatasetName, ...] = ()) -> GlobalImage:
    """Theirs runs on all of it, and ours, which reads this data, waits for half of it."""
    return a_queue(
        TenantSet(OURS, 1),
        TenantSet(THEIRS, 1),
        EntitlementSet(OURS, 2, "H100", Entitlement(ours)),
        submitted(1, of("theirs")),
        WorkloadAwarded(W1, 1, EU, 0, (), tenant=THEIRS, level=level, charge={"H100": 16_000}),
        submitted(2, replace(of("ours", a_job(1, 8)), data=data)),
    )


def waiting(queue: GlobalImage, *events: Event, now: Instant = AN_HOUR) -> list[WorkloadId]:
    """Who waits for what is held over quota."""
    return list(waiting_for_room(queue, {GLOBAL_LOG: queue, EU_LOG: a_region(joined(nodes=2), *events)}, now))


def test_work_within_quota_waits_for_gpus_held_over_it() -> None:
    """And only then: not work that is over quota itself, nor where the GPUs are held within quota, are told to come free, must run on,
    or are free.
    """
    theirs = granted(held_by_theirs())
    assert [W2] == waiting(a_full_fleet(), theirs)
    assert [] == waiting(a_full_fleet(ours=7), theirs)
    assert [] == waiting(a_full_fleet(level=3), theirs)
    told = StopOrdered(W1, 1, EndCause.PREEMPTED, W2)
    assert [] == waiting(a_full_fleet(), theirs, told)
    spared = granted(held_by_theirs(run_min=60 * SECOND))
    assert [] == waiting(a_full_fleet(), spared)
    assert [] == waiting(a_full_fleet(), spared, GangStarted(W1, 1), now=after(START, seconds(10)))
    assert [W2] == waiting(a_full_fleet(), spared, GangStarted(W1, 1))
    assert [] == waiting(a_full_fleet(), theirs, joined("w1", first=2, nodes=1))


def test_work_waits_for_no_gpus_where_its_data_is_not() -> None:
    """It waits for its data: that others hold the region's GPUs over quota is not to blame."""
    theirs, clicks = granted(held_by_theirs()), DatasetName("clicks")
    queue = a_full_fleet(data=(clicks,))
    queue = folded(queue, [DatasetSet(clicks, 1, (US,), US)], log=GLOBAL_LOG, first=7)
    assert [] == waiting(queue, theirs)
    queue = folded(queue, [DatasetSet(clicks, 2, (EU, US), US)], log=GLOBAL_LOG, first=8)
    assert [W2] == waiting(queue, theirs)


def test_awarded_work_waits_until_all_its_victims_were_told() -> None:
    """An award alone frees no capacity."""
    queue = folded(
        a_full_fleet(),
        [WorkloadAwarded(W2, 1, EU, 0, (), tenant=OURS, level=3, charge={"H100": 8_000})],
        log=GLOBAL_LOG,
        first=7,
    )
    theirs = granted(held_by_theirs())
    ours = a_claim("w-2", jobs=(a_job(1, 8),), spreads=(a_spread({0: 1}),), victims=(attempt(),))
    assert [W2] == waiting(queue, theirs)
    assert [W2] == waiting(queue, theirs, promised(ours))
    assert [] == waiting(queue, theirs, promised(ours), StopOrdered(W1, 1, EndCause.PREEMPTED, W2))


def test_accounts_of_quotas() -> None:
    """What was held over quota and for how long, who was told to leave, and whether it was too early."""
    quotas = Quotas()
    region = a_region(joined(nodes=2))
    images = {GLOBAL_LOG: a_full_fleet(), EU_LOG: region}

    def take(at: float, event: Event) -> None:
        fact = a_fact(event, at=Instant(round(at * SECOND)))
        quotas.take(fact, at, images)
        region.fold(fact)

    take(100, granted(held_by_theirs(run_min=60 * SECOND, level=3)))
    take(100, GangStarted(W1, 1))
    take(110, AttemptRanked(W1, 1, 1, OVER_LEVEL))
    assert 16.0 * 10 == quotas.borrowed(120, None)
    take(150, StopOrdered(W1, 1, EndCause.PREEMPTED, W2))
    take(155, AttemptEnded(W1, 1, EndCause.PREEMPTED))
    figures = quotas.figures(200, images)
    assert (1.0, 1.0, 0.0) == tuple(figures[f"pushed_out_{name}"] for name in ("early", "over", "within"))
    assert 16.0 * 45 == figures["borrowed_gpu_seconds"]
    assert (16.0 * 45, 0.0) == (quotas.borrowed(200, {W1}), quotas.borrowed(200, {W2}))


def test_waits_have_a_beginning_and_an_end() -> None:
    """Of the facts between which somebody waited, however much later anybody looks."""
    quotas = Quotas()
    full = {GLOBAL_LOG: a_full_fleet(), EU_LOG: a_region(joined(nodes=2), granted(held_by_theirs()))}
    free = {**full, EU_LOG: a_region(joined(nodes=2))}
    for at, images in ((3_600.0, free), (3_610.0, full), (3_625.0, full), (3_635.0, free)):
        quotas.take(a_fact(submitted(9), log=GLOBAL_LOG), at, images)
    assert [Wait(W2, 3_600.0, 3_625.0)] == quotas.waits
    quotas.look(3_640.0, full)
    assert 25.0 == quotas.figures(3_650.0, full)["reclaim_seconds_max"]
    assert 30.0 == quotas.figures(3_665.0, full)["reclaim_seconds_max"]
