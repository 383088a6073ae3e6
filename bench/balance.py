"""How well plans of where data lives balance regions: E1 of MAST, three daily plans from a placement by hand (V0), by V1, V2 and ours.

High priority asks for 0.8 of all GPUs, and V0's smallest region for 2.6 times its own (bench/support/data_places/drawn.py). A plan may copy 2 %
of all bytes. Figures are of the last day, and of the worst seed; of V1 and V2 as published, on the same draws.

    worst, std       demand by supply in the worst region, and its sample deviation over regions; a job counts where most of its tables are
    home_rate        share of demand with all tables at home in one region that has its GPU type
    collocation      share of demand for which a region holds all tables and has its GPU type
    bytes_a_day      of all bytes, the most of any day
    storage_over     bytes above the storage of any region on any day
    _best_seed       the same of the seed in which it is best
    solve_1m_seconds from 1,000,000 tables to a plan of 100,000 actions at most, one core, without the drawing; `solve_1m_worst` and others:
                     where that plan leads to

source    MAST (OSDI 2024), section 5.6: worst 2.63 to 0.98, deviation 0.76 to 0.30, at home 90.8 to 93.0 %, collocation 78 to 96 %
"""

# rows: M29, E1

import argparse
from pathlib import Path

from bench.support.choices import numbers
from bench.support.data_places.drawn import Draw, drawn_problem
from bench.support.data_places.plays import Day, Play, first_version, ours, played, second_version
from bench.support.report import Bar, Findings, Yardstick, at_least, at_most, within
from core.data_places.figures import Figures, figures_of
from mizzen.views.plots import Curve, draw_lines, figure_option

TABLES, QUICK_TABLES = 100_000, 2_000
MILLION, QUICK_MILLION = 1_000_000, 4_000
SEEDS = (1, 2, 3, 4, 5)
DAYS = 3
PLAYS: dict[str, Play] = {"v1": first_version, "v2": second_version, "ours": ours}
NAMES = {"v1": "V1", "v2": "V2", "ours": "ours"}
LOWER_IS_BETTER = ("worst", "std")
HIGHER_IS_BETTER = ("home_rate", "collocation", "protected")
SOURCE = "MAST section 5.6, Meta's fleet: before and after, not the same demand"
LIMITED_BY = "the bytes of a day, and jobs that read tables of two teams"


def options(parser: argparse.ArgumentParser) -> None:
    """Add what is drawn and how long it is planned."""
    parser.add_argument("--tables", type=int, default=TABLES)
    parser.add_argument("--seeds", type=numbers, default=SEEDS, help="with commas between")
    parser.add_argument("--cross", type=float, default=0.05, help="share of reads of another team's tables")
    parser.add_argument("--correlation", type=float, default=0.5, help="of a job's demand with its bytes")
    parser.add_argument("--days", type=int, default=DAYS, help="daily plans")
    parser.add_argument("--newest-in", type=int, default=5, help="regions that have the newest GPU type")
    parser.add_argument("--million", type=int, default=MILLION, help="tables of the timed plan; 0: none")
    figure_option(parser, "the worst region by day")


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Play each seed by each way to plan, then time one large plan."""
    if chosen is None:
        chosen = _defaults()
    tables = QUICK_TABLES if is_quick else chosen.tables
    seeds = chosen.seeds[:1] if is_quick else chosen.seeds
    before: list[Figures] = []
    days: dict[str, list[list[Day]]] = {name: [] for name in PLAYS}
    for seed in seeds:
        draw = Draw(tables, seed, chosen.cross, chosen.correlation, chosen.newest_in)
        problem = drawn_problem(draw)
        before.append(figures_of(problem, problem.home, problem.copies))
        for name, play in PLAYS.items():
            days[name].append(played(problem, play, chosen.days))
    figures = {f"v0_{name}": value for name, value in _worst_of(before).items()}
    for name, of_seeds in days.items():
        figures |= _figures(name, of_seeds)
    million = min(QUICK_MILLION, chosen.million) if is_quick else chosen.million
    if million:
        figures |= _timed(Draw(million, seeds[0], chosen.cross, chosen.correlation, chosen.newest_in))
    if chosen.figure:
        chosen.figure.write_text(_drawn(before[0], {name: of[0] for name, of in days.items()}))
    return Findings(figures, _bars(figures), _yardsticks())


def _figures(name: str, of_seeds: list[list[Day]]) -> dict[str, float]:
    """Return the worst of all seeds on the last day, and the most of any day."""
    prefix = "" if name == "ours" else f"{name}_"
    every = [day for days in of_seeds for day in days]
    found = _worst_of([days[-1].figures for days in of_seeds])
    found |= {
        "extra_storage": max(day.figures.extra_storage for day in every),
        "storage_over": max(day.figures.storage_over for day in every),
        "bytes_a_day": max(day.bytes_share for day in every),
        "actions_a_day": float(max(day.actions for day in every)),
        "seconds": max(day.seconds for day in every),
        "day_1_worst": max(days[0].figures.worst for days in of_seeds),
    }
    if name == "ours":
        last = [days[-1].figures for days in of_seeds]
        found |= {f"{key}_best_seed": min(getattr(one, key) for one in last) for key in LOWER_IS_BETTER}
        found |= {f"{key}_best_seed": max(getattr(one, key) for one in last) for key in HIGHER_IS_BETTER}
    return {f"{prefix}{key}": value for key, value in found.items()}


def _worst_of(figures: list[Figures]) -> dict[str, float]:
    """Return each figure of the seed in which it is worst."""
    found = {name: max(getattr(one, name) for one in figures) for name in LOWER_IS_BETTER}
    return found | {name: min(getattr(one, name) for one in figures) for name in HIGHER_IS_BETTER}


def _timed(draw: Draw) -> dict[str, float]:
    """Return how long one plan takes, and where it leads to."""
    _, day = ours(drawn_problem(draw))
    found = {"solve_1m_seconds": day.seconds, "solve_1m_actions": float(day.actions)}
    return found | {f"solve_1m_{name}": value for name, value in _worst_of([day.figures]).items()}


def _bars(figures: dict[str, float]) -> list[Bar]:
    bars = [
        within("v0_worst", figures["v0_worst"], 2.6, 0.3, "the draw"),
        within("v0_std", figures["v0_std"], 0.775, 0.125, "the draw"),
        at_most("worst", figures["worst"], 0.90, LIMITED_BY),
        at_most("std", figures["std"], 0.10, LIMITED_BY),
        at_least("home_rate", figures["home_rate"], 0.93, LIMITED_BY),
        at_least("collocation", figures["collocation"], 0.98, LIMITED_BY),
        at_most("bytes_a_day", figures["bytes_a_day"], 0.02, "a defect: the search may not copy more"),
        at_most("storage_over", figures["storage_over"], 0.0, "a defect: the search may not store more"),
    ]
    if "solve_1m_seconds" in figures:
        bars.append(
            at_most("solve_1m_seconds", figures["solve_1m_seconds"], 180, "the exact gain of each step")
        )
    return bars


def _yardsticks() -> list[Yardstick]:
    return [
        Yardstick("published_v0_worst", 2.63, SOURCE, beside="v0_worst"),
        Yardstick("published_v0_std", 0.76, SOURCE, beside="v0_std"),
        Yardstick("published_v1_worst", 0.98, SOURCE, beside="v1_worst"),
        Yardstick("published_v1_std", 0.30, SOURCE, beside="v1_std"),
        Yardstick("published_v1_home_rate", 0.930, SOURCE, beside="v1_home_rate"),
        Yardstick("published_v2_collocation", 0.96, SOURCE, beside="v2_collocation"),
        Yardstick(
            "published_solve_seconds", 18_000, "MAST section 3.3: a day's run, mostly input and output"
        ),
    ]


def _drawn(before: Figures, days: dict[str, list[Day]]) -> str:
    """Return the worst region by day, of the first seed."""
    lines = [
        Curve(NAMES[name], [(0, before.worst), *((day + 1, one.figures.worst) for day, one in enumerate(of))])
        for name, of in days.items()
    ]
    title = "Demand by supply in the most overloaded region, high priority"
    return draw_lines(title, "daily plans", "demand by supply", lines)


def _defaults() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    options(parser)
    return parser.parse_args([])
