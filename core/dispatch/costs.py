"""What decisions cost, learnt by each host, and the costliest way from each message to the end of its chain.

A host measures its own decisions, and tells with what it says anyway, for each type that it hears, what a message of the type costs from
there on. Whoever hears that keeps the newest of each sender.

source    Cameo (NSDI'21): the profile of an operator, and the reply context that carries it upstream
"""

from collections import deque
from collections.abc import Iterable
from functools import cache

from core.dispatch.traits import TRAITS, traits_of
from core.messages.base import Message, Notice
from core.nouns.dispatch import DEFAULT_COSTS
from core.nouns.instant import Nanoseconds, seconds

SAMPLES = 100
"""Newest decisions of a type and size of which the 75th percentile is taken."""
SORTED_EVERY = 10
"""Decisions after which it is taken anew: a cost that has changed is known after 75 decisions at most."""
TOLD_EVERY = 10
"""Of so many messages of one type one tells costs, on average: chosen by their number, so that of several hearers each is told."""
TOLD_INTERVAL: Nanoseconds = seconds(1)
"""After which the next message of a type tells costs, however few there were."""
LASTS: Nanoseconds = seconds(60)
"""For so long the word of a sender counts; one that lives tells its costs again every second in which it says anything."""
SENDERS_MAX = 64
"""Senders of which the costs of one type are kept; the one that was heard longest ago makes room."""
_SPREAD, _WHOLE = 2_654_435_769, 1 << 32
"""Multiples of the golden ratio of 2^32 are spread evenly, with no period that could be that of the hearers (Knuth, volume 3, 6.4)."""
COST_MAX: Nanoseconds = seconds(60)
"""A cost beyond is taken for so much."""


@cache
def tag_of(kind: type[Message]) -> str:
    """Return the tag of a type of message."""
    return str(kind.__struct_config__.tag)


CostsTold = dict[str, int]
"""By the tag of a type, nanoseconds from the decision on a message of the type to the end of its chain."""


class Costs:
    """The costs that one host knows."""

    def __init__(self, hears: Iterable[type[Message]] = ()) -> None:
        self._samples: dict[tuple[type[Message], int], deque[int]] = {}
        self._counts: dict[tuple[type[Message], int], int] = {}
        self._own: dict[tuple[type[Message], int], int] = {}
        self._heard: dict[str, dict[str, tuple[int, int]]] = {}
        """By tag and sender, a cost, and when it was told."""
        self._ways: dict[type[Message], int] = {}
        self._kinds = {kind: tag_of(kind) for kind in hears if not issubclass(kind, Notice)}
        self._measured: set[type[Message]] = set()
        self._told_at: dict[type[Message], tuple[int, int]] = {}
        """By the type of a message that was said: how many were, and when costs were told with one."""

    def measured(self, kind: type[Message], size: int, cost: int) -> None:
        """Record that a decision took so long; one that took no time says nothing."""
        if cost <= 0:
            return
        key = (kind, size.bit_length())
        samples = self._samples.get(key)
        if samples is None:
            samples = self._samples[key] = deque(maxlen=SAMPLES)
            self._counts[key] = 0
            self._measured.add(kind)
        samples.append(cost)
        count = self._counts[key] = self._counts[key] + 1
        if count <= SORTED_EVERY or count % SORTED_EVERY == 0:
            ranked = sorted(samples)
            self._own[key] = min(COST_MAX, ranked[3 * len(ranked) // 4])

    def own(self, kind: type[Message], size: int, sort: str) -> int:
        """Return what a decision on a message of this type and size costs here; never 0."""
        return self._own.get((kind, size.bit_length())) or DEFAULT_COSTS[sort]

    def way(self, kind: type[Message]) -> int:
        """Return the cost of the costliest way onward from a decision on this type."""
        way = self._ways.get(kind)
        if way is None:
            way = self._ways[kind] = max(map(self._from, traits_of(kind).leads_to), default=0)
        return way

    def _from(self, kind: type[Message]) -> int:
        heard = self._heard.get(tag_of(kind))
        if heard:
            return max(cost for cost, _ in heard.values())
        sort = traits_of(kind).sort
        # Of a type whose class depends on the message, the cost of starting a few tasks stands for all.
        return DEFAULT_COSTS[sort if isinstance(sort, str) else "placement"]

    def hear(self, sender: str, told: CostsTold, now: int) -> None:
        """Keep what another host told of its costs, and forget words that are old."""
        for tag, cost in told.items():
            if tag not in TAGS:
                continue
            heard = self._heard.setdefault(tag, {})
            heard.pop(sender, None)
            while heard:
                oldest = next(iter(heard))
                if len(heard) < SENDERS_MAX and heard[oldest][1] + LASTS > now:
                    break
                del heard[oldest]
            heard[sender] = max(1, min(cost, COST_MAX)), now
        self._ways.clear()

    def to_tell(self, kind: type[Message], now: int) -> CostsTold:
        """Return the costs to tell with a message of this type; empty: it is too early, or nothing was measured."""
        if not self._measured:
            return NO_COSTS
        said, at = self._told_at.get(kind, (0, -TOLD_INTERVAL))
        is_chosen = said * _SPREAD % _WHOLE * TOLD_EVERY < _WHOLE
        if not is_chosen and now < at + TOLD_INTERVAL:
            self._told_at[kind] = (said + 1, at)
            return NO_COSTS
        self._told_at[kind] = (said + 1, now)
        found: dict[str, int] = {}
        for (one, _), cost in self._own.items():
            tag = self._kinds.get(one)
            if tag is not None:
                found[tag] = max(found.get(tag, 0), cost + self.way(one))
        return found


NO_COSTS: CostsTold = {}
TAGS = frozenset(map(tag_of, TRAITS))
"""Of types of which there may be costs."""
