"""A task that serves functions: it holds its part of the machine, and ends when no executor uses any of it."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from core.nouns.function import GpuPart, Holding
from core.nouns.ids import TenantName
from core.nouns.instant import Instant
from core.nouns.quantities import Amount
from core.nouns.workload import Serves
from runtime.clock import Clock
from runtime.functions.book import DeviceBook, has_room
from runtime.functions.hold import PATIENCE
from runtime.tasks.book import BookFiles, ExecutorUse
from runtime.tasks.environment import BOOK, HOLDING

ML = TenantName("ml")
CORE = Amount(0, 1_000, 1 << 30)


def a_holding(name: str = "w-1.main.0", *, gpus: tuple[int, ...] = (), is_ending: bool = False) -> Holding:
    """One core of ml's, or these GPUs with a core each."""
    parts = tuple(GpuPart(index, 1_000) for index in gpus)
    amount = Amount(1_000 * len(gpus), 1_000 * max(1, len(gpus)), 8 << 30)
    return Holding(name, ML, Serves.OWN, is_ending, parts, (), amount)


def a_use(pid: int = 1, *, gpus: tuple[int, ...] = ()) -> ExecutorUse:
    """An executor with a core, or on these GPUs."""
    amount = Amount(1_000 * len(gpus), 1_000, 1 << 30)
    return ExecutorUse(pid, pid, ML, tuple(GpuPart(index, 1_000) for index in gpus), (), amount)


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that end with the test."""
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for one in found:
        one.kill()
        one.wait()


def hold(directory: Path, holding: Holding) -> subprocess.Popen[bytes]:
    """Start a holder, and wait until the book shows it."""
    environ = {HOLDING: msgspec.json.encode(holding).decode(), BOOK: str(directory)}
    process = subprocess.Popen([sys.executable, "-m", "runtime.functions.hold"], env=environ)
    until(lambda: holding in BookFiles(directory).holdings())
    return process


def until(is_so: object, seconds: float = 20.0) -> None:
    """Wait until a condition holds."""
    assert callable(is_so)
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come to that"
        signal.sigtimedwait([], 0.02)


def sleeper() -> subprocess.Popen[bytes]:
    """A process that does nothing, as an executor with a long call."""
    return subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])


def test_holder_without_executors_ends_at_once(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    """And its holding is in the book as long as it lives."""
    holder = hold(tmp_path, a_holding())
    processes.append(holder)
    holder.terminate()
    assert 0 == holder.wait(20)
    assert () == BookFiles(tmp_path).holdings()


def test_holder_waits_for_executors_that_leave(
    tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    """The book says that it ends, and the function server ends what is on it."""
    holder, executor = hold(tmp_path, a_holding()), sleeper()
    processes += [holder, executor]
    files = BookFiles(tmp_path)
    files.use([a_use(executor.pid)])
    holder.terminate()
    until(lambda: [one.is_ending for one in files.holdings()] == [True])
    assert holder.poll() is None
    executor.kill()
    executor.wait()
    assert 0 == holder.wait(20)


def test_holder_kills_executors_that_stay(tmp_path: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    """After its patience, and only those for which the other holdings have no room."""
    ending = hold(tmp_path, a_holding("w-1.main.0", gpus=(0,)))
    other = hold(tmp_path, a_holding("w-2.main.0", gpus=(1,)))
    on_it, beside = sleeper(), sleeper()
    processes += [ending, other, on_it, beside]
    files = BookFiles(tmp_path)
    files.use([a_use(on_it.pid, gpus=(0,)), a_use(beside.pid, gpus=(1,))])
    begun = time.monotonic()
    ending.terminate()
    assert -signal.SIGKILL == on_it.wait(20)
    assert time.monotonic() - begun >= PATIENCE
    assert 0 == ending.wait(20)
    assert beside.poll() is None
    assert other.poll() is None


def test_holding_of_a_dead_task_is_none(tmp_path: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    """Whoever killed it took nothing out of the book."""
    holder = hold(tmp_path, a_holding())
    processes.append(holder)
    holder.kill()
    holder.wait()
    assert () == BookFiles(tmp_path).holdings()


async def test_server_hears_of_changes(tmp_path: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    """Within a tenth of a second or two."""
    loop = asyncio.get_running_loop()
    book, changed = DeviceBook(Clock(loop, Instant(time.time_ns())), tmp_path), asyncio.Event()
    assert () == book.holdings()
    book.watch(changed.set)
    processes.append(await asyncio.to_thread(hold, tmp_path, a_holding()))
    await asyncio.wait_for(changed.wait(), 5)
    assert (a_holding(),) == book.holdings()


def test_room_is_counted_gpu_by_gpu() -> None:
    """Two halves of two GPUs are no room for a whole one; what ends is none at all."""
    both = [a_holding("a", gpus=(0,)), a_holding("b", gpus=(1,))]
    assert has_room(both, [a_use(gpus=(0,)), a_use(gpus=(1,))])
    assert not has_room(both, [a_use(gpus=(0,)), a_use(gpus=(0,))])
    assert not has_room([both[0], a_holding("b", gpus=(1,), is_ending=True)], [a_use(gpus=(1,))])
    assert has_room([a_holding("c")], [a_use()])
    assert not has_room([a_holding("c")], [a_use(), a_use()])
