"""The rules of shared pools: what breaks them is found, and a round as it should be is not."""

import pytest
from msgspec.structs import replace

from core.events.control import ClaimRevised
from core.events.queue import (
    AttemptClosed,
    CancelRequested,
    RegionAdded,
    StandingChanged,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadHeld,
)
from core.events.region import NodesJoined, PromiseRevised, StopOrdered
from core.events.sharing import PicksAdded, RoundBegun, SharesSet
from core.events.tenants import BudgetSet, TenantSet
from core.fact import Event
from core.images import GlobalImage, RegionImage
from core.invariants import sharing
from core.invariants.sharing import SharedBook, check_border, check_received, check_sharing, check_targets
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import GLOBAL_LOG, DatasetName, TenantName, WorkerName, WorkloadId
from core.nouns.instant import Instant, seconds
from core.nouns.operation import TaskMove
from core.nouns.placement import Claim
from core.nouns.sharing import ISOLATED, ROUND_SPAN, WHOLE, ClassShares, PoolShares, ShareColumn, ShareSpec
from core.nouns.tenant import Budget
from core.nouns.workload import EndCause, Kind, Phase, WorkloadSpec
from tests.builders import (
    EU,
    NODE,
    START,
    US,
    a_claim,
    a_fact,
    a_job,
    a_queue,
    a_region,
    a_spec,
    a_spread,
    attempt,
    granted,
    joined,
    of_types,
    promised,
    submitted,
)

W1, W2, W3 = WorkloadId("w-1"), WorkloadId("w-2"), WorkloadId("w-3")
V100, K80 = ShareColumn(EU, "V100"), ShareColumn(EU, "K80")
COLUMNS = (V100, K80)
ONE, TWO = "m x1 on V100|K80 of default", "m x2 in 2 on V100|K80 of default"
SPAN = ROUND_SPAN // seconds(1)
SUBMITTED_IN = START // ROUND_SPAN
"""The round in which all facts here are."""


def shared(tasks: int = 1, *types: str, tenant: str = "default") -> WorkloadSpec:
    """A job of a shared pool, with so many tasks of one GPU."""
    spec = a_spec(of_types(a_job(tasks, 1), *(types or ("V100", "K80"))), kind=Kind.SHARED, tenant=tenant)
    return replace(spec, share=ShareSpec("m"))


def shares(
    *classes: ClassShares, gpus: tuple[int, ...] = (1, 2), changes: int = -1, by: str = "highs"
) -> SharesSet:
    """The newest shares, of one V100 and two K80 in eu."""
    return SharesSet(PoolShares(1, COLUMNS, gpus, classes, by, changes), policy="max_min")


def a_round(number: int, *, leaves: tuple[WorkloadId, ...] = (), **joins: int) -> RoundBegun:
    """Round `number` after the submissions, with the place of the column of each that joins: `w_1=0` for V100."""
    picked = {WorkloadId(name.replace("_", "-")): place for name, place in joins.items()}
    return RoundBegun(SUBMITTED_IN + number, COLUMNS, picked, leaves, seconds(60))


ISOLATED_SHARES = shares(
    ClassShares(ONE, ((0, WHOLE // 2), (1, WHOLE // 2))), ClassShares(TWO, ((1, WHOLE),)), by=ISOLATED
)
THREE = (
    RegionAdded(EU),
    submitted(1, shared()),
    submitted(2, shared()),
    submitted(3, shared(2)),
    ISOLATED_SHARES,
)
"""Two jobs of one GPU, and one of two."""
FIRST = (*THREE, a_round(1, w_1=0, w_3=1))
"""A V100 for the first, both K80 for the third."""


def told(*history: Event) -> list[str]:
    """What is wrong with the last of these."""
    return check_sharing(a_fact(history[-1], len(history), log=GLOBAL_LOG), a_queue(*history[:-1]))


def test_round_as_it_should_be() -> None:
    """Jobs join, leave, change columns and stay, and idle GPUs are given out."""
    assert [] == told(*FIRST)
    assert [] == told(*FIRST, a_round(2, leaves=(W1,), w_2=0))
    assert [] == told(*FIRST, a_round(2, leaves=(W1, W3), w_1=1, w_2=0))
    assert [] == told(*FIRST, a_round(2))
    assert [] == told(*THREE, a_round(1, w_3=1), PicksAdded(COLUMNS, {W1: 0}))


# Shares.


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (shares(ClassShares(ONE, ((0, -1),))), f"{ONE}: owed -1 millionths of its time in eu/V100"),
        (shares(ClassShares(ONE, ((0, WHOLE), (1, 1)))), f"{ONE}: owed 1000001 millionths of its time"),
        (shares(ClassShares("w-1", ((0, WHOLE + 1),))), "w-1: owed 1000001 millionths of its time"),
        (
            shares(ClassShares(ONE, ((0, WHOLE),)), changes=3),
            "eu/V100: 2 GPUs are owed, and it has 1",
        ),
        (
            shares(ClassShares("w-1", ((0, WHOLE),)), ClassShares("w-2", ((0, 20),)), changes=3),
            "eu/V100: 1.00002 GPUs are owed, and it has 1",
        ),
    ],
)
def test_shares_that_cannot_be(event: SharesSet, text: str) -> None:
    """Less than none, more than all of a job's time, or more than a column has: of a class, or of one job."""
    assert [text] == told(*THREE, event)


def test_shares_as_they_may_be() -> None:
    """All that there is; more than that for jobs that came since, and by the queue itself, which leaves out who is on hold."""
    whole = ClassShares(ONE, ((0, WHOLE // 2), (1, WHOLE // 2)))
    assert [] == told(*THREE, shares(whole, changes=3))
    more = ClassShares(ONE, ((0, WHOLE),))
    assert [] == told(*THREE, shares(more, changes=2))
    assert [] == told(*THREE, shares(more, changes=3, by=ISOLATED))
    assert [] == told(*THREE, shares(ClassShares("of a class that is gone", ((0, WHOLE),)), changes=3))


def test_shares_are_for_jobs_that_do_not_rest() -> None:
    """Of two like jobs one is on hold: the other may have the whole column, and both together no more than that."""
    rests = replace(a_round(2, leaves=(W1,), w_2=0), rests=(W1,))
    history = (*FIRST, WorkloadHeld(W1, 1), rests)
    changes = a_queue(*history).sharing.changes
    whole = ClassShares(ONE, ((0, WHOLE),))
    assert [] == told(*history, shares(whole, changes=changes))
    resumes = replace(a_round(3), resumes=(W1,))
    assert ["eu/V100: 2 GPUs are owed, and it has 1"] == told(
        *history, resumes, shares(whole, changes=changes + 1)
    )


def test_share_in_a_column_that_will_not_do() -> None:
    """A job names the types that will do; a share of nothing elsewhere is none."""
    name = "m x1 on K80 of default"
    job = submitted(1, shared(1, "K80"))
    assert [f"{name}: owed time in eu/V100, which it may not use"] == told(
        job, shares(ClassShares(name, ((0, 5),)))
    )
    assert [] == told(job, shares(ClassShares(name, ((0, 0), (1, 5)))))


# Rounds.


@pytest.mark.parametrize(
    ("begun", "text"),
    [
        (a_round(1), "round 3 begins after round 3"),
        (a_round(2, leaves=(W2,)), "w-2: told to leave, and it has no pick"),
        (a_round(2, leaves=(W1, W1), w_2=0), "w-1: told to leave, and it has no pick"),
        (a_round(2, leaves=(W1,), w_1=0), "w-1: told to leave eu/V100, for which it is picked again"),
        (a_round(2, leaves=(W1,)), "w-1: told to leave eu/V100, which has 1 GPUs left"),
        (a_round(2, w_2=0), "eu/V100: picks for 2 GPUs, and it has 1"),
        (a_round(2, leaves=(W1,), w_2=0, w_1=1), "eu/K80: picks for 3 GPUs, and it has 2"),
        (a_round(2, leaves=(W3,), w_1=1), "w-1: picked for eu/K80, and for eu/V100"),
        (a_round(2, w_9=0), "w-9: picked for eu/V100, and it is no job of a shared pool"),
    ],
)
def test_round_that_cannot_be(begun: RoundBegun, text: str) -> None:
    """Out of turn, without need, or with a pick too many."""
    assert text in told(*FIRST, begun)


def test_who_leaves_may_make_room_for_jobs_that_join_in_further_facts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A round in which as many join as one fact holds is not all: one GPU more is taken behind it."""
    history = (*FIRST, a_round(2, leaves=(W1, W3), w_2=1))
    needless = "w-1: told to leave eu/V100, which has 1 GPUs left"
    assert needless in told(*history)
    monkeypatch.setattr(sharing, "ROUND_JOINS_MAX", 1)
    assert [] == told(*history)


def test_jobs_rest_and_resume() -> None:
    """Only if they have no pick and something keeps them from running, and one after the other."""
    rests = replace(a_round(2, leaves=(W1,)), rests=(W1,))
    held = (*FIRST, WorkloadHeld(W1, 1))
    assert [] == told(*held, rests)
    assert ["w-1: rests from now on, and is picked for eu/V100"] == told(*held, replace(rests, leaves=()))
    assert [] == told(*held, rests, replace(a_round(3), resumes=(W1,)))
    again = ["w-1: rests from now on, and it is no job that is owed shares"]
    assert again == told(*held, rests, replace(a_round(3), rests=(W1,)))
    free = ["w-2: rests from now on, and nothing keeps it from running"]
    assert free == told(*held, replace(a_round(2), rests=(W2,)))
    assert ["w-2: resumes, and it is no job that rests"] == told(*FIRST, replace(a_round(2), resumes=(W2,)))
    gone = ["w-9: rests from now on, and it is no job that is owed shares"]
    assert gone == told(*FIRST, replace(a_round(2), rests=(WorkloadId("w-9"),)))


def test_picks_within_a_round_that_cannot_be() -> None:
    """For a job that has a pick, for more GPUs than are idle, and in a column that will not do; what was too much before is not told."""
    assert "w-1: picked for eu/K80, and for eu/V100" in told(*FIRST, PicksAdded(COLUMNS, {W1: 1}))
    assert ["eu/V100: picks for 2 GPUs, and it has 1"] == told(*FIRST, PicksAdded(COLUMNS, {W2: 0}))
    fewer = shares(gpus=(0, 3))
    assert [] == told(*FIRST, fewer, PicksAdded(COLUMNS, {W2: 1}))
    other = submitted(4, shared(1, "K80"))
    assert ["w-4: picked for eu/V100, which it may not use"] == told(
        *THREE, other, PicksAdded(COLUMNS, {WorkloadId("w-4"): 0})
    )


def test_column_that_was_not_told_is_not_checked() -> None:
    """Nodes of a type have joined since the shares: how many GPUs there are the log does not say."""
    column = ShareColumn(EU, "P100")
    assert [] == told(
        submitted(1, shared(4, "P100")), RoundBegun(SUBMITTED_IN + 1, (column,), {W1: 0}, (), seconds(60))
    )


@pytest.mark.parametrize(
    ("spec", "since"),
    [
        pytest.param(shared(), (CancelRequested(W1),), id="to be cancelled"),
        pytest.param(replace(shared(), data=(DatasetName("clicks"),)), (), id="reads data"),
        pytest.param(
            shared(tenant="ml"),
            (TenantSet(TenantName("ml"), 1), BudgetSet(TenantName("ml"), 2, Budget(1, seconds(60)))),
            id="of a budget",
        ),
    ],
)
def test_job_that_may_have_to_leave(spec: WorkloadSpec, since: tuple[Event, ...]) -> None:
    """Though its column has room: what says that it must is not in the round."""
    before = (submitted(1, spec), *since, ISOLATED_SHARES, a_round(1, w_1=0))
    assert [] == told(*before, a_round(2, leaves=(W1,)))


def test_job_leaves_a_column_that_is_gone() -> None:
    """Its region is silent or was given up: the round knows the column no more."""
    begun = RoundBegun(SUBMITTED_IN + 2, (K80,), {}, (W1,), seconds(60))
    assert [] == told(submitted(1, shared()), ISOLATED_SHARES, a_round(1, w_1=0), begun)


# Targets, and time received.


def test_target_that_the_newest_shares_do_not_give() -> None:
    """Shares replace all that were there before, unless they are more of the same."""
    image = a_queue(*FIRST)
    book = SharedBook(image.sharing)
    begun = a_fact(a_round(2), 9, log=GLOBAL_LOG)
    assert [] == check_targets(begun, image, book)
    book.hear(a_fact(replace(shares(ClassShares(TWO, ())), is_more=True), 9, log=GLOBAL_LOG))
    assert [] == check_targets(begun, image, book)
    book.hear(a_fact(shares(ClassShares(TWO, ())), 9, log=GLOBAL_LOG))
    text = "a round begins with its target, and the newest shares give it none"
    assert [f"{ONE}: {text}"] == check_targets(begun, image, book)
    assert [] == check_targets(a_fact(PicksAdded(COLUMNS, {W2: 0}), 9, log=GLOBAL_LOG), image, book)


class Counting:
    """An image and its book, which follow facts at times in seconds, and what is found at each."""

    def __init__(self, *history: Event) -> None:
        """Begin after these."""
        self.image: GlobalImage = a_queue(*history)
        self.book = SharedBook(self.image.sharing)

    def hear(self, event: Event, at: float) -> list[str]:
        """Fold it."""
        fact = a_fact(event, 1, log=GLOBAL_LOG, at=Instant(START + seconds(at)))
        self.book.look(fact, self.image.sharing)
        self.image.fold(fact)
        found = check_received(fact, self.image, self.book)
        self.book.hear(fact)
        return found


AWARDED = WorkloadAwarded(W1, 1, EU, 0, (), charge={"shared/V100": 1_000})
BOUND = WorkloadBound(W1, 1, EU, 1)
OVER = AttemptClosed(W1, 1, EndCause.ROUND_OVER, Phase.PENDING, EU, 2)


def test_time_received_is_the_time_that_passed() -> None:
    """Over rounds, to the end of an attempt, and not between attempts."""
    run = Counting(*FIRST, AWARDED)
    number = (START + seconds(1000)) // ROUND_SPAN
    run.image.sharing.number = number
    steps: list[tuple[Event, float]] = [
        (BOUND, 0),
        *((a_round(number - SUBMITTED_IN + turn), turn * SPAN) for turn in range(1, 8)),
        (OVER, 7.5 * SPAN),
        (a_round(number - SUBMITTED_IN + 8), 8 * SPAN),
    ]
    for event, at in steps:
        assert [] == run.hear(event, at)
    cancelled = Counting(*FIRST)
    assert [] == cancelled.hear(WorkloadCancelled(W1), 1)
    assert W1 not in cancelled.image.sharing.lags


def test_time_received_twice() -> None:
    """Counted anew from the start of the attempt at each round, or when none runs: the lag falls by more than time can."""
    run = Counting(*FIRST, AWARDED)
    run.image.sharing.number = number = (START + seconds(1000)) // ROUND_SPAN
    run.hear(BOUND, 0)
    found: list[str] = []
    for turn in range(1, 6):
        run.image.sharing.picks[W1].counted_at = START
        found += run.hear(a_round(number - SUBMITTED_IN + turn), turn * SPAN)
    assert "w-1: its lag fell by 2000000 millionths of a round, and 1000000 have passed" in found
    run.hear(OVER, 5 * SPAN)
    run.image.sharing.picks[W1].counted_at = START + seconds(5 * SPAN)
    run.image.sharing.lags[W1] = {"eu/V100": WHOLE}
    (text,) = run.hear(replace(OVER, epoch=2), 5.5 * SPAN)
    assert "w-1: its lag fell by 500000 millionths of a round, and 0 have passed" == text


def test_lag_that_went_to_other_columns_is_not_compared() -> None:
    """Shares that leave a column take its lag elsewhere, and a lag has a bound."""
    run = Counting(*FIRST)
    run.image.sharing.lags[W1] = {"eu/V100": 5 * WHOLE, "eu/K80": 4 * WHOLE}
    run.hear(shares(ClassShares(ONE, ((1, WHOLE),))), 1)
    assert [] == run.hear(a_round(2), 2)
    assert {"eu/K80": 5 * WHOLE} == run.image.sharing.lags[W1]


# Awards.


@pytest.mark.parametrize(
    ("history", "award", "text"),
    [
        pytest.param(THREE, AWARDED, "awarded, and no round has picked it", id="not picked"),
        pytest.param(
            (*FIRST, a_round(2, leaves=(W1,), w_2=0)),
            AWARDED,
            "awarded, and no round has picked it",
            id="left",
        ),
        pytest.param(
            FIRST,
            replace(AWARDED, region=US),
            "awarded {'shared/V100': 1000} in us, and picked for eu/V100",
            id="another region",
        ),
        pytest.param(
            FIRST,
            replace(AWARDED, charge={"shared/K80": 1_000}),
            "awarded {'shared/K80': 1000} in eu, and picked for eu/V100",
            id="another type",
        ),
        pytest.param(
            (*FIRST, AWARDED, a_round(2, leaves=(W1, W3), w_1=1)),
            replace(AWARDED, epoch=2, charge={"shared/K80": 1_000}),
            "awarded again, and attempt 1, which is to leave, is not over",
            id="not over",
        ),
    ],
)
def test_award_that_no_round_asks_for(history: tuple[Event, ...], award: WorkloadAwarded, text: str) -> None:
    """Only a pick is awarded, in its column, and once its last attempt is over."""
    assert f"w-1: {text}" in told(*history, award)


def test_award_as_it_should_be() -> None:
    """Of a pick; again after the round that it left; and other work has no pick."""
    assert [] == told(*FIRST, AWARDED)
    again = (*FIRST, AWARDED, a_round(2, leaves=(W1, W3), w_1=1), OVER)
    assert [] == told(*again, replace(AWARDED, epoch=2, charge={"shared/K80": 1_000}))
    assert [] == told(submitted(4), WorkloadAwarded(WorkloadId("w-4"), 1, EU, 0, (), charge={"H100": 1_000}))
    assert [] == told(AWARDED)


def test_charge_across_the_border() -> None:
    """Quota counts no shared pool, by an award or a new standing, and a shared pool no other work."""
    text = "w-1: charged V100, and its kind is shared"
    assert text in told(*FIRST, replace(AWARDED, charge={"V100": 1_000}))
    assert text in told(*FIRST, AWARDED, StandingChanged(W1, 1, 1, TenantName("ml"), 3, {"V100": 1_000}))
    other = WorkloadAwarded(W1, 1, EU, 0, (), charge={"shared/V100": 1_000})
    assert ["w-1: charged shared/V100, and its kind is training"] == told(submitted(1), other)


# The border, in a region.


def pool_nodes() -> NodesJoined:
    """Four nodes of a shared pool, beside the four that are there."""
    group = NodeGroup(4, 4, NODE, "V100", 4, 2, pool="shared")
    return NodesJoined(WorkerName("w1"), Inventory(WorkerName("w1"), (group,)))


def of_kind(kind: Kind, workload: str, placed: dict[int, int], gpus: int = 1) -> Claim:
    """A claim of tasks of so many GPUs on these nodes."""
    job, spread = a_job(sum(placed.values()), gpus), a_spread(placed)
    return replace(a_claim(workload), jobs=(job,), spreads=(spread,), kind=kind)


def in_region(event: Event, *history: Event) -> list[tuple[int, str]]:
    """What is wrong with a fact of a region of both sorts of nodes."""
    before: RegionImage = a_region(joined(), pool_nodes(), *history)
    return check_border(a_fact(event, 9), before)


def test_border_of_the_pool() -> None:
    """Shared work is placed in the pool alone, and nothing else is placed there, by a grant, a promise or a new run of a task."""
    inside, outside = of_kind(Kind.SHARED, "w-1", {4: 2}), of_kind(Kind.TRAINING, "w-2", {0: 2})
    assert [] == in_region(granted(inside))
    assert [] == in_region(granted(outside))
    text = "work is placed on nodes of the pool"
    for made in (granted, promised):
        assert [(2, f"w-1.1: shared {text} training")] == in_region(
            made(of_kind(Kind.SHARED, "w-1", {0: 1, 4: 1}))
        )
        assert [(2, f"w-2.1: training {text} shared")] == in_region(
            made(of_kind(Kind.TRAINING, "w-2", {4: 1}))
        )
    service = granted(of_kind(Kind.SERVICE, "w-3", {0: 1}))
    moved = ClaimRevised(W3, 1, 1, (TaskMove(0, 0, 5),))
    assert [(2, f"w-3.1: service {text} shared")] == in_region(moved, service)
    assert [] == in_region(ClaimRevised(W3, 1, 1, (TaskMove(0, 0, 1),)), service)
    assert [] == in_region(ClaimRevised(W3, 1, 1, (TaskMove(0, 0, -1),)), service)


@pytest.mark.parametrize(
    ("victim", "claims", "is_across"),
    [
        (Kind.SHARED, Kind.SHARED, False),
        (Kind.SHARED, Kind.TRAINING, True),
        (Kind.TRAINING, Kind.SHARED, True),
        (Kind.TRAINING, Kind.TRAINING, False),
    ],
)
def test_preemption_across_the_border(victim: Kind, claims: Kind, *, is_across: bool) -> None:
    """Shared work makes room for shared work alone: by a promise, by one that is revised, and by the order to stop."""
    text = f"w-1.1: {victim} work is preempted for w-2, across a shared pool's border"
    wanted = [(5, text)] if is_across else []
    held = granted(of_kind(victim, "w-1", {4 if victim is Kind.SHARED else 0: 8}))
    claim = replace(
        of_kind(claims, "w-2", {4 if claims is Kind.SHARED else 0: 4}, gpus=2), victims=(attempt("w-1"),)
    )
    assert wanted == in_region(promised(claim), held)
    revised = PromiseRevised(W2, 1, (attempt("w-1"),), (0,), attempt("w-3"))
    assert wanted == in_region(revised, held, promised(claim))
    stop = StopOrdered(*attempt("w-1"), EndCause.PREEMPTED, W2)
    assert wanted == in_region(stop, held, promised(claim))
    assert [] == in_region(StopOrdered(*attempt("w-1"), EndCause.PREEMPTED), held)


@pytest.mark.parametrize(("gpus", "is_wider"), [(1, False), (2, False), (4, True)])
def test_job_of_the_pool_makes_way_for_a_wider_one_alone(gpus: int, *, is_wider: bool) -> None:
    """By what a task needs of one node, not by how many tasks there are."""
    held = granted(of_kind(Kind.SHARED, "w-1", {4: 1}, gpus=2))
    claim = replace(of_kind(Kind.SHARED, "w-2", {4: 2}, gpus=gpus), victims=(attempt("w-1"),))
    text = "w-1.1: preempted in a shared pool for w-2, which is no wider"
    assert ([] if is_wider else [(5, text)]) == in_region(promised(claim), held)
