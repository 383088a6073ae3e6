"""Shares by a policy: the policy's programmes are solved one after the other, on the problem with like pools merged.

A programme goes to one solver after the other until an answer passes its check: a linear one to HiGHS's simplex, then to its interior
point, then to Clarabel's; a conic one to Clarabel, in two ways. `Shares.by` names the solver that answered.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from msgspec.structs import replace

from core.sharing.bounds import within_bounds
from core.sharing.policies import POLICIES
from core.sharing.problem import Shares, SharingProblem, checked, merged, split_again, unpriced
from core.sharing.programmes import LinearProgramme, Programme, Solution
from runtime.errors import NotSolved
from runtime.solvers.linear import INTERIOR_POINT, SIMPLEX, solve_linear

Solver = Callable[[LinearProgramme], Solution]
"""Returns a checked solution, or raises NotSolved with the solver's name."""


def solve_shares(name: str, problem: SharingProblem, linear: Sequence[Solver] | None = None) -> Shares:
    """Return the shares that the policy of this name gives. Raises BadProblem, or NotSolved where no solver has an answer.

    linear   the solvers of linear programmes, in order; None: all
    """
    policy = POLICIES[name]
    smaller, split = checked(problem), None
    if not smaller.classes:
        return Shares(np.zeros((0, len(smaller.columns)), dtype=np.int64), smaller.none_together)
    if not policy.is_whole:
        smaller, split = merged(smaller if policy.reads_prices else unpriced(smaller))
    steps = policy.steps(smaller)
    try:
        programme = next(steps)
        while True:
            programme = steps.send(solve(programme, linear))
    except StopIteration as stop:
        shares: Shares = stop.value
    if len(shares.together) != len(smaller.pairs):
        # A policy that leaves pairs out: no pair has a share.
        shares = replace(shares, together=smaller.none_together)
    shares = within_bounds(smaller, shares)
    return shares if split is None else split_again(shares, split)


def solve(programme: Programme, linear: Sequence[Solver] | None = None) -> Solution:
    """Return the first solution that passes its check. Raises NotSolved, with the words of each solver.

    linear   the solvers of linear programmes, in order; None: all
    """
    if not isinstance(programme, LinearProgramme):
        from runtime.solvers.conic import solve_conic

        return solve_conic(programme)
    failed = []
    for solver in LINEAR if linear is None else linear:
        try:
            return solver(programme)
        except NotSolved as error:
            failed.append(str(error))
    raise NotSolved("; ".join(failed))


def _as_conic(programme: LinearProgramme) -> Solution:
    """Return the solution by Clarabel, whose libraries take a quarter of a second to load: no process does that without need."""
    from runtime.solvers.conic import solve_linear_as_conic

    return solve_linear_as_conic(programme)


LINEAR: tuple[Solver, ...] = (
    partial(solve_linear, methods=(SIMPLEX,)),
    partial(solve_linear, methods=(INTERIOR_POINT,)),
    _as_conic,
)
"""The solvers of linear programmes, in the order in which they are asked."""
