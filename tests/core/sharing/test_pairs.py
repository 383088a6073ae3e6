"""Which pairs of classes are worth it, and which two jobs run together."""

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.pairs import Partners, Wanted, pairs_of, partners
from core.sharing.problem import BadProblem, Column, JobClass, PairSpeeds, SharingProblem
from core.sharing.speeds import Shape, SpeedTable
from tests.core.sharing.instances import of_speeds

A, B, WIDE = ("A3C", 1), ("LM", 1), ("LM", 4)


def of_shapes(shapes: Sequence[Shape], count: int = 2) -> SharingProblem:
    """Classes on a V100 and a K80, where each has a speed of 10 and 4."""
    problem = of_speeds([[10.0, 4.0]] * len(shapes), [8, 8], gpus=[gpus for _, gpus in shapes])
    columns = (Column("here", "v100"), Column("here", "k80"))
    return replace(
        problem, columns=columns, classes=tuple(replace(one, count=count) for one in problem.classes)
    )


def table_of(together: dict[tuple[Shape, Shape], dict[str, tuple[float, float]]]) -> SpeedTable:
    """These speeds, in both orders."""
    both_orders = {
        (second, first): {where: (other, mine) for where, (mine, other) in by_type.items()}
        for (first, second), by_type in together.items()
    }
    return SpeedTable({}, {**both_orders, **together})


def found(
    problem: SharingProblem, shapes: Sequence[Shape], table: SpeedTable
) -> list[tuple[int, int, list[list[float]]]]:
    """The pairs, in the form of plain numbers."""
    return [(pair.first, pair.second, pair.speeds.tolist()) for pair in pairs_of(problem, shapes, table)]


def test_pairs_that_do_more_than_one_alone() -> None:
    """G14: 6 of 10 and 5 of 10 are 1.1 and stay; 2 of 4 and 2 of 4 are 1.0 and become (0, 0), as they can take turns."""
    table = table_of({(A, B): {"v100": (6.0, 5.0), "k80": (2.0, 2.0)}})
    expected = [[6.0, 0.0], [5.0, 0.0]]
    assert [(0, 1, expected)] == found(of_shapes([A, B]), [A, B], table)
    assert [(0, 1, expected[::-1])] == found(of_shapes([B, A]), [B, A], table)
    assert [] == found(of_shapes([A, B]), [A, B], table_of({(A, B): {"v100": (5.0, 5.0)}}))


def test_pairs_of_one_class_need_two_jobs() -> None:
    """Two jobs of a class may share; a class of one job is in no pair with itself."""
    table = table_of({(A, A): {"v100": (6.0, 6.0)}})
    assert [(0, 0, [[6.0, 0.0], [6.0, 0.0]])] == found(of_shapes([A]), [A], table)
    assert [] == found(of_shapes([A], count=1), [A], table)
    # Two classes with the same speeds, as with different weights, pair by the same row.
    assert [(0, 1)] == [one[:2] for one in found(of_shapes([A, A], count=1), [A, A], table)]


def test_pairs_have_equal_widths() -> None:
    """Fault 8: jobs of four GPUs pair with each other, and with no job of one GPU, whatever a table says."""
    table = table_of({(WIDE, WIDE): {"v100": (9.0, 9.0)}, (A, WIDE): {"v100": (9.0, 9.0)}})
    assert [(0, 0)] == [one[:2] for one in found(of_shapes([WIDE, A]), [WIDE, A], table)]


def test_where_one_does_not_run_alone_there_is_no_pair() -> None:
    """G13: speeds of two on a type on which one of them has no speed, or that is too narrow, count for nothing."""
    table = table_of({(A, A): {"v100": (9.0, 9.0), "k80": (4.0, 4.0)}})
    problem = of_shapes([A])
    speeds = np.array([[10.0, 0.0]])
    assert [(0, 0, [[9.0, 0.0], [9.0, 0.0]])] == found(replace(problem, speeds=speeds), [A], table)
    other = replace(of_shapes([A, B], count=1), speeds=np.array([[10.0, 0.0], [10.0, 4.0]]))
    of_both = table_of({(A, B): {"v100": (9.0, 9.0), "k80": (1.0, 5.0)}})
    assert [(0, 1, [[9.0, 0.0], [9.0, 0.0]])] == found(other, [A, B], of_both)
    narrow = replace(problem, gpus=(0, 8))
    assert [(0, 0, [[0.0, 4.0], [0.0, 4.0]])] == found(narrow, [A], table)


def test_too_many_pairs_are_refused() -> None:
    """Job by job a thousand jobs make half a million pairs: that is said, not tried."""
    table = table_of({(A, A): {"v100": (9.0, 9.0)}})
    problem = of_speeds([[10.0]] * 800, [8])
    with pytest.raises(BadProblem, match=r"^800 classes of jobs make too many pairs"):
        pairs_of(problem, [A] * 800, table)


LAGS = {"a": 0.5, "b": 2.0, "c": 2.0, "d": -1.0, "x": 0.1, "y": 1.0, "z": 0.1}
MEMBERS = (("a", "b", "c", "d"), ("x", "y", "z"))


def of_pairs() -> SharingProblem:
    """Four jobs of one class and three of another: the first pair is of both classes, the second within the first."""
    classes = (JobClass("first", count=4), JobClass("second", count=3))
    pairs = tuple(PairSpeeds(*both, np.ones((2, 1))) for both in ((0, 1), (0, 0)))
    return SharingProblem(classes, (Column("here", "v100"),), (4,), np.ones((2, 1)), pairs=pairs)


def test_those_that_lag_most_run_together() -> None:
    """G16: the largest lag with the largest, ties by id; a job is in one pair, and a class that has no more jobs gives no more."""
    problem = of_pairs()

    def lag(job: str, pair: int, column: int) -> float:
        return LAGS[job]

    two = [Partners("b", "y", 0), Partners("c", "x", 0)]
    assert two == partners(problem, MEMBERS, [Wanted(0, 0, 2)], lag)
    assert [*two, Partners("a", "d", 0)] == partners(
        problem, MEMBERS, [Wanted(0, 0, 2), Wanted(1, 0, 2)], lag
    )
    assert 3 == len(partners(problem, MEMBERS, [Wanted(0, 0, 4)], lag))
    assert [Partners("b", "c", 0)] == partners(problem, MEMBERS, [Wanted(1, 0, 1)], lag)


def test_each_receives_its_share_of_the_rounds() -> None:
    """G16: with 2 pairs of the two classes and 1 within the first in seven rounds of ten, and 0 and 2 in the others, no job of the first
    class is ever idle; after 100 rounds each job has its share of both kinds to within 5 %.
    """
    problem = of_pairs()
    shares = {(job, pair): 0.0 for job in LAGS for pair in (0, 1)}
    for jobs, targets in zip(MEMBERS, ((1.4, 2.6), (1.4, 0.0)), strict=True):
        for job in jobs:
            for pair, target in enumerate(targets):
                shares[job, pair] = target / len(jobs)
    received = dict.fromkeys(shares, 0)
    for number in range(1, 101):

        def lag(job: str, pair: int, column: int, number: int = number) -> float:
            return number * shares[job, pair] - received[job, pair]

        counts = (0, 2) if number % 10 in {2, 5, 8} else (2, 1)
        wanted = [Wanted(pair, 0, count) for pair, count in enumerate(counts)]
        found = partners(problem, MEMBERS, wanted, lag)
        assert sum(counts) == len(found)
        for first, second, _ in found:
            pair = 1 if second in MEMBERS[0] else 0
            received[first, pair] += 1
            received[second, pair] += 1
    assert 0.05 >= max(abs(received[one] / 100 - share) for one, share in shares.items())
