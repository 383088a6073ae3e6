"""Messages that wait, in lanes and by class: what a mailbox sorts (runtime/dispatch/mailbox.py)."""

from collections import Counter, deque
from heapq import heapify, heappop, heappush

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


_NONE: deque[Mail] = deque()
"""Nothing is ever put into it: most lanes have one message, and a deque takes half a KiB."""
Entry = tuple[Order, "Lane"]
"""Of a lane in a heap. It counts if it is the lane's own."""


class Lane:
    """The messages of one sender with one order key, in the order in which they came."""

    __slots__ = ("_least", "_shortest", "entry", "first", "gone", "group", "key", "rest")

    def __init__(self, key: LaneKey) -> None:
        self.key = key
        self.first: Mail | None = None
        """Never one that is gone. None: the lane is empty."""
        self.rest: deque[Mail] = _NONE
        """What is behind it."""
        self._least: deque[Mail] = _NONE
        """Each message of the lane that is more urgent than all behind it; the first is the most urgent one."""
        self._shortest: deque[Mail] = _NONE
        """The same by group: the group of the first is that of the lane."""
        self.gone = 0
        """Of `rest`, those that were lost."""
        self.entry: Entry | None = None
        """In the heap of its group."""
        self.group = 0
        """In which it stands."""

    def append(self, mail: Mail) -> None:
        """Put a message behind the others."""
        if self.first is None:
            self.first = mail
            return
        if self.rest is _NONE:
            self.rest = deque()
        if not self.rest:
            self._least, self._shortest = deque((self.first,)), deque((self.first,))
        self.rest.append(mail)
        least, shortest = self._least, self._shortest
        order, group = mail.order, mail.group
        while least and least[-1].order > order:
            least.pop()
        least.append(mail)
        while shortest and shortest[-1].group > group:
            shortest.pop()
        shortest.append(mail)

    def pop(self) -> Mail:
        """Take the first message."""
        mail = self.first
        assert mail is not None
        self._advance(mail)
        if self.gone:
            self._drop_gone_heads()
        return mail

    def place(self) -> tuple[Order, int]:
        """Return the lowest order and the lowest group of its messages."""
        if self.rest:
            return self._least[0].order, self._shortest[0].group
        assert self.first is not None
        return self.first.order, self.first.group

    def lose(self, mail: Mail) -> None:
        """One of its messages is gone, and lends nothing to those before it any more."""
        if self._is_last_and_lends_nothing(mail):
            for ranked in (self.rest, self._least, self._shortest):
                ranked.pop()
            return
        self.gone += 1
        self._drop_gone_heads()
        is_ranked = mail in self._least or mail in self._shortest
        if is_ranked or 2 * self.gone > len(self.rest) + SPARE_OF_ONE:
            mails = self.mails()
            self.first, self.rest, self.gone = None, _NONE, 0
            for one in mails:
                self.append(one)

    def _is_last_and_lends_nothing(self, mail: Mail) -> bool:
        """Of a flood in one lane that is so of every message that is lost, and costs no look at the others."""
        if not self.rest or self.rest[-1] is not mail or min(len(self._least), len(self._shortest)) < 2:
            return False
        before = self.rest[-2] if len(self.rest) > 1 else self.first
        return self._least[-2] is before and self._shortest[-2] is before

    def mails(self) -> list[Mail]:
        """Return the messages in their order."""
        return [mail for mail in (self.first, *self.rest) if mail is not None and not mail.is_gone]

    def _drop_gone_heads(self) -> None:
        while self.first is not None and self.first.is_gone:
            self._advance(self.first)
            self.gone -= 1

    def _advance(self, first: Mail) -> None:
        """The first message leaves the lane."""
        if not self.rest:
            self.first = None
            return
        self.first = self.rest.popleft()
        for ranked in (self._least, self._shortest):
            if ranked[0] is first:
                ranked.popleft()


class LaneHeaps:
    """All lanes by the shortest target of their messages, and those of one target by their most urgent message."""

    __slots__ = ("_by_group", "_heaps")

    def __init__(self) -> None:
        self._heaps: list[tuple[int, list[Entry]]] = []
        """The shortest target first."""
        self._by_group: dict[int, list[Entry]] = {}
        """The same heaps."""

    def __len__(self) -> int:
        return sum(len(heap) for _, heap in self._heaps)

    def put(self, lane: Lane, lanes: int) -> None:
        """Put a lane where it belongs, unless it is there.

        lanes   how many there are: there are at most as many entries more that do not count
        """
        order, group = lane.place()
        if lane.entry is not None and lane.entry[0] is order and lane.group == group:
            return
        entry = lane.entry = (order, lane)
        lane.group = group
        heap = self._by_group.get(group)
        if heap is None:
            heap = self._by_group[group] = []
            self._heaps = sorted(self._by_group.items())
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
        self._by_group.clear()


class OfClass:
    """The messages of one class by arrival, and what is told of the class."""

    def __init__(self) -> None:
        self.count = 0
        self.by_arrival: deque[Mail] = deque()
        """Its first is not gone; others may be."""
        self.taken = self.late = self.handed_over = self.moved = self.lost = self.disbelieved = 0
        self.waits: deque[int] = deque(maxlen=_WAITS_KEPT)
        self._by_sender: dict[str, list[Mail]] | None = None
        """The newest last; some may be gone. None: nothing was lost since the class was last empty, so that nobody has counted."""
        self._counts: Counter[str] = Counter()
        """The same without those that are gone."""

    def enter(self, mail: Mail) -> None:
        """A message begins to wait among others."""
        self.count += 1
        self.by_arrival.append(mail)
        if self._by_sender is not None:
            self._count(self._by_sender, mail)

    def leave(self, mail: Mail) -> None:
        """A message is gone."""
        self.count -= 1
        by_arrival = self.by_arrival
        while by_arrival and by_arrival[0].is_gone:
            by_arrival.popleft()
        if len(by_arrival) > 2 * self.count + SPARE:
            self.by_arrival = deque(one for one in by_arrival if not one.is_gone)
        if self._by_sender is None:
            return
        sender = mail.sender
        if not self.count:
            self._by_sender = None
            self._counts.clear()
        elif self._counts[sender] == 1:
            del self._by_sender[sender], self._counts[sender]
        else:
            self._counts[sender] -= 1
            if len(self._by_sender[sender]) > 2 * self._counts[sender] + SPARE_OF_ONE:
                self._by_sender[sender] = [one for one in self._by_sender[sender] if not one.is_gone]

    def newest_of_most(self) -> Mail:
        """Return the newest message of the sender that has most; of several such senders, of one of them.

        It looks at every sender: where 1,000 have messages, one that does not fit costs 30 us more than one that does.
        """
        if self._by_sender is None:
            self._by_sender = {}
            for mail in self.by_arrival:
                if not mail.is_gone:
                    self._count(self._by_sender, mail)
        mails = self._by_sender[max(reversed(self._counts), key=self._counts.__getitem__)]
        while mails[-1].is_gone:
            mails.pop()
        return mails[-1]

    def _count(self, by_sender: dict[str, list[Mail]], mail: Mail) -> None:
        by_sender.setdefault(mail.sender, []).append(mail)
        self._counts[mail.sender] += 1

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
