"""The shares of jobs that are all there at one time, for people and as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from core.sharing.building import Built, JobProgress, built
from core.sharing.policies import POLICIES
from core.sharing.problem import MILLIONTHS, BadProblem, Shares
from mizzen.terminal.output import CommandError
from mizzen.views.phrases.text import columns_text
from mizzen.views.policies.inputs import plain
from mizzen.views.policies.setting import Setting
from runtime.errors import NotSolved
from runtime.planning.own_policies import solve_own
from runtime.solvers.sharing import solve_shares


class Solved(Struct, frozen=True):
    """What a policy gives."""

    policy: str
    built: Built
    shares: Shares
    notes: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """Return the columns as people call them."""
        places = [(one.region, one.gpu_type, one.placement) for one in self.built.problem.columns]
        return ["/".join(part for part in place if part) for place in places]


def shares_of(given: Setting, policy: str) -> Solved:
    """Return what a policy gives all jobs at once. Raises CommandError."""
    fleet = given.fleet
    progress = [JobProgress(job, job.steps, order=order) for order, job in enumerate(given.jobs)]
    is_own = policy not in POLICIES
    is_by_job = is_own or POLICIES[policy].is_by_job
    try:
        found = built(
            progress,
            fleet.pools,
            fleet.speeds,
            is_by_job=is_by_job,
            has_pairs=given.has_pairs,
            has_placement=fleet.has_placement,
            reads_entities=is_own or POLICIES[policy].reads_entities,
            entity_weights=fleet.entity_weights,
        )
        shares = solve_own(Path(policy), found.problem) if is_own else solve_shares(policy, found.problem)
    except (BadProblem, NotSolved) as error:
        raise CommandError(f"{policy}: {plain(error, policy)}") from error
    return Solved(policy, found, shares, (*given.notes, *shares.notes))


def told(solved: Solved) -> dict[str, Any]:  # Any: whatever JSON can hold
    """Return all of it: parts of each job's time, and of pairs how many run at a time."""
    problem, columns = solved.built.problem, solved.columns
    rows = zip(problem.classes, solved.built.members, solved.shares.alone.tolist(), strict=True)
    return {
        "policy": solved.policy,
        "objective": solved.shares.objective,
        "solved_by": solved.shares.by,
        "notes": list(solved.notes),
        "classes": [
            {"class": one.name, "jobs": list(members), "gpus": one.gpus, "shares": _by_column(columns, parts)}
            for one, members, parts in rows
        ],
        "together": [
            {"classes": list(names), "pairs": _by_column(columns, parts)}
            for names, parts in _together(solved)
        ],
    }


def lines_of(solved: Solved) -> list[str]:
    """Return a line for each class, then for each pair of classes that shares GPUs, then what there is to say."""
    problem, columns = solved.built.problem, solved.columns
    rows = [
        (one.name, one.count, one.gpus, *(_percent(part) for part in parts))
        for one, parts in zip(problem.classes, solved.shares.alone.tolist(), strict=True)
    ]
    figures = ("JOBS", "GPUS", *columns)
    lines = columns_text(("CLASS", *figures), rows, right=figures)
    together = [
        (" beside ".join(names), *(f"{part / MILLIONTHS:.2f}" if part else "-" for part in parts))
        for names, parts in _together(solved)
    ]
    if together:
        lines += ["", *columns_text(("PAIRS AT A TIME", *columns), together, right=columns)]
    by = f", solved by {solved.shares.by}" if solved.shares.by else ""
    return [*lines, "", f"{solved.policy}: objective {solved.shares.objective:.6g}{by}", *solved.notes]


def _together(solved: Solved) -> list[tuple[tuple[str, str], list[int]]]:
    problem = solved.built.problem
    rows = zip(problem.pairs, solved.shares.together.tolist(), strict=True)
    return [
        ((problem.classes[pair.first].name, problem.classes[pair.second].name), parts)
        for pair, parts in rows
        if any(parts)
    ]


def _by_column(columns: Sequence[str], parts: Sequence[int]) -> dict[str, float]:
    return {column: part / MILLIONTHS for column, part in zip(columns, parts, strict=True)}


def _percent(part: int) -> str:
    return f"{100 * part / MILLIONTHS:.1f}%" if part else "-"
