"""What users may ask of the job queue: submit, show, cancel, hold, release, requeue."""

import pytest
from msgspec.structs import replace

from components.job_queue.component import JobQueue
from core.component import NOTHING
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    RegionAdded,
    RequeueRequested,
    WorkloadCancelled,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadSubmitted,
)
from core.events.region import StopOrdered
from core.messages.agents import BidSettled
from core.messages.base import LogSilent, Message, Refused
from core.messages.broker import ExecuteAward, SolicitBid, StopAttempt, WithdrawAward
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    ExplainWorkload,
    HoldWorkload,
    ReleaseWorkload,
    RequeueWorkload,
    ShowWorkload,
    Submitted,
    SubmitWorkload,
)
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import AWARD_SAY_AGAIN, KEY_LENGTH_MAX, SENDER_LENGTH_MAX
from core.nouns.reasons import SENTENCES, Reason
from core.nouns.workload import EndCause, Phase
from tests.builders import EU, EU_LOG, US, US_LOG, a_claim, a_job, a_spec, attempt, joined, promised
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    abstain,
    asked,
    auction_of,
    awarded,
    bid,
    declined,
    ended,
    grant,
    happens,
    running,
    shown,
    submit,
)
from tests.matching import facts, said, said_once

ASKED_OF = [
    CancelWorkload(W1),
    HoldWorkload(W1, 0),
    ReleaseWorkload(W1, 0),
    RequeueWorkload(W1, 1),
    ShowWorkload(W1),
    ExplainWorkload(W1),
]


def refused(reason: Reason, *problems: str) -> Refused:
    """The answer that nothing changes, and why."""
    return Refused(reason, SENTENCES[reason], problems)


def test_queue_when_it_starts() -> None:
    """It hears all that users and regions say, and follows only what it needs of each region's log."""
    queue = JobQueue((US, EU))
    assert [EU_LOG, US_LOG] == [follow.log for follow in queue.follows]
    assert [("attempts", "hardware", "starts")] * 2 == [follow.sections for follow in queue.follows]
    assert GLOBAL_LOG == queue.keeps


def test_regions_are_recorded_once(start: Start) -> None:
    """The first queue of a fleet adds its regions; the next finds them."""
    machine = start(JobQueue((US, EU)))
    assert [RegionAdded(EU), RegionAdded(US)] == facts(machine.wake())
    assert [] == facts(machine.restart().wake())


# Submit.


def test_submission_is_recorded_and_answered(start: Start) -> None:
    """Ids are numbered in the order of submission."""
    machine = a_job_queue(start)
    spec = a_spec(priority=4)
    for number in (1, 2):
        decision = machine.hear(SubmitWorkload(spec, "ada"))
        workload = WorkloadId(f"w-{number}")
        (recorded,) = facts(decision)
        assert isinstance(recorded, WorkloadSubmitted)
        assert WorkloadSubmitted(workload, number, spec, "ada", start=recorded.start) == recorded
        assert recorded.start is not None
        assert (Submitted(workload),) == decision.messages


def test_submission_under_a_known_key(start: Start) -> None:
    """The same id, and nothing is recorded; whatever the second one asks for. Also after a restart."""
    machine = a_job_queue(start)
    submit(machine, key="k")
    again = SubmitWorkload(a_spec(name="other"), "ada", "k")
    for one in (machine, machine.restart()):
        decision = one.hear(again)
        assert [] == facts(decision)
        assert (Submitted(W1),) == decision.messages


def test_submission_under_another_key_or_of_another_user(start: Start) -> None:
    """Keys belong to their submitter; no key is no key."""
    machine = a_job_queue(start)
    submit(machine, key="k")
    assert Submitted(W2) == said_once(machine.hear(SubmitWorkload(a_spec(), "bob", "k")), Submitted)
    assert W2 != submit(machine, key="j")
    assert submit(machine) != submit(machine)


def test_bad_submission_is_refused_with_every_problem(start: Start) -> None:
    """Each with its field, and no number is used for it."""
    machine = a_job_queue(start)
    bad = a_spec(a_job(0), a_job(), name="", priority=9)
    decision = machine.hear(SubmitWorkload(bad, "ada"))
    assert [] == facts(decision)
    refusal = said_once(decision, Refused)
    assert Reason.INVALID == refusal.reason
    assert ["name", "priority", "jobs", "jobs[0].tasks"] == [
        text.partition(":")[0] for text in refusal.problems
    ]
    assert W1 == submit(machine)


def test_submission_under_words_that_are_too_long(start: Start) -> None:
    """Both are kept as long as the workload; they are told with whatever else is wrong, and nothing is recorded."""
    machine = a_job_queue(start)
    ada, key = "a" * SENDER_LENGTH_MAX, "k" * KEY_LENGTH_MAX
    decision = machine.hear(SubmitWorkload(a_spec(name=""), f"{ada}a", f"{key}k"))
    assert [] == facts(decision)
    refusal = said_once(decision, Refused)
    assert Reason.INVALID == refusal.reason
    assert refusal.problems[:2] == (
        f"submitter: {SENDER_LENGTH_MAX} characters are the most",
        f"key: {KEY_LENGTH_MAX} characters are the most",
    )
    assert "name" == refusal.problems[2].partition(":")[0]
    assert Submitted(W1) == said_once(machine.hear(SubmitWorkload(a_spec(), ada, key)), Submitted)


def test_submission_for_a_region_that_is_not_there(start: Start) -> None:
    """All of them are named."""
    spec = a_spec(regions=(RegionName("mars"), EU, RegionName("moon")))
    decision = a_job_queue(start).hear(SubmitWorkload(spec, "ada"))
    problems = ("regions: mars is not in the fleet", "regions: moon is not in the fleet")
    assert (refused(Reason.UNKNOWN_REGION, *problems),) == decision.messages


HUGE = a_spec(a_job(1, 9))


def test_submission_that_could_never_fit(start: Start) -> None:
    """No region could hold it, were it empty: said now, and not after a year in the queue."""
    decision = a_job_queue(start).hear(SubmitWorkload(HUGE, "ada"))
    problem = "jobs[0].need.gpu_milli: a task asks for 9 H100, and no node of the fleet has more than 8"
    assert (refused(Reason.NEVER_FITS, problem),) == decision.messages
    assert [] == facts(decision)


def test_submission_of_more_cpus_and_memory_than_any_node_has(start: Start) -> None:
    """It is refused with the largest node; where a region is not known yet it waits, and no region that is known is asked."""
    wide, deep = a_job(cpus=3_000_000), a_job(gib=1 << 20, name="b")
    decision = a_job_queue(start).hear(SubmitWorkload(a_spec(wide, deep), "ada"))
    largest = "(the largest is one of type H100 in region eu)"
    problems = (
        f"jobs[0].need.cpu_milli: a task asks for 3000000 CPUs, and no node of the fleet has more than 64 {largest}",
        f"jobs[1].need.memory_bytes: a task asks for 1048576 GiB, and no node of the fleet has more than 512 GiB {largest}",
    )
    assert (refused(Reason.NEVER_FITS, *problems),) == decision.messages
    machine = a_job_queue(start, unknown=(US_LOG,))
    assert W1 == submit(machine, a_spec(wide, deep))
    assert [] == said(machine.wake(), SolicitBid)


def test_submission_while_a_region_is_not_known_yet(start: Start) -> None:
    """It might have the hardware: nobody is refused for good on half the truth."""
    machine = a_job_queue(start, unknown=(US_LOG,))
    assert W1 == submit(machine, HUGE)
    machine.adopt(US_LOG, joined())
    assert [] == said(machine.hear(SubmitWorkload(HUGE, "ada")), Submitted)


def test_submission_while_a_region_has_no_nodes_yet(start: Start) -> None:
    """Its workers have not joined."""
    machine = start(JobQueue((EU, US)))
    machine.fact(EU_LOG, joined())
    assert W1 == submit(machine, HUGE)


def test_submission_that_fits_only_where_it_may_not_run(start: Start) -> None:
    """A pin leaves one region to ask."""
    machine = a_job_queue(start, us=joined(gpu_type="A100"))
    spec = a_spec(a_job(gpu_type="A100"))
    assert W1 == submit(machine, spec)
    decision = machine.hear(SubmitWorkload(replace(spec, regions=(EU,)), "ada"))
    assert Reason.NEVER_FITS == said_once(decision, Refused).reason


@pytest.mark.parametrize("request_", ASKED_OF, ids=lambda message: type(message).__name__)
def test_request_about_an_unknown_workload(start: Start, request_: Message) -> None:
    """It may have ended long ago."""
    decision = a_job_queue(start).hear(request_)
    assert (refused(Reason.UNKNOWN_WORKLOAD),) == decision.messages
    assert () == decision.events


# Show.


def test_show_tells_where_a_workload_is(start: Start) -> None:
    """M1: its phase, and one reason while it does not run."""
    machine = a_job_queue(start)
    submit(machine, a_spec(name="mine"))
    first = shown(machine)
    assert ("mine", Phase.PENDING, Reason.WAITING_TURN, 0, "") == (
        first.name,
        first.phase,
        first.reason,
        first.epoch,
        first.region,
    )
    assert SENTENCES[Reason.WAITING_TURN] == first.sentence
    awarded(machine)
    second = shown(machine)
    assert (Phase.AWARDED, "", 1, EU) == (second.phase, second.reason, second.epoch, second.region)
    running(machine)
    assert (Phase.RUNNING, "", "") == (shown(machine).phase, shown(machine).reason, shown(machine).sentence)


def test_show_tells_for_how_long_a_gang_is_up(start: Start) -> None:
    """Of one that is not, it says so."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    assert -1 == shown(machine).up_for
    running(machine)
    machine.wait(Nanoseconds(5))
    assert 5 == shown(machine).up_for
    happens(machine, ended(EndCause.PREEMPTED))
    assert -1 == shown(machine).up_for


def test_show_names_the_reason_a_workload_waits(start: Start) -> None:
    """It is held; the regions are full; or its region is silent."""
    machine = a_job_queue(start)
    submit(machine)
    machine.hear(HoldWorkload(W1, 0))
    assert Reason.HELD == shown(machine).reason
    machine.hear(ReleaseWorkload(W1, 1))
    auction = auction_of(machine.wake())
    for region in (EU, US):
        abstain(machine, auction, region)
    machine.wake()
    assert Reason.NO_CAPACITY == shown(machine).reason
    submit(machine, a_spec(a_job(2), regions=(US,)))
    machine.hear(LogSilent(US_LOG))
    assert Reason.REGION_UNREACHABLE == shown(machine, W2).reason


def test_show_when_no_region_has_the_hardware(start: Start) -> None:
    """Said of a workload that was accepted while a region was not known; until then it waits for that region."""
    machine = a_job_queue(start, unknown=(US_LOG,))
    submit(machine, a_spec(a_job(gpu_type="B200")))
    assert Reason.REGION_UNREACHABLE == shown(machine).reason
    machine.adopt(US_LOG, joined())
    assert Reason.NO_SUCH_HARDWARE == shown(machine).reason


def test_show_when_the_awarded_region_is_silent(start: Start) -> None:
    """It keeps the award, and the user is told why nothing moves."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.hear(LogSilent(EU_LOG))
    assert Reason.REGION_UNREACHABLE == shown(machine).reason


# Cancel.


def test_cancel_while_pending(start: Start) -> None:
    """Nothing stands for it: it ends at once."""
    machine = a_job_queue(start)
    submit(machine)
    decision = machine.hear(CancelWorkload(W1))
    assert [WorkloadCancelled(W1)] == facts(decision)
    assert (Acknowledged(W1),) == decision.messages
    assert [] == asked(machine.wake())


def test_cancel_while_it_is_auctioned(start: Start) -> None:
    """Who has bid is told that its room is free again, and a bid that comes later is told too."""
    machine = a_job_queue(start)
    submit(machine)
    auction = auction_of(machine.wake())
    bid(machine, auction, EU)
    decision = machine.hear(CancelWorkload(W1))
    assert [WorkloadCancelled(W1)] == facts(decision)
    assert [(EU, False)] == [(told.region, told.has_won) for told in said(decision, BidSettled)]
    assert [False] == [told.has_won for told in said(bid(machine, auction, US), BidSettled)]
    assert [] == facts(machine.wait(Nanoseconds(10 * AWARD_SAY_AGAIN)))


def test_cancel_before_the_region_has_answered_its_award(start: Start) -> None:
    """The award is asked back, again and again; only the decline in the region's log ends the workload."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    decision = machine.hear(CancelWorkload(W1))
    assert [CancelRequested(W1)] == facts(decision)
    assert (Acknowledged(W1),) == decision.messages
    wanted = WithdrawAward(EU, W1, 1, machine.state.image.workloads.rows[W1].award_sequence, is_overdue=False)
    assert (wanted,) == machine.wake().messages
    assert (wanted,) == machine.wait(AWARD_SAY_AGAIN).messages
    returned = AwardReturned(W1, 1, Reason.WITHDRAWN, EU, 2)
    assert [returned, WorkloadCancelled(W1)] == happens(machine, declined(reason=Reason.WITHDRAWN))


def test_cancel_while_it_is_promised(start: Start) -> None:
    """The promise is asked back, so that its victims are spared."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.fact(EU_LOG, promised(a_claim("w-1")))
    assert () == machine.wake().messages
    machine.hear(CancelWorkload(W1))
    assert [False] == [told.is_overdue for told in said(machine.wake(), WithdrawAward)]


@pytest.mark.parametrize("is_running", [False, True])
def test_cancel_while_it_has_its_capacity(start: Start, *, is_running: bool) -> None:
    """The region is told to stop it, until its log shows the order; its end is the workload's."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    if is_running:
        running(machine)
    else:
        machine.fact(EU_LOG, grant())
    machine.hear(CancelWorkload(W1))
    stop = StopAttempt(EU, W1, 1, EndCause.CANCELLED)
    assert (stop,) == machine.wake().messages
    assert (stop,) == machine.wait(AWARD_SAY_AGAIN).messages
    machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.CANCELLED))
    assert () == machine.wait(Nanoseconds(5 * AWARD_SAY_AGAIN)).messages
    closed = happens(machine, ended(EndCause.CANCELLED))
    assert [Phase.CANCELLED] == [event.phase for event in closed if isinstance(event, AttemptClosed)]


@pytest.mark.parametrize(
    ("cause", "phase"),
    [
        (EndCause.COMPLETED, Phase.COMPLETED),
        (EndCause.PREEMPTED, Phase.CANCELLED),
        (EndCause.NODE_LOST, Phase.CANCELLED),
        (EndCause.TASK_FAILED, Phase.CANCELLED),
    ],
)
def test_cancel_that_meets_another_end(start: Start, cause: EndCause, phase: Phase) -> None:
    """What has completed has completed; whatever else ended it, it does not come back."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    machine.hear(CancelWorkload(W1))
    [closed] = happens(machine, ended(cause))
    assert isinstance(closed, AttemptClosed)
    assert (cause, phase) == (closed.cause, closed.phase)


def test_cancel_again(start: Start) -> None:
    """Acknowledged, and nothing more is recorded: whether it is ending or has ended."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.hear(CancelWorkload(W1))
    again = machine.hear(CancelWorkload(W1))
    assert ((), (Acknowledged(W1),)) == (again.events, again.messages)
    happens(machine, declined())
    again = machine.hear(CancelWorkload(W1))
    assert ((), (Acknowledged(W1),)) == (again.events, again.messages)


@pytest.mark.parametrize(
    "request_",
    [CancelWorkload(W1), HoldWorkload(W1, 0), RequeueWorkload(W1, 1)],
    ids=["cancel", "hold", "requeue"],
)
def test_request_after_the_end(start: Start, request_: Message) -> None:
    """An end is final, and the user is told which."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    happens(machine, grant(), ended(EndCause.COMPLETED))
    assert (refused(Reason.ALREADY_ENDED, "it is COMPLETED"),) == machine.hear(request_).messages


def test_cancelled_workload_when_the_queue_starts_again(start: Start) -> None:
    """The wish is in the log: it is asked back by the next queue too."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.hear(CancelWorkload(W1))
    again = machine.restart()
    assert [EU] == [told.region for told in said(again.wake(), WithdrawAward)]
    assert [] == said(again.wake(), ExecuteAward)


# Hold and release.


def test_hold_keeps_a_workload_from_being_awarded(start: Start) -> None:
    """Until it is released; the revision grows with each."""
    machine = a_job_queue(start)
    submit(machine)
    decision = machine.hear(HoldWorkload(W1, 0))
    assert [WorkloadHeld(W1, 1)] == facts(decision)
    assert (Acknowledged(W1, 1),) == decision.messages
    assert [] == asked(machine.wake())
    decision = machine.hear(ReleaseWorkload(W1, 1))
    assert [WorkloadReleased(W1, 2)] == facts(decision)
    assert (Acknowledged(W1, 2),) == decision.messages
    assert [(W1, EU), (W1, US)] == asked(machine.wake())


def test_hold_while_it_is_auctioned(start: Start) -> None:
    """The auction is over, and its bids lost."""
    machine = a_job_queue(start)
    submit(machine)
    bid(machine, auction_of(machine.wake()))
    decision = machine.hear(HoldWorkload(W1, 0))
    assert [False] == [told.has_won for told in said(decision, BidSettled)]
    assert [] == asked(machine.wait(Nanoseconds(10 * AWARD_SAY_AGAIN)))


def test_hold_of_a_running_workload(start: Start) -> None:
    """It goes on, and is not awarded again after its attempt has ended."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    assert [WorkloadHeld(W1, 1)] == facts(machine.hear(HoldWorkload(W1, 0)))
    assert NOTHING == machine.wake()
    machine.fact(EU_LOG, ended(EndCause.PREEMPTED))
    assert [] == asked(machine.wake())
    assert Reason.HELD == shown(machine).reason
    machine.hear(ReleaseWorkload(W1, 1))
    assert [(W1, EU)] == asked(machine.wake())


def test_hold_or_release_again(start: Start) -> None:
    """A repeat is acknowledged with the present revision, and changes nothing."""
    machine = a_job_queue(start)
    submit(machine)
    for message, revision in ((HoldWorkload(W1, 0), 1), (ReleaseWorkload(W1, 1), 2)):
        machine.hear(message)
        again = machine.hear(message)
        assert ((), (Acknowledged(W1, revision),)) == (again.events, again.messages)


def test_hold_or_release_that_comes_late(start: Start) -> None:
    """A word given before a newer one is refused: it would undo what was meant."""
    machine = a_job_queue(start)
    submit(machine)
    machine.hear(HoldWorkload(W1, 0))
    machine.hear(ReleaseWorkload(W1, 1))
    late = machine.hear(HoldWorkload(W1, 0))
    assert ((), (refused(Reason.SUPERSEDED, "revision: it is 2 now"),)) == (late.events, late.messages)
    machine.hear(HoldWorkload(W1, 2))
    late = machine.hear(ReleaseWorkload(W1, 1))
    assert ((), (refused(Reason.SUPERSEDED, "revision: it is 3 now"),)) == (late.events, late.messages)
    early = machine.hear(ReleaseWorkload(W1, 9))
    assert Reason.SUPERSEDED == said_once(early, Refused).reason


# Requeue.


def test_requeue_of_a_running_attempt(start: Start) -> None:
    """The region is told to stop it, and the workload is placed anew under the next epoch."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    decision = machine.hear(RequeueWorkload(W1, 1))
    assert [RequeueRequested(W1, 1)] == facts(decision)
    assert (Acknowledged(W1),) == decision.messages
    assert (StopAttempt(EU, W1, 1, EndCause.REQUEUED),) == machine.wake().messages
    machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.REQUEUED), ended(EndCause.REQUEUED))
    machine.hear_due_once()
    assert 2 == awarded(machine).epoch
    assert [] == said(machine.wake(), WithdrawAward), "the wish was for the attempt before"


def test_requeue_before_the_region_has_answered(start: Start) -> None:
    """The award is asked back."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.hear(RequeueWorkload(W1, 1))
    assert [False] == [told.is_overdue for told in said(machine.wake(), WithdrawAward)]


@pytest.mark.parametrize("epoch", [0, 1], ids=["older attempt", "again"])
def test_requeue_that_is_late_or_repeated(start: Start, epoch: int) -> None:
    """Another attempt than the one meant is left alone, and asking twice asks for one stop."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    if epoch == 1:
        machine.hear(RequeueWorkload(W1, 1))
    decision = machine.hear(RequeueWorkload(W1, epoch))
    assert ((), (Acknowledged(W1),)) == (decision.events, decision.messages)


def test_requeue_of_an_attempt_after_the_next_was_awarded(start: Start) -> None:
    """The new attempt is left alone."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.fact(EU_LOG, declined())
    machine.hear_due_once()
    awarded(machine)
    assert [] == facts(machine.hear(RequeueWorkload(W1, 1)))
    assert [ExecuteAward] == [type(told) for told in machine.wake().messages]


def test_requeue_of_an_attempt_that_was_never_awarded(start: Start) -> None:
    """The user looks at something that is not so."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    assert (refused(Reason.INVALID, "epoch: it is 1 now"),) == machine.hear(RequeueWorkload(W1, 2)).messages
