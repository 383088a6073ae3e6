"""Programs of a run that call functions: each runs with a tenant's credentials while a service of that tenant holds capacity, and tells
by lines of JSON on its output how its calls ended (examples/decipher.py).
"""

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct, field

from core.nouns.ids import TenantName, WorkloadId
from runtime.plane import PLANE_FILE

COMMANDS = "mizzen"
"""The module that is run as the command of that name."""
NOT_RUN = 127
"""The exit code of a program that cannot be run, as shells have it."""
KILLED = " killed"
"""Behind the name of a process, how a world tells of its death."""
CREDENTIALS_VARIABLE = "MIZZEN_CREDENTIALS"
"""Names the file by which commands and programs find a plane (mizzen/connect/plane.py)."""


class CallsTold(Struct, frozen=True):
    """How the calls of a program ended so far, as its newest line has it."""

    calls: int = 0
    """That the program makes in all."""
    done: int = 0
    failed: int = 0
    lost: int = 0
    refused: int = 0
    right: int = 0
    """Of those that were done, the calls with the value that the program expects."""
    seconds: float = 0.0
    """Since its first call."""
    longest_seconds: float = 0.0
    """Of one call, from its input until its end is counted."""

    @property
    def ended(self) -> int:
        """Return how many calls have ended."""
        return self.done + self.failed + self.lost + self.refused


class CallsMade(Struct):
    """One program, and what became of its calls."""

    program: str
    """As it is run."""
    workload: WorkloadId = WorkloadId("")
    """The service with the capacity; empty: it was not accepted."""
    told: CallsTold = CallsTold()
    exit_code: int | None = None
    """None: it has not ended."""
    complaint: str = ""
    """The last line that it wrote on stderr."""
    killed: list[str] = field(default_factory=list)
    """Processes of the plane that were killed meanwhile."""
    is_over: bool = False
    """Whether it has ended, and its service too."""

    @property
    def problem(self) -> str:
        """Return what did not come about: that each call ends, is done and has the right value; empty if all did."""
        told = self.told
        if self.exit_code is None:
            return "it did not end"
        if not told.calls:
            return f"it told of no calls: {self.complaint or f'exit code {self.exit_code}'}"
        if told.ended != told.calls:
            return f"{told.calls - told.ended} of {told.calls} calls have no answer"
        if told.done != told.calls:
            return f"{told.failed} calls failed, {told.lost} were lost and {told.refused} refused"
        if told.right != told.calls:
            return f"{told.calls - told.right} of {told.calls} answers are wrong"
        return f"it ended with {self.exit_code}" if self.exit_code else ""


async def make_calls(made: CallsMade, tenant: TenantName, directory: Path, deeds: Sequence[str]) -> None:
    """Run a program to its end, with credentials of a tenant of the plane in a directory, and keep `made` up to date.

    `deeds` grows as processes are killed. The program is killed if this is cancelled.
    """
    credentials = directory / f"{tenant}.credentials.json"
    grant = (sys.executable, "-P", "-m", COMMANDS, "tenants", "grant", tenant, "--output", str(credentials))
    errors = directory / f"{made.workload}.calls.log"
    try:
        async with _running(grant, directory / PLANE_FILE, errors) as process:
            made.exit_code = await process.wait()
        if made.exit_code == 0:
            made.exit_code, before = None, len(deeds)
            async with _running(shlex.split(made.program), credentials, errors) as process:
                assert process.stdout is not None, made.program
                async for line in process.stdout:
                    made.told = _told(line) or made.told
                    made.killed = [
                        deed.removesuffix(KILLED) for deed in deeds[before:] if deed.endswith(KILLED)
                    ]
                made.exit_code = await process.wait()
        made.complaint = _last_line(errors)
    except (OSError, ValueError) as error:
        made.exit_code, made.complaint = NOT_RUN, str(error)


@asynccontextmanager
async def _running(
    words: Sequence[str], credentials: Path, errors: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process, which is killed if it lives in the end. Raises OSError."""
    environment = {**os.environ, CREDENTIALS_VARIABLE: str(credentials)}
    with errors.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *words, env=environment, stdout=asyncio.subprocess.PIPE, stderr=log
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _told(line: bytes) -> CallsTold | None:
    """Return what a line tells; None if it is another line."""
    try:
        return msgspec.json.decode(line, type=CallsTold)
    except msgspec.MsgspecError:
        return None


def _last_line(path: Path) -> str:
    return next(iter(path.read_text(errors="replace").splitlines()[-1:]), "")


def lines_of_calls(calls: Sequence[CallsMade]) -> list[tuple[str, str]]:
    """Return a line for each program: its calls by their ends, the check of their values, their time, and what happened meanwhile."""
    lines = []
    for made in calls:
        told = made.told
        ends = f"{told.done} done, {told.failed} failed, {told.lost} lost, {told.refused} refused"
        rate = told.ended / told.seconds if told.seconds else 0.0
        time = f"{told.seconds:.1f} s, {rate:.0f} a second, the longest {told.longest_seconds:.1f} s"
        killed = f"; killed meanwhile: {', '.join(made.killed)}" if made.killed else ""
        text = f"{told.calls} calls: {ends}; {told.right} answers right; {time}{killed}"
        lines.append((f"functions ({made.workload})", text))
    return lines
