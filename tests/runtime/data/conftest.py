"""No test leaves a process or an unfinished copy behind."""

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.data.aids import Regions

END_SECONDS = 5.0
VARIABLE = "MIZZEN_DATA_TEST"


@pytest.fixture
def regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Regions]:
    """Two regions' directories. Nothing is left in `.incoming` in the end, and no process that was started meanwhile."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    found = Regions(tmp_path / "eu", tmp_path / "us")
    found.eu.mkdir()
    found.us.mkdir()
    yield found
    assert [] == [pid for pid in started_in(tmp_path) if not _ends(pid)]
    assert [] == found.left()


def started_in(directory: Path) -> list[int]:
    """Return the living processes that were started in the test with this directory."""
    wanted = os.fsencode(f"{VARIABLE}={directory}")
    found = []
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdecimal() and wanted in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
        except OSError:
            continue
    return sorted(found)


def _ends(pid: int) -> bool:
    """Return whether a process ends soon: one that was killed takes a moment."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watch], [], [], END_SECONDS)[0])
    finally:
        os.close(watch)
