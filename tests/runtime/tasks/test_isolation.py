"""Strict programs: they end when their region is not heard, whoever is there to stop them."""

import os
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.effects import KeepHeard, PrepareShare, StartShare, StopShare
from core.messages.workers import ISOLATED, PrepareTasks, TasksPhase
from core.nouns.ids import ShareKey
from core.nouns.instant import seconds
from runtime.tasks.layout import Layout
from runtime.tasks.share import TaskLimits
from tests.mizzen.processes import until
from tests.runtime.tasks.aids import EXIT_KILLED, JOB, PATIENCE_SECONDS, alone, emulated, nodes, prepare

pytestmark = pytest.mark.processes

QUICK = TaskLimits(beat=seconds(0.05))
TICKS = "n=0; while :; do n=$((n+1)); echo tick $n; sleep 0.05; done"


def strict(command: PrepareTasks, isolation: float = 0.4) -> PrepareTasks:
    """The same, so many seconds after its region was heard."""
    return replace(command, isolation=seconds(isolation))


async def test_strict_task_ends_without_a_worker(spool_path: Path) -> None:
    """T26: nobody is there to stop it; whoever comes next hears that it was no fault of its own, nor of its node. Others run on (T25)."""
    async with nodes(spool_path, limits=QUICK) as made:
        made.begin(KeepHeard(0))
        await made.start(strict(prepare("trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done")))
        await made.start(prepare("exec sleep 600", epoch=2))
        await made.until_said("up")
    await until(lambda: _ends(spool_path), PATIENCE_SECONDS, lambda: "the strict task runs on")
    async with nodes(spool_path) as made:
        found = {state.epoch: state for state in made.found.tasks}
        assert (TasksPhase.ENDED, ISOLATED, ()) == (found[1].phase, found[1].exit_code, found[1].failed_nodes)
        assert TasksPhase.RUNNING == found[2].phase
        await made.stop(epoch=2)


async def test_strict_task_runs_on_while_its_region_is_heard(spool_path: Path) -> None:
    """Over a restart of its worker too, which goes on to say what it heard; once that is too long ago it ends, with all it runs."""
    async with nodes(spool_path, limits=QUICK) as made:
        made.begin(KeepHeard(seconds(900)))
        await made.start(strict(alone(prepare(TICKS), 0), 1000.0))
        await made.until_said("tick 10\n")
    async with nodes(spool_path, limits=QUICK) as made:
        made.begin(KeepHeard(0))
        assert time.monotonic_ns() - made.spool.layout.heard.stat().st_mtime_ns < seconds(500)
        written = made.output().count("\n")
        await made.until_said(f"tick {written + 10}\n")
        made.begin(KeepHeard(seconds(1001)))  # An old word takes nothing back; silence does.
        assert time.monotonic_ns() - made.spool.layout.heard.stat().st_mtime_ns < seconds(500)
        _set_heard(made.spool.layout, seconds(1001))
        ended = await made.until(TasksPhase.ENDED, task=0)
        assert ISOLATED == ended.exit_code
        await made.until_nobody()


async def test_age_of_an_acknowledged_beat_counts(spool_path: Path) -> None:
    """An acknowledged beat counts from when it was said: one that is older than the isolation keeps nothing alive."""
    async with nodes(spool_path, limits=QUICK) as made:
        made.begin(KeepHeard(seconds(50)))
        await made.start(strict(prepare("exec sleep 600"), isolation=49.0))
        ended = await made.until(TasksPhase.ENDED)
        assert ISOLATED == ended.exit_code


async def test_strict_task_that_heeds_nothing_is_killed_in_time(spool_path: Path) -> None:
    """A grace that was given before the silence does not outlast what the region waits; it was told to end, and says so."""
    async with nodes(spool_path, limits=QUICK) as made:
        made.begin(KeepHeard(seconds(100)))
        await made.start(strict(prepare("trap '' TERM; echo up; while :; do sleep 0.02; done"), 110.0))
        await made.until_said("up")
        made.begin(StopShare(ShareKey(JOB, 1), 20, seconds(600)))
        await made.until(TasksPhase.STOPPING)
        _set_heard(made.spool.layout, seconds(200))
        ended = await made.until(TasksPhase.ENDED)
        assert EXIT_KILLED == ended.exit_code


async def test_time_of_another_boot_counts_for_nothing(spool_path: Path) -> None:
    """The clock that it was written by began anew since: what lies ahead of it was not heard now."""
    async with nodes(spool_path, limits=QUICK) as made:
        _set_heard(made.spool.layout, -seconds(10_000))
        await made.start(strict(prepare("exec sleep 600")))
        ended = await made.until(TasksPhase.ENDED)
        assert ISOLATED == ended.exit_code


async def test_strict_emulated_task(spool_path: Path) -> None:
    """One of this machine that was heard runs to its end, and one that was not stops by itself."""
    async with nodes(spool_path) as made:
        for epoch, code in ((1, ISOLATED), (2, 0)):
            command = replace(emulated(0.3, epoch=epoch), isolation=seconds(0.1))
            if not code:
                made.begin(KeepHeard(-seconds(1000)))  # As if it were heard until then.
            made.begin(PrepareShare(command), StartShare(command.key, 11))
            ended = await made.until(TasksPhase.ENDED, epoch)
            assert code == ended.exit_code


def _set_heard(layout: Layout, ago: int) -> None:
    layout.heard.touch()
    at = time.monotonic_ns() - ago
    os.utime(layout.heard, ns=(at, at))


def _ends(spool_path: Path) -> bool:
    states = [path.read_text() for path in spool_path.glob("shares/w-1.1.*/*/state")]
    return any("phase=ended" in state for state in states)
