"""A worker dies and the next one finds its tasks: running, ended meanwhile, or without a runner."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from core.effects import PrepareShare, StartShare
from core.messages.workers import PrepareTasks, TasksPhase
from core.nouns.ids import ShareKey
from core.nouns.instant import seconds
from runtime.tasks.errors import SpoolInUse
from runtime.tasks.share import TaskLimits
from tests.mizzen.processes import HOUSE, until
from tests.runtime.tasks.aids import EXIT_STOPPED, JOB, PATIENCE_SECONDS, Nodes, nodes, prepare

pytestmark = pytest.mark.processes

WAITS = "echo $RANK up; read code < $MIZZEN_CHECKPOINT_DIR/../end.$RANK; exit $code"
"""Until it is told how to end, by a pipe that the test makes."""


@contextmanager
def worker(spool_path: Path, command: PrepareTasks) -> Iterator[subprocess.Popen[str]]:
    """A process that has started this share, to be killed by -9; it is by the end of the block."""
    file = spool_path.with_suffix(".command")
    file.write_bytes(msgspec.json.encode(command))
    words = [sys.executable, "-m", "tests.runtime.tasks.lonely_worker", str(spool_path), str(file)]
    with subprocess.Popen(words, cwd=HOUSE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line == "running\n":
                    break
            yield process
        finally:
            process.kill()


def pipes(spool_path: Path) -> Path:
    """Where there is a pipe for each rank, by which it is told how to end."""
    directory = spool_path / "checkpoints" / JOB
    directory.mkdir(parents=True)
    for rank in range(2):
        os.mkfifo(directory / f"end.{rank}")
    return directory


async def test_running_tasks_are_adopted(spool_path: Path) -> None:
    """T25: they never noticed; the next worker hears of their end, and has what they wrote."""
    told = pipes(spool_path)
    with worker(spool_path, prepare(WAITS, tasks=2)) as process:
        process.kill()
        process.wait()
        async with nodes(spool_path) as made:
            (found,) = made.found.tasks
            assert (TasksPhase.RUNNING, 11, 2) == (found.phase, made.found.sequence, made.found.start)
            assert ("127.0.0.1", 1) == (found.host, len(found.ports))
            await made.until_said("0 up")
            await made.until_said("1 up", rank=1)
            (told / "end.0").write_text("0\n")
            (told / "end.1").write_text("85\n")
            ended = await made.until(TasksPhase.ENDED)
            assert 85 == ended.exit_code


async def test_adopted_tasks_are_stopped(spool_path: Path) -> None:
    """A new worker speaks to old runners."""
    pipes(spool_path)
    with worker(spool_path, prepare(WAITS, tasks=2)):
        pass
    async with nodes(spool_path) as made:
        ended = await made.stop()
        assert EXIT_STOPPED == ended.exit_code
        await made.until_nobody()


async def test_end_in_the_workers_absence(spool_path: Path) -> None:
    """Its exit code and its last checkpoint are found."""
    told = pipes(spool_path)
    with worker(spool_path, prepare(f"touch $MIZZEN_CHECKPOINT_DIR/30.done; {WAITS}")):
        pass
    (told / "end.0").write_text("85\n")
    await _until_ended(spool_path, 1)
    async with nodes(spool_path) as made:
        (found,) = made.found.tasks
        assert (TasksPhase.ENDED, 85, 30) == (found.phase, found.exit_code, found.saved_step)
        assert "0 up\n" == made.output()
        made.forget()
    async with nodes(spool_path) as made:
        assert () == made.found.tasks
        assert "0 up\n" == made.output()


async def test_first_failure_in_the_workers_absence(spool_path: Path) -> None:
    """Whoever comes next stops the others."""
    told = pipes(spool_path)
    with worker(spool_path, prepare(f"[ $RANK = 1 ] && exec sleep 600; {WAITS}", tasks=2)):
        pass
    (told / "end.0").write_text("3\n")
    await _until_ended(spool_path, 1)
    async with nodes(spool_path) as made:
        assert TasksPhase.STOPPING == made.found.tasks[0].phase
        ended = await made.until(TasksPhase.ENDED)
        assert 3 == ended.exit_code


async def test_runner_that_died_in_the_workers_absence(spool_path: Path) -> None:
    """What is left of its task is killed before the end is told."""
    detached = "(setsid sh -c 'echo away; sleep 600; sleep 600' &) ; "
    with worker(spool_path, prepare(f"{detached} sleep 600; sleep 600", tasks=2)):
        pass
    async with nodes(spool_path) as made:
        await made.until_said("away")
        await made.until_said("away", rank=1)
        runners = _runners(made)
    for pid in runners:
        os.kill(pid, signal.SIGKILL)
    async with nodes(spool_path) as made:
        ended = await made.until(TasksPhase.ENDED)
        assert -1 == ended.exit_code
        await made.until_nobody()


async def test_share_that_was_not_wholly_prepared(spool_path: Path) -> None:
    """No broker was told of the share: it is dropped with its runners, and prepared again when it is wanted."""

    def states() -> list[Path]:
        return list((spool_path / "shares").glob("*/job-0.2/state"))

    async with nodes(spool_path) as made:
        made.begin(PrepareShare(prepare("echo up", tasks=3)))
        await made.until_true(
            lambda: bool(states())
        )  # Written by the runner, which would write it later otherwise.
        made.spool._programs.close()  # As if by a kill, before any runner could say that it is there.
    (state,) = states()
    state.unlink()
    async with nodes(spool_path) as made:
        assert () == made.found.tasks
        ended = await made.finish(prepare("echo up", tasks=3))
        assert 0 == ended.exit_code
        assert "up\n" == made.output(2)
        await made.until_nobody()


async def test_prepared_share_is_started_by_the_next_worker(spool_path: Path) -> None:
    """Its runners wait for whoever says the word."""
    async with nodes(spool_path) as made:
        prepared = await made.prepare(prepare("echo up", tasks=2))
    async with nodes(spool_path) as made:
        assert (prepared,) == made.found.tasks
        made.begin(StartShare(ShareKey(JOB, 1), 12))
        ended = await made.until(TasksPhase.ENDED)
        assert 0 == ended.exit_code


async def test_process_of_a_forgotten_share_is_ended(spool_path: Path) -> None:
    """Whoever carries the mark of a task that is not here any more has no business here."""
    orphan = _sleeper(spool_path / "shares" / "w-9.1.0" / "job-0.0" / "files")
    async with nodes(spool_path):
        assert -signal.SIGKILL == orphan.wait()


async def test_task_ends_with_its_spool(spool_path: Path) -> None:
    """Without the spool nobody could ever stop it."""
    async with nodes(spool_path, limits=TaskLimits(beat=seconds(0.05))) as made:
        await made.start(prepare("sleep 600"))
        (share,) = made.spool._programs.shares.values()
        share.directory.rename(spool_path / "elsewhere")
        ended = await made.until(TasksPhase.ENDED)
        assert -1 == ended.exit_code


async def test_only_one_process_serves_a_spool(spool_path: Path) -> None:
    """Another one is refused, and says what to do."""
    async with nodes(spool_path):
        with pytest.raises(SpoolInUse, match="another process serves these nodes; stop that one first"):
            Nodes(spool_path, None, {}, None)
    async with nodes(spool_path):
        pass


def _sleeper(mark: Path) -> subprocess.Popen[bytes]:
    """A process that carries the mark of a task."""
    environment = {"PATH": os.environ["PATH"], "MIZZEN_TASK_DIR": str(mark)}
    return subprocess.Popen(["sleep", "600"], env=environment)


def _runners(made: Nodes) -> list[int]:
    (share,) = made.spool._programs.shares.values()
    return [task.state.runner.pid for task in share.tasks if task.state is not None]


async def _until_ended(spool_path: Path, count: int) -> None:
    """Wait until so many runners have written the end of their tasks."""

    def ended() -> list[str]:
        states = [path.read_text() for path in spool_path.glob("shares/*/*/state")]
        return [state for state in states if "phase=ended" in state]

    await until(lambda: len(ended()) >= count, PATIENCE_SECONDS, lambda: f"{ended()}")
