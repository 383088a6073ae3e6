"""Whether moves of data keep what they promise over a week: a plan of five days' bytes while processes are killed and copies spoiled.

Two regions in virtual time. All of 500 GB is at home in the one, and copies may have a tenth of that a day. At the start a plan of half of all bytes
is recorded, homes that move to the other region; beside it work comes whose hardware is there, and which waits for data that no plan names. Data
services are killed forty times and the queue ten times, one message in fifty is lost, and six copies arrive with flipped bits.

    cap_exceeded         days whose orders had more bytes than the day's limit, less what failed copies did not move
    without_whole_copy   times that a dataset was on no region's disk with the right hash, looked at when a copy is made, a home moves or a copy is deleted
    urgent_inversions    planned copies that were ordered while one for work that had waited longer than a look could have been tried
    backlog_left         actions of the plan, orders and deletions that are left after seven days
    drained_days         until the plan's last copy was made
    busiest_day          bytes of the day with the most, in parts of the limit
    orders, failed       copies ordered, and of them those that failed

of all seeds the worst. The seeds are played on all cores.

source    MAST (OSDI 2024) §3.4: the migration of a spike of plans is smoothed by a daily cap (fig. 6)
"""

# rows: M33, M34, E8

import argparse
import asyncio
import os
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import structlog
from msgspec import Struct

from bench.support.choices import numbers
from bench.support.report import Findings, at_most
from core.events.copies import CopyFailed, CopyMade, CopyOrdered, DropMade, HomeMoved
from core.events.queue import WorkloadSubmitted
from core.fact import Fact
from core.images.copies import day_of
from core.nouns.data import ActionKind, PlannedAction
from core.nouns.ids import DatasetName, RegionName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import COPY_LOOK, COPY_TRY_AGAIN
from runtime.data.emulated_world import Content, hash_of
from runtime.virtual_loop import VirtualLoop
from scenarios.play.data_settings import plan_data
from scenarios.play.run import Run
from scenarios.play.simulated import simulated_run
from scenarios.scenario import ScenarioSpec, parse_scenario
from scenarios.schema.outcome import Outcome
from scenarios.worlds.simulated.world import START

SEEDS = (1, 2, 3, 4)
DAYS = 7
EAST, WEST = RegionName("east"), RegionName("west")
BULK, BULK_GB = 60, 8
URGENT, URGENT_GB = 10, 2
PLANNED = 31
"""Datasets that move: five days' bytes."""
DAY_PERMILLE = 100
GB = 10**9
PLAN_AT = 300.0
"""Seconds from the start until the plan is recorded."""
DAY_SECONDS = 86_400
SLACK = Nanoseconds(COPY_LOOK + seconds(5))
"""From when a copy is wanted, or may be tried again, until it is looked for; and for a message that is repeated."""

SCENARIO = """
name: data_moves
survives: a plan of five days' bytes is carried out in a week, though processes are killed and copies spoiled
fleet:
  regions:
    east: {{nodes: 1, gpu_type: A100, agents: 1}}
    west: {{nodes: 1, gpu_type: H100, agents: 1}}
  data:
    storage_gb: 10000
    link_mb_per_second: 40
    day_permille: {permille}
    day_gb_min: 0
    datasets:
      bulk: {{home: east, gb: {bulk_gb}, count: {bulk}}}
      urgent: {{home: east, gb: {urgent_gb}, count: {urgent}}}
workload:
  - steady: {{workloads: {workloads}, hours: {hours}, minutes_median: 30, minutes_max: 60, gpus_max: 4, gpu_type: H100, fails_share: 0, cancels_share: 0, data: [{names}]}}
faults:
  - crash: {{role: data_service, times: {kills}, after_seconds: [600, {span}]}}
  - crash: {{role: job_queue, times: {queue_kills}, after_seconds: [600, {span}]}}
  - copy_corrupt: {{source: east, target: west, times: {corrupt}, after_seconds: [600, {corrupt_span}]}}
  - message_loss: {{share: 0.02}}
calm: {{minutes: 120}}
expectations: []
"""


class Week(Struct, frozen=True):
    """What one seed's facts tell."""

    cap_exceeded: int
    without_whole_copy: int
    urgent_inversions: int
    backlog_left: int
    drained_days: float
    busiest_day: float
    orders: int
    failed: int


def options(parser: argparse.ArgumentParser) -> None:
    """Add the seeds and the days."""
    parser.add_argument("--seeds", type=numbers, default=SEEDS, help="with commas between")
    parser.add_argument("--days", type=int, default=DAYS)


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play each seed in virtual time."""
    seeds, days = (SEEDS, DAYS) if chosen is None else (chosen.seeds, chosen.days)
    if is_quick:
        weeks = [played(seeds[0], 0.5)]
    else:
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
            weeks = list(pool.map(partial(played, days=days), seeds))
    figures = {name: float(max(getattr(week, name) for week in weeks)) for name in Week.__struct_fields__}
    why = "a defect"
    return Findings(
        figures,
        [
            at_most("cap_exceeded", figures["cap_exceeded"], 0, why),
            at_most("without_whole_copy", figures["without_whole_copy"], 0, why),
            at_most("urgent_inversions", figures["urgent_inversions"], 0, why),
            at_most(
                "backlog_left",
                figures["backlog_left"],
                0,
                "copies are ordered whole, within each day's bytes",
            ),
        ],
    )


def played(seed: int, days: float) -> Week:
    """Play one seed. Raises AssertionError if the run is not good."""
    loop = VirtualLoop(START)
    try:
        with structlog.testing.capture_logs():
            run = simulated_run(spec_of(days), seed, loop)
            watch = _Watch(run, days)
            run.witness.watchers.append(watch.see)
            outcome = loop.run_until_complete(_with_plan(run))
    finally:
        loop.cancel_all()
        loop.close()
    assert outcome.is_good, outcome.first_problem()
    return watch.week()


async def _with_plan(run: Run) -> Outcome:
    """Play a run in which the planner's plan is recorded soon after the start."""

    async def plan() -> None:
        await run.world.sleep(PLAN_AT)
        problems = await plan_data(run.users, tuple(_actions()))
        assert not problems, problems

    async with asyncio.TaskGroup() as group:
        group.create_task(plan())
        return await run.play()


def spec_of(days: float) -> ScenarioSpec:
    """Return the scenario of so many days; misfortune ends half a day before the load does."""
    span = round(days * DAY_SECONDS)
    text = SCENARIO.format(
        permille=DAY_PERMILLE,
        bulk_gb=BULK_GB,
        bulk=BULK,
        urgent_gb=URGENT_GB,
        urgent=URGENT,
        workloads=max(4, round(4 * days)),
        hours=span / 3_600,
        names=", ".join(f"urgent-{number}" for number in range(URGENT)),
        kills=max(2, round(40 * days / DAYS)),
        queue_kills=max(1, round(10 * days / DAYS)),
        corrupt=max(1, round(6 * days / DAYS)),
        span=span - 600,
        corrupt_span=max(601, round(span * 0.7)),
    )
    return parse_scenario(text, "data_moves")


def _actions() -> Iterable[PlannedAction]:
    for number in range(PLANNED):
        name = DatasetName(f"bulk-{number}")
        yield PlannedAction(ActionKind.MOVE, name, EAST, WEST, BULK_GB * GB, level=number % 7)


class _Watch:
    """What a run's facts and disks tell."""

    def __init__(self, run: Run, days: float) -> None:
        self._run, self._end = run, START + round(days * DAY_SECONDS * SECOND)
        self._orders: dict[int, CopyOrdered] = {}
        self._ordered_at: dict[int, int] = {}
        self._bytes: Counter[int] = Counter()
        """Of orders, by day."""
        self._limits: dict[int, int] = {}
        self._wanted: dict[DatasetName, int] = {}
        """Since when work could have had a copy ordered that is not."""
        self._failures: Counter[DatasetName] = Counter()
        self._without = self._inversions = self._failed = 0
        self._left = -1
        self._drained = 0.0

    def see(self, fact: Fact) -> None:
        """Take a fact of any log."""
        if fact.at > self._end and self._left < 0:
            self._left = self._backlog()
        event = fact.event
        match event:
            case WorkloadSubmitted():
                for name in event.spec.data:
                    if not self._is_in_west(name) and not self._is_coming(name):
                        self._wanted.setdefault(name, fact.at)
            case CopyOrdered():
                self._order(event, fact.at)
            case CopyMade():
                self._failures[event.dataset] = 0
                order = self._orders.pop(event.copy)
                if not order.wanted_by:
                    self._drained = (fact.at - START) / SECOND / DAY_SECONDS
            case CopyFailed():
                self._fail(event, fact.at)
        if isinstance(event, CopyMade | DropMade | HomeMoved):
            self._look_at_disks()

    def week(self) -> Week:
        """Return what was seen."""
        over = [self._bytes[day] / limit for day, limit in self._limits.items()]
        return Week(
            sum(part > 1 for part in over),
            self._without,
            self._inversions,
            self._left if self._left >= 0 else self._backlog(),
            self._drained,
            max(over, default=0.0),
            len(self._ordered_at),
            self._failed,
        )

    def _order(self, event: CopyOrdered, at: int) -> None:
        self._orders[event.copy], self._ordered_at[event.copy] = event, at
        day = day_of(at)
        self._bytes[day] += event.bytes
        self._limits[day] = event.day_limit
        self._wanted.pop(event.dataset, None)
        if not event.wanted_by:
            self._inversions += any(since + SLACK < at for since in self._wanted.values())

    def _fail(self, event: CopyFailed, at: int) -> None:
        self._failed += 1
        order, day = self._orders.pop(event.copy), day_of(self._ordered_at[event.copy])
        if day == day_of(at):
            self._bytes[day] -= order.bytes - event.moved
        self._failures[event.dataset] += 1
        if order.wanted_by:
            self._wanted[event.dataset] = at + COPY_TRY_AGAIN * self._failures[event.dataset]

    def _backlog(self) -> int:
        copies = self._run.witness.queue.copies
        return len(copies.actions) + len(copies.orders) + len(copies.to_drop) + len(copies.drops)

    def _is_in_west(self, name: DatasetName) -> bool:
        return WEST in self._run.witness.queue.datasets.rows[name].regions

    def _is_coming(self, name: DatasetName) -> bool:
        return any(order.dataset == name for order in self._orders.values())

    def _look_at_disks(self) -> None:
        """Count the datasets that no disk holds whole. All lie in east from the start, where a disk names what was put or deleted since."""
        east, west = (self._run.world.data_disk(region).contents for region in (EAST, WEST))
        for name, row in self._run.witness.queue.datasets.rows.items():
            there = (east.get(name, Content(hash_of(name), row.size)), west.get(name))
            self._without += not any(one is not None and one.hash == hash_of(name) for one in there)
