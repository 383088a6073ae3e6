"""The messages that wait at one host, in the order in which they are decided.

Two levels: lanes, one for each sender and order key, in a heap for each target; and messages within a lane, first in, first out. A lane has
the lowest rank and the shortest target of its messages, so a later urgent one lends both to those before it. The policy ranks (core/dispatch/policies/), the mailbox
only sorts, and ties fall by arrival:

1. lanes with a message of the class `system`
2. at every fourth decision, the lane of the message that has longest waited its class's `max_wait`
3. the lane last taken from, until the quantum is over
4. the lane of the lowest rank; but once the first lane of a target is late, only shorter targets come before it

Bound: while messages have waited their `max_wait`, one of each four that are decided, `system` aside, is the one that is longest over it,
or one before that in its lane. More would let a backlog pass everything urgent that comes after it.

A mailbox in which one message waits keeps no lanes at all. A full one loses the newest message of the least urgent class, of the sender
that has most of the class.

source    Cameo (NSDI'21): the two-level queue of the Cameo scheduler
"""

from collections.abc import Mapping
from typing import Protocol

from bus.port import Bus
from core.codec import Parcel
from core.dispatch.context import is_believed
from core.dispatch.costs import COST_MAX, Costs
from core.dispatch.policies import POLICIES
from core.dispatch.policy import Policy
from core.dispatch.traits import NOTICE, TRAITS, Traits, possible_classes
from core.messages.base import Message, Notice
from core.messages.dispatch import ClassWaits, DispatchShown, DispatchTold, ShowDispatch
from core.nouns.dispatch import LEAST_URGENT_FIRST, DispatchSettings, Target, UrgencyClass
from core.nouns.instant import SECOND, Instant
from core.nouns.limits import INBOX_MAX, SYSTEM_RATE_MAX
from runtime.dispatch.lanes import Lane, LaneHeaps, LaneKey, Mail, OfClass

OVERDUE_EVERY = 4
"""One of so many decisions is of what has waited its `max_wait`."""
_FIRST, _RANKED = range(2)
"""The first number of an `Order`: `system` comes first."""
_SYSTEM = UrgencyClass.SYSTEM
_NEVER = Instant(1 << 63)


class Watch(Protocol):
    """Who is told of all that a mailbox does: tests, and the checks of simulated planes."""

    def put(self, mail: Mail, now: Instant) -> None:
        """A message has arrived."""

    def taken(self, mail: Mail, now: Instant) -> None:
        """It is decided now."""

    def lost(self, mail: Mail) -> None:
        """It did not fit, or is refused."""


class Mailbox:
    """All that waits at one host."""

    def __init__(
        self, costs: Costs, settings: DispatchSettings | None = None, *, room: int = INBOX_MAX
    ) -> None:
        """`room` is the number of messages that may wait."""
        self.revision = 0
        """Of the settings; 0: the default ones."""
        self.term = 0
        """Of the queue that told them."""
        self.settings = settings or DispatchSettings()
        self._targets = self.settings.all_targets()
        self._shortest = _shortest(self._targets)
        self.watch: Watch | None = None
        self._costs = costs
        self._room = room
        self._policy: Policy = POLICIES[self.settings.policy](self.settings)
        self._possible = possible_classes()
        self._count = 0
        self._only: Mail | None = None
        """The message that waits, if it is one alone."""
        self._lanes: dict[LaneKey, Lane] = {}
        self._heaps = LaneHeaps()
        self._classes: dict[str, OfClass] = {sort: OfClass() for sort in UrgencyClass}
        self._ticks = 0
        self._look_at = _NEVER
        """Before it nothing has waited its `max_wait`."""
        self._since_overdue = 0
        """Decisions since the last one of what had waited its `max_wait`, while something had."""
        self._claimed: Lane | None = None
        self._claimed_at = Instant(0)
        self._system_full_at = 0
        """When all of a second's `system` messages are allowed again."""

    def __len__(self) -> int:
        return self._count

    @property
    def starves(self) -> bool:
        """Whether its policy could let a message wait for ever, so that `max_wait` counts."""
        return self._policy.has_classes

    def put(self, parcel: Parcel, reply_to: str, now: Instant) -> bool:
        """A message arrives. False: another one, or this one, was lost, because the mailbox is full."""
        mail = self._mail(parcel, reply_to, now)
        if self.watch is not None:
            self.watch.put(mail, now)
        self._count += 1
        if self._count == 1:
            self._only = mail
            return True
        if self._only is not None:
            self._enter(self._only)
            self._only = None
        self._enter(mail)
        return self._count <= self._room or self._lose()

    def take(self, now: Instant, cost_max: int = COST_MAX) -> Mail | None:
        """Return the message that is decided next; None if none waits, or if the decision on that one costs more than `cost_max`."""
        mail = self._only
        if mail is not None:
            kind = type(mail.parcel.message)
            if cost_max < COST_MAX and self._costs.own(kind, mail.size, mail.sort) > cost_max:
                return None
            self._only = None
            self._claimed = None
            self._count = 0
        elif self._count:
            lane, passed_by, overdue = self._next_lane(now)
            if lane.first is not None and lane.first.cost > cost_max:
                return None
            if overdue is not None:
                self._since_overdue = 0 if overdue.lane is lane else self._since_overdue + 1
            if lane is not self._claimed:
                self._claimed, self._claimed_at = lane, now
                if passed_by is not None:
                    self._classes[passed_by].handed_over += 1
            mail = lane.pop()
            self._count -= 1
            self._left(mail)
            self._place(lane)
            self._policy.taken(mail)
        else:
            return None
        mail.is_gone = True
        of_class = self._classes[mail.sort]
        of_class.taken += 1
        of_class.waits.append(now - mail.heard)
        of_class.late += now > mail.deadline
        if self.watch is not None:
            self.watch.taken(mail, now)
        return mail

    def may_be_preceded(self, now: Instant) -> bool:
        """Return whether a message with a shorter target than that of the next one may arrive, `system` aside: whether it helps anybody to
        read the bus. A policy with classes but without deadlines may prefer any message; one without classes prefers none for its urgency.
        """
        if not self._policy.has_deadlines:
            return self._policy.has_classes
        if self._only is not None:
            return self._only.sort != _SYSTEM and self._only.within > self._shortest
        if not self._count:
            return False
        lane, _, _ = self._next_lane(now)
        return lane.group > self._shortest

    def use(self, settings: DispatchSettings, revision: int) -> None:
        """Go by other settings from now on: what waits is ranked anew, and waits as long as they say. A policy that this build does not
        know changes nothing.
        """
        if settings.policy not in POLICIES:
            return
        self.settings, self.revision = settings, revision
        self._targets = settings.all_targets()
        self._shortest = _shortest(self._targets)
        self._policy = POLICIES[settings.policy](settings)
        mails = sorted(
            (mail for lane in self._lanes.values() for mail in lane.mails()),
            key=lambda mail: mail.tick,
        )
        self._lanes.clear()
        self._heaps.clear()
        self._claimed = None
        self._look_at = _NEVER
        for mail in mails:
            self._aim(mail)
            self._rank(mail)
        if self._only is not None:
            self._aim(self._only)

    def refuse(self) -> list[Mail]:
        """Take out all messages but the host's own notices, by arrival."""
        waiting = [self._only] if self._only is not None else []
        waiting += [mail for lane in self._lanes.values() for mail in lane.mails()]
        refused = [mail for mail in waiting if mail.traits is not NOTICE]
        for mail in refused:
            self._count -= 1
            mail.is_gone = True
            if self._only is mail:
                self._only = None
            else:
                self._left(mail)
                mail.lane.lose(mail)
                self._place(mail.lane)
            if self.watch is not None:
                self.watch.lost(mail)
        return sorted(refused, key=lambda mail: mail.tick)

    def told(self) -> tuple[ClassWaits, ...]:
        """Return what is told of each class."""
        only = self._only
        return tuple(
            of_class.told(sort, of_class.count + (only is not None and only.sort == sort))
            for sort, of_class in self._classes.items()
        )

    # A message arrives.

    def _mail(self, parcel: Parcel, reply_to: str, now: Instant) -> Mail:
        message = parcel.message
        mail = Mail()
        mail.parcel, mail.reply_to, mail.heard = parcel, reply_to, now
        mail.sender, mail.tenant = parcel.sender, parcel.tenant
        mail.is_gone = mail.is_moved = False
        self._ticks += 1
        mail.tick = self._ticks
        traits = TRAITS.get(type(message))
        if traits is None:
            assert isinstance(message, Notice), message
            traits = NOTICE
        mail.traits = traits
        sort, left = self._urgency(parcel, traits, now)
        mail.sort = sort
        mail.deadline = now + left + traits.look_of(message)
        self._aim(mail)
        mail.size = traits.size_of(message)
        return mail

    def _aim(self, mail: Mail) -> None:
        target = self._targets[mail.sort]
        mail.within = target.within
        mail.expires = mail.heard + target.max_wait

    def _urgency(self, parcel: Parcel, traits: Traits, now: Instant) -> tuple[str, int]:
        """Return the class of a message and what is left for its chain."""
        message, urgency = parcel.message, parcel.urgency
        sort: str
        if urgency is None:
            sort = traits.class_of(message)
        elif parcel.tenant or not is_believed(urgency, self._possible[type(message)], self._targets):
            sort = traits.class_of(message)
            self._classes[sort].disbelieved += 1
        elif traits.sort is not _SYSTEM and urgency.sort != _SYSTEM:
            return urgency.sort, urgency.left
        else:
            sort = _SYSTEM
        if traits is NOTICE:
            return sort, self._targets[sort].within
        if parcel.tenant and not self._policy.is_within_rate(parcel.tenant, now):
            sort = UrgencyClass.BULK
        elif sort == _SYSTEM and (parcel.tenant or not self._is_system_allowed(now)):
            sort = UrgencyClass.INTERACTIVE
        within = self._targets[sort].within
        if traits.within_max is not None and within > traits.within_max:
            within = traits.within_max
        return sort, within

    def _is_system_allowed(self, now: Instant) -> bool:
        """Count a message of the class `system`, and return whether it is within their rate."""
        full_at = max(self._system_full_at, now) + SECOND // SYSTEM_RATE_MAX
        if full_at > now + SECOND:
            return False
        self._system_full_at = full_at
        return True

    def _enter(self, mail: Mail) -> None:
        """Among others."""
        if mail.traits is not NOTICE:
            self._classes[mail.sort].enter(mail)
        self._rank(mail)

    def _rank(self, mail: Mail) -> None:
        traits, message = mail.traits, mail.parcel.message
        kind: type[Message] = type(message)
        mail.cost = self._costs.own(kind, mail.size, mail.sort)
        mail.way = self._costs.way(kind)
        mail.rank = rank = self._policy.rank(mail)
        mail.order = (_RANKED, *rank, mail.tick)
        mail.group = 1
        if self._policy.has_classes:
            if mail.sort == _SYSTEM:
                mail.order = (_FIRST, mail.tick, 0, mail.tick)
                mail.group = 0
            else:
                if self._policy.has_deadlines:
                    mail.group = mail.within
                if mail.expires < self._look_at:
                    self._look_at = Instant(mail.expires)
        key = (mail.sender, traits.key_of(message))
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key)
        lane.append(mail)
        mail.lane = lane
        self._place(lane)

    # A message is taken.

    def _next_lane(self, now: Instant) -> tuple[Lane, str | None, Mail | None]:
        """Return the lane to take from; the class of the message that has to give way to that although it was its turn, or None; and the
        message that has longest waited its `max_wait`, or None.
        """
        order, lane = self._heaps.first(now)
        overdue = self._overdue(now) if order[0] and now >= self._look_at else None
        if overdue is not None and (overdue.lane is lane or self._since_overdue + 1 >= OVERDUE_EVERY):
            if overdue.lane is not lane and not overdue.is_moved:
                overdue.is_moved = True
                self._classes[overdue.sort].moved += 1
            return overdue.lane, None, overdue
        claimed = self._claimed
        if claimed is None or claimed is lane or claimed.first is None or not self._policy.has_classes:
            return lane, None, overdue
        if order[0] and now - self._claimed_at < self.settings.quantum:
            return claimed, None, overdue
        return lane, claimed.first.sort, overdue

    def _overdue(self, now: Instant) -> Mail | None:
        """Return the message that has longest waited its `max_wait`, if one has."""
        first: Mail | None = None
        for of_class in self._classes.values():
            if of_class.count:
                mail = of_class.by_arrival[0]
                if first is None or (mail.expires, mail.tick) < (first.expires, first.tick):
                    first = mail
        if first is None or first.expires > now:
            self._look_at = _NEVER if first is None else Instant(first.expires)
            return None
        return first

    def _left(self, mail: Mail) -> None:
        mail.is_gone = True
        if mail.traits is not NOTICE:
            self._classes[mail.sort].leave(mail)

    def _place(self, lane: Lane) -> None:
        """Put a lane where its most urgent message belongs."""
        if lane.first is None:
            lane.entry = None
            del self._lanes[lane.key]
            if not self._lanes:
                self._heaps.clear()
            return
        self._heaps.put(lane, len(self._lanes))

    def _lose(self) -> bool:
        """Lose the newest message of the least urgent class, of the sender that has most there."""
        for sort in LEAST_URGENT_FIRST:
            of_class = self._classes[sort]
            if of_class.count:
                mail = of_class.newest_of_most()
                self._count -= 1
                of_class.lost += 1
                self._left(mail)
                mail.lane.lose(mail)
                self._place(mail.lane)
                if self.watch is not None:
                    self.watch.lost(mail)
                return False
        return True  # Only notices wait, of which none is lost.


def _shortest(targets: Mapping[str, Target]) -> int:
    """Return the shortest target of all classes but `system`, in nanoseconds."""
    return min(target.within for sort, target in targets.items() if sort != _SYSTEM)


def hear_of_dispatch(mailbox: Mailbox, bus: Bus, parcel: Parcel, reply_to: str) -> None:
    """Go by what the queue tells of dispatch, or tell an operator what waits: heard beside the mailbox, which may be full."""
    message = parcel.message
    if isinstance(message, DispatchTold):
        if (message.term, message.revision) > (mailbox.term, mailbox.revision):
            mailbox.term = message.term
            mailbox.use(message.settings, message.revision)
    elif isinstance(message, ShowDispatch):
        bus.say(DispatchShown(bus.name, mailbox.settings, mailbox.revision, mailbox.told()), reply_to)
