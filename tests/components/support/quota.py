"""A job queue with tenants that are entitled to GPUs of two regions, and what they hold."""

from typing import Any

from msgspec.structs import replace

from core.component import Decision
from core.events.queue import StandingChanged, WorkloadAwarded
from core.events.region import AttemptEnded, GangStarted
from core.fact import Event
from core.messages.broker import SolicitBid
from core.messages.queue import (
    Abstention,
    Bid,
    ExplainWorkload,
    ListedWorkload,
    ListWorkloads,
    WorkloadExplained,
    WorkloadsListed,
)
from core.messages.tenants import SetBudget, SetEntitlement, SetTenant, TenantAnswered
from core.nouns.ids import AgentName, RegionName, TenantName, WorkloadId, region_log
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.placement import View
from core.nouns.reasons import Reason
from core.nouns.tenant import UNLIMITED, Budget, Entitlement, TenantSettings
from core.nouns.workload import EndCause, JobSpec, Kind
from tests.builders import EU, a_claim, a_job, a_spec, a_spread, attempt, granted
from tests.components.support.job_queue import Start, a_job_queue, submit
from tests.components.support.machine import Machine
from tests.matching import all_of, facts, said, said_once

Queue = Machine[Any]  # Any: the queue's state
ML, ART = TenantName("ml"), TenantName("art")
OVER = -1
HOUR = seconds(3_600)
DAY = Nanoseconds(24 * HOUR)


def tenant(
    queue: Queue,
    name: TenantName = ML,
    gpus: int | None = None,
    *,
    gpu_type: str = "H100",
    level: int = 3,
    borrow_max: int = UNLIMITED,
    is_lent: bool = True,
) -> Decision:
    """It is made, or set otherwise, by force; None: nothing is said of any GPU type. What comes of it at once."""
    revision = queue.state.image.tenants.revision_of(name)
    made = queue.hear(SetTenant(name, TenantSettings(level), revision))
    said_once(made, TenantAnswered)
    if gpus is None:
        return made
    wish = Entitlement(gpus, borrow_max, is_lent)
    revision = queue.state.image.tenants.revision_of(name)
    message = SetEntitlement(name, gpu_type, wish, revision, is_forced=True)
    entitled = queue.hear(message)
    said_once(entitled, TenantAnswered)
    return all_of((made, entitled))


def with_quota(start: Start, gpus: int = 8, **options: Any) -> Queue:  # Any: as `tenant` takes them
    """64 H100 in two regions, so many of them ML's and 16 ART's."""
    queue = a_job_queue(start)
    tenant(queue, ML, gpus, **options)
    tenant(queue, ART, 16)
    return queue


def budget(queue: Queue, gpu_hours: int, period: Nanoseconds = DAY) -> None:
    """Of ML."""
    revision = queue.state.image.tenants.revision_of(ML)
    said_once(queue.hear(SetBudget(ML, Budget(gpu_hours, period), revision)), TenantAnswered)


def waits(
    queue: Queue,
    gpus: int = 8,
    *,
    of: TenantName = ML,
    priority: int | None = None,
    kind: Kind = Kind.TRAINING,
    job: JobSpec | None = None,
) -> WorkloadId:
    """One task of so many H100, of ML unless told otherwise."""
    spec = a_spec(job or a_job(1, gpus), tenant=of, kind=kind)
    return submit(queue, replace(spec, priority=priority))


def asked(decision: Decision) -> dict[WorkloadId, int]:
    """For which workloads regions were asked, in order, and at which level."""
    return {message.workload: message.priority for message in said(decision, SolicitBid)}


def award(queue: Queue, workload: WorkloadId, region: RegionName = EU, node: int = 0) -> list[Event]:
    """The workload is asked for in the open cycle, or in one that begins now, and is the last to be answered: this region bids best.

    Return the recorded facts.
    """
    queue.wake()
    bids(queue, workload, region, node)
    waiting = [
        other
        for other, auction in queue.state.auctions.open.items()
        if not all(map(auction.has_heard, auction.asked))
    ]
    assert [] == waiting, "the cycle goes on until regions have answered for these too"
    return facts(queue.wake())


def bids(queue: Queue, workload: WorkloadId, region: RegionName = EU, node: int = 0) -> None:
    """All regions that were asked and have not answered bid, and this region bids best."""
    auction = queue.state.auctions.open[workload]
    jobs = queue.state.image.workloads.rows[workload].spec.jobs
    for asked_one in auction.asked:
        if asked_one in auction.abstained:
            continue
        score = (int(asked_one != region), 0, 0, 1, 1, 0)
        spreads = tuple(a_spread({node: job.tasks}) for job in jobs)
        agent = AgentName(f"a-{asked_one}")
        queue.hear(Bid(asked_one, agent, workload, auction.auction, score, spreads, (), View(1)))


def runs(
    queue: Queue,
    gpus: int = 8,
    *,
    of: TenantName = ML,
    priority: int | None = None,
    region: RegionName = EU,
    node: int = 0,
) -> WorkloadId:
    """One that was awarded, granted and is up."""
    workload = waits(queue, gpus, of=of, priority=priority)
    (event,) = [one for one in award(queue, workload, region, node) if isinstance(one, WorkloadAwarded)]
    up(queue, workload, event.level or 0, region, node)
    return workload


def up(queue: Queue, workload: WorkloadId, level: int, region: RegionName = EU, node: int = 0) -> None:
    """The region's log shows it granted at this level, and started."""
    row = queue.state.image.workloads.rows[workload]
    claim = a_claim(
        workload,
        row.epoch,
        jobs=row.spec.jobs,
        spreads=tuple(a_spread({node: job.tasks}) for job in row.spec.jobs),
        priority=level,
        region=region,
    )
    queue.fact(region_log(region), granted(claim), GangStarted(*attempt(workload, row.epoch)))
    queue.wake()


def ends(queue: Queue, workload: WorkloadId, region: RegionName = EU) -> list[Event]:
    """It completes there. What the queue records."""
    row = queue.state.image.workloads.rows[workload]
    gpus = sum(job.need.gpu_milli * job.tasks for job in row.spec.jobs)
    end = AttemptEnded(*attempt(workload, row.epoch), EndCause.COMPLETED, 0, gpus)
    queue.fact(region_log(region), end)
    return facts(queue.wake())


def changed(events: list[Event]) -> dict[WorkloadId, int]:
    """Which stand otherwise, and at which level."""
    return {event.workload: event.level for event in events if isinstance(event, StandingChanged)}


def levels(queue: Queue) -> dict[WorkloadId, int]:
    """Of all that runs."""
    rows = queue.state.image.workloads.rows
    return {workload: row.level for workload, row in rows.items() if row.is_active}


def explained(queue: Queue, workload: WorkloadId) -> WorkloadExplained:
    """What is told of it."""
    return said_once(queue.hear(ExplainWorkload(workload)), WorkloadExplained)


def listed(queue: Queue, workload: WorkloadId) -> ListedWorkload:
    """Its line in the queue."""
    rows = said_once(queue.hear(ListWorkloads()), WorkloadsListed).rows
    return next(row for row in rows if row.workload == workload)


def refuse(queue: Queue, workload: WorkloadId, region: RegionName) -> None:
    """The region refuses the workload for want of capacity."""
    auction = queue.state.auctions.open[workload]
    view = queue.sequence(region_log(region))
    said = Abstention(region, AgentName("a"), workload, auction.auction, Reason.NO_CAPACITY, view, 1_000)
    queue.hear(said)
