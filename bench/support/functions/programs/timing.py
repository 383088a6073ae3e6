"""How calls are timed: the same for Mizzen and for other systems. Of the standard library alone, for interpreters without Mizzen.

A system has several forms of each sort of work, and every form is timed. The function returns its argument, so that each form can show
that all calls were made: a form that returns other values is a mistake of the program.
"""

import importlib.metadata
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple  # Any: futures of every system.


class Work(NamedTuple):
    """How much is called."""

    mapped: int
    """Calls of one map."""
    called: int
    """Single calls."""
    in_flight: int
    """Single calls that wait for their answers at once."""
    one_by_one: int
    """Single calls, each after the answer to the one before."""
    warm: int
    """Calls before anything is timed."""


class Forms(NamedTuple):
    """The forms that a system has, by name."""

    mapped: "dict[str, Callable[[int], list[int]]]"
    """Given a number of calls, make them by one map, each by itself: scheduled, lost and repeated alone. Return the value of each."""
    chunked: "dict[str, Callable[[int], list[int]]]"
    """As `mapped`, but some thousands of calls are one: they run one after the other, and are lost and repeated together."""
    called: "dict[str, Callable[[int, int], list[int]]]"
    """Given a number of calls, and how many may be in flight, return the value of each."""
    one: "dict[str, Callable[[int], int]]"
    """Make one call with this argument, and return the value."""


def work_of_line() -> Work:
    """Return the work that the command line names, as JSON."""
    return Work(**json.loads(sys.argv[1]))


def tell(package: str, forms: Forms, work: Work) -> None:
    """Time all forms, and print the result."""
    warm_up(forms, work)
    found = {
        "version": importlib.metadata.version(package),
        "map_per_s": {name: rate_of(form, work.mapped) for name, form in forms.mapped.items()},
        "chunks_per_s": {name: rate_of(form, work.mapped) for name, form in forms.chunked.items()},
        "call_per_s": {
            name: rate_of(form, work.called, work.in_flight) for name, form in forms.called.items()
        },
        "call_ms": {name: spans_of(form, work.one_by_one) for name, form in forms.one.items()},
    }
    print(json.dumps(found), flush=True)


def warm_up(forms: Forms, work: Work) -> None:
    """Make some calls of each form: executors start, and estimates settle."""
    for mapped in (forms.mapped | forms.chunked).values():
        mapped(work.warm)
    for called in forms.called.values():
        called(min(work.warm, work.called), work.in_flight)
    for one in forms.one.values():
        for number in range(min(10, work.one_by_one)):
            one(number)


def rate_of(form: "Callable[..., list[int]]", count: int, *more: int) -> float:
    """Return calls a second, from the first call until all values are there."""
    begun = time.perf_counter()
    values = form(count, *more)
    seconds = time.perf_counter() - begun
    assert values == list(range(count)), "a call has another value than its argument"
    return count / seconds


def spans_of(form: "Callable[[int], int]", count: int) -> "list[float]":
    """Return the milliseconds of each call."""
    spans = []
    for number in range(count):
        begun = time.perf_counter()
        value = form(number)
        spans.append(round(1000 * (time.perf_counter() - begun), 4))
        assert value == number, "a call has another value than its argument"
    return spans


def in_window(
    count: int, in_flight: int, submit: "Callable[[int], Any]", result: "Callable[[Any], int]"
) -> "list[int]":
    """Return the values of calls of which so many are in flight: another is made as soon as the oldest has its value."""
    values: list[int] = []
    waiting: deque[Any] = deque()
    for number in range(count):
        if len(waiting) == in_flight:
            values.append(result(waiting.popleft()))
        waiting.append(submit(number))
    values += [result(one) for one in waiting]
    return values
