"""The planner's solver in virtual time: the real one, called at once; how long it seems to take is drawn."""

import random

from core.component import Effect
from core.effects import SolvePrices, SolveShares
from core.messages.prices import PricesSolved
from core.messages.sharing import SharesSolved, SharesUnsolved
from core.nouns.instant import SECOND, Nanoseconds, after
from runtime.clock import Clock
from runtime.effects import Done

LONGEST: Nanoseconds = Nanoseconds(5 * SECOND)
"""A region of the size of the public trace takes a fifth of that."""


class SimulatedSolver:
    """What one planner asks, it answers some seconds later, if that planner is still there."""

    def __init__(self, seed: int, clock: Clock) -> None:
        self._seed = seed
        self._clock = clock
        self._done: Done | None = None

    def attach(self, done: Done) -> None:
        """A planner has just started."""
        self._done = done

    def detach(self) -> None:
        """It is gone, and with it whatever was being solved."""
        self._done = None

    def begin(self, effect: Effect) -> None:
        """Solve it."""
        assert isinstance(effect, SolvePrices | SolveShares), effect
        answer = _prices_of(effect) if isinstance(effect, SolvePrices) else _shares_of(effect)
        of, revision = (
            (effect.region, effect.revision)
            if isinstance(effect, SolvePrices)
            else ("", effect.asked.revision)
        )
        dice = random.Random(f"solver/{self._seed}/{of}/{revision}/{self._clock.now()}")
        asked_by = self._done

        def answer_whoever_asked() -> None:
            if self._done is asked_by and asked_by is not None:
                asked_by(answer)

        self._clock.call_at(
            after(self._clock.now(), Nanoseconds(dice.randrange(LONGEST))), answer_whoever_asked
        )


# Most installations have no solver, and most scenarios no planner: solvers are imported when they are asked.


def _prices_of(effect: SolvePrices) -> PricesSolved:
    from runtime.solvers.fluid import solve_prices

    problem = effect.problem
    prices = solve_prices(problem.classes, problem.mix, arrivals=problem.arrivals)
    return PricesSolved(effect.region, effect.revision, prices)


def _shares_of(effect: SolveShares) -> SharesSolved | SharesUnsolved:
    from core.sharing.problem import BadProblem
    from runtime.errors import NotSolved
    from runtime.solvers.sharing import solve_shares

    asked = effect.asked
    try:
        return SharesSolved(asked.answer(solve_shares(asked.policy, asked.problem)))
    except (BadProblem, NotSolved) as error:
        return SharesUnsolved(asked.revision, str(error))
