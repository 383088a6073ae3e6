"""Whom a workload could push out: lower priority alone, the cheapest first, and nobody who need not go."""

import random

import pytest

from core.claims.checks import check_nodes, check_victims, nodes_without_capacity
from core.events.region import AttemptEnded, CheckpointCommitted, GangStarted, NodesLost, StopOrdered
from core.fact import Event
from core.images import RegionImage
from core.images.capacity import Capacity
from core.nouns.ids import AttemptKey, WorkerName
from core.nouns.instant import SECOND, Instant
from core.nouns.placement import Claim, Spread, needs_of
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, JobSpec, Kind
from core.placing.answers.bids import score
from core.placing.placer import Found as FoundPlaces
from core.placing.pool_set import Asker
from tests.builders import (
    START,
    a_claim,
    a_job,
    a_region,
    attempt,
    folded,
    granted,
    joined,
    promised,
)
from tests.core.histories import RegionHistory
from tests.core.placing.searching import CHOICE, placer_of
from tests.core.properties import SEEDS

Found = tuple[tuple[Spread, ...], list[AttemptKey]]


def searched(capacity: Capacity, *jobs: JobSpec, priority: int = 5) -> Found | Reason:
    """Where it would go, and over whom; or why not. Free room comes first, as when an agent searches."""
    found = placer_of(capacity).find(jobs or (a_job(1, 8),), Asker(priority=priority), CHOICE)
    return found if isinstance(found, Reason) else (found.spreads, list(found.victim_keys))


def victims(*events: Event, jobs: tuple[JobSpec, ...] = (), priority: int = 5) -> list[str] | Reason:
    """Over which workloads, in the order in which they were chosen."""
    found = searched(a_region(*events).capacity, *jobs, priority=priority)
    return found if isinstance(found, Reason) else [workload for workload, _ in found[1]]


def held(workload: str, placed: dict[int, int], *, priority: int = 3, kind: Kind = Kind.TRAINING) -> Event:
    """One that holds so many GPUs on these nodes."""
    return granted(a_claim(workload, placed=placed, priority=priority, kind=kind))


FULL = {0: 8, 1: 8, 2: 8, 3: 8}


@pytest.mark.parametrize(("priority", "is_enough"), [(2, False), (3, False), (4, True)])
def test_only_lower_priority_is_preempted(priority: int, *, is_enough: bool) -> None:
    """M17: equal priority is not lower."""
    wanted = ["w-1"] if is_enough else Reason.NO_CAPACITY
    assert wanted == victims(joined(), held("w-1", FULL, priority=3), priority=priority)


def test_interactive_is_never_preempted() -> None:
    """Whatever its priority; others of its priority may be."""
    history = [joined(), held("w-1", {0: 8}, kind=Kind.INTERACTIVE, priority=0)]
    assert Reason.NO_CAPACITY == victims(*history, held("w-2", {1: 8, 2: 8, 3: 8}, priority=5))
    assert ["w-2"] == victims(*history, held("w-2", {1: 8, 2: 8, 3: 8}, priority=4))


def test_ending_attempt_is_no_victim() -> None:
    """Its capacity comes free by itself."""
    history = [joined(), held("w-1", FULL), StopOrdered(*attempt("w-1"), EndCause.CANCELLED)]
    assert Reason.NO_CAPACITY == victims(*history)


def test_victim_of_another_promise_is_no_victim() -> None:
    """Its capacity is promised."""
    claim = a_claim("w-2", placed={0: 1}, priority=4, victims=(attempt("w-1"),))
    assert Reason.NO_CAPACITY == victims(joined(), held("w-1", FULL), promised(claim))


def test_lowest_priority_goes_first() -> None:
    """M16: though another has run longer, or would do as well."""
    history = [joined(), held("w-1", {0: 8}, priority=3), held("w-2", {1: 8}, priority=1)]
    history += [held("w-3", {2: 8}, priority=2), held("w-4", {3: 8}, priority=3)]
    assert ["w-2"] == victims(*history)
    assert {"w-2", "w-3"} == set(victims(*history, jobs=(a_job(2, 8),)))


def test_longest_running_goes_first_among_equals() -> None:
    """M16: it was granted first."""
    history = [joined(), held("w-9", {0: 8}), held("w-2", {1: 8}), held("w-3", {2: 8}), held("w-1", {3: 8})]
    assert ["w-9"] == victims(*history)


def test_largest_of_the_chosen_goes_first_and_the_rest_is_spared() -> None:
    """M16: of the few that are enough together, one large one may be enough alone."""
    history = [joined("w0", 0, 2), held("w-1", {0: 1}, priority=1), held("w-2", {1: 8}, priority=2)]
    history.append(held("w-3", {0: 7}, priority=3))
    assert ["w-2"] == victims(*history)


def test_attempt_that_holds_no_needed_capacity_is_spared() -> None:
    """A search that frees more than it takes releases the rest of the victims."""
    history = [joined("w0", 0, 2), held("w-1", {0: 4, 1: 4}, priority=1), held("w-2", {1: 4}, priority=2)]
    history.append(held("w-3", {0: 4}, priority=4))
    found = searched(a_region(*history).capacity, a_job(1, 4), a_job(1, 4, name="more"))
    assert not isinstance(found, Reason)
    assert [attempt("w-1")] == found[1]


def test_free_capacity_is_used_with_that_of_victims() -> None:
    """A gang may lie half on free nodes."""
    found = searched(a_region(joined(), held("w-1", {0: 8, 1: 1}), held("w-2", {2: 8})).capacity, a_job(3, 8))
    assert not isinstance(found, Reason)
    assert [attempt("w-1")] == found[1]


def test_victims_share_on_a_lost_node_frees_nothing() -> None:
    """A lost node is empty when it is back, and not before: nothing may be placed there."""
    history = [
        joined("w0", 0, 1),
        joined("w1", 1, 1),
        held("w-1", {0: 4, 1: 8}),
        NodesLost(WorkerName("w1"), (1,)),
    ]
    assert Reason.NO_CAPACITY == victims(*history, jobs=(a_job(2, 8),))
    found = searched(a_region(*history).capacity, a_job(1, 8))
    assert not isinstance(found, Reason)
    assert (0,) == found[0][0].nodes


def test_region_without_a_possible_victim() -> None:
    """A region that is full of work of higher levels, or too small."""
    assert Reason.NO_CAPACITY == victims(joined(), held("w-1", FULL, priority=6))
    assert Reason.NO_CAPACITY == victims(joined(), held("w-1", FULL), jobs=(a_job(5, 8),))


@pytest.mark.parametrize("seed", SEEDS)
def test_found_places_pass_the_stores_rules(seed: int) -> None:
    """Over whatever a region's life has left behind: what is found is a claim that the store would grant or promise.

    And when nothing is found for a workload of one job, then pushing out everybody who may be would not help.
    """
    dice = random.Random(seed)
    history = RegionHistory(seed, is_pooled=False)
    history.draw(0)
    image = RegionImage.empty()
    folded_to = found_some = 0
    for _ in range(60):
        for _ in range(5):
            history.step()
        for fact in history.facts[folded_to:]:
            image.fold(fact)
        folded_to = len(history.facts)
        count = dice.choice((1, 1, 2))
        jobs = tuple(
            a_job(
                dice.randint(1, 5), dice.choice((1, 2, 4)), name=name, gpu_type=dice.choice(("H100", "A100"))
            )
            for name in ("main", "eval")[:count]
        )
        priority = dice.randint(1, 6)
        if not {job.gpu_type for job in jobs} <= set(image.hardware.rows):
            continue
        found = searched(image.capacity, *jobs, priority=priority)
        if isinstance(found, Reason):
            if count == 1:
                assert room_of_all(history, jobs[0], priority) < jobs[0].tasks
            continue
        found_some += 1
        claim = a_claim("w-new", jobs=jobs, spreads=found[0], priority=priority, victims=tuple(found[1]))
        assert check_nodes(claim, image.capacity) is None
        assert check_victims(claim, image.capacity, Instant(0)) is None
        assert () == nodes_without_capacity(claim, image.capacity)
        assert all(serves(image.capacity, claim, key) for key in found[1])
    assert found_some > 5


def room_of_all(history: RegionHistory, job: JobSpec, priority: int) -> int:
    """How many tasks would fit if all that may be pushed out were gone, counted node by node."""
    taken = [key for claim in history.promises.values() for key in claim.victims]
    gone = [
        claim
        for key, claim in history.live.items()
        if claim.priority < priority
        and claim.kind != Kind.INTERACTIVE
        and key not in history.stopping
        and key not in taken
    ]
    count = 0
    for node in history.total:
        if history.is_open(node) and history.gpu_type[node] == job.gpu_type:
            left = history.available(node)
            for claim in gone:
                left = left.plus(needs_of(claim).get(node, Amount()))
            count += left.gpu_milli // job.need.gpu_milli
    return count


def serves(capacity: Capacity, claim: Claim, key: AttemptKey) -> bool:
    """Whether a victim holds something on a node where the claim needs more than is available."""
    holding = capacity.holding(*key)
    assert holding is not None
    return any(
        node in needs_of(holding.claim) and not capacity.available(node).covers(need)
        for node, need in needs_of(claim).items()
    )


def scored(*events: Event, now: Instant) -> tuple[int, ...]:
    """What a bid over everybody costs."""
    capacity = folded(RegionImage.empty(), events).capacity
    return score(placer_of(capacity).pools, FoundPlaces((), tuple(capacity.live())), now)


def test_score_with_victims() -> None:
    """M14: first their highest priority, then how many, then the GPU-seconds since their newest checkpoints."""
    history = [joined(), held("w-1", {0: 2}, priority=2), held("w-2", {1: 4}, priority=1)]
    history += [GangStarted(*attempt("w-1")), GangStarted(*attempt("w-2"))]
    history.append(CheckpointCommitted(*attempt("w-2"), 7))
    now = Instant(START + 100 * SECOND)
    destroyed = 2 * (100 - 4) + 4 * (100 - 6)
    assert (3, 2, destroyed) == scored(*history, now=now)[:3]


def test_score_when_victim_has_not_started() -> None:
    """Nothing is destroyed of what has not begun."""
    now = Instant(START + 100 * SECOND)
    assert (4, 1, 0) == scored(joined(), held("w-1", {0: 2}), now=now)[:3]


def test_bid_without_victims_beats_every_other() -> None:
    """M14: no preemption first: a victim of the lowest priority still costs more than none."""
    pushing = scored(joined(), held("w-1", {0: 1}, priority=0), now=START)
    assert scored(joined(), now=START) < pushing


def test_attempt_with_the_least_lost_work_goes_first_among_equals() -> None:
    """eviction_cost: lost work counts from the newest checkpoint, or from the start; an attempt that was started often is spared."""
    history = [joined("w0", 0, 2), held("w-1", {0: 8}), held("w-2", {1: 8})]
    history += [GangStarted(*attempt("w-2")), GangStarted(*attempt("w-1"))]
    assert ["w-1"] == victims(*history)
    assert ["w-2"] == victims(*history, CheckpointCommitted(*attempt("w-2"), 7))
    again = granted(a_claim("w-1", 2, placed={0: 8}))
    assert ["w-2"] == victims(*history, AttemptEnded(*attempt("w-1"), EndCause.PREEMPTED), again)
