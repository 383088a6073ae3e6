"""Functions that are not there, fail, hang, die, fork and print without end: one answer each, and no other call is disturbed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.effects import KeepCode
from core.nouns.function import CallOutcome, WarmLevel
from core.nouns.instant import seconds
from runtime.functions.errors import RemoteFailure
from runtime.tasks.processes import start_of_living
from tests.runtime.functions.aids import PATIENCE_SECONDS, Server, serving, spec, until_none
from tests.runtime.functions.called import plain

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("nowhere:double", "nowhere:double of {} cannot be imported: ModuleNotFoundError: No module named 'nowhere'"),
        ("plain:triple", "plain:triple of {} cannot be imported: AttributeError: module 'plain' has no attribute 'triple'"),
        ("plain:NUMBER", "plain:NUMBER is no function, but of type int"),
        ("plain:unready", "its init failed: ValueError: no weights here"),
        ("plain", "plain is not of the form module:name"),
    ],
)  # fmt: skip
async def test_function_that_cannot_be_loaded(tmp_path: Path, target: str, problem: str) -> None:
    """Its executor is gone, with one sentence on why."""
    async with serving(tmp_path) as server:
        server.start(1, spec(target))
        assert problem.format(Path(plain.__file__).parent) == await server.until_gone(1)
        await _works_still(server)


async def test_code_that_cannot_be_unpickled(tmp_path: Path) -> None:
    """Bytes of no pickle, and a directory that is not there."""
    async with serving(tmp_path) as server:
        server.doer.begin(KeepCode(spec("").id, b"no pickle"))
        server.start(1, spec(""))
        assert "its code cannot be unpickled: UnpicklingError" in await server.until_gone(1)
        server.start(2, spec(directory="/nowhere"))
        assert "No such file or directory" in await server.until_gone(2)
        server.start(3, spec(directory="/" + "a" * 100_000))
        assert "the name of its code is too long" == await server.until_gone(3)
        await _works_still(server)


async def test_code_that_ends_its_process_when_it_is_loaded(tmp_path: Path) -> None:
    """A module or an `init` that exits is told as that."""
    (tmp_path / "exits.py").write_text("print('not here')\nraise SystemExit(7)\n")
    async with serving(tmp_path) as server:
        server.start(1, spec("exits:f", directory=tmp_path))
        problem = "its executor died while it started: exit code 7; its last output: not here\n"
        assert problem == await server.until_gone(1)
        await _works_still(server)


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ("sys", "exit code 3; its last output: last words\n"),
        ("text", "exit code 1; its last output: last words\nin words\n"),
        ("os", "exit code 4; its last output: last words\n"),
        ("segfault", "signal 11 (SIGSEGV); its last output: last words\nFatal Python error: Segmentation fault"),
        ("closes", "exit code 1; its last output: last words\nTraceback"),
    ],
)  # fmt: skip
async def test_function_that_ends_its_process(tmp_path: Path, how: str, problem: str) -> None:
    """The call that ran has failed with the executor's last words; calls behind were not begun, and those before have values."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:end"))
        server.give(1, (1, "stays"), (2, how), (3, "stays"), (4, "stays"))
        assert (await server.failure(2)).startswith(f"its executor died of it: {problem}")
        assert None is await server.value(1)
        assert (await server.until_gone(1)).startswith("its executor died of it: ")
        assert [CallOutcome.REFUSED] * 2 == [server.answers()[ticket].outcome for ticket in (3, 4)]
        await _works_still(server)


async def test_function_that_writes_into_its_executors_pipe(tmp_path: Path) -> None:
    """Bytes that are no answer end the executor."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:end"))
        server.give(1, (1, "writes"), (2, "stays"))
        assert "it wrote into the pipe of its executor's answers" == await server.failure(1)
        assert CallOutcome.REFUSED == (await server.answer(2)).outcome
        await _works_still(server)


async def test_function_that_raises(tmp_path: Path) -> None:
    """The caller gets the exception with the traceback in the executor, or its words; the executor goes on."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:fail"))
        server.give(1, (1, "value"), (2, "own"), (3, "key"), (4, "unknown"))
        assert "ValueError: bad" == await server.failure(1)
        error = await server.error(1)
        assert isinstance(error, ValueError)
        assert ("bad",) == error.args
        note = error.__notes__[0]
        assert "plain.py" in note
        assert "child.py" not in note
        own = await server.error(2)
        assert isinstance(own, RemoteFailure)
        assert str(own).endswith("OwnError: this and that")
        assert isinstance(await server.error(3), RemoteFailure)
        assert isinstance(await server.error(4), KeyError)
        assert None is server.gone(1)


async def test_values_that_cannot_travel(tmp_path: Path) -> None:
    """What is too large and what cannot be pickled have failed, each with a sentence; the executor goes on."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:large"))
        await server.ready(2, spec("plain:not_pickled"))
        server.give(1, (1, 600_000), (2, 10))
        server.give(2, (3, 0))
        problem = await server.failure(1)
        assert problem.startswith("its value has 600")
        assert problem.endswith("bytes, more than 524288: say it by file")
        assert bytes(10) == await server.value(2)
        assert (await server.failure(3)).startswith("its value, a lock, cannot be pickled: TypeError")


async def test_arguments_that_cannot_be_unpickled(tmp_path: Path) -> None:
    """An argument whose class the executor does not have fails its own call."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec())
        server.give(1, (1, Ungiven()), (2, 4))
        assert (await server.failure(1)).startswith(
            "its arguments cannot be unpickled: RuntimeError: not mine"
        )
        assert 8 == await server.value(2)


@pytest.mark.parametrize("target", ["plain:sleep", "plain:spin"])
async def test_call_that_runs_for_too_long(tmp_path: Path, target: str) -> None:
    """The call has failed and its executor is killed, sleeping or not; each call has the time for itself."""
    function = spec(target, timeout=seconds(1))
    async with serving(tmp_path) as server:
        await server.ready(1, function)
        server.give(1, (1, 0.6), (2, 0.6), (3, 600.0), (4, 0.0))
        assert "it ran for longer than 1 s" == await server.failure(3)
        answers = server.answers()
        assert [CallOutcome.DONE] * 2 == [answers[ticket].outcome for ticket in (1, 2)]
        assert seconds(1) <= answers[3].ran < seconds(PATIENCE_SECONDS)
        assert CallOutcome.REFUSED == (await server.answer(4)).outcome
        await server.until_gone(1)
        await _works_still(server)


async def test_timeout_counts_from_the_beginning_of_a_call(tmp_path: Path) -> None:
    """An executor may be idle for longer than its calls may take."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:double", timeout=seconds(0.5)))
        await server.ready(2, spec("plain:sleep"))
        for ticket in (1, 2):
            server.give(1, (ticket, ticket))
            assert 2 * ticket == await server.value(ticket)
            server.give(2, (-ticket, 0.6))
            await server.value(-ticket)
        assert None is server.gone(1)


async def test_function_that_forks(tmp_path: Path) -> None:
    """A forked process answers no call and has no pipe of the executor; when the executor ends, all that it forked ends."""
    file = tmp_path / "pid"
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:fork"))
        await server.ready(2, spec("plain:forked_descriptors"))
        await server.ready(3, spec("plain:spawn"))
        server.give(1, (1, str(file)), (2, str(file)))
        server.give(2, (3, 0))
        server.give(3, (4, 0))
        assert 1 == await server.value(1)
        assert 1 == await server.value(2)
        here, forked = await server.value(3)
        assert here - 2 == forked
        left = {int(file.read_text()), await server.value(4)}
        assert all(start_of_living(pid) for pid in left)
        server.end(1)
        server.end(3)
        await server.until_gone(1)
        await server.until_gone(3)
        await until_none(left)


async def test_executor_that_dies_takes_what_it_forked_along(tmp_path: Path) -> None:
    """Processes of a function do not outlive an executor that exits by itself."""
    file = tmp_path / "pid"

    def function(is_last: bool) -> None:
        import os
        import subprocess

        if is_last:
            os._exit(0)
        file.write_text(str(subprocess.Popen(["sleep", "600"]).pid))

    async with serving(tmp_path) as server:
        await server.keep(spec(""), function)
        await server.ready(1, spec(""))
        server.give(1, (1, False), (2, True))
        assert "its executor died of it: exit code 0" == await server.failure(2)
        await until_none({int(file.read_text())})


async def test_function_that_prints_much(tmp_path: Path) -> None:
    """Output is read and let go, so the call ends; no file grows, and other executors start meanwhile."""
    async with serving(tmp_path) as server:
        await server.ready(1, spec("plain:print_much"))
        server.give(1, (1, 300))
        await _works_still(server)
        assert 300 == await server.value(1)
        assert [] == [one for one in tmp_path.rglob("*") if one.is_file()]


class Ungiven:
    """An argument that raises when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return exec, ("raise RuntimeError('not mine')",)


async def _works_still(server: Server) -> None:
    """Another function runs."""
    await server.ready(99, spec())
    server.give(99, (999, 8))
    assert 16 == await server.value(999)
    assert [WarmLevel.PROCESS, WarmLevel.HOST] == server.levels(99)
