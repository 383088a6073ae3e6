"""A policy that believes wrong speeds, and corrects them by measured ones or does not.

Each speed of a model on a GPU type is wrong by a factor of its own, log-normal about 1. A replay plays the jobs at their true speeds and
asks the policy, which sees the believed speeds. Where the shares that held until now gave a class time, its jobs ran and their speed
was measured: half of it is averaged in (core/sharing/speeds.py), for every job of that model and width, before the next shares are solved.
"""

import random
from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from core.sharing.problem import Shares, SharingProblem
from core.sharing.speeds import Measured, Shape, SpeedTable, corrected

Solver = Callable[[SharingProblem], Shares]


def wrong_table(table: SpeedTable, sigma: float, dice: random.Random) -> SpeedTable:
    """Return the table with each speed times exp(N(0, sigma)). A speed of 0 stays: whether a job runs somewhere at all is known."""
    alone = {
        shape: {gpu_type: speed * float(np.exp(dice.gauss(0.0, sigma))) for gpu_type, speed in row.items()}
        for shape, row in table.alone.items()
    }
    return SpeedTable(alone, table.together)


class Believing:
    """Shares by believed speeds; to be called as a policy is, problem by problem in the order of time."""

    def __init__(self, solve: Solver, true: SpeedTable, believed: SpeedTable, *, is_corrected: bool) -> None:
        """Begin with the believed table. All jobs of all problems must be in the true one."""
        self.believed = believed
        self._solve, self._true, self._is_corrected = solve, true, is_corrected
        self._ran: list[tuple[Shape, str]] = []
        """Shapes, each with a GPU type on which it had time by the newest shares."""
        self._shapes: dict[tuple[int, bytes], Shape] = {}

    def __call__(self, problem: SharingProblem) -> Shares:
        """Return the shares, after the speeds of all that ran since the last call were measured."""
        if self._is_corrected:
            measured = [Measured(shape, name, self._true.alone[shape][name]) for shape, name in self._ran]
            self.believed = corrected(self.believed, measured)
        types = [column.gpu_type for column in problem.columns]
        shapes = self._shapes_of(problem, types)
        rows = [[self.believed.alone[shape].get(name, 0.0) for name in types] for shape in shapes]
        shares = self._solve(replace(problem, speeds=np.array(rows)))
        ran = [(shapes[row], types[column]) for row, column in np.argwhere(shares.alone > 0).tolist()]
        self._ran = list(dict.fromkeys(ran))
        return shares

    def _shapes_of(self, problem: SharingProblem, types: list[str]) -> list[Shape]:
        """Return the shape of each class, which its width and true speeds tell: two shapes with the same of both are alike."""
        if not self._shapes:
            for shape, row in self._true.alone.items():
                speeds = np.array([row.get(name, 0.0) for name in types])
                self._shapes.setdefault((shape[1], speeds.tobytes()), shape)
        return [
            self._shapes[one.gpus, problem.speeds[row].tobytes()] for row, one in enumerate(problem.classes)
        ]
