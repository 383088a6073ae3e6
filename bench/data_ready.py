"""How much work waits for its data: E7 of MAST, 30 days of drawn workloads against a daily plan, with a region closed for hours.

Tables, regions and V0 homes are those of `balance`; workloads come by the day (bench/support/data_places/stream.py), and none is drawn by
where its tables are. Days are played as bench/support/data_places/days.py tells: a plan knows nothing of its day. Before the measured days
plans are made for 8 days of which each may copy twelve days' bytes: MAST was measured after months of plans. In the measured days a region,
any of them, is closed for eight hours.

    waiting_share    workloads that had to wait for data when they were submitted; worst seed
    waiting_gpu_seconds, waiting_high   the same by GPU-seconds, and of workloads of high priority
    waiting_worst_day                   on the worst day of any seed
    waiting_by_CAUSE share of all workloads of all seeds, by the first cause that holds: the region that would do is closed, a table was written
                     that day, the set of tables is new and one of them is another team's, the set is new, the set had been read
    first_day, first_days               on the first day, which begins at V0, and on all days before the measured ones
    if_closed_worst, if_closed_mean     workloads that can run in no other region, of the region that has most of them and of all regions
    extra_storage    bytes of copies beyond one for each table, to bytes of all tables; most of any measured day
    bytes_a_day      copied, of all bytes; most of any measured day
    wait_hours       mean of waits, to the next full hour
    candidates_...   regions in which a workload could run when it was submitted; `v0_`: on the first day if nothing is planned

The other ways are played on the first seed: no hot or small tables everywhere, no disaster copies, V1, no plan, and readings that the plane has
not, whose half-life is a day or a week.

source    MAST (OSDI 2024), section 5.3 and figures 6 and 7: 0.018 to 0.108 % of workloads wait for data
"""

# rows: E7, M31, M32

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from msgspec import Struct

from bench.support.choices import numbers, words
from bench.support.data_places.days import (
    CAUSES,
    DayFound,
    Days,
    Warm,
    Way,
    by_first_version,
    ours,
    unplanned,
    without_disaster_copies,
    without_hot_tables,
)
from bench.support.data_places.drawn import Draw
from bench.support.data_places.stream import drawn_stream
from bench.support.report import Bar, Findings, Yardstick, at_most
from mizzen.views.plots import Curve, draw_lines, figure_option

TABLES, QUICK_TABLES = 3_000, 2_000
SEEDS = (1, 2, 3, 4, 5)
DAYS, QUICK_DAYS = 30, 1
WARM, QUICK_WARM = Warm(8, 12.0), Warm(1, 12.0)
CLOSED_HOURS = 8
DAY, WEEK = 1 / 30, 7 / 30
"""In parts of the half-life of readings."""
PROCESSES = 2
OURS, UNPLANNED = "ours", "unplanned"
WAYS: dict[str, Way] = {
    OURS: Way(ours),
    "no_hot": Way(without_hot_tables),
    "no_disaster": Way(without_disaster_copies),
    "v1": Way(by_first_version),
    UNPLANNED: Way(unplanned),
    "day": Way(ours, DAY),
    "week": Way(ours, WEEK),
}
NAMES = {
    OURS: "ours",
    "v1": "V1",
    UNPLANNED: "no plan",
    "day": "half-life of a day",
    "week": "half-life of a week",
}
OTHERS_SEEDS = 1
"""Seeds on which the other ways are played, for the sake of time."""
LIMITED_BY = "new sets of large tables of one team or of two, whose homes lie in several regions"
DRAWN_DAYS = 3
"""Days of one point of the figure."""


class Task(Struct, frozen=True):
    """One seed, one way to plan."""

    draw: Draw
    way: str
    days: int
    warm: Warm
    closed_hours: int


def options(parser: argparse.ArgumentParser) -> None:
    """Add what is drawn and how long it is planned."""
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--seeds", type=numbers, default=SEEDS, help="with commas between")
    parser.add_argument("--cross", type=float, default=0.05, help="share of reads of another team's tables")
    parser.add_argument(
        "--correlation", type=float, default=0.5, help="of a workload's GPU-seconds with its bytes"
    )
    parser.add_argument("--days", type=int, default=DAYS, help="measured days")
    parser.add_argument(
        "--closed-hours", type=int, default=CLOSED_HOURS, help="for which a region is closed; 0: none"
    )
    parser.add_argument(
        "--ways", type=words, default=tuple(WAYS), help="to plan, with commas between; ours always"
    )
    figure_option(parser, "the share that waits, by day")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play each seed by our plans, and the first one by the other ways, too."""
    if chosen is None:
        chosen = _defaults()
    tasks = tasks_of(chosen, is_quick=is_quick)
    if is_quick:
        played = [played_by(task) for task in tasks]
    else:
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            played = list(pool.map(played_by, tasks))
    of_ways: dict[str, list[list[DayFound]]] = {}
    for task, found in zip(tasks, played, strict=True):
        of_ways.setdefault(task.way, []).append(found)
    warm_days = tasks[0].warm.days
    if chosen.figure:
        chosen.figure.write_text(_drawn(of_ways, warm_days))
    return findings_of(of_ways, warm_days)


def tasks_of(chosen: argparse.Namespace, *, is_quick: bool) -> list[Task]:
    """Return all that is played: our plans on each seed, the other ways on the first one."""
    return [
        Task(
            Draw(QUICK_TABLES if is_quick else chosen.tables, seed, chosen.cross, chosen.correlation),
            way,
            QUICK_DAYS if is_quick else chosen.days,
            QUICK_WARM if is_quick else WARM,
            chosen.closed_hours,
        )
        for number, seed in enumerate(chosen.seeds[:1] if is_quick else chosen.seeds)
        for way in WAYS
        if way == OURS or (number < OTHERS_SEEDS and way in chosen.ways)
    ]


def findings_of(of_ways: dict[str, list[list[DayFound]]], warm_days: int) -> Findings:
    """Return the figures of all ways.

    of_ways   by way, the days of each seed
    """
    figures: dict[str, float] = {}
    for way, of_seeds in of_ways.items():
        figures |= _figures(way, of_seeds, warm_days)
    if UNPLANNED in of_ways:
        figures |= _candidates("v0_", [found[0] for found in of_ways[UNPLANNED]])
    return Findings(figures, _bars(figures), _yardsticks())


def played_by(task: Task) -> list[DayFound]:
    """Return the days of one seed, those before the measured ones first."""
    total = task.warm.days + task.days
    stream = drawn_stream(task.draw, total, (task.warm.days, total), task.closed_hours)
    return Days(stream, WAYS[task.way], task.warm).played()


def _figures(way: str, of_seeds: list[list[DayFound]], warm_days: int) -> dict[str, float]:
    """Return the figures of one way."""
    prefix = "" if way == OURS else f"{way}_"
    measured = [found[warm_days:] for found in of_seeds]
    every = [day for days in measured for day in days]
    shares = [_share(days) for days in measured]
    workloads = sum(day.workloads for day in every)
    waits = [hours for day in every for hours in day.wait_hours]
    found = {
        "waiting_share": max(shares),
        "waiting_share_mean": _share(every),
        "waiting_gpu_seconds": sum(day.gpu_seconds_waited for day in every)
        / sum(day.gpu_seconds for day in every),
        "waiting_high": sum(day.high_waited for day in every) / sum(day.high for day in every),
        "waiting_worst_day": max(_share([day]) for day in every),
        "first_day": _share([days[0] for days in of_seeds]),
        "first_days": _share([day for days in of_seeds for day in days[:warm_days]]),
        "extra_storage": max(day.extra_storage for day in every),
        "bytes_a_day": max(day.bytes_share for day in every),
        "actions_a_day": float(max(day.actions for day in every)),
        "wait_hours": float(np.mean(waits)) if waits else 0.0,
    }
    lost = np.sum([day.if_closed for day in every], axis=0) / workloads
    found |= {"if_closed_worst": float(lost.max()), "if_closed_mean": float(lost.mean())}
    found |= {f"waiting_by_{cause}": sum(day.causes[cause] for day in every) / workloads for cause in CAUSES}
    if way == OURS:
        found |= {"waiting_share_best_seed": min(shares), "workloads": float(workloads)}
    return {f"{prefix}{key}": value for key, value in (found | _candidates("", every)).items()}


def _share(days: list[DayFound]) -> float:
    """Return the share of workloads that waited."""
    return sum(day.waited for day in days) / max(1, sum(day.workloads for day in days))


def _candidates(prefix: str, days: list[DayFound]) -> dict[str, float]:
    """Return how many regions a workload could run in."""
    counts = np.sum([day.candidates for day in days], axis=0)
    regions, whole = np.repeat(np.arange(len(counts)), counts), max(1, int(counts.sum()))
    return {
        f"{prefix}candidates_p10": float(np.percentile(regions, 10)),
        f"{prefix}candidates_p50": float(np.percentile(regions, 50)),
        f"{prefix}candidates_mean": float(regions.mean()),
        f"{prefix}candidates_two": float(counts[2:].sum()) / whole,
        f"{prefix}candidates_three": float(counts[3:].sum()) / whole,
    }


def _bars(figures: dict[str, float]) -> list[Bar]:
    return [
        at_most("waiting_share", figures["waiting_share"], 0.001, LIMITED_BY),
        at_most("extra_storage", figures["extra_storage"], 1.25, "a defect: plans may not add more"),
        at_most("bytes_a_day", figures["bytes_a_day"], 0.02, "a copy larger than what was left of a day"),
    ]


def _yardsticks() -> list[Yardstick]:
    fleet = "MAST section 5.3 and figure 6, Meta's fleet: days of a month, after months of plans"
    return [
        Yardstick("published_waiting_share_best_day", 0.00018, fleet, beside="waiting_share_mean"),
        Yardstick("published_waiting_share_worst_day", 0.00108, fleet, beside="waiting_worst_day"),
        Yardstick("published_extra_storage", 1.25, "MAST section 3.4: 0.75 to 1.25", beside="extra_storage"),
        Yardstick(
            "published_candidates_two", 0.96, "MAST figure 7, of tens of regions", beside="candidates_two"
        ),
        Yardstick(
            "published_candidates_three", 0.67, "MAST figure 7, of tens of regions", beside="candidates_three"
        ),
    ]


def _drawn(of_ways: dict[str, list[list[DayFound]]], warm_days: int) -> str:
    """Return the share that waits by day, over all seeds; days before the measured ones are below 0."""
    lines = []
    for way, of_seeds in of_ways.items():
        if way in NAMES:
            firsts = range(0, len(of_seeds[0]), DRAWN_DAYS)
            points = [
                (
                    float(first - warm_days + DRAWN_DAYS / 2),
                    100.0 * _share([day for days in of_seeds for day in days[first : first + DRAWN_DAYS]]),
                )
                for first in firsts
            ]
            lines.append(Curve(NAMES[way], points))
    return draw_lines("Workloads that wait for data", "days", "share (%)", lines)


def _defaults() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    options(parser)
    return parser.parse_args([])
