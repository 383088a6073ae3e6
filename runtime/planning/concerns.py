"""How the problems of each of the planner's concerns are solved, wherever that is: in a process of its own, or at once in virtual time.

A concern of components/planner/concerns/ has one entry in `SOLVERS`. Solvers are imported when a problem is solved, so a process that
only reads this table loads none.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from core.data_places.asked import AskedData, PlannedData
from core.data_places.problem import BadDataProblem, checked
from core.effects import Solve
from core.messages.solving import Solved, Unsolved
from core.nouns.instant import Nanoseconds
from core.nouns.limits import DATA_SPAN, POOLS_SPAN, PRICES_SPAN, SHARES_SPAN
from core.nouns.prices import Prices
from core.nouns.sharing import PoolShares
from core.pooling.problem import Pooled, PoolingProblem
from core.pricing.problem import PricingProblem
from core.sharing.asked import AskedShares
from core.sharing.bounds import excess_of
from core.sharing.policies import POLICIES
from core.sharing.problem import BadProblem
from runtime.errors import NotSolved

SOLVER = "highspy"
"""The module by which an installation with the extra `planner` is known."""


class ConcernSolver(Struct, frozen=True):
    """How the problems of one concern are solved. Problems and answers cross pipes as MessagePack, so neither holds arrays."""

    problem: type[Struct]
    answer: type[Struct]
    solve: Callable[[Any], Struct]  # Any: a `problem`
    """Return an `answer` that was checked. Raises NotSolved with a sentence."""
    span: Nanoseconds
    """The most time for one problem, with the start of its process."""
    needs: str = SOLVER
    """The module without which nothing is solved; empty: none."""


def solved_at_once(effect: Solve) -> Solved | Unsolved:
    """Return what comes of a problem that is solved here and now."""
    try:
        answer = SOLVERS[effect.concern].solve(effect.problem)
    except NotSolved as error:
        return Unsolved(effect.concern, effect.key, effect.revision, str(error))
    return Solved(effect.concern, effect.key, effect.revision, answer)


def _solve_prices(problem: PricingProblem) -> Prices:
    from runtime.solvers.fluid import solve_prices

    return solve_prices(problem.classes, problem.mix, arrivals=problem.arrivals)


def _solve_shares(asked: AskedShares) -> PoolShares:
    from runtime.solvers.sharing import solve_shares

    if asked.policy not in POLICIES:
        raise NotSolved(f"{asked.policy}: there is no such policy")
    problem = asked.problem
    try:
        shares = solve_shares(asked.policy, problem)
    except BadProblem as error:
        raise NotSolved(str(error)) from error
    wrong = excess_of(problem, shares)
    if wrong:
        raise NotSolved(f"it gives what there is not: {wrong}")
    return asked.answer(shares)


def _solve_data(asked: AskedData) -> PlannedData:
    from core.data_places.search import planned

    try:
        return asked.answer(planned(checked(asked.problem)))
    except BadDataProblem as error:
        raise NotSolved(str(error)) from error


def _solve_pools(problem: PoolingProblem) -> Pooled:
    from runtime.solvers.pools import solve_pools

    return solve_pools(problem)


SOLVERS: dict[str, ConcernSolver] = {
    "prices": ConcernSolver(PricingProblem, Prices, _solve_prices, PRICES_SPAN),
    "shares": ConcernSolver(AskedShares, PoolShares, _solve_shares, SHARES_SPAN),
    "data": ConcernSolver(AskedData, PlannedData, _solve_data, DATA_SPAN, needs=""),
    "pools": ConcernSolver(PoolingProblem, Pooled, _solve_pools, POOLS_SPAN),
}
"""By the name of the concern."""
