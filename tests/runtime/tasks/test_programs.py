"""Shares of programs, as real processes: they start together, end as they were asked to, and leave nothing behind."""

import os
import shlex
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.effects import ForgetShare, PrepareShare, StartShare, StopShare
from core.messages.output import OutputPage
from core.messages.workers import ISOLATED, TasksPhase
from core.nouns.ids import ShareKey
from core.nouns.instant import seconds
from core.nouns.placement import Spread
from core.nouns.quantities import Amount
from core.nouns.workload import Program
from runtime.tasks.output import page_of
from runtime.tasks.share import TaskLimits
from runtime.tasks.task import Task
from tests.runtime.tasks.aids import (
    EXIT_KILLED,
    EXIT_STOPPED,
    GRACE,
    JOB,
    Nodes,
    alone,
    asked,
    nodes,
    prepare,
)

pytestmark = pytest.mark.processes


def python(code: str) -> str:
    """A command that runs this code, and nothing but this code, as soon as it can."""
    return f"{shlex.quote(sys.executable)} -I -S -c {shlex.quote(code)}"


async def test_gang_runs_and_ends(spool_path: Path) -> None:
    """Prepared, running once every rank is, ended once none is; each rank has its own output, and all end well."""
    async with nodes(spool_path) as made:
        prepared = await made.prepare(
            prepare("echo I am $RANK; read x < $MIZZEN_CHECKPOINT_DIR/../go", tasks=3)
        )
        assert ("127.0.0.1", 1) == (prepared.host, len(prepared.ports))
        assert all(not made.output(rank) for rank in range(3))
        go = made.spool.layout.checkpoints / JOB / "go"
        go.parent.mkdir()
        os.mkfifo(go)
        made.begin(StartShare(ShareKey(JOB, 1), 11))
        await made.until(TasksPhase.RUNNING)
        for rank in range(3):
            await made.until_said(f"I am {rank}\n", rank)
        with go.open("w") as said:
            said.write("on\non\non\n")
            said.flush()
            ended = await made.until(TasksPhase.ENDED)
        assert ["prepared", "running", "ended"] == made.phases()
        assert (0, prepared.ports) == (ended.exit_code, ended.ports)


@pytest.mark.parametrize(
    ("run", "code"),
    [
        ("true", 0),
        ("exit 3", 3),
        ("exit 85", 85),
        ("kill -9 $$", EXIT_KILLED),
        ("kill -SEGV $$", 139),
        ("/no/such/program", 127),
        ("/etc/passwd", 126),
    ],
)
async def test_exit_code(spool_path: Path, run: str, code: int) -> None:
    """As a shell reports it; whoever was killed by a signal counts as 128 more than its number."""
    async with nodes(spool_path) as made:
        ended = await made.finish(prepare(run))
        assert code == ended.exit_code


async def test_first_failure_stops_the_others(spool_path: Path) -> None:
    """The share ends with the first code that was not zero; a rank that ends well disturbs nobody."""
    async with nodes(spool_path) as made:
        ended = await made.finish(
            prepare("[ $RANK = 0 ] && exit 0; [ $RANK = 1 ] && exit 85; sleep 600", tasks=3)
        )
        assert 85 == ended.exit_code
        assert "stopping" in made.phases()
        assert "ended" == made.phases()[-1]


async def test_program_that_cannot_be_started(spool_path: Path) -> None:
    """It ends with 127 when something is not there and 126 when it may not be used, and says what it was."""
    async with nodes(spool_path) as made:
        ended = await made.finish(prepare(Program("true", directory="/no/such/place")))
        assert 127 == ended.exit_code
        assert (
            "mizzen: the task cannot be started: /no/such/place: No such file or directory\n" == made.output()
        )
        ended = await made.finish(prepare(Program("true", checkpoint_dir="/dev/null/here"), epoch=2))
        assert 126 == ended.exit_code
        assert "/dev/null/here" in made.output(epoch=2)


async def test_it_is_gentle_and_alone(spool_path: Path) -> None:
    """Nice by 10, nothing to read, a group of its own, on the CPU of its slot, in a directory of the attempt's own."""
    async with nodes(spool_path) as made:
        code = "import os; print(os.nice(0), os.read(0, 9), os.getpgrp() == os.getpid(), *os.sched_getaffinity(0))"
        await made.finish(prepare(f"cd .; {python(code)}; pwd -P", tasks=2))
        usable = sorted(os.sched_getaffinity(0))
        where = (made.spool.layout.outputs / "w-1.1" / "work").resolve()
        for rank in range(2):
            cpu = usable[rank % len(usable)]
            assert f"{min(os.nice(0) + 10, 19)} b'' False {cpu}\n{where}\n" == made.output(rank)


async def test_one_command_replaces_the_shell(spool_path: Path) -> None:
    """So that signals reach it and no shell: it leads its group itself."""
    async with nodes(spool_path) as made:
        await made.finish(prepare(python("import os; print(os.getpgrp() == os.getpid())")))
        assert "True\n" == made.output()


async def test_stop_is_heard_and_grace_given(spool_path: Path) -> None:
    """SIGTERM reaches every rank, also one that a shell runs, and what it then says by its exit code counts."""
    async with nodes(spool_path) as made:
        leaving = python(
            "import os, signal, sys, time\n"  # `print` may not be called again while it is in the middle of something.
            "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'leaving\\n'), sys.exit(85)))\n"
            "print('up', flush=True)\n"
            "time.sleep(600)"
        )
        await made.start(prepare(f"cd /; {leaving}; echo not reached", tasks=2))
        await made.until_said("up\n")
        await made.until_said("up\n", rank=1)
        ended = await made.stop()
        assert 85 == ended.exit_code
        assert ["up\nleaving\n"] * 2 == [made.output(0), made.output(1)]
        assert ["prepared", "running", "stopping", "ended"] == made.phases()


async def test_late_shell_takes_no_exit_code_with_it(spool_path: Path) -> None:
    """A shell that gets the CPU only after its child has ended would reap it, and end by SIGTERM without a word of it."""
    async with nodes(spool_path) as made:
        late = python("import os; os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))")
        leaving = python(
            "import signal, sys, time\n"
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(85))\n"
            "print('up', flush=True)\n"
            "time.sleep(600)"
        )
        inner = f"{late}; {leaving}; echo not reached"
        await made.start(prepare(f"{late}; sh -c {shlex.quote(inner)}; echo not reached", tasks=8))
        for rank in range(8):
            await made.until_said("up\n", rank)
        await made.stop()
        outputs = made.spool.layout.outputs / "w-1.1"
        assert ["85\n"] * 8 == [(outputs / f"job-0.{rank}" / "ended").read_text() for rank in range(8)]


async def test_stop_right_behind_the_start(spool_path: Path) -> None:
    """However soon it is told to end, it is: no signal is lost on the way to becoming the program."""
    async with nodes(spool_path) as made:
        for epoch in range(1, 6):
            await made.prepare(prepare("exec sleep 600", epoch=epoch, tasks=2))
            made.begin(StartShare(ShareKey(JOB, epoch), 20), StopShare(ShareKey(JOB, epoch), 20, GRACE))
            ended = await made.until(TasksPhase.ENDED, epoch)
            assert EXIT_STOPPED == ended.exit_code


async def test_shell_that_is_told_to_stop(spool_path: Path) -> None:
    """A shell and all that it runs end by SIGTERM, which is what the share then ended by."""
    async with nodes(spool_path) as made:
        await made.start(prepare("echo up; sleep 600 | sleep 600"))
        await made.until_said("up")
        ended = await made.stop()
        assert EXIT_STOPPED == ended.exit_code


async def test_early_warning(spool_path: Path) -> None:
    """SIGUSR1 first, SIGTERM as long after it as was asked for."""
    async with nodes(spool_path) as made:
        run = python(
            "import os, signal, sys, time\n"
            "signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b'warned\\n'))\n"
            "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'told\\n'), sys.exit(0)))\n"
            "print('up', flush=True)\n"
            "while True: time.sleep(600)"
        )
        await made.start(prepare(Program(f"cd /; {run}; exit $?", early_warning=seconds(0.2))))
        await made.until_said("up")
        made.begin(StopShare(ShareKey(JOB, 1), 20, GRACE))
        await made.until_said("warned")
        assert "told" not in made.output()
        ended = await made.until(TasksPhase.ENDED)
        assert 0 == ended.exit_code
        assert "up\nwarned\ntold\n" == made.output()


async def test_program_that_ignores_a_stop_is_killed(spool_path: Path) -> None:
    """After the grace, with all that descends from it."""
    async with nodes(spool_path) as made:
        await made.start(prepare("trap '' TERM; echo up; sleep 600 & sleep 600; sleep 600"))
        await made.until_said("up")
        ended = await made.stop(grace=seconds(0.1))
        assert EXIT_KILLED == ended.exit_code
        await made.until_nobody()


async def test_processes_left_behind_are_ended(spool_path: Path) -> None:
    """A process that forks twice and leaves the session is the task's all the same, and ends with it."""
    detached = "setsid sh -c 'trap \"\" TERM HUP; echo away; sleep 600; sleep 600' & sleep 0.05; "
    async with nodes(spool_path) as made:
        ended = await made.finish(prepare(f"({detached}) ; echo done"))
        assert 0 == ended.exit_code
        assert "away\ndone\n" == made.output()
        await made.until_nobody()
        await made.start(prepare(f"({detached}) ; exec sleep 600", epoch=2))
        await made.until_said("away", epoch=2)
        await made.stop(epoch=2)
        await made.until_nobody()


async def test_prepared_share_stops_at_once(spool_path: Path) -> None:
    """What does not run needs no grace, and cannot be started after it; nothing of it ever ran."""
    async with nodes(spool_path) as made:
        await made.prepare(prepare("echo up", tasks=2))
        ended = await made.stop()
        assert EXIT_STOPPED == ended.exit_code
        made.begin(StartShare(ShareKey(JOB, 1), 21))
        assert "" == made.output()


async def test_prepared_share_that_is_never_started(spool_path: Path) -> None:
    """It ends by itself, by no fault of the user's."""
    async with nodes(spool_path, limits=TaskLimits(prepared_span=seconds(0.1))) as made:
        await made.prepare(prepare("echo up"))
        ended = await made.until(TasksPhase.ENDED)
        assert (ISOLATED, ()) == (ended.exit_code, ended.failed_nodes)
        assert "" == made.output()


async def test_runner_that_is_killed(spool_path: Path) -> None:
    """Its task is killed too, wherever it went, and the share has ended by no fault of its own."""
    async with nodes(spool_path) as made:
        detached = "setsid sh -c 'echo away; sleep 600; sleep 600' & "
        await made.start(prepare(f"({detached}) ; echo up; sleep 600; sleep 600", tasks=2))
        await made.until_said("away")
        _kill_runner(made, 0)
        ended = await made.until(TasksPhase.ENDED)
        assert -1 == ended.exit_code
        await made.until_nobody()


async def test_doing_it_twice_changes_nothing_more(spool_path: Path) -> None:
    """Each effect may be asked for again: the share goes on as it was."""
    command = prepare("echo up; sleep 600; exit 4")
    async with nodes(spool_path) as made:
        made.begin(PrepareShare(command), PrepareShare(command))
        await made.start(command)
        await made.until_said("up")
        made.begin(PrepareShare(command), StartShare(ShareKey(JOB, 1), 11))
        made.begin(StopShare(ShareKey(JOB, 1), 12, GRACE), StopShare(ShareKey(JOB, 1), 13, seconds(0)))
        ended = await made.until(TasksPhase.ENDED)
        runners = [task.state.runner.pid for task in _tasks(made) if task.state is not None]
        made.forget()
        made.forget()
        assert EXIT_STOPPED == ended.exit_code
        assert "up\n" == made.output()
        assert ["prepared", "running", "running", "stopping", "ended"] == made.phases()
        assert [] == list(made.spool.layout.shares.iterdir())
        await made.until_true(lambda: not any(map(_is_known, runners)), lambda: "a runner was not reaped")


async def test_checkpoints_are_told(spool_path: Path) -> None:
    """By the leader, once `<step>.done` is there, the newest, if it is a step at all; also one that is written in the grace, with the end."""
    run = (
        "cd $MIZZEN_CHECKPOINT_DIR; touch 10 10.done 7.done 99 x.done .12.done 0077.done 99999999999999999999.done; "
        "trap 'touch 20.done; exit 0' TERM; echo up; while :; do sleep 0.01; done"
    )
    async with nodes(spool_path) as made:
        await made.start(prepare(run, tasks=2))
        await made.until_said("up")
        await made.until_said("up", rank=1)
        await made.until_true(lambda: 10 in [state.saved_step for state in made.states()])
        ended = await made.stop()
        assert (20, 0) == (ended.saved_step, ended.exit_code)
        await made.start(prepare(run, epoch=2, is_leader=False))
        await made.until_said("up", epoch=2)
        ended = await made.stop(epoch=2)
        assert {0} == {state.saved_step for state in made.states(2)}


async def test_checkpoints_may_lie_elsewhere(spool_path: Path, tmp_path: Path) -> None:
    """Under the directory that the program names, by workload and epoch; the last one counts though it ends at once."""
    shared = tmp_path / "shared"
    async with nodes(spool_path) as made:
        program = Program("touch $MIZZEN_CHECKPOINT_DIR/5.done", checkpoint_dir=str(shared))
        ended = await made.finish(prepare(program))
        assert 5 == ended.saved_step
        assert (shared / "w-1" / "1" / "5.done").exists()


async def test_device_that_is_not_there(spool_path: Path) -> None:
    """A share for which this machine has no device ends, and says why."""
    async with nodes(spool_path) as made:
        command = prepare("true", tasks=2)
        command = replace(command, jobs=(replace(command.jobs[0], gpu_type="H100", need=Amount(2000)),))
        made.begin(PrepareShare(command))
        ended = await made.until(TasksPhase.ENDED)
        assert 126 == ended.exit_code
        assert "2000 milli of a GPU are not free on this machine" in made.output(1)


async def test_where_it_failed(spool_path: Path) -> None:
    """On the node of the task that failed first: those who were stopped for it failed nowhere, nor who was told to stop."""
    spreads = (Spread((4, 7), (1, 1)),)
    async with nodes(spool_path) as made:
        ended = await made.finish(prepare("[ $RANK = 1 ] && exit 3; sleep 600", tasks=2, spreads=spreads))
        assert (3, (7,)) == (ended.exit_code, ended.failed_nodes)
        await made.start(prepare("exec sleep 600", tasks=2, spreads=spreads, epoch=2))
        ended = await made.stop(epoch=2)
        assert (EXIT_STOPPED, ()) == (ended.exit_code, ended.failed_nodes)
        ended = await made.finish(prepare("true", tasks=2, spreads=spreads, epoch=3))
        assert (0, ()) == (ended.exit_code, ended.failed_nodes)
        await made.start(prepare("exec sleep 600", spreads=(Spread((9,), (1,)),), epoch=4))
        _kill_runner(made, 0, epoch=4)
        ended = await made.until(TasksPhase.ENDED, 4)
        assert (-1, (9,)) == (ended.exit_code, ended.failed_nodes)


# Tasks that stand alone.


async def test_tasks_that_stand_alone_do_not_share_their_fate(spool_path: Path) -> None:
    """Each is a share of its own: one fails, the others go on, and the output of each stays its own."""
    async with nodes(spool_path) as made:
        gang = prepare("echo $RANK up; [ $RANK = 2 ] && exit 3; exec sleep 600", tasks=3)
        await made.start(alone(gang, 0))
        await made.start(alone(gang, 1, group=1))
        ended = await made.finish(alone(gang, 2, group=5))
        assert (3, (5,), 2, 0) == (ended.exit_code, ended.failed_nodes, ended.task, ended.run)
        for rank in range(3):
            await made.until_said(f"{rank} up\n", rank)
        made.begin(StopShare(ShareKey(JOB, 1, 0), 20, GRACE))
        await made.until(TasksPhase.ENDED, task=0)
        assert TasksPhase.RUNNING == made.states(task=1)[-1].phase
        assert ["0 up\n", "1 up\n", "2 up\n"] == [made.output(rank) for rank in range(3)]
        made.begin(StopShare(ShareKey(JOB, 1, 1), 20, GRACE))
        await made.until(TasksPhase.ENDED, task=1)
        await made.until_nobody()


async def test_next_run_of_a_task(spool_path: Path) -> None:
    """It writes on behind the run before, while nothing else of the attempt is touched; the output has ended between them."""
    async with nodes(spool_path) as made:
        gang = prepare("echo run $TORCHELASTIC_RESTART_COUNT; exec sleep 600", tasks=2)
        await made.start(alone(gang, 1))
        await made.start(alone(gang, 0))
        for run in range(1, 4):
            await made.until_said(f"run {run - 1}\n")
            assert not _is_ended(made)
            made.begin(StopShare(ShareKey(JOB, 1, 0, run - 1), 20, GRACE))
            ended = await made.until(TasksPhase.ENDED, task=0, run=run - 1)
            assert (EXIT_STOPPED, run - 1) == (ended.exit_code, ended.run)
            assert _is_ended(made)
            await made.start(alone(gang, 0, run=run))
            made.begin(ForgetShare(ShareKey(JOB, 1, 0, run - 1), 30))
        assert "run 0\nrun 1\nrun 2\nrun 3\n" == await made.until_said("run 3\n")
        assert "run 0\n" == made.output(1)
        made.begin(StopShare(ShareKey(JOB, 1, 0, 3), 20, GRACE), StopShare(ShareKey(JOB, 1, 1), 20, GRACE))
        await made.until_nobody()


async def test_next_run_of_a_paused_gang(spool_path: Path) -> None:
    """All of it starts again where it was, from what it saved, and writes on; its tasks are found under the new run."""
    run = "echo from ${MIZZEN_RESUME_STEP-nothing}; mkdir -p $MIZZEN_CHECKPOINT_DIR/5; touch $MIZZEN_CHECKPOINT_DIR/5.done; exec sleep 600"
    async with nodes(spool_path) as made:
        await made.start(prepare(run, tasks=2))
        await made.until_true(lambda: 5 in [state.saved_step for state in made.states()])
        for rank in range(2):
            await made.until_said("from nothing\n", rank)
        await made.stop()
        made.forget()
        again = prepare(run, tasks=2, run=1, resume_epoch=1, resume_step=5)
        await made.start(again)
        for rank in range(2):
            assert "from nothing\nfrom 5\n" == await made.until_said("from 5\n", rank)
    async with nodes(spool_path) as made:
        (found,) = made.found.tasks
        assert (again.key, TasksPhase.RUNNING) == (found.key, found.phase)
        made.begin(StopShare(again.key, 20, GRACE))
        await made.until_nobody()


async def test_run_that_cannot_be_started(spool_path: Path) -> None:
    """It says so behind what the run before wrote."""
    async with nodes(spool_path) as made:
        gang = prepare("echo up", tasks=2)
        await made.finish(alone(gang, 0))
        lacking = replace(gang.jobs[0], gpu_type="H100", need=Amount(2000))
        command = alone(replace(gang, jobs=(lacking,)), 0, group=3, run=1)
        made.begin(PrepareShare(command))
        ended = await made.until(TasksPhase.ENDED, task=0, run=1)
        assert (126, (3,)) == (ended.exit_code, ended.failed_nodes)
        assert made.output().startswith("up\nmizzen: the task cannot be started")


def _is_ended(made: Nodes) -> bool:
    page = page_of(made.spool.layout.outputs, asked(10_000))
    assert isinstance(page, OutputPage)
    return page.is_ended


def _kill_runner(made: Nodes, rank: int, epoch: int = 1) -> None:
    state = made.spool._programs.shares[ShareKey(JOB, epoch)].tasks[rank].state
    assert state is not None
    os.kill(state.runner.pid, 9)


def _tasks(made: Nodes) -> list[Task]:
    (share,) = made.spool._programs.shares.values()
    return share.tasks


def _is_known(pid: int) -> bool:
    """Zombies are."""
    return Path(f"/proc/{pid}").exists()
