"""A plan of moves for people: what it gains, what it costs, and each move; and what became of its word."""

from collections.abc import Iterable

from core.defrag.revalidation import called
from core.nouns.defragmentation import Freed, Freeing, Plan, PlannedMove
from core.nouns.placement import Spread, runs_of
from mizzen.actions.defrag import Executed
from mizzen.views.phrases.durations import short_text
from mizzen.views.phrases.text import columns_text, gpus_text, nodes_text, numbers_text

COLUMNS = ("FREES", "MOVES", "GPUS", "FROM", "TO", "LOST", "ASKS")
FIGURES = ("GPUS", "LOST")
GAINS = ("", "BEFORE", "AFTER")
SKIPPED_SHOWN_MAX = 20
"""JSON has them all."""


def lines_of(plan: Plan, width: int | None = None) -> list[str]:
    """First what it comes to, then what is gained, then the moves, the cheapest first."""
    if not plan.freed:
        return [f"nothing would come free in {plan.region}{_why(plan)}", *_reasons(plan)]
    rows = [_cells(plan, freed, move) for freed in plan.freed for move in freed.moves]
    return [
        _head(plan),
        "",
        *_indented(columns_text(GAINS, _gains(plan), width, GAINS[1:])),
        "",
        *_indented(columns_text(COLUMNS, rows, width, FIGURES)),
        *_reasons(plan),
    ]


def _head(plan: Plan) -> str:
    what = _freed_text(plan)
    moves = len(plan.moves)
    per_move = plan.summary.get("gpus_freed_per_move", 0)
    return (
        f"{moves} {'move' if moves == 1 else 'moves'} would free {what} of {plan.region} and destroy {plan.destroyed} "
        f"GPU-seconds of work: {per_move:g} GPUs a move; nothing is asked for yet"
    )


def _freed_text(plan: Plan) -> str:
    if plan.freeing is Freeing.RACKS:
        count = sum(len(freed.racks) for freed in plan.freed)
        return f"{count} {'rack' if count == 1 else 'racks'}"
    count = sum(len(freed.nodes) for freed in plan.freed)
    return f"{count} {'node' if count == 1 else 'nodes'}"


def _gains(plan: Plan) -> list[tuple[str, int, int]]:
    before, after = plan.before, plan.after
    rows = [
        (f"free nodes of {before.nodes}", before.free_nodes, after.free_nodes),
        (f"free racks of {before.racks}", before.free_racks, after.free_racks),
        ("free GPUs", before.free_gpus, after.free_gpus),
        ("on free nodes", before.whole_gpus, after.whole_gpus),
        ("short of CPUs or memory", before.stranded_gpus, after.stranded_gpus),
    ]
    for extent, gpus in before.largest_gangs.items():
        rows.append((f"largest gang in a {extent}", gpus, after.largest_gangs.get(extent, 0)))
    return rows


def _cells(plan: Plan, freed: Freed, move: PlannedMove) -> tuple[object, ...]:
    region = plan.region
    frees = (
        f"rack {numbers_text(runs_of(freed.racks))}"
        if freed.racks
        else nodes_text(region, runs_of(freed.nodes))
    )
    name = called(move.key, move.task)
    where = (_nodes_text(region, move.spreads_from), _nodes_text(region, move.spreads_to))
    return frees, name, gpus_text(move.gpu_milli), *where, move.destroyed, move.controller or "-"


def _nodes_text(region: str, spreads: Iterable[Spread]) -> str:
    return nodes_text(region, runs_of({node for spread in spreads for node in spread.nodes}))


def _why(plan: Plan) -> str:
    what = "rack" if plan.freeing is Freeing.RACKS else "node"
    return f": no {what} is in use that could" if not plan.stays else ""


def _reasons(plan: Plan) -> list[str]:
    """Why others do not come free."""
    what = "racks" if plan.freeing is Freeing.RACKS else "nodes"
    rows = sorted(plan.stays.items(), key=lambda row: (-row[1], row[0]))
    found = [f"  {count} {what if count > 1 else what[:-1]}: {why}" for why, count in rows]
    return ["", "stays in use:", *found] if found else []


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}".rstrip() for line in lines]


def executed_lines(done: Executed) -> list[str]:
    """Its name first, by which it is followed and taken back; then what is left out."""
    lines = []
    if done.name:
        where = f"{nodes_text(done.region, done.node_runs)} ({done.nodes} {'node' if done.nodes == 1 else 'nodes'})"
        moves = f"{done.moves} {'move is' if done.moves == 1 else 'moves are'} asked for"
        lines.append(
            f"{done.name} frees {where}: {moves}, and work that has not agreed in {short_text(done.lasts)} stays; "
            f"`mizzen defrag {done.region} --status` shows it, `mizzen undrain {done.name}` takes it back"
        )
    else:
        lines.append(f"nothing of this plan holds any more in {done.region}; nothing is asked for")
    for runs, why in done.skipped[:SKIPPED_SHOWN_MAX]:
        lines.append(f"  left out: {nodes_text(done.region, runs)}: {why}")
    more = len(done.skipped) - SKIPPED_SHOWN_MAX
    return [*lines, *([f"  and {more} more"] if more > 0 else [])]
