"""What training scripts import: checkpoints that count only when whole, and ranks that leave at the same step."""

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Barrier, Event
from typing import IO

import pytest

import mizzen
from mizzen.sdk.mizzen import task
from mizzen.sdk.mizzen.task import QUESTION, Preemption

TIMES_MAX = 200
"""Ranks that have not left after so many steps never do."""


@pytest.fixture(autouse=True)
def without_mizzen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable is set, and what is written lies in a folder of the test's own."""
    for name in [name for name in os.environ if name.startswith(("MIZZEN_", "TORCHELASTIC_"))]:
        monkeypatch.delenv(name)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def free_port() -> int:
    """A port of loopback on which nobody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port: int = taken.getsockname()[1]
    return port


def a_rank(rank: int, world: int, port: int, attempt: int = 1) -> Preemption:
    """One rank's part. Signals belong to the process of the tests, so `is_told` is set by hand."""
    made = Preemption({
        "RANK": str(rank), "WORLD_SIZE": str(world), "MIZZEN_AGREE_ADDR": f"127.0.0.1:{port}",
        "TORCHELASTIC_RUN_ID": "charlm-1", "MIZZEN_ATTEMPT": str(attempt),
    })  # fmt: skip
    made._is_watching = True
    return made


def steps_until_left(
    rank: Preemption, told_at: int | None, meet: Barrier | None = None, lead: int = 1
) -> int:
    """The step at which a rank hears yes, when it is told at some step itself, or never; ranks meet every so often."""
    try:
        for step in range(1, TIMES_MAX):
            rank.is_told = told_at is not None and step >= told_at
            if rank.should_leave():
                assert rank.should_leave(), "who left has left"
                return step
            if meet is not None and step % lead == 0:
                meet.wait(10)
        raise AssertionError("never left")
    finally:
        rank.close()


# Checkpoints.


def test_checkpoint_goes_where_mizzen_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever directory the script names; it is there."""
    monkeypatch.setenv("MIZZEN_CHECKPOINT_DIR", str(tmp_path / "run" / "3"))
    assert tmp_path / "run" / "3" / "40" == mizzen.checkpoint_path(40, "elsewhere")
    assert (tmp_path / "run" / "3").is_dir()


def test_checkpoint_without_mizzen() -> None:
    """In the directory that the script names, or in `checkpoints` of the working directory."""
    assert Path("mine/40") == mizzen.checkpoint_path(40, "mine")
    mizzen.checkpoint_path(7).write_text("weights")
    mizzen.saved(7)
    assert "7\n" == Path("checkpoints/7.done").read_text()
    assert ["7", "7.done"] == sorted(path.name for path in Path("checkpoints").iterdir())


def test_checkpoint_that_is_not_there_does_not_count() -> None:
    """Saying that it was saved is a mistake of the script's, and leaves nothing behind."""
    with pytest.raises(FileNotFoundError, match="checkpoints/7"):
        mizzen.saved(7)
    assert [] == list(Path("checkpoints").iterdir())


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was brought to disk, in order, and of what was renamed."""
    told: list[str] = []
    sync, rename = os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        told.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def replace(path: Path, target: Path) -> Path:
        told.append(f"{target.name}!")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    return told


def test_checkpoint_is_on_disk_before_it_counts(synced: list[str]) -> None:
    """The file, its name, the mark; then the mark's name; then the directory that now holds that name."""
    mizzen.checkpoint_path(7).write_text("weights")
    mizzen.saved(7)
    assert ["7", "checkpoints", f".7.done.{os.getpid()}", "7.done!", "checkpoints"] == synced


def test_checkpoint_of_many_files_is_on_disk_before_it_counts(synced: list[str]) -> None:
    """A directory is a checkpoint too: all in it, however deep, and links are left alone."""
    path = mizzen.checkpoint_path(7)
    (path / "shards").mkdir(parents=True)
    (path / "shards" / "0").write_text("weights")
    (path / "state").write_text("moments")
    (path / "nowhere").symlink_to("gone")
    (path / "again").symlink_to(path)
    mizzen.saved(7)
    assert ["0", "shards", "state", "7", "checkpoints"] == synced[:5]
    assert "7.done!" == synced[-2]


def test_resumes_from_the_checkpoint_that_mizzen_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its step, which a path that ends in it tells too."""
    assert (None, 0) == (mizzen.resume_from(), mizzen.resume_step())
    monkeypatch.setenv("MIZZEN_RESUME_FROM", "/checkpoints/2/140")
    assert (Path("/checkpoints/2/140"), 140) == (mizzen.resume_from(), mizzen.resume_step())
    monkeypatch.setenv("MIZZEN_RESUME_FROM", "/checkpoints/latest")
    with pytest.raises(ValueError, match="does not end in a step"):
        mizzen.resume_step()
    monkeypatch.setenv("MIZZEN_RESUME_STEP", "150")
    assert 150 == mizzen.resume_step()


def test_checkpoint_of_a_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipeline, of a stage that came before and saved something."""
    assert mizzen.checkpoint_of("prep-data") is None
    monkeypatch.setenv("MIZZEN_STAGE_PREP_DATA_CHECKPOINT_DIR", "/shared/w-7/2")
    assert mizzen.checkpoint_of("prep-data") is None
    monkeypatch.setenv("MIZZEN_STAGE_PREP_DATA_STEP", "0")
    assert mizzen.checkpoint_of("prep-data") is None
    monkeypatch.setenv("MIZZEN_STAGE_PREP_DATA_STEP", "40")
    assert Path("/shared/w-7/2/40") == mizzen.checkpoint_of("prep-data")


# Leaving together.


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("lead", [1, 7, 30])
def test_ranks_leave_at_the_same_step(seed: int, lead: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever is told, whenever, and whether the script keeps its ranks in step or lets some run ahead."""
    dice = random.Random(seed)
    world = dice.randrange(2, 6)
    told = [dice.randrange(1, 40) if dice.random() < 0.5 else None for _ in range(world)]
    told[dice.randrange(world)] = dice.randrange(1, 40)
    port, meet = free_port(), Barrier(world)
    ranks = [a_rank(rank, world, port) for rank in range(world)]
    with ThreadPoolExecutor(world) as threads:
        left = list(threads.map(steps_until_left, ranks, told, [meet] * world, [lead] * world))
    assert 1 == len(set(left)), f"told at {told}, left at {left}"
    assert left[0] <= min(step for step in told if step is not None) + lead
    assert "" == capfd.readouterr().err


def test_rank_0_leaves_last(capfd: pytest.CaptureFixture[str]) -> None:
    """It answers those who ask what it asked last only when it is about to end."""
    port, has_left = free_port(), Event()

    def first() -> bool:
        rank = a_rank(0, 3, port)
        rank.is_told = True
        left = rank.should_leave()
        has_left.set()
        rank.close()
        return left

    def other(rank: int) -> bool:
        asking = a_rank(rank, 3, port)
        has_left.wait()
        with closing(asking):
            return asking.should_leave()

    with ThreadPoolExecutor(3) as threads:
        answers = [threads.submit(first), threads.submit(other, 1), threads.submit(other, 2)]
        assert [True, True, True] == [answer.result() for answer in answers]
    assert "" == capfd.readouterr().err


@pytest.mark.parametrize("world", [1, 4])
def test_rank_that_uses_the_scripts_own_sum(world: int, capfd: pytest.CaptureFixture[str]) -> None:
    """It leaves when the sum says that any was told, and nothing listens anywhere."""
    rank = a_rank(0, world, free_port())
    sums = iter([0, 0, 3])
    assert [False, False, True, True] == [rank.should_leave(lambda told: told + next(sums)) for _ in range(4)]
    assert rank._agreement is None
    assert "" == capfd.readouterr().err


def test_rank_by_itself_leaves_when_told(capfd: pytest.CaptureFixture[str]) -> None:
    """Without any variable there is nobody to ask."""
    alone = Preemption({})
    alone._is_watching = True
    assert not alone.should_leave()
    alone.is_told = True
    assert alone.should_leave()
    assert "" == capfd.readouterr().err


# When they cannot agree.


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long."""
    monkeypatch.setattr(task, "ASK_SECONDS_MAX", 0.2)
    monkeypatch.setattr(task, "LINGER_SECONDS_MAX", 0.2)


def goes_alone(rank: Preemption, capfd: pytest.CaptureFixture[str]) -> str:
    """What a rank says, once, when it no longer asks; it leaves when told itself."""
    assert not rank.should_leave()
    assert not rank.should_leave()
    rank.is_told = True
    assert rank.should_leave()
    said = capfd.readouterr().err
    assert 1 == said.count("\n")
    assert "cannot agree with the others" in said
    return said


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("place", ["", "nonsense", "127.0.0.1:", ":5", "127.0.0.1:99999"])
@pytest.mark.parametrize("rank", [0, 1])
def test_address_that_is_none(rank: int, place: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Each rank is told by itself, and says so."""
    made = Preemption({"RANK": str(rank), "WORLD_SIZE": "2", "MIZZEN_AGREE_ADDR": place})
    made._is_watching = True
    goes_alone(made, capfd)


@pytest.mark.usefixtures("_impatient")
def test_rank_without_a_listening_rank_0_goes_on_alone(capfd: pytest.CaptureFixture[str]) -> None:
    """A rank that does not find rank 0 goes on alone after a short while."""
    assert "refused" in goes_alone(a_rank(1, 2, free_port()), capfd)


@pytest.mark.usefixtures("_impatient")
def test_port_is_taken(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither rank 0, which cannot listen, nor the others, who hear something else, is held up."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken, ThreadPoolExecutor(1) as threads:
        port = taken.getsockname()[1]
        assert "in use" in goes_alone(a_rank(0, 2, port), capfd)

        def stranger() -> None:
            connection, _ = taken.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        threads.submit(stranger)
        assert "not rank 0" in goes_alone(a_rank(1, 2, port), capfd)


@pytest.mark.usefixtures("_impatient")
def test_rank_0_has_gone(capfd: pytest.CaptureFixture[str]) -> None:
    """Killed, say: the others hear it at their next question."""
    port = free_port()
    first, second = a_rank(0, 2, port), a_rank(1, 2, port)
    first.watch()
    assert not second.should_leave()
    first.close()
    goes_alone(second, capfd)


@pytest.mark.usefixtures("_impatient")
def test_rank_0_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    """Stopped, say: the others wait for a short while."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        assert "timed out" in goes_alone(a_rank(1, 2, silent.getsockname()[1]), capfd)


@pytest.fixture
def strangers() -> Iterator[list[socket.socket]]:
    """Connections that are closed in the end."""
    made: list[socket.socket] = []
    yield made
    for connection in made:
        connection.close()


def test_strangers_change_nothing(strangers: list[socket.socket], capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever comes to the port is read for the length of a question; an older attempt's ranks are strangers too."""
    port = free_port()
    first, second = a_rank(0, 2, port), a_rank(1, 2, port)
    run = first._run
    first.watch()
    assert not second.should_leave()
    for said in (
        b"",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000,
        os.urandom(QUESTION.size),
        QUESTION.pack(run, 1, 1, True)[:-1],
        QUESTION.pack(run ^ 1, 1, 2, True),
        QUESTION.pack(run, 0, 1, True),
        QUESTION.pack(run, 2, 1, True),
        QUESTION.pack(run, 1, 2**63, True),
    ):
        connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        strangers.append(connection)
        connection.sendall(said)
    strangers += [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(100)]
    older = a_rank(1, 2, port, attempt=0)
    older.is_told = True
    with closing(older):
        assert older.should_leave()
    assert "rank 1 cannot agree" in capfd.readouterr().err

    assert [False, False] == [second.should_leave(), first.should_leave()]
    second.is_told = True
    steps = steps_until_left(second, 1), steps_until_left(first, None)
    assert (1, 2) == steps, "the other had one question less behind it"
    assert "" == capfd.readouterr().err


def test_strangers_are_not_kept_without_end(strangers: list[socket.socket]) -> None:
    """The oldest silent connection makes room for the next, and a rank that came first is never it."""
    port = free_port()
    first, second = a_rank(0, 2, port), a_rank(1, 2, port)
    first.watch()
    assert not second.should_leave()
    strangers += [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(60)]
    assert b"" == strangers[0].recv(1)
    first.is_told = True
    assert [True, True] == [second.should_leave(), first.should_leave()] or second.should_leave()
    second.close()
    first.close()


# Signals, in processes of their own.


@contextmanager
def a_script(*lines: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A script that runs on its own, and what it says."""
    with subprocess.Popen(
        [sys.executable, "-c", "\n".join(("import os, signal, sys, time, mizzen", *lines))],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as script:
        try:
            assert script.stdout is not None
            yield script, script.stdout
        finally:
            script.kill()


@pytest.mark.processes
def test_import_brings_only_the_standard_library() -> None:
    """A training script's own environment needs nothing for it, and it costs no time."""
    told = "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; before = set(sys.modules); import mizzen; {told}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "mizzen" == done.stdout.strip()


@pytest.mark.processes
def test_script_without_mizzen_is_asked_to_leave_by_a_signal() -> None:
    """A handler that the script installed before is called as well."""
    with a_script(
        "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'mine\\n'))",
        "print('not yet' if not mizzen.should_preempt() else 'already', flush=True)",
        "while not mizzen.should_preempt(): time.sleep(0.01)",
        "print('left')",
    ) as (script, said):
        assert "not yet\n" == said.readline()
        script.terminate()
        assert "mine\nleft\n" == said.read()
        assert 0 == script.wait()


@pytest.mark.processes
def test_forked_helper_ends_by_a_signal_as_ever() -> None:
    """A data loader's worker is no rank: a SIGTERM to it must end it, or whoever ended it waits for ever."""
    with a_script(
        "mizzen.watch_signals()",
        "heard, told = os.pipe()",
        "child = os.fork()",
        "if not child: os.write(told, b'here')",
        "while not child: time.sleep(0.01)",
        "os.read(heard, 4)",  # Python forgets the signals of a process that is just being forked.
        "os.kill(child, signal.SIGTERM)",
        "print(os.WTERMSIG(os.waitpid(child, 0)[1]), mizzen.should_preempt())",
    ) as (_, said):
        assert f"{signal.SIGTERM.value} False\n" == said.read()


@pytest.mark.processes
@pytest.mark.parametrize("seed", range(3))
def test_processes_leave_at_the_same_step(seed: int) -> None:
    """Each is sent SIGTERM at another moment, and ranks are not kept in step."""
    dice = random.Random(seed)
    world, place = 3, f"127.0.0.1:{free_port()}"
    with ExitStack() as scripts:
        ranks = [
            scripts.enter_context(
                a_script(
                    "step = 1",
                    "while not mizzen.should_preempt(): print(step, flush=True); step += 1; time.sleep(0.001)",
                    "print('left at', step)",
                    "sys.exit(143)",
                    RANK=str(rank),
                    WORLD_SIZE=str(world),
                    MIZZEN_AGREE_ADDR=place,
                )
            )
            for rank in range(world)
        ]
        heard: list[list[str]] = [[] for _ in ranks]
        for rank in dice.sample(range(world), world):
            script, said = ranks[rank]
            # Fewer lines, where it has left with one that was told before.
            heard[rank] += [said.readline() for _ in range(dice.randrange(1, 30))]
            script.terminate()
        left = [
            "".join((*lines, said.read())).splitlines()[-1]
            for lines, (_, said) in zip(heard, ranks, strict=True)
        ]
        # One that is told when it is already on its way out may end by the signal itself.
        assert {script.wait() for script, _ in ranks} <= {143, -signal.SIGTERM}
    assert 1 == len(set(left)), left
    assert left[0].startswith("left at")
