"""Messages that make their component fail: after two failures in a row, with a restart in between, their like is put aside.

A unit that fails is started again from its log, which mends a state that went wrong. If the same thing makes the unit fail again,
the message is at fault: from then on such messages are dead letters, the component lives, and the workload that the message belongs
to is held. Failures are kept in a file, because they must outlive the process. Messages are put aside for `ASIDE_SPAN` from the newest
failure; then one is tried, and its failure puts its like aside again. A failure is forgotten after `SUSPICION_SPAN`, with another
build, or with the file.

A worker's beat tells of many workloads, and is all by which the worker is known to be there. A suspected beat is therefore handed to
the component in parts: first the worker without its shares, then with each beat one workload more, until one fails. That workload's
share is a report that failed twice, and is left out of the beats that follow.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from core.component import NOTHING, Decision
from core.messages.base import Message
from core.messages.queue import HoldUnhandled
from core.messages.units import AsideMessage
from core.messages.workers import WorkerBeat
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import ASIDE_SPAN, FAILURES_MAX, REASON_LENGTH_MAX, SUSPECTS_MAX, SUSPICION_SPAN
from core.rules.beat_parts import part_of, reports_in
from core.rules.message_subject import may_be_at_fault, subject_of_failure, workload_of

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


class Handed(Struct, frozen=True):
    """What the component hears of a message while some messages are suspected."""

    message: Message | None
    """The message, or a part of it; None: nothing."""
    to_blame: Message
    """The message that is at fault if the component fails now: the whole, or the part that is handed for the first time."""
    aside: tuple[tuple[Message, Suspect], ...] = ()
    """The message, or those parts of it, that are put aside."""
    tried: frozenset[WorkloadId] | None = None
    """Of a suspected beat: the workloads of which the component hears; None: the beat is not tried in parts."""
    is_whole: bool = True
    """Whether all is handed that is not put aside."""


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
        self._tried: dict[str, frozenset[WorkloadId]] = {}
        """By the subject of a suspected beat, the workloads that did not make this life fail."""
        if path is not None:
            self._read(path)

    @property
    def is_empty(self) -> bool:
        """Whether no message is suspected, which spares a look at each."""
        return not self._known

    def blame(self, message: Message, error: Exception, handed: Handed | None = None) -> None:
        """Remember, durably, that the component failed on this message, or on the part of it that was handed.

        A failure of the whole message counts as one of the part.
        """
        self._tried.clear()
        if not may_be_at_fault(message):
            return
        self._forget_old()
        key = _key(handed.to_blame if handed is not None else message)
        text = f"{type(error).__name__}: {error}"[:REASON_LENGTH_MAX]
        known = [self._known[one].failures for one in (key, _key(message)) if one in self._known]
        failures = min(FAILURES_MAX, 1 + max(known, default=0))
        self._known.pop(key, None)
        while len(self._known) >= SUSPECTS_MAX:
            del self._known[next(iter(self._known))]
        self._known[key] = Suspect(*key, text, failures, self._now())
        self._write()

    def hand(self, message: Message) -> Handed:
        """Return what the component is to hear of a message."""
        suspect = self.put_aside(message)
        if suspect is not None:
            return Handed(None, message, ((message, suspect),))
        return self._hand_beat(message) if isinstance(message, WorkerBeat) else Handed(message, message)

    def _hand_beat(self, beat: WorkerBeat) -> Handed:
        """Return a beat without the workloads that are put aside; of a suspected beat, one workload more than before."""
        left = reports_in(beat)
        suspects = {workload: self.put_aside(report) for workload, report in left.items()}
        aside = tuple((left.pop(workload), suspect) for workload, suspect in suspects.items() if suspect)
        subject = subject_of_failure(beat)
        if not any(_key(one) in self._known for one in (beat, *left.values())):
            self._tried.pop(subject, None)
            return Handed(part_of(beat, left), beat, aside)
        tried = self._tried.get(subject)
        if tried is None:
            return Handed(part_of(beat, ()), beat, aside, frozenset(), is_whole=not left)
        said = [workload for workload in left if workload in tried]
        new = [workload for workload in left if workload not in tried][:1]
        to_blame = left[new[0]] if new else beat
        now = frozenset((*said, *new))
        return Handed(part_of(beat, now), to_blame, aside, now, is_whole=len(now) == len(left))

    def handled(self, message: Message, handed: Handed, decision: Decision) -> None:
        """Record that the component handled what it was handed of a message, unless it ignored that.

        A message to an earlier life, or older than another, is ignored, and proves nothing. A beat that counts is always noted.
        """
        if not decision.events and (isinstance(message, WorkerBeat) or decision == NOTHING):
            return
        if handed.tried is not None:
            self._tried[subject_of_failure(message)] = handed.tried
        if handed.is_whole:
            self.clear(message)

    def put_aside(self, message: Message) -> Suspect | None:
        """Return the suspect that forbids a message; None if the message may be handled."""
        suspect = self._known.get(_key(message)) if may_be_at_fault(message) else None
        if suspect is None or not self._is_aside(suspect):
            return None
        suspect.count += 1
        return suspect

    def clear(self, message: Message) -> None:
        """A message was handled: its like is suspected no more."""
        if may_be_at_fault(message) and self._known.pop(_key(message), None) is not None:
            self._write()

    def told(self) -> tuple[AsideMessage, ...]:
        """Return the sorts of messages that are put aside, and forget old failures."""
        if self._forget_old():
            self._write()
        return tuple(
            AsideMessage(one.message, one.subject, one.error, one.count)
            for one in self._known.values()
            if self._is_aside(one)
        )

    def _is_aside(self, suspect: Suspect) -> bool:
        return suspect.failures >= FAILURES_MAX and self._is_younger(suspect, ASIDE_SPAN)

    def _is_younger(self, suspect: Suspect, span: Nanoseconds) -> bool:
        """Return whether the newest failure is less than this span away: a clock that was set back makes no failure last."""
        return abs(self._now() - suspect.at) < span

    def _forget_old(self) -> bool:
        """Forget failures of long ago, and return whether there were any."""
        old = [key for key, one in self._known.items() if not self._is_younger(one, SUSPICION_SPAN)]
        for key in old:
            del self._known[key]
        return bool(old)

    def _read(self, path: Path) -> None:
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
        except (OSError, msgspec.MsgspecError):
            return
        if kept.build == self._build:
            self._known = {(one.message, one.subject): one for one in kept.suspects}
            if self._forget_old():
                self._write()

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
