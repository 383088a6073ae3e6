"""What users may change of a workload that is known: what its jobs run and how many tasks they have; and who is told of it."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.events.control import AttemptChanged
from core.events.queue import CancelRequested, WorkloadChanged
from core.events.region import StopOrdered
from core.messages.agents import BidSettled
from core.messages.base import LogSilent, Refused
from core.messages.broker import ExecuteAward, SolicitBid, StopAttempt
from core.messages.control import ChangeAttempt
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    ChangeWorkload,
    HoldWorkload,
    ReleaseWorkload,
    RequeueWorkload,
    ShowWorkload,
    SubmitWorkload,
    WorkloadShown,
)
from core.nouns.instant import Nanoseconds
from core.nouns.limits import AWARD_SAY_AGAIN
from core.nouns.reasons import SENTENCES, Reason
from core.nouns.workload import EndCause, JobSpec, Kind, Phase, Program, WorkloadSpec
from tests.builders import EU, EU_LOG, US, US_LOG, a_claim, a_job, a_spec, attempt, granted, joined, promised
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
    running,
    shown,
    submit,
)
from tests.components.support.machine import Machine
from tests.matching import facts, said, said_once

FOUR = (a_job(4),)
LONGER = Nanoseconds(5 * AWARD_SAY_AGAIN)


def refused(reason: Reason, *problems: str) -> Refused:
    """The answer that nothing changes, and why."""
    return Refused(reason, SENTENCES[reason], problems)


def change(machine: Machine[Any], *jobs: JobSpec, revision: int = 0) -> Any:  # Any: a decision
    """The workload's jobs are these from now on."""
    return machine.hear(ChangeWorkload(W1, revision, jobs))


def problems(machine: Machine[Any], *jobs: JobSpec, revision: int = 0) -> list[str]:
    """The fields for which a change is refused; it records nothing."""
    decision = change(machine, *jobs, revision=revision)
    assert [] == facts(decision)
    return [text.partition(":")[0] for text in said_once(decision, Refused).problems]


# What is accepted.


def test_change_is_recorded_and_answered(start: Start) -> None:
    """With the next revision, which a later change must name; a queue that starts again knows it."""
    machine = a_job_queue(start)
    submit(machine)
    decision = change(machine, *FOUR)
    assert [WorkloadChanged(W1, 1, FOUR)] == facts(decision)
    assert (Acknowledged(W1, 1),) == decision.messages
    for one in (machine, machine.restart()):
        told = said_once(one.hear(ShowWorkload(W1, wants_spec=True)), WorkloadShown)
        assert (1, a_spec(*FOUR)) == (told.spec_revision, told.spec)
        assert shown(one).spec is None, "it is told to whoever wants it"


def test_change_that_is_said_again(start: Start) -> None:
    """It finds what it asked for, also under the revision that it made, and records nothing."""
    machine = a_job_queue(start)
    submit(machine)
    change(machine, *FOUR)
    for revision in (0, 1):
        again = change(machine, *FOUR, revision=revision)
        assert ((), (Acknowledged(W1, 1),)) == (again.events, again.messages)


def test_change_that_was_made_from_something_older(start: Start) -> None:
    """It is refused, with what else would be wrong with it: whoever made it has not seen what it would undo."""
    machine = a_job_queue(start)
    submit(machine)
    change(machine, *FOUR)
    change(machine, a_job(2), revision=1)
    late = change(machine, *FOUR)
    assert ((), (refused(Reason.SUPERSEDED, "revision: it is 2 now"),)) == (late.events, late.messages)
    assert ["revision", "jobs[0].tasks"] == problems(machine, a_job(0), revision=7)


def test_change_back_and_forth(start: Start) -> None:
    """A change that would find its own jobs again two changes later is old all the same."""
    machine = a_job_queue(start)
    submit(machine)
    change(machine, *FOUR)
    change(machine, a_job(), revision=1)
    change(machine, *FOUR, revision=2)
    assert Reason.SUPERSEDED == said_once(change(machine, *FOUR, revision=0), Refused).reason
    assert ["revision"] == problems(machine, *FOUR, revision=1)


# What is refused.


def test_every_problem_of_a_change_at_once(start: Start) -> None:
    """What a job runs and how many tasks it has may change; what it is and needs may not."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(2, 1), a_job(1, 0, name="eval", cpus=1)))
    other = replace(a_job(0, 2, gpu_type="A100"), emulation=None, program=Program(" "))
    assert [
        "jobs",  # A program and an emulation.
        "jobs[0].tasks",
        "jobs[0].program.run",
        "jobs[0].gpu_type",
        "jobs[0].need.gpu_milli",
        "jobs[0].program",
        "jobs[1].need.memory_bytes",
    ] == problems(machine, other, a_job(1, 0, name="eval", cpus=1, gib=1))
    assert Reason.INVALID == said_once(change(machine, other, a_job(name="eval")), Refused).reason


@pytest.mark.parametrize(
    "jobs",
    [
        pytest.param((), id="none"),
        pytest.param((a_job(name="main"),), id="one less"),
        pytest.param((a_job(name="eval"), a_job(name="main")), id="another order"),
        pytest.param((a_job(name="main"), a_job(name="test")), id="another name"),
        pytest.param((a_job(), a_job(name="eval"), a_job(name="more")), id="one more"),
    ],
)
def test_change_of_which_jobs_there_are(start: Start, jobs: tuple[JobSpec, ...]) -> None:
    """A task is known by its job's place: jobs neither come nor go."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(), a_job(name="eval")))
    assert (
        "jobs: they stay what they are, in this order: main, eval"
        in said_once(change(machine, *jobs), Refused).problems
    )


def test_change_that_could_never_fit(start: Start) -> None:
    """As when it is submitted: said now, with figures, and nothing is recorded."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 8)))
    decision = change(machine, a_job(5, 8))
    problem = "jobs[0].tasks: 5 tasks ask for 40 H100, and no region with such nodes has more than 32"
    assert ((), (refused(Reason.NEVER_FITS, problem),)) == (decision.events, decision.messages)


def test_change_that_a_pin_keeps_from_fitting(start: Start) -> None:
    """Only regions in which it may run count."""
    machine = a_job_queue(start, us=joined(nodes=8))
    submit(machine, a_spec(a_job(1, 8), regions=(EU,)))
    assert Reason.NEVER_FITS == said_once(change(machine, a_job(8, 8)), Refused).reason
    submit(machine, a_spec(a_job(1, 8)))
    assert said(machine.hear(ChangeWorkload(W2, 0, (a_job(8, 8),))), Acknowledged)


def test_change_of_an_unknown_or_ended_workload(start: Start) -> None:
    """Nothing comes of it, and the user is told why."""
    machine = a_job_queue(start)
    assert (refused(Reason.UNKNOWN_WORKLOAD),) == change(machine, a_job()).messages
    submit(machine)
    machine.hear(CancelWorkload(W1))
    assert (refused(Reason.ALREADY_ENDED, "it is CANCELLED"),) == change(machine, *FOUR).messages


# What comes of it while it waits.


def test_change_while_it_waits(start: Start) -> None:
    """It keeps its place, and is asked for as it is now; a refusal of what it was says nothing about it."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(2, 8)))
    auction = auction_of(machine.wake())
    for region in (EU, US):
        abstain(machine, auction, region, missing=1_000_000)
    assert () == machine.wake().messages
    submit(machine, a_spec(a_job(3, 8)))
    machine.wake()
    change(machine, a_job(1, 8))
    opened = machine.wake()
    assert [(a_job(1, 8),)] * 2 == [told.jobs for told in said(opened, SolicitBid) if told.workload == W1]
    assert [W1, W2] == [one.work.workload for one in machine.state.order.ranked()]


def test_change_while_it_is_auctioned(start: Start) -> None:
    """The bids were for something else: they have lost, and it is asked for anew."""
    machine = a_job_queue(start)
    submit(machine)
    auction = auction_of(machine.wake())
    bid(machine, auction, EU)
    decision = change(machine, *FOUR)
    assert [(EU, False)] == [(told.region, told.has_won) for told in said(decision, BidSettled)]
    assert [False] == [told.has_won for told in said(bid(machine, auction, US), BidSettled)]
    again = machine.wake()
    assert auction != auction_of(again)
    assert [FOUR, FOUR] == [told.jobs for told in said(again, SolicitBid)]


def test_change_while_it_is_held(start: Start) -> None:
    """It stays held, and comes back as it is now."""
    machine = a_job_queue(start)
    submit(machine)
    machine.hear(HoldWorkload(W1, 0))
    change(machine, *FOUR)
    assert [] == asked(machine.wake())
    machine.hear(ReleaseWorkload(W1, 1))
    assert [FOUR, FOUR] == [told.jobs for told in said(machine.wake(), SolicitBid)]


# What comes of it while an award stands.


def test_change_before_the_region_has_answered_its_award(start: Start) -> None:
    """The award says what the workload is now, and no longer where what was bid for would go."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    first = said_once(machine.wake(), ExecuteAward)
    assert (a_spec().jobs, 0, True) == (first.jobs, first.spec_revision, bool(first.spreads))
    change(machine, *FOUR)
    told = said_once(machine.wake(), ExecuteAward)
    assert (FOUR, 1, (), ()) == (told.jobs, told.spec_revision, told.spreads, told.victims)
    # The region granted what it had heard first: it is told at once.
    machine.fact(EU_LOG, grant())
    assert (ChangeAttempt(EU, W1, 1, 1, FOUR),) == machine.wake().messages


def test_change_that_the_grant_knows_already(start: Start) -> None:
    """Nobody need be told."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    change(machine, *FOUR)
    machine.fact(
        EU_LOG, granted(replace(a_claim(jobs=FOUR, placed={0: 1, 1: 1, 2: 1, 3: 1}), spec_revision=1))
    )
    assert () == machine.wait(LONGER).messages


def test_change_of_a_promised_attempt(start: Start) -> None:
    """No task is there yet that could follow; the region is told once it is granted."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    machine.fact(EU_LOG, promised(a_claim()))
    change(machine, *FOUR)
    assert () == machine.wait(LONGER).messages
    machine.fact(EU_LOG, grant())
    assert [1] == [told.revision for told in said(machine.wake(), ChangeAttempt)]


def test_change_of_a_running_workload(start: Start) -> None:
    """The region is told until its log shows it; the next change is told again. A queue that starts again goes on."""
    machine = a_job_queue(start)
    submit(machine, a_spec(kind=Kind.SERVICE))
    awarded(machine)
    running(machine)
    change(machine, *FOUR)
    told = ChangeAttempt(EU, W1, 1, 1, FOUR)
    assert (told,) == machine.wake().messages
    assert (told,) == machine.wait(AWARD_SAY_AGAIN).messages
    assert (told,) == machine.restart().wake().messages
    machine.fact(EU_LOG, AttemptChanged(*attempt(), 1, FOUR))
    assert () == machine.wait(LONGER).messages
    assert () == machine.restart().wake().messages
    change(machine, a_job(2), revision=1)
    assert (ChangeAttempt(EU, W1, 1, 2, (a_job(2),)),) == machine.wake().messages


def test_change_while_the_region_is_silent(start: Start) -> None:
    """It is said again all the same: whether the region hears it, its log will show."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    machine.hear(LogSilent(EU_LOG))
    change(machine, *FOUR)
    assert 6 == len(said(machine.wait(LONGER), ChangeAttempt))


@pytest.mark.parametrize("is_ordered", [False, True])
def test_change_of_an_attempt_that_is_to_end(start: Start, *, is_ordered: bool) -> None:
    """Its region is told of the end alone: the next attempt, if there is one, has the changed tasks."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    machine.hear(RequeueWorkload(W1, 1))
    if is_ordered:
        machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.REQUEUED))
    change(machine, *FOUR)
    assert [] == said(machine.wait(LONGER), ChangeAttempt)
    assert is_ordered is not bool(said(machine.wait(LONGER), StopAttempt))
    machine.fact(EU_LOG, ended(EndCause.REQUEUED))
    assert [(EU, FOUR)] == [(told.region, told.jobs) for told in said(machine.wake(), SolicitBid)]


def test_attempt_that_ended_because_its_workload_was_changed(start: Start) -> None:
    """It keeps its place, its checkpoint and its retries, and the next attempt is as its user wants it."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    change(machine, *FOUR)
    machine.fact(EU_LOG, AttemptChanged(*attempt(), 1, FOUR), StopOrdered(*attempt(), EndCause.CHANGED))
    assert () == machine.wait(LONGER).messages
    [closed] = facts(_heard_end(machine))
    assert (EndCause.CHANGED, Phase.PENDING) == (closed.cause, closed.phase)  # type: ignore[attr-defined]  # AttemptClosed
    assert 2 == awarded(machine).epoch
    told = said_once(machine.wake(), ExecuteAward)
    assert (FOUR, 1) == (told.jobs, told.spec_revision)
    machine.fact(EU_LOG, granted(replace(a_claim(epoch=2), spec_revision=1)))
    assert () == machine.wait(LONGER).messages


def _heard_end(machine: Machine[Any]) -> Any:  # Any: a decision
    machine.fact(EU_LOG, ended(EndCause.CHANGED))
    return machine.hear_due_once()


def test_declined_award_of_a_changed_workload(start: Start) -> None:
    """It is put up for auction by its new shape."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    change(machine, *FOUR)
    machine.fact(EU_LOG, declined())
    machine.hear_due_once()
    assert a_spec(*FOUR).shape == machine.state.order.work(W1).shape
    assert FOUR in [told.jobs for told in said(machine.wake(), SolicitBid)]


def test_change_of_a_workload_that_is_being_cancelled(start: Start) -> None:
    """It is recorded, and no region is told: the workload ends."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    assert [CancelRequested(W1)] == facts(machine.hear(CancelWorkload(W1)))
    assert [WorkloadChanged(W1, 1, FOUR)] == facts(change(machine, *FOUR))
    assert [] == said(machine.wait(LONGER), ChangeAttempt)


def test_submission_with_an_unreachable_controller(start: Start) -> None:
    """The controller's name, and its tenant's, are part of a subject."""
    spec: WorkloadSpec = a_spec(tenant="a.b")
    spec = replace(spec, control=replace(spec.control, controller="x*"))
    refusal = said_once(a_job_queue(start).hear(SubmitWorkload(spec, "ada")), Refused)
    assert ["tenant", "control.controller"] == [text.partition(":")[0] for text in refusal.problems]


def test_regions_that_are_not_the_workloads_own_are_not_told(start: Start) -> None:
    """Only who has the attempt."""
    machine = a_job_queue(start)
    submit(machine, a_spec(regions=(EU,)))
    awarded(machine)
    running(machine)
    machine.fact(US_LOG, granted(a_claim("w-9", region=US)))
    change(machine, *FOUR)
    assert {EU} == {told.region for told in said(machine.wake(), ChangeAttempt)}
