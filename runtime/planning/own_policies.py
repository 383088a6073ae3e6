"""The caller of sharing policies in a process of their own: for policies that are somebody's file, and blocking, for the command line.

The answer is believed as little as the file: it comes from the process in which the file ran, so its bounds are checked here.
"""

import math
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from core.nouns.limits import REASON_LENGTH_MAX
from core.sharing.bounds import excess_of
from core.sharing.problem import Shares, SharingProblem, checked
from runtime.errors import BadOwnPolicy, NotSolved
from runtime.planning.sharing_worker import (
    FRAME_BYTES_MAX,
    LENGTH_BYTES,
    SUFFIX,
    Answered,
    Asked,
    decode_answer,
    frame_of,
)

WORKER = ("-P", "-m", "runtime.planning.sharing_worker")
SECONDS = 30.0
"""How long one problem may take, the start of the process included: that takes two on a busy machine."""
END_SECONDS = 2.0
"""How long a process may take to be gone after it closed its output."""
PIECE_BYTES = 1 << 16
NO_ANSWER = "its process gave an answer that is none"
COMPLAINT_BYTES = 4_096
"""What is kept of a process's last words."""


def solve_own(path: Path, problem: SharingProblem, seconds: float = SECONDS) -> Shares:
    """Return the shares by the policy in a file. Raises BadProblem, or BadOwnPolicy with one sentence on what is wrong with it."""
    with SharingProcess(path.parent) as process:
        return process.solve(path.name, problem, seconds)


class SharingProcess:
    """A process that solves problems one after the other; started when the first is asked for, and anew after each that failed it."""

    def __init__(self, folder: Path | None = None, command: tuple[str, ...] = WORKER) -> None:
        """`folder` has the files of one's own policies; `command` is what the interpreter runs, with the folder behind it."""
        self._command = (*command, str(folder.absolute())) if folder is not None else command
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def solve(self, policy: str, problem: SharingProblem, seconds: float = SECONDS) -> Shares:
        """Return the shares by a policy of this name, ours or a file's (`mine.py`). Raises BadProblem, or NotSolved (BadOwnPolicy for a file)."""
        asked = frame_of(Asked(policy, checked(problem), seconds))
        if self._child is None:
            self._child = _started(self._command)
        answer = None
        try:
            answer = _exchanged(self._child, asked, time.monotonic() + seconds)
        except TimeoutError:
            why = f"it took longer than {seconds:g} s, and was ended"
        except _ProcessGone as gone:
            why = str(gone)
        finally:
            if answer is None:
                self.close()
        if answer is not None and answer.shares is not None:
            wrong = excess_of(problem, answer.shares)
            if not wrong and math.isfinite(answer.shares.objective):
                return answer.shares
            self.close()
            why = f"it gives what there is not: {wrong}" if wrong else "its objective is no number"
        elif answer is not None:
            raise BadOwnPolicy(answer.why) if answer.is_own else NotSolved(answer.why)
        failure = BadOwnPolicy if policy.endswith(SUFFIX) else NotSolved
        raise failure(f"{policy}: {why}"[:REASON_LENGTH_MAX])

    def close(self) -> None:
        """End the process, and all that it has started."""
        child, self._child = self._child, None
        if child is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL) if hasattr(os, "killpg") else child.kill()
        child.wait()
        for pipe in _pipes(child):
            with suppress(BrokenPipeError):
                pipe.close()


class _ProcessGone(Exception):
    """The process ended, or said what is no answer; the text says how, and its last words."""


def _started(command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Start the process, in a group of its own: what a file starts is ended with it. No read and no write waits."""
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        [sys.executable, *command], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    for one in _pipes(child):
        os.set_blocking(one.fileno(), False)
    return child


def _pipes(child: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    return child.stdin, child.stdout, child.stderr


def _exchanged(child: subprocess.Popen[bytes], asked: bytes, deadline: float) -> Answered:
    """Return the process's answer. Raises TimeoutError, and _ProcessGone."""
    told, said, complained = (one.fileno() for one in _pipes(child))
    answer, complaint = bytearray(), b""
    with selectors.DefaultSelector() as ready:
        ready.register(told, selectors.EVENT_WRITE)
        ready.register(said, selectors.EVENT_READ)
        ready.register(complained, selectors.EVENT_READ)
        while len(answer) < LENGTH_BYTES or len(answer) < _length(answer):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            for key, _ in ready.select(left):
                if key.fd == told:
                    asked = asked[_written(told, asked) :]
                    if not asked:
                        ready.unregister(told)
                    continue
                piece = os.read(key.fd, PIECE_BYTES)
                if key.fd == said:
                    answer += piece
                    if not piece:
                        raise _ProcessGone(_last_words(child, complaint))
                    if _length(answer) > FRAME_BYTES_MAX:
                        raise _ProcessGone(NO_ANSWER)
                else:
                    complaint = (complaint + piece)[-COMPLAINT_BYTES:]
                    if not piece:
                        ready.unregister(complained)
    found = decode_answer(bytes(answer[LENGTH_BYTES:]))
    if found is None:  # Bytes behind the frame are no part of an answer either.
        raise _ProcessGone(NO_ANSWER)
    return found


def _length(answer: bytearray) -> int:
    """Return how long the whole frame is, by its first bytes."""
    return LENGTH_BYTES + int.from_bytes(answer[:LENGTH_BYTES], "big")


def _written(pipe: int, data: bytes) -> int:
    """Return how much the pipe took; all, where the process reads no more: the answer, or its end, is still to come."""
    try:
        return os.write(pipe, data[:PIECE_BYTES])
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)


def _last_words(child: subprocess.Popen[bytes], complaint: bytes) -> str:
    """Return how a process ended that closed its output, and the last line that it wrote for people."""
    try:
        code = child.wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        return NO_ANSWER
    with suppress(BlockingIOError):
        complaint += os.read(_pipes(child)[2].fileno(), PIECE_BYTES)
    lines = complaint.decode(errors="replace").strip().splitlines()
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return f"its process ended {how}: {lines[-1] if lines else 'it said nothing'}"
