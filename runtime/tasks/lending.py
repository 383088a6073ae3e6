"""Devices that programs lend while these are idle: `mizzen.idle_gpus` in a task, as the worker hears it.

In the directory `files` of a task:

    idle   what the task has said last, written by the task: how many of its devices are idle, memory that it keeps, the number of this
           word, and whether the task waits until it has what it wants back
    heard  the newest word that the worker has obeyed, written by the worker: from then on no more is lent than that word says

A task that says another number a hundred times a second changes nothing as often: a share lends more only when `LEND_INTERVAL` has passed
since it last did, and what it does not lend it has back at once.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from core.messages.workers import TasksPhase
from core.nouns.harvest import LEND_INTERVAL, lent_of
from core.nouns.ids import AttemptKey, ShareKey
from core.nouns.instant import Instant, after, earliest
from core.nouns.quantities import MILLI, NOTHING, Amount
from runtime.tasks import running
from runtime.tasks.book import TaskNode
from runtime.tasks.environment import Place
from runtime.tasks.share import ProgramShare
from runtime.tasks.task import Task
from runtime.tasks.tasks_first import Clearing, parts_lent

logger = structlog.get_logger()

IDLE, HEARD = "idle", "heard"
"""Files of a task (mizzen/sdk/mizzen/lending.py has them too)."""
DIGITS_MAX = 18


class Word(Struct, frozen=True):
    """What a task has said of its idle devices."""

    idle: int = 0
    keeps_bytes: int = 0
    number: int = 0
    waits: bool = False


class Lender(Struct):
    """A share of which some task has said that devices are idle."""

    share: ProgramShare
    nodes: tuple[TaskNode, ...]
    """What it has by the book, and lends of that."""
    words: dict[str, Word] = field(default_factory=dict)
    """The newest of each task, by its directory's name."""
    answered: dict[str, int] = field(default_factory=dict)
    wants_back: bool = False
    grows_at: Instant = Instant(0)
    """When it may lend more."""
    heard: int = 0
    """Words of its tasks, those included that were never read because newer ones came."""
    changes: int = 0
    """Of what it lends."""


class ProgramLending:
    """What the programs of one worker lend."""

    def __init__(self, clearing: Clearing) -> None:
        self._clearing = clearing
        self._lenders: dict[ShareKey, Lender] = {}

    @property
    def is_used(self) -> bool:
        """Return whether any task of a share that ran at the last look has said something."""
        return bool(self._lenders)

    def read(self, share: ProgramShare, tasks: Iterable[Task]) -> None:
        """Read what these tasks of a share have said; nothing, if none has ever said anything."""
        for task in tasks:
            word = word_of(task.files) if task.phase == running.STARTED else None
            if word is None:
                continue
            lender = self._lenders.get(share.key)
            if lender is None:
                lender = Lender(share, self._clearing.had_by(share.key))
                lender.wants_back = self._clearing.wants_back(share.key)
                self._lenders[share.key] = lender
            before = lender.words.get(task.directory.name, Word())
            lender.heard += max(0, word.number - before.number)
            lender.words[task.directory.name] = word

    def look(self, now: Instant, guests_of: Iterable[AttemptKey]) -> Instant | None:
        """Lend, and want back, as tasks say; when to look again.

        guests_of   attempts that share their devices with others, and so lend nothing
        """
        shared, due = set(guests_of), None
        for key, lender in list(self._lenders.items()):
            if lender.share.phase == TasksPhase.RUNNING:
                due = earliest(due, self._look(lender, now, is_shared=key.attempt in shared))
            else:
                self._end(key, lender)
        return due

    def _look(self, lender: Lender, now: Instant, *, is_shared: bool) -> Instant | None:
        target = _target(lender, is_shared=is_shared)
        less = tuple(_meet(had, target[had.node]) for had in lender.nodes)
        key = lender.share.key
        try:
            if less != lender.nodes:
                lender.wants_back = True
                if not self._clearing.take_back(key, less, _beyond(lender.nodes, less)):
                    return None
                lender.changes += 1
                lender.nodes = less
            elif lender.wants_back:
                self._clearing.keep_lending(key)
            lender.wants_back = False
            _answer(lender)
            more = tuple(target[one.node] for one in lender.nodes)
            if more == lender.nodes:
                return None
            if now < lender.grows_at:
                return lender.grows_at
            self._clearing.lend(key, more)
            lender.nodes, lender.grows_at = more, after(now, LEND_INTERVAL)
            lender.changes += 1
        except OSError as error:  # Said again: a task that wants something back waits.
            logger.error("book_not_written", **key._asdict(), error=str(error))
            return after(now, LEND_INTERVAL)
        finally:
            lender.share.lends = parts_lent(lender.nodes)
        return None

    def _end(self, key: ShareKey, lender: Lender) -> None:
        """A share stops: what it lends is its own again when nothing of it runs any more."""
        del self._lenders[key]
        if lender.share.phase == TasksPhase.ENDED:
            lender.share.lends = ()
        logger.info("share_lent", **key._asdict(), words=lender.heard, changes=lender.changes)


def word_of(files: Path) -> Word | None:
    """Return what a task has said; None if nothing, or nothing that can be read."""
    try:
        words = (files / IDLE).read_text().split()
    except (OSError, UnicodeDecodeError):
        return None
    if len(words) != 4 or not all(word.isascii() and word.isdigit() for word in words):  # the four of a word
        return None
    idle, keeps, number, waits = (int(word[:DIGITS_MAX]) for word in words)
    return Word(idle, keeps, number, bool(waits))


def slots_lent(place: Place, idle: int) -> tuple[int, ...]:
    """Return the slots that a task with so many idle devices lends: the highest of those that it holds whole."""
    whole = sorted(slot for slot, milli in place.slots if milli == MILLI)
    return tuple(whole[len(whole) - min(idle, len(whole)) :])


def _target(lender: Lender, *, is_shared: bool) -> Mapping[int, TaskNode]:
    """Return what a share is to have and lend of each node, as its tasks say."""
    slots: dict[int, list[int]] = {}
    lent: dict[int, Amount] = {}
    command = lender.share.commanded.command
    for task in lender.share.tasks:
        word, place = lender.words.get(task.directory.name, Word()), task.place
        mine = slots_lent(place, word.idle)
        if mine and not is_shared and command.beside is None:
            amount = lent_of(command.jobs[place.job].need, len(mine), word.keeps_bytes)
            slots.setdefault(place.node, []).extend(mine)
            lent[place.node] = lent.get(place.node, NOTHING).plus(amount)
    return {
        one.node: replace(
            one, lent=lent.get(one.node, NOTHING), lent_slots=tuple(sorted(slots.get(one.node, ())))
        )
        for one in lender.nodes
    }


def _meet(had: TaskNode, wanted: TaskNode) -> TaskNode:
    """Return a node of which no more is lent than by either."""
    slots = tuple(slot for slot in had.lent_slots if slot in wanted.lent_slots)
    return replace(had, lent=had.lent.smallest(wanted.lent), lent_slots=slots)


def _beyond(nodes: Iterable[TaskNode], less: Iterable[TaskNode]) -> tuple[TaskNode, ...]:
    """Return what is lent of nodes, and is no more, as a share that wants it."""
    return tuple(
        TaskNode(
            before.node,
            before.lent.minus(then.lent),
            tuple((slot, MILLI) for slot in before.lent_slots if slot not in then.lent_slots),
        )
        for before, then in zip(nodes, less, strict=True)
        if before != then
    )


def _answer(lender: Lender) -> None:
    """Tell tasks that wait that no more is lent than they have said. Raises OSError."""
    for task in lender.share.tasks:
        name = task.directory.name
        word = lender.words.get(name)
        if word is not None and word.waits and lender.answered.get(name) != word.number:
            unfinished = task.files / f".{HEARD}.new"
            unfinished.write_text(f"{word.number}\n")
            unfinished.replace(task.files / HEARD)
            lender.answered[name] = word.number
