"""Claims that should never have been made: each is refused with a reason, and leaves nothing behind."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from core.events.region import AwardDeclined
from core.invariants.consistency import check_ledger
from core.messages.agents import ClaimAnswered
from core.messages.nodes import DrainNodes
from core.messages.store import DeclineAward, RecordLoss
from core.nouns.ids import WorkerName
from core.nouns.limits import CONFLICT_NODES_MAX
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.placement import Claim, Spread
from core.nouns.reasons import SENTENCES, Reason
from tests.builders import EU, EU_LOG, US, a_claim, a_job, a_spread, attempt
from tests.components.allocation_agent.test_bids_and_claims import A0, an_agent, an_award, claimed
from tests.components.allocation_agent.test_bids_and_claims import place as hand
from tests.components.support.machine import Machine
from tests.components.support.placement_store import (
    W1,
    Start,
    a_store,
    answer,
    award,
    claim,
    close,
    end,
    give_back,
    place,
    refusal,
    verdict,
)
from tests.matching import facts

Make = Callable[[Machine[Any]], Claim]


def standing(**parts: Any) -> Make:  # Any: parts of a claim
    """One whose award stands."""
    return lambda machine: a_claim(award_sequence=award(machine), view_sequence=2, **parts)


def changed(**parts: Any) -> Make:  # Any: parts of a claim
    """The same, with this written over it."""
    return lambda machine: replace(standing()(machine), **parts)


def drained(machine: Machine[Any]) -> Claim:
    """Its node is to be empty."""
    machine.hear(DrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), "", 0))
    return standing()(machine)


def lost(machine: Machine[Any]) -> Claim:
    """Its node is lost."""
    machine.hear(RecordLoss(EU, WorkerName("w0"), machine.sequence(EU_LOG)))
    return standing()(machine)


def of_an_older_epoch(machine: Machine[Any]) -> Claim:
    """The attempt that it is for was given up, and the next was awarded."""
    first = award(machine)
    give_back(machine)
    award(machine, epoch=2)
    return a_claim(award_sequence=first)


def of_an_attempt_that_ended(machine: Machine[Any]) -> Claim:
    """It comes when all is over."""
    made = place(machine)
    end(machine)
    close(machine)
    return made


REFUSED: dict[str, tuple[Make, Reason]] = {
    "a node that does not exist": (standing(placed={99: 1}), Reason.UNKNOWN_NODE),
    "a node before the first": (standing(placed={-1: 1}), Reason.UNKNOWN_NODE),
    "more than its node has": (standing(placed={0: 9}), Reason.NODE_TOO_SMALL),
    "more memory than its node has": (
        changed(jobs=(a_job(1, 1, gib=4_096),)),
        Reason.TASK_TOO_LARGE,
    ),
    "a task larger than its node": (standing(gpus=9), Reason.TASK_TOO_LARGE),
    "a stale epoch": (of_an_older_epoch, Reason.AWARD_NOT_STANDING),
    "an attempt that ended": (of_an_attempt_that_ended, Reason.SUPERSEDED),
    "an award that was never made": (lambda machine: a_claim(award_sequence=2), Reason.AWARD_NOT_STANDING),
    "another region": (changed(region=US), Reason.BAD_CLAIM),
    "another revision": (changed(revision=1), Reason.BAD_CLAIM),
    "fewer tasks than its job has": (changed(jobs=(a_job(2),)), Reason.BAD_CLAIM),
    "no job": (changed(jobs=(), spreads=()), Reason.BAD_CLAIM),
    "a node twice": (changed(jobs=(a_job(2),), spreads=(Spread((0, 0), (1, 1)),)), Reason.BAD_CLAIM),
    "a negative count": (changed(spreads=(Spread((0, 1), (2, -1)),)), Reason.BAD_CLAIM),
    "hardware of another type": (changed(jobs=(a_job(gpu_type="A100"),)), Reason.WRONG_GPU_TYPE),
    "a victim twice": (changed(victims=(attempt("w-9"), attempt("w-9"))), Reason.BAD_CLAIM),
}


def left(machine: Machine[Any]) -> tuple[object, ...]:
    """All that a claim could leave behind."""
    state = machine.state
    return (
        state.image.digest(),
        dict(state.waiting),
        dict(state.superseded),
        dict(state.disputes.by_node),
        state.ready_at,
    )


@pytest.mark.parametrize(("make", "reason"), REFUSED.values(), ids=REFUSED)
def test_claim_is_refused_with_a_reason(start: Start, make: Make, reason: Reason) -> None:
    """N6: nothing is recorded of it, nothing is held, and a line tells operators who claimed what, and why it was refused."""
    machine = a_store(start)
    made = make(machine)
    before = left(machine)
    decision = claim(machine, made)
    assert ([], ("refused", reason)) == (facts(decision), refusal(decision))
    assert before == left(machine)
    told = answer(decision).refusal
    assert (made.claim, reason, made.workload) == (told["claim"], told["reason"], told["workload"])
    assert reason in SENTENCES


@pytest.mark.parametrize("make", [drained, lost])
def test_claim_for_a_node_that_is_closed(start: Start, make: Make) -> None:
    """P5: a conflict, because another node may do; its reason says what is wrong with this one."""
    machine = a_store(start)
    made = make(machine)
    before = machine.state.image.digest()
    decision = claim(machine, made)
    assert ([], ("conflict", Reason.NODE_CLOSED)) == (facts(decision), refusal(decision))
    assert [False] == [row.is_open for row in answer(decision).rows]
    assert before == machine.state.image.digest()
    assert {} == answer(decision).refusal


def test_claim_that_comes_twice(start: Start) -> None:
    """L5: is one grant, and holds its room once."""
    machine = a_store(start)
    made = place(machine)
    before = left(machine)
    for _ in range(2):
        decision = claim(machine, made)
        assert ([], "granted") == (facts(decision), verdict(decision))
    assert before == left(machine)
    assert [] == check_ledger(machine.state.image.capacity)


def test_award_declined_over_very_many_nodes(start: Start) -> None:
    """L8: the fact names the first of them, however many the agent names."""
    machine = a_store(start)
    told = DeclineAward(
        EU, W1, 1, award(machine), Reason.CONFLICTS_EXHAUSTED, 10, Reason.CONFLICT, tuple(range(1_000))
    )
    (declined,) = facts(machine.hear(told))
    assert isinstance(declined, AwardDeclined)
    assert tuple(range(CONFLICT_NODES_MAX)) == declined.nodes


@pytest.mark.parametrize(
    "reason", [Reason.UNKNOWN_NODE, Reason.NODE_TOO_SMALL, Reason.BAD_CLAIM, Reason.WRONG_GPU_TYPE]
)
def test_award_of_a_bad_claim_is_declined(start: Start, reason: Reason) -> None:
    """L8: where the award stands its agent declines it with the store's reason, which the region's log keeps; neither of them counts
    anything as taken afterwards, and the next award is served.
    """
    agent, store = an_agent(start), a_store(start)
    award(store)
    made = claimed(hand(agent, an_award("w-1", 1, a_job(1), spreads=(a_spread({1: 1}),))))
    decision = agent.hear(ClaimAnswered(EU, A0, W1, 1, made.claim, "refused", reason))
    (back,) = decision.messages
    (declined,) = facts(store.hear(replace(back, award_sequence=3)))
    assert isinstance(declined, AwardDeclined)
    assert (reason, 1) == (declined.reason, declined.tries)
    assert () == agent.state.overlay.keys()
    assert {} == agent.state.claims
    assert "granted" == verdict(claim(store, a_claim("w-2", award_sequence=award(store, "w-2"))))
    assert [] == check_ledger(store.state.image.capacity)
