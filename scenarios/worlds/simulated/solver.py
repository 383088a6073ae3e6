"""The planner's solver in virtual time: the real one, called at once; how long it seems to take is drawn."""

import random

from core.component import Effect
from core.effects import Solve
from core.nouns.instant import SECOND, Nanoseconds, after
from runtime.clock import Clock
from runtime.effects import Done
from runtime.planning.concerns import solved_at_once

LONGEST: Nanoseconds = Nanoseconds(5 * SECOND)
"""A region of the size of the public trace takes a fifth of that."""


class SimulatedSolver:
    """What one planner asks, it answers some seconds later, if that planner is still there. No problem waits for another."""

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
        assert isinstance(effect, Solve), effect
        answer, now = solved_at_once(effect), self._clock.now()
        dice = random.Random(f"solver/{self._seed}/{effect.key}/{effect.revision}/{now}")
        asked_by = self._done

        def answer_whoever_asked() -> None:
            if self._done is asked_by and asked_by is not None:
                asked_by(answer)

        self._clock.call_at(after(now, Nanoseconds(dice.randrange(LONGEST))), answer_whoever_asked)
