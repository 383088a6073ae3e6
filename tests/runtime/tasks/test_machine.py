"""Orders to Linux about a process of ours."""

import asyncio
import os
import sys

from runtime.tasks.machine import NICENESS

BE_GENTLE = """
import os
from pathlib import Path
from runtime.tasks.machine import be_gentle
be_gentle()
of_session = Path("/proc/self/autogroup")
print(os.nice(0), of_session.read_text().split()[-1] if of_session.exists() else "none")
"""
TRIES = 20
"""Linux lets a user without privileges change one session in 100 ms, whoever does."""


async def test_process_is_gentle_beside_other_sessions() -> None:
    """It is nice, and so is its session where CPUs are shared between sessions first."""
    for _ in range(TRIES):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", BE_GENTLE, start_new_session=True, stdout=asyncio.subprocess.PIPE
        )
        own, of_session = (await process.communicate())[0].decode().split()
        assert str(min(os.nice(0) + NICENESS, 19)) == own
        if of_session in ("none", str(NICENESS)):
            return
        await asyncio.sleep(0.15)
    raise AssertionError(of_session)
