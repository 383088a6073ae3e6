"""The device book as the function server beside a worker uses it; runtime/tasks/book.py has the files, and how no device is used twice."""

import asyncio
import os
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from pathlib import Path

import structlog
from msgspec.structs import replace

from core.messages.harvest import NodeSize
from core.nouns.function import Holding
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, after
from core.nouns.quantities import NOTHING
from runtime.clock import Clock
from runtime.functions import harvested
from runtime.functions.devices import at, room_of
from runtime.tasks.book import BookFiles, ExecutorUse, Harvested, HarvestNode

logger = structlog.get_logger()

LOOK = Nanoseconds(100 * MILLISECOND)
"""Between two looks of a function server at the holdings, if nobody rings."""
RINGS = 4_096
"""Bytes that are read at once."""


class DeviceBook:
    """The book beside one worker (devices.FunctionBook)."""

    def __init__(self, clock: Clock, directory: Path) -> None:
        self._clock = clock
        self._files = BookFiles(directory)
        self._changed: Callable[[], None] | None = None
        self._told: tuple[Holding, ...] = ()
        """Holdings of which the server was told last."""
        self._bell = -1

    def holdings(self) -> tuple[Holding, ...]:
        """Return all holdings for functions, those that end included, and what is harvested."""
        held = self._files.holdings()
        try:
            harvest = self._files.harvested()
            taken = self._files.taken() if harvest.nodes else ()
        except OSError as error:
            logger.error("book_not_read", error=str(error))
            return held
        return (*held, *harvested.holdings_of(harvest.nodes, taken))

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever holdings change, from now on; the newest one who asks is called."""
        is_first = self._changed is None
        self._changed, self._told = changed, self.holdings()
        if is_first:
            self._listen()
            self._look_in_time()

    def note_executors(self, executors: tuple[ExecutorUse, ...]) -> None:
        """Write down the use of all executors. Raises OSError."""
        self._files.use(executors)

    def was_killed(self, pid: int, number: int) -> bool:
        """Return whether a worker has killed an executor of this process and number, because it was in the way of tasks."""
        return self._files.was_killed(pid, number)

    def noted(self) -> tuple[int, ...]:
        """Return the processes for which uses are noted, by whichever server, as long as they live."""
        try:
            return tuple(pid for one in self._files.uses() for pid in one.living())
        except OSError as error:
            logger.error("book_not_read", error=str(error))
            return ()

    def keep_harvested(self, revision: int, sizes: Iterable[NodeSize]) -> None:
        """Write down what is harvested, unless something newer is there. Raises OSError."""
        known = self._files.harvested()
        if revision >= known.revision:
            used = {one.use.place.node for one in self._files.uses() if one.use.place.is_harvested}
            self._files.keep_harvested(after_resizing(known, revision, sizes, self._clock.now(), used))
            self._look()

    def close(self) -> None:
        """Listen no longer."""
        if self._bell >= 0:
            asyncio.get_running_loop().remove_reader(self._bell)
            os.close(self._bell)
            self._bell = -1

    def _listen(self) -> None:
        """Hear the worker's rings. Where that cannot be, looks are enough."""
        try:
            self._files.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.mkfifo(self._files.bell, 0o600)
            self._bell = os.open(self._files.bell, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError) as error:
            logger.warning("book_has_no_bell", error=str(error))
            return
        asyncio.get_running_loop().add_reader(self._bell, self._hear)

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._bell, RINGS)
        self._look()

    def _look_in_time(self) -> None:
        self._look()
        self._clock.call_at(after(self._clock.now(), LOOK), self._look_in_time)

    def _look(self) -> None:
        found = self.holdings()
        if found != self._told and self._changed is not None:
            self._told = found
            self._changed()


def after_resizing(
    known: Harvested, revision: int, sizes: Iterable[NodeSize], now: Instant, used: Container[int]
) -> Harvested:
    """Return what is harvested from now on: executors beyond a size that has become smaller have the grace.

    used  nodes of which executors use something: they are not forgotten
    """
    before = {one.size.node: one for one in known.nodes}
    nodes = []
    for size in sizes:
        old = before.get(size.node)
        leaves_by = old.leaves_by if old is not None else Instant(0)
        if old is not None and not size.size.covers(old.size.size):
            leaves_by = after(now, size.within)
        nodes.append(HarvestNode(size, leaves_by))
        before.pop(size.node, None)
    for old in before.values():
        if old.size.size != NOTHING:
            nodes.append(HarvestNode(replace(old.size, size=NOTHING), after(now, old.size.within)))
        elif old.leaves_by > now or old.size.node in used:
            nodes.append(old)
    return Harvested(revision, tuple(nodes))


def has_room(holdings: Iterable[Holding], uses: Iterable[ExecutorUse]) -> bool:
    """Return whether the holdings that do not end suffice for these executors, GPU by GPU, and in all."""
    holdings = [one for one in holdings if not one.is_ending]
    uses = [one for one in uses if not one.place.is_harvested]
    free: dict[int, int] = {}
    for gpu in (gpu for one in holdings for gpu in one.gpus):
        free[gpu.index] = free.get(gpu.index, 0) + gpu.milli
    for gpu in (gpu for one in uses for gpu in one.gpus):
        free[gpu.index] = free.get(gpu.index, 0) - gpu.milli
    return min(free.values(), default=0) >= 0 and all(
        not room_of(
            at(holdings, place), [(one.tenant, one.amount) for one in uses if one.place == place]
        ).is_over()
        for place in {one.place for one in uses}
    )
