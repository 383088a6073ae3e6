"""No device is used twice: between a task that lets go and an executor that starts, and between one life of a server and the next."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from core.effects import ReadBook, StartExecutor
from core.messages.base import Message
from core.messages.executors import ExecutorChanged
from core.nouns.function import GpuPart, Holding, WarmLevel
from core.nouns.instant import Instant
from core.nouns.quantities import Amount
from core.nouns.workload import Serves
from runtime.clock import Clock
from runtime.functions.book import DeviceBook, has_room
from runtime.functions.doer import FunctionDoer
from runtime.functions.hold import PATIENCE, tell_end
from runtime.tasks.book import BookFiles, ExecutorUse, UsedBy
from runtime.tasks.processes import identity_of, start_of_living
from tests.mizzen.processes import HOUSE
from tests.runtime.functions.aids import ANNA, PATIENCE_SECONDS, environ, serving, spec, until_none
from tests.runtime.functions.test_holding import hold, sleeper

pytestmark = pytest.mark.processes

GPU = Amount(1000, 0, 0)
HOLDING = Holding("s1", ANNA, Serves.OWN, is_ending=False, gpus=(GpuPart(0, 1000),), cpu_slots=(), amount=GPU)


class Started:
    """A doer with a book of files, and what it tells of its executors."""

    def __init__(
        self, directory: Path, book: DeviceBook | None = None, modules: tuple[str, ...] = (), path: str = ""
    ) -> None:
        self.files = BookFiles(directory)
        clock = Clock(asyncio.get_running_loop(), Instant(0))
        book = book or DeviceBook(clock, directory)
        self.directory = directory
        self.doer = FunctionDoer(clock, book, directory / "code", {**environ(), "PYTHONPATH": path}, modules)
        self.heard: list[Message] = []
        self.doer.attach(self.heard.append)
        self.doer.begin(ReadBook())

    def start(self, number: int) -> Path:
        """Start an executor whose code leaves a file as soon as it is loaded. Return the file's path."""
        begun = self.directory / f"begun{number}"
        module = self.directory / f"module{number}.py"
        module.write_text(f"open({str(begun)!r}, 'w').close()\ndef f(): pass\n")
        self.doer.begin(StartExecutor(number, spec(f"module{number}:f", need=GPU, directory=self.directory)))
        return begun

    async def until_changed(self, number: int, is_so: Callable[[ExecutorChanged], bool]) -> ExecutorChanged:
        """Wait until something is told of an executor that makes it so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for one in self.heard:
                    if isinstance(one, ExecutorChanged) and one.executor == number and is_so(one):
                        return one
                await asyncio.sleep(0.005)

    async def ready_or_gone(self, number: int) -> ExecutorChanged:
        return await self.until_changed(number, lambda one: one.is_gone or one.level is WarmLevel.DEVICE)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that end with the test."""
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for one in found:
        one.kill()
        one.wait()


# A task that lets go, and an executor that starts.


class Interleaved(DeviceBook):
    """A book in which a task comes between two steps of the function server: after one of its looks at the holdings."""

    def __init__(self, clock: Clock, directory: Path) -> None:
        super().__init__(clock, directory)
        self.looks = 0
        self.come: Callable[[], None] = lambda: None

    def holdings(self) -> tuple[Holding, ...]:
        found = super().holdings()
        self.looks -= 1
        if self.looks == 0:
            self.come()
        return found


@pytest.mark.parametrize("look", range(1, 5))
async def test_task_that_lets_go_while_an_executor_starts(tmp_path: Path, look: int) -> None:
    """Between whichever steps of the server the task looks: either it sees the use, or the function is never loaded."""
    files = BookFiles(tmp_path)
    files.hold(HOLDING, os.getpid())
    book = Interleaved(Clock(asyncio.get_running_loop(), Instant(0)), tmp_path)
    server = Started(tmp_path, book)
    has_let_go: list[bool] = []

    def come() -> None:
        tell_end(files, HOLDING)
        has_let_go.append(has_room(files.holdings(), [one.use for one in files.uses()]))
        assert os.getpid() not in {one.process.pid for one in files.uses()}
        if has_let_go[0]:
            files.release(HOLDING.share)

    book.looks, book.come = look, come
    begun = server.start(1)
    changed = await server.ready_or_gone(1)
    assert has_let_go
    assert begun.exists() != has_let_go[0]
    if has_let_go[0]:
        assert (True, "") == (changed.is_gone, changed.problem)
    else:
        assert "" == (await server.until_changed(1, lambda one: one.is_gone)).problem
    server.doer.close()


async def test_executor_whose_use_cannot_be_noted_never_begins(tmp_path: Path) -> None:
    """As on a full disk; the component hears why, and the devices are for the next one."""
    files = BookFiles(tmp_path)
    files.hold(HOLDING, os.getpid())
    server = Started(tmp_path)
    (tmp_path / "executors.new").mkdir()
    begun = server.start(1)
    changed = await server.ready_or_gone(1)
    assert changed.is_gone
    assert "cannot be noted" in changed.problem
    assert not begun.exists()
    (tmp_path / "executors.new").rmdir()
    begun = server.start(2)
    assert not (await server.ready_or_gone(2)).is_gone
    assert begun.exists()
    server.doer.close()


async def test_holder_ends_beside_an_executor_that_is_not_forked_yet(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    """The server is no executor, and is never killed for one."""
    (tmp_path / "slowly.py").write_text(f"import time\ntime.sleep({3 * PATIENCE})\n")
    holder = await asyncio.to_thread(hold, tmp_path, HOLDING)
    processes.append(holder)
    server = Started(tmp_path, modules=("slowly",), path=str(tmp_path))
    begun = server.start(1)
    await asyncio.sleep(0.2)
    assert [] == server.files.uses()
    holder.terminate()
    assert 0 == await asyncio.to_thread(holder.wait, PATIENCE_SECONDS)
    changed = await server.ready_or_gone(1)
    assert (True, "") == (changed.is_gone, changed.problem)
    assert not begun.exists()
    server.doer.close()


def test_holding_ends_on_a_full_disk_too(tmp_path: Path) -> None:
    """A file that cannot be written can be taken out."""
    files = BookFiles(tmp_path)
    files.hold(HOLDING, os.getpid())
    (tmp_path / "holdings" / "s1.new").mkdir()
    tell_end(files, HOLDING)
    assert () == files.holdings()


# The next life of a server.


async def test_executor_of_a_server_before_keeps_its_devices(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    """Until its process is gone, which is killed after a while; the note of its use stays for tasks to read."""
    files = BookFiles(tmp_path)
    files.hold(HOLDING, os.getpid())
    old = sleeper()
    processes.append(old)
    files.use([ExecutorUse(old.pid, old.pid, ANNA, HOLDING.gpus, (), GPU)])
    server = Started(tmp_path)
    begun = server.start(1)
    while start_of_living(old.pid):
        assert not begun.exists()
        assert [old.pid] == [one.process.pid for one in files.uses()] or not start_of_living(old.pid)
        await asyncio.sleep(0.01)
    assert -signal.SIGKILL == old.wait()
    assert not (await server.ready_or_gone(1)).is_gone
    assert old.pid not in {one.process.pid for one in files.uses()}
    server.doer.close()


async def test_process_that_has_the_number_of_an_old_executor_is_left_alone(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    """Numbers are given again: who started at another time is another process."""
    files = BookFiles(tmp_path)
    files.hold(HOLDING, os.getpid())
    other = sleeper()
    processes.append(other)
    use = ExecutorUse(other.pid, other.pid, ANNA, HOLDING.gpus, (), GPU)
    earlier = replace(identity_of(other.pid), start=identity_of(other.pid).start - 1)
    (tmp_path / "executors.json").write_bytes(msgspec.json.encode([UsedBy(use, earlier, earlier)]))
    server = Started(tmp_path)
    server.start(1)
    assert not (await server.ready_or_gone(1)).is_gone
    assert other.poll() is None
    server.doer.close()


async def test_processes_of_a_server_and_a_parent_that_were_killed_end_before_others_begin(
    tmp_path: Path,
) -> None:
    """With both, none is left that knows of programs that executors have started; the next server finds them by their marks."""
    command = [sys.executable, "-m", "tests.runtime.functions.owner", str(tmp_path)]
    owner = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=HOUSE)
    assert owner.stdout is not None
    parent, *others = [int(word) for word in (await owner.stdout.readline()).split()]
    os.kill(owner.pid, signal.SIGSTOP)  # It must not see the end of its parent.
    os.kill(parent, signal.SIGKILL)
    owner.kill()
    await owner.wait()
    programs = others[-2:]
    await until_none(set(others) - set(programs))
    assert start_of_living(programs[1])
    async with serving(tmp_path) as server:
        server.start(1, spec())
        await server.until(lambda: bool(server.levels(1)))
        assert not any(start_of_living(program) for program in programs)
