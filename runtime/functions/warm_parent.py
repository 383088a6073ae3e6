"""The server's side of its warm parent: starts the process, speaks to it, and notices that it is gone. No method but `close` waits."""

import asyncio
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

import structlog

from runtime.functions.remains import PARENT, VARIABLE, mark_of_executor
from runtime.functions.wire import MESSAGE_BYTES_MAX, Fork, Forked, Gone, Kill, Pin, decode_report, encode

logger = structlog.get_logger()

PROGRAM = ("-P", "-m", "runtime.functions.parent")
END_SECONDS = 2.0
"""For the parent to end all executors, and what they have started, once its server closes; then the kernel ends executors."""
PIPES = 2
"""Descriptors that come with `Forked`."""


class WarmParent:
    """Forks executors. The process is started when the first is wanted, and again if it has died."""

    def __init__(
        self,
        environ: Mapping[str, str],
        directory: str,
        modules: tuple[str, ...],
        heard: Callable[[Forked | Gone, list[int]], None],
        died: Callable[[], None],
    ) -> None:
        """Take what the process needs.

        environ    of the process and of all executors
        directory  of the server, for marks
        modules    that the process loads, if they are there, and no executor then has to
        heard      takes the parent's reports; with `Forked` come the server's ends of the executor's pipes, calls and answers
        died       called when the process is gone by itself, and the kernel ends its executors
        """
        self._environ, self._modules = {**environ, VARIABLE: mark_of_executor(directory, PARENT)}, modules
        self._heard, self._died = heard, died
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._life = -1
        """The end of a pipe: the kernel ends all executors when this end is closed."""
        self._unsent: deque[bytes] = deque()

    @property
    def pid(self) -> int:
        """Return the number of the process; 0: there is none."""
        return 0 if self._process is None else self._process.pid

    def say(self, order: Fork | Pin | Kill) -> None:
        """Have the parent do something. Raises OSError if there is no process, and none can be started, for a fork."""
        if self._socket is None:
            if not isinstance(order, Fork):
                return
            self._start()
        self._unsent.append(encode(order))
        self._send()

    def close(self) -> None:
        """End the process and all executors; `died` is not called."""
        if self._socket is None or self._process is None:
            return
        self._let_go()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        self._reap()

    # Helpers.

    def _start(self) -> None:
        """Raises OSError."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life, self._life = os.pipe()
        command = [
            sys.executable,
            *PROGRAM,
            str(theirs.fileno()),
            str(life),
            str(os.getpid()),
            *self._modules,
        ]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env=self._environ,
                pass_fds=(theirs.fileno(), life),
                start_new_session=True,
            )
        except OSError:
            ours.close()
            os.close(self._life)
            raise
        finally:
            theirs.close()
            os.close(life)
        ours.setblocking(False)
        self._socket = ours
        asyncio.get_running_loop().add_reader(ours, self._hear)

    def _send(self) -> None:
        if self._socket is None:
            return
        loop = asyncio.get_running_loop()
        try:
            while self._unsent:
                self._socket.send(self._unsent[0])
                self._unsent.popleft()
        except BlockingIOError:
            loop.add_writer(self._socket, self._send)
            return
        except OSError:  # The process is dead, which is noticed by reading.
            self._unsent.clear()
        loop.remove_writer(self._socket)

    def _hear(self) -> None:
        assert self._socket is not None, self.pid
        try:
            data, pipes, _, _ = socket.recv_fds(
                self._socket, MESSAGE_BYTES_MAX, PIPES, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if data:
            self._heard(decode_report(data), pipes)
            return
        logger.warning("function_parent_died", pid=self.pid)
        self._let_go()
        self._reap()
        self._died()

    def _let_go(self) -> None:
        """Close the socket, by which the process ends, and the pipe by which the kernel ends its executors."""
        assert self._socket is not None, self.pid
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        loop.remove_writer(self._socket)
        self._socket.close()
        self._socket = None
        self._unsent.clear()
        os.close(self._life)

    def _reap(self) -> None:
        assert self._process is not None, self._life
        self._process.kill()
        self._process.wait()
        self._process = None
