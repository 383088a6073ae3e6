"""The session in which this process calls functions: a thread with an event loop, a connection to the plane, and one caller.

A process has one, which begins with its first call, and ends with the process. Requests reach the thread by a deque and one wake-up for
as many as have come; answers come back by waiter, as many at a time. A child that is forked has a session of its own, if it calls.
"""

import asyncio
import atexit
import os
import secrets
import threading
from collections import deque

import structlog

from core.nouns.ids import TenantName
from core.nouns.workload import UNNAMED
from mizzen.connect.plane import Plane, client_of, find_plane, submitter
from mizzen.functions.calls import Request, tell
from mizzen.functions.speaker import Speaker
from mizzen.sdk.mizzen.functions import CallRefused, NoPlane
from mizzen.terminal.output import CommandError
from runtime.logs import set_up_logs
from runtime.loop import run

NAME_BYTES = 8
CLOSE_SECONDS = 3.0
"""How long a process waits for its session at its end."""


class Session:
    """One caller and its thread."""

    def __init__(self, plane: Plane) -> None:
        """Connect. Raises NoPlane."""
        self.tenant = TenantName(plane.tenant) if plane.tenant else UNNAMED
        self._plane = plane
        self._pid = os.getpid()
        self._given: deque[Request | tuple[Request, ...]] = deque()
        self._is_awake = False
        """Whether the thread will look at what is given without being woken."""
        self._is_open = False
        # A collector of garbage may drop requests of a thread that gives one.
        self._lock = threading.RLock()
        """Held while something is given, and while the session closes: all that is given is taken."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()
        self._problem: BaseException | None = None
        self._has_begun = threading.Event()
        # It must not keep the process alive: the process ends the thread when all else has ended.
        self._thread = threading.Thread(target=self._run, name="mizzen-functions", daemon=True)
        self._thread.start()
        self._has_begun.wait()
        if self._problem is not None:
            raise NoPlane(str(self._problem)) from self._problem

    @property
    def is_usable(self) -> bool:
        """Whether calls can be given: not after its end, and not in a forked child."""
        return self._is_open and self.is_ours

    @property
    def is_ours(self) -> bool:
        """Whether it began in this process."""
        return self._pid == os.getpid()

    def give(self, request: Request) -> None:
        """Have a call said, whose waiter is told of the answer. Raises CallRefused after the end of the session, and in a forked child."""
        if not self._put(request):
            raise CallRefused(
                "the session in which this would be called has ended, or belongs to the process before a fork"
            )

    def drop(self, requests: tuple[Request, ...]) -> None:
        """Have the answers of these calls waited for no more."""
        self._put(requests)

    def close(self) -> None:
        """Say what is given, and end. Calls without an answer are lost."""
        if self.is_usable and self._loop is not None:
            tell(self._loop, self._end.set)
            self._thread.join(CLOSE_SECONDS)

    def _put(self, given: Request | tuple[Request, ...]) -> bool:
        """Return whether this was given; else the session is not usable."""
        if not self.is_ours:  # Another thread may have had the lock at the fork.
            return False
        with self._lock:
            if not self._is_open or self._loop is None:
                return False
            self._given.append(given)
            if not self._is_awake:
                self._is_awake = True
                tell(self._loop, self._take)
        return True

    # The thread.

    def _run(self) -> None:
        try:
            run(self._live())
        except (CommandError, OSError) as error:
            self._problem = error
        finally:
            self._is_open = False
            self._has_begun.set()

    async def _live(self) -> None:
        if not structlog.is_configured():
            set_up_logs(os.environ, default="error")
        self._loop = asyncio.get_running_loop()
        async with client_of(self._plane, submitter()) as bus:
            self._speaker = Speaker(bus, self.tenant, secrets.token_hex(NAME_BYTES))
            await self._speaker.listen()
            self._is_open = True
            self._has_begun.set()
            try:
                await self._end.wait()
            finally:
                with self._lock:
                    self._is_open = False
                try:
                    self._take()
                finally:
                    self._speaker.close()

    def _take(self) -> None:
        # Whoever gives something from here on wakes the thread again.
        self._is_awake = False
        self._speaker.take(self._given)


_lock = threading.Lock()
_sessions: list[Session] = []
"""The newest is this process's. Those before it belong to processes from which this one was forked: they are kept, for to close their
descriptors would disturb what the parent does with them.
"""


def session() -> Session:
    """Return the session of this process. Raises NoPlane."""
    with _lock:
        found = session_now()
        if found is None:
            try:
                found = Session(find_plane())
            except CommandError as error:
                raise NoPlane(str(error)) from error
            _sessions[:] = [*(one for one in _sessions if not one.is_ours), found]
        return found


def session_now() -> Session | None:
    """Return the session of this process, if there is one."""
    return _sessions[-1] if _sessions and _sessions[-1].is_usable else None


def close() -> None:
    """End the session of this process, if there is one; the next call begins another one."""
    with _lock:
        if _sessions:
            _sessions[-1].close()


def _in_child() -> None:
    global _lock  # noqa: PLW0603  # a thread that is not in the child may have had it
    _lock = threading.Lock()


atexit.register(close)
os.register_at_fork(after_in_child=_in_child)
