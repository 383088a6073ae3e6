"""Victims as they are kept from fact to fact, and the search over them in place: both equal what is worked out from scratch."""

import random

import pytest
from msgspec.structs import replace

from core.events.region import AttemptRanked, CheckpointCommitted
from core.fact import Fact
from core.images import RegionImage
from core.images.capacity import NOT_UP, Capacity
from core.nouns.ids import TenantName
from core.nouns.instant import Instant, seconds
from core.nouns.placement import Spread, gpu_milli_of
from core.nouns.pool import UNSET, PoolSettings
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec, Kind
from core.placing.answers.bids import missing_over_all
from core.placing.answers.shortages import missing_milli
from core.placing.index.overlay import Overlay
from core.placing.index.owners import Owners
from core.placing.pick.nodes import Choice, Placed
from core.placing.placer import Placer
from core.placing.pool import PoolIndex
from core.placing.pool_set import Asker, PoolSet, request_of
from core.placing.preemption import without_victims as vacated
from core.placing.preemption.victim_index import NEWEST_SPARE, OF_VICTIMS, Victim, VictimIndex, clusters_of
from core.placing.preemption.victims import (
    FAR_MORE,
    candidates_under,
    find_with_victims,
    freed_by,
    left_by,
    shared_without,
)
from core.rules.placement.errors import RuleFailed
from core.rules.placement.eviction_cost import counted_until, told_until
from core.rules.placement.rule import Request
from core.rules.placement.rule_sets import PLAIN
from core.touched import LAYS_OUT, touched_by
from tests.builders import EU_LOG, a_claim, a_job, a_region, attempt, granted, joined
from tests.core.histories import RegionHistory
from tests.core.placing.crowded import Crowded
from tests.core.placing.searching import CHOICE, placer_of
from tests.core.properties import SEEDS

FAR = Instant(NOT_UP)
LAB = TenantName("lab")


class Followed:
    """A region's image, and a placer that is told of every fact."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.history = RegionHistory(seed)
        self.history.draw(0)
        self.image = RegionImage.empty()
        self.placer = Placer(self.image.capacity, Overlay(), lambda _: PLAIN)
        self._folded = 0
        self._sequence = 1 << 20

    @property
    def capacity(self) -> Capacity:
        """As it is now."""
        return self.image.capacity

    @property
    def now(self) -> Instant:
        """Its time."""
        return Instant(self.history.now)

    def live_on(self, steps: int) -> None:
        """Some more facts; now and then somebody's level changes, which the history itself never does."""
        for _ in range(steps):
            self.history.step()
        for fact in self.history.facts[self._folded :]:
            self._tell(fact)
        self._folded = len(self.history.facts)
        live = [(workload, epoch) for workload, epoch, held in self.capacity.live() if not held.is_ending]
        if live and self.dice.random() < 0.3:
            self._sequence += 1
            ranked = AttemptRanked(*self.dice.choice(live), 1, self.dice.randint(0, 5))
            self._tell(replace(self.history.facts[-1], sequence=self._sequence, event=ranked))

    def _tell(self, fact: Fact) -> None:
        touched = touched_by(self.capacity, fact)
        self.image.fold(fact)
        self.placer.touch(touched, joined=isinstance(fact.event, LAYS_OUT))
        if isinstance(fact.event, OF_VICTIMS):
            self.placer.settle(fact.event.workload, fact.event.epoch)
            self.placer.victims.settle(fact.event.workload, fact.event.epoch)


def everywhere(pools: PoolSet) -> frozenset[tuple[str, int]]:
    """All clusters."""
    return frozenset(
        (name, number) for name, pool in pools.by_name.items() for number in range(len(pool.layout.clusters))
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sort", [Followed, Crowded])
def test_order_equals_the_sorted_candidates(seed: int, sort: type[Followed | Crowded]) -> None:
    """Whatever has happened, for every level and every set of clusters, and if nobody asked for a while."""
    region = sort(seed)
    dice = region.dice
    seen = 0
    for number in range(60):
        region.live_on(4)
        placer, capacity = region.placer, region.capacity
        placer.refresh()
        placer.victims.refresh(placer.pools, is_asked=number % 3 > 0)
        if number % 3 == 0:
            continue
        clusters = sorted(everywhere(placer.pools))
        for priority in (1, 3, 6):
            where = frozenset(dice.sample(clusters, dice.randint(1, len(clusters))))
            at = Instant(region.now)
            expected, later = (
                [
                    victim
                    for victim in candidates_under(capacity, priority, time)
                    if not where.isdisjoint(clusters_of(placer.pools, victim[2].claim))
                ]
                for time in (at, FAR)
            )
            assert [victim[:2] for victim in expected] == [
                victim[:2] for victim in placer.victims.under(priority, at, where)
            ]
            holds = sum(gpu_milli_of(held.claim.jobs) for _, _, held in later)
            assert holds == placer.victims.gpu_milli_under(priority, where)
            seen += len(expected)
    assert seen > (300 if sort is Crowded else 10)


def from_scratch(
    placer: Placer, capacity: Capacity, job: JobSpec, asker: Asker
) -> tuple[tuple[Spread, ...], list[Victim]] | Reason:
    """One after the other, each time in a copy of all rows, until it fits; then the same of the chosen, the largest first."""
    pools = placer.pools
    owners = Owners.of(capacity)
    owners.know_all(capacity)
    request = request_of(job, asker)
    where = frozenset(
        (pool.name, number) for pool in pools.pools_for(request) for number in pool.clusters_for(request)
    )
    candidates = [
        victim
        for victim in candidates_under(capacity, asker.priority, asker.at)
        if not where.isdisjoint(clusters_of(pools, victim[2].claim))
    ]
    most = FAR_MORE * gpu_milli_of((job,))
    if most:
        candidates.sort(key=lambda one: (one[2].claim.priority, gpu_milli_of(one[2].claim.jobs) > most))

    def first(victims: list[Victim]) -> tuple[tuple[Spread, ...], list[Victim]] | Reason:
        for count in range(1, len(victims) + 1):
            some = victims[:count]
            shared = shared_without(capacity, some)
            freed = pools.released(freed_by(capacity, some), left_by(owners, some), shared)
            found = freed.find((job,), asker, CHOICE)
            if not isinstance(found, Reason):
                return found, some
        return Reason.NO_CAPACITY

    chosen = first(candidates)
    if isinstance(chosen, Reason):
        return chosen
    largest = sorted(chosen[1], key=lambda one: (-gpu_milli_of(one[2].claim.jobs), one[0], one[1]))
    return first(largest)


@pytest.mark.parametrize("settings", [UNSET, PoolSettings(reserve=1), PoolSettings(limit=900)])
@pytest.mark.parametrize("in_place_max", [1024, 2])
@pytest.mark.parametrize("seed", range(4))
def test_search_in_place_equals_one_in_copies(
    seed: int, in_place_max: int, settings: PoolSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """M16: the same places over the same victims, but for those who hold nothing that is needed; and everything is put back.

    With parts of devices, racks that must hold all, who is alone, reserves and limits; and where so many nodes come free that rows
    are copied after all.
    """
    monkeypatch.setattr(vacated, "IN_PLACE_MAX", in_place_max)
    region = Crowded(seed, settings)
    region.live_on(60)
    found_some = 0
    for _ in range(60):
        region.live_on(3)
        placer, capacity, job, asker = region.placer, region.capacity, region.job(), region.asker()
        placer.refresh()
        placer._look_at_owners((replace(job, is_alone=True),))
        if not isinstance(placer.pools.find((job,), asker, CHOICE), Reason):
            continue
        expected = from_scratch(placer, capacity, job, asker)
        rows = rows_of(placer.pools)
        kept = find_with_victims(
            placer.pools, capacity, (job,), asker, CHOICE, placer.owners, index=placer.victims
        )
        assert rows == rows_of(placer.pools)
        if isinstance(expected, Reason):
            assert expected == kept
            continue
        assert not isinstance(kept, Reason), (kept, expected)
        assert expected[0] == kept[0]
        assert {one[:2] for one in kept[1]} <= {one[:2] for one in expected[1]}
        found_some += 1
    assert found_some > 5


def rows_of(pools: PoolSet) -> list[object]:
    """All that a search reads of nodes."""
    found: list[object] = []
    for pool in pools.by_name.values():
        table = pool.table
        columns = (table.gpu, table.cpu, table.memory, table.is_open, table.owner, table.not_spare)
        found.extend(column.tolist() for column in columns)
        found.append((table.empty[:], table.open_gpu[:], table.clusters.free[:], table.gpu_free))
        found.append([table.shared_at(slot) for slot in range(pool.layout.slots)])
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_shortage_equals_that_of_a_copy_without_the_victims(seed: int) -> None:
    """A refusal's figure: beyond all attempts that are below, those too that have not run long enough yet."""
    region = Crowded(seed)
    region.live_on(60)
    seen = set()
    for _ in range(40):
        region.live_on(2)
        placer, capacity, job, asker = region.placer, region.capacity, region.job(), region.asker()
        placer.refresh()
        everybody = candidates_under(capacity, asker.priority, FAR)
        expected = missing_milli(placer.pools.released(freed_by(capacity, everybody)), (job,), asker)
        assert expected == missing_over_all(placer.pools, (job,), asker, placer.victims)
        seen.add(expected)
    assert len(seen) > 2


def test_victim_that_the_other_job_does_not_need_is_spared() -> None:
    """M16: of two jobs one has capacity already: no attempt goes for its sake, though there is one that costs less."""
    here = joined("w0", 0, 2), joined("w1", 2, 2, gpu_type="A100")
    cheap = granted(a_claim("w-1", jobs=(a_job(1, 4, gpu_type="A100"),), placed={2: 1}, priority=0))
    dear = granted(a_claim("w-2", placed={0: 8, 1: 8}, priority=2))
    capacity = a_region(*here, cheap, dear).capacity
    jobs = a_job(1, 8), a_job(1, 8, name="eval", gpu_type="A100")
    placer = Placer(capacity, Overlay(), lambda _: PLAIN)
    placer.refresh()
    order = VictimIndex(capacity)
    found = find_with_victims(placer.pools, capacity, jobs, Asker(priority=5), CHOICE, index=order)
    assert not isinstance(found, Reason)
    assert [attempt("w-2")] == [victim[:2] for victim in found[1]]


def test_job_that_cannot_fit_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where all possible victims hold too little, nor where their capacity lies in too many pieces."""
    held = [granted(a_claim(f"w-{node}", placed={node: 4}, priority=1)) for node in range(4)]
    above = [granted(a_claim(f"w-9{node}", placed={node: 4}, priority=6)) for node in range(4)]
    capacity = a_region(joined(), *held, *above).capacity
    placer = Placer(capacity, Overlay(), lambda _: PLAIN)
    placer.refresh()
    monkeypatch.setattr(PoolSet, "find", lambda *_, **__: pytest.fail("it was searched for"))
    for tasks, gpus in ((5, 4), (1, 8)):
        found = find_with_victims(placer.pools, capacity, (a_job(tasks, gpus),), Asker(priority=5), CHOICE)
        assert Reason.NO_CAPACITY == found


def test_rule_that_raises_for_fewer_victims_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that were chosen would do; one of them alone might, and a rule raises when that is tried."""
    claims = [
        a_claim("w-1", placed={0: 1}, priority=1),
        a_claim("w-2", placed={1: 8}, priority=2),
        a_claim("w-3", placed={0: 7}, priority=6),
    ]
    capacity = a_region(joined("w0", 0, 2), *map(granted, claims)).capacity
    placer = Placer(capacity, Overlay(), lambda _: PLAIN)
    placer.refresh()
    place = PoolIndex.place

    def fails_once_it_fitted(pool: PoolIndex, request: Request, tasks: int, choice: Choice) -> Placed | None:
        if tried:
            raise RuleFailed("fails", "of fewer")
        found = place(pool, request, tasks, choice)
        tried.extend(found or [])
        return found

    tried: Placed = []
    monkeypatch.setattr(PoolIndex, "place", fails_once_it_fitted)
    found = find_with_victims(placer.pools, capacity, (a_job(1, 8),), Asker(priority=5), CHOICE)
    assert Reason.RULE_FAILED == found


def test_index_is_empty_before_the_first_search() -> None:
    """A region in which no attempt is preempted pays nothing for it."""
    capacity = a_region(joined(), granted(a_claim("w-1", placed={0: 8}, kind=Kind.TRAINING))).capacity
    placer = Placer(capacity, Overlay(), lambda _: PLAIN)
    placer.refresh_classes(1)
    assert [] == list(placer.victims.under(6, FAR, everywhere(placer.pools)))
    placer.victims.refresh(placer.pools)
    assert [attempt("w-1")] == [
        victim[:2] for victim in placer.victims.under(6, FAR, everywhere(placer.pools))
    ]


def test_times_of_what_was_told_do_not_pile_up() -> None:
    """An attempt that saves a checkpoint a minute for a week leaves one time, whatever is newest meanwhile."""
    image = a_region(joined(), granted(a_claim("w-1")), granted(a_claim("w-2", placed={1: 1})))
    placer = placer_of(image.capacity)
    placer.victims.refresh(placer.pools)
    sequence = 10
    for minute in range(1_000):
        for workload, at in (("w-1", minute), ("w-2", 10_000 + minute)):
            sequence += 1
            saved = CheckpointCommitted(*attempt(workload), minute + 1)
            image.fold(Fact(EU_LOG, sequence, Instant(seconds(60 * at)), "", "", saved))
            placer.victims.settle(*attempt(workload))
        placer.victims.refresh(placer.pools)
        held = [one for _, _, one in image.capacity.live()]
        newest = max(told_until(one) for one in held)
        assert counted_until(newest) == placer.victims._counted()
        assert len(placer.victims._newest) <= NEWEST_SPARE + 2 * len(held)
