"""`python -m runtime.functions.parent SOCKET LIFE SERVER [MODULE...]`: the warm parent, which forks executors for one function server.

A fork of a process that has loaded Python, this package and some modules takes milliseconds, where a new process takes tenths of a
second. Only a process of one thread is forked safely: this one has no other, and never runs code of a function.

SOCKET and LIFE are descriptors. All ends with the server: the parent by its socket and by the kernel, executors by the kernel alone.
"""

import gc
import importlib
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NoReturn

from msgspec import Struct

from runtime.functions import lifeline
from runtime.functions.child import run_executor
from runtime.functions.wire import (
    MESSAGE_BYTES_MAX,
    OUTPUT_KEPT,
    Fork,
    Forked,
    Gone,
    Kill,
    Pin,
    Plan,
    decode_order,
    encode,
)

PIPE_BYTES = 64 * 1024
"""In a pipe at most."""


class Child(Struct):
    """One executor that runs, or was not waited for yet."""

    pid: int
    process: int
    """A descriptor that tells of the end."""
    output: int
    """The parent's end of the pipe into which the executor prints; -1: closed by the executor."""
    kept: bytes = b""
    """The newest output."""


class Parent:
    """All executors of one server."""

    def __init__(self, server: socket.socket, life: int) -> None:
        self._server = server
        self._life = life
        self._children: dict[int, Child] = {}
        """By serial."""
        self._ready = selectors.DefaultSelector()

    def run(self) -> None:
        """Do as the server says until it is gone; then end all executors."""
        self._ready.register(self._server, selectors.EVENT_READ)
        with suppress(BrokenPipeError, ConnectionResetError):
            while self._take_turn():
                pass
        for child in self._children.values():
            _kill(child.pid)
        for child in self._children.values():
            os.waitpid(child.pid, 0)

    def _take_turn(self) -> bool:
        """Do all that is to be done now. Return whether the server is there."""
        for key, _ in self._ready.select():
            if key.fileobj is self._server:
                if not self._obey():
                    return False
            else:
                take: Callable[[], None] = key.data
                take()
        return True

    def _obey(self) -> bool:
        """Do one thing that the server says. Return whether the server is there."""
        data = self._server.recv(MESSAGE_BYTES_MAX)
        if not data:
            return False
        match decode_order(data):
            case Fork() as order:
                self._fork(order)
            case Kill(serial) if serial in self._children:
                _kill(self._children[serial].pid)
            case Pin(serial, cpus) if serial in self._children:
                _pin(self._children[serial].pid, cpus)
        return True

    # Executors.

    def _fork(self, order: Fork) -> None:
        pipes: list[int] = []
        try:
            for _ in range(3):
                pipes += os.pipe()
            calls, to_calls, from_answers, answers, from_output, output = pipes
            here = os.getpid()
            pid = os.fork()
            if not pid:
                self._become(order.plan, pipes, here)
        except OSError as error:
            for end in pipes:
                os.close(end)
            self._server.send(encode(Gone(order.serial, f"the process cannot be started: {error}", "")))
            return
        os.set_blocking(from_output, False)
        child = Child(pid, os.pidfd_open(pid), from_output)
        self._children[order.serial] = child
        self._ready.register(child.process, selectors.EVENT_READ, partial(self._wait_for, order.serial))
        self._ready.register(child.output, selectors.EVENT_READ, partial(self._listen, child))
        socket.send_fds(self._server, [encode(Forked(order.serial, pid))], [to_calls, from_answers])
        for end in (calls, to_calls, from_answers, answers, output):
            os.close(end)

    def _become(self, plan: Plan, pipes: list[int], parent: int) -> NoReturn:
        """Be the executor that was just forked, with no descriptor that is not its own."""
        calls, to_calls, from_answers, answers, from_output, output = pipes
        try:
            self._server.close()
            self._ready.close()
            others = [end for child in self._children.values() for end in (child.process, child.output)]
            for end in (to_calls, from_answers, from_output, *others):
                if end >= 0:
                    os.close(end)
            run_executor(plan, calls, answers, output, self._life, parent)
        finally:
            os._exit(1)

    def _wait_for(self, serial: int) -> None:
        """An executor has ended: end the processes that it has left in its group, and tell the server."""
        child = self._children.pop(serial)
        # The number of the group is not given again before the executor was waited for.
        _kill(child.pid)
        _, status = os.waitpid(child.pid, 0)
        self._listen(child)
        self._ready.unregister(child.process)
        os.close(child.process)
        if child.output >= 0:
            self._close_output(child)
        self._server.send(encode(Gone(serial, how_ended(status), child.kept.decode(errors="replace"))))

    def _listen(self, child: Child) -> None:
        """Take some of an executor's output, if there is any."""
        if child.output < 0:
            return
        try:
            data = os.read(child.output, PIPE_BYTES)
        except BlockingIOError:
            return
        child.kept = (child.kept + data)[-OUTPUT_KEPT:]
        if not data:
            self._close_output(child)

    def _close_output(self, child: Child) -> None:
        self._ready.unregister(child.output)
        os.close(child.output)
        child.output = -1


def how_ended(status: int) -> str:
    """Return in words how a process ended."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:  # A signal of real time has no name.
        return f"signal {-code}"


def _kill(pid: int) -> None:
    """End an executor and the processes of its group; the executor may not lead the group yet."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def _pin(pid: int, cpus: tuple[int, ...]) -> None:
    """Hold all threads of an executor to these CPUs. A thread that has just ended, and CPUs that are gone, change nothing."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # numbers, not paths
            with suppress(OSError):
                os.sched_setaffinity(int(thread), cpus)


def main(arguments: list[str]) -> int:
    """Load what functions have in common, and fork until the server is gone."""
    server, life, server_pid = map(int, arguments[:3])
    lifeline.end_with_parent(server_pid)
    for module in arguments[3:]:
        with suppress(ImportError):
            importlib.import_module(module)
    # Pages that no collection writes to stay shared with all executors.
    gc.collect()
    gc.freeze()
    Parent(socket.socket(fileno=server), life).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
