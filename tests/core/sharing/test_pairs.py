"""Which pairs of classes are worth it."""

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from core.sharing.pairs import pairs_of
from core.sharing.problem import BadProblem, Column, SharingProblem
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
