"""The nodes that move, for an answer in counts: whole racks of a class first, then what is left in as few racks as possible."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.nouns.placement import runs_of
from core.nouns.pooling import MoveReason, NodesMove, PoolsBasis, PoolsPlan, PoolStanding
from core.pooling.classes import Likeness, Standing, likeness_of
from core.pooling.figures import cost_of, gpus_of, left_of, short_of, shortage_of
from core.pooling.problem import Moved, Pooled, PoolingProblem

MILLIONTHS = 1_000_000


class Chosen(Struct, frozen=True):
    """The nodes that move."""

    moves: tuple[NodesMove, ...]
    """By pools."""
    counted: tuple[Moved, ...]
    """The same in counts, as in an answer."""


def chosen(problem: PoolingProblem, answer: Pooled, standing: Standing, rack: Sequence[int]) -> Chosen:
    """Return the nodes for an answer. Of a class that has fewer nodes by now than are to move, all are taken; the next plan reckons with that.

    standing   the region now
    rack       by node
    """
    left = {like: list(nodes) for like, nodes in standing.nodes.items()}
    found: dict[tuple[str, str], list[int]] = {}
    in_use: dict[tuple[str, str], int] = {}
    counted: list[Moved] = []
    for move in answer.moves:
        one = problem.classes[move.node_class]
        like, pool = likeness_of(problem, one), problem.pools[move.pool]
        mine = left.get(like, [])
        nodes = in_racks(mine, move.count, rack)
        if not nodes:
            continue
        taken = frozenset(nodes)
        left[like] = [node for node in mine if node not in taken]
        found.setdefault((like.pool, pool), []).extend(nodes)
        in_use[like.pool, pool] = in_use.get((like.pool, pool), 0) + (len(nodes) if like.is_in_use else 0)
        counted.append(Moved(move.node_class, move.pool, len(nodes)))
    moves = (NodesMove(*pools, runs_of(nodes), in_use[pools]) for pools, nodes in sorted(found.items()))
    return Chosen(tuple(moves), tuple(counted))


def in_racks(nodes: Sequence[int], count: int, rack: Sequence[int]) -> list[int]:
    """Return `count` of these nodes: the largest racks that fit whole, then the rest from the smallest rack that holds it, or from the largest."""
    by_rack: dict[int, list[int]] = {}
    for node in nodes:
        by_rack.setdefault(rack[node], []).append(node)
    taken: list[int] = []
    parts: list[list[int]] = []
    for mine in sorted(by_rack.values(), key=lambda mine: (-len(mine), mine)):
        if len(mine) <= count - len(taken):
            taken += mine
        else:
            parts.append(mine)
    # Racks are the largest first: the smallest that holds the rest is the last one.
    for mine in sorted(parts, key=lambda mine: (len(mine), mine)):
        if len(taken) < count:
            taken += mine[: count - len(taken)]
    return sorted(taken)


def plan_of(
    problem: PoolingProblem,
    answer: Pooled,
    choice: Chosen,
    standing: Standing,
    number: int,
    why: MoveReason,
    basis: PoolsBasis,
) -> PoolsPlan:
    """Return the plan of the nodes that move, with what pools have then.

    standing   of the problem
    """
    moved: Counter[tuple[Likeness, str]] = Counter()
    for one in choice.counted:
        like = likeness_of(problem, problem.classes[one.node_class])
        moved[like, problem.pools[one.pool]] += one.count
    gpus = gpus_of(problem, choice.counted)
    wanted, taken = (sum(one.count for one in of) for of in (answer.moves, choice.counted))
    # What was taken meanwhile is planned anew at the next look: no region has an empty digest.
    is_whole = taken == wanted
    is_better = shortage_of(problem, gpus) < shortage_of(problem, gpus_of(problem))
    has, left, short = gpus.sum(axis=2).tolist(), left_of(gpus).tolist(), short_of(problem, gpus).tolist()
    standings = tuple(
        PoolStanding(
            pool,
            node_type,
            problem.needs[place][kind],
            has[place][kind],
            left[place][kind],
            short[place][kind],
        )
        for place, pool in enumerate(problem.pools)
        for kind, node_type in enumerate(problem.node_types)
        if problem.needs[place][kind]
    )
    is_short = any(one.short for one in standings)
    return PoolsPlan(
        number,
        choice.moves,
        standings,
        cost_of(problem, choice.counted),
        round(answer.bound),
        round(answer.gap * MILLIONTHS),
        is_bounded=is_short and is_better and wanted >= problem.moves_max,
        why=why,
        after=standing.digest_after(moved) if is_whole else "",
        basis=basis if is_whole else replace(basis, digest=""),
    )
