"""What users ask the job queue to tell: which workloads there are, and why one does not run."""

from typing import Any

import pytest
from msgspec.structs import replace

from components.job_queue.component import JobQueue
from core.codec import encode
from core.events.region import CheckpointCommitted, GangStarted, StopOrdered
from core.messages.base import LogHeard, LogSilent
from core.messages.queue import (
    CancelWorkload,
    ExplainWorkload,
    HardwareKnown,
    Holder,
    HoldWorkload,
    ListedWorkload,
    ListWorkloads,
    RegionOutlook,
    WorkloadExplained,
    WorkloadsListed,
)
from core.nouns.ids import GLOBAL_LOG, RegionName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, after
from core.nouns.limits import (
    AHEAD_SHOWN_MAX,
    LAGGING_VIEW_RETRY,
    LISTED_BYTES_MAX,
    LISTED_MAX,
    MESSAGE_BYTES_MAX,
)
from core.nouns.placement import Shortage
from core.nouns.reasons import SENTENCES, Reason
from core.nouns.workload import EndCause, Phase
from tests.builders import (
    EU,
    EU_LOG,
    US,
    US_LOG,
    a_claim,
    a_job,
    a_spec,
    a_spread,
    amount,
    attempt,
    facts_of,
    granted,
    joined,
    submitted,
)
from tests.components.support.job_queue import (
    W1,
    W2,
    Start,
    a_job_queue,
    abstain,
    auction_of,
    awarded,
    bid,
    ended,
    happens,
    running,
    submit,
)
from tests.components.support.machine import Machine
from tests.matching import said_once

MANY_NODES = joined(nodes=64)
A_MINUTE = Nanoseconds(60 * SECOND)


def listed(machine: Machine[Any], *phases: Phase, after: int = 0, count: int = LISTED_MAX) -> WorkloadsListed:
    """What the queue answers."""
    return said_once(machine.hear(ListWorkloads(phases, after, count)), WorkloadsListed)


def line(machine: Machine[Any], workload: WorkloadId = W1) -> ListedWorkload:
    """One workload's."""
    return next(row for row in listed(machine).rows if row.workload == workload)


def explained(machine: Machine[Any], workload: WorkloadId = W1) -> WorkloadExplained:
    """What the queue answers."""
    return said_once(machine.hear(ExplainWorkload(workload)), WorkloadExplained)


def outlook(machine: Machine[Any], region: RegionName = EU, workload: WorkloadId = W1) -> RegionOutlook:
    """How one region stands to it."""
    return next(one for one in explained(machine, workload).regions if one.region == region)


# Lists.


def test_list_describes_each_workload(start: Start) -> None:
    """Its name, tenant and size, and how long it has waited."""
    machine = a_job_queue(start)
    machine.hear(
        HoldWorkload(submit(machine, a_spec(a_job(3, 2), name="mine", priority=5, regions=(EU,))), 0)
    )
    machine.now = after(machine.now, A_MINUTE)
    assert (
        ListedWorkload(
            workload=W1,
            name="mine",
            tenant="default",
            priority=5,
            kind="training",
            phase=Phase.PENDING,
            epoch=0,
            gpu_milli=6_000,
            tasks=3,
            waited=A_MINUTE,
            ran=Nanoseconds(0),
            regions=(EU,),
            reason=Reason.HELD,
        ),
    ) == listed(machine).rows


def test_list_from_submission_to_end(start: Start) -> None:
    """Where it runs, on which nodes, and how long each part of its life took."""
    machine = a_job_queue(start, eu=MANY_NODES)
    submit(machine, a_spec(a_job(5)))
    machine.now = after(machine.now, A_MINUTE)
    awarded(machine)
    assert (Phase.AWARDED, EU, 1, ()) == _place(line(machine))
    claim = a_claim(placed={7: 1, 3: 1, 4: 2, 5: 1}, gpus=1)
    machine.fact(EU_LOG, granted(claim))
    assert (Phase.AWARDED, EU, 1, ((3, 5), (7, 7))) == _place(line(machine))
    machine.now = after(machine.now, A_MINUTE)
    happens(machine, _started())
    machine.now = after(machine.now, A_MINUTE)
    assert (Phase.RUNNING, EU, 1, ((3, 5), (7, 7))) == _place(line(machine))
    assert (2 * A_MINUTE, A_MINUTE) == (line(machine).waited, line(machine).ran)
    happens(machine, ended(EndCause.COMPLETED))
    machine.now = after(machine.now, A_MINUTE)
    assert (Phase.COMPLETED, "", 1, ()) == _place(line(machine))
    assert (2 * A_MINUTE, A_MINUTE) == (line(machine).waited, line(machine).ran)


def _place(row: ListedWorkload) -> tuple[str, str, int, tuple[tuple[int, int], ...]]:
    return row.phase, row.region, row.epoch, row.node_runs


def _started() -> GangStarted:
    return GangStarted(*attempt())


def test_list_of_one_that_waits_again(start: Start) -> None:
    """It waits since its submission, and has run nowhere in its newest attempt."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    machine.now = after(machine.now, A_MINUTE)
    machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.NODE_LOST), ended(EndCause.NODE_LOST))
    machine.hear_due_once()
    assert (Phase.PENDING, A_MINUTE, 0) == (line(machine).phase, line(machine).waited, line(machine).ran)
    awarded(machine)
    assert (Phase.AWARDED, 2, A_MINUTE, 0) == (
        line(machine).phase,
        line(machine).epoch,
        line(machine).waited,
        line(machine).ran,
    )


def test_list_names_every_reason(start: Start) -> None:
    """The one that counts, and that of each region that does not bid."""
    machine = a_job_queue(start, us=joined(gpu_type="A100"))
    submit(machine)
    assert (Reason.WAITING_TURN, {US: Reason.NO_SUCH_HARDWARE}) == _reasons(line(machine))
    abstain(machine, auction_of(machine.wake()))
    machine.wake()
    assert (Reason.NO_CAPACITY, {EU: Reason.NO_CAPACITY, US: Reason.NO_SUCH_HARDWARE}) == _reasons(
        line(machine)
    )
    machine.hear(LogSilent(EU_LOG))
    assert (
        Reason.REGION_UNREACHABLE,
        {EU: Reason.REGION_UNREACHABLE, US: Reason.NO_SUCH_HARDWARE},
    ) == _reasons(line(machine))


def _reasons(row: ListedWorkload) -> tuple[str, dict[RegionName, str]]:
    return row.reason, row.refusals


def test_list_by_phase(start: Start) -> None:
    """Only those asked for; the counts are of all, and told once."""
    machine = a_job_queue(start)
    for _ in range(4):
        submit(machine, a_spec(a_job(1, 8)))
    machine.hear(CancelWorkload(W2))
    awarded(machine)
    counts = {"PENDING": 2, "AWARDED": 1, "CANCELLED": 1}
    for phases, numbers in (
        ((), [1, 2, 3, 4]),
        ((Phase.PENDING,), [3, 4]),
        ((Phase.CANCELLED, Phase.AWARDED), [1, 2]),
        ((Phase.FAILED,), []),
    ):
        found = listed(machine, *phases)
        assert [f"w-{number}" for number in numbers] == [row.workload for row in found.rows]
        assert (counts, 0) == (found.counts, found.next)
    assert {} == listed(machine, after=2).counts


@pytest.mark.parametrize("count", [1, 3, 7, 100])
def test_list_in_pages(start: Start, count: int) -> None:
    """Whoever goes on behind the last one has every workload once, also when some have gone meanwhile."""
    machine = a_job_queue(start)
    for number in range(7):
        submit(machine, a_spec(a_job(1, 8), name=f"n{number}"))
    machine.hear(CancelWorkload(W2))
    found: list[str] = []
    page = listed(machine, Phase.PENDING, count=count)
    while True:
        assert len(page.rows) <= count
        found += [row.name for row in page.rows]
        if not page.next:
            break
        page = listed(machine, Phase.PENDING, after=page.next, count=count)
    assert ["n0", "n2", "n3", "n4", "n5", "n6"] == found


@pytest.mark.parametrize("count", [-1, 0])
def test_list_of_no_workloads_is_one_of_one(start: Start, count: int) -> None:
    """Or whoever asks so would ask for ever."""
    machine = a_job_queue(start)
    submit(machine)
    submit(machine)
    assert (1, 1) == (len(listed(machine, count=count).rows), listed(machine, count=count).next)


def test_list_fits_a_message(start: Start) -> None:
    """However long its rows are, as of an older build's names: a page ends before it is too large, and the next goes on."""
    spec = a_spec(a_job(1, 8), tenant="t" * 100_000)
    known = facts_of([submitted(number, spec) for number in range(1, 13)], log=GLOBAL_LOG)
    machine = start(JobQueue((US, EU)), logs={GLOBAL_LOG: known})
    found, after_number, pages = [], 0, 0
    while True:
        page = listed(machine, after=after_number)
        assert len(encode(page)) < LISTED_BYTES_MAX + 1_000 < MESSAGE_BYTES_MAX
        found += [row.workload for row in page.rows]
        pages += 1
        after_number = page.next
        if not after_number:
            break
    assert [f"w-{number}" for number in range(1, 13)] == found
    assert 3 == pages


def test_list_of_nothing(start: Start) -> None:
    """Nobody has submitted anything; which regions have nodes is told all the same, of those that are heard."""
    machine = a_job_queue(start)
    assert WorkloadsListed((), 0, {}, (EU, US)) == listed(machine)
    machine.hear(LogSilent(EU_LOG))
    assert (US,) == listed(machine).regions
    assert () == listed(a_job_queue(start, unknown=(EU_LOG, US_LOG))).regions


def test_list_tells_the_newest_checkpoint(start: Start) -> None:
    """Of the attempt that runs."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    machine.fact(EU_LOG, CheckpointCommitted(*attempt(), 7))
    assert 7 == line(machine).saved_step


# Explanations.


def test_explanation_of_a_refusal(start: Start) -> None:
    """M11: what the agent had, on which view, how much must be freed, for whom it was said, and who has the
    capacity.
    """
    machine = a_job_queue(start, us=joined(gpu_type="A100"))
    spec = a_spec(a_job(2, 8))
    submit(machine, spec)
    awarded(machine)
    running(machine)
    for _ in range(2):
        submit(machine, spec)
    auction = auction_of(machine.wake(), W2)
    shortage = Shortage("main", 2, 1, 4, amount(9), amount(8))
    abstain(machine, auction, workload=W2, missing=7_000, shortage=shortage)
    machine.wake()
    third = WorkloadId("w-3")
    found = explained(machine, third)
    assert (Phase.PENDING, Reason.NO_CAPACITY, SENTENCES[Reason.NO_CAPACITY]) == (
        found.phase,
        found.reason,
        found.sentence,
    )
    assert (1, (W2,), f"3|{spec.shape}") == (found.rank, found.ahead, found.shape)
    assert [EU, US] == [one.region for one in found.regions]
    assert (
        RegionOutlook(
            region=EU,
            reason=Reason.NO_CAPACITY,
            sentence=SENTENCES[Reason.NO_CAPACITY],
            hardware=(HardwareKnown("H100", 4, 32_000, 8_000),),
            is_asked=True,
            refused=W2,
            agent="a0",
            view_sequence=machine.sequence(EU_LOG),
            missing_gpu_milli=7_000,
            shortage=shortage,
            holders=(Holder(W1, 3, 8_000),),
        )
        == found.regions[0]
    )
    assert RegionOutlook(US, Reason.NO_SUCH_HARDWARE, SENTENCES[Reason.NO_SUCH_HARDWARE]) == found.regions[1]


def test_explanation_names_only_holders_of_the_requested_hardware(start: Start) -> None:
    """EU has H100, A100, and machines without GPUs: a workload that waits for one of them is told which others hold it, and how much."""
    machine = a_job_queue(start, us=joined(gpu_type="V100"))
    machine.fact(
        EU_LOG,
        joined("w9", 4, 4, gpu_type="A100"),
        joined("w10", 8, 4, gpu_type="cpu", total=amount(0, 64, 256)),
    )
    jobs = {
        "H100": a_job(2, 8),
        "A100": a_job(1, 8, gpu_type="A100"),
        "cpu": a_job(2, 0, cpus=8, gpu_type="cpu"),
    }
    holders: dict[str, Holder] = {}
    for node, (kind, job) in zip((0, 4, 8), jobs.items(), strict=True):
        workload = submit(machine, a_spec(job))
        awarded(machine, workload=workload)
        spread = a_spread({node + at: 1 for at in range(job.tasks)})
        machine.fact(
            EU_LOG,
            granted(a_claim(workload, jobs=(job,), spreads=(spread,))),
            GangStarted(*attempt(workload)),
        )
        machine.wake()
        gpus, cpus = (job.tasks * milli for milli in (job.need.gpu_milli, job.need.cpu_milli))
        holders[kind] = Holder(workload, 3, gpus, 0 if gpus else cpus)
    for kind, job in jobs.items():
        workload = submit(machine, a_spec(replace(job, tasks=4)))
        abstain(machine, auction_of(machine.wake(), workload), workload=workload)
        machine.wake()
        assert [(holders[kind],)] == [
            one.holders for one in explained(machine, workload).regions if one.region == EU
        ]


def test_explanation_names_the_workload_that_capacity_is_kept_for(start: Start) -> None:
    """That workload has an open bid for it meanwhile."""
    machine = a_job_queue(start, us=joined(gpu_type="A100"))
    for spec in (a_spec(a_job(2, 8)), a_spec(a_job(3, 8))):
        submit(machine, spec)
    opened = machine.wake()
    bid(machine, auction_of(opened, W2), EU, workload=W2)
    abstain(machine, auction_of(opened, W1), EU, workload=W1, reason=Reason.OPEN_BIDS)
    told = {one.region: one.kept_for for one in explained(machine, W1).regions}
    assert {EU: (W2,), US: ()} == told


def test_explanation_while_it_is_auctioned(start: Start) -> None:
    """Who was asked, and who bid what."""
    machine = a_job_queue(start)
    submit(machine)
    assert (False, "") == (outlook(machine).is_asked, outlook(machine).reason)
    auction = auction_of(machine.wake())
    bid(machine, auction, EU, score=(0, 0, 0, 1, 1, 5))
    assert (True, (0, 0, 0, 1, 1, 5)) == (outlook(machine).is_asked, outlook(machine).score)
    assert (True, ()) == (outlook(machine, US).is_asked, outlook(machine, US).score)
    assert Reason.WAITING_TURN == explained(machine).reason


def test_explanation_names_the_workload_that_is_asked_for(start: Start) -> None:
    """One workload of a contended shape is asked for at a time: it is named to those that wait behind it and to those ahead."""
    machine = a_job_queue(start)
    for _ in range(AHEAD_SHOWN_MAX + 5):
        submit(machine)
    last = WorkloadId(f"w-{AHEAD_SHOWN_MAX + 5}")
    opened = machine.wake()
    for number in range(1, AHEAD_SHOWN_MAX + 6):
        for region in (EU, US):
            workload = WorkloadId(f"w-{number}")
            abstain(machine, auction_of(opened, workload), region, workload=workload)
    machine.wake()
    happens(machine, joined("w9", 100, 1))  # All that was said of this region has passed.
    found = explained(machine, last)
    assert (AHEAD_SHOWN_MAX + 4, AHEAD_SHOWN_MAX) == (found.rank, len(found.ahead))
    assert WorkloadId(f"w-{AHEAD_SHOWN_MAX + 4}") == found.ahead[-1]
    assert (W1,) == found.asking
    assert () == explained(machine).asking


def test_explanation_when_regions_are_out_of_question(start: Start) -> None:
    """Excluded by its pin, silent, or without the hardware: each with its sentence."""
    machine = a_job_queue(start)
    submit(machine, a_spec(a_job(1, 8), regions=(US,)))
    machine.hear(LogSilent(US_LOG))
    found = explained(machine)
    assert [Reason.REGION_EXCLUDED, Reason.REGION_UNREACHABLE] == [one.reason for one in found.regions]
    assert [SENTENCES[Reason.REGION_EXCLUDED], SENTENCES[Reason.REGION_UNREACHABLE]] == [
        one.sentence for one in found.regions
    ]
    machine.hear(LogHeard(US_LOG))
    assert [Reason.REGION_EXCLUDED, ""] == [one.reason for one in explained(machine).regions]


def test_explanation_of_a_region_that_is_not_known(start: Start) -> None:
    """Nothing can be said of its hardware."""
    machine = a_job_queue(start, unknown=(US_LOG,))
    submit(machine)
    unknown = RegionOutlook(US, Reason.REGION_UNREACHABLE, SENTENCES[Reason.REGION_UNREACHABLE])
    assert unknown == outlook(machine, US)


def test_explanation_of_one_that_is_held(start: Start) -> None:
    """It has no place in the order; what regions would say is told all the same."""
    machine = a_job_queue(start)
    submit(machine)
    machine.hear(HoldWorkload(W1, 0))
    found = explained(machine)
    assert (Reason.HELD, True, 1, -1, ()) == (
        found.reason,
        found.is_held,
        found.hold_revision,
        found.rank,
        found.ahead,
    )
    assert ["", ""] == [one.reason for one in found.regions]


def test_explanation_of_one_that_does_not_wait(start: Start) -> None:
    """Where it runs, or how it ended; regions are not asked for it."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    found = explained(machine)
    assert (Phase.RUNNING, EU, 1, "", ()) == (
        found.phase,
        found.region,
        found.epoch,
        found.reason,
        found.regions,
    )
    machine.hear(CancelWorkload(W1))
    assert explained(machine).is_cancel_requested
    happens(machine, ended(EndCause.CANCELLED))
    assert (Phase.CANCELLED, "", ()) == (
        explained(machine).phase,
        explained(machine).region,
        explained(machine).regions,
    )


def test_refusal_that_did_not_hold_is_told_while_the_auction_is_open(start: Start) -> None:
    """Enough was freed since its view: the region will be asked again in a moment, and why it did not bid is known."""
    machine = a_job_queue(start)
    submit(machine)
    awarded(machine)
    running(machine)
    submit(machine)
    view = machine.sequence(EU_LOG)
    auction = auction_of(machine.wake(), W2)
    machine.fact(EU_LOG, ended(EndCause.COMPLETED))
    shortage = Shortage("main", 1, 0, 4, amount(0), amount(0))
    abstain(machine, auction, workload=W2, view=view, missing=1_000, shortage=shortage)
    found = outlook(machine, EU, W2)
    said = (found.reason, found.is_asked, found.shortage, found.view_sequence)
    assert (Reason.NO_CAPACITY, True, shortage, view) == said
    machine.wait(LAGGING_VIEW_RETRY)
    assert "" == outlook(machine, EU, W2).reason


def test_answers_keep_time_by_the_queue(start: Start) -> None:
    """Spans are by its clock, so the asker's may be anything."""
    machine = a_job_queue(start)
    submit(machine)
    machine.now = Instant(machine.now + 5 * A_MINUTE)
    assert 5 * A_MINUTE == line(machine).waited
