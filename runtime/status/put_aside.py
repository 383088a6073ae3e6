"""Messages that make their component fail: after two failures in a row, with a restart in between, their like is put aside.

A unit that fails is started again from its log, which mends a state that went wrong. If the same thing makes the unit fail again,
the message is at fault: from then on such messages are dead letters, the component lives, and the workload that the message belongs
to is held. Failures are kept in a file, because they must outlive the process. A put-aside entry ends after `ASIDE_SPAN`, with
another build, or with its file; then one message is tried, and a failure of that one puts its like aside again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from core.messages.base import Message, Notice
from core.messages.queue import HoldUnhandled
from core.messages.units import AsideMessage
from core.nouns.instant import Instant, after
from core.nouns.limits import ASIDE_SPAN, FAILURES_MAX, REASON_LENGTH_MAX, SUSPECTS_MAX
from core.rules.message_subject import subject_of_failure, workload_of

logger = structlog.get_logger()


class Suspect(Struct):
    """A sort of message, about one thing, on which the component has failed."""

    message: str
    subject: str
    error: str
    failures: int
    at: int
    """Wall time of the newest failure, in nanoseconds."""
    count: int = 0
    """Messages put aside since the unit's start."""


class _Kept(Struct):
    """What the file holds."""

    build: str
    suspects: list[Suspect]


class Suspects:
    """The suspects of one unit, over all of its lives."""

    def __init__(self, path: Path | None, build: str, now: Callable[[], Instant]) -> None:
        """`path` is the file that keeps them; None: they live as long as this object. `now` is the wall clock."""
        self._path = path
        self._build = build
        self._now = now
        self._known: dict[tuple[str, str], Suspect] = {}
        if path is not None:
            self._read(path)

    @property
    def is_empty(self) -> bool:
        """Whether no message is suspected, which spares a look at each."""
        return not self._known

    def blame(self, message: Message, error: Exception) -> None:
        """Remember, durably, that the component failed on this message."""
        if isinstance(message, Notice):
            return  # A notice is the host's own, and comes again whatever is done with it.
        key = _key(message)
        text = f"{type(error).__name__}: {error}"[:REASON_LENGTH_MAX]
        known = self._known.pop(key, None)
        failures = min(FAILURES_MAX, 1 + (known.failures if known is not None else 0))
        while len(self._known) >= SUSPECTS_MAX:
            del self._known[next(iter(self._known))]
        self._known[key] = Suspect(*key, text, failures, self._now())
        self._write()

    def put_aside(self, message: Message) -> Suspect | None:
        """Return the suspect that forbids a message; None if the message may be handled."""
        suspect = None if isinstance(message, Notice) else self._known.get(_key(message))
        if suspect is None or suspect.failures < FAILURES_MAX:
            return None
        if after(Instant(suspect.at), ASIDE_SPAN) <= self._now():
            suspect.failures = FAILURES_MAX - 1  # One is tried.
            return None
        suspect.count += 1
        return suspect

    def clear(self, message: Message) -> None:
        """A message was handled: its like is suspected no more."""
        if not isinstance(message, Notice) and self._known.pop(_key(message), None) is not None:
            self._write()

    def told(self) -> tuple[AsideMessage, ...]:
        """Return the sorts of messages that are put aside."""
        return tuple(
            AsideMessage(one.message, one.subject, one.error, one.count)
            for one in self._known.values()
            if one.failures >= FAILURES_MAX
        )

    def _read(self, path: Path) -> None:
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        except (OSError, msgspec.MsgspecError):
            return
        if kept.build == self._build:
            self._known = {(one.message, one.subject): one for one in kept.suspects}

    def _write(self) -> None:
        """A disk that takes nothing costs one more failure, and no life."""
        if self._path is None:
            return
        unfinished = self._path.with_suffix(".tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(msgspec.json.encode(_Kept(self._build, list(self._known.values()))))
            unfinished.replace(self._path)
        except OSError as error:
            logger.error("suspects_not_kept", path=str(self._path), problem=str(error))


def hold_of(message: Message, incident: str, unit: str, suspect: Suspect) -> HoldUnhandled | None:
    """Return the request to hold the workload that a put-aside message belongs to; None if it belongs to none.

    incident   the message's id
    """
    if isinstance(message, HoldUnhandled):
        return None  # The queue itself fails on these, and would be asked for ever.
    workload = workload_of(message)
    if workload is None:
        return None
    return HoldUnhandled(workload, unit, suspect.message, suspect.error, incident)


def _key(message: Message) -> tuple[str, str]:
    tag: Any = type(message).__struct_config__.tag  # Any: as msgspec has it
    return str(tag), subject_of_failure(message)
