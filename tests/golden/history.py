"""One valid little history of each log, in which every event occurs: what golden samples are first made of.

The first occurrence of an event is its sample. A new event, or a new field of an old one, is put in here with values that
are not its defaults; `python -m tests.golden.make` then writes the sample that is missing.
"""

from core.events.log import LogOpened
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    RankedBid,
    RegionAdded,
    RequeueRequested,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadsForgotten,
    WorkloadSubmitted,
)
from core.events.region import (
    AttemptEnded,
    AttemptsForgotten,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    NodesJoined,
    NodesLost,
    NodesReturned,
    StopOrdered,
)
from core.fact import Event
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import (
    GLOBAL_LOG,
    AgentName,
    ClaimId,
    LogName,
    RegionName,
    TenantName,
    WorkerName,
    WorkloadId,
    region_log,
)
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.placement import Claim, NodeRow, Spread, View
from core.nouns.quantities import Amount
from core.nouns.workload import (
    Emulation,
    EndCause,
    JobSpec,
    Kind,
    Phase,
    RetryLimits,
    WorkloadSpec,
)

EU = RegionName("eu")
EU_LOG = region_log(EU)
LOW, HIGH = WorkloadId("w-1"), WorkloadId("w-2")
WORKER = WorkerName("w0")

_EMULATION = Emulation(
    work=Nanoseconds(600 * SECOND),
    checkpoint_every=Nanoseconds(60 * SECOND),
    fails_after=Nanoseconds(900 * SECOND),
    exit_code=3,
    stop_span=Nanoseconds(5 * SECOND),
)
_JOB = JobSpec("main", 2, Amount(4_000, 8_000, 64 << 30), "H100", _EMULATION)
_SPEC = WorkloadSpec(
    name="train",
    jobs=(_JOB,),
    tenant=TenantName("ml"),
    priority=1,
    kind=Kind.BATCH,
    regions=(EU,),
    retry=RetryLimits(task_failed=2, start_failed=3),
    max_duration=Nanoseconds(3_600 * SECOND),
    grace=Nanoseconds(20 * SECOND),
)
_INVENTORY = Inventory(WORKER, (NodeGroup(0, 2, Amount(8_000, 96_000, 1 << 40), "H100", 0, 2, "zone-1"),))
_VIEW = View(
    sequence=1,
    open_bids=(HIGH,),
    open_claims=((HIGH, 1),),
    learnt=(NodeRow(1, Amount(8_000, 96_000, 1 << 40), is_open=True),),
    seed="agent.eu.a0",
)


def _claim(workload: WorkloadId, award_sequence: int, priority: int, node: int) -> Claim:
    return Claim(
        claim=ClaimId(f"{workload}.1.a0.1"),
        region=EU,
        agent=AgentName("a0"),
        workload=workload,
        epoch=1,
        award_sequence=award_sequence,
        priority=priority,
        kind=Kind.BATCH,
        jobs=(_JOB,),
        spreads=(Spread((node,), (2,)),),
        view=_VIEW,
        victims=((LOW, 1),) if workload == HIGH else (),
        revision=0,
        resume_epoch=0,
        resume_step=0,
        grace=20 * SECOND,
        max_duration=3_600 * SECOND,
    )


HISTORY: tuple[tuple[LogName, Event], ...] = (
    (GLOBAL_LOG, LogOpened("log-of-the-queue", 1, "fleet", "0.1.0", {"AUCTION_SPAN": SECOND})),
    (GLOBAL_LOG, RegionAdded(EU)),
    (GLOBAL_LOG, WorkloadSubmitted(LOW, 1, _SPEC, "ada", "key-1")),
    (GLOBAL_LOG, WorkloadHeld(LOW, 1)),
    (GLOBAL_LOG, WorkloadReleased(LOW, 2)),
    (GLOBAL_LOG, WorkloadAwarded(LOW, 1, EU, 0, (RankedBid(EU, (0, 0, 0, 1, 1, 250)),), 0, 0)),
    (EU_LOG, LogOpened("log-of-eu", 1, "fleet", "0.1.0", {})),
    (EU_LOG, NodesJoined(WORKER, _INVENTORY)),
    (EU_LOG, ClaimGranted(LOW, 1, _claim(LOW, 6, 1, 0), is_merged=True)),
    (EU_LOG, GangStarted(LOW, 1)),
    (GLOBAL_LOG, WorkloadBound(LOW, 1, EU, 4)),
    (EU_LOG, CheckpointCommitted(LOW, 1, 60_000)),
    # A workload of higher priority is promised what the first one holds, and gives it back.
    (GLOBAL_LOG, WorkloadSubmitted(HIGH, 2, _SPEC, "bob")),
    (GLOBAL_LOG, WorkloadAwarded(HIGH, 1, EU, 0, (RankedBid(EU, (2, 1, 40, 1, 1, 500)),))),
    (EU_LOG, ClaimPromised(HIGH, 1, _claim(HIGH, 9, 5, 0))),
    (EU_LOG, StopOrdered(LOW, 1, EndCause.PREEMPTED, HIGH)),
    (EU_LOG, AwardDeclined(HIGH, 1, "withdrawn", 9)),
    (GLOBAL_LOG, AwardReturned(HIGH, 1, "withdrawn", EU, 8)),
    (GLOBAL_LOG, WorkloadCancelled(HIGH)),
    # Its node is lost meanwhile, an operator asks for the first one to start again, and then for its end.
    (EU_LOG, NodesLost(WORKER, (0, 1))),
    (GLOBAL_LOG, RequeueRequested(LOW, 1)),
    (GLOBAL_LOG, CancelRequested(LOW)),
    (EU_LOG, AttemptEnded(LOW, 1, EndCause.PREEMPTED, 143, 8_000)),
    (GLOBAL_LOG, AttemptClosed(LOW, 1, EndCause.PREEMPTED, Phase.CANCELLED, EU, 10, 1, 60_000)),
    (EU_LOG, NodesReturned(WORKER, (0, 1))),
    (EU_LOG, AttemptsForgotten(((LOW, 1), (HIGH, 1)), 14)),
    (GLOBAL_LOG, WorkloadsForgotten((LOW, HIGH))),
)
