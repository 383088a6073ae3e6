"""How soon data follows a shift of demand, and how long work waits meanwhile: plans within minutes against plans a day apart.

Four regions of one GPU type, three teams, six datasets each, all of a team's at home in one region, and one region with none. Every workload reads
one dataset of its team. After an hour the first team asks for five times as much, which is more than its region has; an hour later the second
team's region, which that team fills to 0.7, loses a third of its nodes. The same load is played with plans at most five minutes apart and with
plans a day apart, of which the first is made before the shift: as with a daily plan, what comes later waits for the next.

    first_copy_minutes     from the growth of demand until the first copy of the team's data that a plan ordered since is made; worst seed
    first_order_minutes    the same, until that copy is ordered
    loss_plan_minutes      from the loss until the first plan that counts without the lost nodes; worst seed
    loss_copy_minutes      from the loss until the first copy of any data that such a plan ordered is made; the whole rest of the load where what is left
                           has room for all; median of seeds
    daily_over_loop_wait   mean wait of workloads that come after the shift, by daily plans over ours; the least of all seeds
    loop_wait_minutes      that mean by our plans, and daily_wait_minutes by daily ones, of all seeds
    plans, copies          of the seed with the most

source    the issue's own: the paper's planner runs once a day and hears nothing of waits (MAST §3.2 to 3.4)
"""

# rows: M29, M34

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

import structlog
from msgspec import Struct

from bench.support.choices import numbers
from bench.support.report import Findings, Yardstick, at_least, at_most
from core.events.copies import CopyMade, CopyOrdered, DataPlanned
from core.events.queue import WorkloadBound, WorkloadSubmitted
from core.fact import Fact
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND
from core.nouns.quantities import MILLI
from runtime.virtual_loop import VirtualLoop
from scenarios.play.simulated import simulated_run
from scenarios.scenario import ScenarioSpec, parse_scenario
from scenarios.worlds.simulated.world import START

HOUR = 3_600
SHIFT, LOSS = 0.25, 0.5
"""Parts of the load at which demand grows, and nodes are lost."""
HOURS, QUICK_HOURS = 4.0, 0.5
"""That the load lasts."""
WARM_UP = 20
"""Seconds from the start of the plane to that of the load."""
SEEDS = (1, 2, 3, 4, 5)
SOON_MINUTES, DAY_MINUTES = 5, 1_440
A, B, C = ("ads", 8), ("books", 22.5), ("cars", 8)
"""Each team, and its workloads in an hour before any shift, of about 0.25, 0.7 and 0.25 of its region."""
STEP = 0.25
"""Hours of arrivals that come at once with the shift: as long as they run, so that five times as many GPUs are wanted from then on."""
LOSES, GPUS = "west", 96
"""The region that loses nodes, and its GPUs."""
DATASETS, GB = 6, 40
TIMES = 5

SCENARIO = """
name: replan
survives: a shift of demand, and a region that loses a third of its nodes
fleet:
  planner: true
  regions: {{east: &region {{nodes: 12, gpu_type: H100, workers: 3, nodes_per_rack: 4}}, west: *region, north: *region, south: *region}}
  data:
    storage_gb: 10000
    replan_minutes: {replan}
    datasets: {{ads: {{home: east, gb: {gb}, count: {count}}}, books: {{home: west, gb: {gb}, count: {count}}}, cars: {{home: north, gb: {gb}, count: {count}}}}}
workload:
{loads}
faults:
  - submission_storm: {{after_seconds: {shift}, seconds: 60, workloads: {step}, minutes_median: 15, minutes_max: 30, gpus_max: 16, data: [{ads}]}}
  - submission_storm: {{after_seconds: {shift}, seconds: {storm_seconds}, workloads: {storm}, minutes_median: 15, minutes_max: 30, gpus_max: 16, data: [{ads}]}}
  - rack_loss: {{region: west, after_seconds: {loss}, down_seconds: {down}}}
calm: {{minutes: 600}}
expectations: []
"""


class Play(Struct, frozen=True):
    """One load under one policy."""

    waits: list[float]
    """Minutes from the submission until all tasks run, of what came after the shift."""
    ordered: float
    """Minutes from the growth of demand until the first order of a plan for that team's data; the whole load: there was none."""
    made: float
    """The same, until that copy was made."""
    planned_loss: float
    """Minutes from the loss until the first plan without the lost nodes."""
    made_loss: float
    """Minutes from the loss until the first copy ordered after that plan was made."""
    plans: int
    copies: int

    @property
    def mean(self) -> float:
        """Return the mean wait in minutes."""
        return sum(self.waits) / max(1, len(self.waits))


def options(parser: argparse.ArgumentParser) -> None:
    """Add the seeds."""
    parser.add_argument("--seeds", type=numbers, default=SEEDS, help="with commas between")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play each seed by both policies, in virtual time, on all cores."""
    seeds = SEEDS if chosen is None else chosen.seeds
    if is_quick:
        ours, daily = (
            [played((seeds[0], SOON_MINUTES, QUICK_HOURS))],
            [played((seeds[0], DAY_MINUTES, QUICK_HOURS))],
        )
    else:
        plays = [(seed, replan, HOURS) for replan in (SOON_MINUTES, DAY_MINUTES) for seed in seeds]
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
            found = list(pool.map(played, plays))
        ours, daily = found[: len(seeds)], found[len(seeds) :]
    figures = {
        "first_copy_minutes": max(one.made for one in ours),
        "first_order_minutes": max(one.ordered for one in ours),
        "loss_plan_minutes": max(one.planned_loss for one in ours),
        "loss_copy_minutes": median(one.made_loss for one in ours),
        "daily_over_loop_wait": min(far.mean / near.mean for far, near in zip(daily, ours, strict=True)),
        "loop_wait_minutes": sum(one.mean for one in ours) / len(ours),
        "daily_wait_minutes": sum(one.mean for one in daily) / len(daily),
        "plans": float(max(one.plans for one in ours)),
        "copies": float(max(one.copies for one in ours)),
        "workloads_after": float(min(len(one.waits) for one in ours)),
    }
    bars = [
        at_most(
            "first_copy_minutes",
            figures["first_copy_minutes"],
            10,
            "looks five minutes apart, and the copy's bytes",
        ),
        at_least(
            "daily_over_loop_wait",
            figures["daily_over_loop_wait"],
            3,
            "work that waits until its data has come",
        ),
    ]
    return Findings(
        figures,
        bars,
        [Yardstick("first_copy_minutes", 720, "a daily plan: half a day on average until the next")],
    )


def played(play: tuple[int, int, float]) -> Play:
    """Play a seed with so many minutes between plans at least, for so many hours. Raises AssertionError if the run is not good."""
    seed, replan, hours = play
    loop = VirtualLoop(START)
    watch = _Watch(hours)
    try:
        with structlog.testing.capture_logs():
            run = simulated_run(spec_of(replan, hours), seed, loop)
            run.witness.watchers.append(watch.see)
            outcome = loop.run_until_complete(run.play())
    finally:
        loop.cancel_all()
        loop.close()
    assert outcome.is_good, outcome.first_problem()
    return watch.play()


def spec_of(replan: int, hours: float) -> ScenarioSpec:
    """Return the scenario of so many hours, with so many minutes between plans at least."""
    loads = [
        f"  - steady: {{workloads: {round(count * hours)}, hours: {hours:g}, minutes_median: 15, minutes_max: 30, gpus_max: 16,"
        f" fails_share: 0, cancels_share: 0, data: [{_names(team)}]}}"
        for team, count in (A, B, C)
    ]
    more = A[1] * (TIMES - 1)
    text = SCENARIO.format(
        replan=replan,
        gb=GB,
        count=DATASETS,
        loads="\n".join(loads),
        ads=_names(A[0]),
        shift=SHIFT * hours * HOUR,
        loss=LOSS * hours * HOUR,
        down=(1 - LOSS) * hours * HOUR,
        step=round(more * STEP),
        storm=round(more * (1 - SHIFT) * hours),
        storm_seconds=(1 - SHIFT) * hours * HOUR,
    )
    return parse_scenario(text, "replan")


class _Watch:
    """What a run's facts tell."""

    def __init__(self, hours: float) -> None:
        self._hours = hours
        self._submitted: dict[WorkloadId, int] = {}
        self._up: dict[WorkloadId, int] = {}
        self._orders: dict[int, tuple[int, str]] = {}
        self._made: dict[int, int] = {}
        self._plans = self._planned_loss = 0

    def see(self, fact: Fact) -> None:
        """Take a fact of any log."""
        match fact.event:
            case WorkloadSubmitted():
                self._submitted[fact.event.workload] = fact.at
            case WorkloadBound():
                self._up.setdefault(fact.event.workload, fact.at)
            case CopyOrdered() if not fact.event.wanted_by:
                self._orders[fact.event.copy] = fact.at, fact.event.dataset
            case CopyMade():
                self._made[fact.event.copy] = fact.at
            case DataPlanned() if not fact.event.is_more:
                self._plans += 1
                open_milli = sum(milli for region, _, milli in fact.event.basis.supply if region == LOSES)
                if fact.at > self._at(LOSS) and open_milli < GPUS * MILLI and not self._planned_loss:
                    self._planned_loss = fact.at

    def play(self) -> Play:
        """Return what was seen."""
        begun = self._at(SHIFT)
        waits = [
            _minutes(self._up[workload] - at)
            for workload, at in self._submitted.items()
            if at >= begun and workload in self._up
        ]
        loss, nothing = self._at(LOSS), 60 * self._hours * (1 - LOSS)
        return Play(
            waits,
            *self._first(self._at(SHIFT), self._at(SHIFT), A[0]),
            _minutes(self._planned_loss - loss) if self._planned_loss else nothing,
            self._first(loss, self._planned_loss, "")[1] if self._planned_loss else nothing,
            self._plans,
            len(self._made),
        )

    def _at(self, part: float) -> int:
        """Return when so much of the load is over."""
        return START + round((WARM_UP + part * self._hours * HOUR) * SECOND)

    def _first(self, begun: int, since: int, team: str) -> tuple[float, float]:
        """Return minutes from an instant until the first order of the team's data since another, and until the first of these is made."""
        orders = {
            copy: at for copy, (at, name) in self._orders.items() if at >= since and name.startswith(team)
        }
        made = [self._made[copy] for copy in orders if copy in self._made]
        nothing = 60 * self._hours
        return (
            _minutes(min(orders.values()) - begun) if orders else nothing,
            _minutes(min(made) - begun) if made else nothing,
        )


def _names(team: str) -> str:
    return ", ".join(f"{team}-{number}" for number in range(DATASETS))


def _minutes(nanoseconds: int) -> float:
    return nanoseconds / SECOND / 60
