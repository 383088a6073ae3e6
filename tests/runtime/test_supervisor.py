"""The supervisor: what dies is started again, what is to stop stops in order, and nothing outlives the supervisor."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core.nouns.instant import SECOND, Nanoseconds, seconds
from core.nouns.limits import UNANSWERED_MAX
from runtime.supervision.supervisor import Process, Supervisor, how_it_ended

pytestmark = pytest.mark.processes

PATIENCE_SECONDS = 20.0
LIVING = "tests.runtime.living"


async def until(holds: Callable[[], bool]) -> None:
    """Wait, but not for ever."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it does not come about"
        await asyncio.sleep(0.01)


def lives(directory: Path) -> list[int]:
    """Process ids, in the order of their lives."""
    return [int(path.suffix[1:]) for path in sorted(directory.glob("*.*")) if path.suffix[1:].isdigit()]


def is_there(pid: int) -> bool:
    """Whether there is such a process, dead ones that nobody asked for included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def process(directory: Path, way: str, name: str = "one", wave: int = 0) -> Process:
    """One that lives in `directory`."""
    directory.mkdir(exist_ok=True)
    environment = {**os.environ, "COLOUR": "red"}
    return Process(name, LIVING, (str(directory), way), environment, wave)


@asynccontextmanager
async def supervising(
    directory: Path,
    died: Callable[[str, int], None] | None = None,
    unanswered_max: Nanoseconds = UNANSWERED_MAX,
) -> AsyncIterator[Supervisor]:
    """One that is stopped, whatever happens."""
    supervisor = Supervisor(directory / "output", (LIVING,), died, unanswered_max=unanswered_max)
    try:
        yield supervisor
    finally:
        await supervisor.stop()


async def test_killed_process_comes_back(tmp_path: Path) -> None:
    """As another one, told of; what both wrote is in one file, and both had the environment that was given."""
    told: list[tuple[str, int]] = []
    async with supervising(tmp_path, lambda name, code: told.append((name, code))) as supervisor:
        supervisor.start(process(tmp_path / "a", "orderly"))
        await until(lambda: len(lives(tmp_path / "a")) == 1)
        killed = supervisor.kill("one")
        await until(lambda: len(lives(tmp_path / "a")) == 2)
        assert [killed, supervisor.pid_of("one")] == lives(tmp_path / "a")
        assert [("one", -signal.SIGKILL)] == told
        assert 1 == supervisor.restarts
        written = tmp_path / "output" / "one.log"
        await until(
            lambda: 2 == written.read_text().count("lives red\n") == written.read_text().count("complains")
        )
    assert not is_there(lives(tmp_path / "a")[1])


async def test_held_process_stays_dead(tmp_path: Path) -> None:
    """Until everybody who holds it has let it go; letting go once too often does no harm."""
    told: list[int] = []
    async with supervising(tmp_path, lambda _, code: told.append(code)) as supervisor:
        supervisor.start(process(tmp_path / "a", "orderly"))
        await until(lambda: len(lives(tmp_path / "a")) == 1)
        held = await supervisor.hold("one")
        assert ([held], 0) == (lives(tmp_path / "a"), supervisor.pid_of("one"))
        assert 0 == await supervisor.hold("one"), "it is dead already"
        supervisor.release("one")
        await asyncio.sleep(0.3)  # Three times as long as it takes to start a process again.
        assert ([held], [-signal.SIGKILL]) == (lives(tmp_path / "a"), told)
        supervisor.release("one")
        supervisor.release("one")
        await until(lambda: len(lives(tmp_path / "a")) == 2)
        assert supervisor.pid_of("one") == lives(tmp_path / "a")[1]


async def test_process_that_is_held_while_it_starts_stays_dead(tmp_path: Path) -> None:
    """It may live for a moment, and is dead once `hold` returns."""
    async with supervising(tmp_path) as supervisor:
        supervisor.start(process(tmp_path / "a", "orderly"))
        await asyncio.sleep(0)
        await supervisor.hold("one")
        assert 0 == supervisor.pid_of("one")
        assert [] == [pid for pid in lives(tmp_path / "a") if is_there(pid)]
        supervisor.release("one")
        await until(lambda: any(is_there(pid) for pid in lives(tmp_path / "a")))


async def test_hold_that_is_cut_short_holds_no_process(tmp_path: Path) -> None:
    """The process may have died of it, and is started again."""
    async with supervising(tmp_path) as supervisor:
        supervisor.start(process(tmp_path / "a", "orderly"))
        await until(lambda: len(lives(tmp_path / "a")) == 1)
        holding = asyncio.get_running_loop().create_task(supervisor.hold("one"))
        await asyncio.sleep(0)
        holding.cancel()
        await asyncio.wait([holding])
        assert holding.cancelled()
        await until(lambda: len(lives(tmp_path / "a")) == 2)


async def test_stop_does_not_wait_for_a_held_process(tmp_path: Path) -> None:
    """It is not started again either."""
    async with supervising(tmp_path) as supervisor:
        supervisor.start(process(tmp_path / "a", "orderly"))
        await until(lambda: len(lives(tmp_path / "a")) == 1)
        await supervisor.hold("one")
        await asyncio.wait_for(supervisor.stop(), PATIENCE_SECONDS)
        assert 1 == len(lives(tmp_path / "a"))


async def test_process_that_fails_again_and_again_is_started_later_each_time(tmp_path: Path) -> None:
    """0.1, 0.2, 0.4 s: whoever cannot live does not take the machine."""
    told: list[int] = []
    async with supervising(tmp_path, lambda _, code: told.append(code)) as supervisor:
        begun = time.monotonic()
        supervisor.start(process(tmp_path / "a", "fails"))
        await until(lambda: len(told) == 4)
        assert time.monotonic() - begun >= 0.7
        assert {3} == set(told)


async def test_stop_is_wave_by_wave(tmp_path: Path) -> None:
    """Who is in a lower wave still lives when the others have gone; nobody comes back."""
    async with supervising(tmp_path) as supervisor:
        for wave, name in enumerate(("keeper", "follower")):
            supervisor.start(process(tmp_path / name, "orderly", name, wave))
        await until(lambda: bool(lives(tmp_path / "keeper") and lives(tmp_path / "follower")))
    first, second = (next((tmp_path / name).glob("*.ended")) for name in ("follower", "keeper"))
    assert int(first.stem) < int(second.stem)
    assert (1, 1) == (len(lives(tmp_path / "keeper")), len(lives(tmp_path / "follower")))
    assert [False, False] == [is_there(lives(tmp_path / name)[0]) for name in ("keeper", "follower")]


async def test_process_that_does_not_stop_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time to stop."""
    monkeypatch.setattr("runtime.supervision.supervisor.PROCESS_STOP_SPAN", 200_000_000)
    async with supervising(tmp_path) as supervisor:
        supervisor.start(process(tmp_path / "a", "ignores"))
        await until(lambda: len(lives(tmp_path / "a")) == 1)
    assert not is_there(lives(tmp_path / "a")[0])


SUPERVISING = """
import asyncio, signal, sys
from pathlib import Path
from tests.runtime.test_supervisor import process, Supervisor, LIVING

async def main():
    signal.signal(signal.SIGTERM, lambda *_: None)
    directory = Path(sys.argv[1])
    supervisor = Supervisor(directory / "output", (LIVING,))
    supervisor.start(process(directory / "a", "orderly"))
    await asyncio.sleep(60)

if __name__ == "__main__":
    asyncio.run(main())
"""


async def test_processes_die_with_their_supervisor(tmp_path: Path) -> None:
    """Also when nobody could tell them: kill -9."""
    script = tmp_path / "supervising.py"
    script.write_text(SUPERVISING)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, str(script), str(tmp_path), env=environment
    )
    await until(lambda: bool(lives(tmp_path / "a")))
    supervisor.kill()
    await supervisor.wait()
    (pid,) = lives(tmp_path / "a")
    await until(lambda: not is_there(pid))


async def test_signal_to_the_whole_process_group_is_the_supervisors(tmp_path: Path) -> None:
    """As `timeout` or a terminal that closes sends it: processes do not die of it, for they are ended in order."""
    script = tmp_path / "supervising.py"
    script.write_text(SUPERVISING)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, str(script), str(tmp_path), env=environment, start_new_session=True
    )
    try:
        await until(lambda: bool(lives(tmp_path / "a")))
        os.killpg(supervisor.pid, signal.SIGTERM)
        await asyncio.sleep(1.5)
        assert 1 == len(lives(tmp_path / "a")), "it was started again: its server has died"
        assert is_there(lives(tmp_path / "a")[0])
    finally:
        supervisor.kill()
        await supervisor.wait()
    await until(lambda: not is_there(lives(tmp_path / "a")[0]))


async def test_child_of_a_process_inherits_nothing_of_the_supervisor(tmp_path: Path) -> None:
    """Its own three descriptors, and no pipe by which the server that forked it would outlive it."""
    async with supervising(tmp_path) as supervisor:
        supervisor.start(process(tmp_path / "a", "starts"))
        seen = tmp_path / "a" / "descriptors"
        await until(lambda: seen.exists() and bool(seen.read_text()))
        found = {name.rpartition("/")[2] for name in seen.read_text().split()}
        assert {"0", "1", "2", "3"} >= found, "3 is the shell's own, while it looks"


HANG = seconds(4)


async def test_process_that_hangs_is_ended_with_its_stacks_and_started_again(tmp_path: Path) -> None:
    """One decides without end, one was stopped; one that answers is left alone, and so is one whose silence is meant."""
    codes: dict[str, list[int]] = {}
    ways = {"decides": "hangs", "stopped": "answers", "meant": "answers", "well": "answers"}
    async with supervising(
        tmp_path, lambda name, code: codes.setdefault(name, []).append(code), HANG
    ) as supervisor:
        for name, way in ways.items():
            supervisor.start(process(tmp_path / name, way, name))
        await until(lambda: all(lives(tmp_path / name) for name in ways))
        begun = time.monotonic()
        for name in ("stopped", "meant"):
            assert supervisor.send(name, signal.SIGSTOP)
        supervisor.leave_alone("meant", is_left_alone=True)
        await until(lambda: len(lives(tmp_path / "stopped")) == 2 and len(lives(tmp_path / "decides")) == 2)
        assert time.monotonic() - begun >= HANG / SECOND - 1
        assert {"decides": [-signal.SIGABRT], "stopped": [-signal.SIGABRT]} == codes
        assert supervisor.last_end("stopped").startswith("did not answer for ")
        for name in ("meant", "well"):
            assert 1 == len(lives(tmp_path / name))
        written = (tmp_path / "output" / "decides.log").read_text()
        assert "in decide_without_end" in written
        supervisor.leave_alone("meant", is_left_alone=False)
        await until(lambda: len(lives(tmp_path / "meant")) == 2)


async def test_process_that_has_not_begun_may_be_silent_for_longer(tmp_path: Path) -> None:
    """A keeper folds its log before its loop answers."""
    async with supervising(tmp_path, unanswered_max=seconds(1)) as supervisor:
        supervisor.start(process(tmp_path / "a", "orderly"))
        await until(lambda: len(lives(tmp_path / "a")) == 1)
        await asyncio.sleep(3)
        assert 1 == len(lives(tmp_path / "a"))


async def test_next_life_is_told_how_the_last_one_ended(tmp_path: Path) -> None:
    """By the error that ended it, or by the signal; and how many there were."""
    async with supervising(tmp_path) as supervisor:
        supervisor.start(process(tmp_path / "a", "tells"))
        await until(lambda: len(lives(tmp_path / "a")) == 3)
        assert "ValueError: no such thing" == supervisor.last_end("one")
        told = (tmp_path / "output" / "one.log").read_text()
        assert ["0 ", "1 ValueError: no such thing", "2 ValueError: no such thing"] == [
            line.removeprefix("life ") for line in told.splitlines() if line.startswith("life ")
        ][:3]
    assert "exit code 3" == how_it_ended(3)
    assert "killed by SIGSEGV" == how_it_ended(-11)
