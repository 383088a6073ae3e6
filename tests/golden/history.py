"""One valid little history of each log, in which every event occurs: what golden samples are first made of.

The first occurrence of an event is its sample. A new event, or a new field of an old one, is put in here with values that
are not its defaults; `python -m tests.golden.make` then writes the sample that is missing.
"""

from msgspec.structs import replace

from core.estimating.bands import StartEstimate
from core.events.agents import AgentsSet
from core.events.control import (
    AcksExpired,
    AttemptChanged,
    ClaimRevised,
    ControlAnswered,
    ControlForgotten,
    DestructionHalted,
    DomainLost,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
    OperationsStuck,
    ScopeJoined,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.dispatch import DispatchSet
from core.events.functions import FunctionsCounted
from core.events.harvest import HarvestOffered, HarvestRecalled, HarvestReleased
from core.events.log import ClockAccepted, LogOpened
from core.events.moves import MoveBegun, MoveEnded, MovePlanned
from core.events.pipelines import (
    PipelineEnded,
    PipelineSubmitted,
    StagePriority,
    StagesHeld,
    StagesReprioritised,
    SubmittedStage,
)
from core.events.pools import NodesPooled, PoolChanged, PoolingPolicySet, PoolsApplied, PoolsPlanned
from core.events.prices import PricesSet
from core.events.queue import (
    AttemptClosed,
    AwardReturned,
    CancelRequested,
    NotedRefusal,
    PrioritySet,
    RankedBid,
    RefusalsNoted,
    RefusedShape,
    RegionAdded,
    RequeueRequested,
    StandingChanged,
    WorkloadAwarded,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadsForgotten,
    WorkloadSubmitted,
)
from core.events.region import (
    AttemptEnded,
    AttemptRanked,
    AttemptsForgotten,
    AwardDeclined,
    CheckpointCommitted,
    ClaimGranted,
    ClaimPromised,
    GangStarted,
    NodesJoined,
    NodesLost,
    NodesReturned,
    PreemptionSet,
    PromiseRevised,
    StopOrdered,
)
from core.events.regions import RegionAbandoned, RegionReadmitted
from core.events.sharing import PicksAdded, PolicySet, RoundBegun, SharesSet, SpeedMeasured
from core.events.starts import StartPromised, StartPromiseEnded, StartReserved, StartUnreserved
from core.events.tenants import BudgetSet, DeadlineBudgetSet, EntitlementSet, RankingSet, SharesDue, TenantSet
from core.fact import Event
from core.nouns.agents import AgentSettings
from core.nouns.dispatch import DispatchSettings, Target
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.function import FunctionCount
from core.nouns.harvest import HarvestPart, HarvestSettings, HarvestUse, ReleasedPart, Why
from core.nouns.ids import (
    GLOBAL_LOG,
    AgentName,
    ClaimId,
    FunctionId,
    LogName,
    PipelineId,
    RegionName,
    TenantName,
    WorkerName,
    WorkloadId,
    region_log,
)
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import ACK_LEASE, SETTINGS
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.mix import Mix, TypicalShape
from core.nouns.moving import MoveCost
from core.nouns.operation import Ack, Answer, BegunBy, ControlSpec, OperationKind, Outcome, TaskMove
from core.nouns.pipeline import Cause, DailyWindow, Forerunner, NoDeadline
from core.nouns.pipeline import Outcome as PipelineOutcome
from core.nouns.placement import Claim, NodeRow, Shortage, Spread, View
from core.nouns.pool import PoolSettings, Survives
from core.nouns.pooling import (
    MoveReason,
    NodesMove,
    PoolingPolicy,
    PoolsBasis,
    PoolsPlan,
    PoolStanding,
)
from core.nouns.preemption import BidScore, PreemptionSettings, VictimOrder
from core.nouns.prices import Prices
from core.nouns.quantities import Amount
from core.nouns.ranking import CreditSettings, DeadlinePolicy, RankingSettings
from core.nouns.sharing import ClassShares, PoolShares, ShareColumn, ShareSpec, SharingSettings
from core.nouns.solved_from import SolvedFrom
from core.nouns.starts import StartOver
from core.nouns.tenant import Budget, Entitlement, TenantSettings
from core.nouns.workload import (
    Emulation,
    EndCause,
    JobSpec,
    Kind,
    Phase,
    RetryLimits,
    WorkloadSpec,
)
from core.ranking.fair_lag import FairShare
from core.sharing.classes import class_of
from tests.golden.data_history import DATA_HISTORY

EU = RegionName("eu")
EU_LOG = region_log(EU)
LOW, HIGH, WEB, STUCK, MINE, SPARE, URGENT, MOVING, POOLED, PREP, AFTER = (
    WorkloadId(f"w-{number}") for number in range(1, 12)
)
PIPELINE = PipelineId("p-1")
WORKER = WorkerName("w0")
ML = TenantName("ml")

_EMULATION = Emulation(
    work=Nanoseconds(600 * SECOND),
    checkpoint_every=Nanoseconds(60 * SECOND),
    fails_after=Nanoseconds(900 * SECOND),
    exit_code=3,
    stop_span=Nanoseconds(5 * SECOND),
    steps=6_000,
    speeds=(("H100", 10_000_000),),
    model="bert",
    beside=(("bert", 600_000),),
    idle=((Nanoseconds(30 * SECOND), 2), (Nanoseconds(90 * SECOND), 0)),
    keeps_bytes=25 << 30,
)
_JOB = JobSpec("main", 2, Amount(4_000, 8_000, 64 << 30), "H100", _EMULATION)
_SHARE = ShareSpec("bert", {"H100": 10_000_000}, 6_000, 1_500, "nlp", Nanoseconds(7_200 * SECOND))
_CONTROL = ControlSpec("shards", unavailable_max=1, is_strict=True, isolation=Nanoseconds(45 * SECOND))
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
    control=_CONTROL,
    share=_SHARE,
    expected=Nanoseconds(3_000 * SECOND),
    input_size=200_000_000_000,
)
_HALF = replace(_JOB, tasks=1)
"""Of a node's GPUs."""
_NARROW = replace(_SPEC, jobs=(_HALF,))
_SIZED = replace(_NARROW, share=None)
_AT_NIGHT = DailyWindow(Nanoseconds(7_200 * SECOND), Nanoseconds(3_600 * SECOND))
_DUE = Instant(1_767_312_000 * SECOND)
_SHARED = replace(_SPEC, kind=Kind.SHARED)
_COLUMN = ShareColumn(EU, "H100")
_TARGETS = PoolShares(
    1, (_COLUMN,), (16,), (ClassShares(class_of(_SHARED), ((0, 400_000),)),), "highs simplex", 3
)
_GROUP = NodeGroup(
    0, 2, Amount(8_000, 96_000, 1 << 40), "H100", 0, 2, "zone-1", power_domain="power-1", pool="shared"
)
_INVENTORY = Inventory(WORKER, (_GROUP,))
_VIEW = View(
    sequence=1,
    open_bids=(HIGH,),
    open_claims=((HIGH, 1),),
    learnt=(NodeRow(1, Amount(8_000, 96_000, 1 << 40), is_open=True, parts=(500,), is_kept=True),),
    seed="agent.eu.a0",
    settings_revision=1,
    stripe=1,
    stripes=2,
    best=3,
    is_whole=False,
    search=1,
    owners=((1, 3),),
    prices_revision=1,
    barred=(7,),
    is_as_reserved=True,
    spared=((LOW, 1),),
    placing="tier-first",
    partition=5,
)
_GRACE = Nanoseconds(20 * SECOND)
_LENT, _LENT_LESS = Amount(500, 4_000, 1 << 30), Amount(250, 2_000, 1 << 29)
_HARVEST = HarvestSettings(
    is_on=True, grace=_GRACE, keep=2, after=Nanoseconds(SECOND), takes_reserve=True, price=500_000
)
_POOLS_PLAN = PoolsPlan(
    1,
    (NodesMove("training", "shared", ((1, 1),)),),
    (PoolStanding("shared", "H100", 8, 8, 0, 8),),
    21_000,
    20_999,
    48,
    is_bounded=True,
    why=MoveReason.WORK,
    after="c0ffee",
    basis=PoolsBasis(40, 2, "decade", (("shared", "H100"),)),
)
_PRICES = Prices(
    revision=1,
    mix=Mix((TypicalShape(1, 500, 4_000, 1 << 33, ("A100", "H100"), 900_000),)),
    rents=((12_500,), (0,), (0,)),
    scarcity=(("A100", 0), ("H100", 250_000)),
    arrivals=100,
)


def _claim(workload: WorkloadId, award_sequence: int, priority: int, node: int, job: JobSpec = _JOB) -> Claim:
    return Claim(
        claim=ClaimId(f"{workload}.1.a0.1"),
        region=EU,
        agent=AgentName("a0"),
        workload=workload,
        epoch=1,
        award_sequence=award_sequence,
        priority=priority,
        kind=Kind.SERVICE if workload == WEB else Kind.BATCH,
        jobs=(job,),
        spreads=(Spread((node,), (job.tasks,)),),
        view=_VIEW,
        victims={HIGH: ((LOW, 1),), URGENT: ((MINE, 1),)}.get(workload, ()),
        revision=0,
        resume_epoch=0,
        resume_step=0,
        grace=20 * SECOND,
        max_duration=3_600 * SECOND,
        tenant=TenantName("ml"),
        control=_CONTROL,
        spec_revision=0,
        is_healing=True,
        standing_revision=1,
        run_min=600 * SECOND,
        forerunners=(Forerunner("prep", LOW, 1, 60_000, "/shared"),),
    )


_START = StartEstimate(
    span=Nanoseconds(600 * SECOND),
    low=Nanoseconds(300 * SECOND),
    middle=Nanoseconds(660 * SECOND),
    high=Nanoseconds(1_800 * SECOND),
    group="16m",
)

PAUSES: dict[type[Event], int] = {
    AcksExpired: ACK_LEASE,
    OperationsStuck: 900 * SECOND,
    ControlForgotten: 3_600 * SECOND,
}
"""How long nothing happens before each event of this sort; elsewhere a second."""
_COST = MoveCost(Nanoseconds(85 * SECOND), Nanoseconds(40 * SECOND), 85, 5)
_ASKED = Nanoseconds(30 * SECOND)
_REFUSED = NotedRefusal(
    EU,
    "no_capacity",
    Nanoseconds(10 * SECOND),
    12_000,
    4_000,
    Shortage("main", 4, 1, 2, Amount(8_000, 96_000, 1 << 40), Amount(8_000, 96_000, 1 << 40), ("1 task",)),
)
HISTORY: tuple[tuple[LogName, Event], ...] = (
    (GLOBAL_LOG, LogOpened("log-of-the-queue", 1, "fleet", "0.1.0", {"AUCTION_SPAN": SECOND})),
    (GLOBAL_LOG, RegionAdded(EU)),
    (GLOBAL_LOG, WorkloadSubmitted(LOW, 1, _SPEC, "ada", "key-1", _START)),
    (GLOBAL_LOG, WorkloadHeld(LOW, 1, "agent.eu.a0, find-bid: OverflowError", "agent.eu.a0.77.1")),
    (GLOBAL_LOG, WorkloadReleased(LOW, 2)),
    (
        GLOBAL_LOG,
        WorkloadAwarded(
            LOW,
            1,
            EU,
            0,
            (RankedBid(EU, (0, 0, 0, 1, 1, 250)),),
            0,
            0,
            ML,
            4,
            {"H100": 16_000},
            (("H100",),),
            {RegionName("us"): "no_capacity"},
        ),
    ),
    (GLOBAL_LOG, ClockAccepted(1_767_225_600 * SECOND, 2 * 3_600 * SECOND)),
    (EU_LOG, LogOpened("log-of-eu", 1, "fleet", "0.1.0", SETTINGS)),
    (EU_LOG, NodesJoined(WORKER, _INVENTORY)),
    (EU_LOG, ClaimGranted(LOW, 1, _claim(LOW, 6, 1, 0), is_merged=True, spares=((0, _LENT),))),
    (EU_LOG, GangStarted(LOW, 1)),
    (GLOBAL_LOG, WorkloadBound(LOW, 1, EU, 4)),
    (EU_LOG, CheckpointCommitted(LOW, 1, 60_000)),
    # A workload of higher priority is promised what the first one holds, and gives it back.
    (GLOBAL_LOG, WorkloadSubmitted(HIGH, 2, _SPEC, "bob")),
    (GLOBAL_LOG, WorkloadAwarded(HIGH, 1, EU, 0, (RankedBid(EU, (2, 1, 40, 1, 1, 500)),))),
    (EU_LOG, ClaimPromised(HIGH, 1, _claim(HIGH, 9, 5, 0), (32,), SECOND)),
    (EU_LOG, StopOrdered(LOW, 1, EndCause.PREEMPTED, HIGH, "broker.eu")),
    (EU_LOG, AwardDeclined(HIGH, 1, "withdrawn", 9)),
    (GLOBAL_LOG, AwardReturned(HIGH, 1, "withdrawn", EU, 8)),
    (GLOBAL_LOG, WorkloadCancelled(HIGH)),
    # Its node is lost meanwhile, an operator asks for the first one to start again, and then for its end.
    (EU_LOG, NodesLost(WORKER, (0, 1))),
    (GLOBAL_LOG, RequeueRequested(LOW, 1)),
    (GLOBAL_LOG, CancelRequested(LOW)),
    (EU_LOG, AttemptEnded(LOW, 1, EndCause.PREEMPTED, 143, 8_000, (0,), 32)),
    (GLOBAL_LOG, AttemptClosed(LOW, 1, EndCause.PREEMPTED, Phase.CANCELLED, EU, 10, 1, 60_000)),
    (EU_LOG, NodesReturned(WORKER, (0, 1))),
    (EU_LOG, AttemptsForgotten(((LOW, 1), (HIGH, 1)), 14)),
    (GLOBAL_LOG, WorkloadsForgotten((LOW, HIGH))),
    # A service whose tasks are touched one by one, and by whose word: its node is drained, and one of two leaves in time.
    (GLOBAL_LOG, WorkloadSubmitted(WEB, 3, _SPEC, "eve")),
    (GLOBAL_LOG, WorkloadAwarded(WEB, 1, EU, 0, ())),
    (EU_LOG, ClaimGranted(WEB, 1, _claim(WEB, 17, 1, 0), is_merged=False)),
    (EU_LOG, GangStarted(WEB, 1)),
    (
        EU_LOG,
        NodesClosed(
            "d-1",
            ClosureKind.DRAIN,
            ((0, 0),),
            "its fan rattles",
            7_200 * SECOND,
            "olga",
            scope=Scope(ScopeKind.NODE, ("0",)),
            lasts=14_400 * SECOND,
        ),
    ),
    (
        EU_LOG,
        OperationsRequested(
            WEB, 1, 1, OperationKind.MOVE, (0, 1), "its fan rattles", "d-1", 7_200 * SECOND, "operator:olga"
        ),
    ),
    (
        EU_LOG,
        ControlAnswered(WEB, 1, 16, (Ack(1, Answer.MOVE), Ack(2))),
    ),
    (EU_LOG, OperationsBegun(WEB, 1, (1,), BegunBy.ACK, "operator:olga", 1)),
    (EU_LOG, DestructionHalted("rebalancer", 90, 60)),
    (EU_LOG, AcksExpired(WEB, 1, (2,))),
    (EU_LOG, OperationsStuck(WEB, 1, (1,))),
    (EU_LOG, TasksGone(WEB, 1, (0,))),
    (EU_LOG, ClaimRevised(WEB, 1, 1, (TaskMove(0, 0, 1),), ((1, Amount(8_000, 64_000, 1 << 39)),))),
    (EU_LOG, TasksUp(WEB, 1, (0,))),
    (EU_LOG, OperationsDone(WEB, 1, (1,), Outcome.HEALTHY)),
    (EU_LOG, NodesOpened("d-1", ClosureKind.DRAIN, ((0, 0),), "undrained", "olga")),
    (EU_LOG, OperationsDone(WEB, 1, (2,), Outcome.WITHDRAWN)),
    # It is changed, a task fails by itself, work is planned and put off, and the power goes.
    (GLOBAL_LOG, WorkloadChanged(WEB, 1, (_JOB,))),
    (EU_LOG, AttemptChanged(WEB, 1, 1, (_JOB,))),
    (EU_LOG, TasksDown(WEB, 1, (1,), EndCause.TASK_FAILED, 1, True, (0,), 30 * SECOND)),
    (
        EU_LOG,
        MaintenancePlanned(
            "m-1",
            MaintenanceKind.POWER,
            Scope(ScopeKind.RACK, ("0",)),
            ((0, 1),),
            600 * SECOND,
            1_800 * SECOND,
            300 * SECOND,
            "switchboard",
            "olga",
        ),
    ),
    (EU_LOG, MaintenanceMoved("m-1", MaintenancePhase.CANCELLED, "put off")),
    (EU_LOG, DomainLost("power-1", (WORKER,), ((0, 1),))),
    (GLOBAL_LOG, PrioritySet(WEB, 1, 2)),
    (GLOBAL_LOG, StandingChanged(WEB, 1, 2, ML, -1, {"H100": 16_000})),
    (GLOBAL_LOG, CancelRequested(WEB)),
    (EU_LOG, AttemptRanked(WEB, 1, 2, -1)),
    (EU_LOG, AttemptEnded(WEB, 1, EndCause.NODE_LOST)),
    (GLOBAL_LOG, AttemptClosed(WEB, 1, EndCause.NODE_LOST, Phase.CANCELLED, EU, 33)),
    (EU_LOG, NodesReturned(WORKER, (0, 1))),
    (EU_LOG, ControlForgotten(WEB, 1)),
    (EU_LOG, AttemptsForgotten(((WEB, 1),), 22)),
    # A rack is drained, and a node joins it.
    (
        EU_LOG,
        NodesClosed("d-2", ClosureKind.DRAIN, ((0, 0),), "new PDU", scope=Scope(ScopeKind.RACK, ("0",))),
    ),
    (EU_LOG, ScopeJoined("d-2", ClosureKind.DRAIN, ((1, 1),))),
    (EU_LOG, NodesOpened("d-2", ClosureKind.DRAIN, ((0, 1),), "undrained", "olga")),
    (EU_LOG, PreemptionSet(1, PreemptionSettings(VictimOrder.PAPER, BidScore.PAPER, _ASKED, 9, 90), "olga")),
    (
        EU_LOG,
        PoolChanged(
            "shared",
            PoolSettings(
                "plain",
                reserve=1,
                limit=950,
                needs=(("H100", 8),),
                survives=Survives.NOTHING,
                harvest=_HARVEST,
                price=2_000_000,
            ),
            "olga",
        ),
    ),
    (EU_LOG, PoolingPolicySet(PoolingPolicy(is_automatic=False, at_once=250), "olga")),
    (EU_LOG, PoolsPlanned(_POOLS_PLAN, "planner")),
    (
        EU_LOG,
        PoolsPlanned(
            PoolsPlan(_POOLS_PLAN.number, (NodesMove("training", "service", ((0, 0),), 1),)), is_more=True
        ),
    ),
    (EU_LOG, PoolsApplied(1, "olga")),
    (EU_LOG, NodesPooled(((1, 1),), "shared", 1)),
    (
        EU_LOG,
        NodesClosed(
            "drain-7",
            ClosureKind.DRAIN,
            ((0, 0),),
            "pool service needs them",
            lasts=1_800 * SECOND,
            pool="service",
        ),
    ),
    (EU_LOG, NodesOpened("drain-7", ClosureKind.DRAIN, ((0, 0),), "its time is over")),
    (
        EU_LOG,
        AgentsSet(AgentSettings("parsync", "adaptive", 32, Nanoseconds(2 * SECOND), "same", 3, 12), "olga"),
    ),
    (
        EU_LOG,
        FunctionsCounted(
            "r0",
            "18a2f",
            1,
            Nanoseconds(60 * SECOND),
            (
                FunctionCount(
                    FunctionId("ml/score/0123abcd"),
                    *(40, 2, 1, 3, 4),
                    (5, 1, 0),
                    Nanoseconds(9 * SECOND),
                    Nanoseconds(SECOND),
                    *(12, Nanoseconds(4 * SECOND)),
                    *(2, Nanoseconds(3 * SECOND)),
                ),
            ),
        ),
    ),
    (EU_LOG, PricesSet(_PRICES, SolvedFrom(120, 1, 1, 16_000), "planner")),
    (GLOBAL_LOG, WorkloadsForgotten((WEB,))),
    # A tenant is made, and told what it may hold and use.
    (
        GLOBAL_LOG,
        TenantSet(
            ML,
            1,
            TenantSettings(4, Nanoseconds(600 * SECOND), 50_000, HarvestUse(is_on=False, risk_max=1_000)),
            "olga",
        ),
    ),
    (GLOBAL_LOG, EntitlementSet(ML, 2, "H100", Entitlement(64, 16, is_lent=False), "olga", is_forced=True)),
    (GLOBAL_LOG, BudgetSet(ML, 3, Budget(10_000, Nanoseconds(7 * 86_400 * SECOND)), "olga")),
    (GLOBAL_LOG, DeadlineBudgetSet(ML, 4, Budget(2_000, Nanoseconds(86_400 * SECOND)), "olga")),
    (
        GLOBAL_LOG,
        RankingSet(
            1,
            RankingSettings(
                CreditSettings(2),
                counts_borrowed=True,
                deadlines=DeadlinePolicy.EDF,
                pending_max=9_000,
                remembered_max=90_000,
            ),
            "olga",
        ),
    ),
    (GLOBAL_LOG, SharesDue({ML: FairShare(48_000, 64_000)}, ("H100",), is_more=True)),
    # Where data is, is said.
    *DATA_HISTORY,
    # A region is lost, given up and taken back: what stood there goes on elsewhere.
    (GLOBAL_LOG, RegionAbandoned(EU, 1, "olga")),
    (GLOBAL_LOG, RegionReadmitted(EU, 2, "olga")),
    # A start is promised, reserved and displaced; the promise ends, and says why.
    (GLOBAL_LOG, WorkloadSubmitted(STUCK, 4, _SPEC, "ada", "stuck")),
    (
        GLOBAL_LOG,
        RefusalsNoted(
            (
                RefusedShape(
                    "9d2e6c1f0b7a4835", "51c0a7f2e49b6d38", STUCK, (_REFUSED,), "training", ("H100",), 64_000
                ),
            ),
            ("0123456789abcdef",),
        ),
    ),
    (
        GLOBAL_LOG,
        StartPromised(
            STUCK,
            2,
            EU,
            Nanoseconds(95 * SECOND),
            Nanoseconds(80 * SECOND),
            (Spread((0, 1), (1, 1)),),
            4,
            "no_room",
            is_move=True,
        ),
    ),
    (
        EU_LOG,
        StartReserved(
            STUCK, 2, Nanoseconds(80 * SECOND), 4, "training", ML, (_JOB,), (Spread((0, 1), (1, 1)),), 24
        ),
    ),
    (EU_LOG, StartUnreserved(STUCK, 2, StartOver.DISPLACED)),
    (GLOBAL_LOG, StartPromiseEnded(STUCK, 2, StartOver.DISPLACED)),
    (GLOBAL_LOG, WorkloadCancelled(STUCK)),
    (GLOBAL_LOG, WorkloadsForgotten((STUCK,))),
    # Somebody is promised room over one of two workloads, and is offered the other; it is not needed any more.
    (GLOBAL_LOG, WorkloadSubmitted(MINE, 5, _NARROW, "ada")),
    (GLOBAL_LOG, WorkloadAwarded(MINE, 1, EU, 0, ())),
    (EU_LOG, ClaimGranted(MINE, 1, _claim(MINE, 36, 1, 0, _HALF), is_merged=True)),
    (GLOBAL_LOG, WorkloadSubmitted(SPARE, 6, _NARROW, "ada")),
    (GLOBAL_LOG, WorkloadAwarded(SPARE, 1, EU, 0, ())),
    (EU_LOG, ClaimGranted(SPARE, 1, _claim(SPARE, 38, 1, 0, _HALF), is_merged=True)),
    (GLOBAL_LOG, WorkloadSubmitted(URGENT, 7, _NARROW, "bob")),
    (GLOBAL_LOG, WorkloadAwarded(URGENT, 1, EU, 0, ())),
    (EU_LOG, ClaimPromised(URGENT, 1, _claim(URGENT, 40, 5, 0, _HALF), (0,), 60 * SECOND)),
    (EU_LOG, PromiseRevised(URGENT, 1, ((SPARE, 1),), (0,), (MINE, 1))),
    (EU_LOG, AwardDeclined(URGENT, 1, "withdrawn", 40)),
    (GLOBAL_LOG, AwardReturned(URGENT, 1, "withdrawn", EU, 50)),
    (GLOBAL_LOG, WorkloadCancelled(URGENT)),
    (EU_LOG, AttemptEnded(MINE, 1, EndCause.COMPLETED)),
    (GLOBAL_LOG, AttemptClosed(MINE, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 51)),
    (EU_LOG, AttemptEnded(SPARE, 1, EndCause.COMPLETED)),
    (GLOBAL_LOG, AttemptClosed(SPARE, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 52)),
    (EU_LOG, AttemptsForgotten(((MINE, 1), (SPARE, 1), (URGENT, 1)), 44)),
    (GLOBAL_LOG, WorkloadsForgotten((MINE, SPARE, URGENT))),
    # A workload is to move, and stays; its award comes back, and it is cancelled.
    (GLOBAL_LOG, WorkloadSubmitted(MOVING, 5, _SPEC, "ada", "moving")),
    (GLOBAL_LOG, WorkloadAwarded(MOVING, 1, EU, 0, ())),
    (GLOBAL_LOG, MovePlanned(MOVING, 1, 1, EU, _COST, "ada")),
    (GLOBAL_LOG, MoveBegun(MOVING, 1, 1, Nanoseconds(120 * SECOND), EU, 1)),
    (GLOBAL_LOG, MoveEnded(MOVING, 1, StartOver.DISPLACED)),
    (EU_LOG, AwardDeclined(MOVING, 1, "withdrawn", 1)),
    (GLOBAL_LOG, AwardReturned(MOVING, 1, "withdrawn", EU, 1)),
    (GLOBAL_LOG, WorkloadCancelled(MOVING)),
    (EU_LOG, AttemptsForgotten(((MOVING, 1),), 1)),
    (GLOBAL_LOG, WorkloadsForgotten((MOVING,))),
    # A job of a shared pool is picked, and placed anew in the next round.
    (
        GLOBAL_LOG,
        PolicySet(
            SharingSettings("makespan", Nanoseconds(60 * SECOND), 1_000_000, True, {"nlp": 2_000}), 1, "ada"
        ),
    ),
    (GLOBAL_LOG, WorkloadSubmitted(POOLED, 6, _SHARED, "ada", "pooled")),
    (GLOBAL_LOG, SharesSet(_TARGETS, True, "makespan", 1)),
    (
        GLOBAL_LOG,
        DispatchSet(
            DispatchSettings(
                "edf",
                {"query": Target(Nanoseconds(2 * SECOND), Nanoseconds(9 * SECOND))},
                Nanoseconds(1_000_000),
                50,
            ),
            1,
            "olga",
        ),
    ),
    (GLOBAL_LOG, SpeedMeasured("model x8 in 1 of nlp", "H100", 2_500_000)),
    (GLOBAL_LOG, PicksAdded((_COLUMN,), {POOLED: 0})),
    (GLOBAL_LOG, RoundBegun(30_000_000, (_COLUMN,), {POOLED: 0}, (POOLED,), Nanoseconds(10 * SECOND))),
    (GLOBAL_LOG, WorkloadCancelled(POOLED)),
    (GLOBAL_LOG, WorkloadsForgotten((POOLED,))),
    # A pipeline of two stages, the second of which begins at night.
    (GLOBAL_LOG, WorkloadSubmitted(PREP, 7, _SIZED, "ada")),
    (GLOBAL_LOG, WorkloadSubmitted(AFTER, 8, _SIZED, "ada")),
    (
        GLOBAL_LOG,
        PipelineSubmitted(
            PIPELINE,
            1,
            "nightly",
            ML,
            (
                SubmittedStage("prep", PREP, (), None, "/shared", Instant(_DUE - 7_200 * SECOND), False),
                SubmittedStage("train", AFTER, (0,), _AT_NIGHT, "", Instant(_DUE - 3_600 * SECOND), True),
            ),
            "ada",
            "nightly-1",
            _DUE,
            _DUE,
            NoDeadline.NONE,
            False,
            57_600_000,
        ),
    ),
    (GLOBAL_LOG, StagesHeld(PIPELINE, (PREP, AFTER), RegionName(""), (EU,))),
    (GLOBAL_LOG, StagesHeld(PIPELINE, (PREP, AFTER), EU)),
    (GLOBAL_LOG, WorkloadAwarded(PREP, 1, EU, 0, ())),
    (EU_LOG, ClaimGranted(PREP, 1, _claim(PREP, 40, 1, 0, _HALF), is_merged=True)),
    (EU_LOG, GangStarted(PREP, 1)),
    (GLOBAL_LOG, WorkloadBound(PREP, 1, EU, 60)),
    (
        GLOBAL_LOG,
        StagesReprioritised(
            PIPELINE,
            (StagePriority(1, Instant(_DUE - 3_600 * SECOND), Instant(_DUE - 1_800 * SECOND), is_late=True),),
            Cause.BOUND,
            PREP,
        ),
    ),
    (EU_LOG, AttemptEnded(PREP, 1, EndCause.COMPLETED)),
    (GLOBAL_LOG, AttemptClosed(PREP, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 61)),
    (GLOBAL_LOG, WorkloadAwarded(AFTER, 1, EU, 0, ())),
    (EU_LOG, ClaimGranted(AFTER, 1, _claim(AFTER, 44, 1, 0, _HALF), is_merged=True)),
    (EU_LOG, GangStarted(AFTER, 1)),
    (GLOBAL_LOG, WorkloadBound(AFTER, 1, EU, 64)),
    # Functions use what it lends, and give a part of that back. In the samples of older nodes, its node is in another pool.
    *((EU_LOG, PoolChanged(pool, PoolSettings(harvest=_HARVEST))) for pool in ("shared", "training")),
    (EU_LOG, HarvestOffered(1, (HarvestPart(((0, 0),), _LENT, (AFTER, 1), "harvest", 4),), _GRACE)),
    (
        EU_LOG,
        HarvestRecalled(2, (HarvestPart(((0, 0),), _LENT_LESS, (AFTER, 1), "harvest", 5),), Why.WANTED),
    ),
    (EU_LOG, HarvestReleased((ReleasedPart(0, 2, Nanoseconds(SECOND), 1, _GRACE, is_confirmed=False),))),
    (EU_LOG, AttemptEnded(AFTER, 1, EndCause.COMPLETED)),
    (GLOBAL_LOG, AttemptClosed(AFTER, 1, EndCause.COMPLETED, Phase.COMPLETED, EU, 68)),
    (GLOBAL_LOG, PipelineEnded(PIPELINE, PipelineOutcome.LATE, Nanoseconds(60 * SECOND))),
    (EU_LOG, AttemptsForgotten(((PREP, 1), (AFTER, 1)), 90)),
    (GLOBAL_LOG, WorkloadsForgotten((PREP, AFTER))),
)
