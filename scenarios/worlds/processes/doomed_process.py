"""A process that should not be: started beside those that a plane has, and expected to die of what it finds."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from bus.server import URL_VARIABLE
from runtime.logs import LEVEL_VARIABLE
from scenarios.worlds.processes.unit_log import UnitLog

SECONDS_MAX = 60.0
"""For it to die. It does in a second or two; a machine that is busy beyond measure may need many."""
LOOK_SECONDS = 0.1


async def come_to_nothing(words: Sequence[str], url: str, directory: Path) -> str:
    """Start `mizzen` with these words. Returns what it died of; empty: it came up, and was killed.

    What it says goes into the directory.
    """
    path = directory / "output.log"
    said = UnitLog(path)
    environment = {**os.environ, URL_VARIABLE: url, LEVEL_VARIABLE: "info"}
    with path.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "mizzen", *words, env=environment, stdout=output, stderr=output
        )
    loop = asyncio.get_running_loop()
    until = loop.time() + SECONDS_MAX
    try:
        while process.returncode is None and not said.is_up and loop.time() < until:
            await asyncio.sleep(LOOK_SECONDS)
            said.read()
    finally:
        if process.returncode is None:
            process.kill()
        code = await process.wait()
    said.read()
    if said.is_up:
        return ""
    return said.death or f"exit code {code}; {path} has what it said"
