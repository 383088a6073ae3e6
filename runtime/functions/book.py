"""The device book of a machine: a directory beside the worker's spool in which its tasks and its function server tell who uses what.

    holdings/SHARE.json    the part of the machine that one task of a service holds for functions, written by the task (hold.py)
    emulated.json          the same of all emulated tasks that live, written by the worker
    executors.json         the parts that executors use, written by the function server

A holding counts as long as its task's process lives, and a use as long as its executor's does, or the warm parent's, which ends what the
executor leaves: neither needs to be taken out by a process that was killed. Files are replaced whole.

No device is used twice, because both sides write before they read. A task that is told to stop writes that its holding ends, and then
reads the uses; a function server writes the use of an executor, and then reads the holdings, before the executor may begin. In
whichever order the two come, one of them sees the other.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog
from msgspec import Struct

from core.nouns.function import Holding
from core.nouns.instant import MILLISECOND, Nanoseconds, after
from core.nouns.quantities import NOTHING
from core.routing.room import Room
from runtime.clock import Clock
from runtime.functions.devices import ExecutorUse, read
from runtime.tasks.layout import EMULATED
from runtime.tasks.processes import Identity, identity_of

logger = structlog.get_logger()

Some = TypeVar("Some")
LOOK = Nanoseconds(100 * MILLISECOND)
"""Between two looks of a function server at the holdings."""


class HeldBy(Struct, frozen=True):
    """A holding, and the process of its task."""

    holding: Holding
    process: Identity


class UsedBy(Struct, frozen=True):
    """A use, the process of its executor, and that of the executor's parent."""

    use: ExecutorUse
    process: Identity
    parent: Identity

    def living(self) -> tuple[int, ...]:
        """Return which of the two live."""
        return tuple(one.pid for one in (self.process, self.parent) if one.is_alive())


class BookFiles:
    """The files of one device book."""

    def __init__(self, directory: Path) -> None:
        self._holdings = directory / "holdings"
        self._emulated = directory / EMULATED
        self._executors = directory / "executors.json"

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

    def use(self, executors: Iterable[ExecutorUse]) -> None:
        """Write down what executors use. Raises OSError."""
        self._executors.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(
            self._executors,
            [UsedBy(one, identity_of(one.pid), identity_of(one.parent)) for one in executors],
        )

    def uses(self) -> list[UsedBy]:
        """Return what executors use that live, or whose parent does, the oldest first."""
        uses = _read(self._executors, list[UsedBy]) or []
        return [one for one in uses if one.living()]


def has_room(holdings: Iterable[Holding], uses: Iterable[ExecutorUse]) -> bool:
    """Return whether the holdings that do not end suffice for these executors, GPU by GPU, and in all."""
    holdings, uses = [one for one in holdings if not one.is_ending], list(uses)
    free: dict[int, int] = {}
    for gpu in (gpu for one in holdings for gpu in one.gpus):
        free[gpu.index] = free.get(gpu.index, 0) + gpu.milli
    for gpu in (gpu for one in uses for gpu in one.gpus):
        free[gpu.index] = free.get(gpu.index, 0) - gpu.milli
    book, room_of = read(holdings), {one.tenant: NOTHING for one in uses}
    for one in uses:
        room_of[one.tenant] = room_of[one.tenant].plus(one.amount)
    return min(free.values(), default=0) >= 0 and not Room(book.size, dict(book.lent), room_of).is_over()


class DeviceBook:
    """The book as the function server beside a worker uses it (devices.FunctionBook)."""

    def __init__(self, clock: Clock, directory: Path) -> None:
        self._clock = clock
        self._files = BookFiles(directory)
        self._changed: Callable[[], None] | None = None
        self._told: tuple[Holding, ...] = ()
        """Holdings of which the server was told last."""

    def holdings(self) -> tuple[Holding, ...]:
        """Return all holdings for functions, those that end included."""
        return self._files.holdings()

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever holdings change, from now on; the newest one who asks is called."""
        is_first = self._changed is None
        self._changed, self._told = changed, self.holdings()
        if is_first:
            self._look_soon()

    def note_executors(self, executors: tuple[ExecutorUse, ...]) -> None:
        """Write down the use of all executors. Raises OSError."""
        self._files.use(executors)

    def noted(self) -> tuple[int, ...]:
        """Return the processes for which uses are noted, by whichever server, as long as they live."""
        return tuple(pid for one in self._files.uses() for pid in one.living())

    def _look_soon(self) -> None:
        self._clock.call_at(after(self._clock.now(), LOOK), self._look)

    def _look(self) -> None:
        found = self.holdings()
        if found != self._told and self._changed is not None:
            self._told = found
            self._changed()
        self._look_soon()


def _replace(path: Path, value: object) -> None:
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(msgspec.json.encode(value))
    unfinished.replace(path)


def _read(path: Path, kind: type[Some]) -> Some | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        logger.error("book_not_read", path=str(path), error=str(error))
        return None
