"""Functions that a command names: found as `module:name` from here, and mapped in a task of their own where that is wanted."""

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any  # Any: arguments and values are of every type.
from urllib.parse import urlsplit

from msgspec.structs import replace

from bus.server import LOOPBACK
from mizzen.connect.plane import Plane
from mizzen.functions.decorator import Function
from mizzen.functions.needs import GPUS, need_of, options_of, span_of
from mizzen.jobs.file import Job, JobFileError, read_job
from mizzen.jobs.maps import maps_without_credentials, target_of
from mizzen.jobs.source import Source, sheet_of
from mizzen.jobs.values import Unreadable
from mizzen.terminal.output import MISUSED, CommandError

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def function_named(target: str, *, gpus: str, memory: str, within: str, timeout: str) -> Function[..., Any]:
    """Return the function of a name, with these options in place of its own where they are not empty. Raises CommandError."""
    found = _imported(target)
    try:
        if not isinstance(found, Function):
            options = options_of(
                gpus=gpus or GPUS,
                memory=memory,
                within=within or None,
                timeout=timeout or None,
                once=False,
                name=None,
                directory=None,
            )
            return Function(found, None, options)
        options = found.options
        if gpus or memory:
            need = need_of(gpus or GPUS, memory)
            options = replace(options, need=need)
        if within:
            options = replace(options, within=span_of(within, "within"))
        if timeout:
            options = replace(options, timeout=span_of(timeout, "timeout"))
    except ValueError as error:
        raise CommandError(f"--{error}", MISUSED) from error
    return Function(found.__mizzen_function__, found.__mizzen_init__, options)


def arguments_of(words: tuple[str, ...], kwargs: str) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call, each written in JSON. Raises CommandError."""
    try:
        args = [json.loads(word) for word in words]
        named = json.loads(kwargs) if kwargs else {}
    except ValueError as error:
        text = f"an argument is no JSON: {error}; write numbers as they are, and text as '\"text\"'"
        raise CommandError(text, MISUSED) from error
    if not isinstance(named, dict):
        raise CommandError("--kwargs takes a JSON object, as in '{\"beam\": 4}'", MISUSED)
    return args, named


def map_job(target: str, inputs: Path, outputs: Path, *, driver: str, credentials: str) -> Job:
    """Return the job of a map that outlives its caller. Raises CommandError.

    driver       the device of its task
    credentials  a file that nodes see; empty: none
    """
    given = {
        "name": _NO_NAME.sub("-", target),
        "map": {
            "function": target,
            "inputs": str(inputs),
            "outputs": str(outputs),
            **({"credentials": credentials} if credentials else {}),
        },
        "resources": {"gpus": driver},
    }
    try:
        return read_job(sheet_of(Source("map", json.dumps(given), "map.json")), Path.cwd())
    except JobFileError as error:
        raise CommandError("nothing was submitted", MISUSED, [str(one) for one in error.problems]) from error


def check_credentials(job: Job, plane: Plane) -> None:
    """Raise CommandError if a map could not call its function from a node: it finds no plane there, and has no credentials.

    A plane that was found by its directory is found from there by a task too, if all of it is on this machine.
    """
    if plane.directory and urlsplit(plane.url).hostname == LOOPBACK:
        return
    problems = [str(problem) for problem in maps_without_credentials(job.fields)]
    if problems:
        raise CommandError("nothing was submitted: a map has no credentials", MISUSED, problems)


def _imported(target: str) -> Any:
    """Return what a name stands for. Raises CommandError."""
    try:
        target_of(target)
    except Unreadable as error:
        raise CommandError(str(error), MISUSED) from error
    module, _, name = target.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise CommandError(
            f"{target} cannot be imported from here: {type(error).__name__}: {error}"
        ) from error
    if not callable(found):
        raise CommandError(f"{target} is no function, but of type {type(found).__name__}", MISUSED)
    return found
