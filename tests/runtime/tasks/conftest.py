"""No test leaves a process behind."""

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.tasks import processes

END_SECONDS = 5.0
"""What a runner may take to end after its last word, on a machine that is busy beyond measure."""


@pytest.fixture
def spool_path(tmp_path: Path) -> Iterator[Path]:
    """Where a spool may be. Whoever still runs under it in the end is killed, and the test has failed."""
    directory = tmp_path / "w0.spool"
    yield directory
    left = [pid for pid, _ in processes.marked_under(str(directory / "shares")) if not _ends(pid)]
    for pid in left:
        processes.kill(pid)
    assert [] == left


def _ends(pid: int) -> bool:
    """A runner says its last word a moment before it ends."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watch], [], [], END_SECONDS)[0])
    finally:
        os.close(watch)
