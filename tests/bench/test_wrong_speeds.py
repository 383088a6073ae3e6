"""A policy that believes wrong speeds: it is asked by what is believed, and what ran is corrected before the next shares."""

import random

import numpy as np
import pytest

from bench.support.sharing.profile import Believing, wrong_table
from core.sharing.problem import MILLIONTHS, Column, JobClass, Shares, SharingProblem
from core.sharing.speeds import SpeedTable

TYPES = ("v100", "k80")
TRUE = SpeedTable(
    {
        ("a", 1): {"v100": 8.0, "k80": 2.0},
        ("b", 1): {"v100": 4.0, "k80": 0.0},
        ("a", 2): {"v100": 16.0, "k80": 4.0},
    },
    {},
)
BELIEVED = SpeedTable({shape: dict.fromkeys(TYPES, 6.0) for shape in TRUE.alone}, {})


def problem(*shapes: tuple[str, int]) -> SharingProblem:
    """One class a shape, at true speeds."""
    classes = tuple(JobClass(f"{index}", gpus=gpus) for index, (_, gpus) in enumerate(shapes))
    speeds = np.array([[TRUE.alone[shape][name] for name in TYPES] for shape in shapes])
    return SharingProblem(classes, tuple(Column("here", name) for name in TYPES), (4, 4), speeds)


class Asked:
    """A policy that gives all time in the first column, and keeps the speeds that it was asked with."""

    def __init__(self) -> None:
        self.speeds: list[list[list[float]]] = []

    def __call__(self, asked: SharingProblem) -> Shares:
        self.speeds.append(asked.speeds.tolist())
        alone = np.zeros(asked.speeds.shape, dtype=np.int64)
        alone[:, 0] = MILLIONTHS
        return Shares(alone, np.zeros((0, 2), dtype=np.int64))


def test_factors_are_drawn_once_for_each_speed() -> None:
    """The same dice give the same table, no two factors are alike, and what does not run somewhere still does not."""
    first, second = (wrong_table(TRUE, 0.3, random.Random(7)) for _ in range(2))
    assert first == second
    factors = [
        first.alone[shape][name] / speed
        for shape, row in TRUE.alone.items()
        for name, speed in row.items()
        if speed
    ]
    assert len(factors) == len({round(one, 9) for one in factors})
    assert 0.0 == first.alone["b", 1]["k80"]
    many = wrong_table(
        SpeedTable({("a", gpus): {"v100": 1.0} for gpus in range(2_000)}, {}), 0.3, random.Random(1)
    )
    logs = np.log([row["v100"] for row in many.alone.values()])
    assert (0.0, 0.3) == pytest.approx((logs.mean(), logs.std()), abs=0.02)


def test_what_ran_is_corrected_before_the_next_shares() -> None:
    """Half of the error is gone after each call, where a class had time and nowhere else: 6 becomes 7, then 7.5."""
    asked = Asked()
    believing = Believing(asked, TRUE, BELIEVED, is_corrected=True)
    for shapes in ((("a", 1), ("b", 1)), (("a", 1), ("a", 2)), (("a", 1), ("b", 1))):
        believing(problem(*shapes))
    assert [
        [[6.0, 6.0], [6.0, 6.0]],
        [[7.0, 6.0], [6.0, 6.0]],
        [[7.5, 6.0], [5.0, 6.0]],
    ] == asked.speeds


def test_uncorrected_speeds_stay_wrong() -> None:
    """The same speeds are believed each time."""
    asked = Asked()
    believing = Believing(asked, TRUE, BELIEVED, is_corrected=False)
    for _ in range(3):
        believing(problem(("a", 1)))
    assert [[[6.0, 6.0]]] * 3 == asked.speeds
