"""One ask evicts no more than it needs, an agent's and a store's alike; and nobody pushes out whoever pushed it out, without end."""

from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.claims.checks import nodes_without_capacity, victims_needed
from core.events.region import (
    AttemptEnded,
    CheckpointCommitted,
    ClaimGranted,
    GangStarted,
    NodesJoined,
    PreemptionSet,
)
from core.fact import Event
from core.images import RegionImage
from core.images.capacity import Capacity, Holding
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.placement import Claim, Spread, gpu_milli_of, needs_of
from core.nouns.preemption import BidScore, PreemptionSettings, VictimOrder
from core.nouns.quantities import MILLI, Amount
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import EndCause, JobSpec
from core.placing.answers.bids import score
from core.placing.index.overlay import Overlay
from core.placing.placer import Found, Placer
from core.placing.pool_set import Asker
from core.placing.preemption.victims import FAR_MORE, Needed, candidates_under
from core.rules.placement.eviction_cost import destroyed, eviction_cost
from core.rules.placement.rule_sets import PLAIN
from core.rules.preemption import pledged
from tests.builders import (
    START,
    a_claim,
    a_fact,
    a_job,
    a_region,
    attempt,
    granted,
    joined,
)
from tests.core.placing.searching import CHOICE, placer_of

GPUS = 8
LEVEL = 5


def found_over(image: RegionImage, *jobs: JobSpec, priority: int = LEVEL, at: int = 0) -> Found | Reason:
    """Where such a workload could go, and over whom, as the region is set."""
    placer = Placer(image.capacity, Overlay(), lambda _: PLAIN, preemption=image.preemption)
    return placer.find(jobs, Asker(priority=priority, at=Instant(at)), CHOICE)


def keys(found: Found | Reason) -> list[str]:
    """Whom it pushes out."""
    assert isinstance(found, Found), found
    return [workload for workload, _ in found.victim_keys]


def claim_of(found: Found, jobs: tuple[JobSpec, ...], victims: tuple[AttemptKey, ...]) -> Claim:
    """What would be claimed."""
    return a_claim("w-new", jobs=jobs, spreads=found.spreads, priority=LEVEL, victims=victims)


# Regions and asks, drawn.


@st.composite
def regions(draw: st.DrawFn) -> RegionImage:
    """Up to six nodes, and on them gangs of whole GPUs of all sizes and priorities, some of them over several nodes."""
    nodes = draw(st.integers(1, 6))
    events: list[Event] = [joined("w0", 0, nodes)]
    free = dict.fromkeys(range(nodes), GPUS)
    for number in range(draw(st.integers(0, 12))):
        gpus = draw(st.sampled_from((1, 2, 4, 5, 8)))
        room = [node for node, left in free.items() if left >= gpus]
        if not room:
            continue
        wide = draw(st.integers(1, len(room)))
        where = sorted(draw(st.permutations(room))[:wide])
        for node in where:
            free[node] -= gpus
        claim = a_claim(
            f"w-{number}", placed=dict.fromkeys(where, 1), gpus=gpus, priority=draw(st.integers(0, LEVEL))
        )
        events.append(granted(claim))
        if draw(st.booleans()):
            events.append(GangStarted(*attempt(f"w-{number}")))
    return a_region(*events)


@st.composite
def asks(draw: st.DrawFn) -> tuple[JobSpec, ...]:
    """One job, or two."""
    sizes = [
        (draw(st.integers(1, 5)), draw(st.sampled_from((1, 2, 4, 8)))) for _ in range(draw(st.integers(1, 2)))
    ]
    return tuple(a_job(tasks, gpus, name=f"job{at}") for at, (tasks, gpus) in enumerate(sizes))


def short_without(capacity: Capacity, claim: Claim, victims: tuple[AttemptKey, ...]) -> set[int]:
    """Nodes on which the claim does not fit when these alone have ended, counted anew, node by node."""
    short = set()
    for node, need in needs_of(claim).items():
        room = capacity.available(node)
        for key in victims:
            held = capacity.holding(*key)
            assert held is not None, key
            room = room.plus(needs_of(held.claim).get(node, Amount()))
        if not room.covers(need):
            short.add(node)
    return short


@settings(deadline=None, max_examples=50)
@given(regions(), asks())
def test_no_victim_of_an_ask_can_be_left_out(image: RegionImage, jobs: tuple[JobSpec, ...]) -> None:
    """kai-scheduler PR#1565, where an ask of 48 GPUs evicted 376: where it is to be it does not fit without any one of them.

    So what is evicted is bounded: on each node, all of them but the smallest there that was needed there are less than the need.
    """
    found = found_over(image, *jobs)
    assume(isinstance(found, Found))
    assert isinstance(found, Found)
    claim = claim_of(found, jobs, found.victim_keys)
    capacity = image.capacity
    assert not short_without(capacity, claim, found.victim_keys)
    witnesses = {}
    for key in found.victim_keys:
        rest = tuple(other for other in found.victim_keys if other != key)
        witnesses[key] = short_without(capacity, claim, rest)
        assert witnesses[key], f"{key} ends for nothing"
    for node, need in needs_of(claim).items():
        here = {
            key: needs_of(held.claim)[node].gpu_milli
            for key in found.victim_keys
            if (held := capacity.holding(*key)) is not None and node in needs_of(held.claim)
        }
        needed = [here[key] for key in here if node in witnesses[key]]
        if needed:
            assert sum(here.values()) - min(needed) < need.gpu_milli - capacity.available(node).gpu_milli


@settings(deadline=None, max_examples=100)
@given(
    regions(),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
    st.integers(1, 3),
    st.sampled_from((1, 2, 4, 8)),
)
def test_no_victim_far_wider_than_the_request_while_others_free_capacity(
    image: RegionImage, levels: list[int], tasks: int, gpus: int
) -> None:
    """N8, kai-scheduler PR#1565: an attempt that holds more than four times the requested GPUs is preempted only where the job does not
    fit though all others of its priority, and of lower ones, had ended; however little it has to lose, for it saved a moment ago, and
    no other ever did.
    """
    most = FAR_MORE * tasks * gpus * MILLI
    for node, level in enumerate(levels):
        left = image.capacity.available(node).gpu_milli // MILLI if image.capacity.has_node(node) else 0
        if left:
            image.fold(a_fact(placed(f"w-full-{node}", left, node=node, priority=level), 50))
    for workload, epoch, held in image.capacity.live():
        if not held.started_at:
            image.fold(a_fact(GangStarted(workload, epoch), 100))
        if gpu_milli_of(held.claim.jobs) > most:
            image.fold(a_fact(CheckpointCommitted(workload, epoch, 7), 7_000))
    found = found_over(image, a_job(tasks, gpus), at=START + 7_200 * SECOND)
    assume(isinstance(found, Found))
    assert isinstance(found, Found)
    gone = [held.claim.priority for _, _, held in found.victims if gpu_milli_of(held.claim.jobs) > most]
    for workload, epoch, held in image.capacity.live():
        if gone and held.claim.priority <= max(gone) and gpu_milli_of(held.claim.jobs) <= most:
            image.fold(a_fact(AttemptEnded(workload, epoch, EndCause.PREEMPTED), 8_000))
    assert not (gone and isinstance(found_over(image, a_job(tasks, gpus), priority=OVER_LEVEL), Found))


def test_chosen_victim_that_frees_no_needed_capacity_is_left_out() -> None:
    """Of lower level it is looked at first, and it is the larger: its node is full without it. The one that frees the capacity goes
    alone.
    """
    image = a_region(
        joined("w0", 0, 2),
        placed("w-1", 5, node=1, priority=0),
        placed("w-2", 4, node=0, priority=1),
        placed("w-3", 3, node=1, priority=LEVEL),
    )
    assert ["w-2"] == keys(found_over(image, a_job(1, 8)))


def test_victim_with_too_much_lost_work_is_left_out_where_another_will_do() -> None:
    """N8: of lower level, it would go first; its end destroys more than one claim may, and that of the other just as much as it may."""
    running = [placed("w-1", 8, node=0, priority=0), placed("w-2", 1, node=1, priority=1)]
    image = a_region(joined("w0", 0, 2), *running, *(GangStarted(*attempt(name)) for name in ("w-1", "w-2")))
    at = START + 3_600 * SECOND
    assert ["w-1"] == keys(found_over(image, a_job(1, 8), at=at))
    costs = {
        one: pledged(held, Instant(at), image.preemption.settings.ask_span)
        for one, _, held in image.capacity.live()
    }
    for most, found in ((costs[WorkloadId("w-2")], ["w-2"]), (costs[WorkloadId("w-2")] - 1, None)):
        image.fold(a_fact(PreemptionSet(1, PreemptionSettings(claim_max=most)), 99))
        told = found_over(image, a_job(1, 8), at=at)
        assert Reason.DESTROYS_TOO_MUCH == told if found is None else found == keys(told)


def test_dearest_is_let_off_first() -> None:
    """Of two on one node, each of whom makes room enough, whoever is of lower priority ends, in whatever order they were chosen."""
    image = a_region(joined("w0", 0, 1), placed("w-1", 4, priority=1), placed("w-2", 4, priority=3))
    capacity, job = image.capacity, a_job(1, 4)
    needed = Needed(
        placer_of(capacity).pools, capacity, (job,), (Spread((0,), (1,)),), Asker(priority=LEVEL), None
    )
    for chosen in (capacity.live(), capacity.live()[::-1]):
        assert ["w-1"] == [workload for workload, _, _ in needed.of(chosen, VictimOrder.COST)]


@settings(deadline=None, max_examples=50)
@given(regions(), asks(), st.randoms(use_true_random=False))
def test_no_victim_of_a_claim_can_be_left_out(
    image: RegionImage, jobs: tuple[JobSpec, ...], dice: object
) -> None:
    """Whatever an agent names, the store ends nobody whom the grant does not need: here it names everybody there is."""
    found = found_over(image, *jobs)
    assume(isinstance(found, Found) and found.victims)
    assert isinstance(found, Found)
    everybody = [
        (workload, epoch) for workload, epoch, _ in candidates_under(image.capacity, LEVEL, Instant(0))
    ]
    getattr(dice, "shuffle")(everybody)  # noqa: B009 (hypothesis' own sort of dice)
    claim = claim_of(found, jobs, tuple(everybody))
    needed = victims_needed(claim, image.capacity)
    assert not nodes_without_capacity(replace(claim, victims=needed), image.capacity)
    for key in needed:
        rest = tuple(other for other in needed if other != key)
        assert short_without(image.capacity, claim, rest), f"{key} ends for nothing"


@settings(deadline=None, max_examples=50)
@given(regions(), asks(), st.integers(0, 10_000))
def test_no_ask_destroys_more_than_it_may(image: RegionImage, jobs: tuple[JobSpec, ...], most: int) -> None:
    """N8: what an agent proposes keeps the cap of one claim; it says so where only that keeps it from proposing."""
    at = START + 3_600 * SECOND
    free = found_over(image, *jobs, at=at)
    image.fold(a_fact(PreemptionSet(1, PreemptionSettings(claim_max=max(1, most))), 99))
    capped = found_over(image, *jobs, at=at)
    if isinstance(capped, Found):
        assert sum(destroyed(held, at) for _, _, held in capped.victims) <= max(1, most)
    elif capped is Reason.DESTROYS_TOO_MUCH:
        assert isinstance(free, Found)
    else:
        assert capped == free


@settings(deadline=None, max_examples=50)
@given(regions(), asks())
def test_victim_cannot_preempt_the_workload_that_preempted_it(
    image: RegionImage, jobs: tuple[JobSpec, ...]
) -> None:
    """kueue#3779: A evicts B evicts A cannot be, for a victim is of lower level, and never finds its evictor among its own."""
    found = found_over(image, *jobs)
    assume(isinstance(found, Found) and found.victims)
    assert isinstance(found, Found)
    events: list[Event] = [AttemptEnded(*key, EndCause.PREEMPTED) for key in found.victim_keys]
    events.append(granted(claim_of(found, jobs, ())))
    for number, event in enumerate(events):
        image.fold(a_fact(event, 100 + number))
    for _, _, held in found.victims:
        back = found_over(image, *held.claim.jobs, priority=held.claim.priority)
        assert not isinstance(back, Found) or "w-new" not in keys(back)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from((1, 2, 4, 8))), min_size=1, max_size=14))
def test_evictions_come_to_an_end(wanted: list[tuple[int, int]]) -> None:
    """kueue#3779: where everybody wants the one node for ever, and whoever is pushed out asks again at once, all is quiet after a while.

    Each eviction lets somebody in of a higher level than everybody whom it puts out, so the levels of who runs, highest first, only
    ever grow; nobody is put out more often than there are others of higher levels.
    """
    image = a_region(joined("w0", 0, 1))
    epochs: Counter[str] = Counter()
    evicted: Counter[str] = Counter()
    waiting = [f"w-{number}" for number in range(len(wanted))]
    sequence = 10
    while waiting:
        name = waiting.pop(0)
        priority, gpus = wanted[int(name[2:])]
        found = found_over(image, a_job(1, gpus), priority=priority)
        if isinstance(found, Reason):
            continue  # Asked again when something is freed; here nothing ever ends by itself.
        for workload, epoch in found.victim_keys:
            evicted[workload] += 1
            waiting.append(workload)
            sequence += 1
            image.fold(a_fact(AttemptEnded(workload, epoch, EndCause.PREEMPTED), sequence))
        epochs[name] += 1
        sequence += 1
        claim = a_claim(name, epochs[name], jobs=(a_job(1, gpus),), spreads=found.spreads, priority=priority)
        image.fold(a_fact(granted(claim), sequence))
    for name, times in evicted.items():
        above = sum(priority > wanted[int(name[2:])][0] for priority, _ in wanted)
        assert times <= above


# The order.


def placed(workload: str, gpus: int, *, node: int = 0, epoch: int = 1, priority: int = 3) -> ClaimGranted:
    """So many GPUs of a node, as tasks of one each."""
    return granted(a_claim(workload, epoch, placed={node: gpus}, priority=priority))


def region_of_three(order: VictimOrder) -> RegionImage:
    """Gangs of 4, 5 and 12 GPUs fill a region of nodes of 8, the first two before the third."""
    events: list[Event] = [PreemptionSet(1, PreemptionSettings(order=order)), joined("w0", 0, 3)]
    events += [placed("w-4", 4), placed("w-5", 5, node=1)]
    events.append(granted(a_claim("w-12", placed={0: 4, 1: 3, 2: 5})))
    events += [GangStarted(*attempt(name)) for name in ("w-4", "w-5", "w-12")]
    return a_region(*events)


@pytest.mark.parametrize("order", VictimOrder)
def test_of_4_5_and_12_for_10_the_12_alone_goes(order: VictimOrder) -> None:
    """M16: three GPUs are free; each of the small ones comes first, and once the large one has to go, they need not."""
    assert ["w-12"] == keys(found_over(region_of_three(order), a_job(13, 1)))
    assert ["w-4"] == keys(found_over(region_of_three(order), a_job(7, 1)))


def beside_a_wide_one(*levels: int, of_wide: int, order: VictimOrder = VictimOrder.COST) -> RegionImage:
    """A gang of 376 GPUs that saved a moment ago, and for each of these levels one of 8 that has saved nothing for an hour."""
    events: list[Event] = [
        PreemptionSet(1, PreemptionSettings(order=order)),
        joined("w0", 0, 47 + len(levels)),
    ]
    events += [placed(f"w-{node}", 8, node=node, priority=at) for node, at in enumerate(levels, 47)]
    events.append(granted(a_claim("w-376", placed=dict.fromkeys(range(47), 8), priority=of_wide)))
    events.append(GangStarted(*attempt("w-376")))
    events += [GangStarted(*attempt(f"w-{node}")) for node in range(47, 47 + len(levels))]
    image = a_region(*events)
    image.fold(a_fact(CheckpointCommitted(*attempt("w-376"), 7), 3_590))
    return image


@pytest.mark.parametrize("nodes", [1, 6, 8])
def test_an_ask_for_48_evicts_48(nodes: int) -> None:
    """N8, kai-scheduler PR#1565: beside a gang of 376 GPUs there are enough small ones, and as many of these go as are needed."""
    image = beside_a_wide_one(*[3] * 8, of_wide=3)
    found = found_over(image, a_job(nodes, 8), at=START + 3_600 * SECOND)
    assert isinstance(found, Found)
    assert nodes * 8 * MILLI == sum(gpu_milli_of(held.claim.jobs) for _, _, held in found.victims)


@pytest.mark.parametrize(
    ("levels", "of_wide", "order"),
    [
        pytest.param([3] * 8, 2, VictimOrder.COST, id="it is of lower level"),
        pytest.param([3] * 5 + [4] * 3, 3, VictimOrder.COST, id="too few of its level"),
        pytest.param([3] * 8, 3, VictimOrder.PAPER, id="the paper's order knows no sizes"),
    ],
)
def test_wide_one_goes_before_those_of_higher_level(
    levels: list[int], of_wide: int, order: VictimOrder
) -> None:
    """Whom a level protects no width of others makes a victim. By the paper whoever has run longest goes, here the wide one."""
    image = beside_a_wide_one(*levels, of_wide=of_wide, order=order)
    assert ["w-376"] == keys(found_over(image, a_job(6, 8), at=START + 3_600 * SECOND))


RUN = [joined("w0", 0, 2), placed("w-1", 8), placed("w-2", 8, node=1)]


def after_a_while(*events: Event) -> list[str]:
    """Who goes first, of two that run."""
    return keys(found_over(a_region(*RUN, *events), a_job(1, 8)))


def test_paper_preempts_the_longest_running_attempt() -> None:
    """M16: by the paper's order a checkpoint is no matter, and an attempt that does not run yet comes last."""
    paper = PreemptionSet(1, PreemptionSettings(order=VictimOrder.PAPER))
    up = [GangStarted(*attempt("w-2")), GangStarted(*attempt("w-1"))]
    assert ["w-2"] == after_a_while(paper, *up, CheckpointCommitted(*attempt("w-1"), 7))
    assert ["w-1"] == after_a_while(*up, CheckpointCommitted(*attempt("w-1"), 7))
    assert ["w-2"] == after_a_while(paper, up[0])


def test_small_gang_goes_before_a_wide_one_that_has_just_saved() -> None:
    """Restart cost: what 16 GPUs hold until they work again is more than what 8 lose besides."""
    events = [joined("w0", 0, 3), placed("w-8", 8), granted(a_claim("w-16", placed={1: 8, 2: 8}))]
    events += [GangStarted(*attempt("w-16")), GangStarted(*attempt("w-8"))]
    events.append(CheckpointCommitted(*attempt("w-16"), 7))
    assert ["w-8"] == keys(found_over(a_region(*events), a_job(1, 8)))


def holding(epoch: int = 1, *, granted_at: int = 0, started_at: int = 0, saved_at: int = 0) -> Holding:
    """Eight GPUs."""
    claim = a_claim("w-1", epoch, placed={0: 8})
    return Holding(claim, granted_at, 1, started_at=started_at * SECOND, saved_at=saved_at * SECOND)


def cost(held: Holding, now: int) -> int:
    """What counts among those of one priority."""
    return eviction_cost(held, now * SECOND)[1]


def test_restart_costs_as_much_as_the_last_start() -> None:
    """GPU-seconds: since the checkpoint, and what another start would take, at least half a minute."""
    assert 8 * (60 + 30) == cost(holding(started_at=10, saved_at=40), 100)
    assert 8 * (60 + 200) == cost(holding(started_at=200, saved_at=240), 300)


def test_each_start_makes_an_eviction_dearer() -> None:
    """It doubles, so that whoever was pushed out is pushed out again only when others have so much more to lose."""
    assert [8 * 30 * 2**count for count in (0, 1, 2, 3)] == [
        cost(holding(epoch), 5) for epoch in (1, 2, 3, 4)
    ]


def test_evictions_go_round() -> None:
    """kueue#3779: of eight equal gangs one is pushed out every ten minutes and is back at once; none is it again and again.

    The newest attempt has least to lose, so by that alone one gang would be pushed out a hundred times.
    """
    held = {f"w-{number}": holding(started_at=number + 1) for number in range(8)}
    evicted: Counter[str] = Counter()
    for turn in range(1, 101):
        now = 600 * turn
        name = min(held, key=lambda name: (eviction_cost(held[name], now * SECOND), name))
        evicted[name] += 1
        epoch = held[name].claim.epoch + 1
        held[name] = holding(epoch, granted_at=now * SECOND, started_at=now + 10)
    assert 8 == len(evicted)
    assert max(evicted.values()) <= 2 * min(evicted.values())


# The paper's score.


def over(*holdings: ClaimGranted, jobs: int) -> tuple[Found, RegionImage]:
    """A workload of so many jobs, each on a node of its own over one of these."""
    image = a_region(joined("w0", 0, 6), *holdings, *(GangStarted(e.workload, e.epoch) for e in holdings))
    live = tuple(image.capacity.live())
    return Found(tuple(Spread((node,), (1,)) for node in range(jobs)), live), image


def test_papers_score_is_a_sum_that_many_jobs_can_outvote() -> None:
    """M14: by the paper's setting each job counts by itself and they are summed up; ours goes by the highest priority of all.

    So one job over somebody of priority 3 is better than four over priority 0: the order that ours turns round.
    """
    now = Instant(START + 100 * SECOND)
    one, few = over(placed("w-1", 8, priority=3), jobs=1)
    four, many = over(*(placed(f"w-{node}", 8, node=node, priority=0) for node in range(4)), jobs=4)
    scores = {
        order: (
            score(placer_of(few.capacity).pools, one, now, order)[:3],
            score(placer_of(many.capacity).pools, four, now, order)[:3],
        )
        for order in BidScore
    }
    assert scores[BidScore.VECTOR][0] > scores[BidScore.VECTOR][1]
    assert scores[BidScore.PAPER][0] < scores[BidScore.PAPER][1]


def test_papers_score_of_one_job() -> None:
    """M14: nobody is best; then the highest priority, the number, and who has run longest is rather pushed out."""
    now = Instant(START + 100 * SECOND)

    def of(*events: Event) -> int:
        image = a_region(joined(), *events)
        found = Found((Spread((0,), (1,)),), tuple(image.capacity.live()))
        return score(placer_of(image.capacity).pools, found, now, BidScore.PAPER)[0]

    old = (placed("w-1", 4), GangStarted(*attempt("w-1")))
    assert of() == 0
    assert of(*old) < of(placed("w-1", 4)), "who has run longer is rather pushed out"
    assert of(placed("w-1", 4)) < of(placed("w-1", 2), placed("w-2", 2))
    assert of(placed("w-1", 2), placed("w-2", 2)) < of(placed("w-1", 4, priority=4))


def test_victim_with_a_controller_counts_with_all_of_its_time() -> None:
    """A controller may let it run on to the deadline, and its work until then may be lost."""
    asked = a_claim("w-1", placed={0: 8})
    asked = replace(asked, control=replace(asked.control, controller="c"))
    image = a_region(joined("w0", 0, 1), granted(asked), GangStarted(*attempt("w-1")))
    at = image.capacity.holdings[WorkloadId("w-1")][1].started_at + 100 * SECOND
    image.fold(a_fact(PreemptionSet(1, PreemptionSettings(claim_max=8 * 159)), 9))
    assert Reason.DESTROYS_TOO_MUCH == found_over(image, a_job(1, 8), at=at)
    image.fold(a_fact(PreemptionSet(2, PreemptionSettings(claim_max=8 * 160)), 10))
    assert ["w-1"] == keys(found_over(image, a_job(1, 8), at=at))
    assert isinstance(joined(), NodesJoined)
