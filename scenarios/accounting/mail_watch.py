"""Watches mailboxes: that lanes keep their order, and that nothing waits longer than the mailbox's bound.

It keeps lists of its own, and knows nothing of how a mailbox sorts.
"""

from collections import deque

from core.nouns.dispatch import UrgencyClass
from core.nouns.instant import SECOND, Instant
from runtime.dispatch.lanes import LaneKey, Mail
from runtime.dispatch.mailbox import Mailbox

PASSED_MAX = 4
"""Decisions in a row that something may wait for that has waited its longest: one more would be a mailbox that lets it starve."""
PROBLEMS_MAX = 5
"""Told of one mailbox; one that is broken would have as many as it has messages."""


class MailWatch:
    """Of one mailbox (runtime/dispatch/mailbox.py, `Watch`)."""

    def __init__(self, name: str, mailbox: Mailbox) -> None:
        self.problems: list[str] = []
        self._name = name
        self._passed = 0
        """Decisions since something had waited too long, or since the one that was longest over was decided."""
        self._mailbox = mailbox
        self._lanes: dict[LaneKey, deque[Mail]] = {}
        self._waiting: dict[str, dict[int, Mail]] = {sort: {} for sort in UrgencyClass}
        """By class and tick, so in the order of arrival."""
        mailbox.watch = self

    def put(self, mail: Mail, now: Instant) -> None:
        """A message has arrived."""
        self._lanes.setdefault(_key_of(mail), deque()).append(mail)
        self._waiting[mail.sort][mail.tick] = mail

    def lost(self, mail: Mail) -> None:
        """It did not fit, or is refused."""
        self._lanes[_key_of(mail)].remove(mail)
        self._forget(mail)

    def taken(self, mail: Mail, now: Instant) -> None:
        """It is decided now."""
        lane = self._lanes[_key_of(mail)]
        if lane[0] is mail:
            lane.popleft()
        else:
            self._tell(f"{_text(mail)} overtook {_text(lane[0])} in one lane")
            lane.remove(mail)
        self._look_for_starved(mail, lane, now)
        self._forget(mail)

    def _look_for_starved(self, mail: Mail, lane: deque[Mail], now: Instant) -> None:
        """Of four decisions, `system` aside, one is of what is longest over its `max_wait`, or of what is before that in its lane."""
        if not self._mailbox.starves:
            self._passed = 0
            return
        if mail.sort == UrgencyClass.SYSTEM:
            return
        over = [
            first
            for sort, waiting in self._waiting.items()
            if sort != UrgencyClass.SYSTEM and (first := next(iter(waiting.values()), None)) is not None
        ]
        longest = min(over, key=lambda one: (one.expires, one.tick), default=None)
        if longest is None or longest is mail or longest.expires > now or longest in lane:
            self._passed = 0
            return
        if any(one.sort == UrgencyClass.SYSTEM for one in lane):
            return
        self._passed += 1
        if self._passed < PASSED_MAX:
            return
        waited = (now - longest.heard) / SECOND
        self._tell(f"{_text(mail)} was taken before {_text(longest)}, which had waited {waited:.1f} s")

    def _forget(self, mail: Mail) -> None:
        del self._waiting[mail.sort][mail.tick]
        key = _key_of(mail)
        if not self._lanes[key]:
            del self._lanes[key]

    def _tell(self, problem: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(f"mailbox of {self._name}: {problem}")


def _key_of(mail: Mail) -> LaneKey:
    return mail.parcel.sender, mail.traits.key_of(mail.parcel.message)


def _text(mail: Mail) -> str:
    return f"{type(mail.parcel.message).__name__} ({mail.sort}, number {mail.tick})"
