"""The planner's solver in virtual time: the real one, called at once; how long it seems to take is drawn."""

import random

from core.component import Effect
from core.effects import SolvePrices
from core.messages.prices import PricesSolved
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
        assert isinstance(effect, SolvePrices), effect
        from runtime.solvers.fluid import (
            solve_prices,
        )  # Most installations have no solver, and most scenarios no planner.

        dice = random.Random(f"solver/{self._seed}/{effect.region}/{effect.revision}/{self._clock.now()}")
        problem = effect.problem
        prices = solve_prices(problem.classes, problem.mix, arrivals=problem.arrivals)
        answer = PricesSolved(effect.region, effect.revision, prices)
        asked_by = self._done

        def answer_whoever_asked() -> None:
            if self._done is asked_by and asked_by is not None:
                asked_by(answer)

        self._clock.call_at(
            after(self._clock.now(), Nanoseconds(dice.randrange(LONGEST))), answer_whoever_asked
        )
