"""Messages that wait, in lanes and by class: what a mailbox sorts (runtime/dispatch/mailbox.py)."""

from collections import deque
from heapq import heapify, heappop, heappush
from operator import itemgetter

from core.codec import Parcel
from core.dispatch.policy import Waiting
from core.dispatch.traits import Traits
from core.messages.dispatch import ClassWaits
from core.nouns.instant import Instant, Nanoseconds

Order = tuple[int, int, int, int]
"""What lanes are sorted by: 0 for `system`, 1 for all others; then the policy's two numbers, and the order of arrival."""
LaneKey = tuple[str, str]
"""A sender and an order key."""

SPARE = 64
"""Entries beyond twice those that count, after which a structure is cleared of those that do not."""
SPARE_OF_ONE = 4
"""The same of one lane or sender, of which there may be as many as messages."""
_WAITS_KEPT = 1_000
"""Of the newest messages of each class, from which percentiles are told."""


class Mail(Waiting):
    """A message that waits."""

    __slots__ = (
        "expires",
        "group",
        "is_gone",
        "is_moved",
        "lane",
        "order",
        "parcel",
        "reply_to",
        "size",
        "sort",
        "traits",
    )

    parcel: Parcel
    reply_to: str
    """The address of its answer."""
    traits: Traits
    sort: str
    """Its class."""
    size: int
    expires: int
    """When it has waited its class's `max_wait`."""
    order: Order
    group: int
    """The heap of lanes in which it counts: by target, in nanoseconds; 0 for `system`; 1 for all others by a policy without deadlines."""
    lane: "Lane"

    @property
    def chain_deadline(self) -> int:
        """When the chain should be over, as what follows from the message says it: without the time until somebody looks at it."""
        return min(self.deadline, self.heard + self.within)

    is_gone: bool
    """Whether it was taken or lost, though it is still in some structure."""
    is_moved: bool
    """Whether it is next because it has waited its class's `max_wait`."""


Entry = tuple[Order, "Lane"]
"""Of a lane in a heap. It counts if it is the lane's own."""


class Lane:
    """The messages of one sender with one order key, in the order in which they came."""

    __slots__ = ("entry", "gone", "group", "key", "least", "mails", "shortest")

    def __init__(self, key: LaneKey) -> None:
        self.key = key
        self.mails: deque[Mail] = deque()
        """Its first is never gone."""
        self.least: deque[Mail] = deque()
        """Each of `mails` that is more urgent than all behind it; the first is the most urgent of the lane."""
        self.shortest: deque[Mail] = deque()
        """The same by group: the group of the first is that of the lane."""
        self.gone = 0
        """Of `mails`, those that were lost."""
        self.entry: Entry | None = None
        """In the heap of its group."""
        self.group = 0
        """In which it stands."""

    def append(self, mail: Mail) -> None:
        """Put a message behind the others."""
        self.mails.append(mail)
        least, order = self.least, mail.order
        while least and least[-1].order > order:
            least.pop()
        least.append(mail)
        shortest, group = self.shortest, mail.group
        while shortest and shortest[-1].group > group:
            shortest.pop()
        shortest.append(mail)

    def pop(self) -> Mail:
        """Take the first message."""
        mail = self.mails.popleft()
        if self.least[0] is mail:
            self.least.popleft()
        if self.shortest[0] is mail:
            self.shortest.popleft()
        if self.gone:
            self._drop_gone_heads()
        return mail

    def lose(self) -> None:
        """One of its messages is gone."""
        self.gone += 1
        self._drop_gone_heads()
        if 2 * self.gone > len(self.mails) + SPARE_OF_ONE:
            mails = [mail for mail in self.mails if not mail.is_gone]
            self.mails.clear()
            self.least.clear()
            self.shortest.clear()
            self.gone = 0
            for mail in mails:
                self.append(mail)

    def _drop_gone_heads(self) -> None:
        mails = self.mails
        while mails and mails[0].is_gone:
            mail = mails.popleft()
            self.gone -= 1
            for ranked in (self.least, self.shortest):
                if ranked and ranked[0] is mail:
                    ranked.popleft()


class LaneHeaps:
    """All lanes by the shortest target of their messages, and those of one target by their most urgent message."""

    __slots__ = ("_heaps",)

    def __init__(self) -> None:
        self._heaps: list[tuple[int, list[Entry]]] = []
        """The shortest target first."""

    def __len__(self) -> int:
        return sum(len(heap) for _, heap in self._heaps)

    def put(self, lane: Lane, lanes: int) -> None:
        """Put a lane where it belongs, unless it is there.

        lanes   how many there are: there are at most as many entries more that do not count
        """
        group, order = lane.shortest[0].group, lane.least[0].order
        if lane.entry is not None and lane.entry[0] is order and lane.group == group:
            return
        entry = lane.entry = (order, lane)
        lane.group = group
        heap = next((heap for one, heap in self._heaps if one == group), None)
        if heap is None:
            heap = []
            self._heaps.append((group, heap))
            self._heaps.sort(key=itemgetter(0))
        heappush(heap, entry)
        if len(heap) > 2 * lanes + SPARE:
            heap[:] = [entry for entry in heap if entry[1].entry is entry]
            heapify(heap)

    def first(self, now: Instant) -> Entry:
        """Return the lane that comes first, with its place: the one of the lowest order, but once that is late none of a longer target."""
        first: Entry | None = None
        for group, heap in self._heaps:
            while heap and heap[0][1].entry is not heap[0]:
                heappop(heap)
            if heap:
                order = heap[0][0]
                if not group or order[1] < now:
                    return first or heap[0]
                if first is None or heap[0] < first:
                    first = heap[0]
        assert first is not None, "messages wait"
        return first

    def clear(self) -> None:
        """Forget all lanes."""
        self._heaps.clear()


class _OfSender:
    """The messages of one class by one sender."""

    __slots__ = ("count", "mails")

    def __init__(self) -> None:
        self.count = 0
        self.mails: list[Mail] = []
        """The newest last; some may be gone."""


class OfClass:
    """The messages of one class, by arrival and by sender, and what is told of the class."""

    def __init__(self) -> None:
        self.count = 0
        self.by_arrival: deque[Mail] = deque()
        """Its first is not gone; others may be."""
        self.taken = self.late = self.handed_over = self.moved = self.lost = self.disbelieved = 0
        self.waits: deque[int] = deque(maxlen=_WAITS_KEPT)
        self._senders: dict[str, _OfSender] = {}
        self._by_count: dict[int, dict[str, None]] = {}
        """Senders by the number of their messages."""
        self._most = 0

    def enter(self, mail: Mail) -> None:
        """A message begins to wait among others."""
        self.count += 1
        self.by_arrival.append(mail)
        of_sender = self._senders.get(mail.sender)
        if of_sender is None:
            of_sender = self._senders[mail.sender] = _OfSender()
        of_sender.mails.append(mail)
        self._recount(mail.sender, of_sender, 1)

    def leave(self, mail: Mail) -> None:
        """A message is gone."""
        self.count -= 1
        by_arrival = self.by_arrival
        while by_arrival and by_arrival[0].is_gone:
            by_arrival.popleft()
        if len(by_arrival) > 2 * self.count + SPARE:
            self.by_arrival = deque(one for one in by_arrival if not one.is_gone)
        of_sender = self._senders[mail.sender]
        self._recount(mail.sender, of_sender, -1)
        if not of_sender.count:
            del self._senders[mail.sender]
        elif len(of_sender.mails) > 2 * of_sender.count + SPARE_OF_ONE:
            of_sender.mails = [one for one in of_sender.mails if not one.is_gone]

    def newest_of_most(self) -> Mail:
        """Return the newest message of the sender that has most; of several, of the one that came to so many last."""
        mails = self._senders[next(reversed(self._by_count[self._most]))].mails
        while mails[-1].is_gone:
            mails.pop()
        return mails[-1]

    def _recount(self, sender: str, of_sender: _OfSender, by: int) -> None:
        was = of_sender.count
        count = of_sender.count = was + by
        by_count = self._by_count
        if was:
            del by_count[was][sender]
            if not by_count[was]:
                del by_count[was]
        if count:
            by_count.setdefault(count, {})[sender] = None
        if count > self._most or (was == self._most and was not in by_count):
            self._most = count

    def told(self, sort: str, waiting: int) -> ClassWaits:
        """Return what is told of the class."""
        waits = sorted(self.waits)
        return ClassWaits(
            sort,
            waiting,
            self.taken,
            _percentile(waits, 50),
            _percentile(waits, 99),
            self.late,
            self.handed_over,
            self.moved,
            self.lost,
            self.disbelieved,
        )


def _percentile(ranked: list[int], percent: int) -> Nanoseconds:
    return Nanoseconds(ranked[(len(ranked) - 1) * percent // 100] if ranked else 0)
