"""What a task sees: where it stands, how it finds the others, what was asked for it, and nothing of the worker's own."""

import asyncio
import os
import shlex
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.effects import PrepareShare, StartShare
from core.messages.workers import PrepareTasks, TasksPhase
from core.nouns.ids import ShareKey, WorkloadId
from core.nouns.instant import Instant
from core.nouns.pipeline import Forerunner
from core.nouns.placement import Spread
from core.nouns.quantities import Amount
from core.nouns.workload import Program
from runtime.clock import Clock
from runtime.tasks import running
from runtime.tasks.environment import Addresses, Place, environment_of, replacing_shell
from runtime.tasks.slots import Device
from runtime.tasks.spool import TaskSpool
from tests.runtime.tasks.aids import JOB, Nodes, alone, nodes, prepare

SEE = f"{shlex.quote(sys.executable)} -I -S -c 'import os; [print(k, v) for k, v in sorted(os.environ.items())]'"
"""A command that says its environment, a variable a line."""
SECRET = "hunter2-" * 500


def seen(made: Nodes, rank: int = 0, epoch: int = 1, job: str = "job-0") -> dict[str, str]:
    """What a task said that it sees."""
    lines = made.output(rank, job, epoch).splitlines()
    return {line.partition(" ")[0]: line.partition(" ")[2] for line in lines}


@pytest.mark.processes
async def test_gang_over_two_workers_sees_where_it_stands(spool_path: Path) -> None:
    """Ranks count over all nodes, local ranks over this one; all find rank 0 and the port beside its own."""
    command = prepare(
        SEE, tasks=5, spreads=(Spread((7,), (3,)),), ranks=((2,),), groups=((1,),), is_leader=False
    )
    async with nodes(spool_path) as made:
        prepared = await made.prepare(command)
        assert (0,) == prepared.ports, "rank 0 is elsewhere"
        made.begin(StartShare(ShareKey(JOB, 1), 11, ("10.0.0.1:2000",), (("10.0.0.1", "10.0.0.2"),)))
        await made.until(TasksPhase.ENDED)
        for local in range(3):
            task = seen(made, 2 + local)
            expected = {
                "RANK": str(2 + local),
                "LOCAL_RANK": str(local),
                "WORLD_SIZE": "5",
                "LOCAL_WORLD_SIZE": "3",
                "GROUP_RANK": "1",
                "MASTER_ADDR": "10.0.0.1",
                "MASTER_PORT": "2000",
                "MIZZEN_AGREE_ADDR": "10.0.0.1:2001",
                "MIZZEN_NODE_IPS": "10.0.0.1,10.0.0.2",
                "MIZZEN_JOB_ID": "w-1",
                "MIZZEN_PYTHON": sys.executable,
                "MIZZEN_ATTEMPT": "1",
                "TORCHELASTIC_RUN_ID": "w-1",
                "TORCHELASTIC_RESTART_COUNT": "0",
                "OMP_NUM_THREADS": "1",
                "MIZZEN_CHECKPOINT_DIR": str(made.spool.layout.checkpoints / "w-1" / "1"),
            }
            assert expected == {name: task.get(name) for name in expected}
            assert Path(task["MIZZEN_TASK_DIR"]).is_dir()
            assert not {"MIZZEN_RESUME_FROM", "SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES"} & set(task)


@pytest.mark.processes
async def test_worker_keeps_its_own_to_itself(spool_path: Path) -> None:
    """The password of the bus reaches no task, nor does any other variable but the few that programs need."""
    worker = {"PATH": os.environ["PATH"], "MIZZEN_NATS_URL": "nats://u:pw@h:1", "AWS_KEY": "x", "TZ": "UTC"}
    async with nodes(spool_path, inherited=worker) as made:
        program = Program(
            SEE, env={"MIZZEN_JOB_ID": "mine", "RANK": "9", "OMP_NUM_THREADS": "4", "OWN": "a\nb é"}
        )
        await made.finish(prepare(program))
        task = seen(made)
        assert ("UTC", "4", "a") == (task["TZ"], task["OMP_NUM_THREADS"], task["OWN"])
        assert ("w-1", "0") == (task["MIZZEN_JOB_ID"], task["RANK"])
        assert "b é" in made.output()
        assert not {"MIZZEN_NATS_URL", "AWS_KEY"} & set(task)
        assert "pw@" not in made.output()


@pytest.mark.processes
async def test_ports_are_free_and_of_no_other_share(spool_path: Path) -> None:
    """Rank 0 may listen on both of its ports, and no other share has been promised them."""
    listen = (
        "import os, socket\n"
        "one = socket.create_server((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])))\n"
        "host, port = os.environ['MIZZEN_AGREE_ADDR'].split(':')\n"
        "two = socket.create_server((host, int(port)))\n"
        "print('both')"
    )
    run = f"{shlex.quote(sys.executable)} -I -S -c {shlex.quote(listen)}"
    async with nodes(spool_path) as made:
        prepared = await made.prepare(prepare(run, "true"))
        other = await made.prepare(prepare("true", epoch=2))
        ports = [*prepared.ports, *other.ports]
        assert 3 == len({port // 2 for port in ports})
        made.begin(StartShare(ShareKey(JOB, 1), 11))
        await made.until(TasksPhase.ENDED)
        assert "both\n" == made.output()
        await made.stop(epoch=2)


@pytest.mark.processes
async def test_secrets_are_read_here_and_kept_nowhere(spool_path: Path) -> None:
    """From the worker's environment or a file of that name; no file that the spool writes has them."""
    (spool_path / "secrets").mkdir(parents=True)
    (spool_path / "secrets" / "FROM_FILE").write_text(f"{SECRET}file\n")
    worker = {"PATH": os.environ["PATH"], "MIZZEN_SECRET_FROM_WORKER": f"{SECRET}worker"}
    run = "test ${#FROM_FILE} = 4004 && test ${#FROM_WORKER} = 4006 && exit 9"
    async with nodes(spool_path, inherited=worker) as made:
        program = Program(run, env={"FROM_FILE": "not this"}, secrets=("FROM_FILE", "FROM_WORKER"))
        ended = await made.finish(prepare(program, tasks=2))
        assert 9 == ended.exit_code
        files = [path for path in spool_path.rglob("*") if path.is_file() and path.parent.name != "secrets"]
        assert len(files) > 10
        assert [] == [path for path in files if b"hunter2" in path.read_bytes()]


@pytest.mark.processes
@pytest.mark.parametrize("name", ["NOWHERE", "MIZZEN_NATS_URL", "AWS_KEY"])
async def test_secret_that_may_not_be_had(spool_path: Path, name: str) -> None:
    """The task is not started, and says which secret it lacks; the worker's own variables are nobody's secrets."""
    worker = {"PATH": os.environ["PATH"], "MIZZEN_NATS_URL": "nats://u:pw@h:1", "AWS_KEY": "pw@"}
    async with nodes(spool_path, inherited=worker) as made:
        ended = await made.finish(prepare(Program("echo up", secrets=(name,))))
        assert 126 == ended.exit_code
        assert name in made.output()
        assert "up" not in made.output()
        assert "pw@" not in made.output()


def test_resumed_attempt_is_told_from_where() -> None:
    """Its own directory is new; the checkpoint to go on from lies in that of the attempt that wrote it."""
    command = prepare(Program("x", checkpoint_dir="/shared"), epoch=4, resume_epoch=2, resume_step=1500)
    task = environment(command)
    assert "/shared/w-1/4" == task["MIZZEN_CHECKPOINT_DIR"]
    assert ("/shared/w-1/2/1500", "1500") == (task["MIZZEN_RESUME_FROM"], task["MIZZEN_RESUME_STEP"])
    assert ("3", "4") == (task["TORCHELASTIC_RESTART_COUNT"], task["MIZZEN_ATTEMPT"])


def test_stage_finds_what_its_forerunners_saved() -> None:
    """Where each was told to, or on the node; a name becomes one of a variable; and no user can say otherwise."""
    forerunners = (
        Forerunner("prep-data", WorkloadId("w-7"), 2, 40, "/shared"),
        Forerunner("train", WorkloadId("w-8"), 1),
    )
    command = prepare(Program("x", env={"MIZZEN_STAGE_TRAIN_STEP": "9"}), forerunners=forerunners)
    task = environment(command)
    assert ("/shared/w-7/2", "40") == (
        task["MIZZEN_STAGE_PREP_DATA_CHECKPOINT_DIR"],
        task["MIZZEN_STAGE_PREP_DATA_STEP"],
    )
    beside = Path(task["MIZZEN_CHECKPOINT_DIR"]).parents[1]
    assert str(beside / "w-8" / "1") == task["MIZZEN_STAGE_TRAIN_CHECKPOINT_DIR"]
    assert "0" == task["MIZZEN_STAGE_TRAIN_STEP"]
    assert not any(name.startswith("MIZZEN_STAGE") for name in environment(prepare(Program("x"))))


@pytest.mark.processes
@pytest.mark.parametrize("is_here", [True, False])
async def test_checkpoint_that_is_not_on_this_node(spool_path: Path, *, is_here: bool) -> None:
    """The attempt starts from the beginning and its output says why: better than to fail for what is on another machine."""
    async with nodes(spool_path) as made:
        if is_here:
            (made.spool.layout.checkpoints / "w-1" / "1" / "70").mkdir(parents=True)
        command = prepare("echo from ${MIZZEN_RESUME_STEP-nothing}", epoch=2, resume_epoch=1, resume_step=70)
        await made.finish(command)
        said = made.output(epoch=2)
        assert ("from 70\n" if is_here else "from nothing\n") == said.splitlines(keepends=True)[-1]
        assert is_here == ("mizzen: the checkpoint of step 70 is not on this node" not in said)


@pytest.mark.processes
async def test_checkpoints_may_lie_beside_the_spool(spool_path: Path, tmp_path: Path) -> None:
    """So that all nodes of one machine see them."""
    clock = Clock(asyncio.get_running_loop(), Instant(0))
    spool = TaskSpool("worker.eu.w0", clock, spool_path, devices=(), checkpoints=tmp_path / "shared")
    try:
        assert (tmp_path / "shared").is_dir()
        assert tmp_path / "shared" == spool.layout.checkpoints
    finally:
        spool.close()


def test_slurm_variables_on_request() -> None:
    """For programs that were written for Slurm."""
    task = environment(prepare(Program("x", has_slurm_env=True), tasks=3, epoch=2))
    expected = {
        "SLURM_JOB_ID": "w-1",
        "SLURM_PROCID": "2",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_NTASKS": "3",
        "SLURM_NNODES": "2",
        "SLURM_JOB_NODELIST": "a,b",
        "SLURM_RESTART_COUNT": "1",
    }
    assert expected == {name: text for name, text in task.items() if name.startswith("SLURM")}


def test_how_often_to_save_may_be_asked_for() -> None:
    """The one variable of ours that a job file sets."""
    command = prepare(Program("x", env={"MIZZEN_CHECKPOINT_SECONDS": "5", "MIZZEN_ATTEMPT": "9"}))
    seen_by_it = environment(command)
    assert ("5", "1") == (seen_by_it["MIZZEN_CHECKPOINT_SECONDS"], seen_by_it["MIZZEN_ATTEMPT"])


@pytest.mark.processes
@pytest.mark.parametrize(
    ("milli", "wanted"),
    [(1_000, ["GPU-a,GPU-b", "GPU-a,GPU-b"]), (2_000, ["GPU-a,GPU-b"]), (500, ["GPU-a", "GPU-a"])],
)
async def test_devices_that_ranks_see(milli: int, wanted: list[str], spool_path: Path) -> None:
    """With one whole GPU each, all of the node's in the order of local ranks, as `set_device(LOCAL_RANK)` wants them."""
    gpus = [Device(f"GPU-{letter}", "NVIDIA H200") for letter in "ab"]
    async with nodes(spool_path, devices=gpus) as made:
        command = prepare(SEE, tasks=len(wanted))
        job = replace(command.jobs[0], gpu_type="H200", need=Amount(milli))
        await made.finish(replace(command, jobs=(job,)))
        assert wanted == [seen(made, rank)["CUDA_VISIBLE_DEVICES"] for rank in range(len(wanted))]


@pytest.mark.processes
async def test_parts_of_one_device_see_one_gpu(spool_path: Path) -> None:
    """Tasks of one number get one GPU, in whatever order they come; a new number and a whole device get free ones."""

    def sharing(epoch: int, milli: int, *devices: int) -> PrepareTasks:
        tasks = max(1, len(devices))
        command = prepare(SEE, tasks=tasks, epoch=epoch, devices=(devices,) if devices else ())
        return replace(command, jobs=(replace(command.jobs[0], gpu_type="H200", need=Amount(milli)),))

    gpus = [Device(f"GPU-{letter}", "NVIDIA H200") for letter in "abc"]
    async with nodes(spool_path, devices=gpus) as made:
        await made.prepare(sharing(1, 300, 7, 4))
        await made.prepare(sharing(2, 1000))
        await made.finish(sharing(3, 500, 4, 7))
        assert ["GPU-b", "GPU-a"] == [seen(made, rank, 3)["CUDA_VISIBLE_DEVICES"] for rank in range(2)]
        for epoch in (1, 2):
            await made.stop(epoch)
        await made.finish(sharing(4, 1000))
        assert "GPU-a" == seen(made, 0, 4)["CUDA_VISIBLE_DEVICES"], "whoever has ended shares nothing"


@pytest.mark.processes
async def test_pair_sees_one_gpu(spool_path: Path) -> None:
    """Whichever of host and guest is prepared first, and whichever ends first: the device is free when both have ended."""

    def one(epoch: int, beside: int = 0) -> PrepareTasks:
        command = prepare(SEE, epoch=epoch, beside=(JOB, beside) if beside else None)
        return replace(command, jobs=(replace(command.jobs[0], gpu_type="H200", need=Amount(1_000)),))

    gpus = [Device(f"GPU-{letter}", "NVIDIA H200") for letter in "abc"]
    async with nodes(spool_path, devices=gpus) as made:

        async def gpu(command: PrepareTasks) -> str:
            await made.finish(command)
            return seen(made, 0, command.epoch)["CUDA_VISIBLE_DEVICES"]

        await made.prepare(one(1))
        await made.prepare(one(2))
        assert "GPU-b" == await gpu(one(3, beside=2)), "its host's"
        await made.prepare(one(4, beside=5))
        assert "GPU-c" == await gpu(one(5)), "that of the guest, which came first"
        await made.prepare(one(6, beside=1))
        await made.stop(1)
        assert "GPU-a" == await gpu(one(7, beside=6)), "its guest has it now, and lends it"
        made.begin(PrepareShare(one(8)))
        lacking = await made.until(TasksPhase.ENDED, 8)
        assert running.NOT_STARTED == lacking.exit_code, "each of the three is held"
        await made.stop(6)
        assert "GPU-a" == await gpu(one(9, beside=6)), (
            "of a host that has ended nothing is taken: it is the first free one"
        )
        for epoch in (2, 4):
            await made.stop(epoch)


def test_devices_are_named_by_uuid() -> None:
    """Where work is for GPUs a task sees its own, and none if it holds none; a user cannot ask for others."""
    command = prepare(Program("x", env={"CUDA_VISIBLE_DEVICES": "0,1,2,3"}))
    command = replace(command, jobs=(replace(command.jobs[0], gpu_type="H100", need=Amount(2000)),))
    assert "GPU-a,GPU-b" == environment(command, devices=("GPU-a", "GPU-b"))["CUDA_VISIBLE_DEVICES"]
    assert "" == environment(command)["CUDA_VISIBLE_DEVICES"]


@pytest.mark.parametrize(
    "run",
    [
        "python train.py",
        " ./train.sh --lr 0.1 'a; b' \"$X & $(date)\" > log 2>&1",
        "LR=1 B=x/y torchrun \\\n  --n 2 train.py",
        "python -c 'import a\nimport b'",
        'python "$DIR/train.py" ${ARGS}',
    ],
)
def test_one_command_replaces_the_shell(run: str) -> None:
    """And only `exec` is put before it."""
    replaced = replacing_shell(run)
    assert "exec " in replaced
    assert run.strip() == replaced.replace("exec ", "", 1)


@pytest.mark.parametrize(
    "run",
    [
        "a; b", "a && b", "a | b", "a &", "cd /x", "echo x", "exit 3", "if true\nthen a\nfi", "(a)", "{ a; }",
        "X=1", "export X=1", "$CMD x", "a `b`", "a # b", "a\nb", "! a", "'a b' c", "time a", "a $(b)", "", "for x in y",
        "a 'b", "X=$(a) b", "f() { a; }", ". ./x",
    ],
)  # fmt: skip
def test_more_than_one_command_leaves_the_shell(run: str) -> None:
    """Also where that is in doubt: `exec` of what is no program would run something else, or nothing."""
    assert run == replacing_shell(run)


@pytest.mark.processes
async def test_variables_before_the_command(spool_path: Path) -> None:
    """They are the command's, though `exec` stands between them."""
    async with nodes(spool_path) as made:
        await made.finish(prepare(f"OWN=7 {SEE}"))
        assert "7" == seen(made)["OWN"]


@pytest.mark.processes
async def test_jobs_of_one_workload_have_ranks_of_their_own(spool_path: Path) -> None:
    """Each job counts its own tasks, and has its own rank 0."""
    async with nodes(spool_path) as made:
        await made.finish(prepare(SEE, SEE, tasks=2))
        first, second = seen(made, 1), seen(made, 1, job="job-1")
        assert ("1", "1") == (first["RANK"], second["RANK"])
        assert first["MASTER_PORT"] != second["MASTER_PORT"]


def environment(command: object, devices: tuple[str, ...] = ()) -> dict[str, str]:
    """What rank 2, the second on the second of two nodes, sees."""
    place = Place(0, 2, 1, 2, 1, 5, (), devices)
    addresses = Addresses(("a:2000",), (("a", "b"),))
    return environment_of(command, place, addresses, Path("/task"), Path("/base"), {})  # type: ignore[arg-type]


@pytest.mark.processes
async def test_task_that_stands_alone_sees_its_job(spool_path: Path) -> None:
    """Its rank among all of them; it is alone on its node, and where nobody says who is rank 0, it is its own master."""
    async with nodes(spool_path) as made:
        command = alone(prepare(SEE, tasks=8, epoch=2), 5, group=3, run=4)
        await made.finish(command)
        task = seen(made, 5, epoch=2)
        expected = {
            "RANK": "5",
            "WORLD_SIZE": "8",
            "GROUP_RANK": "3",
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MIZZEN_ATTEMPT": "2",
            "TORCHELASTIC_RESTART_COUNT": "4",
            "MIZZEN_CHECKPOINT_DIR": str(made.spool.layout.checkpoints / "w-1" / "2"),
        }
        assert expected == {name: task.get(name) for name in expected}
        assert int(task["MASTER_PORT"]) > 0
        assert task["MIZZEN_AGREE_ADDR"] == f"127.0.0.1:{int(task['MASTER_PORT']) + 1}"
        other = alone(prepare(SEE, tasks=8, epoch=2), 6, group=4)
        await made.prepare(other)
        made.begin(StartShare(other.key, 12, ("10.0.0.1:2000",), (("10.0.0.1", "10.0.0.2"),)))
        await made.until(TasksPhase.ENDED, 2, other.task)
        assert ("10.0.0.1", "6") == (
            seen(made, 6, epoch=2)["MASTER_ADDR"],
            seen(made, 6, epoch=2)["RANK"],
        )


def test_gang_that_was_paused_counts_its_starts() -> None:
    """It resumes what it wrote itself: its own epoch's newest checkpoint."""
    program = Program("x", checkpoint_dir="/shared", has_slurm_env=True)
    task = environment(prepare(program, epoch=3, run=2, resume_epoch=3, resume_step=40))
    assert ("/shared/w-1/3", "/shared/w-1/3/40") == (
        task["MIZZEN_CHECKPOINT_DIR"],
        task["MIZZEN_RESUME_FROM"],
    )
    assert ("4", "4") == (task["TORCHELASTIC_RESTART_COUNT"], task["SLURM_RESTART_COUNT"])
