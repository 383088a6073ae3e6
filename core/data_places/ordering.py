"""The plan of a placement that was searched: what differs from the start, in an order that can be carried out.

The search may have moved a table twice, or made a copy that it dropped again: only the difference is left. Its actions keep the order of
the search, by gain per byte, and each is computed anew; one without room waits until those behind it have made some. Actions between which
the objective is above its lowest value so far are one step, and those after the lowest value of all are left out.
"""

import numpy as np
from msgspec import Struct

from core.data_places.actions import ADD_COPY, DROP_COPY, MOVE_HOME, Plan
from core.data_places.figures import figures_of
from core.data_places.placement import Placement, Tried
from core.data_places.problem import Floats, Ints, copies_of

ROUNDS_MAX = 8
"""How often the actions without room are tried again."""
LOWER = 1e-12
"""Of all demand: what is less is rounding."""


class Change(Struct, frozen=True):
    """The difference of some tables and one region that one step of the search made."""

    kind: int
    tables: Ints
    region: int
    keeps: bool


class Done(Struct, frozen=True):
    """A change that was carried out."""

    change: Change
    sources: Ints
    bytes: Ints
    objective: float
    """Afterwards."""


def plan_of(start: Placement, end: Placement, steps: list[Tried]) -> Plan:
    """Return the plan that leads from one placement to another.

    steps   of the search, in order
    """
    placement = start.snapshot()
    waiting, done = _changes(start, end, steps), list[Done]()
    for _ in range(ROUNDS_MAX):
        left = []
        for change in waiting:
            step = placement.tried(change.kind, change.tables, change.region, keeps=change.keeps)
            if step is None:
                left.append(change)
                continue
            sources = _sources(placement, change)
            copied = _copied(placement, change)
            placement.apply(step)
            done.append(Done(change, sources, copied, placement.objective))
        if not left or len(left) == len(waiting):
            break
        waiting = left
    return _told(start, placement, done)


def _changes(start: Placement, end: Placement, steps: list[Tried]) -> list[Change]:
    """Return what differs, in the order of the last step that touched each table in each region."""
    last: dict[tuple[int, int], int] = {}
    for number, step in enumerate(steps):
        for table in step.tables.tolist():
            last[table, step.region] = number
    moved = np.flatnonzero(start.home != end.home)
    keeps = end.held[moved, start.home[moved]]
    found = [
        (last[table, region], MOVE_HOME, region, keep, table)
        for table, region, keep in zip(moved.tolist(), end.home[moved].tolist(), keeps.tolist(), strict=True)
    ]
    is_new, is_gone = end.held & ~start.held, start.held & ~end.held
    is_new[moved, end.home[moved]] = False
    is_gone[moved, start.home[moved]] = False
    for kind, differs in ((ADD_COPY, is_new), (DROP_COPY, is_gone)):
        found += [
            (last.get((table, region), len(steps)), kind, region, False, table)
            for table, region in np.argwhere(differs).tolist()
        ]
    groups: dict[tuple[int, int, int, bool], list[int]] = {}
    for number, kind, region, keep, table in sorted(found):
        groups.setdefault((number, kind, region, keep), []).append(table)
    return [
        Change(kind, np.array(tables, dtype=np.int64), region, keep)
        for (_, kind, region, keep), tables in groups.items()
    ]


def _sources(placement: Placement, change: Change) -> Ints:
    """Return (tables,) the old home of a move, the region that a copy comes from, or the one that drops it."""
    home = placement.home[change.tables]
    if change.kind == DROP_COPY:
        return np.full_like(home, change.region)
    return home


def _copied(placement: Placement, change: Change) -> Ints:
    """Return (tables,) the bytes that each table's copy takes."""
    has = placement.held[change.tables, change.region]
    return np.where(has | (change.kind == DROP_COPY), 0, placement.problem.sizes[change.tables])


def _told(start: Placement, end: Placement, done: list[Done]) -> Plan:
    """Return the changes up to the lowest objective as a plan."""
    problem, prices = start.problem, start.prices
    lowest, steps, gains, count = start.objective, [0], list[float](), 0
    for number, one in enumerate(done):
        if one.objective < lowest - LOWER:
            gains.append(lowest - one.objective)
            lowest, count = one.objective, number + 1
        steps.append(len(gains))
    if count < len(done):
        end = _repeated_from(start, done[:count])
    done, steps = done[:count], steps[:count]
    lengths = [len(one.change.tables) for one in done]
    step_of = np.repeat(np.array(steps, dtype=np.int64), lengths)
    copied = _joined([one.bytes for one in done])
    home = np.where(problem.home >= 0, end.home, problem.home)
    return Plan(
        kinds=_repeated([one.change.kind for one in done], lengths),
        tables=_joined([one.change.tables for one in done]),
        sources=_joined([one.sources for one in done]),
        targets=_repeated([one.change.region for one in done], lengths),
        bytes=copied,
        gains=_shared(np.array(gains), step_of, copied),
        keeps=_repeated([one.change.keeps for one in done], lengths).astype(np.bool_),
        steps=step_of,
        before=figures_of(problem, problem.home, problem.copies, prices),
        after=figures_of(problem, home, copies_of(end.held), prices),
        bytes_total=int(copied.sum()),
    )


def _repeated_from(start: Placement, done: list[Done]) -> Placement:
    """Return the placement after some changes."""
    placement = start.snapshot()
    for one in done:
        change = one.change
        step = placement.tried(change.kind, change.tables, change.region, keeps=change.keeps)
        assert step is not None
        placement.apply(step)
    return placement


def _shared(gains: Floats, step_of: Ints, copied: Ints) -> Floats:
    """Return (actions,) each step's gain, divided among its actions by their bytes, or evenly where it copies none."""
    count = len(gains)
    of_step = np.bincount(step_of, copied, count)
    actions = np.bincount(step_of, minlength=count)
    shares = np.where(of_step[step_of] > 0, copied / np.maximum(of_step[step_of], 1), 1 / actions[step_of])
    found: Floats = gains[step_of] * shares
    return found


def _joined(arrays: list[Ints]) -> Ints:
    return np.concatenate(arrays).astype(np.int64) if arrays else np.zeros(0, dtype=np.int64)


def _repeated(values: list[int], lengths: list[int]) -> Ints:
    return np.repeat(np.array(values, dtype=np.int64), lengths)
