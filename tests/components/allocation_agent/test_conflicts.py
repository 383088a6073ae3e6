"""What an agent does when a claim of its meets a conflict: what it learns, how it tries again, and when it gives up."""

from core.component import NOTHING
from core.events.region import AttemptEnded, AwardDeclined
from core.messages.queue import Bid
from core.messages.store import DeclineAward, SubmitClaim
from core.nouns.instant import Nanoseconds
from core.nouns.limits import (
    CLAIM_SAY_AGAIN,
    CLAIM_SPAN,
    CLAIM_TRIES_MAX,
)
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause
from tests.builders import (
    EU,
    EU_LOG,
    a_claim,
    a_job,
    a_spread,
    attempt,
    granted,
    joined,
    promised,
)
from tests.components.allocation_agent.test_bids_and_claims import (
    Start,
    an_agent,
    an_award,
    answer,
    ask,
    bid_on,
    claimed,
    conflict,
    full,
    place,
    places,
    settle,
    vacant,
)
from tests.matching import said

# Conflicts.


def test_conflict_is_tried_elsewhere(start: Start) -> None:
    """M22, L3: once the log has told what took its place; the next try has an id of its own."""
    machine = an_agent(start)
    first = claimed(place(machine, an_award("w-1", 1, a_job(1, 8), spreads=(a_spread({0: 1}),))))
    again = claimed(conflict(machine, first, granted(a_claim("w-9", placed={0: 8})), rows=(full(0),)))
    assert [{1: 1}] == places(again.spreads)
    assert machine.sequence(EU_LOG) == again.view.sequence
    assert {0: False} == {row.node: row.free.gpu_milli > 0 for row in again.view.learnt if row.node == 0}
    assert first.claim != again.claim
    assert (first.workload, first.epoch, first.award_sequence) == (
        again.workload,
        again.epoch,
        again.award_sequence,
    )


def test_conflict_when_only_a_part_was_taken(start: Start) -> None:
    """What is left is used."""
    machine = an_agent(start, joined("w0", 0, 1))
    first = claimed(place(machine, an_award("w-1", 1, a_job(2, 2))))
    again = claimed(conflict(machine, first, granted(a_claim("w-9", placed={0: 4}))))
    assert [{0: 2}] == places(again.spreads)


def test_conflict_without_other_capacity(start: Start) -> None:
    """L8: the agent declines the award, and names the nodes on which another claim took the capacity."""
    machine = an_agent(start, joined("w0", 0, 1))
    first = claimed(place(machine, an_award("w-1", 1, a_job(1, 8))))
    decision = conflict(machine, first, granted(a_claim("w-9", placed={0: 8})), rows=(full(0),))
    given_back = DeclineAward(EU, *attempt(), 7, Reason.NO_CAPACITY, 1, Reason.CONFLICT, (0,))
    assert (given_back,) == decision.messages


def test_conflict_over_a_victim_that_was_promised_to_another(start: Start) -> None:
    """No row changed, so none is answered: an agent that did not wait for the log would claim the same ten times."""
    machine = an_agent(
        start,
        joined("w0", 0, 2),
        granted(a_claim("w-8", placed={0: 8})),
        granted(a_claim("w-9", placed={1: 8})),
    )
    first = claimed(place(machine, an_award("w-1", 1, a_job(1, 8), priority=9)))
    other = attempt({0: "w-8", 1: "w-9"}[first.spreads[0].nodes[0]])
    taken = promised(a_claim("w-7", placed={first.spreads[0].nodes[0]: 8}, victims=(other,), priority=9))
    again = claimed(conflict(machine, first, taken))
    assert first.spreads != again.spreads
    assert other not in again.victims


def test_conflict_that_the_log_does_not_tell_yet(start: Start) -> None:
    """L3: the claim is said again meanwhile, in case that what took its place has gone; that is no new try. Met by newer facts it
    waits for no more of them than before: a view that lags would never reach what each repeat puts off.
    """
    machine = an_agent(start)
    first = claimed(place(machine, an_award("w-1", 1, a_job(1, 8), spreads=(a_spread({0: 1}),))))
    answer(machine, first, "conflict", Reason.CONFLICT, rows=(full(0),), sequence=2)
    assert first == claimed(machine.wait(CLAIM_SAY_AGAIN))
    answer(machine, first, "conflict", Reason.CONFLICT, rows=(full(0),), sequence=3)
    assert [] == said(machine.wake(), SubmitClaim)
    machine.fact(EU_LOG, granted(a_claim("w-9", placed={0: 8})))
    again = claimed(machine.wake())
    assert (f"{first.claim[:-1]}2", [{1: 1}]) == (again.claim, places(again.spreads))


def test_conflicts_of_several_claims_are_tried_elsewhere_apart(start: Start) -> None:
    """Each of the next tries counts the others as taken."""
    machine = an_agent(start, joined("w0", 0, 3))
    spreads = (a_spread({0: 1}),)
    claims = [
        claimed(place(machine, an_award(name, 1, a_job(1, 8), spreads=spreads))) for name in ("w-1", "w-2")
    ]
    for claim in claims:
        answer(machine, claim, "conflict", Reason.CONFLICT, rows=(full(0),), sequence=2)
    machine.fact(EU_LOG, granted(a_claim("w-9", placed={0: 8})))
    again = said(machine.wake(), SubmitClaim)
    assert [[{1: 1}], [{2: 1}]] == [places(submitted.claim.spreads) for submitted in again]


def test_conflicts_have_an_end(start: Start) -> None:
    """T6, P19, L8: after so many tries, each under another id, the award is given back, with what the last conflict was about."""
    machine = an_agent(start)
    claim = claimed(place(machine, an_award("w-1", 1, a_job(1, 1))))
    ids = [claim.claim]
    for _ in range(CLAIM_TRIES_MAX - 1):
        claim = claimed(conflict(machine, claim, AwardDeclined(*attempt("w-7"), "", 1)))
        ids.append(claim.claim)
    assert CLAIM_TRIES_MAX == len(set(ids))
    rows, sequence = (full(0), full(1)), machine.sequence(EU_LOG) + 1
    decision = answer(machine, claim, "conflict", Reason.RESERVED, rows=rows, sequence=sequence)
    given_back = DeclineAward(
        EU, *attempt(), 7, Reason.CONFLICTS_EXHAUSTED, CLAIM_TRIES_MAX, Reason.RESERVED, (0, 1)
    )
    assert (given_back,) == decision.messages
    assert NOTHING == answer(machine, claim, "conflict", Reason.RESERVED, rows=rows, sequence=sequence)


def test_conflicts_end_in_time(start: Start) -> None:
    """L8: however few the tries were, a conflict that comes long after the first of them is the last."""
    machine = an_agent(start)
    claim = claimed(place(machine, an_award("w-1", 1, a_job(1, 1))))
    machine.wait(Nanoseconds(CLAIM_SPAN // 2))
    claim = claimed(conflict(machine, claim, AwardDeclined(*attempt("w-7"), "", 1)))
    machine.wait(Nanoseconds(CLAIM_SPAN // 2))
    decision = answer(machine, claim, "conflict", Reason.CONFLICT, rows=(full(1),), sequence=9)
    given_back = DeclineAward(EU, *attempt(), 7, Reason.CONFLICTS_EXHAUSTED, 2, Reason.CONFLICT, (1,))
    assert (given_back,) == decision.messages


def test_late_answer_to_an_earlier_try(start: Start) -> None:
    """It answers a claim that is settled: the newest try is what counts."""
    machine = an_agent(start)
    first = claimed(place(machine, an_award("w-1", 1, a_job(1, 8))))
    second = claimed(conflict(machine, first, granted(a_claim("w-9", placed={0: 8}))))
    for verdict in ("conflict", "refused", "granted"):
        assert NOTHING == answer(machine, first, verdict, Reason.BAD_CLAIM)
    assert second == claimed(machine.wait(CLAIM_SAY_AGAIN))


def test_answer_to_an_unknown_claim(start: Start) -> None:
    """The answer was meant for the agent that was here before."""
    assert NOTHING == answer(an_agent(start), a_claim(), "conflict", Reason.CONFLICT)


def test_learnt_row_is_believed_until_the_log_passes_it(start: Start) -> None:
    """P20: from then on the log itself has told."""
    machine = an_agent(start)
    first = claimed(place(machine, an_award("w-1", 1, a_job(1, 8), spreads=(a_spread({0: 1}),))))
    answer(machine, first, "conflict", Reason.CONFLICT, rows=(full(0),), sequence=3)
    answer(machine, first, "refused", Reason.SUPERSEDED)
    assert [{1: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-2"))
    settle(machine, "w-2", has_won=False)
    machine.fact(EU_LOG, granted(a_claim("w-9", placed={0: 2})))
    assert [{1: 1}] == bid_on(ask(machine, a_job(1, 6), workload="w-3"))
    settle(machine, "w-3", has_won=False)
    machine.fact(EU_LOG, AwardDeclined(*attempt("w-7"), "", 1))
    assert [{0: 1}] == bid_on(ask(machine, a_job(1, 6), workload="w-4"))


def test_older_row_does_not_replace_a_newer_one(start: Start) -> None:
    """P20: answers overtake each other: of two rows of a node the one of the later sequence counts, whichever comes first."""
    machine = an_agent(start)
    spreads = (a_spread({0: 1}),)
    claims = [
        claimed(place(machine, an_award(name, 1, a_job(1, 2), spreads=spreads)))
        for name in ("w-1", "w-2", "w-3")
    ]
    found = []
    for claim, row, sequence in zip(claims, (full(0), vacant(0), vacant(0)), (5, 4, 6), strict=True):
        answer(machine, claim, "conflict", Reason.CONFLICT, rows=(row,), sequence=sequence)
        answer(machine, claim, "refused", Reason.SUPERSEDED)
        found.append(said(ask(machine, a_job(3, 4), workload=f"w-{sequence}"), Bid))
    assert [[], []] == found[:2], "the second answer is older than the first"
    assert {0, 1} == set(places(found[2][0].spreads)[0])


def test_row_that_is_older_than_the_view_is_not_believed(start: Start) -> None:
    """P20: the log has told more since."""
    machine = an_agent(start)
    first = claimed(place(machine, an_award("w-1", 1, a_job(1, 8), spreads=(a_spread({0: 1}),))))
    machine.fact(EU_LOG, granted(a_claim("w-9", placed={0: 8})))
    machine.fact(EU_LOG, AttemptEnded(*attempt("w-9"), EndCause.COMPLETED))
    again = claimed(answer(machine, first, "conflict", Reason.CONFLICT, rows=(full(0),), sequence=2))
    assert [{0: 1}] == places(again.spreads)
