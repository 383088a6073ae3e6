"""The actions of a plan, in the order in which they are to be carried out."""

from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from core.data_places.figures import Figures
from core.data_places.problem import DataProblem, Flags, Floats, Ints, copies_of

MOVE_HOME: Final = 0
"""The target gets a copy if it has none, and becomes the home; then the old home's copy is dropped, unless the action keeps it."""
ADD_COPY: Final = 1
DROP_COPY: Final = 2
KIND_NAMES: Final = ("move_home", "add_copy", "drop_copy")


class Plan(Struct, frozen=True):
    """Actions, a place in each array, with the figures before the first and after the last.

    Each action is possible when those before it are done. The objective does not rise from one step to the next; within a step, which moves or
    copies tables that are read together, it may.
    """

    kinds: Ints
    """(actions,) `MOVE_HOME`, `ADD_COPY` or `DROP_COPY`."""
    tables: Ints
    """(actions,)."""
    sources: Ints
    """(actions,) the region that is copied from, the home of old for a move; of a drop, the region that drops."""
    targets: Ints
    """(actions,) the region that has the copy or the home afterwards; of a drop, the region that drops."""
    bytes: Ints
    """(actions,) copied; 0 where the target has the table already."""
    gains: Floats
    """(actions,) by how much the objective falls: the gain of a step, divided among its actions by their bytes."""
    keeps: Flags
    """(actions,) whether a move keeps the copy of the old home."""
    steps: Ints
    """(actions,) the number of the step, from 0."""
    before: Figures
    after: Figures
    bytes_total: int


def carried_out(problem: DataProblem, plan: Plan, count: int | None = None) -> DataProblem:
    """Return the problem with the homes and copies that the first actions of a plan lead to.

    count   actions; None: all
    """
    held, home = problem.held.copy(), problem.home.copy()
    for action in range(len(plan.kinds) if count is None else count):
        table, target = plan.tables[action], plan.targets[action]
        held[table, target] = plan.kinds[action] != DROP_COPY
        if plan.kinds[action] == MOVE_HOME:
            home[table] = target
            held[table, plan.sources[action]] = plan.keeps[action]
    return replace(problem, home=home, copies=np.asarray(copies_of(held)))
