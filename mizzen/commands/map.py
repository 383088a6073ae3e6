"""`mizzen map`: a function for each line of a file, whose values are files by index; run again, it goes on where it was."""

import os
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mizzen.terminal.function_options import Gpus, Memory, Target, Timeout, Within
from mizzen.terminal.options import Json
from mizzen.terminal.output import (
    FAILED,
    MISUSED,
    CommandError,
    explained,
    tell_json,
    tell_json_line,
    tell_problem,
)

if TYPE_CHECKING:
    from bus.port import Bus
    from mizzen.connect.plane import Plane
    from mizzen.functions.map_files import Progress

REDRAWN_SECONDS = 0.2


def map(  # noqa: A001  # the command is called so
    function: Target,
    /,
    *,
    inputs: Annotated[Path, Parameter(help="A file with one argument in JSON on each line.")],
    out: Annotated[
        Path, Parameter(help="The directory for values, as in 000013.json of line 13, counted from 0.")
    ],
    detach: Annotated[
        bool, Parameter(negative=(), help="Let a task of the plane run the map, and print its workload.")
    ] = False,
    driver: Annotated[str, Parameter(help="The device of that task.")] = "cpu:1",
    credentials: Annotated[
        str,
        Parameter(
            help="A file of `mizzen tenants grant`, to call with; nodes see the file if it is detached."
        ),
    ] = "",
    gpus: Gpus = "",
    memory: Memory = "",
    within: Within = "",
    timeout: Timeout = "",
    json: Json = False,
) -> int:
    """Call a function for each line of a file, and write each value into a file of its own; lines that have one are left out."""
    from mizzen.connect.plane import CREDENTIALS_VARIABLE

    own = (gpus, memory, within, timeout)
    if detach:
        if any(own):
            text = "with --detach the options of a function stand in its decorator: leave --gpus, --memory, --within and --timeout out"
            raise CommandError(text, MISUSED)
        known = os.environ.get(CREDENTIALS_VARIABLE, "")
        return _detach(
            function,
            inputs,
            out,
            driver,
            credentials or (known and str(Path(known).absolute())),
            is_json=json,
        )
    if credentials:
        os.environ[CREDENTIALS_VARIABLE] = credentials
    return _map(function, inputs, out, own, is_json=json)


def _map(target: str, inputs: Path, out: Path, own: tuple[str, str, str, str], *, is_json: bool) -> int:
    from mizzen.actions.function_calls import function_named
    from mizzen.functions.map_files import map_file
    from mizzen.functions.session import close
    from mizzen.sdk.mizzen.functions import FunctionError

    gpus, memory, within, timeout = own
    function = function_named(target, gpus=gpus, memory=memory, within=within, timeout=timeout)
    line = ProgressLine(is_shown=sys.stderr.isatty() and not is_json)
    try:
        with explained(FunctionError):
            ended = map_file(function, inputs, out, line.tell)
    finally:
        line.end()
        close()
    if is_json:
        tell_json(
            {
                "inputs": ended.inputs,
                "before": ended.before,
                "done": ended.done,
                "failed": sorted(ended.failed),
            }
        )
    else:
        before = f", {ended.before:,} were there before" if ended.before else ""
        print(f"{ended.done:,} of {ended.inputs:,} values written to {out}{before}")
    if not ended.failed:
        return 0
    problems = [f"{index:06}: {text}" for index, text in sorted(ended.failed.items())]
    text = f"{len(problems):,} of {ended.inputs:,} inputs have failed; the same command tries them again"
    tell_problem(text, is_json=is_json, problems=problems)
    return FAILED


def _detach(target: str, inputs: Path, out: Path, driver: str, credentials: str, *, is_json: bool) -> int:
    from mizzen.actions.function_calls import check_credentials, map_job
    from mizzen.actions.submit import submitted
    from mizzen.views.plane_reads import on_plane

    job = map_job(target, inputs, out, driver=driver, credentials=credentials)

    async def submit(bus: "Bus", plane: "Plane") -> str:
        check_credentials(job, plane)
        return await submitted(bus, job, uuid.uuid4().hex)

    workload = on_plane(submit)
    if is_json:
        tell_json_line({"workload": workload})
    else:
        print(workload)
    return 0


class ProgressLine:
    """One line on a terminal, drawn again and again."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._begun = time.monotonic()
        self._drawn = 0.0
        self._newest: Progress | None = None

    def tell(self, progress: "Progress") -> None:
        """Draw the line, unless it was drawn a moment ago."""
        self._newest = progress
        now = time.monotonic()
        if self._is_shown and now - self._drawn >= REDRAWN_SECONDS:
            self._drawn = now
            self._draw()

    def end(self) -> None:
        """Draw the line for the last time."""
        if self._is_shown and self._newest is not None:
            self._draw()
            print(file=sys.stderr)

    def _draw(self) -> None:
        assert self._newest is not None
        one = self._newest
        rate = one.done / max(1e-9, time.monotonic() - self._begun)
        failed = f", {len(one.failed):,} failed" if one.failed else ""
        text = f"{one.before + one.done:,} of {one.inputs:,} done{failed}, {rate:,.0f}/s"
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
