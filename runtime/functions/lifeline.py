"""Two ways in which the kernel ends a process with another one, however that one ends. Linux alone has them.

`signal_with_parent` counts the thread that started a process as its parent, and comes too late for a parent that is gone already;
`end_with_writer` needs a pipe, and ends a whole group of processes. Together they leave no gap.
"""

import ctypes
import fcntl
import os
import signal

PR_SET_PDEATHSIG = 1
F_SETSIG = 10


def signal_with_parent(parent: int, number: signal.Signals) -> None:
    """Have the kernel send this process a signal once its parent ends. Ends the process now if the parent is gone. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def end_with_writer(reader: int) -> None:
    """Have the kernel kill this process's group once all writers of a pipe are gone; nothing is ever written to the pipe. Raises OSError.

    The group is that of the process itself, which leads it: programs that the process starts end too.
    """
    # Signals belong to an opened file, which forked processes share: each opens its own.
    own = os.open(f"/proc/self/fd/{reader}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.fcntl(own, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(own, fcntl.F_SETOWN, -os.getpid())
    fcntl.fcntl(own, fcntl.F_SETFL, fcntl.fcntl(own, fcntl.F_GETFL) | os.O_ASYNC)
    if not _has_writer(own):
        os.kill(os.getpid(), signal.SIGKILL)


def _has_writer(pipe: int) -> bool:
    try:
        os.read(pipe, 1)
    except BlockingIOError:
        return True
    return False
