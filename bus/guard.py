"""Runs a program that must not outlive whoever started it. A script of its own: `python bus/guard.py [--watch] PROGRAM ARGS…`.

A parent killed by -9 can stop nobody. On Linux the kernel does it: this process asks to be killed when its parent dies, and
then becomes the program, which inherits that. (`preexec_fn` would do it in the forked child, where Python with threads may
hang; hence a script.) Elsewhere, and with `--watch`, it stays, reads a pipe that only the parent holds open, and kills the
program when the pipe ends.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from types import FrameType

_PR_SET_PDEATHSIG = 1
"""From <linux/prctl.h>."""


def become(program: list[str], parent: int) -> None:
    """Be killed with the parent, and become the program."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        return  # The parent died before the kernel was asked.
    os.execv(program[0], program)  # noqa: S606  # no shell is what is wanted


def watch(program: list[str]) -> int:
    """Run the program until it ends, or until standard input does."""
    with subprocess.Popen(program, stdin=subprocess.DEVNULL) as child:

        def kill_with_parent() -> None:
            while os.read(0, 4096):  # Not by sys.stdin, whose lock would be held when we end.
                continue
            child.kill()

        def pass_on(number: int, _: FrameType | None) -> None:
            child.send_signal(number)

        threading.Thread(target=kill_with_parent, daemon=True).start()
        signal.signal(signal.SIGTERM, pass_on)
        signal.signal(signal.SIGINT, pass_on)
        return child.wait()


def main(arguments: list[str]) -> int:
    """The parent's process id, perhaps `--watch`, and then the program with its arguments."""
    parent, *rest = arguments
    if rest[0] == "--watch":
        return watch(rest[1:])
    if sys.platform != "linux":
        return watch(rest)
    become(rest, int(parent))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
