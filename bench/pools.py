"""Which nodes belong to which pool: whether needs survive the loss of any power domain, how long plans take, and how few nodes they move.

Plans are made for drawn regions (bench/support/pooling/drawn.py), their nodes chosen and the moves folded as the log's facts; then each domain is
taken away in turn. A small region plays in the simulated plane (bench/support/pooling/plane.py): three power domains, nine tenths of the GPUs in
use, and twice a domain is lost for an hour; and once for good, where the needs that are left could survive one more.

    domains_survived         of all losses of one domain, by seed, pool and type with a need, those that leave what is needed
    solve_seconds, gap       of the solver on one core; worst seed. plan_seconds: with the classes before and the choice of nodes after it
    moves_over_bound         nodes that move, over what would be left of them if all that the solver's gap may save were moves of empty nodes; worst
    in_use_over_bound        the same of nodes in use, if all of it were moves of nodes in use; worst
    moved, moved_in_use      nodes; mean of seeds
    needs_held_share         of the time from the first plan on, that in which a pool has what it needs, of all pools; least of seeds
    static_held_share        the same on the same losses, where nodes stay where they are: as many in each pool as the first plan gave it, domain by domain
    used_share               of the GPUs of nodes that take work, those that are held meanwhile; least of seeds
    recovered_minutes        from a loss for good until every need survives the loss of any further domain; worst of seeds

source    RAS (SOSP'21), spec/mast-twine.md section 6: capacity after the loss of any one main switchboard
"""

# rows: M24

import argparse
import time
from pathlib import Path

from msgspec import Struct

from bench.support.choices import numbers
from bench.support.pooling.drawn import REGION, Draw, drawn_region
from bench.support.pooling.plane import TWICE, held, recovery
from bench.support.report import Findings, Yardstick, at_least, at_most
from core.events.pools import NodesPooled
from core.fact import Fact
from core.nouns.ids import region_log
from core.nouns.instant import Instant
from core.pooling.choice import chosen
from core.pooling.classes import problem_of, standing_of
from core.pooling.problem import MOVE_FROM_FREE, MOVE_IN_USE
from mizzen.views.plots import Curve, Mark, draw_curves, figure_option
from runtime.solvers.pools import solve_pools
from scenarios.accounting.pools import gpus_by_domain

NODES, QUICK_NODES = 100_000, 2_000
DOMAINS, POOLS = 20, 5
SEEDS = (1, 2, 3, 4, 5)
PLANE_SEEDS = (1, 2)


class Planned(Struct, frozen=True):
    """What came of one drawn region."""

    survived: float
    solve_seconds: float
    plan_seconds: float
    gap: float
    moved: int
    in_use: int
    over: float
    """Cost that the gap may save, in that of a move of an empty node."""
    over_in_use: float
    """The same in that of a node in use."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add what is drawn."""
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--domains", type=int, default=DOMAINS, help="power domains")
    parser.add_argument("--pools", type=int, default=POOLS)
    parser.add_argument("--seeds", type=numbers, default=SEEDS, help="with commas between")
    figure_option(parser, "what a pool has while a domain is lost")
    parser.add_argument(
        "--plane-seeds", type=numbers, default=PLANE_SEEDS, help="of the simulated plane; 0: none"
    )


def run(_: Path, *, is_quick: bool, chosen: argparse.Namespace | None = None) -> Findings:
    """Plan each drawn region, then play the small one."""
    given = chosen or _defaults()
    nodes = QUICK_NODES if is_quick else given.nodes
    seeds = given.seeds[:1] if is_quick else given.seeds
    found = [planned(Draw(nodes, given.domains, given.pools, seed)) for seed in seeds]
    figures = {
        "domains_survived": min(one.survived for one in found),
        "solve_seconds": max(one.solve_seconds for one in found),
        "plan_seconds": max(one.plan_seconds for one in found),
        "gap": max(one.gap for one in found),
        "moves_over_bound": max(_over(one.moved, one.over) for one in found),
        "in_use_over_bound": max(_over(one.in_use, one.over_in_use) for one in found),
        "moved": sum(one.moved for one in found) / len(found),
        "moved_in_use": sum(one.in_use for one in found) / len(found),
    }
    bars = [
        at_least("domains_survived", figures["domains_survived"], 1, "whole nodes"),
        at_most("solve_seconds", figures["solve_seconds"], 10, "whole numbers by class, pool and domain"),
        at_most("gap", figures["gap"], 0.001, "the solver's own bound"),
        at_most("moves_over_bound", figures["moves_over_bound"], 1.02, "the solver's gap"),
        at_most("in_use_over_bound", figures["in_use_over_bound"], 1.02, "the solver's gap"),
    ]
    plane = [seed for seed in (given.plane_seeds[:1] if is_quick else given.plane_seeds) if seed]
    if plane:
        shares = [held(seed, is_quick=is_quick) for seed in plane]
        figures["needs_held_share"] = min(one.by_plans for one in shares)
        figures["static_held_share"] = min(one.by_split for one in shares)
        if given.figure:
            given.figure.write_text(_drawn(shares[0].steps))
        figures["used_share"] = min(one.used for one in shares)
        figures["recovered_minutes"] = max(recovery(seed, is_quick=is_quick) for seed in plane)
        bars.append(
            at_least("needs_held_share", figures["needs_held_share"], 1, "the first plan after a change")
        )
    yardstick = Yardstick("recovered_minutes", 30, "an assignment that runs every half hour (MAST section 2)")
    return Findings(figures, bars, [yardstick])


def planned(draw: Draw) -> Planned:
    """Plan a drawn region, and take each domain away in turn."""
    image = drawn_region(draw)
    begun = time.perf_counter()
    standing = standing_of(image)
    problem = problem_of(image, standing, {}, 1 << 30)
    asked = time.perf_counter()
    answer = solve_pools(problem)
    solved = time.perf_counter()
    choice = chosen(problem, answer, standing, image.capacity.rack)
    ended = time.perf_counter()
    for sequence, move in enumerate(choice.moves, 2):
        event = NodesPooled(move.nodes, move.pool_to)
        image.fold(Fact(region_log(REGION), sequence, Instant(0), "bench", "bench", event))
    moved = sum(one.count for one in choice.counted)
    in_use = sum(move.in_use for move in choice.moves)
    spare = max(0.0, answer.objective - answer.bound)
    has = gpus_by_domain(image)
    kept = [
        sum(has[pool, node_type].values()) - has[pool, node_type][domain] >= need
        for pool, settings in image.pools.settings.items()
        for node_type, need in settings.needs
        for domain in problem.domains
    ]
    return Planned(
        sum(kept) / len(kept),
        solved - asked,
        ended - begun,
        answer.gap,
        moved,
        in_use,
        spare / MOVE_FROM_FREE,
        spare / MOVE_IN_USE,
    )


def _drawn(steps: dict[str, list[tuple[float, float]]]) -> str:
    """Return what the service pool has over time, of the first seed."""
    curves = [Curve(name, steps[key]) for key, name in (("plans", "by plans"), ("split", "static split"))]
    end = max(points[-1][0] for points in steps.values())
    curves.append(Curve("needed", [(0.0, float(TWICE.service)), (end, float(TWICE.service))]))
    marks = [
        Mark(at, name)
        for _, loss, span in TWICE.losses
        for at, name in ((loss, "lost"), (loss + span, "back"))
    ]
    title = "GPUs of the service pool that take work, two power domains lost for an hour each"
    return draw_curves(title, "hours", "GPUs", curves, marks)


def _over(count: int, spare: float) -> float:
    """Return a count over what is left of it without the spare part."""
    return count / max(1.0, count - spare) if count else 1.0


def _defaults() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    options(parser)
    return parser.parse_args([])
