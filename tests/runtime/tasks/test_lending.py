"""H-1: `mizzen.idle_gpus` in tasks that run: devices that are idle are lent, and theirs again when the call returns."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

import mizzen
from core.effects import PrepareShare, StartShare
from core.messages.harvest import NodeSize
from core.messages.workers import PrepareTasks, TasksPhase
from core.nouns.function import GpuPart, Holding
from core.nouns.function import Place as NodePlace
from core.nouns.harvest import LEND_INTERVAL
from core.nouns.ids import TenantName
from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.quantities import Amount
from core.nouns.workload import JobSpec, Program
from runtime.functions.harvested import holdings_of
from runtime.tasks.book import BookFiles, ExecutorUse, Harvested, HarvestNode
from runtime.tasks.environment import Place
from runtime.tasks.lending import slots_lent
from runtime.tasks.slots import Device
from runtime.tasks.tasks_first import parts_lent
from tests.mizzen.processes import until
from tests.runtime.tasks.aids import Nodes, command_of, nodes
from tests.runtime.tasks.test_restart import worker

pytestmark = pytest.mark.processes

DEVICE, ONE = Amount(1_000), Amount(1_000, 2_000, 100)
TOTAL = Amount(4_000, 8_000, 400)
HERE = NodePlace(0, is_harvested=True)
DEVICES = [Device(f"GPU-{number}", "NVIDIA H100", 80 << 30, 0) for number in range(4)]
SCRIPT = """
import sys, mizzen
for line in open(sys.argv[1]):
    try:
        mizzen.idle_gpus(*map(int, line.split()))
        print("said", line, end="", flush=True)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
"""


def lenders(spool_path: Path, **changed: object) -> PrepareTasks:
    """One task with three devices that says whatever is written for it."""
    script, words = spool_path.parent / "says.py", spool_path.parent / "words"
    script.write_text(SCRIPT)
    os.mkfifo(words)
    program = Program(f"{sys.executable} {script} {words}")
    job = JobSpec("job-0", 1, Amount(3_000, 6_000, 300), "H100", program=program)
    return command_of((job,), 1, 1, **changed)


@contextmanager
def words_to(spool_path: Path) -> Iterator[int]:
    """The pipe by which the test tells the task what to say."""
    pipe = os.open(spool_path.parent / "words", os.O_WRONLY)
    try:
        yield pipe
    finally:
        os.close(pipe)


def harvest(book: BookFiles, grace: Nanoseconds) -> None:
    """The region has all of the node harvested."""
    book.keep_harvested(Harvested(1, (HarvestNode(NodeSize(0, TOTAL, TOTAL, grace)),)))


def slots_for_functions(book: BookFiles) -> list[int]:
    """GPUs that executors may use by the book."""
    (holding,) = holdings_of(book.harvested().nodes, book.taken())
    assert isinstance(holding, Holding)
    return [gpu.index for gpu in holding.gpus]


@contextmanager
def executor(book: BookFiles, slot: int, amount: Amount = DEVICE) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that uses a GPU, as the function server writes it."""
    with subprocess.Popen(["sleep", "60"]) as process:
        use = ExecutorUse(
            process.pid, process.pid, TenantName("anna"), (GpuPart(slot, 1_000),), (), amount, HERE
        )
        book.use([use])
        try:
            yield process
        finally:
            process.kill()


def lent(made: Nodes) -> list[int]:
    """How many devices the worker has said to be lent, whenever that changed."""
    said = [sum(one.size.gpu_milli // 1_000 for one in state.lends) for state in made.states()]
    return [count for place, count in enumerate(said) if place and count != said[place - 1]]


async def test_idle_devices_are_lent_and_taken_back(spool_path: Path) -> None:
    """The highest ones, with their part of the rest, and no others; what nobody uses is back at once."""
    async with nodes(spool_path, devices=DEVICES) as made:
        book = BookFiles(made.spool.layout.book)
        harvest(book, seconds(20))
        await made.start(lenders(spool_path))
        assert [3] == slots_for_functions(book)
        with words_to(spool_path) as pipe:
            os.write(pipe, b"2 150\n")
            await made.until_true(lambda: [1, 2, 3] == slots_for_functions(book))
            (state,) = made.states()[-1:]
            assert [Amount(2_000, 4_000, 150)] == [one.size for one in state.lends]
            begun = time.monotonic()
            os.write(pipe, b"0\n")
            await made.until_said("said 0")
            assert time.monotonic() - begun < 5
            assert [3] == slots_for_functions(book)
            await made.until_true(lambda: [2, 0] == lent(made))
    await wait_for_end(spool_path)


async def test_executors_leave_first(spool_path: Path) -> None:
    """The call waits for those on its devices, and for no others; at the end of the grace the worker kills them."""
    async with nodes(spool_path, devices=DEVICES) as made:
        book = BookFiles(made.spool.layout.book)
        harvest(book, seconds(1))
        await made.start(lenders(spool_path))
        with words_to(spool_path) as pipe:
            os.write(pipe, b"3\n")
            await made.until_true(lambda: [0, 1, 2, 3] == slots_for_functions(book))
            with executor(book, 1) as process:
                os.write(pipe, b"1\n")
                await made.until_true(lambda: [2, 3] == slots_for_functions(book))
                assert "said 1" not in made.output()
                assert 3 == sum(one.size.gpu_milli for one in made.states()[-1].lends) // 1_000
                begun = time.monotonic()
                await made.until_said("said 1")
                assert 0.3 < time.monotonic() - begun < 3
                assert process.wait(5) != 0
    await wait_for_end(spool_path)


async def test_wish_outlives_the_worker(spool_path: Path) -> None:
    """The next worker finds who wants what back, and since when: the grace is not begun anew."""
    with ExitStack() as stack:
        async with nodes(spool_path, devices=DEVICES) as made:
            book = BookFiles(made.spool.layout.book)
            harvest(book, seconds(2))
            await made.start(lenders(spool_path))
            pipe = stack.enter_context(words_to(spool_path))
            os.write(pipe, b"3\n")
            await made.until_true(lambda: 4 == len(slots_for_functions(book)))
            process = stack.enter_context(executor(book, 0))
            os.write(pipe, b"0\n")
            begun = time.monotonic()
            await made.until_true(lambda: [3] == slots_for_functions(book))
        async with nodes(spool_path, devices=DEVICES) as made:
            assert 3_000 == sum(one.size.gpu_milli for one in made.found.tasks[0].lends)
            await made.until_said("said 0")
            assert 1.5 < time.monotonic() - begun < 4
            assert process.poll() is not None
            assert () == made.states()[-1].lends
    await wait_for_end(spool_path)


async def test_numbers_that_flap_change_little(spool_path: Path) -> None:
    """A hundred times a second: the book and the region hear of a few."""
    async with nodes(spool_path, devices=DEVICES) as made:
        harvest(BookFiles(made.spool.layout.book), seconds(2))
        await made.start(lenders(spool_path))
        with words_to(spool_path) as pipe:
            begun = time.monotonic()
            for _ in range(100):
                os.write(pipe, b"2\n0\n")
            os.write(pipe, b"1\n")
            await made.until_said("said 1\n")
            span = time.monotonic() - begun
        changes = len(lent(made))
        assert changes <= 2 * (span * SECOND / LEND_INTERVAL + 2)
        await made.until_nobody()


async def test_numbers_that_a_task_does_not_have(spool_path: Path) -> None:
    """Each is one sentence, and changes nothing; so is what is written past `idle_gpus`."""
    async with nodes(spool_path, devices=DEVICES) as made:
        await made.start(lenders(spool_path))
        with words_to(spool_path) as pipe:
            os.write(pipe, b"4\n-1\n1 -5\n0\n")
            output = await made.until_said("said 0")
            (directory,) = spool_path.glob("shares/*/job-0.0/files")
            for text in ("9 0 1", "-1 0 1 0", "x 0 1 0", "\udcff"):
                (directory / "idle").write_bytes(os.fsencode(text))
        await made.until_nobody()
        await made.until_true(lambda: "ended" in made.phases())
        assert set() == {state.lends for state in made.states()} - {()}
    assert [
        "ValueError this task holds 3 devices, so 4 of them cannot be idle",
        "ValueError this task holds 3 devices, so -1 of them cannot be idle",
        "ValueError a task cannot keep -5 bytes of memory",
    ] == output.splitlines()[:3]


async def test_guest_waits_until_its_host_lends_nothing(spool_path: Path) -> None:
    """The device is the guest's too: the host lends it again when the guest has ended."""
    async with nodes(spool_path, devices=DEVICES[:1]) as made:
        book = BookFiles(made.spool.layout.book)
        book.keep_harvested(Harvested(1, (HarvestNode(NodeSize(0, ONE, ONE, seconds(1))),)))
        host = lenders(spool_path)
        host = replace(host, jobs=(replace(host.jobs[0], need=ONE),))
        await made.start(host)
        with words_to(spool_path) as pipe:
            os.write(pipe, b"1\n")
            await made.until_true(lambda: [0] == slots_for_functions(book))
            job = replace(host.jobs[0], need=Amount(1_000), program=Program("sleep 0.5"))
            guest = command_of((job,), 1, 2, beside=host.key.attempt)
            with executor(book, 0) as process:
                made.begin(PrepareShare(guest))
                await made.until_true(lambda: [] == slots_for_functions(book))
                assert [] == made.phases(epoch=2)
                await made.until(TasksPhase.PREPARED, epoch=2)
                assert process.wait(5) != 0
            made.begin(StartShare(guest.key, 12))
            await made.until(TasksPhase.RUNNING, epoch=2)
            assert [] == slots_for_functions(book)
            await made.until(TasksPhase.ENDED, epoch=2)
            await made.until_true(lambda: [0] == slots_for_functions(book))
        await made.until_nobody()


async def test_end_takes_everything_out_of_the_book(spool_path: Path) -> None:
    """Also what a share waits for."""
    async with nodes(spool_path, devices=DEVICES) as made:
        book = BookFiles(made.spool.layout.book)
        harvest(book, seconds(20))
        await made.start(lenders(spool_path))
        with words_to(spool_path) as pipe:
            os.write(pipe, b"3\n")
            await made.until_true(lambda: 4 == len(slots_for_functions(book)))
            with executor(book, 0):
                os.write(pipe, b"0\n")
                await made.until_true(lambda: 2 == len(book.taken()))
                await made.stop()
                assert [] == book.taken()
        assert () == made.states()[-1].lends
        await made.until_nobody()


def test_outside_a_task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And where no worker is any more."""
    with pytest.raises(RuntimeError, match="in a task of Mizzen alone"):
        mizzen.idle_gpus(0)
    monkeypatch.setenv("MIZZEN_TASK_DIR", str(tmp_path))
    monkeypatch.setenv("MIZZEN_BELL", str(tmp_path / "told"))
    with pytest.raises(RuntimeError, match="beside the worker"):
        mizzen.idle_gpus(0)


def test_highest_whole_devices_are_lent() -> None:
    """A part of a device never is."""
    place = Place(0, 0, 0, 1, 0, 0, ((1, 1_000), (4, 1_000), (5, 500)))
    assert [(), (4,), (1, 4), (1, 4)] == [slots_lent(place, idle) for idle in range(4)]


async def wait_for_end(spool_path: Path) -> None:
    """The task has nothing more to say, and ends."""
    async with nodes(spool_path, devices=DEVICES) as made:
        await made.until_nobody()


async def test_worker_that_was_killed_finds_who_waits(spool_path: Path) -> None:
    """Dead by SIGKILL, with the function server dead too: its next life kills the executor, and answers the task."""
    book = BookFiles(spool_path / "book")
    spool_path.mkdir(mode=0o700)
    harvest(book, seconds(1))
    job = replace(lenders(spool_path).jobs[0], need=ONE, gpu_type="cpu")
    with ExitStack() as stack:
        with worker(spool_path, command_of((job,), 1, 1)) as process:
            pipe = stack.enter_context(words_to(spool_path))
            os.write(pipe, b"1\n")
            await until(lambda: parts_lent(book.taken()[0].nodes) != (), 20, lambda: f"{book.taken()}")
            process.kill()
        using = stack.enter_context(executor(book, 0, TOTAL))
        os.write(pipe, b"0\n")
        async with nodes(spool_path) as made:
            await made.until_said("said 0")
            assert using.wait(5) != 0
    await wait_for_end(spool_path)
