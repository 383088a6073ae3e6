"""The device book beside an emulated worker of a simulated world: as the one on a disk (runtime/tasks/book.py), in memory."""

import os
from collections.abc import Callable

from core.messages.harvest import NodeSize
from core.messages.workers import PrepareTasks
from core.nouns.function import Holding
from core.nouns.ids import ShareKey
from core.nouns.instant import SECOND, Instant
from runtime.clock import Clock
from runtime.functions import harvested
from runtime.functions.book import after_resizing
from runtime.spool import EmulatedSpool
from runtime.tasks.book import ExecutorUse, Harvested, TakenBy, UsedBy
from runtime.tasks.emulated import EmulatedLender, holdings_of
from runtime.tasks.layout import share_name
from runtime.tasks.processes import Identity, identity_of
from runtime.tasks.tasks_first import Clearing, Fits, TaskBook, TaskSide
from scenarios.accounting.harvest import ClearingFigures

LATE = SECOND
"""For so long after the end of its grace a share may wait for executors: they have left, or are killed, at the end of it."""


class MemoryPages:
    """What the book of one worker's nodes says. It is as lasting as the nodes."""

    def __init__(self) -> None:
        self.on_ring: Callable[[], None] | None = None
        """Called when tasks want what is harvested."""
        self._harvested = Harvested()
        self._taken: dict[str, TakenBy] = {}
        self._uses: list[UsedBy] = []
        self._process: Identity = identity_of(os.getpid())

    def use(self, executors: tuple[ExecutorUse, ...]) -> None:
        """See `BookFiles`."""
        self._uses = [UsedBy(one, self._process, self._process) for one in executors]

    def uses(self) -> list[UsedBy]:
        """See `BookFiles`."""
        return self._uses.copy()

    def keep_harvested(self, harvested_: Harvested) -> None:
        """See `BookFiles`."""
        self._harvested = harvested_

    def note_killed(self, executor: ExecutorUse) -> None:
        """See `BookFiles`."""

    def harvested(self) -> Harvested:
        """See `BookFiles`."""
        return self._harvested

    def take(self, taken: TakenBy) -> None:
        """See `BookFiles`."""
        self._taken[taken.share] = taken

    def give_back(self, share: str) -> None:
        """See `BookFiles`."""
        self._taken.pop(share, None)

    def taken_by(self, share: str) -> TakenBy | None:
        """See `BookFiles`."""
        return self._taken.get(share)

    def taken(self) -> list[TakenBy]:
        """See `BookFiles`."""
        return list(self._taken.values())

    def ring(self) -> None:
        """See `BookFiles`."""
        if self.on_ring is not None:
            self.on_ring()


class WatchedClearing(Clearing):
    """Shares that wait until executors have left, and how long each of them has waited."""

    def __init__(self, side: TaskSide, name: str, clock: Clock, moves_since: Callable[[], Instant]) -> None:
        """`moves_since`: when the nodes have last stood still."""
        super().__init__(side, is_told=True)
        self.figures = ClearingFigures()
        self._name = name
        self._clock = clock
        self._moves_since = moves_since
        self._since: dict[ShareKey, Instant] = {}

    def wait(self, command: PrepareTasks, fits: Fits) -> None:
        """See `Clearing`."""
        super().wait(command, fits)
        self._since[command.key] = self._clock.now()

    def passed(self) -> list[PrepareTasks]:
        """See `Clearing`."""
        found = super().passed()
        for command in found:
            self._count(command.key)
        return found

    def give_back(self, key: ShareKey) -> None:
        """See `Clearing`."""
        self._since.pop(key, None)
        super().give_back(key)

    def forget(self) -> None:
        """See `Clearing`."""
        self._since.clear()
        super().forget()

    def _count(self, key: ShareKey) -> None:
        now, since = self._clock.now(), self._since.pop(key)
        self.figures.waits.append((now - since) / SECOND)
        late = now - max(self.side.clears_by(share_name(key)), since, self._moves_since())
        if late > LATE:
            self.figures.problems.append(
                f"{key.workload}.{key.epoch} waited for executors of {self._name} {late / SECOND:.1f} s after its grace"
            )


class NodesBook:
    """The book beside one spool, as a function server uses it (runtime/functions/emulated.py `BookSource`), and as tasks do."""

    def __init__(
        self, spool: EmulatedSpool, clock: Clock, moves_since: Callable[[], Instant] = lambda: Instant(0)
    ) -> None:
        """`moves_since`: when the nodes of the spool have last stood still."""
        self.pages = MemoryPages()
        self.kill: Callable[[int], None] | None = None
        """Ends the executor of this number, which is in the way of tasks."""
        self.hear: Callable[[Callable[[], None]], None] = _at_once
        """Has the function server look when the worker rings."""
        self._spool = spool
        self._clock = clock
        self._changed: Callable[[], None] | None = None
        self.tasks = TaskBook(self.pages, clock.now, self._kill)
        """The side of the book that workers use."""
        spool.clearing = self.clearing = WatchedClearing(self.tasks, spool.name, clock, moves_since)
        spool.lend_by(EmulatedLender(self.clearing))

    def holdings(self) -> tuple[Holding, ...]:
        """Return what tasks hold now, those that stop included, and what is harvested."""
        nodes = self.pages.harvested().nodes
        taken = self.pages.taken() if nodes else ()
        return (*holdings_of(self._spool.shares.values()), *harvested.holdings_of(nodes, taken))

    def watch(self, changed: Callable[[], None]) -> None:
        """Call back whenever tasks start, stop or end that serve functions, or what is harvested changes, from now on."""
        self._changed = self._spool.on_serving = changed
        self.pages.on_ring = self._ring

    def keep_harvested(self, revision: int, sizes: tuple[NodeSize, ...]) -> None:
        """Remember what is harvested, unless something newer is known."""
        known = self.pages.harvested()
        if revision >= known.revision:
            used = {one.use.place.node for one in self.pages.uses()}
            self.pages.keep_harvested(after_resizing(known, revision, sizes, self._clock.now(), used))
            self._spool.look_again()
            if self._changed is not None:
                self._changed()

    def note_executors(self, executors: tuple[ExecutorUse, ...]) -> None:
        """Remember what executors use of what is harvested."""
        self.pages.use(executors)
        self._spool.look_again()

    def _ring(self) -> None:
        if self._changed is not None:
            self.hear(self._changed)

    def _kill(self, used: UsedBy) -> None:
        if self.kill is not None:
            self.clearing.figures.killed += 1
            self.kill(used.use.number)


def _at_once(look: Callable[[], None]) -> None:
    look()
