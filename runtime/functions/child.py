"""An executor: the process that has one function ready, and runs its calls, one after the other.

The process is forked from the warm parent (parent.py). An answer is written before the next call begins: once the process is dead, the
server knows which call it died of. A process that the function forks has neither pipe.
"""

import asyncio
import faulthandler
import importlib
import os
import signal
import sys
import time
from contextlib import suppress
from inspect import iscoroutine
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TextIO  # Any: functions return every type.

from core.messages.executors import EndedCall, ExecutorChanged
from core.nouns.function import CallAnswer, CallOutcome, WarmLevel
from core.nouns.function_limits import CALL_BYTES_MAX
from core.nouns.instant import Nanoseconds
from core.nouns.limits import REASON_LENGTH_MAX
from runtime.functions import lifeline
from runtime.functions.errors import CodeNotLoaded
from runtime.functions.packing import (
    Function,
    pack_failure,
    pack_value,
    unpack_arguments,
    unpack_code,
)
from runtime.functions.wire import HEAD, Plan, decode_calls, frame_of
from runtime.tasks import machine

STDIN, STDOUT, STDERR = 0, 1, 2


def run_executor(plan: Plan, calls: int, answers: int, output: int, life: int, parent: int) -> NoReturn:
    """Be an executor until the server ends it, or the function does.

    calls, answers, output  this process's ends of its pipes
    life                    the pipe whose end is that of the server
    parent                  number of the process that forked this one
    """
    code = 1
    try:
        os.setsid()
        machine.be_gentle()
        if plan.is_idle:
            machine.be_idle()
        lifeline.signal_with_parent(parent, signal.SIGKILL)
        lifeline.end_with_writer(life)
        _set_up(plan, output)
        Executor(plan, calls, answers).run()
        code = 0
    except SystemExit as exit_:
        code = _exit_code(exit_)
    except BaseException:  # noqa: BLE001  # it goes to the output, from where the server's problem takes it
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(code)


class Executor:
    """The function, and the pipes."""

    def __init__(self, plan: Plan, calls: int, answers: int) -> None:
        self._plan = plan
        self._calls: BinaryIO = os.fdopen(calls, "rb")
        self._answers = answers
        self._top = WarmLevel.DEVICE if plan.has_device else WarmLevel.HOST
        self._pid = os.getpid()
        self._runner = asyncio.Runner()
        os.register_at_fork(after_in_child=self._let_go)

    def run(self) -> None:
        """Once the server says so, get ready, and run calls for as long as the server is there."""
        if self._read() is None:
            _end_with_server()
        try:
            function = self._get_ready()
        except CodeNotLoaded as error:
            self._write(
                ExecutorChanged(self._plan.executor, WarmLevel.COLD, is_gone=True, problem=str(error))
            )
            return
        while (calls := self._read()) is not None:
            for ticket, arguments in decode_calls(calls):
                self._write(EndedCall(self._plan.executor, ticket, self._answer(function, arguments)))
        _end_with_server()

    def _get_ready(self) -> Function:
        """Return the function, once its code is loaded and its `init` has run. Raises CodeNotLoaded."""
        function, init = load(self._plan)
        self._reach(WarmLevel.PROCESS)
        if init is not None:
            try:
                self._wait_for(init())
            except Exception as error:
                raise CodeNotLoaded(f"its init failed: {words_of(error)}") from error
        self._reach(WarmLevel.HOST)
        if self._plan.has_device:
            self._reach(WarmLevel.DEVICE)
        return function

    def _reach(self, level: WarmLevel) -> None:
        self._write(ExecutorChanged(self._plan.executor, level))

    def _answer(self, function: Function, arguments: bytes) -> CallAnswer:
        """Return the answer of one call. A forked process that comes here ends: the call is not its own."""
        begun = time.perf_counter_ns()
        outcome, value, problem = self._outcome(function, arguments)
        if os.getpid() != self._pid:
            os._exit(0)
        ran = Nanoseconds(time.perf_counter_ns() - begun)
        return CallAnswer(0, outcome, value, problem, ran, self._top)

    def _outcome(self, function: Function, arguments: bytes) -> tuple[CallOutcome, bytes, str]:
        try:
            args, kwargs = unpack_arguments(arguments)
        except Exception as error:  # noqa: BLE001  # a class's own code raises anything
            return _failed(error, "its arguments cannot be unpickled: ")
        try:
            value = self._wait_for(function(*args, **kwargs))
        except SystemExit:
            raise  # The function ends the process, and asked for that.
        except BaseException as error:  # noqa: BLE001  # a function's own
            return _failed(error)
        try:
            data = pack_value(value)
        except Exception as error:  # noqa: BLE001  # a class's own code raises anything
            return _failed(error, f"its value, a {type(value).__name__}, cannot be pickled: ")
        if len(data) > CALL_BYTES_MAX:
            problem = f"its value has {len(data)} bytes, more than {CALL_BYTES_MAX}: say it by file"
            return CallOutcome.FAILED, b"", problem
        return CallOutcome.DONE, data, ""

    def _wait_for(self, value: Any) -> Any:
        """Return a function's value, if the function is asynchronous after it has run."""
        return self._runner.run(value) if iscoroutine(value) else value

    def _let_go(self) -> None:
        """In a process that the function forked."""
        for descriptor in (self._calls.fileno(), self._answers):
            with suppress(OSError):
                os.close(descriptor)

    def _read(self) -> bytes | None:
        """Return the next frame of calls; None once the server will send no more."""
        head = self._calls.read(HEAD.size)
        if len(head) < HEAD.size:
            return None
        (length,) = HEAD.unpack(head)
        return self._calls.read(length)

    def _write(self, message: EndedCall | ExecutorChanged) -> None:
        data = frame_of(message)
        try:
            sent = os.write(self._answers, data)
            while sent < len(data):
                sent += os.write(self._answers, data[sent:])
        except BrokenPipeError:
            _end_with_server()


def load(plan: Plan) -> tuple[Function, Function | None]:
    """Return the function and its `init`. Raises CodeNotLoaded."""
    if plan.kept:
        try:
            return unpack_code(Path(plan.kept).read_bytes())
        except Exception as error:
            raise CodeNotLoaded(f"its code cannot be unpickled: {words_of(error)}") from error
    module, _, name = plan.code.target.partition(":")
    if not name:
        raise CodeNotLoaded(f"{plan.code.target} is not of the form module:name")
    if plan.code.directory:
        sys.path.insert(0, plan.code.directory)
    try:
        if plan.code.directory:
            os.chdir(plan.code.directory)
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        where = f" of {plan.code.directory}" if plan.code.directory else ""
        raise CodeNotLoaded(f"{plan.code.target}{where} cannot be imported: {words_of(error)}") from error
    function = getattr(found, "__mizzen_function__", found)
    if not callable(function):
        raise CodeNotLoaded(f"{plan.code.target} is no function, but of type {type(function).__name__}")
    return function, getattr(found, "__mizzen_init__", None)


def words_of(error: BaseException) -> str:
    """Return an exception in one short sentence."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001  # an exception's own code raises anything
        text = ""
    name = type(error).__name__
    return f"{name}: {text[:REASON_LENGTH_MAX]}" if text else name


def _failed(error: BaseException, before: str = "") -> tuple[CallOutcome, bytes, str]:
    return CallOutcome.FAILED, pack_failure(error), f"{before}{words_of(error)}"


def _end_with_server() -> NoReturn:
    """End this process and its group: the kernel, which does so as well, finds the group by this process, which must not leave alone."""
    os.killpg(0, signal.SIGKILL)
    raise AssertionError("killed")


def _set_up(plan: Plan, output: int) -> None:
    """See this executor's own devices alone, read nothing, and print into the pipe."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, standard in ((nothing, STDIN), (output, STDOUT), (output, STDERR)):
        os.dup2(descriptor, standard)
    os.close(nothing)
    os.close(output)
    sys.stdout, sys.stderr = _text_into(STDOUT), _text_into(STDERR)
    faulthandler.enable()
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, plan.gpus))
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if plan.cpus:
        os.sched_setaffinity(0, plan.cpus)


def _text_into(descriptor: int) -> TextIO:
    """Return a file that writes each line at once; the parent's own files were made for other things than pipes."""
    return os.fdopen(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _exit_code(exit_: SystemExit) -> int:
    """Return the code with which the interpreter would end."""
    if exit_.code is None or isinstance(exit_.code, int):
        return (exit_.code or 0) & 0xFF
    print(exit_.code, file=sys.stderr)
    return 1
