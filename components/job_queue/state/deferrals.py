"""Workloads that gave their offers back because others are ahead: when they did, and whether they may do so again.

Nobody is put off for long, and nobody is passed because somebody was put off before: offers are given back for three seconds and then taken;
after a pause of two it counts anew, for twelve seconds at the most; and what was five seconds ago is forgotten
(docs/decisions/0035-awards-by-rank.md).
"""

from collections import OrderedDict

from msgspec import Struct

from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after
from core.nouns.limits import AUCTION_SPAN

PUT_OFF_SPAN = Nanoseconds(3 * AUCTION_SPAN)
"""For so long offers are given back; then they are taken. Chosen so that in a burst of 120 workloads into a planet that fills up within a
second nobody was passed, on two cores with other work on them."""
PUT_OFF_PAUSE = Nanoseconds(2 * AUCTION_SPAN)
"""Who gave none back for so long may be put off for as long anew. Chosen longer than an auction, so that who is asked for again at once has
no pause; of forty bursts beside busy loops none passed anybody with it, and it was not tried with others."""
PUT_OFF_REMEMBERED = Nanoseconds(PUT_OFF_SPAN + PUT_OFF_PAUSE)
"""After this pause nothing is known of it. Chosen longer than to give way, to be asked for again and to give back once more."""
PUT_OFF_MAX = Nanoseconds(4 * PUT_OFF_SPAN)
"""No offer is given back so long after the first, with whatever shorter pauses between them. Chosen: a region or two may come up in that
time."""


class _PutOff(Struct, frozen=True):
    """When one workload gave offers back."""

    first: Instant
    """Without `PUT_OFF_REMEMBERED` between any two times since then."""
    since: Instant
    """Without `PUT_OFF_PAUSE` between them."""
    last: Instant

    @property
    def until(self) -> Instant:
        """How long they are given back without a pause."""
        return min(after(self.since, PUT_OFF_SPAN), after(self.first, PUT_OFF_MAX))

    def is_over(self, now: Instant) -> bool:
        """Whether it is too long ago to matter."""
        return now >= after(self.last, PUT_OFF_REMEMBERED)

    def may_be_again(self, now: Instant) -> bool:
        """Whether offers may be given back now."""
        is_anew = after(self.last, PUT_OFF_PAUSE) <= now < after(self.first, PUT_OFF_MAX)
        return is_anew or now < self.until or self.is_over(now)

    def again(self, now: Instant) -> "_PutOff":
        """Offers were given back once more."""
        return _PutOff(self.first, now if now >= after(self.last, PUT_OFF_PAUSE) else self.since, now)


class PutOffs:
    """Of all workloads that were put off lately."""

    def __init__(self) -> None:
        self._known: OrderedDict[WorkloadId, _PutOff] = OrderedDict()
        """Who was put off longest ago first."""

    def add(self, workload: WorkloadId, at: Instant) -> None:
        """It gave its offers back."""
        while self._known and next(iter(self._known.values())).is_over(at):
            self._known.popitem(last=False)
        before = self._known.pop(workload, None)
        self._known[workload] = before.again(at) if before is not None else _PutOff(at, at, at)

    def drop(self, workload: WorkloadId) -> None:
        """It was awarded something."""
        self._known.pop(workload, None)

    def may_give_back(self, workload: WorkloadId, now: Instant) -> bool:
        """Whether it may give its offers back for whoever is ahead of it: for a while, and then not before a pause."""
        return workload not in self._known or self._known[workload].may_be_again(now)

    def gives_way(self, workload: WorkloadId, now: Instant) -> bool:
        """Whether it gave its offers back, and those for whom it did may still be asked for."""
        return workload in self._known and now < self._known[workload].until
