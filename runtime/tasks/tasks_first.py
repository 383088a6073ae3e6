"""Tasks come first: a worker's part in the device book (book.py).

Tasks that are to be prepared are written into the book before anything else. Functions then use no more of their nodes than these tasks
leave: idle executors end at once, and calls that run have the grace. The share is prepared only when nothing of executors is in its way.
Whoever has not left when the grace is over is killed by the worker itself, whether the plane or the function server lives or not.

Tasks that run may lend devices, and want them back as other tasks want what they are to have: under the name of their share and `BACK`,
until no executor uses them any more. Only then the book says that the share lends less.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

import structlog

from core.messages.harvest import NodeSize
from core.messages.workers import PrepareTasks
from core.nouns.function import Place
from core.nouns.harvest import LentPart
from core.nouns.ids import AttemptKey, ShareKey
from core.nouns.instant import MILLISECOND, Instant, Nanoseconds, after, earliest
from core.nouns.quantities import NOTHING, Amount
from runtime.tasks import processes
from runtime.tasks.book import ExecutorUse, Harvested, TakenBy, TaskNode, UsedBy
from runtime.tasks.layout import share_name
from runtime.tasks.processes import Identity

logger = structlog.get_logger()

SOON = Nanoseconds(20 * MILLISECOND)
"""Between looks whether executors have left."""
LATE: Nanoseconds = Nanoseconds(60_000 * MILLISECOND)
"""After the time of its grace, a share that was to be prepared is not wanted any more: its attempt has found no start."""
BACK = "+back"
"""After the name of a share: what it wants back of what it lends. No share has such a name itself (layout.file_name)."""
Executor = tuple[Identity, int]
"""A process, and the number that its server has for the executor."""

Fits = Callable[[Sequence[ExecutorUse]], bool]
"""Whether a share's tasks could have devices beside these executors."""


def any_executors(_: Sequence[ExecutorUse]) -> bool:
    """Return that it does not matter which executors there are: devices have no numbers."""
    return True


class TaskSide(Protocol):
    """The device book, as a worker uses it."""

    def want(self, share: str, nodes: tuple[TaskNode, ...]) -> None:
        """Write down that tasks are to have this: from now on nobody else begins to use it. Raises OSError."""

    def is_clear(self, share: str, fits: Fits) -> bool:
        """Return whether no executor is in the way of a share that wants something. Ends those that are when their grace is over.

        Raises OSError.
        """

    def allot(self, share: str, nodes: tuple[TaskNode, ...]) -> list[ExecutorUse]:
        """Write down which slots a share is about to have. Return what executors use then, of which none begins on these slots any more.

        Raises OSError.
        """

    def have(self, share: str, nodes: tuple[TaskNode, ...]) -> None:
        """Write down what a share has, nothing of which executors use. Raises OSError."""

    def tidy(self) -> Instant | None:
        """Take out what shares wanted that nobody asks for any more. Return when to do so again. Raises OSError."""

    def executors(self) -> list[ExecutorUse]:
        """Return what executors use of what is harvested. Raises OSError."""

    def give_back(self, share: str) -> None:
        """A share has, or wants, nothing any more. Raises OSError."""

    def had_by(self, share: str) -> tuple[TaskNode, ...]:
        """Return what a share has, or wants."""

    def clears_by(self, share: str) -> Instant:
        """Return when executors have to be gone that are in the way of a share; 0: none is."""


class Clearing:
    """Shares that wait until executors have left what they are to have, or want back."""

    def __init__(self, side: TaskSide, *, is_told: bool = False) -> None:
        """`is_told`: whoever asks looks again by itself when executors leave; else every `SOON`."""
        self.side = side
        self._is_told = is_told
        self._waiting: dict[ShareKey, tuple[PrepareTasks, Fits]] = {}
        self._back: dict[ShareKey, tuple[TaskNode, ...]] = {}
        """What shares want back."""
        self._tidies_at: Instant | None = None

    def admit(self, command: PrepareTasks, fits: Fits = any_executors) -> bool:
        """Return whether a share can be prepared now; else `passed` tells when, and it need not be asked for again. Raises OSError."""
        name = share_name(command.key)
        if command.key not in self._waiting:
            self.side.want(name, tuple(nodes_of(command)))
            if not self._is_clear(name, fits):
                self.wait(command, fits)
        return command.key not in self._waiting

    def wait(self, command: PrepareTasks, fits: Fits) -> None:
        """A share waits until executors have left what it is to have."""
        logger.info("share_waits_for_executors", **command.key._asdict())
        self._waiting[command.key] = command, fits

    def passed(self) -> list[PrepareTasks]:
        """Return the shares that waited and can be prepared now."""
        try:
            self._tidies_at = self.side.tidy()
        except OSError as error:
            logger.error("book_not_written", error=str(error))
        found = [
            command
            for command, fits in self._waiting.values()
            if self._is_clear(share_name(command.key), fits)
        ]
        for command in found:
            del self._waiting[command.key]
        return found

    def cancel(self, key: ShareKey) -> bool:
        """Let a share wait no longer. Return whether it did."""
        if key not in self._waiting:
            return False
        self.give_back(key)
        return True

    def due(self, now: Instant) -> Instant | None:
        """Return when to look again."""
        if not self._is_told:
            return earliest(self._tidies_at, after(now, SOON) if self._waiting or self._back else None)
        names = [*map(share_name, self._waiting), *map(_back, self._back)]
        return earliest(
            self._tidies_at,
            *(at if (at := self.side.clears_by(name)) > now else after(now, SOON) for name in names),
        )

    def _is_clear(self, name: str, fits: Fits) -> bool:
        """Return whether no executor is in the way of a share, as far as the book can be read."""
        try:
            return self.side.is_clear(name, fits)
        except OSError as error:
            logger.error("book_not_read", share=name, error=str(error))
            return False

    def have(self, command: PrepareTasks) -> None:
        """A share is prepared, or about to be. Raises OSError."""
        self.side.have(share_name(command.key), tuple(nodes_of(command)))

    def give_back(self, key: ShareKey) -> None:
        """A share has ended, or was never there."""
        self._waiting.pop(key, None)
        try:
            self.side.give_back(share_name(key))
            if self._back.pop(key, None) is not None:
                self.side.give_back(_back(key))
        except OSError as error:  # Nothing is harvested of what it had until the next start.
            logger.error("book_not_written", **key._asdict(), error=str(error))

    def forget(self) -> None:
        """No share waits."""
        self._waiting.clear()
        self._back.clear()

    # Lending.

    def adopt(self, keys: Iterable[ShareKey]) -> None:
        """Go on with what these shares wanted back when the worker before ended."""
        for key in keys:
            back = self.side.had_by(_back(key))
            if back:
                self._back[key] = back

    def had_by(self, key: ShareKey) -> tuple[TaskNode, ...]:
        """Return what a share has by the book, and what it lends of that."""
        return self.side.had_by(share_name(key))

    def wants_back(self, key: ShareKey) -> bool:
        """Return whether a share waits for what it lent."""
        return key in self._back

    def hosts(self) -> list[AttemptKey]:
        """Return the attempts beside which tasks wait to be prepared."""
        waiting = (command.beside for command, _ in self._waiting.values())
        return [host for host in waiting if host is not None]

    def lend(self, key: ShareKey, nodes: tuple[TaskNode, ...]) -> None:
        """Let a share lend what these nodes say, and no less than before: what is wanted back is not lent before it is clear. Raises OSError."""
        self.side.have(share_name(key), nodes)

    def take_back(self, key: ShareKey, nodes: tuple[TaskNode, ...], back: tuple[TaskNode, ...]) -> bool:
        """Return whether a share lends no more than these nodes say: executors have left what it wants back. Else ask again. Raises OSError.

        nodes  what the share has and lends from then on
        back   what it wants back until then
        """
        if self._back.get(key) != back:
            self.side.want(_back(key), back)
            self._back[key] = back
        if not self._is_clear(_back(key), partial(leave_slots, back)):
            return False
        self.side.have(share_name(key), nodes)
        self.keep_lending(key)
        return True

    def keep_lending(self, key: ShareKey) -> None:
        """A share wants nothing back any more. Raises OSError."""
        if self._back.pop(key, None) is not None:
            self.side.give_back(_back(key))


class Pages(Protocol):
    """What `TaskBook` reads and writes (book.BookFiles)."""

    def uses(self) -> list[UsedBy]:
        """Return what executors use of which something lives, the oldest first. Raises OSError."""

    def note_killed(self, executor: ExecutorUse) -> None:
        """Write down that an executor is about to be killed. Raises OSError."""

    def harvested(self) -> Harvested:
        """Return what is harvested. Raises OSError."""

    def take(self, taken: TakenBy) -> None:
        """Write down what a share has, or is about to have."""

    def give_back(self, share: str) -> None:
        """Take out what a share had."""

    def taken_by(self, share: str) -> TakenBy | None:
        """Return what one share has. Raises OSError."""

    def taken(self) -> list[TakenBy]:
        """Return what shares have. Raises OSError."""

    def ring(self) -> None:
        """Have the function server look, if there is one."""


class TaskBook:
    """A worker's side of the book of one machine."""

    def __init__(self, pages: Pages, now: Callable[[], Instant], kill: Callable[[UsedBy], None]) -> None:
        self._pages = pages
        self._now = now
        self._kill = kill
        self._killed: set[Executor] = set()
        self._unasked: dict[str, Instant] = {}
        """Shares that waited when the worker before ended, and until when they may ask again."""

    def want(self, share: str, nodes: tuple[TaskNode, ...]) -> None:
        """See `TaskSide`. A worker that starts again asks again: what it has written before keeps its time."""
        self._unasked.pop(share, None)
        known = self._pages.taken_by(share)
        is_same = known is not None and _amounts(known.nodes) == _amounts(nodes)
        kept = known.clears_by if known is not None and is_same else Instant(0)
        clears_by = self._clears_by(nodes, kept)
        self._pages.take(TakenBy(share, nodes, clears_by))
        if not clears_by and (clears_by := self._clears_by(nodes, kept)):
            # A function server was allowed to harvest meanwhile, and may not have seen the share.
            self._pages.take(TakenBy(share, nodes, clears_by))
        if clears_by:
            self._pages.ring()

    def _clears_by(self, nodes: Iterable[TaskNode], kept: Instant) -> Instant:
        """Return when executors have to have left nodes, by a time kept from before at the latest; 0: nothing is harvested there."""
        wanted = {one.node for one in nodes}
        graces = [one.size.within for one in self._pages.harvested().nodes if one.size.node in wanted]
        if not graces:
            return Instant(0)
        newest = after(self._now(), max(graces))
        return min(kept, newest) if kept else newest

    def is_clear(self, share: str, fits: Fits) -> bool:
        """See `TaskSide`."""
        known = self._pages.taken_by(share)
        if known is None or not known.clears_by:
            return True
        uses = self._uses()
        if self._is_clear(known, uses, fits):
            return True
        if self._now() < known.clears_by:
            return False
        self._evict(known, uses, fits)
        return self._is_clear(known, self._uses(), fits)

    def allot(self, share: str, nodes: tuple[TaskNode, ...]) -> list[ExecutorUse]:
        """See `TaskSide`."""
        known = self._pages.taken_by(share)
        clears_by = (
            known.clears_by if known is not None and known.clears_by else self._clears_by(nodes, Instant(0))
        )
        self._pages.take(TakenBy(share, nodes, clears_by))
        return self.executors()

    def have(self, share: str, nodes: tuple[TaskNode, ...]) -> None:
        """See `TaskSide`."""
        self._pages.take(TakenBy(share, nodes))
        if any(one.lent != NOTHING for one in nodes):
            self._pages.ring()

    def had_by(self, share: str) -> tuple[TaskNode, ...]:
        """See `TaskSide`."""
        known = self._pages.taken_by(share)
        return known.nodes if known is not None else ()

    def clears_by(self, share: str) -> Instant:
        """See `TaskSide`."""
        known = self._pages.taken_by(share)
        return known.clears_by if known is not None else Instant(0)

    def executors(self) -> list[ExecutorUse]:
        """See `TaskSide`."""
        return [one.use for one in self._uses()] if self._pages.harvested().nodes else []

    def give_back(self, share: str) -> None:
        """See `TaskSide`."""
        self._pages.give_back(share)
        self._pages.ring()

    def keep(self, shares: Iterable[str]) -> None:
        """Take out whatever shares have that are not these, at a start. One that waited is asked for again soon, or is out of time."""
        living, now = set(shares), self._now()
        for taken in self._pages.taken():
            if taken.share.removesuffix(BACK) in living:
                continue
            if taken.clears_by and now < after(taken.clears_by, LATE):
                self._unasked[taken.share] = after(now, LATE)
            else:
                self._pages.give_back(taken.share)

    def tidy(self) -> Instant | None:
        """See `TaskSide`."""
        now = self._now()
        for share in [share for share, until in self._unasked.items() if until <= now]:
            self.give_back(share)
            del self._unasked[share]
        return min(self._unasked.values(), default=None)

    def _is_clear(self, wanted: TakenBy, uses: Iterable[UsedBy], fits: Fits) -> bool:
        """Return whether executors leave enough for a share, for those that have something, and for those that wait before it."""
        mine = (wanted.clears_by, wanted.share)
        taken = [one for one in self._pages.taken() if (one.clears_by, one.share) <= mine]
        nodes = {one.node for one in wanted.nodes}
        executors = [one.use for one in uses]
        return fits(executors) and not any(
            beyond(one.size, taken, executors) != NOTHING
            for one in self._pages.harvested().nodes
            if one.size.node in nodes
        )

    def _uses(self) -> list[UsedBy]:
        """Return the uses of what is harvested, the oldest first. One whose executor was killed here is over when nothing of it is left."""
        uses = [one for one in self._pages.uses() if one.use.place.is_harvested]
        self._killed &= {_executor(one) for one in uses}
        return [one for one in uses if _executor(one) not in self._killed or is_left(one)]

    def _evict(self, wanted: TakenBy, uses: list[UsedBy], fits: Fits) -> None:
        """Kill executors that are in the way, and what they have started: those on devices that are wanted, then those of nodes that are,
        and then others, the newest first.

        Those that were killed before and still live are killed again, for they may have started something meanwhile.
        """
        slots = {slot for one in wanted.nodes for slot in one.kept}
        left = []
        for used in uses:
            if _executor(used) in self._killed:
                self._kill(used)
            else:
                left.append(used)
        nodes = {one.node for one in wanted.nodes}
        left.sort(
            key=lambda one: (any(gpu.index in slots for gpu in one.use.gpus), one.use.place.node in nodes)
        )
        while left and not self._is_clear(wanted, left, fits):
            used = left.pop()
            logger.warning("executor_killed_for_tasks", pid=used.use.pid, share=wanted.share)
            self._killed.add(_executor(used))
            try:
                self._pages.note_killed(used.use)
            except OSError as error:  # Its call counts as a failure of its function.
                logger.error("book_not_written", error=str(error))
            self._kill(used)


def kill_executor(used: UsedBy) -> None:
    """Kill the process of an executor, and those that it has started. An emulated one has none: it is over when its server looks next."""
    if used.use.is_emulated:
        return
    if used.process.is_alive():
        processes.kill(used.use.pid)
    for pid in used.started():
        processes.kill(pid)


def is_left(used: UsedBy) -> bool:
    """Return whether a process of an executor lives that was killed."""
    return not used.use.is_emulated and (used.process.is_alive() or bool(used.started()))


def leave_slots(nodes: Iterable[TaskNode], executors: Iterable[ExecutorUse]) -> bool:
    """Return whether executors use no slot of these nodes."""
    wanted = {slot for one in nodes for slot in one.kept}
    return not any(gpu.index in wanted for one in executors for gpu in one.gpus)


def left_of(size: NodeSize, taken: Iterable[TakenBy]) -> Amount:
    """Return what tasks leave of a node."""
    left = size.total
    for _, one in on_node(size.node, taken):
        left = left.minus(one.amount).plus(one.lent)
    return left.largest(NOTHING)


def beyond(size: NodeSize, taken: Iterable[TakenBy], uses: Iterable[ExecutorUse]) -> Amount:
    """Return how much executors on the harvested part of a node use beyond what tasks leave, of GPUs and memory: cores are shared."""
    used = NOTHING
    for one in uses:
        if one.place == Place(size.node, is_harvested=True):
            used = used.plus(size.of_node(one.amount))
    excess = used.minus(left_of(size, taken)).largest(NOTHING)
    return Amount(excess.gpu_milli, 0, excess.memory_bytes)


def on_node(node: int, taken: Iterable[TakenBy]) -> Iterator[tuple[TakenBy, TaskNode]]:
    """Yield what shares have of a node."""
    return ((share, one) for share in taken for one in share.nodes if one.node == node)


def parts_lent(nodes: Iterable[TaskNode]) -> tuple[LentPart, ...]:
    """Return what a share lends of these nodes."""
    return tuple(LentPart(one.node, one.lent) for one in nodes if one.lent != NOTHING)


def nodes_of(command: PrepareTasks) -> Iterator[TaskNode]:
    """Yield what the tasks of a share need of each node. A guest has its device from its host."""
    needs: dict[int, Amount] = {}
    for job, spread in zip(command.jobs, command.spreads, strict=True):
        need = job.need if command.beside is None else Amount(0, job.need.cpu_milli, job.need.memory_bytes)
        for node, count in zip(spread.nodes, spread.tasks, strict=True):
            needs[node] = needs.get(node, NOTHING).plus(need.times(count))
    yield from (TaskNode(node, needs[node]) for node in sorted(needs))


def _executor(used: UsedBy) -> Executor:
    return used.process, used.use.number


def _amounts(nodes: Iterable[TaskNode]) -> list[tuple[int, Amount]]:
    return [(one.node, one.amount) for one in nodes]


def _back(key: ShareKey) -> str:
    return f"{share_name(key)}{BACK}"
