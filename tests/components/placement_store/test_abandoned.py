"""What a region's store does with attempts that the queue gave up while it did not hear the region."""

from core.component import NOTHING
from core.events.queue import AttemptClosed, WorkloadsForgotten
from core.events.region import (
    AttemptEnded,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    StopOrdered,
)
from core.messages.store import RecordCheckpoint, RecordStarted
from core.nouns.ids import GLOBAL_LOG, AttemptKey, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import FORGET_INTERVAL
from core.nouns.reasons import Reason
from core.nouns.workload import Consent, EndCause, Phase
from tests.builders import EU, US, a_claim, attempt
from tests.components.support.machine import Machine
from tests.components.support.placement_store import (
    FIRST,
    W1,
    Start,
    a_store,
    award,
    claim,
    end,
    place,
    promise,
    refusal,
    stop,
)
from tests.matching import facts

A1 = attempt()


def give_up(machine: Machine[object], key: AttemptKey = A1) -> int:
    """The queue's log shows that an attempt goes on elsewhere."""
    closed = AttemptClosed(*key, EndCause.ABANDONED, Phase.PENDING, EU, 0, consent=Consent.OPERATOR)
    return machine.fact(GLOBAL_LOG, closed)


def test_abandoned_work_is_stopped_once_the_queue_is_heard(start: Start) -> None:
    """Its store stops it by itself, at no requester's charge, and records up to where it has read; a checkpoint saved then does not
    count.
    """
    machine = a_store(start)
    place(machine)
    machine.hear(RecordStarted(EU, *attempt()))
    assert 1 == len(facts(machine.hear(RecordCheckpoint(EU, *attempt(), 5))))
    sequence = give_up(machine)
    stopped = StopOrdered(*attempt(), EndCause.ABANDONED, global_sequence=sequence)
    assert [stopped] == facts(machine.wake())
    assert NOTHING == machine.hear(RecordCheckpoint(EU, *attempt(), 6))
    assert [AttemptEnded(*attempt(), EndCause.ABANDONED, 0, 1_000, cpu_milli=0, bare_cpu_milli=0)] == facts(
        end(machine, cause=EndCause.ABANDONED)
    )


def test_it_is_stopped_after_a_restart_too(start: Start) -> None:
    """Read with the image, and not fact by fact; also when the queue has forgotten all of it."""
    machine = a_store(start)
    place(machine)
    sequence = give_up(machine)
    (event,) = facts(machine.restart().wake())
    assert StopOrdered(*attempt(), EndCause.ABANDONED, global_sequence=sequence) == event
    sequence = machine.fact(GLOBAL_LOG, WorkloadsForgotten((W1,)))
    (event,) = facts(machine.restart().wake())
    assert StopOrdered(*attempt(), EndCause.ABANDONED, global_sequence=sequence) == event


def test_stopping_attempt_goes_on_stopping(start: Start) -> None:
    """The first order's cause stands, and a checkpoint saved under it is recorded: it counts for no attempt."""
    machine = a_store(start)
    place(machine)
    stop(machine)
    give_up(machine)
    assert [] == facts(machine.wake())
    assert [CheckpointCommitted(*attempt(), 6)] == facts(machine.hear(RecordCheckpoint(EU, *attempt(), 6)))


def test_promise_that_was_given_up_spares_its_victims(start: Start) -> None:
    """Nobody is pushed out for whom nobody waits."""
    machine = a_store(start)
    place(machine, "w-1", {0: 8}, priority=1)
    made = promise(machine, "w-2", {0: 8}, (attempt(),))
    give_up(machine, attempt("w-2"))
    declined = AwardDeclined(*attempt("w-2"), Reason.WITHDRAWN, made.award_sequence)
    assert declined == facts(machine.wake())[0]
    assert NOTHING == stop(machine, "w-1", EndCause.PREEMPTED, by="w-2")


def test_award_that_was_given_up_is_not_granted_late(start: Start) -> None:
    """A claim that comes after the word finds that its award does not stand."""
    machine = a_store(start)
    sequence = award(machine)
    give_up(machine)
    answer = claim(machine, a_claim(award_sequence=sequence))
    assert [] == [event for event in facts(answer) if isinstance(event, ClaimGranted)]
    assert ("refused", Reason.AWARD_NOT_STANDING) == refusal(answer)


def test_newest_attempt_goes_on(start: Start) -> None:
    """Given up here, awarded here again: the older one stops, and the newer one is granted beside it."""
    machine = a_store(start)
    place(machine)
    give_up(machine)
    machine.wake()
    sequence = award(machine, epoch=2)
    claim(machine, a_claim("w-1", 2, placed={1: 1}, award_sequence=sequence))
    assert [] == facts(machine.wake())
    rows = machine.state.image.attempts.rows[WorkloadId("w-1")]
    assert {1: EndCause.ABANDONED, 2: ""} == {epoch: row.stop_cause for epoch, row in rows.items()}


def test_no_other_component_may_stop_for_that_reason(start: Start) -> None:
    """A broker that does so is wrong: the queue's log alone shows it."""
    machine = a_store(start)
    place(machine)
    assert NOTHING == stop(machine, cause=EndCause.ABANDONED)
    assert NOTHING == end(machine, cause=EndCause.ABANDONED)
    award(machine, "w-5", region=US)
    assert [] == facts(machine.wait(Nanoseconds(2 * FORGET_INTERVAL)))
    assert FIRST + 1 == machine.state.global_sequence
