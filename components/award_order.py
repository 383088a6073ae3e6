"""Whom an award would pass: while something is refused, room goes to whoever is first in the order and wants no more.

Offers are made to many at once, and answers come in any order. So a region may have offered its room to somebody while one ahead of it
was asked for elsewhere, waited for another of its shape, or found there nothing that was not offered. That one is asked for first, and
whoever is behind it gives its offer back (docs/decisions/0035-awards-by-rank.md).
"""

from collections.abc import Iterator

from msgspec import Struct

from components.auctions import kinds_of, overlap
from components.fair_shares import where_asked
from components.moves import regions_for
from components.queue_order import Asked, asked_for, lending_now, may_be_lent
from components.queue_state import QueueState
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import Instant
from core.nouns.placement import gpu_milli_of
from core.nouns.reasons import Reason
from core.ranking.scan import Group, PendingWork, Ranked, Standing


class _Waits(Struct):
    """One that waits, and has no offer where it may yet be given room."""

    one: Ranked
    gpu_milli: int
    kinds: frozenset[str]
    regions: tuple[RegionName, ...]


class AwardOrder:
    """For auctions that are closed together."""

    def __init__(self, state: QueueState, now: Instant) -> None:
        self._state, self._now = state, now
        self._awarded: dict[WorkloadId, None] = {}
        self._waiting: list[_Waits] | None = None

    def take(self, workload: WorkloadId) -> None:
        """It is awarded, and waits no longer."""
        self._awarded[workload] = None

    def would_pass(self, workload: WorkloadId, region: RegionName) -> bool:
        """Whether somebody ahead of it wants no more, waits, and may yet be given room by this region.

        What wants no GPU takes none from anybody.
        """
        jobs = self._state.image.workloads.rows[workload].spec.jobs
        gpu_milli = gpu_milli_of(jobs)
        if not gpu_milli:
            return False
        place, kinds = self._state.order.one(workload).place, kinds_of(jobs)
        if self._waiting is None:
            self._waiting = list(self._look())
        return any(
            other.one.place < place
            and other.gpu_milli <= gpu_milli
            and region in other.regions
            and other.one.work.workload not in self._awarded
            and overlap(kinds, other.kinds)
            for other in self._waiting
        )

    def _look(self) -> Iterator[_Waits]:
        """Of each band and shape that was refused somewhere, those that are asked for, and the first that is not."""
        state, house = self._state, self._state.house
        lending = lending_now(state)
        asked: dict[Group, Asked] = {}
        done: set[Group] = set()
        found: list[Ranked] = []

        def is_scarce(group: Group, example: PendingWork) -> bool:
            level, standing = group[0]
            if standing is Standing.HELD or not example.uses_gpus:
                return False
            if standing is Standing.OVER and not any(lending.could_cover(need) for need in example.needs):
                return False
            asked[group] = asked_for(state, example, -level, standing)
            return asked[group].shape in house.tight

        def keep(one: Ranked) -> bool:
            if one.work.workload not in house.open:
                done.add(one.group)
            if one.standing is not Standing.OVER or may_be_lent(state, one.work, lending):
                found.append(one)
            return False

        state.order.first(1, is_scarce, keep, done)
        for one in found:
            regions = where_asked(state, one, self._left(one, asked[one.group]))
            jobs = state.image.workloads.rows[one.work.workload].spec.jobs
            if regions:
                yield _Waits(one, gpu_milli_of(jobs), kinds_of(jobs), regions)

    def _left(self, one: Ranked, asked: Asked) -> tuple[RegionName, ...]:
        """Where it neither has an offer, or is about to be answered, nor lacks room, but for what is offered to others."""
        state, workload = self._state, one.work.workload
        auction, refused = state.house.open.get(workload), state.house.refused_by(asked.shape)
        row = state.image.workloads.rows[workload]
        return tuple(
            region
            for region in regions_for(state, row, asked.level, self._now)
            if (region not in refused or refused[region].reason == Reason.OPEN_BIDS)
            and (auction is None or region not in auction.asked or region in auction.abstained)
        )
