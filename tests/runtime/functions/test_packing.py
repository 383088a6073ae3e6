"""Arguments, values, failures and code as bytes."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.nouns.function_limits import CALL_BYTES_MAX
from runtime.functions.errors import RemoteFailure
from runtime.functions.packing import (
    TEXT_MAX,
    pack_arguments,
    pack_code,
    pack_failure,
    pack_value,
    unpack_arguments,
    unpack_code,
    unpack_failure,
    unpack_value,
)
from tests.mizzen.processes import HOUSE

OF_MAIN = """
from runtime.functions.packing import pack_value
import sys
class Point:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return self.x == other.x
sys.stdout.buffer.write(pack_value([Point(3), Point(4)]))
"""


class Careless(Exception):
    """Pickle calls its class with one argument."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one}, {two}")


class Unpicklable(Exception):
    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("not me")


def raised(error: BaseException) -> BaseException:
    """The exception, as it is when it is caught."""
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


def test_arguments_and_values_come_back() -> None:
    """By plain pickle, of protocol 5."""
    args, kwargs = (1, "two", [3.0]), {"four": None}
    data = pack_arguments(args, kwargs)
    assert (args, kwargs) == unpack_arguments(data)
    assert pickle.dumps((args, kwargs), 5) == data
    assert args == unpack_value(pack_value(args))


def test_plain_pickle_cannot_and_cloudpickle_does() -> None:
    """A lambda as an argument."""
    double: Callable[[int], int] = unpack_value(pack_value(lambda number: 2 * number))
    assert 6 == double(3)


def test_class_of_a_callers_main_travels_by_value() -> None:
    """Another process has another `__main__`, without the class."""
    data = subprocess.run([sys.executable, "-c", OF_MAIN], cwd=HOUSE, check=True, capture_output=True).stdout
    points = unpack_value(data)
    assert [3, 4] == [point.x for point in points]


def test_code_comes_back() -> None:
    """Function and `init`, or none."""
    function, init = unpack_code(pack_code(lambda number: number + 1, None))
    assert (4, None) == (function(3), init)
    _, init = unpack_code(pack_code(len, lambda: "ready"))
    assert init is not None
    assert "ready" == init()


def test_failure_is_the_exception_with_its_traceback() -> None:
    """Its notes are kept, and the traceback is the last."""
    error = ValueError("bad", 3)
    error.add_note("a note")
    failure = unpack_failure(pack_failure(raised(error)))
    assert (ValueError, ("bad", 3)) == (type(failure), failure.args)
    first, last = failure.__notes__
    assert "a note" == first
    assert last.startswith("In the executor:\nTraceback (most recent call last):")
    assert Path(__file__).name in last


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Careless(1, 2), "Careless: 1, 2"),
        (Unpicklable("alas"), "Unpicklable: alas"),
        (KeyboardInterrupt("key"), "KeyboardInterrupt: key"),
        (ValueError("x" * CALL_BYTES_MAX), "ValueError: xxx"),
    ],
)
def test_failure_that_cannot_travel_is_told_in_words(error: BaseException, words: str) -> None:
    """What cannot be pickled, unpickled or raised at a caller; what is too large."""
    data = pack_failure(raised(error))
    failure = unpack_failure(data)
    assert isinstance(failure, RemoteFailure)
    assert words in str(failure)
    assert len(str(failure)) <= TEXT_MAX + len("\n…\n")
    assert len(data) < CALL_BYTES_MAX


def test_exception_whose_class_a_caller_lacks_is_told_in_words() -> None:
    """The class is of a module that nodes alone have."""
    data = pack_failure(raised(Careful("only there")))
    assert isinstance(unpack_failure(data), Careful)
    gone = data.replace(b"Careful", b"Missing")
    failure = unpack_failure(gone)
    assert isinstance(failure, RemoteFailure)
    assert "only there" in str(failure)


class Careful(Exception):
    pass
