"""A map from a file of inputs to a directory of values: each line is one argument in JSON, and `000013.json` the value of line 13.

The files are all that it remembers. Run again, it calls the function for the lines without a file: those that were not reached, and
those that failed. A file appears whole or not at all; an empty one, which a machine that lost power may leave, is none.
"""

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any  # Any: whatever JSON can hold.

from msgspec import Struct

from mizzen.functions.decorator import Function
from mizzen.sdk.mizzen.functions import CallRefused, CallTooLarge, FunctionError

DIGITS = 6
"""Of an index at least: names sort like numbers up to a million of inputs."""
READ_BYTES = 1 << 20
_NAME = re.compile(r"([0-9]{6,})\.json")


class Progress(Struct):
    """How far a map has come."""

    inputs: int
    before: int
    """Values that earlier runs have left."""
    done: int = 0
    """By this run."""
    failed: dict[int, str] = {}
    """By index, what became of it in one line."""

    @property
    def left(self) -> int:
        """Inputs without a value, and not tried yet."""
        return self.inputs - self.before - self.done - len(self.failed)


class NothingRuns(FunctionError):
    """The first calls were refused, so that all others would be; the text tells why."""


def map_file(
    function: Function[..., Any], inputs: Path, outputs: Path, tell: Callable[[Progress], None]
) -> Progress:
    """Call a function for each line of a file that has no value yet, and tell of each end. Return how it ended.

    Raises OSError if a file cannot be read or written, NothingRuns, and NoPlane.
    """
    outputs.mkdir(parents=True, exist_ok=True)
    finished = finished_in(outputs)
    lines = _count(inputs)
    progress = Progress(lines, len([index for index in finished if index < lines]))
    indices: list[int] = []
    """Of the calls, in their order."""

    def arguments() -> Iterator[Any]:
        with inputs.open("rb") as file:
            for index, line in enumerate(file):
                if index in finished:
                    continue
                try:
                    argument = json.loads(line)
                except ValueError as error:
                    progress.failed[index] = f"it is no JSON: {error}"
                    tell(progress)
                    continue
                indices.append(index)
                yield argument

    for place, value in function.map(arguments(), as_completed=True, return_exceptions=True):
        index = indices[place]
        problem = problem_of(value) if isinstance(value, Exception) else _write(outputs, index, value)
        if problem:
            is_refused = isinstance(value, CallRefused) and not isinstance(value, CallTooLarge)
            if is_refused and not progress.done:
                raise NothingRuns(problem)
            progress.failed[index] = problem
        else:
            progress.done += 1
        tell(progress)
    return progress


def finished_in(outputs: Path) -> set[int]:
    """Return the indices of which a directory has the values."""
    with os.scandir(outputs) as entries:
        return {
            int(match[1])
            for entry in entries
            if (match := _NAME.fullmatch(entry.name)) is not None and entry.stat().st_size
        }


def _count(inputs: Path) -> int:
    """Return the lines of a file."""
    count, last = 0, b"\n"
    with inputs.open("rb") as file:
        while part := file.read(READ_BYTES):
            count += part.count(b"\n")
            last = part[-1:]
    return count + (last != b"\n")


def _write(outputs: Path, index: int, value: Any) -> str:
    """Write a value. Return the problem, if the value has no JSON. Raises OSError."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError) as error:
        return f"its value cannot be written as JSON: {error}"
    part = outputs / f".{index:0{DIGITS}}.{secrets.token_hex(4)}.part"
    part.write_text(f"{text}\n")
    part.replace(outputs / f"{index:0{DIGITS}}.json")
    return ""


def problem_of(error: Exception) -> str:
    """Return an exception in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, FunctionError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
