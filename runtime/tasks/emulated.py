"""Emulated shares that outlive the process: a journal of what was done to them, and when, makes them again.

The progress of an emulated task is a function of its start and of its partners' starts and ends, so neither its checkpoints nor its end
are written. Whatever is done again at a start of the process is done as of the time at which it was done first. When a share is
forgotten, those of which the pace may have depended on it are written down as they are then, in place of their earlier lines. What
emulated tasks hold for functions, and what they lend, is written into the device book (runtime/tasks/book.py) besides.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from core.component import Effect
from core.effects import ForgetShare, KeepHeard, PrepareShare, StartShare, StopShare
from core.messages.workers import OfShare, PrepareTasks, TasksPhase, TasksState
from core.nouns.function import Holding, Place
from core.nouns.harvest import LentPart
from core.nouns.ids import ShareKey, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.operation import WHOLE
from core.nouns.quantities import NOTHING, Amount
from runtime.clock import Clock
from runtime.effects import Done
from runtime.emulated.lending import Lender
from runtime.spool import EmulatedSpool, Share
from runtime.tasks.book import TaskNode
from runtime.tasks.errors import SpoolDamaged
from runtime.tasks.layout import share_name
from runtime.tasks.tasks_first import Clearing, nodes_of, parts_lent

logger = structlog.get_logger()

FORGOTTEN_MAX = 256
"""Lines about forgotten shares before the journal is written anew; it never is while they are fewer than the others."""


class Deed(Struct, OfShare, frozen=True, omit_defaults=True):
    """One line of the journal."""

    at: Instant
    deed: str
    workload: WorkloadId
    epoch: int
    grace: int = 0
    command: PrepareTasks | None = None
    task: int = WHOLE
    run: int = 0
    share: Share | None = None
    """Of the deed `keep`: the whole share as it was then."""


class EmulatedOnDisk:
    """The emulated shares of one worker."""

    def __init__(
        self, name: str, clock: Clock, path: Path, done: Done, holdings: Path, lender: Lender
    ) -> None:
        """Raises SpoolDamaged, and OSError when the journal cannot be read. `holdings`: the file in the device book, which `lender` has."""
        self._path = path
        self._holdings_path = holdings
        self._clock = clock
        self._spool = EmulatedSpool(name, clock)
        self._deeds: dict[ShareKey, list[tuple[int, Deed]]] = {}
        """By share, each with its number in the order in which they were done."""
        self._done_so_far = 0
        self._lines = self._remembered = 0
        self._find()
        self._spool.lend_by(lender)
        self._note_holdings()
        self._spool.on_serving = self._note_holdings
        self._spool.on_isolation = self._isolated
        self._spool.attach(done)

    def begin(self, effect: Effect) -> None:
        """Do it, and write it down if it changed anything. Raises OSError."""
        now = self._clock.now()
        self._spool.catch_up(now)  # What was due before it comes before it, also when it is all done again.
        if isinstance(effect, KeepHeard):
            self._spool.do(effect, now)  # A new process counts from its own start.
            return
        deed = _deed_of(effect, now)
        before = self._phase(deed)
        mates = self._mates(deed)
        self._spool.do(effect, now)
        if self._phase(deed) != before:
            self._write(deed, *self._kept(mates, now))

    def catch_up(self, now: Instant) -> Instant | None:
        """Let tasks save and end whose time has come; when the next is due."""
        return self._spool.catch_up(now)

    def knows(self, key: ShareKey) -> bool:
        """Return whether a share is here."""
        return key in self._spool.shares

    def states(self) -> tuple[TasksState, ...]:
        """All shares, as they are now."""
        self._spool.catch_up(self._clock.now())
        return tuple(share.state for share in self._spool.shares.values())

    def close(self) -> None:
        """Let go of the timer."""
        self._spool.close()

    def _phase(self, deed: Deed) -> str:
        share = self._spool.shares.get(deed.key)
        return share.state.phase if share is not None else ""

    def _isolated(self, key: ShareKey, grace: Nanoseconds, at: Instant) -> None:
        """It stops by itself, which is no function of its start alone; whether or not that can be kept."""
        try:
            self._write(Deed(at, "isolate", *key[:2], grace, task=key.task, run=key.run))
        except OSError as error:
            logger.error("isolation_not_kept", workload=key.workload, epoch=key.epoch, error=str(error))

    def _note_holdings(self) -> None:
        """Write down what tasks hold for functions; no file says that none ever did."""
        holdings = holdings_of(self._spool.shares.values())
        if not holdings and not self._holdings_path.exists():
            return
        try:
            self._holdings_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(self._holdings_path, msgspec.json.encode(holdings))
        except OSError as error:
            logger.error("holdings_not_noted", error=str(error))

    def _mates(self, deed: Deed) -> list[ShareKey]:
        """The shares that are to be kept as they are when the deed is done: of a share that is forgotten, those that it may have slowed."""
        return self._spool.component(deed.key) if deed.deed == "forget" else []

    def _kept(self, mates: list[ShareKey], at: Instant) -> list[Deed]:
        return [
            Deed(at, "keep", *key[:2], task=key.task, run=key.run, share=replace(self._spool.shares[key]))
            for key in mates
        ]

    def _write(self, *deeds: Deed) -> None:
        """Write these in one piece. Raises OSError."""
        for deed in deeds:
            self._remember(deed)
        with self._path.open("ab") as journal:
            journal.write(b"".join(msgspec.json.encode(deed) + b"\n" for deed in deeds))
        if self._lines > 2 * self._remembered + FORGOTTEN_MAX:
            self._write_anew()

    def _remember(self, deed: Deed) -> None:
        self._lines += 1
        if deed.deed in ("forget", "keep"):
            self._remembered -= len(self._deeds.pop(deed.key, ()))
        if deed.deed != "forget":
            self._done_so_far += 1
            self._deeds.setdefault(deed.key, []).append((self._done_so_far, deed))
            self._remembered += 1

    def _find(self) -> None:
        """Do all of it again, each at its time. A last line without an end was cut off before anybody heard of it."""
        if not self._path.exists():
            return
        *lines, _ = self._path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, 1):
            try:
                deed = msgspec.json.decode(line, type=Deed)
                effect = _effect_of(deed)
            except (msgspec.MsgspecError, ValueError) as error:
                raise SpoolDamaged(self._path, f"line {number}: {error}") from error
            self._spool.catch_up(deed.at)
            mates = self._mates(deed)
            if effect is not None:
                self._spool.do(effect, deed.at)
            elif deed.share is not None:
                self._spool.put(replace(deed.share))
            elif deed.key in self._spool.shares:
                self._spool.isolate(deed.key, Nanoseconds(deed.grace), deed.at)
            for each in (deed, *self._kept(mates, deed.at)):
                self._remember(each)
        self._write_anew()

    def _write_anew(self) -> None:
        """Without what is forgotten; whole or not at all."""
        deeds = sorted((one for deeds in self._deeds.values() for one in deeds), key=lambda one: one[0])
        _replace(self._path, b"".join(msgspec.json.encode(deed) + b"\n" for _, deed in deeds))
        self._lines = len(deeds)


class EmulatedLender:
    """The device book, as emulated tasks that lend use it (runtime/emulated/lending.py `Lender`): their devices have no numbers."""

    def __init__(self, clearing: Clearing) -> None:
        self._clearing = clearing

    def lent_by(self, key: ShareKey) -> tuple[LentPart, ...]:
        """Return what a share lends by the book."""
        return parts_lent(self._clearing.had_by(key))

    def lend(self, command: PrepareTasks, lent: Mapping[int, Amount]) -> bool:
        """See `Lender`."""
        try:
            self._clearing.lend(command.key, _nodes(command, lent))
        except OSError as error:
            logger.error("book_not_written", **command.key._asdict(), error=str(error))
            return False
        return True

    def take_back(
        self, command: PrepareTasks, lent: Mapping[int, Amount], back: Mapping[int, Amount]
    ) -> bool:
        """See `Lender`."""
        wanted = tuple(TaskNode(node, amount) for node, amount in back.items())
        try:
            return self._clearing.take_back(command.key, _nodes(command, lent), wanted)
        except OSError as error:  # On a full disk it is asked for again.
            logger.error("book_not_written", **command.key._asdict(), error=str(error))
            return False

    def keep_lending(self, key: ShareKey) -> None:
        """See `Lender`."""
        with suppress(OSError):  # The file is taken out when the share ends.
            self._clearing.keep_lending(key)

    def is_used(self, nodes: Iterable[int]) -> bool:
        """See `Lender`."""
        wanted = list(nodes)
        return any(one.place.node in wanted for one in self._clearing.side.executors())


def holdings_of(shares: Iterable[Share]) -> tuple[Holding, ...]:
    """Return what live shares hold for functions, by job and node. GPUs and cores of emulated nodes have no numbers."""
    return tuple(
        Holding(
            f"{share_name(share.command.key)}.{job.name}.{node}",
            share.command.tenant,
            job.serves,
            share.state.phase == TasksPhase.STOPPING,
            (),
            (),
            job.need.times(count),
            Place(node),
        )
        for share in shares
        if share.is_live
        for job, spread in zip(share.command.jobs, share.command.spreads, strict=True)
        if job.serves
        for node, count in zip(spread.nodes, spread.tasks, strict=True)
    )


def _nodes(command: PrepareTasks, lent: Mapping[int, Amount]) -> tuple[TaskNode, ...]:
    """Return what a share has of each node, and lends of that."""
    return tuple(replace(one, lent=lent.get(one.node, NOTHING)) for one in nodes_of(command))


def _replace(path: Path, data: bytes) -> None:
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(data)
    unfinished.replace(path)


def _deed_of(effect: Effect, at: Instant) -> Deed:
    match effect:
        case PrepareShare(command):
            key = command.key
            return Deed(at, "prepare", *key[:2], command=command, task=key.task, run=key.run)
        case StartShare(key):
            return Deed(at, "start", *key[:2], task=key.task, run=key.run)
        case StopShare(key, _, grace):
            return Deed(at, "stop", *key[:2], grace, task=key.task, run=key.run)
        case ForgetShare(key):
            return Deed(at, "forget", *key[:2], task=key.task, run=key.run)
    raise AssertionError(effect)


def _effect_of(deed: Deed) -> Effect | None:
    """None: it stopped by itself, or was kept as it was. Raises ValueError."""
    match deed.deed:
        case "prepare" if deed.command is not None:
            return PrepareShare(deed.command)
        case "start":
            return StartShare(deed.key, 0)
        case "stop":
            return StopShare(deed.key, 0, deed.grace)
        case "forget":
            return ForgetShare(deed.key, 0)
        case "isolate":
            return None
        case "keep" if deed.share is not None:
            return None
    raise ValueError(f"{deed.deed!r} is no deed")
