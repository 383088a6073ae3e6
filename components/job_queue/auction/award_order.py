"""Whom an award would pass: while something is short, room goes to whoever is first in the order and wants no more.

Offers are made to many at once, and answers come in any order. So a region may have offered its room to somebody while one ahead of it
is not asked for there yet: it is asked for elsewhere, waits for another of its shape, or has not been answered. Then the offer is held
until that one was asked for. If it is refused there because all is offered, whoever is behind it gives its offer back, and it is asked
for once more (docs/decisions/0035-awards-by-rank.md).
"""

from collections.abc import Sequence
from enum import IntEnum

from msgspec import Struct

from components.job_queue.moves import regions_for
from components.job_queue.ordering import Asked, asked_for, lending_now, may_be_lent
from components.job_queue.quota.fair_share import where_asked
from components.job_queue.state.auctions import LACKS_ROOM, kinds_of, overlap
from components.job_queue.state.queue_state import QueueState
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.placement import gpu_milli_of
from core.nouns.reasons import Reason
from core.ranking.scan import Group, PendingWork, QuotaClass, Ranked

SHORT = (*LACKS_ROOM, Reason.OPEN_BIDS)
"""Why a region refuses what it could hold at another time."""


class Passed(IntEnum):
    """Who would be passed by an award; of several the last."""

    NOBODY = 0
    UNANSWERED = 1
    """Somebody who may yet be offered room there, once what it waits for is answered."""
    UNASKED = 2
    """Somebody who may be asked for there at once."""
    REFUSED = 3
    """Somebody who was refused there only because all that there was is offered to others."""


class _Waits(Struct):
    """One that waits ahead of some, and where room could be given to it."""

    one: Ranked
    gpu_milli: int
    kinds: frozenset[str]
    regions: dict[RegionName, Passed]
    offers: frozenset[RegionName]
    """Of regions that have offered it room: it need not be given any there."""


class AwardOrder:
    """For auctions that are closed together, the first in the order first."""

    def __init__(self, state: QueueState, closing: Sequence[WorkloadId], now: Instant) -> None:
        self._state, self._closing, self._now = state, closing, now
        self._awarded: dict[WorkloadId, None] = {}
        self._given_back: dict[WorkloadId, None] = {}
        self._waiting: list[_Waits] | None = None

    def award(self, workload: WorkloadId) -> None:
        """It waits no longer."""
        self._awarded[workload] = None

    def give_back(self, workload: WorkloadId) -> None:
        """What it was offered it has no more."""
        self._given_back[workload] = None

    def passed(self, workload: WorkloadId, region: RegionName) -> Passed:
        """Of those ahead of it that want no more, on the same hardware. What wants no GPU takes none from anybody."""
        jobs = self._state.image.workloads.rows[workload].spec.jobs
        gpu_milli = gpu_milli_of(jobs)
        if not gpu_milli:
            return Passed.NOBODY
        place, kinds = self._state.order.one(workload).place, kinds_of(jobs)
        if self._waiting is None:
            self._waiting = self._look()
        found = Passed.NOBODY
        for other in self._waiting:
            name = other.one.work.workload
            if (
                other.one.place < place
                and other.gpu_milli <= gpu_milli
                and region in other.regions
                and name not in self._awarded
                and (region not in other.offers or name in self._given_back)
                and overlap(kinds, other.kinds)
            ):
                found = max(found, other.regions[region])
        return found

    def _look(self) -> list[_Waits]:
        """All that are asked for, and of each band and shape that is short the first that is not."""
        state, auctions = self._state, self._state.auctions
        lending = lending_now(state)
        last = state.order.one(self._closing[-1])
        asked: dict[Group, Asked] = {}
        left: dict[Group, dict[RegionName, Passed]] = {}
        timed_out = self._timed_out()
        open_shapes = {auction.shape for auction in auctions.open.values()}
        done: set[Group] = set()
        found: list[_Waits] = []

        def is_of_matter(group: Group, example: PendingWork) -> bool:
            level, quota_class = group[0]
            if group[0] > last.group[0] or quota_class is QuotaClass.BLOCKED or not example.uses_gpus:
                return False
            if quota_class is QuotaClass.BORROWING and not any(
                lending.could_cover(need) for need in example.needs
            ):
                return False
            asked[group] = asked_for(state, example, -level, quota_class)
            left[group] = self._left(asked[group].shape)
            return bool(left[group]) or asked[group].shape in open_shapes

        def keep(one: Ranked) -> bool:
            group, auction = one.group, auctions.open.get(one.work.workload)
            if auction is None and not left[group]:
                done.add(group)
                return False
            if one.quota_class is QuotaClass.BORROWING and not may_be_lent(state, one.work, lending):
                return False
            row = state.image.workloads.rows[one.work.workload]
            regions = regions_for(state, row, asked[group].level, self._now) if left[group] else ()
            may_ask = where_asked(state, one, tuple(name for name in regions if name in left[group]))
            where = {name: left[group][name] for name in may_ask}
            if auction is None:
                shape = asked[group].shape
                now = where if shape not in auctions.asking else timed_out.get(shape, {})
                where |= {name: max(where[name], Passed.UNASKED) for name in where if name in now}
            if auction is not None:
                where |= dict.fromkeys(
                    (name for name in auction.asked if name not in auction.abstained), Passed.UNANSWERED
                )
            if where:
                offers = frozenset(auction.bids if auction is not None else ())
                jobs = row.spec.jobs
                found.append(_Waits(one, gpu_milli_of(jobs), kinds_of(jobs), where, offers))
            if auction is None and where:
                done.add(group)
            return False

        state.order.first(1, is_of_matter, keep, done)
        return found

    def _timed_out(self) -> dict[str, dict[RegionName, None]]:
        """By shape of which nobody is asked for any more when those are closed whose time is over: the regions that offer one of them room.
        The others of the shape could not be asked for there because another region was silent.
        """
        auctions = self._state.auctions
        asking, offer = dict(auctions.asking), dict[str, dict[RegionName, None]]()
        for auction in (auctions.open[workload] for workload in self._closing):
            if not auction.is_held and auction.until <= self._now:
                asking[auction.shape] -= 1
                offer.setdefault(auction.shape, {}).update(dict.fromkeys(auction.bids))
        return {shape: regions for shape, regions in offer.items() if not asking[shape]}

    def _left(self, shape: str) -> dict[RegionName, Passed]:
        """Of the regions that have offered something to those that are closed, which do not lack room for this shape; none if it is short
        nowhere.
        """
        auctions = self._state.auctions
        refusals, smaller = auctions.refusals.get(shape, {}), auctions.dominance.of_smaller(shape)
        if shape not in auctions.tight and not any(said.reason in SHORT for said in refusals.values()):
            return {}
        found: dict[RegionName, Passed] = {}
        for region in dict.fromkeys(name for one in self._closing for name in auctions.open[one].bids):
            if region not in refusals and region not in smaller:
                found[region] = Passed.UNANSWERED
            elif region in refusals and refusals[region].reason == Reason.OPEN_BIDS:
                found[region] = Passed.REFUSED
        return found
