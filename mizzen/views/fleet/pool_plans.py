"""The newest plan of each region's pools: the nodes that move, how far the moves have come, and the capacity of pools afterwards.

Beside the plan stands the rest that the loss of each power domain would leave now, and the reason why no newer plan is there.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from bus.port import Bus
from core.images import RegionImage
from core.images.capacity import Capacity
from core.messages.planning import ConcernShown, ShowConcern
from core.nouns.ids import RegionName
from core.nouns.instant import Instant
from core.nouns.placement import numbers_in
from core.nouns.pool import Survives
from core.nouns.pooling import NodesMove, PoolingPolicy, PoolsPlan
from core.pooling.choice import MILLIONTHS
from core.pooling.moving import going_to, pools_by_node
from core.pooling.problem import MOVE
from mizzen.connect.plane import ask
from mizzen.terminal.output import CommandError
from mizzen.views.fleet.pool_needs import NO_FIGURE, Needs, alone_text, losses_table, needs_of
from mizzen.views.fleet.pool_table import SECTIONS
from mizzen.views.phrases.durations import short_text
from mizzen.views.phrases.planner_text import planner_text
from mizzen.views.phrases.pool_text import WHY, listed, nodes_count, staying_text
from mizzen.views.phrases.text import columns_text, nodes_text
from mizzen.views.plane_reads import region_images

CONCERN = "pools"
"""The planner's name for plans of pools."""
COMES_SOON = "a new plan comes within a minute"
MOVES = ("FROM", "TO", "NODES", "IN USE", "MOVED", "WAITING", "NODELIST")
STANDINGS = ("POOL", "TYPE", "NEEDS", "HAS", "LEFT", "SHORT")
FIGURES = (*MOVES[2:6], *STANDINGS[2:])


class MoveProgress(Struct, frozen=True):
    """How far one move of a plan has come, in nodes."""

    moved: int
    """Nodes that are in their pool."""
    waiting: int
    """Nodes that are closed until they are vacant."""
    staying: int
    """All others: nodes that were lost or closed, did not become vacant in time, or of a plan that is not applied."""


class PlanShown(Struct, frozen=True):
    """The newest plan of one region's pools."""

    region: RegionName
    policy: PoolingPolicy
    has_needs: bool
    plan: PoolsPlan
    planned_at: int
    is_applied: bool
    is_outdated: bool
    """Whether needs or settings have changed since the plan was made."""
    progress: tuple[MoveProgress, ...]
    """By move of the plan."""
    survivors: tuple[str, ...]
    """Pools that are to have what they need after the loss of a power domain."""
    needs: Needs
    planner: ConcernShown | None
    """State of the planner; None: no planner answers."""


async def plans_of_plane(bus: Bus, region: str) -> tuple[list[PlanShown], list[tuple[RegionName, str]]]:
    """Return the newest plan of each chosen region, and the regions without an answer, each with the reason. Raises CommandError."""
    images, silent = await region_images(bus, region, SECTIONS)
    return [plan_shown(name, image, await _planner_of(bus, name)) for name, image in images], silent


async def _planner_of(bus: Bus, region: RegionName) -> ConcernShown | None:
    try:
        return await ask(bus, ShowConcern(CONCERN, region), ConcernShown)
    except CommandError:
        return None


def plan_shown(region: RegionName, image: RegionImage, planner: ConcernShown | None) -> PlanShown:
    """Return the newest plan of a region.

    planner   state of the planner; None: no planner answers
    """
    pools = image.pools
    plan = replace(pools.plan, moves=merged(pools.plan.moves))
    survives = (name for name, one in pools.settings.items() if one.survives is Survives.POWER_DOMAIN)
    return PlanShown(
        region,
        pools.policy,
        pools.has_needs,
        plan,
        pools.planned_at,
        pools.is_applied,
        bool(plan.number) and plan.basis.revision != pools.revision,
        progress_of(image.capacity, plan.moves) if plan.moves else (),
        tuple(sorted(survives)),
        needs_of(region, image),
        planner,
    )


def merged(moves: Iterable[NodesMove]) -> tuple[NodesMove, ...]:
    """Return moves with one for each pair of pools: facts tell a move of many nodes in parts."""
    found: dict[tuple[str, str], NodesMove] = {}
    for move in moves:
        key = (move.pool_from, move.pool_to)
        known = found.get(key, NodesMove(*key, ()))
        found[key] = NodesMove(*key, (*known.nodes, *move.nodes), known.in_use + move.in_use)
    return tuple(found.values())


def progress_of(capacity: Capacity, moves: Iterable[NodesMove]) -> tuple[MoveProgress, ...]:
    """Return how far each move has come. Reads every node."""
    pools, going = pools_by_node(capacity), going_to(capacity)
    found = []
    for move in moves:
        nodes = numbers_in(move.nodes)
        moved = sum(pools[node] == move.pool_to for node in nodes)
        waiting = sum(pools[node] != move.pool_to == going.get(node) for node in nodes)
        found.append(MoveProgress(moved, waiting, len(nodes) - moved - waiting))
    return tuple(found)


def builtins_of(shown: PlanShown) -> dict[str, Any]:  # Any: whatever JSON can hold
    """Return a plan as JSON has it: each move by names, with how far it has come."""
    told: dict[str, Any] = to_builtins(shown)  # Any: as above
    told["plan"]["moves"] = [
        {**asdict(move), **asdict(done)} for move, done in zip(shown.plan.moves, shown.progress, strict=True)
    ]
    told["plan"]["standings"] = [asdict(one) for one in shown.plan.standings]
    del told["progress"]
    return told


# Text.


def plan_lines(shown: PlanShown, now: Instant, width: int | None) -> list[str]:
    """Return the plan of one region as lines."""
    region = shown.region
    if not shown.has_needs:
        return [
            f"no pool of {region} has needs; `mizzen pools need POOL H100=400 --region {region}` states some"
        ]
    if not shown.plan.number:
        return [_without_plan(shown), *_needs_lines(shown, width)]
    return [
        *_head(shown, now, width),
        *_standing_lines(shown, width),
        *_needs_lines(shown, width),
        *_state_lines(shown),
    ]


def _without_plan(shown: PlanShown) -> str:
    why, planner = planner_text(shown.planner), shown.planner
    if not why and planner is not None:
        looks = f"looks in {short_text(planner.again_in)}" if planner.again_in >= 0 else "has not looked yet"
        why = f"the planner {looks}"
    return f"there is no plan of {shown.region} yet: {why}"


def _head(shown: PlanShown, now: Instant, width: int | None) -> list[str]:
    """Return the lines about the moves: which, why, and their cost."""
    plan = shown.plan
    age = short_text(max(0, now - shown.planned_at))
    start = f"plan {plan.number} of {shown.region}, {age} ago, {WHY[plan.why]}"
    if not plan.moves:
        return [f"{start}: no node moves"]
    in_use = sum(move.in_use for move in plan.moves)
    count = f"{nodes_count(plan.nodes)} {'move' if plan.nodes > 1 else 'moves'}"
    lines = [f"{start}: {count}, {in_use or 'none'} of them in use", *_moves_table(shown, width)]
    lines.append(f"{_cost_text(plan)}; {_bound_text(plan)}")
    if plan.is_bounded:
        lines.append("no more nodes may move at once; another plan follows for what is short still")
    return lines


def _moves_table(shown: PlanShown, width: int | None) -> list[str]:
    rows = [
        (
            move.pool_from,
            move.pool_to,
            sum(last - first + 1 for first, last in move.nodes),
            move.in_use,
            done.moved if shown.is_applied else NO_FIGURE,
            done.waiting if shown.is_applied else NO_FIGURE,
            nodes_text(shown.region, move.nodes),
        )
        for move, done in zip(shown.plan.moves, shown.progress, strict=True)
    ]
    return _table(MOVES, rows, width)


def _cost_text(plan: PoolsPlan) -> str:
    cost = plan.cost / MOVE
    return f"that costs as much as moving {cost:g} empty {'node' if cost == 1 else 'nodes'}"


def _bound_text(plan: PoolsPlan) -> str:
    """Return how much cheaper another plan could be: the solver's proof."""
    percent = -(-plan.gap * 10_000 // MILLIONTHS) / 100  # Rounded up: less than that is proved.
    more = f" by more than {percent:g}%" if plan.gap > 0 else ""
    return f"no plan that leaves as little short is cheaper{more}"


def _standing_lines(shown: PlanShown, width: int | None) -> list[str]:
    rows = [
        (
            one.pool,
            one.node_type,
            one.needs,
            one.has,
            one.left if one.pool in shown.survivors else NO_FIGURE,
            one.short,
        )
        for one in shown.plan.standings
    ]
    if not rows:
        return []
    title = "with these moves pools have:" if shown.plan.moves else "pools have:"
    return [title, *_table(STANDINGS, rows, width)]


def _needs_lines(shown: PlanShown, width: int | None) -> list[str]:
    """Return the rest after each loss, as nodes are now."""
    needs = shown.needs
    table = losses_table(needs.losses, _less(width))
    lines = ["as nodes are now, the loss of a power domain would leave:", *_indented(table)] if table else []
    lines += [alone_text(shown.region, one) for one in needs.alone]
    if needs.still:
        are = "is" if len(needs.still) == 1 else "are"
        lines.append(
            f"{listed(list(needs.still))} {are} left alone while a drain or planned work names the whole pool"
        )
    return lines


def _state_lines(shown: PlanShown) -> list[str]:
    """Return what happens next, or what an operator is to do."""
    lines = []
    staying = sum(one.staying for one in shown.progress)
    if shown.is_applied and staying:
        lines.append(staying_text(staying))
    why = planner_text(shown.planner)
    if shown.is_outdated:
        return [*lines, f"needs or settings have changed since: {why or COMES_SOON}"]
    if not shown.is_applied and shown.plan.moves:
        lines.append(
            f"the plan is not applied: `mizzen pools apply --plan {shown.plan.number} --region {shown.region}` does it"
        )
    return [*lines, *([why] if why else [])]


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]], width: int | None) -> list[str]:
    return _indented(columns_text(columns, rows, _less(width), FIGURES))


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _less(width: int | None) -> int | None:
    return None if width is None else width - 2
