"""How claims are judged: against now, once for each attempt, and only while the award stands."""

import pytest
from msgspec.structs import replace

from core.component import NOTHING
from core.events.queue import WorkloadAwarded
from core.events.region import AttemptEnded, AwardDeclined, ClaimGranted, ClaimPromised
from core.fact import Event
from core.images import GlobalImage
from core.messages.agents import ClaimAnswered
from core.messages.store import RecordEnd, RecordJoin, RecordLoss, RecordReturn, SubmitClaim
from core.nouns.ids import GLOBAL_LOG, ClaimId, WorkerName
from core.nouns.instant import Nanoseconds
from core.nouns.limits import FACT_BYTES_MAX, HEAD_SILENCE_MAX, PREEMPTION_ASK_SPAN
from core.nouns.placement import Claim, NodeRow
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Kind
from tests.builders import (
    EU,
    EU_LOG,
    NODE,
    US,
    a_claim,
    a_job,
    a_spread,
    amount,
    an_inventory,
    attempt,
)
from tests.components.support.placement_store import (
    FIRST,
    REGIONS,
    W1,
    W2,
    W3,
    Start,
    a_store,
    answer,
    award,
    claim,
    close,
    decline,
    end,
    give_back,
    place,
    promise,
    refusal,
    stop,
    verdict,
)
from tests.matching import facts

# Grants.


def test_claim_that_fits_is_granted(start: Start) -> None:
    """One fact, whole; and the agent is told."""
    machine = a_store(start)
    made = a_claim(placed={0: 3, 2: 1}, gpus=2, award_sequence=award(machine), view_sequence=2)
    decision = claim(machine, made)
    assert [ClaimGranted(W1, 1, made, is_merged=False)] == facts(decision)
    assert (ClaimAnswered(EU, made.agent, W1, 1, made.claim, "granted", sequence=2),) == decision.messages


@pytest.mark.parametrize(
    ("view", "node", "is_merged"),
    [
        pytest.param(3, 0, False, id="newest view"),
        pytest.param(2, 0, True, id="old view of a node that changed"),
        pytest.param(2, 3, False, id="old view of a node that did not"),
    ],
)
def test_claim_on_a_view_of_some_age(start: Start, view: int, node: int, *, is_merged: bool) -> None:
    """P18, L2: if it still fits it is granted: merged, when one of its nodes has changed since."""
    machine = a_store(start)
    place(machine, "w-9", {0: 1})
    assert 3 == machine.sequence(EU_LOG)
    made = a_claim(placed={node: 1}, award_sequence=award(machine), view_sequence=view)
    assert [ClaimGranted(W1, 1, made, is_merged)] == facts(claim(machine, made))


def test_claim_that_no_longer_fits(start: Start) -> None:
    """M3, M22, P20, P22: a conflict, with the current rows of the nodes without room, and up to where they hold.
    Nothing is recorded.
    """
    machine = a_store(start)
    place(machine, "w-9", {0: 6, 1: 8})
    decision = claim(machine, a_claim(placed={0: 3, 1: 1, 2: 1}, award_sequence=award(machine)))
    assert () == decision.events
    told = answer(decision)
    assert ("conflict", Reason.CONFLICT, 3) == (told.verdict, told.reason, told.sequence)
    rows = (NodeRow(0, amount(2, 64, 512), is_open=True), NodeRow(1, amount(0, 64, 512), is_open=True))
    assert rows == told.rows


def test_claim_that_no_device_holds(start: Start) -> None:
    """P20: by the sum of the node's GPU milli it would fit; the conflict tells what is free on each shared device."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8}, gpus=0.6)
    told = answer(claim(machine, a_claim(placed={0: 1}, gpus=0.6, award_sequence=award(machine))))
    assert ("conflict", Reason.CONFLICT) == (told.verdict, told.reason)
    assert (NodeRow(0, amount(3.2, 64, 512), is_open=True, parts=(400,) * 8),) == told.rows
    place(machine, "w-8", {0: 8}, gpus=0.4)
    assert Amount(0, 64_000, 512 << 30) == machine.state.image.capacity.available(0)


def test_promise_of_parts_is_kept_by_devices(start: Start) -> None:
    """When the last victim ends what was promised is granted, the larger part first, and both lie on one device."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    jobs = (a_job(1, 0.6, name="main"), a_job(1, 0.4, name="eval"))
    spreads = (a_spread({0: 1}), a_spread({0: 1}))
    made = a_claim(
        "w-1",
        jobs=jobs,
        spreads=spreads,
        priority=9,
        victims=(attempt("w-9"),),
        award_sequence=award(machine),
    )
    assert "promised" == verdict(claim(machine, made))
    kinds = [type(event) for event in facts(machine.hear(RecordEnd(EU, *attempt("w-9"), EndCause.COMPLETED)))]
    assert [AttemptEnded, ClaimGranted] == kinds
    capacity = machine.state.image.capacity
    assert {0: 1000} == capacity.devices.by_node[0].used
    assert Amount(7_000, 64_000, 512 << 30) == capacity.available(0)


def test_claim_on_a_lost_node(start: Start) -> None:
    """A conflict too: the node may come back, and the row says that it is not open."""
    machine = a_store(start)
    machine.hear(RecordLoss(EU, WorkerName("w0"), 2))
    told = answer(claim(machine, a_claim(award_sequence=award(machine))))
    assert ("conflict", (NodeRow(0, Amount(), is_open=False),)) == (told.verdict, told.rows)


def test_attempt_is_granted_once(start: Start) -> None:
    """L5: the same claim again, or another agent's for other nodes under another id: granted already, and nothing
    recorded.
    """
    machine = a_store(start)
    made = place(machine)
    for again in (made, a_claim(placed={3: 1}, agent="a1", tries=7)):
        decision = claim(machine, again)
        assert () == decision.events
        assert ("granted", again.agent, again.claim) == (
            answer(decision).verdict,
            answer(decision).agent,
            answer(decision).claim,
        )


def test_claim_after_the_end(start: Start) -> None:
    """Its attempt is over, though its award still stands in what was read: an epoch is used once."""
    machine = a_store(start)
    made = place(machine)
    end(machine)
    decision = claim(machine, made)
    assert ((), ("refused", Reason.SUPERSEDED)) == (decision.events, refusal(decision))


# Awards.


def test_claim_without_an_award(start: Start) -> None:
    """N6: never awarded; to another region; under another epoch; returned; closed."""
    machine = a_store(start)
    sequences = [
        award(machine, "w-9"),
        award(machine, "w-2", region=US),
        award(machine, "w-3", 2),
        award(machine, "w-4"),
        give_back(machine, "w-4"),
        award(machine, "w-5"),
        close(machine, "w-5"),
    ]
    for number in range(1, 6):
        decision = claim(machine, a_claim(f"w-{number}", award_sequence=sequences[-1]))
        assert ((), ("refused", Reason.AWARD_NOT_STANDING)) == (decision.events, refusal(decision))


def test_claim_that_is_ahead_of_the_queues_log(start: Start) -> None:
    """It waits until the award is read, and is judged then."""
    machine = a_store(start)
    made = a_claim(award_sequence=FIRST, view_sequence=2)
    decision = claim(machine, made)
    assert ([], ()) == (facts(decision), decision.messages)
    assert NOTHING == machine.wake()
    award(machine)
    decision = machine.wake()
    assert [ClaimGranted(W1, 1, made, is_merged=False)] == facts(decision)
    assert "granted" == verdict(decision)
    assert NOTHING == machine.wait(Nanoseconds(2 * HEAD_SILENCE_MAX))


def test_claim_that_waits_for_another_award(start: Start) -> None:
    """What is read meanwhile shows that it never stood: refused, once read that far."""
    machine = a_store(start)
    claim(machine, a_claim("w-2", award_sequence=FIRST + 1))
    award(machine, "w-1")
    assert () == machine.wake().messages
    award(machine, "w-9")
    assert ("refused", Reason.AWARD_NOT_STANDING) == refusal(machine.wake())


def test_claim_that_waits_too_long(start: Start) -> None:
    """It is dropped without a word: the agent says it again."""
    machine = a_store(start)
    claim(machine, a_claim(award_sequence=FIRST))
    assert () == machine.wait(HEAD_SILENCE_MAX).messages
    assert machine.component.due(machine.state) is None
    award(machine)
    assert () == machine.wake().messages
    assert "granted" == verdict(claim(machine, a_claim(award_sequence=FIRST)))


def test_claim_that_waits_when_another_of_its_attempt_comes(start: Start) -> None:
    """The newer one is judged; the older agent says its own again, and hears that it is granted."""
    machine = a_store(start)
    claim(machine, a_claim(award_sequence=FIRST, tries=1))
    claim(machine, a_claim(award_sequence=FIRST, tries=2, placed={1: 1}))
    award(machine)
    decision = machine.wake()
    assert ["w-1.1.a0.2"] == [
        event.claim.claim for event in facts(decision) if isinstance(event, ClaimGranted)
    ]


def test_claims_that_wait_together(start: Start) -> None:
    """Each is judged against what the one before it has left."""
    machine = a_store(start)
    for number in (1, 2):
        claim(machine, a_claim(f"w-{number}", placed={0: 5}, award_sequence=FIRST + 1))
    award(machine, "w-1")
    award(machine, "w-2")
    decision = machine.wake()
    assert [W1] == [event.workload for event in facts(decision) if isinstance(event, ClaimGranted)]
    assert ["granted", "conflict"] == [
        message.verdict for message in decision.messages if isinstance(message, ClaimAnswered)
    ]


def test_claim_before_the_queues_log_is_known(start: Start) -> None:
    """It waits, and is judged once the log is adopted."""
    machine = a_store(start, unknown=(GLOBAL_LOG,))
    claim(machine, a_claim(award_sequence=FIRST))
    assert NOTHING == machine.wake()
    machine.adopt(GLOBAL_LOG, *REGIONS, first_award())
    assert "granted" == verdict(machine.wake())


def first_award() -> Event:
    """What the first award is."""
    return WorkloadAwarded(W1, 1, EU, 0, ())


# Claims that are refused for good.


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        pytest.param(a_claim(region=US), Reason.BAD_CLAIM, id="another region's"),
        pytest.param(replace(a_claim(), revision=1), Reason.BAD_CLAIM, id="of a later revision"),
        pytest.param(
            a_claim(jobs=(a_job(2),), spreads=(a_spread({0: 1}),)), Reason.BAD_CLAIM, id="half a gang"
        ),
        pytest.param(a_claim(placed={4: 1}), Reason.UNKNOWN_NODE, id="a node that is not there"),
        pytest.param(a_claim(placed={-1: 1}), Reason.UNKNOWN_NODE, id="a node below zero"),
        pytest.param(a_claim(jobs=(a_job(gpu_type="A100"),)), Reason.WRONG_GPU_TYPE, id="another GPU type"),
        pytest.param(
            a_claim(jobs=(replace(a_job(gpu_type="A100"), or_types=("B200",)),)),
            Reason.WRONG_GPU_TYPE,
            id="other GPU types",
        ),
        pytest.param(
            a_claim(jobs=(a_job(name="x" * FACT_BYTES_MAX),)),
            Reason.TOO_LARGE,
            id="larger than a fact may be",
        ),
        pytest.param(
            a_claim(priority=5, victims=(attempt("w-9"), attempt("w-9"))),
            Reason.BAD_CLAIM,
            id="a victim twice",
        ),
        pytest.param(
            a_claim(priority=3, victims=(attempt("w-9"),)), Reason.VICTIM_NOT_LOWER, id="equal priority"
        ),
        pytest.param(
            a_claim(priority=6, victims=(attempt("w-8"),)), Reason.VICTIM_NOT_LOWER, id="interactive"
        ),
    ],
)
def test_claim_that_time_does_not_mend(start: Start, made: Claim, reason: Reason) -> None:
    """M3, M17: refused, and nothing is recorded: the agent gives the award back."""
    machine = a_store(start)
    place(machine, "w-9", {0: 1}, priority=3)
    place(machine, "w-8", {0: 1}, priority=0, kind=Kind.INTERACTIVE)
    decision = claim(machine, replace(made, award_sequence=award(machine)))
    assert ((), ("refused", reason)) == (decision.events, refusal(decision))


# Promises.


def test_claim_over_victims_is_promised(start: Start) -> None:
    """Its room is reserved: nobody else is granted what it waits for, nor promised the same victims."""
    machine = a_store(start)
    place(machine, "w-9", {0: 6})
    made = a_claim(
        "w-1", placed={0: 8, 1: 2}, priority=5, victims=(attempt("w-9"),), award_sequence=award(machine)
    )
    decision = claim(machine, made)
    assert [ClaimPromised(W1, 1, made, (0,), PREEMPTION_ASK_SPAN)] == facts(decision)
    assert "promised" == verdict(decision)
    other = a_claim("w-2", placed={1: 7}, award_sequence=award(machine, "w-2"))
    told = answer(claim(machine, other))
    assert ("conflict", (NodeRow(1, amount(6, 64, 512), is_open=True),)) == (told.verdict, told.rows)
    greedy = replace(other, priority=6, victims=(attempt("w-9"),), spreads=(a_spread({2: 7}),))
    assert ("conflict", Reason.CONFLICT) == refusal(claim(machine, greedy))


def test_promise_is_made_once(start: Start) -> None:
    """Under whatever id it is claimed again."""
    machine = a_store(start)
    place(machine, "w-9", {0: 6})
    made = promise(machine, "w-1", {0: 8}, (attempt("w-9"),))
    decision = claim(machine, replace(made, claim=ClaimId("other"), spreads=(a_spread({3: 8}),), victims=()))
    assert ((), "promised") == (decision.events, verdict(decision))


def test_claim_over_victims_that_have_ended(start: Start) -> None:
    """It is granted at once; of several, those that live are waited for."""
    machine = a_store(start)
    place(machine, "w-9", {0: 6})
    made = a_claim("w-1", placed={1: 8}, priority=5, victims=(attempt("w-7"),), award_sequence=award(machine))
    [event] = facts(claim(machine, made))
    assert isinstance(event, ClaimGranted)
    assert () == event.claim.victims
    both = (attempt("w-7"), attempt("w-9"))
    over = a_claim("w-2", placed={0: 8}, priority=5, victims=both, award_sequence=award(machine, "w-2"))
    [waiting] = facts(claim(machine, over))
    assert isinstance(waiting, ClaimPromised)
    assert (attempt("w-9"),) == waiting.claim.victims


def test_claim_over_victims_that_hold_too_little(start: Start) -> None:
    """A conflict: even without them there is no room."""
    machine = a_store(start)
    place(machine, "w-9", {0: 3})
    place(machine, "w-8", {0: 3}, priority=6)
    made = a_claim("w-1", placed={0: 8}, priority=5, victims=(attempt("w-9"),), award_sequence=award(machine))
    assert ("conflict", Reason.CONFLICT) == refusal(claim(machine, made))


def test_promise_is_kept_in_the_batch_that_ends_its_last_victim(start: Start) -> None:
    """Nobody can come between; and not before the last of them has ended."""
    machine = a_store(start)
    place(machine, "w-8", {0: 4})
    place(machine, "w-9", {1: 8})
    made = promise(machine, "w-1", {0: 8, 1: 8}, (attempt("w-8"), attempt("w-9")))
    for victim in ("w-8", "w-9"):
        stop(machine, victim, EndCause.PREEMPTED, by="w-1")
    assert [
        AttemptEnded(*attempt("w-9"), EndCause.PREEMPTED, 0, 8_000, cpu_milli=0, bare_cpu_milli=0)
    ] == facts(end(machine, "w-9", EndCause.PREEMPTED))
    kept = ClaimGranted(W1, 1, replace(made, victims=()), is_merged=True)
    assert [
        AttemptEnded(*attempt("w-8"), EndCause.PREEMPTED, 0, 4_000, cpu_milli=0, bare_cpu_milli=0),
        kept,
    ] == facts(end(machine, "w-8", EndCause.PREEMPTED))
    assert "granted" == verdict(claim(machine, made))


def test_promise_over_a_victim_that_ends_by_itself(start: Start) -> None:
    """However it ended, its capacity is free."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    promise(machine, "w-1", {0: 8}, (attempt("w-9"),))
    kinds = [type(event) for event in facts(end(machine, "w-9", EndCause.COMPLETED))]
    assert [AttemptEnded, ClaimGranted] == kinds


def test_promise_that_has_lost_a_node(start: Start) -> None:
    """It is broken in the batch that ends its last victim, if nobody has withdrawn it before."""
    machine = a_store(start)
    machine.hear(RecordJoin(EU, an_inventory("w1", 4, 1)))
    place(machine, "w-9", {0: 8})
    made = promise(machine, "w-1", {0: 8, 4: 1}, (attempt("w-9"),))
    machine.hear(RecordLoss(EU, WorkerName("w1"), machine.sequence(EU_LOG)))
    broken = AwardDeclined(W1, 1, Reason.PROMISE_BROKEN, made.award_sequence)
    assert broken == facts(end(machine, "w-9"))[-1]
    assert NODE == machine.state.image.capacity.available(0)


def test_promise_on_a_node_that_was_lost_and_is_back(start: Start) -> None:
    """The promised capacity is there again, and still reserved."""
    machine = a_store(start)
    machine.hear(RecordJoin(EU, an_inventory("w1", 4, 1)))
    place(machine, "w-9", {0: 8})
    promise(machine, "w-1", {0: 8, 4: 1}, (attempt("w-9"),))
    machine.hear(RecordLoss(EU, WorkerName("w1"), machine.sequence(EU_LOG)))
    machine.hear(RecordReturn(EU, WorkerName("w1"), machine.sequence(EU_LOG)))
    assert 7_000 == machine.state.image.capacity.available(4).gpu_milli
    assert [AttemptEnded, ClaimGranted] == [type(event) for event in facts(end(machine, "w-9"))]


@pytest.mark.parametrize("reason", [Reason.WITHDRAWN, Reason.PROMISE_BROKEN])
def test_promise_that_is_withdrawn(start: Start, reason: Reason) -> None:
    """It is declined, its victim lives, and its room is anybody's."""
    machine = a_store(start)
    place(machine, "w-9", {0: 4})
    made = promise(machine, "w-1", {0: 8, 1: 8}, (attempt("w-9"),))
    decision = decline(machine, reason=reason, sequence=made.award_sequence)
    assert [AwardDeclined(W1, 1, reason, made.award_sequence)] == facts(decision)
    assert NODE == machine.state.image.capacity.available(1)
    assert [AttemptEnded] == [type(event) for event in facts(end(machine, "w-9"))]
    assert ("refused", Reason.SUPERSEDED) == refusal(claim(machine, made))


@pytest.mark.parametrize("reason", [Reason.NO_CAPACITY, Reason.CONFLICTS_EXHAUSTED])
def test_promise_that_another_agent_would_decline(start: Start, reason: Reason) -> None:
    """It found no room for what the first one has been promised: nothing changes."""
    machine = a_store(start)
    place(machine, "w-9", {0: 4})
    made = promise(machine, "w-1", {0: 8}, (attempt("w-9"),))
    assert NOTHING == decline(machine, reason=reason, sequence=made.award_sequence)


def test_order_to_preempt_for_a_promise_that_was_withdrawn(start: Start) -> None:
    """It comes late: the victim is spared, for nobody waits for its room any more."""
    machine = a_store(start)
    place(machine, "w-9", {0: 4})
    made = promise(machine, "w-1", {0: 8}, (attempt("w-9"),))
    decline(machine, reason=Reason.WITHDRAWN, sequence=made.award_sequence)
    assert NOTHING == stop(machine, "w-9", EndCause.PREEMPTED, by="w-1")


def test_order_to_preempt_for_a_promise_over_others(start: Start) -> None:
    """Only who was promised to it is stopped for it."""
    machine = a_store(start)
    place(machine, "w-9", {0: 4})
    place(machine, "w-8", {1: 4})
    promise(machine, "w-1", {0: 8}, (attempt("w-9"),))
    assert NOTHING == stop(machine, "w-8", EndCause.PREEMPTED, by="w-1")
    assert 1 == len(facts(stop(machine, "w-9", EndCause.PREEMPTED, by="w-1")))


# Declines.


def test_decline_is_recorded_once(start: Start) -> None:
    """And no claim of that attempt is granted afterwards, whatever was free."""
    machine = a_store(start)
    sequence = award(machine)
    assert [AwardDeclined(W1, 1, Reason.NO_CAPACITY, sequence)] == facts(decline(machine, sequence=sequence))
    assert NOTHING == decline(machine, sequence=sequence)
    assert ("refused", Reason.SUPERSEDED) == refusal(claim(machine, a_claim(award_sequence=sequence)))


def test_decline_after_the_grant(start: Start) -> None:
    """Too late: it has its capacity. Also after its end."""
    machine = a_store(start)
    made = place(machine)
    assert NOTHING == decline(machine, reason=Reason.WITHDRAWN, sequence=made.award_sequence)
    end(machine)
    assert NOTHING == decline(machine, reason=Reason.WITHDRAWN, sequence=made.award_sequence)


def test_decline_of_an_award_that_does_not_stand(start: Start) -> None:
    """The queue waits for no word about it."""
    machine = a_store(start)
    sequence = award(machine)
    give_back(machine)
    assert NOTHING == decline(machine, sequence=sequence)


def test_decline_that_is_ahead_of_the_queues_log(start: Start) -> None:
    """Recorded: the award that was said is in that log, read or not."""
    machine = a_store(start)
    assert [AwardDeclined(W1, 1, Reason.NO_CAPACITY, 5)] == facts(decline(machine, sequence=5))


def test_decline_while_a_claim_waits(start: Start) -> None:
    """The claim comes too late."""
    machine = a_store(start)
    claim(machine, a_claim(award_sequence=FIRST))
    decline(machine, sequence=FIRST)
    award(machine)
    assert ("refused", Reason.SUPERSEDED) == refusal(machine.wake())


def test_next_epoch_after_a_decline(start: Start) -> None:
    """It is another attempt."""
    machine = a_store(start)
    decline(machine, sequence=award(machine))
    give_back(machine)
    made = a_claim("w-1", 2, award_sequence=award(machine, "w-1", 2))
    assert "granted" == verdict(claim(machine, made))


def test_claims_of_several_regions_agents(start: Start) -> None:
    """T6, P3: two agents that saw the same room: the first has it, the other learns what is left and tries
    elsewhere.
    """
    machine = a_store(start)
    first = a_claim("w-2", placed={0: 8}, agent="a0", award_sequence=award(machine, "w-2"), view_sequence=2)
    second = a_claim("w-3", placed={0: 8}, agent="a1", award_sequence=award(machine, "w-3"), view_sequence=2)
    assert ["granted", "conflict"] == [verdict(claim(machine, one)) for one in (first, second)]
    again = replace(second, spreads=(a_spread({1: 8}),), claim=ClaimId("w-3.1.a1.2"))
    assert "granted" == verdict(claim(machine, again))
    assert {W2, W3} == {workload for workload, _, _ in machine.state.image.capacity.live()}


def test_store_when_it_starts_again(start: Start) -> None:
    """What it granted, promised and declined is in its log: the same claims get the same answers."""
    machine = a_store(start)
    place(machine, "w-9", {0: 6})
    made = promise(machine, "w-1", {0: 8}, (attempt("w-9"),))
    decline(machine, "w-2", sequence=award(machine, "w-2"))
    again = machine.restart()
    assert "granted" == verdict(claim(again, a_claim("w-9", placed={3: 1})))
    assert "promised" == verdict(claim(again, made))
    assert ("refused", Reason.SUPERSEDED) == refusal(claim(again, a_claim("w-2")))
    kinds = [type(event) for event in facts(again.hear(RecordEnd(EU, *attempt("w-9"), EndCause.COMPLETED)))]
    assert [AttemptEnded, ClaimGranted] == kinds


def test_claim_under_an_adopted_log(start: Start) -> None:
    """The queue's log adopted anew after a gap: what stands in it stands."""
    machine = a_store(start)
    machine.adopt(GLOBAL_LOG, first_award())
    assert isinstance(machine.state.awards, GlobalImage)
    decision = machine.hear(SubmitClaim(EU, a_claim(award_sequence=FIRST)))
    assert [ClaimGranted] == [type(event) for event in facts(decision)]
