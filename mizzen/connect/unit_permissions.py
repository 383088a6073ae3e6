"""The least that each unit of a plane must say and hear on the bus, as permissions of its user of the NATS server.

A unit hears its own addresses and the announcements of the logs that it follows. A unit says the messages of its role, limited to its
region; asks the readers of the logs that it follows; and answers requests. Under its own prefix it has its inboxes. Permissions tell
units apart by subject: a worker can never say a keeper's facts or a user's requests, whatever stands in the message. They do not
look into messages: two workers of a region say their reports to the same subject.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from bus.catalogue import (
    ALARM,
    CREWS,
    DISPATCH,
    KEEPER,
    LOG,
    OUTPUT,
    READER,
    STATUS,
    UNIT,
    UNIT_USER,
    dead_letters_of,
    heard_of_functions,
    inbox_of_user,
    pattern_of,
    subjects_said,
)
from bus.port import Address
from bus.server_users import Allowed, Permissions
from core.messages import (
    agents,
    auditor,
    broker,
    control,
    copies,
    data,
    dispatch,
    functions,
    harvest,
    logs,
    moves,
    nodes,
    output,
    pipelines,
    planning,
    pools,
    preemption,
    prices,
    queue,
    regions,
    reserved_starts,
    sharing,
    starts,
    store,
    tenants,
    units,
    workers,
)
from core.messages.base import Message
from core.nouns.ids import GLOBAL_LOG, LogName, region_log
from runtime.wiring import ROLES, Plan, Unit

Types = tuple[type[Message], ...]

KEEPERS_SAY: Types = (logs.FactsTold, logs.HeadTold, logs.AskHead)
"""About their own log. Before a start, and for its health, a keeper asks whether that log is kept."""
FOLLOWERS_SAY: Types = (logs.FetchImage, logs.ReadLog)
"""To the readers of the logs that they follow; a reader, for its health, to itself."""

UNITS_SAY: Types = (units.UnitStatus, queue.HoldUnhandled)
"""Every unit tells its status, and has a workload held whose message it cannot handle."""

SAYS: Mapping[str, Types] = {
    "job_queue": (
        agents.BidSettled,
        broker.ExecuteAward,
        broker.RankAttempt,
        broker.SolicitBid,
        broker.StopAttempt,
        broker.WithdrawAward,
        control.ChangeAttempt,
        dispatch.DispatchTold,
        reserved_starts.ReserveStart,
    ),
    "placement_store": (
        agents.ClaimAnswered,
        control.RevisionAnswered,
        functions.FunctionsRemembered,
        workers.JoinRefused,
    ),
    "region_broker": (
        agents.FindBid,
        agents.PlaceAward,
        agents.PresenceWanted,
        control.PlaceTasks,
        control.RecordTasksDown,
        control.RecordTasksGone,
        control.RecordTasksUp,
        control.ReviseClaim,
        harvest.TaskLends,
        nodes.CloseNodes,
        nodes.OpenNodes,
        nodes.RecordDomainLoss,
        store.DeclineAward,
        store.OrderStop,
        store.RecordCheckpoint,
        store.RecordEnd,
        store.RecordJoin,
        store.RecordLoss,
        store.RecordReturn,
        store.RecordStarted,
        workers.BeatHeard,
        workers.CheckNodes,
        workers.EndRecorded,
        workers.InventoryWanted,
        workers.PrepareTasks,
        workers.StartTasks,
        workers.StopTasks,
    ),
    "task_control": (
        control.BeginOperations,
        control.ExpireAcks,
        control.FinishOperations,
        control.ForgetControl,
        control.MarkStuck,
        control.OperateTasks,
        control.RecordAnswer,
        control.TaskControlRequest,
        nodes.LiftDrain,
        nodes.MoveMaintenance,
    ),
    "allocation_agent": (
        agents.AgentPresent,
        agents.AwardHandedBack,
        agents.RequestHandedBack,
        control.ReviseClaim,
        queue.Abstention,
        queue.Bid,
        store.DeclineAward,
        store.SubmitClaim,
    ),
    "worker": (workers.NodesChecked, workers.WorkerBeat, workers.WorkerInventory, workers.WorkerReport),
    "function_router": (
        functions.CallsAnswered,
        functions.CallsRefused,
        functions.CountFunctions,
        functions.RouterHere,
        functions.RunCalls,
    ),
    "function_server": (
        functions.CallsAnswered,
        functions.CallsKnown,
        functions.CodeWanted,
        functions.ServerReport,
        harvest.ServerSized,
    ),
    "harvester": (
        harvest.HarvestOdds,
        harvest.OfferHarvest,
        harvest.RecallHarvest,
        harvest.ReleaseHarvest,
        harvest.SizeServer,
    ),
    "data_service": (copies.ReportCopy, copies.ReportDrop, copies.ReportHash),
    "planner": (prices.SetPrices, sharing.SetShares, copies.SetDataPlan, pools.SetPoolsPlan),
    "auditor": (auditor.ViolationsFound,),
    "reader": (),
}
"""By role, the messages that its component says."""

OPERATORS_SAY: Types = (
    agents.SetAgents,
    agents.ShowAgents,
    auditor.AcknowledgeViolations,
    auditor.ShowAudit,
    control.OperateTasks,
    control.ShowControllers,
    copies.ListCopies,
    copies.ShowDataPlan,
    data.ListDatasets,
    data.SetDataPolicy,
    data.SetDataset,
    data.SetLink,
    data.SetStorage,
    data.ShowDataSettings,
    dispatch.SetDispatch,
    dispatch.ShowDispatch,
    dispatch.ShowDispatchSettings,
    functions.AskCalls,
    functions.CallFunction,
    functions.CodeSent,
    functions.RoutersWanted,
    functions.ShowFunctions,
    harvest.ShowHarvest,
    logs.AcceptClock,
    logs.FetchImage,
    logs.ReadAbout,
    logs.ReadLog,
    moves.MoveWorkload,
    nodes.CancelMaintenance,
    nodes.DrainNodes,
    nodes.PlanMaintenance,
    nodes.ReleaseNodes,
    nodes.UndrainNodes,
    output.FindOutput,
    output.ReadOutput,
    pools.ApplyPools,
    pools.SetPool,
    pools.SetPoolingPolicy,
    preemption.SetPreemption,
    queue.CancelWorkload,
    queue.ChangeWorkload,
    queue.ExplainWorkload,
    queue.HoldWorkload,
    queue.ListWorkloads,
    queue.ReleaseWorkload,
    queue.RequeueWorkload,
    queue.SetPriority,
    queue.ShowWorkload,
    queue.SubmitWorkload,
    regions.AbandonRegion,
    regions.ListRegions,
    regions.ReadmitRegion,
    sharing.SetPolicy,
    planning.ShowConcern,
    pipelines.CancelPipeline,
    pipelines.ListPipelines,
    pipelines.ShowPipeline,
    pipelines.SubmitPipeline,
    pipelines.TestPipeline,
    starts.ListStarts,
    starts.TestSubmission,
    tenants.ListTenants,
    tenants.SetBudget,
    tenants.SetDeadlineBudget,
    tenants.SetEntitlement,
    tenants.SetRanking,
    tenants.SetTenant,
    tenants.ShowRanking,
    units.ShowUnits,
    units.StatusWanted,
)
"""The requests that commands make for people."""


def user_of(unit: Unit) -> str:
    """Return the name of a unit's user of the server."""
    return f"{UNIT_USER}{unit.name}"


OPERATOR = f"{UNIT_USER}operator"
"""The user of the server for people and their commands."""


def permissions_of(plan: Plan, unit: Unit) -> Permissions:
    """Return what one unit of a plane may say and hear."""
    fleet = plan.fleet
    if unit.role == "reader":
        log = LogName(unit.member)
        says = _about(fleet, FOLLOWERS_SAY, (log,))
        hears = [Address(READER.noun, (log,)), Address(UNIT.noun)]
        return _permissions(fleet, user_of(unit), hears, says, answers=True)
    build = ROLES[unit.role]
    assert build is not None, unit
    component = build(plan, unit)
    hears = [
        Address(component.noun, component.scope),
        Address(UNIT.noun),
        Address(DISPATCH.noun),
        Address(DISPATCH.noun, (component.name,)),
    ]
    if component.noun in CREWS:
        crew = CREWS[component.noun]
        hears.append(Address(crew.noun, component.scope[: len(crew.scope)]))
    if unit.role == "worker":
        hears += [Address(OUTPUT.noun, (unit.region,)), Address(OUTPUT.noun, (unit.region, unit.member))]
    if units.UnitStatus in component.hears:
        hears.append(Address(STATUS.noun))
    followed = [follow.log for follow in component.follows]
    hears += [Address(LOG.noun, (log,)) for log in followed]
    says = _about(fleet, FOLLOWERS_SAY, followed)
    if component.keeps is not None:
        hears.append(Address(KEEPER.noun, (component.keeps,)))
        says += _about(fleet, KEEPERS_SAY, (component.keeps,))
    known = {"region": unit.region} if unit.region else {}
    says += [subjects_said(fleet, kind, known) for kind in SAYS[unit.role]]
    return _permissions(fleet, user_of(unit), hears, says, answers=True)


def permissions_of_operator(plan: Plan) -> Permissions:
    """Return what commands may say for people; they hear announcements of logs, statuses, alarms, answers, and all that callers hear."""
    fleet = plan.fleet
    logs_ = [GLOBAL_LOG, *(region_log(region) for region in plan.region_names())]
    says: list[str] = []
    for kind in OPERATORS_SAY:
        says += (
            _about(fleet, (kind,), logs_)
            if "log" in kind.__struct_fields__
            else [subjects_said(fleet, kind, {})]
        )
    hears = [Address(ALARM.noun), Address(STATUS.noun), *(Address(LOG.noun, (log,)) for log in logs_)]
    found = _permissions(fleet, OPERATOR, hears, says, answers=False)
    heard = Allowed((*heard_of_functions(fleet, ""), *found.subscribe.allow))
    return replace(found, subscribe=heard)


def _about(fleet: str, kinds: Types, about: Iterable[LogName]) -> list[str]:
    return [subjects_said(fleet, kind, {"log": log}) for log in about for kind in kinds]


def _permissions(
    fleet: str, user: str, hears: Iterable[Address], says: Iterable[str], *, answers: bool
) -> Permissions:
    """Return them, with the inboxes of the user, and dead letters, which every hearer may have to pass on."""
    inboxes = f"{inbox_of_user(user)}.>"
    if user != OPERATOR:
        says = [*says, *(subjects_said(fleet, kind, {}) for kind in UNITS_SAY)]
    said = (*sorted(set(says)), dead_letters_of(fleet), inboxes)
    heard = (*sorted({pattern_of(fleet, address) for address in hears}), inboxes)
    return Permissions(Allowed(said), Allowed(heard), allow_responses=answers)
