"""The device book of a machine: a directory beside the worker's spool in which its tasks and its function server tell who uses what.

    holdings/SHARE.json    the part of the machine that one task of a service holds for functions, written by the task (hold.py)
    emulated.json          the same of all emulated tasks that live, written by the worker
    tasks/SHARE.json       what tasks of a share have of each node, or are about to have, and what of it they lend, written by the worker
    tasks/SHARE+back.json  what tasks of a share want back of what they lend, written by the worker
    harvest.json           what functions may use of each node beside what tasks hold for them, written by the function server
    executors.json         the parts that executors use, written by the function server
    killed.json            the newest executors that were in the way of tasks and were killed for that, written by the worker
    bell                   a pipe with a name: the worker rings when tasks want what is harvested

A holding counts as long as its task's process lives, and a use as long as its executor's does, anything that the executor has started, or
the warm parent, which ends what the executor leaves: neither needs to be taken out by a process that was killed. Files are replaced whole.

No device is used twice, because both sides write before they read. A task that is told to stop writes that its holding ends, and then
reads the uses, as a worker does that is to prepare tasks: once for the amounts, and once for the slots that it has chosen; a function
server writes the use of an executor, and then reads the holdings, what is harvested and what tasks have, before the executor may begin. In
whichever order the two come, one of them sees the other. What cannot be read is in the way of tasks, and holds nothing for functions.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog
from msgspec import Struct

from core.messages.harvest import NodeSize
from core.nouns.function import GpuPart, Holding, Place
from core.nouns.ids import TenantName
from core.nouns.instant import Instant
from core.nouns.quantities import NOTHING, Amount
from runtime.tasks.layout import EMULATED
from runtime.tasks.processes import Identity, identity_of, left_of

logger = structlog.get_logger()

Some = TypeVar("Some")
EXECUTOR_MARK = "MIZZEN_EXECUTOR"
"""The variable by which programs are found that an executor has started."""
KILLED_MAX = 1_000
"""Executors that were killed, and are remembered."""
SETTLED = 50_000_000
"""Nanoseconds after which another version of a file has another time, also where the kernel's clock is coarse."""
NOT_SETTLED = (0, 0)


class HeldBy(Struct, frozen=True):
    """A holding, and the process of its task."""

    holding: Holding
    process: Identity


class ExecutorUse(Struct, frozen=True):
    """The part of this machine that one executor uses."""

    pid: int
    parent: int
    """The process that ends what the executor leaves when it dies."""
    tenant: TenantName
    gpus: tuple[GpuPart, ...]
    cpu_slots: tuple[int, ...]
    amount: Amount
    place: Place = Place()
    mark: str = ""
    """In the environment of programs that the executor has started; empty: it starts none."""
    number: int = 0
    """Its server's for it."""
    is_emulated: bool = False
    """It is no process of its own, but a part of its server's."""


class UsedBy(Struct, frozen=True):
    """A use, the process of its executor, and that of the executor's parent."""

    use: ExecutorUse
    process: Identity
    parent: Identity

    def living(self) -> tuple[int, ...]:
        """Return which of the two live."""
        return tuple(one.pid for one in (self.process, self.parent) if one.is_alive())

    def started(self) -> list[int]:
        """Return the processes that the executor has started and that live: those of its session, and those that carry its mark."""
        return left_of(self.use.mark, self.process, EXECUTOR_MARK) if self.use.mark else []


class TaskNode(Struct, frozen=True):
    """What the tasks of a share have of one node."""

    node: int
    amount: Amount
    slots: tuple[tuple[int, int], ...] = ()
    """Slots, and milli of each; none: they are not allotted yet, or have no numbers."""
    lent: Amount = NOTHING
    """The part that they let functions use for now."""
    lent_slots: tuple[int, ...] = ()
    """The slots of that part, each of them whole; none: they have no numbers."""

    @property
    def kept(self) -> dict[int, int]:
        """Return the milli of each slot that functions may not use."""
        return {slot: milli for slot, milli in self.slots if slot not in self.lent_slots}


class TakenBy(Struct, frozen=True):
    """What a share has, or is about to have."""

    share: str
    nodes: tuple[TaskNode, ...]
    clears_by: Instant = Instant(0)
    """When executors have to be gone that are in its way; 0: none is, for its tasks are prepared."""


class HarvestNode(Struct, frozen=True):
    """What functions may use of one node beside what tasks hold for them."""

    size: NodeSize
    leaves_by: Instant = Instant(0)
    """When executors beyond the size have to be gone: the grace after the newest recall."""


class Harvested(Struct, frozen=True):
    """All that is harvested of this machine."""

    revision: int = 0
    nodes: tuple[HarvestNode, ...] = ()


class BookFiles:
    """The files of one device book."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bell = directory / "bell"
        self._holdings = directory / "holdings"
        self._tasks = directory / "tasks"
        self._emulated = directory / EMULATED
        self._executors = directory / "executors.json"
        self._harvest = directory / "harvest.json"
        self._killed = directory / "killed.json"
        self._known: dict[str, tuple[tuple[int, int], TakenBy]] = {}
        """By file: its inode and time, and what it says. A file is replaced whole, by another inode."""

    # What tasks hold for functions.

    def hold(self, holding: Holding, pid: int) -> None:
        """Write down what the task of this process holds. Raises OSError."""
        self._holdings.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(self._holdings / f"{holding.share}.json", HeldBy(holding, identity_of(pid)))

    def release(self, share: str) -> None:
        """Take out a holding. Raises OSError."""
        (self._holdings / f"{share}.json").unlink(missing_ok=True)

    def holdings(self) -> tuple[Holding, ...]:
        """Return the holdings of living tasks, by share, those of emulated tasks first."""
        found = list(_read(self._emulated, tuple[Holding, ...]) or ())
        for path in sorted(self._holdings.glob("*.json")):
            held = _read(path, HeldBy)
            if held is not None and held.process.is_alive():
                found.append(held.holding)
        return tuple(found)

    # What executors use.

    def use(self, executors: Iterable[ExecutorUse]) -> None:
        """Write down what executors use. Raises OSError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(
            self._executors,
            [UsedBy(one, identity_of(one.pid), identity_of(one.parent)) for one in executors],
        )

    def uses(self) -> list[UsedBy]:
        """Return what executors use of which something lives, or whose parent does, the oldest first. Raises OSError."""
        uses = _read_surely(self._executors, list[UsedBy]) or []
        return [one for one in uses if one.living() or one.started()]

    def note_killed(self, executor: ExecutorUse) -> None:
        """Write down that an executor is about to be killed. Raises OSError."""
        before = _read(self._killed, list[tuple[int, int]]) or []
        _replace(self._killed, [*before, (executor.pid, executor.number)][-KILLED_MAX:])

    def was_killed(self, pid: int, number: int) -> bool:
        """Return whether an executor was killed because it was in the way of tasks."""
        return (pid, number) in (_read(self._killed, list[tuple[int, int]]) or ())

    # What is harvested.

    def keep_harvested(self, harvested: Harvested) -> None:
        """Write down what is harvested. Raises OSError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(self._harvest, harvested)

    def harvested(self) -> Harvested:
        """Return what is harvested; nothing if nobody ever said so. Raises OSError."""
        return _read_surely(self._harvest, Harvested) or Harvested()

    # What tasks have.

    def take(self, taken: TakenBy) -> None:
        """Write down what a share has, or is about to have. Raises OSError."""
        self._tasks.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(self._tasks / f"{taken.share}.json", taken)

    def give_back(self, share: str) -> None:
        """Take out what a share had. Raises OSError."""
        (self._tasks / f"{share}.json").unlink(missing_ok=True)

    def taken_by(self, share: str) -> TakenBy | None:
        """Return what one share has. Raises OSError."""
        return _read_surely(self._tasks / f"{share}.json", TakenBy)

    def taken(self) -> list[TakenBy]:
        """Return what shares have, by name. Only files that have changed since the last look are read. Raises OSError."""
        known, self._known = self._known, {}
        try:
            entries = sorted(os.scandir(self._tasks), key=_name)
        except FileNotFoundError:
            return []
        for entry in entries:
            if not entry.name.endswith(".json"):
                continue
            with suppress(FileNotFoundError):
                stat = entry.stat()
                is_settled = time.time_ns() - stat.st_mtime_ns > SETTLED
                version = (stat.st_ino, stat.st_mtime_ns) if is_settled else NOT_SETTLED
                if is_settled and entry.name in known and known[entry.name][0] == version:
                    self._known[entry.name] = known[entry.name]
                elif (read := _read_surely(Path(entry.path), TakenBy)) is not None:
                    self._known[entry.name] = version, read
        return [taken for _, taken in self._known.values()]

    def ring(self) -> None:
        """Have the function server look, if there is one."""
        with suppress(OSError):  # Nobody listens, or has not heard the rings before yet.
            bell = os.open(self.bell, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(bell, b".")
            finally:
                os.close(bell)


def _name(entry: "os.DirEntry[str]") -> str:
    return entry.name


def _replace(path: Path, value: object) -> None:
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(msgspec.json.encode(value))
    unfinished.replace(path)


def _read(path: Path, kind: type[Some]) -> Some | None:
    """Return what a file says; None if there is none, or it cannot be read."""
    try:
        return _read_surely(path, kind)
    except OSError as error:
        logger.error("book_not_read", path=str(path), error=str(error))
        return None


def _read_surely(path: Path, kind: type[Some]) -> Some | None:
    """Return what a file says; None if there is none, or the machine went down while it was written. Raises OSError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        logger.error("book_damaged", path=str(path), error=str(error))
        return None
