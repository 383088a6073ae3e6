"""Programs of bench/support/functions/programs/ as processes of their own, each in the directory of a plane, as its user would run it."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import msgspec

import bench

PROGRAMS = "bench.support.functions.programs"
HOUSE = Path(bench.__file__).parents[1]
OTHER_PLANE_VARIABLES = frozenset({"MIZZEN_CREDENTIALS", "MIZZEN_NATS_URL"})
LINE_BYTES_MAX = 1 << 24

Told = TypeVar("Told")


class ProgramFailed(Exception):
    """A program that told no result: its name, its exit code and the last line of its errors."""


@asynccontextmanager
async def running(
    name: str, *words: str, directory: Path, python: str = sys.executable
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program in a directory. All that the program has started, and that still lives in the end, is killed."""
    with _errors(directory, name).open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(python, "-m", f"{PROGRAMS}.{name}", *words),
            cwd=directory,
            env=_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            limit=LINE_BYTES_MAX,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def told_by(
    name: str,
    *words: str,
    told: type[Told],
    directory: Path,
    seconds_max: float,
    python: str = sys.executable,
) -> Told:
    """Run a program to its end, and return the result, the last line of its output. Raises ProgramFailed."""
    async with running(name, *words, directory=directory, python=python) as process:
        try:
            output, _ = await asyncio.wait_for(process.communicate(), seconds_max)
        except TimeoutError as error:
            raise ProgramFailed(f"{name} did not end within {seconds_max:g} s") from error
    try:
        return msgspec.json.decode(output.strip().rpartition(b"\n")[2], type=told)
    except msgspec.MsgspecError as error:
        last = error_of(directory, name)
        raise ProgramFailed(f"{name} ended with {process.returncode} and no result: {last}") from error


def error_of(directory: Path, name: str) -> str:
    """Return the last line of a program's errors."""
    return _errors(directory, name).read_text(errors="replace").strip().rpartition("\n")[2]


def _errors(directory: Path, name: str) -> Path:
    return directory / f"{name}.err"


def _environment() -> dict[str, str]:
    """Return variables with which a program finds the modules here, and the plane of its directory and no other."""
    kept = {name: value for name, value in os.environ.items() if name not in OTHER_PLANE_VARIABLES}
    return {**kept, "PYTHONPATH": str(HOUSE)}
