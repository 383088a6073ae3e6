"""What Linux does with processes at our word."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from runtime.tasks.machine import NICENESS

BE_GENTLE = """
import os, sys
from runtime.tasks.machine import be_gentle
be_gentle()
print(os.nice(0), open("/proc/self/autogroup").read().split()[-1])
"""
TRIES = 20
"""Linux lets a user without privileges change one session in 100 ms, whoever does."""


@pytest.mark.skipif(
    not Path("/proc/self/autogroup").exists(), reason="no CPU time is shared between sessions"
)
async def test_process_is_gentle_beside_other_sessions() -> None:
    """Where CPUs are shared between sessions first, its session is as nice as itself; it is nice whatever they say of its session."""
    for _ in range(TRIES):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", BE_GENTLE, start_new_session=True, stdout=asyncio.subprocess.PIPE
        )
        words = (await process.communicate())[0].decode().split()
        assert str(os.nice(0) + NICENESS) == words[0]
        if words[1] == str(NICENESS):
            return
        await asyncio.sleep(0.15)
    raise AssertionError(words)
