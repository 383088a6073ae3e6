"""The auditor's rules of preemption: each breach is found, and what may be is not taken for one."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.events.control import OperationsBegun, OperationsRequested
from core.events.region import (
    AttemptEnded,
    AttemptRanked,
    ClaimPromised,
    GangStarted,
    PreemptionSet,
    PromiseRevised,
    StopOrdered,
)
from core.fact import Event
from core.images import RegionImage
from core.invariants.preemption import check_preemption_fact
from core.nouns.ids import TenantName, WorkloadId
from core.nouns.instant import SECOND
from core.nouns.operation import WHOLE, BegunBy, ControlSpec, OperationKind
from core.nouns.placement import Claim
from core.nouns.preemption import PreemptionSettings
from core.nouns.workload import EndCause, Kind
from tests.builders import a_claim, a_fact, a_region, attempt, granted, joined, opened

BY = WorkloadId("w-9")
SPAN = 60 * SECOND
STOP = StopOrdered(*attempt(), EndCause.PREEMPTED, BY)


def holder(name: str = "w-1", gpus: int = 8, node: int = 0, controller: str = "", **parts: Any) -> Claim:
    """So many GPUs of a node, under this controller."""
    claim = a_claim(name, placed={node: 1}, gpus=gpus, **parts)
    return replace(claim, control=ControlSpec(controller), tenant=TenantName("ml"))


def promised(
    *victims: str, gpus: int = 8, priority: int = 5, destroyed: tuple[int, ...] = (), span: int = SPAN
) -> ClaimPromised:
    """Somebody waits for these to end on node 0."""
    keys = tuple(attempt(victim) for victim in victims or ("w-1",))
    claim = a_claim(BY, placed={0: 1}, gpus=gpus, priority=priority, victims=keys)
    return ClaimPromised(BY, 1, claim, destroyed or (0,) * len(keys), span)


def found(event: Event, *history: Event, at: int = 0) -> list[str]:
    """What is wrong with it, so many seconds after the last of these."""
    image = a_region(joined(), *history)
    fact = a_fact(event, len(history) + 2)
    fact = replace(fact, at=fact.at + at * SECOND) if at else fact
    assert isinstance(image, RegionImage)
    return [text for rule, text in check_preemption_fact(fact, image) if rule == 5]


def one(texts: list[str], wanted: str) -> None:
    """Just this is wrong."""
    assert len(texts) == 1, texts
    assert wanted in texts[0]


# Orders to stop.


def test_victim_of_a_promise_is_told() -> None:
    """For whom it was promised to, and for nobody else."""
    assert [] == found(STOP, granted(holder()), promised())
    one(found(STOP, granted(holder())), "which has no promise over it")
    one(found(StopOrdered(*attempt(), EndCause.PREEMPTED), granted(holder())), "preempted for nobody")


def test_equal_or_interactive_is_told() -> None:
    """M17: whatever the store was told."""
    one(found(STOP, granted(holder(priority=5)), promised()), "equal or lower priority")
    one(found(STOP, granted(holder(kind=Kind.INTERACTIVE)), promised()), "it is interactive")


BEGUN = (
    OperationsRequested(
        *attempt(), 1, OperationKind.PREEMPT, (WHOLE,), "room", "p-w-9.1", SPAN, "preemption"
    ),
    OperationsBegun(*attempt(), (1,), BegunBy.ACK, "preemption"),
)


def test_victim_with_a_controller_is_told_too_soon() -> None:
    """N4: before its controller agreed, or the promise has stood for as long as is asked."""
    history = (granted(holder(controller="c")), promised())
    one(found(STOP, *history), "has not been asked for long enough")
    one(found(STOP, *history, at=58), "has not been asked for long enough")
    assert [] == found(STOP, *history, at=60)
    assert [] == found(STOP, *history, *BEGUN)


def test_operators_own_needs_no_promise() -> None:
    """It has begun, by consent or at its deadline; interactive work never."""
    asked = replace(BEGUN[0], source="", requester="operator:olga")
    stop = StopOrdered(*attempt(), EndCause.PREEMPTED)
    assert [] == found(stop, granted(holder()), asked, BEGUN[1])
    one(found(stop, granted(holder(kind=Kind.INTERACTIVE)), asked, BEGUN[1]), "it is interactive")


# Promises.


def test_promise_over_a_victim_that_it_does_not_need() -> None:
    """It would fit without one of them; where that one's end is needed, it would not."""
    halves = [granted(holder("w-1", 4)), granted(holder("w-2", 4))]
    assert [] == found(promised("w-1", "w-2"), *halves)
    two = found(promised("w-1", "w-2", gpus=4), *halves)
    assert 2 == len([text for text in two if "fits without its end" in text]), two
    one(
        found(promised("w-1", "w-3"), granted(holder()), granted(holder("w-3", node=2))),
        "w-3.1, and fits without",
    )


def test_promise_over_its_better() -> None:
    """M17: or over somebody interactive, or gone."""
    one(found(promised(), granted(holder(priority=5))), "not of lower priority")
    one(found(promised(), granted(holder(kind=Kind.INTERACTIVE))), "not of lower priority")
    one(found(promised("w-7")), "which holds nothing")


def test_promise_with_too_few_figures_of_lost_work() -> None:
    """One for each victim."""
    halves = [granted(holder("w-1", 4)), granted(holder("w-2", 4))]
    one(found(promised("w-1", "w-2", destroyed=(0,)), *halves), "1 figures of 2 victims")


def test_promise_without_figures_of_lost_work() -> None:
    """It would be held to no cap, and so would all others of the hour."""
    event = replace(promised(destroyed=(1,)), destroyed=())
    one(found(event, opened(), granted(holder())), "0 figures of 1 victims")
    assert [] == found(replace(event, claim=replace(event.claim, victims=())), opened())


RUNNING = (granted(holder()), GangStarted(*attempt()))


def test_promise_with_a_wrong_figure_of_lost_work() -> None:
    """N8: what a victim has to lose now is the least, and what it has at the deadline the most."""
    assert [] == found(promised(destroyed=(8 * 100,)), *RUNNING, at=99)
    assert [] == found(promised(destroyed=(8 * 160,)), *RUNNING, at=99)
    one(found(promised(destroyed=(8 * 99,)), *RUNNING, at=99), "has from 800 to 1280 to lose")
    one(found(promised(destroyed=(8 * 161,)), *RUNNING, at=99), "has from 800 to 1280 to lose")


def test_promise_beyond_its_caps() -> None:
    """N8: of one claim, and of the hour with what is pledged and spent already."""
    claim_cap = PreemptionSet(1, PreemptionSettings(claim_max=800))
    assert [] == found(promised(destroyed=(800,)), claim_cap, *RUNNING, at=99)
    one(found(promised(destroyed=(808,)), claim_cap, *RUNNING, at=100), "800 is the most for one claim")
    hour_cap = PreemptionSet(1, PreemptionSettings(hour_max=900))
    other = replace(promised("w-2", destroyed=(101,)), workload=WorkloadId("w-8"))
    more = (granted(holder("w-2", node=1)), other)
    one(found(promised(destroyed=(800,)), hour_cap, *RUNNING, *more, at=97), "900 is the most")


def test_promises_of_older_builds_are_not_held_to_it() -> None:
    """They told nothing of what they destroy, nor how long victims are asked."""
    event = replace(promised(destroyed=(1,)), destroyed=(), ask_span=0)
    assert [] == found(event, granted(holder(priority=6)))


# Revised.

HALVES = (granted(holder("w-1", 4, controller="c")), granted(holder("w-2", 4)), promised(gpus=4))


def revised(*victims: str, spared: str = "w-1", destroyed: tuple[int, ...] = (0,)) -> PromiseRevised:
    """It waits for these instead."""
    return PromiseRevised(BY, 1, tuple(map(attempt, victims)), destroyed, attempt(spared))


def test_promise_is_revised() -> None:
    """One for one, of the same tenant, once."""
    assert [] == found(revised("w-2"), *HALVES)
    one(found(revised("w-2"), *HALVES[:2]), "its promise is revised, and there is none")
    one(found(revised("w-1"), *HALVES), "in the place of")
    one(found(revised("w-2", spared="w-2"), *HALVES), "in the place of")
    one(found(revised("w-2", destroyed=()), *HALVES), "0 figures of 1 victims")


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        (replace(holder("w-2", 4), tenant=TenantName("web")), "not for w-1 to give"),
        (holder("w-2", 4, priority=4), "of higher priority than w-1"),
    ],
)
def test_promise_revised_to_an_impossible_substitute(other: Claim, wanted: str) -> None:
    """It is another tenant's, or of a higher level."""
    one(found(revised("w-2"), HALVES[0], granted(other), HALVES[2]), wanted)


def test_victim_offers_only_one_substitute() -> None:
    """It offers no second one for another promise either."""
    back = PromiseRevised(BY, 1, (attempt("w-1"),), (0,), attempt("w-2"))
    one(found(revised("w-2"), *HALVES, revised("w-2"), back), "for the second time")


def test_victim_is_exchanged_for_one_alone() -> None:
    """Two in its place are too many; and none in its place needs no other victim's tenant or capacity."""
    third = granted(holder("w-3", 4, node=1))
    assert "are promised in the place of" in found(revised("w-2", "w-3", destroyed=(0, 0)), *HALVES, third)[0]
    both = promised("w-1", "w-2")
    one(found(revised("w-2", spared="w-3"), *HALVES[:2], both, third), "in the place of")
    one(found(revised("w-2", spared="w-7"), *HALVES[:2], both), "in the place of")


def test_substitute_comes_too_late() -> None:
    """The victim is told to stop already, or its deadline has passed."""
    one(found(revised("w-2"), *HALVES, replace(STOP, workload=WorkloadId("w-1"))), "it is too late for that")
    one(found(revised("w-2"), *HALVES, at=60), "it is too late for that")
    assert [] == found(revised("w-2"), *HALVES, at=58)


def test_substitute_that_makes_no_room() -> None:
    """It is elsewhere; or it frees enough alone, and another victim is needed no more beside it."""
    full = (HALVES[0], granted(holder("w-3", 4)))
    one(
        found(revised("w-2"), *full, granted(holder("w-2", 4, node=1)), HALVES[2]), "w-2 makes no room for it"
    )
    quarters = (granted(holder("w-1", 2)), granted(holder("w-4", 2)), granted(holder("w-2", 4)))
    texts = found(revised("w-4", "w-2", destroyed=(0, 0)), *quarters, promised("w-1", "w-4", gpus=4))
    one(texts, "w-4.1, and fits without its end")


def test_substitute_that_holds_nothing() -> None:
    """It has ended, or is on its way out."""
    gone = found(revised("w-7"), *HALVES)
    assert [text for text in gone if "w-7.1, which is not for w-1 to give" in text]
    ending = found(revised("w-2"), *HALVES, StopOrdered(*attempt("w-2"), EndCause.CANCELLED))
    assert [text for text in ending if "w-2.1, which is not for w-1 to give" in text]


def test_revision_beyond_its_cap() -> None:
    """N8."""
    settings = PreemptionSet(1, PreemptionSettings(claim_max=10))
    one(found(revised("w-2", destroyed=(11,)), settings, *HALVES), "10 is the most for one claim")


# Ends.


def test_end_that_tells_of_more_than_it_had() -> None:
    """N8: what was not saved when it was told to stop is the most."""
    history = (*RUNNING, promised(destroyed=(8,)), STOP)
    assert [] == found(AttemptEnded(*attempt(), EndCause.PREEMPTED, destroyed=16), *history)
    one(found(AttemptEnded(*attempt(), EndCause.PREEMPTED, destroyed=17), *history), "it had 16 to lose")
    one(found(AttemptEnded(*attempt(), EndCause.COMPLETED, destroyed=1), *RUNNING), "it had 0 to lose")
    one(
        found(AttemptEnded(*attempt(), EndCause.PREEMPTED, destroyed=-1), *history),
        "-1 GPU-seconds are destroyed",
    )


# Levels.


def test_level_is_told_to_an_attempt_that_has_another() -> None:
    """By the newest standing alone, while the attempt runs, and not while it is the victim of a promise."""
    first = AttemptRanked(*attempt(), 1, 2)
    assert [] == found(first, granted(holder()))
    assert [] == found(AttemptRanked(*attempt(), 2, 4), granted(holder()), first)
    text = "which is not its next"
    one(found(first, granted(holder()), first), text)
    one(found(first), text)
    one(found(first, granted(holder()), AttemptEnded(*attempt(), EndCause.COMPLETED)), text)
    one(found(first, granted(holder()), promised()), "gets level 2 while it is promised to w-9")
    assert [] == found(
        AttemptRanked(*attempt("w-2"), 1, 2), granted(holder()), granted(holder("w-2", 4, 1)), promised()
    )
