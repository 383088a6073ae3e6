"""A worker's spool as its process has it: what must outlive it does, and what is damaged is explained."""

import asyncio
from pathlib import Path

import pytest

from core.effects import FindTasks, KeepFence, PrepareShare, StartShare
from core.messages.base import Message
from core.messages.workers import TasksFound, TasksPhase
from core.nouns.ids import ShareKey
from core.nouns.instant import Instant
from runtime.clock import Clock
from runtime.tasks.errors import SpoolDamaged
from runtime.tasks.spool import TaskSpool
from tests.runtime.tasks.aids import JOB, emulated, nodes, prepare


def spool(directory: Path, heard: list[Message]) -> TaskSpool:
    """As a process has it that was just started."""
    made = TaskSpool("worker.eu.w0", Clock(asyncio.get_running_loop(), Instant(0)), directory, devices=())
    made.attach(heard.append)
    return made


async def test_next_process_starts_behind_obeyed_commands(spool_path: Path) -> None:
    """Its starts go on counting, or the broker would take its reports for old ones; its fence never falls."""
    heard = list[Message]()
    first = spool(spool_path, heard)
    first.begin(FindTasks())
    first.begin(KeepFence(7))
    first.begin(KeepFence(3))
    first.close()
    second = spool(spool_path, heard)
    second.begin(FindTasks())
    second.begin(PrepareShare(emulated(1)))
    second.close()
    third = spool(spool_path, heard)
    third.begin(FindTasks())
    third.close()
    found = [message for message in heard if isinstance(message, TasksFound)]
    assert [TasksFound((), 0, 1), TasksFound((), 7, 2)] == found[:2]
    assert (11, 3) == (found[2].sequence, found[2].start)


@pytest.mark.parametrize("name", ["kept.json", "emulated.jsonl"])
async def test_damaged_file_is_explained(spool_path: Path, name: str) -> None:
    """Starting from nothing would be to obey what is older than what was obeyed. The next try finds it unlocked."""
    spool(spool_path, []).close()
    (spool_path / name).write_bytes(b'{"starts":1\n')
    for _ in range(2):
        with pytest.raises(SpoolDamaged, match=rf"{name} is damaged .* put back a copy"):
            spool(spool_path, [])


@pytest.mark.processes
@pytest.mark.parametrize("name", ["share.json", "job-0.0/state"])
async def test_damaged_share_is_explained(spool_path: Path, name: str) -> None:
    """It names the file."""
    async with nodes(spool_path) as made:
        await made.finish(prepare("true"))
    (path,) = (spool_path / "shares").glob(f"*/{name}")
    path.write_text("phase=singing")
    with pytest.raises(SpoolDamaged, match=rf"{name} is damaged .* put back a copy"):
        spool(spool_path, [])


async def test_emulated_and_real_live_in_one_spool(spool_path: Path) -> None:
    """Each share is found as it stands, whichever it is."""
    async with nodes(spool_path) as made:
        made.begin(PrepareShare(emulated(0.05, epoch=2)), StartShare(ShareKey(JOB, 2), 11))
        await made.until(TasksPhase.RUNNING, epoch=2)
        await made.finish(prepare("exit 5"))
        await made.until(TasksPhase.ENDED, epoch=2)
    async with nodes(spool_path) as made:
        assert [(2, TasksPhase.ENDED, 0), (1, TasksPhase.ENDED, 5)] == [
            (state.epoch, state.phase, state.exit_code) for state in made.found.tasks
        ]


async def test_nothing_is_told_before_it_is_asked_for(spool_path: Path) -> None:
    """A worker that has just started hears what stands first, and changes only after it."""
    heard = list[Message]()
    made = spool(spool_path, heard)
    made.begin(PrepareShare(emulated(1)))
    assert [] == heard
    made.begin(FindTasks())
    made.begin(StartShare(ShareKey(JOB, 1), 12))
    assert ["TasksFound", "TasksChanged"] == [type(message).__name__ for message in heard]
    made.close()
