"""A job queue over two regions, and the words that regions say to it."""

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from components.job_queue.component import JobQueue
from components.job_queue.state.queue_state import QueueState
from core.component import Decision
from core.events.queue import WorkloadAwarded
from core.events.region import AttemptEnded, AwardDeclined, ClaimGranted, GangStarted, NodesJoined
from core.fact import Event
from core.messages.broker import SolicitBid
from core.messages.queue import Abstention, Bid, ShowWorkload, Submitted, SubmitWorkload, WorkloadShown
from core.nouns.ids import GLOBAL_LOG, AgentName, LogName, RegionName, WorkloadId, region_log
from core.nouns.instant import Nanoseconds, after
from core.nouns.placement import Shortage, View
from core.nouns.reasons import Reason
from core.nouns.starts import EarliestStart
from core.nouns.workload import EndCause, Phase, WorkloadSpec
from tests.builders import EU, EU_LOG, US, US_LOG, a_claim, a_job, a_spec, a_spread, attempt, granted, joined
from tests.components.support.machine import Machine
from tests.matching import all_of, facts, said, said_once

Start = Callable[..., Machine[Any]]
W1 = WorkloadId("w-1")
W2 = WorkloadId("w-2")
W3 = WorkloadId("w-3")
W4 = WorkloadId("w-4")
CYCLES_MAX = 100
"""Cycles that one call may answer; more means that refusals do not hold."""


def a_job_queue(
    start: Start,
    *,
    eu: NodesJoined | None = None,
    us: NodesJoined | None = None,
    unknown: tuple[LogName, ...] = (),
) -> Machine[Any]:
    """One that has just started, over two regions of four nodes each."""
    machine = start(JobQueue((US, EU), (US, EU)), unknown=unknown)
    for log, event in ((EU_LOG, eu), (US_LOG, us)):
        if log not in unknown:
            machine.fact(log, event or joined())
    machine.wake()
    return machine


def submit(machine: Machine[Any], spec: WorkloadSpec | None = None, *, key: str = "") -> WorkloadId:
    """A workload is accepted."""
    decision = machine.hear(SubmitWorkload(spec or a_spec(), "ada", key))
    return said_once(decision, Submitted).workload


def small(priority: int = 3) -> WorkloadSpec:
    """One that may run in eu alone, so that one answer closes its auction."""
    return a_spec(a_job(1, 1), priority=priority, regions=(EU,))


def large(priority: int = 3) -> WorkloadSpec:
    """The same of another shape."""
    return a_spec(a_job(4, 8), priority=priority, regions=(EU,))


def awards(decision: Decision) -> list[WorkloadId]:
    """Who is awarded, in order."""
    return [event.workload for event in facts(decision) if isinstance(event, WorkloadAwarded)]


def asked(decision: Decision) -> list[tuple[str, str]]:
    """Which regions were asked for which workloads."""
    return [(message.workload, message.region) for message in said(decision, SolicitBid)]


def auction_of(decision: Decision, workload: WorkloadId = W1) -> str:
    """The name of the auction that was opened for a workload."""
    names = {message.auction for message in said(decision, SolicitBid) if message.workload == workload}
    assert 1 == len(names), names
    return names.pop()


def bid(
    machine: Machine[Any],
    auction: str,
    region: RegionName = EU,
    *,
    workload: WorkloadId = W1,
    score: tuple[int, ...] = (0, 0, 0, 1, 1, 0),
) -> Decision:
    """A region bids."""
    offer = Bid(region, AgentName(f"a-{region}"), workload, auction, score, (a_spread({0: 1}),), (), View(1))
    return machine.hear(offer)


def abstain(
    machine: Machine[Any],
    auction: str,
    region: RegionName = EU,
    *,
    workload: WorkloadId = W1,
    reason: Reason = Reason.NO_CAPACITY,
    missing: int = 1_000,
    view: int | None = None,
    shortage: Shortage | None = None,
    prospect: EarliestStart | None = None,
) -> Decision:
    """A region does not bid, on the newest view unless told otherwise."""
    log = EU_LOG if region == EU else US_LOG
    sequence = machine.sequence(log) if view is None else view
    said = Abstention(
        region, AgentName("a0"), workload, auction, reason, sequence, missing, shortage, prospect
    )
    return machine.hear(said)


def refuse_open(
    machine: Machine[Any],
    *others: WorkloadId,
    reason: Reason = Reason.NO_CAPACITY,
    missing: Mapping[RegionName, int] = MappingProxyType({}),
) -> None:
    """Regions refuse all requests of the open cycle that have no answer, except those for `others`. The queue is not woken.

    missing   GPU milli that a region lacks; 8,000 unless named
    """
    for workload, auction in list(machine.state.auctions.open.items()):
        for region in () if workload in others else auction.asked:
            if region not in auction.bids and region not in auction.abstained:
                view, lack = machine.sequence(region_log(region)), missing.get(region, 8_000)
                agent = AgentName(f"a-{region}")
                machine.hear(Abstention(region, agent, workload, auction.auction, reason, view, lack))


def refuse_all(
    machine: Machine[Any],
    *,
    reason: Reason = Reason.NO_CAPACITY,
    missing: Mapping[RegionName, int] = MappingProxyType({}),
) -> Decision:
    """Regions refuse each cycle until none is open. Return all that the queue decided when woken."""
    decisions = [machine.wake()]
    while machine.state.auctions.open:
        refuse_open(machine, reason=reason, missing=missing)
        decisions.append(machine.wake())
        assert len(decisions) < CYCLES_MAX, "requests have no end"
    return all_of(decisions)


def refuse_for(
    machine: Machine[Any],
    span: Nanoseconds,
    *,
    reason: Reason = Reason.NO_CAPACITY,
    missing: Mapping[RegionName, int] = MappingProxyType({}),
) -> None:
    """So much time passes, and regions refuse each request at once."""
    end = after(machine.now, span)
    refuse_all(machine, reason=reason, missing=missing)
    while (due := machine.component.due(machine.state)) is not None and due <= end:
        machine.wake(due)
        refuse_all(machine, reason=reason, missing=missing)
    machine.wake(end)


def awarded(machine: Machine[Any], region: RegionName = EU, workload: WorkloadId = W1) -> WorkloadAwarded:
    """The workload is asked for and awarded to this region; others of its cycle are refused. No region has been told of the award yet."""
    opened = machine.wake()
    auction = auction_of(opened, workload)
    for other in {region for name, region in asked(opened) if name == workload}:
        if other == region:
            bid(machine, auction, region, workload=workload)
        else:
            abstain(machine, auction, RegionName(other), workload=workload)
    refuse_open(machine)
    before = len(machine.logs[GLOBAL_LOG])
    machine.hear_due_once()
    found = [
        fact.event for fact in machine.logs[GLOBAL_LOG][before:] if isinstance(fact.event, WorkloadAwarded)
    ]
    assert 1 == len(found), found
    return found[0]


def running(machine: Machine[Any], epoch: int = 1, workload: WorkloadId = W1) -> None:
    """The awarded region's log shows the gang started."""
    machine.fact(EU_LOG, grant(epoch, workload), GangStarted(*attempt(workload, epoch)))
    machine.wake()


def grant(epoch: int = 1, workload: WorkloadId = W1) -> ClaimGranted:
    """The region granted it."""
    return granted(a_claim(workload, epoch))


def ended(
    cause: EndCause, epoch: int = 1, workload: WorkloadId = W1, *, gpu_milli: int = 1_000, exit_code: int = 0
) -> AttemptEnded:
    """The region saw its end."""
    return AttemptEnded(*attempt(workload, epoch), cause, exit_code, gpu_milli)


def declined(epoch: int = 1, workload: WorkloadId = W1, reason: Reason = Reason.NO_CAPACITY) -> AwardDeclined:
    """The region gave it back."""
    return AwardDeclined(*attempt(workload, epoch), reason, 1)


def happens(machine: Machine[Any], *events: Event, log: LogName = EU_LOG) -> list[Event]:
    """What the queue records when a region's log shows these."""
    machine.fact(log, *events)
    return facts(machine.wake())


def shown(machine: Machine[Any], workload: WorkloadId = W1) -> WorkloadShown:
    """Where a workload is."""
    return said_once(machine.hear(ShowWorkload(workload)), WorkloadShown)


def check_counts(state: QueueState) -> None:
    """The counts that are kept from fact to fact are those of all rows, and ended workloads are in the order of their ends."""
    rows, counts = state.image.workloads.rows, state.remembered
    live = [row for row in rows.values() if not row.phase.is_terminal]
    pending = [row for row in live if row.phase == Phase.PENDING]
    assert Counter(row.spec.tenant for row in live) == counts.live
    assert Counter(row.spec.tenant for row in pending) == counts.pending
    assert len(pending) == counts.pending_in_all
    assert len(rows) - len(live) == counts.ended_in_all
    ends = [rows[workload].ended_at for workload in counts.ended]
    assert sorted(ends) == ends
