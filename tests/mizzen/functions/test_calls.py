"""Single calls on real executors: each ends with a value, with the exception of its function, or with an error of ours."""

import asyncio
import importlib
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import mizzen
from core.calls import caller
from core.nouns.ids import TenantName
from core.nouns.instant import seconds
from core.nouns.quantities import Amount
from core.rules.functions.calls import problems_of_function
from mizzen.functions import speaker
from mizzen.functions.calls import OneAnswer, Request
from mizzen.functions.decorator import Function
from mizzen.functions.needs import need_of, span_of
from mizzen.functions.session import Session, close, session, session_now
from tests.mizzen.functions import called
from tests.mizzen.functions.running import FLEET, FunctionsPlane

HOUSE = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.processes


def on_executors(function: Any, **options: Any) -> Function[..., Any]:
    """The same function, to be called elsewhere."""
    made: Function[..., Any] = mizzen.function(**options)(function)
    return made


def begun(plane: FunctionsPlane, path: Path) -> None:
    """Wait until the function that waits for a file runs."""

    async def look() -> None:
        while not Path(f"{path}.begun").exists():
            await asyncio.sleep(0.005)

    plane.call(look())


def beside(call: Callable[..., Any], *args: Any) -> "Future[Any]":
    """Call in a thread of its own, which keeps no process alive."""
    found: Future[Any] = Future()

    def run() -> None:
        try:
            found.set_result(call(*args))
        except mizzen.FunctionError as error:
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return found


# Values and exceptions.


def test_call_returns_the_value(plane: FunctionsPlane) -> None:
    """Of positional and named arguments; called plainly, the function runs here."""
    one = on_executors(called.parts)
    assert ((1, "b"), {"c": [3]}) == one.call(1, "b", c=[3])
    assert ((1,), {}) == one(1)


def test_asynchronous_function_runs_to_its_end(plane: FunctionsPlane) -> None:
    """The value comes, not a coroutine."""
    assert 8 == on_executors(called.double_later).call(4)


def test_exception_of_the_function_is_raised_as_it_was(plane: FunctionsPlane) -> None:
    """With its class, its fields, and the traceback of the executor as a note."""
    with pytest.raises(called.Unlucky, match="13 is unlucky") as caught:
        on_executors(called.no_thirteen).call(13)
    assert 13 == caught.value.number
    (note,) = caught.value.__notes__
    assert "in no_thirteen" in note
    assert not isinstance(caught.value, mizzen.FunctionError)


def test_function_that_ends_its_executor_has_failed(plane: FunctionsPlane) -> None:
    """The next call runs in another one."""
    one = on_executors(called.leave)
    with pytest.raises(mizzen.CallFailed, match=r"leave.*exit"):
        one.call(3)
    assert 4 == on_executors(called.double).call(2)


def test_function_that_runs_for_too_long_has_failed(plane: FunctionsPlane) -> None:
    """Its executor is ended."""
    with pytest.raises(mizzen.CallFailed, match=r"it ran for longer than 0\.2 s"):
        on_executors(called.sleep, timeout="200ms").call(60)


def test_once_is_lost_with_its_server(plane: FunctionsPlane, tmp_path: Path) -> None:
    """The server is killed while the call runs. A call that may be begun twice runs again."""
    once, more = tmp_path / "once", tmp_path / "more"
    lost = beside(on_executors(called.wait_for, once=True, name="once").call, str(once))
    again = beside(on_executors(called.wait_for).call, str(more))
    begun(plane, once)
    begun(plane, more)
    plane.restart("function_server")
    with pytest.raises(mizzen.CallLost, match="may not be begun twice"):
        lost.result(20)
    more.touch()
    assert str(more) == again.result(20)


def test_call_that_could_not_begin_in_time_is_refused(plane: FunctionsPlane, tmp_path: Path) -> None:
    """Both cores are busy for longer than it may wait."""
    files = [tmp_path / name for name in "ab"]
    busy = [beside(on_executors(called.wait_for, name=file.name).call, str(file)) for file in files]
    for file in files:
        begun(plane, file)
    with pytest.raises(mizzen.CallRefused, match="within"):
        on_executors(called.double, within="300ms").call(1)
    for file in files:
        file.touch()
    assert [str(file) for file in files] == [one.result(20) for one in busy]


def test_need_that_no_server_has_is_refused(plane: FunctionsPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a sentence that says so."""
    monkeypatch.setattr(caller, "NO_SERVER_SPAN", seconds(0.5))
    with pytest.raises(mizzen.CallRefused, match="capacity"):
        on_executors(called.double, memory="1TiB").call(1)


def test_description_that_the_plane_does_not_take_is_refused(plane: FunctionsPlane) -> None:
    """Every problem is told."""
    with pytest.raises(mizzen.CallRefused, match=r"function\.name"):
        on_executors(eval("lambda é: é", {"__name__": "ü"})).call(1)  # noqa: S307  # a name of other letters


# Sizes.


def test_large_arguments_and_values_go_by_file(plane: FunctionsPlane) -> None:
    """Both errors say so; half a MiB less a little goes."""
    with pytest.raises(mizzen.CallTooLarge, match=r"arguments of .*double have 524\d+ bytes.*file"):
        on_executors(called.double).call(bytes(512 * 1024))
    with pytest.raises(mizzen.CallFailed, match=r"value has 524\d+ bytes.*file"):
        on_executors(called.large).call(512 * 1024)
    assert bytes(511 * 1024) == on_executors(called.large).call(511 * 1024)


def test_large_code_is_refused(plane: FunctionsPlane) -> None:
    """With the way out."""
    weights = bytes(600_000)
    with pytest.raises(mizzen.CallTooLarge, match="let its init read large things"):
        on_executors(lambda: len(weights)).call()


# Code.


def test_code_is_sent_when_it_is_wanted(plane: FunctionsPlane) -> None:
    """A closure has no module of its own; each one is another function."""
    for factor in (3, 5):
        assert 2 * factor == on_executors(lambda number, factor=factor: number * factor).call(2)


def test_code_that_cannot_be_pickled_is_refused(plane: FunctionsPlane) -> None:
    """Before anything is sent."""
    lock = threading.Lock()
    with pytest.raises(mizzen.CallRefused, match="cannot be pickled"):
        on_executors(lambda: lock.acquire).call()


def test_init_runs_once_in_each_executor(plane: FunctionsPlane) -> None:
    """Before its first call, and what it sets is there."""
    one = on_executors(called.loaded, init=called.load)
    for _ in range(4):
        ready, here = one.call()
        assert [here] == ready


SCORE = """
import mizzen

def load():
    global factor
    factor = {factor}

@mizzen.function(init=load)
def score(number):
    return number * factor
"""


def test_module_under_the_current_directory_is_imported(
    plane: FunctionsPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `module:name` from its directory; other text is another function."""
    monkeypatch.syspath_prepend(tmp_path / "code")
    (tmp_path / "code").mkdir()
    digests = []
    for factor in (10, 200):
        (tmp_path / "code" / "scoring.py").write_text(SCORE.format(factor=factor))
        module = importlib.import_module("scoring")
        found = module.score.description
        assert ("scoring:score", str(tmp_path / "code")) == (found.code.target, found.code.directory)
        assert (b"", True, "scoring.score") == (found.pickled, found.code.is_init, found.name)
        digests.append(found.digest)
        assert 3 * factor == module.score.call(3)
        sys.modules.pop("scoring")
        importlib.invalidate_caches()
    assert digests[0] != digests[1]
    monkeypatch.chdir("/")
    assert (
        "" == Function(module.score.__mizzen_function__, None, module.score.options).description.code.target
    )


def test_directory_is_for_the_user_to_choose(plane: FunctionsPlane) -> None:
    """Another than where the module lies here, or none; a function without a name in its module has none."""
    one = on_executors(called.double, directory="/somewhere").description
    assert ("tests.mizzen.functions.called:double", "/somewhere") == (one.code.target, one.code.directory)
    assert b"" != on_executors(called.double, directory="").description.pickled
    with pytest.raises(mizzen.CallRefused, match="cannot be imported from /somewhere"):
        on_executors(lambda: 1, directory="/somewhere").call()


def test_function_may_call_another_one_plainly(plane: FunctionsPlane) -> None:
    """A function that refers to a decorated one is pickled with it."""
    inner = on_executors(lambda number: 2 * number)
    assert 12 == on_executors(lambda number: inner(number) * 3).call(2)


def test_description_is_well_formed_and_the_same_again() -> None:
    """For the router's check; needs are part of the digest."""
    one, again, other = (
        on_executors(called.double, **options).description for options in ({}, {}, {"gpus": "cpu:2"})
    )
    assert () == problems_of_function(one.spec(TenantName("ml")))
    assert one == again
    assert one.digest != other.digest


# Threads, loops, processes.


def test_threads_call_at_once(plane: FunctionsPlane) -> None:
    """Each gets its own answers."""
    one = on_executors(called.double)
    with ThreadPoolExecutor(4) as pool:
        assert [2 * number for number in range(400)] == list(pool.map(one.call, range(400)))


async def test_many_asynchronous_calls_at_once(plane: FunctionsPlane) -> None:
    """Values, and an exception for the call that raised."""
    one = on_executors(called.no_thirteen)
    found = await asyncio.gather(*(one.acall(number) for number in range(100)), return_exceptions=True)
    assert isinstance(found[13], called.Unlucky)
    assert [*range(13), *range(14, 100)] == found[:13] + found[14:]


async def test_cancelled_call_is_waited_for_no_more(plane: FunctionsPlane, tmp_path: Path) -> None:
    """Others go on."""
    one = on_executors(called.wait_for)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(one.acall(str(tmp_path / "file")), 0.2)
    (tmp_path / "file").touch()
    assert str(tmp_path / "file") == await one.acall(str(tmp_path / "file"))
    assert {} == session()._speaker._out


def test_forked_child_has_a_session_of_its_own(plane: FunctionsPlane) -> None:
    """And the parent keeps its own."""
    one = on_executors(called.double)
    assert 2 == one.call(1)
    ours = session()
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put((session_now(), one.call(21))))
    child.start()
    child.join(30)
    assert (None, 42) == queue.get()
    assert 4 == one.call(2)
    assert ours is session()


def test_session_ends_and_another_begins(plane: FunctionsPlane) -> None:
    """Each with a caller of its own name."""
    one = on_executors(called.double)
    names = []
    for number in range(2):
        assert 2 * number == one.call(number)
        names.append(session()._speaker._caller.name)
        close()
        assert session_now() is None
    assert names[0] != names[1]


def test_call_that_is_given_while_the_session_ends_is_refused(
    plane: FunctionsPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However late the session ends, no call is given to one that looks no more."""
    assert 2 == on_executors(called.double).call(1)
    ending, is_first = session(), True

    def is_ours(one: Session) -> bool:
        nonlocal is_first
        if one is ending and is_first:
            is_first = False
            close()
        return True

    spec = on_executors(called.double).description.spec(ending.tenant)
    request = Request(spec, b"", b"", seconds(1), False, OneAnswer())
    monkeypatch.setattr(Session, "is_ours", property(is_ours))
    found = beside(ending.give, request)
    with pytest.raises(mizzen.CallRefused, match="has ended"):
        found.result(10)


SCRIPT = """
import sys
import mizzen

@mizzen.function
def double(number):
    return number * factor()

def factor():
    return 2

assert "nats" not in sys.modules, "the decorator needs no connection"
print(double.call(4), sum(double.map(range(100))))
for value in double.map(range(10_000)):
    break
"""


def test_script_calls_its_own_functions_and_ends(plane: FunctionsPlane, tmp_path: Path) -> None:
    """What it refers to goes along; a map that it left does not keep it."""
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ("8 9900\n", "", 0) == (done.stdout, done.stderr, done.returncode)


# Without a plane.


def test_without_a_plane_a_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do."""
    for name in ("MIZZEN_CREDENTIALS", "MIZZEN_NATS_URL"):
        monkeypatch.delenv(name, raising=False)
    close()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mizzen.NoPlane, match="mizzen up"):
        on_executors(called.double).call(1)


def test_plane_without_routers_refuses(plane: FunctionsPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some time in which one would have been heard."""
    close()
    monkeypatch.setenv("MIZZEN_FLEET", f"{FLEET}-2")
    monkeypatch.setattr(speaker, "ROUTER_SILENCE_MAX", seconds(0.3))
    with pytest.raises(mizzen.CallRefused, match="functions: true"):
        on_executors(called.double).call(1)
    close()


# Needs.


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"gpus": "cpu"}, "gpus: cpu is not TYPE:COUNT"),
        ({"gpus": "H100:1"}, "gpus: H100:1 names a type"),
        ({"gpus": "cpu:0"}, "gpus: cpu:0 is no device"),
        ({"memory": "1G"}, "memory: 1G can be read in two ways"),
        ({"within": "soon"}, "within: soon is no span"),
        ({"within": 0}, "within: 0 s is not longer than zero"),
        ({"timeout": "-1s"}, "timeout: -1s is no span"),
        ({"name": "a b"}, "name: 'a b' has other letters"),
    ],
)
def test_options_that_cannot_be_so(options: dict[str, object], problem: str) -> None:
    """They are told where the function is written, not at its first call."""
    with pytest.raises(ValueError, match=problem):
        on_executors(called.double, **options)


def test_needs_become_whole_numbers() -> None:
    """A core is a CPU's; a part of a GPU is a GPU's."""
    assert Amount(cpu_milli=2000, memory_bytes=1 << 30) == need_of("cpu:2", "1GiB")
    assert Amount(gpu_milli=500) == need_of("any:0.5", "")
    assert [seconds(0.25)] * 3 == [
        span_of(span, "within") for span in ("250ms", 0.25, timedelta(milliseconds=250))
    ]
