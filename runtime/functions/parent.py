"""`python -m runtime.functions.parent SOCKET LIFE SERVER [MODULE...]`: the warm parent, which forks executors for one function server.

A fork of a process that has loaded Python, this package and some modules takes milliseconds, where a new process takes tenths of a
second. Only a process of one thread is forked safely: this one has no other, and never runs code of a function.

SOCKET and LIFE are descriptors. All ends with the server: executors by the kernel alone, and the parent by its socket, once it has ended
all that its executors have left. Whatever they start stays below the parent, also in a session of its own (a child subreaper: prctl(2)).
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
from runtime.functions.remains import VARIABLE, executor_of, mark_of_executor
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
from runtime.tasks import machine

PIPE_BYTES = 64 * 1024
"""In a pipe at most."""
REAP_SECONDS = 1.0
"""Between two looks for processes that were left to the parent and have ended."""
KILL_SECONDS = 0.02
"""Between two looks for those that are being killed."""


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
        self._ended: list[Gone] = []
        """Of executors that have ended, and may have left processes."""
        self._directory = os.environ[VARIABLE].rpartition("/")[0]
        self._ready = selectors.DefaultSelector()

    def run(self) -> None:
        """Do as the server says until it is gone; then end all executors."""
        self._ready.register(self._server, selectors.EVENT_READ)
        with suppress(BrokenPipeError, ConnectionResetError):
            while self._take_turn():
                pass
        while left := machine.descendants_of(os.getpid()):
            for pid in left:
                machine.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)

    def _take_turn(self) -> bool:
        """Do all that is to be done now. Return whether the server is there."""
        for key, _ in self._ready.select(KILL_SECONDS if self._ended else REAP_SECONDS):
            if key.fileobj is self._server:
                if not self._obey():
                    return False
            else:
                take: Callable[[], None] = key.data
                take()
        self._reap_left()
        if self._ended:
            self._end_left()
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
                self._become(order.serial, order.plan, pipes, here)
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

    def _become(self, serial: int, plan: Plan, pipes: list[int], parent: int) -> NoReturn:
        """Be the executor that was just forked, with no descriptor that is not its own."""
        calls, to_calls, from_answers, answers, from_output, output = pipes
        try:
            self._server.close()
            self._ready.close()
            others = [end for child in self._children.values() for end in (child.process, child.output)]
            for end in (to_calls, from_answers, from_output, *others):
                if end >= 0:
                    os.close(end)
            os.environ[VARIABLE] = mark_of_executor(self._directory, serial)
            run_executor(plan, calls, answers, output, self._life, parent)
        finally:
            os._exit(1)

    def _wait_for(self, serial: int) -> None:
        """An executor has ended: end the processes that it has left in its group at once, and others soon."""
        child = self._children.pop(serial)
        # The number of the group is not given again before the executor was waited for.
        _kill(child.pid)
        _, status = os.waitpid(child.pid, 0)
        self._listen(child)
        self._ready.unregister(child.process)
        os.close(child.process)
        if child.output >= 0:
            self._close_output(child)
        self._ended.append(Gone(serial, how_ended(status), child.kept.decode(errors="replace")))

    def _reap_left(self) -> None:
        """Wait for processes that were left to this one and have ended, until an executor comes first, whose end is told otherwise."""
        executors = {child.pid for child in self._children.values()}
        with suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if ended.si_pid in executors:
                    return
                os.waitpid(ended.si_pid, 0)

    def _end_left(self) -> None:
        """Kill all that ended executors have left. Tell the server of the executors once none is left."""
        living = frozenset(child.pid for child in self._children.values())
        left = machine.descendants_of(os.getpid(), living)
        # A program that a living executor has started in the background carries that executor's mark.
        left -= {pid for pid in left if executor_of(pid) in self._children}
        for pid in left:
            machine.kill(pid, signal.SIGKILL)
        if not left:
            for gone in self._ended:
                self._server.send(encode(gone))
            self._ended.clear()

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
    # Its socket ends this process, unless a stop signal keeps it from that.
    lifeline.signal_with_parent(server_pid, signal.SIGCONT)
    machine.adopt_orphans(machine.load_prctl())
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
