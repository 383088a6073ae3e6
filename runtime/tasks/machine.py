"""What Linux tells of processes and does with them: part of the runner of a task, and so of few imports.

Elsewhere there is no /proc: a process is its number, nothing is found but by its group, and orphans are nobody's.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # what `signal` wraps in enums, which cost more than all else here
import os
import select
import sys

TYPE_CHECKING = False
"""True for a checker of types. `typing` would cost more than all that is imported here."""
if TYPE_CHECKING:
    from collections.abc import Callable

    Prctl = Callable[..., int]

SHELLS = ("sh", "dash", "bash", "ash", "busybox", "ksh", "mksh", "zsh")
NICENESS = 10
"""Of users' programs: they get a tenth of what the plane's own processes get on a busy CPU, and are not starved."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
"""From <linux/prctl.h>."""


def load_prctl() -> Prctl | None:
    """How Linux is asked to give us orphans, and to kill the program with us; None elsewhere."""
    if sys.platform != "linux":
        return None
    import ctypes  # dear: not before the worker knows that we are there

    prctl: Prctl = ctypes.CDLL(None).prctl
    return prctl


def adopt_orphans(prctl: Prctl | None) -> None:
    """From now on, whoever of our descendants loses its parent becomes our child."""
    if prctl is not None:
        prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(prctl: Prctl | None) -> None:
    """From now on, we are killed when our parent dies."""
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)


def be_gentle() -> None:
    """Give way to others on scarce CPUs from now on. For a process that is alone in its session, or with what serves it.

    Where Linux shares CPUs between sessions first, the niceness of a process counts within its session alone, so the session gets one too.
    Of users without privileges Linux takes one such order in 100 ms: of sessions that begin at once some keep their full share.
    """
    os.nice(NICENESS)
    try:
        with open("/proc/self/autogroup", "w") as file:  # noqa: PTH123
            file.write(str(NICENESS))
    except OSError:
        pass


def be_idle() -> None:
    """Run only where nobody else wants a CPU, from now on, and all that we start too."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        return  # Being gentle has to do.


def boot_id() -> str:
    """Of the machine, as it runs now."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
            return file.read().strip()
    except OSError:
        return "-"


def stat_of(pid: str) -> list[str]:
    """State, parent, group, session and so on of a process. Raises OSError, and IndexError as it ends."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return file.read().decode("ascii", "replace").rpartition(")")[2].split()


def start_of(pid: str) -> int:
    """When it started, in ticks since the boot; 0 where nobody says so."""
    try:
        return int(stat_of(pid)[19])
    except (OSError, IndexError):
        return 0


def processes() -> dict[int, tuple[int, int]]:
    """Parent and group of every process."""
    found = {}
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except OSError:
        return {}
    for pid in pids:
        try:
            words = stat_of(pid)
            found[int(pid)] = int(words[1]), int(words[2])
        except (OSError, IndexError):
            continue
    return found


def descendants_of(pid: int, beside: frozenset[int] = frozenset()) -> set[int]:
    """Return all that descend from a process, but for some of them and whatever descends from those."""
    parents = {one: parent for one, (parent, _) in processes().items()}
    found = {pid}
    is_growing = True
    while is_growing:
        more = {one for one, parent in parents.items() if parent in found} - found - beside
        found |= more
        is_growing = bool(more)
    return found - {pid}


def family_of(group: int) -> dict[int, tuple[int, bool]]:
    """Each member's parent, and whether it is a shell."""
    found = {}
    for pid, (parent, its_group) in processes().items():
        if its_group == group:
            try:
                program = os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
            except OSError:
                program = ""
            found[pid] = parent, program.rpartition("/")[2] in SHELLS
    return found


def listens(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal, or waits for it."""
    return _is_in_mask(pid, number, (b"SigCgt:", b"SigBlk:"))


def is_ended_by(pid: int, number: int) -> bool:
    """Whether a signal does what it does to a process that says nothing of it."""
    return not _is_in_mask(pid, number, (b"SigCgt:", b"SigBlk:", b"SigIgn:"))


def _is_in_mask(pid: int, number: int, names: tuple[bytes, ...]) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123
            lines = file.read().splitlines()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(names)]
    return any(mask >> (number - 1) & 1 for mask in masks)


def await_end(pid: int, span_ms: int) -> None:
    """Until a process runs no more, be it reaped or not, or so long: its children have another parent by then."""
    try:
        watch = os.pidfd_open(pid)
    except (AttributeError, OSError):
        return  # It has ended, or this system does not tell.
    ears = select.poll()
    ears.register(watch, select.POLLIN)
    ears.poll(span_ms)
    os.close(watch)


def group_exists(group: int) -> bool:
    """Whether anybody is in it."""
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def kill(pid: int, number: int) -> None:
    """Send a signal to whoever is still there."""
    try:
        os.kill(pid, number)
    except OSError:
        return


def heed_signals() -> None:
    """As a program expects to find them: the runner heeds none, and whoever started it may have ignored some."""
    for number in range(1, _signal.NSIG):
        try:
            _signal.signal(number, _signal.SIG_DFL)
        except (OSError, ValueError):
            continue
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def ignore_signals() -> None:
    """Whoever wants the task ended says so to a worker; what ends a whole machine or terminal reaches the task too."""
    for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP, _signal.SIGQUIT):
        _signal.signal(number, _signal.SIG_IGN)


def fields_of(path: str) -> dict[str, str]:
    """`name=value`, each ended by a zero byte, as in /proc/PID/environ."""
    with open(path, "rb") as file:  # noqa: PTH123  # pathlib would cost as much as the rest
        return decoded(file.read())


def decoded(data: bytes) -> dict[str, str]:
    """The same, from bytes."""
    parts = (part.partition("=") for part in os.fsdecode(data).split("\0") if part)
    return {name: value for name, _, value in parts}
