"""A process that serves one spool as a worker's does, and does nothing else: it is there to be killed.

`python -m tests.runtime.tasks.lonely_worker SPOOL COMMAND` prepares and starts what the file holds, and says each phase.
"""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from core.effects import FindTasks, PrepareShare, StartShare
from core.messages.base import Message
from core.messages.workers import PrepareTasks, TasksChanged, TasksPhase
from runtime.clock import Clock, wall_now
from runtime.loop import run
from runtime.tasks.spool import TaskSpool


async def serve(directory: Path, command: PrepareTasks) -> None:
    """For ever."""
    clock = Clock(asyncio.get_running_loop(), wall_now())
    spool = TaskSpool("worker.here.w0", clock, directory, inherited={"PATH": os.environ["PATH"]})

    def hear(message: Message) -> None:
        if isinstance(message, TasksChanged):
            print(message.tasks.phase, flush=True)
            if message.tasks.phase == TasksPhase.PREPARED:
                spool.begin(StartShare(command.key, command.sequence))

    spool.attach(hear)
    spool.begin(FindTasks())
    spool.begin(PrepareShare(command))
    await spool.run()


if __name__ == "__main__":
    commanded = msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=PrepareTasks)
    run(serve(Path(sys.argv[1]), commanded))
