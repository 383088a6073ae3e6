"""What each of 20 tenants held in a week in which what they want shifts, against what each was entitled to: `python -m bench fairness`.

The whole plane in the simulated world, on one region of 40 nodes. Each tenant goes through phases, in which it wants nothing, about
what it is entitled to, or several times that, and submits so that what runs and waits of it comes to that; what waits too much of
when a phase ends is cancelled. Work is of 1 to 8 GPUs and 20 minutes to some hours.

Exactly: let d_i(t) be what tenant i wants at a time (GPUs of its work that runs or waits), e_i what it is entitled to, and h_i(t)
what it holds. Due to it at that time is a_i(t), its weighted max-min share of all GPUs in use, under these demands with weights e_i:
of what is in use at least min(d_i, e_i), and of what others leave in proportion to e_i, up to d_i. Over a week, at times with
d_i > 0,

    held_i = integral of h_i          due_i = integral of a_i          error_i = | held_i / due_i - 1 |

`share_error_max` is the largest error of all tenants. That is how even what was given out was. How much was not given out though
somebody wanted it is told beside it, against the same shares of all GPUs that there are: `held_of_due`, of all tenants together, and
`all_gpus_error_max`, the largest error of a tenant once that much is nobody's. `shortfall_max` is by how much somebody held less
than min(d, e) over time, and `borrowed_error_max` the same of what was borrowed, each against the share of all GPUs.

`reclaim_cycles` counts, from the region's log, pairs of workloads of which each was pushed out for the other, and attempts that
were pushed out by one of no higher level.
"""

import argparse
import math
import random
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import structlog
from msgspec import Struct
from msgspec.structs import replace

from bench.support.report import Findings, at_most
from core.events.region import StopOrdered
from core.fact import Fact
from core.nouns.ids import TenantName, WorkloadId, region_of
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.placement import gpu_milli_of
from core.nouns.quantities import MILLI
from core.nouns.ranking import RankingSettings
from core.nouns.workload import Emulation, EndCause, RetryLimits, WorkloadSpec
from core.nouns.workload import Phase as WorkloadPhase
from core.ranking.fair_lag import max_min
from mizzen.views.plots import Curve, draw_curves, figure_option
from runtime.gc_tuning import settle_down
from runtime.virtual_loop import VirtualLoop
from scenarios.accounting.quotas import Quotas
from scenarios.accounting.witness import Witness
from scenarios.play.operators import Operators
from scenarios.play.run import Run
from scenarios.scenario import ScenarioSpec
from scenarios.schema.fleet import FleetSpec, regions_of
from scenarios.schema.tenants import EntitlementSpec, TenantSpec
from scenarios.workloads.steady import Steady
from scenarios.worlds.simulated.world import START, SimulatedWorld

HOUR = 3_600.0
GPU_TYPE = "H100"
SIZES, SIZE_WEIGHTS = (1, 2, 4, 8), (2.0, 2.0, 3.0, 3.0)
"""GPUs of a workload."""
MINUTES_MEDIAN, MINUTES_SIGMA, MINUTES_MIN, MINUTES_MAX = 60.0, 0.7, 20.0, 300.0
CHECKPOINT_SECONDS, STOP_SECONDS = 600.0, 10.0
OVERSTATED = (1.1, 3.0)
LIMIT_STEP_MINUTES = 30.0
"""Longest durations: so many times what each works, up to the next step, as people state them."""
WANTS = ((0.0, 0.0, 0.25), (0.8, 1.2, 0.35), (2.0, 5.0, 0.4))
"""Phases: between how many times its entitlement a tenant wants in one, and how often there is such a one."""
PHASE_HOURS = (6.0, 18.0)
LOOK_SECONDS = 60.0
"""Between looks of tenants at their work, at each of which what is held and wanted is counted."""


class Size(Struct, frozen=True):
    """How much of it all."""

    days: float
    nodes: int
    entitled: tuple[int, ...]
    """GPUs by tenant."""


FULL = Size(7.0, 40, (4, 4, 6, 6, 8, 8, 8, 12, 12, 12, 16, 16, 16, 20, 20, 24, 24, 28, 36, 40))
QUICK = Size(0.12, 4, (4, 8, 8, 12))


class Phase(Struct, frozen=True):
    """What a tenant wants from a time on."""

    at: float
    gpus: int


class Tally(Struct):
    """Of one tenant: GPU-seconds at times at which it wanted some."""

    entitled: int
    held: float = 0.0
    due: float = 0.0
    """Its weighted max-min share of all GPUs."""
    due_in_use: float = 0.0
    """The same of those in use."""
    due_within: float = 0.0
    """Of that what is within its entitlement."""
    held_within: float = 0.0
    """Held, up to its entitlement or what it wants."""
    short: float = 0.0
    """By how much it held less than it wanted within its entitlement."""

    @property
    def more(self) -> float:
        """By how much more it held than was due to it of what was in use, of that; negative: less."""
        return self.held / self.due_in_use - 1 if self.due_in_use else 0.0


class Watching(Witness):
    """Remembers who was pushed out for whom, and by whose level."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.quotas = Quotas(LOOK_SECONDS)
        self.pushed: Counter[tuple[WorkloadId, WorkloadId]] = Counter()
        self.unexplained = 0

    def see(self, facts: Iterable[Fact], at: float | None = None) -> None:
        """As it does, and more."""
        facts = list(facts)
        for fact in facts:
            if isinstance(fact.event, StopOrdered) and fact.event.cause is EndCause.PREEMPTED:
                self._count(fact, fact.event)
        super().see(facts, at)

    def _count(self, fact: Fact, event: StopOrdered) -> None:
        region = self.region(region_of(fact.log))
        held = region.capacity.holding(event.workload, event.epoch)
        claims = region.capacity.promises.get(event.by, {}).values()
        if held is None or held.is_ending:
            return
        self.pushed[event.workload, event.by] += 1
        self.unexplained += not any(claim.priority > held.claim.priority for claim in claims)

    @property
    def cycles(self) -> int:
        """Pairs of which each was pushed out for the other, and those pushed out by no higher level."""
        pairs = sum(1 for one, other in self.pushed if one < other and (other, one) in self.pushed)
        return pairs + self.unexplained


class Week:
    """One run."""

    def __init__(self, size: Size, seed: int, ranking: RankingSettings) -> None:
        self.size = size
        self.ranking = ranking
        names = [TenantName(f"t{number:02}") for number in range(len(size.entitled))]
        tenants = {
            str(name): TenantSpec(entitled={GPU_TYPE: EntitlementSpec(gpus)})
            for name, gpus in zip(names, size.entitled, strict=True)
        }
        self.load = Steady(workloads=1, hours=1, fails_share=0, cancels_share=0)
        self.spec = ScenarioSpec(
            name="bench_fairness",
            survives="Tenants want now more and now less.",
            fleet=self.fleet,
            workload=(replace(self.load, tenant=names[0]),),
            tenants=tenants | self.other_tenants,
        )
        self.dice = {name: random.Random(f"fairness/{seed}/{name}") for name in names}
        self.tallies = {name: Tally(gpus) for name, gpus in zip(names, size.entitled, strict=True)}
        self.curves: dict[TenantName, list[tuple[float, float, float, float]]] = {name: [] for name in names}
        """Hours, GPUs held, due and wanted."""
        self.witness = Watching(self.spec.plan)
        self.loop = VirtualLoop(START)
        self.run = Run(
            self.spec,
            seed,
            SimulatedWorld(self.spec.plan, seed, self.loop, witness=self.witness),
            self.witness,
        )
        self.phases = {name: self._phases(name, tally.entitled) for name, tally in self.tallies.items()}
        self._submitted = 0
        self._cancelled: dict[WorkloadId, None] = {}

    @property
    def fleet(self) -> FleetSpec:
        """The nodes on which the tenants are entitled to GPUs, in the region `r0`."""
        return FleetSpec(regions=1, nodes=self.size.nodes, workers=1, agents=2)

    @property
    def other_tenants(self) -> dict[str, TenantSpec]:
        """Tenants that are entitled to nothing."""
        return {}

    def play(self) -> None:
        """All of it."""
        settle_down()
        try:
            with structlog.testing.capture_logs():
                self.loop.run_until_complete(self._play())
        finally:
            self.loop.cancel_all()
            self.loop.close()
        assert not self.witness.violations, self.witness.violations[0]

    async def _play(self) -> None:
        run = self.run
        try:
            await run.begin()
            refused = await Operators(run.users).rank_by(self.ranking)
            assert not refused, refused
            begun = run.world.now()
            span = self.size.days * 24 * HOUR
            while run.world.now() < begun + span:
                await self.look(run.world.now() - begun)
                await run.world.sleep(LOOK_SECONDS)
        finally:
            await run.stop()

    async def look(self, at: float) -> None:
        """Count what was held since the look before, and submit or cancel what each wants now."""
        held: Counter[TenantName] = Counter()
        waits: Counter[TenantName] = Counter()
        waiting: dict[TenantName, list[tuple[WorkloadId, int]]] = {}
        for workload, row in self.witness.queue.workloads.rows.items():
            if row.phase.is_terminal or workload in self._cancelled:
                continue
            tenant, gpus = row.spec.tenant, gpu_milli_of(row.spec.jobs) // MILLI
            if row.phase is WorkloadPhase.RUNNING:
                held[tenant] += gpus
            else:
                waits[tenant] += gpus
                if not row.is_active:
                    waiting.setdefault(tenant, []).append((workload, gpus))
        self._count(at, held, waits)
        for name, phases in self.phases.items():
            while len(phases) > 1 and phases[1].at <= at:
                phases.pop(0)
            missing = phases[0].gpus - held[name] - waits[name]
            for workload, gpus in reversed(waiting.get(name, [])):
                if missing + gpus <= 0:
                    missing += gpus
                    await self.cancel(workload)
            while missing > 0:
                spec = self._draw(name, missing)
                missing -= gpu_milli_of(spec.jobs) // MILLI
                self._submitted += 1
                await self.submit(f"fairness-{self._submitted}", spec)

    async def submit(self, key: str, spec: WorkloadSpec) -> None:
        """A tenant submits this."""
        await self.run.users.submit(key, spec)

    async def cancel(self, workload: WorkloadId) -> None:
        """A tenant wants this no more."""
        self._cancelled[workload] = None
        await self.run.users.cancel(workload)

    def _count(self, at: float, held: Counter[TenantName], waits: Counter[TenantName]) -> None:
        names = [*self.tallies]
        wanted = [float(held[name] + waits[name]) for name in names]
        weights = [float(self.tallies[name].entitled) for name in names]
        of_all = max_min(8.0 * self.size.nodes, wanted, weights)
        of_those_in_use = max_min(float(held.total()), wanted, weights)
        for name, want, due, due_in_use in zip(names, wanted, of_all, of_those_in_use, strict=True):
            tally = self.tallies[name]
            self.curves[name].append((at / HOUR, float(held[name]), due, want))
            if want:
                within = min(want, tally.entitled)
                tally.held += held[name] * LOOK_SECONDS
                tally.due += due * LOOK_SECONDS
                tally.due_in_use += due_in_use * LOOK_SECONDS
                tally.due_within += within * LOOK_SECONDS
                tally.held_within += min(held[name], within) * LOOK_SECONDS
                tally.short += max(0.0, within - held[name]) * LOOK_SECONDS

    def _phases(self, name: TenantName, entitled: int) -> list[Phase]:
        dice, at, found = self.dice[name], 0.0, []
        while at < self.size.days * 24 * HOUR:
            low, high, _ = dice.choices(WANTS, [share for *_, share in WANTS])[0]
            found.append(Phase(at, round(dice.uniform(low, high) * entitled)))
            at += dice.uniform(*PHASE_HOURS) * HOUR
        return found

    def _draw(self, name: TenantName, missing: int) -> WorkloadSpec:
        """Of no more GPUs than it wants more: what it wants is what it could hold."""
        dice = self.dice[name]
        minutes = MINUTES_MEDIAN * dice.lognormvariate(0.0, MINUTES_SIGMA)
        minutes = min(max(minutes, MINUTES_MIN), MINUTES_MAX)
        steps = math.ceil(minutes * dice.uniform(*OVERSTATED) / LIMIT_STEP_MINUTES)
        emulation = Emulation(
            work=seconds(60 * minutes),
            checkpoint_every=seconds(CHECKPOINT_SECONDS),
            fails_after=Nanoseconds(0),
            stop_span=seconds(STOP_SECONDS),
        )
        drawn = dice.choices(SIZES, SIZE_WEIGHTS)[0]
        gpus = max(size for size in SIZES if size <= min(drawn, missing, self.tallies[name].entitled))
        job = self.load.job(regions_of(self.spec.fleet)["r0"], gpus, emulation)
        return WorkloadSpec(
            name=f"{name}-work",
            jobs=(job,),
            tenant=name,
            priority=None,
            retry=RetryLimits(),
            max_duration=seconds(60 * LIMIT_STEP_MINUTES * steps),
        )


def options(parser: argparse.ArgumentParser) -> None:
    """What may be chosen."""
    parser.add_argument("--days", type=float, help=f"default: {FULL.days:g}")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument(
        "--lag-weight", type=int, help="of what is over quota, in hours of waiting; 0: it goes by credit"
    )
    figure_option(parser)


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play the week, and tell what each tenant held against what was due to it."""
    if chosen is None:
        parser = argparse.ArgumentParser()
        options(parser)
        chosen = parser.parse_args([])
    size = QUICK if is_quick else FULL
    if chosen.days:
        size = replace(size, days=chosen.days)
    week = Week(size, chosen.seed, ranking_of(chosen))
    begun = time.perf_counter()
    week.play()
    if chosen.figure:
        chosen.figure.write_text(figure_of(week), encoding="utf-8")
    figures = figures_of(week) | {"wall_seconds": time.perf_counter() - begun}
    name, worst = max(week.tallies.items(), key=lambda one: abs(one[1].more))
    limit = f"{name}, entitled to {worst.entitled} GPUs, held {1 + worst.more:.3f} of what was due to it"
    return Findings(
        figures,
        [
            at_most("share_error_max", figures["share_error_max"], 0.02, limit),
            at_most("reclaim_cycles", figures["reclaim_cycles"], 0, "work is pushed out in turn"),
        ],
    )


def ranking_of(chosen: argparse.Namespace) -> RankingSettings:
    """The plane's own rules, with what is chosen otherwise."""
    ranking = RankingSettings()
    if chosen.lag_weight is None:
        return ranking
    return replace(ranking, credit=replace(ranking.credit, lag_weight=chosen.lag_weight))


def figures_of(week: Week) -> dict[str, float]:
    """All that is told."""
    tallies = [tally for tally in week.tallies.values() if tally.due]
    of_due = sum(tally.held for tally in tallies) / sum(tally.due for tally in tallies)
    more = [tally.more for tally in tallies]
    errors = sorted(map(abs, more))
    counts = Counter(phase for phase in week.witness.ended.values())
    quotas = week.witness.quotas
    return {
        "share_error_max": errors[-1],
        "share_error_median": errors[len(errors) // 2],
        "share_error_of_fleet_max": max(abs(tally.held - tally.due) for tally in tallies)
        / (8 * week.size.nodes * week.size.days * 24 * HOUR),
        "more_max": max(more),
        "less_max": -min(more),
        "all_gpus_error_max": max(abs(tally.held / (tally.due * of_due) - 1) for tally in tallies),
        "shortfall_max": max(tally.short / tally.due for tally in tallies),
        "borrowed_error_max": max(
            abs((tally.held - tally.held_within) - (tally.due - tally.due_within)) / tally.due
            for tally in tallies
        ),
        "held_of_due": of_due,
        "reclaim_cycles": float(week.witness.cycles),
        "reclaim_seconds_max": quotas.figures(week.run.world.facts_now(), week.witness.images)[
            "reclaim_seconds_max"
        ],
        "pushed_out": float(week.witness.pushed.total()),
        "pushed_out_within": float(quotas.pushed_out_within),
        "tenants": float(len(tallies)),
        "workloads": float(len(week.witness.submitted_at)),
        "completed": float(counts[WorkloadPhase.COMPLETED]),
    }


def figure_of(week: Week) -> str:
    """What four tenants held over time, against what was due to them, by hour."""
    names = sorted(week.tallies, key=lambda name: week.tallies[name].entitled)
    picked = [names[len(names) // 4], names[-1]]
    curves = []
    for name in picked:
        points = week.curves[name]
        every = max(1, round(HOUR / LOOK_SECONDS))
        hours = range(0, len(points) - every + 1, every)
        for label, column in (("held", 1), ("due", 2)):
            means = [
                (points[at][0], sum(row[column] for row in points[at : at + every]) / every) for at in hours
            ]
            entitled = week.tallies[name].entitled
            curves.append(Curve(f"{name} (entitled to {entitled}): {label}", means))
    return draw_curves("GPUs held and due, hourly means", "time (hours)", "GPUs", curves)
