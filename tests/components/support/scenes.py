"""One little life of each component, in which it hears everything that it hears and notes everything that it notes."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from components import (
    AllocationAgent,
    Auditor,
    DataService,
    FunctionRouter,
    FunctionServer,
    Harvester,
    JobQueue,
    PlacementStore,
    Planner,
    RegionBroker,
    TaskControl,
    Worker,
)
from components.job_queue.retention import sweep_due
from components.job_queue.state.auctions import SLOW_FACTOR
from components.planner.concerns.shares import ALL_SHARES
from core.events.agents import AgentsSet
from core.events.pools import PoolChanged
from core.events.queue import AttemptClosed, CancelRequested, RegionAdded, WorkloadAwarded
from core.events.region import AttemptEnded, GangStarted, NodesLost, NodesReturned, StopOrdered
from core.events.sharing import SharesSet
from core.events.starts import StartPromised, StartReserved, StartUnreserved
from core.messages.agents import (
    AgentPresent,
    AwardHandedBack,
    BidSettled,
    PresenceWanted,
    RequestHandedBack,
    ShowAgents,
)
from core.messages.auditor import AcknowledgeViolations, ShowAudit, ViolationsKept
from core.messages.base import BusBack, BusLost, LogHeard, LogSilent
from core.messages.broker import ExecuteAward, RankAttempt, SolicitBid, StopAttempt, WithdrawAward
from core.messages.control import PlaceTasks, RevisionAnswered, ShowControllers
from core.messages.data import ListDatasets, SetDataset
from core.messages.dispatch import SetDispatch, ShowDispatchSettings
from core.messages.moves import MoveWorkload
from core.messages.nodes import PlanMaintenance
from core.messages.pipelines import (
    CancelPipeline,
    ListPipelines,
    ShowPipeline,
    SubmitPipeline,
    TestPipeline,
)
from core.messages.planning import ShowConcern
from core.messages.prices import SetPrices
from core.messages.queue import (
    CancelWorkload,
    ChangeWorkload,
    ExplainWorkload,
    HoldUnhandled,
    HoldWorkload,
    ListWorkloads,
    ReleaseWorkload,
    RequeueWorkload,
    SetPriority,
    ShowWorkload,
    SubmitWorkload,
)
from core.messages.regions import AbandonRegion, ListRegions, ReadmitRegion
from core.messages.reserved_starts import ReserveStart
from core.messages.sharing import SetPolicy, SetShares
from core.messages.solving import Solved, Unsolved
from core.messages.starts import ListStarts, TestSubmission
from core.messages.store import RecordCheckpoint, RecordLoss, RecordReturn, RecordStarted
from core.messages.tenants import (
    ListTenants,
    SetBudget,
    SetDeadlineBudget,
    SetEntitlement,
    SetRanking,
    SetTenant,
    ShowRanking,
)
from core.messages.units import ShowUnits
from core.messages.workers import (
    BeatHeard,
    CheckNodes,
    EndRecorded,
    InventoryWanted,
    JoinRefused,
    NodesLooked,
    PrepareTasks,
    StartTasks,
    StopTasks,
    TasksChanged,
    TasksFound,
    TasksPhase,
    WorkerInventory,
)
from core.nouns.agents import AgentSettings, Turn
from core.nouns.dispatch import DispatchSettings
from core.nouns.harvest import LENDS, LentPart
from core.nouns.ids import GLOBAL_LOG, AgentName, DatasetName, TenantName, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import (
    AUCTION_SPAN,
    AUDIT_INTERVAL,
    CLAIM_SAY_AGAIN,
    COMMAND_SAY_AGAIN,
    FORGET_INTERVAL,
    MOVE_ANSWER_HOLDS,
    OPEN_BIDS_RETRY,
    PRESENCE_INTERVAL,
    PRESENCE_SILENCE_MAX,
    PRICES_LOOK,
    PRICES_RETRY,
    PROSPECT_LOOK,
    PROSPECT_RETRY,
    SHARES_LOOK,
    SHIP_BYTES_PER_SECOND,
)
from core.nouns.maintenance import MaintenanceKind, Scope, ScopeKind
from core.nouns.operation import OperationKind, TaskMove
from core.nouns.pipeline import DAY, DailyWindow
from core.nouns.pool import PoolSettings
from core.nouns.quantities import Amount
from core.nouns.ranking import RankingSettings
from core.nouns.reasons import Reason
from core.nouns.sharing import PoolShares, SharingSettings
from core.nouns.solved_from import SolvedFrom
from core.nouns.starts import EarliestStart, StartOver
from core.nouns.tenant import OVER_LEVEL, Budget, Entitlement, TenantSettings
from core.nouns.workload import EndCause, Kind, Phase
from core.sharing.asked import AskedShares
from tests.builders import (
    EU,
    EU_LOG,
    US,
    US_LOG,
    a_claim,
    a_job,
    a_spec,
    a_spread,
    a_status,
    an_inventory,
    attempt,
    granted,
    joined,
    submitted,
)
from tests.components.allocation_agent.test_bids_and_claims import (
    an_agent,
    an_award,
    answer,
    ask,
    claimed,
    conflict,
    full,
    place,
)
from tests.components.support import by_rows as alone
from tests.components.support import data, function_scenes, harvest_scenes, pipelines
from tests.components.support import job_queue as queueing
from tests.components.support import node_health as watching
from tests.components.support import placement_store as storing
from tests.components.support import region_broker as brokering
from tests.components.support import service as serving
from tests.components.support.machine import Machine
from tests.components.support.planner import FIRST, SECOND, Planning, asked, some_prices
from tests.components.support.shared_pool import pool_nodes, shared
from tests.components.support.store_scene import a_service_is_touched, nodes_are_worked_on
from tests.components.support.task_control import Pair, a_service
from tests.components.test_worker import PREPARED, RUNNING, share
from tests.matching import said

Start = Callable[..., Machine[Any]]


def of_the_queue(start: Start) -> Machine[Any]:
    """Submitted, held, auctioned, refused, awarded, bound, changed, requeued, cancelled."""
    machine = queueing.a_job_queue(start)
    for number in (1, 2, 3):
        spec = a_spec(a_job(number), regions=(EU,) if number > 1 else ())
        machine.hear(SubmitWorkload(spec, "ada", f"key-{number}"))
    machine.hear(HoldWorkload(WorkloadId("w-3"), 0))
    machine.hear(ReleaseWorkload(WorkloadId("w-3"), 1))
    machine.hear(HoldUnhandled(WorkloadId("w-3"), "agent.eu.a0", "find-bid", "ValueError", "m-7"))
    machine.hear(ReleaseWorkload(WorkloadId("w-3"), 3))
    machine.hear(LogSilent(US_LOG))
    machine.hear(LogHeard(US_LOG))
    machine.hear(BusLost())
    machine.hear(BusBack())
    opened = machine.wake()
    for number in (1, 2, 3):
        workload = WorkloadId(f"w-{number}")
        auction = queueing.auction_of(opened, workload)
        if number == 1:
            queueing.bid(machine, auction)
        else:
            reason = Reason.OPEN_BIDS if number == 2 else Reason.NO_CAPACITY
            queueing.abstain(machine, auction, workload=workload, reason=reason)
    machine.wait(Nanoseconds(AUCTION_SPAN + OPEN_BIDS_RETRY))
    queueing.running(machine)
    machine.hear(ChangeWorkload(WorkloadId("w-1"), 0, (a_job(2),)))
    machine.wake()
    machine.hear(RequeueWorkload(WorkloadId("w-1"), 1))
    a_region_is_slow(machine)
    machine.hear(ShowWorkload(WorkloadId("w-1")))
    machine.hear(ListWorkloads())
    for name in ("ml", "default"):
        machine.hear(SetTenant(TenantName(name), TenantSettings(), 0))
    machine.hear(SetEntitlement(TenantName("ml"), "H100", Entitlement(8), 1))
    machine.hear(SetBudget(TenantName("ml"), Budget(1_000, seconds(86_400)), 2))
    machine.hear(SetDeadlineBudget(TenantName("ml"), Budget(100, seconds(86_400)), 3))
    machine.hear(ListTenants())
    machine.hear(SetDataset(DatasetName("clicks"), (EU,), None, 0))
    data.say_all_of_data(machine)
    machine.hear(ListDatasets())
    a_workload_moves(machine)
    machine.hear(AbandonRegion(US, 0, is_forced=True))
    machine.hear(ReadmitRegion(US, 1))
    machine.hear(ListRegions())
    machine.hear(SetRanking(RankingSettings(counts_borrowed=True), 0))
    machine.hear(ShowRanking())
    machine.hear(SetDispatch(DispatchSettings("edf"), 0))
    machine.hear(ShowDispatchSettings())
    machine.hear(SetPriority(WorkloadId("w-1"), 0, 1))
    machine.hear(ListStarts())
    machine.hear(TestSubmission(a_spec(), "ada"))
    machine.hear(ExplainWorkload(WorkloadId("w-2")))
    machine.fact(US_LOG, pool_nodes(first=100))
    machine.hear(SubmitWorkload(shared(), "ada", "key-shared"))
    machine.hear(SetPolicy(SharingSettings("max_throughput"), 0))
    machine.hear(SetShares(PoolShares(1), "max_throughput", 1))
    machine.wake()
    (pooled,) = machine.state.image.sharing.picks
    awarded = WorkloadAwarded(pooled, 1, EU, 0, ())
    saved = AttemptClosed(pooled, 1, EndCause.ROUND_OVER, Phase.PENDING, EU, 1, 1, 5)
    machine.fact(GLOBAL_LOG, awarded, saved)
    machine.wake()
    machine.hear(CancelWorkload(WorkloadId("w-1")))
    machine.wake()
    machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.CANCELLED), queueing.ended(EndCause.CANCELLED))
    machine.wait(Nanoseconds(10**9))
    machine.wake(sweep_due(machine.state))
    a_start_is_promised(machine)
    a_pipeline_is_cancelled(machine)
    machine.hear(SetRanking(RankingSettings(is_in_passes=True), 1))
    machine.wake()
    return machine


def a_pipeline_is_cancelled(machine: Machine[Any]) -> None:
    """Two stages, of which the first waits for its window; the pipeline is tested, submitted, shown, listed, and cancelled."""
    window = DailyWindow(Nanoseconds((machine.now + 10**9) % DAY), seconds(60))
    spec = pipelines.a_pipeline(
        pipelines.a_stage("a", begins=window), pipelines.a_stage("b", "a"), within=10**13
    )
    machine.hear(TestPipeline(spec, "ada"))
    machine.hear(SubmitPipeline(spec, "ada", "key-pipeline"))
    machine.wait(seconds(2))
    machine.hear(ShowPipeline(pipelines.P1))
    machine.hear(ListPipelines())
    machine.hear(CancelPipeline(pipelines.P1))
    machine.wake()


def a_region_is_slow(machine: Machine[Any]) -> None:
    """A region answers no request of a cycle, and is asked again later."""
    queueing.refuse_for(machine, Nanoseconds(SLOW_FACTOR * AUCTION_SPAN))
    workload = queueing.submit(machine, a_spec(a_job(1, 1), regions=(US,)), key="slow")
    assert [(workload, US)] == queueing.asked(machine.wake())
    assert (workload, US) in queueing.asked(machine.wait(Nanoseconds((1 + SLOW_FACTOR) * AUCTION_SPAN)))
    queueing.refuse_all(machine)
    machine.hear(HoldWorkload(workload, 0))


def a_workload_moves(machine: Machine[Any]) -> None:
    """It runs in one region: the other has no room, and then has; it stops, its checkpoint arrives, and the room is gone."""
    spec = replace(a_spec(regions=(EU, US)), checkpoint_bytes=SHIP_BYTES_PER_SECOND)
    workload = queueing.submit(machine, spec, key="moves")
    auction = queueing.auction_of(machine.wake(), workload)
    queueing.bid(machine, auction, workload=workload)
    queueing.bid(machine, auction, US, workload=workload, score=(0, 0, 0, 9, 9, 9))
    machine.wake()
    queueing.running(machine, workload=workload)
    machine.hear(MoveWorkload(workload, 1, US, 0))
    machine.hear(MoveWorkload(workload, 1, EU, 0))
    for has_capacity in (False, True):
        (request,) = said(machine.hear(MoveWorkload(workload, 1, US, 0)), SolicitBid)
        if has_capacity:
            queueing.bid(machine, request.auction, US, workload=workload)
        else:
            queueing.abstain(machine, request.auction, US, workload=workload)
            machine.wait(MOVE_ANSWER_HOLDS)
    spread = (a_spread({0: 1}),)
    machine.fact(
        US_LOG, StartReserved(workload, 1, seconds(120), 3, "training", spec.tenant, spec.jobs, spread, 9)
    )
    machine.wake()
    machine.fact(EU_LOG, queueing.ended(EndCause.MOVED, workload=workload))
    machine.wait(seconds(2))
    machine.fact(US_LOG, StartUnreserved(workload, 1, StartOver.NODE_CLOSED))
    machine.wake()
    machine.hear(CancelWorkload(workload))
    machine.wake()


def a_start_is_promised(machine: Machine[Any]) -> None:
    """At first nothing can be promised, and then something can."""
    workload = queueing.submit(machine, a_spec(a_job(2, 8), regions=(EU,)), key="wide")
    prospect = EarliestStart(seconds(60), (a_spread({0: 1, 1: 1}),))
    opened = machine.wake()
    for look in range(2 * PROSPECT_RETRY // PROSPECT_LOOK):
        for auction in [one.auction for one in said(opened, SolicitBid) if one.workload == workload]:
            offer = prospect if look * PROSPECT_LOOK > PROSPECT_RETRY else None
            queueing.abstain(machine, auction, workload=workload, prospect=offer)
        machine.wake()
        opened = machine.wait(PROSPECT_LOOK)
    machine.hear(CancelWorkload(workload))
    machine.wake()


def of_the_store(start: Start) -> Machine[Any]:
    """Nodes that join, are lost and return; claims that are granted, wait and conflict; attempts to their end; tasks touched."""
    machine = storing.a_store(start)
    storing.claim(machine, a_claim("w-9", placed={3: 1}, award_sequence=storing.FIRST))
    storing.award(machine, "w-9")
    machine.wake()
    storing.place(machine)
    machine.hear(RecordStarted(EU, *attempt()))
    machine.hear(RecordCheckpoint(EU, *attempt(), 7))
    machine.hear(RankAttempt(EU, *attempt(), 1, OVER_LEVEL))
    award, view = storing.award(machine, "w-7"), machine.sequence(EU_LOG)
    storing.claim(machine, a_claim("w-7", placed={0: 8}, award_sequence=award, view_sequence=view))
    storing.decline(machine, "w-7", sequence=award)
    storing.stop(machine)
    storing.end(machine)
    storing.end(machine, "w-9")
    storing.close(machine)
    storing.decline(machine, "w-8", sequence=storing.award(machine, "w-8"))
    machine.hear(RecordLoss(EU, WorkerName("w0"), machine.sequence(EU_LOG)))
    machine.hear(RecordReturn(EU, WorkerName("w0"), machine.sequence(EU_LOG)))
    machine.wait(FORGET_INTERVAL)
    machine.hear(SetPrices(EU, some_prices(1), SolvedFrom()))
    a_start_is_reserved(machine)
    nodes_are_worked_on(machine)
    a_service_is_touched(machine)
    harvest_scenes.capacity_is_harvested(machine)
    return machine


def a_start_is_reserved(machine: Machine[Any]) -> None:
    """And given up by its user."""
    owner, spread = WorkloadId("w-20"), a_spread({1: 1})
    span = seconds(1)
    sequence = machine.fact(GLOBAL_LOG, StartPromised(owner, 1, EU, span, span, (spread,), 3))
    tenant = TenantName("default")
    machine.hear(
        ReserveStart(EU, owner, 1, span, 3, Kind.TRAINING, tenant, (a_job(1, 8),), (spread,), sequence)
    )
    machine.fact(GLOBAL_LOG, CancelRequested(owner))
    machine.wake()


def of_the_broker(start: Start) -> Machine[Any]:
    """Agents and workers that come, a gang from its grant to its end, a worker that is lost, a service's task that restarts, an ill node."""
    broker = brokering.a_broker(start)
    machine = broker.machine
    machine.hear(AgentPresent(EU, AgentName("a0")))
    machine.hear(WorkerInventory(EU, WorkerName("w9"), an_inventory("w9", 8, 1)))
    machine.hear(SolicitBid(EU, WorkloadId("w-1"), "1.0", (a_job(),), 3, Kind.TRAINING))
    machine.hear(ExecuteAward(EU, *attempt(), 1, 3, Kind.TRAINING, (a_job(),), AgentName("a0"), ()))
    machine.hear(WithdrawAward(EU, *attempt(), 1, is_overdue=True))
    machine.fact(EU_LOG, granted(brokering.GANG))
    machine.wake()
    for one in (brokering.PREPARED, brokering.RUNNING):
        broker.both(one)
    machine.fact(EU_LOG, GangStarted(*attempt()))
    machine.fact(EU_LOG, PoolChanged("training", PoolSettings(harvest=LENDS)))
    broker.report(brokering.W0, replace(brokering.RUNNING, lends=(LentPart(1, Amount(1_000)),)))
    machine.wake()
    machine.hear(StopAttempt(EU, *attempt(), EndCause.CANCELLED))
    machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.CANCELLED))
    broker.both(brokering.ENDED)
    machine.fact(EU_LOG, AttemptEnded(*attempt(), EndCause.CANCELLED))
    machine.hear(BusLost())
    machine.hear(BusBack())
    machine.wait(PRESENCE_SILENCE_MAX)
    machine.fact(EU_LOG, NodesLost(brokering.W1, (2, 3)))
    broker.beat(brokering.W1)
    machine.fact(EU_LOG, NodesReturned(brokering.W1, (2, 3)))
    serving.restart_a_task(broker)
    watching.fall_ill(broker)
    request = SolicitBid(EU, WorkloadId("w-3"), "3.0", (a_job(),), 3, Kind.TRAINING)
    machine.hear(RequestHandedBack(EU, AgentName("a0"), request))
    award = ExecuteAward(EU, *attempt("w-3"), 1, 3, Kind.TRAINING, (a_job(),), AgentName("a0"), ())
    machine.hear(AwardHandedBack(EU, AgentName("a0"), award))
    machine.hear(ShowAgents(EU))
    return machine


def of_the_agent(start: Start) -> Machine[Any]:
    """Bids that lose, win or grow old, a claim that conflicts, is said again and granted; a task that is to move, and conflicts."""
    machine = an_agent(start)
    machine.hear(PresenceWanted(EU, 7))
    for name in ("w-1", "w-2"):
        ask(machine, a_job(1, 8), workload=name)
    for name, has_won in (("w-1", True), ("w-2", False)):
        machine.hear(BidSettled(EU, AgentName("a0"), WorkloadId(name), f"auction of {name}", has_won))
    first = claimed(place(machine, an_award("w-1", 1, a_job(1, 8), spreads=(a_spread({0: 1}),))))
    again = claimed(conflict(machine, first, granted(a_claim("w-9", placed={0: 8})), rows=(full(0),)))
    machine.wait(Nanoseconds(CLAIM_SAY_AGAIN))
    answer(machine, again, "granted")
    machine.fact(EU_LOG, granted(again))
    ask(machine, a_job(1, 8), workload="w-3")
    machine.wait(PRESENCE_INTERVAL)
    machine.fact(EU_LOG, joined("w1", 2, 2), granted(a_claim("w-7", placed={2: 1}, kind=Kind.SERVICE)))
    machine.hear(PlaceTasks(EU, AgentName("a0"), *attempt("w-7"), 1, (TaskMove(0, 2, -1),)))
    now = machine.sequence(EU_LOG)
    for verdict in ("conflict", "refused"):
        told = RevisionAnswered(EU, AgentName("a0"), *attempt("w-7"), 1, verdict, (full(1),), now)
        machine.hear(told)
        machine.wake()
    _take_in_rows(machine)
    return machine


def _take_in_rows(machine: Machine[Any]) -> None:
    """For a while rows alone: a request that is decided after they were taken in, and one that is handed back; then all facts again."""
    machine.fact(EU_LOG, AgentsSet(alone.FOUR))
    for number in (1, 2):
        alone.ask(machine, a_job(1, 1), workload=f"w-2{number}", turn=alone.turn(number))
    alone.place(machine, alone.award_of("w-23", a_job(1, 16)), alone.turn(3))
    machine.fact(EU_LOG, AgentsSet(AgentSettings()))
    alone.ask(machine, a_job(1, 1), workload="w-24", turn=Turn())


def of_the_worker(start: Start) -> Machine[Any]:
    """A share from its preparation until its end is recorded; nodes that are looked at."""
    machine = start(Worker(EU, an_inventory("w0", 0, 2)))
    worker = WorkerName("w0")
    machine.wake()
    machine.hear(TasksFound((), 3, 1))
    machine.wake()
    machine.hear(InventoryWanted(EU, worker))
    machine.hear(JoinRefused(EU, worker, ("it serves no node",)))
    machine.hear(BeatHeard(EU, worker, 5, machine.state.beat_order, 7))
    machine.hear(PrepareTasks(EU, worker, 10, *attempt(), (a_job(),), (a_spread({0: 1}),)))
    machine.hear(TasksChanged(PREPARED))
    machine.hear(StartTasks(EU, worker, 11, *attempt()))
    machine.hear(TasksChanged(RUNNING))
    machine.hear(StopTasks(EU, worker, 12, *attempt(), grace=5))
    machine.hear(TasksChanged(share(TasksPhase.ENDED)))
    machine.hear(EndRecorded(EU, worker, 13, *attempt()))
    machine.hear(NodesLooked(((1, "a device is gone"),)))
    machine.hear(CheckNodes(EU, worker, (1,)))
    machine.hear(NodesLooked((), (1,)))
    machine.hear(PresenceWanted(EU, 7))
    return machine


def of_the_auditor(start: Start) -> Machine[Any]:
    """Logs that are adopted and followed, with something to find."""
    machine = start(Auditor((EU,)))
    machine.fact(GLOBAL_LOG, RegionAdded(EU), submitted(1), WorkloadAwarded(WorkloadId("w-1"), 1, EU, 0, ()))
    machine.fact(EU_LOG, joined(), granted(a_claim(award_sequence=3)), granted(a_claim(award_sequence=3)))
    machine.wait(AUDIT_INTERVAL)
    machine.hear(ShowAudit())
    machine.hear(ViolationsKept((), 1))
    machine.hear(AcknowledgeViolations(1))
    machine.hear(a_status("worker.eu.w0"))
    machine.hear(ShowUnits())
    return machine


def of_task_control(start: Start) -> Machine[Any]:
    """A restart that is asked for and acknowledged, work that is planned, a word that counts for nothing."""
    pair = Pair(start)
    pair.grant(a_service())
    pair.operate(OperationKind.RESTART, 0, 1)
    pair.ack(1)
    pair.ack(99)
    scope = Scope(ScopeKind.NODE, ("1",))
    span = seconds(60)
    pair.hear(PlanMaintenance(EU, scope, MaintenanceKind.POWER, span, span, span, 0, "switchboard", "olga"))
    pair.control.hear(ShowControllers(EU))
    pair.wait(seconds(30))
    pair.end(EndCause.CANCELLED)
    return pair.control


def of_the_planner(start: Start) -> Machine[Any]:
    """Prices that are solved, said again and recorded; a look at which they are new; a solver that fails, and is not there."""
    planning = Planning(start)
    planning.ask_for(FIRST)
    planning.answer()
    planning.machine.wait(COMMAND_SAY_AGAIN)
    planning.record()
    planning.machine.wait(PRICES_LOOK)
    planning.ask_for(SECOND)
    planning.fail()
    planning.machine.wait(PRICES_RETRY)
    shares_are_solved(planning.machine)
    planning.fail(is_for_good=True)
    return planning.machine


def shares_are_solved(machine: Machine[Any]) -> None:
    """They are told to the queue again and recorded, found to be new at the next look, and the solver fails; the region falls silent."""
    machine.fact(EU_LOG, pool_nodes(first=100))
    machine.fact(GLOBAL_LOG, submitted(77, spec=shared(77)))
    (effect,) = asked(machine, "shares", SHARES_LOOK)
    ask = effect.problem
    assert isinstance(ask, AskedShares)
    shares = PoolShares(ask.revision, ask.columns, ask.gpus, changes=ask.changes)
    machine.hear(Solved("shares", ALL_SHARES, ask.revision, shares))
    machine.wait(COMMAND_SAY_AGAIN)
    machine.hear(ShowConcern("shares"))
    (command,) = machine.state.rows["shares"].by_key[ALL_SHARES].command
    machine.fact(GLOBAL_LOG, SharesSet(command.shares, policy=command.policy, sequence=command.sequence))
    machine.wait(SHARES_LOOK)
    machine.fact(GLOBAL_LOG, submitted(78, spec=shared(78)))
    machine.wait(SHARES_LOOK)
    machine.hear(Unsolved("shares", ALL_SHARES, ask.revision + 1, "it is infeasible"))
    machine.hear(LogSilent(EU_LOG))
    machine.hear(LogHeard(EU_LOG))


SCENES: dict[type, Callable[[Start], Machine[Any]]] = {
    JobQueue: of_the_queue,
    PlacementStore: of_the_store,
    RegionBroker: of_the_broker,
    TaskControl: of_task_control,
    AllocationAgent: of_the_agent,
    Worker: of_the_worker,
    DataService: data.of_the_data_service,
    FunctionServer: function_scenes.of_the_function_server,
    FunctionRouter: function_scenes.of_the_function_router,
    Harvester: harvest_scenes.of_the_harvester,
    Planner: of_the_planner,
    Auditor: of_the_auditor,
}
