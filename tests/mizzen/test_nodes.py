"""The emulated nodes of a worker that is a process: what must outlive it does."""

import asyncio
from pathlib import Path

import pytest

from core.effects import FindTasks, KeepFence
from core.messages.base import Message
from core.messages.workers import TasksFound
from core.nouns.instant import Instant
from mizzen.nodes import NodesFileError, NodesOnDisk
from runtime.clock import Clock


def nodes(path: Path, heard: list[Message]) -> NodesOnDisk:
    """As a process has them that was just started."""
    made = NodesOnDisk("worker.eu.w0", Clock(asyncio.get_running_loop(), Instant(0)), path)
    made.attach(heard.append)
    return made


async def test_next_process_starts_behind_what_was_obeyed(tmp_path: Path) -> None:
    """Its starts go on counting, or the broker would take its reports for old ones; its fence never falls."""
    path, heard = tmp_path / "logs" / "worker.eu.w0.nodes", list[Message]()
    first = nodes(path, heard)
    first.begin(FindTasks())
    first.begin(KeepFence(7))
    first.begin(KeepFence(3))
    first.close()
    second = nodes(path, heard)
    second.begin(FindTasks())
    second.close()
    assert [TasksFound((), 0, 1), TasksFound((), 7, 2)] == heard
    assert [path] == list(path.parent.iterdir())


async def test_damaged_file_is_explained(tmp_path: Path) -> None:
    """Starting from nothing would be to obey what is older than what was obeyed."""
    path = tmp_path / "worker.eu.w0.nodes"
    path.write_bytes(b'{"starts":1')
    with pytest.raises(NodesFileError, match=r"is damaged .* put back a copy"):
        nodes(path, [])
