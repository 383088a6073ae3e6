"""Problems that cannot be planned for are refused, in a sentence."""

import numpy as np
import pytest
from msgspec.structs import replace

from core.data_places.problem import BadDataProblem, checked, copies_of, held_of
from tests.core.data_places.instances import Job, problem_of

GOOD = problem_of([5, 7], [0, 1], [Job((0, 1)), Job((1,))], [[1.0], [1.0]])


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return an array."""
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"home": ints(0)}, "home has the shape (1,), and should have (2,)"),
        ({"home": ints(1, 1)}, "a home does not hold its table"),
        ({"home": ints(0, 2)}, "a home is a region that there is not"),
        ({"copies": np.array([1, 4], dtype=np.uint64)}, "a copy is in a region that there is not"),
        ({"sizes": ints(5, -1)}, "a size is below 0, or a job reads no table"),
        ({"job_starts": ints(0, 3, 3)}, "a size is below 0, or a job reads no table"),
        ({"job_starts": ints(0, 1, 2)}, "job_starts does not cover job_tables"),
        ({"job_tables": ints(0, 0, 1)}, "a job names a table twice"),
        ({"job_tables": ints(0, 2, 1)}, "job_tables names one that there is not"),
        ({"job_type": ints(0, 1)}, "job_type names one that there is not"),
        ({"job_demand": np.array([1.0, np.nan])}, "job_demand has a value below 0, or none"),
        ({"storage": ints(5, -2)}, "the storage of a region is below 0"),
    ],
)
def test_bad_problem_is_refused(change: dict[str, object], sentence: str) -> None:
    """The sentence names what is wrong first."""
    with pytest.raises(BadDataProblem) as refused:
        checked(replace(GOOD, **change))
    assert sentence == str(refused.value)


def test_bits_and_flags_are_the_same() -> None:
    """Also of the last of 64 regions."""
    held = np.random.default_rng(1).random((50, 64)) < 0.2
    assert (held == held_of(copies_of(held), 64)).all()
